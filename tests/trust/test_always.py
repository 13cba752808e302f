"""What a person said "always" to: a rule that every gateway of the store has, which covers exactly that call."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import OpenGateway
from tests.trust.conftest import READ, SEND, Offer
from tests.trust.test_rules import KEEPER, Person, call, last, nested, yes
from wicket_mcp.errors import Denied
from wicket_mcp.model import JsonObject, Silent
from wicket_mcp.trust.always import FILE, Always

POLICY = [{"action": "deny", "arguments": {"to": {"const": "eve"}}}, {"action": "ask", "tool": "send"}]
TOOL: JsonObject = {**SEND, "inputSchema": {"type": "object"}}


def always(_: str) -> str:
    return "always"


async def test_always_makes_a_rule_that_names_its_arguments(offer: Offer, open_gateway: OpenGateway) -> None:
    async with open_gateway({"m": offer(SEND, READ)}, policy=POLICY) as gateway:
        file = gateway.config.state_path / FILE
        person = Person(always)
        await call(gateway, person, "m.send", to="ann", text='say "hi"\n')
        assert (await last(gateway)).rule == "rule 2: ask, approved by local, always"
        (rule,) = tomllib.loads(file.read_text())["policy"]
        assert rule["arguments"] == {"to": {"const": "ann"}, "text": {"const": 'say "hi"\n'}}
        assert (rule["principal"], rule["server"], rule["tool"]) == ("local", "m", "send")
        await call(gateway, person, "m.send", to="ann", text='say "hi"\n')
        assert len(person.heard) == 1
        assert (await last(gateway)).rule.startswith("rule 2: ask, always, said by local on ")
        for other in ({"to": "ann"}, {"to": "bob", "text": "hi"}, {"to": "ann", "text": 'say "hi"\n', "cc": "eve"}):
            with pytest.raises(Denied, match="requires a person's approval"):
                await call(gateway, Silent(), "m.send", **other)
        with pytest.raises(Denied, match="requires a person's approval"):  # deeper than anything that is checked
            await call(gateway, Silent(), "m.send", to="bob", more=nested(100))
        with pytest.raises(Denied, match="requires a person's approval"):
            await call(gateway, Silent(KEEPER), "m.send", to="ann", text='say "hi"\n')


async def test_every_gateway_of_a_store_has_it_until_it_is_revoked(
    offer: Offer, open_gateway: OpenGateway, tmp_path: Path
) -> None:
    server = offer(SEND)
    async with open_gateway({"m": server}, policy=POLICY) as gateway:
        async with open_gateway({"m": server}, policy=POLICY) as replica:
            with pytest.raises(Denied, match="requires a person's approval"):
                await call(replica, Silent(), "m.send", to="ann", text="hello")
            await call(gateway, Person(always), "m.send", to="ann", text="hello")
            assert (await call(replica, Silent(), "m.send", to="ann", text="hello"))["content"]
            (rule,) = await gateway.store.standing_approvals()
            assert (rule.principal, rule.approved_by) == ("local", "local")
            assert await Always(replica.store, tmp_path / "elsewhere.toml").revoke(rule.id) == rule
            with pytest.raises(Denied, match="requires a person's approval"):
                await call(gateway, Silent(), "m.send", to="ann", text="hello")


OF_AN_EARLIER_VERSION = """\
# Calls that are made without asking, because somebody said "always".

[[policy]]
action = "allow"
name = "always, said by ann on 2026-11-03"
principal = "local"
server = "m"
tool = "send"
arguments.to = {const = "ann"}
arguments.text = {}

