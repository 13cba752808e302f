"""The finder over a real gateway and a real store: what it reads, how often, and on which thread."""

import asyncio
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.conftest import PEERS, OpenGateway, replay

from wicket_mcp.model import LOCAL, Principal
from wicket_mcp.search.usage import Usage
from wicket_mcp.store.base import Store
from wicket_mcp.store.model import CallRecord
from wicket_mcp.store.open import open_store


async def test_ranking_runs_beside_the_event_loop_and_reads_a_server_s_secrets_once(
    open_gateway: OpenGateway, tmp_path: Path
) -> None:
    """The secret is a pipe: a read waits until this test, on the event loop, writes; a second one would never end."""
    secret = tmp_path / "token"
    secret.write_text("s3cret")
    server = {**replay("git"), "env": {"TOKEN": f"${{file:{secret}}}"}}
    async with open_gateway({"git": server}) as gateway, asyncio.timeout(30):
        await gateway.search("show the commit log")
        secret.unlink()
        os.mkfifo(secret)
        search = asyncio.ensure_future(gateway.search("show the commit log, the diff and the branches"))
        await asyncio.to_thread(secret.write_text, "s3cret")
        hits = await search
    assert len(hits) > 1
    assert {hit.tool.server for hit in hits} == {"git"}


async def test_a_server_whose_secret_has_gone_is_withheld_with_the_reason(
    open_gateway: OpenGateway, tmp_path: Path
) -> None:
    secret = tmp_path / "token"
    secret.write_text("s3cret")
    async with open_gateway({"git": {**replay("git"), "env": {"TOKEN": f"${{file:{secret}}}"}}}) as gateway:
        assert await gateway.search("show the commit log")
        secret.unlink()
        answer = await gateway.verbs.search("show the commit log")
    assert answer.hits == ()
    assert answer.withheld[0].reason == f"its server needs {secret} to be set"


async def test_a_key_that_each_user_gives_is_not_missed_in_the_environment(open_gateway: OpenGateway) -> None:
    command = {"command": sys.executable, "args": [str(PEERS / "key_server.py")], "cwd": str(Path.cwd())}
    ann = Principal("ann", LOCAL.scopes)
    async with open_gateway({"x": {**command, "required_keys": ["KEY"], "credentials": "user"}}) as gateway:
        await gateway.accounts.give(gateway.catalogue.server("x"), ann, {"KEY": "canary"})
        answer = await gateway.verbs.search("whose key is it", principal=ann)
    assert [hit.tool.key for hit in answer.hits] == ["x.whose"]
    assert answer.withheld == ()


class Reads:
    """The usage that a real store holds, and how often it was read."""

    def __init__(self, store: Store) -> None:
        self.store, self.number = store, 0

    async def __call__(self, principal: Principal) -> Mapping[str, int]:
        self.number += 1
        return await self.store.usage(principal)


def called(store: Store) -> None:
    store.record_call(CallRecord(1.0, LOCAL.name, "git", "git_log", "digest", "ok", 1.0, 1))


async def test_usage_is_read_once_while_it_is_fresh(state: Path) -> None:
    store = await open_store(state / "wicket.db")
    reads = Reads(store)
    usage = Usage(reads, fresh=3600)
    called(store)
    assert await usage.counts(LOCAL) == {"git.git_log": 1}
    called(store)
    assert await usage.counts(LOCAL) == {"git.git_log": 1}
    assert await usage.counts(Principal("other")) == {}
    assert reads.number == 2
    await usage.close()
    await store.close()


async def test_old_usage_is_used_once_more_while_it_is_read_again(state: Path) -> None:
    store = await open_store(state / "wicket.db")
    reads = Reads(store)
    usage = Usage(reads, fresh=0)
    assert await usage.counts(LOCAL) == {}
    called(store)
    assert await usage.counts(LOCAL) == {}, "nobody waits for the store"
    await usage.close()
    assert await usage.counts(LOCAL) == {"git.git_log": 1}
    await usage.close()
    assert reads.number == 3
    await store.close()
