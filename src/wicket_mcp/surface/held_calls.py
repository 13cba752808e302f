"""Calls that wait for their modern client: an upstream asked a question, and the client gets it by `input_required`.

A legacy upstream asks while its call runs, but a modern client can only be asked by ending the answer. So the call is
held, the client gets the questions and a sealed `requestState`, and its repeated request brings the replies and waits
for the next step. Held calls are limited in number (in total and for each principal) and in time, and only their
principal can reach them.
"""

import asyncio
import hashlib
import itertools
import secrets
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import msgspec

from wicket_mcp.codec import decode, encode
from wicket_mcp.errors import INVALID_PARAMS, Overloaded
from wicket_mcp.model import Caller, JsonObject, Principal, as_object
from wicket_mcp.quota import Quota
from wicket_mcp.sealing import Ring
from wicket_mcp.surface.outbox import Counters, Outbox
from wicket_mcp.surface.problems import RpcProblem
from wicket_mcp.tasks import Tasks

MAX_HELD = 1000
MAX_PER_PRINCIPAL = 200
if TYPE_CHECKING:
    from wicket_mcp.calls.task_wait import Followed

HOLD = 300.0  # seconds in which a client may come back
REPEAT_WITHIN = 5.0
"""Seconds in which a client whose connection failed may send its answers again, and get the same result."""
ANSWERS = ("inputResponses", "requestState")
_PURPOSE = "held"


class Seal:
    """Seals what a client carries for us, bound to its principal, its request and an expiry time.

    `home` is the prefix of states that this gateway continues, so that other
    gateways hand them over (`cluster/members.py`): those of its held calls, and those around another gateway's state.
    The owner of a server, who holds that call, would take it for an answer to the server itself.
    """

    def __init__(self, ring: Ring, home: str = "") -> None:
        self._ring = ring
        self._home = f"{home}~" if home else ""

    def close(self, kind: str, content: Any, principal: Principal, digest: str) -> str:
        is_ours = kind == "held" or "~" in str(content)
        sealed = self._ring.close(_PURPOSE, [kind, content], HOLD, _binding(principal, digest))
        return f"{self._home}{sealed}" if is_ours else sealed

    def open(self, sealed: Any, principal: Principal, digest: str) -> tuple[str, Any]:
        """Kind and content. Raises RpcProblem for anything that we did not seal for exactly this request."""
        fields = self._ring.open(_PURPOSE, str(sealed).rpartition("~")[2], _binding(principal, digest))
        if fields is None:
            raise RpcProblem(INVALID_PARAMS, "requestState does not belong to this request, or it has expired.")
        return fields[0], fields[1]


def _binding(principal: Principal, digest: str) -> str:
    return f"{digest} {principal.id}"


class _Question(msgspec.Struct):
    method: str
    params: JsonObject
    reply: "asyncio.Future[JsonObject]"


class HeldCall(msgspec.Struct, eq=False):
    """One call, its open questions, and the client's request that waits for it now."""

    id: str
    principal: Principal
    waiter: Caller
    questions: dict[str, _Question] = msgspec.field(default_factory=dict[str, _Question])
    changed: asyncio.Event = msgspec.field(default_factory=asyncio.Event)
    work: "asyncio.Task[JsonObject] | None" = None
    expiry: asyncio.TimerHandle | None = None
    token: Any = None
    """The progress token of the client's request that waits now."""
    away: bool = False
    """The client was asked a question and has not come back: messages are kept for its return."""
    unheard: Outbox = msgspec.field(default_factory=Outbox)
    numbers: "itertools.count[int]" = msgspec.field(default_factory=lambda: itertools.count(1))

    @property
    def is_done(self) -> bool:
        return self.work is not None and self.work.done()

    # The call's `Caller`

    @property
    def session(self) -> str:
        return self.waiter.session

    @property
    def client_name(self) -> str:
        return self.waiter.client_name

    @property
    def capabilities(self) -> JsonObject:
        return self.waiter.capabilities

    @property
    def followed(self) -> "Followed | None":
        return getattr(self.waiter, "followed", None)

    @property
    def resumes(self) -> bool:
        return True

    @property
    def log_level(self) -> str:
        return self.waiter.log_level

    def notify(self, method: str, params: JsonObject) -> None:
        if self.away:
            self.unheard.put({"method": method, "params": params})
        elif method != "notifications/progress":
            self.waiter.notify(method, params)
        elif self.token is not None:
            self.waiter.notify(method, {**params, "progressToken": self.token})

    async def ask(self, method: str, params: JsonObject) -> JsonObject:
        key = f"q{next(self.numbers)}"
        question = self.questions[key] = _Question(method, params, asyncio.get_running_loop().create_future())
        self.changed.set()
        try:
            return await question.reply
        finally:
            self.questions.pop(key, None)


