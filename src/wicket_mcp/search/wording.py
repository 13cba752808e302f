"""What the wording of a query adds to the scores of tools: its verb, its negation, and a tool's whole name; and which
tools it calls by their name.

`intent.py` says what words mean; this compares it with every tool at once. Called by the index.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from wicket_mcp.model import Tool
from wicket_mcp.search.intent import (
    CALLED,
    CONTRARY,
    NAME_SAID,
    NEGATED,
    OF_ERRAND,
    act,
    changes,
    is_negated,
    wanted_act,
    wants_change,
    weigh_acts,
)
from wicket_mcp.search.matrix import shortlist
from wicket_mcp.search.naming import MEANT, Naming
from wicket_mcp.search.numeric import np
from wicket_mcp.search.text import stem, words

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wicket_mcp.search.ranker import Scores

_BEST = 24  # tools whose names are compared with the query
_LONGEST = 400  # characters of a server and a tool of it


class Wording:
    """Of the tools of one index. Safe to share between threads."""

    def __init__(self, tools: tuple[Tool, ...], naming: Naming) -> None:
        self._tools = tools
        self._naming = naming

    def warm(self) -> None:
        """Look at all tools now rather than at the first query that needs it. Pure CPU."""
        _ = self._changing, self._negated, self._acts, self._by_name

    def weigh(self, query: str, scores: "Scores") -> "Scores":
        """The scores, lower for tools that do the contrary of what the query or each of its errands wants."""
        if len(scores.parts) > 1:
            moves = np.float32(OF_ERRAND) * np.stack([self._weigh_act(errand) for errand in scores.parts])
            return replace(scores, by_part=np.where(scores.by_part > 0, scores.by_part + moves, scores.by_part))
        fit = scores.fit + self._weigh_act(query) + self._weigh_names(query, scores.fit)
        if (change := wants_change(query)) is not None:
            fit = fit - np.float32(CONTRARY) * self._changing[not change]
        if is_negated(query):
            fit = fit + np.float32(NEGATED) * self._negated
        if (called := self.find_called(query)) and not self._is_server(query):
            fit[called] = 1 - (1 - fit[called]) * np.float32(CALLED)
        return replace(scores, fit=fit)

    def _is_server(self, query: str) -> bool:
        """Whether a query of one word names a server: that is meant rather than a tool called so ("postgres")."""
        return len(words(query)) == 1 and any(self._naming.gains(query).values())

    def find_called(self, query: str) -> list[int]:
        """The tools of which the query is the name, with their server's or without: as it is written, or its words."""
        spoken = words(query) if len(query) <= _LONGEST else []
        positions = list(self._by_name.get(" ".join(spoken), ()))
        for end in range(1, len(spoken)):
            named = self._by_name.get(" ".join(spoken[end:]), ())
            positions += [at for at in named if words(self._tools[at].server) == spoken[:end]]
        return [at for at in positions if query.strip() in (self._tools[at].name, self._tools[at].key)] or positions

    def _weigh_act(self, errand: str) -> "NDArray[np.float32]":
        """What each tool gains or loses by the verb of a request."""
        return np.array(weigh_acts(wanted_act(errand)), np.float32)[self._acts]

    def _weigh_names(self, query: str, fit: "NDArray[np.float32]") -> "NDArray[np.float32]":
        """What those of the best tools gain of whose name the query has every word."""
        stems = {stem(word) for word in words(query)}
        gains = np.zeros(len(fit), np.float32)
        meant = [server for server, gain in self._naming.gains(query).items() if gain >= MEANT]
        best: list[int] = shortlist(fit, _BEST).tolist()
        if meant:  # a tool of another server may be called what the query says, and is not meant
            best = [position for position in best if self._tools[position].server in meant]
        gains[[position for position in best if self._is_name_said(position, stems)]] = NAME_SAID
        return gains

    def _is_name_said(self, position: int, stems: Collection[str]) -> bool:
        """Whether these are all stems of a tool's name, the server's left out; a name of one word is too common."""
        name = self._name_stems.get(position)
        if name is None:
            tool = self._tools[position]
            server = words(tool.server)
            name = self._name_stems[position] = frozenset(stem(w) for w in words(tool.name[:200]) if w not in server)
        return len(name) > 1 and all(part in stems for part in name)

    @cached_property
    def _name_stems(self) -> dict[int, frozenset[str]]:
        """Stems of the names of tools that were among the best, by position."""
        return {}

    @cached_property
    def _by_name(self) -> dict[str, list[int]]:
        """The positions of tools by the words of their names."""
        named: dict[str, list[int]] = {}
        for position, tool in enumerate(self._tools):
            if name := " ".join(words(tool.name[:200])):
                named.setdefault(name, []).append(position)
        return named

    @cached_property
    def _acts(self) -> "NDArray[np.uint8]":
        """The number of each tool's kind of act."""
        return np.array([act(tool) for tool in self._tools], np.uint8)

    @cached_property
    def _negated(self) -> "NDArray[np.float32]":
        """1 for each tool that speaks of something undone."""
        return np.array([is_negated(f"{tool.name} {tool.description[:400]}") for tool in self._tools], np.float32)

    @cached_property
    def _changing(self) -> "Mapping[bool, NDArray[np.float32]]":
        """1 for each tool that says that it changes something (True), or that it does not (False)."""
        declared = [changes(tool) for tool in self._tools]
        return {value: np.array([change is value for change in declared], np.float32) for value in (True, False)}
