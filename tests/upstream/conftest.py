"""What every connection needs in these tests: a client, and somebody who hears."""

from collections.abc import AsyncIterator

import pytest
from tests.peers.recording_host import RecordingHost

from wicket_mcp.upstream.egress import HttpClient


@pytest.fixture
async def client() -> AsyncIterator[HttpClient]:
    client = HttpClient()
    yield client
    await client.close()


@pytest.fixture
def host() -> RecordingHost:
    return RecordingHost()
