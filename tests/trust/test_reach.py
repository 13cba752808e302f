"""What is hidden or held cannot be called: by any name, in any dialect, by a script, or as a prompt."""

from collections.abc import Awaitable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.conftest import OpenGateway, peer
from tests.trust.conftest import PROMPT, READ, SEND, TEMPLATE, Offer
from wicket_mcp import Gateway
from wicket_mcp.codec import encode
from wicket_mcp.config.model.policy import Rule
from wicket_mcp.config.model.server import ServerConfig
from wicket_mcp.dialects import factory
from wicket_mcp.dialects.base import ToolCall
from wicket_mcp.errors import WicketError
from wicket_mcp.model import LOCAL, JsonObject, Listing, Principal, Silent, Tool
from wicket_mcp.store.model import AuditQuery
from wicket_mcp.store.open import open_store
from wicket_mcp.trust.pins import Pins, digest_of
from wicket_mcp.trust.rules import Call, Rules

TO: JsonObject = {"to": "ann"}


def attempts(tool: str = "send") -> Iterator[tuple[str, str, JsonObject]]:
    """Every way to call a tool of `m`: dialect, tool of ours, arguments."""
    for name in (f"m.{tool}", tool, f"m__{tool}", f"m/{tool}", "shortcut" if tool == "send" else tool.upper()):
        yield "native", "call_tool", {"name": name, "arguments": TO}
    yield "native", tool, TO
    yield "native", f"m__{tool}", TO
    yield "native", "run_script", {"code": f"return await m.{tool}(to='ann')"}
    yield "native", "run_script", {"code": f"return await tools.call('m.{tool}', {{'to': 'ann'}})"}
    yield "native", "run_script", {"code": f"return await m.{tool}({{to: 'ann'}})", "language": "javascript"}
    yield "native", "run_script", {"code": f"return m.{tool}({{to='ann'}}):await()", "language": "lua"}
    yield "flat", f"m__{tool}", TO
    yield "lua", "execute", {"script": f"return m.{tool}({{to='ann'}}):await()"}
    for name in (f"m.{tool}", tool, tool.upper(), f"m__{tool}"):
        yield "meta", "TOOL_CALL", {"tool_name": name, "arguments": TO}
    yield "chain", "call_tool_chain", {"code": f"return m.{tool}({{to: 'ann'}})"}
    yield "broker", "broker_invoke", {"server": "m", "tool": tool, "args": TO}
    yield "broker", f"m__{tool}", TO
    yield "bridge", f"m__{tool}", TO
    yield "bridge", f"m_{tool}", TO


DIALECTS = {"native", "flat", "lua", "meta", "chain", "broker"}  # bridge has those that it installed


async def reaches(
    gateway: Gateway, dialect: str, name: str, arguments: JsonObject, principal: Principal = LOCAL
) -> bool:
    """Whether the call reached the server: it answers `it ran` to every call."""
    menu = factory.menu((dialect,), gateway.config, lambda: gateway.registry)
    try:
        body = await menu.call(gateway.verbs, name, ToolCall(arguments, Silent(principal)))
    except WicketError:
        return False
    return b"it ran" in encode(body)


async def test_what_may_be_called_is_reached_in_every_dialect(offer: Offer, open_gateway: OpenGateway) -> None:
    """The attempts mean something: without a hold, each dialect has one that works."""
    async with open_gateway({"m": offer(SEND, READ)}, aliases={"shortcut": "m.send"}) as gateway:
        await gateway.tools()
        reached = {
            dialect for dialect, name, arguments in attempts() if await reaches(gateway, dialect, name, arguments)
        }
    assert reached == DIALECTS


@pytest.mark.parametrize("why", ["held", "denied", "asked"])
async def test_what_is_held_or_hidden_is_reached_in_none(why: str, offer: Offer, open_gateway: OpenGateway) -> None:
    policy = [{"action": {"denied": "deny", "asked": "ask"}[why], "tool": "send"}] if why in ("denied", "asked") else []
    server = offer(SEND, READ)
    async with open_gateway({"m": server}, aliases={"shortcut": "m.send"}, policy=policy) as gateway:
        await gateway.tools()
        if why == "held":
            offer({**SEND, "description": "Another."}, READ)
            await gateway.catalogue.renew("m")
        reached = [each for each in attempts() if await reaches(gateway, *each)]
        assert reached == []
        records = [each for each in await gateway.store.recent_calls(LOCAL, 99) if each.tool == "send" and each.server]
        rules = {"held": "changed: hold", "denied": "rule 1: deny", "asked": "rule 1: ask"}
        assert {(each.rule, each.outcome) for each in records} == {(rules[why], "denied")}
        assert len(records) >= 10, "every decision is in the audit with its rule"
        assert (await gateway.call("m.read"))["content"], "what is not concerned goes on"


