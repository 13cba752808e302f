"""Python in the jail: a driver that feeds one script to one `monty` worker and carries its calls.

Two processes below the same walls: the worker interprets the script, the driver speaks frames with the gateway,
so that the gateway neither loads the engine nor converts a value of the worker's. The script is type-checked
against stubs of its tools before it runs.
"""

import asyncio
import os
import re
from typing import Any

import msgspec
import pydantic_monty
from pydantic_monty import ClassInstance
from pydantic_monty._binary import find_monty_binary

from wicket.scripts import frames, jail
from wicket.scripts.frames import CALLS, JOB, PRINTED, REPLIES, Channel
from wicket.scripts.limits import MAX_FRAME, MIB
from wicket.scripts.plain import NotPlain, plain
from wicket.scripts.worker import NOT_JAILED, Failure, Job, Order, begin, done, fail

_WORKER_MEMORY = 1024 * MIB  # address space: the type checker alone maps hundreds of MiB
_LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache", "/dev/null", "/dev/urandom")
_GRACE = 0.5
_WALL_PER_CPU = 10
_RECURSION = 500
_LONGEST_SLEEP = 10.0
_CUT = "\n… cut: more was printed than is kept\n"
_DIAGNOSTIC = re.compile(r"^[^:\n]+:(\d+):(\d+): (?:error|warning)\[([\w-]+)\] (.*)$", re.MULTILINE)
_ALWAYS_WRONG = frozenset({"unresolved-reference", "invalid-syntax", "unresolved-import", "unused-awaitable"})
_WRONG_ON_OURS = frozenset(
    {"missing-argument", "unknown-argument", "invalid-argument-type", "unresolved-attribute",
     "too-many-positional-arguments"}
)  # fmt: skip
_OURS = re.compile(r"`_\w+(?:\.\w+)?`")
_NOT_AWAITED = re.compile(r"<coroutine external_future\(\d+\)>")


def main(channel: Channel, order: Order) -> int:
    """The driver's whole life; returns its exit code."""
    binary = find_monty_binary()
    try:
        jail.confine_tree(memory=_WORKER_MEMORY, cpu=order.cpu, readable=(binary, *_LIBRARIES))
    except jail.JailError:
        return NOT_JAILED
    return asyncio.run(_drive(channel, binary))


async def _drive(channel: Channel, binary: str) -> int:
    pool = pydantic_monty.AsyncMonty(
        binary_path=binary, min_processes=1, max_processes=1, feed_duration_limit_grace=_GRACE
    )
    async with pool:
        reader, writer = await asyncio.open_connection(sock=channel.sock, limit=2 * MAX_FRAME)
        try:
            kind, payload = await frames.read(reader, 1 << 31)
        except asyncio.IncompleteReadError:  # a warm child that was not needed
            os._exit(0)
        if kind != JOB:
            return 1
        begin()
        outbound = _Outbound(writer)
        script = _Script(msgspec.json.decode(payload, type=Job), outbound)
        loop = asyncio.get_running_loop()
        listening = loop.create_task(script.listen(reader))
        try:
            done(outbound, await script.run(pool))
        except Failure as failure:
            fail(outbound, failure)
        listening.cancel()
        writer.transport.set_write_buffer_limits(0)  # drained means sent, to the last byte
        await writer.drain()
        # Out at once: an orderly end of the pool can meet a finalising interpreter, and abort.
        os._exit(0)


