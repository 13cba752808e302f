"""What every store does, whatever keeps it: each behaviour once, run for each implementation.

A test module that gives the fixture `open_another` (opens the same state once more, as another process would) and
imports these tests has them all. Nothing here knows what is behind the Protocols.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import pytest
from msgspec.structs import replace

from wicket_mcp.errors import Internal
from wicket_mcp.model import LOCAL, Listing, Principal, Rejected, Tool
from wicket_mcp.store import records
from wicket_mcp.store.base import NOTHING, Store
from wicket_mcp.store.model import (
    AuditQuery,
    CallRecord,
    CallTotals,
    ListTotals,
    Observation,
    RecordQuery,
    StandingApproval,
    StoredApproval,
    StoredChoice,
    StoredClient,
    StoredDataKey,
    StoredDomain,
    StoredGrant,
    StoredKey,
    StoredListing,
    StoredManaged,
    StoredPin,
    StoredRecord,
    StoredResult,
    StoredSecret,
    StoredTicket,
)

OpenAnother: TypeAlias = Callable[[], Awaitable[Store]]
ANN = Principal("ann")
NOW = 1_700_000_000.0


@pytest.fixture
async def store(open_another: OpenAnother) -> Store:
    return await open_another()


async def changed(store: Store, version: Callable[[], int | None], before: int | None) -> int | None:
    """The version after another process wrote: a file shows it at once, a server tells us a moment later."""
    async with asyncio.timeout(5):
        while (now := version()) == before:
            await store.load_note("something to wait for")
    return now


class Heard:
    """The areas of which a store has heard that they changed, until somebody has waited for them."""

    def __init__(self, store: Store) -> None:
        self._areas: set[str] = set()
        self._news = asyncio.Event()
        store.hear_changes(self._take)

    def _take(self, area: str) -> None:
        self._areas.add(area)
        self._news.set()

    async def wait_for(self, area: str) -> None:
        async with asyncio.timeout(10):
            while area not in self._areas:
                self._news.clear()
                await self._news.wait()
        self._areas.remove(area)


def listing(server: str, *tools: str) -> Listing:
    return Listing(
        server,
        {"name": server, "x": 2**70},
        protocol_version="2025-06-18",
        instructions="Ask it.",
        capabilities={"tools": {}},
        tools=tuple(Tool(server, name, {"name": name, "inputSchema": {}}, headed=name == "b") for name in tools),
        resources=({"uri": "a:b", "name": "ü"},),
        templates=({"uriTemplate": "a:{b}"},),
        prompts=({"name": "p"},),
        rejected=(Rejected("bad", "it has no schema"),),
        listed_at=NOW,
        ttl=60.0,
    )


def call(at: float = 0.0, principal: str = LOCAL.name, tool: str = "echo", outcome: str = "ok") -> CallRecord:
    return CallRecord(time.time() + at, principal, "x", tool, "digest", outcome, 1.5, 10)


def key(name: str = "ann", digest: bytes = b"1") -> StoredKey:
    return StoredKey(name, digest, "wk_abcd", frozenset({"discover", "invoke"}), NOW, NOW + 60, rates={"health": 3})


def record(name: str, version: str = "1", **options: object) -> StoredRecord:
    made = StoredRecord(name, version, {"name": name, "n": 2**70}, published_at=NOW, updated_at=NOW, origin="seed")
    return replace(made, **options)  # type: ignore[arg-type]


class TestListings:
    async def test_a_listing_comes_back_whole(self, store: Store, open_another: OpenAnother) -> None:
        await store.save_listing(StoredListing(listing("x", "a", "b"), "print", b"\x00seg"))
        await store.save_listing(StoredListing(listing("a"), "other"))
        again = await (await open_another()).load_listings()
        assert again == [
            StoredListing(listing("a"), "other"),
            StoredListing(listing("x", "a", "b"), "print", b"\x00seg"),
        ]

    async def test_the_newest_listing_of_a_server_counts(self, store: Store) -> None:
        await store.save_listing(StoredListing(listing("x", "a"), "1", b"old"))
        await store.save_listing(StoredListing(listing("x", "b"), "2"))
        assert await store.load_listings() == [StoredListing(listing("x", "b"), "2")]

    async def test_segments_are_kept_beside_listings_that_are_there(self, store: Store) -> None:
        await store.save_listing(StoredListing(listing("x"), "1"))
        await store.save_segments({"x": b"seg", "gone": b"seg"})
        assert [(entry.listing.server, entry.segment) for entry in await store.load_listings()] == [("x", b"seg")]

    async def test_a_dropped_listing_is_gone(self, store: Store) -> None:
        await store.save_listing(StoredListing(listing("x"), "1"))
        await store.drop_listing("x")
        await store.drop_listing("never there")
        assert await store.load_listings() == []

    async def test_what_others_stored_is_read_once_and_in_their_order(
        self, store: Store, open_another: OpenAnother
    ) -> None:
        other = await open_another()
        before = other.definitions_version()
        first = await store.save_listing(StoredListing(listing("x", "a"), "1"))
        second = await store.save_listing(StoredListing(listing("y"), "1"))
        assert await changed(other, other.definitions_version, before) != before
        [(number, one), (later, _)] = await other.new_listings(NOTHING)
        assert (one.listing.server, number, later) == ("x", first, second)
        assert await other.new_listings(second) == []
        third = await other.save_listing(StoredListing(listing("x", "b"), "1"))
        assert [(number, entry.listing.server) for number, entry in await store.new_listings(second)] == [(third, "x")]
        assert first < second < third


class TestChanges:
    async def test_every_process_hears_of_a_change_by_any(self, store: Store, open_another: OpenAnother) -> None:
        other = await open_another()
        heard = Heard(store), Heard(other)
        await store.save_key(key())
        await other.save_listing(StoredListing(listing("x"), "1"))
        for hearing in heard:
            await hearing.wait_for("api_key")
            await hearing.wait_for("listing")

    async def test_what_calls_record_is_no_change(self, store: Store, open_another: OpenAnother) -> None:
        """A gateway records all the time: what it knows must not have to be read again for that."""
        await store.save_key(key())
        other = await open_another()
        versions = store.keys_version(), other.keys_version()
        await other.save_approval(approval())
        store.mark_key_used(b"1", NOW)
        await store.keys()  # when this returns, the use is stored
        assert (store.keys_version(), other.keys_version()) == versions


class TestResults:
    async def test_a_result_is_its_principals_alone(self, store: Store) -> None:
        result = StoredResult("r1", "ann", "x.echo", b"\x00body", time.time() + 60)
        await store.save_result(result, 100)
        assert await store.load_result("r1", ANN) == result
        assert await store.load_result("r1", LOCAL) is None
        assert await store.load_result("r2", ANN) is None

    async def test_results_of_a_tool_are_listed_oldest_first(self, store: Store) -> None:
        later = time.time() + 60
        for number, principal, tool, expires in (
            ("r1", "ann", "x.echo", later),
            ("r2", "ann", "x.echo", time.time() - 1),
            ("r3", "bob", "x.echo", later),
            ("r4", "ann", "x.other", later),
            ("r0", "ann", "x.echo", later),
        ):
            await store.save_result(StoredResult(number, principal, tool, b"", expires), 100)
        assert await store.list_results("x.echo", ANN) == ["r1", "r0"]
        assert await store.list_results("x.none", ANN) == []

    async def test_an_expired_result_is_gone(self, store: Store) -> None:
        await store.save_result(StoredResult("r1", "ann", "x.echo", b"", time.time() - 1), 100)
        assert await store.load_result("r1", ANN) is None

    async def test_the_oldest_results_make_room(self, store: Store) -> None:
        for number in range(4):
            await store.save_result(StoredResult(f"r{number}", "ann", "x", b"x" * 40, time.time() + 60), 100)
        kept = [number for number in range(4) if await store.load_result(f"r{number}", ANN)]
        assert kept == [2, 3]

    @pytest.mark.promise(
        "V11",
        "Stored results make room by who has most: the results of one principal never make room for those of another.",
    )
    async def test_v11_the_results_of_who_has_most_make_room(self, store: Store) -> None:
        async def save(name: str, principal: str, size: int) -> None:
            await store.save_result(StoredResult(name, principal, "x", b"x" * size, time.time() + 60), 100)

        await save("b0", "bob", 30)
        for number in range(8):
            await save(f"a{number}", "ann", 20)
        assert await store.load_result("b0", Principal("bob")) is not None
        assert [n for n in range(8) if await store.load_result(f"a{n}", ANN)] == [5, 6, 7]
        await save("b1", "bob", 20)
        assert [n for n in range(8) if await store.load_result(f"a{n}", ANN)] == [6, 7]
        assert await store.load_result("b0", Principal("bob")) is not None

    async def test_a_failed_change_changes_nothing_and_the_next_one_works(self, store: Store) -> None:
        result = StoredResult("r1", "ann", "x", b"x" * 60, time.time() + 60)
        await store.save_result(result, 100)
        with pytest.raises(Internal):  # the same id again; the first was dropped to make room, in the same transaction
            await store.save_result(StoredResult("r1", "ann", "x", b"y" * 40, time.time() + 60), 100)
        assert await store.load_result("r1", ANN) == result
        await store.save_note("a", "b")
        assert await store.load_note("a") == "b"


class TestCalls:
    async def test_a_name_that_is_no_text_costs_no_record(self, store: Store) -> None:
        for name in ("half \ud800 a character", "a\0b", "whole"):
            texts = dict.fromkeys(("server", "tool", "method", "client", "detail", "rule"), name)
            store.record_call(replace(call(principal="ann"), **texts))
        kept = await store.find_calls(AuditQuery(principal="ann"))
        assert {record.tool for record in kept} == {"half ? a character", "a?b", "whole"}
        assert store.lost_records == 0

    async def test_calls_are_read_newest_first_by_the_one_who_made_them(
        self, store: Store, open_another: OpenAnother
    ) -> None:
        made = [call(-number, "ann", f"t{number}") for number in range(5)]
        for entry in [*made, call(principal="bob")]:
            store.record_call(entry)
        assert await store.recent_calls(ANN, 3) == made[:3]
        assert await (await open_another()).recent_calls(ANN, 10) == made

    async def test_successful_calls_count_as_usage(self, store: Store) -> None:
        for outcome in ("ok", "cached", "error", "cancelled", "ok"):
            store.record_call(call(principal="ann", outcome=outcome))
        assert await store.usage(ANN) == {"x.echo": 3}
        store.record_call(call(principal="ann"))
        assert await store.usage(ANN) == {"x.echo": 4}
        assert await store.usage(LOCAL) == {}

    async def test_closing_writes_what_was_handed_over(self, store: Store, open_another: OpenAnother) -> None:
        store.record_call(call(principal="ann"))
        await store.close()
        assert await (await open_another()).usage(ANN) == {"x.echo": 1}

    async def test_records_of_more_than_thirty_days_are_dropped_and_their_usage_stays(self, store: Store) -> None:
        store.record_call(call(-31 * 86400, "ann", "old"))
        store.record_call(call(-29 * 86400, "ann", "young"))
        assert [entry.tool for entry in await store.recent_calls(ANN, 9)] == ["young"]
        assert await store.usage(ANN) == {"x.old": 1, "x.young": 1}

    async def test_records_are_found_by_what_is_asked_and_followed_from_where_the_last_answer_ended(
        self, store: Store
    ) -> None:
        made = [
            replace(
                call(-4, "ann", "read"),
                client="editor",
                run="r1",
                upstream_ms=1.0,
                arguments_bytes=9,
                steps={"resolve": 0.012, "forward": 0.5, "server": 1.0},
            ),
            replace(call(-3, "bob", "write", "denied"), detail="policy"),
            replace(call(-2, "unknown", "authenticate", "rejected"), server="", method="auth"),
            call(-1, "bob", "read"),
        ]
        for entry in made:
            store.record_call(entry)
        read, write, failed_sign_in, last = made
        assert await store.find_calls(AuditQuery()) == made[::-1]
        assert await store.find_calls(AuditQuery(principal="bob", outcome="failed")) == [write]
        assert await store.find_calls(AuditQuery(tool="read", limit=1)) == [last]
        assert await store.find_calls(AuditQuery(method="auth")) == [failed_sign_in]
        assert await store.find_calls(AuditQuery(run="r1")) == [read]
        assert await store.find_calls(AuditQuery(since=write.at, server="x")) == [last, write]
        page = await store.find_calls(AuditQuery(limit=3, newest_first=False))
        assert page == [read, write, failed_sign_in]
        assert await store.find_calls(AuditQuery(after=page[-1].id, newest_first=False)) == [last]

    async def test_calls_are_added_up_by_server_and_time(self, store: Store) -> None:
        start = int(time.time()) // 3600 * 3600.0 - 3600
        for second, outcome in ((0, "ok"), (3599, "error"), (3600, "cached"), (3601, "cancelled")):
            store.record_call(replace(call(principal="ann", outcome=outcome), at=start + second, arguments_bytes=4))
        store.record_call(replace(call(principal="bob"), at=start, server="y"))
        store.record_call(replace(call(principal="bob"), at=start, server="", method="admin"))
        first, second = CallTotals(start, "x", 2, 1, 0, 3.0, 8, 20), CallTotals(start + 3600, "x", 2, 0, 1, 3.0, 8, 20)
        assert await store.call_totals(start + 9, 3600, "ann") == [first, second]
        assert {total.server for total in await store.call_totals(start, 3600)} == {"x", "y"}

    async def test_lists_of_tools_are_added_up_by_dialect_client_and_size(self, store: Store) -> None:
        now = time.time()
        shown = replace(call(principal="ann"), at=now, server="", tool="native", client="zed", method="tools/list")
        for entry in (shown, shown, replace(shown, result_bytes=99), replace(shown, principal="bob", client="cursor")):
            store.record_call(entry)
        store.record_call(replace(shown, at=now - 9000))
        store.record_call(call(principal="ann"))
        size = shown.result_bytes
        zed = {ListTotals("native", "zed", size, 2), ListTotals("native", "zed", 99, 1)}
        assert set(await store.list_totals(now - 60, "ann")) == zed
        assert set(await store.list_totals(now - 60)) == {*zed, ListTotals("native", "cursor", size, 1)}

    async def test_only_calls_of_tools_count_as_usage(self, store: Store) -> None:
        store.record_call(replace(call(principal="ann"), method="resources/read"))
        store.record_call(call(principal="ann"))
        assert await store.usage(ANN) == {"x.echo": 1}

    async def test_a_full_queue_loses_records_and_counts_them(self, store: Store) -> None:
        for _ in range(records.MAX_QUEUED + 7):  # nothing is written before this task gives way
            store.record_call(call(principal="ann"))
        assert store.lost_records == 7
        assert await store.usage(ANN) == {"x.echo": records.MAX_QUEUED}

    @pytest.mark.promise("F27", "A month of records that expires at once is deleted in small steps.")
    async def test_f27_old_records_are_dropped_a_few_with_each_batch(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("wicket_mcp.store.sql.audit.MOST_DROPPED", 2)
        monkeypatch.setattr("wicket_mcp.store.sql.audit.AUDIT_DAYS", 60)
        for day in range(5):
            store.record_call(call(-40 * 86400 - day))
        assert len(await store.find_calls(AuditQuery())) == 5
        monkeypatch.setattr("wicket_mcp.store.sql.audit.AUDIT_DAYS", 30)
        for left in (4, 3, 3):  # two of the old ones go, one more comes
            store.record_call(call())
            assert len(await store.find_calls(AuditQuery())) == left


class TestNotes:
    async def test_a_note_is_replaced(self, store: Store) -> None:
        assert await store.load_note("a") is None
        await store.save_note("a", "ü")
        await store.save_note("a", "second")
        assert await store.load_note("a") == "second"


class TestKeys:
    async def test_a_key_is_found_by_its_digest(self, store: Store, open_another: OpenAnother) -> None:
        await store.save_key(key())
        other = await open_another()
        assert await other.key_of(b"1") == key()
        assert await other.key_of(b"2") is None
        assert await other.keys() == [key()]

    async def test_its_use_is_kept_to_the_minute(self, store: Store, open_another: OpenAnother) -> None:
        await store.save_key(key())
        uses: list[float | None] = []
        for at in (NOW, NOW + 59, NOW + 61):
            store.mark_key_used(b"1", at)
            uses += [kept.used_at for kept in await store.keys()]
        assert uses == [NOW, NOW, NOW + 61]
        assert [kept.used_at for kept in await (await open_another()).keys()] == [NOW + 61]

    async def test_a_version_stays_until_a_key_changes_anywhere(self, store: Store, open_another: OpenAnother) -> None:
        other = await open_another()
        versions = [store.keys_version()]
        for number, saving in enumerate((store, other, store)):
            await saving.key_of(b"1")
            assert store.keys_version() == versions[-1]
            await saving.save_key(replace(key(), hint=str(number)))
            versions.append(await changed(store, store.keys_version, versions[-1]))
        assert len(set(versions)) == len(versions)

    async def test_a_changed_key_is_seen_by_other_processes(self, store: Store, open_another: OpenAnother) -> None:
        other = await open_another()
        await store.save_key(key())
        assert await other.key_of(b"1") == key()
        await store.save_key(replace(key(), revoked_at=NOW))
        assert await other.key_of(b"1") == replace(key(), revoked_at=NOW)


class TestVault:
    async def test_data_keys_follow_one_another(self, store: Store, open_another: OpenAnother) -> None:
        other = await open_another()
        first, second = (StoredDataKey(name, b"\x00wrapped", "by", NOW) for name in "ab")
        assert await store.add_data_key(first, after=None)
        assert not await other.add_data_key(second, after=None)
        assert await other.add_data_key(second, after="a")
        assert await store.data_keys() == [second, first]

    async def test_a_data_key_is_dropped_when_no_secret_needs_it(self, store: Store) -> None:
        keys = [StoredDataKey(name, b"", "by", NOW) for name in "abc"]
        for before, key in zip([None, "a", "b"], keys, strict=True):
            await store.add_data_key(key, after=before)
        assert await store.save_secret(StoredSecret("ann", "x", "a", b"sealed", NOW))
        await store.drop_data_keys()
        assert [key.id for key in await store.data_keys()] == ["c", "a"]

    async def test_a_secret_without_its_data_key_is_not_kept(self, store: Store) -> None:
        assert not await store.save_secret(StoredSecret("ann", "x", "gone", b"sealed", NOW))
        assert await store.secret("ann", "x") is None

    async def test_secrets_are_kept_by_owner_and_name(self, store: Store) -> None:
        await store.add_data_key(StoredDataKey("a", b"", "by", NOW), after=None)
        made = [StoredSecret(owner, name, "a", b"\x00", NOW) for owner in ("ann", "bob") for name in "xy"]
        for secret in made:
            assert await store.save_secret(secret)
        assert await store.secrets() == made
        assert await store.secrets("bob") == made[2:]
        assert await store.secret("ann", "y") == made[1]
        assert (await store.drop_secret("ann", "y"), await store.drop_secret("ann", "y")) == (True, False)
        assert await store.secrets("ann") == made[:1]

    async def test_a_secret_is_replaced_where_it_still_stands(self, store: Store) -> None:
        await store.add_data_key(StoredDataKey("a", b"", "by", NOW), after=None)
        old, new, newer = (StoredSecret("ann", "x", "a", sealed, NOW) for sealed in (b"1", b"2", b"3"))
        await store.save_secret(old)
        await store.replace_secret(old, new)
        await store.replace_secret(old, newer)
        assert await store.secret("ann", "x") == new


class TestGrants:
    GRANT = StoredGrant("g", "client", "Client", "ann", b"credential", frozenset({"invoke"}), NOW, NOW + 60)

    async def test_a_client_is_kept_until_too_many_without_a_grant_follow(self, store: Store) -> None:
        clients = [StoredClient(f"c{number}", "C", ("https://a/b",), NOW + number) for number in range(6)]
        for number in (0, 1):
            await store.add_grant(replace(self.GRANT, id=f"g{number}", client=f"c{number}"))
        await store.revoke_grant("g1", NOW, "why")
        for client in clients[:5]:
            assert await store.save_oauth_client(client, 2, NOW + 10)
        kept = [await store.oauth_client(client.id) for client in clients[:5]]
        assert kept == [clients[0], clients[1], None, *clients[3:5]]
        assert not await store.save_oauth_client(clients[5], 2, clients[3].created_at)  # the others are too new to go
        assert [await store.oauth_client(client.id) for client in clients[3:]] == [*clients[3:5], None]

    async def test_a_grant_is_used_and_revoked_once(self, store: Store, open_another: OpenAnother) -> None:
        other = await open_another()
        await store.add_grant(self.GRANT)
        assert await other.touch_grant("g", NOW + 1, NOW + 90)
        used = replace(self.GRANT, used_at=NOW + 1, expires_at=NOW + 90)
        assert (await store.grant("g"), await store.grants()) == (used, [used])
        assert [await each.revoke_grant("g", NOW + 2, "why") for each in (other, store)] == [True, False]
        assert not await store.touch_grant("g", NOW + 3, NOW + 99)
        assert await store.grant("g") == replace(used, revoked_at=NOW + 2, reason="why")
        assert await store.grant("h") is None

    async def test_a_ticket_is_used_once_and_goes_with_its_grant(self, store: Store, open_another: OpenAnother) -> None:
        other = await open_another()
        ticket = StoredTicket(b"1", "code", "g", {"a": 1}, NOW + 60)
        assert [await each.add_ticket(ticket, NOW) for each in (store, other)] == [True, False]
        assert await other.ticket(b"1") == ticket
        assert await store.use_ticket(b"1", NOW + 1) == ticket
        assert await other.use_ticket(b"1", NOW + 2) == replace(ticket, used_at=NOW + 1)
        await store.add_grant(self.GRANT)
        await store.revoke_grant("g", NOW, "")
        assert await store.ticket(b"1") is await store.use_ticket(b"1", NOW) is None

    async def test_a_ticket_that_was_dropped_may_be_added_again(self, store: Store, open_another: OpenAnother) -> None:
        other = await open_another()
        ticket = StoredTicket(b"1", "renewal", "", {}, NOW + 60)
        assert [await each.add_ticket(ticket, NOW) for each in (store, other)] == [True, False]
        await store.drop_ticket(b"1")
        assert [await each.add_ticket(ticket, NOW) for each in (other, store)] == [True, False]

    async def test_tickets_that_ended_are_dropped(self, store: Store) -> None:
        await store.add_ticket(StoredTicket(b"1", "code", "g", {}, NOW), NOW)
        await store.add_ticket(StoredTicket(b"2", "code", "g", {}, NOW + 60), NOW + 1)
        assert await store.ticket(b"1") is None
        assert await store.ticket(b"2") is not None


class TestLimits:
    async def test_processes_share_a_bucket_that_refills(self, store: Store, open_another: OpenAnother) -> None:
        other = await open_another()
        assert [await each.take("ann", "a", 2, NOW) for each in (store, other, store)] == [0.0, 0.0, 1800.0]
        assert await store.take("ann", "b", 2, NOW) == await store.take("bob", "a", 2, NOW) == 0.0
        assert await other.take("ann", "a", 2, NOW + 1800) == 0.0
        assert await store.take("ann", "a", 2, NOW + 1800) == 1800.0

    async def test_a_bucket_can_owe_what_was_spent(self, store: Store, open_another: OpenAnother) -> None:
        other = await open_another()
        assert await store.draw("ann", "a", 3600, NOW, 0) == 0.0
        assert await store.draw("ann", "a", 3600, NOW, 3599) == 0.0
        assert await other.draw("ann", "a", 3600, NOW, 10) == 10.0
        assert await store.draw("ann", "a", 3600, NOW, 5) == 15.0
        assert await other.take("ann", "a", 3600, NOW + 14) == 1.0
        assert await store.draw("ann", "a", 3600, NOW + 15, 0) == 0.0


class TestRecords:
    async def test_pages_are_in_order_and_complete(self, store: Store) -> None:
        await store.save_records([record(f"a/{n}") for n in (3, 1, 2)])
        first = await store.page(RecordQuery(limit=2))
        rest = await store.page(RecordQuery(after=(first[-1].name, first[-1].version), limit=2))
        assert [*first, *rest] == [record("a/1"), record("a/2"), record("a/3")]

    async def test_a_page_is_narrowed(self, store: Store) -> None:
        await store.save_records([record("a/Old", updated_at=NOW - 60), record("a/new", "2"), record("b", "1")])
        await store.save_records([record("b", "2", status="deleted")])
        queries = (
            RecordQuery(search="OLD"),
            RecordQuery(updated_since=NOW),
            RecordQuery(version="2"),
            RecordQuery(version="latest", include_deleted=True),
        )
        pages = [[(found.name, found.version) for found in await store.page(query)] for query in queries]
        assert pages == [
            [("a/Old", "1")],
            [("a/new", "2"), ("b", "1")],
            [("a/new", "2")],
            [("a/Old", "1"), ("a/new", "2"), ("b", "2")],
        ]

    async def test_one_version_is_the_latest(self, store: Store) -> None:
        await store.save_records([record("a", "1")])
        before = await store.record_stamp()
        await store.save_records([record("a", "2", published_at=NOW + 1)])
        assert [(found.version, found.latest) for found in await store.versions("a")] == [("2", True), ("1", False)]
        assert await store.record_stamp() != before


class TestDomainsOnboardingManaged:
    async def test_a_claim_is_replaced_and_its_principals_alone(self, store: Store) -> None:
        claim = StoredDomain("ann", "example.com", "token", "pending", NOW)
        await store.save_domain(claim)
        verified = replace(claim, state="verified", verified_at=NOW + 1, method="dns")
        await store.save_domain(verified)
        assert await store.domains("ann") == [verified]
        assert await store.domains("bob") == []

    async def test_only_the_first_time_of_a_step_counts(self, store: Store) -> None:
        await store.record_step("ann", "made", NOW)
        await store.record_step("ann", "made", NOW + 5)
        assert await store.steps("ann") == {"made": NOW}

    async def test_managed_servers_come_back_in_the_order_they_were_made_and_others_notice(
        self, store: Store, open_another: OpenAnother
    ) -> None:
        other = await open_another()
        heard = Heard(other)
        late = StoredManaged("a", "npm", {"command": "npx"}, running=True, owner="ann", created_at=NOW + 1)
        early = StoredManaged("b", "manual", {}, running=False, owner="", created_at=NOW)
        for managed in (late, early):
            await store.save_managed(managed)
        await heard.wait_for("managed_server")
        assert await other.managed_servers() == [early, late]
        await store.drop_managed("b")
        await heard.wait_for("managed_server")
        assert await store.managed_servers() == [late]


class TestHealth:
    async def test_probes_and_calls_are_observations(self, store: Store) -> None:
        start = time.time()
        await store.save_probe("x", Observation(start - 100, ok=False, faulty=True, duration_ms=2.0), start - 1000)
        for at, outcome in ((-90, "ok"), (-80, "crashed"), (-70, "upstream_error"), (-60, "cancelled")):
            store.record_call(call(at, outcome=outcome))
        for server in ("x", "y"):  # acts, such as a sign-in to a server, are no calls
            act = replace(call(-50), method="admin", server=server)
            store.record_call(act)
        seen = await store.observations("x", start - 1000)
        assert [(entry.ok, entry.faulty) for entry in seen] == [
            (False, True),
            (True, False),
            (False, True),
            (True, True),
        ]
        assert await store.observed_servers(start - 1000) == {"x"}
        assert await store.call_counts(start - 1000) == {"x": 2}, "the one that was cancelled is no failure"
        assert await store.observed_servers(start + 1000) == set()

    @pytest.mark.promise("F27", "Health and usage of a month are summed up from hours, not from single calls.")
    async def test_f27_what_lies_in_whole_hours_is_counted_from_their_sums(self, store: Store) -> None:
        now = time.time()
        begin = now - now % 3600
        for ago in (1, 3700, 7300, 7400):
            store.record_call(call(begin - ago - now))
        store.record_call(call(begin - 7300 - now, outcome="crashed"))
        assert await store.call_counts(begin - 7250) == {"x": 2}, "from the middle of an hour on"
        assert await store.call_counts(begin - 7350) == {"x": 3}
        assert await store.call_counts(begin - 8 * 3600) == {"x": 4}
        assert await store.observed_servers(begin - 3650) == {"x"}
        assert await store.observed_servers(begin) == set()

    async def test_old_probes_are_dropped(self, store: Store) -> None:
        for at in (NOW, NOW + 10):
            await store.save_probe("x", Observation(at, ok=True, faulty=False, duration_ms=1.0), NOW + 5)
        assert [entry.at for entry in await store.observations("x", 0)] == [NOW + 10]

    async def test_a_watched_server_is_watched_until_then(self, store: Store) -> None:
        await store.watch("x", NOW)
        assert await store.watched_servers(NOW) == {"x"}
        assert await store.watched_servers(NOW + 1) == set()


def pin(digest: str, name: str = "echo", at: float = NOW, server: str = "x") -> StoredPin:
    return StoredPin(server, "source", "tool", name, digest, b"{}", "ann", at)


class TestPins:
    async def test_pins_are_read_by_server_the_newest_of_a_name_last(
        self, store: Store, open_another: OpenAnother
    ) -> None:
        await store.save_pins([pin("2", at=NOW + 1), pin("1"), pin("3", server="y")])
        other = await open_another()
        assert await other.pins("x") == [pin("1"), pin("2", at=NOW + 1)]
        assert await other.pins() == [pin("1"), pin("2", at=NOW + 1), pin("3", server="y")]

    async def test_a_pin_of_the_same_digest_is_replaced(self, store: Store) -> None:
        await store.save_pins([pin("1"), pin("2", at=NOW + 1)])
        await store.save_pins([pin("1", at=NOW + 2)])
        assert [(kept.digest, kept.at) for kept in await store.pins("x")] == [("2", NOW + 1), ("1", NOW + 2)]

    async def test_the_oldest_of_a_name_go(self, store: Store) -> None:
        await store.save_pins([pin(str(number), at=NOW + number) for number in range(20)] + [pin("1", "other")])
        digests = [kept.digest for kept in await store.pins("x") if kept.name == "echo"]
        assert digests == [str(number) for number in range(12, 20)]
        assert len(await store.pins("x")) == 9

    @pytest.mark.promise("V12", "Accepted definitions do not add up: of each server so many are stored, the newest.")
    async def test_v12_the_oldest_of_a_server_go(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("wicket_mcp.store.sql.pins.PINS_OF_SERVER", 5)
        archive = StoredPin("x", "source", "package", "npm:x", "1", b"", "ann", NOW - 9)
        await store.save_pins([archive, pin("1", "else", server="y")])
        for number in range(9):
            await store.save_pins([pin("1", f"new{number}-{part}", at=NOW + number) for part in range(2)])
        assert [(kept.kind, kept.name) for kept in await store.pins("x")] == [
            ("package", "npm:x"),
            *(("tool", f"new{number}-{part}") for number, part in [(6, 1), (7, 0), (7, 1), (8, 0), (8, 1)]),
        ]
        assert len(await store.pins("y")) == 1

    async def test_a_version_shows_that_another_process_saved(self, store: Store, open_another: OpenAnother) -> None:
        before = store.definitions_version()
        await (await open_another()).save_pins([pin("1")])
        assert await changed(store, store.definitions_version, before) != before

    async def test_what_others_saved_is_read_once(self, store: Store, open_another: OpenAnother) -> None:
        other = await open_another()
        await store.save_pins([pin("1"), pin("2", at=NOW + 1)])
        first, pins = await other.new_pins(NOTHING)
        assert pins == [pin("1"), pin("2", at=NOW + 1)]
        assert await other.new_pins(first) == (first, [])
        await store.save_pins([pin("1", at=NOW + 2)])
        second, pins = await other.new_pins(first)
        assert pins == [pin("1", at=NOW + 2)]
        assert second > first


def approval(number: str = "a1", **options: object) -> StoredApproval:
    made = StoredApproval(number, "ann", "x", "send", "digest", "rules", "May ann send?", NOW, NOW + 60)
    return replace(made, **options)  # type: ignore[arg-type]


class TestApprovals:
    async def test_an_approval_is_spent_once_by_the_call_it_is_for(
        self, store: Store, open_another: OpenAnother
    ) -> None:
        await store.save_approval(approval())
        assert await store.spend(approval(), NOW) is None
        approved = await (await open_another()).approve("a1", "bob", NOW)
        assert approved == approval(approved_by="bob")
        for other in ("principal", "server", "tool", "arguments_digest", "policy"):
            assert await store.spend(approval(**{other: "another"}), NOW) is None
        assert [await store.spend(approval(), NOW) for _ in range(2)] == [approved, None]
        assert await store.approvals(NOW) == []

    async def test_what_has_expired_cannot_be_approved_or_spent(self, store: Store) -> None:
        await store.save_approval(approval())
        assert await store.approve("a1", "bob", NOW + 61) is None
        assert (await store.approve("a1", "bob", NOW)) is not None
        assert await store.spend(approval(), NOW + 61) is None
        await store.save_approval(approval("a2", asked_at=NOW + 100, expires_at=NOW + 160))
        assert [open_one.id for open_one in await store.approvals(NOW)] == ["a2"]

    async def test_a_question_that_was_answered_elsewhere_is_withdrawn(self, store: Store) -> None:
        await store.save_approval(approval(arguments='{"to": "ann"}', who="other"))
        await store.save_approval(approval("a2"))
        assert (await store.approvals(NOW))[0] == approval(arguments='{"to": "ann"}', who="other")
        await store.withdraw("a1")
        assert [waiting.id for waiting in await store.approvals(NOW)] == ["a2"]

    async def test_a_question_is_decided_once(self, store: Store) -> None:
        await store.save_approval(approval())
        assert (await store.approve("a1", "bob", NOW)) is not None
        assert await store.approve("a1", "eve", NOW) is None
        assert await store.approve("none", "eve", NOW) is None


def standing(number: str = "always-1", at: float = NOW) -> StandingApproval:
    return StandingApproval(number, "ann", "x", "send", b'{"to":{"const":"bob"}}', "ann", at)


class TestStandingApprovals:
    async def test_they_are_kept_in_order_until_they_are_revoked(self, store: Store, open_another: OpenAnother) -> None:
        other = await open_another()
        before = other.standing_approvals_version()
        for rule in (standing("always-2", NOW + 1), standing(), standing(at=NOW + 9)):
            await store.save_standing_approval(rule)
        assert await changed(other, other.standing_approvals_version, before) != before
        assert await other.standing_approvals() == [standing(), standing("always-2", NOW + 1)]
        assert [await other.revoke_standing_approval("always-1") for _ in range(2)] == [standing(), None]
        assert await store.standing_approvals() == [standing("always-2", NOW + 1)]


class TestChoices:
    async def test_weights_of_the_same_query_and_tool_add_up(self, store: Store, open_another: OpenAnother) -> None:
        await store.add_choice(StoredChoice("ann", b"q", "x.echo", 1.0, NOW), 9)
        await (await open_another()).add_choice(StoredChoice("ann", b"q", "x.echo", 0.5, NOW + 5), 9)
        await store.add_choice(StoredChoice("ann", b"q", "x.other", 1.0, NOW + 1), 9)
        assert await store.choices("ann") == [
            StoredChoice("ann", b"q", "x.echo", 1.5, NOW + 5),
            StoredChoice("ann", b"q", "x.other", 1.0, NOW + 1),
        ]

    async def test_the_oldest_of_a_principal_go_and_those_of_others_stay(self, store: Store) -> None:
        await store.add_choice(StoredChoice("bob", b"q", "x.echo", 1.0, NOW - 9), 2)
        for number in range(4):
            await store.add_choice(StoredChoice("ann", bytes([number]), "x.echo", 1.0, NOW + number), 2)
        assert [choice.query for choice in await store.choices("ann")] == [b"\3", b"\2"]
        assert len(await store.choices("bob")) == 1
        assert await store.choices("eve") == []
