"""Nothing of what a server or a client says is lost because Wicket does not know it: both eras, both directions."""

import asyncio
import itertools
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.gateway.extensions_document import shows
from tests.gateway.serving import Command
from tests.peers.mirror_server import ANSWERED, HEARD, KEPT, MIRROR, PREFIX, SAY, WATCHED
from wicket_mcp.catalog.list_fields import LISTS

Fields = dict[str, Any]
NAMES = st.text("abcxyz-", min_size=1, max_size=6).map(lambda name: f"{PREFIX}x{name}")
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**31), 2**31) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b", "uri", "text", "_meta"]), inner, max_size=3)
    ),
    max_leaves=6,
)
SHARED = st.dictionaries(st.sampled_from([f"{PREFIX}x{name}" for name in "abc"]), VALUES, max_size=3)
EXTRAS = st.dictionaries(NAMES, VALUES, max_size=3)
TASKS: Fields = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
ABLE: Fields = {"elicitation": {"form": {}}, "sampling": {}, "roots": {}, "extensions": {f"{PREFIX}trial": {}}}
QUESTIONS: dict[str, tuple[Fields, Fields]] = {
    "elicitation/create": (
        {"message": "?", "requestedSchema": {"type": "object", "properties": {}}},
        {"action": "accept", "content": {}},
    ),
    "sampling/createMessage": (
        {"messages": [{"role": "user", "content": {"type": "text", "text": "x"}}], "maxTokens": 5},
        {"role": "assistant", "content": {"type": "text", "text": "y"}, "model": "m"},
    ),
    "roots/list": ({}, {"roots": []}),
    f"{PREFIX}confirm": ({"what": 1}, {"confirmed": True}),
}
"""What a server asks, and what the client answers."""
REQUESTS: dict[str, tuple[Fields, Callable[[Fields], Fields]]] = {
    "tools/call": ({"name": "x__mirror", "arguments": {}}, lambda body: body["content"][0]),
    "resources/read": ({"uri": f"mcp://x/{WATCHED}"}, lambda body: body["contents"][0]),
    "prompts/get": ({"name": "x/greet"}, lambda body: body["messages"][0]["content"]),
    "completion/complete": (
        {"ref": {"type": "ref/prompt", "name": "x/greet"}, "argument": {"name": "a", "value": "b"}},
        lambda body: body["completion"],
    ),
}
"""What a client asks of a server, and where in the answer the server puts what is inside it."""


def unknown(fields: Fields) -> Fields:
    return {key: value for key, value in fields.items() if key.startswith(f"{PREFIX}x")}


class Client:
    """A client of one era over pipes, which remembers what it hears and answers what it is asked."""

    def __init__(self, era: str, command: Command) -> None:
        self.modern = era == "modern"
        self.command = command
        self.heard: list[Fields] = []
        self.asked: list[Fields] = []
        self.answer: Fields = {}
        """What is added to its answers."""
        self._numbers = itertools.count(100)

    async def greet(self) -> Fields:
        if self.modern:
            return await self.ask("server/discover", {})
        hello = {"protocolVersion": "2025-11-25", "capabilities": ABLE, "clientInfo": {"name": "t", "version": "1"}}
        told = await self.ask("initialize", hello)
        self.command.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        await self.ask("logging/setLevel", {"level": "debug"})
        return told

    async def ask(self, method: str, params: Fields, able: Fields = ABLE) -> Any:
        """The result, after all questions on the way were answered."""
        if self.modern:
            known = {"protocolVersion": "2026-07-28", "clientCapabilities": able, "logLevel": "debug"}
            meta = {f"io.modelcontextprotocol/{key}": value for key, value in known.items()}
            params = {**params, "_meta": {**params.get("_meta", {}), **meta}}
        body = await self._round(method, params)
        while body.get("resultType") == "input_required":
            replies: Fields = {key: self._reply(question) for key, question in body["inputRequests"].items()}
            again = {"inputResponses": replies, "requestState": body["requestState"]}
            body = await self._round(method, {**params, **again})
        return body

    async def listen(self, uri: str) -> None:
        """From now on it hears of changes of all lists, and of this resource."""
        if not self.modern:
            await self.ask("resources/subscribe", {"uri": uri})
            return
        wanted: Fields = {"resourceSubscriptions": [uri]}
        wanted |= {f"{kind}ListChanged": True for kind in ("tools", "resources", "prompts")}
        known: Fields = {"protocolVersion": "2026-07-28", "clientCapabilities": {}}
        meta = {f"io.modelcontextprotocol/{key}": value for key, value in known.items()}
        params = {"notifications": wanted, "_meta": meta}
        self.command.send({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params})
        await self.hear("notifications/subscriptions/acknowledged")

    async def _round(self, method: str, params: Fields) -> Any:
        number = next(self._numbers)
        self.command.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        while (message := await self.command.receive()).get("id") != number:
            if "id" in message:
                self.command.send({"jsonrpc": "2.0", "id": message["id"], "result": self._reply(message)})
            else:
                self.heard.append(message)
        return message.get("result", message.get("error"))

    def _reply(self, question: Fields) -> Fields:
        self.asked.append(question)
        return {**QUESTIONS[question["method"]][1], **self.answer}

    async def hear(self, method: str) -> Fields:
        """The parameters of the next notification of this name."""
        while True:
            for message in self.heard:
                if message.get("method") == method:
                    self.heard.remove(message)
                    return message.get("params", {})
            self.heard.append(await self.command.receive())


