"""What a person said "always" to: rules in a file of their own, which the user can read, change and delete.

Each names its principal, its server, its tool and every argument that it covers; a call with any other argument is
not covered. They are asked only where a rule of the configuration would ask, so that what is refused stays refused.
`calls/approve.py` asks, and adds; the file is read again when it has changed, by whichever process.
"""

import asyncio
import logging
import time
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from wicket_mcp.codec import canonical
from wicket_mcp.config.model.policy import Rule
from wicket_mcp.errors import BadArguments
from wicket_mcp.files import replace_file
from wicket_mcp.model import JsonObject, as_list, as_object
from wicket_mcp.schema.checker import Checker, compile_schema
from wicket_mcp.trust.rules import Call

log = logging.getLogger(__name__)

FILE = "always-allowed.toml"
MAX_ARGUMENTS = 4000  # bytes of the arguments of a rule: a person must be able to read it
_HEAD = """\
# Calls that are made without asking, because somebody said "always". Wicket adds rules at the end and obeys what
# stands here at the next call: delete a rule to be asked again. A rule covers calls with exactly the arguments that it
# names. `const` is one value, and any JSON Schema may stand in its place: {} is any value.
"""


class Always:
    """The rules of one file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read_at: tuple[int, int] | None = None
        self._rules: list[tuple[Rule, Checker]] = []

    async def find(self, call: Call) -> str | None:
        """The name of the rule that covers a call; None where none does."""
        await asyncio.to_thread(self._refresh)
        return next((rule.name or FILE for rule, condition in self._rules if _covers(rule, condition, call)), None)

    async def add(self, call: Call, by: str) -> None:
        """Cover exactly this call from now on. Raises WicketError where it cannot be written down."""
        arguments = {name: _condition(value) for name, value in call.arguments.items()}
        if len(canonical(call.arguments)) > MAX_ARGUMENTS:
            raise BadArguments("The arguments are too long for a rule.", hint="Approve the call once, or write a rule.")
        words = f"always, said by {by} on {time.strftime('%Y-%m-%d')}"
        rule = {"name": words, "principal": call.principal, "server": call.server, "tool": call.tool}
        await asyncio.to_thread(self._append, {"action": "allow", **rule}, arguments)
        log.info("%s is always allowed with these arguments, by %s: %s", call.key, by, self.path)

    def _append(self, rule: Mapping[str, str], arguments: JsonObject) -> None:
        import tomlkit  # noqa: PLC0415  (for those who say "always")

        before = self.path.read_text("utf-8") if self.path.exists() else _HEAD
        lines = [f"{name} = {tomlkit.string(value).as_string()}" for name, value in rule.items()]
        lines += [f"arguments.{tomlkit.key(name).as_string()} = {_inline(value)}" for name, value in arguments.items()]
        replace_file(self.path, "\n".join([before.rstrip(), "", "[[policy]]", *lines, ""]))

    def _refresh(self) -> None:
        try:
            stat = self.path.stat()
            state = stat.st_mtime_ns, stat.st_size
            if state == self._read_at:
                return
            self._rules = _parse(self.path.read_text("utf-8"))
            self._read_at = state
        except FileNotFoundError:
            self._rules, self._read_at = [], None
        except (OSError, ValueError) as problem:
            if self._rules or self._read_at is None:
                log.warning("%s cannot be used, so nothing is always allowed: %s", self.path, problem)
            self._rules, self._read_at = [], (0, 0)


def _parse(text: str) -> list[tuple[Rule, Checker]]:
    """Raises ValueError for what is not a list of rules."""
    rules: list[tuple[Rule, Checker]] = []
    for entry in as_list(tomllib.loads(text).get("policy")):
        rule = msgspec.convert(entry, Rule)
        schema: JsonObject = {"type": "object", "properties": rule.arguments, "required": list(rule.arguments)}
        checker = compile_schema({**schema, "additionalProperties": False})
        if checker.problem is not None:
            raise ValueError(f"{rule.name}: {checker.problem}")
        rules.append((rule, checker))
    return rules


def _covers(rule: Rule, condition: Checker, call: Call) -> bool:
    whose = (rule.principal, rule.server, rule.tool) == (call.principal, call.server, call.tool)
    return whose and rule.action == "allow" and condition.errors(call.arguments) == []


def _condition(value: Any) -> JsonObject:
    """The schema that only this value fits. TOML has no null, so it is named by its type."""
    if value is None:
        return {"type": "null"}
    if _has_null(value):
        raise BadArguments("A rule cannot name a value that has null in it.", hint="Approve the call once.")
    return {"const": value}


def _has_null(value: Any) -> bool:
    if isinstance(value, dict):
        return any(_has_null(item) for item in as_object(value).values())
    if isinstance(value, list):
        return any(_has_null(item) for item in as_list(value))
    return value is None


def _inline(value: JsonObject) -> str:
    import tomlkit  # noqa: PLC0415  (see above)

    table: Any = tomlkit.inline_table()
    table.update(value)
    return table.as_string()
