"""Nothing of what a server or a client says is lost because Wicket does not know it: both eras, both directions."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.conftest import OpenGateway
from tests.gateway.extensions_document import shows
from tests.gateway.serving import Raw, raw_client, serve_http
from tests.gateway.test_extensions import ask
from tests.peers.mirror_server import MIRROR

NAMES = st.text("abcxyz-", min_size=1, max_size=6).map(lambda name: f"com.example/{name}")
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**31), 2**31) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", min_size=1, max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)
EXTRAS = st.dictionaries(NAMES, VALUES, max_size=4)


async def ask_legacy(client: Raw, method: str, params: dict[str, Any]) -> Any:
    """The result that a client of the handshake gets, in a session of its own."""
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    _, headers, _ = await client.post({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello})
    message = {"jsonrpc": "2.0", "id": 2, "method": method, "params": params}
    _, _, body = await client.post(message, {"Mcp-Session-Id": headers["Mcp-Session-Id"]})
    return body["result"]


@shows("any", "fields of results, content, tools, `_meta`", clients="both", servers="both")
@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize("speak", [ask_legacy, ask], ids=["legacy client", "modern client"])
async def test_unknown_fields_of_results_content_definitions_and_meta_pass(
    open_gateway: OpenGateway, era: str, speak: Callable[[Raw, str, dict[str, Any]], Awaitable[Any]]
) -> None:
    async with (
        open_gateway({"x": MIRROR(era)}) as gateway,
        serve_http(gateway, "flat") as address,
        raw_client(address) as client,
    ):
        loop = asyncio.get_running_loop()
        (tool,) = (await speak(client, "tools/list", {}))["tools"]
        assert {key: value for key, value in tool.items() if key.startswith("com.example/")} == {
            "com.example/of-tool": {"deep": [1, {"kept": None}]}
        }

        async def pass_through(extras: dict[str, Any], content: dict[str, Any], meta: dict[str, Any]) -> None:
            said = {"extras": extras, "content": content, "meta": meta}
            call = {"name": "x__mirror", "arguments": {"said": json.dumps(said)}, "_meta": meta}
            result = await speak(client, "tools/call", call)
            assert {key: value for key, value in result.items() if key.startswith("com.example/")} == extras
            (item,) = result["content"]
            assert {key: value for key, value in item.items() if key.startswith("com.example/")} == content
            assert {
                key: value for key, value in result.get("_meta", {}).items() if key.startswith("com.example/")
            } == meta
            heard = json.loads(item["text"])
            assert {key: value for key, value in heard.items() if key.startswith("com.example/")} == meta

        @settings(
            max_examples=25,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
        )
        @given(EXTRAS, EXTRAS, EXTRAS)
        def holds(extras: dict[str, Any], content: dict[str, Any], meta: dict[str, Any]) -> None:
            asyncio.run_coroutine_threadsafe(pass_through(extras, content, meta), loop).result(30)

        await asyncio.to_thread(holds)
