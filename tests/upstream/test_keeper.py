"""The process that ends what servers leave behind: one while servers run, none after the gateway has closed."""

import asyncio
import os
from pathlib import Path

from wicket_mcp.upstream.keeper import Keeper


def children() -> set[int]:
    return {int(number) for number in Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()}


async def test_a_server_whose_end_is_noticed_after_the_close_starts_nothing() -> None:
    keeper = Keeper()
    server = await asyncio.create_subprocess_exec("sleep", "600", process_group=0)
    keeper.add(server.pid)
    keeper.kill(server.pid)
    await server.wait()
    await keeper.close()
    before = children()
    keeper.drop(server.pid)
    keeper.add(server.pid)
    assert children() == before
