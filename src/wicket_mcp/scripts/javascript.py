"""JavaScript in the jail: one quickjs-ng context, one script, driven by strings.

No Python function is reachable from JavaScript: scripts call JavaScript functions (prelude.js), and the loop here runs
its jobs and passes JSON text between it and the channel. TypeScript is the same after its types are blanked.
"""

import re
import time
from importlib.resources import files
from typing import Any

import msgspec

from wicket_mcp.codec import decode
from wicket_mcp.scripts import line_marks, typescript
from wicket_mcp.scripts.frames import CALLS, PRINTED, REPLIES, Channel
from wicket_mcp.scripts.limits import MAX_DIGITS
from wicket_mcp.scripts.replay import Diverged, ReplayChannel
from wicket_mcp.scripts.worker import Failure, Job, cpu_failure, optional, report_value

quickjs = optional("_quickjs")

_OFFSET = 100_000  # lines added before the prelude, so that its frames can be told from the script's
_OPEN, _CLOSE = "(async () => {", "\n})"
_STACK = 512 * 1024
_PLACE = re.compile(r"<input>:(\d+):(\d+)")
_LONG_DIGITS = re.compile(rb"\d{16}")
_OURS = 10.0  # seconds for work that is not the script's
_LONGEST_WAIT = 10.0
_ready: list[tuple[Any, Any]] = []


def prepare() -> None:
    """Create a context with the compiled prelude, in the zygote; every fork has its own copy of it."""
    if quickjs is not None and not _ready:
        context = quickjs.Context()
        context.set_max_stack_size(_STACK)
        context.eval("\n" * _OFFSET + _part("prelude_web.js"))
        _ready.append((context, context.eval("\n" * _OFFSET + _part("prelude.js"))))
    typescript.prepare()


def _part(name: str) -> str:
    return files("wicket_mcp.scripts").joinpath(name).read_text(encoding="utf-8")


def run(job: Job, channel: Channel) -> None:
    source = typescript.without_exports(job.source)
    source = typescript.blank(source) if job.language == "typescript" else source
    source, returned = typescript.return_last(source)
    if job.recorded is None:
        _Script(job, channel, returned).run(f"{_OPEN}{source}{_CLOSE}")
    else:
        _run_again(job, ReplayChannel(channel, job.recorded), source)


def _run_again(job: Job, replay: ReplayChannel, source: str) -> None:
    """Find the line at which CPU time runs out: the engine itself only knows where something was last called."""
    name = line_marks.name(source)
    script = _Script(job, replay)
    try:
        script.run(f"{_OPEN}{line_marks.javascript(source, name)}{_CLOSE}", mark=name)
    except (Failure, Diverged) as end:
        at_the_end = isinstance(end, Failure) and end.report["kind"] == "cpu"
        raise cpu_failure(line=script.mark() if at_the_end else None) from None


