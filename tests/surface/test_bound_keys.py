"""What the holder of a key that is bound to a profile gets from every page, every form and the registry's API.

The addresses are taken from the tables of routes, so that a page which is added later is asked too.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.conftest import OpenGateway, peer
from tests.gateway.test_profiles import MARK, marked
from tests.registry.test_rest import api, weather
from tests.surface.test_dashboard import Visitor, visiting
from wicket_mcp import Gateway
from wicket_mcp.config.model.profile import ProfileConfig
from wicket_mcp.model import SCOPES
from wicket_mcp.store.model import AuditQuery
from wicket_mcp.surface.dashboard.actions import ACTIONS
from wicket_mcp.surface.dashboard.routes import ROUTES, Route
from wicket_mcp.surface.openapi import description

HIDDEN = f"{MARK}-box"
PROFILES = {"narrow": {"servers": ["echo"], "keys": ["mallory"]}, "wide": {"servers": ["*"], "clients": ["dash*"]}}
NAMES = (HIDDEN, HIDDEN.upper(), f"{HIDDEN}.{MARK}_1", f"{MARK}_1")
QUERIES = (
    "",
    "?q=open+the+safe",
    "?q=box&tool=of_another",
    f"?server={HIDDEN}",
    f"?principal=local&tool={MARK}_1",
    "?live=1",
)
FORM = {"arg.employee": "bob", "key TOKEN": "x", "server": HIDDEN, "kind": "tool", "name": f"{MARK}_1", "digest": "d"}
SCOPE_SETS = (frozenset({"discover", "invoke"}), SCOPES, frozenset({"invoke"}), frozenset({"register"}))


def addresses(routes: Iterable[Route], names: Sequence[str]) -> list[tuple[str, str]]:
    """Every route with every name, and with a name that nothing has in its place."""
    return [
        (f"/ui/{route.address.replace('*', name)}", f"/ui/{route.address.replace('*', strange(name))}")
        for route in routes
        for name in (names if "*" in route.address else ("",))
    ]


def strange(name: str) -> str:
    """A name of the same form that nothing has."""
    return name.replace(MARK, "qwqwq").replace(MARK.upper(), "QWQWQ")


def said_about(text: str, name: str) -> str:
    """A page without the name that was asked for, and without how long it took."""
    return re.sub(r"\d+(\.\d+)? ms", "", text.replace(name, "NAME"))


async def get_ready(gateway: Gateway, visitor: Visitor, scopes: Collection[str]) -> str:
    """The owner uses what is hidden; then the holder of a bound key signs in. Returns the anti-CSRF token."""
    await gateway.catalogue.complete()
    await gateway.call(f"{HIDDEN}.{MARK}_1")
    gateway.audit.flush()
    key, _ = await gateway.registry.keys.create("mallory", scopes)
    assert await visitor.sign_in(key) == 303
    return await visitor.csrf()


async def calls_of_hidden(gateway: Gateway) -> int:
    gateway.audit.flush()
    return len(await gateway.store.find_calls(AuditQuery(server=HIDDEN)))


@pytest.mark.parametrize("scopes", SCOPE_SETS, ids=lambda scopes: "+".join(sorted(scopes)))
async def test_no_page_shows_a_bound_key_what_its_profile_hides(
    open_gateway: OpenGateway, tmp_path: Path, scopes: frozenset[str]
) -> None:
    """W2, W13: nothing of a hidden server on any page, and a hidden name is answered like one that nothing has."""
    servers = {"echo": peer("Echo"), HIDDEN: marked(tmp_path)}
    async with open_gateway(servers, profiles=PROFILES) as gateway, visiting(gateway) as visitor:
        await get_ready(gateway, visitor, scopes)
        for hidden, unknown in addresses(ROUTES, NAMES):
            for query in QUERIES:
                status, text = await visitor.get(hidden + query)
                assert status < 500, hidden
                own = text
                for name in (*NAMES, HIDDEN):
                    own = own.replace(name, "") if name in hidden + query else own
                assert MARK not in own.lower(), f"{hidden}{query}"
                if hidden != unknown:
                    other, words = await visitor.get(unknown + query)
                    name = hidden.rpartition("/")[2]
                    assert (status, said_about(text, name)) == (other, said_about(words, strange(name)))
                    assert status in (403, 404)


@pytest.mark.parametrize("scopes", SCOPE_SETS, ids=lambda scopes: "+".join(sorted(scopes)))
async def test_no_form_lets_a_bound_key_do_what_its_profile_hides(
    open_gateway: OpenGateway, tmp_path: Path, scopes: frozenset[str]
) -> None:
    """W2: no call, no start or stop, no sign-in, no approval; and no answer that tells a hidden name from none."""
    servers = {"echo": peer("Echo"), HIDDEN: marked(tmp_path)}
    async with open_gateway(servers, profiles=PROFILES) as gateway, visiting(gateway) as visitor:
        csrf = await get_ready(gateway, visitor, scopes)
        before = await calls_of_hidden(gateway)
        running = gateway.pool.state(HIDDEN)
        for hidden, unknown in addresses(ACTIONS, NAMES):
            status, text = await visitor.post(hidden, None, csrf=csrf, **FORM)
            assert status in (403, 404), hidden
            other, words = await visitor.post(unknown, None, csrf=csrf, **FORM)
            for name in NAMES:
                text, words = said_about(text, name), said_about(words, strange(name))
            assert (status, text) == (other, words), hidden
        assert await calls_of_hidden(gateway) == before
        assert gateway.pool.state(HIDDEN) == running


async def test_a_bound_key_uses_on_the_pages_what_its_profile_shows(open_gateway: OpenGateway, tmp_path: Path) -> None:
    servers = {"echo": peer("Echo"), HIDDEN: marked(tmp_path)}
    async with open_gateway(servers, profiles=PROFILES) as gateway, visiting(gateway) as visitor:
        csrf = await get_ready(gateway, visitor, {"discover", "invoke"})
        assert "echo.echo" in (await visitor.get("/ui/tools"))[1]
        assert (await visitor.get("/ui/servers/echo"))[0] == 200
        status, text = await visitor.post("/ui/tools/echo.echo/call", None, csrf=csrf, **{"arg.message": "hello there"})
        assert (status, "hello there" in text) == (200, True)


async def test_a_key_that_is_bound_while_it_is_signed_in_is_bound_at_once(
    open_gateway: OpenGateway, tmp_path: Path
) -> None:
    """W2: the session of a browser keeps no rights of its own."""
    servers = {"echo": peer("Echo"), HIDDEN: marked(tmp_path)}
    async with open_gateway(servers) as gateway, visiting(gateway) as visitor:
        await get_ready(gateway, visitor, {"discover"})
        assert (await visitor.get(f"/ui/servers/{HIDDEN}"))[0] == 200
        profile = ProfileConfig(name="narrow", servers=("echo",), keys=("mallory",))
        gateway.apply(replace(gateway.config, profiles=(profile,)))
        assert (await visitor.get(f"/ui/servers/{HIDDEN}"))[0] == 404


async def test_the_registrys_api_tells_a_bound_key_nothing_of_hidden_servers(
    open_gateway: OpenGateway, tmp_path: Path
) -> None:
    """W2: how often a record's server is used here, and how well, is known only where the server is shown."""
    servers = {"echo": peer("Echo"), HIDDEN: marked(tmp_path)}
    record = {
        **weather(),
        "packages": [
            {"registryType": "npm", "identifier": "Mutates", "version": "1.0.0", "transport": {"type": "stdio"}}
        ],
    }
    fields = {"{serverName}": "io.github.ann%2Fweather", "{version}": "latest"}
    async with open_gateway(servers, profiles=PROFILES) as gateway, api(gateway) as client:
        assert (await client.ask("POST", "/v0.1/publish", record))[0] == 200
        await gateway.call(f"{HIDDEN}.{MARK}_1")
        gateway.audit.flush()
        key, _ = await gateway.registry.keys.create("mallory", SCOPES)
        asked: list[Any] = []
        for template, operations in description()["paths"].items():
            path = template
            for field, value in fields.items():
                path = path.replace(field, value)
            for method in (verb.upper() for verb in operations if verb in ("get", "post")):
                body = {**weather("2.0.0", "io.github.bob/other")} if method == "POST" else None
                status, _, answer = await client.ask(method, path, body, key=key)
                asked.append((method, path, status, answer))
        own = await client.get("/v0.1/servers/io.github.ann%2Fweather/versions/latest")
        assert own["server"]["version"] == "1.0.0"
    measured = "wicket/registry"
    assert own["_meta"][measured]["usage_count"] == 1
    assert len(asked) == 4
    [seen] = [answer["_meta"][measured] for _, _, _, answer in asked if measured in answer.get("_meta", {})]
    assert seen == {"health_score": None, "usage_count": 0}
    for method, path, status, answer in asked:
        assert status == 200, answer
        assert HIDDEN not in str(answer), (method, path)
