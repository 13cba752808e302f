"""What a server had in its client but lacks behind Wicket: environment, answers to questions, approvals.

Variables that a server is likely to need are passed on (`inherit_env`); everything else becomes a note, so that an
import loses nothing silently. Checks entries and prints nothing. `import_plan` and `client_entries` call it.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from wicket_mcp.config.model.server import ServerConfig
from wicket_mcp.config.read.clients import own_options, unknown_keys
from wicket_mcp.config.read.secrets import input_variable, missing_secrets

_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")
_NEEDS: tuple[tuple[re.Pattern[str], tuple[str, ...]], ...] = (
    (re.compile(r"kube|k8s|helm|argo", re.IGNORECASE), ("KUBECONFIG",)),
    (re.compile(r"docker|podman|container", re.IGNORECASE), ("DOCKER_HOST", "DOCKER_CONTEXT")),
    (re.compile(r"aws|bedrock|\bs3\b|dynamo", re.IGNORECASE), ("AWS_PROFILE", "AWS_REGION", "AWS_CONFIG_FILE")),
    (re.compile(r"\bgit|ssh", re.IGNORECASE), ("SSH_AUTH_SOCK",)),
    (
        re.compile(r"playwright|puppeteer|browser|chrom|selenium|desktop|screen|clipboard", re.IGNORECASE),
        ("DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY"),
    ),
)
"""Names of programs, and the variables that such programs usually need."""
_FETCHES = frozenset({"npx", "uvx", "uv", "pipx", "bunx", "deno", "docker", "podman"})
_APPROVALS = ("autoApprove", "alwaysAllow", "always_allow", "trust", "autoApproved", "approvals")
_INPUT = re.compile(r"\$\{input:([^{}:]+)\}")


def keep_environment(server: ServerConfig, environ: Mapping[str, str]) -> ServerConfig:
    """The server with the existing variables that it is likely to need."""
    if server.command is None:
        return server
    # Values of `env` may be secrets and do not identify the program; its name, command and arguments do.
    words = " ".join((server.name, Path(server.command).name, *server.args))
    variables = [name for pattern, names in _NEEDS if pattern.search(words) for name in names]
    if Path(server.command).name in _FETCHES:
        variables += _PROXIES
    inherited = tuple(name for name in variables if name in environ and name not in server.env)
    return msgspec.structs.replace(server, inherit_env=inherited) if inherited else server


def describe_losses(server: ServerConfig, environ: Mapping[str, str], folder: Path) -> Iterator[str]:
    """A note for everything that the server will lack or get."""
    if server.inherit_env:
        yield f"'{server.name}' is given {', '.join(server.inherit_env)} of Wicket's environment (inherit_env)."
    prompted = {input_variable(name) for text in _texts(server) for name in _INPUT.findall(text)}
    for name in missing_secrets(server, environ, folder):
        if name in prompted:
            yield f"'{server.name}' needs {name}, which the client asked you for: set it before Wicket starts."
        else:
            yield f"'{server.name}' needs {name}, which is not set here: set it before Wicket starts."


def describe_approvals(name: str, entry: Mapping[str, Any]) -> Iterator[str]:
    """A note if the client may call some tools without asking: these settings are not imported."""
    keys = [key for key in _APPROVALS if entry.get(key)]
    if keys:
        yield (
            f"'{name}': {', '.join(keys)} is not taken over. The client asks about Wicket's own tools now; "
            "rules about calls are [[policy]] in wicket.toml."
        )


def describe_unknown(name: str, entry: Mapping[str, Any]) -> Iterator[str]:
    """A note about the other settings that mean something to the client and nothing to Wicket."""
    named_already = (*_APPROVALS, *own_options(entry))  # in the notes about the approvals, and about the file
    keys = [key for key in unknown_keys(entry) if key not in named_already]
    if keys:
        yield f"'{name}': {', '.join(keys)} is not taken over, because Wicket has no such option. Check what it did."


def _texts(server: ServerConfig) -> list[str]:
    return [*server.args, *server.env.values(), *server.headers.values(), server.url or ""]
