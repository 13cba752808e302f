"""`wicket policy`: what the rules of the configuration say about a call."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from wicket_mcp.cli.common import ConfigOption, JsonOption, ToolArgument, VerboseOption, tell, with_library

if TYPE_CHECKING:
    from wicket_mcp.library import Library

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

        tool = await library.catalogue.resolve(name)
        annotations = as_object(tool.definition.get("annotations"))
        call = Call(tool.server, tool.name, parse(arguments or [], tool), annotations, principal, profile)
        decision = Rules(library.config.policy.rules).decide(call)
        if decision is not None and decision.action == "ask":
            covered = await Always(library.store, library.config.state_path / FILE).find(call)
            decision = Decision("allow", f"{decision.rule}, {covered}") if covered else decision
        held = library.catalogue.held_entries(tool.server).get(held_entry(tool))
        return {
            "call": call.key,
            "action": "deny" if held else decision.action if decision else "allow",
            "rule": f"held: {held.words}" if held else decision.rule if decision else "",
            "effect": effect_of(tool.name, annotations) or "reads",
            "flow": library.config.policy.flow,
        }

    verdict = with_library(config, work, verbose=verbose)
    rule = verdict["rule"]
    reason = (
        f"by {rule if rule.startswith(('rule ', 'held: ')) else repr(rule)}" if rule else "because no rule is about it"
    )
    follows = verdict["flow"] != "off" and not rule  # a rule that decides is not overruled by where data flows
    flow = f" Where data from others reaches it, flow decides: {verdict['flow']}." if follows else ""
    tell(verdict, f"{verdict['call']} ({verdict['effect']}) {_WORDS[verdict['action']]}, {reason}.{flow}", json=json)
