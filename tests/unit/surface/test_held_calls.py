"""Calls that wait for their modern client: asked, answered, bounded, and sealed."""

import asyncio
import base64
from dataclasses import dataclass, field
from typing import Any

import pytest

from wicket_mcp.errors import Overloaded
from wicket_mcp.model import Caller, JsonObject, Principal
from wicket_mcp.sealing import Ring
from wicket_mcp.surface.caller import RequestCaller
from wicket_mcp.surface.held_calls import HOLD, HeldCalls, Seal
from wicket_mcp.surface.outbox import LIMIT, Counters
from wicket_mcp.surface.problems import RpcProblem

ANN = Principal("ann", frozenset({"invoke"}))
BOB = Principal("bob", frozenset({"invoke"}))
KEY = b"k" * 32


@dataclass
class Client:
    """A modern client: what it was sent beside its answers."""

    principal: Principal = ANN
    heard: list[JsonObject] = field(default_factory=list[JsonObject])

    @property
    def caller(self) -> RequestCaller:
        return RequestCaller(self.principal, "modern", self.heard.append, resumes=True)


async def _asks_once(caller: Caller) -> JsonObject:
    answer = await caller.ask("elicitation/create", {"message": "Who?"})
    return {"content": answer}


def _state(held: HeldCalls, body: JsonObject, principal: Principal = ANN) -> Any:
    assert body["resultType"] == "input_required"
    kind, content = held.seal.open(body["requestState"], principal, "digest")
    assert kind == "held"
    return content


async def test_a_call_asks_and_goes_on_with_the_reply() -> None:
    held = HeldCalls(Seal(Ring([KEY])))
    body = await held.begin(Client().caller, "digest", _asks_once)
    [(key, question)] = body["inputRequests"].items()
    assert question == {"method": "elicitation/create", "params": {"message": "Who?"}}
    done = await held.resume(_state(held, body), Client().caller, "digest", {key: {"name": "ada"}})
    assert done == {"content": {"name": "ada"}}
    await held.close()


async def _leave(request: "asyncio.Task[JsonObject]") -> None:
    """The connection on which a request came is noticed to be gone."""
    request.cancel()
    await asyncio.wait({request})


async def test_answers_that_are_sent_again_after_a_network_failure_get_the_result() -> None:
    held, go = HeldCalls(Seal(Ring([KEY]))), asyncio.Event()

    async def asks_then_waits(caller: Caller) -> JsonObject:
        result = await _asks_once(caller)
        await go.wait()
        return result

    body = await held.begin(Client().caller, "digest", asks_then_waits)
    replies: JsonObject = {key: {"name": "ada"} for key in body["inputRequests"]}

    def send() -> "asyncio.Task[JsonObject]":
        return asyncio.ensure_future(held.resume(_state(held, body), Client().caller, "digest", replies))

    first = send()
    await asyncio.sleep(0)
    await _leave(first)  # before the client sends its answers again …
    second, third = send(), send()
    await asyncio.sleep(0)
    await _leave(second)  # … and after
    go.set()
    assert await third == {"content": {"name": "ada"}}
    assert await send() == await third, "the answer itself was lost"
    assert len(held) == 0
    await held.close()


async def test_the_end_of_an_earlier_connection_leaves_the_call_to_the_later_one() -> None:
    """B14."""
    held, go = HeldCalls(Seal(Ring([KEY])), repeat_within=0.0), asyncio.Event()

    async def asks_then_waits(caller: Caller) -> JsonObject:
        result = await _asks_once(caller)
        await go.wait()
        return result

    body = await held.begin(Client().caller, "digest", asks_then_waits)
    replies: JsonObject = {key: {"name": "ada"} for key in body["inputRequests"]}
    first, second = (
        asyncio.ensure_future(held.resume(_state(held, body), Client().caller, "digest", replies)) for _ in range(2)
    )
    await asyncio.sleep(0)
    await _leave(first)
    for _ in range(10):  # nothing is left to happen
        await asyncio.sleep(0)
    go.set()
    assert await second == {"content": {"name": "ada"}}
    await held.close()


async def test_a_client_that_does_not_send_its_answers_again_ends_its_call() -> None:
    held, cancelled = HeldCalls(Seal(Ring([KEY])), repeat_within=0.0), asyncio.Event()

    async def asks_then_hangs(caller: Caller) -> JsonObject:
        await _asks_once(caller)
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return {}

    body = await held.begin(Client().caller, "digest", asks_then_hangs)
    replies: JsonObject = {key: {"name": "ada"} for key in body["inputRequests"]}
    request = asyncio.ensure_future(held.resume(_state(held, body), Client().caller, "digest", replies))
    await asyncio.sleep(0)
    await _leave(request)
    await cancelled.wait()
    with pytest.raises(RpcProblem, match="has ended"):
        await held.resume(_state(held, body), Client().caller, "digest", replies)
    await held.close()


async def test_results_that_may_be_fetched_again_give_way_to_calls_that_wait() -> None:
    held = HeldCalls(Seal(Ring([KEY])), most=4, most_per_principal=2)
    for _ in range(5):
        body = await held.begin(Client().caller, "digest", _asks_once)
        replies: JsonObject = {key: {"name": "ada"} for key in body["inputRequests"]}
        await held.resume(_state(held, body), Client().caller, "digest", replies)
    for _ in range(2):
        await held.begin(Client().caller, "digest", _asks_once)
    assert len(held) == 2
    await held.close()


