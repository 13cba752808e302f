"""Traces: one from a client through the gateway to a server, named by the conventions, seen by a collector."""

from contextlib import AsyncExitStack
from typing import Any

import pytest
from tests.conftest import OpenGateway, peer
from tests.gateway.serving import META, raw_client, serve_http
from tests.gateway.test_http import legacy_session

pytest.importorskip("opentelemetry.proto", reason="the protocol's own classes are not installed")
from tests.peers.counting_servers import CountingServer
from tests.peers.otlp_receiver import Received, attributes, collector
from tests.surface.loaded import modules_of_a_served_gateway
from tests.telemetry.conventions import ATTRIBUTES, BOUNDS, METRICS, find_faults

from wicket_mcp.codec import decode
from wicket_mcp.errors import Denied
from wicket_mcp.telemetry.durations import BUCKETS
from wicket_mcp.telemetry.trace import NAMES

SERVER, CLIENT = 2, 3
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
ERROR = 2


async def trace(
    open_gateway: OpenGateway, *calls: tuple[str, dict[str, Any]], dialect: str = "native", **options: Any
) -> Received:
    """What a collector gets of these requests over HTTP, with a parent in their `_meta`."""
    with collector() as received:
        settings = {"endpoint": received.address, **options}
        async with open_gateway({"echo": peer("Echo")}, trace=settings) as gateway:
            async with serve_http(gateway, dialect) as address, raw_client(address) as client:
                for method, params in calls:
                    name = {"Mcp-Name": params["name"]} if "name" in params else {}
                    routing = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method, **name}
                    meta = {**META, "traceparent": f"00-{TRACE}-{PARENT}-01"}
                    message = {"jsonrpc": "2.0", "id": 7, "method": method, "params": {**params, "_meta": meta}}
                    await client.post(message, routing)
        return received


def call(name: str, **arguments: Any) -> tuple[str, dict[str, Any]]:
    return "tools/call", {"name": "call_tool", "arguments": {"name": name, "arguments": arguments}}


async def test_one_trace_leads_from_the_client_to_the_server(open_gateway: OpenGateway) -> None:
    received = await trace(open_gateway, call("echo.echo", message="hello"), ("tools/list", {}))
    outer, inner = sorted(received.named("tools/call echo"), key=lambda span: span.kind)
    assert (outer.kind, inner.kind) == (SERVER, CLIENT)
    assert outer.trace_id.hex() == inner.trace_id.hex() == TRACE
    assert outer.parent_span_id.hex() == PARENT
    assert inner.parent_span_id == outer.span_id
    seen = attributes(outer)
    assert seen["mcp.method.name"] == "tools/call"
    assert seen["gen_ai.tool.name"] == "echo"
    assert seen["gen_ai.operation.name"] == "execute_tool"
    assert seen["mcp.protocol.version"] == "2026-07-28"
    assert (seen["jsonrpc.request.id"], seen["network.transport"]) == ("7", "tcp")
    assert attributes(inner)["network.transport"] == "pipe"
    assert received.named("tools/list")
    everything = {name for span in received.spans for name in attributes(span)}
    assert everything <= NAMES
    assert not {"gen_ai.tool.call.arguments", "gen_ai.tool.call.result"} & everything


