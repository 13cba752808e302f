"""What happens at this moment, here and in the other processes of one gateway, for the dashboard.

`GET /_replica/under-way` returns our part to another member, which vouches for the principal; no one else is answered.
`POST /_replica/stop/NAME` stops a server here. A principal without `admin` sees only its own requests, questions and
clients, in every process. Mounted when there are replicas or workers. A process may be reached in several ways: as a
replica, and as a neighbour on its machine (`neighbours.py`). `merge` counts each once.
"""

import secrets
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any
from urllib.parse import parse_qsl

from msgspec import Struct, ValidationError, convert, to_builtins
from msgspec.structs import replace

from wicket_mcp.calls.audit import Audit
from wicket_mcp.model import JsonObject, Principal, as_text
from wicket_mcp.surface.guard import Authentication
from wicket_mcp.surface.held_calls import HeldCalls
from wicket_mcp.surface.http import Receive, RequestHeaders, Scope, Send, send_json

PATH = "/_replica/under-way"
STOP = "/_replica/stop/"
LOOK_WITHIN = 0.5
"""Seconds in which another process must report its activity; a page does not wait longer."""
LOOK_BEYOND = 0.35
"""The same for the replicas of a process that is asked itself,"""
LOOK_BESIDE = 0.2
"""and for the neighbours of such a replica."""
_PEER = b"wicket-peer"
_PROCESS = secrets.token_hex(8)
_LIVELIEST = ("ready", "starting", "restarting", "broken", "waiting", "stopping")
"""States, the one that says most about a server first."""
_MAX_WORDS = 300


class UnderWay(Struct, frozen=True):
    """One request."""

    method: str
    name: str
    """The server and the requested tool, prompt or resource."""
    principal: str
    ms: float
    client: str = ""
    run: str = ""
    progress: str = ""
    """The server's last word on how far it is."""


class OpenQuestion(Struct, frozen=True):
    """A server's question that waits for a client."""

    principal: str
    client: str
    kind: str
    words: str


class ConnectedClient(Struct, frozen=True):
    """A client with a session or a connection of its own."""

    principal: str
    name: str
    version: str
    """The protocol version it speaks."""
    transport: str
    seconds: float
    """Since it connected."""


class Load(Struct, frozen=True):
    """The activity at one server, in one process."""

    calls: int = 0
    waiting: int = 0
    restarts: int = 0
    state: str = ""
    problem: str = ""
    era: str = ""
    relayed: bool = False
    """Whether another member runs it for us, and reports it itself."""
    hint: str = ""
    """What to do about the problem; empty if nobody knows."""

    def __add__(self, other: "Load") -> "Load":
        if self.relayed != other.relayed:
            return replace(other if self.relayed else self, restarts=self.restarts + other.restarts)
        first, second = (self, other) if _rank(self.state) <= _rank(other.state) else (other, self)
        return Load(
            self.calls + other.calls,
            self.waiting + other.waiting,
            self.restarts + other.restarts,
            first.state,
            first.problem or second.problem,
            first.era or second.era,
            self.relayed,
            first.hint or second.hint,
        )


def _rank(state: str) -> int:
    return _LIVELIEST.index(state) if state in _LIVELIEST else len(_LIVELIEST)


class Glimpse(Struct, frozen=True):
    """The activity in one process."""

    requests: tuple[UnderWay, ...] = ()
    loads: Mapping[str, Load] = {}
    questions: tuple[OpenQuestion, ...] = ()
    clients: tuple[ConnectedClient, ...] = ()
    lost: int = 0
    """Audit records that could not be stored."""
    stderr: tuple[str, ...] = ()
    """The last lines of the server that was asked about."""
    process: str = ""
    """Which process this is."""
    beside: "tuple[Glimpse, ...]" = ()
    """What those reported whom it has asked in turn."""


