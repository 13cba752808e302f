"""Arguments of megabytes: whatever is linear in them happens off the event loop."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import wicket_mcp
from tests.conftest import OpenGateway, peer
from tests.gateway.serving import serve_http
from wicket_mcp.codec import LARGE, is_large, weighs_over
from wicket_mcp.store.model import AuditQuery

HOME = str(Path(wicket_mcp.__file__).parent)
LINEAR = {"encode", "decode", "refers", "errors", "_measure", "encode_in_pieces", "decode_in_pieces"}
"""Functions that walk through all of what they are given."""
ARGUMENTS = {
    "a text": {"message": "x" * (2 * LARGE)},
    "numbers": {"message": "a", "more": list(range(100_000))},
    "objects": {"message": "a", "more": [{"number": number} for number in range(40_000)]},
}


class Witness:
    """Which functions of ours walked through something large on the thread of the event loop."""

    def __init__(self) -> None:
        self.on_loop: list[str] = []

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_name in LINEAR and code.co_filename.startswith(HOME):
            given = [frame.f_locals[name] for name in code.co_varnames[: code.co_argcount]]
            if any(_is_much(value) for value in given):
                self.on_loop.append(f"{Path(code.co_filename).name}:{code.co_name}")


def _is_much(value: Any) -> bool:
    return len(value) > LARGE if isinstance(value, (bytes, str)) else weighs_over(value)


@contextmanager
def watch() -> Generator[Witness]:
    witness = Witness()
    sys.setprofile(witness)  # of this thread alone
    try:
        yield witness
    finally:
        sys.setprofile(None)


@pytest.mark.promise("F27", "Large arguments are checked, recorded and written outside the event loop.")
@pytest.mark.parametrize("kind", ARGUMENTS)
async def test_f27_large_arguments_are_worked_on_in_threads(open_gateway: OpenGateway, kind: str) -> None:
    async with open_gateway({"echo": peer("Echo")}) as gateway:
        await gateway.call("echo.echo", {"message": "warm"})
        with watch() as witness:
            result = await gateway.call("echo.echo", ARGUMENTS[kind])
        assert not result.get("isError")
        assert witness.on_loop == []
        record, _ = await gateway.store.find_calls(AuditQuery(tool="echo", limit=2))
        assert record.arguments_bytes > LARGE
        assert record.arguments_digest


async def test_f27_also_over_http_in_and_out(open_gateway: OpenGateway) -> None:
    async with open_gateway({"echo": peer("Echo")}) as behind, serve_http(behind, "flat", token=None) as address:
        async with open_gateway({"behind": {"url": f"{address.removesuffix('/mcp')}/mcp"}}) as gateway:
            await gateway.call("behind.echo__echo", {"message": "warm"})
            with watch() as witness:
                result = await gateway.call("behind.echo__echo", ARGUMENTS["objects"])
    assert not result.get("isError")
    assert witness.on_loop == []


def test_f27_only_what_may_be_large_is_looked_at_closely() -> None:
    assert not is_large({"a": 1, "b": "x" * LARGE, "c": [1, 2, {"d": "x"}]})
    assert is_large({"b": "x" * (LARGE + 1)})
    assert is_large({"c": [["x" * 1000] * 400]})
    assert not is_large(None)
