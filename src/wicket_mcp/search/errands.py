"""Splits a query that asks for several things, so that each part finds its own tools.

A boundary (the end of a sentence, a comma, "and", "then") separates two errands only if the text after it can stand
alone: it begins with a verb or a question, or is long enough to be a request. Pure; knows words, not tools.
"""

import re

from wicket_mcp.search.text import MAX_QUERY, STOP, words

MAX_ERRANDS = 6
_BORDER = re.compile(r"(?<=[.?!;])\s+|;\s*|(?<!\s)\s++(?:and|then)\s+|\n+|,\s+(?:and|then|also)\s+|,\s+", re.IGNORECASE)
_LONG = 3
"""Words that make a clause a request, whatever it begins with."""
_LEADING_WORDS = """
    also afterwards finally first if lastly next not now please so then
"""
_LEADING = frozenset(_LEADING_WORDS.split())
_OBJECTS_WORDS = """
    it its that them these this those all both each everything
"""
_OBJECTS = frozenset(_OBJECTS_WORDS.split())
_QUESTIONS_WORDS = """
    are did do does has have how is was were what when where which who whose why
"""
_QUESTIONS = frozenset(_QUESTIONS_WORDS.split())
_VERBS_WORDS = """
    accept add adjust aggregate align allow analyse analyze announce append apply approve archive arrange ask
    assign attach audit back backup bind block book branch bring broadcast browse build buy calculate call cancel
    capture change check choose clean clear click clone close collect combine comment commit compare compile
    complete compress compute configure confirm connect convert copy count crawl create cut debug decrypt delete
    deploy describe detach detect diagnose diff disable display download draft drag draw drop duplicate edit email
    embed empty enable encrypt enter erase estimate evaluate execute expand explain export extract fetch file fill
    filter find fix follow forget fork format forward freeze generate get give go grant group hide highlight
    import index inform insert inspect install invite join keep kill label launch leave let link lint list load
    lock log look mail make map mark measure merge message migrate modify monitor mount move mute name navigate
    note notify open order outline pack parse paste pause pick pin place plan play plot point poll pop post
    preview print profile protect publish pull purge push put query queue quote read rebase reboot record refresh
    register reject release reload remind remove rename render repair repeat replace reply report request rerun
    reserve reset resize resolve restart restore resume retrieve retry return revert review revoke roll rotate run
    save scale scan schedule scrape scroll search see select send set share shift show shut sign simulate sort
    split stage start stash stop store stream submit subscribe suggest sum summarise summarize swap switch sync
    tag take tap tell test text tidy toggle track train transcribe transfer transform translate trigger trim turn
    type undo uninstall unlock unsubscribe unzip update upgrade upload upsert use validate verify view visit wait
    warn watch work wrap write zip
"""
_VERBS = frozenset(_VERBS_WORDS.split())


def split_errands(query: str) -> list[str]:
    """The separate requests in a query. A query with one request is returned whole."""
    query = query[:MAX_QUERY]
    pieces = [piece.strip() for piece in _BORDER.split(query) if piece and piece.strip()]
    errands: list[str] = []
    for number, piece in enumerate(pieces):
        last = number == len(pieces) - 1 and bool(errands) and len(_telling(errands[-1])) > 1
        if errands and not _stands_alone(piece, last=last):
            errands[-1] += f" {piece}"
        else:
            errands.append(piece)
    return errands[:MAX_ERRANDS] if len(errands) > 1 else [query]


def refers_back(errand: str) -> bool:
    """Whether an errand refers to something named elsewhere: "search them for refunds"."""
    return not _OBJECTS.isdisjoint(words(errand))


def _telling(piece: str) -> list[str]:
    return [word for word in words(piece) if word not in STOP]


def _stands_alone(piece: str, *, last: bool) -> bool:
    """`last` allows a verb by itself: "commit them and push"."""
    spoken = words(piece)
    start = next((at for at, word in enumerate(spoken) if word not in _LEADING), len(spoken))
    telling = [word for word in spoken[start:] if word not in STOP]
    if not telling:
        return False
    if len(telling) >= _LONG:
        return True
    if spoken[start] in _QUESTIONS:
        return True
    tail = spoken[start + 1 :]
    return spoken[start] in _VERBS and (bool(_OBJECTS.intersection(tail)) or len(telling) > 1 or (last and not tail))