class Here(Struct, frozen=True):
    """Where to look in this process."""

    audit: Audit
    held: HeldCalls
    loads: Callable[[], Mapping[str, Load]]
    clients: Callable[[], Sequence[ConnectedClient]]
    lost: Callable[[], int]
    stderr: Callable[[str], Sequence[str]]

    def look(self, principal: Principal, server: str = "") -> Glimpse:
        """What `principal` may see; with the last lines on stderr of `server`."""
        is_admin = principal.may("admin")

        def may_see(name: str) -> bool:
            return is_admin or name == principal.id

        return Glimpse(
            tuple(request for request in self._requests() if may_see(request.principal)),
            self.loads(),
            tuple(question for question in self._questions() if may_see(question.principal)),
            tuple(client for client in self.clients() if may_see(client.principal)),
            self.lost(),
            tuple(self.stderr(server)) if server and is_admin else (),
            f"{_PROCESS} {id(self.audit)}",
        )

    def _requests(self) -> list[UnderWay]:
        clock = time.perf_counter()
        return [
            UnderWay(
                request.method,
                ".".join(filter(None, (request.span.server, request.span.name or request.name))),
                request.caller.principal.id,
                (clock - started) * 1000,
                request.caller.client_name,
                request.span.run,
                describe_progress(request.span.progress or {}),
            )
            for request, started in [(entry.request, entry.started) for entry in self.audit.running.values()]
        ]

    def _questions(self) -> list[OpenQuestion]:
        return [
            OpenQuestion(held.principal.id, held.client_name, method, as_text(params.get("message"))[:_MAX_WORDS])
            for held, method, params in self.held.open_questions()
        ]


def describe_progress(params: JsonObject) -> str:
    """A server's progress, in a few words."""
    done, total, message = params.get("progress"), params.get("total"), as_text(params.get("message"))[:_MAX_WORDS]
    count = f"{_in_range(done):g}" if isinstance(done, int | float) else ""
    if count and isinstance(total, int | float) and total:
        count += f" of {_in_range(total):g}"
    return ": ".join(filter(None, (count, message)))


def _in_range(number: float) -> float:
    """A server's number as one that can be shown: JSON has integers that no float can hold."""
    return max(-1e99, min(number, 1e99))


def _unfold(glimpses: Iterable[Glimpse]) -> Iterator[Glimpse]:
    for glimpse in glimpses:
        yield glimpse
        yield from _unfold(glimpse.beside)


def merge(glimpses: Sequence[Glimpse]) -> Glimpse:
    """The activity of all processes, each counted once, longest running first."""
    glimpses = list({glimpse.process or str(id(glimpse)): glimpse for glimpse in _unfold(glimpses)}.values())
    loads: dict[str, list[Load]] = {}
    for glimpse in glimpses:
        for server, load in glimpse.loads.items():
            loads.setdefault(server, []).append(load)
    requests = (request for glimpse in glimpses for request in glimpse.requests)
    return Glimpse(
        tuple(sorted(requests, key=lambda request: -request.ms)),
        {server: reduce(Load.__add__, known) for server, known in loads.items()},
        tuple(question for glimpse in glimpses for question in glimpse.questions),
        tuple(client for glimpse in glimpses for client in glimpse.clients),
        sum(glimpse.lost for glimpse in glimpses),
        next((glimpse.stderr for glimpse in glimpses if glimpse.stderr), ()),
    )


def read(answer: Any) -> Glimpse:
    """Parse another member's answer; empty if it is invalid."""
    try:
        return convert(answer, Glimpse)
    except ValidationError:
        return Glimpse()


Look = Callable[[Principal, str], Awaitable[Glimpse]]
"""What a principal may see of a process; with the last lines on stderr of a server."""


class UnderWayPage:
    """A Mount, for the other members. `look` returns what happens here, `stop` stops a server."""

    authentication: Authentication = "required"

    def __init__(self, look: Look, stop: Callable[[str, Principal], Awaitable[None]]) -> None:
        self._look = look
        self._stop = stop

    def serves(self, path: str) -> bool:
        return path == PATH or path.startswith(STOP)

    async def __call__(
        self, scope: Scope, headers: RequestHeaders, receive: Receive, send: Send, principal: Principal
    ) -> None:
        path: str = scope["path"]
        verb = "GET" if path == PATH else "POST"
        if headers.get(_PEER) is None or scope["method"] != verb:
            await send_json(send, 404, {"error": "Nothing is served at this path. MCP is at /mcp."})
        elif path == PATH:
            query = dict(parse_qsl(scope.get("query_string", b"").decode("latin-1"), max_num_fields=5))
            await send_json(send, 200, to_builtins(await self._look(principal, query.get("server", ""))))
        elif not principal.may("admin"):
            await send_json(send, 403, {"error": "Only administrators stop servers."})
        else:
            await self._stop(path.removeprefix(STOP), principal)
            await send_json(send, 200, {})
