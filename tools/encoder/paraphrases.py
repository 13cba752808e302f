"""The requests that we wrote for public tools, read for training.

A file names a server after `@`; each line below is a tool: its name, what it does in our words, and requests that avoid
those words, or, after `=`, use them. A request that begins with a language's code and a colon is in that language. A
line after `!` has requests that none of the server's tools serves.
"""

import random
import re
from dataclasses import dataclass
from pathlib import Path

_PLAIN = "= "
_CODE = re.compile(r"^(de|fr|es|zh|ja): *")
_WORDS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
PADDING = (
    "Returns a list of results as JSON.", "Returns the updated object.", "Use this tool when the user asks for it.",
    "Requires a valid API token.", "Args: id: the identifier (required).", "Supports pagination with limit and cursor.",
    "Do not use this for large inputs.", "Returns an error message if it fails.", "The name must be unique.",
    "Prefer this over the generic request tool.", "Optional filters can narrow the results.",
    "This is a read-only operation.",
    "This action cannot be undone.", 'Example: {"id": "abc123"}.', "Parameters: name (string), options (object).",
    "Only administrators can do this.", "Dates are in ISO 8601 format.", "Returns: dictionary with status and data.",
    "Call the list tool first to obtain the identifier.", "By default the first 50 entries are returned.",
    "Use when you need details of a single item.", "All parameters are optional unless stated otherwise.",
    "Returns the identifier of the new object.", "The result is paginated.",
    "Accepts a path relative to the workspace.",
    "If no region is given, the default region is used.", "IMPORTANT: confirm with the user before calling this.",
    "Works for both personal and shared accounts.", "Returns plain text or Markdown.", "Values are case-sensitive.",
)  # fmt: skip


@dataclass(frozen=True)
class WrittenTool:
    server: str
    name: str
    about: str
    english: tuple[str, ...]
    foreign: tuple[tuple[str, str], ...]
    has_plain: bool = False
    """Whether some of the requests are in the tool's own words."""

    @property
    def bare(self) -> str:
        return f"{split(self.server)}: {split(self.name)}."

    @property
    def text(self) -> str:
        return f"{self.bare} {self.about}"

    @property
    def padded(self) -> str:
        """As real tools are described: with sentences about arguments, results and when to use it."""
        chance = random.Random(f"{self.server} {self.name}")
        return f"{self.text}. {' '.join(chance.sample(PADDING, chance.randint(1, 4)))}"


def split(name: str) -> str:
    return " ".join(word.lower() for word in _WORDS.findall(name))


def load(paths: list[Path]) -> list[WrittenTool]:
    tools: list[WrittenTool] = []
    for path in sorted(paths):
        server = ""
        for line in path.read_text("utf-8").splitlines():
            if line.startswith("@"):
                server = line[1:].strip()
            elif line.strip() and not line.startswith("!"):
                head, *requests = [part.strip() for part in line.split(" | ")]
                name, _, about = head.partition(";")
                english = tuple(text.removeprefix(_PLAIN) for text in requests if not _CODE.match(text))
                foreign = tuple((found[1], text[found.end() :]) for text in requests if (found := _CODE.match(text)))
                has_plain = any(text.startswith(_PLAIN) for text in requests)
                tools.append(WrittenTool(server, name.strip(), about.strip(), english, foreign, has_plain))
    return tools


def unserved(paths: list[Path]) -> dict[str, tuple[str, ...]]:
    """Requests that none of a server's tools serves; not of servers of which several files have tools."""
    found: dict[str, list[str]] = {}
    files: dict[str, set[Path]] = {}
    for path in sorted(paths):
        server = ""
        for line in path.read_text("utf-8").splitlines():
            if line.startswith("@"):
                server = line[1:].strip()
                files.setdefault(server, set()).add(path)
            elif line.startswith("!"):
                requests = (_CODE.sub("", text.strip()) for text in line[1:].split(" | "))
                found.setdefault(server, []).extend(filter(None, requests))
    return {server: tuple(requests) for server, requests in found.items() if len(files[server]) == 1}


def groups(tools: list[WrittenTool]) -> list[list[WrittenTool]]:
    """The tools of each server."""
    found: dict[str, list[WrittenTool]] = {}
    for tool in tools:
        found.setdefault(tool.server, []).append(tool)
    return list(found.values())
