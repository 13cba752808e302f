"""A configuration that cannot be used is refused with the file, the line, the key, and what was expected."""

from pathlib import Path
from textwrap import dedent
from typing import NamedTuple

import pytest

from wicket_mcp.config.read import formats
from wicket_mcp.errors import ConfigError


class Case(NamedTuple):
    text: str
    line: int | None
    key: str
    says: str


TOML = {
    "unknown key": Case(
        """\
        [servers.github]
        command = "npx"
        arg = ["-y"]
        """,
        3,
        "servers.github.arg",
        "unknown key. Did you mean 'args'?",
    ),
    "unknown section": Case(
        """\
        log_level = "info"

        [htp]
        port = 1
        """,
        3,
        "htp",
        "unknown key. Did you mean 'http'?",
    ),
    "misspelt servers": Case(
        """\
        log_level = "info"

        [server.time]
        command = "x"

        [server.other]
        command = "y"
        """,
        3,
        "server",
        "unknown key. Did you mean 'servers'?",
    ),
    "unknown key in a section": Case("[http]\nprot = 1\n", 2, "http.prot", "Did you mean 'port'?"),
    "unknown key that resembles none": Case("zzzz = 1\n", 1, "zzzz", "Known keys are dialects, dotted_names"),
    "unknown key in an inline table": Case(
        '[servers]\na = { command = "x", timeot = 3 }\n', 2, "servers.a.timeot", "Did you mean 'timeout'?"
    ),
    "unknown key after a text that looks like TOML": Case(
        '[servers.a]\ncommand = "x"\ndescription = """\n[servers.b]\nurll = 1\n"""\nurll = 2\n',
        7,
        "servers.a.urll",
        "Did you mean 'url'?",
    ),
    "dotted key": Case(
        'servers.a.command = "x"\nservers.a.start = "now"\n', 2, "servers.a.start", "'now' is not one of"
    ),
    "wrong type, string": Case(
        "[servers.a]\ncommand = 3\n", 2, "servers.a.command", "expected a string, not a number."
    ),
    "wrong type, boolean": Case(
        '[servers.a]\ncommand = "x"\nenabled = "yes"\n', 3, "servers.a.enabled", "expected true or false, not a string."
    ),
    "wrong type, list": Case(
        '[servers.a]\ncommand = "x"\nargs = "-y"\n', 3, "servers.a.args", "expected a list of strings, not a string."
    ),
    "wrong type in a list": Case(
        '[servers.a]\ncommand = "x"\nargs = [\n  "-y", # fine\n  7,\n]\n',
        5,
        "servers.a.args[1]",
        "expected a string, not a number.",
    ),
    "wrong type in a table": Case(
        '[servers.a]\ncommand = "x"\n\n[servers.a.env]\nPORT = 80\n',
        5,
        "servers.a.env.PORT",
        "expected a string, not a number.",
    ),
    "wrong type, table": Case(
        '[servers.a]\ncommand = "x"\nenv = []\n', 3, "servers.a.env", "expected a table of strings"
    ),
    "wrong type, section": Case("http = 8377\n", 1, "http", "expected a table, not a number."),
    "wrong type, date": Case("log_level = 2020-01-01\n", 1, "log_level", "not a date."),
    "number out of range": Case("[http]\nport = 70000\n", 2, "http.port", "expected a whole number from 0 to 65535."),
    "number too small": Case(
        '[servers.a]\ncommand = "x"\nmax_concurrent = 0\n', 3, "servers.a.max_concurrent", "at least 1."
    ),
    "bad duration": Case(
        '[servers.a]\ncommand = "x"\ntimeout = "soon"\n',
        3,
        "servers.a.timeout",
        "expected a duration in seconds or such as",
    ),
    "endless duration": Case(
        '[servers.a]\ncommand = "x"\ntimeout = inf\n', 3, "servers.a.timeout", "expected a duration in seconds"
    ),
    "no time at all": Case('[servers.a]\ncommand = "x"\ntimeout = 0\n', 3, "servers.a.timeout", "more than 0."),
    "bad size": Case("[http]\nmax_body = '4 parsecs'\n", 2, "http.max_body", "expected a size in bytes or such as"),
    "bad enum": Case(
        '[servers.a]\ncommand = "x"\nstart = "lasy"\n', 3, "servers.a.start", "'lasy' is not one of 'eager' or 'lazy'."
    ),
    "bad enum in a list": Case(
        'dialects = ["native",\n "klingon"]\n', 2, "dialects[1]", "'klingon' is not one of 'bridge',"
    ),
    "command and url": Case(
        '[servers.a]\ncommand = "x"\nurl = "https://a.example"\n',
        3,
        "servers.a.url",
        "either 'command' or 'url', not both.",
    ),
    "neither command nor url": Case(
        '\n[servers.a]\ntags = ["x"]\n', 2, "servers.a", "has neither 'command' nor 'url'."
    ),
    "transport of a command": Case(
        '[servers.a]\ncommand = "x"\ntransport = "http"\n', 3, "servers.a.transport", "'http' does not fit a command."
    ),
    "transport of an address": Case(
        '[servers.a]\nurl = "https://a.example"\ntransport = "stdio"\n', 3, "servers.a.transport", "does not fit a url."
    ),
    "empty command": Case('[servers.a]\ncommand = " "\n', 2, "servers.a.command", "is empty."),
    "not a web address": Case('[servers.a]\nurl = "file:///etc"\n', 2, "servers.a.url", "is not a web address."),
    "impossible variable name": Case(
        '[servers.a]\ncommand = "x"\nenv = { "A=B" = "c" }\n', 3, 'servers.a.env."A=B"', "Rename it."
    ),
    "NUL in a text": Case('[servers.a]\ncommand = "x\\u0000"\n', 2, "servers.a.command", "contains a NUL"),
    "bad server name": Case(
        '[servers."my files"]\ncommand = "x"\n', 1, 'servers."my files"', "Use 'my-files', and title"
    ),
    "server names that differ in case": Case(
        '[servers.a]\ncommand = "x"\n[servers.A]\ncommand = "y"\n',
        3,
        "servers.A",
        "differs from the server 'a' only in",
    ),
    "duplicate name": Case(
        '[servers.a]\ncommand = "x"\n\n[servers.a]\ncommand = "y"\n', 4, "", "is not valid TOML: Cannot declare"
    ),
    "servers as a list": Case('[[servers]]\ncommand = "x"\n', 1, "servers", "Write [servers.NAME]"),
    "a server that is no table": Case('[servers]\na = "x"\n', 2, "servers.a", "expected a table with a 'command'"),
    "syntax": Case('[servers.a]\ncommand = "x\n', 2, "", "is not valid TOML"),
    "syntax at the end": Case('[servers.a]\ncommand = ["x",\n', 3, "", "is not valid TOML"),
    "impossible date": Case("a = 2020-99-99\n", 1, "", "is not valid TOML"),
    "number of thousands of digits": Case(f"a = {'9' * 5000}\n", None, "", "is not valid TOML"),
}

