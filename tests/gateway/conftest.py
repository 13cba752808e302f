"""Nothing that a test started outlives it."""

from collections.abc import AsyncGenerator

import pytest

from tests.gateway.serving import Command


@pytest.fixture(autouse=True)
async def stop_commands() -> AsyncGenerator[None]:
    yield
    while Command.started:
        process = Command.started.pop().process
        if process.returncode is None:
            process.kill()
            await process.communicate()
