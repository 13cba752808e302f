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
        ("env npx -y pkg", "pkg", False),
        ("env -i TOKEN=x npx -y pkg@1.2.3", "pkg@1.2.3", True),
        ("timeout 30 uvx pkg", "pkg", False),
        ("op run -- npx -y pkg", "pkg", False),
        ("uvx mcp-proxy==1.0 npx -y pkg", "pkg", False),
        ("docker run -i node@sha256:aa npx -y pkg", "pkg", False),
        ("uv run --with pkg server.py", "pkg", False),
        ("uv run --with=mcp[cli] mcp run server.py", "mcp[cli]", False),
        ("uv run --extra x --with pkg==1.0 --with other -- server.py", "other", False),
        ("uv run --with pkg==1.0 server.py --with other", "pkg==1.0", True),
        ("uv run https://example.com/server.py", "https://example.com/server.py", False),
        ("deno run -A npm:pkg", "pkg", False),
        ("deno -A npm:@a/b@1.2.3", "@a/b@1.2.3", True),
        ("deno run --config deno.json npm:pkg@^1", "pkg@^1", False),
        ("deno x pkg", "pkg", False),
        ("deno run -A jsr:@a/b", "jsr:@a/b", False),
        ("deno run -A jsr:@a/b@1.2.3", "jsr:@a/b@1.2.3", True),
        ("deno run -A https://example.com/mod.ts", "https://example.com/mod.ts", False),
        ("go run example.com/a/b@latest", "example.com/a/b@latest", False),
        ("go run example.com/a/b@v1.2.3", "example.com/a/b@v1.2.3", True),
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
        *("docker", "deno run -A server.ts npm:pkg", "deno task start", "uv run -m server --with pkg", "go run ."),
        *("env python server.py", "sh -c", "bash start.sh npx"),
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


@pytest.mark.parametrize(
    ("shell", "command", "spec", "pinned"),
    [
        ("sh -c", "npx -y pkg", "pkg", "npx -y pkg@9.9"),
        (
            "/bin/bash -lc",
            "cd /srv && exec npx -y '@a/b' --flag; true",
            "@a/b",
            "cd /srv && exec npx -y '@a/b@9.9' --flag; true",
        ),
        ("sh -c", "TOKEN=x uvx --from=pkg cmd | tee log", "pkg", "TOKEN=x uvx --from=pkg==9.9 cmd | tee log"),
        ("cmd /c", r"C:\\node\\npx.cmd -y pkg", "pkg", r"C:\\node\\npx.cmd -y pkg@9.9"),
        ("env -S", "npx -y pkg", "pkg", "npx -y pkg@9.9"),
        ("sh -c", "deno run -A npm:pkg", "pkg", "deno run -A npm:pkg@9.9"),
        ("sh -c", "npx -y $PACKAGE", "$PACKAGE", None),
        ("sh -c", 'npx -y "$(cat "name")', "$(cat", None),
        ("sh -c", 'npx -y p"k"g', "pkg", None),
        ("sh -c", "echo pkg-dir; npx -y pkg", "pkg", None),
    ],
)
def test_a_package_in_a_shells_command_is_found_and_pinned_where_it_stands(
    shell: str, command: str, spec: str, pinned: str | None
) -> None:
    program, *options = shell.split()
    package = package_of(ServerConfig(name="s", command=program, args=(*options, command, "more")))
    assert package is not None
    assert (package.spec.strip('"'), package.pinned, package.at) == (spec, False, len(options))
    if not package.is_address:
        assert package.argument(package.pin("9.9"), command) == pinned


@pytest.mark.parametrize("command", ["node server.js", "echo npx", "python -m server --name 'npx pkg'", "make npx"])
def test_a_shells_command_that_fetches_nothing_has_no_package(command: str) -> None:
    assert package_of(ServerConfig(name="s", command="sh", args=("-c", command))) is None


def _server(command: str) -> ServerConfig:
    program, *args = command.split()
    return ServerConfig(name="s", command=program, args=tuple(args))
