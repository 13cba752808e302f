"""`credentials = "user"`: two users, one server, and no byte of one's credential where the other's belongs."""

import asyncio
import re
import sys
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import PEERS, OpenGateway
from tests.gateway.test_faults import gone
from tests.identity.browser import browse
from tests.peers.protected import Protected
from wicket_mcp import Gateway
from wicket_mcp.catalog.snapshot import Snapshot
from wicket_mcp.config.model.config import Config
from wicket_mcp.errors import BadArguments, Denied, NeedsSignIn, ProtocolViolation, UnknownName
from wicket_mcp.extensions import SKILLS
from wicket_mcp.model import LOCAL, MODERN_VERSION, SCOPES, JsonObject, Principal, Silent
from wicket_mcp.request import tool_call
from wicket_mcp.scripting import Script

ANN, BOB = Principal("ann", SCOPES), Principal("bob", SCOPES)
UNTOLD = "Each account sees its own description of this tool. Sign in to see it."
CANARY = re.compile(r"canary-(ann|bob)-")


async def sign_in(gateway: Gateway, remote: Protected, principal: Principal, server: str = "x") -> None:
    remote.account = principal.name
    pending = await gateway.accounts.sign_ins.begin(gateway.catalogue.server(server), principal)
    await browse(pending.link)
    await pending.wait()


async def ask(gateway: Gateway, principal: Principal, name: str = "x.whoami") -> str:
    request = tool_call(name, {}, Silent(principal, session=principal.name), whole=True)
    return (await gateway.verbs.call(request)).body["content"][0]["text"]


def own(remote: Protected, **options: Any) -> dict[str, Any]:
    return {"url": remote.url, "credentials": "user", **options}


async def test_each_user_has_an_account_of_their_own_under_load(open_gateway: OpenGateway) -> None:
    async with (
        Protected() as remote,
        open_gateway({"x": own(remote, cache={"whoami": "5m"}), "y": own(remote)}) as gateway,
    ):
        await sign_in(gateway, remote, ANN)
        assert await ask(gateway, ANN) == "ann"
        with pytest.raises(NeedsSignIn):
            await ask(gateway, BOB)
        await sign_in(gateway, remote, BOB)
        for principal in (ANN, BOB):
            await sign_in(gateway, remote, principal, "y")
        remote.tokens.clear()  # so that all of them renew at once
        everybody = [ANN, BOB] * 20
        said = await asyncio.gather(*(ask(gateway, who, f"{s}.whoami") for s in ("x", "y") for who in everybody))
        assert said == [who.name for _ in ("x", "y") for who in everybody]
        for request in remote.received:
            assert len(set(CANARY.findall(request.whole))) <= 1, request.path


async def test_no_account_is_used_for_another_by_script_fallback_or_reload(open_gateway: OpenGateway) -> None:
    async with Protected() as remote, AsyncExitStack() as stack:
        first = await stack.enter_async_context(Protected())
        servers = {"x": own(remote), "first": {"url": first.url, "fallback": ["x"]}}
        async with open_gateway(servers) as gateway:
            await sign_in(gateway, first, ANN, "first")
            assert await ask(gateway, ANN, "first.whoami") == "ann"
            for principal in (ANN, BOB):
                await sign_in(gateway, remote, principal)
                assert await ask(gateway, principal) == principal.name
                outcome = await gateway.verbs.run(Script("return x.whoami({}):await()", "lua"), Silent(principal))
                assert (outcome.problem, outcome.value) == (None, principal.name)
            await stack.aclose()  # the first server is gone
            assert [await ask(gateway, who, "first.whoami") for who in (ANN, BOB)] == ["ann", "bob"]
            changed = {**servers, "x": own(remote, description="changed", timeout="5s")}
            gateway.apply(Config.from_dict({"servers": changed, "state_dir": str(gateway.config.state_path)}))
            said = await asyncio.gather(*(ask(gateway, who) for who in [ANN, BOB] * 5))
            assert said == ["ann", "bob"] * 5


