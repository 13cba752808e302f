"""Every file format that users already have, read as it is. The samples in `data/` have the clients' own layouts."""

from pathlib import Path

import pytest

from wicket_mcp.config.model.auth import AuthConfig
from wicket_mcp.config.model.config import (
    AuditConfig,
    AuthorizationConfig,
    Config,
    HttpConfig,
    IssuerConfig,
    LimitsConfig,
    MetaConfig,
    OauthConfig,
    RegistryConfig,
    ResultsConfig,
    ServerConfig,
    TraceConfig,
    VaultConfig,
)
from wicket_mcp.config.model.policy import PolicyConfig, Rule
from wicket_mcp.config.model.scripts import Limits
from wicket_mcp.config.model.search import SearchConfig
from wicket_mcp.config.read import formats
from wicket_mcp.errors import ConfigError

DATA = Path(__file__).parent / "data"


def servers_of(sample: str) -> dict[str, ServerConfig]:
    return {server.name: server for server in formats.load(DATA / sample).servers}


def test_every_option_of_wicket_toml_is_read() -> None:
    config = formats.load(DATA / "wicket.toml")
    files = ServerConfig(
        name="files",
        title="Files",
        description="The project's files",
        tags=("local",),
        enabled=False,
        command="npx",
        args=("-y", "@modelcontextprotocol/server-filesystem", "."),
        env={"LEVEL": "${LEVEL:-info}"},
        inherit_env=("KUBECONFIG",),
        env_file=".env",
        cwd="project",
        required_keys=("FILES_KEY",),
        allowed_tools=("read_*",),
        denied_tools=("read_secret",),
        timeout=90.0,
        connect_timeout=2.5,
        max_concurrent=4,
        calls_per_minute=120,
        cache={"read_*": "5m"},
        fallback=("remote",),
        start="eager",
        idle_stop=0.0,
        placement="each",
        isolation="session",
        credentials="user",
        changed="tell",
        added="accept",
        vendor_keys=True,
    )
    remote = ServerConfig(
        name="remote",
        url="https://mcp.example.com/mcp",
        transport="sse",
        headers={"Authorization": "Bearer ${env:REMOTE_TOKEN}"},
        auth=AuthConfig(
            kind="id_jag",
            client_id="wicket",
            client_secret="${env:REMOTE_SECRET}",
            private_key="${file:key.pem}",
            algorithm="RS256",
            issuer="https://auth.example.com",
            scopes=("read",),
            subject_token="${file:token}",
            idp="https://idp.example.com/token",
            idp_client_id="wicket-at-idp",
            idp_client_secret="${env:IDP_SECRET}",
        ),
    )
    assert config == Config(
        servers=(files, remote),
        dialects=("flat", "meta"),
        dotted_names=True,
        unprefixed=True,
        state_dir="state",
        store="postgresql://wicket@db.example/wicket",
        shared_limits="redis://cache.example",
        search=SearchConfig(model="models/small", learn=False),
        allow_runtime_servers=True,
        aliases={"commit": "git.git_commit"},
        log_level="debug",
        http=HttpConfig(
            host="0.0.0.0",
            port=9000,
            allowed_hosts=("wicket.example",),
            allowed_origins=("https://app.example",),
            max_body=8 * 1024**2,
            public_url="https://wicket.example",
            leave_after=20.0,
            authorization=AuthorizationConfig(enabled=True),
            issuers=(
                IssuerConfig(
                    issuer="https://login.example",
                    jwks="https://login.example/keys",
                    audience=("api://wicket",),
                    algorithms=("ES256",),
                    scopes={"staff": ("discover", "invoke")},
                    groups="realm_access.roles",
                    introspection="https://login.example/introspect",
                    client_id="wicket",
                    client_secret="${SECRET}",
                    token_prefix="opaque-",
                ),
            ),
        ),
        limits=LimitsConfig(max_message=1024**2, max_call=600.0, max_tools=100),
        results=ResultsConfig(large=2000, keep=7200.0, max_bytes=1024**3),
        scripts=Limits(
            jail="strict",
            cpu=1.0,
            wall=30.0,
            memory=32 * 1024**2,
            calls=50,
        ),
        audit=AuditConfig(file="audit.jsonl", arguments=True),
        meta=MetaConfig(upper=True),
        trace=TraceConfig(endpoint="http://127.0.0.1:4318", percent=10, content=True),
        registry=RegistryConfig(
            public=True,
            rates={"discovery": 5},
            allowed_addresses=("10.0.0.0/8",),
            resolvers=("1.1.1.1",),
            probe_every=300.0,
        ),
        oauth=OauthConfig(browser="firefox", client_metadata_url="https://wicket.example/oauth/client.json"),
        vault=VaultConfig(key="keyring"),
        vendor_keys=False,
        policy=PolicyConfig(
            flow="ask", trusted=("files.*",), unattended=True, rules=(Rule(action="deny", tool="drop_*", by="other"),)
        ),
        path=DATA / "wicket.toml",
    )
    assert config.state_path == DATA.absolute() / "state"


