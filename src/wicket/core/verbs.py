"""The six verbs that every dialect, the library and the command line are translations of.

    servers   which servers there are          describe  signature, brief or full of named tools
    tools     what one server offers           call      one call, answered faithfully
    search    which tools fit a task           read      a slice of a stored large result

Holds no logic of its own: it is the door between those who speak words and those who decide.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from wicket.config.model import ServerConfig
from wicket.core.calls import Calls
from wicket.core.catalog import Catalogue, Snapshot
from wicket.core.finder import Finder
from wicket.core.results import Results, Slice
from wicket.core.search import Answer
from wicket.core.signature import first_sentence
from wicket.errors import WicketError
from wicket.model import LOCAL, CallRequest, CallResult, Principal, ServerStatus, Tool
from wicket.upstream.lifecycle import State
from wicket.upstream.pool import Pool


@dataclass(frozen=True, slots=True)
class Described:
    """The tools that were found under the asked names, and what was wrong with the other names."""

    tools: tuple[Tool, ...]
    problems: tuple[WicketError, ...]


class Verbs:
    """See the module's docstring."""

    def __init__(self, catalogue: Catalogue, pool: Pool, finder: Finder, calls: Calls, results: Results) -> None:
        self.catalogue = catalogue
        self._pool = pool
        self._finder = finder
        self._calls = calls
        self._results = results

    async def servers(self, *, connect: bool = False) -> list[ServerStatus]:
        """Every configured server in order; with `connect`, those never seen are asked first."""
        snapshot = await (self.catalogue.complete() if connect else self.catalogue.load())
        return [self._status(config, snapshot) for config in self.catalogue.servers.values()]

    async def tools(self, server: str | None = None) -> tuple[Tool, ...]:
        """The visible tools of one server, or of all."""
        if server is None:
            return (await self.catalogue.complete()).tools
        name = self.catalogue.server(server).name
        snapshot = await self.catalogue.complete([name])
        return snapshot.by_server.get(name, ())

    async def search(
        self,
        query: str,
        *,
        principal: Principal = LOCAL,
        limit: int = 5,
        servers: Collection[str] | None = None,
    ) -> Answer:
        wanted = None if servers is None else [self.catalogue.server(name).name for name in servers]
        return await self._finder.search(query, principal, limit=limit, servers=wanted)

    async def describe(self, names: Sequence[str]) -> Described:
        """The tools that `names` mean, in that order, and what is wrong with the names that mean none."""
        tools: list[Tool] = []
        problems: list[WicketError] = []
        for name in names:
            try:
                tools.append(await self.catalogue.resolve(name))
            except WicketError as problem:
                problems.append(problem)
        return Described(tuple(tools), tuple(problems))

    async def call(self, request: CallRequest) -> CallResult:
        return await self._calls.call(request)

    async def read(
        self,
        handle: str,
        principal: Principal,
        *,
        path: str = "",
        grep: str = "",
        offset: int = 0,
        limit: int | None = None,
    ) -> Slice:
        return await self._results.read(handle, principal, path=path, grep=grep, offset=offset, limit=limit)

    def _status(self, config: ServerConfig, snapshot: Snapshot) -> ServerStatus:
        listing = snapshot.listings.get(config.name)
        state, problem = self._pool.state(config.name)
        words = config.description or (listing.instructions if listing else "")
        info = listing.server_info if listing else {}
        return ServerStatus(
            name=config.name,
            state=str(state) if listing or state is not State.IDLE else "unseen",
            tools=len(snapshot.by_server[config.name]) if listing else None,
            description=first_sentence(words or str(info.get("title") or info.get("description") or "")),
            version=str(info.get("version", "")),
            transport=config.transport,
            problem=problem or self.catalogue.failures.get(config.name, ""),
            tags=config.tags,
        )
