"""The same value in other notations: brings texts into one form before they are compared. Pure, and in linear time.

A form that people and programs use anyway must not hide a value: other widths and styles of letters, invisible
characters, accents, groups (`DE89 3704 …`), base64 and hexadecimal. `fold` keeps the words of a text, `strip` only its
letters and digits. Knows nothing about results or arguments (`matching.py`).
"""

import re
import unicodedata
from base64 import urlsafe_b64decode
from collections.abc import Iterator
from itertools import chain

from wicket_mcp.pauses import rest_between

INVISIBLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0"
    "\U000e0000-\U000e007f\U000e0100-\U000e01ef"
)
"""Characters that cannot be seen, for a pattern."""
MAX_TEXT = 1024**2  # characters of one text that are looked at
_PIECE = 32_768  # characters that one call of a pattern looks at: no other thread runs meanwhile
LONGEST = 2048  # characters of a value, in any notation, that stands where a piece ends
_FEW = 64  # characters that are decomposed at once: sorting a run of accents takes quadratic time
_UNSEEN = re.compile(f"[{INVISIBLE}]")
_ACCENT = re.compile("[\u0300-\u036f]")
_WORD = re.compile(r"[^\W_\u2e80-\U0010ffff]+|[^\W\0-\u2e7f]")  # where no spaces are written, each sign is a word
_NO_LETTERS = bytes(code for code in range(128) if not chr(code).isalnum())
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{12,}+={0,2}")
_HEX = re.compile(r"(?<![0-9A-Za-z])(?:(?:0x|\\x|%|\\u00)?+[0-9A-Fa-f]{2}[\s:,-]{0,2}+){6,}+")
_PAIR = re.compile(r"[0-9A-Fa-f]{2}")
_STANDARD = str.maketrans("+/", "-_")


def fold(text: str) -> str:
    """A text in one width and style, without accents, case, and what cannot be seen; at most `MAX_TEXT` characters."""
    if text.isascii():
        return text[:MAX_TEXT].lower()
    return "".join(_ACCENT.sub("", piece.casefold()) for piece in _unify(text))[:MAX_TEXT]


def cut(text: str, overlap: int = 0) -> Iterator[str]:
    """A text in pieces, each with the beginning of the next: no other thread runs while a pattern looks at one."""
    for start in rest_between(range(0, len(text), _PIECE)):
        yield text[start : start + _PIECE + overlap]


def split(text: str) -> Iterator[str]:
    """The words of a folded text: runs of letters and digits."""
    for piece in cut(text):
        yield from _WORD.findall(piece)


def find_in_pieces(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """What a pattern of at most one word finds; a word between two pieces is found in parts."""
    for start in rest_between(range(0, len(text), _PIECE)):
        yield from pattern.finditer(text, start, start + _PIECE)


def strip(text: str) -> str:
    """The letters and digits of a folded text, whatever stands between them."""
    if text.isascii():
        return text.encode().translate(None, _NO_LETTERS).decode()
    return "".join(split(text))


def decode(text: str) -> str:
    """What stands in a text as base64 or hexadecimal, beside nonsense: a long word may be read as base64 too."""
    visible = "".join(_unify(text))
    return "".join(chain(_decode_base64(visible), _decode_numbers(visible)))


def _decode_base64(text: str) -> Iterator[str]:
    end = 0
    for run in rest_between(_BASE64.finditer(text)):
        yield "" if text[end : run.start()].strip("\r\n") == "" else " "  # the lines of one value follow each other
        end = run.end()
        digits = run[0].rstrip("=").translate(_STANDARD)
        digits = digits[:-1] if len(digits) % 4 == 1 else digits
        yield urlsafe_b64decode(digits + "=" * (-len(digits) % 4)).decode("utf-8", "ignore")


def _decode_numbers(text: str) -> Iterator[str]:
    for number, piece in enumerate(cut(text, LONGEST)):
        for run in _HEX.finditer(piece):
            # Where a piece begins inside a number, its digits may pair otherwise.
            for digits in (run[0], run[0][1:]) if number and not run.start() else (run[0],):
                yield " "
                yield bytes.fromhex("".join(_PAIR.findall(digits))).decode("utf-8", "ignore")


def _unify(text: str) -> Iterator[str]:
    """A text in pieces, in one width and style, without what cannot be seen."""
    left = MAX_TEXT
    for piece in cut(text[:MAX_TEXT]):
        if not piece.isascii():
            visible = _UNSEEN.sub("", piece)
            few = (visible[start : start + _FEW] for start in range(0, len(visible), _FEW))
            piece = "".join(unicodedata.normalize("NFKD", part) for part in few)  # one sign may stand for many
        yield piece
        left -= len(piece)
        if left <= 0:
            return
