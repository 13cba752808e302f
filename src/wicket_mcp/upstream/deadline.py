"""The deadline of one call, which a sign of life from the upstream moves: progress, a log message, a question.

A question waits as long as a call may last at all, because a person may have to answer it. Used by `supervisor.py`.
"""

import asyncio
from contextlib import suppress

from wicket_mcp.errors import TimedOut, Unasked
from wicket_mcp.model import JsonObject
from wicket_mcp.upstream.connection import Callbacks


def extend_deadline(callbacks: Callbacks, deadline: asyncio.Timeout, allowance: float, longest: float) -> Callbacks:
    """`callbacks` that move the deadline: a sign of life restarts it, and a question waits as long as a call may."""
    loop = asyncio.get_running_loop()
    end = loop.time() + longest

    def move(when: float) -> None:
        with suppress(RuntimeError):  # the call has ended meanwhile: there is no deadline any more
            deadline.reschedule(when)

    def notify(method: str, params: JsonObject) -> None:
        move(min(loop.time() + allowance, end))
        if callbacks.notification:
            callbacks.notification(method, params)

    async def ask(method: str, params: JsonObject) -> JsonObject:
        if callbacks.request is None:
            raise Unasked(f"{method} is not available here.")
        move(end)
        try:
            return await callbacks.request(method, params)
        finally:
            move(min(loop.time() + allowance, end))

    return Callbacks(notify, ask)


def timed_out(server: str, method: str, allowance: float, longest: float, taken: float) -> TimedOut:
    """What a caller hears when the deadline is over."""
    setting = f"the server's 'timeout' ({allowance:g} s)"
    if taken >= longest:
        allowance, setting = longest, f"'limits.max_call' ({longest:g} s)"
    return TimedOut(
        server,
        f"Server '{server}' did not answer {method} within {allowance:g} s; it was told to cancel.",
        hint=f"It may have had effects. Raise {setting} if its tools take longer.",
    )