@pytest.mark.parametrize("content", [False, True])
async def test_every_span_and_metric_is_as_the_conventions_say(open_gateway: OpenGateway, content: bool) -> None:
    source = "return echo.echo({message = 'one'})"
    script = {"name": "run_script", "arguments": {"language": "lua", "code": source}}
    with collector() as received:
        settings = {"endpoint": received.address, "content": content}
        async with CountingServer() as remote, AsyncExitStack() as stack:
            servers = {"echo": peer("Echo"), "far": {"url": remote.url}}
            gateway = await stack.enter_async_context(open_gateway(servers, trace=settings))
            client = await stack.enter_async_context(raw_client(await stack.enter_async_context(serve_http(gateway))))
            session = await legacy_session(client)
            calls = [call("echo.echo", message="x"), call("far.echo", message="x"), call("echo.fails")]
            calls += [call("echo.refuses"), call("echo.nothing"), ("tools/call", script), ("tools/list", {})]
            calls += [("resources/read", {"uri": "mcp://echo/memo://one"}), ("prompts/get", {"name": "none"})]
            calls += [("ping", {}), ("no/such", {}), ("resources/list", {}), ("prompts/list", {})]
            for number, (method, params) in enumerate(calls):
                message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
                await client.post(message, session)
    assert {span.kind for span in received.spans} == {SERVER, CLIENT}
    for span in received.spans:
        faults = find_faults(span.kind, span.name, attributes(span), content=content)
        assert faults == [], (span.name, attributes(span))
    seen = {name for span in received.spans for name in attributes(span)}
    opt_in = {name for name, known in ATTRIBUTES.items() if known.opt_in}
    assert seen >= set(ATTRIBUTES) - (set() if content else opt_in)
    assert received.metrics.keys() == METRICS.keys()
    for name, metric in received.metrics.items():
        assert metric.unit == "s"
        for point in metric.histogram.data_points:
            assert tuple(point.explicit_bounds) == BOUNDS
            assert {label.key for label in point.attributes} <= METRICS[name]


async def test_failures_are_errors_where_the_conventions_say_so(open_gateway: OpenGateway) -> None:
    received = await trace(open_gateway, call("echo.fails"), call("echo.refuses"))
    for span in received.named("tools/call fails"):
        assert attributes(span)["error.type"] == "tool_error"
        assert span.status.code == ERROR
    (client,) = [span for span in received.named("tools/call refuses") if span.kind == CLIENT]
    assert client.status.code == ERROR
    assert attributes(client)["rpc.response.status_code"] == attributes(client)["error.type"]


@pytest.mark.parametrize(("code", "server"), [(-32603, ERROR), (-32000, ERROR), (-32099, ERROR), (-32602, 0), (7, 0)])
async def test_which_codes_are_errors_of_ours_and_that_all_are_errors_of_a_server(
    open_gateway: OpenGateway, code: int, server: int
) -> None:
    refused = ("tools/call", {"name": "echo__refuses", "arguments": {"code": code}})
    received = await trace(open_gateway, refused, dialect="flat")
    spans = {span.kind: span for span in received.named("tools/call refuses")}
    assert (spans[SERVER].status.code, spans[CLIENT].status.code) == (server, ERROR)
    for span in spans.values():
        seen = attributes(span)
        assert seen["rpc.response.status_code"] == seen["error.type"] == str(code)


async def test_a_cancelled_call_is_no_success_and_no_error_of_ours(open_gateway: OpenGateway) -> None:
    with collector() as received:
        async with open_gateway({"echo": peer("Echo")}, trace={"endpoint": received.address}) as gateway:
            async with serve_http(gateway) as address, raw_client(address) as client:
                slow = gateway.tasks.start(
                    client.modern("tools/call", {"name": "call_tool", "arguments": {"name": "echo.slow"}}),
                    "slow",
                    awaited=True,
                )
                while not gateway.pool.calls:
                    await gateway.call("echo.pid")
                slow.cancel()  # a modern client cancels by hanging up
                while gateway.pool.calls:
                    await gateway.call("echo.pid")
    spans = {span.kind: span for span in received.named("tools/call slow")}
    assert {kind: attributes(span)["error.type"] for kind, span in spans.items()} == dict.fromkeys(
        (SERVER, CLIENT), "cancelled"
    )
    assert (spans[SERVER].status.code, spans[CLIENT].status.code) == (0, ERROR)


async def test_content_is_part_of_spans_only_when_asked_for(open_gateway: OpenGateway) -> None:
    received = await trace(open_gateway, call("echo.echo", message="hello"), content=True)
    (client,) = [span for span in received.spans if span.kind == CLIENT]
    assert "hello" in attributes(client)["gen_ai.tool.call.arguments"]
    assert "hello" in attributes(client)["gen_ai.tool.call.result"]


