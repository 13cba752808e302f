"""Canaries stand wherever a secret may stand; afterwards they are looked for wherever one must not be."""

import asyncio
import contextlib
import json
import subprocess
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.conftest import OpenGateway, Server
from tests.gateway.serving import Command
from tests.reliability.hostile import hostile
from tests.surface.test_dashboard import visiting
from wicket_mcp.errors import WicketError
from wicket_mcp.surface.dashboard.render import PAGES

CANARIES = {
    "env": "canary-in-env-0001",
    "argument": "canary-in-argument-0002",
    "header": "canary-in-header-0003",
    "url": "canary-in-url-0004",
    "env_file": "canary-in-env-file-0005",
    "required": "canary-in-required-0006",
    "literal": "canary-literal-0007",
    "long": "canary-long-0008-" + "abcdefghij" * 60,
    "key": "-----BEGIN KEY-----\ncanary-line-0009-aaaaaaaa\ncanary-line-0010-bbbbbbbb\n-----END KEY-----",
}
FRAGMENTS = ("canary-", "abcdefghijabcdefghij")


class Echoing(BaseHTTPRequestHandler):
    """An HTTP server that answers every request with 401 and repeats all it was sent."""

    def do_POST(self) -> None:
        body = f"{self.path} {self.headers} rejected {self.headers.get('Authorization')}".encode()
        self.send_response(401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_request(self, code: object = "-", size: object = "-") -> None:
        return


def configured(folder: Path, port: int) -> dict[str, Server]:
    (folder / "key.pem").write_text(CANARIES["key"])
    (folder / "more.env").write_text(f"FROM_FILE={CANARIES['env_file']}\n")
    environment = {
        "TOKEN": "${env:CANARY_ENV}",
        "LONG": "${CANARY_LONG}",
        "PRIVATE_KEY": f"${{file:{folder / 'key.pem'}}}",
        "API_KEY": CANARIES["literal"],
    }
    blabs = hostile("Blabs", env=environment, env_file=str(folder / "more.env"), required_keys=["CANARY_REQUIRED"])
    blabs["args"].append("--token=${CANARY_ARGUMENT}")
    return {
        "blabs": blabs,
        "other": hostile("Blabs"),
        "web": {
            "url": f"http://127.0.0.1:{port}/mcp?key=${{CANARY_URL}}",
            "headers": {"Authorization": "Bearer ${CANARY_HEADER}"},
        },
    }


def leaks(text: str) -> list[str]:
    return [text[max(0, at - 80) : at + 80] for fragment in FRAGMENTS if (at := text.find(fragment)) >= 0]


@pytest.mark.promise("V7", "No secret is in an answer, a log, a server's last output, the state or the process list.")
@pytest.mark.promise("T17", "Test secrets in every possible place are found nowhere else.")
async def test_t17_v7_canaries_are_found_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("env", "argument", "header", "url", "required", "long"):
        monkeypatch.setenv(f"CANARY_{name.upper()}", CANARIES[name])
    web = ThreadingHTTPServer(("127.0.0.1", 0), Echoing)
    Thread(target=web.serve_forever, daemon=True).start()
    monkeypatch.setenv("WICKET_LOG", "debug")
    command = await Command.start(tmp_path, configured(tmp_path, web.server_port))
    answers: list[Mapping[str, object]] = [await command.initialize()]
    answers.append(await command.call("find_tools", {"query": "echo the message"}))
    for name in ("blabs.refuses", "blabs.slow", "blabs.echo", "web.anything", "other.refuses"):
        arguments = {"name": name, "arguments": {"message": "hello"}}
        answers.append(await command.ask("tools/call", {"name": "call_tool", "arguments": arguments}))
    answers.append(await command.ask("resources/read", {"uri": "wicket://health"}))
    assert "hello" in json.dumps(answers), "the server does work"
    assert "***" in json.dumps(answers), "and does talk"
    commands = [
        Path(f"/proc/{command.process.pid}/cmdline").read_bytes().decode(),
        *(path.read_bytes().decode() for path in _helpers(command.process.pid)),
    ]
    assert command.process.stdin is not None
    command.process.stdin.close()
    rest, log = await command.process.communicate()
    web.shutdown()
    web.server_close()
    state = b"".join(path.read_bytes() for path in (tmp_path / "state").rglob("*") if path.is_file())
    assert leaks(json.dumps(answers) + rest.decode()) == []
    assert b"blabs" in log
    assert leaks(log.decode()) == []
    assert leaks(state.decode("latin-1")) == []
    assert leaks("".join(commands)) == []


def _processes() -> str:
    return subprocess.run(["ps", "axww", "-o", "args"], capture_output=True, text=True, check=True).stdout


def _helpers(gateway: int) -> list[Path]:
    """The command lines of what the gateway runs for itself: all its children but the servers."""
    children = Path(f"/proc/{gateway}/task/{gateway}/children").read_text().split()
    lines = [Path(f"/proc/{pid}/cmdline") for pid in children if Path(f"/proc/{pid}/cmdline").exists()]
    return [line for line in lines if b"hostile_peer" not in line.read_bytes()]


@pytest.mark.promise("V7", "No secret is on a page of the dashboard, in its live events, or in what `ps` shows.")
async def test_v7_canaries_are_on_no_page_and_in_no_process_list(
    open_gateway: OpenGateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("env", "argument", "header", "url", "required", "long"):
        monkeypatch.setenv(f"CANARY_{name.upper()}", CANARIES[name])
    web = ThreadingHTTPServer(("127.0.0.1", 0), Echoing)
    Thread(target=web.serve_forever, daemon=True).start()
    servers = configured(tmp_path, web.server_port)
    # What stands in arguments is visible to every user of the machine, as SECURITY.md says.
    servers["blabs"]["args"].pop()
    async with open_gateway(servers) as gateway, visiting(gateway) as visitor:
        await gateway.tools()
        for name in ("blabs.refuses", "blabs.slow", "web.anything", "other.refuses"):
            with contextlib.suppress(WicketError):
                await gateway.call(name, {"message": "hello"})
        shown = await asyncio.to_thread(_processes)
        assert await visitor.sign_in() == 303
        pages = ["/ui", *(f"/ui/{name}" for name in PAGES)]
        pages += [f"/ui/servers/{name}" for name in servers] + ["/ui/tools/blabs.echo", "/metrics", "/readyz"]
        texts = [(await visitor.get(page))[1] for page in pages]
    web.shutdown()
    web.server_close()
    assert "hostile_peer" in shown
    assert leaks("\n".join(line for line in shown.splitlines() if "--token=" not in line)) == [], "of the test above"
    assert any("blabs" in text for text in texts)
    assert leaks("\n".join(texts)) == []
