"""Every verb, started in a folder with a file for each module that Wicket might import, and for each of its tools.

Each planted module writes its name to a marker when it is imported. The folder also has configurations of uv, pip and
npm that name an index of a stranger.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from importlib.metadata import packages_distributions
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests import needs
from tests.cli.shell import Shell
from tests.conftest import peer
from tests.gateway.serving import toml_of
from tests.peers.package_registry import PackageRegistry, npm_archive, package_registry
from wicket_mcp.cli.verbs import VERBS, Commands
from wicket_mcp.codec import decode, encode

WICKET = str(Path(sys.executable).with_name("wicket"))
HANDSHAKE = (
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
    },
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {
        "jsonrpc": "2.0",
        "id": 2,
        "method": "tools/call",
        "params": {"name": "call_tool", "arguments": {"name": "e.echo", "arguments": {"message": "hi"}}},
    },
)
ARGUMENTS = {
    "add": ["x", "--", "true"],
    "call": ["e.echo", "message=hi"],
    "describe": ["e.echo"],
    "import": ["cursor", "--dry-run"],
    "login": ["e"],
    "run": ["../script.py"],
    "search": ["echo"],
    "service install": ["--print"],
    "registry mirror": ["http://127.0.0.1:9/"],
    "registry publish": ["../script.py"],
}
"""What lets a verb come far; any other verb gets `e` for each argument that it needs."""


def leaves() -> Iterator[str]:
    """Every command, those of groups with their group's name: `keys create`."""
    for name, command in Commands(VERBS).items():
        yield from (f"{name} {verb}" for verb in command.commands) if hasattr(command, "commands") else (name,)


def arguments_of(leaf: str) -> list[str]:
    name, _, verb = leaf.partition(" ")
    command = Commands(VERBS)[name]
    command = command.commands[verb] if verb else command
    needed = [option for option in command.params if option.param_type_name == "argument" and option.required]
    return [*leaf.split(), *ARGUMENTS.get(leaf, ["e"] * len(needed))]


