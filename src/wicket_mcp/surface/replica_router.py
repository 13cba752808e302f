"""Forwards a request to the replica that can answer it, so that load balancers need no sticky sessions.

A legacy client's session lives on the replica where it began, and its id names that replica: any other replica forwards
its requests there. If that replica is gone, the others agree on another one, which restores the session from the data
sealed in the id. A modern client's request can go to any replica; only one that continues a held call or a task of ours
is forwarded. Called by `streamable_http.py` when there are replicas, and not loaded otherwise.
"""

import asyncio
import hashlib
import secrets
import time
from collections.abc import MutableMapping
from contextlib import suppress
from typing import Any

from wicket_mcp.cluster.members import Member, Members, choose, tag, untag
from wicket_mcp.cluster.relay import PEER, Lost, Relay
from wicket_mcp.codec import decode, encode
from wicket_mcp.errors import Crashed, Internal, Unavailable
from wicket_mcp.extensions import TASKS
from wicket_mcp.model import (
    META_CAPABILITIES,
    META_VERSION,
    MODERN_VERSION,
    JsonObject,
    Principal,
    as_object,
    as_text,
)
from wicket_mcp.rpc import read_result
from wicket_mcp.sealing import Ring
from wicket_mcp.store.base import GrantStore
from wicket_mcp.store.model import StoredTicket
from wicket_mcp.surface.http import (
    Receive,
    RequestHeaders,
    Scope,
    Send,
    read_again,
    read_body,
    send_json,
    wait_until_left,
)
from wicket_mcp.surface.protocol import Protocol, client_name, error_response
from wicket_mcp.surface.sessions import HttpSession, Sessions
from wicket_mcp.tasks import Tasks

SESSION = b"mcp-session-id"
TASKS_AT = "/mcp"
"""Where the other members are asked about their tasks."""
_ACCEPTED = {"Accept": "application/json, text/event-stream"}
KEPT = 24 * 3600.0
"""Seconds for which another replica can restore a session."""
LOOK_WITHIN = 0.5  # seconds in which the database must say whether a session has ended
SEEK_EVERY = 1.0  # seconds between two searches for the same replica
MAX_SOUGHT = 1000
MAX_CONFIRMED = 10_000
_LARGEST = 4096
"""The most bytes of capabilities that an id may carry. A client with more counts elsewhere as one without
capabilities.
"""