async def test_who_signs_out_is_signed_out_alone(open_gateway: OpenGateway) -> None:
    async with Protected() as remote, open_gateway({"x": own(remote)}) as gateway:
        for principal in (ANN, BOB):
            await sign_in(gateway, remote, principal)
        await gateway.accounts.sign_ins.sign_out(gateway.catalogue.server("x"), ANN)
        with pytest.raises(NeedsSignIn):
            await ask(gateway, ANN)
        assert await ask(gateway, BOB) == "bob"
        states = {who.name: (await gateway.verbs.servers(who))[0].state for who in (ANN, BOB)}
        assert states["ann"] == "needs sign-in"
        assert states["bob"] != "needs sign-in"


async def test_a_sign_in_as_somebody_else_uses_no_connection_of_the_first(open_gateway: OpenGateway) -> None:
    async with Protected() as remote, open_gateway({"x": {"url": remote.url}}) as gateway:
        for account in (ANN, BOB):  # one shared account, and then another one
            await sign_in(gateway, remote, account)
            assert await ask(gateway, ANN) == account.name


async def test_a_token_is_sent_to_no_other_address(open_gateway: OpenGateway) -> None:
    async with Protected() as first, Protected() as second:
        async with open_gateway({"x": {"url": first.url}}) as gateway:
            await sign_in(gateway, first, ANN)
            assert await ask(gateway, ANN) == "ann"
        async with open_gateway({"x": {"url": second.url}}) as gateway:
            with pytest.raises(NeedsSignIn):
                await ask(gateway, ANN)
        assert second.received
        assert not [request for request in second.received if CANARY.search(request.whole)]


async def test_each_user_has_a_child_with_keys_of_their_own(open_gateway: OpenGateway) -> None:
    command = {"command": sys.executable, "args": [str(PEERS / "key_server.py")], "cwd": str(Path.cwd())}
    servers = {"x": {**command, "required_keys": ["KEY"], "credentials": "user"}}
    async with open_gateway(servers) as gateway:
        with pytest.raises(NeedsSignIn, match="'ann' has not given KEY"):
            await ask(gateway, ANN, "x.whose")
        config = gateway.catalogue.server("x")
        for principal in (ANN, BOB):
            await gateway.accounts.give(config, principal, {"KEY": f"canary-{principal.name}"})
        said = await asyncio.gather(*(ask(gateway, who, "x.whose") for who in [ANN, BOB] * 5))
        keys = [answer.split() for answer in said]
        assert [key for key, _ in keys] == ["canary-ann", "canary-bob"] * 5
        assert len({process for _, process in keys}) == 2


async def test_a_users_child_is_stopped_when_it_is_idle_and_comes_back_with_its_key(open_gateway: OpenGateway) -> None:
    command = {"command": sys.executable, "args": [str(PEERS / "key_server.py")], "cwd": str(Path.cwd())}
    servers = {"x": {**command, "required_keys": ["KEY"], "credentials": "user", "idle_stop": 0.2}}
    async with open_gateway(servers) as gateway:
        for principal in (ANN, BOB):
            await gateway.accounts.give(gateway.catalogue.server("x"), principal, {"KEY": f"canary-{principal.name}"})
        said = [(await ask(gateway, who, "x.whose")).split() for who in (ANN, BOB)]
        for _, process in said:
            await gone(int(process))
        again = [(await ask(gateway, who, "x.whose")).split() for who in (ANN, BOB)]
        assert [key for key, _ in again] == [key for key, _ in said] == ["canary-ann", "canary-bob"]


async def test_what_one_account_was_told_is_not_told_to_the_next(open_gateway: OpenGateway) -> None:
    async with (
        Protected() as remote,
        open_gateway({"x": {"url": remote.url, "cache": {"whoami": "5m"}}}) as gateway,
    ):
        for account in (ANN, BOB):
            await sign_in(gateway, remote, account)
            assert [await ask(gateway, ANN) for _ in range(2)] == [account.name] * 2
        calls = [request for request in remote.seen("/mcp") if '"tools/call"' in request.body]
        assert len(calls) == 2  # the others came from the cache


