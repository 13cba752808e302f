"""The JSON-RPC peer, over a sink that takes messages at once (a pipe) and over one that takes its time (posts)."""

from collections.abc import AsyncIterator

import pytest

from tests.unit.conversation import Conversation
from wicket_mcp.model import JsonObject
from wicket_mcp.rpc import MAX_BATCH, MAX_PEER_REQUESTS, Callbacks, Rpc


@pytest.fixture(params=[False, True], ids=["pipe", "posts"])
async def peer(request: pytest.FixtureRequest) -> AsyncIterator[Conversation]:
    async with Conversation(posts=request.param) as conversation:
        yield conversation


async def test_answers_find_their_requests_in_any_order(peer: Conversation) -> None:
    await peer.check("""
        call a: tools/call {"name": "x"}
        << {"id": 1, "method": "tools/call", "params": {"name": "x"}}
        call b: tools/list {}
        << {"id": 2, "method": "tools/list", "params": {}}
        >> {"id": 2, "result": {"tools": []}}
        b = {"tools": []}
        >> {"id": 1, "error": {"code": -32602, "message": "No."}}
        a raises Refused
        >> {"id": 1, "result": {}}
        stray
    """)


async def test_ids_say_whose_they_are() -> None:
    async with Conversation(id_prefix="wicket-") as peer:
        await peer.check("""
            call a: roots/list {}
            << {"id": "wicket-1", "method": "roots/list", "params": {}}
            >> {"id": 1, "result": {}}
            stray
            >> {"id": "wicket-1", "result": {"roots": []}}
            a = {"roots": []}
        """)


async def test_a_number_that_comes_back_as_text_is_the_same_id(peer: Conversation) -> None:
    """Defect 12."""
    await peer.check("""
        call a: x {}
        << {"id": 1, "method": "x", "params": {}}
        >> {"id": "01", "result": {}}
        stray
        >> {"id": "2", "result": {}}
        stray
        >> {"id": "1", "result": {"ok": true}}
        a = {"ok": true}
        >> {"id": "1", "result": {}}
        stray
    """)


async def test_an_answer_with_neither_outcome_is_a_violation(peer: Conversation) -> None:
    await peer.check("""
        call a: x {}
        << {"id": 1, "method": "x", "params": {}}
        >> {"id": 1, "result": [], "error": "no"}
        a raises ProtocolViolation
    """)


async def test_strays_cost_themselves_only(peer: Conversation) -> None:
    await peer.check("""
        call a: x {}
        << {"id": 1, "method": "x", "params": {}}
        >> {"id": true, "result": {}}
        stray
        >> {"id": [], "result": {}}
        stray
        >> {"id": 99, "result": {}}
        stray
        >> {"method": 1}
        stray
        >> {"id": {}, "method": "ping"}
        stray
        >> {"method": "notifications/cancelled", "params": {"requestId": []}}
        >> {"id": 1, "result": {}}
        a = {}
    """)


async def test_a_batch_is_taken_apart_and_its_bad_parts_are_dropped(peer: Conversation) -> None:
    await peer.check("""
        call a: x {}
        << {"id": 1, "method": "x", "params": {}}
        >> [1, [], {"method": "notifications/message", "params": {"data": 1}}, {}, {"id": 1, "result": {}}]
        hears notifications/message {"data": 1}
        a = {}
        stray
        stray
        stray
    """)


# Notifications


async def test_progress_goes_to_its_request_and_the_rest_to_the_connection(peer: Conversation) -> None:
    await peer.check("""
        call a: x {"_meta": {"progressToken": "t"}}
        << {"id": 1, "method": "x", "params": {"_meta": {"progressToken": "t"}}}
        >> {"method": "notifications/progress", "params": {"progressToken": "t", "progress": 1}}
        a hears notifications/progress {"progressToken": "t", "progress": 1}
        >> {"method": "notifications/progress", "params": {"progressToken": "u"}}
        hears notifications/progress {"progressToken": "u"}
        >> {"method": "notifications/message", "params": {}}
        hears notifications/message {}
        >> {"id": 1, "result": {}}
        a = {}
        >> {"method": "notifications/progress", "params": {"progressToken": "t"}}
        hears notifications/progress {"progressToken": "t"}
    """)


async def test_what_comes_with_an_answer_belongs_to_its_request_unless_it_concerns_the_connection(
    peer: Conversation,
) -> None:
    await peer.check("""
        call a: x {}
        << {"id": 1, "method": "x", "params": {}}
        a>> {"method": "notifications/message", "params": {"data": 1}}
        a hears notifications/message {"data": 1}
        a>> {"method": "notifications/tools/list_changed"}
        hears notifications/tools/list_changed {}
        >> {"id": 1, "result": {}}
        a = {}
    """)


@pytest.mark.parametrize("token", ["{}", "[]", "null", "1.5", "true"])
async def test_b9_a_progress_token_of_any_type_costs_its_message_only(peer: Conversation, token: str) -> None:
    """B9: an unhashable token raised TypeError, and the rest of the chunk was lost."""
    await peer.check(f"""
        call a: x {{"_meta": {{"progressToken": 1}}}}
        << {{"id": 1, "method": "x", "params": {{"_meta": {{"progressToken": 1}}}}}}
        >> [{{"method": "notifications/progress", "params": {{"progressToken": {token}}}}}, {{"id": 1, "result": {{}}}}]
        hears notifications/progress {{"progressToken": {token}}}
        a = {{}}
    """)


