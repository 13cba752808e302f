"""Checks once, before any lookup, whether the principal's scopes allow the request."""

from collections.abc import Awaitable

from wicket_mcp.request import Handler, Layer, Request, Result
from wicket_mcp.trust.policy import demand


def authorise(scope: str, doing: str) -> Layer:
    """`doing` names, in the error, the action that needs the scope."""

    def layer(inner: Handler) -> Handler:
        def handle(request: Request) -> Awaitable[Result]:
            principal = request.caller.principal
            if scope not in principal.scopes:
                demand(principal, scope, doing)
            return inner(request)

        return handle

    return layer
