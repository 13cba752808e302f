"""Rules about calls: what they match, who is asked, and what an approval is good for."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tests.conftest import OpenGateway, peer
from tests.trust.conftest import READ, SEND, Offer
from wicket_mcp import Gateway
from wicket_mcp.config.model.config import Config
from wicket_mcp.config.model.policy import PolicyConfig, Rule
from wicket_mcp.errors import ConfigError, Denied
from wicket_mcp.identity.approver import Approver
from wicket_mcp.model import LOCAL, JsonObject, Principal, Silent
from wicket_mcp.request import tool_call
from wicket_mcp.scripting import Script
from wicket_mcp.store.model import CallRecord
from wicket_mcp.trust.rules import Call, Rules

KEEPER = Principal("ann", frozenset({"discover", "invoke"}))


@dataclass
class Person:
    """A caller whose client shows its user forms; `decide` is that user."""

    decide: Callable[[str], str]
    principal: Principal = LOCAL
    session: str = "s"
    client_name: str = "desk"
    capabilities: JsonObject = field(default_factory=lambda: {"elicitation": {}})
    resumes: bool = False
    log_level: str = ""
    heard: list[str] = field(default_factory=list[str])
    choices: list[list[str]] = field(default_factory=list[list[str]])

    def notify(self, method: str, params: JsonObject) -> None:
        return None

    async def ask(self, method: str, params: JsonObject) -> JsonObject:
        assert method == "elicitation/create"
        assert params["requestedSchema"]["required"] == ["decision"]
        self.heard.append(params["message"])
        self.choices.append(params["requestedSchema"]["properties"]["decision"]["enum"])
        return {"action": "accept", "content": {"decision": self.decide(params["message"])}}


def yes(_: str) -> str:
    return "approve"


def no(_: str) -> str:
    return "refuse"


async def call(gateway: Gateway, person: Any, name: str, **arguments: Any) -> JsonObject:
    return (await gateway.verbs.call(tool_call(name, arguments, person))).body


async def last(gateway: Gateway) -> CallRecord:
    return (await gateway.store.recent_calls(LOCAL, 1))[0]


@pytest.mark.parametrize(
    ("rule", "matches"),
    [
        (Rule(), True),
        (Rule(server="ma*"), True),
        (Rule(server="other"), False),
        (Rule(tool="send*"), True),
        (Rule(tool="mail.send_*"), True),
        (Rule(tool="read*"), False),
        (Rule(annotation="destructiveHint"), True),
        (Rule(annotation="!destructiveHint"), False),
        (Rule(annotation="readOnlyHint"), False),
        (Rule(arguments={"to": {"pattern": "@example[.]com$"}}), True),
        (Rule(arguments={"to": {"pattern": "@other[.]com$"}}), False),
        (Rule(arguments={"to": {"not": {"pattern": "@example[.]com$"}}}), False),
        (Rule(arguments={"cc": {}}), False),
        (Rule(arguments={"to": {}, "amount": {"minimum": 100}}), True),
        (Rule(principal="local"), True),
        (Rule(principal="ci-*"), False),
        (Rule(profile="work"), True),
        (Rule(profile="home"), False),
        (Rule(effects=("sends",)), True),
        (Rule(effects=("deletes", "pays")), False),
        (Rule(labels=("untrusted",)), False),
    ],
)
def test_what_a_rule_is_about(rule: Rule, matches: bool) -> None:
    made = Call("mail", "send_message", {"to": "bob@example.com", "amount": 100}, {}, "local", "work")
    assert (Rules([rule]).decide(made) is not None) == matches


def nested(levels: int) -> JsonObject:
    """An object of this many levels; nothing deeper than 64 is checked."""
    return {"a": nested(levels - 1)} if levels else {}


OURS: JsonObject = {"pattern": "@example[.]com$"}
CHEAP: JsonObject = {"maximum": 100}


@pytest.mark.parametrize(
    ("conditions", "arguments", "allowed", "denied"),
    [
        ({"to": OURS}, {"to": "bob@example.com"}, True, True),
        ({"to": OURS}, {"to": "eve@evil.example"}, False, False),
        ({"to": OURS}, {"to": "eve@evil.example", "more": nested(100)}, False, False),
        ({"to": OURS}, {"to": "bob@example.com", "more": nested(100)}, True, True),
        ({"to": OURS}, {"to": nested(100)}, False, True),
        ({"to": OURS}, {"to": ["eve@evil.example"]}, False, True),
        ({"to": {"items": OURS}}, {"to": [["eve@evil.example"]]}, False, True),
        ({"to": {"items": OURS}}, {"to": ["bob@example.com"]}, True, True),
        ({"to": {"items": OURS}}, {"to": ["bob@example.com", "eve@evil.example"]}, False, False),
        ({"to": {"anyOf": [OURS, {"const": "me"}]}}, {"to": ["eve@evil.example"]}, False, True),
        ({"to": {"not": OURS}}, {"to": ["eve@evil.example"]}, False, True),
        ({"to": {"not": OURS}}, {"to": "eve@evil.example"}, True, True),
        ({"to": {"format": "email"}}, {"to": "somebody"}, False, False),
        ({"to": {"properties": {"mail": OURS}}}, {"to": {"mail": ["eve@evil.example"]}}, False, True),
        ({"amount": CHEAP}, {"amount": "1000000"}, False, True),
        ({"amount": CHEAP}, {"amount": 99.5}, True, True),
        ({"to": OURS}, {"to": "\ud800@example.com"}, False, True),
    ],
)
def test_what_allows_a_call_must_surely_fit_and_what_refuses_it_possibly(
    conditions: JsonObject, arguments: JsonObject, allowed: bool, denied: bool
) -> None:
    """A model that may choose further arguments, or their types, must not choose itself out of a rule."""
    made = Call("mail", "send", arguments, {}, "local")
    decisions = [Rules([Rule(action=action, arguments=conditions)]).decide(made) for action in ("allow", "deny", "ask")]
    assert [decision is not None for decision in decisions] == [allowed, denied, denied]


def test_the_first_rule_that_matches_decides() -> None:
    rules = Rules([Rule(action="allow", tool="read*"), Rule(action="deny", name="no mail"), Rule(action="ask")])
    decided = [rules.decide(Call("m", tool, {}, {}, "local")) for tool in ("read", "send")]
    assert [(each.action, each.rule) for each in decided if each] == [("allow", "rule 1"), ("deny", "no mail")]


@pytest.mark.parametrize(
    "policy",
    [
        [{"action": "ask", "server": "m"}],
        {"flow": "ask", "rules": [{"action": "ask", "server": "m"}]},
    ],
)
def test_rules_stand_in_the_file_in_two_ways(policy: Any) -> None:
    config = Config.from_dict({"servers": {"m": {"command": "x"}}, "policy": policy})
    assert config.policy.rules == (Rule(action="ask", server="m"),)


def test_a_misspelt_rule_is_named() -> None:
    with pytest.raises(ConfigError, match=r"policy\[0\]\.acton: unknown key"):
        Config.from_dict({"servers": {}, "policy": [{"acton": "ask"}]})
    with pytest.raises(ConfigError, match="is not a JSON Schema"):
        Rules([Rule(arguments={"to": {"type": "strnig"}})])
    misspelt = {"to": {"anyOf": [{"patern": "@example[.]com$"}]}}
    with pytest.raises(ConfigError, match=r"policy\[0\]\.arguments: .* to\.anyOf has .*'patern'.* mean 'pattern'"):
        Rules([Rule(action="allow", arguments=misspelt)])


async def test_a_call_that_is_refused_says_by_which_rule(offer: Offer, open_gateway: OpenGateway) -> None:
    policy = [{"name": "no sending", "action": "deny", "tool": "send"}]
    async with open_gateway({"m": offer(SEND, READ)}, policy=policy) as gateway:
        with pytest.raises(Denied, match="the rule 'no sending' refuses it"):
            await gateway.call("m.send", {"to": "ann"})
        assert (await last(gateway)).rule == "no sending: deny"
        assert (await gateway.call("m.read"))["content"]
        assert (await last(gateway)).rule == ""


async def test_a_person_is_asked_about_the_very_call(offer: Offer, open_gateway: OpenGateway) -> None:
    async with open_gateway({"m": offer(SEND)}, policy=[{"action": "ask", "annotation": "!readOnlyHint"}]) as gateway:
        person = Person(yes)
        assert (await call(gateway, person, "m.send", to="ann", text="hi"))["content"]
        assert 'May local (client "desk") call m.send?' in person.heard[0]
        assert '"to": "ann"' in person.heard[0]
        assert (await last(gateway)).rule == "rule 1: ask, approved by local"
        await call(gateway, person, "m.send", to="ann", text="hi")
        assert len(person.heard) == 2, "a yes is spent by its call"
        with pytest.raises(Denied, match="the user refused"):
            await call(gateway, Person(no), "m.send", to="ann")
        assert (await last(gateway)).rule == "rule 1: ask, refused by the user"


async def test_nothing_that_a_model_says_is_an_approval(offer: Offer, open_gateway: OpenGateway) -> None:
    wide = {**SEND, "inputSchema": {"type": "object"}}
    async with open_gateway({"m": offer(wide)}, policy=[{"action": "ask"}]) as gateway:
        for claims in ({"confirm": True}, {"decision": "approve"}, {"approved_by": "local"}):
            with pytest.raises(Denied, match="requires a person's approval"):
                await gateway.call("m.send", claims)
        resumed = tool_call("m.send", {}, Silent(), resume={"inputResponses": {"q1": {"action": "accept"}}})
        with pytest.raises(Denied, match="requires a person's approval"):
            await gateway.verbs.call(resumed)


async def test_who_cannot_be_asked_waits_for_a_person_at_the_gateway(offer: Offer, open_gateway: OpenGateway) -> None:
    policy = [{"action": "ask", "tool": "send"}]
    async with open_gateway({"m": offer(SEND)}, policy=policy) as gateway, gateway_of(open_gateway, offer) as other:
        with pytest.raises(Denied):
            await gateway.call("m.send", {"to": "ann"})
        with pytest.raises(Denied, match="Ask the user to approve call-") as refused:
            await gateway.call("m.send", {"to": "ann"})
        (question,) = await gateway.store.approvals(0)
        assert question.id in str(refused.value)
        await other.store.approve(question.id, "bob", 0)
        with pytest.raises(Denied):
            await gateway.call("m.send", {"to": "eve"})
        with pytest.raises(Denied):
            await call(gateway, Silent(KEEPER), "m.send", to="ann")
        assert (await gateway.call("m.send", {"to": "ann"}))["content"]
        assert (await last(gateway)).rule == "rule 1: ask, approved by bob"
        with pytest.raises(Denied):
            await gateway.call("m.send", {"to": "ann"})


def gateway_of(open_gateway: OpenGateway, offer: Offer) -> Any:
    return open_gateway({"m": offer(SEND)})


async def test_an_approval_does_not_outlive_its_rules(offer: Offer, open_gateway: OpenGateway) -> None:
    async with open_gateway({"m": offer(SEND)}, policy=[{"action": "ask"}]) as gateway:
        with pytest.raises(Denied):
            await gateway.call("m.send", {"to": "ann"})
        (question,) = await gateway.store.approvals(0)
        await gateway.store.approve(question.id, "bob", 0)
    async with open_gateway({"m": offer(SEND)}, policy=[{"action": "ask", "name": "new"}]) as gateway:
        with pytest.raises(Denied):
            await gateway.call("m.send", {"to": "ann"})


@pytest.mark.parametrize(
    ("language", "source"),
    [
        ("python", "return [await m.send(to='ann'), await m.read()]"),
        ("javascript", "return [await m.send({to: 'ann'}), await m.read({})]"),
        ("lua", "return {m.send({to='ann'}):await(), m.read({}):await()}"),
    ],
)
async def test_a_script_waits_at_the_call_and_goes_on(
    language: str, source: str, offer: Offer, open_gateway: OpenGateway
) -> None:
    async with open_gateway({"m": offer(SEND, READ)}, policy=[{"action": "ask", "tool": "send"}]) as gateway:
        person = Person(yes)
        outcome = await gateway.verbs.run(Script(source, language), person)
        assert (outcome.explain(), outcome.value) == ("", ["it ran", "it ran"])
        assert len(person.heard) == 1
        outcome = await gateway.verbs.run(Script(source, language), Person(no))
        assert "the user refused" in outcome.explain()


async def test_a_script_whose_client_cannot_ask_is_run_again_after_the_approval(
    offer: Offer, open_gateway: OpenGateway
) -> None:
    source = "return [await m.read(), await m.send(to='ann')]"
    async with open_gateway({"m": offer(SEND, READ)}, policy=[{"action": "ask", "tool": "send"}]) as gateway:
        refused = await gateway.verbs.run(Script(source, "python"), Silent())
        (question,) = await gateway.store.approvals(0)
        again = "After that, run the script again (its earlier calls are made again)."
        assert f"Ask the user to approve {question.id} in Wicket. {again}" in refused.explain()
        await gateway.store.approve(question.id, "bob", 0)
        outcome = await gateway.verbs.run(Script(source, "python"), Silent())
        assert (outcome.explain(), outcome.value) == ("", ["it ran", "it ran"])
        assert (await last(gateway)).rule == "rule 1: ask, approved by bob"


async def test_a_held_tool_is_accepted_by_the_owner_and_by_nobody_else(offer: Offer, open_gateway: OpenGateway) -> None:
    async with open_gateway({"m": offer(SEND)}) as gateway:
        await gateway.tools()
        offer({**SEND, "description": "Another."})
        await gateway.catalogue.renew("m")
        stranger = Person(yes, principal=KEEPER)
        with pytest.raises(Denied, match="is held"):
            await call(gateway, stranger, "m.send", to="ann")
        assert stranger.heard == []
        with pytest.raises(Denied, match="is held"):
            await call(gateway, Person(no), "m.send", to="ann")
        owner = Person(yes)
        assert (await call(gateway, owner, "m.send", to="ann"))["content"]
        assert '+  "description": "Another."' in owner.heard[0]
        assert (await gateway.store.pins("m"))[-1].approved_by == "local by desk"
        assert (await last(gateway)).rule == "changed: hold, approved by local by desk"


async def test_with_a_passphrase_a_form_accepts_no_definition(offer: Offer, open_gateway: OpenGateway) -> None:
    """W5"""
    async with open_gateway({"m": offer(SEND)}) as gateway:
        await gateway.tools()
        offer({**SEND, "description": "Another."})
        await gateway.catalogue.renew("m")
        await Approver(gateway.store).change("correct horse")
        person = Person(yes)
        with pytest.raises(Denied, match="is held"):
            await call(gateway, person, "m.send", to="ann")
        assert person.heard == []


async def test_a_form_shows_the_beginning_and_the_end_and_offers_no_more_than_once(
    offer: Offer, open_gateway: OpenGateway
) -> None:
    """W7: a payload behind the first characters of an argument was approved unseen."""
    async with open_gateway({"m": offer(SEND)}, policy=[{"action": "ask"}]) as gateway:
        person = Person(yes)
        await call(gateway, person, "m.send", text=f"a{'x' * 5000}; rm -rf ~", to="ann\u3164\U000e0100\u061c")
        await call(gateway, person, "m.send", text="hi", to="ann", more=list(range(5000)))
        await call(gateway, person, "m.send", text=f"{'y' * 2000}; rm -rf ~", to="ann")
        made, many, whole = person.heard
        assert '"text": "axxx' in made
        assert 'xx; rm -rf ~"' in made
        assert "x … (4,711 more characters) … x" in made
        assert '"to": "ann\\u3164\\udb40\\udd00\\u061c"' in made, "no argument is pushed out of sight by another"
        assert "more characters) … " in many
        assert many.endswith("4999\n  ]\n}")
        assert f'{"y" * 2000}; rm -rf ~"' in whole
        assert person.choices == [["approve", "refuse"]] * 2 + [["approve", "for this session", "always", "refuse"]]
        assert [("dashboard shows it under Approvals, as call-" in each) for each in person.heard] == [
            True,
            True,
            False,
        ]
        assert await gateway.store.approvals(0) == [], "what was answered does not wait"


async def test_while_a_form_is_open_the_gateway_shows_all_of_the_call(offer: Offer, open_gateway: OpenGateway) -> None:
    """W7: where a form hides something, the dashboard and `wicket approve` show it."""
    async with open_gateway({"m": offer(SEND)}, policy=[{"action": "ask"}]) as gateway:
        seen: list[str] = []

        class Reader(Person):
            async def ask(self, method: str, params: JsonObject) -> JsonObject:
                (question,) = await gateway.store.approvals(0)
                seen.append(question.arguments)
                assert question.id in params["message"]
                return await super().ask(method, params)

        await call(gateway, Reader(yes), "m.send", text="x" * 90_000, to="ann")
        assert [json.loads(arguments)["text"] for arguments in seen] == ["x" * 90_000]


async def test_a_change_too_long_for_a_form_is_accepted_where_all_of_it_is_shown(
    offer: Offer, open_gateway: OpenGateway
) -> None:
    """W7: accepting a definition is for good, so none is accepted of which a part was not shown."""
    async with open_gateway({"m": offer(SEND)}) as gateway:
        await gateway.tools()
        offer({**SEND, "description": "So long. " * 1000})
        await gateway.catalogue.renew("m")
        person = Person(yes)
        with pytest.raises(Denied, match="Ask the user to look at it and to approve m.send in Wicket"):
            await call(gateway, person, "m.send", to="ann")
        assert person.heard == []


async def test_a_call_to_a_server_that_nobody_configured_obeys_the_rules_too(open_gateway: OpenGateway) -> None:
    policy = [{"name": "no strangers", "action": "deny", "server": "https://*", "tool": "send*"}]
    async with open_gateway({}, policy=policy) as gateway:
        guests = gateway.registry.guests
        with pytest.raises(Denied, match="the rule 'no strangers' refuses it"):
            await guests.call("https://mcp.example.com/", "send_mail", {}, {}, Silent(), "example")
        assert (await last(gateway)).rule == "no strangers: deny"
        allowed = replace(gateway.config, policy=PolicyConfig(rules=(Rule(name="another", action="deny"),)))
        gateway.apply(allowed)
        with pytest.raises(Denied, match="the rule 'another' refuses it"):
            await guests.call("https://mcp.example.com/", "send_mail", {}, {}, Silent(), "example")


async def test_a_rule_may_be_about_a_profile(offer: Offer, open_gateway: OpenGateway) -> None:
    profiles = {"work": {"servers": ["m"]}, "home": {"servers": ["m"]}}
    policy = [{"name": "not at work", "action": "deny", "profile": "work", "tool": "send"}]
    async with open_gateway({"m": offer(SEND)}, policy=policy, profiles=profiles) as gateway:
        for profile in ("", "home"):
            assert (await call(gateway, Silent(through(profile)), "m.send", to="ann"))["content"]
        with pytest.raises(Denied, match="the rule 'not at work' refuses it"):
            await call(gateway, Silent(through("work")), "m.send", to="ann")


def through(profile: str) -> Principal:
    return msgspec.structs.replace(LOCAL, profile=profile)


async def test_without_rules_no_layer_stands_in_the_way(open_gateway: OpenGateway) -> None:
    """The stack of a server is a chain of closures: those of rules and pins are not among them."""
    async with open_gateway({"echo": peer("Echo")}) as gateway:
        assert _layers(gateway, "echo").isdisjoint({"approve", "held"})
    async with open_gateway({"echo": peer("Echo", changed="hold")}, policy=[{"server": "other"}]) as gateway:
        assert _layers(gateway, "echo") & {"approve", "held"} == {"held"}
    async with open_gateway({"echo": peer("Echo")}, policy=[{"server": "echo"}]) as gateway:
        assert "approve" in _layers(gateway, "echo")


def _layers(gateway: Gateway, server: str) -> set[str]:
    """The modules of the layers around a call of this server's tools."""
    pipeline: Any = gateway._rooms.pipeline  # pyright: ignore[reportPrivateUsage]
    seen: set[str] = set()
    handler: Any = pipeline._direct(gateway.catalogue.servers[server])
    while handler is not None:
        seen.add(handler.__module__.rpartition(".")[2] if hasattr(handler, "__module__") else "")
        cells = {
            name: cell.cell_contents
            for name, cell in zip(handler.__code__.co_freevars, handler.__closure__ or (), strict=True)
        } if hasattr(handler, "__code__") else {}  # fmt: skip
        handler = cells.get("inner")
    return seen


