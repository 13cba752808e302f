"""The documentation as data: its code blocks, and the commands in them."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"
README = ROOT / "README.md"

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Step:
    """A command of a transcript, and the lines that it is said to print; `…` stands for anything."""

    command: list[str]
    lines: list[str]

    def missing_from(self, output: str) -> str | None:
        """The first promised line that does not follow the one before it in `output`, spaces aside."""
        whole = "".join(output.split())
        at = 0
        for line in self.lines:
            pattern = ".*?".join(re.escape("".join(part.split())) for part in line.split("…"))
            found = re.search(pattern, whole[at:])
            if found is None:
                return line
            at += found.end()
        return None


def blocks(page: Path, language: str) -> list[str]:
    return [body for kind, body in _BLOCK.findall(page.read_text("utf-8")) if kind == language]


def headings(page: Path, level: int) -> list[str]:
    return re.findall(rf"^{'#' * level} (.+)$", page.read_text("utf-8"), re.MULTILINE)


def transcript(page: Path) -> list[Step]:
    """The `$` lines of the page's console blocks, in order."""
    steps: list[Step] = []
    for body in blocks(page, "console"):
        for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
            command, *lines = part.splitlines()
            steps.append(Step(shlex.split(command), [line for line in lines if line.strip()]))
    return steps


def shell_commands(page: Path) -> Iterator[list[str]]:
    """Every `wicket …` line of the page's shell blocks, comments left out."""
    for body in blocks(page, "sh"):
        for line in body.splitlines():
            words = shlex.split(line, comments=True)
            if words and words[0] == "wicket":
                yield words[1:]
