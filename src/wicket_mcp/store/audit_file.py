"""The audit as JSON lines: one object per line, appended to a file that other programs read.

A sink in addition to the store, used if `[audit] file` names a file, or a collector that gets the same data as OTLP. A
call never waits for it: lines are collected and written by a thread, and lost lines are counted. Control characters are
escaped once, here, at the end.
"""

import asyncio
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from wicket_mcp.codec import decode, encode
from wicket_mcp.config.model.config import Config
from wicket_mcp.errors import Internal
from wicket_mcp.model import JsonObject
from wicket_mcp.store.model import CallRecord
from wicket_mcp.store.records import Batch, Recorder
from wicket_mcp.telemetry.log import escape

if TYPE_CHECKING:
    from wicket_mcp.telemetry.otlp import Collector

CHARS_PER_TOKEN = 4


def as_json(record: CallRecord) -> JsonObject:
    """A record as JSON. Tokens are estimated as four characters each."""
    fields: JsonObject = {
        "time": datetime.fromtimestamp(record.at, UTC).isoformat(timespec="milliseconds"),
        "principal": record.principal,
        "client": record.client,
        "method": record.method,
        "server": record.server,
        "tool": record.tool,
        "outcome": record.outcome,
        "detail": record.detail,
        "run": record.run,
        "rule": record.rule,
        "duration_ms": round(record.duration_ms, 3),
        "steps_ms": {name: round(elapsed, 3) for name, elapsed in (record.steps or _two_steps(record)).items()},
        "tokens_in": estimate_tokens(record.arguments_bytes),
        "tokens_out": estimate_tokens(record.result_bytes),
        "arguments_digest": record.arguments_digest,
        "arguments": decode(record.arguments) if record.arguments else "",
    }
    return {name: value for name, value in fields.items() if value != ""}


def _two_steps(record: CallRecord) -> dict[str, float]:
    """The steps that every record has: the server's time, and the rest."""
    return {"gateway": max(0.0, record.duration_ms - record.upstream_ms), "server": record.upstream_ms}


def estimate_tokens(characters: int) -> int:
    return -(-characters // CHARS_PER_TOKEN)


def line_of(record: CallRecord) -> str:
    """One line, whatever the record contains."""
    return escape(encode(as_json(record)).decode("utf-8", "replace")).replace("\n", "")


class AuditFile:
    """Appends to the file, or sends to the collector, that the current configuration names, if any."""

    def __init__(self, config: Config) -> None:
        self._recorder = Recorder(self._write)
        self._collectors: dict[str, Collector] = {}
        """By address; collectors of earlier configurations may still have records to send."""
        self._last_path: Path | None = None
        """Where waiting lines are written, also once the configuration names no file any more."""
        self.reconfigure(config)

    @property
    def lost(self) -> int:
        return self._recorder.lost + sum(collector.lost for collector in self._collectors.values())

    def reconfigure(self, config: Config) -> None:
        self._path, self._address = config.audit_path, config.audit_collector
        self._last_path = self._path or self._last_path

    def record(self, records: Sequence[CallRecord]) -> None:
        if self._path is not None:
            for record in records:
                self._recorder.record(record)
        elif self._address:
            for record in records:
                self._send(record)

    async def close(self) -> None:
        await self._recorder.close()
        for collector in self._collectors.values():
            await collector.close()

    def _send(self, record: CallRecord) -> None:
        from wicket_mcp.store.audit_otlp import encode_record  # noqa: PLC0415  (for those who have a collector)
        from wicket_mcp.telemetry.otlp import Collector  # noqa: PLC0415

        collector = self._collectors.get(self._address)
        if collector is None:
            collector = self._collectors[self._address] = Collector(self._address, "logs")
        collector.add(encode_record(record, line_of(record)))

    async def _write(self, batch: Batch) -> None:
        if self._last_path is None:
            return
        data = "".join(f"{line_of(record)}\n" for record in batch.calls).encode()
        try:
            await asyncio.to_thread(_append, self._last_path, data)
        except OSError as problem:
            raise Internal(
                f"The audit file {self._last_path} could not be written: {problem.strerror}.",
                hint="Check free space and permissions.",
            ) from None


def _append(path: Path, data: bytes) -> None:
    """Opened each time, so that the file can be rotated."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "ab") as file:
        file.write(data)
