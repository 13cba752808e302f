"""`wicket policy`: what the rules of the configuration say about a call."""

from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec.structs import replace

from wicket_mcp.cli.common import ConfigOption, JsonOption, ToolArgument, VerboseOption, tell, with_library

if TYPE_CHECKING:
    from wicket_mcp.library import Library
    from wicket_mcp.model import Principal, Tool

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
    config: ConfigOption = None,
    json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Say which rule decides about a call, and how, without calling.

    Example: wicket policy explain mail.send to=bob@example.com
    """
    from wicket_mcp.cli.arguments import parse

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
        call = Call(tool.server, own_name, parse(arguments or [], tool), annotations, principal, caller.profile)
        decision = Decision("deny", rule) if rule else Rules(library.config.policy.rules).decide(call)
        if decision is not None and decision.action == "ask":
            covered = await Always(library.store, library.config.state_path / FILE).find(call)
            decision = Decision("allow", f"{decision.rule}, {covered}") if covered else decision
        held = None if rule else library.catalogue.held_entries(tool.server).get(held_entry(tool))
        return {
            "call": call.key,
            "action": "deny" if held else decision.action if decision else "allow",
            "rule": f"held: {held.words}" if held else decision.rule if decision else "",
            "effect": effect_of(own_name, annotations) or "reads",
            "flow": library.config.policy.flow,
        }

    verdict = with_library(config, work, verbose=verbose)
    rule = verdict["rule"]
    reason = (
        f"by {rule if rule.startswith(('rule ', 'held: ', 'scope ')) else repr(rule)}"
        if rule
        else "because no rule is about it"
    )
    follows = verdict["flow"] != "off" and not rule  # a rule that decides is not overruled by where data flows
    flow = f" Where data from others reaches it, flow decides: {verdict['flow']}." if follows else ""
    tell(verdict, f"{verdict['call']} ({verdict['effect']}) {_WORDS[verdict['action']]}, {reason}.{flow}", json=json)


async def _caller(library: "Library", name: str, profile: str) -> "Principal":
    """The caller of this name, with the scopes of its API key and its profile. Raises UnknownName."""
    from wicket_mcp.errors import UnknownName
    from wicket_mcp.model import LOCAL, Principal
    from wicket_mcp.spelling import nearest

    profiles = {config.name: config for config in library.config.profiles}
    if profile and profile not in profiles:
        raise UnknownName("profile", profile, nearest(profile, profiles))
    keys = [key for key in await library.store.keys() if key.name == name and key.revoked_at is None]
    caller = Principal(name, keys[-1].scopes if keys else LOCAL.scopes)
    bound = [config.name for config in profiles.values() if config.holds(caller)]
    return replace(caller, profile=profile if profile in bound or not bound else bound[0])


async def _find(library: "Library", name: str, caller: "Principal") -> "tuple[Tool, str]":
    """The tool that a caller means, and the scope or option that keeps it from the caller. Raises UnknownName."""
    from wicket_mcp.errors import Denied, UnknownName

    scope = "" if caller.may("invoke") else "scope invoke"
    try:
        return await library.catalogue.resolve(name, caller), scope
    except (Denied, UnknownName):
        hidden = await library.catalogue.find_hidden(name, caller)
        if hidden is None:
            raise
        return hidden[0], scope or hidden[1]
