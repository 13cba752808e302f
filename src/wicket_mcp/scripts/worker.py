"""The jailed child: confines itself, reads one job, runs it, answers, ends.

The gateway trusts nothing here once a script runs: this file gives good errors and exact limits, and the kernel
enforces the jail. Engines are loaded in the zygote, so that no file has to be opened in the jail.
"""

import importlib
import resource
import socket
import time
from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

from wicket_mcp.codec import encode_whole
from wicket_mcp.scripts import jail
from wicket_mcp.scripts.frames import DONE, FAILED, JOB, Channel
from wicket_mcp.scripts.languages import LANGUAGES, Kind
from wicket_mcp.scripts.replay import RecordedReply

NOT_JAILED, FORBIDDEN = 97, 96
_HEADROOM = 128 * 1024 * 1024  # for the interpreter, in addition to the script's own heap


Seed: TypeAlias = tuple[int, int, int, int]


class Order(msgspec.Struct, frozen=True):
    """What a child is forked for: the kind of engine, and the rlimits that it gets before it knows its job."""

    kind: Kind
    memory: int
    cpu: float


class Job(msgspec.Struct, frozen=True):
    """One script, and what it may use. The gateway also enforces the limits from outside."""

    language: str
    source: str
    servers: dict[str, list[str] | None]
    cpu: float
    memory: int
    calls: int
    printed: int
    max_arguments: int
    max_value: int
    args: dict[str, Any]
    stubs: str = ""
    positions: dict[str, list[str]] = {}
    """Parameter names of the tools that the source mentions, for positional arguments."""
    interfaces: dict[str, str] = {}
    seed: Seed = (1, 1, 1, 1)
    """The seed of random numbers; 32 bits each."""
    recorded: list[RecordedReply] | None = None
    """For a second run of a script that used up its CPU time: the answers to its calls. It only finds the line, and
    makes no calls."""


Engine: TypeAlias = Callable[[Job, Channel], None]


class Failure(Exception):
    """A script that failed: what the child can report about it."""

    def __init__(self, kind: str, message: str, **where: Any) -> None:
        super().__init__(message)
        self.report: dict[str, Any] = {"kind": kind, "message": message, **where}


def cpu_failure(**where: Any) -> Failure:
    return Failure("cpu", "The script used up its processor time.", **where)


def optional(module: str) -> Any:
    """An engine's module, or None if it is not installed; the gateway reports that before it asks for a child."""
    try:
        return importlib.import_module(module)
    except ImportError:
        return None


def load(kind: Kind) -> None:
    """Import what children of this kind need; in the zygote, before the fork."""
    for module in {language.engine for language in LANGUAGES.values() if language.kind == kind}:
        engine = importlib.import_module(module)
        engine.prepare()


def main(sock: socket.socket, order: Order) -> int:
    """A child's main function; returns its exit code."""
    channel = Channel(sock)
    if order.kind == "python":
        return importlib.import_module("wicket_mcp.scripts.python").main(channel, order)
    try:
        jail.confine(memory=order.memory + _HEADROOM, cpu=order.cpu)
    except jail.JailError:
        return NOT_JAILED
    kind, payload = channel.receive()
    if kind != JOB:
        return 1
    begin()
    job = msgspec.json.decode(payload, type=Job)
    engine: Engine = importlib.import_module(LANGUAGES[job.language].engine).run
    try:
        engine(job, channel)
    except Failure as failure:
        fail(channel, failure)
    channel.linger()
    return 0


def fail(channel: Channel, failure: Failure) -> None:
    """Answer with an error."""
    channel.send(FAILED, encode_whole({**failure.report, **usage()}))


def report_value(channel: Channel, value: bytes) -> None:
    """Answer with the script's value, already JSON text; empty if there is none."""
    stats = msgspec.json.encode(usage())
    channel.send(DONE, b'{"value":%s,"stats":%s}' % (value, stats) if value else b'{"stats":%s}' % stats)


_cpu_before = [0.0]  # of this process, which runs one script and ends


def begin() -> None:
    """Count CPU time from here: what was used before went into the jail, not the script."""
    _cpu_before[0] = time.process_time()


def usage() -> dict[str, float]:
    return {
        "cpu": time.process_time() - _cpu_before[0],
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
    }