GUEST = Principal("guest", frozenset({"discover", "invoke"}))
HIDING: dict[str, tuple[dict[str, Any], dict[str, Any], Principal]] = {
    "servers.m.denied_tools": ({"denied_tools": ["se*"]}, {}, LOCAL),
    "servers.m.allowed_tools": ({"allowed_tools": ["read"]}, {}, GUEST),
    "profiles.p.tools": ({}, {"tools": ["m.read"]}, replace(GUEST, profile="p")),
    "profiles.p.servers": ({}, {"servers": ["other"]}, replace(GUEST, profile="p")),
    "scope invoke": ({}, {}, Principal("looker", frozenset({"discover"}))),
    "scope discover": ({}, {}, Principal("caller", frozenset({"invoke"}))),
}
"""What hides `m.send` from somebody: the options of its server, a profile, the principal."""


@pytest.mark.parametrize("rule", HIDING)
async def test_the_audit_names_the_option_that_hid_a_tool(rule: str, offer: Offer, open_gateway: OpenGateway) -> None:
    options, profile, principal = HIDING[rule]
    profiles = {"p": profile} if profile else {}
    names = {"m": offer(SEND, READ, options=options), "other": peer("Echo")}
    async with open_gateway(names, aliases={"shortcut": "m.send"}, profiles=profiles) as gateway:
        await gateway.tools()
        store, unrecorded = gateway.store, list[tuple[str, str, JsonObject]]()
        for attempt in attempts():
            before = len(await store.find_calls(AuditQuery(principal=principal.name, limit=99)))
            reached = await reaches(gateway, *attempt, principal)
            assert not reached or rule == "scope discover", attempt
            records = await store.find_calls(AuditQuery(principal=principal.name, limit=99))
            new = [each for each in records[: len(records) - before] if each.outcome != "ok"]
            assert {each.rule for each in new} <= {f"{rule}: deny"}
            assert {each.outcome for each in new} <= {"denied", "unknown_name"}
            if not new and not reached:
                unrecorded.append(attempt)
        if rule != "scope discover":  # without it, what can be named can be called
            # A script has names only for what its caller sees; without the scope, it is not even begun.
            assert all("code" in arguments or "script" in arguments for _, _, arguments in unrecorded), unrecorded
            assert bool(unrecorded) is not rule.startswith("scope ")


async def test_the_audit_names_the_profile_that_hid_a_prompt_or_a_resource(
    offer: Offer, open_gateway: OpenGateway
) -> None:
    caller = Silent(replace(GUEST, profile="p"))
    servers = {"m": offer(SEND, prompts=[PROMPT], contents=CONTENTS), "other": peer("Echo")}
    async with open_gateway(servers, profiles={"p": {"servers": ["other"]}}) as gateway:
        await gateway.tools()
        for work in (gateway.verbs.get_prompt("m/greet", None, caller), gateway.verbs.read_resource(MAIL, caller)):
            with pytest.raises(WicketError, match="No (prompt|resource) named"):
                await work
        records = await gateway.store.find_calls(AuditQuery(principal="guest"))
        assert [(each.tool, each.rule) for each in records] == [
            (MAIL, "profiles.p.servers: deny"),
            ("m/greet", "profiles.p.servers: deny"),
        ]


MAIL = "mcp://m/mail://1"
FATES = st.sampled_from(["free", "changed", "added", "gone", "hidden"])
CONTENTS = [{"uri": "mail://1", "text": "it ran"}]
MESSAGES = [{"role": "user", "content": {"type": "text", "text": "it ran"}}]


