"""Python in the jail: a driver that feeds one script to one `monty` worker and carries its calls.

Two processes in the same jail: the worker interprets the script, the driver exchanges frames with the gateway, so that
the gateway neither loads the engine nor converts values of the worker. The driver waits for one or the other, never for
both: the worker is paused while a script waits.
"""

import contextlib
import os
import re
import sys
import time
from typing import Any

import msgspec
import pydantic_monty
from msgspec.structs import replace
from pydantic_monty import FunctionSnapshot, FutureSnapshot, MontyComplete, NameLookupSnapshot
from pydantic_monty._binary import find_monty_binary

from wicket_mcp.codec import decode, encode_whole
from wicket_mcp.scripts import access, jail, line_marks, modules, mounts
from wicket_mcp.scripts.checking import Checker
from wicket_mcp.scripts.engine_words import in_plain_words
from wicket_mcp.scripts.frames import BEGUN, CALLS, JOB, PRINTED, REPLIES, Channel
from wicket_mcp.scripts.limits import MIB
from wicket_mcp.scripts.replay import Diverged, ReplayChannel
from wicket_mcp.scripts.rewriting import Rewritten, rewrite
from wicket_mcp.scripts.servers import Servers, is_not_awaited
from wicket_mcp.scripts.to_json import NotJson, to_json
from wicket_mcp.scripts.worker import FORBIDDEN, NOT_JAILED, Failure, Job, Order, begin, cpu_failure, fail, report_value

_WORKER_MEMORY = 1024 * MIB  # address space: the type checker alone maps hundreds of MiB
_DEVICES = ("/dev/null", "/dev/urandom")
_FOLDERS = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache")
"""The folders of a program's libraries, if its loader does not name them."""
_GRACE = 0.5
_RECURSION = 500
_SUSPENSIONS = 1_000_000  # calls are counted here and by the gateway
_LONGEST_SLEEP = 10.0
_SHORTEST_SLEEP = 0.02  # that counts: locks and queues of a script wait in shorter steps, within the script's time
_ATTEMPTS = 3
_ENOUGH = 0.9
_NO_MODULE = re.compile(r"^ModuleNotFoundError: No module named '([^']+)'")
_CUT = "\n… cut: more was printed than is kept\n"


def prepare() -> None:
    """Find the worker's libraries, in the zygote, so that every fork knows them."""
    _libraries(find_monty_binary())


def _libraries(program: str) -> tuple[str, ...]:
    loader = jail.loader_of(program)
    return (mounts.libraries_of(program, loader[0]) if loader else None) or _FOLDERS


def main(channel: Channel, order: Order) -> int:
    """The driver's main function; returns its exit code."""
    sys.modules["opentelemetry"] = None  # pyright: ignore[reportArgumentType]  (the engine would look for it, without success)
    binary = find_monty_binary()
    try:
        readable = (*_libraries(binary), *_DEVICES)
        jail.confine_tree(memory=_WORKER_MEMORY, cpu=order.cpu, program=binary, readable=readable)
    except jail.JailError:
        return NOT_JAILED
    with pydantic_monty.Monty(
        binary_path=binary, min_processes=1, max_processes=1, feed_duration_limit_grace=_GRACE
    ) as pool:
        with contextlib.suppress(EOFError):  # a warm child that was not needed
            _serve(channel, pool, order)
            channel.linger()
        # Exit at once: an orderly shutdown of the pool can run into a finalising interpreter and abort.
        os._exit(0)


def _serve(channel: Channel, pool: Any, order: Order) -> None:
    checker = Checker(modules.host_modules())
    checks = {"type_check": True, "type_check_format": "concise", "external_modules": checker.modules}
    with _checkout(pool, order.memory, **checks) as session:
        _warm_up(channel, session, checker)
        kind, payload = channel.receive()
        if kind != JOB:
            os._exit(1)
        channel.send(BEGUN, b"")
        begin()
        job = msgspec.json.decode(payload, type=Job)
        if job.recorded is None:
            try:
                if job.stubs:
                    checker.check(session, job.source, job.stubs, [*job.servers, "tools", "results", "args"])
                report_value(channel, _Script(job, channel).run(session, rewrite(job.source, job.servers)))
            except Failure as failure:
                fail(channel, failure)
            return
    fail(channel, cpu_failure(line=_find_line(job, channel, pool)))


def _checkout(pool: Any, memory: int, **options: Any) -> Any:
    limits: dict[str, Any] = {
        "max_memory": memory,
        "max_recursion_depth": _RECURSION,
        "max_suspensions": _SUSPENSIONS,
        **options.pop("limits", {}),
    }
    return pool.checkout(limits=limits, **options)


def _warm_up(channel: Channel, session: Any, checker: Checker) -> None:
    """Prepare what every script needs, before there is one; stop if a job arrives."""
    for step in (lambda: session.feed_run("0", skip_type_check=True), lambda: checker.warm_up(session)):
        if channel.wait(0):
            return
        step()


