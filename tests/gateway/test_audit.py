"""What the audit says of calls that were answered, and of those that never reached a server."""

import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import OpenGateway, peer
from tests.surface.test_dashboard import visiting
from wicket_mcp import Gateway
from wicket_mcp.codec import decode
from wicket_mcp.errors import WicketError
from wicket_mcp.model import LOCAL, JsonObject, Principal, Silent
from wicket_mcp.request import tool_call
from wicket_mcp.store.model import AuditQuery, StoredApproval


async def outcomes(gateway: Any, principal: Principal = LOCAL) -> list[tuple[str, str, str]]:
    records = await gateway.store.find_calls(AuditQuery(principal=principal.name))
    return [(r.server, r.tool, r.outcome) for r in records]


@pytest.mark.promise("V22", "A refused call leaves a record, like a call that was answered.")
async def test_v22_b16_a_call_that_was_turned_down_is_recorded_like_one_that_was_answered(
    open_gateway: OpenGateway,
) -> None:
    async with open_gateway({"echo": peer("Echo", denied_tools=["pid"])}) as gateway:
        await gateway.call("echo.echo", {"message": "x"})
        for name in ("echo.echo", "echo.nothing", "echo.pid"):
            with pytest.raises(WicketError):
                await gateway.call(name)
        assert await outcomes(gateway) == [
            ("", "echo.pid", "denied"),
            ("", "echo.nothing", "unknown_name"),
            ("echo", "echo", "bad_arguments"),
            ("echo", "echo", "ok"),
        ]


async def test_a_call_is_found_by_its_server_also_if_that_never_started(open_gateway: OpenGateway) -> None:
    async with open_gateway({"gone": {"command": "no-such-command-anywhere"}}) as gateway:
        with pytest.raises(WicketError):
            await gateway.call("gone.look")
        (record,) = await gateway.store.find_calls(AuditQuery(server="gone"))
        assert (record.tool, record.outcome) == ("look", "unavailable")


async def test_an_act_on_a_server_is_found_by_its_name_and_is_no_call(open_gateway: OpenGateway) -> None:
    async with open_gateway({"echo": peer("Echo")}) as gateway:
        gateway.audit.act_on("ann", "stop server", "echo")
        gateway.audit.hear("echo", "info", "a message of its own")
        await gateway.call("echo.pid")
        records = await gateway.store.find_calls(AuditQuery(server="echo"))
        assert {record.tool for record in records} == {"stop server", "log message", "pid"}
        assert sum(total.calls for total in await gateway.store.call_totals(0.0, 86400.0)) == 1
        async with visiting(gateway) as visitor:
            await visitor.sign_in()
            page = (await visitor.get("/ui/servers/echo"))[1]
        assert 'href="/ui/tools/echo.pid"' in page
        assert 'href="/ui/tools/echo.stop' not in page
        assert '<div class="figure">1</div>' in page  # calls in 24 hours


async def test_b16_a_principal_without_the_scope_is_recorded_and_told_once(open_gateway: OpenGateway) -> None:
    nobody = Principal("nobody", frozenset({"discover"}))
    async with open_gateway({"echo": peer("Echo")}) as gateway:
        with pytest.raises(WicketError, match="scope 'invoke'"):
            await gateway.verbs.call(tool_call("echo.echo", {"message": "x"}, Silent(nobody)))
        assert await outcomes(gateway, nobody) == [("", "echo.echo", "denied")]


@pytest.mark.promise("V22", "Reading resources and getting prompts leaves a record.")
async def test_v22_resources_and_prompts_are_recorded_too(open_gateway: OpenGateway) -> None:
    async with open_gateway({"echo": peer("Echo")}) as gateway:
        with suppress(WicketError):
            await gateway.verbs.read_resource("mcp://echo/memo://none", Silent())
        with pytest.raises(WicketError):
            await gateway.verbs.get_prompt("echo/none", {}, Silent())
        seen = await outcomes(gateway)
        assert [(server, tool) for server, tool, _ in seen] == [("", "echo/none"), ("echo", "memo://none")]


@pytest.mark.parametrize("to_collector", [False, True])
async def test_every_kind_of_event_is_in_the_audit_that_other_programs_read(
    open_gateway: OpenGateway, tmp_path: Path, to_collector: bool
) -> None:
    pytest.importorskip("opentelemetry.proto", reason="the protocol's own classes are not installed")
    from tests.peers.otlp_receiver import collector

    file = tmp_path / "audit.jsonl"
    with collector() as received:
        options: dict[str, Any] = {
            "audit": {"file": received.address if to_collector else str(file)},
            "policy": [{"action": "deny", "tool": "pid", "name": "no numbers"}],
        }
        async with open_gateway({"changing": peer("GrowsATool")}, **options) as gateway:
            await _make_every_kind_happen(gateway)
    told = [entry.body.string_value for entry in received.logs] if to_collector else file.read_text().splitlines()
    records: list[JsonObject] = [decode(line.encode()) for line in told]
    kinds = {(record["method"], record["tool"], record["outcome"]) for record in records}
    assert kinds >= {
        ("tools/call", "echo", "ok"),
        ("tools/call", "pid", "denied"),
        ("auth", "authenticate", "rejected"),
        ("admin", "sign in to the dashboard", "ok"),
        ("admin", "approve call", "ok"),
        ("admin", "tools changed", "ok"),
        ("admin", "revoke key", "ok"),
        ("admin", "register server", "ok"),
        ("admin", "delete registered server", "ok"),
    }
    of_the_server = {record["tool"] for record in records if record.get("server") == "changing"}
    assert of_the_server == {"echo", "pid", "release", "approve call", "tools changed", "stop server"}
    (called,) = [record for record in records if record["tool"] == "echo"]
    assert (called["principal"], called["server"]) == ("local", "changing")
    assert called["tokens_in"] > 0
    assert called["tokens_out"] > 0
    assert sum(called["steps_ms"].values()) == pytest.approx(called["duration_ms"], abs=0.01)
    (denied,) = [record for record in records if record["outcome"] == "denied"]
    assert denied["rule"] == "no numbers: deny"


async def _make_every_kind_happen(gateway: Gateway) -> None:
    await gateway.call("changing.echo", {"message": "hello"})
    with pytest.raises(WicketError):
        await gateway.call("changing.pid")
    await gateway.registry.keys.create("ci", {"discover"})
    weather = {"name": "io.github.ann/weather", "description": "Weather forecasts", "version": "1.0.0"}
    await gateway.registry.registry.publish(weather, LOCAL)
    await gateway.registry.registry.delete("io.github.ann/weather", "1.0.0", LOCAL)
    asked = StoredApproval("call-1", "local", "changing", "echo", "d", "p", "May it?", time.time(), time.time() + 800)
    await gateway.store.save_approval(asked)
    async with visiting(gateway) as visitor:
        await visitor.sign_in("wrong")
        await visitor.sign_in()
        csrf = await visitor.csrf()
        await visitor.post("/ui/approvals/call-1/once", csrf=csrf)
        await visitor.post("/ui/access/keys/ci/revoke", csrf=csrf)
        await visitor.post("/ui/servers/changing/stop", csrf=csrf)
    await gateway.call("changing.release")
    await gateway.catalogue.renew("changing")
