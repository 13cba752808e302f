"""Ports of this machine for servers that tests start."""

import secrets
import socket
from pathlib import Path

_LOWEST = 20_000


def free_port() -> int:
    """A port below those that the kernel gives to connections: on a busy machine one of these would often be taken
    again before our server listens.
    """
    highest, _ = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    while True:
        port = _LOWEST + secrets.randbelow(highest - _LOWEST)
        with socket.socket() as listener:
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