class Folder:
    """A hostile working folder, and a person in it whose configuration lies elsewhere."""

    def __init__(self, home: Path) -> None:
        self.marker = home / "imported"
        self.runtime = tempfile.mkdtemp(prefix="wicket-")  # a socket's path must be short
        self.shell = Shell.at(home, WICKET_RUNTIME_DIR=self.runtime, BROWSER="true")
        self.shell.write(".config/wicket/wicket.toml", toml_of({"e": peer("Echo")}))
        self.shell.write("script.py", "return call('e.echo', message='hi')\n")
        planted = f"open({str(self.marker)!r}, 'a').write(__name__ + '\\n')\n"
        modules = {*sys.stdlib_module_names, *packages_distributions(), "sitecustomize", "usercustomize"}
        for module in modules:
            if module.isidentifier():
                (self.shell.cwd / f"{module}.py").write_text(planted)

    @property
    def imported(self) -> list[str]:
        return self.marker.read_text().split() if self.marker.exists() else []

    def run(self, *arguments: str, **variables: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [WICKET, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            cwd=self.shell.cwd,
            env=self.shell.environ | variables,
            timeout=60,
            check=False,
        )

    @contextmanager
    def start(self, *arguments: str, **variables: str) -> "Generator[subprocess.Popen[str]]":
        with subprocess.Popen(
            [WICKET, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.shell.cwd,
            env=self.shell.environ | variables,
        ) as process:
            try:
                yield process
            finally:
                process.send_signal(signal.SIGTERM)

    def talk(self, **variables: str) -> str:
        """What a client over stdio gets from a tool."""
        with self.start("serve", **variables) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            for message in HANDSHAKE:
                process.stdin.write(encode(message).decode() + "\n")
            process.stdin.flush()
            answers = [decode(line) for line in (process.stdout.readline(), process.stdout.readline())]
            (answer,) = (answer for answer in answers if answer["id"] == 2)
            return answer["result"]["content"][0]["text"]

    def plant_index(self, address: str) -> None:
        """Files with which uv, pip and npm would ask a stranger's index."""
        files = {
            "uv.toml": f'index-url = "{address}/simple"\n',
            "pyproject.toml": f'[project]\nname = "x"\nversion = "1"\n[tool.uv]\nindex-url = "{address}/simple"\n',
            "pip.conf": f"[global]\nindex-url = {address}/simple\n",
            ".npmrc": f"registry={address}/\n",
            "package.json": "{}",
        }
        for name, text in files.items():
            (self.shell.cwd / name).write_text(text)


@pytest.fixture
def folder(tmp_path: Path) -> Generator[Folder]:
    folder = Folder(tmp_path / "home")
    try:
        yield folder
    finally:
        folder.run("daemon", "stop")
        shutil.rmtree(folder.runtime, ignore_errors=True)


def test_a_planted_module_is_imported_where_python_is_not_isolated(folder: Folder) -> None:
    """The plants work."""
    command = [sys.executable, "-m", "wicket_mcp", "--help"]
    subprocess.run(command, cwd=folder.shell.cwd, env=folder.shell.environ, capture_output=True, check=False)
    assert folder.imported


@pytest.mark.parametrize("leaf", list(leaves()))
def test_a_verb_imports_nothing_of_the_folder(leaf: str, folder: Folder) -> None:
    done = folder.run(*arguments_of(leaf))
    assert folder.imported == [], done.stderr


def test_serving_over_stdio_imports_nothing_of_the_folder(folder: Folder) -> None:
    unusable = folder.shell.write("a-file", "")
    assert folder.talk(WICKET_NO_DAEMON="0") == folder.talk(WICKET_NO_DAEMON="1") == "hi"
    assert folder.run("daemon", "status", "--json").stdout.strip() not in ("", "[]"), "there was a daemon"
    assert folder.talk(WICKET_NO_DAEMON="0", WICKET_RUNTIME_DIR=str(unusable)) == "hi", "without a daemon"
    assert folder.imported == []


def test_an_empty_part_of_the_search_path_is_no_way_in(folder: Folder) -> None:
    """As `PYTHONPATH=$PYTHONPATH:/x` leaves one; the daemon is started with what its client has."""
    isolated = {"WICKET_NO_DAEMON": "0", "PYTHONSAFEPATH": "1"}
    (folder.shell.cwd / "lib").mkdir()
    for name in ("asyncio", "msgspec"):
        (folder.shell.cwd / f"{name}.py").rename(folder.shell.cwd / "lib" / f"{name}.py")
    assert folder.talk(**isolated, PYTHONPATH=f"lib{os.pathsep}/nowhere") == "hi"
    assert folder.imported == []


def test_workers_import_nothing_of_the_folder(folder: Folder) -> None:
    with folder.start("serve", "--http", "127.0.0.1:0", "--workers", "2", "--no-auth") as process:
        assert process.stderr is not None
        lines: list[str] = []
        while not any("serving" in line for line in lines):
            lines.append(process.stderr.readline())
            assert lines[-1], "".join(lines)
    assert folder.imported == []


@pytest.mark.parametrize("source", ["script.py", "script.js"])
def test_a_script_runs_and_imports_nothing_of_the_folder(source: str, folder: Folder) -> None:
    script = folder.shell.write(source, "return 6 * 7\n")
    done = folder.run("run", str(script))
    assert (done.stdout.strip(), folder.imported) == ("42", []), done.stderr


@pytest.fixture
def registries() -> Generator[tuple[PackageRegistry, PackageRegistry]]:
    """The user's own, and a stranger's."""
    with package_registry() as own, package_registry() as stranger:
        yield own, stranger


@pytest.mark.parametrize("tool", ["pip", "uv", "npm"])
def test_a_package_is_looked_up_where_its_user_says_and_not_the_folder(
    tool: str, folder: Folder, registries: tuple[PackageRegistry, PackageRegistry], tmp_path: Path
) -> None:
    found = shutil.which(tool, path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if found is None:
        pytest.skip(needs.NPM if tool == "npm" else needs.UV)
    (tmp_path / "bin").mkdir()
    if tool == "uv":
        (tmp_path / "bin" / "uv").symlink_to(found)
    own, stranger = registries
    wheel = tmp_path / "tiny_mcp-1.1-py3-none-any.whl"
    with ZipFile(wheel, "w") as archive:
        info = "tiny_mcp-1.1.dist-info"
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-mcp\nVersion: 1.1\n")
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    for registry in registries:
        registry.wheel = wheel.name
        registry.archive = npm_archive("x") if tool == "npm" else wheel.read_bytes()
    folder.plant_index(f"http://{stranger.host}")
    folder.shell.write(".config/uv/uv.toml", f'index-url = "http://{own.host}/simple"\n')
    folder.shell.write(".config/pip/pip.conf", f"[global]\nindex-url = http://{own.host}/simple\n")
    folder.shell.write(".npmrc", f"registry=http://{own.host}/\n")
    command = 'command = "npx"\nargs = ["-y", "tiny-mcp"]' if tool == "npm" else 'command = "uvx"\nargs = ["tiny-mcp"]'
    folder.shell.write(".config/wicket/wicket.toml", f"[servers.p]\n{command}\n")
    only = {"PATH": f"{tmp_path / 'bin'}{os.pathsep}/usr/bin:/bin", "UV_CACHE_DIR": str(tmp_path / "cache")}
    only["TMPDIR"] = str(folder.shell.cwd)  # all parents of a temporary folder are hostile too
    if tool == "npm":
        only["PATH"] = f"{only['PATH']}{os.pathsep}{Path(found).parent}"
    done = folder.run("pin", "--json", **only)
    assert (done.returncode, stranger.asked, folder.imported) == (0, [], []), done.stderr
    assert own.asked
