"""Where a start spends its time importing: a few runs of a program under `-X importtime`, read and added up.

A server gets a handshake and a question on its standard input; a command takes no notice of them. A module that is
imported by `importlib.import_module` is not listed itself, only what it imports in turn.
"""

import subprocess
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from clients import HELLO
from wicket_mcp.codec import encode
from wicket_mcp.model import JsonObject

SHOWN = 15
RUNS = 5
MARK = "import time:"

Ranking = list[tuple[str, float]]


def slowest(command: Sequence[str], environ: Mapping[str, str] | None = None) -> tuple[Ranking, Ranking]:
    """Packages by the time of all their modules, and modules by their own at their best, both longest first."""
    modules: dict[str, float] = {}
    for _ in range(RUNS):
        for name, own in _imports(command, environ):
            modules[name] = min(own, modules.get(name, own))
    packages: dict[str, float] = defaultdict(float)
    for name, own in modules.items():
        packages[name.partition(".")[0]] += own
    return _longest(packages), _longest(modules)


def _longest(times: dict[str, float]) -> Ranking:
    return sorted(times.items(), key=lambda item: -item[1])[:SHOWN]


def _imports(command: Sequence[str], environ: Mapping[str, str] | None) -> Iterator[tuple[str, float]]:
    """Each module's name and its own time in milliseconds."""
    python, *rest = command
    hello: JsonObject = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}
    tools: JsonObject = {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}
    talk = b"".join(encode(message) + b"\n" for message in (hello, tools))
    timed = [python, "-X", "importtime", *rest]
    done = subprocess.run(timed, input=talk, env=environ, capture_output=True, check=True)
    for line in done.stderr.decode("utf-8", "replace").splitlines():
        if line.startswith(MARK) and "self [us]" not in line:
            own, _, name = line.removeprefix(MARK).split("|")
            yield name.strip(), int(own) / 1000
