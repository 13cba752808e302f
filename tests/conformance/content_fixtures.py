"""The resources and prompts that the conformance suite reads by address and name."""

from collections.abc import Awaitable, Callable

import mcp_types as types

from tests.conformance.call import Call
from tests.conformance.media import PIXEL
from tests.conformance.round_fixtures import prompt_with_input
from tests.conformance.tool_fixtures import embedded
from wicket_mcp.codec import encode

PromptHandler = Callable[[Call], Awaitable[types.GetPromptResult]]
Contents = types.TextResourceContents | types.BlobResourceContents

RESOURCES = [
    types.Resource(uri="test://static-text", name="static-text", description="A text.", mime_type="text/plain"),
    types.Resource(uri="test://static-binary", name="static-binary", description="An image.", mime_type="image/png"),
    types.Resource(
        uri="test://watched-resource", name="watched-resource", description="To subscribe to.", mime_type="text/plain"
    ),
]
TEMPLATES = [
    types.ResourceTemplate(
        uri_template="test://template/{id}/data",
        name="template",
        description="Data by number.",
        mime_type="application/json",
    )
]


def read(uri: str) -> Contents | None:
    """What is at `uri`, if anything."""
    match uri.split("/"):
        case ["test:", "", "static-text"]:
            text = "This is the content of the static text resource."
            return types.TextResourceContents(uri=uri, mime_type="text/plain", text=text)
        case ["test:", "", "static-binary"]:
            return types.BlobResourceContents(uri=uri, mime_type="image/png", blob=PIXEL)
        case ["test:", "", "watched-resource"]:
            return types.TextResourceContents(uri=uri, mime_type="text/plain", text="Watched resource content")
        case ["test:", "", "template", number, "data"] if number:
            data = {"id": number, "templateTest": True, "data": f"Data for ID: {number}"}
            return types.TextResourceContents(uri=uri, mime_type="application/json", text=encode(data).decode())
        case _:
            return None


def _messages(*content: types.ContentBlock | str) -> types.GetPromptResult:
    blocks = [types.TextContent(type="text", text=part) if isinstance(part, str) else part for part in content]
    return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=block) for block in blocks])


async def _simple(call: Call) -> types.GetPromptResult:
    return _messages("This is a simple prompt for testing.")


async def _with_arguments(call: Call) -> types.GetPromptResult:
    first, second = call.arguments.get("arg1"), call.arguments.get("arg2")
    return _messages(f"Prompt with arguments: arg1='{first}', arg2='{second}'")


async def _with_resource(call: Call) -> types.GetPromptResult:
    uri = str(call.arguments.get("resourceUri"))
    resource = embedded(uri, "text/plain", "Embedded resource content for testing.")
    return _messages(resource, "Please process the embedded resource above.")


async def _with_image(call: Call) -> types.GetPromptResult:
    image = types.ImageContent(type="image", data=PIXEL, mime_type="image/png")
    return _messages(image, "Please analyze the image above.")


def _prompt(name: str, description: str, **arguments: str) -> types.Prompt:
    needed = [types.PromptArgument(name=key, description=text, required=True) for key, text in arguments.items()]
    return types.Prompt(name=name, description=description, arguments=needed)


PROMPTS: dict[str, tuple[types.Prompt, PromptHandler]] = {
    prompt.name: (prompt, handler)
    for prompt, handler in (
        (_prompt("test_simple_prompt", "A prompt without arguments."), _simple),
        (
            _prompt("test_prompt_with_arguments", "A prompt with arguments.", arg1="The first", arg2="The second"),
            _with_arguments,
        ),
        (
            _prompt("test_prompt_with_embedded_resource", "A prompt with a resource.", resourceUri="Which resource"),
            _with_resource,
        ),
        (_prompt("test_prompt_with_image", "A prompt with an image."), _with_image),
        (_prompt("test_input_required_result_prompt", "A prompt that asks the user."), prompt_with_input),
    )
}
