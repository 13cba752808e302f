"""The one path that every tool call takes, whoever makes it: a client, a script, the library, the command line.

    scope -> name -> caller's limits -> policy -> arguments -> cache -> rate
          -> upstream (admission, one request, deadline) -> record -> shape

The steps are methods of other rooms; this file is their order.
"""

from collections.abc import Awaitable, Callable

from wicket_mcp.calls.audit import Audited
from wicket_mcp.calls.delivery import Delivery
from wicket_mcp.catalog.catalogue import Catalogue
from wicket_mcp.model import LOCAL, CallRequest, CallResult, Principal, Tool
from wicket_mcp.results.results import Results
from wicket_mcp.schema.arguments import check_arguments, coerce, parse_arguments
from wicket_mcp.store.base import AuditStore
from wicket_mcp.trust.policy import demand
from wicket_mcp.upstream.pool import Pool


class Calls:
    """See the module's docstring."""

    def __init__(self, catalogue: Catalogue, pool: Pool, results: Results, store: AuditStore) -> None:
        self._catalogue = catalogue
        self._delivery = Delivery(catalogue, pool)
        self._results = results
        self._store = store
        self.admit: Callable[[Principal], Awaitable[None]] | None = None
        """Asked about everybody but the gateway's owner before a call is made; raises where it may not be."""

    async def call(self, request: CallRequest) -> CallResult:
        """Make the call. Raises WicketError when there is no answer; an answer that says `isError` is an answer."""
        principal = request.caller.principal
        demand(principal, "invoke", "calling tools")
        tool = request.tool
        if isinstance(tool, str):
            tool = await self._catalogue.resolve(tool, principal)
        if self.admit is not None and principal is not LOCAL:
            await self.admit(principal)
        return await self._delivery.with_fallback(tool, lambda tool: self._call(tool, request))

    async def _call(self, tool: Tool, request: CallRequest) -> CallResult:
        caller = request.caller
        self._catalogue.now.policy.check(caller.principal, tool)
        given = await self._results.substitute(parse_arguments(request.arguments), caller.principal)
        arguments = coerce(tool, given)
        check_arguments(tool, arguments)
        with Audited(self._store, caller.principal, tool.server, tool.name, arguments) as audited:
            body = audited.answer(await self._delivery.deliver(tool, arguments, request))
        result = CallResult(tool, body)
        return result if request.whole else CallResult(tool, await self._results.shape(result, caller.principal))
