"""The tools of the upstream that the matrix calls: one for each thing that must survive the way through a gateway.

They are written once for both eras: `Call.ask` (see tests/conformance/call.py) puts a question the way the client's era
has for it.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Any

import anyio
import mcp_types as types
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata

from tests.conformance.call import ELICITATION, ROOTS, SAMPLING, Call, InputNeeded, elicitation, sampling
from tests.conformance.media import PIXEL, SILENCE
from wicket_mcp.codec import encode

Result = types.CallToolResult
Handler = Callable[[Call], Awaitable[Result | types.InputRequiredResult]]

TOOLS: dict[str, tuple[types.Tool, Handler]] = {}
ADDED: dict[str, list[str]] = {"tools": [], "resources": [], "prompts": []}
"""What `change` has added to each list."""
bus = InMemorySubscriptionBus()

TASKS = "io.modelcontextprotocol/tasks"
NAME: dict[str, Any] = {"name": {"type": "string"}}
COLOUR: dict[str, Any] = {"colour": {"type": "string"}}
ECHOED: dict[str, Any] = {
    "type": "object",
    "properties": {"text": {"type": "string"}, "version": {"type": "string"}},
    "required": ["text", "version"],
}


def tool(name: str, *strings: str, **more: Any) -> Callable[[Handler], Handler]:
    """Offer the decorated function as a tool with these required strings."""
    schema = {"type": "object", "properties": {key: {"type": "string"} for key in strings}, "required": list(strings)}

    def offer(handler: Handler) -> Handler:
        TOOLS[name] = (types.Tool(name=name, description=handler.__doc__, input_schema=schema, **more), handler)
        return handler

    return offer


def said(*content: types.ContentBlock | str, error: bool = False, structured: Any = None) -> Result:
    blocks = [types.TextContent(type="text", text=part) if isinstance(part, str) else part for part in content]
    return Result(content=blocks, is_error=error, structured_content=structured)


@tool("echo", "text", output_schema=ECHOED)
async def echo(call: Call) -> Result:
    """Gives back its text, and the version of the protocol in which it was asked."""
    given = {"text": call.arguments["text"], "version": call.ctx.protocol_version}
    return said(encode(given).decode(), structured=given)


@tool("rich")
async def rich(call: Call) -> Result:
    """Gives every kind of content at once."""
    notes = types.Annotations(audience=["user"], priority=0.9)
    resource = types.TextResourceContents(uri="era://inside", mime_type="text/plain", text="embedded")
    return said(
        types.TextContent(type="text", text="annotated", annotations=notes),
        types.ImageContent(type="image", data=PIXEL, mime_type="image/png"),
        types.AudioContent(type="audio", data=SILENCE, mime_type="audio/wav"),
        types.ResourceLink(type="resource_link", name="linked", uri="era://static", mime_type="text/plain"),
        types.EmbeddedResource(type="resource", resource=resource),
        structured={"numbers": [1, 2.5, 2**53 + 1], "nested": {"ok": True, "nothing": None}},
    )


@tool("fail")
async def fail(call: Call) -> Result:
    """Answers that it failed."""
    return said("it did not work", error=True)


@tool("refuse")
async def refuse(call: Call) -> Result:
    """Refuses the request with an error of the protocol."""
    raise MCPError(-32050, "refused on purpose", {"why": "purpose"})


@tool("progress")
async def progress(call: Call) -> Result:
    """Reports progress three times."""
    await _report(call)
    return said("done")


async def _report(call: Call) -> None:
    for step in (1, 2, 3):
        await call.ctx.session.report_progress(step, 3, f"step {step}")


@tool("ask_then_progress")
async def ask_then_progress(call: Call) -> Result:
    """Asks the user, and reports progress only after the answer."""
    await call.ask("name", elicitation("Name?", NAME, "name"), types.ElicitResult)
    await _report(call)
    return said("done")


@tool("hang", "witness")
async def hang(call: Call) -> Result:
    """Never answers, before a witness."""
    with _before(str(call.arguments["witness"])):
        await asyncio.Event().wait()
    return said("never said")


@contextmanager
def _before(witness: str) -> Generator[None]:
    """Tells a witness, at the other end of a socket, when a call begins and that it was cancelled."""
    with socket.socket(socket.AF_UNIX) as wire:
        wire.connect(witness)
        wire.sendall(b"hanging\n")
        try:
            yield
        except asyncio.CancelledError:
            wire.sendall(b"cancelled\n")
            raise


@tool("ask_before_hanging", "witness")
async def ask_before_hanging(call: Call) -> Result:
    """Asks the user, for ever, before a witness."""
    with _before(str(call.arguments["witness"])):
        return await _asked(call, elicitation("Name?", NAME, "name"))


@tool("come_back")
async def come_back(call: Call) -> Result | types.InputRequiredResult:
    """Asks nothing, but wants to be called again."""
    if not call.legacy and call.state != "once":
        return types.InputRequiredResult(request_state="once")
    return said("welcome back")


@tool("ask_form", "message")
async def ask_form(call: Call) -> Result:
    """Asks the user for a name."""
    return await _asked(call, elicitation(str(call.arguments["message"]), NAME, "name"))


@tool("ask_url", "url")
async def ask_url(call: Call) -> Result:
    """Asks the user to open a page."""
    page = types.ElicitRequestURLParams(
        message="Please open this page.",
        url=str(call.arguments["url"]),
        elicitation_id="page-1" if call.legacy else None,
    )
    return await _asked(call, types.ElicitRequest(params=page))


async def _asked(call: Call, request: types.ElicitRequest) -> Result:
    if not call.legacy:
        call.demand(ELICITATION)
    try:
        answer = await call.ask("answer", request, types.ElicitResult)
    except MCPError as refusal:
        return said(f"the question was refused ({refusal.error.code}): {refusal.error.message}", error=True)
    return said(f"{answer.action}: {(answer.content or {}).get('name')}")


@tool("ask_rudely")
async def ask_rudely(call: Call) -> Result:
    """Asks the user, whatever the client says it can be asked."""
    request = elicitation("Name?", NAME, "name")
    if call.legacy:
        return await _asked(call, request)
    raise InputNeeded({"answer": request}, "rude")


@tool("ask_twice")
async def ask_twice(call: Call) -> Result:
    """Asks two questions, the second after the first was answered."""
    first, second = elicitation("Name?", NAME, "name"), elicitation("Colour?", COLOUR, "colour")
    if call.legacy or not (call.state or "").startswith("name="):
        name = await call.ask("name", first, types.ElicitResult, state="nothing yet")
        state = f"name={(name.content or {}).get('name')}"
    else:
        state = call.state or ""
    colour = await call.ask("colour", second, types.ElicitResult, state=state)
    return said(f"{state} colour={(colour.content or {}).get('colour')}")


@tool("ask_all")
async def ask_all(call: Call) -> Result:
    """Asks the user, the model and for the roots, all at once."""
    requests: types.InputRequests = {
        "user": elicitation("Name?", NAME, "name"),
        "model": sampling("Greet."),
        "roots": types.ListRootsRequest(),
    }
    kinds = {"user": types.ElicitResult, "model": types.CreateMessageResult, "roots": types.ListRootsResult}
    if call.legacy:
        found: dict[str, Any] = {}

        async def put(key: str) -> None:
            metadata = ServerMessageMetadata(related_request_id=call.ctx.request_id)
            found[key] = await call.ctx.session.send_request(requests[key], kinds[key], metadata=metadata)

        async with anyio.create_task_group() as group:
            for key in requests:
                group.start_soon(put, key)
    else:
        found = {key: call.answer(key, kind) for key, kind in kinds.items()}
        if None in found.values():
            raise InputNeeded(requests, "all three")
    return said(f"{found['user'].content['name']}, {found['model'].content.text}, {len(found['roots'].roots)} root")


@tool("ask_and_withdraw")
async def ask_and_withdraw(call: Call) -> Result:
    """Asks the user, and takes the question back when it is not answered soon."""
    if not call.legacy:
        return said("a modern server has no question under way")
    metadata = ServerMessageMetadata(related_request_id=call.ctx.request_id)
    request = elicitation("Still there?", NAME, "name")
    with anyio.move_on_after(0.5):
        await call.ctx.session.send_request(request, types.ElicitResult, metadata=metadata)
    return said("taken back")


@tool("sample", "prompt")
async def sample(call: Call) -> Result:
    """Asks the client's model."""
    if not call.legacy:
        call.demand(SAMPLING)
    try:
        answer = await call.ask("answer", sampling(str(call.arguments["prompt"])), types.CreateMessageResult)
    except MCPError as refusal:
        return said(f"the question was refused ({refusal.error.code}): {refusal.error.message}", error=True)
    return said(answer.content.text if isinstance(answer.content, types.TextContent) else answer.content.type)


