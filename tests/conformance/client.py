"""The client that the suite starts for its client scenarios: the SDK's, directly or through Wicket.

    python -m tests.conformance.client [--wicket] URL      the suite appends the URL and names the scenario

What each scenario wants a client to do is here; whether it was done well is the suite's to judge.
"""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any, TypeAlias

import mcp_types as types
from mcp import Client
from mcp.client import ClientRequestContext

from tests.conformance.suite import Revision, required
from tests.conformance.targets import wicket
from wicket_mcp.codec import decode
from wicket_mcp.model import LEGACY_VERSIONS, as_object

Conversation: TypeAlias = Callable[[Client], Awaitable[None]]
EXAMPLES: dict[str, Any] = {
    "string": "text",
    "integer": 1,
    "number": 1.5,
    "boolean": True,
    "object": {},
    "array": [],
    "null": None,
}


async def accept_defaults(context: ClientRequestContext, params: types.ElicitRequestParams) -> types.ElicitResult:
    """The user accepts the form as it stands; a box without a default is ticked."""
    if not isinstance(params, types.ElicitRequestFormParams):
        return types.ElicitResult(action="decline")
    fields = as_object(params.requested_schema.get("properties"))
    given = {name: as_object(field).get("default", True) for name, field in fields.items()}
    return types.ElicitResult(action="accept", content=given)


async def answer(context: ClientRequestContext, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
    said = types.TextContent(type="text", text="An answer.")
    return types.CreateMessageResult(role="assistant", content=said, model="test-model", stop_reason="endTurn")


async def roots(context: ClientRequestContext) -> types.ListRootsResult:
    return types.ListRootsResult(roots=[])


async def list_tools(client: Client) -> None:
    await client.list_tools()


async def add_numbers(client: Client) -> None:
    await client.list_tools()
    await client.call_tool("add_numbers", {"a": 5, "b": 3})


async def call_each(client: Client) -> None:
    """Every tool in the list, each with arguments of the right kind."""
    for tool in (await client.list_tools()).tools:
        properties = as_object(tool.input_schema.get("properties"))
        kinds = {name: as_object(schema).get("type", "string") for name, schema in properties.items()}
        await client.call_tool(tool.name, {name: EXAMPLES[kind] for name, kind in kinds.items()})


async def use_everything(client: Client) -> None:
    await call_each(client)
    for resource in (await client.list_resources()).resources:
        await client.read_resource(resource.uri)
    for prompt in (await client.list_prompts()).prompts:
        await client.get_prompt(prompt.name)


async def call_as_told(client: Client) -> None:
    """The calls that the suite asks for."""
    await client.list_tools()
    context = as_object(decode(os.environ["MCP_CONFORMANCE_CONTEXT"]))
    for call in context["toolCalls"]:
        await client.call_tool(call["name"], call["arguments"])


async def echo_schema(client: Client) -> None:
    tools = (await client.list_tools()).tools
    schema = next(tool.input_schema for tool in tools if tool.name == "json_schema_2020_12_tool")
    await client.call_tool("json_schema_echo", {"schema": schema})


CONVERSATIONS: dict[str, Conversation] = {
    "initialize": list_tools,
    "tools_call": add_numbers,
    "elicitation-sep1034-client-defaults": call_each,
    "sse-retry": call_each,
    "request-metadata": list_tools,
    "sep-2322-client-request-state": call_each,
    "http-standard-headers": use_everything,
    "http-custom-headers": call_as_told,
    "http-invalid-tool-headers": call_each,
    "json-schema-ref-no-deref": list_tools,
    "json-schema-2020-12-preservation": echo_schema,
}


def command(*, through_wicket: bool) -> str:
    """What the suite is to start."""
    return f"{sys.executable} -m tests.conformance.client{' --wicket' if through_wicket else ''}"


def scenarios(revision: Revision) -> list[str]:
    """The client scenarios of a revision that there is a conversation for."""
    scored, unscored = required(revision, "client")
    return [scenario for scenario in (*scored, *unscored) if scenario in CONVERSATIONS]


async def main(url: str, *, through_wicket: bool) -> None:
    legacy = os.environ["MCP_CONFORMANCE_PROTOCOL_VERSION"] in LEGACY_VERSIONS
    capabilities: dict[str, Any] = {
        "elicitation_callback": accept_defaults,
        "sampling_callback": answer,
        "list_roots_callback": roots,
    }
    async with AsyncExitStack() as stack:
        address = await stack.enter_async_context(wicket({"url": url})) if through_wicket else url
        client = Client(address, mode="legacy" if legacy else "auto", **capabilities)
        await CONVERSATIONS[os.environ["MCP_CONFORMANCE_SCENARIO"]](await stack.enter_async_context(client))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[-1], through_wicket="--wicket" in sys.argv))
