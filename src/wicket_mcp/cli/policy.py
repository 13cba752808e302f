"""`wicket policy`: what the rules of the configuration say about a call."""

from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer
from msgspec.structs import replace

from wicket_mcp.cli.common import ConfigOption, JsonOption, ToolArgument, VerboseOption, tell, with_library

if TYPE_CHECKING:
    from wicket_mcp.config.model.policy import DataLabel
    from wicket_mcp.library import Library
    from wicket_mcp.model import Principal, Tool
    from wicket_mcp.trust.rules import Call, Decision, Rules

app = typer.Typer(no_args_is_help=True, help="Explain the rules about calls.", rich_markup_mode=None)

_WORDS = {
    "allow": "is made",
    "ask": "needs a person's approval",
    "deny": "is refused",
}


@app.callback()
def policy() -> None:
    """Explain the rules about calls."""


@app.command("explain")
def explain(
    name: ToolArgument,
    arguments: Annotated[
        list[str] | None, typer.Argument(help="The arguments of the call, as for wicket call.")
    ] = None,
    principal: Annotated[
        str, typer.Option("--principal", help="Who calls: local, or the name of an API key.")
    ] = "local",
    profile: Annotated[str, typer.Option("--profile", help="The profile that the call uses.")] = "",
    label: Annotated[
        list[str] | None,
        typer.Option("--label", help="A label of the data in the arguments: untrusted or private. Repeatable."),
    ] = None,
    config: ConfigOption = None,
    json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Say which rule decides about a call, and how, without calling.

    Example: wicket policy explain mail.send to=bob@example.com
    """
    from wicket_mcp.cli.arguments import parse

    labels = _check_labels(label or [])

    async def work(library: "Library") -> dict[str, Any]:
        from wicket_mcp.model import as_object
        from wicket_mcp.trust.always import FILE, Always
        from wicket_mcp.trust.effects import effect_of
        from wicket_mcp.trust.pins import held_entry
        from wicket_mcp.trust.rules import Call, Decision, Rules

        caller = await _caller(library, principal, profile)
        tool, rule = await _find(library, name, caller)
        annotations = as_object(tool.definition.get("annotations"))
        own_name = tool.own_name or tool.name
        values = parse(arguments or [], tool)
        call = Call(tool.server, own_name, values, annotations, caller.id, caller.profile, labels)
        rules, effect, flow = Rules(library.config.policy.rules), effect_of(own_name, annotations), ""
        if library.config.policy.flow != "off" and effect is not None:
            flow = library.config.policy.flow
        decision = Decision("deny", rule) if rule else rules.decide(call)
        others = {} if rule else _decide_by_label(rules, call, decision)
        if decision is None and flow and "untrusted" in labels:
            decision = Decision("deny" if flow == "deny" else "ask", "flow")
        if decision is not None and decision.action == "ask":
            covered = await Always(library.store, library.config.state_path / FILE).find(call)
            decision = Decision("allow", f"{decision.rule}, {covered}") if covered else decision
        held = None if rule else library.catalogue.held_entries(tool.server).get(held_entry(tool))
        return {
            "call": call.key,
            "action": "deny" if held else decision.action if decision else "allow",
            "rule": f"held: {held.words}" if held else decision.rule if decision else "",
            "effect": effect or "reads",
            "flow": library.config.policy.flow,
            "labels": list(labels),
            "with_label": {} if held else others,
        }

    verdict = with_library(config, work, verbose=verbose)
    rule = verdict["rule"]
    reason = f"by {_quote(rule)}" if rule else "because no rule is about it"
    follows = verdict["flow"] != "off" and not rule  # a rule that decides is not overruled by where data flows
    flow = f" Where data from others reaches it, flow decides: {verdict['flow']}." if follows else ""
    others = "".join(
        f" With {name} data, it {_WORDS[other['action']]}, by {_quote(other['rule'])}."
        for name, other in verdict["with_label"].items()
    )
    answer = f"{verdict['call']} ({verdict['effect']}) {_WORDS[verdict['action']]}, {reason}.{flow}{others}"
    tell(verdict, answer, json=json)


def _quote(rule: str) -> str:
    return rule if rule.startswith(("rule ", "held: ", "scope ")) else repr(rule)


def _check_labels(names: list[str]) -> "tuple[DataLabel, ...]":
    """Raises UnknownName for a label that no rule can have."""
    from wicket_mcp.config.model.policy import DataLabel
    from wicket_mcp.errors import UnknownName

    known: tuple[DataLabel, ...] = get_args(DataLabel)
    for name in names:
        if name not in known:
            raise UnknownName("label", name, list(known))
    return tuple(label for label in known if label in names)


def _decide_by_label(rules: "Rules", call: "Call", decision: "Decision | None") -> dict[str, dict[str, str]]:
    """What the rules say if the data had one more label, where that makes a difference."""
    from wicket_mcp.config.model.policy import DataLabel

    others: dict[str, dict[str, str]] = {}
    for label in get_args(DataLabel):
        other = rules.decide(replace(call, labels=(*call.labels, label)))
        if other is not None and other != decision:
            others[label] = {"action": other.action, "rule": other.rule}
    return others


async def _caller(library: "Library", name: str, profile: str) -> "Principal":
    """The caller of this name, with the scopes of its API key and its profile. Raises UnknownName."""
    from wicket_mcp.errors import UnknownName
    from wicket_mcp.model import LOCAL, Principal
    from wicket_mcp.spelling import nearest

    profiles = library.catalogue.now.policy.profiles
    if profile and profile not in profiles:
        raise UnknownName("profile", profile, nearest(profile, profiles))
    keys = [key for key in await library.store.keys() if key.name == name and key.revoked_at is None]
    caller = Principal(name, keys[-1].scopes, holder=keys[-1].holder) if keys else Principal(name, LOCAL.scopes)
    return library.catalogue.now.policy.place(caller, profile)


async def _find(library: "Library", name: str, caller: "Principal") -> "tuple[Tool, str]":
    """The tool that a caller means, and the scope or option that keeps it from the caller. Raises UnknownName."""
    from wicket_mcp.errors import Denied, UnknownName

    scope = "" if caller.may("invoke") else "scope invoke"
    try:
        return await library.catalogue.lookup.resolve(name, caller), scope
    except (Denied, UnknownName):
        hidden = await library.catalogue.lookup.find_hidden(name, caller)
        if hidden is None:
            raise
        return hidden[0], scope or hidden[1]
