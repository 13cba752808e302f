"""The configuration file while Wicket runs: read again when it changed, and used at once where that is possible.

A file that cannot be read changes nothing and says so. What needs a restart is named. Applying is the gateway's
business: build, swap, drain.
"""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

import msgspec

from wicket.config.formats import load
from wicket.config.model import Config
from wicket.errors import ConfigError

log = logging.getLogger(__name__)

LOOK_EVERY = 0.5  # seconds; a change is taken up once the file stayed the same for as long
_LIVE = frozenset({"servers", "aliases", "path", "notes"})

Stamp = tuple[int, int, int]


async def watch(path: Path, apply: Callable[[Config], None]) -> None:
    """Call `apply` with every readable new state of the file at `path`, for ever."""
    current, seen = await _read(path), _stamp(path)
    waiting: Stamp | None = None
    while True:
        await asyncio.sleep(LOOK_EVERY)
        stamp = _stamp(path)
        if stamp in (seen, None):
            waiting = None
        elif stamp != waiting:
            waiting = stamp  # still being written, perhaps
        else:
            seen, waiting = stamp, None
            changed = await _read(path)
            if changed is not None and changed != current:
                _say_what_waits(current, changed)
                apply(changed)
                current = changed


def needing_restart(old: Config, new: Config) -> list[str]:
    """The options that differ and are read only when Wicket starts."""
    names = [field.name for field in msgspec.structs.fields(Config) if field.name not in _LIVE]
    return [name for name in names if getattr(old, name) != getattr(new, name)]


async def _read(path: Path) -> Config | None:
    try:
        return await asyncio.to_thread(load, path)
    except ConfigError as problem:
        log.error("the configuration was not reloaded, the old one stays in use: %s", problem)
        return None


def _stamp(path: Path) -> Stamp | None:
    try:
        found = path.stat()
    except OSError:
        return None  # being replaced, perhaps
    return found.st_mtime_ns, found.st_size, found.st_ino


def _say_what_waits(old: Config | None, new: Config) -> None:
    if old is not None and (waiting := needing_restart(old, new)):
        log.warning("changes of %s take effect when Wicket is started again", ", ".join(waiting))
