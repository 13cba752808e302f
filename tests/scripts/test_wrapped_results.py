"""A tool has one shape in scripts and in its signature: FastMCP's `{"result": value}` is the value."""

import json
from pathlib import Path
from typing import Any

from tests.conftest import OpenGateway, peer

from wicket_mcp.model import LOCAL, Silent
from wicket_mcp.request import tool_call
from wicket_mcp.schema.signature import signature
from wicket_mcp.scripting import Script

NUMBERS = {"type": "array", "items": {"type": "integer"}}
ERROR = {"type": "string"}


def declare(name: str, **fields: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": fields, "required": ["result"]}
    return {"name": name, "inputSchema": {"type": "object"}, "outputSchema": schema}


async def test_a_wrapped_result_is_unwrapped_where_its_schema_says_so(
    open_gateway: OpenGateway, tmp_path: Path
) -> None:
    answer = {"content": [{"type": "text", "text": "[1, 2]"}], "structuredContent": {"result": [1, 2]}}
    tools = [declare("wrapped", result=NUMBERS), declare("own", result=NUMBERS, error=ERROR)]
    file = tmp_path / "listing.json"
    file.write_text(json.dumps({"tools": tools, "result": answer}))
    async with open_gateway({"x": peer("Mutates", env={"LISTING": str(file)})}) as gateway:
        wrapped, own = await gateway.tools()
        assert signature(wrapped).endswith("-> integer[]")
        assert "result" in signature(own)
        for code, language in (
            ("[await x.wrapped(), await x.own()]", "python"),
            ("return [await x.wrapped(), await x.own()]", "javascript"),
            ("return {x.wrapped{}:await(), x.own{}:await()}", "lua"),
        ):
            outcome = await gateway.verbs.run(Script(code, language), Silent(LOCAL))
            assert outcome.value == [[1, 2], {"result": [1, 2]}], (language, outcome)


async def test_a_stored_result_has_the_same_shape(open_gateway: OpenGateway, tmp_path: Path) -> None:
    answer = {"content": [{"type": "text", "text": "[1, 2]"}], "structuredContent": {"result": [1, 2]}}
    tools = [declare("wrapped", result=NUMBERS), declare("own", result=NUMBERS, error=ERROR)]
    file = tmp_path / "listing.json"
    file.write_text(json.dumps({"tools": tools, "result": answer}))
    servers = {"x": peer("Mutates", env={"LISTING": str(file)})}
    async with open_gateway(servers, results={"large": 1}) as gateway:
        for name, value, path in (("wrapped", [1, 2], "[0]"), ("own", {"result": [1, 2]}, "result[0]")):
            body = (await gateway.verbs.call(tool_call(f"x.{name}", {}, Silent(LOCAL)))).body
            assert "wicket/asDeclared" not in body
            handle = body["_meta"]["wicket/result"]["id"]
            assert await gateway.verbs.value(handle, LOCAL) == value
            assert await gateway.verbs.value(handle, LOCAL, path) == 1
            outcome = await gateway.verbs.run(
                Script(f"return await results.get('{handle}')", "javascript"), Silent(LOCAL)
            )
            assert outcome.value == value
