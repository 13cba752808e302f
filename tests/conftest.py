"""Shared fixtures: gateways over real child processes, in a state folder of their own."""

import os
import sys
import tempfile
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
from hypothesis import HealthCheck, settings

from tests import needs
from wicket_mcp import Gateway
from wicket_mcp.codec import decode
from wicket_mcp.model import Tool

if TYPE_CHECKING:
    from tests.peers.postgres import Postgres

# `wicket serve` serves in its own process here, so that no test leaves a daemon behind; tests/daemon asks for one.
os.environ.setdefault("WICKET_NO_DAEMON", "1")

# No test uses the state of the user who runs it, which another version of this code may have written.
_STATE = tempfile.TemporaryDirectory(prefix="wicket-state-")
os.environ["XDG_STATE_HOME"] = _STATE.name

# Processes that tests start find compiled modules, as in an installation: compiling takes longer than starting.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Nor do they flush more often than they do elsewhere: with this variable, a line that stays in a buffer goes unnoticed.
os.environ.pop("PYTHONUNBUFFERED", None)

# Failures inside the cells of the matrix are told in full, whoever imports them first.
pytest.register_assert_rewrite("tests.eras.cells", "tests.eras.cells_everything")

# How long an example takes depends on what else the machine does, and is no property of ours. What every commit must
# pass tries the same examples each time; who works on a test gets new ones.
settings.register_profile(
    "unhurried", deadline=None, derandomize="CI" in os.environ, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("unhurried")

ROOT = Path(__file__).parent.parent
PEERS = Path(__file__).parent / "peers"
CATALOG = Path(__file__).parent / "data" / "catalog"
QUICK = tuple(Path(__file__).parent / name for name in ("unit", "catalog", "config"))
"""Folders of which every test looks at one module of ours, without a process or a network: the lane `-m unit`."""
NODE_SERVERS = ROOT / ".node" / "node_modules" / ".bin"

Server: TypeAlias = dict[str, Any]
OpenGateway: TypeAlias = Callable[..., AbstractAsyncContextManager[Gateway]]


def peer(name: str, **options: Any) -> Server:
    """The configuration of a test peer (see tests/peers/stdio_peer.py)."""
    return {"command": sys.executable, "args": [str(PEERS / "stdio_peer.py"), name], **options}


def replay(name: str) -> Server:
    """An upstream that replays the captured catalogue of a published server."""
    return {"command": sys.executable, "args": [str(PEERS / "replay.py"), str(CATALOG / f"{name}.json")]}


def published(command: str, *args: str, **options: Any) -> Server:
    """A published server, installed from PyPI or npm."""
    beside = Path(sys.executable).parent / command
    found = beside if beside.exists() else NODE_SERVERS / command
    return {"command": str(found), "args": list(args), "connect_timeout": 30, **options}


def is_quick(path: Path) -> bool:
    return any(folder in path.parents for folder in QUICK)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """`-m unit` reads only the files that have such tests: reading all of them takes longer than running these."""
    if config.getoption("markexpr") != "unit" or collection_path.suffix != ".py" or is_quick(collection_path):
        return None
    return b"mark.unit" not in collection_path.read_bytes() or None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if is_quick(item.path):
            item.add_marker("unit")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--require-all", action="store_true", help="A test that would be skipped fails instead.")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: "pytest.CallInfo[None]"
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped and item.config.getoption("--require-all"):
        report.outcome, report.longrepr = "failed", f"nothing may be skipped here: {report.longrepr}"
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Tests marked `node` need `scripts/node` to have run. Told here, before any fixture starts such a server."""
    if item.get_closest_marker("node") is not None and not NODE_SERVERS.exists():
        pytest.skip(needs.NPM_SERVERS)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped: list[pytest.TestReport] = terminalreporter.stats.get("skipped", [])
    if missing := needs.told(str(report.longrepr[2]) for report in skipped if isinstance(report.longrepr, tuple)):
        terminalreporter.write_line(missing)


@pytest.fixture(scope="session")
def postgres() -> Generator["Postgres"]:
    """A running PostgreSQL, one for all tests of a process."""
    from tests.peers.postgres import Postgres  # only where it is used: the driver is an extra

    with Postgres() as server:
        yield server


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def open_gateway(state: Path) -> OpenGateway:
    """Opens a gateway over `servers`; every gateway of one test shares its state folder."""

    @asynccontextmanager
    async def opened(servers: dict[str, Server], **options: Any) -> AsyncGenerator[Gateway]:
        options["http"] = {"port": 0, **options.get("http", {})}
        async with Gateway.open({"servers": servers, "state_dir": str(state), **options}) as gateway:
            yield gateway

    return opened


@pytest.fixture(scope="session")
def real_tools() -> list[Tool]:
    """The tools of the captured catalogues of real servers."""
    tools: list[Tool] = []
    for path in sorted(CATALOG.glob("*.json")):
        catalogue: Any = decode(path.read_bytes())
        tools += [Tool(catalogue["server"], tool["name"], tool) for tool in catalogue["tools"]]
    assert len(tools) == 1966
    return tools
