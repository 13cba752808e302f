"""An agent without a model: it knows what it wants and reads what Wicket prints, and nothing else.

It finds tools with the words of its errand, takes the first one that is shown whose required parameters it has values
for, and fills in those. No name of a tool, no server and no shape of a result is known to it beforehand. Counts calls,
errors, and the tokens (o200k) that it wrote and read.
"""

import json
import re
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from mcp import Client

TOKENIZER: Any = import_module("rs_bpe").openai.o200k_base()
_SIGNATURE = re.compile(r"(?P<name>[\w.-]+)\((?P<parameters>.*?)\)(?: -> (?P<output>.*?))?(?: - (?P<about>.*))?")
_REFERENCE = re.compile(r'{"\$result": "([^"]+)"')


def tokens(text: str) -> int:
    return TOKENIZER.count(text)


@dataclass(frozen=True)
class Shown:
    """A tool as a line of `find_tools` shows it."""

    name: str
    required: tuple[str, ...]
    optional: tuple[str, ...]
    output: str = ""
    about: str = ""

    @property
    def identifier(self) -> str:
        """Its name as `run_script` says that it is written."""
        return re.sub(r"[^\w.]", "_", self.name)

    def text(self, arguments: str) -> str:
        """A script's expression for the text that it gives, by the type that is shown."""
        call = f"(await {self.identifier}({arguments}))"
        return f"{call}['content']" if "content: string" in self.output else call


@dataclass
class Spent:
    """What a task took."""

    calls: int = 0
    errors: int = 0
    written: int = 0
    read: int = 0
    searches: int = 0
    first_hits: int = 0
    """Searches whose first line was the tool that was taken."""
    said: list[str] = field(default_factory=list[str])
    """What was read, for whoever looks into a failure."""


class Agent:
    """Carries out errands through a client's session."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.spent = Spent()

    async def do(self, tool: str, **arguments: Any) -> str:
        """One call of a tool of Wicket's own menu, and what it says."""
        result = await self._client.call_tool(tool, arguments)
        text = "\n".join(getattr(block, "text", "") for block in result.content)
        spent = self.spent
        spent.calls += 1
        spent.errors += bool(result.is_error)
        spent.written += tokens(json.dumps({"name": tool, "arguments": arguments}))
        spent.read += tokens(text)
        spent.said.append(f"{tool} {arguments}\n{text}")
        return text

    async def find(self, errand: str, **known: Any) -> Shown:
        """The first tool shown for an errand that can be called with what is known.

        Where none is shown, the tools of the server that comes first are looked through. Raises LookupError.
        """
        asked: dict[str, Any] = {"query": errand}
        self.spent.searches += 1
        for attempt in range(2):
            shown = read_signatures(await self.do("find_tools", **asked))
            for place, tool in enumerate(shown):
                if set(tool.required) <= set(known) <= set(_names(tool)):
                    self.spent.first_hits += attempt == place == 0
                    return tool
            asked = {"server": shown[0].name.partition(".")[0]} if shown else asked
        self.spent.errors += 1
        raise LookupError(f"nothing for {errand!r} with {sorted(known)}")

    async def call(self, tool: Shown, **arguments: Any) -> str:
        return await self.do("call_tool", name=tool.name, arguments=arguments)

    async def use(self, errand: str, **arguments: Any) -> str:
        """Find a tool for an errand and call it."""
        return await self.call(await self.find(errand, **arguments), **arguments)

    async def run(self, code: str) -> str:
        return await self.do("run_script", code=code)


def _names(tool: Shown) -> tuple[str, ...]:
    return (*tool.required, *tool.optional)


def read_signatures(answer: str) -> list[Shown]:
    return [tool for line in answer.splitlines() if (tool := read_signature(line))]


def read_signature(line: str) -> Shown | None:
    """The tool that a line shows, as far as it shows one."""
    match = _SIGNATURE.fullmatch(line)
    if match is None:
        return None
    names = [part.partition(":")[0].strip() for part in _split(match["parameters"])]
    required = tuple(name for name in names if name and not name.endswith("?") and name != "…")
    optional = tuple(name[:-1] for name in names if name.endswith("?"))
    return Shown(match["name"], required, optional, match["output"] or "", match["about"] or "")


def handle_in(text: str) -> str:
    """The handle of a stored result that a text names. Raises ValueError."""
    match = _REFERENCE.search(text)
    if match is None:
        raise ValueError(f"no handle in: {text[:400]}")
    return match[1]


def _split(parameters: str) -> list[str]:
    """The parameters between the commas that stand outside all brackets and quotes."""
    parts, depth, quoted = [""], 0, False
    for letter in parameters:
        quoted ^= letter == '"'
        depth += 0 if quoted else (letter in "([{<") - (letter in ")]}>")
        if letter == "," and not depth and not quoted:
            parts.append("")
        else:
            parts[-1] += letter
    return parts
