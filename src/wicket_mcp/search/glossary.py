"""Translates queries in German, French, Spanish, Chinese and Japanese into English, word by word.

Tools are written in English, and search compares words. The glossary (`glossary.txt`, written by hand) contains the
words that people use about tools; names and unknown words stay unchanged, and so does an English query. Knows no tools.
"""

import re
from functools import cache

from wicket_mcp.search.text import MAX_QUERY, STOP, fold, stem

# `re` compiles them at the first search, so that a start does not wait for them.
_ASIAN = r"[\u3040-\u30ff\u3400-\u9fff]+"
_PIECE = r"[^\W_]+(?:['’-][^\W_]+)*|[.,;?!]"
_PREFIX = 5
"""The length from which an entry matches every word that begins with it."""
_ENDING = 4
"""The longest ending that such a word may have."""
_FOREIGN_WORDS = """
    der das ein eine einen einem einer dem den des und ist im mit fur von zu zum zur nach auf aus ich mir mein
    meine welche welcher wie es gibt bitte nicht uber beim am an le les une un du est dans avec pour sur au aux
    mon ma mes quel quelle quels quelles ai je moi et chez depuis ce el los las una del en con para por mi mis al
    que es tengo de la lo y esta este estos
"""
_FOREIGN = frozenset(_FOREIGN_WORDS.split())
"""Words that mainly show the language of a text."""
_NOT_ENGLISH = _FOREIGN - {"am", "an", "es", "des", "den", "le", "al", "mi", "y", "la", "lo", "un"} - STOP
_ENGLISH = STOP - {"a", "an", "as", "do", "in", "me", "no", "on", "so", "was", "will"}
_DROPPED = {"die", "il", "l", "d", "qu", "s"}
_PARTICLES = {"aus": "off", "ab": "off", "ein": "on", "an": "on"}
"""German separable verbs put a part at the end: "schalte das Licht aus"."""


def to_english(query: str) -> str:
    """The query in English, as far as its words are known; an English query is returned unchanged."""
    query = query[:MAX_QUERY]
    if any(map(_segment, re.findall(_ASIAN, query))):
        query = re.sub(_ASIAN, lambda run: f" {_segment(run.group())} ", query)
    folded = fold(query) if not query.isascii() else query
    tokens = re.findall(_PIECE, folded)
    if not _is_foreign([token.lower() for token in tokens]):
        return query
    last = next((at for at in range(len(tokens) - 1, -1, -1) if tokens[at].isalpha()), 0)
    if last and tokens[last] in _PARTICLES:
        tokens[last] = _PARTICLES[tokens[last]]
    return " ".join(filter(None, map(_translate, tokens)))


def _is_foreign(tokens: list[str]) -> bool:
    """Whether a text is in one of the languages: it has more of their function words than English ones, and a word of
    the glossary; or two glossary words and no English function word."""
    english = sum(word in _ENGLISH for word in tokens)
    foreign = sum(word in _NOT_ENGLISH for word in tokens)
    if english and foreign <= english:
        return False
    known = sum(word not in _FOREIGN and _translate(word) != word for word in tokens)
    return known > 1 or (foreign > english and known + foreign > 1)


def _translate(token: str) -> str:
    word = token.lower().replace("’", "'")
    if word in _FOREIGN or word in _DROPPED:
        return ""
    exact, prefixes = _european()
    if word in exact:
        return exact[word]
    for length in range(len(word), max(_PREFIX, len(word) - _ENDING) - 1, -1):
        if word[:length] in prefixes:
            return prefixes[word[:length]]
    parts = re.split(r"['’-]", token)  # what is not translated may be a name, and keeps its capitals
    return " ".join(filter(None, map(_translate, parts))) if len(parts) > 1 else token


def _segment(run: str) -> str:
    """A run of characters without spaces, split into the longest known words; the rest is dropped."""
    known, longest = _asian()
    english: list[str] = []
    at = 0
    while at < len(run):
        for length in range(min(longest, len(run) - at), 0, -1):
            if (word := known.get(run[at : at + length])) is not None:
                english.append(word)
                at += length
                break
        else:
            at += 1
    return " ".join(english)


@cache
def _rows() -> list[list[str]]:
    from importlib.resources import files  # noqa: PLC0415  (a start without a search should not wait for it)

    text = files("wicket_mcp.search").joinpath("glossary.txt").read_text("utf-8")
    return [[cell.strip() for cell in line.split("|")] for line in text.splitlines() if not line.startswith("#")]


@cache
def _european() -> tuple[dict[str, str], dict[str, str]]:
    exact: dict[str, str] = {}
    prefixes: dict[str, str] = {}
    english_stems = {stem(word) for english, *_ in _rows() for word in english.split()}
    for english, *languages in _rows():
        for word in " ".join(languages[:3]).split():
            entry = fold(word)
            if entry in STOP or entry in _FOREIGN or stem(entry) in english_stems:
                continue  # the same in English
            exact.setdefault(entry, english)
            if len(entry) >= _PREFIX:
                prefixes.setdefault(entry, english)
    return exact, prefixes


@cache
def _asian() -> tuple[dict[str, str], int]:
    known: dict[str, str] = {}
    for english, *languages in _rows():
        for word in " ".join(languages[3:]).split():
            known.setdefault(word, english)
    return known, max(map(len, known))
