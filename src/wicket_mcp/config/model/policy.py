"""Rules about calls: which need a person's approval, which are refused. Declared here, applied in `trust/rules.py`."""

from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct, field

Action: TypeAlias = Literal["allow", "ask", "deny"]
By: TypeAlias = Literal["", "caller", "other"]
DataLabel: TypeAlias = Literal["untrusted", "private"]
Effect: TypeAlias = Literal["sends", "publishes", "pays", "writes", "deletes"]
Flow: TypeAlias = Literal["off", "ask", "deny"]


class Rule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One rule: which calls it matches, and what happens to them. A field that is left out matches anything."""

    action: Annotated[Action, Meta(description="Allow the call, ask a person about it, or refuse it.")] = "ask"
    by: Annotated[
        By,
        Meta(
            description="Who may agree: the user of the client that calls (`caller`), or only somebody at the gateway "
            "(`other`). By default, `other` for API keys and programs, `caller` for the owner and people who signed in."
        ),
    ] = ""
    name: Annotated[str, Meta(description="What to call the rule in errors and in the audit.")] = ""
    server: Annotated[str, Meta(description="Pattern (`*`, `?`) of the server.")] = "*"
    tool: Annotated[str, Meta(description="Pattern of the tool's own name.")] = "*"
    annotation: Annotated[
        str,
        Meta(description="An annotation that must hold, such as `destructiveHint`; with `!` before it, must not."),
    ] = ""
    arguments: Annotated[
        dict[str, Any],
        Meta(description='A JSON Schema for each argument: `{ to = { pattern = "@example[.]com$" } }`. All must fit.'),
    ] = field(default_factory=dict[str, Any])
    principal: Annotated[str, Meta(description="Pattern of who calls: `local`, or the name of an API key.")] = "*"
    profile: Annotated[str, Meta(description="Pattern of the profile that the call uses.")] = "*"
    labels: Annotated[
        tuple[DataLabel, ...],
        Meta(description="Labels of the data in the arguments, of which one must be there (`[policy] flow`)."),
    ] = ()
    effects: Annotated[
        tuple[Effect, ...],
        Meta(description="What the tool does, judged by its name and annotations; one of these must match."),
    ] = ()


class PolicyConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which calls need a person. The first rule that matches decides; see docs/trust.md."""

    flow: Annotated[
        Flow,
        Meta(description="What to do when data that others wrote reaches a tool that sends, pays, writes or deletes."),
    ] = "off"
    trusted: Annotated[
        tuple[str, ...],
        Meta(
            description="Patterns of tools (`server.tool`), or of one of their fields (`server.tool:field`), whose "
            "results contain no text of others."
        ),
    ] = ()
    unattended: Annotated[
        bool,
        Meta(
            description="Whether `wicket approve` is a yes by itself where there is no terminal, as in a script of "
            "yours. It never is while an approver's passphrase is set."
        ),
    ] = False
    rules: Annotated[tuple[Rule, ...], Meta(description="The rules, in their order: `[[policy]]` for each.")] = ()
