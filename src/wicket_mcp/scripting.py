"""Runs scripts in the gateway: a script sees the catalogue, and its calls are handled like all others.

Builds the `Api` from the current catalogue, and answers a script's calls through the verbs, with the same policy,
limits and audit as direct calls. The engine (and its processes) starts with the first script.
"""

import asyncio
import logging
import secrets
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from wicket_mcp.budget import MAX_NAMES, check_length
from wicket_mcp.catalog.identifiers import identifier, words_of
from wicket_mcp.config.model.config import Config
from wicket_mcp.config.model.scripts import Limits
from wicket_mcp.errors import BadArguments
from wicket_mcp.model import Caller, Json, JsonObject, Principal, Represented, Tool, as_list
from wicket_mcp.request import Rerun, tool_call
from wicket_mcp.results.content import unwrap_structured, wraps_value
from wicket_mcp.schema.signature import first_sentence, signature
from wicket_mcp.scripts.languages import LANGUAGES
from wicket_mcp.scripts.limits import MAX_REPLY
from wicket_mcp.scripts.patience import Patience

if TYPE_CHECKING:
    from wicket_mcp.catalog.view import View
    from wicket_mcp.scripts.api import Api
    from wicket_mcp.scripts.calls import CallKind
    from wicket_mcp.scripts.engine import Scripts
    from wicket_mcp.scripts.jail import Strength
    from wicket_mcp.scripts.outcome import Outcome
    from wicket_mcp.scripts.reruns import Reruns
    from wicket_mcp.verbs import Verbs

log = logging.getLogger(__name__)

_FINDS_OUT = ("tools", "_G", "globalThis", "__interfaces", "__getToolInterface", "__backends")
"""Words of a script that may reach servers it does not name."""


class Script(msgspec.Struct, frozen=True):
    """What to run. Without `limits`, the configured ones apply."""

    source: str
    language: str
    arguments: JsonObject | None = None
    limits: Limits | None = None
    envelope: bool = False
    """Return `{"result": value}`, which many servers wrap around a function's value, as it is: published vocabularies
    do so."""


class Scripting:
    """Runs scripts for callers. One per gateway."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.outcomes: Counter[tuple[str, str]] = Counter()
        """Ended scripts, by language and state."""
        self._engine: Scripts | None = None
        self._built: tuple[View, Api] | None = None
        """The latest api and its view: naming a large catalogue takes a while."""

    @property
    def engine(self) -> "Scripts":
        if self._engine is None:
            from wicket_mcp.scripts.engine import Scripts  # noqa: PLC0415  (costs what only a script's user should pay)

            self._engine = Scripts(self.limits)
        return self._engine

    def reconfigure(self, config: Config) -> None:
        """Apply other limits to new scripts."""
        self.limits = config.scripts
        if self._engine is not None:
            self._engine.use(config.scripts)

    async def announce(self) -> None:
        """Log which parts of the jail this system lacks, before a user relies on them."""
        strength = await asyncio.to_thread(_strength)
        if not strength.complete:
            fate = "are refused" if self.limits.jail == "strict" else "will run"
            log.warning("scripts %s: the jail is %s", fate, strength)

    async def run(self, verbs: "Verbs", script: Script, caller: Caller) -> "Outcome":
        """Run to the end, whatever the outcome. Raises only cancellation."""
        limits = script.limits or self.limits
        api = await self.api(verbs, caller.principal, script.source[: limits.source])  # the engine rejects longer ones
        # The lua vocabulary shows upstreams' resources under our addresses, so its results use them too.
        readdress = script.language == "lua"
        reruns = None
        if verbs.follows_data:
            from wicket_mcp.scripts.reruns import Reruns  # noqa: PLC0415  (for those who have it followed)

            reruns = Reruns(self.engine, script.source, script.language, api, limits, script.arguments or {})
        asking = InScript(caller, Patience())
        calls = _Calls(verbs, asking, reruns, readdress=readdress, envelope=script.envelope)
        outcome = await self.engine.run(
            *(script.source, script.language, api, calls, limits, script.arguments),
            principal=caller.principal.id,
            seed=reruns.seed if reruns is not None else None,
        )
        self.outcomes[outcome.language if outcome.language in LANGUAGES else "unknown", outcome.state] += 1
        labels = verbs.labels_of_run(caller, calls.run)
        return replace(outcome, labels=labels) if labels else outcome

    async def api(self, verbs: "Verbs", principal: Principal, source: str | None = None) -> "Api":
        """What a script may see; servers that were never listed are asked only if `source` may refer to them."""
        from wicket_mcp.scripts.api import Api  # noqa: PLC0415  (see above)

        servers = list((await verbs.current_view(principal)).servers)
        words = words_of(source) if source is not None else set(_FINDS_OUT)
        mentioned = servers if words & set(_FINDS_OUT) else [name for name in servers if identifier(name) in words]
        view = await verbs.view(principal, mentioned)
        if self._built is None or self._built[0] is not view:
            self._built = view, Api.of(view.tools, list(view.servers))
        return self._built[1]

    async def close(self) -> None:
        if self._engine is not None:
            await self._engine.close()


def _strength() -> "Strength":
    from wicket_mcp.scripts.jail import strength  # noqa: PLC0415  (see above)

    return strength()


class InScript(Represented, frozen=True):
    """The caller of a script's calls: its client, which cannot repeat a request that it did not make itself."""

    patience: Patience | None = None
    """Stops the script's clock while the client's user is asked."""

    async def ask(self, method: str, params: JsonObject) -> JsonObject:
        if self.patience is None:
            return await super().ask(method, params)
        with self.patience.ask():
            return await self.client.ask(method, params)


