"""What is tried with `@modelcontextprotocol/server-everything`, a server of the legacy era that we did not write."""

import mcp_types as types
import pytest
from mcp.client.subscriptions import ResourceUpdated
from mcp.shared.exceptions import MCPError

from tests.eras.cells import CELLS, Steps, cell
from tests.eras.chair import Chair
from tests.eras.house import Line
from tests.eras.table import Dialect

__all__ = ["CELLS"]

PAGE = "https://pages.example/sign-in"


def words(result: types.CallToolResult) -> str:
    """All text of a result."""
    return "\n".join(block.text for block in result.content if isinstance(block, types.TextContent))


@cell("everything-call")
async def plain_call(line: Line, via: Dialect) -> None:
    chair = line.chair
    assert words(await chair.call(via, "get-sum", {"a": 2, "b": 3})) == "The sum of 2 and 3 is 5."
    weather = await chair.call(via, "get-structured-content", {"location": "Chicago"})
    assert set(weather.structured_content) == {"temperature", "conditions", "humidity"}
    message = await chair.call(via, "get-annotated-message", {"messageType": "error", "includeImage": True})
    assert [block.type for block in message.content] == ["text", "image"]
    assert message.content[0].annotations.audience == ["user", "assistant"]
    links = await chair.call(via, "get-resource-links", {"count": 2})
    assert [block.type for block in links.content] == ["text", "resource_link", "resource_link"]


@cell("everything-progress")
async def progress(line: Line, via: Dialect) -> None:
    steps = Steps(3)
    given = {"duration": 0.1, "steps": 3}
    result = await line.chair.call(via, "trigger-long-running-operation", given, progress_callback=steps)
    assert words(result).startswith("Long running operation completed.")
    assert await steps.all() == [(1, 3), (2, 3), (3, 3)]


@cell("everything-elicitation-form")
async def elicitation_form(line: Line, via: Dialect) -> None:
    result = await line.chair.call(via, "trigger-elicitation-request")
    assert "- Name: Ada" in words(result)
    [asked] = line.chair.asked
    assert isinstance(asked, types.ElicitRequestFormParams)
    assert asked.requested_schema["properties"]["integer"]["maximum"] == 100


@cell("everything-elicitation-url")
async def elicitation_url(line: Line, via: Dialect) -> None:
    chair = line.chair
    assert "User completed the URL elicitation flow" in words(await _visit(chair, via))
    assert [_url(asked) for asked in chair.asked] == [PAGE]
    chair.forget()
    if line.link.client == "legacy":
        with pytest.raises(MCPError) as demanded:
            await _visit(chair, via, error=True)
        error = demanded.value.error
        assert (error.code, error.data["elicitations"][0]["url"]) == (-32042, "https://modelcontextprotocol.io")
        await _visit(chair, via, error=True)  # the server lets the second try pass, and asks for its page
        assert [_url(asked) for asked in chair.asked] == [PAGE]
        return
    assert "User completed the URL elicitation flow" in words(await _visit(chair, via, error=True))
    assert [_url(asked) for asked in chair.asked] == ["https://modelcontextprotocol.io", PAGE]


async def _visit(chair: Chair, via: Dialect, *, error: bool = False) -> types.CallToolResult:
    return await chair.call(via, "trigger-url-elicitation", {"url": PAGE, "errorPath": error})


def _url(asked: object) -> str:
    assert isinstance(asked, types.ElicitRequestURLParams)
    return asked.url


@cell("everything-sampling")
async def sampling(line: Line, via: Dialect) -> None:
    result = await line.chair.call(via, "trigger-sampling-request", {"prompt": "Say hello.", "maxTokens": 7})
    assert "the model says hello" in words(result)
    [asked] = line.chair.prompts
    assert (asked.max_tokens, asked.system_prompt) == (7, "You are a helpful test server.")


@cell("everything-roots")
async def roots(line: Line, via: Dialect) -> None:
    assert "file:///home/ada" in words(await line.chair.call(via, "get-roots-list"))


@cell("everything-resources")
async def resources(line: Line, via: Dialect) -> None:
    client = line.chair.client
    listed = await client.list_resources()
    assert any(str(one.uri).startswith("demo://resource/static/") for one in listed.resources)
    templates = await client.list_resource_templates()
    assert "demo://resource/dynamic/text/{resourceId}" in [one.uri_template for one in templates.resource_templates]
    [content] = (await client.read_resource("demo://resource/dynamic/text/7")).contents
    assert isinstance(content, types.TextResourceContents)
    assert "Resource 7" in content.text
    [blob] = (await client.read_resource("demo://resource/dynamic/blob/8")).contents
    assert isinstance(blob, types.BlobResourceContents)
    with pytest.raises(MCPError):
        await client.read_resource("demo://resource/nowhere")


@cell("everything-subscription")
async def subscription(line: Line, via: Dialect) -> None:
    chair, uri = line.chair, "demo://resource/dynamic/text/1"
    toggle = "toggle-subscriber-updates"
    try:
        if line.link.client == "modern":
            async with chair.client.listen(resource_subscriptions=[uri]) as changes:
                await chair.call(via, toggle)
                async for change in changes:
                    assert change == ResourceUpdated(uri)
                    return
        await chair.subscribe(uri)
        await chair.call(via, toggle)
        assert str((await chair.hears(types.ResourceUpdatedNotification)).params.uri) == uri
    finally:
        await chair.call(via, toggle)


@cell("everything-prompts")
async def prompts(line: Line, via: Dialect) -> None:
    client = line.chair.client
    assert "args-prompt" in [prompt.name for prompt in (await client.list_prompts()).prompts]
    prompt = await client.get_prompt("args-prompt", {"city": "Oslo"})
    assert isinstance(content := prompt.messages[0].content, types.TextContent)
    assert "Oslo" in content.text
    reference = types.PromptReference(type="ref/prompt", name="completable-prompt")
    found = await client.complete(reference, {"name": "department", "value": "S"})
    assert found.completion.values == ["Sales", "Support"]
    embedded = await client.get_prompt("resource-prompt", {"resourceType": "Text", "resourceId": "3"})
    assert "resource" in [message.content.type for message in embedded.messages]


@cell("everything-tasks")
async def tasks(line: Line, via: Dialect) -> None:
    result = await line.chair.call(via, "simulate-research-query", {"topic": "tides"})
    assert "Research Report: tides" in words(result)
