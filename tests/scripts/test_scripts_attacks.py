"""Every hostile script ends with a typed outcome, within its limits, and leaves the gateway as it was."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from scripts_world import run

from wicket_mcp.config.model.scripts import Limits
from wicket_mcp.scripts import Outcome, Scripts
from wicket_mcp.scripts.limits import MIB

ATTACKS = Path(__file__).parents[1] / "data" / "attacks"
LIMITS = Limits(cpu=0.2, source=1 * MIB)
FOLDERS = {"lua": "lua", "js": "javascript", "py": "python"}
AT_ONCE = 4


async def ends(scripts: Scripts, language: str, source: str, turn: asyncio.Semaphore) -> Outcome:
    async with turn:
        return await run(scripts, language, source, limits=LIMITS)


def hostile(folder: str) -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in sorted((ATTACKS / folder).iterdir())}


def escaped(value: Any) -> bool:
    return isinstance(value, dict) and value.get("escaped") is True  # pyright: ignore[reportUnknownMemberType]


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.promise("T25", "Hostile scripts end in time and within their memory.")
async def test_t25_hostile_scripts_end_in_time_and_within_memory(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    scripts = Scripts(LIMITS)
    attacks = hostile(folder)
    turn = asyncio.Semaphore(AT_ONCE)
    outcomes = await asyncio.gather(*(ends(scripts, FOLDERS[folder], source, turn) for source in attacks.values()))
    by_name = dict(zip(attacks, outcomes, strict=True))
    after = await run(scripts, FOLDERS[folder], "return 1" if folder != "py" else "1")
    peak = scripts.peak_memory
    await scripts.close()

    assert len(by_name) >= 30
    assert {name: o for name, o in by_name.items() if escaped(o.value)} == {}
    assert [name for name, o in by_name.items() if o.problem and o.problem.kind == "wall"] == []
    assert peak <= LIMITS.memory + 64 * MIB
    assert [*tmp_path.iterdir()] == []
    assert after.value == 1