class _Calls:
    """Handles a script's calls; see `wicket_mcp.scripts.calls.CallTool`."""

    def __init__(
        self, verbs: "Verbs", caller: InScript, reruns: "Reruns | None", *, readdress: bool, envelope: bool
    ) -> None:
        """`reruns`, if data flow is tracked, finds out what the arguments of calls derive from."""
        self.run = secrets.token_hex(4)
        self._readdress = readdress
        self._envelope = envelope
        self._verbs = verbs
        self._caller = caller
        self.patience = caller.patience
        self._reruns = reruns

    async def __call__(self, kind: "CallKind", name: str, arguments: JsonObject) -> Json:
        if self._reruns is None:
            return (await self._answer(kind, name, arguments))[0]
        with self._reruns.keep(kind, name, arguments) as record:
            value, fields = await self._answer(kind, name, arguments, record.rerun)
            record.answer(value, fields)
            return value

    async def _answer(
        self, kind: "CallKind", name: str, arguments: JsonObject, rerun: Rerun | None = None
    ) -> tuple[Json, frozenset[str] | None]:
        """The answer to a call and, if it may contain untrusted text, its fields that do not."""
        match kind:
            case "call":
                request = tool_call(name, arguments, self._caller, whole=True)
                request.span.run, request.span.rerun = self.run, rerun
                result = await self._verbs.call(request)
                body = self._verbs.rewrite(result) if self._readdress else result.body
                return body if self._envelope else _without_envelope(body, result.tool), request.span.concealable
            case "search":
                return await self._search(arguments), None
            case "describe":
                names = as_list(arguments.get("names"))
                check_length(names, MAX_NAMES, "The names", "items")
                return await self._describe([str(name) for name in names]), None
            case "result":
                handle, path = arguments.get("id"), arguments.get("path", "")
                if not isinstance(handle, str) or not isinstance(path, str):
                    raise BadArguments("results.get takes the id of a stored result, and a path, as text.")
                reader = (self._caller, self.run)
                value = await self._verbs.value(handle, self._caller.principal, path, most=MAX_REPLY, reader=reader)
                return value, frozenset()

    async def _search(self, arguments: JsonObject) -> list[JsonObject]:
        query, limit, server = arguments.get("query"), arguments.get("limit", 5), arguments.get("server")
        if not isinstance(query, str) or not isinstance(limit, int):
            raise BadArguments("tools.search takes a task in plain words, and a limit.")
        servers = [server] if isinstance(server, str) else None
        answer = await self._verbs.search(
            query, principal=self._caller.principal, limit=max(1, min(limit, 50)), servers=servers
        )
        return [_brief(hit.tool) for hit in answer.hits]

    async def _describe(self, names: Sequence[str]) -> JsonObject:
        by_name: dict[str, Any] = {}
        for name in names:
            tool = await self._verbs.resolve(name, self._caller.principal)
            entry = {**_brief(tool), "description": tool.description, "schema": tool.input_schema}
            by_name[name] = {**entry, "output_schema": tool.output_schema} if tool.output_schema else entry
        return by_name


def _without_envelope(body: JsonObject, tool: Tool) -> JsonObject:
    """The body with its structured content as the tool's signature shows it."""
    if not wraps_value(tool.output_schema):
        return body
    value = unwrap_structured(body.get("structuredContent"))
    return body if value is None else {**body, "structuredContent": value}


def _brief(tool: Tool) -> JsonObject:
    return {"name": tool.key, "signature": signature(tool), "description": first_sentence(tool.description)}
