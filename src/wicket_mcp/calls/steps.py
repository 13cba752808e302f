"""How long each layer took by itself, for an audit that is written to a file or a collector.

Part of the stack only if such an audit is configured: timing a layer costs about as much as a small layer itself. A
layer's time excludes the layers inside it; a layer that calls them twice (a fallback, a sign-in) counts twice. The last
one is `forward`, from which the audit takes the server's time.
"""

import time

from wicket_mcp.request import Handler, Layer, Request, Result

LAST = "forward"


def time_layer(name: str, layer: Layer) -> Layer:
    """The layer, with its own time recorded in the request's span under `name`."""

    def wrap(inner: Handler) -> Handler:
        return _count(name, layer(_count(name, inner, sign=-1)))

    return wrap


def time_last(handler: Handler) -> Handler:
    """The innermost handler, with its time in the span."""
    return _count(LAST, handler)


def without(handler: Handler, name: str) -> Handler:
    """A second handler that the layer `name` calls: its time is not counted for that layer."""
    return _count(name, handler, sign=-1)


def _count(name: str, handler: Handler, sign: int = 1) -> Handler:
    async def handle(request: Request) -> Result:
        span = request.span
        started = time.perf_counter()
        try:
            return await handler(request)
        finally:
            steps = span.steps = span.steps or {}
            steps[name] = steps.get(name, 0.0) + sign * (time.perf_counter() - started)

    return handle