@asynccontextmanager
async def house(folder: Path, client: str, server: str, option: str = "") -> AsyncGenerator[Client]:
    servers = {"x": MIRROR(server)}
    command = await Command.start(folder, servers, "--dialect", "flat", "--no-daemon", option=option)
    speaker = Client(client, command)
    await speaker.greet()
    await speaker.ask("resources/list", {})  # every list has been read
    yield speaker
    assert await command.finish() == 0


LISTED = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
    "skills/list": "skills",
}
BESIDE = st.dictionaries(st.sampled_from(["server", *sorted(LISTED.values())]), st.tuples(SHARED, SHARED))
"""For some lists of a server, and its greeting, the unknown fields and those of its `_meta`."""


@shows("any", "unknown fields beside the entries of every list, and of greetings", clients="both", servers="both")
@pytest.mark.parametrize(("client", "server"), [*itertools.product(("legacy", "modern"), repeat=2)], ids=str)
async def test_unknown_fields_beside_the_entries_of_lists_and_of_greetings_pass(
    tmp_path: Path, client: str, server: str
) -> None:
    async def check(*generated: dict[str, tuple[Fields, Fields]]) -> None:
        names = [f"s{number}" for number in range(len(generated))]
        servers: Fields = {
            name: MIRROR(server, {key: {**top, "_meta": meta} for key, (top, meta) in beside.items()})
            for name, beside in zip(names, generated, strict=True)
        }
        folder = tmp_path / str(next(numbers))
        folder.mkdir()
        command = await Command.start(folder, servers, "--dialect", "flat", "--no-daemon")
        speaker = Client(client, command)
        await speaker.greet()
        await speaker.ask("resources/list", {})
        for method, key in {"greeting": "server", **LISTED}.items():
            body = await (speaker.greet() if key == "server" else speaker.ask(method, {}))
            meta = body.get("_meta", {})
            sent = {name: beside[key] for name, beside in zip(names, generated, strict=True) if key in beside}
            if key != "server":
                assert len([entry for entry in body[key] if KEPT.items() <= entry.items()]) == len(names)
            for name, (top, inner) in sent.items():
                (own,) = meta.get(LISTS, {}).get(name, [{}])
                assert {**unknown(body), **own}.items() >= top.items(), method
                assert {**unknown(meta), **own.get("_meta", {})}.items() >= inner.items(), method
        assert await command.finish() == 0

    numbers = itertools.count()
    await hold(check, *[BESIDE] * 3, examples=3)


async def hold(
    check: Callable[..., Coroutine[Any, Any, None]], *generated: st.SearchStrategy[Any], examples: int = 15
) -> None:
    """That `check` holds for what is generated."""
    loop = asyncio.get_running_loop()
    quiet = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]

    @settings(max_examples=examples, deadline=None, suppress_health_check=quiet, database=None)
    @given(st.tuples(*generated))
    def holds(values: tuple[Any, ...]) -> None:
        asyncio.run_coroutine_threadsafe(check(*values), loop).result(30)

    await asyncio.to_thread(holds)


