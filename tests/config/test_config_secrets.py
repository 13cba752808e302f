"""Secrets are filled in one server at a time, just before it starts, and never shown."""

import os
from pathlib import Path

import pytest

from wicket_mcp.config.model.config import ServerConfig
from wicket_mcp.config.read import formats
from wicket_mcp.config.read.secrets import missing_secrets, resolve
from wicket_mcp.errors import ConfigError

DATA = Path(__file__).parent / "data"


def argument(text: str, environ: dict[str, str], base: Path | None = None) -> str:
    return resolve(ServerConfig(name="s", command="x", args=(text,)), environ, base).args[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("${env:KEY}", "k3y"),
        ("${KEY}", "k3y"),
        ("Bearer ${KEY}!", "Bearer k3y!"),
        ("${KEY}${KEY}", "k3yk3y"),
        ("${KEY:-other}", "k3y"),
        ("${env:NONE:-other}", "other"),
        ("${NONE:-}", ""),
        ("${NONE:-a:-b}", "a:-b"),
        ("${EMPTY}", ""),
        ("${EMPTY:-other}", "other"),
        ("${NONE:-${KEY}}", "k3y"),
        ("${NONE:-<${ALSO_NONE:-x}>}", "<x>"),
        ("${TRICKY}", "${KEY}"),
        ("$${KEY}", "${KEY}"),
        ("$$${KEY}", "$${KEY}"),
        ("$KEY $5 {KEY}", "$KEY $5 {KEY}"),
        ("${#KEY} ${KEY%.*}", "${#KEY} ${KEY%.*}"),
        ("${input:my-key}", "from input"),
        ("${input:NONE:-other}", "other"),
        ("${userHome}/x", "/home/ada/x"),
        ("${workspaceFolder}", str(Path.cwd())),
        ("a${/}b${pathSeparator}c", f"a{os.sep}b{os.sep}c"),
    ],
)
def test_references_are_filled_in(text: str, expected: str) -> None:
    environ = {"KEY": "k3y", "EMPTY": "", "TRICKY": "${KEY}", "MY_KEY": "from input", "HOME": "/home/ada"}
    assert argument(text, environ) == expected


def test_files_are_read_relative_to_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "token.txt").write_text("s3same\n")
    assert argument("Bearer ${file:token.txt}", {}, tmp_path) == "Bearer s3same"
    assert argument(f"${{file:{tmp_path}/token.txt}}", {}) == "s3same"
    assert argument("${file:none.txt:-nothing}", {}, tmp_path) == "nothing"


def test_every_place_a_secret_may_stand_is_filled_in(tmp_path: Path) -> None:
    local = ServerConfig(name="a", command="${BIN}/run", args=("${KEY}",), env={"E": "${KEY}"}, cwd="${DIR}")
    resolved = resolve(local, {"BIN": "/bin", "KEY": "k3y", "DIR": "sub"}, tmp_path)
    assert (resolved.command, resolved.args, resolved.env) == ("/bin/run", ("k3y",), {"E": "k3y"})
    assert resolved.cwd == str(tmp_path / "sub")
    assert resolved.config is local
    remote = ServerConfig(name="b", url="https://${HOST}/mcp", headers={"Authorization": "Bearer ${KEY}"})
    reached = resolve(remote, {"HOST": "b.example", "KEY": "k3y"})
    assert (reached.url, reached.headers) == ("https://b.example/mcp", {"Authorization": "Bearer k3y"})


def test_an_unset_variable_is_named_with_its_server_and_a_way_out() -> None:
    server = ServerConfig(name="github", command="x", env={"GITHUB_TOKEN": "${env:GH_TOKEN}"})
    with pytest.raises(ConfigError) as caught:
        resolve(server, {})
    assert str(caught.value) == (
        "github.env.GITHUB_TOKEN: server 'github' needs the environment variable GH_TOKEN, which is not set. "
        "Set it before Wicket starts, or give a default: ${GH_TOKEN:-…}."
    )


def test_everything_that_is_missing_is_told_at_once(tmp_path: Path) -> None:
    server = ServerConfig(
        name="s", command="x", args=("${A}${B}", "${A}"), env={"F": "${file:gone}"}, required_keys=("K",)
    )
    gone = str(tmp_path / "gone")
    assert missing_secrets(server, {}, tmp_path) == ("A", "B", gone, "K")
    assert missing_secrets(server, {"A": "", "B": "", "K": ""}, tmp_path) == (gone,)
    with pytest.raises(ConfigError, match=f"It also lacks B, {gone}, K"):
        resolve(server, {}, tmp_path)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("${file:gone.txt}", r"needs the file .*gone\.txt, which cannot be read \(No such file or directory\)"),
        (
            "${input:api-key}",
            "needs the input 'api-key', which VS Code would ask for. Set the environment variable API_KEY",
        ),
        ("${vault:secret/x}", r"has '\$\{vault…\}' that Wicket cannot read. Use \$\{NAME\}"),
        ("${env:not a name}", "has a reference that Wicket cannot read"),
        ("Bearer ${KEY", "has a reference that Wicket cannot read"),
    ],
)
def test_what_cannot_be_filled_in_is_explained(text: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=says):
        argument(text, {"KEY": "k3y"}, tmp_path)


