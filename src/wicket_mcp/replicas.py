"""One of several replicas: the shared keys, the members, and how to reach them. Composition only; decides nothing.

Loaded by `serving.py` if `store` names a database, and by the workers of one machine. The keys are the vault's, which
every replica has (`WICKET_VAULT_KEY`): the first one seals and all of them open. Restarts can change a key: first to
`old,new` and, when all replicas know the new one, to `new,old`. Workers have the keys of their state folder.
"""

import asyncio
import os
import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from wicket_mcp.cluster.claims import ClaimingMembers, ClaimsAway
from wicket_mcp.cluster.comparison import Comparison
from wicket_mcp.cluster.file_members import FileMembers
from wicket_mcp.cluster.members import Member, tag
from wicket_mcp.cluster.pulse import answers
from wicket_mcp.cluster.relay import PEER, Relay
from wicket_mcp.cluster.statements import Statements
from wicket_mcp.config.model.config import HttpConfig
from wicket_mcp.config.read.secrets import expand
from wicket_mcp.errors import ConfigError, NoOwner
from wicket_mcp.identity.key_file import sealing_keys
from wicket_mcp.identity.wrapping import wrapping
from wicket_mcp.model import META_SERVER_INFO, MODERN_VERSION, JsonObject, Principal, as_object, as_text
from wicket_mcp.request import GATEWAY
from wicket_mcp.sealing import Ring
from wicket_mcp.store.base import NoteStore
from wicket_mcp.store.model import StoredResult
from wicket_mcp.store.open import join_members
from wicket_mcp.surface.held_calls import Seal
from wicket_mcp.surface.local_tasks import Elsewhere
from wicket_mcp.surface.owned import Owned, OwnedServers, PeerLinks
from wicket_mcp.surface.protocol import Protocol
from wicket_mcp.surface.replica_router import ReplicaRouter
from wicket_mcp.surface.result_page import PATH as RESULTS
from wicket_mcp.surface.result_page import read as read_result
from wicket_mcp.surface.under_way import LOOK_WITHIN, STOP, Glimpse, read
from wicket_mcp.surface.under_way import PATH as UNDER_WAY
from wicket_mcp.upstream.announcements import address_to, with_time
from wicket_mcp.upstream.era import BEHIND
from wicket_mcp.upstream.events import UpstreamEvent
from wicket_mcp.upstream.kept_sessions import KeptSessions
from wicket_mcp.upstream.lock_ownership import LockOwnership
from wicket_mcp.upstream.owner import EPOCH, PATH, Vouch, ownership_key
from wicket_mcp.upstream.ownership import Claim, FileOwnership, Ownership

if TYPE_CHECKING:
    from wicket_mcp.app import Gateway
    from wicket_mcp.cluster.members import Members
    from wicket_mcp.surface.sessions import Sessions

FIND_WITHIN = 3.0
"""Seconds in which another member must return a stored result."""
READY = "/readyz"
READY_WITHIN = 1.0
MARK = "keys of the replicas"
"""The note that holds a check value sealed with the replicas' keys."""
ADDRESS = "WICKET_REPLICA_URL"
"""The variable with the address at which other replicas reach this one, if it cannot be determined:
http://host:port.
"""


