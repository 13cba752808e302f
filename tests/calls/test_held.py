"""A call of a tool that was held when it was found: what counts is what is accepted when it is made."""

from pathlib import Path

import pytest

from tests.conftest import OpenGateway, peer
from tests.trust.conftest import SEND
from wicket_mcp.codec import encode
from wicket_mcp.errors import BadArguments


async def test_a_tool_that_is_accepted_meanwhile_is_called_as_it_is_accepted(
    open_gateway: OpenGateway, tmp_path: Path
) -> None:
    """The survivor calls/held:37: the arguments were checked against the definition that the caller had found."""
    listing = tmp_path / "listing.json"
    server = peer("Mutates", env={"LISTING": str(listing)}, changed="hold")
    listing.write_bytes(encode({"tools": [SEND]}))
    async with open_gateway({"m": server}) as gateway, open_gateway({"m": server}) as other:
        assert (await gateway.call("m.send", {"to": "ann"}))["content"]
        changed = {**SEND, "inputSchema": {**SEND["inputSchema"], "required": ["to", "text"]}}
        listing.write_bytes(encode({"tools": [changed]}))
        for each in (gateway, other):
            await each.catalogue.renew("m")
        (change,) = other.catalogue.held_entries("m").values()
        await other.catalogue.approve(change, "ann")
        with pytest.raises(BadArguments, match="text"):
            await gateway.call("m.send", {"to": "ann"})
