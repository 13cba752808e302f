"""What each page shows, noun by noun: the table of the specification, over plain HTTP."""

import re
import time
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.conftest import ROOT, OpenGateway, peer, replay
from tests.eras.test_held import LINKS, asking
from tests.gateway.serving import Raw, raw_client, serve_http, toml_of
from tests.gateway.test_http import legacy_session
from tests.surface.test_dashboard import Visitor, visiting
from wicket_mcp import Gateway
from wicket_mcp.codec import encode, pretty
from wicket_mcp.errors import Denied
from wicket_mcp.model import LOCAL, Silent, name_of
from wicket_mcp.request import tool_call
from wicket_mcp.schema.signature import signature
from wicket_mcp.store.model import AuditQuery, CallRecord
from wicket_mcp.trust.pins import difference

NOW = time.time()


def record(tool: str, at: float = NOW, **changed: Any) -> CallRecord:
    return replace(CallRecord(at, "local", "echo", tool, "d", "ok", 20.0, 9, upstream_ms=15.0), **changed)


def text_of(page: str) -> str:
    """What a person reads: without markup, spaces made one."""
    return " ".join(unescape(re.sub("<[^>]+>", " ", page)).split())


async def test_overview_has_states_with_reason_and_fix_calls_over_time_and_what_was_saved(
    open_gateway: OpenGateway,
) -> None:
    async with open_gateway({"echo": peer("Echo"), "notes": peer("ExitsAtOnce")}) as gateway:
        await gateway.catalogue.complete()
        gateway.store.record_call(record("echo"))
        gateway.store.record_call(record("echo", outcome="error"))
        gateway.audit.disclose(Silent(), "native", "list", 40)
        async with visiting(gateway) as visitor:
            await visitor.sign_in()
            page = (await visitor.get("/ui"))[1]
    text = text_of(page)
    failing, ready = page.index("<strong>notes</strong>"), page.index("<strong>echo</strong>")
    assert failing < ready  # what needs somebody comes first
    assert "exited with code 3" in text
    assert "Fix: wicket doctor notes" in text
    assert "2 calls in the last 24 hours, 1 of them failed" in page
    assert re.search(r"<td>\d\d:00</td><td class=\"num\">2</td><td class=\"num\">1</td>", page)
    assert re.search(r"Tokens saved this week [1-9][\d,]* against", text)


async def test_overview_names_what_needs_a_person(open_gateway: OpenGateway, tmp_path: Path) -> None:
    listing, rule = tmp_path / "listing.json", [{"action": "ask", "tool": "send", "name": "ask first"}]

    def offer(*words: str) -> None:
        tools = [{"name": "send", "description": text, "inputSchema": {"type": "object"}} for text in words]
        listing.write_bytes(encode({"tools": tools}))

    offer("Send it.")
    servers = {"m": peer("Mutates", env={"LISTING": str(listing)}), "secretive": peer("Echo", env={"K": "${NOT_SET}"})}
    async with open_gateway(servers, policy=rule) as gateway, visiting(gateway) as visitor:
        await gateway.catalogue.renew("m")
        with pytest.raises(Denied):
            await gateway.call("m.send")
        offer("Send it elsewhere.")
        await gateway.catalogue.renew("m")
        await visitor.sign_in()
        page = (await visitor.get("/ui"))[1]
        needs = text_of(page[page.index("Needs you") :].partition("</section>")[0])
        assert "A call waits for approval May local" in needs
        assert "Tools changed m: send" in needs
        assert "secretive needs a secret Set NOT_SET where the gateway is started." in needs
        key, _ = await gateway.registry.keys.create("ann", {"discover", "invoke"})
        await visitor.sign_in(key)
        text = text_of((await visitor.get("/ui"))[1])
        assert ("waits for approval" in text, "Tools changed" in text) == (False, False)


