"""Servers whose results, schemas or lists weigh much: `python heavy_server.py Results|Schemas|Many|Quick|Hostile`."""

import sys
from typing import Any, ClassVar

from bad_server import Echo  # pyright: ignore[reportMissingImports, reportUnknownVariableType]

ANYTHING = {"type": "object"}


def doubling(levels: int) -> dict[str, Any]:
    """Each level refers to the next one twice."""
    level = {f"d{number}": {"anyOf": [{"$ref": f"#/$defs/d{number + 1}"}] * 2} for number in range(levels)}
    return {**level, f"d{levels}": {"type": "array", "items": {"type": "integer"}, "maxItems": 5}}


SCHEMAS: dict[str, dict[str, Any]] = {
    "many_properties": {"properties": {f"property{number}": {"type": "integer"} for number in range(10_000)}},
    "many_values": {"properties": {"value": {"enum": [f"value {number}" for number in range(20_000)]}}},
    "many_ways": {
        "properties": {
            "value": {"anyOf": [{"properties": {f"p{n}": {"pattern": f"^(a+)+{n}$"}}} for n in range(2_000)]}
        }
    },
    "doubling": {"properties": {"value": {"$ref": "#/$defs/d0"}}, "$defs": doubling(30)},
    "circles": {
        "properties": {"value": {"$ref": "#/$defs/a"}},
        "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/b"}, {"type": "array"}]}, "b": {"$ref": "#/$defs/a"}},
    },
    "unique": {"properties": {"value": {"type": "array", "uniqueItems": True}}},
    "backtracking": {"properties": {"value": {"type": "string", "pattern": "^(a+)+$"}}},
}


class Tools(Echo):  # pyright: ignore[reportUntypedBaseClass]
    """Answers every call of its tools."""

    tools: ClassVar[list[dict[str, Any]]]

    def answer(self, number: Any, method: str, params: dict[str, Any]) -> None:
        if method == "tools/list":
            self.result(number, {"tools": self.tools})
        elif method == "tools/call":
            self.result(number, self.call(params["name"], params.get("arguments", {})))
        else:
            super().answer(number, method, params)

    def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """The result of a call."""
        return {"content": [{"type": "text", "text": "done"}]}


class Results(Tools):
    """As large as they are asked to be."""

    tools: ClassVar = [{"name": name, "inputSchema": ANYTHING} for name in ("text", "blocks", "values", "echo")]

    def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        count = int(arguments.get("count", 0))
        if name == "text":
            return {"content": [{"type": "text", "text": "All work and no play. " * (count // 22)}]}
        if name == "blocks":
            return {"content": [{"type": "text", "text": f"block {number}"} for number in range(count)]}
        if name == "values":
            rows = [{"id": number, "name": f"row {number}", "open": True} for number in range(count)]
            return {"content": [], "structuredContent": {"rows": rows}}
        return super().call(name, arguments)


class Schemas(Tools):
    """Input schemas that are hard to check."""

    tools: ClassVar = [{"name": name, "inputSchema": {"type": "object", **schema}} for name, schema in SCHEMAS.items()]


class Many(Tools):
    """A hundred thousand tools, in less than a message may have."""

    tools: ClassVar = [
        {
            "name": f"tool_{number}",
            "description": f"Thing {number} of {number % 97}.",
            "inputSchema": ANYTHING,
        }
        for number in range(100_000)
    ]


class Quick(Tools):
    """Nothing special, to be started."""

    tools: ClassVar = [{"name": "echo", "inputSchema": ANYTHING}]


class Hostile(Tools):
    """Says what is slow to read: pages, descriptions, lines of its log, and a template that it adds later."""

    tools: ClassVar = [
        {"name": "read_page", "inputSchema": ANYTHING},
        {"name": "send_mail", "inputSchema": ANYTHING},
        {"name": "add_template", "inputSchema": ANYTHING},
        {"name": "marked", "description": "![" * 20_000 + "`a" * 20_000 + "<a>" * 20_000, "inputSchema": ANYTHING},
    ]
    templates: ClassVar[list[dict[str, Any]]] = [{"name": "plain", "uriTemplate": "doc://{x}"}]

    def answer(self, number: Any, method: str, params: dict[str, Any]) -> None:
        if method == "initialize":
            capabilities = {"tools": {}, "resources": {"listChanged": True}}
            info = {"name": "hostile", "version": "1"}
            self.result(number, {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": info})
        elif method == "resources/templates/list":
            self.result(number, {"resourceTemplates": self.templates})
        elif method == "resources/list":
            self.result(number, {"resources": []})
        elif method == "resources/read":
            self.result(number, {"contents": []})
        else:
            super().answer(number, method, params)

    def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        if name == "add_template":
            self.templates.append({"name": "slow", "uriTemplate": f"doc://{{x}}{'a{x}' * 18}{{y}}!"})
            self.send({"jsonrpc": "2.0", "method": "notifications/resources/list_changed"})
        elif name == "read_page":
            sys.stderr.write("a-" * 20_000 + "\n")
            return {"content": [{"type": "text", "text": arguments.get("sign", "") * arguments.get("count", 0)}]}
        return super().call(name, arguments)


if __name__ == "__main__":
    kinds = {"Results": Results, "Schemas": Schemas, "Many": Many, "Quick": Quick, "Hostile": Hostile}
    kinds[sys.argv[1]]().run()
