"""Which package a command fetches, and whether it is the same one tomorrow."""

import pytest

from wicket_mcp.config.model.server import ServerConfig
from wicket_mcp.trust.launchers import package_of

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    ("command", "spec", "pinned"),
    [
        ("npx -y pkg", "pkg", False),
        ("npx.cmd -y pkg", "pkg", False),
        (r"C:\\node\\npx.CMD -y pkg", "pkg", False),
        ("cmd /c npx -y pkg", "pkg", False),
        ("cmd.exe /d /C npx -y @a/b@1.2.3", "@a/b@1.2.3", True),
        ("npm exec -y -- pkg", "pkg", False),
        ("npm --yes x pkg@1.2.3", "pkg@1.2.3", True),
        ("npm exec --package=@a/b@1.0.0 -- cmd", "@a/b@1.0.0", True),
        ("npx -p one@1.0.0 -p two cmd", "two", False),
        ("pnpm dlx pkg", "pkg", False),
        ("pnpm --dir sub dlx pkg", "pkg", False),
        ("yarn dlx -q pkg", "pkg", False),
        ("bun x pkg", "pkg", False),
        ("bunx --bun pkg@1.2.3-rc.1", "pkg@1.2.3-rc.1", True),
        ("uv tool run pkg", "pkg", False),
        ("uv --quiet tool run pkg==1", "pkg==1", True),
        ("npx pkg@next", "pkg@next", False),
        ("npx pkg@latest", "pkg@latest", False),
        ("npx pkg@^1", "pkg@^1", False),
        ("npx pkg@1", "pkg@1", False),
        ("npx pkg@1.x", "pkg@1.x", False),
        ("npx github:a/b", "github:a/b", False),
        (f"npx github:a/b#{COMMIT}", f"github:a/b#{COMMIT}", True),
        ("uvx --from git+https://example.com/a.git@main cmd", "git+https://example.com/a.git@main", False),
        (f"uvx --from git+https://example.com/a@{COMMIT} cmd", f"git+https://example.com/a@{COMMIT}", True),
        ("uvx --with httpx==0.27 srv", "srv", False),
        ("uvx --with httpx srv==1.0", "httpx", False),
        ("uvx --with httpx==0.27 srv==1.0", "httpx==0.27", True),
        ("uvx --python 3.12 srv", "srv", False),
        ("uvx -p 3.12 srv@1.2", "srv@1.2", True),
        ("uvx --from=pkg cmd", "pkg", False),
        ("uvx mcp[cli]", "mcp[cli]", False),
        ("uvx mcp[cli]==1.2.0", "mcp[cli]==1.2.0", True),
        ("uvx srv==1.*", "srv==1.*", False),
        ("uvx srv>=1", "srv>=1", False),
        ("pipx run --spec pkg==1.0 cmd", "pkg==1.0", True),
        ("podman run -i a/b:1", "a/b:1", False),
    ],
)
def test_only_an_exact_version_is_a_pin(command: str, spec: str, pinned: bool) -> None:
    package = package_of(_server(command))
    assert package is not None
    assert (package.spec, package.pinned) == (spec, pinned)


@pytest.mark.parametrize(
    "command",
    [
        *("npm run start", "npm start", "bun run x", "uv run server.py", "uv --directory tool run", "npx ./here"),
        *("cmd /c", "cmd", "uvx --from . cmd", "python -m server", "yarn start", "pnpm exec pkg", "cmd /c dir", "npx"),
        "docker",
    ],
)
def test_a_command_that_fetches_nothing_has_no_package(command: str) -> None:
    assert package_of(_server(command)) is None


@pytest.mark.parametrize(
    ("command", "pinned"),
    [
        ("uvx mcp[cli]", "mcp[cli]==9.9"),
        ("uvx --from=pkg cmd", "--from=pkg==9.9"),
        ("uvx --python 3.12 srv", "srv==9.9"),
        ("uvx srv@latest", "srv==9.9"),
        ("npx @a/b@next", "@a/b@9.9"),
    ],
)
def test_a_pin_keeps_everything_but_the_version(command: str, pinned: str) -> None:
    package = package_of(_server(command))
    assert package is not None
    assert f"{package.option}{package.pin('9.9')}" == pinned
    assert command.split()[1:][package.at] == f"{package.option}{package.spec}"


def _server(command: str) -> ServerConfig:
    program, *args = command.split()
    return ServerConfig(name="s", command=program, args=tuple(args))
