"""Large results: stored completely, shown in part, read by handle, passed to other calls by reference.

Shortening loses nothing: the agent's answer names the handle for reading the rest. A handle (`handles.py`) cannot be
guessed and works only for the principal whose call made it; in a profile, only if the profile shows the tool that gave
the result.
"""

import asyncio
import json
from collections.abc import Callable
from functools import cached_property
from importlib import import_module
from typing import Any, TypeAlias, TypeVar

import msgspec

from wicket_mcp.budget import MAX_NAME, MAX_PATH, MAX_REFERENCES, MAX_SUBSTITUTED, check_length
from wicket_mcp.codec import LARGE, decode, encode, pretty, weighs_over
from wicket_mcp.config.model.config import ResultsConfig
from wicket_mcp.errors import BadArguments, UnknownResult
from wicket_mcp.lanes import Lane
from wicket_mcp.large_json import decode_in_pieces, encode_in_pieces
from wicket_mcp.model import JsonObject, Principal, as_list
from wicket_mcp.results.content import AS_DECLARED, blocks_of, size_of, text_of, value_of
from wicket_mcp.results.handles import Handles
from wicket_mcp.results.outline import outline
from wicket_mcp.results.references import (
    REFERENCE,
    TextAt,
    check_substituted,
    find_references,
    replace_references,
    select_part,
)
from wicket_mcp.results.storage import ResultStorage
from wicket_mcp.store.clock import steady_time
from wicket_mcp.store.model import StoredResult

CHARS_PER_TOKEN = 4  # average cost of text; good enough to decide what is large
FIRST_PART = 4000  # characters of a large result that are shown at once
DEFAULT_LINES = 200
PARTS = 4  # factor by which reading may exceed substituting, if several results are referred to
OWN = "wicket"  # the server of our own answers
_IN = "@"  # between the name of an own answer and the profile in which it was given
KEPT = 30.0  # seconds for which the last read result stays decoded

T = TypeVar("T")

Shows: TypeAlias = Callable[[Principal, str], bool]
"""Whether the principal's profile shows a tool, by its own key."""


class Slice(msgspec.Struct, frozen=True):
    """A part of a stored result, as text, and what comes after it."""

    text: str
    note: str


