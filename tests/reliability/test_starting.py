"""Starting: nobody waits long for a server that was never seen, and none keeps another from starting."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import PEERS, OpenGateway, Server, peer
from tests.gateway.serving import raw_client, serve_http
from tests.gateway.test_faults import echo
from tests.peers.counting_servers import InModernEra
from tests.peers.http_faults import JSON, Received, send
from wicket_mcp.errors import Crashed, UnknownName, WicketError
from wicket_mcp.extensions import SKILLS
from wicket_mcp.upstream import lifecycle, starts
from wicket_mcp.upstream.starts import STARTS_AT_ONCE


@pytest.mark.promise("F2", "The first search waits three seconds for new servers and names those still starting.")
@pytest.mark.promise("D11", "The first search waits three seconds at most.")
async def test_f2_d11_the_first_search_names_who_is_still_starting(open_gateway: OpenGateway) -> None:
    servers = {"silent": peer("NeverAnswers", connect_timeout=600), "healthy": peer("Echo")}
    async with open_gateway(servers) as gateway, serve_http(gateway) as address, raw_client(address) as client:
        for _ in range(2):
            find = {"name": "find_tools", "arguments": {"query": "echo the message"}}
            _, body = await client.modern("tools/call", find)
            text = body["result"]["content"][0]["text"]
            assert "healthy.echo" in text
            assert "silent (It is still starting" in text
        assert await echo(gateway, "healthy") == "still here"


@pytest.mark.promise("F2", "A server that started slowly is included in the next search.")
async def test_f2_who_was_still_starting_is_there_at_the_next_question(open_gateway: OpenGateway) -> None:
    async with open_gateway({"late": peer("SlowStart", env={"SLOW_START": "1"})}) as gateway:
        gateway.catalogue.patience = 0.01
        assert await gateway.search("echo the message") == ()
        assert "still starting" in gateway.catalogue.failures["late"]
        await gateway.catalogue.renew("late")
        assert gateway.catalogue.failures == {}
        hits = await gateway.search("echo the message")
        assert hits[0].tool.key == "late.echo"


@pytest.mark.promise("F2", "At every moment a new server is named as starting or its tools are found.")
async def test_f2_a_server_is_named_as_starting_until_its_tools_are_there(open_gateway: OpenGateway) -> None:
    async with open_gateway({"late": peer("SlowStart", env={"SLOW_START": "1"})}) as gateway:
        catalogue = gateway.catalogue
        catalogue.patience = 0.01
        assert await gateway.search("echo the message") == ()
        renewal = asyncio.create_task(catalogue.renew("late"))
        seen: list[tuple[bool, bool]] = []
        while not renewal.done():
            seen.append(("late" in catalogue.failures, "late" in catalogue.now.listings))
            await asyncio.sleep(0)
        seen.append(("late" in catalogue.failures, "late" in catalogue.now.listings))
        assert list(dict.fromkeys(seen)) == [(True, False), (False, True)]


class Late(InModernEra):
    """Lists its tools when it is let, and tells when it has."""

    def __init__(self) -> None:
        super().__init__()
        self.let, self.listed = asyncio.Event(), asyncio.Event()

    async def answer(self, request: Received, writer: asyncio.StreamWriter) -> None:
        if request.rpc_method == "tools/list":
            await self.let.wait()
        await super().answer(request, writer)


class Skilled(InModernEra):
    """Has skills, and lists them only when the late server has become known."""

    def __init__(self, late: Late) -> None:
        super().__init__()
        self._late = late

    async def answer(self, request: Received, writer: asyncio.StreamWriter) -> None:
        complete = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        if request.rpc_method == "server/discover":
            able: dict[str, Any] = {"tools": {}, "extensions": {SKILLS: {}}}
            known: dict[str, Any] = {"supportedVersions": ["2026-07-28"], "capabilities": able}
            send(writer, 200, JSON, request.answered({**complete, **known}))
        elif request.rpc_method == "tools/list":
            send(writer, 200, JSON, request.answered({**complete, "tools": []}))
        elif request.rpc_method == "skills/list":
            self._late.let.set()
            await self._late.listed.wait()
            send(writer, 200, JSON, request.answered({**complete, "skills": []}))
        else:
            await super().answer(request, writer)


async def test_a_server_that_comes_up_in_the_middle_of_a_search_is_found_or_named(open_gateway: OpenGateway) -> None:
    async with Late() as late, Skilled(late) as skilled:
        servers = {"late": {"url": late.url}, "skilled": {"url": skilled.url}}
        async with open_gateway(servers) as gateway, serve_http(gateway) as address, raw_client(address) as client:
            gateway.catalogue.patience = 0.5

            async def tell() -> None:
                await late.let.wait()
                await gateway.catalogue.complete(["late"])
                late.listed.set()

            find = {"name": "find_tools", "arguments": {"query": "echo the message"}}
            (_, body), _ = await asyncio.gather(client.modern("tools/call", find), tell())
            text = body["result"]["content"][0]["text"]
            assert ("late.echo" in text) != ("late (It is still starting" in text)


@pytest.mark.promise("F30", "Servers that never answer do not keep others from starting, no matter how many they are.")
async def test_f30_servers_that_never_answer_keep_no_other_from_starting(open_gateway: OpenGateway) -> None:
    silent = {
        f"silent{n}": {"command": "sleep", "args": ["600"], "connect_timeout": 600} for n in range(2 * STARTS_AT_ONCE)
    }
    async with open_gateway({**silent, "healthy": peer("Echo")}) as gateway:
        gateway.catalogue.patience = 0.01
        await gateway.search("anything at all")
        assert all(gateway.pool.state(name)[0] == "starting" for name in silent)
        assert await echo(gateway, "healthy") == "still here"


@pytest.mark.promise("F30", "Two hundred servers start a few at a time, and all of them become ready.")
async def test_f30_two_hundred_servers_start_a_few_at_a_time(
    open_gateway: OpenGateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(starts, "SLOT_KEPT", 120.0)  # however busy the machine is, none gives its slot up
    server: Server = {
        "command": "/bin/sh",
        "args": [str(PEERS / "shell_server.sh")],
        "env": {"STARTING": str(tmp_path)},
        "connect_timeout": 120,
    }
    servers = {f"s{number}": server for number in range(200)}
    async with open_gateway(servers) as gateway:
        gateway.catalogue.patience = 120.0
        assert len(await gateway.tools()) == 200
        assert (await gateway.call("s199.hello"))["content"][0]["text"] == "hello"
    counts = [int(line) for line in (tmp_path / "counts").read_text().split()]
    assert len(counts) == 200
    assert max(counts) <= STARTS_AT_ONCE


@pytest.mark.promise("F30", "A server that somebody names starts before those that only a search wants.")
async def test_f30_a_server_that_is_called_by_name_starts_before_the_others(
    open_gateway: OpenGateway, tmp_path: Path
) -> None:
    """Defect 9."""
    names = [f"s{number}" for number in range(6 * STARTS_AT_ONCE)]
    file = tmp_path / "starts"
    async with open_gateway({name: counting_starts(file, word=name, connect_timeout=120) for name in names}) as gateway:
        gateway.catalogue.patience = 0.01
        assert await gateway.search("echo the message") == ()
        assert await echo(gateway, names[-1]) == "still here"
        assert file.read_text().split().index(names[-1]) < len(names) / 2


async def test_a_name_that_no_server_is_known_for_waits_no_longer_than_a_search(open_gateway: OpenGateway) -> None:
    """Defect 12."""
    servers = {"silent": peer("NeverAnswers", connect_timeout=600), "healthy": peer("Echo")}
    async with open_gateway(servers) as gateway:
        gateway.catalogue.patience = 0.01
        with pytest.raises(UnknownName, match="still starting; ask again in a moment") as caught:
            await gateway.call("surely_nobody_has_this")
        assert "healthy" not in str(caught.value)
        assert await echo(gateway, "healthy") == "still here", "one that is named is waited for"
        with pytest.raises(UnknownName, match="A server is still starting"):
            await gateway.call("surely_nobody_has_this")


@pytest.mark.promise("F3", "A missing command is reported once, and tried again only when its server is needed.")
async def test_f3_a_missing_command_is_not_tried_again_by_itself(
    open_gateway: OpenGateway, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    program = tmp_path / "program"
    unset = {"command": "true", "env": {"KEY": "${SURELY_NOT_SET_ANYWHERE}"}}
    async with open_gateway({"x": {"command": str(program)}, "y": unset}) as gateway:
        for _ in range(3):
            assert await gateway.search("echo the message") == ()
        said = [record.getMessage() for record in caplog.records if "could not be listed" in record.getMessage()]
        assert len(said) == 2
        program.write_text(f"#!/bin/sh\nexec {sys.executable} {PEERS}/stdio_peer.py Echo\n")
        program.chmod(0o755)
        assert await echo(gateway, "x") == "still here"
        assert list(gateway.catalogue.failures) == ["y"]


@pytest.mark.promise("F3", "A server that failed three times in a row is started with low priority.")
async def test_f3_one_that_keeps_failing_leaves_the_processors_to_others(
    open_gateway: OpenGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifecycle, "FIRST_PAUSE", 0.0)

    async def priority() -> int:
        pid = int((await gateway.call("x.pid"))["content"][0]["text"])
        return os.getpriority(os.PRIO_PROCESS, pid) - os.getpriority(os.PRIO_PROCESS, 0)

    async with open_gateway({"x": peer("DiesMidCall")}) as gateway:
        assert await priority() == 0
        for _ in range(lifecycle.BREAKER_FAILURES):
            with pytest.raises(Crashed):
                await gateway.call("x.slow")
        assert await priority() > 0


async def test_a_server_that_keeps_failing_is_logged_once_for_each_change_of_state(
    open_gateway: OpenGateway, caplog: pytest.LogCaptureFixture
) -> None:
    servers = {"x": peer("ExitsAtOnce"), "fine": peer("Echo")}
    with caplog.at_level("INFO"):
        async with open_gateway(servers) as gateway:
            for _ in range(6):
                await gateway.search("echo the message")
                with pytest.raises(WicketError):
                    await gateway.call("x.echo", {})
    about = [record.getMessage() for record in caplog.records if "'x'" in record.getMessage()]
    assert [line.partition("\n")[0][:30] for line in about] == [
        "server 'x' could not be listed",
        "server 'x' failed 3 times in a",
    ]
    assert not [record for record in caplog.records if "<Upstream" in record.getMessage()]


def counting_starts(file: Path, word: str = "started", **options: Any) -> Server:
    """A healthy server that adds a line to a file whenever it is started."""
    server = peer("Echo")
    script = f'echo {word} >> "{file}"; exec "$@"'
    return {"command": "/bin/sh", "args": ["-c", script, "sh", server["command"], *server["args"]], **options}


async def test_a_server_is_started_once_however_many_ask_for_it(open_gateway: OpenGateway, tmp_path: Path) -> None:
    file = tmp_path / "starts"
    async with open_gateway({"one": counting_starts(file)}) as gateway:
        asked = [echo(gateway, "one") for _ in range(20)]
        await asyncio.gather(gateway.search("echo the message"), gateway.tools(), gateway.servers(), *asked)
        await gateway.search("echo again")
    assert file.read_text().splitlines() == ["started"]


async def test_a_server_that_a_profile_does_not_show_is_not_started_by_it(
    open_gateway: OpenGateway, tmp_path: Path
) -> None:
    shown, hidden = tmp_path / "shown", tmp_path / "hidden"
    servers = {"shown": counting_starts(shown), "hidden": counting_starts(hidden)}
    async with open_gateway(servers, profiles={"work": {"servers": ["shown"]}}) as gateway:
        async with serve_http(gateway) as address, raw_client(f"{address}/p/work") as client:
            for method in ("tools/list", "resources/list", "prompts/list", "resources/templates/list"):
                _, body = await client.modern(method, {})
                assert "result" in body, body
            for name in ("find_tools", "call_tool"):
                arguments = {"query": "echo"} if name == "find_tools" else {"name": "hidden.echo"}
                _, body = await client.modern("tools/call", {"name": name, "arguments": arguments})
        assert shown.read_text().splitlines() == ["started"]
        assert not hidden.exists()


async def test_a_server_without_its_variable_is_never_started(open_gateway: OpenGateway, tmp_path: Path) -> None:
    file = tmp_path / "starts"
    servers = {"keyless": counting_starts(file, env={"KEY": "${NOT_SET_ANYWHERE}"})}
    async with open_gateway(servers) as gateway:
        for _ in range(3):
            await gateway.search("echo the message")
            with pytest.raises(WicketError, match="NOT_SET_ANYWHERE"):
                await gateway.call("keyless.echo", {"message": "hello"})
    assert not file.exists()


async def test_the_starts_of_a_server_that_cannot_start_do_not_follow_every_question(
    open_gateway: OpenGateway, tmp_path: Path
) -> None:
    file = tmp_path / "starts"
    broken = {"command": "/bin/sh", "args": ["-c", f'echo started >> "{file}"; exit 3']}
    async with open_gateway({"broken": broken}) as gateway:
        for number in range(30):
            await gateway.search(f"echo message {number}")
    assert len(file.read_text().splitlines()) <= 3
