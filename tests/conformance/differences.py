"""What is known to differ between a server and the same server behind Wicket, and why.

`differences.toml` is the one place where it is written down; tests and the document read it through here.
"""

import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from tests.conformance.report import Report
from tests.conformance.suite import Revision, Role

FILE = Path(__file__).with_name("differences.toml")
Scores: TypeAlias = dict[Role | Literal["auth"], dict[Revision, dict[str, str]]]


@dataclass(frozen=True, order=True)
class Difference:
    """A check of which the suite says one thing directly and another through Wicket."""

    role: Role
    revision: Revision
    way: str
    check: str
    direct: str
    wicket: str

    def __str__(self) -> str:
        fields = ("role", "revision", "check", "direct", "wicket")
        told = [f'{name} = "{getattr(self, name)}"' for name in fields]
        return "\n".join(["[[difference]]", *told[:2], f'ways = ["{self.way}"]', *told[2:], 'reason = ""'])


@dataclass(frozen=True)
class Entry:
    """An entry of the file: one difference, over one or more ways, and its reason."""

    role: Role
    revision: Revision
    ways: list[str]
    check: str
    direct: str
    wicket: str
    reason: str

    def each(self) -> Iterator[Difference]:
        for way in self.ways:
            yield Difference(self.role, self.revision, way, self.check, self.direct, self.wicket)


@dataclass(frozen=True)
class Known:
    """The whole file."""

    suite: str
    scores: Scores
    authorization: dict[str, str]
    """The checks of each scenario for authorization servers that ours passes."""
    difference: tuple[Entry, ...] = ()

    def of(self, role: Role, revision: Revision, way: str) -> set[Difference]:
        wanted = (role, revision, way)
        every = (one for entry in self.difference for one in entry.each())
        return {one for one in every if (one.role, one.revision, one.way) == wanted}


def known() -> Known:
    return msgspec.convert(tomllib.loads(FILE.read_text()), Known)


def compare(role: Role, revision: Revision, way: str, direct: Report, through: Report) -> set[Difference]:
    """The checks that pass on one side only, and those that fail only through Wicket.

    One that is made only through Wicket and passes is no difference: Wicket asks some servers for more than its
    client did.
    """
    lost = direct.passing - through.passing
    gained = {check for check in through.passing - direct.passing if direct.find(check)}
    differing = lost | gained | (through.failing - direct.failing)
    return {
        Difference(role, revision, way, check, _status(direct, check), _status(through, check)) for check in differing
    }


def _status(report: Report, check: str) -> str:
    found = report.find(check)
    return found.status if found else "absent"


def told(title: str, differences: Iterable[Difference]) -> str:
    """The differences as entries of the file."""
    entries = [str(one) for one in sorted(differences)]
    return "\n\n".join([title, *entries]) if entries else ""
