"""Wicket's own questions to the client's user, by elicitation, in both eras.

The answer comes from the client's user interface: a model that calls tools cannot give it. If the client cannot ask, or
the answer is anything but yes, that counts as no. Used by the layers that hold and approve calls.
"""

from collections.abc import Sequence
from typing import Any

from wicket_mcp.codec import pretty
from wicket_mcp.model import Caller, JsonObject, as_list, as_object, as_text
from wicket_mcp.telemetry.log import clean, escape

YES = "approve"
NO = "refuse"
SESSION = "for this session"
ALWAYS = "always"


_SHOWN = 3000
"""Characters of arguments shown in a form."""
_SHOWN_OF_EACH = 300
"""And of each text in them if they are longer, so that none pushes the others out of sight."""


def show(text: str, limit: int) -> str:
    """`text`, or its beginning and its end with the number of characters between: at most about `limit` of it."""
    hidden = len(text) - limit
    return text if hidden <= 0 else f"{text[: limit // 2]} … ({hidden:,} more characters) … {text[-(limit // 2) :]}"


def show_arguments(arguments: JsonObject) -> tuple[str, bool]:
    """The arguments of a call for a form, as JSON that cannot be taken for words of ours, and whether that is all."""
    whole = escape(pretty(arguments))
    if len(whole) <= _SHOWN:
        return whole, True
    return show(escape(pretty(_shorten(arguments))), _SHOWN), False


def _shorten(value: Any) -> Any:
    """The value with the middle of long texts left out."""
    if isinstance(value, str):
        return show(value, _SHOWN_OF_EACH)
    if isinstance(value, list):
        return [_shorten(item) for item in as_list(value)]
    if isinstance(value, dict):
        return {show(key, _SHOWN_OF_EACH): _shorten(item) for key, item in as_object(value).items()}
    return value


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
