"""What a shim loads, which configuration it finds, and which variables part clients."""

import subprocess
import sys
from pathlib import Path

import pytest

from wicket_mcp.config.read import locate
from wicket_mcp.shim import identity

SHIM = """
import sys
before = set(sys.modules)
import wicket_mcp.shim.main, wicket_mcp.shim.identity, wicket_mcp.shim.finding, wicket_mcp.shim.relay
print(*sorted(set(sys.modules) - before))
"""


def test_the_shim_loads_the_standard_library_alone_and_little_of_it() -> None:
    loaded = subprocess.run((sys.executable, "-c", SHIM), capture_output=True, text=True, check=True).stdout.split()
    assert [name for name in loaded if not name.startswith("wicket_mcp")] == ["_socket", "fcntl", "select"]
    assert {name for name in loaded if name.startswith("wicket_mcp.")} == {
        "wicket_mcp.interpreter",
        "wicket_mcp.shim",
        *(f"wicket_mcp.shim.{name}" for name in ("finding", "identity", "link", "main", "messages", "relay")),
    }


def test_it_finds_the_configuration_that_the_gateway_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv(locate.CONFIG_VARIABLE, raising=False)
    assert identity.config_folder() == str(locate.config_folder())
    assert identity.find_config("") is None
    for file in (tmp_path / "config" / "wicket" / "wicket.toml", tmp_path / ".mcp.json", tmp_path / "wicket.toml"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("")
        assert identity.find_config("") == str(locate.find_config()) == str(file)
    monkeypatch.setenv(locate.CONFIG_VARIABLE, ".mcp.json")
    assert identity.find_config("") == str(locate.find_config()) == str(tmp_path / ".mcp.json")
    assert identity.find_config("wicket.toml") == str(locate.find_config("wicket.toml"))


@pytest.mark.parametrize(
    ("name", "text", "counts"),
    [
        ("GITHUB_TOKEN", 'env = { T = "${GITHUB_TOKEN}" }', True),
        ("GITHUB_TOKEN", 'required_keys = ["GITHUB_TOKEN"]', True),
        ("GITHUB_TOKEN", 'env = { T = "${MY_GITHUB_TOKEN}" }', False),
        ("API_KEY", '"Authorization": "${input:api-key}"', True),
        ("PWD", "", False),
        ("PWD", 'args = ["${PWD}"]', True),
        ("PATH", "", True),
        ("HF_HOME", "", True),
        ("https_proxy", "", True),
        ("ANYTHING", "allow_runtime_servers = true", True),
        ("SHLVL", "allow_runtime_servers = true", False),
        ("WICKET_API_KEY", "", False),
        ("WICKET_VAULT_KEY", "", True),
    ],
)
def test_variables_that_part_clients(name: str, text: str, counts: bool) -> None:
    assert (name in identity.visible({name: "x"}, text.encode())) is counts
