"""Handles of results in a gateway: they outlive a restart and are its principal's, and the keys are one file."""

import asyncio
import gc
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import OpenGateway, peer
from wicket_mcp.app import Gateway
from wicket_mcp.config.model.config import ResultsConfig
from wicket_mcp.errors import UnknownResult
from wicket_mcp.identity.key_file import SEALING_KEYS, new_key, sealing_keys
from wicket_mcp.model import LOCAL, Principal, Silent
from wicket_mcp.request import tool_call
from wicket_mcp.results.handles import Handles
from wicket_mcp.results.results import Results, _Decoded  # pyright: ignore[reportPrivateUsage]
from wicket_mcp.results.storage import ResultStorage
from wicket_mcp.sealing import Ring
from wicket_mcp.store.clock import steady_time
from wicket_mcp.store.model import StoredResult

SERVERS = {"echo": peer("Echo")}
MAKE_KEYS = """
import pathlib, sys
from wicket_mcp.identity.key_file import sealing_keys
print(sealing_keys(pathlib.Path(sys.argv[1]))[0].hex())
"""


async def make(gateway: Gateway) -> str:
    body = (await gateway.verbs.call(tool_call("echo.big", {"rows": 3000}, Silent()))).body
    return body["_meta"]["wicket/result"]["id"]


async def last_row(gateway: Gateway, handle: str) -> str:
    return (await gateway.verbs.read(handle, LOCAL, path="items[2999].name")).text


async def test_a_handle_outlives_a_restart_and_is_known_to_every_gateway_over_the_state(
    open_gateway: OpenGateway,
) -> None:
    async with open_gateway(SERVERS) as gateway:
        handle = await make(gateway)
    async with open_gateway(SERVERS) as gateway, open_gateway(SERVERS) as beside:
        assert await last_row(gateway, handle) == "row 2999"
        assert await last_row(beside, await make(gateway)) == "row 2999"
        assert await last_row(gateway, await make(beside)) == "row 2999"


async def test_the_memory_of_a_large_result_that_was_read_is_given_back(
    open_gateway: OpenGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mutant at results/results.py: the latest result stays decoded for reads that follow soon, and no longer."""
    monkeypatch.setattr("wicket_mcp.results.results.KEPT", 0.01)
    async with open_gateway(SERVERS) as gateway, asyncio.timeout(30):
        for _ in range(2):  # also after the first was let go
            assert await last_row(gateway, await make(gateway)) == "row 2999"
            while any(isinstance(thing, _Decoded) for thing in gc.get_objects()):
                await asyncio.to_thread(gc.collect)


async def test_keys_are_changed_in_their_file(open_gateway: OpenGateway, state: Path) -> None:
    async with open_gateway(SERVERS) as gateway:
        handle = await make(gateway)
    (old,) = sealing_keys(state)
    path = state / SEALING_KEYS
    assert path.stat().st_mode & 0o777 == 0o600
    made = await asyncio.to_thread(subprocess.check_output, ["openssl", "rand", "-base64", "32"], text=True)
    path.write_text(made + path.read_text())
    assert sealing_keys(state)[1:] == [old]
    async with open_gateway(SERVERS) as gateway:
        assert await last_row(gateway, handle) == "row 2999"
        later = await make(gateway)
    path.write_text(made)
    async with open_gateway(SERVERS) as gateway:
        assert await last_row(gateway, later) == "row 2999"
        with pytest.raises(UnknownResult, match="no stored result"):
            await last_row(gateway, handle)


async def test_keys_that_cannot_be_kept_are_temporary(
    open_gateway: OpenGateway, state: Path, caplog: pytest.LogCaptureFixture
) -> None:
    state.mkdir(parents=True, exist_ok=True)
    (state / SEALING_KEYS).write_text("this is no key")
    async with open_gateway(SERVERS) as gateway:
        assert await last_row(gateway, await make(gateway)) == "row 2999"
    assert "valid only until Wicket stops" in caplog.text
    assert (state / SEALING_KEYS).read_text() == "this is no key", "what a person wrote is theirs to mend"


async def test_processes_that_start_at_once_agree_on_a_key(tmp_path: Path) -> None:
    command = (sys.executable, "-c", MAKE_KEYS, str(tmp_path / "state"))
    started = [
        await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE)
        for _ in range(6)
    ]
    said = {(await process.communicate())[0] for process in started}
    assert said == {f"{sealing_keys(tmp_path / 'state')[0].hex()}\n".encode()}


class NeverAsked:
    """A store that must not be asked."""

    async def save_result(self, result: StoredResult, max_total_bytes: int) -> None:
        raise AssertionError("asked")

    async def load_result(self, result_id: str, principal: Principal) -> StoredResult | None:
        raise AssertionError("asked")

    async def list_results(self, tool: str, principal: Principal) -> list[str]:
        raise AssertionError("asked")


@pytest.mark.promise(
    "T6", "A handle that is forged, expired or another principal's is refused before the state is read."
)
async def test_t6_what_is_no_handle_is_refused_before_the_store_is_asked() -> None:
    ann, bob, ring = Principal("ann"), Principal("bob"), Ring([new_key()])
    handles = Handles(ring)
    results = Results(ResultStorage(NeverAsked()), handles, ResultsConfig(), lambda _principal, _tool: True)
    _, valid = handles.make(ann, steady_time() + 60)
    _, expired = handles.make(ann, steady_time() - 2)
    _, foreign = handles.make(bob, steady_time() + 60)
    _, forged = Handles(Ring([new_key()])).make(ann, steady_time() + 60)
    earlier = "Zk3v0f9-x_Q2b7RtYwLmNA"  # as they were before they were sealed
    for handle in (expired, foreign, forged, earlier, "", "\udcff", valid[:-1], f"{valid}0"):
        for attempt in (
            results.read(handle, ann),
            results.substitute({"a": {"$result": handle}}, ann, lambda _: False),
        ):
            with pytest.raises(UnknownResult) as problem:
                await attempt
            assert problem.value.message == f"There is no stored result '{handle}'."
            assert problem.value.hint == "It may have expired; make the call again."
    with pytest.raises(AssertionError, match="asked"):
        await results.read(valid, ann)