async def test_no_secret_is_in_the_content_of_spans(open_gateway: OpenGateway, monkeypatch: pytest.MonkeyPatch) -> None:
    key = "-----BEGIN KEY-----\ncanary-line-one\ncanary-line-two"
    monkeypatch.setenv("CANARY", key)
    with collector() as received:
        servers = {"echo": peer("Echo", env={"KEY": "${CANARY}"})}
        settings = {"endpoint": received.address, "content": True}
        async with open_gateway(servers, trace=settings) as gateway:
            await gateway.call("echo.echo", {"message": f"hello {key}"})
    (span,) = [span for span in received.spans if "gen_ai.tool.call.arguments" in attributes(span)]
    content = [attributes(span)[f"gen_ai.tool.call.{part}"] for part in ("arguments", "result")]
    assert all("hello ***" in part for part in content)
    assert not any("canary" in str(attributes(span)) for span in received.spans)


async def test_a_gateway_is_named_as_the_environment_says(
    open_gateway: OpenGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    received = await trace(open_gateway, call("echo.pid"))
    assert attributes(received.senders[0])["service.name"] == "wicket"
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=at%20home,service.name=other")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "gate")
    received = await trace(open_gateway, call("echo.pid"))
    assert attributes(received.senders[0]).items() >= {("service.name", "gate"), ("deployment.environment", "at home")}


async def test_durations_are_histograms_with_the_buckets_of_the_conventions(open_gateway: OpenGateway) -> None:
    received = await trace(open_gateway, call("echo.pid"), call("echo.fails"), call("echo.refuses"))
    kinds: dict[str, dict[str, int]] = {}
    for name in ("mcp.server.operation.duration", "mcp.client.operation.duration"):
        points = [point for point in received.metrics[name].histogram.data_points if _labels(point)[0] == "tools/call"]
        kinds[name] = {_labels(point)[1]: point.count for point in points}
        assert all(tuple(point.explicit_bounds) == BUCKETS for point in points)
        assert received.metrics[name].unit == "s"
    # A client is told of a server's refusal in a result; the server refused with a code.
    assert kinds["mcp.server.operation.duration"] == {"": 1, "tool_error": 2}
    assert kinds["mcp.client.operation.duration"] == {"": 1, "tool_error": 1, "-32050": 1}
    asked = received.metrics["mcp.client.operation.duration"].histogram.data_points
    assert "tools/list" in {_labels(point)[0] for point in asked}  # our own requests count too


def _labels(point: Any) -> tuple[str, str]:
    labels = {label.key: label.value.string_value for label in point.attributes}
    return labels["mcp.method.name"], labels.get("error.type", "")


async def test_the_context_of_an_http_request_is_a_link_and_its_peer_is_named(open_gateway: OpenGateway) -> None:
    elsewhere = "4bf92f3577b34da6a3ce929d0e0e4736"
    with collector() as received:
        settings = {"endpoint": received.address}
        async with open_gateway({"echo": peer("Echo")}, trace=settings) as gateway, serve_http(gateway) as address:
            async with raw_client(address) as client:
                routing = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/list"}
                meta = {**META, "traceparent": f"00-{TRACE}-{PARENT}-01", "tracestate": "vendor=1"}
                message = {"jsonrpc": "2.0", "id": 7, "method": "tools/list", "params": {"_meta": meta}}
                await client.post(message, {**routing, "traceparent": f"00-{elsewhere}-{PARENT}-01"})
    (span,) = received.named("tools/list")
    assert (span.trace_id.hex(), span.trace_state) == (TRACE, "vendor=1")
    assert [(link.trace_id.hex(), link.span_id.hex()) for link in span.links] == [(elsewhere, PARENT)]
    seen = attributes(span)
    assert seen["client.address"] == "127.0.0.1"
    assert seen["client.port"] > 0
    assert (seen["network.protocol.name"], seen["network.protocol.version"]) == ("http", "1.1")


async def test_the_spans_and_durations_of_a_session_of_the_handshake_era(open_gateway: OpenGateway) -> None:
    with collector() as received:
        settings = {"endpoint": received.address}
        async with open_gateway({"echo": peer("Echo")}, trace=settings) as gateway, serve_http(gateway) as address:
            async with raw_client(address) as client:
                session = await legacy_session(client)
                given = {"name": "call_tool", "arguments": {"name": "echo.echo", "arguments": {"message": "hello"}}}
                await client.post({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": given}, session)
    spans = {span.kind: attributes(span) for span in received.named("tools/call echo")}
    assert spans[SERVER]["mcp.protocol.version"] == "2025-06-18"
    assert spans[CLIENT]["mcp.protocol.version"] == "2025-11-25"
    assert spans[SERVER]["mcp.session.id"]
    for name in ("mcp.server.session.duration", "mcp.client.session.duration"):
        (point,) = received.metrics[name].histogram.data_points
        assert (point.count, sum(point.bucket_counts), tuple(point.explicit_bounds)) == (1, 1, BUCKETS)
        assert point.min == point.max == point.sum > 0


async def test_the_span_of_a_request_to_a_server_has_its_id_and_session_there(open_gateway: OpenGateway) -> None:
    with collector() as received:
        async with CountingServer() as remote:
            servers = {"far": {"url": remote.url}}
            async with open_gateway(servers, trace={"endpoint": received.address}) as gateway:
                await gateway.call("far.echo", {"message": "hello"})
            (sent,) = [request for request in remote.received if request.rpc_method == "tools/call"]
    (span,) = received.named("tools/call echo")
    seen = attributes(span)
    assert seen["jsonrpc.request.id"] == str(sent.body["id"])
    assert seen["mcp.session.id"] == sent.headers["mcp-session-id"]


async def test_servers_get_the_whole_context_of_a_script_too(open_gateway: OpenGateway) -> None:
    context = {"traceparent": f"00-{TRACE}-{PARENT}-01", "tracestate": "vendor=1", "baggage": "user=ann"}
    script = {"language": "lua", "code": "return far.echo({message = 'one'})"}
    with collector() as received:
        async with CountingServer() as remote, AsyncExitStack() as stack:
            servers = {"far": {"url": remote.url}}
            gateway = await stack.enter_async_context(open_gateway(servers, trace={"endpoint": received.address}))
            client = await stack.enter_async_context(raw_client(await stack.enter_async_context(serve_http(gateway))))
            params = {"name": "run_script", "arguments": script, "_meta": context}
            message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
            await client.post(message, await legacy_session(client))
            (sent,) = [request for request in remote.received if request.rpc_method == "tools/call"]
    (span,) = received.named("tools/call echo")
    parent = f"00-{TRACE}-{span.span_id.hex()}-01"
    assert sent.body["params"]["_meta"].items() >= {**context, "traceparent": parent}.items()


async def test_servers_get_the_context_of_a_trace_that_is_not_kept(open_gateway: OpenGateway) -> None:
    context = {"traceparent": f"00-{TRACE}-{PARENT}-00", "tracestate": "vendor=1", "baggage": "user=ann"}
    with collector() as received:
        async with CountingServer() as remote, AsyncExitStack() as stack:
            servers = {"far": {"url": remote.url}}
            gateway = await stack.enter_async_context(open_gateway(servers, trace={"endpoint": received.address}))
            client = await stack.enter_async_context(raw_client(await stack.enter_async_context(serve_http(gateway))))
            arguments = {"name": "far.echo", "arguments": {"message": "hello"}}
            params = {"name": "call_tool", "arguments": arguments, "_meta": context}
            message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
            await client.post(message, await legacy_session(client))
            (sent,) = [request for request in remote.received if request.rpc_method == "tools/call"]
    assert received.named("tools/call echo") == []
    assert sent.body["params"]["_meta"].items() >= context.items()


async def test_a_parent_that_is_not_kept_has_no_spans_and_one_that_is_malformed_is_nobodys(
    open_gateway: OpenGateway,
) -> None:
    with collector() as received:
        settings = {"endpoint": received.address}
        async with open_gateway({"echo": peer("Echo")}, trace=settings) as gateway, serve_http(gateway) as address:
            async with raw_client(address) as client:
                for parent in (f"00-{TRACE}-{PARENT}-00", f"ff-{TRACE}-{PARENT}-01", f"00-{'0' * 32}-{PARENT}-01"):
                    routing = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/list"}
                    params = {"_meta": {**META, "traceparent": parent}}
                    await client.post({"jsonrpc": "2.0", "id": 7, "method": "tools/list", "params": params}, routing)
    spans = received.named("tools/list")
    assert len(spans) == 2
    assert not {span.trace_id.hex() for span in spans} & {TRACE, "0" * 32}
    assert {span.parent_span_id for span in spans} == {b""}


async def test_a_collector_that_is_away_costs_no_call(
    open_gateway: OpenGateway, caplog: pytest.LogCaptureFixture
) -> None:
    with collector() as received:
        address = received.address
    async with open_gateway({"echo": peer("Echo")}, trace={"endpoint": address}) as gateway:
        assert (await gateway.call("echo.echo", {"message": "hello"}))["content"][0]["text"] == "hello"
    assert "could not be sent" in caplog.text


async def test_the_calls_of_a_script_are_children_of_its_span(open_gateway: OpenGateway) -> None:
    source = "echo.echo({message = 'one'}) echo.echo({message = 'two'}) return 1"
    given = {"name": "run_script", "arguments": {"language": "lua", "code": source}}
    received = await trace(open_gateway, ("tools/call", given))
    (script,) = received.named("tools/call run_script")
    children = received.named("tools/call echo")
    assert len(children) == 2
    assert {child.parent_span_id for child in children} == {script.span_id}


async def test_a_mistake_of_the_client_is_no_error_of_ours(open_gateway: OpenGateway) -> None:
    received = await trace(open_gateway, ("no/such", {}))
    (span,) = [span for span in received.spans if span.kind == SERVER]
    assert attributes(span)["rpc.response.status_code"] == "-32601"
    assert span.status.code == 0


async def test_a_share_of_the_traces_is_kept(open_gateway: OpenGateway) -> None:
    with collector() as received:
        settings = {"endpoint": received.address, "percent": 0}
        async with open_gateway({"echo": peer("Echo")}, trace=settings) as gateway:
            await gateway.call("echo.pid")
        assert received.spans == []


async def test_the_audit_goes_to_a_collector_as_log_records(open_gateway: OpenGateway) -> None:
    with collector() as received:
        policy = [{"action": "deny", "tool": "pid", "name": "no numbers"}]
        options: dict[str, Any] = {"audit": {"file": received.address}, "policy": policy}
        async with open_gateway({"echo": peer("Echo")}, **options) as gateway:
            await gateway.call("echo.echo", {"message": "hello"})
            with pytest.raises(Denied):
                await gateway.call("echo.pid")
            gateway.audit.act("ann\nforged", "revoke key", "ci")
            assert gateway.lost_records == 0
    calls = {attributes(entry).get("gen_ai.tool.name", ""): entry for entry in received.logs}
    assert {entry.event_name for entry in received.logs} == {"wicket.audit"}
    assert attributes(calls["echo"]).items() >= {("wicket.outcome", "ok"), ("wicket.server", "echo")}
    assert (calls["echo"].severity_text, calls["pid"].severity_text) == ("INFO", "WARN")
    assert decode(calls["echo"].body.string_value.encode())["steps_ms"]["server"] > 0
    assert decode(calls["pid"].body.string_value.encode())["rule"] == "no numbers: deny"
    act = calls[""]
    assert (attributes(act)["wicket.act"], "\n" in act.body.string_value) == ("revoke key", False)
    assert act.time_unix_nano > 1e18


def test_nothing_of_it_is_loaded_where_nothing_is_exported() -> None:
    loaded = modules_of_a_served_gateway()[1]
    assert not {name for name in loaded if name.startswith("opentelemetry")}
    assert "wicket_mcp.telemetry.metrics" in loaded
    assert loaded.isdisjoint(f"wicket_mcp.telemetry.{name}" for name in ("trace", "otlp", "spans"))