both_ways = pytest.mark.parametrize(("client", "server"), [*itertools.product(("legacy", "modern"), repeat=2)], ids=str)


@shows("any", "unknown fields of every request and its result", clients="both", servers="both")
@both_ways
async def test_unknown_fields_of_requests_and_results_pass(tmp_path: Path, client: str, server: str) -> None:
    async with house(tmp_path, client, server) as speaker:

        async def check(method: str, sent: Fields, meta: Fields, result: Fields, inner: Fields, told: Fields) -> None:
            params, inside = REQUESTS[method]
            say = {"result": result, "inner": inner, "meta": told}
            body = await speaker.ask(method, {**params, **sent, "_meta": meta, SAY: say})
            assert body[HEARD] == {"params": sent, "meta": meta}
            assert (unknown(body), unknown(inside(body)), unknown(body.get("_meta", {}))) == (result, inner, told)

        await hold(check, st.sampled_from(sorted(REQUESTS)), *[EXTRAS] * 5)


@shows("any", "unknown parameters of lists, if one server is served as it is", clients="both", servers="both")
@both_ways
async def test_unknown_parameters_of_lists_reach_the_only_server(tmp_path: Path, client: str, server: str) -> None:
    async with house(tmp_path, client, server, "unprefixed = true") as speaker:

        async def check(method: str, sent: Fields, meta: Fields, result: Fields, inner: Fields, told: Fields) -> None:
            say = {"result": result, "inner": inner, "meta": told}
            body = await speaker.ask(method, {**sent, "_meta": meta, SAY: say})
            assert body[HEARD] == {"params": sent, "meta": meta}
            (entry,) = body[LISTED[method]]  # and nothing that its catalogue does not have
            assert entry.items() >= {**KEPT, **inner}.items()
            assert (unknown(body), unknown(body.get("_meta", {}))) == (result, told)
            plain = await speaker.ask(method, {})
            assert (HEARD in plain, len(plain[LISTED[method]])) == (False, 1)

        await hold(check, st.sampled_from(sorted(LISTED)), *[EXTRAS] * 5)


@shows("any", "unknown fields of servers' requests and of the answers", clients="both", servers="both")
@both_ways
async def test_unknown_fields_of_questions_and_answers_pass(tmp_path: Path, client: str, server: str) -> None:
    async with house(tmp_path, client, server) as speaker:

        async def check(question: str, asked: Fields, meta: Fields, answer: Fields, sent: Fields) -> None:
            speaker.asked.clear()
            speaker.answer = {**answer, **({"_meta": meta} if meta else {})}
            params = {**QUESTIONS[question][0], **asked, **({"_meta": meta} if meta else {})}
            say = {"ask": {"method": question, "params": params}}
            body = await speaker.ask("tools/call", {"name": "x__mirror", "arguments": {}, **sent, SAY: say})
            (heard,) = speaker.asked
            assert (heard["method"], unknown(heard["params"])) == (question, asked)
            assert unknown(heard["params"].get("_meta", {})) == meta
            assert unknown(body[ANSWERED]) == answer
            assert unknown(body[ANSWERED].get("_meta", {})) == meta
            assert body[HEARD]["params"] == sent

        await hold(check, st.sampled_from(sorted(QUESTIONS)), *[EXTRAS] * 4)


@shows("any", "unknown fields of notifications", clients="both", servers="both")
@both_ways
async def test_unknown_fields_of_notifications_pass(tmp_path: Path, client: str, server: str) -> None:
    events = ("progress", "message", "resources/updated", f"{PREFIX}tick")
    uri = f"mcp://x/{WATCHED}"
    async with house(tmp_path, client, server) as speaker:
        await speaker.listen(uri)

        async def check(event: str, fields: Fields, meta: Fields) -> None:
            said = {**fields, **({"_meta": meta} if meta else {})}
            call = {"name": "x__mirror", "arguments": {}, "_meta": {"progressToken": "p"}}
            await speaker.ask("tools/call", {**call, SAY: {"notify": [[event, said]]}})
            told = await speaker.hear(f"notifications/{event}")
            assert (unknown(told), unknown(told.get("_meta", {}))) == (fields, meta)
            assert told.get("uri", uri) == uri

        await hold(check, st.sampled_from(events), *[EXTRAS] * 2)


