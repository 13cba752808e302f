"""The one path that every tool call takes, whoever makes it: a client, a script, the library, the command line.

    name -> policy -> arguments -> upstream (admission, one request, deadline) -> shape -> record

The steps are methods of other rooms; this file is their order.
"""

import hashlib
import itertools
import time
from typing import Any

from wicket.codec import encode
from wicket.core.catalog import Catalogue
from wicket.core.results import Results, size_of
from wicket.core.schema import check_arguments, coerce, parse_arguments
from wicket.errors import WicketError
from wicket.model import (
    META_CAPABILITIES,
    META_CLIENT_INFO,
    META_VERSION,
    CallRequest,
    CallResult,
    JsonObject,
    Tool,
)
from wicket.store.base import CallRecord, Store
from wicket.upstream.connection import OnNotification
from wicket.upstream.pool import Pool

_OUR_HOP = ("progressToken", META_VERSION, META_CLIENT_INFO, META_CAPABILITIES)
"""Keys of a request's `_meta` that speak about the hop to us and mean nothing to the upstream."""


class Calls:
    """See the module's docstring."""

    def __init__(self, catalogue: Catalogue, pool: Pool, results: Results, store: Store) -> None:
        self._catalogue = catalogue
        self._pool = pool
        self._results = results
        self._store = store
        self._tokens = itertools.count(1)

    async def call(self, request: CallRequest) -> CallResult:
        """Make the call. Raises WicketError when there is no answer; an answer that says `isError` is an answer."""
        tool = await self._catalogue.resolve(request.tool)
        caller = request.caller
        self._catalogue.now.policy.check(caller.principal, tool)
        given = await self._results.substitute(parse_arguments(request.arguments), caller.principal)
        arguments = coerce(tool, given)
        check_arguments(tool, arguments)
        params, on_progress = self._dress(tool, arguments, request)
        started, outcome, size = time.monotonic(), "cancelled", 0
        try:
            body = await self._pool.request(
                tool.server, "tools/call", params, session=caller.session, on_notification=on_progress
            )
            outcome, size = "error" if body.get("isError") else "ok", size_of(body)
        except WicketError as problem:
            outcome = problem.code
            raise
        finally:
            digest = hashlib.blake2b(encode(arguments), digest_size=8).hexdigest()
            elapsed = (time.monotonic() - started) * 1000
            self._store.record_call(
                CallRecord(time.time(), caller.principal.name, tool.server, tool.name, digest, outcome, elapsed, size)
            )
        result = CallResult(tool, body)
        return result if request.whole else CallResult(tool, await self._results.shape(result, caller.principal))

    def _dress(
        self, tool: Tool, arguments: JsonObject, request: CallRequest
    ) -> tuple[JsonObject, OnNotification | None]:
        """The upstream's parameters, and who hears of progress where the client asked to."""
        params: JsonObject = {"name": tool.name, "arguments": arguments}
        meta: dict[str, Any] = {key: value for key, value in request.meta.items() if key not in _OUR_HOP}
        theirs = request.meta.get("progressToken")
        if theirs is not None:
            meta["progressToken"] = next(self._tokens)
        if meta:
            params["_meta"] = meta

        def on_progress(method: str, details: JsonObject) -> None:
            if method == "notifications/progress":
                details = {**details, "progressToken": theirs}
            request.caller.notify(method, details)

        return params, on_progress if theirs is not None else None
