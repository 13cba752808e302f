"""What a cell of the matrix does: one function for each feature, over whatever link it is given.

Each asserts what the people at both ends care about; where an era has another way, the function says which.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

import mcp_types as types
import pytest
from mcp.client.subscriptions import PromptsListChanged, ResourcesListChanged, ResourceUpdated, ToolsListChanged
from mcp.shared.exceptions import MCPError

from tests.eras.chair import Chair
from tests.eras.house import TIMEOUT, Line, upstream
from tests.eras.house import line as open_line
from tests.eras.table import Dialect
from tests.eras.upstream import TEXTS
from tests.eras.witness import witness
from wicket_mcp.model import LATEST_LEGACY_VERSION, MODERN_VERSION
from wicket_mcp.tasks import Tasks

Run: TypeAlias = Callable[[Line, Dialect], Awaitable[None]]
Listed: TypeAlias = Callable[[], Awaitable[Sequence[Any]]]
CELLS: dict[str, Run] = {}


def cell(key: str) -> Callable[[Run], Run]:
    def register(run: Run) -> Run:
        CELLS[key] = run
        return run

    return register


def text(result: types.CallToolResult) -> str:
    """The text of a result of one block."""
    [block] = result.content
    assert isinstance(block, types.TextContent)
    return block.text


@cell("call")
async def plain_call(line: Line, via: Dialect) -> None:
    result = await line.chair.call(via, "echo", {"text": "hello"})
    version = MODERN_VERSION if line.link.upstream == "modern" else LATEST_LEGACY_VERSION
    assert result.structured_content == {"text": "hello", "version": version}
    assert not result.is_error
    failed = await line.chair.call(via, "fail")
    assert (failed.is_error, text(failed)) == (True, "it did not work")
    if via == "flat":
        with pytest.raises(MCPError) as refused:
            await line.chair.call(via, "refuse")
        error = refused.value.error
        assert (error.code, error.message, error.data) == (-32050, "refused on purpose", {"why": "purpose"})
    else:
        refusal = await line.chair.call(via, "refuse")
        assert refusal.is_error
        assert "refused on purpose (-32050)" in text(refusal)


@cell("content")
async def content(line: Line, via: Dialect) -> None:
    result = await line.chair.call(via, "rich")
    assert [block.type for block in result.content] == ["text", "image", "audio", "resource_link", "resource"]
    assert result.content[0].annotations.priority == 0.9
    assert str(result.content[3].uri) == "era://static"
    assert result.content[4].resource.text == "embedded"
    assert result.structured_content == {"numbers": [1, 2.5, 2**53 + 1], "nested": {"ok": True, "nothing": None}}


class Steps:
    """Hears of progress; the SDK may tell of the last step only after the answer."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._steps: list[tuple[float, float | None]] = []
        self._whole = asyncio.Event()

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        self._steps.append((progress, total))
        if len(self._steps) == self._count:
            self._whole.set()

    async def all(self) -> list[tuple[float, float | None]]:
        await self._whole.wait()
        return self._steps


@cell("progress")
async def progress(line: Line, via: Dialect) -> None:
    for name in ("progress", "ask_then_progress"):
        steps = Steps(3)
        result = await line.chair.call(via, name, progress_callback=steps)
        assert text(result) == "done"
        assert await steps.all() == [(1, 3), (2, 3), (3, 3)]


@cell("cancellation")
async def cancellation(line: Line, via: Dialect) -> None:
    tasks = Tasks()
    async with witness() as seen:
        call = tasks.start(line.chair.call(via, "hang", {"witness": seen.path}), "call")
        await seen.began()
        call.cancel()
        assert await seen.ended() == "cancelled"
    await tasks.wait()
    assert text(await line.chair.call(via, "fail")) == "it did not work", "the connection serves the next call"


@cell("timeout")
async def timeout(line: Line, via: Dialect) -> None:
    async with witness() as seen:
        result = await line.chair.call(via, "hang", {"witness": seen.path})
        assert result.is_error
        assert f"did not answer tools/call within {TIMEOUT} s" in text(result)
        assert await seen.ended() == "hanging"
        assert await seen.ended() == "cancelled"


