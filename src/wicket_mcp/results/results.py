"""Large results: stored whole, shown in part, read by handle, passed to other calls by reference.

Nothing is lost by shortening: what the agent gets names the handle under which the rest can be read. A handle cannot
be guessed and works only for the principal whose call made it.
"""

import asyncio
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeAlias

from wicket_mcp.codec import decode, encode, pretty
from wicket_mcp.config.model.config import ResultsConfig
from wicket_mcp.errors import BadArguments, UnknownResult
from wicket_mcp.model import JsonObject, Principal, as_list, as_object
from wicket_mcp.results.content import blocks_of, size_of, text_of, texts_of, value_of
from wicket_mcp.results.outline import outline
from wicket_mcp.results.paths import select
from wicket_mcp.store.base import ResultStore
from wicket_mcp.store.model import StoredResult

CHARS_PER_TOKEN = 4  # what text costs on average; good enough to decide what is large
FIRST_PART = 4000  # characters of a large result that are shown at once
DEFAULT_LINES = 200
REFERENCE = "$result"
Path: TypeAlias = tuple[str | int, ...]
TextAt: TypeAlias = Callable[[Path], bool]
"""Whether at this place in the arguments only text goes."""


@dataclass(frozen=True, slots=True)
class Slice:
    """A part of a stored result, as text, and what there is beyond it."""

    text: str
    note: str


class Results:
    """The stored results of all principals."""

    def __init__(self, store: ResultStore, config: ResultsConfig) -> None:
        self._store = store
        self.config = config
        self.shown = (config.large + 1) * CHARS_PER_TOKEN - 1
        """Characters up to which a result is shown whole."""

    async def shape(
        self, body: JsonObject, of: str, principal: Principal, *, most: int | None = None, size: int | None = None
    ) -> JsonObject:
        """`body` itself, or, when it has over `most` tokens, its beginning with a handle to the whole.

        `of` names the tool in the text; `size` is `size_of(body)` where somebody has measured it already.
        """
        tokens = (size_of(body) if size is None else size) // CHARS_PER_TOKEN
        if tokens <= (self.config.large if most is None else min(most, self.config.large)):
            return body
        handle = secrets.token_urlsafe(16)
        stored = StoredResult(handle, principal.name, of, encode(body), time.time() + self.config.keep)
        await self._store.save_result(stored, self.config.max_bytes)
        return self._announce(body, of, handle, tokens)

    async def read(
        self,
        handle: str,
        principal: Principal,
        *,
        path: str = "",
        grep: str = "",
        offset: int = 0,
        limit: int | None = None,
    ) -> Slice:
        """A slice of a stored result: items where `path` leads to a list, lines otherwise."""
        value = await self.value(handle, principal, path)
        return await asyncio.to_thread(_slice, value, grep, offset, limit, self.config.large * CHARS_PER_TOKEN)

    async def value(self, handle: str, principal: Principal, path: str = "") -> Any:
        """The value of a stored result, or the part of it at `path`."""
        return _select(await self._body(handle, principal), path)

    async def _body(self, handle: str, principal: Principal) -> JsonObject:
        stored = await self._store.load_result(handle, principal)
        if stored is None:
            raise UnknownResult(
                f"There is no stored result '{handle}'.", hint="It may have expired; make the call again."
            )
        return await asyncio.to_thread(decode, stored.body)

    async def substitute(self, arguments: Any, principal: Principal, text_at: TextAt, path: Path = ()) -> Any:
        """`arguments` with every `{"$result": id, "path": …}` in it replaced by the value it refers to.

        Where `text_at` says that only text goes, it is the text of that value.
        """
        if isinstance(arguments, dict):
            fields = as_object(arguments)
            if REFERENCE in fields and set(fields) <= {REFERENCE, "path"}:
                return await self._dereference(fields, principal, as_text=text_at(path))
            return {key: await self.substitute(item, principal, text_at, (*path, key)) for key, item in fields.items()}
        if isinstance(arguments, list):
            items = enumerate(as_list(arguments))
            return [await self.substitute(item, principal, text_at, (*path, at)) for at, item in items]
        return arguments

    async def _dereference(self, reference: JsonObject, principal: Principal, *, as_text: bool) -> Any:
        handle, path = reference[REFERENCE], reference.get("path", "")
        if not isinstance(handle, str) or not isinstance(path, str):
            raise BadArguments(
                f'A reference to a result is {{"{REFERENCE}": "<id>", "path": "items[0].id"}}, both strings.'
            )
        body = await self._body(handle, principal)
        if as_text and not path and (texts := texts_of(body)):
            return "\n".join(texts)  # as the server wrote it, not as we would
        value = _select(body, path)
        return pretty(value) if as_text and not isinstance(value, str) else value

    def _announce(self, body: JsonObject, of: str, handle: str, tokens: int) -> JsonObject:
        value = value_of(body)
        whole = value if isinstance(value, str) else pretty(value)
        text = (
            f"[Large result of {of}: about {tokens:,} tokens, stored as id {handle} "
            f"for {self.config.keep / 3600:g} h. "
            f"read_result, or the resource wicket://result/{handle}, reads the rest by path, grep, offset and limit; "
            f"in a script, results.get(id, {{path}}) gives the data; as an argument of another call, "
            f'{{"{REFERENCE}": "{handle}", "path": "…"}} stands for its value.]\n'
            f"Shape: {outline(value)}\n"
            f"First part:\n{whole[:FIRST_PART]}"
        )
        others = [block for block in blocks_of(body) if text_of(block) is None]
        kept = {key: item for key, item in body.items() if key not in ("content", "structuredContent")}
        meta: JsonObject = {**kept.get("_meta", {}), "wicket/result": {"id": handle, "tokens": tokens}}
        annotations = {"audience": ["assistant"], "priority": 0.3}
        shown = {"type": "text", "text": text, "annotations": annotations}
        return {**kept, "content": [shown, *others], "_meta": meta}


