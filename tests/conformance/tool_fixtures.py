"""The tools that the conformance suite calls by name, except those of multi-round-trip requests.

Each fixture says what the suite's scenario of the same subject demands; nothing here knows a transport.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import mcp_types as types
from mcp.server.subscriptions import InMemorySubscriptionBus, PromptsListChanged, ServerEvent, ToolsListChanged

from tests.conformance.call import ELICITATION, SAMPLING, Call, elicitation, sampling
from tests.conformance.media import PIXEL, SILENCE

Handler = Callable[[Call], Awaitable[types.CallToolResult]]

TOOLS: dict[str, tuple[types.Tool, Handler]] = {}
bus = InMemorySubscriptionBus()
changes = {"tools": 0, "prompts": 0}
"""How often each list has been changed: it shows in a description, so that the list really differs."""

PERSON: dict[str, Any] = {
    "name": {"type": "string", "description": "User name", "default": "John Doe"},
    "age": {"type": "integer", "description": "User age", "default": 30},
    "score": {"type": "number", "description": "User score", "default": 95.5},
    "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
    "verified": {"type": "boolean", "description": "Verification status", "default": True},
}


def _titled(*titles: str) -> list[dict[str, str]]:
    return [{"const": f"value{number}", "title": title} for number, title in enumerate(titles, 1)]


CHOICES: dict[str, Any] = {
    "untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
    "titledSingle": {"type": "string", "oneOf": _titled("First Option", "Second Option", "Third Option")},
    "legacyEnum": {
        "type": "string",
        "enum": ["opt1", "opt2", "opt3"],
        "enumNames": ["Option One", "Option Two", "Option Three"],
    },
    "untitledMulti": {"type": "array", "items": {"type": "string", "enum": ["option1", "option2", "option3"]}},
    "titledMulti": {
        "type": "array",
        "items": {"anyOf": _titled("First Choice", "Second Choice", "Third Choice")},
    },
}

EVERY_KEYWORD: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


def tool(name: str, description: str, schema: dict[str, Any] | None = None) -> Callable[[Handler], Handler]:
    """Offer the decorated function as the tool `name`."""

    def offer(handler: Handler) -> Handler:
        given = schema or {"type": "object", "properties": {}}
        TOOLS[name] = (types.Tool(name=name, description=description, input_schema=given), handler)
        return handler

    return offer


def one_string(name: str, **keywords: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {name: {"type": "string", **keywords}}, "required": [name]}


def said(*content: types.ContentBlock | str, error: bool = False) -> types.CallToolResult:
    """A result with these blocks; a string is a text block."""
    blocks = [types.TextContent(type="text", text=part) if isinstance(part, str) else part for part in content]
    return types.CallToolResult(content=blocks, is_error=error)


def embedded(uri: str, mime_type: str, text: str) -> types.EmbeddedResource:
    resource = types.TextResourceContents(uri=uri, mime_type=mime_type, text=text)
    return types.EmbeddedResource(type="resource", resource=resource)


@tool("test_simple_text", "Returns one text block.")
async def simple_text(call: Call) -> types.CallToolResult:
    return said("This is a simple text response for testing.")


@tool("test_image_content", "Returns an image.")
async def image_content(call: Call) -> types.CallToolResult:
    return said(types.ImageContent(type="image", data=PIXEL, mime_type="image/png"))


@tool("test_audio_content", "Returns a sound.")
async def audio_content(call: Call) -> types.CallToolResult:
    return said(types.AudioContent(type="audio", data=SILENCE, mime_type="audio/wav"))


@tool("test_embedded_resource", "Returns an embedded resource.")
async def embedded_resource(call: Call) -> types.CallToolResult:
    return said(embedded("test://embedded-resource", "text/plain", "This is an embedded resource content."))


@tool("test_multiple_content_types", "Returns text, an image and a resource.")
async def multiple_content_types(call: Call) -> types.CallToolResult:
    return said(
        "Multiple content types test:",
        types.ImageContent(type="image", data=PIXEL, mime_type="image/png"),
        embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}'),
    )


@tool("test_tool_with_logging", "Logs three times while it runs.")
async def with_logging(call: Call) -> types.CallToolResult:
    await call.log("info", "Tool execution started")
    await anyio.sleep(0.05)
    await call.log("info", "Tool processing data")
    await anyio.sleep(0.05)
    await call.log("info", "Tool execution completed")
    return said("Logged three times.")


@tool("test_logging_tool", "Logs at several levels.")
async def logging_tool(call: Call) -> types.CallToolResult:
    for level in ("debug", "info", "error"):
        await call.log(level, f"A message at level {level}")
    return said("Logged at three levels.")


@tool("test_error_handling", "Always fails.")
async def error_handling(call: Call) -> types.CallToolResult:
    return said("This tool intentionally returns an error for testing", error=True)


@tool("test_tool_with_progress", "Reports progress three times while it runs.")
async def with_progress(call: Call) -> types.CallToolResult:
    for done in (0, 50, 100):
        await call.ctx.session.report_progress(done, 100, f"Completed step {done} of 100")
        await anyio.sleep(0.05)
    return said("Reported progress three times.")


@tool("test_sampling", "Asks the client's model.", one_string("prompt", description="What to ask it"))
async def ask_model(call: Call) -> types.CallToolResult:
    call.demand(SAMPLING)
    answer = await call.ask("answer", sampling(str(call.arguments["prompt"])), types.CreateMessageResult)
    spoken = answer.content.text if isinstance(answer.content, types.TextContent) else answer.content.type
    return said(f"LLM response: {spoken}")


async def _elicit(call: Call, request: types.ElicitRequest) -> types.CallToolResult:
    call.demand(ELICITATION)
    answer = await call.ask("answer", request, types.ElicitResult)
    return said(f"Elicitation completed: action={answer.action}, content={answer.content}")


@tool("test_elicitation", "Asks the user for a name and an address.", one_string("message", description="What to say"))
async def ask_user(call: Call) -> types.CallToolResult:
    properties = {
        "username": {"type": "string", "description": "User's response"},
        "email": {"type": "string", "description": "User's email address"},
    }
    return await _elicit(call, elicitation(str(call.arguments["message"]), properties, "username", "email"))


@tool("test_elicitation_sep1034_defaults", "Asks the user with a default for every kind of field.")
async def ask_with_defaults(call: Call) -> types.CallToolResult:
    return await _elicit(call, elicitation("Please review these values.", PERSON))


@tool("test_elicitation_sep1330_enums", "Asks the user with every kind of choice.")
async def ask_with_choices(call: Call) -> types.CallToolResult:
    return await _elicit(call, elicitation("Please choose.", CHOICES))


@tool("test_missing_capability", "Needs a client that can sample.")
async def missing_capability(call: Call) -> types.CallToolResult:
    call.demand(SAMPLING)
    return said("The client can sample.")


@tool("test_streaming_elicitation", "Asks the user in the middle of a streamed answer.")
async def streaming_elicitation(call: Call) -> types.CallToolResult:
    await call.ctx.session.report_progress(1, 2, "About to ask")
    return await _elicit(call, elicitation("Shall it go on?", {"ok": {"type": "boolean"}}, "ok"))


@tool("test_reconnection", "Closes the stream of its answer, which the client must fetch by reconnecting.")
async def reconnection(call: Call) -> types.CallToolResult:
    if call.ctx.close_sse_stream is not None:
        await call.ctx.close_sse_stream()
    await anyio.sleep(0.1)
    return said("Reconnection test completed.")


@tool("json_schema_2020_12_tool", "Tool with JSON Schema 2020-12 features", EVERY_KEYWORD)
async def every_keyword(call: Call) -> types.CallToolResult:
    return said(f"Called with {dict(call.arguments)}")


REGION = one_string("region", **{"description": "Where to run", "x-mcp-header": "Region"})


@tool("test_x_mcp_header", "Wants its argument in a header too.", REGION)
async def in_header(call: Call) -> types.CallToolResult:
    return said(f"region={call.arguments['region']}")


async def _changed(call: Call, kind: str, event: ServerEvent) -> types.CallToolResult:
    changes[kind] += 1
    await bus.publish(event)
    if call.legacy:
        tell = call.ctx.session.send_tool_list_changed if kind == "tools" else call.ctx.session.send_prompt_list_changed
        await tell()
    return said(f"The list of {kind} changed.")


@tool("test_trigger_tool_change", "Changes the list of tools.")
async def change_tools(call: Call) -> types.CallToolResult:
    return await _changed(call, "tools", ToolsListChanged())


@tool("test_trigger_prompt_change", "Changes the list of prompts.")
async def change_prompts(call: Call) -> types.CallToolResult:
    return await _changed(call, "prompts", PromptsListChanged())