async def test_whoever_gets_a_revoked_keys_name_meets_nothing_of_its_holder(open_gateway: OpenGateway) -> None:
    command = {"command": sys.executable, "args": [str(PEERS / "key_server.py")], "cwd": str(Path.cwd())}
    own_keys = {**command, "required_keys": ["KEY"], "credentials": "user"}
    async with Protected() as remote, open_gateway({"x": own(remote), "child": own_keys}) as gateway:
        keys = gateway.registry.keys
        first, stored = await keys.create("ann", SCOPES)
        holder = await keys.principal(first)
        assert holder is not None
        await sign_in(gateway, remote, holder)
        await gateway.accounts.give(gateway.catalogue.server("child"), holder, {"KEY": "canary-first"})
        assert await ask(gateway, holder) == "ann"
        assert (await ask(gateway, holder, "child.whose")).startswith("canary-first ")
        await keys.revoke("ann")
        assert await gateway.vault.names(stored.id) == []
        successor = await keys.principal((await keys.create("ann", SCOPES))[0])
        assert successor is not None
        for name in ("x.whoami", "child.whose"):  # neither a connection nor a child of the first is left
            with pytest.raises(NeedsSignIn):
                await ask(gateway, successor, name)


@dataclass
class OffersByAccount(Protected):
    """Has a tool for everybody, and one that only the account has after which it is named."""

    def answer(self, method: str, params: JsonObject, account: str) -> JsonObject:
        outcome = super().answer(method, params, account)
        if method != "tools/list":
            return outcome
        [tool] = outcome["result"]["tools"]
        own = {**tool, "name": f"{account}_report", "description": f"The quarterly report that only {account} reads."}
        return {"result": {**outcome["result"], "tools": [tool, own]}}


@dataclass
class DescribesByAccount(Protected):
    """Describes its tool to each account in other words, and takes other arguments of it."""

    def answer(self, method: str, params: JsonObject, account: str) -> JsonObject:
        outcome = super().answer(method, params, account)
        if method != "tools/list":
            return outcome
        [tool] = outcome["result"]["tools"]
        schema = {"type": "object", "properties": {account: {"type": "string"}}, "additionalProperties": False}
        own = {**tool, "description": f"Searches the workspace Gazette-of-{account}.", "inputSchema": schema}
        return {"result": {**outcome["result"], "tools": [own]}}


async def test_each_user_sees_a_tool_as_their_own_account_describes_it(open_gateway: OpenGateway) -> None:
    async def described(who: Principal) -> tuple[str, list[str]]:
        [tool] = await gateway.verbs.tools(who)
        return tool.description, list(tool.input_schema.get("properties", {}))

    async def found(who: Principal) -> list[str]:
        answer = await gateway.verbs.search("search the workspace gazette", principal=who)
        return [hit.tool.description for hit in answer.hits]

    async def call(who: Principal, **arguments: str) -> str:
        request = tool_call("x.whoami", arguments, Silent(who, session=who.name), whole=True)
        return (await gateway.verbs.call(request)).body["content"][0]["text"]

    async with DescribesByAccount() as remote:
        servers = {"x": own(remote, changed="accept", added="accept")}
        async with open_gateway(servers) as gateway:
            for principal in (ANN, BOB, ANN):
                await sign_in(gateway, remote, principal)
                await gateway.catalogue.renew("x", principal)
                if principal is ANN:
                    assert await described(Principal("carol", SCOPES)) == (UNTOLD, [])
            for who in (ANN, BOB):
                text = f"Searches the workspace Gazette-of-{who.name}."
                assert await described(who) == (text, [who.name])
                assert await found(who) == [text]
                assert await call(who, **{who.name: "x"}) == who.name
            with pytest.raises(BadArguments):
                await call(ANN, bob="x")
            words, _ = await described(Principal("carol", SCOPES))
            assert "Gazette" not in words  # who has not been there is told the name alone
            assert await found(Principal("carol", SCOPES)) == []
        async with open_gateway(servers) as gateway:
            assert [(await described(who))[1] for who in (ANN, BOB)] == [["ann"], ["bob"]]