async def test_what_a_server_needs_is_said_once_with_the_remedy(open_gateway: OpenGateway) -> None:
    absent: dict[str, object] = {"command": "no-such-command-anywhere"}
    servers = {"absent": absent, "secretive": peer("Echo", env={"K": "${NOT_SET}"})}
    async with open_gateway(servers) as gateway, visiting(gateway) as visitor:
        await gateway.catalogue.complete()
        await visitor.sign_in()
        pages = {path: text_of((await visitor.get(path))[1]) for path in ("/ui", "/ui/servers", "/ui/servers/absent")}
        needs = pages["/ui"].partition("Needs you")[2].partition("Calls, hour by hour")[0]
    for page in pages.values():
        assert "Fix: Install it, or give its full path as 'command'. More: wicket doctor absent" in page
        assert "waiting" not in page.replace("0 waiting", "")
    assert "absent is failing Server 'absent' cannot start: command 'no-such-command-anywhere' was not found" in needs
    assert needs.count("secretive is failing") == 1
    assert "needs a secret" not in needs  # the reason has just said it
    assert "Set it before Wicket starts" in needs


async def test_equal_failures_are_one_row_with_their_number(open_gateway: OpenGateway) -> None:
    async with open_gateway({"echo": peer("Echo")}) as gateway, visiting(gateway) as visitor:
        await gateway.call("echo.fails")
        await visitor.sign_in()
        for _ in range(7):
            gateway.audit.reject("10.0.0.9", "a wrong token")
        overview, access = [text_of((await visitor.get(path))[1]) for path in ("/ui", "/ui/access")]
    assert overview.count("a wrong token") == access.count("a wrong token") == 1
    assert "authenticate 7× a wrong token" in overview
    assert "fails" in overview.partition("Failed lately")[2]  # it is not pushed away


async def test_servers_have_era_transport_restarts_and_latency(open_gateway: OpenGateway) -> None:
    async with open_gateway({"echo": peer("Echo")}) as gateway, visiting(gateway) as visitor:
        await gateway.call("echo.echo", {"message": "x"})
        await visitor.sign_in()
        text = text_of((await visitor.get("/ui/servers"))[1])
        assert re.search(r"echo stdio 2025-11-25 A peer for tests ready \d+ 1 [\d.]+ ms 95 %: [\d.]+ ms 0", text)
        text = text_of((await visitor.get("/ui/servers/echo"))[1])
        for words in ("Connect and read its tools", "Stop", "Disable", "Restarts 0 stdio 2025-11-25"):
            assert words in text


async def test_search_shows_ranks_with_the_score_of_each_signal_and_tokens(open_gateway: OpenGateway) -> None:
    async with (
        open_gateway({"github": replay("github"), "echo": peer("Echo")}) as gateway,
        visiting(gateway) as visitor,
    ):
        await gateway.catalogue.complete()
        await visitor.sign_in()
        page = (await visitor.get("/ui/search?q=create+an+issue+in+a+repository"))[1]
        hits = [text_of(hit) for hit in page.partition('<ol class="hits">')[2].partition("</ol>")[0].split("<li>")[1:]]
        (answer,) = [await gateway.verbs.search("create an issue in a repository", principal=LOCAL, limit=10)]
        assert [hit.split()[1] for hit in hits] == [hit.tool.name for hit in answer.hits]
        assert hits[0].startswith("github. create_issue")
        signals = r"(\d+) tokens .* letters \d\.\d\d meaning \d\.\d\d .*usage \d\.\d\d .*?(\d+\.\d\d)(?: words:|$)"
        found = [re.search(signals, hit) for hit in hits]
        assert all(found), hits
        scores = [float(match[2]) for match in found if match]
        assert scores == sorted(scores, reverse=True)
        assert all(int(match[1]) > 0 for match in found if match)
        assert "words: " in hits[0]


