"""Bringing over what nine clients have, from the files as they really lie, and giving it back byte for byte."""

import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cli.shell import Shell
from tests.conftest import peer
from wicket_mcp.codec import decode, encode
from wicket_mcp.config.read.client_files import CLIENTS, folders, project_file, user_files
from wicket_mcp.config.read.formats import load
from wicket_mcp.config.read.syntax import read as read_syntax

DATA = Path(__file__).parent.parent / "config" / "data"


@dataclass(frozen=True)
class Case:
    """A client's file, where it lies on Linux, and what must come of it."""

    client: str
    file: str
    path: str
    section: str
    servers: tuple[str, ...]
    stays: tuple[str, ...] = ()
    """Entries that Wicket cannot run and the client keeps."""
    comments: tuple[str, ...] = ()


CASES = (
    Case(
        "claude-desktop",
        "claude_desktop.json",
        ".config/Claude/claude_desktop_config.json",
        "mcpServers",
        ("filesystem", "Star-Charts-work"),
    ),
    Case("claude-code", "claude_code.json", ".claude.json", "mcpServers", ("harbour", "tides", "shelf")),
    Case("cursor", "cursor.json", ".cursor/mcp.json", "mcpServers", ("plans", "local")),
    Case(
        "vscode",
        "vscode.json",
        ".config/Code/User/mcp.json",
        "servers",
        ("harbour", "oracle"),
        comments=("// .vscode/mcp.json", "/* remote */"),
    ),
    Case("windsurf", "windsurf.json", ".codeium/windsurf/mcp_config.json", "mcpServers", ("remote", "harbour")),
    Case(
        "zed",
        "zed.json",
        ".config/zed/settings.json",
        "context_servers",
        ("archive", "flat", "remote"),
        stays=("mcp-server-orchard",),
        comments=("// Zed settings", "// (the comments stay)"),
    ),
    Case("codex", "codex.toml", ".codex/config.toml", "mcp_servers", ("atlas", "easel", "off")),
    Case(
        "gemini",
        "gemini.json",
        ".gemini/settings.json",
        "mcpServers",
        ("ledger", "streaming", "events", "retired"),
        stays=("socket",),
    ),
    Case(
        "cline",
        "cline.json",
        ".config/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
        "mcpServers",
        ("barometer", "docs"),
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.client)
def test_a_client_is_taken_over_and_gets_its_own_file_back(case: Case, shell: Shell) -> None:
    file = shell.copy(DATA / case.file, case.path)
    before = file.read_bytes()
    tree = read_syntax(before.decode()).tree

    done = shell.run("import", case.client, "--take-over", "--json")
    assert done.code == 0, done.err
    assert [server["name"] for server in done.json["servers"]] == list(case.servers)
    assert [server.name for server in load(shell.config).servers] == list(case.servers)

    text = file.read_text("utf-8")
    taken = read_syntax(text).tree
    assert set(taken[case.section]) == {"wicket", *case.stays}
    entry = taken[case.section]["wicket"]
    assert entry["args"][-4:] == ["--config", str(shell.config), "--profile", case.client]
    (profile,) = load(shell.config).profiles
    assert (profile.name, list(profile.servers)) == (case.client, list(case.servers))
    assert Path(entry["command"]).is_absolute()
    others = {key: value for key, value in tree.items() if key != case.section}
    assert {key: value for key, value in taken.items() if key != case.section} == others
    assert all(comment in text for comment in case.comments)

    assert shell.run("import", case.client, "--undo").code == 0
    assert file.read_bytes() == before
    assert not list(file.parent.glob("*before-wicket*"))


def test_the_client_really_reaches_its_servers_through_wicket(shell: Shell) -> None:
    shell.write(".cursor/mcp.json", '{"mcpServers": {"time": {"command": "mcp-server-time"}}}')
    shell.run("import", "cursor", "--take-over")
    entry = decode((shell.home / ".cursor/mcp.json").read_bytes())["mcpServers"]["wicket"]
    assert entry["args"][0] == "serve"
    done = shell.run("tools", *entry["args"][1:3])
    assert "time.get_current_time" in done.out


def test_secrets_stay_references_and_literal_ones_leave_the_configuration(shell: Shell) -> None:
    shell.copy(DATA / "claude_desktop.json", ".config/Claude/claude_desktop_config.json")
    shell.copy(DATA / "claude_code.json", ".claude.json")
    shell.run("import", "claude-code")
    done = shell.run("import", "claude-desktop")
    text = shell.config.read_text("utf-8")
    assert "Bearer ${HARBOUR_TOKEN}" in text
    assert "literal-key-in-the-file" not in text + done.out + done.err
    secret = shell.config.parent / "secrets" / "Star-Charts-work.STARS_KEY"
    assert secret.read_text("utf-8") == "literal-key-in-the-file\n"
    assert secret.stat().st_mode & 0o077 == 0
    assert (secret.parent / ".gitignore").read_text("utf-8") == "*\n"


def test_undo_keeps_what_the_owner_changed_in_the_meantime(shell: Shell) -> None:
    file = shell.copy(DATA / "zed.json", ".config/zed/settings.json")
    servers = read_syntax(file.read_text("utf-8")).tree["context_servers"]
    shell.run("import", "zed", "--take-over")
    file.write_text(file.read_text("utf-8").replace('"ui_font_size": 16', '"ui_font_size": 18'), "utf-8")
    shell.run("import", "zed", "--undo")
    tree = read_syntax(file.read_text("utf-8")).tree
    assert tree["ui_font_size"] == 18
    assert tree["context_servers"] == servers


def test_undo_keeps_later_changes_of_a_toml_file_too(shell: Shell) -> None:
    file = shell.copy(DATA / "codex.toml", ".codex/config.toml")
    servers = tomllib.loads(file.read_text("utf-8"))["mcp_servers"]
    shell.run("import", "codex", "--take-over")
    file.write_text(file.read_text("utf-8").replace('"some-model"', '"other-model"'), "utf-8")
    shell.run("import", "codex", "--undo")
    tree = tomllib.loads(file.read_text("utf-8"))
    assert tree["model"] == "other-model"
    assert tree["mcp_servers"] == servers


def test_importing_twice_adds_nothing_and_never_imports_wicket_itself(shell: Shell) -> None:
    file = shell.copy(DATA / "cursor.json", ".cursor/mcp.json")
    shell.run("import", "cursor", "--take-over")
    first = shell.config.read_bytes()
    again = shell.run("import", "cursor", "--take-over")
    assert again.code == 0
    assert shell.config.read_bytes() == first
    assert list(decode(file.read_bytes())["mcpServers"]) == ["wicket"]
    assert "Nothing to take over" in again.err


def test_a_running_gateway_is_not_added_to_itself(shell: Shell) -> None:
    entries = {"wicket": {"type": "http", "url": "http://127.0.0.1:8377/mcp/p/work"}, "time": {"command": "uvx"}}
    file = shell.write("project/.mcp.json", _json({"mcpServers": entries}))
    assert shell.run("import", str(file)).code == 0
    assert [server.name for server in load(shell.config).servers] == ["time"]


def test_wicket_is_recognised_behind_a_launcher_and_under_another_name(shell: Shell) -> None:
    entries = {
        "gateway": {"command": "/home/me/.local/bin/uvx", "args": ["--from", "wicket-mcp", "wicket", "serve"]},
        "all-tools": {"command": "pipx", "args": ["run", "--spec", "wicket-mcp", "wicket", "serve", "--profile", "x"]},
        "module": {"command": "/usr/bin/python3", "args": ["-I", "-m", "wicket_mcp", "serve"]},
        "running": {"type": "http", "url": "http://localhost:8377/mcp"},
        "another": {"type": "http", "url": "http://localhost:9000/mcp"},
        "cricket": {"command": "cricket", "args": ["wicket", "--serve"]},
        "time": {"command": "uvx", "args": ["mcp-server-time"]},
    }
    shell.write(".cursor/mcp.json", _json({"mcpServers": entries}))
    assert shell.run("import", "cursor").code == 0
    assert [server.name for server in load(shell.config).servers] == ["another", "cricket", "time"]


def test_a_file_that_is_taken_over_by_its_path_has_a_profile_of_what_it_had(shell: Shell) -> None:
    entry = {"mcpServers": {"time": {"command": "mcp-server-time"}}}
    own = shell.write("app/.mcp.json", _json(entry))
    hidden = shell.write("app/.tool/mcp.json", _json({"mcpServers": {"git": {"command": "mcp-server-git"}}}))
    cursor = shell.write(".cursor/mcp.json", _json({"mcpServers": {"echo": peer("Echo")}}))
    chosen: list[str] = []
    for file in (own, hidden, cursor):
        assert shell.run("import", str(file), "--take-over").code == 0
        chosen.append(decode(file.read_bytes())["mcpServers"]["wicket"]["args"][-1])
    profiles = {profile.name: profile.servers for profile in load(shell.config).profiles}
    assert profiles == {"app-mcp": ("time",), "app-tool-mcp": ("git",), "cursor": ("echo",)}
    assert chosen == list(profiles)


def test_one_program_with_two_keys_is_two_servers(shell: Shell) -> None:
    keys = {name: {"command": "db", "env": {"DB_TOKEN": f"key-of-{name}"}} for name in ("db", "db-2")}
    file = shell.write("servers.json", _json({"mcpServers": keys}))
    shell.run("import", str(file))
    shell.run("import", str(file))
    assert [server.name for server in load(shell.config).servers] == ["db", "db-2"]
    secrets = shell.config.parent / "secrets"
    assert [(secrets / f"{name}.DB_TOKEN").read_text("utf-8") for name in keys] == ["key-of-db\n", "key-of-db-2\n"]


def test_two_servers_of_one_name_are_both_kept(shell: Shell) -> None:
    shell.copy(DATA / "windsurf.json", ".codeium/windsurf/mcp_config.json")
    shell.copy(DATA / "vscode.json", ".config/Code/User/mcp.json")
    shell.run("import", "windsurf")
    done = shell.run("import", "vscode")
    assert [server.name for server in load(shell.config).servers] == ["remote", "harbour", "harbour-2", "oracle"]
    assert "new, was harbour" in done.out


def test_without_a_client_it_shows_what_there_is_and_changes_nothing(shell: Shell) -> None:
    shell.copy(DATA / "cursor.json", ".cursor/mcp.json")
    shell.write(".gemini/settings.json", "{ not json")
    done = shell.run("import")
    assert done.out.splitlines()[1].split()[:2] == ["cursor", "plans,"]
    assert "settings.json" in done.err
    assert not shell.config.exists()


def test_a_dry_run_changes_nothing(shell: Shell) -> None:
    file = shell.copy(DATA / "cursor.json", ".cursor/mcp.json")
    done = shell.run("import", "cursor", "--take-over", "--dry-run")
    assert "2 servers would be added" in done.out
    assert not shell.config.exists()
    assert file.read_bytes() == (DATA / "cursor.json").read_bytes()


def test_a_dry_run_of_taking_over_names_the_file_that_would_be_rewritten(shell: Shell) -> None:
    file = shell.copy(DATA / "cursor.json", ".cursor/mcp.json")
    before = file.read_bytes()
    done = shell.run("import", "cursor", "--take-over", "--dry-run")
    assert f"{file} would be rewritten" in done.out
    assert file.read_bytes() == before
    assert "rewritten" not in shell.run("import", "cursor", "--dry-run").out


def test_a_program_beside_the_clients_file_is_found_from_anywhere(shell: Shell) -> None:
    servers = {
        "near": {"command": "./tool.sh"},
        "up": {"command": "../tool.sh", "cwd": "sub"},
        "placed": {"command": "./tool.sh", "cwd": "${workspaceFolder}"},
        "named": {"command": "tool.sh"},
    }
    folder = shell.write(".cursor/mcp.json", _json({"mcpServers": servers})).parent
    shell.run("import", "cursor")
    commands = {server.name: server.command for server in load(shell.config).servers}
    beside = str(folder / "tool.sh")
    assert commands == {"near": beside, "up": beside, "placed": "./tool.sh", "named": "tool.sh"}


def test_a_misspelt_client_is_answered_with_the_one_that_was_meant(shell: Shell) -> None:
    done = shell.run("import", "cursr")
    assert done.code == 2
    assert "No client named 'cursr'. Did you mean 'cursor'?" in done.err
    shell.write("work/cursr", '{"mcpServers": {"time": {"command": "mcp-server-time"}}}')
    assert shell.run("import", "cursr").code == 0, "a file of that name is meant as one"


def test_claude_codes_servers_for_one_folder_are_found_under_that_folder(shell: Shell) -> None:
    listed = {"mcpServers": {"time": {"command": "mcp-server-time"}}, "history": ["kept"]}
    file = shell.write(".claude.json", _json({"numStartups": 3, "projects": {str(shell.cwd): listed}}))
    before = file.read_bytes()
    shell.run("import", "claude-code", "--take-over")
    folder = decode(file.read_bytes())["projects"][str(shell.cwd)]
    assert list(folder["mcpServers"]) == ["wicket"]
    assert folder["history"] == ["kept"]
    taken = file.read_bytes()
    elsewhere = Shell(shell.home, shell.home, {}).run("import", "claude-code", "--undo")
    assert (elsewhere.code, "in the folder where it was done" in elsewhere.err) == (2, True)
    assert file.read_bytes() == taken
    shell.run("import", "claude-code", "--undo")
    assert file.read_bytes() == before


def test_the_file_of_a_project_is_imported_when_asked_for(shell: Shell) -> None:
    (shell.cwd / ".vscode").mkdir()
    (shell.cwd / ".vscode" / "mcp.json").write_bytes((DATA / "vscode.json").read_bytes())
    assert shell.run("import", "vscode").code == 2
    assert shell.run("import", "vscode", "--project").code == 0


def test_a_client_without_a_file_is_named_with_the_places_that_were_looked_at(shell: Shell) -> None:
    done = shell.run("import", "zed")
    assert done.code == 2
    assert str(shell.home / ".config/zed/settings.json") in done.err
    assert shell.run("import", "zed", "--undo").code == 1


def test_a_link_to_a_client_file_stays_a_link(shell: Shell) -> None:
    real = shell.copy(DATA / "cursor.json", "dotfiles/cursor.json")
    (shell.home / ".cursor").mkdir()
    (shell.home / ".cursor/mcp.json").symlink_to(real)
    shell.run("import", "cursor", "--take-over")
    assert (shell.home / ".cursor/mcp.json").is_symlink()
    assert list(decode(real.read_bytes())["mcpServers"]) == ["wicket"]


@pytest.mark.parametrize(
    ("platform", "client", "expected"),
    [
        ("darwin", "claude-desktop", "Library/Application Support/Claude/claude_desktop_config.json"),
        ("win32", "claude-desktop", "roaming/Claude/claude_desktop_config.json"),
        ("darwin", "vscode", "Library/Application Support/Code/User/mcp.json"),
        ("win32", "vscode", "roaming/Code/User/mcp.json"),
        ("darwin", "zed", ".config/zed/settings.json"),
        ("win32", "zed", "roaming/Zed/settings.json"),
        ("win32", "cursor", ".cursor/mcp.json"),
        ("darwin", "codex", ".codex/config.toml"),
        ("win32", "gemini", ".gemini/settings.json"),
        ("darwin", "windsurf", ".codeium/windsurf/mcp_config.json"),
        ("win32", "claude-code", ".claude.json"),
        ("darwin", "cline", ".cline/data/settings/cline_mcp_settings.json"),
        ("win32", "copilot-jetbrains", "AppData/Local/github-copilot/intellij/mcp.json"),
    ],
)
def test_each_platform_has_its_places(platform: str, client: str, expected: str, tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "USERPROFILE": str(tmp_path), "APPDATA": str(tmp_path / "roaming")}
    where = folders(environ, platform, tmp_path)
    assert user_files(CLIENTS[client], where)[0].path == tmp_path / expected


def test_a_packaged_claude_desktop_has_a_folder_of_its_own_on_windows(tmp_path: Path) -> None:
    environ = {"USERPROFILE": str(tmp_path), "APPDATA": str(tmp_path / "roaming"), "LOCALAPPDATA": str(tmp_path / "lo")}
    _, packaged = user_files(CLIENTS["claude-desktop"], folders(environ, "win32", tmp_path))
    inside = "lo/Packages/Claude_pzs8sxrjxfjjc/LocalCache/Roaming/Claude/claude_desktop_config.json"
    assert packaged.path == tmp_path / inside
    assert len(user_files(CLIENTS["claude-desktop"], folders(environ, "darwin", tmp_path))) == 1


def test_claude_code_on_windows_names_folders_with_slashes_of_either_kind() -> None:
    where = folders({"USERPROFILE": "/h"}, "win32", Path(r"C:\work\app"))
    sections = [file.section for file in user_files(CLIENTS["claude-code"], where)]
    assert sections == [
        ("mcpServers",),
        ("projects", "C:/work/app", "mcpServers"),
        ("projects", r"C:\work\app", "mcpServers"),
    ]


def test_what_cline_had_in_the_editor_is_found_too() -> None:
    files = user_files(CLIENTS["cline"], folders({"HOME": "/h"}, "darwin", Path("/w")))
    user = "/h/Library/Application Support/Code/User"
    assert str(files[1].path) == f"{user}/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json"


@pytest.mark.parametrize(
    ("client", "variable", "expected"),
    [
        ("claude-code", "CLAUDE_CONFIG_DIR", "/elsewhere/.claude.json"),
        ("codex", "CODEX_HOME", "/elsewhere/config.toml"),
        ("gemini", "GEMINI_CLI_HOME", "/elsewhere/.gemini/settings.json"),
        ("cline", "CLINE_DATA_DIR", "/elsewhere/settings/cline_mcp_settings.json"),
        ("cline", "CLINE_MCP_SETTINGS_PATH", "/elsewhere"),
    ],
)
def test_a_client_that_was_told_to_keep_its_file_elsewhere_is_found_there(
    client: str, variable: str, expected: str
) -> None:
    where = folders({"HOME": "/h", variable: "/elsewhere"}, "linux", Path("/w"))
    assert str(user_files(CLIENTS[client], where)[0].path) == expected


def test_every_client_has_a_test_of_its_layout() -> None:
    assert {case.client for case in CASES} | NEWER == set(CLIENTS)
    where = folders({"HOME": "/h"}, "linux", Path("/w"))
    without = {c.id for c in CLIENTS.values() if project_file(c, where) is None}
    assert without - NEWER == {"claude-desktop", "windsurf", "cline"}


def _json(value: object) -> str:
    from wicket_mcp.codec import pretty

    return pretty(value)


@pytest.mark.parametrize("change", ["", "model = 1\n"])
def test_a_toml_file_with_inline_servers_is_taken_over_and_given_back(shell: Shell, change: str) -> None:
    text = 'mcp_servers = { time = { command = "mcp-server-time" }, git = { command = "mcp-server-git" } } # mine\n'
    file = shell.write(".codex/config.toml", text)
    assert shell.run("import", "codex", "--take-over").code == 0
    assert list(tomllib.loads(file.read_text("utf-8"))["mcp_servers"]) == ["wicket"]
    file.write_text(change + file.read_text("utf-8"), "utf-8")
    assert shell.run("import", "codex", "--undo").code == 0
    if not change:
        assert file.read_text("utf-8") == text
    assert tomllib.loads(file.read_text("utf-8")) == tomllib.loads(change + text)


@pytest.mark.promise("V20", "The copy of a client's file follows no link and overwrites nothing.")
def test_v20_a_copy_goes_through_no_link(shell: Shell) -> None:
    text = '{"mcpServers": {"time": {"command": "mcp-server-time"}}}'
    file = shell.write("project/.mcp.json", text)
    elsewhere = file.parent.parent / "made-by-a-link"
    link = file.with_name(".mcp.json.before-wicket")
    link.symlink_to(elsewhere)
    second = file.with_name(".mcp.json.before-wicket-2")
    second.write_text("somebody's own")
    assert shell.run("import", str(file), "--take-over").code == 0
    assert not elsewhere.exists()
    assert second.read_text() == "somebody's own"
    assert file.with_name(".mcp.json.before-wicket-3").read_text() == text


NEWER = {
    *("vscode-insiders", "vscodium", "copilot", "kiro", "lm-studio"),
    *("junie", "jetbrains", "copilot-jetbrains", "opencode", "goose"),
}
"""Clients with the layout of another: where they keep it is tested below."""


@pytest.mark.parametrize(
    ("client", "place", "section"),
    [
        ("vscode-insiders", ".config/Code - Insiders/User/mcp.json", "servers"),
        ("vscodium", ".config/VSCodium/User/mcp.json", "servers"),
        ("vscode", ".config/Code/User/profiles/-1a2b/mcp.json", "servers"),
        ("copilot", ".copilot/mcp-config.json", "mcpServers"),
        ("kiro", ".kiro/settings/mcp.json", "mcpServers"),
        ("lm-studio", ".lmstudio/mcp.json", "mcpServers"),
        ("junie", ".junie/mcp/mcp.json", "mcpServers"),
        ("jetbrains", ".ai/mcp/mcp.json", "mcpServers"),
        ("copilot-jetbrains", ".config/github-copilot/intellij/mcp.json", "servers"),
    ],
)
def test_newer_clients_are_taken_over_where_they_keep_their_servers_and_given_back(
    shell: Shell, client: str, place: str, section: str
) -> None:
    text = _json({"theme": "dark", section: {"time": {"command": "uvx", "args": ["mcp-server-time"]}, "broken": 5}})
    file = shell.write(place, text)
    files = user_files(CLIENTS[client], folders({"HOME": str(shell.home)}, "linux", shell.cwd))
    assert [(each.path, each.section) for each in files if each.path.exists()] == [(file, (section,))]
    config = load(file)
    assert [server.name for server in config.servers] == ["time"]
    assert config.notes == (f"'{section}.broken' is left out: expected a table with a 'command' or a 'url'.",)
    taken = shell.run("import", client, "--take-over")
    assert taken.code == 0, taken.err
    now = decode(file.read_bytes())
    assert (now["theme"], now[section]["broken"], sorted(now[section])) == ("dark", 5, ["broken", "wicket"])
    assert "serve" in encode(now[section]["wicket"]).decode()
    assert [server.name for server in load(shell.config).servers] == ["time"]
    assert shell.run("import", client, "--undo").code == 0
    assert file.read_text() == text


def test_each_client_that_is_taken_over_sees_what_it_had_and_nothing_else(shell: Shell) -> None:
    shell.write(".cursor/mcp.json", _json({"mcpServers": {"time": {"command": "mcp-server-time"}}}))
    shell.write(".kiro/settings/mcp.json", _json({"mcpServers": {"git": {"command": "mcp-server-git"}}}))
    first = shell.run("import", "cursor", "--take-over")
    assert "[profiles.cursor]" in first.err
    assert shell.run("import", "kiro", "--take-over").code == 0
    for file, own, other in ((".cursor/mcp.json", "time", "git"), (".kiro/settings/mcp.json", "git", "time")):
        entry = decode((shell.home / file).read_bytes())["mcpServers"]["wicket"]
        greeting = _json_line(
            {
                "jsonrpc": "2.0",
                "id": 1,
                "method": "initialize",
                "params": {
                    "protocolVersion": "2025-11-25",
                    "capabilities": {},
                    "clientInfo": {"name": "test", "version": "1"},
                },
            }
        )
        told = decode(shell.run(*entry["args"], stdin=greeting).out.splitlines()[0].encode())
        assert f"{own}" in told["result"]["instructions"]
        assert "of 1 server:" in told["result"]["instructions"]
        assert f"{other} (" not in told["result"]["instructions"]
        assert f"mcp-server-{other}" not in told["result"]["instructions"]
    again = shell.run("import", "cursor", "--undo")
    assert again.code == 0
    shell.write(".cursor/mcp.json", _json({"mcpServers": {"echo": peer("Echo")}}))
    assert shell.run("import", "cursor", "--take-over").code == 0
    profiles = {profile.name: profile.servers for profile in load(shell.config).profiles}
    assert profiles == {"cursor": ("time", "echo"), "kiro": ("git",)}


def test_what_the_client_asked_for_approved_or_handed_on_is_not_lost_without_a_word(shell: Shell) -> None:
    shell.write(
        ".config/Code/User/mcp.json",
        _json(
            {
                "inputs": [{"id": "gh-token", "type": "promptString", "password": True}],
                "servers": {
                    "github": {
                        "command": "npx",
                        "args": ["-y", "github-mcp"],
                        "env": {"TOKEN": "${input:gh-token}"},
                        "autoApprove": ["get_issue"],
                    },
                    "k8s": {"command": "kubernetes-mcp"},
                    "time": {"command": "mcp-server-time"},
                },
            }
        ),
    )
    done = shell.run("import", "vscode", KUBECONFIG="/k/config", HTTPS_PROXY="http://proxy:3128")
    assert "'github' needs GH_TOKEN, which the client asked you for" in done.err
    assert "'github': autoApprove is not taken over" in done.err
    assert "'k8s' is given KUBECONFIG" in done.err
    inherited = {server.name: server.inherit_env for server in load(shell.config).servers}
    assert inherited == {"github": ("HTTPS_PROXY",), "k8s": ("KUBECONFIG",), "time": ()}


def test_settings_that_wicket_has_no_option_for_are_named_and_choices_of_tools_are_kept(shell: Shell) -> None:
    entries = {
        "one": {"type": "local", "command": "one", "args": [], "tools": ["read", "list"]},
        "every": {"type": "local", "command": "every", "args": [], "tools": ["*"], "changed": "tell"},
        "web": {
            "url": "https://example.com/mcp",
            "headersHelper": "/bin/token",
            "oauth": {"clientId": "x"},
            "name": "W",
        },
        "approved": {"command": "x", "tools": {"read": {"approval_mode": "approve"}}, "trust": True},
    }
    shell.write(".copilot/mcp-config.json", _json({"mcpServers": entries}))
    done = shell.run("import", "copilot")
    assert done.code == 0, done.err
    assert "'web': headersHelper, oauth is not taken over, because Wicket has no such option" in done.err
    assert "'approved': tools is not taken over, because" in done.err
    assert done.err.count("no such option") == 2
    assert done.err.count("changed of 'every' has no effect in this file. Set it in a wicket.toml") == 1
    chosen = {server.name: server.allowed_tools for server in load(shell.config).servers}
    assert chosen == {"one": ("read", "list"), "every": ("*",), "web": ("*",), "approved": ("*",)}


def test_a_client_that_withholds_variables_is_told_to_pass_on_those_that_its_servers_had(shell: Shell) -> None:
    codex = shell.copy(DATA / "codex.toml", ".codex/config.toml")
    gemini = shell.copy(DATA / "gemini.json", ".gemini/settings.json")
    assert shell.run("import", "codex", "--take-over", HTTPS_PROXY="http://proxy:3128").code == 0
    assert shell.run("import", "gemini", "--take-over").code == 0
    taken = tomllib.loads(codex.read_text())["mcp_servers"]["wicket"]
    assert taken["env_vars"] == ["ATLAS_TOKEN", "HTTPS_PROXY", "EASEL_TEAM", "EASEL_TOKEN"]
    entry = decode(gemini.read_bytes())["mcpServers"]["wicket"]
    assert entry["env"] == {name: f"${name}" for name in ("BOOKS_URL", "BOOKS_KEY", "TIDES_TOKEN")}


def test_a_server_is_handed_the_variables_that_it_inherits_by_name(shell: Shell) -> None:
    (shell.cwd / "wicket.toml").write_text(
        f"[servers.shows]\ncommand = {sys.executable!r}\ninherit_env = ['KUBECONFIG', 'NOT_SET']\n"
        "args = ['-c', 'import os, sys; sys.exit(repr(sorted(k for k in os.environ if k.isupper())))']\n"
    )
    done = shell.run("doctor", "--json", KUBECONFIG="/k/config", AWS_PROFILE="work")
    (said,) = [one["output"] for one in done.json if one["about"] == "shows" and one["level"] == "problem"]
    assert "'KUBECONFIG'" in said[-1]
    assert "NOT_SET" not in said[-1]
    assert "AWS_PROFILE" not in said[-1]


def test_a_server_that_is_added_later_says_which_clients_do_not_see_it(shell: Shell) -> None:
    shell.write(".cursor/mcp.json", _json({"mcpServers": {"time": {"command": "mcp-server-time"}}}))
    assert shell.run("import", "cursor", "--take-over").code == 0
    done = shell.run("add", "git", "--", "mcp-server-git")
    assert "Not shown in: cursor." in done.err


def _json_line(value: object) -> str:
    return encode(value).decode() + "\n"


def test_opencode_is_taken_over_in_its_own_layout_and_given_back(shell: Shell) -> None:
    before = """{
  "$schema": "https://opencode.ai/config.json",
  "mcp": {
    "time": { "type": "local", "command": ["mcp-server-time", "--local-timezone", "UTC"], "timeout": 3000,
              "environment": { "LEVEL": "{env:LEVEL}" } }, // local
    "docs": { "type": "remote", "url": "https://docs.example/mcp", "enabled": false },
    "jira": { "enabled": true }
  },
  "theme": "dark"
}
"""
    file = shell.write(".config/opencode/opencode.json", before)
    done = shell.run("import", "opencode", "--take-over")
    assert done.code == 0, done.err
    assert "'jira' is left out" in done.err
    time, docs = load(shell.config).servers
    assert (time.command, time.args, time.timeout) == ("mcp-server-time", ("--local-timezone", "UTC"), 3)
    assert time.env == {"LEVEL": "${env:LEVEL}"}
    assert (docs.url, docs.enabled) == ("https://docs.example/mcp", False)
    taken = read_syntax(file.read_text("utf-8")).tree
    assert set(taken["mcp"]) == {"wicket", "jira"}
    entry = taken["mcp"]["wicket"]
    assert (entry["type"], entry["enabled"], set(entry)) == ("local", True, {"type", "enabled", "command"})
    assert entry["command"][1:] == ["serve", "--config", str(shell.config), "--profile", "opencode"]
    assert "has no servers besides Wicket" in shell.run("import", "opencode", "--take-over").err
    assert shell.run("import", "opencode", "--undo").code == 0
    assert file.read_text("utf-8") == before


def test_the_extensions_of_goose_are_imported(shell: Shell) -> None:
    shell.write(
        ".config/goose/config.yaml",
        """\
GOOSE_PROVIDER: anthropic
extensions:
  developer:
    enabled: true
    type: builtin
    name: developer
  github:
    enabled: true
    type: stdio
    name: GitHub
    cmd: npx
    args: ["-y", "github-mcp"]
    envs: {}
    env_keys: [GITHUB_TOKEN]
    available_tools: [get_issue]
    timeout: 300
  docs:
    enabled: false
    type: streamable_http
    name: Docs
    uri: https://docs.example/mcp
    available_tools: []
""",
    )
    refused = shell.run("import", "goose", "--take-over")
    assert (refused.code, "by hand" in refused.err) == (2, True)
    assert not shell.config.exists(), "what is refused changes nothing"
    done = shell.run("import", "goose")
    assert done.code == 0, done.err
    assert "--take-over" not in done.err, "what would be refused is not suggested"
    assert "'developer' is left out: it is part of the client itself." in done.err
    github, docs = load(shell.config).servers
    assert (github.command, github.args, github.timeout) == ("npx", ("-y", "github-mcp"), 300)
    assert github.env == {"GITHUB_TOKEN": "${env:GITHUB_TOKEN}"}
    assert (github.allowed_tools, docs.allowed_tools) == (("get_issue",), ("*",))
    assert (docs.url, docs.transport, docs.enabled) == ("https://docs.example/mcp", "http", False)


def test_a_wrong_value_in_one_entry_costs_that_entry_with_a_word(shell: Shell) -> None:
    servers = {"time": {"command": "mcp-server-time"}, "bad": {"command": "x", "args": "not a list"}}
    (shell.cwd / ".mcp.json").write_bytes(encode({"mcpServers": servers}))
    done = shell.run("doctor", "--json", "--no-start")
    (word,) = [one["message"] for one in done.json if "is left out" in one["message"]]
    assert word.startswith("'bad' is left out: mcpServers.bad.args: expected a list")
    assert "time.get_current_time" in shell.run("tools").out


def test_a_name_is_one_line_and_what_was_added_is_listed(shell: Shell) -> None:
    """W28: a name with a line of its own wrote a line of ours, and the commands were not shown."""
    forged = "a\nSomething is called 'b'\n[servers.x]\u202e"
    server = {"command": "sh", "args": ["-c", "evil\n  good: ls"], "env": {"PATH": "/tmp", "TOKEN": "${GH_TOKEN}"}}
    file = shell.write("theirs.json", encode({"mcpServers": {forged: server}}).decode())
    done = shell.run("import", str(file))
    assert done.code == 0, done.err
    lines = [line.strip() for line in done.err.splitlines()]
    assert not [line for line in lines if line.startswith(("Something", "[servers", "good"))]
    assert any("sh -c evil good: ls (env PATH=/tmp, TOKEN=${GH_TOKEN})" in line for line in lines), done.err