@cell("disconnect")
async def disconnect(line: Line, via: Dialect) -> None:
    tasks = Tasks()
    async with witness() as seen:
        async with line.visitor() as visitor:
            tasks.start(visitor.call(via, "hang", {"witness": seen.path}), "call")
            await seen.began()
        assert await seen.ended() == "cancelled"
    await tasks.close()


@cell("elicitation-form")
async def elicitation_form(line: Line, via: Dialect) -> None:
    chair = line.chair
    assert text(await chair.call(via, "ask_form", {"message": "Who are you?"})) == "accept: Ada"
    [asked] = chair.asked
    assert isinstance(asked, types.ElicitRequestFormParams)
    assert asked.message == "Who are you?"
    assert asked.requested_schema["properties"] == {"name": {"type": "string"}}
    chair.answer = lambda _: types.ElicitResult(action="decline")
    assert text(await chair.call(via, "ask_form", {"message": "Please?"})) == "decline: None"


@cell("elicitation-url")
async def elicitation_url(line: Line, via: Dialect) -> None:
    url = "https://pages.example/sign-in?next=1"
    assert text(await line.chair.call(via, "ask_url", {"url": url})) == "accept: None"
    [asked] = line.chair.asked
    assert isinstance(asked, types.ElicitRequestURLParams)
    assert asked.url == url
    assert bool(asked.elicitation_id) == (line.link.client == "legacy"), "only the legacy era has an id here"


@cell("elicitation-rounds")
async def elicitation_rounds(line: Line, via: Dialect) -> None:
    assert text(await line.chair.call(via, "ask_twice")) == "name=Ada colour=blue"
    assert [asked.message for asked in line.chair.asked] == ["Name?", "Colour?"]


@cell("elicitation-withdrawn")
async def elicitation_withdrawn(line: Line, via: Dialect) -> None:
    chair = line.chair
    chair.ponder = asyncio.Event()
    tasks = Tasks()
    call = tasks.start(chair.call(via, "ask_and_withdraw"), "call")
    if line.link.upstream == "modern":
        assert text(await call) == "a modern server has no question under way"
        return
    await chair.pondering.wait()
    if line.link.client == "legacy":
        await chair.gave_up.wait()
    else:  # the client holds the question; whatever it answers, the call has gone on
        chair.ponder.set()
    assert text(await call) == "taken back"


@cell("elicitation-prompt")
async def elicitation_prompt(line: Line, via: Dialect) -> None:
    prompt = await line.chair.client.get_prompt("greet")
    assert isinstance(prompt, types.GetPromptResult)
    assert isinstance(content := prompt.messages[0].content, types.TextContent)
    assert content.text == "Greet Ada."


@cell("questions")
async def questions(line: Line, via: Dialect) -> None:
    assert text(await line.chair.call(via, "ask_all")) == "Ada, the model says hello, 1 root"


@cell("sampling")
async def sampling(line: Line, via: Dialect) -> None:
    assert text(await line.chair.call(via, "sample", {"prompt": "Say hello."})) == "the model says hello"
    [asked] = line.chair.prompts
    assert asked.max_tokens == 100
    assert asked.messages[0].content == types.TextContent(type="text", text="Say hello.")


@cell("roots")
async def roots(line: Line, via: Dialect) -> None:
    assert text(await line.chair.call(via, "roots")) == "file:///home/ada"


@cell("unsupported")
async def unsupported(line: Line, via: Dialect) -> None:
    quiet = await line.quiet()
    told = [
        await _told(quiet, via, "ask_form", {"message": "Name?"}),
        await _told(quiet, via, "sample", {"prompt": "Hi"}),
        await _told(quiet, via, "ask_rudely"),
    ]
    wants = ["elicitation", "sampling", "elicitation"]
    if line.link.upstream == "modern":  # the server sees what the client can do, and refuses by itself
        assert "capability" in told[0]
        assert "capability" in told[1]
        told, wants = told[2:], wants[2:]
    for words, wanted in zip(told, wants, strict=True):
        assert f"asks for {wanted}, which this client does not support" in words
        if line.link.upstream == "legacy":
            assert words.startswith("the question was refused (-32601)"), "the server heard it too"


