"""The outermost layer: one line in the audit for every request, written when it ends, however it ends.

A denial, an unknown name and a defect are recorded like an answer. Keeps a digest of the arguments, never themselves.
"""

import asyncio
import hashlib
import time

from wicket_mcp.calls.cache import outcome_of
from wicket_mcp.codec import encode
from wicket_mcp.errors import Internal, WicketError
from wicket_mcp.request import Handler, Layer, Request, Result
from wicket_mcp.results.content import size_of
from wicket_mcp.store.base import AuditStore
from wicket_mcp.store.model import CallRecord


def audit(records: AuditStore) -> Layer:
    def layer(inner: Handler) -> Handler:
        async def handle(request: Request) -> Result:
            span = request.span
            started = time.perf_counter()
            try:
                result = await inner(request)
                span.outcome, span.size = outcome_of(result.body), size_of(result.body)
            except WicketError as problem:
                span.outcome = problem.code
                raise
            except asyncio.CancelledError:
                span.outcome = "cancelled"
                raise
            except BaseException:
                span.outcome = Internal.code
                raise
            finally:
                elapsed = (time.perf_counter() - started) * 1000
                records.record_call(
                    CallRecord(
                        time.time(),
                        request.caller.principal.name,
                        span.server,
                        span.name or request.name,
                        hashlib.blake2b(encode(span.arguments), digest_size=8).hexdigest(),
                        span.outcome,
                        elapsed,
                        span.size,
                    )
                )
            return result

        return handle

    return layer