class Replicas:
    """Made with `Replicas.open`; `join` once our address is known."""

    def __init__(self, gateway: "Gateway", sessions: "Sessions") -> None:
        self.me = secrets.token_hex(6)
        self.ring = ring = gateway.ring
        self.statements = Statements(ring, self.me)
        self.relay = Relay(self.statements)
        self.router = ReplicaRouter(self.me, ring, self.relay, sessions, gateway.store, gateway.config.http.max_body)
        self.members: Members | None = None
        self._comparison: Comparison | None = None
        self._gateway = gateway
        self._ownership: Ownership | None = None
        self._links = PeerLinks(self.statements.admit_on, gateway.outbox_counters)
        sessions.name_by(self.router.session_id)
        gateway.held.seal_with(Seal(ring, home=self.me))
        gateway.accounts.waiting.share(ring)
        gateway.results.share(self._find_result)
        self._kept_sessions = KeptSessions(gateway.store, ring, self.me, self._is_elsewhere, self.router.has_ended)
        gateway.pool.keep_sessions(self._kept_sessions)
        elsewhere = Elsewhere(partial(tag, self.me), self.router.has_task, self.router.ask_about_task)
        gateway.local_tasks.share(elsewhere)

    @classmethod
    async def open(cls, gateway: "Gateway", sessions: "Sessions") -> "Replicas":
        """Raises ConfigError."""
        if gateway.config.store is None:
            gateway.ring.use(sealing_keys(gateway.config.state_path))
        else:
            source = wrapping(gateway.config)
            if not await source.keys():
                await source.create()
            gateway.ring.use(await source.keys())
            await _compare(gateway.store, gateway.ring, source.place)
        return cls(gateway, sessions)

    @property
    def problem(self) -> str:
        """Why this replica should get no requests; empty if it should."""
        if self.members is None:
            return "joining the other replicas"
        return self.members.problem if self._comparison is not None and self._comparison.cut_off else ""

    @property
    def warning(self) -> str:
        """What does not work although this replica serves as well as any other: the database is away for all."""
        return self.members.problem if self.members is not None else ""

    async def join(self, http: HttpConfig, port: int) -> None:
        """Join the other replicas. Raises ConfigError."""
        config = self._gateway.config
        named = os.environ.get(ADDRESS, "").rstrip("/")

        def locate(seen: str) -> str:
            host = seen if http.host in ("0.0.0.0", "::") else http.host  # noqa: S104  (compared, not bound)
            return named or f"http://{f'[{host}]' if ':' in host else host}:{port}"

        address = expand(config.store or "", "store", config.base_dir)
        members = self.members = await join_members(address, self.me, locate)
        self.router.join(members)
        self.ring.use_clock(members.clock)
        await self._own_by_locks(members)
        limits = self._gateway.store.shared_limits
        if limits is not None:
            limits.divide_by(lambda: max(1, len(members.all)))

    async def join_workers(self, folder: Path, address: str) -> None:
        """Join the other workers of this machine, which find each other in a folder."""
        members = self.members = await FileMembers.join(folder, self.me, address)
        self.router.join(members)
        self._gateway.buckets.divide_by(lambda: max(1, len(members.all)))
        self.own(FileOwnership(folder, address, answers))
        for server in self._gateway.config.servers:  # servers that started before ownership was known
            await self._gateway.pool.stop(server.name)

    async def _own_by_locks(self, members: ClaimingMembers) -> None:
        ownership = LockOwnership(members, self._still_owns, self._ask_owner, answers)
        self.own(ownership)
        for server in self._gateway.config.servers:  # servers that started before ownership was known
            if server.url is None:
                await self._gateway.pool.stop(server.name)

        def claim_again() -> None:
            self._gateway.tasks.start(ownership.claim_again(), "claim our servers again")

        self._comparison = Comparison(members, self._ask_warning)
        members.on_lost.append(ownership.give_up)
        members.on_back.append(claim_again)

    async def _ask_warning(self, member: Member) -> str | None:
        readiness = await self.relay.fetch(member, READY, GATEWAY, READY_WITHIN)
        return None if readiness is None else as_text(as_object(readiness).get("warning"))

    async def _still_owns(self, member: Member, key: str, epoch: int) -> bool | None:
        """An owner rejects our empty message; a member that is not the owner rejects our epoch."""
        path, principal = _path_of(key)
        status = await self.relay.ask(member, path, principal, {EPOCH: str(epoch)})
        return None if status is None else status == 400

    async def _ask_owner(self, member: Member, key: str) -> Claim | None:
        path, principal = _path_of(key)
        claim = await self.relay.locate(member, path, principal)
        return None if claim is None else Claim(*claim)

    async def _locate(self, server: str, principal: Principal) -> JsonObject:
        await self._gateway.pool.start(server, "", principal)
        config = self._gateway.pool.config(server)
        claim: Claim | None = None
        if config is not None and isinstance(self._ownership, LockOwnership):
            with suppress(ClaimsAway):
                claim = await self._ownership.holder(ownership_key(config, principal))
        if claim is None:
            raise NoOwner(server, f"No gateway runs server '{server}'.", hint="Try again.")
        return {"epoch": claim.epoch, "address": claim.address}

    def own(self, ownership: Ownership) -> None:
        """From now on every command has one owner among the members."""
        self._ownership = ownership
        self._gateway.pool.share(ownership, Vouch(self._vouch, self.statements.make_for))

    def _vouch(self, principal: Principal, address: str, path: str) -> Mapping[str, str]:
        others = self._others()
        receiver = next((member.id for member in others if member.address == address), "")
        return {PEER.decode(): self.statements.make(receiver, principal, "POST", path)}

    def mount(self, protocol: Protocol, max_message: int) -> OwnedServers:
        """The servers that we own, for the other members."""
        owned = Owned(self._epoch, self._locate, self._discover, self._gateway.forward, self._listen, self._watch)
        return OwnedServers(owned, protocol, max_message, self._links)

    async def look_around(self, principal: Principal, server: str = "", within: float = LOOK_WITHIN) -> list[Glimpse]:
        """The activity at the other members; one that does not answer quickly is left out."""
        answers = await self.ask_all(f"{UNDER_WAY}?{urlencode({'server': server})}", principal, within)
        return [read(answer) for answer in answers.values() if answer is not None]

    async def ask_workers(self, path: str) -> Mapping[str, Any]:
        """The answers of the other workers, also of one that has just begun."""
        if self.members is not None:
            await self.members.look()
        return await self.ask_all(path, GATEWAY)

    async def ask_all(self, path: str, principal: Principal, within: float = LOOK_WITHIN) -> Mapping[str, Any]:
        """The answers of the other members by their ids; None for one that does not answer quickly."""
        others = self._others()
        answers = await asyncio.gather(*(self.relay.fetch(member, path, principal, within) for member in others))
        return {member.id: answer for member, answer in zip(others, answers, strict=True)}

    async def stop_elsewhere(self, server: str, principal: Principal) -> None:
        """Stop a server at the other members."""
        path = f"{STOP}{quote(server, safe='')}"
        await asyncio.gather(*(self.relay.ask(member, path, principal, {}) for member in self._others()))

    def _is_elsewhere(self, member: str) -> bool:
        return self.members is not None and member != self.me and member in self.members.all

    def _others(self) -> list[Member]:
        if self.members is None:
            return []
        return [member for member in self.members.all.values() if member.id != self.me]

    async def _find_result(self, row: str, principal: Principal) -> StoredResult | None:
        """A result that is not in the store, or whose store does not answer: another member may have it in memory."""
        # Also those that have only lost the database: we may have seen that just before we lost it ourselves.
        members = {**self.members.suspects, **self.members.all} if self.members else {}
        others = [member for member in members.values() if member.id != self.me]
        path = f"{RESULTS}{quote(row)}"
        for answer in await asyncio.gather(
            *(self.relay.fetch(member, path, principal, FIND_WITHIN) for member in others)
        ):
            if (stored := read_result(answer)) is not None:
                return stored
        return None

    def _epoch(self, server: str, principal: Principal) -> int:
        config = self._gateway.pool.config(server)
        if config is None or self._ownership is None:
            return 0
        return self._ownership.epoch(ownership_key(config, principal))

    async def _discover(self, server: str, principal: Principal) -> JsonObject:
        greeting = await self._gateway.pool.start(server, "", principal)
        return {
            "supportedVersions": [MODERN_VERSION],
            "capabilities": greeting.capabilities,
            "instructions": greeting.instructions,
            **greeting.fields,
            "_meta": {
                **as_object(greeting.fields.get("_meta")),
                META_SERVER_INFO: greeting.server_info,
                BEHIND: greeting.protocol_version,
            },
        }

    def _listen(self, server: str, principal: Principal, hear: Callable[[str, JsonObject], None]) -> Callable[[], None]:
        config = self._gateway.pool.config(server)
        alone = config is not None and config.is_per_user

        def take(event: UpstreamEvent) -> None:
            if event.server != server or (alone and event.principal.id != principal.id):
                return
            if event.audience is not None:
                hear(event.method, address_to(event.audience, event.params))
            elif event.method.startswith("notifications/"):
                is_change = event.method.endswith("/list_changed")
                hear(event.method, with_time(event.params, time.time()) if is_change else event.params)

        self._gateway.on_event.append(take)
        return lambda: self._gateway.on_event.remove(take)

    async def _watch(self, server: str, uri: str, principal: Principal) -> Callable[[], None]:
        session = f"owned {secrets.token_hex(8)}"
        pool = self._gateway.pool
        await pool.watch(server, uri, session=session, principal=principal)
        return lambda: pool.unwatch(server, uri, session=session, principal=principal)

    async def leave(self) -> None:
        """Stop taking new work; it goes to the other members."""
        if self.members is not None:
            await self.members.leave()

    def hand_over_sessions(self) -> None:
        """Our clients' sessions at servers are continued by other members: leave them open."""
        self._kept_sessions.leave()

    async def close(self) -> None:
        await self._links.leave()
        if self._ownership is not None:
            for key in self._ownership.keys:  # they must have stopped before another member starts them
                await self._gateway.pool.stop(key.partition(" for ")[0])
            await self._ownership.close()
        self.ring.use_clock(time.time)
        if self._comparison is not None:
            await self._comparison.close()
        if self.members is not None:
            await self.members.close()
        await self.relay.close()


def _path_of(key: str) -> tuple[str, Principal]:
    """The path and the principal for asking a member about `key`."""
    server, _, name = key.partition(" for ")
    return f"{PATH}{quote(server)}", Principal(name) if name else GATEWAY


async def _compare(store: NoteStore, ring: Ring, place: str) -> None:
    """Refuse keys that differ from those of the other replicas: sessions and credentials would fail at random."""
    known = await store.load_note(MARK)
    if known is not None and ring.open(MARK, known) is None:
        raise ConfigError(
            f"the replicas over this database have another vault key than this one ({place})",
            key="store",
            hint="Give all of them the same WICKET_VAULT_KEY. To change it, restart all with old,new, then new,old.",
        )
    await store.save_note(MARK, ring.close(MARK, True, 1e12))
