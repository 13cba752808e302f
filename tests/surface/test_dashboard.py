"""The dashboard over plain HTTP: who gets in, what a form may do, what every page promises a browser."""

import asyncio
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from tests.conftest import OpenGateway, peer
from tests.gateway.serving import TOKEN, serve_http, toml_of
from tests.reliability.callers import person
from tests.reliability.hostile import hostile
from tests.surface.loaded import modules_of_a_served_gateway
from wicket_mcp import Gateway
from wicket_mcp.errors import Crashed
from wicket_mcp.identity.pages import find_cookie
from wicket_mcp.observing import look_here, source_of
from wicket_mcp.request import tool_call
from wicket_mcp.sealing import Ring
from wicket_mcp.store.model import AuditQuery, StoredGrant
from wicket_mcp.surface.dashboard.lazy import LazyDashboard
from wicket_mcp.surface.dashboard.links import LINK_LIFETIME, sign_link
from wicket_mcp.surface.dashboard.mount import Dashboard
from wicket_mcp.surface.dashboard.render import PAGES
from wicket_mcp.surface.dashboard.sessions import UiSessions


class Visitor:
    """A browser without script."""

    def __init__(self, session: aiohttp.ClientSession, root: str) -> None:
        self.session = session
        self.root = root
        self.headers: Mapping[str, str] = {}

    async def get(self, path: str) -> tuple[int, str]:
        async with self.session.get(self.root + path, allow_redirects=False) as answer:
            self.headers = answer.headers
            return answer.status, await answer.text()

    async def post(self, path: str, headers: Mapping[str, str] | None = None, **form: str) -> tuple[int, str]:
        address = self.root + path
        async with self.session.post(address, data=form, headers=headers, allow_redirects=False) as answer:
            self.headers = answer.headers
            return answer.status, await answer.text()

    async def sign_in(self, token: str = TOKEN) -> int:
        return (await self.post("/ui/sign-in", token=token))[0]

    async def csrf(self) -> str:
        found = re.search('name="csrf" value="([^"]+)"', (await self.get("/ui"))[1])
        assert found is not None
        return found[1]


@asynccontextmanager
async def visiting(gateway: Gateway, token: str | None = TOKEN) -> AsyncGenerator[Visitor]:
    async with serve_http(gateway, token=token) as address:
        jar = aiohttp.CookieJar(unsafe=True)
        async with aiohttp.ClientSession(cookie_jar=jar) as session:
            yield Visitor(session, address.removesuffix("/mcp"))


@pytest.mark.parametrize("page", ["/ui", *(f"/ui/{name}" for name in PAGES), "/ui/servers/echo", "/ui/tools/echo.echo"])
async def test_a_stranger_sees_the_sign_in_and_nothing_else(open_gateway: OpenGateway, page: str) -> None:
    async with open_gateway({"echo": peer("Echo")}) as gateway, visiting(gateway) as visitor:
        status, text = await visitor.get(page)
        assert status == 200
        assert "Sign in" in text
        assert "echo" not in text


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("ours=1", "1"),
        (" other=2;ours = 1 ;another", "1"),
        ("ours=a=b=; other=2", "a=b="),
        ("ours=1; ours=2", "2"),
        ('other="' + "\\1" * 20_000 + '"; ours=1', "1"),
        ("; " * 20_000 + "ours=1", "1"),
        ("=" * 20_000 + ";ours=1", "1"),
        ("ours=" + "x" * 4096, "x" * 4096),
        ("ours=" + "x" * 4097, ""),
        ("hours=1; ours2=2; OURS=3", ""),
        ("ours", ""),
        ("", ""),
    ],
)
def test_of_a_browsers_cookies_only_ours_is_read(header: str, value: str) -> None:
    assert find_cookie(header, "ours") == value


