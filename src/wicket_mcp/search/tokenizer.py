"""Text to the numbers of word pieces, for the encoder.

A word in the vocabulary is one piece; any other is split into the most probable pieces (a unigram model). Identifiers
are split at case boundaries, accents are folded, and scripts without spaces are split by the same model, run by run.
Pure Python, deterministic; `tools/encoder` trains with the same code. Knows no vectors.
"""

import re
import unicodedata
from collections.abc import Sequence

from wicket_mcp.search.text import remember_words

UNKNOWN = 0
"""The piece for a letter that no piece has."""
_START = "_"
"""Marks a piece that starts a word of an alphabet; words never contain it."""
_WORD = (  # `re` compiles it at the first search, so that a start does not wait for it
    r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+"
    r"|[\u3400-\u4dbf\u4e00-\u9fff\u3005]+|[\u3041-\u309f]+|[\u30a1-\u30ff]+|[\uac00-\ud7af]+"
    r"|[^\W\d_a-zA-Z\u3005\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]+"
)
_ACCENT = re.compile(r"[\u0300-\u036f]")
_FIRST_WITHOUT_SPACES = "\u3005"
_LONGEST_WORD = 32
_LONGEST_PIECE = 16
_UNLIKELY = -30.0


def fold(text: str) -> str:
    """Removes accents of alphabets; keeps marks that change a syllable (in Japanese)."""
    if text.isascii():
        return text
    folded = _ACCENT.sub("", unicodedata.normalize("NFKD", text.replace("ß", "ss")))
    return unicodedata.normalize("NFC", folded)


def split(text: str) -> list[str]:
    """Words as the vocabulary has them: lower case, alphabetic words with a mark in front."""
    return [
        word if word[0] >= _FIRST_WITHOUT_SPACES else _START + word.lower()[:_LONGEST_WORD]
        for word in re.findall(_WORD, fold(text))
    ]


class Tokenizer:
    """A vocabulary of pieces with their log probabilities; the first is the unknown piece."""

    def __init__(self, pieces: Sequence[str], scores: Sequence[float]) -> None:
        self._numbers = {piece: number for number, piece in enumerate(pieces)}
        self._scores = scores
        self._pieces = remember_words(self._cut)

    def encode(self, text: str, longest: int) -> list[int]:
        """Piece numbers, at most `longest`; at least one."""
        numbers: list[int] = []
        for word in split(text):
            numbers.extend(self._pieces(word))
            if len(numbers) >= longest:
                return numbers[:longest]
        return numbers or [UNKNOWN]

    def _cut(self, word: str) -> tuple[int, ...]:
        whole = self._numbers.get(word)
        if whole is not None:
            return (whole,)
        best = [0.0] + [float("-inf")] * len(word)
        back: list[tuple[int, int]] = [(0, UNKNOWN)] * (len(word) + 1)
        for start in range(len(word)):
            for end in range(start + 1, min(start + _LONGEST_PIECE, len(word)) + 1):
                number = self._numbers.get(word[start:end])
                if number is None and end > start + 1:
                    continue
                score = best[start] + (_UNLIKELY if number is None else self._scores[number])
                if score > best[end]:
                    best[end], back[end] = score, (start, UNKNOWN if number is None else number)
        numbers: list[int] = []
        end = len(word)
        while end:
            end, number = back[end]
            if number != UNKNOWN or not numbers or numbers[-1] != UNKNOWN:
                numbers.append(number)
        return tuple(reversed(numbers))
