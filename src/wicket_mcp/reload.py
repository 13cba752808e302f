"""The configuration while Wicket runs: its files are read again when they change, and applied at once.

A file that cannot be read or used changes nothing and is reported. The few options that need a restart are named. The
gateway itself applies a configuration: build, swap, drain.
"""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

import msgspec

from wicket_mcp.config.model.config import Config
from wicket_mcp.config.read import folder_trust
from wicket_mcp.config.read.favourites import OVERRIDES, REGISTRY
from wicket_mcp.config.read.formats import load
from wicket_mcp.errors import ConfigError

log = logging.getLogger(__name__)

LOOK_EVERY = 0.3  # seconds; a change is applied once the files have stayed the same for this long

Stamp = tuple[tuple[int, int, int] | None, ...]


async def watch(path: Path, used: Callable[[], Config], apply: Callable[[Config], None]) -> None:
    """Call `apply` with every state of the file at `path`, and of its companion files, that differs from `used`."""
    files = (path, path.parent / OVERRIDES, path.parent / REGISTRY)
    if used().discovered:  # a consent given at run time takes effect at once
        files = (*files, folder_trust.answers_file())
    seen: Stamp | None = None
    waiting: Stamp | None = None
    first: Config | None = None
    fixed: list[str] = []
    misses = 0
    while True:
        stamp = _stamp(files)
        misses = misses + 1 if stamp[0] is None else 0
        if misses == 2:  # the first miss may be a replacement in progress
            log.warning("%s was deleted; the configuration that was read from it stays in use", path)
        if stamp == seen or misses:
            waiting = None
        elif stamp != waiting and seen is not None:
            waiting = stamp  # it may still be being written
        else:
            config = await read_again(path, used())
            if _stamp(files) == stamp:
                seen, waiting = stamp, None
            else:
                config = None  # it changed while it was read: it will be read again
            if config is not None:
                first = first or config
                if staying(used(), config) != used():
                    _apply(config, apply)
                if (named := needing_restart(first, config)) != fixed and named:
                    log.warning("changes of %s take effect when Wicket is started again", ", ".join(named))
                fixed = named
        await asyncio.sleep(LOOK_EVERY)


def needing_restart(old: Config, new: Config) -> list[str]:
    """The changed options that are read only at start."""
    fixed = {
        "http.host": (old.http.host, new.http.host),
        "http.port": (old.http.port, new.http.port),
        "state_dir": (old.state_dir, new.state_dir),
        "store": (old.store, new.store),
        "shared_limits": (old.shared_limits, new.shared_limits),
        "trace": (old.trace, new.trace),
    }
    return [name for name, (before, after) in fixed.items() if before != after]


def staying(old: Config, new: Config) -> Config:
    """`new`, but with the values of `old` for options that need a restart."""
    http = msgspec.structs.replace(new.http, host=old.http.host, port=old.http.port)
    return msgspec.structs.replace(
        new, http=http, state_dir=old.state_dir, store=old.store, shared_limits=old.shared_limits, trace=old.trace
    )


def _apply(new: Config, apply: Callable[[Config], None]) -> None:
    try:
        apply(new)
    except ConfigError as problem:
        _refuse(problem)
    except Exception:  # the boundary: a bug must not stop the watching of later changes
        log.exception("the configuration could not be used")


async def read_again(path: Path, used: Config) -> Config | None:
    """The file's current configuration; None if it cannot be used, which is logged."""
    try:
        read = await asyncio.to_thread(load, path, discovered=used.discovered)
        if read.untrusted and not used.untrusted:
            raise ConfigError(f"{path} has changed since you trusted it.", hint=f"Run: wicket trust {path}")
        return read
    except ConfigError as problem:
        _refuse(problem)
        return None


def _refuse(problem: ConfigError) -> None:
    log.error("the configuration was not reloaded, the old one stays in use: %s", problem)


def _stamp(files: tuple[Path, ...]) -> Stamp:
    return tuple(map(_state, files))


def _state(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
