"""Approvals that a person gave with "always": kept in the store, so that every process and replica has them.

Each names its principal, its server, its tool and every argument that it covers; a call with any other argument is not
covered. They apply only if a rule of the configuration would ask, so they never allow a call that a rule denies. A
readable copy, in the form of rules, is in the state folder of the process that changed them last. `calls/approve.py`
asks and adds them; `wicket approve --list` and `--revoke` list and revoke them.
"""

import asyncio
import hashlib
import logging
import secrets
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from wicket_mcp.codec import canonical, decode
from wicket_mcp.config.model.policy import Rule
from wicket_mcp.errors import BadArguments, ConfigError, WicketError
from wicket_mcp.files import replace_file
from wicket_mcp.model import JsonObject, as_list, as_object, name_of
from wicket_mcp.store.base import ApprovalStore
from wicket_mcp.store.model import StandingApproval
from wicket_mcp.telemetry.redact import mask_strings
from wicket_mcp.trust.conditions import Condition, compile_condition
from wicket_mcp.trust.rules import Call

log = logging.getLogger(__name__)

FILE = "always-allowed.toml"
MAX_ARGUMENTS = 4000  # bytes of a rule's arguments: a person must be able to read it
_HEAD = """\
# A copy for reading. Calls that are made without asking, because somebody said "always": each covers calls with exactly
# the arguments that it names. To be asked again: wicket approve --revoke ID. To allow more than these arguments, copy a
# rule into wicket.toml and change it there. What is changed here has no effect.
"""


class Always:
    """The standing approvals in one store. `file` is the path of the copy."""

    def __init__(self, store: ApprovalStore, file: Path) -> None:
        self._store = store
        self._file = file
        self._version: int | None = None
        self._imported = False
        self._rules: list[tuple[StandingApproval, Condition]] = []

    async def find(self, call: Call) -> str | None:
        """The description of the standing approval that covers a call; None if there is none."""
        await self._refresh()
        return next((describe(rule) for rule, condition in self._rules if _covers(rule, condition, call)), None)

    async def add(self, call: Call, by: str) -> StandingApproval:
        """Cover exactly this call from now on. Raises WicketError if it cannot be stored."""
        if len(canonical(call.arguments)) > MAX_ARGUMENTS:
            raise BadArguments("The arguments are too long for a rule.", hint="Approve the call once, or write a rule.")
        if mask_strings(call.arguments) != call.arguments:
            raise BadArguments("The arguments have a secret in them, which no rule may name.", hint="Approve it once.")
        covered = canonical({name: _condition(value) for name, value in call.arguments.items()})
        number = f"always-{secrets.token_hex(4)}"
        rule = StandingApproval(number, call.principal, call.server, call.tool, covered, by, round(time.time(), 3))
        await self._store.save_standing_approval(rule)
        await self._write_copy()
        log.info("%s is always allowed with these arguments, by %s: %s", call.key, by, number)
        return rule

    async def revoke(self, number: str) -> StandingApproval | None:
        """Revoke a standing approval, so that its calls are asked about again; None if it does not exist."""
        await self._refresh()
        revoked = await self._store.revoke_standing_approval(number)
        if revoked is not None:
            await self._write_copy()
        return revoked

    async def list(self) -> Sequence[StandingApproval]:
        await self._refresh()
        return await self._store.standing_approvals()

    async def _refresh(self) -> None:
        if not self._imported:
            await self._import_file()
        version = self._store.standing_approvals_version()
        if version is not None and version == self._version:
            return
        rules = ((rule, _compile(rule)) for rule in await self._store.standing_approvals())
        self._rules = [(rule, condition) for rule, condition in rules if condition is not None]
        self._version = version

    async def _import_file(self) -> None:
        """Import what an earlier version kept only in the file. Keyed by digest, so that importing twice adds
        nothing.
        """
        text = await asyncio.to_thread(_read, self._file)
        if text and not text.startswith(_HEAD):
            try:
                rules = _parse(text, self._file.stat().st_mtime)
            except (OSError, ValueError) as problem:
                log.warning("%s cannot be used, so nothing of it is always allowed: %s", self._file, problem)
                rules = []
            else:
                log.info("%d rules of %s are in the store now", len(rules), self._file)
            for rule in rules:
                await self._store.save_standing_approval(rule)
            if rules:
                await self._write_copy()
        self._imported = True

    async def _write_copy(self) -> None:
        rules = await self._store.standing_approvals()
        text = "\n".join([_HEAD, *(render(rule) for rule in rules)])
        try:
            await asyncio.to_thread(replace_file, self._file, text)
        except (OSError, WicketError) as problem:
            log.warning("%s could not be written, which is only a copy: %s", self._file, problem)


def describe(rule: StandingApproval) -> str:
    """Who gave it, and when; the name in the audit."""
    return f"always, said by {rule.approved_by} on {time.strftime('%Y-%m-%d', time.localtime(rule.at))} ({rule.id})"


def render(rule: StandingApproval) -> str:
    """The equivalent `[[policy]]` rule, as TOML."""
    import tomlkit  # noqa: PLC0415  (for those who say "always")

    named = {"name": describe(rule), "principal": name_of(rule.principal), "server": rule.server, "tool": rule.tool}
    lines = [f"{name} = {tomlkit.string(value).as_string()}" for name, value in {"action": "allow", **named}.items()]
    for name, value in conditions(rule).items():
        table: Any = tomlkit.inline_table()
        table.update(value)
        lines.append(f"arguments.{tomlkit.key(name).as_string()} = {table.as_string()}")
    return "\n".join(["[[policy]]", *lines, ""])


def _read(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except (OSError, ValueError):
        return ""


def _parse(text: str, at: float) -> list[StandingApproval]:
    """Raises ValueError for text that is not a list of rules."""
    rules: list[StandingApproval] = []
    for entry in as_list(tomllib.loads(text).get("policy")):
        rule = msgspec.convert(entry, Rule)
        by = rule.name.removeprefix("always, said by ").partition(" on ")[0] or FILE
        covered = canonical(rule.arguments)
        digest = hashlib.sha256(canonical([rule.principal, rule.server, rule.tool, rule.arguments])).hexdigest()
        number = f"always-{digest[:8]}"
        approval = StandingApproval(number, rule.principal, rule.server, rule.tool, covered, by, round(at, 3))
        if _compile(approval) is None:
            raise ValueError(f"{rule.name}: its arguments are not JSON Schemas")
        if rule.action == "allow":
            rules.append(approval)
    return rules


def conditions(rule: StandingApproval) -> JsonObject:
    """A JSON Schema for each argument that it covers."""
    return as_object(decode(rule.conditions))


def _compile(rule: StandingApproval) -> Condition | None:
    """What it covers; None if that cannot be read."""
    try:
        return compile_condition(conditions(rule), allows=True, exact=True)
    except ConfigError:
        return None


def _covers(rule: StandingApproval, condition: Condition, call: Call) -> bool:
    is_same_call = (rule.principal, rule.server, rule.tool) == (call.principal, call.server, call.tool)
    return is_same_call and condition.fits(call.arguments)


def _condition(value: Any) -> JsonObject:
    """A schema that matches only this value. TOML has no null, so null is described by its type."""
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