@tool("roots")
async def roots(call: Call) -> Result:
    """Asks the client for its roots."""
    if not call.legacy:
        call.demand(ROOTS)
    answer = await call.ask("roots", types.ListRootsRequest(), types.ListRootsResult)
    return said(", ".join(str(root.uri) for root in answer.roots))


@tool("log")
async def log(call: Call) -> Result:
    """Logs at three levels, and then answers."""
    for level in ("debug", "info", "error"):
        await call.log(level, f"at {level}")
    return said("logged")


@tool("change", "kind")
async def change(call: Call) -> Result:
    """Adds an entry to a list, and tells of it."""
    kind = str(call.arguments["kind"])
    ADDED[kind].append(f"{kind}-{len(ADDED[kind]) + 1}")
    session = call.ctx.session
    events = {
        "tools": (ToolsListChanged(), session.send_tool_list_changed),
        "resources": (ResourcesListChanged(), session.send_resource_list_changed),
        "prompts": (PromptsListChanged(), session.send_prompt_list_changed),
    }
    event, tell = events[kind]
    await bus.publish(event)
    if call.legacy:
        await tell()
    return said(ADDED[kind][-1])


@tool("touch", "uri")
async def touch(call: Call) -> Result:
    """Changes a resource, and tells whoever watches it."""
    uri = str(call.arguments["uri"])
    await bus.publish(ResourceUpdated(uri))
    if call.legacy:
        await call.ctx.session.send_resource_updated(uri)
    return said("touched")


WATCHED: set[str] = set()
given_back = anyio.Event()


@tool("watched")
async def watched(call: Call) -> Result:
    """Tells which resources its client subscribed to."""
    return said(", ".join(sorted(WATCHED)))


@tool("unwatched", "uri")
async def unwatched(call: Call) -> Result:
    """Waits until a subscription is given back."""
    while call.arguments["uri"] in WATCHED:
        await given_back.wait()
    return said("given back")


@tool("research", execution=types.ToolExecution(task_support="required"))
async def research(call: Call) -> Result:
    """Takes so long that it only runs as a task, which its client must have asked for."""
    if call.legacy:
        raise MCPError(types.METHOD_NOT_FOUND, "This tool only runs as a task; the request has no 'task'.")
    needed = types.ClientCapabilities(extensions={TASKS: {}})
    call.demand(needed)
    return said("a task would have begun")
