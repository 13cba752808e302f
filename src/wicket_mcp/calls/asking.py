"""Wicket's own questions to the client's user, by elicitation, in both eras.

The answer comes from the client's user interface: a model that calls tools cannot give it. If the client cannot ask, or
the answer is anything but yes, that counts as no. Used by the layers that hold and approve calls.
"""

from collections.abc import Sequence

from wicket_mcp.model import Caller, as_object, as_text
from wicket_mcp.telemetry.log import clean

YES = "approve"
NO = "refuse"
SESSION = "for this session"
ALWAYS = "always"


def show(text: str, limit: int) -> str:
    """The first `limit` characters of what a person is asked about; says how much more there is."""
    hidden = len(text) - limit
    return text if hidden <= 0 else f"{text[:limit]}…\n({hidden:,} more characters are not shown here.)"


def can_ask(caller: Caller) -> bool:
    """Whether the client declared that it can show its user a form."""
    modes = caller.capabilities.get("elicitation")
    return modes is not None and ("form" in as_object(modes) or "url" not in as_object(modes))


async def choose(caller: Caller, question: str, choices: Sequence[str] = (YES, NO)) -> str:
    """The choice of the client's user; NO if the answer is none of the choices.

    Raises WicketError if the client is gone.
    """
    schema = {
        "type": "object",
        "properties": {"decision": {"type": "string", "title": "Decision", "enum": list(choices)}},
        "required": ["decision"],
    }
    reply = await caller.ask("elicitation/create", {"message": clean(question), "requestedSchema": schema})
    decision = as_text(as_object(reply.get("content")).get("decision"))
    return decision if reply.get("action") == "accept" and decision in choices else NO


async def confirm(caller: Caller, question: str) -> bool:
    """Whether the client's user says yes. Raises WicketError if the client is gone."""
    return await choose(caller, question) == YES
