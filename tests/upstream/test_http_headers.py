"""Headers: what the protocol wants, and what may be told of an address."""

import pytest
from mcp.shared.inbound import decode_header_value

from wicket_mcp.model import MODERN_VERSION
from wicket_mcp.upstream.egress import Endpoint
from wicket_mcp.upstream.http_headers import header_value, routing, standing


@pytest.mark.parametrize("value", ["plain", "", "né", " edge ", "a\nb", "=?base64?eA==?=", "\x7f", "tab\tbed", "語"])
def test_a_value_survives_the_way_through_a_header(value: str) -> None:
    encoded = header_value(value)
    assert encoded.isascii()
    assert encoded.isprintable()
    assert encoded == encoded.strip()
    assert decode_header_value(encoded) == value


def test_a_modern_request_repeats_its_method_and_name() -> None:
    headers = routing(MODERN_VERSION, "resources/read", {"uri": "file:///ä"})
    assert headers["Mcp-Method"] == "resources/read"
    assert decode_header_value(headers["Mcp-Name"]) == "file:///ä"


def test_a_legacy_request_carries_its_version_only() -> None:
    assert routing("2025-11-25", "tools/call", {"name": "x"}) == {"MCP-Protocol-Version": "2025-11-25"}
    assert routing("2025-11-25", "initialize", {}) == {}


def test_configured_headers_cannot_change_what_the_protocol_owns() -> None:
    headers = standing({"authorization": "Bearer x", "ACCEPT": "text/html", "mcp-session-id": "stolen"})
    assert headers["authorization"] == "Bearer x"
    assert {name.lower() for name in headers} == {
        "authorization",
        "accept",
        "accept-encoding",
        "content-type",
        "user-agent",
    }
    assert headers["Accept"] == "application/json, text/event-stream"


def test_an_address_is_shown_without_its_secrets() -> None:
    url = "https://ann:hunter2hunter2@mcp.example.com:8443/api/sk-1234567890abcdef/mcp?key=s3cr3t-value#top"
    endpoint = Endpoint.of("x", url, {"Authorization": "Bearer tok-en-123"})
    assert endpoint.shown == "https://mcp.example.com:8443/api/…/mcp"
    for secret in ("hunter2hunter2", "sk-1234567890abcdef", "s3cr3t-value", "tok-en-123"):
        assert secret not in endpoint.redact(f"they said {secret}!")
        assert secret not in repr(endpoint)


@pytest.mark.parametrize(
    ("location", "meant"),
    [
        ("/messages?id=1", "https://example.com/messages?id=1"),
        ("messages", "https://example.com/a/messages"),
        ("https://EXAMPLE.com:443/x", "https://EXAMPLE.com:443/x"),
        ("http://example.com/x", None),
        ("https://example.com:444/x", None),
        ("//evil.example/x", None),
        ("https://example.com@evil.example/x", None),
        ("file:///etc/passwd", None),
        ("https://[broken/", None),
    ],
)
def test_an_address_is_followed_only_within_its_origin(location: str, meant: str | None) -> None:
    assert Endpoint.of("x", "https://example.com/a/sse", {}).resolve(location) == meant
