"""Published packages, installed from their registries by the real package managers, called, stopped and removed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import OpenGateway
from tests.dialects.talking import Talker, talking
from tests.gateway.serving import serve_http
from wicket_mcp.codec import encode
from wicket_mcp.registry.install import container, pin

OPTIONS: dict[str, Any] = {"allow_runtime_servers": True}
MEMORY = "@modelcontextprotocol/server-memory@2026.8.31"
FILES = "@modelcontextprotocol/server-filesystem@2026.8.31"
TIME = "mcp-server-time==2026.10.19"

pytestmark = [pytest.mark.node, pytest.mark.timeout(600)]


@dataclass(frozen=True)
class Package:
    """What to install, how it is started, and a call that shows that it works."""

    kind: str
    command: str
    started: list[str]
    tool: str
    arguments: dict[str, Any]
    answer: str
    env: Mapping[str, str] = field(default_factory=dict[str, str])

    async def install(self, talker: Talker) -> str:
        return await talker.text(
            "install_mcp_server", name="My Server", type=self.kind, command=self.command, env=dict(self.env)
        )

    async def works(self, talker: Talker) -> bool:
        return self.answer in await talker.text(f"My-Server_{self.tool}", **self.arguments)


def packages(folder: Path) -> dict[str, Package]:
    place = folder / "a folder"
    return {
        "memory": Package(
            *("npm", MEMORY, ["npx", "-y", MEMORY]),
            tool="search_nodes",
            arguments={"query": "Ada"},
            answer="wrote a program",
            env={"MEMORY_FILE_PATH": str(folder / "memory.jsonl")},
        ),
        "files": Package(
            *("npm", f"{FILES} '{place}'", ["npx", "-y", FILES, str(place)]),
            tool="list_directory",
            arguments={"path": str(place)},
            answer="[FILE] hello.txt",
        ),
        "time": Package(
            *("pypi", f"{TIME} --local-timezone UTC", ["uvx", TIME, "--local-timezone", "UTC"]),
            tool="get_current_time",
            arguments={"timezone": "Asia/Tokyo"},
            answer="Asia/Tokyo",
        ),
    }


@pytest.fixture
def package(request: pytest.FixtureRequest, tmp_path: Path) -> Package:
    (tmp_path / "a folder").mkdir()
    (tmp_path / "a folder" / "hello.txt").touch()
    ada = {"type": "entity", "name": "Ada", "entityType": "person", "observations": ["wrote a program"]}
    (tmp_path / "memory.jsonl").write_bytes(encode(ada))
    return packages(tmp_path)[request.param]


@pytest.mark.usefixtures("package_managers")
@pytest.mark.parametrize("package", ["memory", "files", "time"], indirect=True)
async def test_a_package_is_installed_called_stopped_started_and_removed(
    open_gateway: OpenGateway, package: Package
) -> None:
    tool = f"My-Server_{package.tool}"
    async with open_gateway({}, **OPTIONS) as gateway, serve_http(gateway) as address, talking(address) as talker:
        said = await package.install(talker)
        started = "Server started and tools available with prefix: My-Server_"
        assert said == f"✅ Installed My-Server ({package.kind}, bridge mode)\n{started}"
        config = gateway.catalogue.servers["My-Server"]
        assert [config.command, *config.args] == package.started
        assert tool in await talker.names()
        assert await package.works(talker)
        (managed,) = await talker.value("list_managed_servers")
        assert (managed["name"], managed["type"], managed["status"]) == ("My-Server", package.kind, "running")
        assert package.tool in managed["tools"]

        await talker.text("control_mcp_server", name="My-Server", action="stop")
        assert tool not in await talker.names()
        (managed,) = await talker.value("list_managed_servers")
        assert (managed["status"], managed["tools"]) == ("stopped", [])
        await talker.text("control_mcp_server", name="My-Server", action="start")
        assert await package.works(talker)
        await talker.text("control_mcp_server", name="My-Server", action="restart")
        assert await package.works(talker)

    async with open_gateway({}, **OPTIONS) as gateway, serve_http(gateway) as address, talking(address) as talker:
        assert tool in await talker.names(), "it outlives a restart of the gateway"
        assert await package.works(talker)
        await talker.text("control_mcp_server", name="My-Server", action="remove")
        assert tool not in await talker.names()
        assert await talker.value("list_managed_servers") == []

    async with open_gateway({}, **OPTIONS) as gateway, serve_http(gateway) as address, talking(address) as talker:
        assert tool not in await talker.names()


@pytest.mark.usefixtures("only_pipx")
async def test_without_uvx_a_python_package_comes_through_pipx(open_gateway: OpenGateway, tmp_path: Path) -> None:
    async with open_gateway({}, **OPTIONS) as gateway, serve_http(gateway) as address, talking(address) as talker:
        command, env = "mcp-server-time@2026.10.19 --local-timezone UTC", {"PIPX_HOME": str(tmp_path / "home")}
        await talker.text("install_mcp_server", name="clock", type="pypi", command=command, env=env)
        config = gateway.catalogue.servers["clock"]
        assert [config.command, *config.args[:2]] == ["pipx", "run", TIME]
        assert "UTC" in await talker.text("clock_get_current_time", timezone="UTC")


def test_a_version_is_written_as_pip_writes_it() -> None:
    assert [pin(name) for name in ("a", "a==1", "a@1", "a[x]@1.2", "a@latest")] == [
        "a",
        "a==1",
        "a==1",
        "a[x]==1.2",
        "a",
    ]


@pytest.mark.usefixtures("package_managers")
@pytest.mark.parametrize(
    ("kind", "command", "why"),
    [
        ("npm", "@wicket-tests/no-such-package", "404"),
        ("npm", f"{MEMORY.rpartition('@')[0]}@0.0.0-nothing", "No matching version|notarget"),
        ("pypi", "mcp-server-time==0.0.0.dev1", "no version of|not found|No solution"),
        ("npm", "semver", ""),
    ],
)
async def test_a_package_that_is_not_there_or_no_server_is_not_kept(
    open_gateway: OpenGateway, kind: str, command: str, why: str
) -> None:
    async with open_gateway({}, **OPTIONS) as gateway, serve_http(gateway) as address, talking(address) as talker:
        problem = await talker.problem("install_mcp_server", name="x", type=kind, command=command)
        assert problem.startswith("❌ Failed to install x: Server unreachable: Server 'x' did not start")
        assert any(word in problem for word in why.split("|"))
        assert await talker.value("list_managed_servers") == []
        assert not any(name.startswith("x_") for name in await talker.names())


async def test_without_an_engine_an_image_is_a_clear_error(open_gateway: OpenGateway) -> None:
    async with open_gateway({}, **OPTIONS) as gateway, serve_http(gateway) as address, talking(address) as talker:
        problem = await talker.problem("install_mcp_server", name="box", type="docker", command="org/image")
        missing = ("No Docker engine is running here.", "'docker' is not installed here.")
        assert problem.startswith(tuple(f"❌ Failed to install box: Server unreachable: {why}" for why in missing))
        assert "choose an npm or PyPI package" in problem
        assert await talker.value("list_managed_servers") == []


def test_an_image_runs_with_limits_and_without_secrets_on_its_command_line() -> None:
    command = container("org/image:1", {"TOKEN": "very-secret"})
    assert command[:4] == ("docker", "run", "--rm", "-i")
    assert {"--memory", "--cpus", "--pids-limit", "--cap-drop"} <= set(command)
    assert command[-3:] == ("-e", "TOKEN", "org/image:1")
    assert "very-secret" not in " ".join(command)


@pytest.mark.usefixtures("package_managers")
async def test_recommended_servers_can_be_installed_as_they_are_recommended(open_gateway: OpenGateway) -> None:
    async with open_gateway({}, **OPTIONS) as gateway, serve_http(gateway) as address, talking(address) as talker:
        smart = await talker.value(
            "discover_smart", query="I need to convert times between time zones and remember facts in a knowledge graph"
        )
        best = [one for one in smart["recommendations"] if one["id"] in ("time", "memory")]
        assert len(best) == 2
        for server in best:
            kind = "npm" if server["npm_package"] else "pypi"
            command = server["npm_package"] or server["pypi_package"]
            await talker.text("install_mcp_server", name=server["name"], type=kind, command=command, mode="bridge")
        managed = await talker.value("list_managed_servers")
        assert [one["status"] for one in managed] == ["running", "running"]
        assert {"convert_time", "search_nodes"} <= {tool for one in managed for tool in one["tools"]}