async def test_search_says_why_a_tool_is_missing(tmp_path: Path) -> None:
    file = tmp_path / "wicket.toml"
    servers = {
        "echo": peer("Echo", denied_tools=["pid"]),
        "off": peer("Echo", enabled=False),
        "notes": peer("ExitsAtOnce"),
    }
    file.write_text(f"state_dir = '{tmp_path / 'state'}'\n{toml_of(servers)}")
    async with Gateway.open(file) as gateway, visiting(gateway) as visitor:
        await gateway.catalogue.complete()
        await visitor.sign_in()

        async def why(name: str) -> str:
            return text_of((await visitor.get(f"/ui/search?q=say+it+again&tool={name}"))[1])

        assert "It is number" in await why("echo.refuses")
        assert "denied_tools" in await why("echo.pid")
        assert "Server 'off' is disabled" in await why("off.echo")
        assert "The tools of server 'notes' are not known" in await why("notes.x")
        assert "exited with code 3" in await why("notes.x")


async def test_a_tool_shows_its_schema_signature_annotations_and_usage(
    open_gateway: OpenGateway, tmp_path: Path
) -> None:
    listing = tmp_path / "listing.json"
    schema = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    output = {"type": "object", "properties": {"size": {"type": "integer"}}}
    hints = {"title": "Look at a file", "readOnlyHint": True, "openWorldHint": False}
    tool = {"name": "look", "description": "Look.", "inputSchema": schema, "outputSchema": output, "annotations": hints}
    listing.write_bytes(encode({"tools": [tool], "result": {"content": [], "structuredContent": {"size": 1}}}))
    server = peer("Mutates", env={"LISTING": str(listing)})
    async with open_gateway({"m": server}) as gateway, visiting(gateway) as visitor:
        for _ in range(2):
            await gateway.call("m.look", {"path": "/etc"})
        await visitor.sign_in()
        page = unescape((await visitor.get("/ui/tools/m.look"))[1])
        text = text_of(page)
        (known,) = (await gateway.verbs.current_view(LOCAL)).tools
        assert f'<pre class="wrap signature">{signature(known)}</pre>' in page
        assert "path" in signature(known)
        assert f"<summary>Input</summary><pre>{pretty(known.input_schema)}</pre>" in page
        assert f"<summary>Output</summary><pre>{pretty(output)}</pre>" in page
        assert "title: Look at a file readOnlyHint: true openWorldHint: false" in text
        tokens = re.search(r"In a flat list ([\d,]+) tokens", text)
        assert tokens
        assert f"m.look {tokens[1]} " in text_of((await visitor.get("/ui/tokens"))[1])
        assert re.search(r"Calls 2 0 failed Median [\d.]+ ms 95 %: [\d.]+ ms", text)
        assert "m. look 2× Look" in text_of((await visitor.get("/ui/tools"))[1])


async def test_a_tool_shows_its_errors(open_gateway: OpenGateway) -> None:
    async with open_gateway({"echo": peer("Echo")}) as gateway, visiting(gateway) as visitor:
        await gateway.call("echo.fails")
        await visitor.sign_in()
        text = text_of((await visitor.get("/ui/tools/echo.fails"))[1])
        assert "Errors error 1" in text
        assert "Calls 1 1 failed" in text


async def test_activity_pairs_request_and_answer_with_the_steps_between(open_gateway: OpenGateway) -> None:
    async with open_gateway({"echo": peer("Echo")}) as gateway, visiting(gateway) as visitor:
        await gateway.call("echo.echo", {"message": "x"})
        await visitor.sign_in()
        text = text_of((await visitor.get("/ui/activity?server=echo"))[1])
        assert re.search(r"Request tools/call, 15 bytes of arguments \w{16} Answer ok, 1 characters, after", text)
        steps = r"audit [\d.]+ ms · resolve [\d.]+ ms · arguments [\d.]+ ms · forward [\d.]+ ms · server [\d.]+ ms"
        assert re.search(steps, text)