@settings(max_examples=12)
@given(st.fixed_dictionaries({"send": FATES, "read": FATES, "drop": FATES, "prompt": FATES, "template": FATES}))
async def test_what_is_not_visible_is_not_callable_and_what_is_held_is_not_callable(fates: dict[str, str]) -> None:
    """Whatever happens to tools, prompts and templates: in every dialect, by script, by resource, by prompt."""
    with TemporaryDirectory() as folder:
        listing = Path(folder) / "listing.json"
        listing.write_bytes(encode(_listing(fates, later=False)))
        hidden = [name for name, fate in fates.items() if fate == "hidden"]
        server = peer("Mutates", env={"LISTING": str(listing)}, changed="hold", added="hold", denied_tools=hidden)
        async with Gateway.open({"servers": {"m": server}, "state_dir": f"{folder}/state"}) as gateway:
            await gateway.tools()
            listing.write_bytes(encode(_listing(fates, later=True)))
            await gateway.catalogue.renew("m")
            shown = {tool.name: tool.description for tool in await gateway.tools()}
            for name in ("send", "read", "drop"):
                reached = {each[0] for each in attempts(name) if await reaches(gateway, *each)}
                assert reached == (DIALECTS if fates[name] == "free" else set()), name
                assert (name in shown) == (fates[name] not in ("gone", "hidden"))
                held = fates[name] in ("changed", "added")
                assert shown.get(name, "").startswith("[Held: ") == held, "what is held is found, and marked"
            await _check_others(gateway, fates)
            denied = await gateway.store.find_calls(AuditQuery(outcome="denied", limit=999))
            rules = {f"{fate}: hold" for fate in fates.values() if fate in ("changed", "added")}
            rules |= {"servers.m.denied_tools: deny" for name in ("send", "read", "drop") if fates[name] == "hidden"}
            assert {each.rule for each in denied} == rules, "every decision is in the audit with its rule"


async def _check_others(gateway: Gateway, fates: dict[str, str]) -> None:
    async def reached(work: Awaitable[Any]) -> bool:
        try:
            return b"it ran" in encode(await work)
        except WicketError:
            return False

    prompt, template = fates["prompt"], fates["template"]
    assert await reached(gateway.verbs.get_prompt("m/greet", None, Silent(LOCAL))) == (prompt in ("free", "hidden"))
    for address in ("mcp://m/mail://1", "mail://1"):
        read = await reached(gateway.verbs.read_resource(address, Silent(LOCAL)))
        assert not (read and template in ("changed", "added")), address
        assert read or template != "free" or address == "mail://1"


def _listing(fates: dict[str, str], *, later: bool) -> JsonObject:
    """What the server offers before and after something happened to each of its entries."""

    def offered(name: str, body: JsonObject) -> list[JsonObject]:
        if fates[name] == ("gone" if later else "added"):
            return []
        return [{**body, "description": "Another."} if later and fates[name] == "changed" else body]

    tools = [entry for name in ("send", "read", "drop") for entry in offered(name, {**SEND, "name": name})]
    prompts, templates = offered("prompt", PROMPT), offered("template", TEMPLATE)
    return {"tools": tools, "prompts": prompts, "templates": templates, "contents": CONTENTS, "messages": MESSAGES}


names = st.sampled_from(["send", "read", "drop"])
texts = st.text(st.characters(codec="utf-8"), max_size=30)
definitions = st.fixed_dictionaries(
    {"description": texts}, optional={"title": texts, "annotations": st.just({"a": True})}
)


@settings(max_examples=25)
@given(st.lists(st.dictionaries(names, definitions), min_size=2, max_size=6))
async def test_whatever_a_server_says_only_what_was_accepted_is_shown(history: list[dict[str, JsonObject]]) -> None:
    """However a server changes: what is not held has an accepted digest, and no held text is shown."""
    with TemporaryDirectory() as folder:
        store = await open_store(Path(folder) / "wicket.db")
        try:
            await _follow(Pins(store), history)
        finally:
            await store.close()


async def _follow(pins: Pins, history: list[dict[str, JsonObject]]) -> None:
    accepted = set[tuple[str, str]]()
    server = ServerConfig(name="m", command="x", changed="hold", added="hold")
    await pins.load()
    for offered in history:
        tools = tuple(Tool("m", name, {"name": name, **body}) for name, body in offered.items())
        review = pins.review(server, "source", Listing("m", tools=tools))
        await pins.save(review.pins)
        accepted |= {(pin.name, pin.digest) for pin in review.pins}
        for tool in tools:
            is_held = ("tool", tool.name) in review.held
            assert is_held == ((tool.name, digest_of("tool", tool.definition)) not in accepted)
            shown = next(each for each in review.listing.tools if each.name == tool.name)
            assert is_held == shown.description.startswith("[Held: ")
        if accepted:
            assert not review.pins or len(accepted) == len(review.pins), "only the first sight pins unasked"


MATCHES = {"*": ("send", "read"), "send": ("send",), "r*": ("read",)}
rules_of = st.builds(Rule, action=st.sampled_from(["allow", "ask", "deny"]), tool=st.sampled_from(list(MATCHES)))


@settings(max_examples=60)
@given(st.lists(rules_of))
def test_the_first_rule_in_the_file_decides(rules: list[Rule]) -> None:
    for tool in ("send", "read"):
        expected = next((rule.action for rule in rules if tool in MATCHES[rule.tool]), None)
        decision = Rules(rules).decide(Call("m", tool, {}, {}, "local"))
        assert (decision.action if decision else None) == expected