async def _told(chair: Chair, via: Dialect, name: str, arguments: dict[str, Any] | None = None) -> str:
    """What an agent reads when its call fails."""
    try:
        result = await chair.call(via, name, arguments)
    except MCPError as problem:
        return problem.error.message
    assert result.is_error
    return text(result)


@cell("logging")
async def logging(line: Line, via: Dialect) -> None:
    if line.link.client == "legacy":
        await line.chair.set_level("info")
    assert text(await line.chair.call(via, "log")) == "logged"
    assert [(log.level, log.data) for log in line.chair.logs] == [("info", "at info"), ("error", "at error")]


def on_a_shared_server(work: Run) -> Run:
    """A list is one for all clients: what the process of one of them adds to its own is no change of it."""

    async def cell_of(line: Line, via: Dialect) -> None:
        link = line.link
        if link.near != "http" or link.upstream != "legacy":
            await work(line, via)
            return
        async with open_line(link, upstream(link), isolation="shared") as shared:
            await work(shared, via)

    return cell_of


async def _changes(line: Line, kind: str, notification: type[Any], event: type[Any], listed: Listed) -> None:
    """Has the upstream add to one of its lists: the client hears of it, and then finds it there."""
    client = line.chair.client

    async def there(added: str) -> bool:
        return added in {entry.name for entry in await listed()}

    if line.link.client == "legacy":
        added = text(await line.chair.call("flat", "change", {"kind": kind}))
        await line.chair.hears(notification)
        while not await there(added):  # what was heard of may have been an earlier change
            await line.chair.hears(notification)
        return
    async with client.listen(
        tools_list_changed=kind == "tools",
        resources_list_changed=kind == "resources",
        prompts_list_changed=kind == "prompts",
    ) as changes:
        added = text(await line.chair.call("flat", "change", {"kind": kind}))
        async for change in changes:
            assert isinstance(change, event)
            if await there(added):
                return
    raise AssertionError("the stream ended")


@cell("tools-changed")
@on_a_shared_server
async def tools_changed(line: Line, via: Dialect) -> None:
    async def listed() -> Sequence[Any]:
        return (await line.chair.client.list_tools()).tools

    await _changes(line, "tools", types.ToolListChangedNotification, ToolsListChanged, listed)


@cell("resources-changed")
@on_a_shared_server
async def resources_changed(line: Line, via: Dialect) -> None:
    async def listed() -> Sequence[Any]:
        return (await line.chair.client.list_resources()).resources

    await _changes(line, "resources", types.ResourceListChangedNotification, ResourcesListChanged, listed)


@cell("prompts-changed")
@on_a_shared_server
async def prompts_changed(line: Line, via: Dialect) -> None:
    async def listed() -> Sequence[Any]:
        return (await line.chair.client.list_prompts()).prompts

    await _changes(line, "prompts", types.PromptListChangedNotification, PromptsListChanged, listed)


@cell("resources")
async def resources(line: Line, via: Dialect) -> None:
    client = line.chair.client
    assert {str(one.uri) for one in (await client.list_resources()).resources} >= set(TEXTS)
    assert await _read(line, "era://static") == "the text of static"
    with pytest.raises(MCPError) as missing:
        await client.read_resource("era://nowhere")
    code = -32602 if line.link.client == "modern" else -32002
    assert (missing.value.error.code, missing.value.error.data) == (code, {"uri": "era://nowhere"})


async def _read(line: Line, uri: str) -> str:
    [content] = (await line.chair.client.read_resource(uri)).contents
    assert isinstance(content, types.TextResourceContents)
    assert str(content.uri) == uri
    return content.text


