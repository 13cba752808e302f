"""What a query wants done, as far as its wording says: which kind of act, whether to look or to change, its negations.

`create-cache` and `delete-cache` speak of the same thing in the same words: the query's verb decides between them, and
between a tool that says of itself that it only reads and one that writes. Called by the index; knows no scores.
"""

import re
from collections.abc import Callable, Sequence

from wicket_mcp.model import Tool, as_object
from wicket_mcp.search.text import words

CONTRARY = 0.06
"""The penalty for a tool that reads if the query wants a change, or the reverse: enough to decide between two tools
that fit almost equally."""
_LOOKS = frozenset(("show", "list", "read", "find", "search", "view", "display", "count", "describe", "which"))
_CHANGES = frozenset(
    (
        *("create", "add", "write", "update", "edit", "delete", "remove", "send", "commit", "stage"),
        *("save", "remember", "insert", "append", "upload", "rename", "merge"),
    )
)
_POLITE = frozenset(
    ("please", "can", "could", "you", "would", "i", "want", "need", "to", "let", "us", "me", "just", "now", "then")
)
NEGATED = 0.03
"""What a tool that speaks of something undone gains if the query does, too: "uncommitted" and "not yet staged"."""
SAME_ACT, OTHER_ACT = 0.03, 0.04
"""What a tool gains that does the kind of act that the query's verb names, and loses that does the contrary."""
OF_ERRAND = 1.5
"""By how much the verb counts more for an errand, which has few other words."""
NAME_SAID = 0.08
"""What a tool gains of whose name the query has every word: "create a serverless cache". Its long schema counts against
it in letters."""
CALLED = 0.1
"""What remains of a tool's distance to a perfect fit if the query is its name: so it comes first."""
_ACTS_WORDS = {
    "create": "create add make new insert write append build generate compose draft register put attach save remember "
    "store record init define schedule jot enter",
    "remove": "delete remove drop erase wipe clear destroy discard purge uninstall unlink detach deactivate forget "
    "disable unsubscribe unwatch revoke",
    "look": "get read show list view find search describe fetch retrieve query display look check which what who how "
    "is are where when why see inspect count explain browse lookup analyze audit tell give",
    "change": "update edit modify change set rename replace adjust patch transform format correct fix rewrite move "
    "assign mark convert",
    "send": "send post publish broadcast notify reply mail email message push announce share",
    "start": "start run execute launch trigger begin kick invoke rerun retry restart resume play boot deploy",
    "stop": "stop cancel abort end terminate close kill halt pause disconnect shut",
    "upload": "upload import",
    "download": "download export",
    "merge": "merge join combine blend",
    "copy": "copy clone duplicate fork",
}
_ACTS = {word: act for act, spoken in _ACTS_WORDS.items() for word in spoken.split()}
_CONTRARY_ACTS = {
    "create": "remove look stop",
    "remove": "create look send start",
    "look": "create remove change send stop upload",
    "change": "look remove",
    "send": "look remove",
    "start": "stop remove",
    "stop": "start create look",
    "upload": "download look remove",
    "download": "upload remove",
    "merge": "remove look",
    "copy": "remove look",
}
_TWO_WORDS = {
    **dict.fromkeys(("throw away", "get rid", "take away"), "remove"),
    **dict.fromkeys(("tell the", "tell everyone", "tell my"), "send"),
    **dict.fromkeys(("give a", "give the", "give somebody", "make the", "make it", "make my"), "change"),
    **dict.fromkeys(("turn on", "turn off", "set aside", "find and", "take a", "check out"), ""),
    "set up": "create",
    "write down": "create",
    "call off": "stop",
    "give up": "stop",
}
"""Verbs that mean something else with the word after them; nothing certain if the act is empty."""
_NAMES = ("", *_ACTS_WORDS)
"""The kinds of acts by their number: the first is none."""
_NOT = re.compile(r"\b(?:not|never) (?:yet |been |already )?([a-z]{3,20}ed)\b")
_UNDONE = re.compile(r"\bun(?!i)[a-z]{3,20}ed\b")


def wants_change(query: str) -> bool | None:
    """Whether a query asks for a change (True), for a look (False), or does not say (None)."""
    verb = next((word for word in words(query) if word not in _POLITE), "")
    return True if verb in _CHANGES else False if verb in _LOOKS else None


def wanted_act(query: str) -> int:
    """The number of the kind of act that a request begins with; 0 if its first word names none."""
    spoken = words(query)
    start = next((at for at, word in enumerate(spoken) if word not in _POLITE), len(spoken))
    verb = spoken[start] if start < len(spoken) else ""
    return _NAMES.index(_TWO_WORDS.get(" ".join(spoken[start : start + 2]), _ACTS.get(verb, "")))


def act(tool: Tool) -> int:
    """The number of the kind of act that a tool does: by the first verb in its name, or that its description begins
    with ("Creates a user")."""
    server = words(tool.server)
    named = next((_ACTS[word] for word in words(tool.name[:200]) if word in _ACTS and word not in server), "")
    if not named:
        first = next(iter(words(tool.description[:40])), "")
        named = (
            _ACTS.get(first, "") or _ACTS.get(first.removesuffix("s"), "") or _ACTS.get(first.removesuffix("es"), "")
        )
    return _NAMES.index(named)


def weigh_acts(number: int) -> list[float]:
    """What a tool gains or loses, by the number of its kind of act, if the kind with this number is wanted."""
    contrary = _CONTRARY_ACTS.get(_NAMES[number], "").split()
    return [SAME_ACT * (number > 0 and at == number) - OTHER_ACT * (name in contrary) for at, name in enumerate(_NAMES)]


def changes(tool: Tool) -> bool | None:
    """Whether a tool changes something, as it says itself; None if it does not say."""
    hint = as_object(tool.definition.get("annotations")).get("readOnlyHint")
    return None if not isinstance(hint, bool) else not hint


def join_negations(query: str, counts: Callable[[Sequence[str]], Sequence[int]]) -> str:
    """`not staged` as `unstaged`, if a tool of the catalogue has that word."""

    def join(match: re.Match[str]) -> str:
        joined = f"un{match[1]}"
        return joined if counts([joined])[0] else match[0]

    return _NOT.sub(join, query)


def is_negated(text: str) -> bool:
    """Whether a text speaks of something that has not been done: unread, not yet staged."""
    lower = text.lower().replace("_", " ")
    if "un" in lower and _UNDONE.search(lower):
        return True
    return ("not " in lower or "never " in lower) and _NOT.search(lower) is not None