JSON = {
    "wrong type under the client's own key": Case(
        """\
        {
          // comments count as lines
          "mcpServers": {
            "a": {
              "command": "x",
              "excludeTools": ["ok", {}]
            }
          }
        }
        """,
        6,
        "mcpServers.a.excludeTools[1]",
        "expected a string, not a table.",
    ),
    "wrong type in a nested command": Case(
        '{"context_servers": {"a": {\n"command": {\n"path": "x",\n"args": "y"}}}}',
        4,
        "context_servers.a.command.args",
        "expected a list of strings, not a string.",
    ),
    "neither command nor url": Case('{"mcpServers": {\n\n"b": {"type": "stdio"}}}', 3, "mcpServers.b", "has neither"),
    "command and url": Case(
        '{"servers": {\n"b": {\n"command": "x",\n"url": "https://b.example"}}}', 4, "servers.b.url", "not both."
    ),
    "bad transport": Case(
        '{"mcpServers": {"b": {\n"command": "x",\n"type": "stdoi"}}}',
        3,
        "mcpServers.b.type",
        "'stdoi' is not one of 'auto', 'http', 'sse' or 'stdio'.",
    ),
    "no id in a list": Case('{"servers": [\n{"command": "y"}]}', 2, "servers[0]", "expected an 'id'"),
    "bad start mode": Case(
        '{"servers": [\n{"id": "a", "command": "x",\n"startMode": "now"}]}',
        3,
        "servers[0].startMode",
        "'now' is not one of",
    ),
    "bad port": Case('{"mcpClients": {},\n"port": "high"}', 2, "port", "expected a whole number from 0 to 65535"),
    "servers that are no table": Case('{\n"mcpServers": 3}', 2, "mcpServers", "expected the servers"),
    "a server that is no table": Case('{"mcpServers": {\n"a": null}}', 2, "mcpServers.a", "expected a table with"),
    "no servers at all": Case('{"theme": "dark"}', None, "", "lists no servers. Wicket reads its own TOML"),
    "syntax": Case('{"mcpServers": {\n"a": {"command" "x"}}}', 2, "", "is not valid JSON: Expecting ':' delimiter"),
    "comment without end": Case('{"mcpServers": {}\n/* oh', 2, "", "is not valid JSON"),
    "not a number": Case('{"mcpServers": {}, "a": NaN}', None, "", "NaN is not a number that JSON has"),
    "nested too deeply": Case('{"mcpServers": ' + '{"a": ' * 100_000, None, "", "nested too deeply"),
}

