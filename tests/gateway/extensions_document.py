"""The matrix of extensions in docs/extensions.md, made of the tests: each that `shows` something is a line of it.

python -m tests.gateway.extensions_document      writes the page
"""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
FILE = ROOT / "docs" / "extensions.md"
FOLDERS = ("gateway", "cluster", "workers", "real", "conformance", "registry")
ORDER = ("any", "ui", "tasks", "skills", "groups", "tool-resolution", "server cards")
BEGIN, END = "<!-- matrix: begin -->\n", "<!-- matrix: end -->\n"


def shows(extension: str, what: str, *, clients: str, servers: str) -> pytest.MarkDecorator:
    """Marks a test that shows what Wicket does of an extension, between clients and servers of these kinds."""
    return pytest.mark.shows(Row(extension, what, clients, servers))


class Row(NamedTuple):
    extension: str
    what: str
    clients: str
    servers: str
    test: str = ""


def rows() -> list[Row]:
    """What the tests show, by extension, and in the order of their files."""
    return sorted(_shown(), key=lambda row: ORDER.index(row.extension))


def _shown() -> Iterator[Row]:
    for folder in FOLDERS:
        for path in sorted((ROOT / "tests" / folder).glob("test_*.py")):
            if "shows(" not in path.read_text("utf-8"):
                continue
            module = import_module(f"tests.{folder}.{path.stem}")
            for name, test in vars(module).items():
                marks: Any = getattr(test, "pytestmark", ()) if callable(test) else ()
                for mark in marks:
                    if mark.name == "shows":
                        yield mark.args[0]._replace(test=name)


def matrix() -> str:
    head = "| extension | what | clients | servers | shown by |\n| --- | --- | --- | --- | --- |\n"
    return head + "".join(
        f"| {row.extension} | {row.what} | {row.clients} | {row.servers} | `{row.test}` |\n" for row in rows()
    )


def page(text: str) -> str:
    """`text` with the matrix of the tests."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{matrix()}{END}{after}"


if __name__ == "__main__":
    FILE.write_text(page(FILE.read_text("utf-8")), "utf-8")