def _find_line(job: Job, channel: Channel, pool: Any) -> int | None:
    """The line at which CPU time runs out. The engine stops by wall-clock time, so its CPU time is checked."""
    variable = line_marks.name(job.source)
    rewritten = rewrite(job.source, job.servers)
    marked = replace(rewritten, source=line_marks.python(rewritten.source, variable))
    seconds = job.cpu
    for _ in range(_ATTEMPTS):
        limits = {"max_feed_duration_secs": seconds}
        options: dict[str, Any] = {"os_policy": {"sleep": "zero"}, "external_modules": modules.host_modules()}
        with _checkout(pool, job.memory, limits=limits, **options) as session:
            before = _cpu_seconds(session.worker_pid)
            try:
                _Script(job, ReplayChannel(channel, job.recorded or [])).run(session, marked)
            except Diverged:
                return None
            except Failure as failure:
                if failure.report["kind"] != "cpu":
                    return None
            else:
                return None
            used = _cpu_seconds(session.worker_pid) - before
            if used >= job.cpu * _ENOUGH or sys.platform != "linux":
                line = _line(session, variable)
                return rewritten.line(line) if line else None
            seconds *= 1.25 * job.cpu / max(used, job.cpu / 100)
    return None


def _cpu_seconds(pid: int | None) -> float:
    """The CPU time of another process, from its kernel clock."""
    return time.clock_gettime((~pid << 3) | 2) if pid is not None and sys.platform == "linux" else 0.0


def _line(session: Any, variable: str) -> int | None:
    try:
        line = session.feed_run(variable, skip_type_check=True)
    except pydantic_monty.MontyError:
        return None
    return line if isinstance(line, int) and line > 0 else None


def _call_host(function: Any, args: Any, kwargs: Any) -> Any:
    """Call a function of the standard library with plain data."""
    try:
        return {"return_value": function(*args, **kwargs)}
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        kind = next(
            (candidate for candidate in (TypeError, LookupError, ArithmeticError) if isinstance(error, candidate)),
            ValueError,
        )
        return {"exception": error if type(error).__module__ == "builtins" else kind(str(error))}


