"""The entry point of a daemon: `python -m wicket_mcp.daemon [--config FILE]`, started by a shim (`shim/finding.py`).

It inherits the listening socket, the lock and a log as stderr. If it cannot serve, it tells all connected shims: each
of them then starts its own gateway, which tells its user what is wrong.
"""

import asyncio
import contextlib
import gc
import logging
import os
import socket
import sys

from wicket_mcp.config.model.config import Config
from wicket_mcp.config.read.formats import fall_back, load
from wicket_mcp.config.read.locate import find_config, is_found
from wicket_mcp.errors import WicketError
from wicket_mcp.shim.finding import LISTENER, LOCK
from wicket_mcp.telemetry.log import configure_logging

log = logging.getLogger("wicket_mcp.daemon")


def main() -> int:
    """The exit status."""
    gc.disable()  # until we serve: what is loaded until then is no garbage, and the first client waits
    for descriptor in (LISTENER, LOCK):
        os.set_inheritable(descriptor, False)
    listener = socket.socket(fileno=LISTENER)
    listener.setblocking(False)
    named = sys.argv[2] if sys.argv[1:2] == ["--config"] and len(sys.argv) == 3 else None
    configure_logging("info")
    try:
        file = find_config(named)
        config = fall_back(load(file, discovered=is_found(file, named)))
        asyncio.run(_serve(config, listener))
    except (WicketError, OSError) as problem:
        log.error("this daemon cannot serve: %s", problem)
        _refuse(listener)
        return 1
    return 0


async def _serve(config: Config, listener: socket.socket) -> None:
    from wicket_mcp.app import Gateway  # noqa: PLC0415  (a wrong configuration is told at once)
    from wicket_mcp.daemon.server import Daemon, level_logs  # noqa: PLC0415
    from wicket_mcp.process import collect_seldom, run_until_signalled  # noqa: PLC0415  (as above)

    level_logs(os.environ.get("WICKET_LOG") or config.log_level)
    for text in (*config.notes, config.untrusted):
        if text:
            log.warning("%s: %s", config.path, text)

    async def serve_clients(stop: asyncio.Event) -> None:
        async with Gateway.open(config) as gateway:
            gateway.attend()
            collect_seldom()
            await Daemon(gateway, listener, LOCK, stop).run()

    await run_until_signalled(serve_clients)


def _refuse(listener: socket.socket) -> None:
    """Reject all waiting shims."""
    with contextlib.suppress(OSError):
        while True:
            waiting, _ = listener.accept()
            waiting.sendall(b"!refused the daemon cannot serve\n")
            waiting.close()


if __name__ == "__main__":
    sys.exit(main())