@cell("templates")
async def templates(line: Line, via: Dialect) -> None:
    listed = (await line.chair.client.list_resource_templates()).resource_templates
    assert [one.uri_template for one in listed] == [f"era://{name}/{{city}}" for name in "abcd"]
    assert await _read(line, "era://a/oslo") == "all about oslo"


@cell("subscription")
async def subscription(line: Line, via: Dialect) -> None:
    chair, uri = line.chair, "era://a/lima"
    if line.link.client == "modern":
        async with chair.client.listen(resource_subscriptions=[uri]) as changes:
            await chair.call(via, "touch", {"uri": uri})
            async for change in changes:
                assert change == ResourceUpdated(uri)
                return
    await chair.subscribe(uri)
    await chair.call(via, "touch", {"uri": uri})
    assert str((await chair.hears(types.ResourceUpdatedNotification)).params.uri) == uri
    await chair.unsubscribe(uri)
    await chair.call(via, "touch", {"uri": uri})
    assert chair.heard.empty()


@cell("prompts")
async def prompts(line: Line, via: Dialect) -> None:
    client = line.chair.client
    listed = {prompt.name: prompt for prompt in (await client.list_prompts()).prompts}
    [argument] = listed["visit"].arguments or []
    assert (argument.name, argument.required) == ("city", True)
    prompt = await client.get_prompt("visit", {"city": "Oslo"})
    assert isinstance(content := prompt.messages[0].content, types.TextContent)
    assert content.text == "Plan a visit to Oslo."


@cell("completion")
async def completion(line: Line, via: Dialect) -> None:
    client = line.chair.client
    prompt = types.PromptReference(type="ref/prompt", name="visit")
    template = types.ResourceTemplateReference(type="ref/resource", uri="era://a/{city}")
    for reference in (prompt, template):
        found = await client.complete(reference, {"name": "city", "value": "li"})
        assert found.completion.values == ["lisbon", "lima"]


@cell("pagination")
async def pagination(line: Line, via: Dialect) -> None:
    client = line.chair.client
    tools, templates = await client.list_tools(), await client.list_resource_templates()
    assert {"echo", "research", "call_tool"} <= {tool.name for tool in tools.tools}
    assert len(templates.resource_templates) == 4
    assert len((await client.list_resources()).resources) >= 4
    assert len((await client.list_prompts()).prompts) >= 4
    assert (tools.next_cursor, templates.next_cursor) == (None, None)
    with pytest.raises(MCPError) as unknown:
        await client.list_tools(cursor="3")
    assert unknown.value.error.code == types.INVALID_PARAMS


@cell("caching")
async def caching(line: Line, via: Dialect) -> None:
    client = line.chair.client
    tools, read = await client.list_tools(), await client.read_resource("era://static")
    if line.link.client == "legacy":
        assert not {"ttl_ms", "cache_scope"} & (tools.model_fields_set | read.model_fields_set)
        return
    modern = line.link.upstream == "modern"
    assert (tools.ttl_ms, tools.cache_scope) == (50_000 if modern else 60_000, "private")
    expected = (45_000, "public") if modern else (0, "private")
    assert (read.ttl_ms, read.cache_scope) == expected


@cell("tasks")
async def tasks(line: Line, via: Dialect) -> None:
    client = line.chair.client
    assert (client.server_capabilities.tasks is not None) == (line.link.client == "legacy")
    if (line.link.client, line.link.upstream) == ("legacy", "modern"):  # Wicket declares tasks in the client's place
        assert (await line.chair.call(via, "research")).content
        return
    with pytest.raises(MCPError) as refused:
        await line.chair.call(via, "research")
    error = refused.value.error
    if line.link.upstream == "legacy":
        assert (error.code, error.message.partition(";")[0]) == (-32601, "This tool only runs as a task")
    else:
        assert error.code == types.MISSING_REQUIRED_CLIENT_CAPABILITY
        assert error.data == {"requiredCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}}
