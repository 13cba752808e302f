"""A child process, connected over its pipes.

Owns the child: its own process group, a small environment, size-limited framing of its output, its last stderr lines
(`child_stderr.py`), and a shutdown that leaves no process behind. Garbage on stdout is skipped and counted, and an
answer over the limit fails its call; too much garbage, or an endless line, closes the connection, because nothing after
it can be trusted. A child that sends too much that nobody asked for is read more slowly (`throttle.py`), and one turn
of the loop handles a limited number of messages.
"""

import asyncio
import contextlib
import logging
import os
import signal
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from shutil import which
from typing import Any, cast

from wicket_mcp.codec import LARGE, encode, is_large
from wicket_mcp.config.model.config import ResolvedServer
from wicket_mcp.descriptors import restore_limit
from wicket_mcp.errors import CannotStart, Crashed, NotSent, ProtocolViolation, Unavailable, UpstreamError
from wicket_mcp.framing import CutLine, LineFramer, LineTooLong, read_by_pipefuls
from wicket_mcp.large_json import encode_off_loop
from wicket_mcp.model import JsonObject, Principal
from wicket_mcp.rpc import NO_CALLBACKS, Callbacks, Rpc, decode_message, decode_small_message, read_id
from wicket_mcp.tasks import Tasks
from wicket_mcp.telemetry.redact import Redactor, url_secrets
from wicket_mcp.upstream.child_stderr import ChildStderr
from wicket_mcp.upstream.connection import Host, Versioned
from wicket_mcp.upstream.egress import MAY_HAVE_ACTED
from wicket_mcp.upstream.keeper import Keeper
from wicket_mcp.upstream.subscription import Subscription
from wicket_mcp.upstream.throttle import FLOODS, SLOWED, Throttle

log = logging.getLogger(__name__)

INHERITED = (
    *("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS"),
)
"""The environment variables that a child inherits: enough to find programs, use the user's language and know which
certificates the user trusts; no secrets.
"""

GARBAGE_PER_MINUTE = 10_000  # a chatty logger is tolerated, a flood is not
SKIPPED = 256 * 2**20  # bytes over the limit after which a line counts as endless
STUCK_AFTER = 5.0  # seconds in which a child must read some of what we wrote
EXIT_REASON_GRACE = 0.5  # seconds between the end of a child's pipes and its exit, which gives the reason
EXIT_GRACE = 2.0  # seconds for a child to exit after its stdin closed, and again after SIGTERM
LOW_PRIORITY = 15  # "nice" value of a server that fails often
MESSAGES_A_TURN = 50  # handled before other tasks get a turn of the event loop
AT_ONCE = 200  # messages that are handled as they are read: usually answers, which have to be handled soon anyway
STDERR_SHOWN = 5
_BOM = b"\xef\xbb\xbf"


