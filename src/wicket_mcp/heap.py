"""Gives the memory of large answers and indexes back to the system, where glibc would keep it.

Its threshold for memory of its own pages grows to 32 MiB with what is freed, and what is then freed in the middle of
the heap stays with us. So the threshold is fixed, and free pages are given back when nothing is under way. Used by
processes that serve; a no-op with another C library.
"""

import asyncio
import ctypes
import sys
import time
from collections.abc import Callable
from functools import cache

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
OWN_PAGES = 1024 * 1024
TOP_KEPT = 4 * 1024 * 1024
LOOK_EVERY = 30.0
WORTH_IT = 0.5
"""Seconds of processor time since we last gave memory back: less work leaves nothing to give back."""


@cache
def _glibc() -> ctypes.CDLL | None:
    if sys.platform != "linux":
        return None
    library = ctypes.CDLL(None)
    return library if hasattr(library, "malloc_trim") and hasattr(library, "mallopt") else None


def fix_thresholds() -> None:
    """Have large blocks in pages of their own from now on, which go back when they are freed."""
    if (library := _glibc()) is not None:
        library.mallopt(M_MMAP_THRESHOLD, OWN_PAGES)
        library.mallopt(M_TRIM_THRESHOLD, TOP_KEPT)


def give_back() -> None:
    """Give free pages back. May take some milliseconds; other threads go on."""
    if (library := _glibc()) is not None:
        library.malloc_trim(0)


async def give_back_when_idle(is_idle: Callable[[], bool]) -> None:
    """Fix the thresholds, and give memory back from time to time, for as long as we run."""
    fix_thresholds()
    spent = time.process_time()
    while True:
        await asyncio.sleep(LOOK_EVERY)
        if is_idle() and time.process_time() - spent > WORTH_IT:
            await asyncio.to_thread(give_back)
            spent = time.process_time()