class _Script:
    """One script: its calls, its output, its value."""

    def __init__(self, job: Job, channel: Channel) -> None:
        self._job, self._channel = job, channel
        self._servers = Servers(job.servers, job.positions)
        self._rewritten = Rewritten(job.source)
        self._calls = 0
        self._waiting: dict[int, int] = {}
        """Sent calls: the gateway's number and the engine's."""
        self._settled: dict[int, dict[str, Any]] = {}
        self._alarms: dict[int, float] = {}
        self._slept = 0.0
        self._tool_errors: set[str] = set()
        self._printed = 0

    def run(self, session: Any, script: Rewritten) -> bytes:
        """The script's value, as JSON. Raises Failure."""
        self._rewritten = script
        try:
            for section in script.sections:
                session.feed_run(modules.section(section), skip_type_check=True)
            snapshot = session.feed_start(
                script.source, inputs={"args": self._job.args}, print_callback=self._print, skip_type_check=True
            )
            while not isinstance(snapshot, MontyComplete):
                snapshot = self._step(snapshot)
            value = snapshot.output
        except (pydantic_monty.MontySyntaxError, pydantic_monty.MontyRuntimeError) as error:
            raise self._failure(error, session) from None
        except pydantic_monty.MontyCrashedError as error:
            if "SIGSYS" in str(error):
                os._exit(FORBIDDEN)
            raise (cpu_failure() if error.timed_out else Failure("memory", "The script ran out of memory.")) from None
        except (pydantic_monty.MontyError, RecursionError, ValueError, TypeError) as error:
            raise Failure("value", f"{type(error).__name__}: {error}") from None
        while self._waiting:  # calls that were not awaited are made too
            self._receive()
        return self._encode(value)

    def _step(self, snapshot: Any) -> Any:
        match snapshot:
            case NameLookupSnapshot():
                if snapshot.object_id is not None:
                    return snapshot.resume_auto()
                server = self._servers.get(snapshot.variable_name)
                return snapshot.resume() if server is None else snapshot.resume(value=server)
            case FunctionSnapshot(is_os_function=True):
                return self._system(snapshot)
            case FunctionSnapshot(object_id=None) if function := modules.host_function(snapshot.function_name):
                return snapshot.resume(_call_host(function, snapshot.args, snapshot.kwargs))
            case FunctionSnapshot():
                return snapshot.resume(self._call(snapshot))
            case FutureSnapshot():
                return snapshot.resume(self._wait(snapshot.pending_call_ids))
            case _:
                raise Failure("runtime", f"the engine stopped at a {type(snapshot).__name__}")

    def _call(self, snapshot: Any) -> Any:
        """Send one call at once; its answer is awaited later."""
        try:
            server, tool = self._servers.resolve_call(snapshot.object_id, snapshot.function_name)
            body = self._servers.arguments(server, tool, snapshot.args, snapshot.kwargs)
            text = msgspec.json.encode(to_json(body, f"the arguments of {server}.{tool}"))
            if len(text) > self._job.max_arguments:
                raise ValueError(f"the arguments of {server}.{tool} are too large")
            self._calls += 1
            if self._calls > self._job.calls:
                raise RuntimeError(f"the limit of {self._job.calls} tool calls in one script is reached")
        except (AttributeError, NameError, TypeError, ValueError, RuntimeError) as error:
            return {"exception": error}
        self._waiting[self._calls] = snapshot.call_id
        names = msgspec.json.encode([self._calls, server, tool])
        self._channel.send(CALLS, b"[%s,%s]]" % (names[:-1], text))
        return {"future": ...}

    def _system(self, snapshot: Any) -> Any:
        if snapshot.function_name == "import":
            return snapshot.resume_auto()
        if snapshot.function_name not in ("system.sleep", "system.async_sleep"):
            return snapshot.resume_not_handled()
        seconds = max(0.0, float(snapshot.args[0]))
        self._slept += seconds if seconds > _SHORTEST_SLEEP else 0
        if self._slept >= _LONGEST_SLEEP:  # the engine itself cuts one sleep to that
            message = f"a script may sleep {_LONGEST_SLEEP:g} seconds in all"
            return snapshot.resume({"exception": TimeoutError(message)})
        if snapshot.function_name == "system.sleep":
            time.sleep(seconds)
            return snapshot.resume({"return_value": None})
        self._alarms[snapshot.call_id] = time.monotonic() + seconds
        return snapshot.resume({"future": ...})

    def _wait(self, numbers: list[int]) -> dict[int, Any]:
        """Those of these calls that are settled, once at least one is."""
        while True:
            self._ring()
            if settled := {number: self._settled.pop(number) for number in numbers if number in self._settled}:
                return settled
            patience = min(self._alarms.values()) - time.monotonic() if self._alarms else None
            if self._channel.wait(patience if patience is None else max(0.0, patience)):
                self._receive()

    def _ring(self) -> None:
        now = time.monotonic()
        for number in [number for number, due in self._alarms.items() if due <= now]:
            del self._alarms[number]
            self._settled[number] = {"return_value": None}

    def _receive(self) -> None:
        kind, payload = self._channel.receive()
        if kind != REPLIES:
            os._exit(1)
        try:
            replies = msgspec.json.decode(payload)
        except msgspec.DecodeError:  # a server's text has half of a character, which the engine could not hold either
            replies = msgspec.json.decode(encode_whole(decode(payload)))
        for number, ok, value in replies:
            engines = self._waiting.pop(number, None)
            if engines is None:
                continue
            if not ok:
                self._tool_errors.add(str(value))
            self._settled[engines] = {"return_value": value} if ok else {"exception": RuntimeError(str(value))}

    def _print(self, _stream: str, text: str) -> None:
        left = self._job.printed - self._printed
        if left < 0 or not text:
            return
        self._printed += len(text)
        if len(text) > left:
            text = text[:left] + _CUT
        self._channel.send(PRINTED, msgspec.json.encode(text))

    def _failure(self, error: Any, session: Any) -> Failure:
        message, hint = in_plain_words(str(error.display("type-msg")))
        shown_message = str(error.display("msg"))
        frames = error.traceback()
        # The outermost frame is the script's own; those of the prelude have other file names.
        own = [frame for frame in frames if frame.filename == frames[0].filename]
        last = own[-1] if own else None
        where: dict[str, Any] = {"line": self._rewritten.line(last.line), "column": last.column} if last else {}
        if match := _NO_MODULE.search(message):
            return Failure("runtime", modules.missing_module(match[1]), **where)
        if hint := hint or self._explain_access(message, last.line if last else 0, session):
            where["hint"] = hint
        if isinstance(error, pydantic_monty.MontySyntaxError):
            return Failure("syntax", message, **where)
        if shown_message in self._tool_errors:
            return Failure("tool", shown_message, **where)
        if message.startswith("TimeoutError: feed time limit"):
            return cpu_failure(**where)
        if message.startswith("MemoryError"):
            return Failure("memory", "not enough memory", **where)
        if self._calls > self._job.calls or "suspension" in message:
            return Failure("calls", message, **where)
        return Failure("runtime", message, **where)

    def _explain_access(self, message: str, line: int, session: Any) -> str:
        """What exists in place of a missing key or attribute: evaluated by the engine, which still has the script's
        names.
        """
        for expression in access.find_accesses(self._rewritten.source, line, message):
            try:
                probed = session.feed_run(access.probe(expression), skip_type_check=True)
            except pydantic_monty.MontyError:  # a local name of a function, which is gone
                continue
            return access.describe(expression, probed, message)
        return ""

    def _encode(self, value: Any) -> bytes:
        if is_not_awaited(value):
            raise Failure("value", "The script answers with a call that was not awaited.")
        if value is None:
            return b""
        try:
            text = msgspec.json.encode(to_json(value, "the result"))
        except NotJson as error:
            raise Failure("value", str(error)) from None
        if len(text) > self._job.max_value:
            raise Failure("output", f"The result is larger than {self._job.max_value} bytes.")
        return text
