"""Passes lines between the client's pipes and a gateway, and keeps the client's session across gateways.

A client's messages go to the current gateway line by line; an answer is passed on when it is complete. If a gateway
dies, each call in flight gets a typed error (it may have acted). Requests that only list things are sent again, and the
next gateway learns about the session before anything else. A gateway that asks us to move (another version is
installed) keeps its calls in flight until they are answered. Knows JSON-RPC and the few methods that make up a session;
decides nothing about a call.
"""

import os
import select
import sys
import time

from wicket_mcp.shim.link import Link
from wicket_mcp.shim.messages import (
    ANSWER,
    LOST,
    SILENT,
    answer_for_lost,
    as_object,
    key_of,
    read_id,
    read_object,
    split,
    write_object,
)

TYPE_CHECKING = False  # typing and collections take longer to load than everything here together
if TYPE_CHECKING:
    from collections.abc import Callable

    from wicket_mcp.shim.messages import Key

READ = 65536
WRITTEN_AT_ONCE = 4096
"""Bytes that a pipe accepts without blocking once it is ready."""
MOST_WAITING = 4 * 1024 * 1024
"""Bytes that may wait for one side before we stop reading from the other."""
LONGEST_LINE = 17 * 1024 * 1024
"""A longer line is not a message; the gateway reports that."""
DRAIN = 35.0
GROUPS = "io.modelcontextprotocol/groups"
DEATHS, DEATHS_WITHIN = 4, 10.0
"""Gateways that may die within this many seconds before the client gets its own."""

REPEATABLE = frozenset(
    {"initialize", "ping", "server/discover", "tools/list", "resources/list", "resources/templates/list"}
    | {"prompts/list", "logging/setLevel", "resources/subscribe", "resources/unsubscribe", "subscriptions/listen"}
)
"""Requests that change only the session, and may be sent to the next gateway if one dies."""


class Ended(Exception):
    """The client is no longer served; carries the exit status."""