def test_an_empty_file_means_the_defaults() -> None:
    assert formats.parse("") == Config.empty()


def test_defaults_are_the_documented_ones() -> None:
    config = formats.parse('[servers.a]\ncommand = "a"\n[servers.b]\nurl = "https://b.example"\n')
    local, remote = config.servers
    assert (local.transport, remote.transport) == ("stdio", "auto")
    assert (local.timeout, local.connect_timeout, local.idle_stop, local.max_concurrent) == (60.0, 10.0, 600.0, 32)
    assert (local.start, local.isolation, local.enabled, local.allowed_tools) == ("lazy", "shared", True, ("*",))
    assert (config.dialects, config.http.host, config.http.port) == (("native",), "127.0.0.1", 8377)
    assert (config.limits.max_message, config.limits.max_call) == (16 * 1024**2, 300.0)
    assert (config.results.large, config.results.keep, config.results.max_bytes) == (8000, 86400.0, 256 * 1024**2)


def test_claude_desktop_names_become_ids_and_stay_as_titles() -> None:
    config = formats.load(DATA / "claude_desktop.json")
    files, stars = config.servers
    assert (files.name, files.command, files.args[0]) == ("filesystem", "npx", "-y")
    assert (stars.name, stars.title) == ("Star-Charts-work", "Star Charts (work)")
    assert any("Star-Charts-work" in note for note in config.notes)


def test_claude_code_types_and_milliseconds() -> None:
    servers = servers_of("claude_code.json")
    assert {name: server.transport for name, server in servers.items()} == {
        "harbour": "http",
        "tides": "sse",
        "shelf": "stdio",
    }
    assert servers["harbour"].timeout == 600.0
    assert servers["harbour"].headers == {"Authorization": "Bearer ${HARBOUR_TOKEN}"}


def test_cursor_env_file() -> None:
    servers = servers_of("cursor.json")
    assert servers["local"].env_file == ".env.local"
    assert servers["plans"].headers == {"X-Key": "${env:PLANS_KEY}"}


def test_windsurf_server_url_and_disabled_tools() -> None:
    remote = servers_of("windsurf.json")["remote"]
    assert (remote.url, remote.denied_tools) == ("https://mcp.example.com/mcp", ("sink_ship",))


def test_cline_disabled_seconds_and_scalar_environment() -> None:
    servers = servers_of("cline.json")
    barometer, docs = servers["barometer"], servers["docs"]
    assert (barometer.enabled, barometer.timeout) == (False, 1800.0)
    assert barometer.env == {"PORT": "8080", "DEBUG": "true"}
    assert barometer.allowed_tools == ("*",), "an approval is not a restriction"
    assert (docs.transport, docs.enabled, docs.timeout) == ("http", True, 60.0)


def test_gemini_tools_urls_variables_and_exclusions() -> None:
    config = formats.load(DATA / "gemini.json")
    servers = {server.name: server for server in config.servers}
    tools = servers["ledger"]
    assert (tools.allowed_tools, tools.denied_tools) == (("list_entries", "sum_entries"), ("burn_book",))
    assert (tools.timeout, tools.cwd, tools.description) == (15.0, "./books", "The account books")
    assert tools.env["LEDGER_URL"] == "${env:BOOKS_URL}"
    streaming = servers["streaming"]
    assert (streaming.url, streaming.transport) == ("https://tides.example/mcp", "http")
    assert streaming.headers == {"Authorization": "Bearer ${env:TIDES_TOKEN}"}
    assert servers["events"].transport == "auto"
    assert not servers["retired"].enabled
    assert "socket" not in servers
    assert any("'socket'" in note for note in config.notes)


def test_vs_code_comments_trailing_commas_and_inputs() -> None:
    oracle = servers_of("vscode.json")["oracle"]
    assert oracle.args[-1] == "--region=${input:region:-eu}"
    assert oracle.env == {"ORACLE_KEY": "${input:oracle-key}"}
    assert oracle.env_file == "${workspaceFolder}/.env"