@shows("any", "unknown fields of list_changed", clients="both", servers="both")
@both_ways
async def test_unknown_fields_of_changes_of_lists_pass(tmp_path: Path, client: str, server: str) -> None:
    async with house(tmp_path, client, server) as speaker:
        await speaker.listen(f"mcp://x/{WATCHED}")

        async def check(*generated: tuple[Fields, Fields]) -> None:
            said = dict(zip(("tools", "resources", "prompts"), generated, strict=True))
            notify = [
                [f"{kind}/list_changed", {**fields, **({"_meta": meta} if meta else {})}]
                for kind, (fields, meta) in said.items()
            ]
            await speaker.ask("tools/call", {"name": "x__mirror", "arguments": {}, SAY: {"notify": notify}})
            for kind, (fields, meta) in said.items():
                while not unknown(told := await speaker.hear(f"notifications/{kind}/list_changed")):
                    pass  # of a list that Wicket has read for the first time
                assert (unknown(told), unknown(told.get("_meta", {}))) == (fields, meta)

        some = st.dictionaries(NAMES, VALUES, min_size=1, max_size=3)
        await hold(check, *[st.tuples(some, EXTRAS)] * 3, examples=3)


@shows("any", "unknown fields of errors", clients="both", servers="both")
@both_ways
async def test_unknown_fields_of_errors_pass(tmp_path: Path, client: str, server: str) -> None:
    async with house(tmp_path, client, server) as speaker:

        async def check(method: str, beside: Fields, data: Fields, code: int) -> None:
            error = {"code": code, "message": "no", "data": data, **beside}
            told = await speaker.ask(method, {**REQUESTS[method][0], SAY: {"error": error}})
            assert told == error

        codes = st.sampled_from([-32603, -32000, 7])
        await hold(check, st.sampled_from(sorted(REQUESTS)), EXTRAS, EXTRAS, codes)


@shows("any", "unknown fields of tasks", clients="modern", servers="modern")
async def test_unknown_fields_of_tasks_pass(tmp_path: Path) -> None:
    async with house(tmp_path, "modern", "modern") as speaker:

        async def check(method: str, sent: Fields, inner: Fields, meta: Fields) -> None:
            call = {"name": "x__mirror", "arguments": {}, SAY: {"task": True, "inner": inner}}
            task = await speaker.ask("tools/call", call, TASKS)
            assert (task["resultType"], unknown(task)) == ("task", inner)
            about = {"taskId": task["taskId"], **sent, "_meta": meta, SAY: {"inner": inner, "meta": meta}}
            if method == "tasks/update":
                about["inputResponses"] = {}
            body = await speaker.ask(method, about, TASKS)
            assert body[HEARD] == {"params": sent, "meta": meta}
            assert (unknown(body), unknown(body.get("_meta", {}))) == (inner, meta)

        await hold(check, st.sampled_from(("tasks/get", "tasks/update", "tasks/cancel")), *[EXTRAS] * 3)


@shows("any", "unknown capabilities, and fields of entries of every list", clients="both", servers="both")
@both_ways
async def test_unknown_fields_of_entries_and_capabilities_pass(tmp_path: Path, client: str, server: str) -> None:
    async with house(tmp_path, client, server) as speaker:
        lists = {"tools": "tools", "resources": "resources", "prompts": "prompts"}
        for method, kind in (*lists.items(), ("resources/templates", "resourceTemplates")):
            listed = (await speaker.ask(f"{method}/list", {}))[kind]
            kept = [entry for entry in listed if all(entry.get(key) == value for key, value in KEPT.items())]
            assert len(kept) == 1, kind
        capabilities = (await speaker.greet())["capabilities"]
        assert capabilities["experimental"] == {f"{PREFIX}trial": {"kept": 1}}
        assert capabilities[f"{PREFIX}capability"] == {"kept": [2]}