class Results:
    """The stored results of all principals."""

    def __init__(self, storage: ResultStorage, handles: Handles, config: ResultsConfig, shows: Shows) -> None:
        self._storage = storage
        self._handles = handles
        self._shows = shows
        self.config = config
        self.shown = (config.large + 1) * CHARS_PER_TOKEN - 1
        """Characters up to which a result is shown completely."""
        self._lane = Lane("reads of stored results", width=2, share=1, waiting=64)
        self._latest: _Decoded | None = None
        self._forgetting: asyncio.TimerHandle | None = None

    async def shape(
        self,
        body: JsonObject,
        of: str,
        principal: Principal,
        *,
        tool: str = "",
        most: int | None = None,
        size: int | None = None,
        as_declared: bool = False,
    ) -> JsonObject:
        """`body` itself or, if it has over `most` tokens, its beginning with a handle to the whole.

        `of` names the tool in the text, and `tool` is its own key (empty for an answer of ours, which may hold
        anything that the principal's profile shows); `size` is `size_of(body)` if it is already known. `as_declared`
        says that a structured `{"result": value}` is no wrapper.
        """
        tokens = (size_of(body) if size is None else size) // CHARS_PER_TOKEN
        if tokens <= (self.config.large if most is None else min(most, self.config.large)):
            return body
        expires_at = steady_time() + self.config.keep
        row, handle = self._handles.make(principal, expires_at)

        def put_aside() -> tuple[StoredResult, JsonObject]:
            marked = {**body, AS_DECLARED: True} if as_declared else body
            data = encode_in_pieces(marked)
            stored = StoredResult(row, principal.id, tool or _own_answer(of, principal), data, expires_at)
            return stored, self._announce(marked, of, handle, max(tokens, _tokens(body, data)))

        is_large = tokens * CHARS_PER_TOKEN >= LARGE or weighs_over(body)
        stored, summary = await asyncio.to_thread(put_aside) if is_large else put_aside()
        return summary if await self._storage.save(stored, self.config.max_bytes) else _say_unsaved(summary)

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
        """A slice of a stored result: items if `path` leads to a list, lines otherwise."""
        check_length(path, MAX_PATH, "A path")
        check_length(grep, MAX_PATH, "A pattern")
        stored, most = await self._load(handle, principal), self.config.large * CHARS_PER_TOKEN
        return await self.compute(principal, lambda: _slice(self._decode(stored).part(path), grep, offset, limit, most))

    async def value(self, handle: str, principal: Principal, path: str = "", *, most: int | None = None) -> Any:
        """The value of a stored result, or the part at `path`; raises BadArguments if it has over `most` bytes."""
        check_length(path, MAX_PATH, "A path")
        stored = await self._load(handle, principal)

        def compute() -> Any:
            value = self._decode(stored).part(path)
            if most is not None and (size := len(encode(value))) > most:
                raise BadArguments(f"That is {size:,} bytes; {most:,} are accepted.", hint="Take a part of it by path.")
            return value

        return await self.compute(principal, compute)

    async def origin(self, handle: str, principal: Principal) -> tuple[str, JsonObject]:
        """The tool that produced a stored result, and the result, which must not be changed."""
        stored = await self._load(handle, principal)
        return stored.tool, await self.compute(principal, lambda: self._decode(stored).body)

    async def substitute(self, arguments: Any, principal: Principal, text_at: TextAt) -> Any:
        """`arguments` with every `{"$result": id, "path": …}` in it replaced by the value it refers to.

        If `text_at` allows only text, the value is inserted as text. Each result is read once. Raises BadArguments if
        there are too many references or their values are too large; before decoding, if the stored length shows it.
        """
        references = find_references(arguments)
        check_length(references, MAX_REFERENCES, "The arguments of a call", "references to results")
        stored: dict[str, StoredResult] = {}
        whole = 0
        for reference in references:
            if reference.handle not in stored:
                stored[reference.handle] = await self._load(reference.handle, principal)
                if len(stored) > 1:  # a single one may be as large as a result can be
                    check_substituted(sum(len(result.body) for result in stored.values()) // PARTS)
            # The size of a part is unknown, but a complete value is as long as stored.
            whole += 0 if reference.path else len(stored[reference.handle].body)
            check_substituted(whole)

        def compute() -> Any:
            bodies = {handle: self._decode(result).body for handle, result in stored.items()}
            return replace_references(arguments, references, bodies, text_at)

        return await self.compute(principal, compute)

    async def _load(self, handle: str, principal: Principal) -> StoredResult:
        check_length(handle, MAX_NAME, "The id of a result")
        row = self._handles.open(handle, principal)
        latest = self._latest
        if row is None:
            stored = None
        elif latest is not None and latest.is_for(row, principal):
            stored = latest.stored
        else:
            stored = await self._storage.load(row, principal)
        if stored is None or not self._is_shown(stored, principal):
            raise UnknownResult(
                f"There is no stored result '{handle}'.", hint="It may have expired; make the call again."
            )
        return stored

    def _is_shown(self, stored: StoredResult, principal: Principal) -> bool:
        """Whether the principal's profile shows the tool that gave the result, or the answer was given in it."""
        is_own = stored.tool.startswith(f"{OWN}.") and stored.tool.endswith(f"{_IN}{principal.profile}")
        return is_own or self._shows(principal, stored.tool)

    async def compute(self, principal: Principal, work: Callable[[], T]) -> T:
        """Run slow `work` in a thread, in the lane of all reads of stored results."""
        result = await self._lane.compute(principal.id, work)
        if self._latest is not None and self._forgetting is None:
            self._forgetting = asyncio.get_running_loop().call_later(KEPT, self._forget)
        return result

    def _decode(self, stored: StoredResult) -> "_Decoded":
        """The decoded result. The latest is kept for a moment, because reads of the same result often follow each
        other.
        """
        latest = self._latest
        if latest is not None and latest.stored is stored:
            return latest
        decoded = _Decoded(stored)
        if len(stored.body) <= MAX_SUBSTITUTED:
            self._latest = decoded
        return decoded

    def _forget(self) -> None:
        self._latest = self._forgetting = None

    def _announce(self, body: JsonObject, of: str, handle: str, tokens: int) -> JsonObject:
        value = value_of(body)
        whole = value if isinstance(value, str) else _beginning(value)
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
        passed = {key: item for key, item in body.items() if key not in ("content", "structuredContent", AS_DECLARED)}
        meta: JsonObject = {**passed.get("_meta", {}), "wicket/result": {"id": handle, "tokens": tokens}}
        annotations = {"audience": ["assistant"], "priority": 0.3}
        text_block = {"type": "text", "text": text, "annotations": annotations}
        return {**passed, "content": [text_block, *others], "_meta": meta}


class _Decoded:
    """A stored result in memory, which must not be changed."""

    def __init__(self, stored: StoredResult) -> None:
        self.stored = stored
        body = stored.body
        self.body: JsonObject = decode(body) if len(body) < LARGE else decode_in_pieces(body, most=None)

    @cached_property
    def value(self) -> Any:
        return value_of(self.body)

    def part(self, path: str) -> Any:
        return select_part(self.body, self.value, path) if path else self.value

    def is_for(self, row: str, principal: Principal) -> bool:
        stored = self.stored
        return stored.id == row and stored.principal == principal.id and stored.expires_at >= steady_time()


def _own_answer(of: str, principal: Principal) -> str:
    """The name under which an answer of ours is stored: it may be read only in the profile in which it was given."""
    return f"{of}{_IN}{principal.profile}" if principal.profile else of


def _tokens(body: JsonObject, data: bytes) -> int:
    """The approximate number of tokens of structured content that was too large to measure before."""
    return len(data) // CHARS_PER_TOKEN if weighs_over(body.get("structuredContent")) else 0


def _beginning(value: Any) -> str:
    """The beginning of a value, formatted for people."""
    parts, size = list[str](), 0
    for part in json.JSONEncoder(indent=2, ensure_ascii=False).iterencode(value):  # step by step, unlike `pretty`
        parts.append(part)
        size += len(part)
        if size > FIRST_PART:
            break
    return "".join(parts)


def _say_unsaved(summary: JsonObject) -> JsonObject:
    """The beginning of a result, with a note that its handle works only while this process runs."""
    words = "[The state file cannot be written: this result is kept in memory only.]"
    return {**summary, "content": [*summary["content"], {"type": "text", "text": words}]}


def _slice(value: Any, grep: str, offset: int, limit: int | None, max_chars: int) -> Slice:
    first = max(0, offset)
    last = first + (limit or DEFAULT_LINES)
    if isinstance(value, list) and not grep:
        items = as_list(value)
        total, unit = len(items), "items"
        selected = [encode(item).decode() for item in items[first:last]]
    else:
        text = value if isinstance(value, str) else pretty(value)
        if grep:  # which can be done in whole characters only
            text = _whole(text)
        lines, unit = text.splitlines() or [""], "lines"
        if grep:
            lines, unit = _matching(lines, grep), f"lines matching {grep!r}"
        total, selected = len(lines), lines[first:last]
    lines_out, room = list[str](), max_chars
    for line in selected:
        if len(line) > room:
            break
        lines_out.append(line)
        room -= len(line) + 1
    if not lines_out and selected:  # one line is larger than an answer may be
        return Slice(selected[0][:max_chars], f"[{unit} {first + 1} of {total}, cut at {max_chars} characters.]")
    last = first + len(lines_out)
    more = f" Read on with offset={last}." if last < total else ""
    return Slice(
        "\n".join(lines_out), f"[{unit} {first + 1}-{last} of {total}.{more}]" if lines_out else f"[No {unit}.]"
    )


def _matching(lines: list[str], pattern: str) -> list[str]:
    re2: Any = import_module("re2")  # loaded for the first search with a pattern, not at start

    try:
        options = re2.Options()
        options.log_errors = False  # it would write the pattern to stderr as it is
        expression = re2.compile(_whole(pattern), options)
    except re2.error as problem:
        reason: Any = problem.args[0]
        reason = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else reason
        raise BadArguments(f"The pattern {pattern!r} cannot be used: {reason}.", hint="It is RE2 syntax.") from None
    return [f"{number}: {line}" for number, line in enumerate(lines, 1) if expression.search(line)]


def _whole(text: str) -> str:
    """The text with replacement characters for halves of surrogate pairs."""
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
