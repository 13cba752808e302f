"""The jailed child: confines itself, reads one job, runs it, answers, ends.

Nothing here is trusted by the gateway once a script runs: this file is comfort (good errors, exact limits),
the walls are the kernel's. Engines are loaded in the zygote, so that no file has to be opened in the jail.
"""

import importlib
import resource
import socket
import time
from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

from wicket_mcp.scripts import jail
from wicket_mcp.scripts.frames import DONE, FAILED, JOB, Channel
from wicket_mcp.scripts.languages import LANGUAGES, Kind
from wicket_mcp.scripts.replay import RecordedReply

NOT_JAILED, FORBIDDEN = 97, 96
_HEADROOM = 128 * 1024 * 1024  # for the interpreter around the script's own heap


Seed: TypeAlias = tuple[int, int, int, int]


class Order(msgspec.Struct, frozen=True):
    """What a child is forked for: the kind of engine, and the rlimits that it gets before it knows its job."""

    kind: Kind
    memory: int
    cpu: float


class Job(msgspec.Struct, frozen=True):
    """One script, and what it may use. The gateway enforces the limits again, from outside."""

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
    """Names of the parameters of tools that the source mentions, for arguments that it gives without names."""
    interfaces: dict[str, str] = {}
    seed: Seed = (1, 1, 1, 1)
    """Where random numbers start; 32 bits each."""
    recorded: list[RecordedReply] | None = None
    """For a second run of a script that used up its CPU time: what its calls were answered. It is there to find the
    line, and makes no calls."""


Engine: TypeAlias = Callable[[Job, Channel], None]


class Failure(Exception):
    """A script that ended badly: what the child can say about it."""

    def __init__(self, kind: str, message: str, **where: Any) -> None:
        super().__init__(message)
        self.report: dict[str, Any] = {"kind": kind, "message": message, **where}


def cpu_failure(**where: Any) -> Failure:
    return Failure("cpu", "The script used up its processor time.", **where)


def optional(module: str) -> Any:
    """An engine's module, or None where it is not installed; the gateway says so before it asks for a child."""
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
    """The whole life of a child; returns its exit code."""
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
    """Answer with what went wrong."""
    channel.send(FAILED, msgspec.json.encode({**failure.report, **usage()}))


def report_value(channel: Channel, value: bytes) -> None:
    """Answer with the script's value, JSON text already; empty when it gave none."""
    stats = msgspec.json.encode(usage())
    channel.send(DONE, b'{"value":%s,"stats":%s}' % (value, stats) if value else b'{"stats":%s}' % stats)


_cpu_before = [0.0]  # of this process, which runs one script and ends: nothing to share it with


def begin() -> None:
    """Count processor time from here: what was used before was the jail's making, not the script's."""
    _cpu_before[0] = time.process_time()


def usage() -> dict[str, float]:
    return {
        "cpu": time.process_time() - _cpu_before[0],
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
    }