def _select(body: JsonObject, path: str) -> Any:
    """The value of a result at `path`; `result…` also reads what a server wrapped as `{"result": value}`."""
    value = value_of(body)
    if not path:
        return value
    structured = as_object(body.get("structuredContent"))
    wrapped = list(structured) == ["result"] and (path == "result" or path.startswith(("result.", "result[")))
    return select(structured if wrapped and not (isinstance(value, dict) and "result" in value) else value, path)


def _slice(value: Any, grep: str, offset: int, limit: int | None, max_chars: int) -> Slice:
    if isinstance(value, list) and not grep:
        lines, unit = [encode(item).decode() for item in as_list(value)], "items"
    else:
        text = value if isinstance(value, str) else pretty(value)
        lines, unit = text.splitlines() or [""], "lines"
    if grep:
        lines, unit = _matching(lines, grep), f"lines matching {grep!r}"
    first = max(0, offset)
    wanted = lines[first : first + (limit or DEFAULT_LINES)]
    shown, room = list[str](), max_chars
    for line in wanted:
        if len(line) > room:
            break
        shown.append(line)
        room -= len(line) + 1
    if not shown and wanted:  # one line is larger than an answer may be
        return Slice(wanted[0][:max_chars], f"[{unit} {first + 1} of {len(lines)}, cut at {max_chars} characters.]")
    last = first + len(shown)
    more = f" Read on with offset={last}." if last < len(lines) else ""
    return Slice("\n".join(shown), f"[{unit} {first + 1}-{last} of {len(lines)}.{more}]" if shown else f"[No {unit}.]")


def _matching(lines: list[str], pattern: str) -> list[str]:
    re2: Any = import_module("re2")  # loaded when somebody greps, not when the gateway starts

    try:
        expression = re2.compile(pattern)
    except re2.error as problem:
        raise BadArguments(f"The pattern {pattern!r} cannot be used: {problem}.", hint="It is RE2 syntax.") from None
    return [f"{number}: {line}" for number, line in enumerate(lines, 1) if expression.search(line)]
