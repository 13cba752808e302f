"""The pipeline over a scripted server: which layers a request passes, in which order, as its audit record says."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.unit.upstream.scripted import ScriptedServer
from wicket_mcp.calls.audit import Audit
from wicket_mcp.calls.cache import Cache
from wicket_mcp.calls.forward import Forward
from wicket_mcp.calls.limits import ServerBuckets
from wicket_mcp.calls.pipeline import Parts, Pipeline
from wicket_mcp.calls.task_ids import TaskIds
from wicket_mcp.catalog.addresses import Addresses
from wicket_mcp.catalog.catalogue import Catalogue
from wicket_mcp.catalog.listing import fingerprint
from wicket_mcp.config.model.config import Config
from wicket_mcp.errors import BadArguments, Denied, RateLimited, UnknownName
from wicket_mcp.identity.approver import Approver
from wicket_mcp.model import JsonObject, Listing, Principal, Silent, Tool
from wicket_mcp.request import Request, Result, Span, tool_call
from wicket_mcp.results.handles import Handles
from wicket_mcp.results.results import Results
from wicket_mcp.results.storage import ResultStorage
from wicket_mcp.sealing import Ring
from wicket_mcp.store.model import CallRecord, StoredListing
from wicket_mcp.store.open import open_store
from wicket_mcp.upstream.pool import Pool

RING = Ring([bytes(32)])
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
OFFERED = Listing(
    "x",
    capabilities={"completions": {}, "extensions": {"example.org/more": {}}},
    tools=(Tool("x", "act", {"name": "act", "inputSchema": SCHEMA}),),
    resources=({"uri": "file:///a", "name": "a"},),
    prompts=({"name": "greet"},),
)
USER = Silent(Principal("key 1", frozenset({"discover", "invoke"})))
OWNER = Silent()
PLAIN = ["audit", "resolve", "arguments", "forward", "server"]
"""The steps of a call that nothing in the configuration concerns."""


class Corridor:
    """One pipeline, with what it recorded and what reached the server."""

    def __init__(self, parts: Parts, server: ScriptedServer, records: list[CallRecord]) -> None:
        self.parts, self.records, self.server = parts, records, server
        self.pipeline = Pipeline(parts)

    @property
    def sent(self) -> list[tuple[str, str]]:
        return [entry for connection in self.server.connections for entry in connection.log]

    async def steps(self, request: Request) -> list[str]:
        await self.pipeline(request)
        return list(self.records[-1].steps)


@asynccontextmanager
async def open_corridor(folder: Path, *, admitted: int = 100, **options: Any) -> AsyncGenerator[Corridor]:
    config = Config.from_dict({"servers": {"x": {"command": "scripted", **options}}})
    server, records, asked = ScriptedServer(), list[CallRecord](), list[str]()
    pool = Pool(config.servers, on_event=lambda event: None, opener=server.open, max_message=2**20, max_call=30.0)
    store = await open_store(folder / "state.db")
    forward = Forward(pool)

    async def admit(principal: Principal, kind: str) -> None:
        asked.append(kind)
        if len(asked) > admitted:
            raise RateLimited("Too many requests.", retry_after=1.0)

    async def subscribe(request: Request) -> Result:
        return await forward(request)

    async def give_back(principal: Principal, kind: str) -> None:
        return None

    async def demand(request: Request) -> None:
        return None

    catalogue = Catalogue(config.servers, pool, forward, store, config.limits)
    try:
        await store.save_listing(StoredListing(OFFERED, fingerprint(config.servers[0])))
        await catalogue.load()
        yield Corridor(
            Parts(
                catalogue=catalogue,
                addresses=Addresses(catalogue),
                results=Results(ResultStorage(store), Handles(RING), config.results, lambda principal, key: True),
                audit=Audit(records.append),
                admit=admit,
                give_back=give_back,
                cache=Cache(),
                buckets=ServerBuckets(),
                approver=Approver(store),
                demand_account=demand,
                forward=forward,
                subscribe=subscribe,
                set_log_level=forward.set_log_level,
                task_ids=TaskIds(RING),
            ),
            server,
            records,
        )
    finally:
        await catalogue.close()
        await pool.close()
        await store.close()


def request(method: str, name: str, params: JsonObject, caller: Silent = USER) -> Request:
    return Request(method=method, caller=caller, params=params, name=name, span=Span())


async def test_a_call_passes_every_layer_once_in_the_documented_order(tmp_path: Path) -> None:
    async with open_corridor(tmp_path, cache={"act": "1m"}, calls_per_minute=60) as corridor:
        assert await corridor.steps(tool_call("x.act", {"n": 1}, USER)) == [
            "audit", "authorise", "resolve", "limit", "arguments", "cache", "limit of the server", "forward", "server"
        ]  # fmt: skip
        assert await corridor.steps(tool_call("x.act", {"n": 2}, OWNER)) == [
            "audit", "resolve", "arguments", "cache", "limit of the server", "forward", "server"
        ]  # fmt: skip
        assert [record.outcome for record in corridor.records] == ["ok", "ok"]


async def test_what_the_configuration_does_not_need_is_not_on_the_way(tmp_path: Path) -> None:
    async with open_corridor(tmp_path) as corridor:
        assert await corridor.steps(tool_call("x.act", {"n": 1}, OWNER)) == PLAIN


@pytest.mark.parametrize(
    ("method", "name", "params"),
    [
        ("tools/call", "x.act", {"arguments": {"n": 1}}),
        ("resources/read", "mcp://x/file:///a", {"uri": "mcp://x/file:///a"}),
        ("resources/subscribe", "mcp://x/file:///a", {"uri": "mcp://x/file:///a"}),
        ("resources/directory/read", "mcp://x/file:///a", {"uri": "mcp://x/file:///a"}),
        ("prompts/get", "x/greet", {"name": "x/greet"}),
        (
            "completion/complete",
            "x/greet",
            {"ref": {"type": "ref/prompt", "name": "x/greet"}, "argument": {"name": "a", "value": "b"}},
        ),
    ],
)
async def test_every_kind_of_request_passes_the_same_corridor(
    tmp_path: Path, method: str, name: str, params: JsonObject
) -> None:
    async with open_corridor(tmp_path) as corridor:
        steps = await corridor.steps(request(method, name, params))
        assert steps[:4] == ["audit", "authorise", "resolve", "limit"]
        assert len(steps) == len(set(steps))
        assert [sent for sent, _ in corridor.sent] == [method]
        assert [(record.method, record.server, record.outcome) for record in corridor.records] == [(method, "x", "ok")]

    async with open_corridor(tmp_path) as corridor:
        stranger = Silent(Principal("stranger", frozenset()))
        with pytest.raises(Denied):
            await corridor.pipeline(request(method, name, params, stranger))
        assert corridor.sent == []
        assert [(record.method, record.principal, record.outcome) for record in corridor.records] == [
            (method, "stranger", "denied")
        ]


async def test_what_a_layer_refuses_reaches_none_of_those_within(tmp_path: Path) -> None:
    async with open_corridor(tmp_path, admitted=2) as corridor:
        for call, problem, outcome in (
            (tool_call("x.atc", {"n": 1}, USER), UnknownName, "unknown_name"),
            (tool_call("x.act", {"n": "one"}, USER), BadArguments, "bad_arguments"),
            (tool_call("x.act", {"n": 1}, USER), None, "ok"),
            (tool_call("x.act", {"n": 1}, USER), RateLimited, "rate_limited"),
        ):
            if problem is None:
                await corridor.pipeline(call)
            else:
                with pytest.raises(problem):
                    await corridor.pipeline(call)
            assert corridor.records[-1].outcome == outcome
        assert corridor.sent == [("tools/call", "act")]


async def test_the_layers_of_a_server_are_built_again_only_if_its_configuration_is_another(tmp_path: Path) -> None:
    async with open_corridor(tmp_path) as corridor:
        catalogue = corridor.parts.catalogue
        assert await corridor.steps(tool_call("x.act", {"n": 1}, OWNER)) == PLAIN
        limited = replace(catalogue.servers["x"], calls_per_minute=1)
        catalogue.swap([limited], {}, Config.from_dict({}).limits)
        assert "limit of the server" in await corridor.steps(tool_call("x.act", {"n": 1}, OWNER))
        with pytest.raises(RateLimited):
            await corridor.pipeline(tool_call("x.act", {"n": 1}, OWNER))