def test_one_servers_missing_secret_hurts_no_other() -> None:
    config = formats.parse('[servers.a]\ncommand = "x"\nargs = ["${NONE}"]\n[servers.b]\ncommand = "y"\n')
    broken, healthy = config.servers
    assert missing_secrets(broken, {}) == ("NONE",)
    assert resolve(healthy, {}).command == "y"


def test_required_keys_are_demanded_and_handed_on() -> None:
    server = ServerConfig(name="s", command="x", required_keys=("KEY", "OWN"), env={"OWN": "declared"})
    assert resolve(server, {"KEY": "k3y", "OWN": "outer"}).env == {"KEY": "k3y", "OWN": "declared"}
    with pytest.raises(ConfigError, match="server 's' needs the environment variable KEY"):
        resolve(server, {})


def test_an_env_file_adds_to_the_environment_and_env_wins(tmp_path: Path) -> None:
    lines = ["# secrets", "", "A=1", "export B = 'two words'", 'C="x # y"', "D=z # note", "KEY=f", "nonsense"]
    (tmp_path / ".env").write_text("\n".join(lines))
    server = ServerConfig(name="s", command="x", env_file=".env", env={"A": "own"}, required_keys=("KEY",))
    assert resolve(server, {}, tmp_path).env == {"A": "own", "B": "two words", "C": "x # y", "D": "z", "KEY": "f"}
    (tmp_path / ".env").unlink()
    with pytest.raises(ConfigError, match=r"^s\.env_file: server 's' needs the file .*\.env"):
        resolve(server, {"KEY": "k3y"}, tmp_path)


def test_a_secret_with_a_line_break_cannot_smuggle_a_header() -> None:
    server = ServerConfig(name="s", url="https://a.example", headers={"X": "${KEY}"})
    with pytest.raises(ConfigError, match=r"^s\.headers\.X: .*line break") as caught:
        resolve(server, {"KEY": "s3same\r\nHost: evil"})
    assert "s3same" not in str(caught.value)


def test_an_address_is_checked_once_it_is_whole() -> None:
    server = ServerConfig(name="s", url="${ADDRESS}")
    assert resolve(server, {"ADDRESS": "https://a.example"}).url == "https://a.example"
    with pytest.raises(ConfigError, match=r"not a web address") as caught:
        resolve(server, {"ADDRESS": "file:///s3same"})
    assert "s3same" not in str(caught.value)


def test_a_nul_from_a_file_never_reaches_a_program(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"a\0b")
    with pytest.raises(ConfigError, match=r"^s\.args\[0\]: .*NUL"):
        argument("${file:key}", {}, tmp_path)


def test_the_home_folder_can_be_abbreviated() -> None:
    resolved = resolve(ServerConfig(name="s", command="~/bin/x", cwd="~/work"), {})
    assert (resolved.command, resolved.cwd) == (f"{Path.home()}/bin/x", f"{Path.home()}/work")


def test_a_resolved_server_shows_no_secret() -> None:
    server = ServerConfig(name="s", command="x", args=("${KEY}",), env={"E": "${KEY}"})
    resolved = resolve(server, {"KEY": "s3same"})
    assert f"{resolved} {resolved!r}" == "<ResolvedServer s stdio> <ResolvedServer s stdio>"
    assert list(resolved.__rich_repr__()) == ["s"]


@pytest.mark.parametrize(
    ("sample", "name", "missing"),
    [
        ("claude_code.json", "harbour", ("HARBOUR_TOKEN",)),
        ("cursor.json", "plans", ("PLANS_KEY",)),
        ("gemini.json", "ledger", ("BOOKS_URL", "BOOKS_KEY")),
        ("vscode.json", "oracle", ("ORACLE_KEY", str(Path.cwd() / ".env"))),
        ("codex.toml", "atlas", ()),
        ("codex.toml", "easel", ("EASEL_TEAM", "EASEL_TOKEN")),
        ("servers_config.json", "notebook", ()),
        ("servers_config.json", "quiet", ("QUIET_KEY",)),
        ("gatemini.yaml", "harbour", ("HARBOUR_PASS",)),
    ],
)
def test_each_clients_way_to_write_a_secret_is_understood(sample: str, name: str, missing: tuple[str, ...]) -> None:
    config = formats.load(DATA / sample)
    server = next(server for server in config.servers if server.name == name)
    assert missing_secrets(server, {"HOME": "/home/ada"}, config.base_dir) == missing
