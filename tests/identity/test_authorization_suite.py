"""The official suite's scenarios for authorization servers, against ours; we are its browser."""

import asyncio
import re
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest

from tests import needs
from tests.conformance.differences import known
from tests.conformance.suite import HOME, installed, node
from tests.conftest import OpenGateway
from tests.identity.test_authorization import Flow, flow
from tests.peers.ports import free_port
from wicket_mcp.codec import decode

pytestmark = pytest.mark.node


async def approve(client: Flow, address: str) -> None:
    """Open the address that the suite prints, allow it, and go where we are sent."""
    asked = dict(parse_qsl(urlsplit(address).query))
    sealed = await client.sealed(**{"scope": "", "resource": "", **asked})
    answer = await client.submit(sealed)
    async with client.session.get(answer.headers["Location"]) as back:
        assert back.status == 200


async def test_the_suites_scenarios_for_authorization_servers(open_gateway: OpenGateway, tmp_path: Path) -> None:
    program = node()
    if program is None or not installed():
        pytest.skip(needs.NPM_SERVERS)
    async with flow(open_gateway) as (client, _):
        port = free_port()
        client.redirect_uri = f"http://127.0.0.1:{port}/callback"
        await client.register()
        arguments = ("--url", client.base, "--client-id", client.client_id, "--resource", f"{client.base}/mcp")
        process = await asyncio.create_subprocess_exec(
            program,
            HOME / "dist" / "index.js",
            "authorization",
            *arguments,
            *("-p", str(port), "-o", tmp_path),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        assert process.stdout is not None
        said, listening, address = b"", False, ""
        try:
            while line := await process.stdout.readline():
                said += line
                found = re.match(rf"{client.base}/oauth/authorize\S+", line.decode())
                address = found[0] if found else address
                listening = listening or b"Callback server started" in line
                if address and listening:
                    await approve(client, address)
                    address = ""
            await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    checks = {
        file.parent.name.removeprefix("authorization-server-").partition("-2")[0]: [
            (check["id"], check["status"]) for check in decode(file.read_bytes())
        ]
        for file in tmp_path.rglob("checks.json")
    }
    passed = {
        scenario: f"{sum(status == 'SUCCESS' for _, status in each)} of {sum(status != 'INFO' for _, status in each)}"
        for scenario, each in checks.items()
    }
    assert passed == known().authorization, (checks, said.decode())