class Relay:
    """See the module's docstring.

    `find` returns a connection to our daemon, its key, and the seconds that its first word may take; `identify` only
    the key; `start_own` returns the pipes of our own gateway and its process id.
    """

    def __init__(
        self,
        find: "Callable[[], tuple[int, str, float] | None]",
        identify: "Callable[[], str]",
        start_own: "Callable[[], tuple[int, int, int]]",
        hello: bytes,
        note: "Callable[[str], None]",
    ) -> None:
        self._find = find
        self._identify = identify
        self._start_own = start_own
        self._hello = hello
        self._note = note
        self._link: Link | None = None
        self._next: Link | None = None
        """The gateway that we are moving to."""
        self._draining: list[Link] = []
        """Earlier gateways, until everything is answered there."""
        self._partial: list[bytes] = []
        self._partial_size = 0
        self._too_long = False
        self._to_client = bytearray()
        self._input_ended = False
        self._stopping = 0.0
        self._session: dict[str, bytes] = {}
        """The lines that make up a legacy session: its initialization, its log level."""
        self._watched: dict[str, bytes] = {}
        """The subscriptions of a legacy session, by address."""
        self._questions: dict[Key, Link] = {}
        """Questions of gateways to the client, and which gateway asked."""
        self._numbers = 0
        self._deaths: list[float] = []
        self._unready = 0
        """Daemons that disconnected before their first message."""
        self._refused = False
        """No daemon will serve us."""

    def run(self, wake: int) -> int:
        """Serve the client until it disconnects; returns the exit status. `wake` becomes readable after a signal."""
        try:
            self._open()
            while True:
                self._turn(wake)
        except Ended as end:
            return int(end.args[0])

    def stop(self, number: int) -> None:
        """We were told to stop: once everything is answered, or at once if the client has left too or on the second
        signal.
        """
        if self._stopping:
            os._exit(128 + number)
        self._note(f"{'SIGINT' if number == 2 else 'SIGTERM'}: finishing calls in flight; once more ends at once")
        self._stopping = time.monotonic() + (0.0 if self._input_ended else DRAIN)

    # One turn

    def _turn(self, wake: int) -> None:
        links = [link for link in (self._link, self._next, *self._draining) if link is not None]
        events = {wake: select.POLLIN, 1: select.POLLOUT if self._to_client else 0}
        for link in links:
            events[link.fd] = select.POLLIN if self._has_room() else 0
        for link in links:
            if link.outgoing and link.out >= 0:
                events[link.out] = events.get(link.out, 0) | select.POLLOUT
        waiting = len(self._link.outgoing) if self._link else 0
        if not self._input_ended and not self._stopping and waiting < MOST_WAITING:
            events[0] = select.POLLIN
        happened = _wait(events, self._patience())
        if wake in happened:
            os.read(wake, 64)
        if happened.get(1, 0) & (select.POLLERR | select.POLLHUP | select.POLLNVAL):
            raise Ended(0)  # no one reads our answers any more
        if 1 in happened:
            self._write_client()
        for link in links:
            if happened.get(link.out, 0) & select.POLLOUT:
                self._flush(link)
            if happened.get(link.fd, 0) & ~select.POLLOUT:
                self._read(link)
        if 0 in happened:
            self._read_client()
        self._look_at_the_clock()
        self._leave_if_done()

    def _has_room(self) -> bool:
        """Whether we read what gateways say."""
        return len(self._to_client) < MOST_WAITING

    def _watched_links(self) -> list[Link]:
        """The gateways that we can hear, and whose silence would say something."""
        can_hear = self._has_room() and not self._too_long
        return [link for link in (self._link, self._next, *self._draining) if link and can_hear]

    def _patience(self) -> "float | None":
        """The longest time without any event before a wait has taken too long."""
        until = [deadline for link in self._watched_links() if (deadline := link.deadline()) is not None]
        if self._stopping:
            until.append(self._stopping)
        return max(0.0, min(until) - time.monotonic()) if until else None

    def _look_at_the_clock(self) -> None:
        now = time.monotonic()
        if self._stopping and now >= self._stopping:
            raise Ended(0)
        for link in self._watched_links():
            link.look(now)
            if link.silent:
                if link is self._link:
                    self._note("the daemon does not answer; serving without it")
                    self._refused = True
                self._on_died(link)

    def _leave_if_done(self) -> None:
        if not (self._input_ended or self._stopping):
            return
        for link in (self._link, *self._draining):
            if link is not None and not link.outgoing and not link.later and link.ready:
                self._say_goodbye(link)
        if self._link is None and not self._draining and not self._to_client:
            raise Ended(0)

    # The client

    def _read_client(self) -> None:
        data = os.read(0, READ)
        if not data:
            self._input_ended = True
            data = b"\n" if self._partial else b""  # a last line without a line break is a line too
        if self._too_long:
            tail, newline, data = data.partition(b"\n")
            self._too_long = not newline
            self._pass(tail + newline)
        whole, newline, tail = data.rpartition(b"\n")
        if newline:
            lines = b"".join((*self._partial, whole, newline))
            self._partial, self._partial_size = [], 0
            for line in split(lines):
                if line.strip():
                    self._take(line)
        if tail:
            self._partial.append(tail)
            self._partial_size += len(tail)
        if self._partial_size > LONGEST_LINE:
            self._too_long = True
            self._pass(b"".join(self._partial))
            self._partial, self._partial_size = [], 0

    def _pass(self, data: bytes) -> None:
        """Pass on a line that is too long to be a message: the gateway answers it."""
        link = self._link or self._open()
        link.put(data)
        self._flush(link)

    def _take(self, line: bytes) -> None:
        """Send a line of the client to its gateway."""
        link = self._link or self._open()
        passed_on = not self._draining and not self._questions
        if passed_on:  # it has only one possible receiver: pass it on before parsing
            link.put(line)
            self._flush(link)
        message = read_object(line)
        number, method = message.get("id"), message.get("method")
        if isinstance(method, str) and "id" in message:
            link.expect(key_of(number), method, line)
        elif method == "notifications/initialized":
            self._session["notifications/initialized"] = line
        elif method == "notifications/cancelled":
            key = key_of(as_object(message.get("params")).get("requestId"))
            link = next((draining for draining in self._draining if key in draining.unanswered), link)
        elif method is None and number is not None:
            link = self._questions.pop(key_of(number), link)
        if not passed_on and link in (self._link, *self._draining):  # otherwise the gateway that asked is gone
            link.put(line)
            self._flush(link)

    def _remember(self, method: str, line: bytes) -> None:
        """The client was answered: remember what the next gateway must know."""
        if method in ("initialize", "logging/setLevel"):
            self._session[method] = line
        elif method in ("resources/subscribe", "resources/unsubscribe"):
            uri = str(as_object(read_object(line).get("params")).get("uri"))
            self._watched.pop(uri, None)
            if method == "resources/subscribe":
                self._watched[uri] = line

    def _write_ready(self) -> None:
        """Write at once what the client accepts now."""
        if self._to_client and _wait({1: select.POLLOUT}, 0):
            self._write_client()

    def _write_client(self) -> None:
        """Write as much as the client accepts; it is known to accept something."""
        while self._to_client:
            try:
                written = os.write(1, self._to_client[:WRITTEN_AT_ONCE])
            except BlockingIOError:
                return
            except OSError:
                raise Ended(0) from None  # no one reads our answers any more
            del self._to_client[:written]
            if not _wait({1: select.POLLOUT}, 0):
                return

    # A gateway

    def _open(self) -> Link:
        """Open a gateway: the daemon, or our own if there is none or it keeps dying."""
        self._write_ready()  # what is answered, such as an error for a lost call, does not wait for a new daemon
        now = time.monotonic()
        self._deaths = [at for at in self._deaths if now - at < DEATHS_WITHIN]
        connection = None if self._refused or len(self._deaths) >= DEATHS else self._find()
        if connection is None:
            self._refused = True
            fd, out, child = self._start_own()
            link = Link(fd, b"", out=out, child=child)
        else:
            link = self._connect(*connection)
        self._introduce(link)
        self._link = link
        self._flush(link)
        return link

    def _connect(self, fd: int, key: str, patience: float) -> Link:
        return Link(fd, self._hello, key, patience=patience)

    def _introduce(self, link: Link) -> None:
        """Tell a gateway about the session that the client began with another one."""
        for method in ("initialize", "notifications/initialized", "logging/setLevel"):
            if (line := self._session.get(method)) is not None:
                self._repeat(link, line)
        for line in self._watched.values():
            self._repeat(link, line)

    def _repeat(self, link: Link, line: bytes) -> None:
        message = read_object(line)
        if "id" in message:
            self._numbers += 1
            message["id"] = f"wicket-shim-{self._numbers}"
            link.own.add(key_of(message["id"]))
        link.put(write_object(message))
        if message.get("method") == "initialize":
            link.greeting = key_of(message["id"])

    def _say_goodbye(self, link: Link) -> None:
        """Announce that we send nothing more; requests may still be answered. It then ends the connection."""
        if link.closing:
            return
        link.closing = True
        if link.child:
            os.close(link.out)
            link.out = -1
            return
        link.hear()
        link.outgoing += b"!done\n"
        self._flush(link)

    def _flush(self, link: Link) -> None:
        while link.outgoing:
            try:
                sent = os.write(link.out, link.outgoing[: 1 << 18])
            except BlockingIOError:
                return
            except OSError:
                return  # its end is read in its turn, after its last messages
            del link.outgoing[:sent]

    def _read(self, link: Link) -> None:
        if link not in (self._link, self._next, *self._draining):
            return  # it was already ended in this turn
        try:
            data = os.read(link.fd, 1 << 18)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._on_died(link)
            return
        link.hear()
        if b"\n" not in data:
            link.incoming.append(data)
            return
        whole, _, partial = data.rpartition(b"\n")
        lines = b"".join((*link.incoming, whole, b"\n"))
        link.incoming = [partial] if partial else []
        for line in split(lines):
            if line.startswith(b"!"):
                self._obey(link, line)
            elif not line.startswith(ANSWER) or self._settle(link, line):
                self._to_client += line
        self._write_ready()
        if link in self._draining and not link.unanswered:
            self._say_goodbye(link)

    def _settle(self, link: Link, line: bytes) -> bool:
        """Record a gateway's answer or question; whether the client should see it."""
        number, after = read_id(line)
        if line.startswith(b'"method"', after):
            self._questions[key_of(number)] = link
            return True
        if key_of(number) in link.own:
            link.own.discard(key_of(number))
            if key_of(number) == link.greeting:
                link.greeting = None
                link.outgoing += link.later
                link.later.clear()
                self._flush(link)
                self._name_changes(line)
            return False
        if (request := link.unanswered.pop(key_of(number), None)) is not None:
            self._remember(*request)
        return True

    def _name_changes(self, line: bytes) -> None:
        """The client's session continues at another gateway, whose lists may differ."""
        offered = as_object(as_object(read_object(line).get("result")).get("capabilities"))
        for kind in ("tools", "resources", "prompts"):
            if as_object(offered.get(kind)).get("listChanged"):
                self._to_client += write_object({"jsonrpc": "2.0", "method": f"notifications/{kind}/list_changed"})
        hello = as_object(read_object(self._session.get("initialize", b"{}")).get("params"))
        if GROUPS in as_object(as_object(hello.get("capabilities")).get("extensions")):
            self._to_client += write_object({"jsonrpc": "2.0", "method": "notifications/groups/list_changed"})

    def _obey(self, link: Link, line: bytes) -> None:
        """Handle a daemon's message to us, which the client does not see."""
        order, _, words = line[1:].decode("utf-8", "replace").strip().partition(" ")
        if order == "ready":
            link.ready = True
            if words and not self._deaths and link is self._link and not self._session:
                self._note(words)
            if link is self._next:
                self._switch(link)
        elif order == "log":
            sys.stderr.write(f"{words}\n")
            sys.stderr.flush()
        elif order == "end":
            self._input_ended = True
        elif order == "refused":
            self._refused = True  # our own gateway tells the user what is wrong
        elif order == "move" or (order == "check" and self._identify() not in ("", link.key)):
            self._move(link)

    def _move(self, link: Link) -> None:
        """Look for another gateway; the client moves once it is ready."""
        if link is self._link and self._next is None and not self._stopping and (connection := self._find()):
            self._next = self._connect(*connection)
            self._flush(self._next)

    def _switch(self, link: Link) -> None:
        """Serve the client there from now on; calls in flight are answered where they are."""
        old, self._next = self._link, None
        self._introduce(link)
        self._link = link
        self._flush(link)
        if old is not None:
            self._draining.append(old)
            for key, (method, line) in list(old.unanswered.items()):
                if method == "subscriptions/listen":  # it would be answered only when it ends
                    del old.unanswered[key]
                    link.expect(key, method, line)
                    link.put(line)
            if not old.unanswered and not old.outgoing:
                self._say_goodbye(old)
        self._flush(link)

    def _on_died(self, link: Link) -> None:
        """A gateway is gone: answer what it can no longer answer, and continue elsewhere with the rest."""
        self._drop(link)
        if link is self._next:
            self._next = None
            return
        for question in [key for key, asker in self._questions.items() if asker is link]:
            del self._questions[question]
            about: dict[str, object] = {"requestId": question[1]}
            self._to_client += write_object({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": about})
        if link in self._draining:
            self._draining.remove(link)
            self._fail(link, keep=False)
            return
        self._link = None
        leaving = self._input_ended or self._stopping > 0
        requests = self._fail(link, keep=not link.child and not (leaving and link.ready))
        if link.child:
            self._end_with(link.child)
        if not link.ready:
            self._unready += 1
            self._refused = self._refused or self._unready > 1
        elif not link.closing:
            self._deaths.append(time.monotonic())
        if requests or not link.ready or (self._watched and not leaving):
            successor = self._open()
            for key, (method, line) in requests:
                successor.expect(key, method, line)
                successor.put(line)
            self._flush(successor)

    def _fail(self, link: Link, *, keep: bool) -> "list[tuple[Key, tuple[str, bytes]]]":
        """Answer the requests that died with a gateway; with `keep`, return those that the next one may get."""
        requests: list[tuple[Key, tuple[str, bytes]]] = []
        unsent = set(split(bytes(link.outgoing + link.later)))
        for key, (method, line) in link.unanswered.items():
            if keep and (method in REPEATABLE or not link.ready or line in unsent):
                requests.append((key, (method, line)))
            else:
                words = SILENT if link.silent else LOST
                self._to_client += write_object(answer_for_lost(read_object(line), method, words))
        return requests

    def _end_with(self, child: int) -> None:
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        while self._to_client:
            self._write_client()
        raise Ended(code if code >= 0 else 128 - code)

    def _drop(self, link: Link) -> None:
        for fd in {link.fd, link.out} - {-1}:
            os.close(fd)
        link.fd = link.out = -1


def _wait(interests: dict[int, int], patience: "float | None") -> dict[int, int]:
    """The events at the given descriptors, among those requested."""
    poll = select.poll()
    for fd, events in interests.items():
        poll.register(fd, events)
    return dict(poll.poll(None if patience is None else patience * 1000 + 1))
