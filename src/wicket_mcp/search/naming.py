"""Which servers a query names, and how certain that is: their tools rank first.

A server's name is often an ordinary word ("time", "memory"). It means the server if it is a product's name, is written
like a name, or says which server to use. Called by the index; knows names and words, neither tools nor scores.
"""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from wicket_mcp.search.mentions import products
from wicket_mcp.search.text import words

MEANT = 0.15
"""The bonus for tools of a server that the query certainly means."""
PERHAPS = 0.05
"""The bonus if several ordinary words of a name occur in the query."""
_VENDORS = frozenset(("amazon", "aws", "google", "microsoft"))
"""Names of so many products that they do not tell which server is meant, if it has a longer name."""
_REMEMBERED = 16
_ADDRESSED = re.compile(
    r"(?<=[a-z,] )([A-Z]\w+)|^(\w+):|\b(?:use|using|via) (?:the )?(\w+)|\b(\w+) (?:server|tool)\b", re.MULTILINE
)
"""Names with a capital letter within a sentence, "name: do this", "using name", "the name server". One of several words
of a server's name counts only with another capital inside ("ElastiCache")."""
_INNER = re.compile("[a-z][A-Z]")


class Naming:
    """The names of the servers of one catalogue."""

    def __init__(self, servers: Iterable[str]) -> None:
        self._names = {server: name for server in servers if (name := words(server))}
        self._servers: dict[str, list[str]] = {}
        """The servers that have a word in their name."""
        for server, name in self._names.items():
            for word in set(name):
                self._servers.setdefault(word, []).append(server)
        # One search asks several times about its query and the parts of it.
        self.gains = lru_cache(maxsize=_REMEMBERED)(self._gains)

    def _gains(self, query: str) -> Mapping[str, float]:
        """For each server that the query names, the bonus for its tools. A name that is an ordinary word gets none."""
        query_words = set(words(query))
        known = {name.lower() for name in products(query)}
        matches: list[tuple[str, ...]] = _ADDRESSED.findall(query)
        inner = {match[0].lower() for match in matches if _INNER.search(match[0])}
        addressed = {name.lower() for match in matches for name in match if name}
        gains: dict[str, float] = {}
        candidates = {server for word in query_words | known | addressed for server in self._servers.get(word, ())}
        for server in candidates:
            name = self._names[server]
            telling = name if len(name) == 1 else [word for word in name if word not in _VENDORS]
            if known.intersection(telling) or (addressed if len(name) == 1 else inner).intersection(name):
                gains[server] = MEANT
            elif query_words.issuperset(name):
                gains[server] = PERHAPS if len(name) > 1 else 0.0
        return gains