def test_vs_code_settings_keep_servers_one_level_down() -> None:
    assert servers_of("vscode_settings.json")["fetch"].args == ("mcp-server-fetch",)


def test_zed_nested_and_flat_commands() -> None:
    config = formats.load(DATA / "zed.json")
    old, flat, remote = config.servers
    assert (old.command, old.args) == ("npx", ("-y", "archive-mcp"))
    assert old.env == {"ARCHIVE": "/srv/archive"}
    assert (flat.command, flat.enabled) == ("uvx", False)
    assert remote.url == "https://mcp.example.com/mcp"
    assert any("mcp-server-orchard" in note and "extension" in note for note in config.notes)


def test_codex_names_variables_instead_of_writing_them() -> None:
    servers = servers_of("codex.toml")
    atlas, easel, off = servers["atlas"], servers["easel"], servers["off"]
    assert (atlas.timeout, atlas.connect_timeout) == (45.0, 20.0)
    assert atlas.env == {"ATLAS_TOKEN": "${env:ATLAS_TOKEN:-}", "ATLAS_SCALE": "1:25000"}
    assert atlas.allowed_tools == ("find_sheet", "read_sheet")
    assert easel.headers == {
        "X-Easel-Room": "north",
        "X-Team": "${env:EASEL_TEAM}",
        "Authorization": "Bearer ${env:EASEL_TOKEN}",
    }
    assert easel.denied_tools == ("wipe_canvas",)
    assert (off.enabled, off.connect_timeout) == (False, 2.5)


def test_mcp_clients_with_address_and_an_empty_list_that_allows_nothing() -> None:
    config = formats.load(DATA / "mcp_clients.json")
    abacus, notes = config.servers
    assert (config.http.host, config.http.port) == ("localhost", 3000)
    assert (abacus.transport, abacus.allowed_tools) == ("http", ("sum", "carry"))
    assert (notes.transport, notes.allowed_tools) == ("stdio", ())


def test_broker_servers_in_a_list() -> None:
    config = formats.load(DATA / "servers_config.json")
    assert [(server.name, server.transport, server.start) for server in config.servers] == [
        ("notebook", "stdio", "eager"),
        ("quiet", "http", "lazy"),
        ("feed", "sse", "lazy"),
    ]


def test_gatemini_yaml_with_merges_and_its_own_words() -> None:
    config = formats.load(DATA / "gatemini.yaml")
    lighthouse, harbour = config.servers
    assert config.log_level == "warning"
    assert (lighthouse.timeout, lighthouse.tags, lighthouse.isolation) == (120.0, ("web", "search"), "session")
    assert lighthouse.env == {"LIGHTHOUSE_KEY": "${LIGHTHOUSE_KEY}", "PORT": "0123", "VERBOSE": "yes"}
    assert (lighthouse.required_keys, lighthouse.max_concurrent) == (("LIGHTHOUSE_KEY",), 10_000)
    assert (harbour.transport, harbour.timeout) == ("http", 90.0)
    assert harbour.headers == {"X-Pass": "Token ${env:HARBOUR_PASS}"}
    assert any("'shell'" in note and "cli-adapter" in note for note in config.notes)


@pytest.mark.parametrize("sample", sorted(path.name for path in DATA.iterdir()))
def test_the_content_decides_the_format_and_not_the_file_name(sample: str, tmp_path: Path) -> None:
    renamed = tmp_path / "settings.conf"
    renamed.write_bytes((DATA / sample).read_bytes())
    assert formats.load(renamed).servers == formats.load(DATA / sample).servers


