"""The queue of call records: collected, bounded, and written in batches by any implementation.

A call neither waits for its record nor fails because of it. Lost records are counted (`lost`) and logged. The
implementation provides `write`, which stores one batch in one transaction; this module knows no database.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

import msgspec
from msgspec.structs import replace

from wicket_mcp.errors import WicketError
from wicket_mcp.store.model import CallRecord
from wicket_mcp.tasks import Tasks

log = logging.getLogger(__name__)

MAX_QUEUED = 10_000
FLUSH_AFTER = 0.25  # seconds over which records are collected before they are written
BATCH = 200  # records that are written sooner: a thread that writes many keeps the interpreter from the event loop
SETTLE = 1.0  # seconds that a reader waits for earlier records; after that it reads without them
KEY_USE_EVERY = 60.0  # a key's last use is stored to the minute, which saves a write per request


SUCCESSES = ("ok", "cached", "cancelled")
"""Outcomes that are not failures."""


def is_call(record: CallRecord) -> bool:
    """Whether it is a request to a server, not an act or a message."""
    return "/" in record.method and record.method != "tools/list"


class Batch(msgspec.Struct, frozen=True):
    """Records that are written together."""

    calls: Sequence[CallRecord]
    keys_used: dict[bytes, float] = msgspec.field(default_factory=dict[bytes, float])

    def storable(self) -> "Batch":
        """The batch with texts that a database accepts: a client may send half a character as a tool's name."""
        if _is_plain("".join([text for record in self.calls for text in _texts(record)])):
            return self
        return Batch([_make_storable(r) for r in self.calls], self.keys_used)

    def usage(self) -> Counter[tuple[str, str]]:
        """Successful calls by principal and tool key."""
        used = [r for r in self.calls if r.outcome in ("ok", "cached") and r.method == "tools/call"]
        counts = Counter([(r.owner, r.server, r.tool) for r in used])
        return Counter({(principal, f"{server}.{tool}"): count for (principal, server, tool), count in counts.items()})


def _is_plain(text: str) -> bool:
    return text.isascii() and "\0" not in text


def _texts(record: CallRecord) -> tuple[str, ...]:
    """Those that a client, a server or a rule can choose."""
    return record.server, record.tool, record.method, record.client, record.detail, record.rule


def _make_storable(record: CallRecord) -> CallRecord:
    server, tool, method, client, detail, rule = (
        text.encode("utf-8", "replace").decode().replace("\0", "?") for text in _texts(record)
    )
    return replace(record, server=server, tool=tool, method=method, client=client, detail=detail, rule=rule)


class Recorder:
    """The queue between calls and the store. Belongs to one event loop."""

    def __init__(self, write: Callable[[Batch], Awaitable[None]], *, settle: float = SETTLE) -> None:
        self.lost = 0
        self._reported = 0
        """Losses that are already recorded in the audit."""
        self.problem = ""
        """Why the last batch could not be written; empty if it was."""
        self._settle = settle
        self._write = write
        self._calls: list[CallRecord] = []
        self._writing = 0
        self._keys_used: dict[bytes, float] = {}
        self._keys_kept: dict[bytes, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._flushing: asyncio.Task[None] | None = None
        self._tasks = Tasks()

    def __repr__(self) -> str:
        return f"<Recorder {len(self._calls) + self._writing} waiting, {self.lost} lost>"

    @property
    def waiting(self) -> int:
        """Records that are not written yet."""
        return len(self._calls) + self._writing

    def record(self, call: CallRecord) -> None:
        if len(self._calls) + self._writing >= MAX_QUEUED:
            self.lost += 1
            return
        self._calls.append(call)
        self._schedule()

    def mark_key_used(self, digest: bytes, at: float) -> None:
        if at - self._keys_kept.get(digest, float("-inf")) < KEY_USE_EVERY:
            return
        if len(self._keys_kept) >= MAX_QUEUED:
            self._keys_kept.clear()
        self._keys_kept[digest] = self._keys_used[digest] = at
        self._schedule()

    async def settle(self) -> None:
        """Have earlier records written, unless the store is too busy at the moment."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._settle):
                await self._drain()

    async def close(self) -> None:
        """Write everything."""
        await self._drain()

    async def _drain(self) -> None:
        if self._flushing is not None:
            await asyncio.wait({self._flushing})
        if (flushing := self._flush()) is not None:
            await asyncio.wait({flushing})

    def _schedule(self) -> None:
        if self._flushing is not None:
            return
        if len(self._calls) >= BATCH:
            self._flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(FLUSH_AFTER, self._flush)

    def _flush(self) -> asyncio.Task[None] | None:
        """The task that writes the waiting records; None if there are none."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._flushing is None and (self._calls or self._keys_used):
            batch = Batch(self._calls, self._keys_used)
            self._calls, self._keys_used, self._writing = [], {}, len(batch.calls)
            self._flushing = self._tasks.start(self._write_batch(batch), "write call records")
        return self._flushing

    async def _write_batch(self, batch: Batch) -> None:
        lost = self.lost - self._reported
        losses = [_loss(lost)] if lost else []
        try:
            await self._write(Batch([*batch.calls, *losses], batch.keys_used) if losses else batch)
            self._reported += lost
            if self.problem:
                self.problem = ""
                log.warning("call records are stored again; %d were lost", lost)
        except WicketError as problem:  # a full disk must not fail a call; the loss is counted, and logged once
            self.lost += len(batch.calls)
            if not self.problem:
                log.warning("call records are lost until the state can be written again: %s", problem)
            self.problem = problem.message or type(problem).__name__
        finally:
            self._writing, self._flushing = 0, None
            if self._calls or self._keys_used:
                self._schedule()


def _loss(count: int) -> CallRecord:
    """A record of the gap, for later readers of the audit."""
    detail = f"{count} records before this one could not be stored"
    return CallRecord(time.time(), "gateway", "", "audit", "", "lost", 0.0, 0, method="admin", detail=detail)
