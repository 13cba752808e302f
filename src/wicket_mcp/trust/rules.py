"""The rules of `[[policy]]`: which of them decides about a call. Pure; the layer `calls/approve.py` acts on it.

Rules are tried in the order of the file, and the first that matches decides. A rule with a condition on arguments
matches only calls that have those arguments. A call that matches no rule passes.
"""

import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from wicket_mcp.codec import canonical
from wicket_mcp.config.model.policy import Action, By, DataLabel, Rule
from wicket_mcp.model import JsonObject, name_of
from wicket_mcp.trust.conditions import Condition, compile_condition
from wicket_mcp.trust.effects import effect_of

_DEFAULTS = {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": False, "openWorldHint": True}
"""The protocol's default values of annotations."""


class Call(msgspec.Struct, frozen=True):
    """What rules look at."""

    server: str
    tool: str
    arguments: JsonObject
    annotations: Mapping[str, Any]
    principal: str
    """The `id` of the caller. Rules match its name."""
    profile: str = ""
    labels: Collection[DataLabel] = ()

    @property
    def key(self) -> str:
        return f"{self.server}.{self.tool}"

    @property
    def digest(self) -> str:
        return hashlib.sha256(canonical(self.arguments)).hexdigest()


_UNNAMED = re.compile(r"rule \d+")


class Decision(msgspec.Struct, frozen=True):
    """What a rule says about a call."""

    action: Action
    rule: str
    """The rule's name, or its position in the file."""
    by: By = ""
    """Who may agree, if the rule says so."""
    version: str = ""
    """Changes with the rule: an approval is valid only for the rule under which it was given."""

    @property
    def words(self) -> str:
        """The rule, worded for the middle of a sentence."""
        return self.rule if _UNNAMED.fullmatch(self.rule) else f"the rule '{self.rule}'"


class Rules:
    """All rules of one configuration."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        """Raises ConfigError for a condition that is not a JSON Schema."""
        self._rules = [
            (
                Decision(rule.action, _name(rule, number), rule.by, version_of(msgspec.to_builtins(rule))),
                rule,
                _condition(rule, number),
            )
            for number, rule in enumerate(rules, 1)
        ]
        self.looks_at_labels = any(rule.labels for rule in rules)

    def concern(self, server: str) -> bool:
        """Whether any rule may concern a call to this server."""
        return any(fnmatchcase(server, rule.server) for _, rule, _ in self._rules)

    def decide(self, call: Call) -> Decision | None:
        for decision, rule, condition in self._rules:
            if _matches(rule, call) and (condition is None or condition.fits(call.arguments)):
                return decision
        return None


def version_of(rule: Any) -> str:
    return hashlib.sha256(canonical(rule)).hexdigest()[:16]


def _name(rule: Rule, number: int) -> str:
    return rule.name or f"rule {number}"


def _condition(rule: Rule, number: int) -> Condition | None:
    if not rule.arguments:
        return None
    return compile_condition(rule.arguments, allows=rule.action == "allow", key=f"policy[{number - 1}].arguments")


def _matches(rule: Rule, call: Call) -> bool:
    return (
        fnmatchcase(call.server, rule.server)
        and (fnmatchcase(call.tool, rule.tool) or fnmatchcase(call.key, rule.tool))
        and fnmatchcase(name_of(call.principal), rule.principal)
        and fnmatchcase(call.profile, rule.profile)
        and (not rule.annotation or _holds(rule.annotation, call.annotations))
        and (not rule.labels or any(label in call.labels for label in rule.labels))
        and (not rule.effects or effect_of(call.tool, call.annotations) in rule.effects)
    )


def _holds(annotation: str, annotations: Mapping[str, Any]) -> bool:
    name = annotation.removeprefix("!")
    value = bool(annotations.get(name, _DEFAULTS.get(name, False)))
    if name == "destructiveHint" and annotations.get("readOnlyHint") is True:
        value = False
    return value != annotation.startswith("!")
