"""The way of one warm call through the house, counted: no layer is entered twice, and few modules have a part in it."""

import sys
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import wicket_mcp
from tests.conftest import OpenGateway, peer
from tests.gateway.serving import raw_client, serve_http

HOME = str(Path(wicket_mcp.__file__).parent)
OVER_HTTP, FROM_THE_LIBRARY = 25, 20
BESIDE = "telemetry/loop_lag.py"
"""A timer of the loop that may fire meanwhile, whoever calls."""
LAYERS = ("audit", "authorise", "resolve", "limits", "fallback", "arguments", "cache", "forward")


class Walk:
    """Which of our functions were entered: not counted again when a coroutine goes on where it waited."""

    def __init__(self) -> None:
        self.entered: Counter[tuple[str, str]] = Counter()
        self._frames: set[FrameType] = set()

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(HOME) and frame not in self._frames:
            self._frames.add(frame)
            self.entered[code.co_filename.removeprefix(f"{HOME}/"), code.co_qualname] += 1

    @property
    def modules(self) -> set[str]:
        return {module for module, _ in self.entered if module != BESIDE}

    def layers(self) -> dict[str, int]:
        """How often each layer of the pipeline was entered."""
        handlers = {
            (module, name): count
            for (module, name), count in self.entered.items()
            if module.startswith("calls/") and name.endswith((".handle", "Forward.__call__"))
        }
        return {Path(module).stem: count for (module, _), count in handlers.items() if Path(module).stem in LAYERS}


@contextmanager
def walk() -> Generator[Walk]:
    walked = Walk()
    sys.setprofile(walked)
    try:
        yield walked
    finally:
        sys.setprofile(None)


async def test_a_call_of_the_library_passes_few_modules_and_no_layer_twice(open_gateway: OpenGateway) -> None:
    async with open_gateway({"echo": peer("Echo")}) as gateway:
        for _ in range(3):
            await gateway.call("echo.echo", {"message": "warm"})
        with walk() as walked:
            await gateway.call("echo.echo", {"message": "measured"})
    assert walked.layers() == {"audit": 1, "resolve": 1, "arguments": 1, "forward": 1}
    assert len(walked.modules) <= FROM_THE_LIBRARY, sorted(walked.modules)


async def test_a_call_over_http_passes_few_modules_and_no_layer_twice(open_gateway: OpenGateway) -> None:
    call = {"name": "call_tool", "arguments": {"name": "echo.echo", "arguments": {"message": "x"}}}
    async with open_gateway({"echo": peer("Echo")}, http={"port": 0}) as gateway:
        async with serve_http(gateway) as address, raw_client(address) as client:
            for _ in range(3):
                assert (await client.modern("tools/call", call))[0] == 200
            with walk() as walked:
                status, body = await client.modern("tools/call", call)
    assert (status, body["result"]["content"][0]["text"]) == (200, "x")
    assert walked.layers() == {"audit": 1, "resolve": 1, "arguments": 1, "forward": 1}
    assert len(walked.modules) <= OVER_HTTP, "\n".join(sorted(walked.modules))


async def test_what_a_key_may_do_is_asked_once(open_gateway: OpenGateway) -> None:
    async with open_gateway({"echo": peer("Echo")}, http={"port": 0}) as gateway:
        key, _ = await gateway.registry.keys.create("k", ["discover", "invoke"])
        call = {"name": "call_tool", "arguments": {"name": "echo.echo", "arguments": {"message": "x"}}}
        async with serve_http(gateway) as address, raw_client(address) as client:
            headers = {"Authorization": f"Bearer {key}"}
            for _ in range(3):
                assert (await client.modern("tools/call", call, **headers))[0] == 200
            with walk() as walked:
                await client.modern("tools/call", call, **headers)
    assert walked.layers() == {"audit": 1, "authorise": 1, "resolve": 1, "limits": 1, "arguments": 1, "forward": 1}
