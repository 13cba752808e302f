"""The registry's REST API: the official read API, publishing with a key, limits; and another Wicket that mirrors it."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from yarl import URL

from tests.conftest import OpenGateway
from tests.gateway.serving import TOKEN, serve_http
from wicket_mcp.app import Gateway
from wicket_mcp.codec import decode, encode
from wicket_mcp.model import LOCAL
from wicket_mcp.registry.mirror import Mirror
from wicket_mcp.upstream.egress import HttpClient

OFFICIAL = "io.modelcontextprotocol.registry/official"


class Api:
    """A bare HTTP client of the registry."""

    def __init__(self, session: aiohttp.ClientSession, origin: str) -> None:
        self._session = session
        self.origin = origin

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        key: str | None = TOKEN,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, Mapping[str, str], Any]:
        sent = {**({"Authorization": f"Bearer {key}"} if key else {}), **(headers or {})}
        data = body if isinstance(body, bytes | None) else encode(body)
        url = URL(f"{self.origin}{path}", encoded=True)
        async with self._session.request(method, url, data=data, headers=sent) as answer:
            return answer.status, answer.headers, decode(await answer.read())

    async def get(self, path: str, key: str | None = TOKEN) -> Any:
        status, _, body = await self.ask("GET", path, key=key)
        assert status == 200, body
        return body


@asynccontextmanager
async def api(gateway: Gateway) -> AsyncGenerator[Api]:
    async with serve_http(gateway) as address, aiohttp.ClientSession() as session:
        yield Api(session, address.removesuffix("/mcp"))


def weather(version: str = "1.0.0", name: str = "io.github.ann/weather") -> dict[str, Any]:
    return {"name": name, "description": "Weather forecasts", "version": version}


async def test_pages_follow_one_another_without_gap_or_repetition(open_gateway: OpenGateway) -> None:
    async with open_gateway({}) as gateway, api(gateway) as client:
        seen: list[str] = []
        cursor = ""
        while True:
            page = await client.get(f"/v0.1/servers?limit=30{f'&cursor={cursor}' if cursor else ''}")
            assert page["metadata"]["count"] == len(page["servers"]) > 0
            seen += [entry["server"]["name"] for entry in page["servers"]]
            cursor = page["metadata"].get("nextCursor", "")
            if not cursor:
                break
        assert len(seen) == len(set(seen)) == len((await gateway.registry.registry.index()).records)
        assert seen == sorted(seen)


async def test_search_finds_part_of_a_name(open_gateway: OpenGateway) -> None:
    async with open_gateway({}) as gateway, api(gateway) as client:
        found = await client.get("/v0.1/servers?search=FILESYS&version=latest")
        (entry,) = found["servers"]
        assert entry["server"]["name"] == "io.github.modelcontextprotocol/filesystem"
        about = entry["_meta"][OFFICIAL]
        assert (about["status"], about["isLatest"]) == ("active", True)


async def test_a_server_is_published_with_a_key_and_read_back(open_gateway: OpenGateway) -> None:
    async with open_gateway({}) as gateway, api(gateway) as client:
        key, _ = await gateway.registry.keys.create("ann", ["discover", "register"])
        for version in ("1.0.0", "1.1.0"):
            status, _, body = await client.ask("POST", "/v0.1/publish", weather(version), key)
            assert (status, body["server"]["version"]) == (200, version)
        encoded = "/v0.1/servers/io.github.ann%2Fweather/versions"
        versions = await client.get(encoded, key)
        assert [entry["server"]["version"] for entry in versions["servers"]] == ["1.1.0", "1.0.0"]
        assert (await client.get(f"{encoded}/latest"))["server"]["version"] == "1.1.0"
        assert (await client.get("/v0.1/servers/io.github.ann/weather/versions/1.0.0"))["server"] == weather("1.0.0")
        only = await client.get("/v0.1/servers?search=ann/weather&version=1.0.0")
        assert [entry["server"]["version"] for entry in only["servers"]] == ["1.0.0"]
        assert (await client.ask("POST", "/v0.1/publish", weather("1.0.0"), key))[0] == 409


async def test_updated_since_gives_what_changed(open_gateway: OpenGateway) -> None:
    async with open_gateway({}) as gateway, api(gateway) as client:
        await client.get("/v0.1/servers?limit=1")
        record = await gateway.registry.registry.publish(weather(), LOCAL)
        stamp = (await client.get("/v0.1/servers/io.github.ann%2Fweather/versions/1.0.0"))["_meta"][OFFICIAL][
            "updatedAt"
        ]
        found = await client.get(f"/v0.1/servers?updated_since={stamp}")
        assert record.name in [entry["server"]["name"] for entry in found["servers"]]
        later = await client.get("/v0.1/servers?updated_since=2100-01-01T00:00:00%2B02:00")
        assert later["servers"] == []


async def test_what_was_deleted_is_shown_to_those_who_ask_for_it_or_for_changes(open_gateway: OpenGateway) -> None:
    async with open_gateway({}) as gateway, api(gateway) as client:
        for version in ("1.0.0", "2.0.0"):
            await client.ask("POST", "/v0.1/publish", weather(version))
        versions = "/v0.1/servers/io.github.ann%2Fweather/versions"
        status, _, gone = await client.ask("DELETE", f"{versions}/2.0.0")
        assert (status, gone["_meta"][OFFICIAL]["status"]) == (200, "deleted")

        async def listed(path: str) -> list[str]:
            return [entry["server"]["version"] for entry in (await client.get(path))["servers"]]

        assert await listed("/v0.1/servers?search=ann/weather") == ["1.0.0"]
        assert await listed("/v0.1/servers?search=ann/weather&include_deleted=true") == ["1.0.0", "2.0.0"]
        assert "2.0.0" in await listed("/v0.1/servers?search=ann/weather&updated_since=2020-01-01T00:00:00Z")
        assert await listed(versions) == ["1.0.0"]
        assert await listed(f"{versions}?include_deleted=true") == ["2.0.0", "1.0.0"]
        assert (await client.ask("GET", f"{versions}/2.0.0"))[0] == 404
        assert (await client.get(f"{versions}/2.0.0?include_deleted=true"))["server"]["version"] == "2.0.0"
        assert (await client.get(f"{versions}/latest?include_deleted=true"))["server"]["version"] == "1.0.0"
        assert (await client.ask("GET", f"{versions}?include_deleted=perhaps"))[0] == 400


@pytest.mark.parametrize(
    "query",
    [
        *("limit=0", "limit=101", "limit=x", "limit=-1", "limit=1e1", "limit=", "limit=%D9%A1"),
        *("cursor=x", "cursor=!!", "cursor=W10", "cursor=WzEsMl0", "updated_since=yesterday"),
        *("updated_since=2026-01-01", "updated_since=2026-01-01T00:00:00", "updated_since=", "include_deleted=maybe"),
    ],
)
async def test_a_wrong_parameter_is_named(open_gateway: OpenGateway, query: str) -> None:
    async with open_gateway({}) as gateway, api(gateway) as client:
        status, _, body = await client.ask("GET", f"/v0.1/servers?{query}")
        assert status == 400
        assert query.partition("=")[0] in body["error"]


async def test_what_is_not_there_is_404_and_the_wrong_method_405(open_gateway: OpenGateway) -> None:
    async with open_gateway({}) as gateway, api(gateway) as client:
        for path in ("/v0.1/", "/v0.1/nothing", "/v0.1/servers/a%2Fb/versions", "/v0.1/servers/a%2Fb/versions/1/x"):
            assert (await client.ask("GET", path))[0] == 404
        missing = "/v0.1/servers/io.github.modelcontextprotocol%2Ffilesystem/versions/0.0.0"
        assert (await client.ask("GET", missing))[0] == 404
        for method, path, allowed in (
            ("POST", "/v0.1/servers", "GET"),
            ("PUT", "/v0.1/publish", "POST"),
            ("POST", missing, "GET, DELETE"),
            ("DELETE", "/openapi.json", "GET"),
        ):
            status, headers, _ = await client.ask(method, path)
            assert (status, headers["Allow"]) == (405, allowed)


async def test_keys_are_asked_for_and_their_scopes_hold(open_gateway: OpenGateway) -> None:
    async with open_gateway({}) as gateway, api(gateway) as client:
        reader, _ = await gateway.registry.keys.create("reader", ["discover"])
        writer, _ = await gateway.registry.keys.create("writer", ["register"])
        for path in ("/v0.1/servers", "/openapi.json", "/v0.1/publish"):
            assert (await client.ask("GET", path, key=None))[0] == 401
            assert (await client.ask("GET", path, key="wk_forged"))[0] == 401
        assert (await client.ask("POST", "/v0.1/publish", weather(), reader))[0] == 403
        assert (await client.ask("GET", "/v0.1/servers", key=writer))[0] == 403
        assert (
            await client.ask(
                "DELETE", "/v0.1/servers/io.github.modelcontextprotocol%2Ffetch/versions/latest", key=writer
            )
        )[0] == 403
        await gateway.registry.keys.revoke("reader")
        assert (await client.ask("GET", "/v0.1/servers", key=reader))[0] == 401


async def test_a_public_registry_is_read_by_everybody_and_written_by_few(open_gateway: OpenGateway) -> None:
    async with open_gateway({}, registry={"public": True}) as gateway, api(gateway) as client:
        assert (await client.get("/v0.1/servers?limit=1", key=None))["servers"]
        assert (await client.get("/openapi.json", key=None))["paths"]
        assert (await client.ask("POST", "/v0.1/publish", weather(), key=None))[0] == 401
        assert (await client.ask("GET", "/v0.1/servers", key="wk_forged"))[0] == 401
        assert (await client.ask("POST", "/mcp/bridge", {}, key=None))[0] == 401


async def test_over_the_limit_is_429_with_the_seconds_to_wait_and_a_restart_changes_nothing(
    open_gateway: OpenGateway,
) -> None:
    async with open_gateway({}) as gateway, api(gateway) as client:
        key, _ = await gateway.registry.keys.create("ann", ["discover"], rates={"discovery": 2})
        for _ in range(2):
            await client.get("/v0.1/servers?limit=1", key)
    async with open_gateway({}) as gateway, api(gateway) as client:
        status, headers, body = await client.ask("GET", "/v0.1/servers", key=key)
        assert status == 429
        assert 0 < int(headers["Retry-After"]) <= 1800
        assert body["error"].startswith("Rate limit exceeded: 2 discovery requests an hour.")


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b'{"name": 1}', b'"x"', b"\xff\xfe", b"[" * 5000])
async def test_a_body_that_is_no_record_is_refused(open_gateway: OpenGateway, body: bytes) -> None:
    async with open_gateway({}) as gateway, api(gateway) as client:
        assert (await client.ask("POST", "/v0.1/publish", body))[0] == 400


async def test_a_body_that_is_too_large_is_refused(open_gateway: OpenGateway) -> None:
    async with open_gateway({}) as gateway, api(gateway) as client:
        assert (await client.ask("POST", "/v0.1/publish", {**weather(), "x": "y" * 70_000}))[0] == 413


async def test_the_description_names_every_route(open_gateway: OpenGateway) -> None:
    async with open_gateway({}) as gateway, api(gateway) as client:
        document = await client.get("/openapi.json")
    assert set(document["paths"]) == {
        "/v0.1/servers",
        "/v0.1/servers/{serverName}/versions",
        "/v0.1/servers/{serverName}/versions/{version}",
        "/v0.1/publish",
    }


async def test_one_version_shows_what_was_measured_of_it(open_gateway: OpenGateway) -> None:
    async with open_gateway({}) as gateway, api(gateway) as client:
        entry = await client.get("/v0.1/servers/io.github.modelcontextprotocol%2Fgit/versions/latest")
        assert entry["_meta"]["wicket/registry"] == {"health_score": None, "usage_count": 0}


# Mirroring: one Wicket follows another


async def test_a_mirror_takes_over_what_is_new_changed_and_deleted(open_gateway: OpenGateway, tmp_path: Path) -> None:
    mine: dict[str, Any] = {"state_dir": str(tmp_path / "other"), "servers": {}}
    async with (
        AsyncExitStack() as stack,
        open_gateway({}) as source,
        api(source) as client,
        Gateway.open(mine) as gateway,
    ):
        key, _ = await source.registry.keys.create("mirror", ["discover"], rates={"discovery": 0})
        await source.registry.registry.publish(weather("1.0.0"), LOCAL)
        await gateway.registry.registry.publish(weather(name="io.github.me/own"), LOCAL)
        await source.registry.registry.publish({**weather(name="io.github.me/own"), "description": "Not mine"}, LOCAL)
        stack.push_async_callback((http := HttpClient()).close)
        mirror = Mirror(client.origin, gateway.registry.store, gateway.registry.store, http, key=key)

        first = await mirror.sync()
        assert (first.taken, first.refused) == (1, 0), "the seed is known here already"
        copy = await gateway.registry.registry.find("weather")
        assert (copy.origin, copy.owner, copy.version) == (client.origin, "", "1.0.0")
        assert (await gateway.registry.registry.find("own")).body["description"] == "Weather forecasts"

        assert (await mirror.sync()).taken == 0
        await source.registry.registry.publish(weather("2.0.0"), LOCAL)
        second = await mirror.sync()
        assert (second.taken, second.pages) == (2, 1), "the new version, and the one that is the latest no more"
        assert (await gateway.registry.registry.find("weather")).version == "2.0.0"

        await source.registry.registry.delete("io.github.ann/weather", "2.0.0", LOCAL)
        await mirror.sync()
        assert (await gateway.registry.registry.find("weather")).version == "1.0.0"


async def test_a_mirrored_name_cannot_be_taken_by_somebody_here(open_gateway: OpenGateway, tmp_path: Path) -> None:
    mine: dict[str, Any] = {"state_dir": str(tmp_path / "other"), "servers": {}, "http": {"port": 0}}
    async with (
        AsyncExitStack() as stack,
        open_gateway({}) as source,
        api(source) as origin,
        Gateway.open(mine) as gateway,
    ):
        await source.registry.registry.publish(weather(), LOCAL)
        stack.push_async_callback((http := HttpClient()).close)
        await Mirror(origin.origin, gateway.registry.store, gateway.registry.store, http, key=TOKEN).sync()
        async with api(gateway) as client:
            key, _ = await gateway.registry.keys.create("mallory", ["register"])
            assert (await client.ask("POST", "/v0.1/publish", weather("9.9.9"), key))[0] == 403
