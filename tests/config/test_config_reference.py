"""What is derived from the declarations: the page, the schema, the help."""

import ast
import re
import tomllib
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

import wicket_mcp
from wicket_mcp.config.model import reference, units
from wicket_mcp.config.model.config import Config, ServerConfig
from wicket_mcp.config.model.options import options_of
from wicket_mcp.config.read import formats
from wicket_mcp.errors import ConfigError

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"
SAMPLE = Path(__file__).parent / "data" / "wicket.toml"


def test_the_page_is_up_to_date() -> None:
    page = PAGE.read_text("utf-8")
    assert reference.refresh(page) == page, "run: python -m wicket_mcp.config.model.reference docs/configuration.md"


def test_a_page_without_the_generated_part_is_refused() -> None:
    with pytest.raises(ValueError, match="no part between"):
        reference.refresh("# Configuration\n")


def examples(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("example", [*examples("toml"), *examples("json")])
def test_every_example_of_the_page_can_be_loaded(example: str) -> None:
    assert formats.parse(example).servers


def test_the_sample_sets_every_option_there_is() -> None:
    """So that the test of reading it covers them all, new ones included."""
    text = tomllib.loads(SAMPLE.read_text("utf-8"))
    servers: dict[str, dict[str, Any]] = text.pop("servers")
    assert set(text) == set(options_of(Config))
    for name, option in options_of(Config).items():
        if option.section is not None:
            assert set(text[name]) == set(options_of(option.section))
    assert {key for server in servers.values() for key in server} == set(options_of(ServerConfig))


def test_every_option_has_a_help_line_with_its_default() -> None:
    assert reference.option_help("http.port") == "Port to listen on; 0 takes a free one. (default: 8377)"
    assert reference.option_help("servers.idle_stop").endswith('(default: "10m")')
    assert reference.option_help("servers.command") == options_of(ServerConfig)["command"].help
    with pytest.raises(KeyError):
        reference.option_help("http.prot")
    assert len(reference.options_text().splitlines()) <= 91, "an option more needs a good reason"


def all_names(cls: type[Any]) -> list[str]:
    """The names of all options of a struct and of its sections."""
    return [
        name
        for option in options_of(cls).values()
        for name in (all_names(option.section) if option.section is not None else [option.name])
    ]


def test_every_option_is_read_somewhere() -> None:
    source = Path(wicket_mcp.__file__).parent.rglob("*.py")
    nodes = (node for file in source for node in ast.walk(ast.parse(file.read_text("utf-8"))))
    read = {node.attr for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)}
    assert not {*all_names(Config), *all_names(ServerConfig)} - read


schema = jsonschema_rs.validator_for(reference.json_schema())


def test_the_schema_accepts_the_sample_and_the_defaults() -> None:
    assert schema.is_valid(tomllib.loads(SAMPLE.read_text("utf-8")))
    assert schema.is_valid({})


@pytest.mark.parametrize(
    "text",
    [
        "[servers.a]\ncommand = 'x'\nurl = 'https://a.example'",
        "[servers.a]\ntags = ['x']",
        "[servers.a]\ncommand = 'x'\ntimout = 3",
        "[servers.a]\ncommand = 'x'\ntimeout = 'soon'",
        "[servers.a]\ncommand = 'x'\ntimeout = 0",
        "[servers.a]\ncommand = 'x'\nargs = 'y'",
        "[servers.a]\ncommand = 'x'\nstart = 'now'",
        "[servers.a]\ncommand = 'x'\nenv = {A = 1}",
        "[servers.'a b']\ncommand = 'x'",
        "dialects = ['klingon']",
        "dotted_names = 'yes'",
        "[http]\nport = 70000",
        "[http]\nmax_body = '4 parsecs'",
        "[htp]",
    ],
)
def test_the_schema_refuses_what_the_checker_refuses(text: str) -> None:
    assert not schema.is_valid(tomllib.loads(text))
    with pytest.raises(ConfigError):
        formats.parse(text)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (90, 90.0),
        (0.5, 0.5),
        ("90", 90.0),
        ("90s", 90.0),
        ("10m", 600.0),
        ("24h", 86400.0),
        ("250ms", 0.25),
        ("1.5h", 5400.0),
    ],
)
def test_durations(given: float | str, expected: float) -> None:
    assert units.seconds(given) == expected
    assert units.seconds(units.spell_seconds(expected)) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (4096, 4096),
        ("4096", 4096),
        ("16MiB", 16 * 1024**2),
        ("1 GiB", 1024**3),
        ("2kb", 2000),
        ("1.5KiB", 1536),
        ("7B", 7),
    ],
)
def test_sizes(given: int | str, expected: int) -> None:
    assert units.size(given) == expected
    assert units.size(units.spell_size(expected)) == expected


@pytest.mark.parametrize("given", ["", "s", "-1", -1, "1y", "1 m 2 s", True, None, float("nan"), 1e300, "1e5", [1]])
def test_what_is_neither_a_duration_nor_a_size(given: object) -> None:
    with pytest.raises(ValueError, match="a duration in seconds"):
        units.seconds(given)
    with pytest.raises(ValueError, match="a size in bytes"):
        units.size(given)
