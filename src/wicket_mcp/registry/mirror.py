"""Mirrors another registry with the official API: page by page, then only the changes.

Its records are checked like those published here, never replace a record that was published here, and keep their
origin. An invalid record does not affect the others.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlencode, urlsplit

from wicket_mcp.codec import decode
from wicket_mcp.errors import BadArguments, Unavailable, WicketError
from wicket_mcp.model import JsonObject, as_list, as_object, as_text
from wicket_mcp.registry import server_json
from wicket_mcp.registry.domains import timestamp
from wicket_mcp.store.base import NoteStore, RecordStore
from wicket_mcp.store.model import Status, StoredRecord
from wicket_mcp.telemetry.redact import mask_url
from wicket_mcp.upstream.egress import Endpoint, HttpClient

PAGE = 100
MAX_PAGES = 10_000
MAX_PAGE_BYTES = 16 * 1024 * 1024
OVERLAP = 60.0  # seconds read twice, for records that were being written at the last visit
_STATUSES: dict[str, Status] = {"active": "active", "deprecated": "deprecated", "deleted": "deleted"}


@dataclass(slots=True)
class Synced:
    """The result of one visit."""

    taken: int = 0
    unchanged: int = 0
    refused: int = 0
    pages: int = 0


class Mirror:
    """Mirrors one registry. `key` is sent as a bearer token."""

    def __init__(
        self,
        url: str,
        records: RecordStore,
        notes: NoteStore,
        client: HttpClient,
        *,
        key: str = "",
        clock: Callable[[], float] = time.time,
    ) -> None:
        if urlsplit(url).scheme not in ("http", "https"):
            raise BadArguments(f"'{url}' is not the address of a registry.", hint="Give one such as https://host.")
        self._base = url.rstrip("/").removesuffix("/v0.1/servers").removesuffix("/v0.1")
        self._origin = mask_url(self._base)
        self._records = records
        self._notes = notes
        self._client = client
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._clock = clock

    async def sync(self, on_page: Callable[[Synced], None] | None = None) -> Synced:
        """Import what is new or changed. Raises WicketError if the registry cannot be read to the end."""
        mark = f"mirror {self._origin}"
        since = await self._notes.load_note(mark)
        newest = float(since or 0.0)
        done, cursor = Synced(), ""
        while done.pages < MAX_PAGES:
            page = await self._page(cursor, since)
            done.pages += 1
            for entry in as_list(page.get("servers")):
                newest = max(newest, await self._take(as_object(entry), done))
            if on_page is not None:
                on_page(done)
            after = as_text(as_object(page.get("metadata")).get("nextCursor"))
            if not after or after == cursor:
                break
            cursor = after
        if newest:
            await self._notes.save_note(mark, repr(newest))
        return done

    async def _page(self, cursor: str, since: str | None) -> JsonObject:
        query = {"limit": str(PAGE), "include_deleted": "true"}
        if cursor:
            query["cursor"] = cursor
        if since is not None:
            query["updated_since"] = timestamp(float(since) - OVERLAP)
        endpoint = Endpoint.of("registry", f"{self._base}/v0.1/servers?{urlencode(query)}", self._headers)
        answer = await self._client.send("GET", endpoint, {**self._headers, "Accept": "application/json"})
        try:
            body = await answer.body(MAX_PAGE_BYTES)
        finally:
            answer.close()
        if answer.status != 200:
            raise Unavailable(
                "registry",
                f"The registry at {self._origin} answered HTTP {answer.status}.",
                hint="Check its address, and the key in --key or WICKET_API_KEY.",
            )
        try:
            return as_object(decode(body))
        except ValueError:
            raise Unavailable("registry", f"The registry at {self._origin} did not answer with JSON.") from None

    async def _take(self, entry: JsonObject, done: Synced) -> float:
        """Store one record if it is new; returns when it last changed there."""
        about = as_object(as_object(entry.get("_meta")).get(server_json.OFFICIAL))
        updated = _seconds(about.get("updatedAt"))
        try:
            body = server_json.check(entry.get("server"))
        except WicketError:
            done.refused += 1
            return updated
        known = await self._records.versions(body["name"])
        same = next((record for record in known if record.version == body["version"]), None)
        status = _STATUSES.get(as_text(about.get("status")), "active")
        latest = about.get("isLatest") is not False and status != "deleted"
        unchanged = same is not None and (same.body, same.status, same.latest) == (body, status, latest)
        if unchanged or any(record.owner for record in known):
            done.unchanged += 1
            return updated
        published = _seconds(about.get("publishedAt")) or self._clock()
        await self._records.save_records(
            [
                StoredRecord(
                    body["name"], body["version"], body, status, published, self._clock(), latest, self._origin, ""
                )
            ]
        )
        done.taken += 1
        return updated


def _seconds(text: Any) -> float:
    try:
        return datetime.fromisoformat(text).timestamp()
    except (TypeError, ValueError):
        return 0.0