async def test_a_visitor_with_other_cookies_stays_signed_in(open_gateway: OpenGateway) -> None:
    async with open_gateway({}) as gateway, visiting(gateway) as visitor:
        await visitor.sign_in()
        [ours] = [f"{cookie.key}={cookie.value}" for cookie in visitor.session.cookie_jar]
        visitor.session.cookie_jar.clear()
        for others in ("a=b", 'a="' + "\\1" * 200 + '"', "[]{}()<>@,:/?=1", "a=\xe9"):
            header = {"Cookie": f"{others}; {ours}; z"}
            async with visitor.session.get(visitor.root + "/ui/servers", headers=header) as answer:
                assert "Sign out" in await answer.text(), others


async def test_more_fields_than_any_page_has_are_refused(open_gateway: OpenGateway) -> None:
    async with open_gateway({}) as gateway, visiting(gateway) as visitor:
        status, text = await visitor.get(f"/ui?{'&'.join(f'a{number}=1' for number in range(51))}")
        assert (status, "Send at most 50" in text) == (400, True)
        status, text = await visitor.post("/ui/sign-in", None, **{f"a{number}": "1" for number in range(201)})
        assert (status, "Send at most 200" in text) == (400, True)


async def test_the_token_opens_every_page_and_each_forbids_what_could_hurt(open_gateway: OpenGateway) -> None:
    async with open_gateway({"echo": peer("Echo")}) as gateway, visiting(gateway) as visitor:
        await gateway.call("echo.echo", {"message": "hello"})
        assert await visitor.sign_in("wrong") == 401
        assert await visitor.sign_in() == 303
        cookie = visitor.headers["Set-Cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert TOKEN not in cookie
        for page in ("/ui", *(f"/ui/{name}" for name in PAGES), "/ui/servers/echo", "/ui/tools/echo.echo"):
            status, text = await visitor.get(page)
            assert status == 200, page
            assert "echo" in text or page in ("/ui/approvals", "/ui/settings", "/ui/search", "/ui/access"), page
            policy = visitor.headers["Content-Security-Policy"]
            assert "script-src 'self'" in policy
            assert "unsafe" not in policy
            assert visitor.headers["Cache-Control"] == "no-store"
            assert not re.search(r"<script(?! src=)|\son\w+=|style=", text), page
            assert TOKEN not in text
        assert (await visitor.get("/ui/nothing"))[0] == 404
        assert (await visitor.get("/ui/static/../pages.py"))[0] == 404


async def test_a_tool_is_called_with_a_form(open_gateway: OpenGateway) -> None:
    async with open_gateway({"echo": peer("Echo")}) as gateway, visiting(gateway) as visitor:
        await gateway.call("echo.pid")
        await visitor.sign_in()
        csrf = await visitor.csrf()
        status, text = await visitor.post("/ui/tools/echo.echo/call", None, csrf=csrf, **{"arg.message": "from a form"})
        assert status == 200
        assert "from a form</pre>" in text
        _, text = await visitor.post("/ui/tools/echo.big/call", None, csrf=csrf, **{"arg.rows": "many"})
        assert "is not JSON" in text
        (record,) = await gateway.store.find_calls(AuditQuery(tool="echo"))
        assert (record.client, record.outcome) == ("dashboard", "ok")


@pytest.mark.parametrize("path", ["/ui/tools/echo.echo/call", "/ui/servers/echo/stop", "/ui/access/keys/ci/revoke"])
async def test_no_change_without_the_sessions_own_form(open_gateway: OpenGateway, path: str) -> None:
    async with open_gateway({"echo": peer("Echo")}) as gateway, visiting(gateway) as visitor:
        await gateway.registry.keys.create("ci", {"discover"})
        await gateway.call("echo.pid")
        before = await gateway.store.find_calls(AuditQuery(server="echo"))
        await visitor.sign_in()
        csrf = await visitor.csrf()
        assert (await visitor.post(path))[0] == 403
        assert (await visitor.post(path, csrf="wrong"))[0] == 403
        elsewhere = {"Origin": "http://127.0.0.1:9"}
        assert (await visitor.post(path, elsewhere, csrf=csrf))[0] == 403
        assert (await visitor.post(path, {"Sec-Fetch-Site": "same-site"}, csrf=csrf))[0] == 403
        assert (await visitor.get(path))[0] == 404
        assert await gateway.store.find_calls(AuditQuery(server="echo")) == before
        assert [key.revoked_at for key in await gateway.registry.keys.list()] == [None]
        assert gateway.pool.state("echo")[0] == "ready"


async def test_a_server_is_stopped_and_started_and_a_key_revoked(open_gateway: OpenGateway) -> None:
    async with open_gateway({"echo": peer("Echo")}) as gateway, visiting(gateway) as visitor:
        key, _ = await gateway.registry.keys.create("ci", {"discover"})
        await gateway.call("echo.pid")
        await visitor.sign_in()
        csrf = await visitor.csrf()
        assert (await visitor.post("/ui/servers/echo/stop", csrf=csrf))[0] == 303
        assert gateway.pool.state("echo")[0] == "idle"
        assert (await visitor.post("/ui/servers/echo/start", csrf=csrf))[0] == 303
        assert gateway.pool.state("echo")[0] == "ready"
        assert (await visitor.post("/ui/access/keys/ci/revoke", csrf=csrf))[0] == 303
        assert await gateway.registry.keys.principal(key) is None
        acts = {record.tool for record in await gateway.store.find_calls(AuditQuery(method="admin"))}
        assert {"stop server", "start server", "revoke key", "sign in to the dashboard"} <= acts


async def test_a_server_is_disabled_and_enabled_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "wicket.toml"
    file.write_text(f"# kept\nstate_dir = '{tmp_path / 'state'}'\n[http]\nport = 0\n{toml_of({'echo': peer('Echo')})}")
    async with Gateway.open(file) as gateway, visiting(gateway) as visitor:
        await visitor.sign_in()
        csrf = await visitor.csrf()
        assert (await visitor.post("/ui/servers/nothing/disable", csrf=csrf))[0] == 404
        assert (await visitor.post("/ui/servers/echo/disable", csrf=csrf))[0] == 303
        assert not gateway.catalogue.servers
        assert "# kept" in file.read_text()
        _, text = await visitor.get("/ui/servers")
        assert "Enable echo" in text
        assert (await visitor.post("/ui/servers/echo/enable", csrf=csrf))[0] == 303
        assert (await gateway.call("echo.echo", {"message": "back"}))["content"]
        assert "Enable echo" not in (await visitor.get("/ui/servers"))[1]
        acts = {record.tool for record in await gateway.store.find_calls(AuditQuery(method="admin"))}
        assert {"disable server", "enable server"} <= acts


async def test_the_settings_say_where_each_value_comes_from(tmp_path: Path) -> None:
    file = tmp_path / "wicket.toml"
    file.write_text(f"state_dir = '{tmp_path / 'state'}'\n\n[http]\nport = 0 # any\n\n[limits]\nmax_call = '2h'\n")
    async with Gateway.open(file) as gateway, visiting(gateway) as visitor:
        await visitor.sign_in()
        _, text = await visitor.get("/ui/settings")
        rows = re.findall(r'<td class="mono">(\w+)</td>.*?<span class="tag[^"]*">([^<]+)<', text)
        assert dict(rows).items() >= {("state_dir", "wicket.toml, line 1"), ("max_call", "wicket.toml, line 7")}
        assert ("port", "wicket.toml, line 4") in rows
        assert ("log_level", "default") in rows


async def test_a_session_is_known_to_every_replica_and_to_nobody_else(open_gateway: OpenGateway) -> None:
    ring = Ring([b"k" * 32])
    async with open_gateway({}) as first, open_gateway({}) as second:
        here, there = UiSessions(first.store, ring=ring), UiSessions(second.store, ring=ring)
        session = here.begin("the token")
        assert "the token" not in session.id
        known = await there.find(session.id)
        assert known is not None
        assert (known.token, known.csrf) == ("the token", session.csrf)
        assert await UiSessions(first.store, ring=Ring([b"x" * 32])).find(session.id) is None
        assert await UiSessions(first.store).find(session.id) is None
        assert await there.find(session.id[:-2]) is None
        await there.end(session.id)
        assert [await each.find(session.id) for each in (here, there)] == [None, None]
        code = sign_link("secret", "here:1")
        assert [await each.take_link(code, "secret", "here:1") for each in (here, there)] == [True, False]


async def test_the_last_words_of_a_server_are_for_administrators(open_gateway: OpenGateway) -> None:
    async with open_gateway({"mortal": peer("DiesMidCall")}) as gateway, visiting(gateway) as visitor:
        await gateway.call("mortal.pid")
        with pytest.raises(Crashed):
            await gateway.call("mortal.slow")
        key, _ = await gateway.registry.keys.create("ann", {"discover", "invoke"})
        await visitor.sign_in(key)
        assert "natural causes</pre>" not in (await visitor.get("/ui/servers/mortal"))[1]
        await visitor.sign_in()
        assert "natural causes</pre>" in (await visitor.get("/ui/servers/mortal"))[1]


async def test_a_servers_words_that_belong_to_no_call_are_for_administrators(open_gateway: OpenGateway) -> None:
    async with open_gateway({"x": hostile("TalksLater")}) as gateway, visiting(gateway) as visitor:
        for name in ("first", "second"):
            await gateway.verbs.call(tool_call("x.slow", {}, person(name)))
        key, _ = await gateway.registry.keys.create("second", ["discover", "invoke"])
        await visitor.sign_in()
        while "row of the first principal" not in (await visitor.get("/ui/activity"))[1]:
            pass  # it is being recorded; the test's own time limit is the deadline
        assert "server x" in (await visitor.get("/ui/activity"))[1]
        await visitor.sign_in(key)
        assert "row of the first principal" not in (await visitor.get("/ui/activity"))[1]


async def test_without_admin_somebody_sees_their_own_alone(open_gateway: OpenGateway) -> None:
    async with open_gateway({"echo": peer("Echo")}) as gateway, visiting(gateway) as visitor:
        key, _ = await gateway.registry.keys.create("ann", {"discover", "invoke"})
        await gateway.registry.keys.create("bob", {"discover"})
        await gateway.call("echo.fails")
        await visitor.sign_in(key)
        csrf = await visitor.csrf()
        await visitor.post("/ui/tools/echo.echo/call", None, csrf=csrf, **{"arg.message": "mine"})
        _, text = await visitor.get("/ui/activity?principal=local")
        assert "echo.</span>echo" in text
        assert "fails" not in text
        assert "bob" not in (await visitor.get("/ui/access"))[1]
        assert (await visitor.get("/ui/settings"))[0] == 403
        assert (await visitor.get("/ui/approvals"))[0] == 403
        assert (await visitor.post("/ui/servers/echo/stop", csrf=csrf))[0] == 403
        assert (await visitor.post("/ui/access/keys/bob/revoke", csrf=csrf))[0] == 403
        await gateway.registry.keys.revoke("ann")
        assert "Sign in" in (await visitor.get("/ui"))[1]


async def test_signing_out_ends_the_session(open_gateway: OpenGateway) -> None:
    async with open_gateway({"echo": peer("Echo")}) as gateway, visiting(gateway) as visitor:
        await visitor.sign_in()
        cookies = {cookie.key: cookie.value for cookie in visitor.session.cookie_jar}
        await visitor.post("/ui/sign-out", csrf=await visitor.csrf())
        visitor.session.cookie_jar.update_cookies(cookies)
        assert "Sign in" in (await visitor.get("/ui"))[1]


async def test_a_link_opens_the_dashboard_once(open_gateway: OpenGateway) -> None:
    async with open_gateway({"echo": peer("Echo")}) as gateway, visiting(gateway) as visitor:
        place = visitor.root.removeprefix("http://")
        link = f"/ui/sign-in?code={sign_link(TOKEN, place)}"
        status, page = await visitor.get(link)
        assert (status, 'content="0;url=/ui"' in page) == (200, True)
        assert "Overview" in (await visitor.get("/ui"))[1]
        visitor.session.cookie_jar.clear()
        assert (await visitor.get(link))[0] == 401
        assert (await visitor.get(f"/ui/sign-in?code={sign_link('another token', place)}"))[0] == 401
        for elsewhere in ("127.0.0.1:1", place.replace("127.0.0.1", "127.0.0.2"), ""):
            assert (await visitor.get(f"/ui/sign-in?code={sign_link(TOKEN, elsewhere)}"))[0] == 401, elsewhere


async def test_a_link_is_good_for_a_minute(open_gateway: OpenGateway) -> None:
    now = 1000.0
    async with open_gateway({}) as gateway:
        sessions = UiSessions(gateway.store, lambda: now)
        code = sign_link("secret", "here:1", now)
        now += LINK_LIFETIME + 1
        assert not await sessions.take_link(code, "secret", "here:1")
        now -= 2
        assert await sessions.take_link(code, "secret", "here:1")
        assert not await sessions.take_link(code, "secret", "here:1")


async def test_a_hung_server_slows_no_page(open_gateway: OpenGateway) -> None:
    servers = {"hung": peer("NeverAnswers", connect_timeout=60), "echo": peer("Echo")}
    async with open_gateway(servers) as gateway, visiting(gateway) as visitor:
        hanging = gateway.tasks.start(gateway.pool.start("hung"), "hang", awaited=True)
        await visitor.sign_in()
        for name in PAGES:
            assert (await visitor.get("/ui" if name == "overview" else f"/ui/{name}"))[0] == 200
        assert not hanging.done()
        hanging.cancel()


def test_a_gateway_is_ready_before_its_dashboard_is_loaded_and_loads_it_before_it_is_opened() -> None:
    pages = "wicket_mcp.surface.dashboard.pages"
    ready, later = modules_of_a_served_gateway(until="jinja2")
    assert not {"jinja2", pages} & ready
    assert {"jinja2", pages} <= later


async def test_a_visitor_who_leaves_does_not_stop_the_dashboard_from_being_loaded_for_another(
    open_gateway: OpenGateway,
) -> None:
    async with open_gateway({"echo": peer("Echo")}) as gateway:
        source = source_of(gateway, look_here(gateway, list), lambda: "", [])
        made: list[Dashboard] = []

        def make() -> Dashboard:
            made.append(
                Dashboard(
                    source, UiSessions(gateway.store), gateway.registry.keys.principal, None, lambda: None, lambda: ""
                )
            )
            return made[-1]

        lazy = LazyDashboard(make, gateway.tasks)
        leaves, stays = (gateway.tasks.start(lazy.load(), name) for name in ("leaves", "stays"))
        await asyncio.sleep(0)
        leaves.cancel()
        assert await stays is await lazy.load()
        assert len(made) == 1


async def test_grants_are_listed_and_revoked(open_gateway: OpenGateway) -> None:
    http = {"authorization": {"enabled": True}}
    async with open_gateway({}, http=http) as gateway, visiting(gateway) as visitor:
        key, stored = await gateway.registry.keys.create("ann", ["discover", "invoke"])
        grants = {
            name: StoredGrant(f"0{name}", "wc_1", f"<{name}>", principal, b"", frozenset({"invoke"}), 1.0, 9e9)
            for name, principal in (("ann", stored.id), ("bob", "bob"))
        }
        for grant in grants.values():
            await gateway.store.add_grant(grant)
        await visitor.sign_in(key)
        _, text = await visitor.get("/ui/access")
        assert ("&lt;ann&gt;" in text, "&lt;bob&gt;" in text) == (True, False)
        csrf = await visitor.csrf()
        assert (await visitor.post("/ui/access/grants/0bob/revoke", csrf=csrf))[0] == 403
        assert (await visitor.post("/ui/access/grants/0ann/revoke", csrf=csrf))[0] == 303
        await visitor.sign_in()
        assert "&lt;bob&gt;" in (await visitor.get("/ui/access"))[1]
        assert (await visitor.post("/ui/access/grants/0bob/revoke", csrf=await visitor.csrf()))[0] == 303
        kept = await gateway.store.grants()
        assert [(grant.principal, grant.revoked_at is not None) for grant in kept] == [(stored.id, True), ("bob", True)]
        acts = await gateway.store.find_calls(AuditQuery(method="admin"))
        assert {act.principal for act in acts if act.tool == "revoke grant"} == {"ann", "local"}
