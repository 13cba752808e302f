"""How many descriptors a gateway that serves may have open, and its servers."""

import resource
import sys
from pathlib import Path

import pytest

from tests.conftest import peer
from tests.gateway.serving import Command

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads the limits of other processes")
SOFT = 600


async def test_a_gateway_that_serves_raises_its_limit_and_its_servers_keep_theirs(tmp_path: Path) -> None:
    """Defect 9."""
    found, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (SOFT, hard))
    try:
        gateway = await Command.start(tmp_path, {"a": peer("Echo")})
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (found, hard))
    await gateway.initialize()
    called = await gateway.call("call_tool", {"name": "a.pid"})
    server = int(called["content"][0]["text"])
    assert resource.prlimit(gateway.process.pid, resource.RLIMIT_NOFILE)[0] > SOFT
    assert resource.prlimit(server, resource.RLIMIT_NOFILE) == (SOFT, hard)
    assert await gateway.finish() == 0