class HeldCalls:
    """All held calls of one gateway. Replicas that continue each other's requests share the `seal`'s key."""

    def __init__(
        self,
        seal: Seal,
        counters: Counters | None = None,
        *,
        most: int = MAX_HELD,
        most_per_principal: int = MAX_PER_PRINCIPAL,
        repeat_within: float = REPEAT_WITHIN,
    ) -> None:
        self.seal = seal
        self._counters = Counters() if counters is None else counters
        self._repeat_within = repeat_within
        self._held: dict[str, HeldCall] = {}
        self._quota = Quota[str, HeldCall](
            "held_calls", total=most, per_party=most_per_principal, evict=self._forget_done
        )
        self._tasks = Tasks()

    def seal_with(self, seal: Seal) -> None:
        """Seal states so that other replicas hand them over to us."""
        self.seal = seal

    def __len__(self) -> int:
        """How many calls wait for their client."""
        return sum(not held.is_done for held in self._held.values())

    def open_questions(self) -> list[tuple[HeldCall, str, JsonObject]]:
        """Every question that waits for a client: its call, its method and its parameters."""
        return [(held, q.method, q.params) for held in self._held.values() for q in held.questions.values()]

    async def begin(
        self, caller: Caller, digest: str, work: Callable[[Caller], Awaitable[JsonObject]], token: Any = None
    ) -> JsonObject:
        """Start the work; returns its result, or `input_required` if it asks a question first."""
        unheard = Outbox(counters=self._counters)
        held = HeldCall(secrets.token_urlsafe(16), caller.principal, caller, token=token, unheard=unheard)

        async def run() -> JsonObject:
            return await work(held)

        held.work = self._tasks.start(run(), "held call", awaited=True)
        held.work.add_done_callback(lambda _: held.changed.set())
        return await self._next(held, digest)

    async def resume(
        self, handle: str, caller: Caller, digest: str, replies: JsonObject, token: Any = None
    ) -> JsonObject:
        """Pass the client's replies to the held call, and wait for its next step."""
        held = self._held.get(handle)
        if held is None or held.principal.id != caller.principal.id:
            raise RpcProblem(INVALID_PARAMS, "The call that asked has ended; begin again without requestState.")
        held.waiter, held.token, held.away = caller, token, False
        for data in held.unheard.take_each():
            message = as_object(decode(data))
            held.notify(message["method"], message["params"])
        for key, question in list(held.questions.items()):
            if key in replies and not question.reply.done():
                question.reply.set_result(as_object(replies[key]))
                held.questions.pop(key)
        return await self._next(held, digest)

    def seal_state(self, body: JsonObject, principal: Principal, digest: str) -> JsonObject:
        """An upstream's own `input_required`, with its state sealed by us for the client to carry."""
        return {**body, "requestState": self.seal.close("upstream", body.get("requestState"), principal, digest)}

    async def close(self) -> None:
        """End every held call."""
        for held in list(self._held.values()):
            self._forget(held)
        await self._tasks.close()

    async def _next(self, held: HeldCall, digest: str) -> JsonObject:
        """The result, or the open questions. Only the client's latest request decides what becomes of the call."""
        work, waiter = held.work, held.waiter
        if work is None:
            raise RuntimeError("a held call without work")
        self._expire(held, None)
        try:
            while not work.done() and not held.questions:
                held.changed.clear()
                await held.changed.wait()
        except asyncio.CancelledError:
            if held.waiter is waiter:
                self._on_left(held)
            raise
        if work.done():
            if held.id in self._held:
                self._expire(held, self._repeat_within)
            body = work.result()
            return self.seal_state(body, held.principal, digest) if body.get("resultType") == "input_required" else body
        if not self._quota.add(held.principal.id, held):
            self._forget(held)
            raise Overloaded("Too many calls are waiting for input.", hint="Answer some of them, or try again later.")
        self._held[held.id], held.away = held, True
        self._expire(held, HOLD)
        return {
            "resultType": "input_required",
            "inputRequests": {key: {"method": q.method, "params": q.params} for key, q in held.questions.items()},
            "requestState": self.seal.close("held", held.id, held.principal, digest),
        }

    def _on_left(self, held: HeldCall) -> None:
        """The client left without an open question: its call ends too, unless it may send its answers once more."""
        if held.id in self._held:
            held.away = True
            self._expire(held, self._repeat_within)
        else:
            self._forget(held)

    def _expire(self, held: HeldCall, seconds: float | None) -> None:
        """Forget the call after this time; None: not before its client's request has ended."""
        if held.expiry is not None:
            held.expiry.cancel()
        loop = asyncio.get_running_loop()
        held.expiry = None if seconds is None else loop.call_later(seconds, self._forget, held)

    def _forget(self, held: HeldCall) -> None:
        self._held.pop(held.id, None)
        self._quota.remove(held.principal.id, held)
        self._expire(held, None)
        if held.work is not None:
            held.work.cancel()

    def _forget_done(self, held: HeldCall) -> bool:
        """Only results that are kept for a repetition give way to others."""
        if is_done := held.is_done:
            self._forget(held)
        return is_done


def digest_of(method: str, params: JsonObject) -> str:
    """A digest of what a request asks for, without its replies: a repeated request must ask for the same thing."""
    content = {key: value for key, value in params.items() if key not in ("_meta", *ANSWERS)}
    return hashlib.blake2b(encode([method, content]), digest_size=16).hexdigest()
