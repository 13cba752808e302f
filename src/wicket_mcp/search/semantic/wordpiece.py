"""BERT's uncased word pieces: text to numbers, as all-MiniLM-L6-v2 was trained with."""

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

_UNKNOWN, _START, _END = "[UNK]", "[CLS]", "[SEP]"
_LONGEST_WORD = 100
_TOKEN = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]|[^\W_]+|[^\w\s]|_")


class WordPieces:
    """Splits by the vocabulary's longest pieces; results for words are remembered."""

    def __init__(self, vocabulary: Sequence[str]) -> None:
        self._numbers = {piece: i for i, piece in enumerate(vocabulary)}
        self._word = lru_cache(maxsize=32768)(self._pieces)

    def __call__(self, text: str, longest: int) -> list[int]:
        """The numbers of a text, start and end marks included, at most `longest` of them."""
        decomposed = unicodedata.normalize("NFD", text.lower())
        plain = (
            decomposed if decomposed.isascii() else "".join(c for c in decomposed if unicodedata.category(c) != "Mn")
        )
        found = [self._numbers[_START]]
        for token in _TOKEN.findall(plain):
            found.extend(self._word(token))
            if len(found) >= longest:
                break
        return [*found[: longest - 1], self._numbers[_END]]

    def _pieces(self, word: str) -> list[int]:
        if len(word) > _LONGEST_WORD:
            return [self._numbers[_UNKNOWN]]
        found: list[int] = []
        at = 0
        while at < len(word):
            prefix = "##" if at else ""
            for end in range(len(word), at, -1):
                number = self._numbers.get(prefix + word[at:end])
                if number is not None:
                    found.append(number)
                    at = end
                    break
            else:
                return [self._numbers[_UNKNOWN]]
        return found
