"""Prepares the arguments of a tool: fills in references to stored results, and validates them.

A call whose arguments do not fit the tool's own schema is rejected before its server is contacted. Large arguments are
validated in a thread.
"""

from functools import partial
from typing import Any, cast

from msgspec.structs import replace

from wicket_mcp.codec import digest, is_large
from wicket_mcp.errors import Internal
from wicket_mcp.large_json import encode_in_pieces
from wicket_mcp.model import JsonObject, Tool
from wicket_mcp.request import Handler, Layer, Request, Result
from wicket_mcp.results.references import REFERENCE, find_references, refers
from wicket_mcp.results.results import Results
from wicket_mcp.schema.arguments import fit_arguments, parse_arguments
from wicket_mcp.schema.checker import find_checker, fits
from wicket_mcp.schema.coercion import wants_text
from wicket_mcp.schema.headers import parameter_headers


def check(results: Results) -> Layer:
    def layer(inner: Handler) -> Handler:
        async def handle(request: Request) -> Result:
            tool = request.tool
            if tool is None:
                raise Internal(f"{request.method} reached the argument check without a tool")
            raw: Any = request.params["arguments"]
            arguments = cast("JsonObject", raw) if type(raw) is dict else parse_arguments(raw)
            if is_large(arguments):
                arguments = await _fit_large(results, request, tool, arguments)
            else:
                if REFERENCE in arguments or (_is_nested(arguments) and refers(arguments)):
                    arguments = await _substitute(results, request, tool, arguments)
                if not fits(tool.definition, arguments):
                    arguments = fit_arguments(tool, arguments)
            request.span.arguments = arguments
            params: JsonObject = {"name": tool.own_name or tool.name, "arguments": arguments}
            if len(request.params) > 1:  # fields that Wicket does not know
                params = {**request.params, **params}
            headers = parameter_headers(tool, arguments) if tool.headed else None
            return await inner(replace(request, params=params, headers=headers))

        return handle

    return layer


def _is_nested(arguments: JsonObject) -> bool:
    for value in arguments.values():  # noqa: SIM110  (every call passes here, and a generator is slower)
        if isinstance(value, (dict, list)):
            return True
    return False


async def _substitute(results: Results, request: Request, tool: Tool, arguments: JsonObject) -> JsonObject:
    """The arguments with their references replaced by the stored results."""
    request.span.references = tuple(
        (str(reference.place[0]) if reference.place else "", reference.handle)
        for reference in find_references(arguments)
    )
    return await results.substitute(arguments, request.caller.principal, partial(wants_text, tool.input_schema))


async def _fit_large(results: Results, request: Request, tool: Tool, arguments: JsonObject) -> JsonObject:
    """Validate in a thread: walking through hundreds of thousands of values takes a while."""
    principal = request.caller.principal
    if await results.compute(principal, partial(refers, arguments)):
        arguments = await _substitute(results, request, tool, arguments)
    find_checker(tool.definition)  # compiled here, because compiling is not thread-safe

    def fit() -> JsonObject:
        fitting = fit_arguments(tool, arguments)
        request.span.arguments_digest, request.span.arguments_bytes = digest(encode_in_pieces(fitting))
        return fitting

    return await results.compute(principal, fit)