YAML = {
    "wrong type": Case(
        "backends:\n  a:\n    command: x\n    args:\n      - y\n      - {}\n",
        6,
        "backends.a.args[1]",
        "expected a string, not a table.",
    ),
    "bad duration": Case(
        "backends:\n  a:\n    command: x\n    timeout: soon\n", 4, "backends.a.timeout", "expected a duration"
    ),
    "neither": Case("backends:\n\n  a:\n    tags: [x]\n", 3, "backends.a", "has neither 'command' nor 'url'."),
    "bad log level": Case("log_level: loud\nbackends: {}\n", 1, "log_level", "'loud' is not one of"),
    "anchor in itself": Case("backends: &x\n  a: *x\n", 1, "backends.a", "an anchor refers to itself."),
    "key that is a list": Case("backends:\n  [a, b]: {command: x}\n", 2, "backends", "a key must be plain text."),
    "syntax": Case("backends:\n  a: [x\n  b: y\n", 3, "", "is not valid YAML"),
    "no table": Case("- a\n- b\n", None, "", "holds no configuration"),
}

CASES = {
    f"{syntax}: {kind}": case
    for syntax, table in {"TOML": TOML, "JSON": JSON, "YAML": YAML}.items()
    for kind, case in table.items()
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_the_error_names_the_line_the_key_and_what_was_expected(case: Case) -> None:
    with pytest.raises(ConfigError) as caught:
        formats.parse(dedent(case.text), "some/file")
    error = caught.value
    assert (error.line, error.key) == (case.line, case.key)
    assert case.says in str(error)
    place = "some/file" if case.line is None else f"some/file:{case.line}"
    assert str(error).startswith(f"{place}: {case.key}: " if case.key else f"{place}: ")
    assert error.file == "some/file"


def test_one_message_in_full() -> None:
    with pytest.raises(ConfigError) as caught:
        formats.parse('[servers.github]\ncommand = "npx"\ntimout = 3\n', "wicket.toml")
    assert str(caught.value) == "wicket.toml:3: servers.github.timout: unknown key. Did you mean 'timeout'?"


def test_a_value_that_may_be_a_secret_is_not_repeated() -> None:
    with pytest.raises(ConfigError) as caught:
        formats.parse('[servers.a]\ncommand = "x"\nenv = "ghp_sesame"\n', "wicket.toml")
    assert "sesame" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "says"),
    [(None, "does not exist."), (b"\xff\xfe{}", "is not UTF-8 text.")],
    ids=["absent", "not text"],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, content: bytes | None, says: str) -> None:
    file = tmp_path / "wicket.toml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError, match=says) as caught:
        formats.load(file)
    assert caught.value.file == str(file)


def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot be read: Is a directory\. Check the path"):
        formats.load(tmp_path)