async def test_the_instructions_name_no_tool_or_parameter_of_another_account(open_gateway: OpenGateway) -> None:
    async def told(who: Principal) -> str:
        return await gateway.protocol().served.instructions(who)

    async with OffersByAccount() as offers, DescribesByAccount() as describes:
        servers = {
            name: own(remote, changed="accept", added="accept") for name, remote in (("x", offers), ("y", describes))
        }
        async with open_gateway(servers) as gateway:
            for who in (LOCAL, ANN, BOB):
                for name, remote in (("x", offers), ("y", describes)):
                    await sign_in(gateway, remote, who, name)
                    await gateway.catalogue.renew(name, who)
            everybody = {who: await told(who) for who in (LOCAL, ANN, BOB)}
            for who, text in everybody.items():
                assert re.findall(r"x\.(\w+)_report", text) == [who.name]
                assert re.findall(r"y\.whoami\((\w+)", text) == [who.name]
            carol = await told(Principal("carol", SCOPES))
            assert "x.whoami(" in carol
            assert not [who.name for who in everybody if who.name in carol]
            assert {who: await told(who) for who in everybody} == everybody


@dataclass
class WritesByAccount(Protected):
    """Has a prompt, a resource, a template and instructions, in other words for each account."""

    def answer(self, method: str, params: JsonObject, account: str) -> JsonObject:
        words = f"Gazette-of-{account}"
        match method:
            case "server/discover":
                offers: JsonObject = {"tools": {}, "prompts": {}, "resources": {}}
                greeting = {"supportedVersions": [MODERN_VERSION], "capabilities": offers, "instructions": words}
                return {"result": greeting}
            case "prompts/list":
                return {"result": {"prompts": [{"name": "plan", "description": words}], "resultType": "complete"}}
            case "resources/list":
                page = {"uri": "x://page", "name": "page", "description": words}
                return {"result": {"resources": [page], "resultType": "complete"}}
            case "resources/templates/list":
                template = {"uriTemplate": "x://{day}", "name": "day", "description": words}
                return {"result": {"resourceTemplates": [template], "resultType": "complete"}}
            case _:
                return super().answer(method, params, account)


async def test_no_user_reads_what_another_account_is_told(open_gateway: OpenGateway) -> None:
    async def words(who: Principal) -> list[str]:
        listing = gateway.catalogue.view(who).listings["x"]
        offered = (*listing.prompts, *listing.resources, *listing.templates)
        return [entry["description"] for entry in offered] + [listing.instructions]

    async with WritesByAccount() as remote:
        async with open_gateway({"x": own(remote, changed="accept", added="accept")}) as gateway:
            await sign_in(gateway, remote, ANN)
            await gateway.catalogue.renew("x", ANN)
            assert await words(BOB) == [""]  # also while Ann's account is the only one
            await sign_in(gateway, remote, BOB)
            await gateway.catalogue.renew("x", BOB)
            assert await words(BOB) == ["Gazette-of-bob"] * 4
            assert await words(ANN) == ["Gazette-of-ann"] * 3 + [""]  # its instructions come with its next listing
            assert await words(Principal("carol", SCOPES)) == [""]


@dataclass
class TeachesByAccount(Protected):
    """Has a skill after each account's name, which it lists for that account only."""

    def answer(self, method: str, params: JsonObject, account: str) -> JsonObject:
        uri = f"skill://{account}/SKILL.md"
        match method:
            case "server/discover":
                offers: JsonObject = {"tools": {}, "resources": {}, "extensions": {SKILLS: {}}}
                return {"result": {"supportedVersions": [MODERN_VERSION], "capabilities": offers}}
            case "skills/list":
                skill = {"uri": uri, "frontmatter": {"name": account}, "resources": [{"uri": uri, "size": 99}]}
                return {"result": {"skills": [skill], "ttlMs": 60_000, "resultType": "complete"}}
            case "resources/read":
                page = {"uri": params["uri"], "text": "changed since"}
                return {"result": {"contents": [page], "resultType": "complete"}}
            case _:
                return super().answer(method, params, account)