class _Script:
    def __init__(self, job: Job, channel: Channel, returned: int = 0) -> None:
        self._returned = returned
        """The line that begins with a `return` that we added."""
        prepare()
        self._channel = channel
        self._context, boot = _ready.pop()
        self._context.set_memory_limit(job.memory)
        self._step: Any = boot(msgspec.json.encode(_config(job)).decode())
        self._marked: Any = None
        self._deadline = time.process_time() + job.cpu
        self._waited = 0.0

    def run(self, function: str, mark: str = "") -> None:
        """Run a script that was turned into an async function; `mark` is the variable that holds its line."""
        try:
            status, payload = self._drive(function, mark)
        except quickjs.JSException as error:
            self._send_outbox()
            raise self._failure(str(error)) from None
        except Failure:
            self._send_outbox()
            raise
        if status == "done":
            report_value(self._channel, _utf8(payload))
            return
        report = decode(payload)
        line, column = self._place(report.pop("stack", "") or "")
        raise Failure(report["kind"], report["message"], line=line, column=column)

    def mark(self) -> int | None:
        """The line that was marked last."""
        try:
            self._context.set_time_limit(_OURS)
            return int(self._marked(True)) or None
        except quickjs.JSException:
            return None

    def _drive(self, function: str, mark: str) -> tuple[str, str]:
        script = self._enter(lambda: self._context.eval(_with_mark(function, mark) if mark else function))
        if mark:
            self._marked, script = script, script(False)
        self._enter(lambda: self._step("begin", script))
        while True:
            self._pump()
            status, _, payload = self._enter(lambda: self._step("look", "")).partition("\n")
            if printed := self._step("printed", ""):
                self._channel.send(PRINTED, _utf8(printed))
            match status:
                case "calls" | "calls-go":
                    self._channel.send(CALLS, _utf8(payload))
                case "done" | "failed":
                    return status, payload
                case _ if payload:
                    self._wait(float(payload) / 1000, replies=status == "wait")
                case _:
                    self._take_replies()

    def _wait(self, seconds: float, *, replies: bool) -> None:
        """Wait until the next timer is due or, with `replies`, until a call is answered."""
        self._waited += seconds
        if self._waited > _LONGEST_WAIT:
            raise Failure("runtime", f"a script may wait {_LONGEST_WAIT:g} seconds in all for setTimeout")
        if replies and self._channel.wait(seconds):
            self._take_replies()
            return
        if not replies:
            time.sleep(seconds)
        self._enter(lambda: self._step("fire", ""))

    def _enter(self, work: Any) -> Any:
        """Run the script's code with its remaining CPU time."""
        left = self._deadline - time.process_time()
        if left <= 0:
            raise cpu_failure()
        self._context.set_time_limit(left)
        return work()

    def _pump(self) -> None:
        self._enter(bool)
        while self._context.execute_pending_job():
            if time.process_time() > self._deadline:
                raise cpu_failure()

    def _take_replies(self) -> None:
        kind, payload = self._channel.receive()
        if kind != REPLIES:
            raise Failure("runtime", "the gateway sent something other than replies")
        before = time.process_time()
        self._context.set_time_limit(_OURS)  # conversion is our work, not the script's
        self._step("digits" if _LONG_DIGITS.search(payload) else "replies", payload.decode())
        self._deadline += time.process_time() - before

    def _send_outbox(self) -> None:
        """Send calls that were started before the end."""
        try:
            self._context.set_time_limit(_OURS)
            if calls := self._step("outbox", ""):
                self._channel.send(CALLS, _utf8(calls))
        except quickjs.JSException:  # no memory left to write them
            pass

    def _place(self, stack: str) -> tuple[int | None, int | None]:
        line, column = _place(stack)
        if column is not None and line == self._returned:
            column = max(1, column - len(typescript.RETURN))
        return line, column

    def _failure(self, text: str) -> Failure:
        message, _, stack = text.partition("\n")
        line, column = self._place(stack)
        if "interrupted" in message:
            return cpu_failure()
        if message in ("null", "") or "out of memory" in message:
            return Failure("memory", "not enough memory", line=line)
        kind = "syntax" if message.startswith("SyntaxError") else "runtime"
        return Failure(kind, message, line=line, column=column)


def _with_mark(function: str, mark: str) -> str:
    """Code that returns the script's function, or the current line."""
    return f"(() => {{ let {mark} = 0; return ({mark}_asked) => {mark}_asked ? {mark} : {function}; }})()"


def _config(job: Job) -> dict[str, Any]:
    return {
        "calls": job.calls,
        "printed": job.printed,
        "digits": MAX_DIGITS,
        "max_arguments": job.max_arguments,
        "max_value": job.max_value,
        "servers": job.servers,
        "args": job.args,
        "interfaces": job.interfaces,
        "seed": job.seed,
    }


def _place(stack: str) -> tuple[int | None, int | None]:
    """The innermost line of the script in a stack; 1:1 is the engine's value for unknown."""
    for match in _PLACE.finditer(stack):
        line, column = int(match[1]), int(match[2])
        if line < _OFFSET and (line, column) != (1, 1):
            return line, column - len(_OPEN) if line == 1 else column
    return None, None


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "replace")  # half a surrogate pair becomes a question mark