async def test_b9_a_progress_token_of_ours_that_is_none_is_sent_and_not_listened_to(peer: Conversation) -> None:
    await peer.check("""
        call a: x {"_meta": {"progressToken": []}}
        << {"id": 1, "method": "x", "params": {"_meta": {"progressToken": []}}}
        >> {"id": 1, "result": {}}
        a = {}
    """)


@pytest.mark.parametrize("posts", [False, True])
async def test_b9_a_listener_that_raises_costs_its_message_only(posts: bool) -> None:
    """B9: an exception of a listener left `receive`, and the answer behind it was lost."""

    def listener(method: str, params: JsonObject) -> None:
        raise RuntimeError("the deadline cannot be moved any more")

    async with Conversation(posts=posts, listener=listener) as peer:
        await peer.check("""
            call a: x {"_meta": {"progressToken": 1}}
            << {"id": 1, "method": "x", "params": {"_meta": {"progressToken": 1}}}
            >> [{"method": "notifications/progress", "params": {"progressToken": 1}}, {"id": 1, "result": {}}]
            a = {}
            stray
        """)


# Cancelling and failing


async def test_cancelling_tells_the_peer(peer: Conversation) -> None:
    await peer.check("""
        call a: x {}
        << {"id": 1, "method": "x", "params": {}}
        cancel a
        << {"method": "notifications/cancelled", "params": {"requestId": 1, "reason": "the caller gave up"}}
        a raises CancelledError
        >> {"id": 1, "result": {}}
        stray
    """)


async def test_the_handshake_is_not_cancelled(peer: Conversation) -> None:
    await peer.check("""
        call a: initialize {}
        << {"id": 1, "method": "initialize", "params": {}}
        cancel a
        a raises CancelledError
    """)


@pytest.mark.promise("F14", "A cancelled call has one outcome, even if the server cannot be reached.")
async def test_f14_b22_a_cancellation_stays_one_when_the_peer_cannot_be_told(peer: Conversation) -> None:
    """B22: Crashed, raised by telling the peer, replaced the cancellation."""
    await peer.check("""
        call a: x {}
        << {"id": 1, "method": "x", "params": {}}
        gone
        cancel a
        a raises CancelledError
    """)


async def test_a_request_that_cannot_be_sent_raises_why(peer: Conversation) -> None:
    await peer.check("""
        gone
        call a: x {}
        a raises Crashed
    """)
    assert len(peer.rpc) == 0


async def test_the_end_of_the_transport_fails_what_is_pending(peer: Conversation) -> None:
    await peer.check("""
        call a: x {}
        << {"id": 1, "method": "x", "params": {}}
        call b: y {}
        << {"id": 2, "method": "y", "params": {}}
        fail
        a raises Crashed
        b raises Crashed
    """)
    assert len(peer.rpc) == 0


# The peer's requests


async def test_the_peer_is_answered(peer: Conversation) -> None:
    await peer.check("""
        >> {"id": "q", "method": "roots/list"}
        asked roots/list {}
        >> {"id": 7, "method": "sampling/createMessage", "params": {"messages": []}}
        asked sampling/createMessage {"messages": []}
        reply sampling/createMessage {"role": "assistant"}
        << {"id": 7, "result": {"role": "assistant"}}
        deny roots/list
        << {"id": "q", "error": {"code": -32602, "message": "No.", "data": {"code": "denied", "retryable": false}}}
    """)


async def test_the_peer_may_take_a_request_back(peer: Conversation) -> None:
    await peer.check("""
        >> {"id": 1, "method": "roots/list"}
        asked roots/list {}
        >> {"method": "notifications/cancelled", "params": {"requestId": 1}}
        withdrawn roots/list
    """)


async def test_b17_a_defect_of_ours_is_answered_too(peer: Conversation) -> None:
    """B17: the peer waited for an answer that never came."""
    error = '{"code": -32603, "message": "Wicket failed to answer. Its log says why.", "data": %s}'
    await peer.check(f"""
        >> {{"id": 1, "method": "defect"}}
        asked defect {{}}
        << {{"id": 1, "error": {error % '{"code": "internal", "retryable": false}'}}}
    """)


async def test_an_id_that_is_under_way_is_not_taken_twice(peer: Conversation) -> None:
    await peer.check("""
        >> {"id": 1, "method": "roots/list"}
        asked roots/list {}
        >> {"id": 1, "method": "roots/list"}
        stray
        reply roots/list {"roots": []}
        << {"id": 1, "result": {"roots": []}}
    """)


async def test_b11_a_flood_of_requests_is_answered_in_part_and_then_again(peer: Conversation) -> None:
    """B11: a stdio upstream could start any number of tasks."""
    flood = ", ".join(f'{{"id": {number}, "method": "ask"}}' for number in range(MAX_PEER_REQUESTS + 2))
    await peer.check(
        "\n".join(
            (
                f">> [{flood}]",
                *(["asked ask {}"] * MAX_PEER_REQUESTS),
                "stray",
                "stray",
                "reply ask {}",
                '<< {"id": 0, "result": {}}',
                '>> {"id": "late", "method": "ask"}',
                "asked ask {}",
            )
        )
    )


def test_of_a_batch_that_is_too_long_the_first_messages_are_read_and_the_others_counted() -> None:
    heard: list[str] = []
    rpc = Rpc("x", lambda message: None, Callbacks(lambda method, params: heard.append(method)))
    rpc.receive([{"jsonrpc": "2.0", "method": f"notifications/{number}"} for number in range(MAX_BATCH + 100)])
    assert heard == [f"notifications/{number}" for number in range(MAX_BATCH)]
    assert (rpc.strays, rpc.heard) == (100, MAX_BATCH + 100)
