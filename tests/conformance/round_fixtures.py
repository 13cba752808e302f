"""The fixtures of multi-round-trip requests: tools and a prompt that need input before they can answer.

They exist for modern clients; `Call.ask` makes those that ask one question work for legacy ones too.
"""

from typing import Any

import mcp_types as types

from tests.conformance.call import ELICITATION, ROOTS, SAMPLING, Call, InputNeeded, elicitation, sampling
from tests.conformance.tool_fixtures import said, tool

NAME: dict[str, Any] = {"name": {"type": "string"}}
OK: dict[str, Any] = {"ok": {"type": "boolean"}}


@tool("test_input_required_result_elicitation", "Asks the user for a name.")
async def ask_name(call: Call) -> types.CallToolResult:
    answer = await call.ask("user_name", elicitation("What is your name?", NAME, "name"), types.ElicitResult)
    return said(f"Hello, {(answer.content or {}).get('name', 'stranger')}!")


@tool("test_input_required_result_sampling", "Asks the client's model for a capital.")
async def ask_capital(call: Call) -> types.CallToolResult:
    question = sampling("What is the capital of France?")
    answer = await call.ask("capital_question", question, types.CreateMessageResult)
    return said(answer.content if isinstance(answer.content, types.TextContent) else answer.content.type)


@tool("test_input_required_result_list_roots", "Asks the client for its roots.")
async def ask_roots(call: Call) -> types.CallToolResult:
    answer = await call.ask("client_roots", types.ListRootsRequest(), types.ListRootsResult)
    return said(f"Roots: {', '.join(str(root.uri) for root in answer.roots)}")


async def _confirmed(call: Call) -> types.CallToolResult:
    """Asks for a confirmation, with a state that must come back as it went."""
    request = elicitation("Please confirm", OK, "ok")
    await call.ask("confirm", request, types.ElicitResult, state="awaiting confirmation")
    if not call.legacy and call.state != "awaiting confirmation":
        raise InputNeeded({"confirm": request}, "awaiting confirmation")
    return said("state-ok")


@tool("test_input_required_result_request_state", "Asks for a confirmation and keeps its state with the client.")
async def keep_state(call: Call) -> types.CallToolResult:
    return await _confirmed(call)


@tool("test_input_required_result_tampered_state", "Refuses a state that is not the one it gave out.")
async def refuse_tampering(call: Call) -> types.CallToolResult:
    return await _confirmed(call)


@tool("test_input_required_result_multiple_inputs", "Asks the user, the model and for the roots at once.")
async def ask_everything(call: Call) -> types.CallToolResult:
    requests: types.InputRequests = {
        "user_name": elicitation("What is your name?", NAME, "name"),
        "greeting": sampling("Generate a greeting", 50),
        "client_roots": types.ListRootsRequest(),
    }
    name = call.answer("user_name", types.ElicitResult)
    greeting = call.answer("greeting", types.CreateMessageResult)
    roots = call.answer("client_roots", types.ListRootsResult)
    if name is None or greeting is None or roots is None:
        raise InputNeeded(requests, "awaiting all three")
    return said(f"{greeting.content} {name.content} {len(roots.roots)} roots")


@tool("test_input_required_result_multi_round", "Asks twice, one question after the other.")
async def ask_twice(call: Call) -> types.CallToolResult:
    first = elicitation("Step 1: What is your name?", NAME, "name")
    second = elicitation("Step 2: What is your favorite color?", {"color": {"type": "string"}}, "color")
    if call.legacy or call.state is None or not call.state.startswith("name="):
        name = await call.ask("step1", first, types.ElicitResult, state="awaiting step 1")
        state = f"name={(name.content or {}).get('name', '')}"
    else:
        state = call.state
    colour = await call.ask("step2", second, types.ElicitResult, state=state)
    return said(f"{state}, color={(colour.content or {}).get('color', '')}")


@tool("test_input_required_result_capabilities", "Asks only what the client says it can answer.")
async def ask_what_is_possible(call: Call) -> types.CallToolResult:
    possible: types.InputRequests = {}
    if call.can(ELICITATION):
        possible["user_name"] = elicitation("What is your name?", NAME, "name")
    if call.can(SAMPLING):
        possible["greeting"] = sampling("Generate a greeting", 50)
    if call.can(ROOTS):
        possible["client_roots"] = types.ListRootsRequest()
    unanswered = {key: request for key, request in possible.items() if key not in (call.params.input_responses or {})}
    if unanswered:
        raise InputNeeded(unanswered, "awaiting what is possible")
    return said(f"Answered: {', '.join(possible) or 'nothing to ask'}")


async def prompt_with_input(call: Call) -> types.GetPromptResult:
    properties = {"context": {"type": "string"}}
    request = elicitation("What context should the prompt use?", properties, "context")
    answer = await call.ask("user_context", request, types.ElicitResult)
    text = f"Use this context: {(answer.content or {}).get('context', '')}"
    return types.GetPromptResult(
        messages=[types.PromptMessage(role="user", content=types.TextContent(type="text", text=text))]
    )
