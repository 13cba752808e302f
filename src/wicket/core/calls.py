"""The one path that every tool call takes, whoever makes it: a client, a script, the library, the command line.

    name -> caller's limits -> policy -> arguments -> cache -> rate -> upstream (admission, one request, deadline)
         -> shape -> record

The steps are methods of other rooms; this file is their order.
"""

import hashlib
import time
from collections.abc import Awaitable, Callable

from wicket.codec import encode
from wicket.core.cache import outcome_of
from wicket.core.catalog import Catalogue
from wicket.core.delivery import Delivery
from wicket.core.results import Results, size_of
from wicket.core.schema import check_arguments, coerce, parse_arguments
from wicket.errors import WicketError
from wicket.model import LOCAL, CallRequest, CallResult, Principal, Tool
from wicket.store.base import CallRecord, Store
from wicket.upstream.pool import Pool


class Calls:
    """See the module's docstring."""

    def __init__(self, catalogue: Catalogue, pool: Pool, results: Results, store: Store) -> None:
        self._catalogue = catalogue
        self._delivery = Delivery(catalogue, pool)
        self._results = results
        self._store = store
        self.admit: Callable[[Principal], Awaitable[None]] | None = None
        """Asked about everybody but the gateway's owner before a call is made; raises where it may not be."""

    async def call(self, request: CallRequest) -> CallResult:
        """Make the call. Raises WicketError when there is no answer; an answer that says `isError` is an answer."""
        tool = await self._catalogue.resolve(request.tool)
        if self.admit is not None and request.caller.principal is not LOCAL:
            await self.admit(request.caller.principal)
        return await self._delivery.with_fallback(tool, lambda tool: self._call(tool, request))

    async def _call(self, tool: Tool, request: CallRequest) -> CallResult:
        caller = request.caller
        self._catalogue.now.policy.check(caller.principal, tool)
        given = await self._results.substitute(parse_arguments(request.arguments), caller.principal)
        arguments = coerce(tool, given)
        check_arguments(tool, arguments)
        started, outcome, size = time.monotonic(), "cancelled", 0
        try:
            body = await self._delivery.deliver(tool, arguments, request)
            outcome, size = outcome_of(body), size_of(body)
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