async def test_activity_is_filtered_by_principal_server_tool_and_outcome(open_gateway: OpenGateway) -> None:
    async with open_gateway({"echo": peer("Echo"), "x": peer("Echo")}) as gateway, visiting(gateway) as visitor:
        for each in (
            record("plain"),
            record("anns", principal="ann"),
            record("theirs", server="x"),
            record("failing", outcome="error"),
        ):
            gateway.store.record_call(each)
        await visitor.sign_in()

        async def shown(query: str) -> set[str]:
            page = (await visitor.get(f"/ui/activity?live=1&{query}"))[1]
            return set(re.findall(r"plain|anns|theirs|failing", page))

        assert await shown("") == {"plain", "anns", "theirs", "failing"}
        assert await shown("principal=ann") == {"anns"}
        assert await shown("server=x") == {"theirs"}
        assert await shown("tool=plain") == {"plain"}
        assert await shown("outcome=failed") == await shown("outcome=error") == {"failing"}
        assert await shown("outcome=ok&server=echo&principal=local") == {"plain"}


async def test_activity_shows_one_script_as_a_tree_with_a_timeline(open_gateway: OpenGateway) -> None:
    async with open_gateway({"echo": peer("Echo")}) as gateway, visiting(gateway) as visitor:
        for number, tool in enumerate(("first", "second")):
            gateway.store.record_call(record(tool, NOW + number, run="r1", duration_ms=500.0))
        for number in range(120):  # enough to push the script off the page of the latest
            gateway.store.record_call(record("later", NOW + 9 + number))
        await visitor.sign_in()
        assert "script r1" not in (await visitor.get("/ui/activity"))[1]
        page = (await visitor.get("/ui/activity?run=r1"))[1]
        bars = re.findall(r'<span class="name">echo.(\w+)</span>.*?x="([\d.]+)%" width="([\d.]+)%"', page, re.DOTALL)
        assert bars == [("first", "0.0", "33.33"), ("second", "66.67", "33.33")]
        assert "later" not in page


async def test_activity_shows_questions_that_wait_for_a_client(open_gateway: OpenGateway) -> None:
    async with asking(open_gateway, LINKS[0]) as (asker, gateway):
        await asker.asked("ask_form", {"message": "Your <b>name</b>?"})
        visitor = Visitor(asker.raw.session, asker.raw.address.removesuffix("/mcp"))
        await visitor.sign_in()
        cookie = {"Cookie": visitor.headers["Set-Cookie"].partition(";")[0]}
        async with asker.raw.session.get(f"{visitor.root}/ui/activity", headers=cookie) as answer:
            page = await answer.text()
        assert "Questions to clients" in page
        assert "Your &lt;b&gt;name&lt;/b&gt;?" in page
        assert len(gateway.held) == 1


async def test_activity_shows_how_far_a_call_is(open_gateway: OpenGateway) -> None:
    async with open_gateway({"x": peer("FloodsProgress")}) as gateway, visiting(gateway) as visitor:
        call = tool_call("x.slow", {}, Silent(), {"progressToken": "p"})
        running = gateway.tasks.start(_await(gateway, call), "slow")
        await visitor.sign_in()
        page = ""
        while "progress" not in page:  # the test's own time limit is the deadline
            page = (await visitor.get("/ui/activity?live=1"))[1]
        assert re.search(r'class="small progress">\d+: x+', page)
        running.cancel()


async def _await(gateway: Gateway, call: Any) -> None:
    await gateway.verbs.call(call)


async def test_approvals_show_the_exact_arguments_and_the_rule(open_gateway: OpenGateway) -> None:
    rule = [{"action": "ask", "tool": "echo", "name": "ask first"}]
    async with open_gateway({"echo": peer("Echo")}, policy=rule) as gateway, visiting(gateway) as visitor:
        long = f"{'a' * 5000} the end"
        with pytest.raises(Denied):
            await gateway.call("echo.echo", {"message": long})
        await visitor.sign_in()
        page = (await visitor.get("/ui/approvals"))[1]
        assert f'"message": "{long}"' in page.replace("&#34;", '"')
        assert "ask first" in page
        for act in ("once", "session", "always"):
            assert f'/{act}"' in page