class StdioConnection(Versioned, asyncio.SubprocessProtocol):
    """One child, one connection."""

    def __init__(self, server: str, host: Host, max_message: int, redact: Redactor, keeper: Keeper) -> None:
        self.garbage = 0
        self.control: Path | None = None
        """The control group of the child."""
        self._server = server
        self._host = host
        self._redact = redact
        self._keeper = keeper
        self._throttle = Throttle(asyncio.get_running_loop().time())
        self._backlog: deque[bytes] = deque()
        """Lines that are read but not handled yet; reading is paused meanwhile."""
        self._draining: asyncio.TimerHandle | None = None
        self._reading = True
        """Whether its output is read; the pipes of older asyncio versions cannot tell."""
        self._large: bytes | None = None
        """A message that is being decoded off the loop; later messages wait."""
        self._tasks = Tasks()
        self._framer = LineFramer(max_message, SKIPPED)
        self._max_message = max_message
        self._subscription = Subscription(self)
        heard = self._subscription.noting(host.notification)
        self._rpc = Rpc(server, self._write, Callbacks(heard, host.request))
        self._stderr = ChildStderr(server, self._abort)
        self._garbage_since = (0.0, 0)
        self._process: asyncio.SubprocessTransport | None = None
        self._stdin: asyncio.WriteTransport | None = None
        self._unsent: list[bytes] = []
        self._stuck: asyncio.TimerHandle | None = None
        self._exit_timer: asyncio.TimerHandle | None = None
        self._exited = asyncio.Event()
        self._all_read = False
        """Whether no more will come, because the child is gone."""
        self._ended: UpstreamError | None = None
        self._closing = False

    def __repr__(self) -> str:
        return f"<StdioConnection {self._server} {self._version}>"

    @classmethod
    async def open(cls, server: ResolvedServer, host: Host, max_message: int, keeper: Keeper) -> "StdioConnection":
        """Start the child. Raises Unavailable if it cannot be started."""
        name, command = server.config.name, server.command or ""
        inherited = {key: os.environ[key] for key in server.config.inherit_env if key in os.environ}
        hidden = [secret for value in inherited.values() if "://" in value for secret in url_secrets(value)]
        redact = Redactor((*server.env.values(), *server.headers.values(), *hidden))
        connection = cls(name, host, max_message, redact, keeper)
        environment = {key: os.environ[key] for key in INHERITED if key in os.environ} | inherited | dict(server.env)
        connection.control, line = keeper.enclose((command, *server.args), environment, server.cwd)
        try:
            await asyncio.get_running_loop().subprocess_exec(
                lambda: connection,
                *line,
                env=environment,
                cwd=server.cwd,
                start_new_session=True,
            )
        except (OSError, ValueError) as problem:
            keeper.discard(connection.control)
            reason, hint = str(problem), f"Check that '{command}' can be executed."
            # One folder of PATH that we may not read is reported, although no other has the command either.
            is_denied = isinstance(problem, PermissionError) and not which(command, os.F_OK, environment.get("PATH"))
            if isinstance(problem, FileNotFoundError) and server.cwd and problem.filename == server.cwd:
                reason, hint = f"folder '{server.cwd}' was not found", "Correct its 'cwd'."
            elif isinstance(problem, FileNotFoundError) or (is_denied and os.sep not in command):
                reason, hint = f"command '{command}' was not found", "Install it, or give its full path as 'command'."
            raise CannotStart(name, f"Server '{name}' cannot start: {reason}.", hint=hint) from None
        return connection

    # Called by the pool

    @property
    def strays(self) -> int:
        return self._rpc.strays + self.garbage

    @property
    def slowed(self) -> bool:
        return self._throttle.slowed or self._stderr.slowed

    def request(
        self,
        method: str,
        params: JsonObject,
        callbacks: Callbacks = NO_CALLBACKS,
        headers: Mapping[str, str] | None = None,
    ) -> Awaitable[JsonObject]:
        if self._ended:
            raise self._not_sent(self._ended)
        if self._stdin is not None and self._stdin.is_closing():
            return self._explain_end()
        return self._rpc.request(method, params, callbacks)

    async def _explain_end(self) -> JsonObject:
        """Raises NotSent. The child has closed its input: it usually exits at once, and its exit code says more."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._exited.wait(), EXIT_REASON_GRACE)
        raise self._not_sent(self._ended or self._crash())

    async def notify(self, method: str, params: JsonObject | None = None, principal: Principal | None = None) -> None:
        await self._rpc.notify(method, params)

    async def listen(self, resources: Sequence[str] = ()) -> None:
        await self._subscription.listen(resources)

    async def close(self) -> None:
        self._closing = True
        self._end(Unavailable(self._server, f"Server '{self._server}' was stopped."))
        await self._subscription.close()
        await self._rpc.close()
        await self._tasks.close()
        await self._stop_process()

    def abandon(self, reason: str) -> None:
        """Stop the child at once: we no longer own it."""
        self._end(Crashed(self._server, reason, hint=MAY_HAVE_ACTED, stderr=self.stderr_tail()))
        self._signal(signal.SIGKILL)

    # Called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._process = cast("asyncio.SubprocessTransport", transport)
        self._keeper.add(self._process.get_pid(), self.control)
        restore_limit(self._process.get_pid())
        if self._host.fails_often:
            lower_priority(self._process.get_pid())
        self._stdin = cast("asyncio.WriteTransport", self._process.get_pipe_transport(0))
        self._stderr.attach(self._process.get_pipe_transport(2))
        _DirectReader(self._process.get_pipe_transport(1), self._read)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 2:
            self._stderr.take(data)
        else:
            self._read(data)

    def _read(self, data: bytes) -> None:
        if (
            not self._framer.waiting
            and not self._backlog
            and data.endswith(b"\n")
            and data.count(b"\n") <= AT_ONCE
            and len(data) <= self._max_message
        ):
            heard = self._rpc.heard
            for line in data.split(b"\n")[:-1]:  # the usual chunk: a few whole lines, nothing kept
                if not self._ended:
                    self._take(line)
            if self._rpc.heard > heard:
                self._go_on(self._pace(heard))
            return
        try:
            lines = self._framer.feed(data)
        except LineTooLong:
            self._abort(f"{self._too_large()}; the connection was closed.")
            return
        self._backlog.extend(lines)
        if self._draining is None:
            self._drain()

    def _drain(self, most: int = MESSAGES_A_TURN) -> None:
        """Handle the read lines, in turns; resume reading when all are handled and the child did not send too much."""
        self._draining = None
        heard = self._rpc.heard
        for _ in range(min(most, len(self._backlog))):
            if self._ended:
                break
            line = self._backlog.popleft()
            if isinstance(line, CutLine):
                self._reject_large(line)
                continue
            if len(line) >= LARGE:
                self._large = line
                self._tasks.start(self._take_large(line), f"decode a message of {self._server}")
                break
            self._take(line)
        self._go_on(self._pace(heard) if self._rpc.heard > heard else 0.0)

    async def _take_large(self, line: bytes) -> None:
        try:
            message: Any = await decode_message(line.strip().removeprefix(_BOM))
        except ValueError as problem:
            message = problem
        if self._large is line:
            self._large = None
            self._handle(line.strip(), message)
            self._drain()

    def _pace(self, heard: int) -> float:
        """Account for the messages since `heard`; returns the seconds to wait before reading on."""
        was_slowed = self._throttle.slowed
        pause = self._throttle.spend(self._rpc.heard - heard, asyncio.get_running_loop().time())
        if self._throttle.exceeded:
            self._abort(FLOODS.format(self._server))
        if self._throttle.slowed and not was_slowed:
            log.warning(SLOWED, self._server)
        return pause

    def _go_on(self, pause: float) -> None:
        if self._ended:  # read until the pipes end, but ignore the data; a flood is not read any more
            self._backlog.clear()
            self._large, pause = None, 0.0
        if self._all_read:
            pause = 0.0
            if self._large is None and not self._backlog:
                self._end(self._crash())
        if self._large is None and (pause or self._backlog):
            self._draining = asyncio.get_running_loop().call_later(pause, self._drain)
        floods_on = self._ended and self._throttle.slowed and not self._exited.is_set()
        self._set_reading(on=self._draining is None and self._large is None and not floods_on)

    def _set_reading(self, *, on: bool) -> None:
        pipe = cast("asyncio.ReadTransport | None", self._process and self._process.get_pipe_transport(1))
        if pipe is None or pipe.is_closing() or self._reading == on:
            return
        self._reading = on
        if on:
            pipe.resume_reading()
        else:
            pipe.pause_reading()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        # Normally it exits soon, and the exit gives the reason. If not, it can no longer read or answer.
        if fd in (0, 1) and self._exit_timer is None and not self._closing:
            reason = f"Server '{self._server}' closed its {('input', 'output')[fd]}; it was stopped."
            self._exit_timer = asyncio.get_running_loop().call_later(EXIT_REASON_GRACE, self._abort, reason)

    def process_exited(self) -> None:
        self._exited.set()
        self._stderr.resume()
        if self._ended:
            self._set_reading(on=True)
        if self._process is not None:
            self._keeper.drop(self._process.get_pid())  # and everything that it started and left behind
        if self._exit_timer is not None:
            self._exit_timer.cancel()
        # A process that left the group may hold the pipes open, so do not wait for them to end.
        self._exit_timer = asyncio.get_running_loop().call_later(EXIT_REASON_GRACE, self.connection_lost, None)

    def connection_lost(self, exc: Exception | None) -> None:
        """The child has exited, and all its output has been read."""
        for timer in (self._exit_timer, self._draining):
            if timer is not None:
                timer.cancel()
        self._all_read = True
        if self._large is None:
            self._drain()
        if self._process is not None:
            self._process.close()

    def pause_writing(self) -> None:
        self._write_timer(on=True)

    def resume_writing(self) -> None:
        self._write_timer(on=False)

    # Our own methods

    def _take(self, line: bytes) -> None:
        text = line.strip()
        if not text:
            self._rpc.overhear()
            return
        try:
            message: Any = decode_small_message(text.removeprefix(_BOM))
        except ValueError as problem:
            self._handle(text, problem)
        else:
            self._rpc.receive(message)

    def _handle(self, text: bytes, message: Any) -> None:
        """Pass on a decoded line, or count one that could not be decoded."""
        if not isinstance(message, ValueError):
            self._rpc.receive(message)
        elif not self._reject_answer(text, str(message)):
            self._count_garbage(text)

    def _reject_answer(self, text: bytes, problem: str) -> bool:
        """Fail the call whose answer cannot be decoded; False if it is unclear which call that is."""
        number = read_id(text)
        if number is None:
            return False
        words = f"Server '{self._server}' sent an answer that cannot be read: {self._redact(problem, 200)}."
        hint = "It may have had effects. Tell its author."
        return self._rpc.reject(number, ProtocolViolation(self._server, words, hint=hint))

    def _reject_large(self, line: CutLine) -> None:
        """Fail the call whose answer is over the limit. If it is unclear which call that is, none can be trusted."""
        text = self._too_large()
        number = read_id(line.strip())
        if number is None:
            self._abort(f"{text}; the connection was closed.")
        else:
            hint = "It may have had effects. Ask the tool for less."
            self._rpc.reject(number, ProtocolViolation(self._server, f"{text}.", hint=hint))

    def _too_large(self) -> str:
        return f"Server '{self._server}' sent a message larger than {self._max_message // 2**20} MiB"

    def _count_garbage(self, text: bytes) -> None:
        self.garbage += 1
        self._rpc.overhear()
        now = time.monotonic()
        since, count = self._garbage_since
        since, count = (now, 1) if now - since > 60 else (since, count + 1)
        self._garbage_since = since, count
        if count == 1:
            sample = self._redact(text.decode("utf-8", "replace"), 80)
            log.warning("server '%s' writes to stdout what is not JSON, for example: %s", self._server, sample)
        elif count > GARBAGE_PER_MINUTE:
            self._abort(f"Server '{self._server}' floods stdout with lines that are not JSON.")

    def _write(self, message: JsonObject) -> Coroutine[Any, Any, None] | None:
        params = message.get("params")
        if params is not None and "arguments" in params and is_large(params["arguments"]):
            return self._write_large(message)
        self._put(encode(message))
        return None

    async def _write_large(self, message: JsonObject) -> None:
        self._put(await encode_off_loop(message))

    def _put(self, line: bytes) -> None:
        if self._stdin is None or self._stdin.is_closing():
            raise self._not_sent(self._ended or self._crash())
        self._unsent += (line, b"\n")
        if len(self._rpc) <= 1:
            self._flush()
        elif len(self._unsent) == 2:  # others are in flight, and more may come in this turn: one system call for all
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        unsent, self._unsent = self._unsent, []
        if unsent and self._stdin is not None and not self._stdin.is_closing():
            self._stdin.write(b"".join(unsent))

    def _write_timer(self, *, on: bool) -> None:
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None
        if on:
            reason = f"Server '{self._server}' does not read its input; it was stopped."
            self._stuck = asyncio.get_running_loop().call_later(STUCK_AFTER, self._abort, reason)

    def _abort(self, reason: str) -> None:
        hint = f"Look at what '{self._server}' prints; run its command by hand."
        self._end(ProtocolViolation(self._server, reason, hint=hint, stderr=self.stderr_tail()))
        self._signal(signal.SIGKILL)

    def _not_sent(self, reason: UpstreamError) -> NotSent:
        return NotSent(self._server, reason.message, hint="Nothing was sent; try again.", stderr=reason.stderr)

    def _crash(self) -> Crashed:
        code = self._process.get_returncode() if self._process else None
        how = "ended" if code is None else f"exited with code {code}"
        if code is not None and code < 0:
            how = f"was killed by {_signal_name(-code)}"
        return Crashed(
            self._server,
            f"Server '{self._server}' {how} before it answered.",
            hint=MAY_HAVE_ACTED,
            stderr=self.stderr_tail(),
        )

    def _end(self, reason: UpstreamError) -> None:
        """End the connection once: fail waiting calls, and tell the owner unless it closed the connection itself."""
        if self._ended:
            return
        self._ended = reason
        self._write_timer(on=False)
        # The calls may have been carried out, so their error must not allow a retry.
        self._rpc.fail(Crashed(self._server, reason.message, hint=MAY_HAVE_ACTED) if reason.retryable else reason)
        if not self._closing:
            self._host.on_closed(reason)

    def stderr_tail(self) -> list[str]:
        return [self._redact(line, 300) for line in self._stderr.lines(STDERR_SHOWN)]

    def _signal(self, number: signal.Signals) -> None:
        if self._process is None:
            return
        if number == signal.SIGKILL:
            self._keeper.kill(self._process.get_pid())
        else:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.get_pid(), number)

    async def _stop_process(self) -> None:
        """Close stdin, then send SIGTERM, then SIGKILL: afterwards the whole group is gone."""
        if self._process is None:
            return
        if self._stdin is not None:
            self._stdin.close()
        if self.slowed:  # it would go on at full speed if it were read, and hears of nothing while it is not
            self._signal(signal.SIGTERM)
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(EXIT_GRACE):
                    await self._exited.wait()
                break
            self._signal(number)
        await self._exited.wait()
        self._signal(signal.SIGKILL)
        self._process.close()


def lower_priority(pid: int) -> None:
    """Let everything else on this machine run first: starting a program takes a processor for a moment.

    Where each session has a share of its own (Linux's autogroups), a process's priority counts only within it.
    """
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PGRP, pid, LOW_PRIORITY)
    with contextlib.suppress(OSError):
        Path(f"/proc/{pid}/autogroup").write_text(str(LOW_PRIORITY))


class _DirectReader(asyncio.Protocol):
    """Passes on a pipe's data as it is read: asyncio's own protocol needs one turn of the loop per chunk."""

    def __init__(self, pipe: asyncio.BaseTransport | None, take: Callable[[bytes], None]) -> None:
        transport = cast("asyncio.Transport", pipe)
        self._replaced = cast("asyncio.Protocol", transport.get_protocol())
        self._take = take
        read_by_pipefuls(transport)
        transport.set_protocol(self)

    def data_received(self, data: bytes) -> None:
        self._take(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._replaced.connection_lost(exc)  # it counts the open pipes


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal other than the first and the last
        return f"signal {number}"
