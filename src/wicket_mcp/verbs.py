"""The verbs behind every dialect, the library and the command line.

    servers   which servers there are          describe  signature, brief or full of named tools
    tools     what one server offers           call      one call, answered unchanged
    search    which tools fit a task           run       a script that makes many calls
                                               read      a slice of a stored large result

Contains no logic of its own: it connects the dialects with the parts that decide.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from wicket_mcp.budget import MAX_NAMES, MAX_QUERY, check_length
from wicket_mcp.calls.audit import Audit
from wicket_mcp.calls.task_ids import TaskIds
from wicket_mcp.calls.watches import Changed, Watches
from wicket_mcp.catalog.addresses import Addresses
from wicket_mcp.catalog.catalogue import Catalogue
from wicket_mcp.catalog.skills import Skills, check_limits, rewrite_skill
from wicket_mcp.catalog.view import View
from wicket_mcp.config.model.config import ServerConfig
from wicket_mcp.config.read.secrets import known_missing
from wicket_mcp.errors import NeedsSignIn, UnknownName, WicketError
from wicket_mcp.extensions import SKILL_SCHEME, union, unknown_capabilities
from wicket_mcp.identity.accounts import Accounts
from wicket_mcp.model import LOCAL, Caller, JsonObject, Principal, ServerStatus, Tool, as_object, as_text
from wicket_mcp.request import EMPTY, Handler, Request, Result, Span
from wicket_mcp.results.content import wraps_value
from wicket_mcp.results.results import OWN, Results, Slice
from wicket_mcp.schema.signature import first_sentence
from wicket_mcp.scripting import Script, Scripting
from wicket_mcp.search import Answer
from wicket_mcp.search.finder import Finder
from wicket_mcp.spelling import nearest
from wicket_mcp.store.base import AuditStore, UsageStore
from wicket_mcp.store.model import CallRecord
from wicket_mcp.trust.policy import demand
from wicket_mcp.upstream.lifecycle import State
from wicket_mcp.upstream.pool import Pool

if TYPE_CHECKING:
    from wicket_mcp.scripts.outcome import Outcome


class Described(msgspec.Struct, frozen=True):
    """The tools of the requested names, and what was wrong with the other names."""

    tools: tuple[Tool, ...]
    problems: tuple[WicketError, ...]


class Reading(Protocol):
    """What callers and scripts have read, if data flow is tracked."""

    async def note(self, reader: Caller, run: str, handle: str, value: Any) -> None:
        """A caller, or a script of theirs, has read this value from a stored result."""
        ...

    def labels(self, reader: Caller, run: str) -> JsonObject:
        """The labels of everything that a script has read, as in `_meta.ifc`."""
        ...


class Verbs:
    """See the module's docstring."""

    def __init__(
        self,
        catalogue: Catalogue,
        pool: Pool,
        finder: Finder,
        pipeline: Handler,
        results: Results,
        scripting: Scripting,
        audit: Audit,
        records: AuditStore,
        usage: UsageStore,
        addresses: Addresses,
        watches: Watches,
        base_dir: Path,
        accounts: Accounts,
        task_ids: TaskIds,
        skills: Skills,
        notice: str = "",
        reading: Reading | None = None,
    ) -> None:
        self.notice = notice
        """Why there are no servers, shown in search results; usually empty."""
        self._reading = reading
        self._catalogue = catalogue
        self.task_ids = task_ids
        self.skills = skills
        self.scripting = scripting
        self._base_dir = base_dir
        self._accounts = accounts
        self._audit = audit
        self._records = records
        self._usage = usage
        self._pool = pool
        self._finder = finder
        self._pipeline = pipeline
        self.addresses = addresses
        self._watches = watches
        self._results = results

    async def view(self, principal: Principal, servers: Iterable[str] | None = None) -> View:
        """What `principal` may see, after all servers (of `servers`) that were never listed have been asked."""
        return (await self._catalogue.complete(servers, principal)).view(principal)

    async def current_view(self, principal: Principal) -> View:
        """What `principal` may see of what is already known: no server is asked."""
        return (await self._catalogue.load()).view(principal)

    def is_restricted(self, principal: Principal) -> bool:
        """Whether `principal` sees only what a profile shows."""
        return self._catalogue.now.policy.is_restricted(principal)

    def shortest_ttl(self, principal: Principal) -> float | None:
        """The shortest time to live of all servers' lists, in seconds; None if no server declares one."""
        listings = self._catalogue.view(principal).listings.values()
        return min((listing.ttl for listing in listings if listing.ttl is not None), default=None)

    async def resolve(self, name: str, principal: Principal) -> Tool:
        """The tool that `name` means for `principal`. Raises UnknownName, AmbiguousName, Denied or Unavailable."""
        return await self._catalogue.lookup.resolve(name, principal)

    async def find_rule_against(self, name: str, principal: Principal) -> str:
        """The scope or option that keeps `principal` from calling this name; empty if it is simply unknown."""
        if not principal.may("invoke"):
            return "scope invoke"
        hidden = await self._catalogue.lookup.find_hidden(name, principal)
        return hidden[1] if hidden is not None else ""

    def record_refusal(self, caller: Caller, method: str, name: str, problem: WicketError) -> None:
        """Record that an option or a scope refused a request, unless the pipeline has already done so."""
        if problem.rule:
            self._audit.refuse(caller, method, name, problem)

    async def servers(self, principal: Principal, *, connect: bool = False) -> list[ServerStatus]:
        """Every server in configured order; with `connect`, servers that were never listed are asked first."""
        view = await (self.view(principal) if connect else self.current_view(principal))
        unsigned = await self._accounts.missing(view.servers.values(), principal)
        return [self._status(config, view, signed_in=config.name not in unsigned) for config in view.servers.values()]

    async def tools(self, principal: Principal, server: str | None = None) -> tuple[Tool, ...]:
        """The tools of one server, or of all. Raises UnknownName with similar names."""
        if server is None:
            return (await self.view(principal)).tools
        name = self._catalogue.view(principal).server(server).name
        return (await self.view(principal, [name])).by_server.get(name, ())

    async def search(
        self,
        query: str,
        *,
        principal: Principal = LOCAL,
        limit: int = 5,
        servers: Collection[str] | None = None,
    ) -> Answer:
        demand(principal, "discover", "searching tools")
        check_length(query, MAX_QUERY, "A query")
        if servers is not None:
            check_length(servers, MAX_NAMES, "A search", "servers")
        view = self._catalogue.view(principal)
        names = None if servers is None else [view.server(name).name for name in servers]
        return await self._finder.search(query, principal, limit=limit, servers=names)

    def find_tagged(self, tag: str, principal: Principal) -> list[str]:
        """The servers of a tag. Raises UnknownName with similar tags."""
        servers = self._catalogue.view(principal).servers.values()
        tagged = [server.name for server in servers if tag.lower() in map(str.lower, server.tags)]
        if not tagged:
            known = sorted({tag for server in servers for tag in server.tags})
            raise UnknownName("tag", tag, nearest(tag, known) or known[:3])
        return tagged

    async def describe(self, names: Sequence[str], principal: Principal) -> Described:
        """The tools of `names`, in that order, and what is wrong with the other names."""
        check_length(names, MAX_NAMES, "The names", "items")
        tools: list[Tool] = []
        problems: list[WicketError] = []
        for name in names:
            try:
                tools.append(await self.resolve(name, principal))
            except WicketError as problem:
                problems.append(problem)
        return Described(tuple(tools), tuple(problems))

    async def call(self, request: Request) -> Result:
        """One call of a tool; a large result is stored unless the request wants it complete."""
        result = await self._pipeline(request)
        body = result.body
        if "extensions" in request.caller.capabilities:
            body = self.addresses.rewrite_apps(body, result.request.server)
        size = request.span.size
        if not request.whole and size > self._results.shown:
            tool, principal = result.tool, request.caller.principal
            as_declared = not wraps_value(tool.output_schema)
            body = await self._results.shape(
                body, tool.key, principal, tool=tool.own_key, size=size, as_declared=as_declared
            )
        return result if body is result.body else Result(body, result.request)

    async def read_resource(
        self,
        uri: str,
        caller: Caller,
        meta: Mapping[str, Any] = EMPTY,
        resume: Mapping[str, Any] = EMPTY,
        unknown: Mapping[str, Any] = EMPTY,
    ) -> JsonObject:
        """Read a resource by the address in `resources/list`; `unknown` parameters are passed on."""
        return await self.fetch("resources/read", uri, {**unknown}, caller, meta, resume)

    async def get_prompt(
        self,
        name: str,
        arguments: JsonObject | None,
        caller: Caller,
        meta: Mapping[str, Any] = EMPTY,
        resume: Mapping[str, Any] = EMPTY,
        unknown: Mapping[str, Any] = EMPTY,
    ) -> JsonObject:
        """Get a prompt by the name in `prompts/list`; `unknown` parameters are passed on."""
        params: JsonObject = {**unknown} if arguments is None else {**unknown, "arguments": arguments}
        return await self.fetch("prompts/get", name, params, caller, meta, resume)

    async def complete(self, params: JsonObject, caller: Caller, meta: Mapping[str, Any] = EMPTY) -> JsonObject:
        """Completion of a prompt's or template's argument, by its server."""
        sent = {key: value for key, value in params.items() if key != "_meta"}
        request = Request(method="completion/complete", caller=caller, params=sent, meta=meta, span=Span())
        return (await self._pipeline(request)).body

    async def pass_on(
        self,
        method: str,
        params: JsonObject,
        caller: Caller,
        meta: Mapping[str, Any] = EMPTY,
        resume: Mapping[str, Any] = EMPTY,
        *,
        notification: bool = False,
    ) -> JsonObject:
        """Forward a request or notification of an unknown extension to the server that it concerns.

        Raises UnknownName of the kind "method" if there is none.
        """
        sent = {key: value for key, value in params.items() if key != "_meta"}
        name = as_text(sent.get("name")) or as_text(sent.get("uri"))
        request = Request(
            method=method,
            caller=caller,
            params=sent,
            name=name,
            meta=meta,
            resume=resume,
            notification=notification,
            span=Span(arguments=sent),
        )
        return (await self._pipeline(request)).body

    async def follow(
        self,
        method: str,
        params: JsonObject,
        caller: Caller,
        meta: Mapping[str, Any] = EMPTY,
        *,
        unmetered: bool = False,
    ) -> JsonObject:
        """A request about a server's task, by the id that its client has. Raises UnknownName."""
        sent = {key: value for key, value in params.items() if key != "_meta"}
        name = as_text(params.get("taskId"))
        request = Request(
            method=method, caller=caller, params=sent, name=name, meta=meta, unmetered=unmetered, span=Span()
        )
        answer = await self._pipeline(request)
        body, server = answer.body, answer.request.server
        if isinstance(body.get("result"), dict):  # a modern task has its result inside it
            body = {**body, "result": self.addresses.rewrite_apps(body["result"], server)}
        return self.addresses.rewrite_apps(body, server)

    async def capabilities(self, principal: Principal) -> JsonObject:
        """The extensions and unknown capabilities that clients see: ours, and those of known servers."""
        known = [listing.capabilities for listing in (await self.current_view(principal)).listings.values()]
        return {**unknown_capabilities(known), "extensions": union(known)}

    async def watch(self, uri: str, caller: Caller, changed: Changed) -> Callable[[], None]:
        """Call `changed` when a resource changes, until the returned function is called."""
        return await self._watches.watch(uri, caller, changed, self._pipeline, self.addresses)

    def rewrite(self, result: Result) -> JsonObject:
        """A result whose resource links use the addresses in `resources/list`."""
        return self.addresses.rewrite(result.body, result.request.server)

    async def fetch(
        self,
        method: str,
        name: str,
        params: JsonObject,
        caller: Caller,
        meta: Mapping[str, Any],
        resume: Mapping[str, Any],
    ) -> JsonObject:
        span = Span(arguments=params.get("arguments"))
        request = Request(method=method, caller=caller, params=params, name=name, meta=meta, resume=resume, span=span)
        result = await self._pipeline(request)
        uri = as_text(result.request.params.get("uri"))
        if method == "resources/read" and uri.startswith(SKILL_SCHEME):
            await self.skills.check(result.request.server, uri, result.body, caller.principal)
        return self.addresses.rewrite_parts(result.body, result.request.server)

    async def get_skill(self, uri: str, caller: Caller, meta: Mapping[str, Any]) -> JsonObject:
        """A server's description of one of its skills, by the address that clients know. Raises UnknownName."""
        request = Request(method="skills/get", caller=caller, params={}, name=uri, meta=meta, span=Span())
        result = await self._pipeline(request)
        entry = as_object(result.body.get("skill"))
        check_limits(result.request.server, entry)
        self.skills.remember(result.request.server, entry, caller.principal)
        skill = rewrite_skill(self.addresses, result.request.server, entry)
        return {**result.body, "skill": skill}

    async def run(self, script: Script, caller: Caller) -> "Outcome":
        """Run a script to its end; errors in it are part of the outcome."""
        return await self.scripting.run(self, script, caller)

    @property
    def follows_data(self) -> bool:
        """Whether data flow is tracked."""
        return self._reading is not None

    def labels_of_run(self, caller: Caller, run: str) -> JsonObject:
        """The labels of everything that a script has read, as in `_meta.ifc`; none if data flow is not tracked."""
        return {} if self._reading is None else self._reading.labels(caller, run)

    async def value(
        self,
        handle: str,
        principal: Principal,
        path: str = "",
        *,
        most: int | None = None,
        reader: tuple[Caller, str] | None = None,
    ) -> Any:
        """A stored large result, or the part of it at `path`, as data of at most this many bytes.

        `reader` is the caller and the script that read it.
        """
        value = await self._results.value(handle, principal, path, most=most)
        if reader is not None and self._reading is not None:
            await self._reading.note(*reader, handle, value)
        return value

    async def put_aside(self, of: str, body: JsonObject, principal: Principal, most: int | None = None) -> JsonObject:
        """Store an answer of our own, like a tool's result, if it has more than `most` tokens."""
        return await self._results.shape(body, f"{OWN}.{of}", principal, most=most)

    async def usage(self, principal: Principal) -> Mapping[str, int]:
        """How often this principal called each tool, by key."""
        return await self._usage.usage(principal)

    async def recent(self, principal: Principal, limit: int = 50) -> Sequence[CallRecord]:
        """The latest calls of this principal, newest first."""
        records = await self._records.recent_calls(principal, limit)
        shows = self._catalogue.now.policy.shows
        return [record for record in records if shows(principal, record.server, record.tool)]

    def required_keys(self, server: str, principal: Principal) -> Mapping[str, bool]:
        """The variables and files that a server needs, and whether each is present. Never a value."""
        config = self._catalogue.view(principal).server(server)
        missing = known_missing(config, base_dir=self._base_dir)
        needed = dict.fromkeys((*config.required_keys, *known_missing(config, {}, self._base_dir), *missing))
        return {name: name not in missing for name in needed}

    async def read(
        self,
        handle: str,
        principal: Principal,
        *,
        path: str = "",
        grep: str = "",
        offset: int = 0,
        limit: int | None = None,
        reader: Caller | None = None,
    ) -> Slice:
        """A slice of a stored large result, as text; `reader` is the caller who sees it."""
        part = await self._results.read(handle, principal, path=path, grep=grep, offset=offset, limit=limit)
        if reader is not None and self._reading is not None:
            await self._reading.note(reader, "", handle, part.text)
        return part

    async def set_log_level(self, level: str, caller: Caller) -> None:
        """Ask the legacy upstreams for log messages of this level and above, unless they were asked already."""
        if self._pool.lacks_log_level(level):
            await self._pipeline(
                Request(method="logging/setLevel", caller=caller, params={"level": level}, name=level, span=Span())
            )

    def _status(self, config: ServerConfig, view: View, *, signed_in: bool) -> ServerStatus:
        listing = view.listings.get(config.name)
        state, problem = self._pool.state(config.name)
        if not signed_in:
            problem = str(NeedsSignIn(config.name))
        words = config.description or (listing.instructions if listing else "")
        info = listing.server_info if listing else {}
        return ServerStatus(
            name=config.name,
            state="needs sign-in" if not signed_in else str(state) if listing or state is not State.IDLE else "unseen",
            tools=len(view.by_server[config.name]) if listing else None,
            description=first_sentence(words or str(info.get("title") or info.get("description") or "")),
            version=str(info.get("version", "")),
            transport=config.transport,
            problem=problem or view.failures.get(config.name, ""),
            tags=config.tags,
        )
