"""The next key of a name is another party: nothing that was kept for the last one is its (W31, B1)."""

import json
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from tests.conftest import OpenGateway, Server, peer
from tests.gateway.serving import raw_client, serve_http
from tests.gateway.test_tasks import House
from tests.registry.test_rest import weather
from tests.trust.test_rules import Person
from wicket_mcp import Gateway
from wicket_mcp.cluster.statements import Statements
from wicket_mcp.errors import BadArguments, Denied, RateLimited, WicketError
from wicket_mcp.model import LOCAL, Principal, Silent, name_of
from wicket_mcp.request import tool_call
from wicket_mcp.sealing import Ring
from wicket_mcp.store.model import AuditQuery

SCOPES = ("discover", "invoke", "register")
ASK = [{"tool": "e.echo", "action": "ask", "by": "caller"}]


@dataclass
class Name:
    """A key's name, which one holder after another has."""

    gateway: Gateway
    name: str = "ci"

    async def give(self, *, successor: bool = False, **options: Any) -> str:
        """The text of a new key; an earlier one is revoked."""
        keys = self.gateway.registry.keys
        if any(key.name == self.name and key.revoked_at is None for key in await keys.list()):
            await keys.revoke(self.name)
        return (await keys.create(self.name, SCOPES, successor=successor, **options))[0]

    async def holder(self, **options: Any) -> Principal:
        principal = await self.gateway.registry.keys.principal(await self.give(**options))
        assert principal is not None
        return principal


@asynccontextmanager
async def served(open_gateway: OpenGateway, servers: dict[str, Server]) -> AsyncGenerator[House]:
    async with open_gateway(servers) as gateway, serve_http(gateway) as address, raw_client(address) as client:
        yield House(gateway, client)


async def echo(gateway: Gateway, caller: Any, message: str = "pay 100", name: str = "e.echo") -> Any:
    return (await gateway.verbs.call(tool_call(name, {"message": message}, caller))).body["content"][0]["text"]


def at_desk(holder: Principal, decision: str) -> Person:
    return Person(lambda _: decision, principal=holder)


async def test_no_approval_of_any_kind_is_inherited(open_gateway: OpenGateway) -> None:
    """W31, B1: "always", "for this session", and one that was given and not used yet."""
    async with open_gateway({"e": peer("Echo")}, policy=ASK) as gateway:
        name = Name(gateway)
        first = await name.holder()
        for message, mark in (("always", ", always"), ("once", "")):
            with pytest.raises(Denied, match="requires a person's approval"):
                await echo(gateway, Silent(first), message)
            [question] = [asked for asked in await gateway.store.approvals(0) if not asked.approved_by]
            await gateway.store.approve(question.id, f"bob{mark}", time.time())
        assert await echo(gateway, Silent(first), "always") == "always"
        assert await echo(gateway, at_desk(first, "for this session"), "session") == "session"
        second = await name.holder()
        for message in ("always", "once"):
            with pytest.raises(Denied, match="requires a person's approval"):
                await echo(gateway, Silent(second), message)
        asked = at_desk(second, "refuse")
        with pytest.raises(Denied, match="the user refused"):
            await echo(gateway, asked, "session")
        assert len(asked.heard) == 1
        assert await echo(gateway, Silent(first), "always") == "always"  # of the first it was not taken


async def test_neither_results_nor_history_nor_what_was_learnt_is_inherited(open_gateway: OpenGateway) -> None:
    """W31: handles, recent calls, sums, usage, choices."""
    async with open_gateway({"e": peer("Echo")}) as gateway:
        name = Name(gateway)
        first = await name.holder()
        await gateway.verbs.search("say it again", principal=first)
        told = await echo(gateway, Silent(first), "x" * 60_000)
        handle = told.partition("stored as id ")[2].partition(" ")[0]
        assert "xxx" in str(await gateway.verbs.read(handle, first))
        gateway.audit.flush()
        second = await name.holder()
        with pytest.raises(WicketError, match="no stored result"):
            await gateway.verbs.read(handle, second)
        kept: dict[str, Callable[[Principal], Any]] = {
            "recent": gateway.verbs.recent,
            "usage": gateway.verbs.usage,
            "choices": lambda who: gateway.store.choices(who.id),
            "records": lambda who: gateway.store.find_calls(AuditQuery(owner=who.id)),
            "totals": lambda who: gateway.store.call_totals(0, 3600.0, who.id),
        }
        for what, ask in kept.items():
            assert await ask(first), what
            assert not await ask(second), what
        assert {record.principal for record in await gateway.verbs.recent(first)} == {"ci"}  # for people


