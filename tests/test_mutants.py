"""`tools/mutants`, over a tiny module whose tests miss one mistake that is known."""

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from tools.mutants.operators import mutate
from tools.mutants.table import MODULES

from tests.conftest import ROOT

LIMITS = '''\
"""Says who may come in."""

import logging

log = logging.getLogger(__name__)


def admit(age: int, name: str) -> str:
    """Their name; raises for who is too young."""
    if age < 18:
        log.warning("%s is %d", name, 17 + 1)
        raise ValueError(f"not before {17 + 1}")
    return name


def leave(name: str) -> bool:
    return name == "nobody's test"
'''
TESTS = """\
import pytest
from limits import admit


def test_the_young_stay_outside():
    with pytest.raises(ValueError):
        admit(3, "Ada")


def test_the_old_come_in():
    assert admit(30, "Ada") == "Ada"
"""


def test_the_known_survivor_is_named_and_nothing_else_and_the_tree_stays_as_it_is(tmp_path: Path) -> None:
    for name, text in {"src/limits.py": LIMITS, "tests/test_limits.py": TESTS, "pyproject.toml": ""}.items():
        file = tmp_path / "project" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    before = sorted((tmp_path / "project").rglob("*"))
    done = subprocess.run(
        # Seed 2 draws the mistake that no test notices: nobody here is exactly 18.
        [sys.executable, "-m", "tools.mutants", "src/limits.py:tests", "--root", tmp_path / "project", "--seed", "2"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line for line in lines if line.startswith("survived ")] == [
        "survived src/limits.py:10: comparison moved by one: age < 18 → age <= 18"
    ]
    assert lines[-1] == "killed 67 %: 2 of 3 mutants in 1 modules that decide (seed 2)"
    assert re.search(r"^src/limits +3 +2 +10 +2 of \d+$", done.stdout, re.MULTILINE), "no test executes `leave`"
    assert sorted((tmp_path / "project").rglob("*")) == before
    assert (tmp_path / "project" / "src" / "limits.py").read_text() == LIMITS


def test_the_table_names_modules_and_tests_that_are_there() -> None:
    planned = {"party", "consent"}
    assert [module.name for module in MODULES if not (ROOT / module.path).exists() and module.name not in planned] == []
    assert [tests for module in MODULES for tests in module.tests if not (ROOT / tests).exists()] == []


@pytest.mark.parametrize(
    ("statement", "changed"),
    [
        ("if a and not b: c = d", {"condition negated", "and/or", "operand dropped: a", "operand dropped: not b"}),
        ("x = [a for a in b if c]", {"filter dropped"}),
        ("x = a == b", {"comparison swapped: a != b"}),
        ("x = a < b", {"comparison swapped: a >= b", "comparison reversed: a > b", "comparison moved by one: a <= b"}),
        ("x = 2", {"constant changed: 3"}),
        ("x = a - b", {"+/-: a + b"}),
        ("x = (a, b)", {"element dropped: (a,)", "element dropped: (b,)"}),
        ("await a()", {"call dropped: nothing"}),
        ("return a", {"return None: return None"}),
        ("try: a = b\nexcept C: raise", {"except dropped", "raise dropped: nothing"}),
        ("try: a = b\nfinally: c = d", {"finally dropped"}),
        ("log.info('x', 5)", set[str]()),
        ("raise A(f'{1 + 1}', hint=b(2))", {"raise dropped: nothing"}),
        ("x: Literal[1, 2] = a(hint=3)", set[str]()),
        ("'words of 1 line'", set[str]()),
        ("return None", set[str]()),
    ],
)
def test_each_operator_makes_its_mistake_and_words_are_left_alone(statement: str, changed: set[str]) -> None:
    body = textwrap.indent(statement, "    ")
    found = {f"{mutant.operator}: {mutant.after}" for mutant in mutate(f"async def work():\n{body}\n")}
    assert {one if one in changed else one.partition(":")[0] for one in found} == changed