class ReplicaRouter:
    """Routes requests from one replica to the others. `members` is None until it has joined."""

    def __init__(self, me: str, ring: Ring, relay: Relay, sessions: Sessions, store: GrantStore, max_body: int) -> None:
        self.me = me
        self.members: Members | None = None
        self._searches: dict[str, _Search] = {}
        """The last searches for unknown replicas."""
        self._confirmed: set[str] = set()
        """Restored sessions that had not ended after the last change of the members."""
        self._ring = ring
        self._relay = relay
        self._sessions = sessions
        self._store = store
        self._max_body = max_body

    def join(self, members: Members) -> None:
        """Use these members from now on."""
        self.members = members
        members.on_change.append(self._confirmed.clear)

    def session_id(self, principal: Principal, path: str, params: JsonObject) -> str:
        """The id of a new session: its principal, its replica, and what its client declared."""
        capabilities = as_object(params.get("capabilities"))
        if len(encode(capabilities)) > _LARGEST:
            capabilities = {}
        # The same client may begin twice in one tick of the clock: what is random tells the two apart.
        content = [principal.id, path, capabilities, client_name(params.get("clientInfo")), secrets.token_hex(8)]
        return tag(self.me, self._ring.close("session", content, KEPT))

    async def take_session(
        self,
        scope: Scope,
        headers: RequestHeaders,
        receive: Receive,
        send: Send,
        principal: Principal,
        protocol: Protocol,
    ) -> Receive | None:
        """Forward a request of a session that lives elsewhere; None if that was done, else how to read its body.

        Raises Overloaded if there is no room to restore it.
        """
        number = headers.get(SESSION)
        if number is None:
            return receive
        if self._at_home(number) and (session := self._sessions.find(number, principal, protocol)) is not None:
            await self._confirm(session)
            return receive
        content = self._ring.open("session", untag(number)[1])
        if content is None or content[:2] != [principal.id, scope["path"].rstrip("/")]:
            return receive
        body = await read_body(receive, headers, self._max_body) if scope["method"] == "POST" else b""
        if headers.get(PEER) is None:
            await self._seek(untag(number)[0])
            for member in self._candidates(number):
                if member.id == self.me:
                    break
                if await self._hand_on(member, scope, headers, body, receive, send, principal):
                    return None
        ended = await self.has_ended(number)
        copy = self._sessions.find(number, principal, protocol)
        if ended:
            if copy is not None:
                self._sessions.end(copy)
        elif copy is None:
            session = self._sessions.adopt(number, principal, protocol)
            session.client.introduce(as_object(content[2]), as_text(content[3]))
        return read_again(body, receive)

    async def take_moved(
        self,
        scope: Scope,
        headers: RequestHeaders,
        body: JsonObject,
        receive: Receive,
        send: Send,
        principal: Principal,
        protocol: Protocol,
    ) -> bool:
        """Forward a request whose session was here until its body came, and has left since because we stop; whether
        that was done.
        """
        number = headers.get(SESSION)
        if number is None or self._sessions.find(number, principal, protocol) is not None:
            return False
        again = read_again(encode(body), receive)
        return await self.take_session(scope, headers, again, send, principal, protocol) is None

    async def end_session(self, number: str) -> None:
        """Record that the client has ended its session, so that no replica restores it. Raises Internal if the store
        does not answer.
        """
        now = self._ring.now()
        await self._store.add_ticket(StoredTicket(_digest(number), "session end", "", {}, now + KEPT + 1), now)

    async def _confirm(self, session: HttpSession) -> None:
        """End a restored session that its client ended where it began, before that replica was gone."""
        number = session.id
        if untag(number)[0] == self.me or number in self._confirmed:
            return
        ended = await self.has_ended(number)
        if ended:
            self._sessions.end(session)
        elif ended is False:
            if len(self._confirmed) >= MAX_CONFIRMED:
                self._confirmed.clear()
            self._confirmed.add(number)

    async def has_ended(self, number: str) -> bool | None:
        """Whether its client has ended a session; None if the database does not answer: then it goes on."""
        try:
            async with asyncio.timeout(LOOK_WITHIN):
                return await self._store.ticket(_digest(number)) is not None
        except (Internal, TimeoutError):
            return None

    async def take_state(
        self,
        scope: Scope,
        headers: RequestHeaders,
        body: JsonObject,
        receive: Receive,
        send: Send,
        principal: Principal,
    ) -> bool:
        """Forward a modern request that continues something held by another replica; whether that was done."""
        params = as_object(body.get("params"))
        for key in ("requestState", "taskId"):
            home, _ = untag(as_text(params.get(key)))
            if not home or home == self.me or headers.get(PEER) is not None:
                continue
            if (member := await self.find(home)) is not None:
                return await self._hand_on(member, scope, headers, encode(body), receive, send, principal)
        return False

    async def has_task(self, number: str) -> bool:
        """Whether another member keeps the task with this id. Raises Unavailable if nobody can say: a task is lost only
        if its member is certainly gone.
        """
        home, _ = untag(number)
        if await self.find(home) is not None:
            return True
        if not await self._seek(home):
            message = "It is not known at the moment whether the replica that keeps this task is still there."
            raise Unavailable("wicket", message, hint="Try again.")
        return False

    async def ask_about_task(self, method: str, params: JsonObject, principal: Principal) -> JsonObject:
        """The result of a modern request about a task, by the member that keeps it.

        Raises Refused, or Unavailable if that member is gone.
        """
        number = as_text(params.get("taskId"))
        member = await self.find(untag(number)[0])
        meta: JsonObject = {META_VERSION: MODERN_VERSION, META_CAPABILITIES: {"extensions": {TASKS: {}}}}
        tagged = {**params, "_meta": {**as_object(params.get("_meta")), **meta}}
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": tagged}
        routing = {"MCP-Protocol-Version": MODERN_VERSION, "Mcp-Method": method, "Mcp-Name": number}
        answer: Any = None
        with suppress(Lost):
            if member is not None:
                answer = await self._relay.post(member, TASKS_AT, principal, message, {**routing, **_ACCEPTED})
        if answer is None:
            if member is not None:
                await self._miss(member)
            raise Unavailable("wicket", "The replica that keeps this task does not answer.", hint="Try again.")
        return read_result("wicket", as_object(answer))

    async def find(self, home: str) -> Member | None:
        """Another member, also one that has only lost the database: it still has what it holds and is reachable."""
        if home in ("", self.me):
            return None
        await self._seek(home)
        return None if self.members is None else self.members.all.get(home) or self.members.suspects.get(home)

    async def _seek(self, home: str) -> bool:
        """Search for an unknown replica: it may have joined just now, and must not lose its sessions. False if the
        members cannot be checked. All who ask at the same time wait for one search.
        """
        if home in ("", self.me):
            return True
        if self.members is None:
            return False
        if home in self.members.all or home in self.members.suspects:
            return True
        if home not in self._searches and len(self._searches) >= MAX_SOUGHT:
            self._searches.clear()
        search = self._searches.setdefault(home, _Search())
        async with search.lock:
            if time.monotonic() - search.ended_at >= SEEK_EVERY:
                search.answered = await self.members.look()
                search.ended_at = time.monotonic()
        return search.answered

    def _candidates(self, session: str) -> "list[Member]":
        """Where a session may be: where it began, then where all members agree that it continues."""
        if self.members is None:
            return []
        home, others = untag(session)[0], dict(self.members.all)
        # A replica that has only lost the database still has the session and is reachable.
        first = others.pop(home, None) or self.members.suspects.get(home)
        second = choose(others, session)
        return [member for member in (first, second) if member is not None]

    def _at_home(self, session: str) -> bool:
        """Whether a session that we have is ours: a restored session goes back if its first replica is there after
        all.
        """
        home = untag(session)[0]
        return home == self.me or self.members is None or home not in {*self.members.all, *self.members.suspects}

    async def _hand_on(
        self,
        member: Member,
        scope: Scope,
        headers: RequestHeaders,
        body: bytes,
        receive: Receive,
        send: Send,
        principal: Principal,
    ) -> bool:
        """Whether the member accepted the request. If it accepted but did not answer, the client gets an error."""
        query = scope.get("query_string", b"").decode("latin-1")
        path = f"{scope['path']}?{query}" if query else scope["path"]
        answer = _Answer(send, body)
        tasks = Tasks()
        try:
            work = self._relay.relay(member, scope["method"], path, headers.raw, body, answer, principal)
            running = tasks.start(work, "hand a request on", awaited=True)
            departure = tasks.start(wait_until_left(receive), "watch client")
            await asyncio.wait({running, departure}, return_when=asyncio.FIRST_COMPLETED)
            is_taken = running.result() if running.done() else True
        except Lost as problem:
            await answer.fail(problem)
            is_taken = True
        finally:
            await tasks.close()
        if not is_taken:
            await self._miss(member)
        return is_taken

    async def _miss(self, member: Member) -> None:
        """A member cannot be reached: look whether it is still one."""
        if self.members is not None:
            if member.id in self.members.suspects:
                await self.members.forget(member)
            await self.members.look()


