"""Cached answers: kept in memory for the configured time, for one caller each.

Off unless a server's `cache` names the tool. A name with a wildcard covers only tools that declare themselves
read-only; with a plain name the user takes responsibility. An answer that reports an error or asks a question is never
cached.
"""

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable
from fnmatch import fnmatchcase

import msgspec

from wicket_mcp.codec import decode, encode
from wicket_mcp.config.model.config import ServerConfig
from wicket_mcp.config.model.units import seconds
from wicket_mcp.model import Caller, JsonObject, Principal, Tool, as_object
from wicket_mcp.request import Handler, Layer, Request, Result

AccountOf = Callable[[ServerConfig, Principal], str]

MAX_BYTES = 64 * 1024**2
MAX_ANSWER = 4 * 1024**2
META_CACHED = "wicket/cached"
MARK = "[cached]"
_WILD = frozenset("*?[")


class _Kept(msgspec.Struct, frozen=True):
    body: bytes
    at: float
    until: float


class Cache:
    """The cached answers of all callers, up to `most` bytes. `clock` is monotonic."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, most: int = MAX_BYTES) -> None:
        self._clock = clock
        self._most = most
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._bytes = 0

    def find(self, key: str) -> JsonObject | None:
        """The cached answer, marked with its age."""
        entry = self._kept.get(key)
        if entry is None or entry.until <= self._clock():
            self._drop(key)
            return None
        self._kept.move_to_end(key)
        body: JsonObject = decode(entry.body)
        age = round(self._clock() - entry.at, 3)
        return {**body, "_meta": {**as_object(body.get("_meta")), META_CACHED: {"mark": MARK, "age_s": age}}}

    def keep(self, key: str, body: JsonObject, lifetime: float) -> None:
        if body.get("isError") or body.get("resultType", "complete") != "complete":
            return
        data = encode(body)
        if len(data) > MAX_ANSWER:
            return
        self._drop(key)
        now = self._clock()
        self._kept[key] = _Kept(data, now, now + lifetime)
        self._bytes += len(data)
        while self._bytes > self._most:
            self._drop(next(iter(self._kept)))

    def _drop(self, key: str) -> None:
        entry = self._kept.pop(key, None)
        if entry is not None:
            self._bytes -= len(entry.body)


def cache(entries: Cache, config: ServerConfig, account: AccountOf | None = None) -> Layer:
    """Return a cached answer that is still valid by the configuration, without contacting the server.

    `account` changes with every sign-in: an answer for one account is not returned to the next.
    """

    def layer(inner: Handler) -> Handler:
        async def handle(request: Request) -> Result:
            tool = request.tool
            keep = lifetime(config, tool) if tool is not None and not request.resume else 0.0
            if tool is None or not keep:
                return await inner(request)
            version = "" if account is None else account(config, request.principal)
            key = key_of(config, tool, request.params["arguments"], request.caller, version)
            if (body := entries.find(key)) is not None:
                return Result(body if request.whole else add_mark(body), request)
            result = await inner(request)
            entries.keep(key, result.body, keep)
            return result

        return handle

    return layer


def lifetime(config: ServerConfig, tool: Tool) -> float:
    """How long an answer of `tool` may be cached, in seconds; 0 if it may not."""
    name = tool.own_name or tool.name
    if name in config.cache:
        return seconds(config.cache[name])
    if as_object(tool.definition.get("annotations")).get("readOnlyHint") is not True:
        return 0.0
    patterns = (pattern for pattern in config.cache if _WILD & set(pattern) and fnmatchcase(name, pattern))
    best = max(patterns, key=len, default="")
    return seconds(config.cache[best]) if best else 0.0


def key_of(config: ServerConfig, tool: Tool, arguments: JsonObject, caller: Caller, version: str = "") -> str:
    """The cache key: the caller, the server with its configuration, the tool and its arguments."""
    session = caller.session if config.isolation == "session" else ""
    reached = [config.command, config.args, config.url, sorted(config.env.items()), sorted(config.headers.items())]
    whole = [caller.principal.id, session, version, tool.own_key, _sort_keys(arguments), reached]
    return hashlib.blake2b(encode(whole), digest_size=16).hexdigest()


def add_mark(body: JsonObject) -> JsonObject:
    """`body` with a last line of text that marks it as cached, if it came from the cache."""
    if META_CACHED not in as_object(body.get("_meta")):
        return body
    return {**body, "content": [*body.get("content", []), {"type": "text", "text": MARK}]}


def _sort_keys(value: object) -> object:
    if isinstance(value, dict):
        return {name: _sort_keys(item) for name, item in sorted(as_object(value).items())}
    return value
