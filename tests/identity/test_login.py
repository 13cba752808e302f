"""`wicket login` and `wicket logout`, as a person types them, with a browser that follows redirects."""

import asyncio
import json
import sys

from tests.cli.shell import Done, Shell
from tests.conftest import PEERS, ROOT
from tests.identity.browser import browse
from tests.peers.protected import Protected, SaysNothing
from wicket_mcp.codec import decode

BROWSER = f"{sys.executable} -m tests.identity.browser"


async def run(shell: Shell, *arguments: str) -> Done:
    return await asyncio.to_thread(shell.run, *arguments)


async def test_from_an_address_to_its_tools_and_back(shell: Shell) -> None:
    shell = Shell.at(shell.home, BROWSER=BROWSER, PYTHONPATH=str(ROOT))
    async with Protected() as remote:
        assert (await run(shell, "add", "x", remote.url)).code == 0
        first = await run(shell, "search", "whose account is used")
        assert "Server 'x' needs sign-in. Sign in with: wicket login x" in first.err
        assert "fix: wicket login x" in (await run(shell, "doctor")).out
        before = await run(shell, "servers")
        assert "needs sign-in" in before.out
        assert "wicket login x" in before.out
        login = await run(shell, "login", "x", "--json")
        assert (login.code, login.json) == (0, {"server": "x", "signed_in": True, "tools": 1}), login.err
        called = await run(shell, "call", "x.whoami")
        assert called.out.strip() == "ann"
        assert (await run(shell, "status", "--json")).json["servers"] == {"x": "idle"}
        acts = [decode(line) for line in (await run(shell, "logs", "--json")).out.splitlines()]
        assert ("sign in to a server", "x") in [(act["tool"], act.get("detail")) for act in acts]
        remote.tokens.clear()
        remote.refresh_tokens.clear()
        refused = await run(shell, "call", "x.whoami")
        assert refused.code == 1
        assert "wicket login x" in refused.err
        assert (await run(shell, "status", "--json")).json["servers"] == {"x": "needs sign-in"}
        found = await run(shell, "search", "whose account is used")
        assert "wicket login x" in found.out + found.err
        assert (await run(shell, "tools")).out.count("whoami") == 1
        logout = await run(shell, "logout", "x", "--json")
        assert logout.json == {"server": "x", "signed_out": False}
        assert (await run(shell, "status", "--json")).json["servers"] == {"x": "needs sign-in"}  # still
    state = b"".join(path.read_bytes() for path in shell.home.rglob("*") if path.is_file())
    assert b"canary-" not in state  # at rest, tokens are encrypted


async def test_a_server_that_says_nothing_about_oauth_can_be_signed_in_to(shell: Shell) -> None:
    shell = Shell.at(shell.home, BROWSER=BROWSER, PYTHONPATH=str(ROOT))
    async with SaysNothing() as remote:
        await run(shell, "add", "x", remote.url)
        called = await run(shell, "call", "x.whoami")
        assert "wicket login x" in called.err
        login = await run(shell, "login", "x", "--json")
        assert (login.code, login.json) == (0, {"server": "x", "signed_in": True, "tools": 1}), login.err
        assert (await run(shell, "call", "x.whoami")).out.strip() == "ann"
        visits = len(remote.seen("/authorize"))
        keyed = f'[servers.k]\nurl = "{remote.url}"\n[servers.k.headers]\nAuthorization = "Bearer wrong"\n'
        shell.config.write_text(f"{shell.config.read_text()}\n{keyed}")
        refused = await run(shell, "login", "k")
        assert (refused.code, "HTTP 401" in refused.err) == (1, True)
        assert len(remote.seen("/authorize")) == visits  # a sign-in would change nothing: the header is sent


async def test_the_configured_browser_is_used(shell: Shell) -> None:
    shell = Shell.at(shell.home, BROWSER="false", PYTHONPATH=str(ROOT))
    async with Protected() as remote:
        assert (await run(shell, "add", "x", remote.url)).code == 0
        shell.config.write_text(f"{shell.config.read_text()}\n[oauth]\nbrowser = {json.dumps(BROWSER)}\n")
        login = await run(shell, "login", "x", "--json")
        assert (login.code, login.json) == (0, {"server": "x", "signed_in": True, "tools": 1}), login.err


async def test_without_a_browser_the_address_is_printed(shell: Shell) -> None:
    async with Protected() as remote:
        assert (await run(shell, "add", "x", "--url", remote.url)).code == 0
        process = await asyncio.create_subprocess_exec(
            *("wicket", "login", "x"),
            cwd=shell.cwd,
            env=shell.environ,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        assert process.stderr is not None
        address = ""
        while not address.startswith("http"):
            address = (await process.stderr.readline()).decode().strip()
        assert (await browse(address))[0] == 200
        out, _ = await process.communicate()
        assert out.decode() == "Signed in to 'x': 1 tool.\n"


async def test_the_holder_of_a_key_gives_their_own_keys_and_calls_with_them(shell: Shell) -> None:
    command = [sys.executable, str(PEERS / "key_server.py")]
    config = f"""[servers.x]
command = {json.dumps(command[0])}
args = {json.dumps(command[1:])}
cwd = {json.dumps(str(ROOT))}
required_keys = ["KEY"]
credentials = "user"
"""
    (shell.cwd / "wicket.toml").write_text(config)
    made = await run(shell, "keys", "create", "ann", "-s", "discover", "-s", "invoke")
    ann = Shell.at(shell.home, WICKET_API_KEY=made.out.strip())
    login = await asyncio.to_thread(ann.run, "login", "x", stdin="canary-ann\n")
    assert (login.code, login.out) == (0, "Signed in to 'x': 1 tool.\n"), login.err
    assert (await run(ann, "call", "x.whose")).out.startswith("canary-ann ")
    assert "x.whose" in (await run(ann, "search", "whose key it has")).out
    refused = await run(shell, "call", "x.whose")
    assert (refused.code, "wicket login x" in refused.err) == (1, True)
