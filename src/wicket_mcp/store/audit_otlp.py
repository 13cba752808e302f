"""An audit record as an OTLP log record. Imported only if the audit goes to a collector."""

import time

from wicket_mcp.store.model import CallRecord
from wicket_mcp.store.records import SUCCESSES
from wicket_mcp.telemetry.otlp import attributes, field, fixed_field, number_field

EVENT = "wicket.audit"
_INFO, _WARN = 9, 13


def encode_record(record: CallRecord, line: str) -> bytes:
    """`line` is the record as JSON and becomes the body; searchable fields become attributes."""
    called = record.method == "tools/call"
    values = {
        "mcp.method.name": record.method if "/" in record.method else "",
        "gen_ai.tool.name": record.tool if called else "",
        "wicket.act": record.tool if "/" not in record.method else "",
        "wicket.server": record.server,
        "wicket.principal": record.principal,
        "wicket.client": record.client,
        "wicket.outcome": record.outcome,
        "wicket.rule": record.rule,
    }
    good = record.outcome in SUCCESSES
    return b"".join(
        [
            fixed_field(1, int(record.at * 1e9)),
            number_field(2, _INFO if good else _WARN),
            field(3, b"INFO" if good else b"WARN"),
            field(5, field(1, line.encode("utf-8", "replace"))),
            attributes(6, {name: value for name, value in values.items() if value}),
            fixed_field(11, time.time_ns()),
            field(12, EVENT.encode()),
        ]
    )
