"""A process that serves: what it does with signals and with its garbage. Knows nothing about what is served."""

import asyncio
import gc
import logging
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress

from wicket_mcp.descriptors import raise_limit

log = logging.getLogger(__name__)


def collect_seldom() -> None:
    """What there is now stays; a call makes many small objects and hardly a cycle among them."""
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)  # a thousand calls under way are not garbage, and are looked through each time
    gc.enable()


async def run_until_signalled(work: Callable[[asyncio.Event], Awaitable[None]]) -> None:
    """Run `work(stop)`; SIGTERM or SIGINT sets `stop`, a second one ends the process at once.

    The handlers are installed before `work` begins, so its output may already say that Ctrl-C stops it.
    """
    raise_limit()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def on_signal(number: signal.Signals) -> None:
        if stop.is_set():
            raise SystemExit(128 + number)
        log.info("%s: finishing calls in flight; once more ends at once", number.name)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        with suppress(NotImplementedError):  # Windows
            loop.add_signal_handler(number, on_signal, number)
    await work(stop)
