"""What the pipeline keeps of servers."""

import asyncio
import gc

from tests.conftest import OpenGateway, peer
from wicket_mcp.app import read_config
from wicket_mcp.config.model.config import ServerConfig


async def test_servers_that_are_gone_leave_no_layers_behind(open_gateway: OpenGateway) -> None:
    """B22: the pipeline kept the layers of every server that was ever called."""
    async with open_gateway({"x": peer("Echo")}, allow_runtime_servers=True) as gateway:
        managed = gateway.registry.managed
        for name in ("gone-0", "gone-1", "gone-2"):
            await managed.register(read_config({"servers": {name: peer("Echo")}}).servers[0], gateway.principal)
            await gateway.call(f"{name}.echo", {"message": "y"})

        def held() -> set[str]:
            gc.collect()
            configs = [thing for thing in gc.get_objects() if isinstance(thing, ServerConfig)]
            return {config.name for config in configs if config.name.startswith("gone")}

        assert held() == {"gone-0", "gone-1", "gone-2"}
        for name in sorted(held()):
            await managed.deregister(name)
        await gateway.call("x.echo", {"message": "y"})  # for the first time: its layers are built
        async with asyncio.timeout(20):
            while held():
                await asyncio.to_thread(gc.collect)
