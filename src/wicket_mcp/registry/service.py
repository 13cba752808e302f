"""The records: reading them page by page, finding one, publishing, deleting; and the permissions for this.

A name belongs to its first publisher; a name under a domain belongs to the principal that proved the domain. Seeded and
mirrored records have no owner, and only administrators can change them.
"""

import asyncio
import hashlib
import time
from collections.abc import Callable, Sequence
from importlib.resources import files
from typing import Any

from msgspec.structs import replace

from wicket_mcp.codec import decode
from wicket_mcp.errors import BadArguments, Denied, UnknownName
from wicket_mcp.model import LOCAL, JsonObject, Principal
from wicket_mcp.registry import server_json
from wicket_mcp.registry.domains import Domains
from wicket_mcp.registry.index import RecordIndex
from wicket_mcp.spelling import nearest
from wicket_mcp.store.base import NoteStore, RecordStore
from wicket_mcp.store.model import RecordQuery, StoredRecord

SEED_MARK = "registry seed"


class Registry:
    """The registry's records: list, find, publish and delete, each within the principal's rights."""

    def __init__(
        self,
        records: RecordStore,
        notes: NoteStore,
        domains: Domains,
        on_act: Callable[[str, str, str], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`on_act` is called for the audit, with who did what."""
        self._on_act = on_act
        self._records = records
        self._notes = notes
        self._domains = domains
        self._clock = clock
        self._index = RecordIndex.empty()
        self._seeded = False
        self._lock = asyncio.Lock()

    async def index(self) -> RecordIndex:
        """The latest version of every active record, searchable; updated when records have changed."""
        async with self._lock:
            await self._seed()
            stamp = await self._records.record_stamp()
            if stamp != self._index.stamp:
                self._index = await asyncio.to_thread(self._index.renew, stamp, await self._all_latest())
            return self._index

    async def page(self, query: RecordQuery) -> Sequence[StoredRecord]:
        await self.plant()
        return await self._records.page(query)

    async def versions(self, name: str, *, deleted: bool = False) -> Sequence[StoredRecord]:
        """All versions, with `deleted` also those, newest publication first. Raises UnknownName."""
        await self.plant()
        records = [record for record in await self._records.versions(name) if deleted or record.status != "deleted"]
        if not records:
            raise UnknownName("server", name, hint="Search for it with GET /v0.1/servers?search=.")
        return records

    async def version(self, name: str, version: str, *, deleted: bool = False) -> StoredRecord:
        """One version, or the latest. Raises UnknownName."""
        for record in await self.versions(name, deleted=deleted):
            if record.version == version or (version == "latest" and record.latest):
                return record
        raise UnknownName("version", version, hint=f"'{name}' has other versions.")

    async def find(self, name: str) -> StoredRecord:
        """The record that an agent means: by id, full name or title. Raises UnknownName."""
        index = await self.index()
        record = index.get(name)
        if record is None:
            raise UnknownName(
                "server", name, nearest(name, index.ids.values()), hint="Search for it: wicket registry search WORDS"
            )
        return record

    async def publish(self, body: Any, principal: Principal, *, origin: str = "published") -> StoredRecord:
        """Add a new version. Raises BadArguments, Denied, or Taken."""
        checked = server_json.check(body)
        name, version = checked["name"], checked["version"]
        await self.plant()
        known = list(reversed(await self._records.versions(name)))
        await self._permit(name, known, principal)
        same = next((record for record in known if record.version == version), None)
        if same is not None and not (origin == same.origin == "registered"):
            raise Taken(f"Version {version} of {name} is already published.", hint="Publish it under a new version.")
        now = self._clock()
        others = [record for record in known if record is not same and record.status != "deleted"]
        order = [*(record.version for record in others), version]
        latest = server_json.newest(order) == len(others)
        published = same.published_at if same else now
        record = StoredRecord(name, version, checked, "active", published, now, latest, origin, principal.id)
        await self._records.save_records([record])
        self._on_act(principal.id, "register server", f"{name} {version}")
        return record

    async def delete(self, name: str, version: str, principal: Principal) -> StoredRecord:
        """Mark a version as deleted, which mirrors can see. Raises UnknownName or Denied."""
        record = await self.version(name, version)
        await self._permit(name, [record], principal)
        deleted = replace(record, status="deleted", latest=False, updated_at=self._clock())
        await self._records.save_records([deleted])
        left = [
            remaining for remaining in reversed(await self._records.versions(name)) if remaining.status != "deleted"
        ]
        if left and record.latest:
            heir = left[server_json.newest([remaining.version for remaining in left])]
            await self._records.save_records([replace(heir, latest=True, updated_at=self._clock())])
        self._on_act(principal.id, "delete registered server", f"{name} {version}")
        return deleted

    async def _permit(self, name: str, known: Sequence[StoredRecord], principal: Principal) -> None:
        if "admin" in principal.scopes:
            return
        if any(record.owner != principal.id for record in known):
            raise Denied(f"{name} belongs to somebody else.", hint="Publish under a name of your own.")
        domain = server_json.domain_of(name)
        if domain is None:
            await self._permit_account(name, principal)
        elif not await self._domains.covers(principal, domain):
            raise Denied(
                f"{name} may be published only by somebody who has proved that they own {domain}.",
                hint=f"Call verify_domain with '{domain}', set the record it names, then check_domain_ownership.",
            )

    async def _permit_account(self, name: str, principal: Principal) -> None:
        """An account at a forge belongs to the first publisher under it, whatever the spelling."""
        account = f"{name.partition('/')[0].lower()}/"
        query = RecordQuery(limit=1000, search=account, include_deleted=True)
        while page := await self._records.page(query):
            owners = {record.owner for record in page if record.name.lower().startswith(account)}
            if owners - {"", principal.id}:
                raise Denied(f"{account[:-1]} belongs to somebody else.", hint="Publish under an account of your own.")
            query = replace(query, after=(page[-1].name, page[-1].version))

    async def _all_latest(self) -> list[StoredRecord]:
        records: list[StoredRecord] = []
        query = RecordQuery(limit=1000, version="latest")
        while page := await self._records.page(query):
            records += page
            query = replace(query, after=(page[-1].name, page[-1].version))
        return records

    async def plant(self) -> None:
        """Add the records that ship with Wicket, unless they are already there."""
        async with self._lock:
            await self._seed()

    async def _seed(self) -> None:
        """Add the records that ship with Wicket, once for each edition of that file."""
        if self._seeded:
            return
        data = await asyncio.to_thread(files("wicket_mcp.registry").joinpath("seed.json").read_bytes)
        edition = hashlib.blake2b(data, digest_size=8).hexdigest()
        if await self._notes.load_note(SEED_MARK) != edition:
            await self._take_in(decode(data)["servers"])
            await self._notes.save_note(SEED_MARK, edition)
        self._seeded = True

    async def _take_in(self, bodies: Sequence[JsonObject]) -> None:
        now = self._clock()
        planted: list[StoredRecord] = []
        for body in bodies:
            known = await self._records.versions(body["name"])
            if all(record.origin == "seed" and record.status == "active" for record in known):
                first = next((record.published_at for record in known if record.version == body["version"]), now)
                planted.append(
                    StoredRecord(body["name"], body["version"], body, "active", first, now, True, "seed", "")
                )
        await self._records.save_records(planted)


def name_doubt(record: StoredRecord) -> str:
    """Why the name of a record may not be its publisher's: a domain must be proved, an account at a forge need not."""
    if record.owner in ("", LOCAL.name) or server_json.domain_of(record.name) is not None:
        return ""
    account = record.name.partition("/")[0]
    return f"Unproved: '{record.owner}' published it here, and nobody has checked that {account} is theirs."


class Taken(BadArguments):
    """The name and version exist already."""