def test_windows_line_ends_and_a_byte_order_mark_are_no_obstacle(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    text = (DATA / "vscode.json").read_text("utf-8").replace("\n", "\r\n")
    file.write_bytes(text.encode("utf-8-sig"))
    assert formats.load(file).servers == formats.load(DATA / "vscode.json").servers


def test_comment_marks_inside_strings_are_text() -> None:
    config = formats.parse('{"mcpServers": {"a": {"url": "https://a.example/*x*/y", "description": "a,]"}}}')
    assert (config.servers[0].url, config.servers[0].description) == ("https://a.example/*x*/y", "a,]")


def test_client_names_that_meet_in_one_id_are_numbered_in_file_order() -> None:
    config = formats.parse(
        '{"mcpServers": {"a b": {"command": "1"}, "a-b": {"command": "2"}, "A/B": {"command": "3"}}}'
    )
    assert [(server.name, server.title) for server in config.servers] == [
        ("a-b", "a b"),
        ("a-b-2", "a-b"),
        ("A-B-3", "A/B"),
    ]


@pytest.mark.parametrize(
    ("text", "note"),
    [
        (
            '{"mcpServers": {"bad": 5, "good": {"command": "x"}}}',
            "'mcpServers.bad' is left out: expected a table with a 'command' or a 'url'.",
        ),
        (
            '{"servers": ["bad", {"id": "good", "command": "x"}]}',
            "'servers[0]' is left out: expected a table with a 'command' or a 'url'.",
        ),
        (
            '{"servers": [{"id": "good", "command": "x"}, {"command": "bad"}]}',
            "'servers[1]' is left out: expected an 'id', as a string that is not empty.",
        ),
        (
            '{"servers": [{"id": "good", "command": "x"}, {"id": 5, "command": "bad"}]}',
            "'servers[1].id' is left out: expected an 'id', as a string that is not empty.",
        ),
        (
            '{"servers": [{"id": "good", "command": "x"}, {"id": "good", "command": "bad"}]}',
            "'servers[1].id' is left out: there is another server 'good' above. Give each its own id.",
        ),
        (
            '{"mcpServers": {"good": {"command": "bad"},\n"good": {"command": "x"}}}',
            "'good' is there twice: the one in line 2 counts.",
        ),
        (
            "backends:\n  good: {command: bad}\n  good: {command: x}\n",
            "'good' is there twice: the one in line 3 counts.",
        ),
    ],
)
def test_one_bad_entry_of_another_programs_file_costs_itself(text: str, note: str) -> None:
    config = formats.parse(text)
    assert [(server.name, server.command) for server in config.servers] == [("good", "x")]
    assert config.notes == (note,)


def test_a_dict_is_read_in_wickets_layout_or_a_clients() -> None:
    own = Config.from_dict({"servers": {"a": {"command": "x", "idle_stop": "5m"}}, "http": {"port": 1}})
    assert (own.servers[0].idle_stop, own.http.port, own.path) == (300.0, 1, None)
    client = Config.from_dict({"mcpServers": {"a": {"command": "x", "disabled": True}}})
    assert not client.servers[0].enabled
    with pytest.raises(ConfigError, match=r"^servers\.a\.comand: unknown key\. Did you mean 'command'\?$"):
        Config.from_dict({"servers": {"a": {"comand": "x"}}})


def test_no_repr_shows_what_may_be_a_secret() -> None:
    config = formats.load(DATA / "claude_desktop.json")
    shown = f"{config!r} {config.servers!r} {list(config.servers[1].__rich_repr__())} {list(config.__rich_repr__())}"
    assert "Star-Charts-work" in shown
    assert "literal-key-in-the-file" not in shown


def test_a_command_that_may_download_is_given_time_unless_the_file_says_how_much() -> None:
    servers = {
        "a": {"command": "/usr/bin/npx", "args": ["-y", "x"]},
        "b": {"command": "npx", "connect_timeout": 5},
        "c": {"command": "mcp-server-time"},
    }
    config = Config.from_dict({"servers": servers})
    assert [server.patience for server in config.servers] == [120.0, 5.0, 10.0]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (
            (
                '{"mcpServers": {\n  "a": {"command": "x",\n    "changed": "accept", "denied_tools": ["b"]},\n'
                '  "b": {"command": "y", "alwaysAllow": ["z"], "auth": {}}},\n "policy": {"flow": "ask"}}'
            ),
            [(3, "changed of 'a'"), (3, "denied_tools of 'a'"), (5, "policy")],
        ),
        (
            '{"mcpClients": [\n{"id": "a", "command": "x"},\n{"id": "b", "command": "x", "added": "tell"}]}',
            [(3, "added of 'b'")],
        ),
        ('[mcp_servers.a]\ncommand = "x"\nadded = "hold"\n', [(3, "added of 'a'")]),
        ('[servers.a]\ncommand = "x"\nadded = "hold"\n', []),
    ],
)
def test_an_option_of_ours_in_another_programs_file_is_named_with_its_line(
    text: str, lines: list[tuple[int, str]]
) -> None:
    notes = formats.parse(text, "/p/.mcp.json").notes
    rest = "has no effect in this file. Set it in a wicket.toml: wicket import /p/.mcp.json makes one."
    assert list(notes) == [f"/p/.mcp.json:{line}: {what} {rest}" for line, what in lines]