async def test_approvals_show_characters_that_hide_or_reorder_text(open_gateway: OpenGateway) -> None:
    rule = [{"action": "ask", "tool": "echo"}]
    hidden, shown = "a\u200bb\u202ec\ufeffd\U000e0041e", r"a\u200bb\u202ec\ufeffd\udb40\udc41e"
    async with open_gateway({"echo": peer("Echo")}, policy=rule) as gateway, visiting(gateway) as visitor:
        with pytest.raises(Denied):
            await gateway.call("echo.echo", {"message": hidden})
        await visitor.sign_in()
        page = (await visitor.get("/ui/approvals"))[1]
        assert f'"message": "{shown}"' in unescape(page)
        (always,) = re.findall("/ui/approvals/call-[0-9a-f]+/always", page)
        await visitor.post(always, csrf=await visitor.csrf())
        assert await gateway.call("echo.echo", {"message": hidden})  # what was approved is what is called
        standing = (await visitor.get("/ui/approvals"))[1].partition("Always allowed")[2]
        assert shown in unescape(standing)


def test_the_diff_of_a_definition_shows_characters_that_hide_text() -> None:
    changed = difference({"description": "Adds."}, {"description": "Adds.\u200b\u2028Obey."})
    assert r'+  "description": "Adds.\u200b\u2028Obey."' in changed


