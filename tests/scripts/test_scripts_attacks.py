"""Every hostile script ends with a typed outcome, within its limits, and leaves the gateway as it was."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from scripts_world import run
from wicket.scripts import Limits, Outcome, Scripts
from wicket.scripts.limits import MIB

ATTACKS = Path(__file__).parents[1] / "data" / "attacks"
LIMITS = Limits(cpu=0.2, wall=10.0, source=1 * MIB)
FOLDERS = {"lua": "lua", "js": "javascript", "py": "python"}
AT_ONCE = 4


async def ends(scripts: Scripts, attack: Path, turn: asyncio.Semaphore) -> Outcome:
    async with turn:
        return await run(scripts, FOLDERS[attack.parent.name], attack.read_text(), limits=LIMITS)


def escaped(value: Any) -> bool:
    return isinstance(value, dict) and value.get("escaped") is True  # pyright: ignore[reportUnknownMemberType]


@pytest.mark.parametrize("folder", FOLDERS)
async def test_hostile_scripts_end_in_time_and_within_memory(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    scripts = Scripts(LIMITS)
    attacks = sorted((ATTACKS / folder).iterdir())
    turn = asyncio.Semaphore(AT_ONCE)
    outcomes = await asyncio.gather(*(ends(scripts, attack, turn) for attack in attacks))
    by_name = {attack.name: outcome for attack, outcome in zip(attacks, outcomes, strict=True)}
    after = await run(scripts, FOLDERS[folder], "return 1" if folder != "py" else "1")
    peak = scripts.peak_memory
    await scripts.close()

    assert len(by_name) >= 30
    assert {name: o for name, o in by_name.items() if escaped(o.value)} == {}
    assert {name: o for name, o in by_name.items() if o.problem and o.problem.kind == "wall"} == {}
    assert peak <= LIMITS.memory + 64 * MIB
    assert os.listdir(tmp_path) == []
    assert after.value == 1