async def test_the_time_of_a_person_does_not_count_against_a_script(offer: Offer, open_gateway: OpenGateway) -> None:
    """B11: a script was killed while it asked."""
    limits = {"wall": 0.9}
    async with open_gateway({"m": offer(SEND)}, policy=[{"action": "ask"}], scripts=limits) as gateway:
        loop = asyncio.get_running_loop()

        class Slow(Person):
            async def ask(self, method: str, params: JsonObject) -> JsonObject:
                until = asyncio.Event()
                loop.call_later(1.0, until.set)
                await until.wait()
                return await super().ask(method, params)

        source = "return [await m.send(to='ann'), await m.send(to='bob')]"
        outcome = await gateway.verbs.run(Script(source, "python"), Slow(yes))
        assert (outcome.explain(), outcome.value) == ("", ["it ran", "it ran"])
        endless = await gateway.verbs.run(Script("await m.send(to='eve')\nwhile True: pass", "python"), Slow(yes))
        assert endless.problem is not None
        assert endless.problem.kind in ("wall", "cpu"), "its own time counts as before"


async def test_a_reload_keeps_what_was_approved_under_a_rule_that_did_not_change(
    offer: Offer, open_gateway: OpenGateway
) -> None:
    """B19: a word of a description that changed forgot all approvals "for this session"."""
    rules = (Rule(action="deny", tool="drop"), Rule(action="ask", tool="send"))
    async with open_gateway({"m": offer(SEND)}, policy=[{"action": "ask", "tool": "send"}]) as gateway:

        def apply(*changed: Rule) -> None:
            gateway.apply(replace(gateway.config, policy=PolicyConfig(rules=changed)))

        apply(*rules)
        person = Person(lambda _: "for this session")
        await call(gateway, person, "m.send", to="ann")
        with pytest.raises(Denied):
            await gateway.call("m.send", {"to": "bob"})
        (question,) = await gateway.store.approvals(0)
        await gateway.store.approve(question.id, "bob", 0)
        apply(Rule(action="deny", tool="drop", name="no dropping"), rules[1], Rule(action="deny", tool="x"))
        await call(gateway, person, "m.send", to="ann")
        assert len(person.heard) == 1, "for this session, as its rule says"
        assert (await gateway.call("m.send", {"to": "bob"}))["content"], "once, as its rule says"
        apply(rules[0], Rule(action="ask", tool="send*"))
        await call(gateway, person, "m.send", to="ann")
        assert len(person.heard) == 2, "another rule is another question"