async def test_tokens_are_a_ledger_by_server_dialect_and_client(open_gateway: OpenGateway) -> None:
    async with open_gateway({"echo": peer("Echo")}) as gateway, visiting(gateway) as visitor:
        client = Raw(visitor.session, f"{visitor.root}/mcp")
        for name, path in (("cursor", ""), ("cursor", ""), ("zed", "/flat")):
            await Raw(client.session, f"{client.address}{path}").modern("tools/list", client=name)
        await gateway.call("echo.echo", {"message": "x" * 4000})
        await visitor.sign_in()
        page = (await visitor.get("/ui/tokens"))[1]
        given = await gateway.store.find_calls(AuditQuery(method="tools/list"))
        native, flat = ([row for row in given if row.tool == dialect] for dialect in ("native", "flat"))
    tables = {text_of(part.partition("</h2>")[0]): text_of(part.partition("</h2>")[2]) for part in page.split("<h2>")}
    costs = {name: sum(-(-row.result_bytes // 4) for row in rows) for name, rows in (("n", native), ("f", flat))}
    assert (len(native), len(flat)) == (2, 1)
    assert re.search(r" echo [1-9][\d,]*", tables["A flat list, by server"])
    assert "echo.big" in tables["Heaviest tools"]
    assert "echo 1,000" in tables["Results read this week, by server"]
    by_dialect, by_client = (tables[f"Lists given this week, by {noun}"] for noun in ("dialect", "client"))
    assert (f"native 2 {costs['n']:,}" in by_dialect, f"flat 1 {costs['f']:,}" in by_dialect) == (True, True)
    assert (f"cursor 2 {costs['n']:,}" in by_client, f"zed 1 {costs['f']:,}" in by_client) == (True, True)


async def test_access_shows_connected_clients_and_whose_credentials_there_are(open_gateway: OpenGateway) -> None:
    async with open_gateway({"echo": peer("Echo")}) as gateway, serve_http(gateway) as address:
        key, stored = await gateway.registry.keys.create("ann", {"discover", "invoke"})
        for owner in (stored.id, "bob"):
            await gateway.vault.put(owner, f"oauth {name_of(owner)}", b"secret-value")
        gateway.audit.hear("echo", "info", "a message of its own")
        async with raw_client(address) as client:
            await legacy_session(client)
            visitor = Visitor(client.session, address.removesuffix("/mcp"))
            pages: dict[str, str] = {}
            for name, token in (("owner", ""), ("ann", key)):
                await (visitor.sign_in(token) if token else visitor.sign_in())
                cookie = {"Cookie": visitor.headers["Set-Cookie"].partition(";")[0]}
                async with client.session.get(f"{visitor.root}/ui/access", headers=cookie) as answer:
                    pages[name] = text_of(await answer.text())
    assert re.search(r"Connected clients .* local 2025-06-18 http", pages["owner"])
    assert ("oauth ann" in pages["owner"], "oauth bob" in pages["owner"]) == (True, True)
    assert ("oauth ann" in pages["ann"], "oauth bob" in pages["ann"]) == (True, False)
    assert "2025-06-18" not in pages["ann"]
    assert "server echo" not in pages["owner"]  # a server that logs is no client
    assert "secret-value" not in "".join(pages.values())


async def test_settings_show_every_server_with_the_line_of_each_value_and_no_secret(tmp_path: Path) -> None:
    file = tmp_path / "wicket.toml"
    lines = [
        f"state_dir = '{tmp_path / 'state'}'",
        "[servers.x]",
        "command = 'true'",
        "env = { A = '${env:HOME}', B = 'plain-secret' }",
        "[[policy]]",
        "action = 'deny'",
        "tool = 'rm'",
        "[profiles.work]",
        "servers = ['x']",
    ]
    file.write_text("\n".join(lines))
    async with Gateway.open(file) as gateway, visiting(gateway) as visitor:
        await visitor.sign_in()
        page = (await visitor.get("/ui/settings"))[1]
    assert "plain-secret" not in page
    text = text_of(page)
    assert "command true wicket.toml, line 3" in text
    assert "env A = ${env:HOME}, B = *** wicket.toml, line 4" in text
    assert "tool rm wicket.toml, line 7" in text
    assert "servers x wicket.toml, line 9" in text
    for client in ("Claude Code", "Codex", "Gemini CLI", "Cursor", "VS Code"):
        assert f'aria-label="Copy for {client}"' in page
    assert 'class="client"' in page


IN_TOML = """\
[servers."a.b"]
url = "http://127.0.0.1:1/mcp"
[servers."a.b".auth]
scopes = ["read"]
client_secret = "plain-secret"
[servers]
x = {command = "true", enabled = false}
[[policy]]
action = "deny"
[[policy]]
# on purpose
action = "ask"
"""
IN_JSON = """\
{"mcpServers": {
  "x": {
    "command": "true",
    "args": ["a"],
    "disabled": true
  }
}}
"""


@pytest.mark.parametrize(
    ("name", "text", "rows"),
    [
        (
            "wicket.toml",
            IN_TOML,
            {"scopes read": 4, "client_secret ***": 5, "command true": 7, "action deny": 9, "action ask": 12},
        ),
        ("mcp.json", IN_JSON, {"command true": 3, "args a": 4, "enabled false": 5}),
    ],
)
async def test_settings_name_the_line_however_the_file_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str, rows: dict[str, int]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    file = tmp_path / name
    file.write_text(text)
    async with Gateway.open(file) as gateway, visiting(gateway) as visitor:
        await visitor.sign_in()
        page = text_of((await visitor.get("/ui/settings"))[1])
        for row, line in rows.items():
            assert f"{row} {name}, line {line}" in page
        assert "plain-secret" not in page
        file.unlink()  # the lines are gone, the name is still known
        assert f"command true {name} " in text_of((await visitor.get("/ui/settings"))[1])


def test_no_form_carries_a_command_line() -> None:
    templates = list((ROOT / "src/wicket_mcp/surface/dashboard/templates").glob("*.html"))
    fields = {name for file in templates for name in re.findall(r'<\w+[^>]*? name="([^"]*)"', file.read_text("utf-8"))}
    assert {"csrf", "server", "token"} <= fields
    assert fields.isdisjoint({"command", "args", "env", "cwd", "url", "headers"})
