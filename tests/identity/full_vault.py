"""Uses a vault whose state file may not grow, then lets it grow again, and prints what came of it."""

import asyncio
import resource
import sys
from pathlib import Path

from wicket_mcp.config.model.config import Config
from wicket_mcp.errors import Internal
from wicket_mcp.identity.vault import Vault
from wicket_mcp.identity.wrapping import wrapping
from wicket_mcp.store.open import STATE_FILE, open_store


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")


async def main(folder: Path) -> None:
    path = folder / STATE_FILE
    store = await open_store(path)
    vault = Vault(store, wrapping(Config(state_dir=str(folder))))
    await vault.put("ann", "a", b"first")
    room = path.with_name(f"{path.name}-wal").stat().st_size
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, most))
    try:
        await vault.put("ann", "b", b"canary" * 20_000)
    except Internal as problem:
        say("refused:", problem)
    say("read:", _text(await vault.get("ann", "a")), await vault.get("ann", "b"))
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    await vault.put("ann", "b", b"third")
    say("read:", _text(await vault.get("ann", "a")), _text(await vault.get("ann", "b")))
    await store.close()


def _text(value: bytes | None) -> str:
    return "None" if value is None else value.decode()


asyncio.run(main(Path(sys.argv[1])))