class _Search:
    """A search for a replica."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.ended_at = float("-inf")
        self.answered = False


class _Answer:
    """An answer on its way from another replica, which may fail midway."""

    def __init__(self, send: Send, body: bytes) -> None:
        self._send = send
        self._body = body
        self._started = False
        self._streaming = False

    async def __call__(self, event: MutableMapping[str, Any]) -> None:
        if event["type"] == "http.response.start":
            self._started = True
            headers: dict[bytes, bytes] = dict(event["headers"])
            self._streaming = headers.get(b"content-type", b"").startswith(b"text/event-stream")
        await self._send(event)

    async def fail(self, problem: Lost) -> None:
        """Tell the client that the replica is gone, if it is still possible."""
        message = as_object(decode(self._body)) if self._body else {}
        error = Crashed(
            "wicket",
            f"The replica that worked on this is gone: {problem}",
            hint="It may have acted: check before you try again.",
        )
        response = error_response(message.get("id"), error)
        if not self._started:
            await send_json(self._send, 502 if "id" not in message else 200, response)
        elif self._streaming and "id" in message:
            data = b"data: " + encode(response) + b"\n\n"
            await self._send({"type": "http.response.body", "body": data, "more_body": False})
        else:
            raise problem


def _digest(session: str) -> bytes:
    return hashlib.sha256(f"session end {session}".encode("utf-8", "replace")).digest()
