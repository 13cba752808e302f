"""What a tool does to the world, by its name and its annotations: sends, publishes, pays, writes, deletes. Pure.

A cautious guess: the first verb of a name decides, and a tool is assumed to write unless it declares that it only reads
or begins with a reading verb. A verb after "and" counts too (`find_and_replace`). Annotations are the server's own
claims: a read-only claim is ignored if the name contradicts it.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from wicket_mcp.config.model.policy import Effect
from wicket_mcp.model import Tool, as_object

_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


VERBS: Mapping[Effect, frozenset[str]] = {
    "sends": _words(
        "send reply forward message email mail dm notify invite share submit call text sms respond contact"
    ),
    "publishes": _words("publish post tweet comment release deploy announce broadcast merge push upload"),
    "pays": _words("pay transfer buy purchase order checkout charge refund donate reserve book"),
    "deletes": _words(
        "delete remove drop destroy cancel purge clear erase revoke terminate kill uninstall unsubscribe "
        "archive close reset truncate wipe"
    ),
    "writes": _words(
        "write create add update set edit modify append insert move rename copy save schedule put patch "
        "change replace assign enable disable start stop run execute install apply commit import make upsert "
        "configure grant restart mark register approve accept join leave subscribe reschedule generate fill "
        "click type press drag select manage"
    ),
}
READS = _words(
    "get list read search find fetch query show describe lookup view count check download browse retrieve "
    "inspect scan summarize explain calculate convert compare validate verify test ping status help "
    "resolve analyze recommend screenshot snapshot extract parse preview estimate is has who what"
)
_ALSO = ("and", "or", "then")
_EFFECTS: Mapping[str, Effect] = {verb: effect for effect, verbs in VERBS.items() for verb in verbs}


@lru_cache(maxsize=4096)
def _by_name(name: str) -> tuple[Effect | None, bool]:
    """The effect of the name's first verb, and whether the name begins with a reading verb."""
    words = [word.lower() for word in _WORD.findall(name)]
    reads = False
    for before, word in zip(["", *words], words, strict=False):
        if word in _EFFECTS and (not reads or before in _ALSO):
            return _EFFECTS[word], False
        reads = reads or word in READS
    return None, reads


def effect_of(name: str, annotations: Mapping[str, Any]) -> Effect | None:
    """The effect of calling the tool; None if it only reads."""
    effect, reads = _by_name(name)
    if effect is not None:
        return effect
    if reads or annotations.get("readOnlyHint") is True:
        return None
    return "deletes" if annotations.get("destructiveHint") is True else "writes"


_RUNS_CODE = _words(
    "run exec execute eval evaluate shell bash sh zsh powershell terminal tty console command cmd commands script "
    "scripts code python javascript node repl spawn process program subprocess install compile build notebook kernel "
    "task"
)
_FILES = _words("file files path paths directory folder document workspace patch edit")


def may_run_code(tool: Tool) -> bool:
    """Whether a tool may let its caller run code where its server runs. In doubt it may.

    It may if a word of its name or of a parameter speaks of code or commands, if it changes files (which somebody runs
    later), or if its name begins with no verb that we know and it does not declare that it only reads.
    """
    annotations = as_object(tool.definition.get("annotations"))
    parameters = as_object(tool.input_schema.get("properties"))
    named = {word.lower() for text in (tool.own_name or tool.name, *parameters) for word in _WORD.findall(text)}
    if named & _RUNS_CODE:
        return True
    effect, reads = _by_name(tool.own_name or tool.name)
    if effect is None:
        return not reads and annotations.get("readOnlyHint") is not True
    return effect in ("writes", "deletes") and bool(named & _FILES)
