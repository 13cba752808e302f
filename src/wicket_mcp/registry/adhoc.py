"""Calls a tool of a server that is not installed, at an address that an agent provides.

The egress rules apply to the address. Headers are filtered too: only those that carry credentials or select an account
are sent, and none of the client's own request. Connections are separate for each address and credentials, so that no
principal uses another's.
"""

import hashlib
import re
from collections import OrderedDict
from collections.abc import Callable, Mapping

from msgspec.structs import replace

from wicket_mcp.calls.forward import Forward
from wicket_mcp.codec import encode
from wicket_mcp.config.model.config import ServerConfig
from wicket_mcp.errors import BadArguments, Denied, Refused, WicketError
from wicket_mcp.model import Caller, JsonObject, Principal, Silent, as_list, as_object, as_text
from wicket_mcp.request import Handler, Request, Result, Span, internal
from wicket_mcp.telemetry.redact import mask_url
from wicket_mcp.upstream.egress import HttpClient
from wicket_mcp.upstream.egress_rules import EgressRules, NotPublic
from wicket_mcp.upstream.events import UpstreamEvent
from wicket_mcp.upstream.pool import Pool

MAX_GUESTS = 64
MAX_MESSAGE = 4 * 1024 * 1024
MAX_CALL = 60.0
CONNECT_TIMEOUT = 10.0
KEEP_OPEN = 120.0
MAX_HEADERS = 8
MAX_HEADER = 8 * 1024

_HEADER = re.compile(
    r"authorization|(x-)?api-?key|x-(?!forwarded|original|real|http|client|host)"
    r"[a-z0-9-]*(key|token|auth|secret|account|tenant|workspace|project|organi[sz]ation|org|version)(-id)?"
)
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")


class Guests:
    """See the module's docstring."""

    def __init__(self, rules: EgressRules, guard: Callable[[], Callable[[Handler], Handler]]) -> None:
        """`guard` returns the function that puts the layers about the caller around a handler; it is called for every
        call, because the rules may change.
        """
        self.client = HttpClient(rules=rules)
        self._rules = rules
        self._pool = Pool((), on_event=_pass_over, max_message=MAX_MESSAGE, max_call=MAX_CALL, http=self.client)
        self._forward = Forward(self._pool)
        self._guard = guard
        self._known: OrderedDict[str, None] = OrderedDict()

    async def call(
        self, endpoint: str, tool: str, arguments: JsonObject, headers: Mapping[str, str], caller: Caller, label: str
    ) -> JsonObject:
        """The unchanged result. Raises WicketError. `label` is the server's name in the audit."""
        request = Request(
            method="tools/call",
            caller=caller,
            params={"name": tool, "arguments": arguments},
            name=tool,
            server=endpoint,
            headers=headers,
            span=Span(label, tool, arguments),
        )
        return (await self._guard()(self._connect_and_send)(request)).body

    async def _connect_and_send(self, request: Request) -> Result:
        principal = request.caller.principal
        name = await self._guest(request.server, request.headers or {}, principal)
        # A server that is not configured learns nothing about the client, and cannot ask it anything.
        forwarded = replace(request, caller=Silent(principal, session=""), server=name, headers=None)
        try:
            return await self._forward(forwarded)
        except NotPublic as problem:
            raise (problem if principal.may("admin") else problem.discreet()) from None
        except WicketError as problem:
            if isinstance(problem, Refused) and problem.rpc_code == -32602:
                await self._name_tools(name, request.name, problem)
            problem.message = problem.message.replace(name, _host(name))
            raise

    async def probe(self, endpoint: str, principal: Principal) -> None:
        """Check whether a server answers at an address. Raises WicketError."""
        name = await self._guest(endpoint, {}, principal)
        greeting = await self._pool.start(name)
        method = "server/discover" if greeting.modern else "ping"
        await self._forward(internal(name, method, {}, CONNECT_TIMEOUT))

    async def close(self) -> None:
        await self._pool.close()

    async def _guest(self, endpoint: str, headers: Mapping[str, str], principal: Principal) -> str:
        """The pool's name for this address with these credentials, for this principal."""
        self._rules.check_url(endpoint)
        _check_headers(headers)
        if "${" in endpoint or any("${" in value for value in headers.values()):
            raise Denied(
                "An address or header from outside may not refer to secrets with ${…}.", hint="Give the value."
            )
        identity = [endpoint, sorted(headers.items()), principal.id]
        host = endpoint.partition("://")[2].partition("/")[0]
        name = f"{host}#{hashlib.blake2b(encode(identity), digest_size=12).hexdigest()}"
        if name not in self._known:
            self._pool.add(
                ServerConfig(
                    name=name,
                    url=endpoint,
                    headers=dict(headers),
                    connect_timeout=CONNECT_TIMEOUT,
                    idle_stop=KEEP_OPEN,
                )
            )
        self._known[name] = None
        self._known.move_to_end(name)
        while len(self._known) > MAX_GUESTS:
            await self._pool.remove(self._known.popitem(last=False)[0])
        return name

    async def _name_tools(self, name: str, tool: str, problem: Refused) -> None:
        """Name the existing tools in the error if the requested one is not among them; the call has already failed."""
        try:
            listed = (await self._forward(internal(name, "tools/list", {}, CONNECT_TIMEOUT))).body
        except WicketError:
            return
        names = [as_text(as_object(entry).get("name")) for entry in as_list(listed.get("tools"))]
        if tool not in names:
            problem.message = f"Tool not found: '{tool}'."
            problem.hint = f"The server has {', '.join(names[:20])}." if names else "The server has no tools."


def _check_headers(headers: Mapping[str, str]) -> None:
    if len(headers) > MAX_HEADERS:
        raise BadArguments(f"At most {MAX_HEADERS} headers can be sent.")
    for name, value in headers.items():
        if not _HEADER.fullmatch(name.lower()):
            raise Denied(
                f"The header '{name[:60]}' is not sent to other servers.",
                hint="Authorization, X-API-Key and other X-…-Key, -Token or -Account headers are.",
            )
        if len(value) > MAX_HEADER or not _VALUE.fullmatch(value):
            raise BadArguments(f"The value of the header '{name}' cannot be sent.", hint="Remove line breaks.")


def label_of(endpoint: str) -> str:
    """An address as the audit names it: without possible secrets."""
    return mask_url(endpoint)


def _host(name: str) -> str:
    return name.partition("#")[0]


def _pass_over(event: UpstreamEvent) -> None:
    """Unsolicited messages of guests are ignored."""
