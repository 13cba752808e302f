"""What search learns from use: for whom, for how long, how much, and that it can be turned off."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

import pytest
from tests.conftest import OpenGateway, replay

from wicket_mcp.search.learning import HALF_LIFE, KEPT, Learning
from wicket_mcp.store.base import Store
from wicket_mcp.store.model import CallRecord, StoredChoice
from wicket_mcp.store.open import open_store

NOW = 1_800_000_000.0
ASKED = "the usual Monday chore for Harriet"
WANTED = "git-cyanheads.git_fetch"


class Clock:
    now = NOW

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def store(state: Path) -> AsyncGenerator[Store]:
    opened = await open_store(state / "wicket.db")
    yield opened
    await opened.close()


def call(tool: str, principal: str = "ann", at: float = NOW + 1, outcome: str = "ok") -> CallRecord:
    server, _, name = tool.partition(".")
    return CallRecord(at, principal, server, name, "digest", outcome, 1.0, 1)


async def test_a_tool_that_was_called_after_a_search_is_found_when_it_is_asked_for_again(
    open_gateway: OpenGateway,
) -> None:
    servers = {"git-cyanheads": replay("git-cyanheads"), "filesystem": replay("filesystem"), "time": replay("time")}
    async with open_gateway(servers) as gateway:
        before = await gateway.verbs.search(ASKED)
        assert WANTED not in [hit.tool.key for hit in before.hits]
        await gateway.call(WANTED, {})
        gateway.audit.flush()
        after = await gateway.verbs.search("Harriet's usual chore, it is Monday")
        assert WANTED in [hit.tool.key for hit in after.hits]
        tool = next(hit.tool for hit in after.hits if hit.tool.key == WANTED)
        why = await gateway.finder.explain(ASKED, gateway.principal, tool)
        assert why.learned > 0.1
        found = why.letters + why.meaning + why.part + why.reranked
        assert why.score == pytest.approx(found + why.usage + why.learned + why.named)
    async with open_gateway(servers) as gateway:  # another process over the same state
        again = await gateway.verbs.search(ASKED)
        assert WANTED in [hit.tool.key for hit in again.hits]


async def test_nothing_is_learnt_or_used_where_learning_is_off(open_gateway: OpenGateway) -> None:
    servers = {"git-cyanheads": replay("git-cyanheads"), "filesystem": replay("filesystem")}
    async with open_gateway(servers, search={"learn": False}) as gateway:
        before = await gateway.verbs.search(ASKED)
        await gateway.call(WANTED, {})
        gateway.audit.flush()
        assert await gateway.store.choices(gateway.principal.name) == []
        assert (await gateway.verbs.search(ASKED)).hits == before.hits


async def test_what_one_principal_chose_lifts_nothing_for_another(store: Store, clock: Clock) -> None:
    learning = Learning(store, clock=clock)
    learning.note_search(ASKED, "ann", [])
    learning.note_search(ASKED, "bob", [])
    learning.hear([call(WANTED)])
    await learning.close()
    assert await learning.lifts(ASKED, "ann")
    assert await learning.lifts(ASKED, "bob") == {}
    assert await Learning(store, clock=clock).lifts(ASKED, "bob") == {}
    assert [choice.principal for choice in await store.choices("ann")] == ["ann"]


class WritesLate:
    """A store whose writes of one principal wait for a sign."""

    def __init__(self, store: Store, principal: str) -> None:
        self._store = store
        self._principal = principal
        self.go_on = asyncio.Event()

    async def choices(self, principal: str) -> Sequence[StoredChoice]:
        return await self._store.choices(principal)

    async def add_choice(self, choice: StoredChoice, most: int) -> None:
        if choice.principal == self._principal:
            await self.go_on.wait()
        await self._store.add_choice(choice, most)


@pytest.mark.parametrize("asker", ["bob", "ann"])
async def test_a_search_waits_for_no_write_and_forgets_nothing_that_is_not_written_yet(
    store: Store, clock: Clock, asker: str
) -> None:
    """B17: it waited for all pending writes of all principals, once a minute."""
    late = WritesLate(store, "ann")
    learning = Learning(late, clock=clock)
    for name in ("ann", "bob"):
        assert await learning.lifts(ASKED, name) == {}
        learning.note_search(ASKED, name, [WANTED])
        learning.hear([call(WANTED, name)])
    clock.now += 61
    async with asyncio.timeout(30):
        assert set(await learning.lifts(ASKED, asker)) == {WANTED}
    late.go_on.set()
    await learning.close()
    clock.now += 61
    assert set(await learning.lifts(ASKED, asker)) == {WANTED}
    assert [choice.weight for choice in await store.choices(asker)] == [1.0]


async def test_a_choice_fades_and_a_shown_tool_counts_more(store: Store, clock: Clock) -> None:
    learning = Learning(store, clock=clock)
    learning.note_search(ASKED, "ann", [WANTED])
    learning.hear([call(WANTED)])
    learning.hear([call("time.get_current_time")])
    fresh = await learning.lifts(ASKED, "ann")
    assert fresh[WANTED] > fresh["time.get_current_time"]
    clock.now += 2 * HALF_LIFE
    assert (await learning.lifts(ASKED, "ann"))[WANTED] < fresh[WANTED] / 2
    await learning.close()


@pytest.mark.parametrize(
    "record",
    [
        call(WANTED, at=NOW + 3600),
        call(WANTED, at=NOW - 1),
        call(WANTED, outcome="denied"),
        call(WANTED, principal="bob"),
    ],
    ids=["long after", "before", "failed", "by somebody else"],
)
async def test_a_call_that_did_not_follow_teaches_nothing(store: Store, clock: Clock, record: CallRecord) -> None:
    learning = Learning(store, clock=clock)
    learning.note_search(ASKED, "ann", [WANTED])
    learning.hear([record])
    await learning.close()
    assert await learning.lifts(ASKED, "ann") == {}


async def test_another_question_is_not_lifted(store: Store, clock: Clock) -> None:
    learning = Learning(store, clock=clock)
    learning.note_search(ASKED, "ann", [WANTED])
    learning.hear([call(WANTED)])
    assert await learning.lifts("what time is it in Tokyo?", "ann") == {}
    assert await learning.lifts("", "ann") == {}
    await learning.close()


async def test_what_is_kept_is_bounded_and_cannot_be_read(store: Store, clock: Clock) -> None:
    learning = Learning(store, clock=clock)
    for number in range(KEPT + 20):
        learning.note_search(f"hunter{number} secret", "ann", [])
        learning.hear([call(WANTED, at=NOW + number / 1000)])
        await learning.close()
    kept = await store.choices("ann")
    assert len(kept) == KEPT
    assert not any(b"secret" in choice.query for choice in kept)
    for number in range(9):
        learning.note_search("one question", "ann", [])
        learning.hear([call(f"x.tool{number}")])
    await learning.close()
    assert len(await learning.lifts("one question", "ann")) == 9
    learning.note_search("a single question", "bob", [])
    for number in range(9):
        learning.hear([call(f"x.tool{number}", "bob")])
    await learning.close()
    assert len(await learning.lifts("a single question", "bob")) == 3
