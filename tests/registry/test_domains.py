"""Proof of ownership, against a real DNS server and a real file server."""

import asyncio
import struct
import sys

import pytest

from tests.peers.dns_server import Names
from tests.registry.conftest import Clock, OpenFacade
from wicket_mcp.errors import BadArguments, ConfigError, UnknownName
from wicket_mcp.model import Principal
from wicket_mcp.registry.dns import LookupFailed, Resolver, txt_records
from wicket_mcp.registry.domains import normalise

ANN = Principal("ann", frozenset({"register"}))
BOB = Principal("bob", frozenset({"register"}))


async def test_txt_records_are_read_over_udp(names: Names) -> None:
    names.zone.records["_wicket.example.com"] = ["one", "zwei ü"]
    assert await txt_records("_wicket.example.com", [Resolver.parse(names.address)]) == ["one", "zwei ü"]
    assert names.zone.asked == ["udp _wicket.example.com"]


async def test_a_long_answer_is_fetched_over_tcp(names: Names) -> None:
    long = [f"{number}:{'x' * 400}" for number in range(20)]
    names.zone.records["_wicket.example.com"] = long
    assert await txt_records("_wicket.example.com", [Resolver.parse(names.address)]) == long
    assert names.zone.asked[-1].startswith("tcp")


async def test_an_alias_is_followed(names: Names) -> None:
    names.zone.aliases["_wicket.example.com"] = "proof.hosting.example"
    names.zone.records["proof.hosting.example"] = ["here"]
    assert await txt_records("_wicket.example.com", [Resolver.parse(names.address)]) == ["here"]


async def test_a_name_that_does_not_exist_has_no_records(names: Names) -> None:
    assert await txt_records("nowhere.example", [Resolver.parse(names.address)]) == []


async def test_a_resolver_that_refuses_gives_way_to_the_next(names: Names) -> None:
    with Names() as second:
        names.zone.refusing = True
        second.zone.records["a.example"] = ["yes"]
        both = [Resolver.parse(names.address), Resolver.parse(second.address)]
        assert await txt_records("a.example", both) == ["yes"]
        with pytest.raises(LookupFailed, match="REFUSED"):
            await txt_records("a.example", both[:1])


class Liar(asyncio.DatagramProtocol):
    """Answers every question with what the test gives it, `{id}` and `{question}` filled in."""

    def __init__(self, *answers: bytes) -> None:
        self.answers = answers

    def connection_made(self, transport: asyncio.DatagramTransport) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        for answer in self.answers:
            filled = answer.replace(b"{id}", data[:2]).replace(b"{question}", data[12:])
            self.transport.sendto(filled, addr)


HEAD = b"{id}\x81\x80" + struct.pack(">HHHH", 1, 1, 0, 0) + b"{question}"
POINTER = b"\xc0\x0c"


def answer(rdata: bytes, length: int | None = None, name: bytes = POINTER) -> bytes:
    return HEAD + name + struct.pack(">HHIH", 16, 1, 60, len(rdata) if length is None else length) + rdata


async def ask_liar(*answers: bytes, timeout: float = 3) -> list[str]:
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(lambda: Liar(*answers), local_addr=("127.0.0.1", 0))
    try:
        port = transport.get_extra_info("sockname")[1]
        return await txt_records("a.example", [Resolver("127.0.0.1", port)], timeout)
    finally:
        transport.close()


async def test_forged_answers_are_passed_over() -> None:
    wrong_id = answer(b"\x04evil").replace(b"{id}", b"\x00\x00")
    wrong_question = answer(b"\x04evil").replace(b"{question}", b"\x01b\x07example\x00\x00\x10\x00\x01")
    query = answer(b"\x04evil").replace(b"{id}\x81", b"{id}\x01")
    assert await ask_liar(b"", b"\x00", wrong_question, query, answer(b"\x04good")) == ["good"]
    assert await ask_liar(wrong_id, answer(b"\x04good")) == ["good"]


async def test_a_record_of_another_name_does_not_count() -> None:
    assert await ask_liar(answer(b"\x04evil", name=b"\x05other\x07example\x00")) == []


@pytest.mark.parametrize(
    "broken",
    [
        answer(b"\x04abcd", length=500),
        HEAD + b"\xc0",
        HEAD + b"\xc0\xff" + b"\x00" * 10,
        HEAD + struct.pack(">H", 0xC000 | (12 + 15)),
        HEAD + b"\x3f" + b"a" * 10,
        HEAD,
    ],
)
async def test_an_answer_that_is_broken_does_not_count_as_one(broken: bytes) -> None:
    with pytest.raises(LookupFailed, match="no resolver answered"):
        await ask_liar(broken, timeout=0.2)


async def test_without_the_extra_the_error_says_how_to_install_it() -> None:
    code = """
import asyncio, sys
sys.modules["dns"] = None
from wicket_mcp.registry import dns
try:
    asyncio.run(dns.txt_records("a.example", []))
except dns.LookupFailed as failed:
    print(failed)
"""
    ended = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE)
    printed, _ = await ended.communicate()
    assert "pip install 'wicket-mcp[registry]'" in printed.decode()


