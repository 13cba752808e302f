"""What rules about flow stop and what they ask, on AgentDojo's recorded runs, without a model.

A real Wicket with `[policy] flow = "ask"` stands before each suite's tools. Honest: a user task's recorded calls are
played; the user says yes to every question, and a task with a question counts as asked. Attacked: the calls of the user
task up to the first that reads what an attacker wrote, then the calls of the injection task, as an agent that obeys
would make them; the user says no, and a pair counts as stopped when a call that changes something was not made. Pairs
whose user task reads nothing that an attacker wrote, and injection tasks that change nothing, are left out.
The baselines hold every change after such a read, or every change with an argument out of it; the latter needs the
user's words, which no gateway sees.
"""

import asyncio
import json
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import environments
from wicket_mcp import Gateway
from wicket_mcp.errors import Denied, WicketError
from wicket_mcp.model import LOCAL, JsonObject, Principal
from wicket_mcp.request import tool_call

SUITES = ("workspace", "travel", "banking", "slack")
PEER = Path(__file__).parent / "peers" / "dojo.py"
BASELINES = (
    "baselines: every change after an untrusted read: stopped 100.0%, asked 60.8%; "
    "provenance with the user's words: stopped 92.4%, asked 21.6%"
)


@dataclass
class Client:
    """A client whose user says always the same."""

    session: str
    yes: bool
    questions: list[str] = field(default_factory=list[str])
    principal: Principal = LOCAL
    client_name: str = "bench"
    capabilities: JsonObject = field(default_factory=lambda: {"elicitation": {}})
    resumes: bool = False
    log_level: str = ""

    def notify(self, method: str, params: JsonObject) -> None:
        return None

    async def ask(self, method: str, params: JsonObject) -> JsonObject:
        self.questions.append(params["message"])
        return {"action": "accept", "content": {"decision": "approve" if self.yes else "refuse"}}


@dataclass
class Tally:
    honest: int = 0
    asked: int = 0
    pairs: int = 0
    stopped: int = 0

    def __str__(self) -> str:
        stopped, asked = self.stopped / max(1, self.pairs), self.asked / max(1, self.honest)
        return f"stopped {self.stopped}/{self.pairs} = {stopped:.1%}   asked {self.asked}/{self.honest} = {asked:.1%}"


class Dojo:
    """One suite behind one gateway."""

    def __init__(self, gateway: Gateway, suite: str) -> None:
        self._gateway = gateway
        self.suite = suite
        self._sessions = 0

    async def own(self, name: str, **arguments: Any) -> JsonObject:
        client = Client("own", yes=True)
        return (await self._call(client, f"dojo_{name}", arguments))["structuredContent"]

    def client(self, *, yes: bool) -> Client:
        self._sessions += 1
        return Client(f"s{self._sessions}", yes=yes)

    async def _call(self, client: Client, name: str, arguments: JsonObject) -> JsonObject:
        request = tool_call(f"{self.suite}.{name}", arguments, client, whole=True)
        return (await self._gateway.verbs.call(request)).body

    async def play(self, client: Client, calls: list[JsonObject], until: str = "") -> tuple[int, int, bool]:
        """Changes made, changes refused, and whether a result had `until` in it, which ends the play."""
        changed = refused = 0
        for call in calls:
            try:
                body = await self._call(client, call["name"], call["arguments"])
            except Denied:
                refused += 1
                continue
            except WicketError:
                continue
            changed += bool(body.get("_meta", {}).get("changed"))
            if until and until in json.dumps(body, ensure_ascii=False):
                return changed, refused, True
        return changed, refused, False


async def measure(gateway: Gateway, suite: str, verbose: bool) -> Tally:
    dojo, tally = Dojo(gateway, suite), Tally()
    tasks = await dojo.own("tasks")
    effective = {name: goal for name, goal in tasks["goals"].items() if await changes(dojo, name, goal)}
    for user in tasks["users"]:
        await dojo.own("begin", user=user, text="")
        calls = (await dojo.own("plan", task=user))["calls"]
        client = dojo.client(yes=True)
        await dojo.play(client, calls)
        tally.honest += 1
        tally.asked += bool(client.questions)
        if verbose and client.questions:
            print(f"  asked  {suite} {user}: {client.questions[0].splitlines()[0]}", flush=True)
        for injection, goal in effective.items():
            await attack(dojo, tally, user, injection, goal, verbose)
    return tally


async def changes(dojo: Dojo, injection: str, goal: str) -> bool:
    """Whether the injection task changes anything."""
    await dojo.own("begin", user="", text=goal)
    calls = (await dojo.own("plan", task=injection))["calls"]
    return (await dojo.play(dojo.client(yes=True), calls))[0] > 0


async def attack(dojo: Dojo, tally: Tally, user: str, injection: str, goal: str, verbose: bool) -> None:
    await dojo.own("begin", user=user, text="")
    calls = (await dojo.own("plan", task=user))["calls"]
    await dojo.own("begin", user=user, text=goal)
    client = dojo.client(yes=True)
    _, _, read = await dojo.play(client, calls, until=json.dumps(goal, ensure_ascii=False)[1:-1][:40])
    if not read:
        return
    client.yes = False
    made, refused, _ = await dojo.play(client, (await dojo.own("plan", task=injection))["calls"])
    tally.pairs += 1
    tally.stopped += refused > 0
    if verbose and not refused:
        print(f"  missed {dojo.suite} {user} {injection}: {made} changes: {goal[:100]}", flush=True)


async def main() -> None:
    python = environments.program("dojo", "python")
    verbose = "--verbose" in sys.argv
    total = Tally()
    with tempfile.TemporaryDirectory() as folder:
        for suite in SUITES:
            server = {"command": python, "args": [str(PEER), suite], "connect_timeout": 60}
            config = {"servers": {suite: server}, "state_dir": f"{folder}/{suite}", "policy": {"flow": "ask"}}
            async with Gateway.open(config) as gateway:
                tally = await measure(gateway, suite, verbose)
            print(f"{suite:10} {tally}", flush=True)
            for name in ("honest", "asked", "pairs", "stopped"):
                setattr(total, name, getattr(total, name) + getattr(tally, name))
    print(f"{'all':10} {total}\n{BASELINES}")


if __name__ == "__main__":
    asyncio.run(main())
