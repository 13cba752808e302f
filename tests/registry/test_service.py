"""Publishing, finding and deleting records, and who may do so."""

from typing import Any

import pytest

from tests.peers.dns_server import Names
from tests.registry.conftest import Clock, OpenFacade
from wicket_mcp.errors import BadArguments, Denied, UnknownName
from wicket_mcp.model import LOCAL, Principal
from wicket_mcp.registry import server_json
from wicket_mcp.registry.service import Taken
from wicket_mcp.store.model import RecordQuery

ANN = Principal("ann", frozenset({"discover", "register"}))
BOB = Principal("bob", frozenset({"discover", "register"}))


def weather(version: str = "1.0.0", **fields: Any) -> dict[str, Any]:
    body = {"name": "io.github.ann/weather", "description": "Weather forecasts", "version": version}
    return {**body, **fields}


async def test_a_published_server_is_found_by_id_name_and_title(open_facade: OpenFacade) -> None:
    registry = (await open_facade()).registry
    await registry.publish(weather(title="Weather of the World"), ANN)
    for name in ("weather", "io.github.ann/weather", "weather of the world", "WEATHER"):
        assert (await registry.find(name)).owner == "ann"


async def test_a_name_that_is_near_is_named_when_there_is_none(open_facade: OpenFacade) -> None:
    registry = (await open_facade()).registry
    with pytest.raises(UnknownName, match="'filesystem'"):
        await registry.find("filesytem")


async def test_the_latest_version_is_the_highest_and_not_the_last_published(
    open_facade: OpenFacade, clock: Clock
) -> None:
    registry = (await open_facade()).registry
    for version in ("1.2.0", "1.10.0", "1.9.9", "2.0.0-beta.2", "2.0.0-beta.11"):
        clock.now += 1
        await registry.publish(weather(version), ANN)
    assert (await registry.version("io.github.ann/weather", "latest")).version == "2.0.0-beta.11"
    await registry.publish(weather("2.0.0"), ANN)
    assert (await registry.version("io.github.ann/weather", "latest")).version == "2.0.0"
    newest_first = [record.version for record in await registry.versions("io.github.ann/weather")]
    assert newest_first[:2] == ["2.0.0", "2.0.0-beta.11"]


async def test_a_version_is_published_once(open_facade: OpenFacade) -> None:
    registry = (await open_facade()).registry
    await registry.publish(weather(), ANN)
    with pytest.raises(Taken, match="already published"):
        await registry.publish(weather(description="Changed afterwards"), ANN)


@pytest.mark.promise("V15", "An account belongs to its first publisher, in any spelling.")
async def test_v15_nobody_publishes_beside_somebody_else_under_one_account(open_facade: OpenFacade) -> None:
    registry = (await open_facade()).registry
    await registry.publish(weather(), ANN)
    for name in ("io.github.ann/tides", "io.github.Ann/weather", "io.github.ANN/x"):
        with pytest.raises(Denied, match="belongs to somebody else"):
            await registry.publish(weather(name=name), BOB)
    await registry.publish(weather(name="io.github.ann/tides"), ANN)
    await registry.publish(weather(name="io.github.anna/weather"), BOB)


async def test_nobody_publishes_under_the_name_of_somebody_else(open_facade: OpenFacade) -> None:
    registry = (await open_facade()).registry
    await registry.publish(weather(), ANN)
    with pytest.raises(Denied, match="belongs to somebody else"):
        await registry.publish(weather("9.9.9"), BOB)
    with pytest.raises(Denied, match="belongs to somebody else"):
        await registry.publish({**weather(), "name": "io.github.modelcontextprotocol/filesystem"}, BOB)
    await registry.publish(weather("9.9.9"), LOCAL)


