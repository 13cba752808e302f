"""The table of the OpenTelemetry conventions for MCP (`gen-ai/mcp`, status Development): names, types and their places.

Written down from the conventions' pages, not from our code: the tests compare what a collector receives with it.
"""

from typing import Any, NamedTuple

SERVER, CLIENT = 2, 3
BOTH = frozenset({SERVER, CLIENT})


class Attribute(NamedTuple):
    """One attribute of spans."""

    kind: type
    spans: frozenset[int]
    required: bool = False
    methods: tuple[str, ...] = ()
    """The methods to whose spans it belongs; empty for all."""
    opt_in: bool = False


ATTRIBUTES = {
    "mcp.method.name": Attribute(str, BOTH, required=True),
    "mcp.protocol.version": Attribute(str, BOTH),
    "mcp.session.id": Attribute(str, BOTH),
    "mcp.resource.uri": Attribute(
        str, BOTH, methods=("resources/read", "resources/subscribe", "resources/unsubscribe")
    ),
    "jsonrpc.request.id": Attribute(str, BOTH, required=True),
    "rpc.response.status_code": Attribute(str, BOTH),
    "error.type": Attribute(str, BOTH),
    "gen_ai.tool.name": Attribute(str, BOTH, methods=("tools/call",)),
    "gen_ai.prompt.name": Attribute(str, BOTH, methods=("prompts/get",)),
    "gen_ai.operation.name": Attribute(str, BOTH, methods=("tools/call",)),
    "gen_ai.tool.call.arguments": Attribute(str, BOTH, methods=("tools/call",), opt_in=True),
    "gen_ai.tool.call.result": Attribute(str, BOTH, methods=("tools/call",), opt_in=True),
    "network.transport": Attribute(str, BOTH),
    "network.protocol.name": Attribute(str, BOTH),
    "network.protocol.version": Attribute(str, BOTH),
    "server.address": Attribute(str, frozenset({CLIENT})),
    "server.port": Attribute(int, frozenset({CLIENT})),
    "client.address": Attribute(str, frozenset({SERVER})),
    "client.port": Attribute(int, frozenset({SERVER})),
}
TRANSPORTS = frozenset({"pipe", "tcp", "quic", "udp", "unix"})
METRICS = {
    "mcp.server.operation.duration": frozenset({"mcp.method.name", "error.type"}),
    "mcp.client.operation.duration": frozenset({"mcp.method.name", "error.type"}),
    "mcp.server.session.duration": frozenset({"error.type"}),
    "mcp.client.session.duration": frozenset({"error.type"}),
}
"""Histograms in seconds, with the attributes that we give of those they may have."""
BOUNDS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)


def title_of(values: dict[str, Any]) -> str:
    """What a span with these attributes is called."""
    target = values.get("gen_ai.tool.name") or values.get("gen_ai.prompt.name")
    return f"{values['mcp.method.name']} {target}" if target else str(values["mcp.method.name"])


def find_faults(kind: int, name: str, values: dict[str, Any], *, content: bool = False) -> list[str]:
    """What is wrong with a span."""
    faults = [f"{key} is missing" for key, known in ATTRIBUTES.items() if known.required and key not in values]
    for key, value in values.items():
        known = ATTRIBUTES.get(key)
        if known is None:
            faults.append(f"{key} is not in the conventions")
        elif not isinstance(value, known.kind) or value == "":
            faults.append(f"{key} is {value!r}")
        elif kind not in known.spans:
            faults.append(f"{key} does not belong to this kind")
        elif known.methods and values["mcp.method.name"] not in known.methods:
            faults.append(f"{key} does not belong to {values['mcp.method.name']}")
        elif known.opt_in and not content:
            faults.append(f"{key} was not asked for")
    if name != title_of(values):
        faults.append(f"it is called {name}, not {title_of(values)}")
    if values.get("network.transport", "tcp") not in TRANSPORTS:
        faults.append(f"no such transport: {values['network.transport']}")
    return faults
