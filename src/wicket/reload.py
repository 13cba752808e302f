"""The configuration while Wicket runs: its files are read again when they changed, and used at once.

A file that cannot be read or used changes nothing and says so. The few options that need a restart are named.
Applying is the gateway's business: build, swap, drain.
"""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

import msgspec

from wicket.config.favourites import OVERRIDES, REGISTRY
from wicket.config.formats import load
from wicket.config.model import Config
from wicket.errors import ConfigError

log = logging.getLogger(__name__)

LOOK_EVERY = 0.5  # seconds; a change is taken up once the files stayed the same for as long

Stamp = tuple[tuple[int, int, int] | None, ...]


async def watch(path: Path, apply: Callable[[Config], None]) -> None:
    """Call `apply` with every readable new state of the file at `path`, and of those beside it, for ever."""
    files = (path, path.parent / OVERRIDES, path.parent / REGISTRY)
    seen = _stamp(files)
    current = await _read(path)
    waiting: Stamp | None = None
    while True:
        await asyncio.sleep(LOOK_EVERY)
        stamp = _stamp(files)
        if stamp == seen or stamp[0] is None:  # None: being replaced, perhaps
            waiting = None
        elif stamp != waiting:
            waiting = stamp  # still being written, perhaps
        else:
            seen, waiting = stamp, None
            changed = await _read(path)
            if changed is not None and changed != current and _applied(changed, current, apply):
                current = changed


def needing_restart(old: Config, new: Config) -> list[str]:
    """The options that differ and are read only when Wicket starts."""
    fixed = {
        "http.host": (old.http.host, new.http.host),
        "http.port": (old.http.port, new.http.port),
        "state_dir": (old.state_dir, new.state_dir),
    }
    return [name for name, (before, after) in fixed.items() if before != after]


def staying(old: Config, new: Config) -> Config:
    """`new`, but for what needs a restart: that is as in `old`."""
    http = msgspec.structs.replace(new.http, host=old.http.host, port=old.http.port)
    return msgspec.structs.replace(new, http=http, state_dir=old.state_dir)


def _applied(new: Config, old: Config | None, apply: Callable[[Config], None]) -> bool:
    try:
        apply(new)
    except ConfigError as problem:
        _refuse(problem)
        return False
    if old is not None and (waiting := needing_restart(old, new)):
        log.warning("changes of %s take effect when Wicket is started again", ", ".join(waiting))
    return True


async def _read(path: Path) -> Config | None:
    try:
        return await asyncio.to_thread(load, path)
    except ConfigError as problem:
        _refuse(problem)
        return None


def _refuse(problem: ConfigError) -> None:
    log.error("the configuration was not reloaded, the old one stays in use: %s", problem)


def _stamp(files: tuple[Path, ...]) -> Stamp:
    return tuple(map(_state, files))


def _state(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