class _Outbound(Channel):
    """The sending half of a channel, on the driver's event loop."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        super().__init__(writer.get_extra_info("socket"))
        self._writer = writer

    def send(self, kind: bytes, payload: bytes) -> None:
        self._writer.write(frames.pack(kind, payload))


class _Place:
    """What stands for a server inside the sandbox; empty, the wrapper does all."""


class _Server(ClassInstance):
    """A server as an object: any method call goes out as a frame, by name."""

    def bind(self, script: "_Script", name: str, tools: list[str] | None) -> "_Server":
        self.script, self.name, self.tools = script, name, tools
        return self

    def method_allowed(self, name: str) -> bool:
        return not name.startswith("__")

    def lookup_lazy_attrs(self, name: str) -> Any:
        """A tool as a value, such as `f = server.tool`: a function the sandbox calls by a name of its own."""
        self._check(name)

        async def start(*args: Any, **kwargs: Any) -> Any:
            return await self.script.call(self.name, name, args, kwargs)

        start.__name__ = f"{self.name}__{name}"
        self.script.lookup[start.__name__] = start
        return start

    def call_method(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self._check(name)
        return self.script.call(self.name, name, args, kwargs)

    def _check(self, name: str) -> None:
        if name.startswith("__") or (self.tools is not None and name not in self.tools):
            raise AttributeError(f"{self.name} has no tool '{name}'")


_POSITIONS = {
    ("tools", "search"): ("query", "limit"),
    ("tools", "describe"): ("names", "detail"),
    ("tools", "call"): ("name", "arguments"),
    ("results", "get"): ("id",),
}


class _Script:
    """One job: its calls, its prints, its value."""

    def __init__(self, job: Job, channel: _Outbound) -> None:
        self._job, self._channel = job, channel
        self._calls = 0
        self._outbox: list[bytes] = []
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._tool_errors: set[str] = set()
        self._printed = 0
        self.lookup: dict[str, Any] = {}
        for name, tools in {**job.servers, "tools": None, "results": None}.items():
            self.lookup[name] = _Server(_Place()).bind(self, name, tools)

    async def run(self, pool: Any) -> bytes:
        job = self._job
        session = pool.checkout(
            limits={
                # By the clock on the wall, which a busy machine runs down: the gateway counts the CPU time.
                "max_feed_duration_secs": job.cpu * _WALL_PER_CPU + 1,
                "max_memory": job.memory,
                "max_recursion_depth": _RECURSION,
                "max_suspensions": 1000 + 4 * job.calls,
                "max_total_sleep_secs": _LONGEST_SLEEP,
            },
            type_check=bool(job.stubs),
            type_check_stubs=job.stubs or None,
            type_check_format="concise",
        )
        async with session:
            try:
                value = await self._feed(session, checked=True)
            except pydantic_monty.MontyTypingError as error:
                self._report_types(str(error.display()))
                value = await self._feed(session, checked=False)
            while self._waiting:  # calls that nobody awaited are made all the same
                await asyncio.wait(list(self._waiting.values()))
            return self._encode(value)

    async def _feed(self, session: Any, *, checked: bool) -> Any:
        try:
            return await session.feed_run(
                self._job.source,
                inputs={"args": self._job.args},
                external_lookup=self.lookup,
                print_callback=self._print,
                skip_type_check=not checked,
            )
        except (pydantic_monty.MontySyntaxError, pydantic_monty.MontyRuntimeError) as error:
            raise self._failure(error) from None
        except pydantic_monty.MontyCrashedError as error:
            kind = "cpu" if error.timed_out else "memory"
            said = "used up its processor time" if error.timed_out else "ran out of memory"
            raise Failure(kind, f"The script {said}.") from None
        except pydantic_monty.MontyTypingError:
            raise
        except (pydantic_monty.MontyError, RecursionError, ValueError, TypeError) as error:
            raise Failure("value", f"{type(error).__name__}: {error}") from None

    async def call(self, server: str, tool: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Send one call and wait for its answer; the frame goes with all others of this turn."""
        body = _arguments(server, tool, args, kwargs)
        text = msgspec.json.encode(plain(body, f"the arguments of {server}.{tool}"))
        if len(text) > self._job.max_arguments:
            raise ValueError(f"the arguments of {server}.{tool} are too large")
        self._calls += 1
        if self._calls > self._job.calls:
            raise RuntimeError(f"the limit of {self._job.calls} tool calls in one script is reached")
        loop = asyncio.get_running_loop()
        number, answer = self._calls, loop.create_future()
        self._waiting[number] = answer
        names = msgspec.json.encode([number, server, tool])
        self._outbox.append(names[:-1] + b"," + text + b"]")
        if len(self._outbox) == 1:
            loop.call_soon(self._flush)
        return await answer

    def _flush(self) -> None:
        if self._outbox:
            self._channel.send(CALLS, b"[%s]" % b",".join(self._outbox))
            self._outbox = []

    async def listen(self, reader: asyncio.StreamReader) -> None:
        """Hand replies to the calls that wait for them."""
        while True:
            kind, payload = await frames.read(reader, 1 << 31)
            if kind != REPLIES:
                os._exit(1)
            for number, ok, value in msgspec.json.decode(payload):
                answer = self._waiting.pop(number, None)
                if answer is None or answer.done():
                    continue
                if ok:
                    answer.set_result(value)
                else:
                    self._tool_errors.add(str(value))
                    answer.set_exception(RuntimeError(str(value)))

    def _print(self, _stream: str, text: str) -> None:
        left = self._job.printed - self._printed
        if left < 0:
            return
        self._printed += len(text)
        if len(text) > left:
            text = text[:left] + _CUT
        self._channel.send(PRINTED, msgspec.json.encode(text))

    def _report_types(self, text: str) -> None:
        """Raise what will surely fail; a checker's finer doubts are no reason to refuse a script."""
        found: list[tuple[int, int, str]] = []
        for line, column, code, message in _DIAGNOSTIC.findall(text):
            if "`return` statement outside" in message:
                continue  # the engine allows it: it ends the script with a value
            if code in _ALWAYS_WRONG or (code in _WRONG_ON_OURS and _OURS.search(message)):
                found.append((int(line), int(column), message))
        if found:
            line, column, message = found[0]
            more = "".join(f"\nline {ln}: {said}" for ln, _, said in found[1:5])
            raise Failure("type", message + more, line=line, column=column)

    def _failure(self, error: Any) -> Failure:
        message = str(error.display("type-msg"))
        said = str(error.display("msg"))
        frames_of_script = [f for f in error.traceback() if f.filename.startswith("<python-input")]
        last = frames_of_script[-1] if frames_of_script else None
        where = {"line": last.line, "column": last.column} if last else {}
        if isinstance(error, pydantic_monty.MontySyntaxError):
            return Failure("syntax", message, **where)
        if said in self._tool_errors:
            return Failure("tool", said, **where)
        if message.startswith("TimeoutError: feed time limit"):
            return Failure("cpu", "The script used up its processor time.", **where)
        if message.startswith("MemoryError"):
            return Failure("memory", "not enough memory", **where)
        if self._calls > self._job.calls or "suspension" in message:
            return Failure("calls", message, **where)
        return Failure("runtime", message, **where)

    def _encode(self, value: Any) -> bytes:
        if isinstance(value, str) and _NOT_AWAITED.fullmatch(value):
            raise Failure("value", "The script answers with a call that was not awaited.")
        if value is None:
            return b""
        try:
            text = msgspec.json.encode(plain(value, "the result"))
        except NotPlain as error:
            raise Failure("value", str(error)) from None
        if len(text) > self._job.max_value:
            raise Failure("output", f"The result is larger than {self._job.max_value} bytes.")
        return text


def _arguments(server: str, tool: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    positions = _POSITIONS.get((server, tool))
    if positions is not None:
        body = {**dict(zip(positions, args, strict=False)), **kwargs}
        if tool == "describe" and isinstance(body.get("names"), str):
            body["names"] = [body["names"]]
        return body
    if len(args) == 1 and isinstance(args[0], dict):
        return {**args[0], **kwargs}
    if args:
        raise TypeError(f"{server}.{tool} takes named arguments, such as {server}.{tool}(name=value)")
    return kwargs
