"""Lua 5.4 in the jail: one runtime, one script, driven by strings.

No Python object ever enters Lua: scripts call Lua functions (prelude.lua), and the loop here only passes JSON text
between it and the channel.
"""

from functools import partial
from importlib.resources import files
from typing import Any

import msgspec

from wicket_mcp.codec import decode
from wicket_mcp.scripts.frames import CALLS, PRINTED, REPLIES, Channel
from wicket_mcp.scripts.worker import Failure, Job, optional, report_value

lua54 = optional("lupa.lua54")

_REPLY_COST = 6  # bytes of Lua heap that a byte of JSON may take
_UNSHOWN = "an error that cannot be shown"
_NEARLY_ALL = 0.8
_OUT_OF_MEMORY = msgspec.json.encode("not enough memory for the answer of this call")


_COMPILE = b"return assert(load(..., '=wicket', 't'))"
_ready: list[tuple[Any, Any]] = []


def prepare() -> None:
    """Create a runtime with the compiled prelude, in the zygote; every fork has its own copy of it."""
    if lua54 is None or _ready:
        return
    lua = lua54.LuaRuntime(
        encoding=None,
        register_eval=False,
        register_builtins=False,
        attribute_filter=_refuse,
        max_memory=1 << 30,
    )
    compiled = [lua.execute(_COMPILE, _part(name)) for name in ("prelude", "prelude_json", "prelude_tasks")]
    _ready.append((lua, partial(*compiled)))


def _part(name: str) -> bytes:
    return files("wicket_mcp.scripts").joinpath(f"{name}.lua").read_bytes()


def _refuse(_obj: object, _name: object, _setting: bool) -> Any:
    raise AttributeError("no access")


def run(job: Job, channel: Channel) -> None:
    prepare()
    lua, boot = _ready.pop()
    lua.set_max_memory(job.memory)
    try:
        step = boot(msgspec.json.encode(_config(job)))
        status, payload, printed = step(b"start", job.source.encode("utf-8", "replace"))
        while True:
            if printed:
                channel.send(PRINTED, printed)
            if status in (b"calls", b"calls-go"):
                channel.send(CALLS, payload)
            elif status in (b"done", b"failed"):
                break
            if status in (b"calls", b"wait"):
                command, text = b"replies", _replies(channel, lua, job.memory)
            else:
                command, text = b"go", b""
            status, payload, printed = step(command, text)
    except lua54.LuaMemoryError:
        raise Failure("memory", "not enough memory") from None
    except lua54.LuaError as error:
        raise Failure("memory" if "not enough memory" in str(error) else "runtime", str(error)) from None
    if status == b"done":
        report_value(channel, payload)
    else:
        report = decode(payload)
        used: Any = lua.get_memory_used()
        if report["message"] == _UNSHOWN and used is not None and used > job.memory * _NEARLY_ALL:
            raise Failure("memory", "not enough memory")  # not even for the message
        raise Failure(report.pop("kind"), report.pop("message"), **report)


def _config(job: Job) -> dict[str, Any]:
    return {
        "cpu": job.cpu,
        "memory": job.memory,
        "calls": job.calls,
        "printed": job.printed,
        "max_arguments": job.max_arguments,
        "max_value": job.max_value,
        "servers": job.servers,
        "args": job.args,
        "seed": job.seed[0] << 30 ^ job.seed[1],
    }


def _replies(channel: Channel, lua: Any, memory: int) -> bytes:
    """The next replies. A push that does not fit would abort the process, so it fails as a normal call."""
    kind, payload = channel.receive()
    if kind != REPLIES:
        raise Failure("runtime", "the gateway sent something other than replies")
    if len(payload) > 4096 and lua.get_memory_used() + len(payload) * _REPLY_COST > memory:
        raw = msgspec.json.decode(payload, type=list[tuple[int, bool, msgspec.Raw]])
        payload = b"[%s]" % b",".join(b"[%d,false,%s]" % (number, _OUT_OF_MEMORY) for number, _, _ in raw)
    return payload
