"""Descriptions as one clean line: an upstream's text for people, cut to its first sentence.

Keeps the words and drops the formatting: markdown, headings, line breaks, and invisible characters, which could hide
instructions from a human reader. Reads the first few thousand characters.
"""

import re
import unicodedata
from functools import lru_cache

_READ = 4000
_LINE = 800  # the patterns below take quadratic time at worst, so longer lines are cut first
_NEWLINES = re.compile(r"\r\n?|[\u2028\u2029\x0b\x0c\x85]")
_BLANKS = "\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0"
_HEADING = re.compile(r"#{1,6}\s++(.*)")
_LABEL = re.compile(r"\W*(purpose|overview|description|summary|guardrails)\W*", re.IGNORECASE)
_RULE = re.compile(r"[-=*_~\s]{3,}$|(```|~~~).*$|<!--.*-->$|!\[[^\]]*\]\([^)]*\)$")
_BULLET = re.compile(r"(?:[-*+•]|\d{1,3}[.)])\s+")
_SECTION = re.compile(
    r"(?:arg(?:ument)?s|param(?:eter)?s?|inputs?|returns?|outputs?|error responses|raises|examples?|notes?|usage)\s*:",
    re.IGNORECASE,
)
_MARKS = (
    ("***", "[^*]"),
    ("**", r"(?:[^*]|\*(?!\*))"),
    ("__", "(?:[^_]|_(?!_))"),
    ("``", "(?:[^`]|`(?!`))"),
    ("`", "[^`]"),
)
"""What stands on both sides of emphasized text, and a character of that text."""
_MARKUP = (
    (re.compile(r"!\[[^\[\]]*+\]\([^)\[]*+\)"), ""),
    (re.compile(r"\[([^\[\]]++)\]\([^)\s\[]*+\)"), r"\1"),
    *(
        (re.compile(rf"{(mark := re.escape(sign))}(?=\S)({inner}++)(?<=\S){mark}(?![\w`])"), r"\1")
        for sign, inner in _MARKS
    ),
    (re.compile(r"(?<![\w*])\*(?=[^\s*])([^*]++)(?<=\S)\*(?![\w*])"), r"\1"),
    (re.compile(r"<([A-Za-z][\w-]{0,30})>([^<]*+)</\1>"), r"\2"),
)
_DEPRECATED = re.compile(r"\bDEPRECATED\b|\b[Dd]eprecated(?=[:\]),.])|\b(?:is|has been) deprecated\b")
_END = re.compile(r"(?<![.!?])[.!?]++[\"'”’)\]]*+(?=\s|$)|[。！？]")
_INITIALS = re.compile(r"(?:[A-Za-z]\.)+")
_SHORT = frozenset(
    {
        "e.g.",
        "eg.",
        "i.e.",
        "ie.",
        "cf.",
        "vs.",
        "approx.",
        "incl.",
        "excl.",
        "esp.",
        "resp.",
        "a.k.a.",
        "no.",
        "nr.",
    }
    | {
        "fig.",
        "sec.",
        "ch.",
        "vol.",
        "max.",
        "min.",
        "dr.",
        "mr.",
        "mrs.",
        "ms.",
        "st.",
        "inc.",
        "ltd.",
        "corp.",
    }
)


def first_sentence(text: str, limit: int = 120) -> str:
    """The first sentence of a description on one line, without its full stop; cut at a word with `…`."""
    return _first_sentence(text[:_READ], limit)


@lru_cache(maxsize=4096)  # lists of thousands of tools are shown again and again; 16 MB at most
def _first_sentence(text: str, limit: int) -> str:
    line = _strip_markup(_first_paragraph(visible(text)))
    sentence = line[: _sentence_end(line)].rstrip()
    if sentence.endswith(".") and not sentence.endswith(("..", "etc.")) and not _is_short(sentence):
        sentence = sentence[:-1]
    return shorten(sentence.rstrip(" :"), limit)


def deprecation(text: str, limit: int = 60) -> str:
    """A description's own statement that its tool is deprecated; empty if there is none."""
    text = text[:_READ]
    # A thousand tools are asked in one go, and looking for a fixed text is much cheaper.
    match = _DEPRECATED.search(text) if "eprecated" in text or "DEPRECATED" in text else None
    if match is None:
        return ""
    line = _strip_markup(visible(text[match.start() : match.start() + _LINE]).split("\n")[0])
    return shorten(line[: _sentence_end(line)].strip(" .])("), limit)


def shorten(text: str, limit: int) -> str:
    """`text` within `limit` characters, cut between words if possible."""
    if len(text) <= limit:
        return text
    head = text[: max(limit - 1, 0)]
    space = head.rfind(" ")
    return f"{head[:space] if space > limit // 2 else head}".rstrip(" ,;:-(") + "…"


def visible(text: str) -> str:
    """`text` without control, invisible, bidirectional, private and tag characters; line breaks are kept."""
    text = _NEWLINES.sub("\n", text).replace("\t", " ")
    if text.isascii() and text.isprintable():
        return text
    return "".join(char for char in text if char.isprintable() or char in "\n " or _is_space(char)).translate(_HIDDEN)


def _is_space(char: str) -> bool:
    return unicodedata.category(char) == "Zs"


# Printable by category, but drawn as nothing: fillers, and the variation selectors, which can carry a hidden message.
_HIDDEN = dict.fromkeys([*map(ord, _BLANKS), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)])


def _first_paragraph(text: str) -> str:
    lines: list[str] = []
    title = ""
    for line in text.split("\n"):
        line = line.strip().removeprefix(">").strip()[:_LINE]
        heading = _HEADING.match(line) or _LABEL.fullmatch(line)
        if lines and (not line or heading or _RULE.match(line) or _BULLET.match(line) or _SECTION.match(line)):
            break
        if heading:
            title = title or heading[1].rstrip("#").rstrip()
        elif line and not _RULE.match(line):
            bullet = None if lines else _BULLET.match(line)
            lines.append(line[bullet.end() :] if bullet else line)
    return (" ".join(lines) or title)[:_LINE]


def _strip_markup(line: str) -> str:
    for pattern, plain in _MARKUP:
        line = pattern.sub(plain, line)
    return " ".join(line.split())


def _sentence_end(line: str) -> int:
    for end in _END.finditer(line):
        tail = line[end.end() :].lstrip()
        if not tail or end[0][0] != ".":
            return end.end()
        if tail[0].islower() or _is_short(line[: end.end()]):
            continue
        return end.end()
    return len(line)


def _is_short(text: str) -> bool:
    """Whether `text` ends in an abbreviation, whose full stop does not end a sentence."""
    word = text.rsplit(None, 1)[-1].lstrip("(\"'[")
    return word.lower() in _SHORT or bool(_INITIALS.fullmatch(word))
