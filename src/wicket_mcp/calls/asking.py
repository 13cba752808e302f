"""Questions of Wicket's own to the person behind a client, by elicitation, in both eras.

The answer comes from the client's user interface: a model that calls tools cannot give it. Who cannot be asked, or
answers anything but the one word, has not said yes. Used by the layers that hold and approve calls.
"""

from wicket_mcp.model import Caller, as_object
from wicket_mcp.telemetry.log import clean

YES = "approve"
NO = "refuse"


def can_ask(caller: Caller) -> bool:
    """Whether the client said that it shows its user a form."""
    modes = caller.capabilities.get("elicitation")
    return modes is not None and ("form" in as_object(modes) or "url" not in as_object(modes))


async def confirm(caller: Caller, question: str) -> bool:
    """Whether the client's user says yes. Raises WicketError where the client is gone."""
    schema = {
        "type": "object",
        "properties": {"decision": {"type": "string", "title": "Decision", "enum": [YES, NO]}},
        "required": ["decision"],
    }
    reply = await caller.ask("elicitation/create", {"message": clean(question), "requestedSchema": schema})
    return reply.get("action") == "accept" and as_object(reply.get("content")).get("decision") == YES
