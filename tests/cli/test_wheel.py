"""The wheel, installed with pip into an environment that has nothing else: what a user gets from `pip install`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import peer
from wicket_mcp.codec import decode, encode

ROOT = Path(__file__).parent.parent.parent
PATIENCE = 300.0


def _run(*command: str | Path, cwd: Path, code: int = 0, stdin: str = "", **more: str) -> str:
    environ = {"HOME": str(cwd), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "WICKET_NO_DAEMON": "1", **more}
    done = subprocess.run(
        [str(part) for part in command],
        input=stdin.encode(),
        cwd=cwd,
        env=environ,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == code, done.stderr.decode()
    return done.stdout.decode()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    build = (sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", folder)
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=PATIENCE)
    (built,) = folder.glob("wicket_mcp-*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path) -> Path:
    """The `bin` folder of a bare environment with the wheel of this checkout, and what that asks for, in it."""
    folder = wheel.parent
    subprocess.run([sys.executable, "-m", "venv", folder / "bare"], check=True, timeout=PATIENCE)
    programs = folder / "bare" / "bin"
    install = (programs / "python", "-m", "pip", "install", "--quiet", wheel)
    subprocess.run(install, check=True, capture_output=True, timeout=PATIENCE)
    return programs


def test_the_wheel_runs_in_a_bare_environment_and_brings_all_its_files(installed: Path, tmp_path: Path) -> None:
    assert "Usage: wicket" in _run(installed / "wicket", "--help", cwd=tmp_path)
    file = tmp_path / "servers.json"
    file.write_bytes(encode({"mcpServers": {"echo": peer("Echo")}}))
    found = decode(_run(installed / "wicket", "search", "echo", "--json", "-c", file, cwd=tmp_path))
    assert found["hits"][0]["key"] == "echo.echo"
    answer = _run(installed / "wicket", "call", "echo.echo", "message=hello", "-c", file, cwd=tmp_path)
    assert "hello" in answer


def test_the_menu_of_a_plain_installation_offers_the_languages_that_run(installed: Path, tmp_path: Path) -> None:
    file = tmp_path / "servers.json"
    file.write_bytes(encode({"mcpServers": {"echo": peer("Echo")}}))
    code = (
        "import asyncio, json, sys, wicket_mcp\n"
        "from wicket_mcp.model import LOCAL\n"
        "async def main():\n"
        "    async with wicket_mcp.Gateway.open(sys.argv[1]) as gateway:\n"
        "        menu = await gateway.protocol('native').menu.list(gateway.verbs, LOCAL)\n"
        "        print(json.dumps(next((t['inputSchema'] for t in menu if t['name'] == 'run_script'), None)))\n"
        "asyncio.run(main())\n"
    )
    schema = decode(_run(installed / "python", "-c", code, file, cwd=tmp_path))
    offered = schema["properties"]["language"]["enum"]
    assert schema["properties"]["language"].get("default", offered[0]) in offered
    ran = _run(installed / "wicket", "run", "-", "-c", file, cwd=tmp_path, stdin="return 1 + 1")
    assert ran.strip() == "2", "a script from a pipe is of a language that is there"
    script = tmp_path / "script"
    for language in offered:
        script.write_text("result(1 + 1)" if language == "lua" else "1 + 1")
        ran = _run(installed / "wicket", "run", "--language", language, script, "-c", file, cwd=tmp_path)
        assert ran.strip() == "2", language


def test_a_take_over_by_uvx_names_uvx_and_nothing_in_its_cache(wheel: Path, tmp_path: Path) -> None:
    uvx = Path(sys.executable).with_name("uvx")
    file = tmp_path / ".cursor" / "mcp.json"
    file.parent.mkdir()
    file.write_bytes(encode({"mcpServers": {"echo": peer("Echo")}}))
    environ = {**os.environ, "HOME": str(tmp_path), "PATH": f"{uvx.parent}{os.pathsep}{os.environ['PATH']}"}
    command = (uvx, "--from", wheel, "wicket", "import", "cursor", "--take-over")
    done = subprocess.run(command, env=environ, cwd=tmp_path, capture_output=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr.decode()
    (entry,) = decode(file.read_bytes())["mcpServers"].values()
    assert [entry["command"], *entry["args"][:4]] == [str(uvx), "--from", str(wheel), "wicket", "serve"]
    assert "archive-v0" not in file.read_text()


def test_pipx_installs_the_wheel_as_a_command(wheel: Path, tmp_path: Path) -> None:
    uvx = Path(sys.executable).with_name("uvx")
    places = {
        "PIPX_HOME": str(tmp_path / "pipx"),
        "PIPX_BIN_DIR": str(tmp_path / "bin"),
        "PIPX_MAN_DIR": str(tmp_path / "man"),
    }
    command = (uvx, "pipx", "install", "--python", sys.executable, wheel)
    environ = {**os.environ, **places}
    done = subprocess.run(command, env=environ, cwd=tmp_path, capture_output=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr.decode()
    file = tmp_path / "mcp.json"
    file.write_bytes(encode({"mcpServers": {"echo": peer("Echo")}}))
    answer = _run(tmp_path / "bin" / "wicket", "call", "echo.echo", "message=hello", "-c", file, cwd=tmp_path)
    assert "hello" in answer


def test_a_checkout_runs_without_being_installed(tmp_path: Path) -> None:
    uvx = Path(sys.executable).with_name("uvx")
    file = tmp_path / "mcp.json"
    file.write_bytes(encode({"mcpServers": {"echo": peer("Echo")}}))
    environ = {**os.environ, "HOME": str(tmp_path), "PATH": f"{uvx.parent}{os.pathsep}{os.environ['PATH']}"}
    command = (uvx, "--from", ".", "wicket", "servers", "--json", "--config", file)
    done = subprocess.run(command, env=environ, cwd=ROOT, capture_output=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert [(server["name"], server["tools"]) for server in decode(done.stdout)] == [("echo", 10)]
