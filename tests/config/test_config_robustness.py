"""Whatever a file contains, reading it ends in a Config or a ConfigError; and reading costs little to load."""

import contextlib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wicket_mcp import codec
from wicket_mcp.config.model import names
from wicket_mcp.config.model.config import Config, ServerConfig
from wicket_mcp.config.read import clients, formats
from wicket_mcp.config.read.secrets import missing_secrets, resolve
from wicket_mcp.errors import ConfigError

DATA = Path(__file__).parent / "data"
SAMPLES = [path.read_text("utf-8") for path in sorted(DATA.iterdir())]

SECTIONS = [
    "mcpServers",
    "servers",
    "context_servers",
    "mcpClients",
    "mcp_servers",
    "backends",
    "mcp",
    "http",
    "inputs",
]
WORDS = [
    *clients.WORDS,
    "tcp",
    "settings",
    "source",
    "id",
    "name",
    "bearer_token_env_var",
    "env_http_headers",
    "env_vars",
]
scalars: st.SearchStrategy[Any] = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8)
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS) | st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=12,
)
entries = st.dictionaries(st.sampled_from(WORDS), values, max_size=6)
sections = st.dictionaries(st.text(max_size=6), entries | values, max_size=3) | st.lists(entries, max_size=3) | values
files = st.dictionaries(st.sampled_from(SECTIONS) | st.text(max_size=4), sections, max_size=3)


def assert_usable(config: Config) -> None:
    """A configuration that was accepted holds only what the rest of Wicket can rely on."""
    ids = [server.name.lower() for server in config.servers]
    assert len(set(ids)) == len(ids)
    for server in config.servers:
        assert names.is_valid(server.name)
        assert (server.command is None) != (server.url is None)
        assert (server.transport == "stdio") == (server.command is not None)
        assert all(isinstance(text, str) for text in (*server.args, *server.env.values(), *server.headers.values()))


def refusal(read: Callable[[], object]) -> ConfigError | None:
    try:
        read()
    except ConfigError as error:
        return error
    return None


@given(
    st.text()
    | st.sampled_from(["", "- ", "a: ", "a = ", "{", "// "]).flatmap(lambda start: st.text().map(start.__add__))
)
@settings(max_examples=300, deadline=None)
def test_any_text_is_a_configuration_or_a_config_error(text: str) -> None:
    with contextlib.suppress(ConfigError):
        assert_usable(formats.parse(text, "file"))


@given(st.sampled_from(SAMPLES), st.data())
@settings(max_examples=300, deadline=None)
def test_a_damaged_file_is_a_configuration_or_a_config_error(sample: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(sample)))
    end = data.draw(st.integers(start, min(len(sample), start + 20)))
    patch = data.draw(st.text(alphabet="\"'[]{}:=,#/*&\\\n 0ae-", max_size=6))
    with contextlib.suppress(ConfigError):
        assert_usable(formats.parse(sample[:start] + patch + sample[end:], "file"))


@given(files)
@settings(max_examples=300, deadline=None)
def test_any_json_is_a_configuration_or_a_config_error_that_names_a_line(tree: dict[str, Any]) -> None:
    problem = refusal(lambda: assert_usable(formats.parse(codec.pretty(tree), "file")))
    assert problem is None or (problem.line is None) == (not problem.key)
    with contextlib.suppress(ConfigError):
        assert_usable(Config.from_dict(tree))


@given(
    st.text(alphabet="${}:-/abAB_envfile ", max_size=30), st.dictionaries(st.sampled_from("abAB"), st.text(max_size=3))
)
@settings(max_examples=300, deadline=None)
def test_any_reference_is_filled_in_or_reported_as_missing(text: str, environ: dict[str, str]) -> None:
    server = ServerConfig(name="s", command="x", env={"A": text})
    missing = missing_secrets(server, environ)
    problem = refusal(lambda: resolve(server, environ))
    assert bool(missing) == (problem is not None and "NUL" not in str(problem))


@given(st.text())
@pytest.mark.promise("T28", "Any name becomes a plain id.")
def test_t28_any_name_gives_a_valid_id_that_stays_the_same(name: str) -> None:
    derived = names.derive(name)
    assert names.is_valid(derived)
    assert names.derive(derived) == derived


@pytest.mark.parametrize("module", ["read.formats", "read.secrets", "model.reference", "read.locate"])
def test_importing_the_room_loads_nothing_heavy(module: str) -> None:
    program = f"import sys, wicket_mcp.config.{module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert f"wicket_mcp.config.{module}" in loaded
    assert not loaded & {"yaml", "re2", "aiohttp", "pydantic", "attr", "asyncio", "rich", "typer"}
