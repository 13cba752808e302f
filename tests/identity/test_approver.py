"""The approver's passphrase: who knows it may approve, wherever it is asked for."""

import asyncio

import pytest

from tests.conftest import OpenGateway, peer
from tests.trust.test_rules import Person, call, yes
from wicket_mcp.errors import BadArguments, Denied
from wicket_mcp.identity.approver import Approver

ASK = [{"action": "ask"}]
WORDS = "correct horse battery"


async def test_only_the_passphrase_passes_and_the_state_has_no_trace_of_it(open_gateway: OpenGateway) -> None:
    """W5: whoever runs as the user could approve."""
    async with open_gateway({}) as gateway:
        approver = Approver(gateway.store)
        await approver.check("anything")
        with pytest.raises(BadArguments, match="at least 8 characters"):
            await approver.change("short")
        assert not await approver.is_set()
        await approver.change(WORDS)
        assert await Approver(gateway.store).is_set()
        for guess in ("", "anything", WORDS.upper(), f"{WORDS} "):
            with pytest.raises(Denied, match="not the approver's passphrase"):
                await approver.check(guess)
        await asyncio.gather(approver.check(WORDS), Approver(gateway.store).check(WORDS))
        first = await gateway.store.load_note("approver's passphrase")
        await approver.change(WORDS)
        assert await gateway.store.load_note("approver's passphrase") != first, "each has a salt of its own"
    state = b"".join(path.read_bytes() for path in gateway.config.state_path.rglob("*") if path.is_file())
    assert WORDS.encode() not in state


async def test_with_a_passphrase_the_form_of_a_client_is_no_approval(open_gateway: OpenGateway) -> None:
    """W5: a program with a client of its own answers any form."""
    async with open_gateway({"e": peer("Echo")}, policy=ASK) as gateway:
        await Approver(gateway.store).change(WORDS)
        person = Person(yes)
        with pytest.raises(Denied, match="Ask somebody else than its caller"):
            await call(gateway, person, "e.echo", message="hi")
        await Approver(gateway.store).change("")
        assert (await call(gateway, person, "e.echo", message="hi"))["content"]
        assert len(person.heard) == 1
