"""The ranking of mcpproxy-go, rebuilt from its `internal/index/bleve.go`: the same fields, queries and boosts.

Bleve's default scoring (the square root of the count, an idf that counts twice, one over the root of the length, and a
factor for how many of the words match) and its standard analyzer: words by Unicode's borders, in lower case, without
English stop words.
"""

import re
from collections import Counter
from math import log, sqrt

from retrieval.sets import Labelled
from wicket_mcp.codec import encode

DEPTH = 50
_WORD = re.compile(r"\w+(?:[.']\w+)*")
_STOP_WORDS = """
    a about above after again against all am an and any are as at be because been before being below between both
    but by can could did do does doing down during each few for from further had has have having he her here hers
    herself him himself his how i if in into is it its itself me more most my myself no nor not of off on once only
    or other ought our ours ourselves out over own same she should so some such than that the their theirs them
    themselves then there these they this those through to too under until up very was we were what when where which
    while who whom why with would you your yours yourself yourselves
"""
_STOP = frozenset(_STOP_WORDS.split())


class McpProxy:
    def build(self, data: Labelled) -> None:
        self._names = [(tool["server"], tool["name"]) for tool in data.tools]
        self._text: list[Counter[str]] = []
        self._all: list[Counter[str]] = []
        for tool in data.tools:
            full, described = f"{tool['server']}:{tool['name']}", tool["description"] or ""
            parameters = encode(tool["input_schema"] or {}).decode()
            text = _words(f"{tool['name']} {full} {described} {parameters}")
            self._text.append(Counter(text))
            keywords = [tool["name"], full, tool["server"]]
            self._all.append(Counter([*keywords, *_words(described), *_words(parameters), *text]))
        self._found = {id(field): Counter(word for one in field for word in one) for field in (self._text, self._all)}

    def rank(self, query: str) -> list[tuple[str, str]]:
        scores = [0.0] * len(self._names)
        matched = [0] * len(self._names)
        for field, boost in ((self._all, 1.0), (self._text, 1.5)):
            for at, score in enumerate(self._match(field, _words(query))):
                scores[at] += boost * score
                matched[at] += score > 0
        for at, (server, name) in enumerate(self._names):
            exact = 5.0 * (name == query) + 4.0 * (f"{server}:{name}" == query) + 3.0 * name.startswith(query)
            exact += 2.5 * ("_" in query and query in name)
            scores[at] = (scores[at] + exact) * (matched[at] + (exact > 0))
        order = sorted(range(len(scores)), key=lambda at: (-scores[at], ":".join(self._names[at])))
        return [self._names[at] for at in order[:DEPTH] if scores[at] > 0]

    def _match(self, field: list[Counter[str]], words: list[str]) -> list[float]:
        size, found = len(field), self._found[id(field)]
        rarity = {word: 1 + log(size / (found[word] + 1)) for word in words}
        scores: list[float] = []
        for counts in field:
            hits = [word for word in words if word in counts]
            length = sqrt(sum(counts.values()) or 1)
            score = sum(sqrt(counts[word]) * rarity[word] ** 2 for word in hits) / length
            scores.append(score * len(hits) / len(words) if words else 0.0)
        return scores


def _words(text: str) -> list[str]:
    return [word for word in _WORD.findall(text.lower()) if word not in _STOP]
