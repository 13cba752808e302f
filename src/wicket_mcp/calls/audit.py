"""One call's line in the audit: written when the call ends, however it ends.

It keeps a digest of the arguments, never the arguments.
"""

import hashlib
import time
from types import TracebackType
from typing import Any, Self

from wicket_mcp.calls.cache import outcome_of
from wicket_mcp.codec import encode
from wicket_mcp.errors import WicketError
from wicket_mcp.model import JsonObject, Principal
from wicket_mcp.results.content import size_of
from wicket_mcp.store.base import AuditStore
from wicket_mcp.store.model import CallRecord


class Audited:
    """Surrounds a call: `with Audited(…) as audited: body = audited.answer(await …)`."""

    def __init__(self, store: AuditStore, principal: Principal, server: str, tool: str, arguments: Any) -> None:
        self._store = store
        self._call = principal.name, server, tool
        self._arguments = arguments
        self._outcome, self._size = "cancelled", 0

    def __enter__(self) -> Self:
        self._started = time.monotonic()
        return self

    def answer(self, body: JsonObject) -> JsonObject:
        self._outcome, self._size = outcome_of(body), size_of(body)
        return body

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(problem, WicketError):
            self._outcome = problem.code
        digest = hashlib.blake2b(encode(self._arguments), digest_size=8).hexdigest()
        elapsed = (time.monotonic() - self._started) * 1000
        self._store.record_call(CallRecord(time.time(), *self._call, digest, self._outcome, elapsed, self._size))