async def test_each_user_has_the_skills_of_their_own_account(open_gateway: OpenGateway) -> None:
    async with TeachesByAccount() as remote, open_gateway({"x": own(remote)}) as gateway:
        for who in (ANN, BOB):
            await sign_in(gateway, remote, who)
            await gateway.catalogue.renew("x", who)
        for who in (ANN, BOB, ANN):
            [(_, skill)] = await gateway.verbs.skills.entries(who)
            assert skill["uri"] == f"skill://{who.name}/SKILL.md"
            with pytest.raises(ProtocolViolation, match="its size differs"):
                await gateway.verbs.read_resource(f"skill://x/{who.name}/SKILL.md", Silent(who, session=who.name))


async def test_what_is_held_of_one_account_is_not_held_of_another(open_gateway: OpenGateway) -> None:
    async with DescribesByAccount() as remote, open_gateway({"x": own(remote, changed="hold")}) as gateway:
        for principal in (ANN, BOB):
            await sign_in(gateway, remote, principal)
            await gateway.catalogue.renew("x", principal)
        assert await ask(gateway, ANN) == "ann"
        [tool] = await gateway.verbs.tools(BOB)
        assert tool.description.startswith("[Held: ")
        assert "Gazette" not in tool.description  # neither the text that nobody has accepted, nor Ann's
        with pytest.raises(Denied, match="is held"):
            await ask(gateway, BOB)
        [change] = gateway.catalogue.held_entries("x").values()
        await gateway.catalogue.approve(change, "somebody")
        assert [await ask(gateway, who) for who in (ANN, BOB)] == ["ann", "bob"]


async def test_each_user_sees_what_their_own_account_offers(open_gateway: OpenGateway) -> None:
    async def seen(who: Principal) -> list[str]:
        return sorted(tool.name for tool in await gateway.verbs.tools(who))

    async def found(who: Principal) -> set[str]:
        answer = await gateway.verbs.search("quarterly report", principal=who)
        return {hit.tool.name for hit in answer.hits} | {each.hit.tool.name for each in answer.withheld}

    async with OffersByAccount() as remote:
        servers = {"x": own(remote, changed="accept", added="accept")}
        async with open_gateway(servers) as gateway:
            for principal in (ANN, BOB):
                await sign_in(gateway, remote, principal)
                await gateway.catalogue.renew("x", principal)
            assert [await seen(who) for who in (ANN, BOB)] == [["ann_report", "whoami"], ["bob_report", "whoami"]]
            assert [await found(who) - {"whoami"} for who in (ANN, BOB)] == [{"ann_report"}, {"bob_report"}]
            assert await seen(Principal("carol", SCOPES)) == ["whoami"]  # what all accounts have in common
            with pytest.raises(UnknownName):
                await ask(gateway, BOB, "x.ann_report")
            assert await ask(gateway, ANN, "x.ann_report") == "ann"
        remote.tokens.clear()
        remote.refresh_tokens.clear()
        async with open_gateway(servers) as gateway:  # the tools stay known, also when the sign-in has ended
            assert [await seen(who) for who in (ANN, BOB)] == [["ann_report", "whoami"], ["bob_report", "whoami"]]


async def test_users_who_connect_at_once_are_all_listed(open_gateway: OpenGateway) -> None:
    async with OffersByAccount() as remote:
        async with open_gateway({"x": own(remote, changed="accept", added="accept")}) as gateway:
            listed = asyncio.Event()

            def watch(old: Snapshot, new: Snapshot) -> None:
                if set(new.listings["x"].accounts) == {"ann", "bob"}:
                    listed.set()

            gateway.catalogue.watch(watch)
            for principal in (ANN, BOB):
                await sign_in(gateway, remote, principal)
            await asyncio.gather(*(ask(gateway, who) for who in (ANN, BOB)))
            await listed.wait()