[[policy]]
action = "allow"
principal = "local"
server = "m"
tool = "send"
arguments.to = {const = "eve"}
"""


async def test_the_file_of_an_earlier_version_is_taken_over_once(
    offer: Offer, open_gateway: OpenGateway, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    state.mkdir()
    (state / FILE).write_text(OF_AN_EARLIER_VERSION)
    for _ in range(2):
        async with open_gateway({"m": offer(SEND)}, policy=POLICY, state_dir=str(state)) as gateway:
            assert (await call(gateway, Silent(), "m.send", to="ann", text="anything"))["content"]
            assert "always, said by ann on" in (await last(gateway)).rule
            with pytest.raises(Denied, match="rule 1 refuses it"):
                await call(gateway, Silent(), "m.send", to="eve")
            assert len(await gateway.store.standing_approvals()) == 2
    assert (state / FILE).read_text().startswith("# A copy for reading.")
    (state / FILE).write_text("[[policy")
    async with open_gateway({"m": offer(SEND)}, policy=POLICY, state_dir=str(state)) as gateway:
        assert (await call(gateway, Silent(), "m.send", to="ann", text="anything"))["content"]


async def test_only_who_may_change_the_gateway_can_say_always(offer: Offer, open_gateway: OpenGateway) -> None:
    async with open_gateway({"m": offer(SEND)}, policy=[{"action": "ask", "by": "caller"}]) as gateway:
        with pytest.raises(Denied, match="the user refused"):
            await call(gateway, Person(always, principal=KEEPER), "m.send", to="ann")
        assert await gateway.store.standing_approvals() == []
        assert not (gateway.config.state_path / FILE).exists()


@pytest.mark.parametrize(
    ("arguments", "kept"),
    [
        ({}, True),
        ({"n": 1, "deep": {"a b": [1.5, True, "é"]}, "none": None}, True),
        ({"deep": {"none": None}}, False),
        ({"text": "é" * 2500}, False),
    ],
)
async def test_what_cannot_be_written_down_is_approved_once(
    arguments: dict[str, Any], kept: bool, offer: Offer, open_gateway: OpenGateway
) -> None:
    async with open_gateway({"m": offer(TOOL)}, policy=POLICY) as gateway:
        assert (await call(gateway, Person(always), "m.send", **arguments))["content"]
        again = Person(yes)
        assert (await call(gateway, again, "m.send", **arguments))["content"]
        assert len(again.heard) == (not kept)
        assert (await call(gateway, Person(yes), "m.send", **arguments, more=1))["content"]


async def test_a_secret_stands_in_no_question_and_in_no_rule(
    offer: Offer, open_gateway: OpenGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is masked before the question is cut: no half of it is left."""
    secret = "a-long-secret-" + "0123456789" * 20
    monkeypatch.setenv("MAIL_TOKEN", secret)
    server = offer(SEND, READ)
    server["env"]["TOKEN"] = "${MAIL_TOKEN}"
    async with open_gateway({"m": server}, policy=POLICY) as gateway:
        await gateway.call("m.read")
        arguments = {"to": "ann", "text": "x" * 1400 + secret}
        with pytest.raises(Denied):
            await call(gateway, Silent(), "m.send", **arguments)
        (question,) = await gateway.store.approvals(0)
        person = Person(always)
        assert (await call(gateway, person, "m.send", **arguments))["content"]
        assert await gateway.store.standing_approvals() == [], "approved once"
    state = b"".join(path.read_bytes() for path in gateway.config.state_path.rglob("*") if path.is_file())
    shown = "".join([question.words, question.arguments, *person.heard, state.decode("latin-1")])
    assert ("***" in shown, "a-long-secret" in shown) == (True, False)


async def test_a_waiting_call_may_be_approved_for_always(offer: Offer, open_gateway: OpenGateway) -> None:
    async with open_gateway({"m": offer(SEND)}, policy=POLICY) as gateway:
        with pytest.raises(Denied):
            await gateway.call("m.send", {"to": "ann"})
        (question,) = await gateway.store.approvals(0)
        await gateway.store.approve(question.id, "bob, always", 0)
        for _ in range(3):
            assert (await gateway.call("m.send", {"to": "ann"}))["content"]
        assert "always, said by bob on " in (await last(gateway)).rule


async def test_for_this_session_is_remembered_until_the_session_ends(offer: Offer, open_gateway: OpenGateway) -> None:
    async with open_gateway({"m": offer(SEND)}, policy=POLICY) as gateway:
        person = Person(lambda _: "for this session")
        for _ in range(2):
            await call(gateway, person, "m.send", to="ann", text="hello")
            assert (await last(gateway)).rule == "rule 2: ask, approved by local, for this session"
        assert len(person.heard) == 1
        await call(gateway, person, "m.send", to="ann", text="something else")
        assert len(person.heard) == 2
        with pytest.raises(Denied, match="requires a person's approval"):
            await call(gateway, Silent(session="another"), "m.send", to="ann", text="hello")
