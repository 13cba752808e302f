"""The configuration of servers that mean harm (see tests/peers/hostile_peer.py)."""

import sys
from typing import Any

from tests.conftest import PEERS, Server


def hostile(name: str, **options: Any) -> Server:
    return {"command": sys.executable, "args": [str(PEERS / "hostile_peer.py"), name], **options}
