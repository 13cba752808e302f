"""Texts put in other words, by the list of what people say instead of the words that tools are described with.

`synonyms.txt` is written by hand. A text that is reworded keeps its meaning, more or less, and loses the words by which
a search would find it: the encoder is taught to put it where the teacher has the original.
"""

import random
import re
from pathlib import Path

LIST = Path(__file__).with_name("synonyms.txt")
_TOKEN = re.compile(r"[A-Za-z0-9']+(?:-[A-Za-z0-9']+)*|[^A-Za-z0-9']+")
_ENDINGS = ("s", "es", "ed", "d", "ing")
_LONGEST = 4
_MOST = 4

Synonyms = dict[tuple[str, ...], list[str]]


def load(path: Path = LIST) -> Synonyms:
    found: Synonyms = {}
    for line in path.read_text("utf-8").splitlines():
        if line.startswith("#") or not line.strip():
            continue
        terms, *phrases = [part.strip() for part in line.split(" | ")]
        for term in terms.split(","):
            found.setdefault(tuple(term.lower().split()), []).extend(phrases)
    return found


def reword(text: str, synonyms: Synonyms, seed: random.Random, share: float = 0.75) -> str:
    """The text with some of its words replaced; empty where none could be."""
    tokens = _TOKEN.findall(text)
    words = [at for at, token in enumerate(tokens) if token[0].isalnum()]
    replaced, number = 0, 0
    while number < len(words):
        for length in range(min(_LONGEST, len(words) - number), 0, -1):
            places = words[number : number + length]
            phrases = _phrases([tokens[at].lower() for at in places], synonyms)
            if phrases and replaced < _MOST and seed.random() < share:
                tokens[places[0]] = seed.choice(phrases)
                for at in range(places[0] + 1, places[-1] + 1):
                    tokens[at] = ""
                replaced += 1
                number += length - 1
                break
        number += 1
    return "".join(tokens) if replaced else ""


def _phrases(words: list[str], synonyms: Synonyms) -> list[str]:
    phrases = synonyms.get(tuple(words))
    if phrases:
        return phrases
    for ending in _ENDINGS:
        if words[-1].endswith(ending) and len(words[-1]) > len(ending) + 2:
            stem = words[-1][: -len(ending)]
            for last in (stem, stem + "e"):
                if phrases := synonyms.get((*words[:-1], last)):
                    return phrases
    return []