async def test_neither_answers_nor_processes_are_shared_with_the_last_holder(open_gateway: OpenGateway) -> None:
    """B1: the cache, `placement = "user"`, `isolation = "session"`."""
    servers = {
        "kept": peer("Echo", cache={"calls": "10m"}),
        "own": peer("Echo", placement="user"),
        "apart": peer("Echo", isolation="session"),
    }
    async with served(open_gateway, servers) as at:
        name, said = Name(at.gateway), list[dict[str, str]]()
        for _ in range(2):
            headers, told = {"Authorization": f"Bearer {await name.give()}"}, dict[str, str]()
            for tool, cached in (("kept.calls", False), ("kept.calls", True), ("own.pid", False), ("apart.pid", False)):
                _, body = await at.client.modern(
                    "tools/call", {"name": "call_tool", "arguments": {"name": tool}}, **headers
                )
                assert ("wicket/cached" in body["result"].get("_meta", {})) == cached
                told[tool] = str(body["result"]["content"])
            said.append(told)
        assert said[0]["own.pid"] != said[1]["own.pid"]
        assert said[0]["apart.pid"] != said[1]["apart.pid"]


async def test_neither_tasks_nor_sessions_are_inherited(open_gateway: OpenGateway) -> None:
    """B1: `tasks/list`, `tasks/result`, also after a restart; and the id of a session."""
    init = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    call = {"name": "call_tool", "arguments": {"name": "e.echo", "arguments": {"message": "a secret of the first"}}}
    sessions: list[str] = []
    number = ""
    for run in range(3):  # the third is after a restart
        async with served(open_gateway, {"e": peer("Echo")}) as at:
            name = Name(at.gateway)

            async def ask(key: str, method: str, params: Any, session: str = "") -> tuple[int, Any, Any]:
                sent = {"Authorization": f"Bearer {key}", **({"Mcp-Session-Id": session} if session else {})}
                message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
                return await at.client.post(message, sent)

            key = await name.give()
            _, headers, _ = await ask(key, "initialize", init)
            sessions.append(headers["Mcp-Session-Id"])
            if run == 0:
                _, _, body = await ask(key, "tools/call", {**call, "task": {"ttl": 600_000}}, sessions[-1])
                number = body["result"]["task"]["taskId"]
                _, _, body = await ask(key, "tasks/result", {"taskId": number}, sessions[-1])
                assert "a secret of the first" in json.dumps(body)
                key = await name.give()
                assert (await ask(key, "tasks/list", {}, sessions[-1]))[0] == 404
                _, headers, _ = await ask(key, "initialize", init)
                sessions.append(headers["Mcp-Session-Id"])
            assert (await ask(key, "tasks/list", {}, sessions[-1]))[2]["result"]["tasks"] == []
            assert "error" in (await ask(key, "tasks/result", {"taskId": number}, sessions[-1]))[2]


async def test_what_was_published_under_a_name_is_its_holders(open_gateway: OpenGateway) -> None:
    """W31: the records of the registry."""
    async with open_gateway({}) as gateway:
        name, registry = Name(gateway), gateway.registry.registry
        first = await name.holder()
        await registry.publish(weather(), first)
        second = await name.holder()
        with pytest.raises(Denied, match="belongs to somebody else"):
            await registry.publish(weather("1.0.1"), second)
        await registry.publish(weather("1.0.2"), LOCAL)  # an administrator may hand it over


async def test_limits_begin_anew_with_a_new_holder(open_gateway: OpenGateway) -> None:
    async with open_gateway({}) as gateway:
        name, keys = Name(gateway), gateway.registry.keys
        first = await name.holder(rates={"discovery": 1})
        await keys.take(first, "discovery")
        with pytest.raises(RateLimited):
            await keys.take(first, "discovery")
        await keys.take(await name.holder(rates={"discovery": 1}), "discovery")


async def test_a_successor_keeps_what_its_holder_had(open_gateway: OpenGateway) -> None:
    async with open_gateway({"e": peer("Echo")}) as gateway:
        name = Name(gateway)
        with pytest.raises(BadArguments, match="no key named 'ci' before"):
            await name.holder(successor=True)
        first = await name.holder()
        await echo(gateway, Silent(first))
        gateway.audit.flush()
        second = await name.holder(successor=True)
        assert second.id == first.id
        assert len(await gateway.verbs.recent(second)) == 1
        third = await name.holder()
        assert third.id != first.id
        assert name_of(third.id) == "ci"


def test_a_replica_vouches_for_the_holder_and_not_for_the_name() -> None:
    """B1: everything that one replica knows of a principal, the other knows."""
    statements = Statements(Ring([b"k" * 32]), "me")
    for principal in (
        LOCAL,
        Principal("ci", frozenset({"invoke"}), (("invocation", 5),), holder="a1b2"),
        Principal("p", frozenset(SCOPES), (), "https://as", "sub", frozenset({"staff"}), "Ann", "work"),
    ):
        statement = statements.admit(statements.make("me", principal, "POST", "/mcp"), "POST", "/mcp")
        assert statement is not None
        assert statement.principal == principal