@pytest.mark.promise("T6", "Only its principal can use a call that waits for an answer.")
async def test_t6_a_held_call_is_known_to_its_principal_alone() -> None:
    held = HeldCalls(Seal(Ring([KEY])))
    body = await held.begin(Client().caller, "digest", _asks_once)
    with pytest.raises(RpcProblem, match="has ended"):
        await held.resume(_state(held, body), Client(BOB).caller, "digest", {})
    await held.close()


async def test_a_principal_holds_no_more_than_its_share() -> None:
    held = HeldCalls(Seal(Ring([KEY])), most=5, most_per_principal=2)
    for _ in range(2):
        await held.begin(Client(BOB).caller, "digest", _asks_once)
    with pytest.raises(Overloaded, match="waiting for input"):
        await held.begin(Client(BOB).caller, "digest", _asks_once)
    for _ in range(2):
        await held.begin(Client(ANN).caller, "digest", _asks_once)
    cat = Principal("cat", frozenset({"invoke"}))
    await held.begin(Client(cat).caller, "digest", _asks_once)
    with pytest.raises(Overloaded, match="waiting for input"):
        await held.begin(Client(cat).caller, "digest", _asks_once)
    await held.close()


async def test_what_is_said_while_the_client_is_away_is_bounded_and_heard_on_its_return() -> None:
    counters = Counters()
    held = HeldCalls(Seal(Ring([KEY])), counters)

    async def chatty(caller: Caller) -> JsonObject:
        async with asyncio.TaskGroup() as group:
            question = group.create_task(_asks_once(caller))
            await flood.wait()
            for number in range(20_000):
                caller.notify("notifications/progress", {"progressToken": "theirs", "progress": number})
                caller.notify("notifications/message", {"level": "info", "data": number})
            flooded.set()
        return question.result()

    flood, flooded = asyncio.Event(), asyncio.Event()
    body = await held.begin(Client().caller, "digest", chatty, "first")
    flood.set()
    await flooded.wait()
    client = Client()
    replies: JsonObject = {key: {"name": "ada"} for key in body["inputRequests"]}
    done = await held.resume(_state(held, body), client.caller, "digest", replies, "second")
    assert done == {"content": {"name": "ada"}}
    last = client.heard[-1]
    assert last["params"] == {"progressToken": "second", "progress": 19_999}
    assert sum(len(str(message)) for message in client.heard) < 2 * LIMIT
    assert counters.dropped > 0
    assert len(client.heard) + counters.dropped + counters.replaced == 40_000
    await held.close()


async def test_a_client_that_leaves_while_nothing_is_asked_ends_its_call() -> None:
    held = HeldCalls(Seal(Ring([KEY])))
    began, cancelled = asyncio.Event(), asyncio.Event()

    async def hangs(caller: Caller) -> JsonObject:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return {}

    async with asyncio.TaskGroup() as group:
        request = group.create_task(held.begin(Client().caller, "digest", hangs))
        await began.wait()
        request.cancel()
        await cancelled.wait()
    await held.close()


def test_a_seal_is_for_one_principal_one_request_and_one_key() -> None:
    sealed = Seal(Ring([KEY])).close("upstream", {"a": 1}, ANN, "digest")
    assert Seal(Ring([KEY])).open(sealed, ANN, "digest") == ("upstream", {"a": 1}), "replicas share the key"
    assert "upstream" not in base64.urlsafe_b64decode(f"{sealed[2:]}===").decode("latin-1"), "a client cannot read it"
    wrong = [
        (Seal(Ring([b"x" * 32])), sealed, ANN, "digest"),
        (Seal(Ring([KEY])), sealed, BOB, "digest"),
        (Seal(Ring([KEY])), sealed, ANN, "other"),
        (Seal(Ring([KEY])), "x" + sealed, ANN, "digest"),
        (Seal(Ring([KEY])), None, ANN, "digest"),
        (Seal(Ring([KEY])), "\udcff.x", ANN, "digest"),
    ]
    for seal, text, principal, asked in wrong:
        with pytest.raises(RpcProblem, match="requestState does not belong to this request"):
            seal.open(text, principal, asked)


def test_states_that_this_gateway_continues_name_it_and_no_other() -> None:
    seal = Seal(Ring([KEY]), home="me")
    assert seal.close("held", "number", ANN, "digest").startswith("me~")
    assert not seal.close("upstream", "a server's own", ANN, "digest").startswith("me~"), "any replica may pass it on"
    around = seal.close("upstream", "another~state", ANN, "digest")
    assert around.startswith("me~"), "its owner would take it for an answer to the server itself"
    assert seal.open(around, ANN, "digest") == ("upstream", "another~state")


def test_a_state_is_sealed_and_opened_by_the_time_that_all_agree_on() -> None:
    now = 1000.0
    seal = Seal(Ring([KEY], lambda: now))
    state = seal.close("upstream", "x", ANN, "asked")
    assert Seal(Ring([KEY], lambda: now + HOLD - 1)).open(state, ANN, "asked") == ("upstream", "x")
    with pytest.raises(RpcProblem, match="expired"):
        Seal(Ring([KEY], lambda: now + HOLD + 1)).open(state, ANN, "asked")
