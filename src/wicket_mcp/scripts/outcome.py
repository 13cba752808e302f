"""The outcome of a script: its value or error, its output, and the calls it made.

Plain data and one rendering for agents. An outcome is returned, never raised: a failed script is an answer
that its author can act on.
"""

from typing import Any, Literal, TypeAlias

import msgspec

from wicket_mcp.model import Json, JsonObject

State: TypeAlias = Literal["done", "error", "limit", "crash"]
CallState: TypeAlias = Literal["ok", "failed", "unfinished", "not_sent"]


class Problem(msgspec.Struct, frozen=True):
    """What went wrong, where, and what to do about it."""

    kind: str
    """`syntax`, `type`, `runtime`, `tool`, `unknown_name`, `value`, `deadlock`, `missing_engine`, `jail`,
    `language`, `crash`; or the limit that was hit: `cpu`, `wall`, `memory`, `calls`, `source`, `output`, `busy`."""
    message: str
    line: int | None = None
    column: int | None = None
    source_line: str = ""
    hint: str = ""

    def __str__(self) -> str:
        parts = [self.message]
        if self.line is not None:
            prefix = f"line {self.line}: "
            parts.append(f"{prefix}{self.source_line}".rstrip())
            if self.column and self.column <= len(self.source_line) + 1:
                parts.append(" " * (len(prefix) + self.column - 1) + "^")
        if self.hint:
            parts.append(f"Hint: {self.hint}")
        return "\n".join(parts)


class CallRecord(msgspec.Struct, frozen=True):
    """One call of a script: its side effects remain if the script fails, unless it was never sent."""

    tool: str
    state: CallState
    error: str = ""
    ms: float = 0.0

    def __str__(self) -> str:
        return f"{self.tool}: {self.state.replace('_', ' ')}{f' ({self.error})' if self.error else ''}"


class Stats(msgspec.Struct, frozen=True):
    """What a script cost. CPU time and memory are the child's own figures if it ended by itself."""

    wall_ms: float = 0.0
    cpu_ms: float = 0.0
    peak_bytes: int = 0


class Outcome(msgspec.Struct, frozen=True):
    """The end of one run."""

    state: State
    language: str
    value: Json = None
    has_value: bool = False
    """False if the script returned nothing (no `return`, no `result`)."""
    printed: str = ""
    problem: Problem | None = None
    calls: tuple[CallRecord, ...] = ()
    stats: Stats = msgspec.field(default_factory=Stats)
    labels: JsonObject = msgspec.field(default_factory=dict[str, Any])
    """Who may have written and may read what the script has read, as in `_meta.ifc`; empty if nobody follows it."""

    @property
    def ok(self) -> bool:
        return self.state == "done"

    def explain(self, most_calls: int = 20) -> str:
        """The failure as text for an agent: problem, printed lines, and the calls already made."""
        if self.problem is None:
            return ""
        parts = [str(self.problem)]
        if self.printed:
            parts.append(f"Printed:\n{self.printed.rstrip()}")
        sent = [record for record in self.calls if record.state != "not_sent"]
        unsent = [record for record in self.calls if record.state == "not_sent"]
        if sent:
            parts.append(f"Calls already made (their effects remain):\n{_render_calls(sent, most_calls)}")
        if unsent:
            parts.append(f"Calls refused before they were sent:\n{_render_calls(unsent, most_calls)}")
        return "\n\n".join(parts)

    def to_dict(self) -> JsonObject:
        """For `--json` and structured content."""
        body: dict[str, Any] = {"state": self.state, "language": self.language}
        if self.has_value:
            body["value"] = self.value
        if self.printed:
            body["printed"] = self.printed
        if self.problem is not None:
            body["problem"] = {
                name: value
                for name in ("kind", "message", "line", "column", "source_line", "hint")
                if (value := getattr(self.problem, name)) not in (None, "")
            }
        body["calls"] = [
            {"tool": c.tool, "state": c.state, **({"error": c.error} if c.error else {})} for c in self.calls
        ]
        return body


def _render_calls(records: list[CallRecord], most: int) -> str:
    lines = "\n".join(f"- {record}" for record in records[:most])
    return f"{lines}\n- … and {len(records) - most} more" if len(records) > most else lines