async def test_a_domain_must_be_proved_before_its_name_is_used(open_facade: OpenFacade, names: Names) -> None:
    facade = await open_facade(registry={"resolvers": [names.address]})
    body = {**weather(), "name": "com.example.tools/weather"}
    with pytest.raises(Denied, match="verify_domain with 'tools.example.com'"):
        await facade.registry.publish(body, ANN)
    claim = await facade.domains.begin("example.com", ANN)
    names.zone.records["_wicket.example.com"] = [f"wicket-verify={claim.token}"]
    await facade.domains.check("example.com", ANN)
    assert (await facade.registry.publish(body, ANN)).name == "com.example.tools/weather"
    with pytest.raises(Denied):
        await facade.registry.publish({**weather(), "name": "com.other/weather"}, ANN)


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"name": "no-slash"}, "name"),
        ({"name": "a/b/c"}, "name"),
        ({"description": ""}, "description"),
        ({"description": "x" * 101}, "description"),
        ({"version": "^1.0.0"}, "one version"),
        ({"version": "latest"}, "one version"),
        ({"packages": [{"registryType": "npm", "identifier": "x"}]}, "transport"),
        ({"remotes": [{"type": "streamable-http", "url": "ftp://x"}]}, "url"),
        (
            {
                "packages": [
                    {"registryType": "npm", "identifier": "x", "transport": {"type": "stdio"}, "version": "1.x"}
                ]
            },
            "1.x",
        ),
    ],
)
async def test_a_malformed_record_is_refused_and_the_field_named(
    open_facade: OpenFacade, wrong: dict[str, Any], field: str
) -> None:
    with pytest.raises(BadArguments, match=field):
        await (await open_facade()).registry.publish({**weather(), **wrong}, ANN)


async def test_deleting_the_latest_version_leaves_the_one_before_as_latest(open_facade: OpenFacade) -> None:
    registry = (await open_facade()).registry
    await registry.publish(weather("1.0.0"), ANN)
    await registry.publish(weather("1.1.0"), ANN)
    with pytest.raises(Denied):
        await registry.delete("io.github.ann/weather", "1.1.0", BOB)
    await registry.delete("io.github.ann/weather", "1.1.0", ANN)
    assert (await registry.version("io.github.ann/weather", "latest")).version == "1.0.0"
    await registry.delete("io.github.ann/weather", "1.0.0", ANN)
    with pytest.raises(UnknownName):
        await registry.find("weather")
    gone = await registry.page(RecordQuery(search="ann/weather", include_deleted=True))
    assert [record.status for record in gone] == ["deleted", "deleted"]


async def test_a_deleted_seed_record_stays_deleted_after_a_restart(open_facade: OpenFacade) -> None:
    first = (await open_facade()).registry
    fetch = await first.find("fetch")
    await first.delete(fetch.name, fetch.version, LOCAL)
    with pytest.raises(UnknownName):
        await (await open_facade()).registry.find("io.github.modelcontextprotocol/fetch")


async def test_the_seed_describes_real_packages_and_is_well_formed(open_facade: OpenFacade) -> None:
    index = await (await open_facade()).registry.index()
    assert len(index.records) >= 70
    packages = [
        {kind for kind in ("npm", "pypi") if server_json.package(record.body, kind)}
        for record in index.records.values()
    ]
    assert all(packages)
    assert set[str]().union(*packages) == {"npm", "pypi"}
    for record in index.records.values():
        server_json.check(record.body)
        assert server_json.category(record.body)
        assert server_json.tools(record.body)


async def test_two_servers_of_one_short_name_are_told_apart(open_facade: OpenFacade) -> None:
    registry = (await open_facade()).registry
    await registry.publish(weather(), ANN)
    await registry.publish({**weather(), "name": "io.github.bob/weather"}, BOB)
    index = await registry.index()
    assert index.ids["io.github.ann/weather"] == "io.github.ann/weather"
    assert index.ids["io.github.bob/weather"] == "io.github.bob/weather"


async def test_registering_again_changes_ones_own_registration(open_facade: OpenFacade) -> None:
    registry = (await open_facade()).registry
    told = server_json.Registration("Mine", "First words.", "https://github.com/ann/mine", "productivity", ("a",))
    await registry.publish(server_json.from_registration(told, ""), ANN, origin="registered")
    again = server_json.Registration("Mine", "Other words.", "https://github.com/ann/mine", "productivity", ("b",))
    await registry.publish(server_json.from_registration(again, ""), ANN, origin="registered")
    record = await registry.find("mine")
    assert server_json.long_description(record.body) == "Other words."
    assert server_json.tags(record.body) == ("b",)


@pytest.mark.parametrize(
    "url", ["http://github.com/a/b", "https://github.com/a", "github.com/a/b", "https://", "file:///x"]
)
def test_a_repository_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(BadArguments, match="repository"):
        server_json.from_registration(server_json.Registration("n", "d", url, "c", ()), "")
