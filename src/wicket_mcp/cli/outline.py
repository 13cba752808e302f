"""What a configuration would start, reach and change, for the person who is asked about it before it is used.

Every server has a line with what is started or reached, and a line for each further option that differs from its
default, wherever it stands; so has the rest of the file. References (`${…}`) are shown as the file has them, other
secrets are masked. Each is one line, so that no text of a file can pose as a line of ours.
"""

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from wicket_mcp.codec import decode, encode
from wicket_mcp.model import as_list, as_object
from wicket_mcp.telemetry.log import one_line, quote_name
from wicket_mcp.telemetry.redact import MASK, is_secret_name, mask_arguments, mask_url

if TYPE_CHECKING:
    from wicket_mcp.config.model.config import Config
    from wicket_mcp.config.model.server import ServerConfig

_CHANGES_WHAT_RUNS = re.compile(
    r"(?:PATH|SHELL|ENV|BASH_ENV|IFS|HOME|EDITOR|PAGER|\w*_OPTIONS|\w*OPTS?|(?:NODE|LD|DYLD|PYTHON|PERL5?|RUBY|JAVA|GIT|NPM"
    r"|BUN|DENO|UV|PIP|DOCKER|SSL)\w*|\w*_PROXY)",
    re.IGNORECASE,
)
_IN_FIRST_LINE = frozenset(
    {"name", "command", "args", "url", "env", "headers", "env_file", "cwd", "inherit_env", "required_keys"}
)
_NOT_OF_THE_FILE = frozenset({"servers", "path", "discovered", "untrusted", "favourites", "notes"})


def changes_what_runs(variable: str) -> bool:
    """Whether a variable of this name decides which code runs, or where it is fetched from."""
    return _CHANGES_WHAT_RUNS.fullmatch(variable) is not None


def outline(config: "Config") -> str:
    """All that a configuration does, line by line."""
    from wicket_mcp.config.model.config import Config

    lines = [line for server in config.servers for line in outline_server(server)]
    own = {name: getattr(config, name) for name in Config.__struct_fields__ if name not in _NOT_OF_THE_FILE}
    usual = Config()
    for name, value in own.items():
        lines += [one_line(text) for text in _differences(_plain(value), _plain(getattr(usual, name)), name)]
    lines += [
        f"shows agents {quote_name(entry.server)}.{quote_name(entry.tool)} as {quote_name(entry.name)}: "
        f"{one_line(f'{entry.title} {entry.description}')}"
        for entry in config.favourites
    ]
    return "\n".join(f"  {line}" for line in lines) or "  nothing"


def outline_server(server: "ServerConfig", *, masked: bool = False) -> list[str]:
    """What a server is started with or reached at, and its other options.

    Without what may be a secret only if `masked`: a stranger's argument could pose as one, so that nobody sees it.
    """
    from wicket_mcp.config.model.server import ServerConfig

    arguments = mask_arguments(server.args) if masked else server.args
    address = mask_url(server.url) if masked and server.url else server.url
    launch = address or " ".join((server.command or "", *arguments))
    head = one_line(f"{quote_name(server.name)}: {launch}{_surroundings(server)}")
    usual = ServerConfig(name=server.name)
    options = (name for name in ServerConfig.__struct_fields__ if name not in _IN_FIRST_LINE)
    differences = (
        text
        for name in options
        for text in _differences(_plain(getattr(server, name)), _plain(getattr(usual, name)), name)
    )
    return [head, *(f"  {one_line(text)}" for text in differences)]


def _plain(value: Any) -> Any:
    """As JSON would have it: lists and objects."""
    return decode(encode(msgspec.to_builtins(value, enc_hook=str)))


def _differences(value: Any, usual: Any, key: str) -> Iterator[str]:
    """`key = value` for each value inside that is not the usual one."""
    if value == usual or value in ("", None, [], {}):
        return
    if isinstance(value, dict):
        before = as_object(usual)
        for name, part in as_object(value).items():
            yield from _differences(part, before.get(name), f"{key}.{quote_name(name)}")
    elif isinstance(value, list) and any(isinstance(part, dict) for part in as_list(value)):
        for number, part in enumerate(as_list(value)):
            yield from _differences(part, None, f"{key}[{number}]")
    else:
        text = ", ".join(map(str, as_list(value))) if isinstance(value, list) else str(value)
        is_hidden = is_secret_name(key.rpartition(".")[2]) and "${" not in text
        yield f"{key} = {MASK if is_hidden else text}"


def _surroundings(server: "ServerConfig") -> str:
    """The variables and headers that a server gets, with the values of those that change what runs or refer to the
    user's, and its folder.
    """
    assigned = mask_arguments([f"{name}={value}" for name, value in server.env.items()])
    variables = [
        text if changes_what_runs(name) and "${" not in value else _with_reference(name, "=", value)
        for (name, value), text in zip(server.env.items(), assigned, strict=True)
    ]
    variables += [*server.inherit_env, *server.required_keys]
    headers: Iterable[str] = (_with_reference(name, ": ", value) for name, value in server.headers.items())
    parts = [f"env {', '.join(variables)}"] if variables else []
    parts += [f"headers {', '.join(headers)}"] if server.headers else []
    parts += [f"variables of {server.env_file}"] if server.env_file else []
    parts += [f"in {server.cwd}"] if server.cwd else []
    return f" ({'; '.join(parts)})" if parts else ""


def _with_reference(name: str, between: str, value: str) -> str:
    """The name, with its value if that refers to something of the user's, which would be sent."""
    return f"{name}{between}{value}" if "${" in value else name
