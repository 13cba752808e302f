"""How long each layer took by itself, for an audit that is written to a file or a collector.

Stands in the stack only where such an audit is configured: timing a layer costs about as much as a small layer does.
What a layer took is what passed between its beginning and its end, without what lies further in; a layer that asks
twice (a fallback, a sign-in) counts twice. The last one is `forward`, from which the audit takes what the server took.
"""

import time

from wicket_mcp.request import Handler, Layer, Request, Result

LAST = "forward"


def time_layer(name: str, layer: Layer) -> Layer:
    """The layer, with its own time written into the request's span under `name`."""

    def wrap(inner: Handler) -> Handler:
        return _count(name, layer(_count(name, inner, sign=-1)))

    return wrap


def time_last(handler: Handler) -> Handler:
    """The innermost handler, with its time in the span."""
    return _count(LAST, handler)


def without(handler: Handler, name: str) -> Handler:
    """A handler that the layer `name` asks beside its own: its time is not that layer's."""
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