def test_a_resolver_is_an_address() -> None:
    assert Resolver.parse("[::1]:5353") == Resolver("::1", 5353)
    assert Resolver.parse("9.9.9.9") == Resolver("9.9.9.9", 53)
    for wrong in ("dns.example", "", "1.2.3.4:x"):
        with pytest.raises(ConfigError, match="resolver"):
            Resolver.parse(wrong)


async def test_a_domain_is_verified_by_its_txt_record(open_facade: OpenFacade, names: Names) -> None:
    domains = (await open_facade(registry={"resolvers": [names.address]})).domains
    claim = await domains.begin("Example.COM.", ANN)
    assert (claim.domain, claim.state) == ("example.com", "pending")
    names.zone.records["_wicket.example.com"] = ["v=spf1 -all", f"wicket-verify={claim.token}"]
    checked = await domains.check("example.com", ANN)
    assert (checked.state, checked.method) == ("verified", "dns")
    assert (await domains.begin("example.com", ANN)).state == "verified"


async def test_a_token_is_one_persons_and_survives_a_restart(open_facade: OpenFacade, names: Names) -> None:
    options = {"resolvers": [names.address]}
    claim = await (await open_facade(registry=options)).domains.begin("example.com", ANN)
    other = await (await open_facade(registry=options)).domains.begin("example.com", BOB)
    assert claim.token != other.token
    assert (await (await open_facade(registry=options)).domains.begin("example.com", ANN)).token == claim.token
    names.zone.records["_wicket.example.com"] = [f"wicket-verify={claim.token}"]
    domains = (await open_facade(registry=options)).domains
    assert (await domains.check("example.com", BOB)).state == "failed"
    assert (await domains.check("example.com", ANN)).state == "verified"
    assert not await domains.covers(BOB, "example.com")


async def test_a_proof_covers_subdomains_and_never_parents_or_siblings(open_facade: OpenFacade, names: Names) -> None:
    domains = (await open_facade(registry={"resolvers": [names.address]})).domains
    claim = await domains.begin("tools.example.com", ANN)
    names.zone.records["_wicket.tools.example.com"] = [f"wicket-verify={claim.token}"]
    await domains.check("tools.example.com", ANN)
    assert await domains.covers(ANN, "mcp.tools.example.com")
    assert (await domains.check("mcp.tools.example.com", ANN)).state == "verified"
    for other in ("example.com", "com", "othertools.example.com", "www.example.com"):
        assert not await domains.covers(ANN, other)


async def test_what_was_not_found_is_failed_with_a_reason_and_can_be_checked_again(
    open_facade: OpenFacade, names: Names
) -> None:
    domains = (await open_facade(registry={"resolvers": [names.address]})).domains
    claim = await domains.begin("missing.invalid", ANN)
    failed = await domains.check("missing.invalid", ANN)
    assert failed.state == "failed"
    assert "no TXT record at _wicket.missing.invalid" in failed.problem
    names.zone.records["_wicket.missing.invalid"] = [f"wicket-verify={claim.token}"]
    assert (await domains.check("missing.invalid", ANN)).state == "verified"


async def test_a_day_is_what_one_has_to_prove_and_ninety_what_it_lasts(
    open_facade: OpenFacade, names: Names, clock: Clock
) -> None:
    domains = (await open_facade(registry={"resolvers": [names.address]})).domains
    claim = await domains.begin("example.com", ANN)
    names.zone.records["_wicket.example.com"] = [f"wicket-verify={claim.token}"]
    clock.pass_hours(24.1)
    assert (await domains.check("example.com", ANN)).state == "expired"
    fresh = await domains.begin("example.com", ANN)
    assert fresh.token != claim.token
    names.zone.records["_wicket.example.com"] = [f"wicket-verify={fresh.token}"]
    assert (await domains.check("example.com", ANN)).state == "verified"
    clock.pass_hours(89 * 24)
    assert await domains.covers(ANN, "example.com")
    clock.pass_hours(2 * 24)
    assert not await domains.covers(ANN, "example.com")
    assert (await domains.check("example.com", ANN)).state == "expired"


async def test_the_file_is_not_fetched_from_this_machine(open_facade: OpenFacade, names: Names) -> None:
    domains = (await open_facade(registry={"resolvers": [names.address]})).domains
    await domains.begin("localhost.localdomain", ANN)
    checked = await domains.check("localhost.localdomain", ANN)
    assert checked.state == "failed"


async def test_checking_what_was_never_begun_says_how_to_begin(open_facade: OpenFacade, names: Names) -> None:
    with pytest.raises(UnknownName, match="verify_domain"):
        await (await open_facade(registry={"resolvers": [names.address]})).domains.check("example.com", ANN)


@pytest.mark.parametrize(
    "wrong", ["", "com", "ex ample.com", "-a.com", "a..com", "127.0.0.1", "a.com/x", "http://a.com", "x" * 300]
)
def test_what_is_no_domain_is_refused(wrong: str) -> None:
    with pytest.raises(BadArguments, match="not a domain name"):
        normalise(wrong)


def test_an_international_domain_has_one_spelling() -> None:
    assert normalise("Bücher.example") == "xn--bcher-kva.example"
