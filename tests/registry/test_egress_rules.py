"""Addresses that come from outside lead to public servers and nowhere else."""

import socket
from collections.abc import Sequence
from ipaddress import ip_address

import pytest

from tests.peers.http_faults import HttpPeer, Redirects
from wicket_mcp.errors import ConfigError, Denied, UpstreamError
from wicket_mcp.upstream.egress import Endpoint, HttpClient
from wicket_mcp.upstream.egress_rules import EgressRules, ResolvedAddress

# Every way to write an address of this machine or its network that a URL can carry.
_FORBIDDEN = """
127.0.0.1 127.0.0.2 127.255.255.254 127.1 127.0.1 2130706433 0x7f000001 0x7f.0.0.1 0x7f.1 017700000001 0177.0.0.1
0177.1 0 0.0.0.0 0x0 00000000 10.0.0.1 10.255.255.255 167772161 012.0.0.1 172.16.0.1 172.31.255.255 192.168.0.1
192.168.1.1 0xc0a80101 3232235777 169.254.169.254 0xa9fea9fe 2852039166 0251.0376.0251.0376 169.254.170.2
100.64.0.1 100.100.100.200 100.127.255.255 192.0.0.1 192.0.0.192 192.0.2.1 198.18.0.1 198.19.255.255 198.51.100.7
203.0.113.9 224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255 168.63.129.16 0.1.2.3
[::1] [::] [0:0:0:0:0:0:0:1] [::ffff:127.0.0.1] [::ffff:7f00:1] [::ffff:10.0.0.1] [::ffff:a9fe:a9fe]
[::ffff:0:127.0.0.1] [::127.0.0.1] [::7f00:1] [::a00:1] [64:ff9b::127.0.0.1] [64:ff9b::a9fe:a9fe] [64:ff9b::10.0.0.1]
[64:ff9b:1::7f00:1] [2002:7f00:1::] [2002:a9fe:a9fe::] [2002:c0a8:101::1] [2001:0:7f00:1::]
[2001:0:4136:e378:8000:63bf:80ff:fffe] [fe80::1] [fe80::5efe:127.0.0.1] [2001:db8::5efe:10.0.0.1] [febf::1] [fec0::1]
[fc00::1] [fd00::1] [fd00:ec2::254] [ff02::1] [2001:db8::1] [100::1] [::ffff:192.168.1.1]
[2600::5efe:10.0.0.1] [2600::200:5efe:127.0.0.1] [2a00:1450:4001:800:0:5efe:a9fe:a9fe]
"""
FORBIDDEN_HOSTS = _FORBIDDEN.split()


def test_the_corpus_is_as_large_as_promised() -> None:
    assert len(set(FORBIDDEN_HOSTS)) >= 60


@pytest.mark.parametrize("host", FORBIDDEN_HOSTS)
@pytest.mark.promise("T10", "No spelling of a private address passes.")
def test_t10_no_spelling_of_a_private_address_passes(host: str) -> None:
    with pytest.raises(Denied, match="not a public address"):
        EgressRules().check_url(f"https://{host}/mcp")


@pytest.mark.parametrize("host", FORBIDDEN_HOSTS)
async def test_no_name_that_resolves_to_one_passes_either(host: str) -> None:
    try:
        text = str(ip_address(host.strip("[]")))
    except ValueError:
        text = socket.inet_ntoa(socket.inet_aton(host))
    family = socket.AF_INET6 if ":" in text else socket.AF_INET

    async def lookup(name: str, port: int) -> list[ResolvedAddress]:
        return [(socket.AF_INET, "93.184.215.14"), (family, text)]

    with pytest.raises(Denied, match="not a public address"):
        await EgressRules(lookup=lookup).resolve("innocent.example", 443)


@pytest.mark.parametrize(
    "host",
    [
        *("93.184.215.14", "8.8.8.8", "[2606:4700:4700::1111]", "[64:ff9b::808:808]", "1.1.1.1"),
        *("[2600::5efe:8.8.8.8]", "8.8.8.8:443", "[2606:4700:4700::1111]:443", "8.8.8.8:8443", "8.8.8.8:1024"),
    ],
)
def test_a_public_address_passes(host: str) -> None:
    EgressRules().check_url(f"https://{host}/mcp")


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://example.com/mcp", "not encrypted"),
        ("ftp://example.com/", "not a web address"),
        ("file:///etc/passwd", "not a web address"),
        ("gopher://127.0.0.1:6379/_", "not a web address"),
        ("https://", "not a web address"),
        ("https:///path", "not a web address"),
        ("//example.com/", "not a web address"),
        ("https://user:pass@example.com/", "user name"),
        ("https://example.com@127.0.0.1/", "user name"),
        ("https://example.com:22/", "port 22"),
        ("https://example.com:25/", "port 25"),
        ("https://example.com:1023/", "port 1023"),
        ("https://example.com:0/", "port 0"),
        ("https://example.com:99999/", "not a web address"),
        ("https://exa\tmple.com/", "characters"),
        ("https://example.com\\@127.0.0.1/", "user name|characters"),
        ("https://127。0。0。1/", "characters|not a public"),
        ("https://[::1/", "not a web address"),
    ],
)
def test_an_address_with_a_trick_in_it_is_refused(url: str, why: str) -> None:
    with pytest.raises(Denied, match=why):
        EgressRules().check_url(url)


def test_what_the_configuration_allows_passes_and_nothing_beside_it() -> None:
    rules = EgressRules(["127.0.0.1", "10.1.0.0/16", "intranet.example"])
    for url in (
        "http://127.0.0.1:9/mcp",
        "https://10.1.2.3/",
        "http://intranet.example:22/",
        "https://[::ffff:127.0.0.1]/",
    ):
        rules.check_url(url)
    for url in ("http://127.0.0.2/", "https://10.2.0.1/", "http://other.example/"):
        with pytest.raises(Denied):
            rules.check_url(url)


@pytest.mark.parametrize("entry", ["10.0.0.0/99", "", "a/b"])
def test_an_entry_that_allows_nothing_is_a_configuration_error(entry: str) -> None:
    with pytest.raises(ConfigError, match="allowed_addresses"):
        EgressRules([entry])


class Rebinds:
    """A name that is public when it is looked at first, and this machine afterwards."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.asked = 0

    async def __call__(self, host: str, port: int) -> Sequence[ResolvedAddress]:
        self.asked += 1
        return [(socket.AF_INET, self.answers.pop(0) if len(self.answers) > 1 else self.answers[0])]


async def ask(client: HttpClient, url: str) -> int:
    try:
        return (await client.send("GET", Endpoint.of("guest", url, {}), {})).status
    finally:
        await client.close()


@pytest.mark.promise("T10", "A name that changes its address between check and connection reaches nothing.")
async def test_t10_a_name_that_rebinds_to_this_machine_reaches_nothing() -> None:
    async with HttpPeer() as canary:
        port = canary.origin.rpartition(":")[2]
        lookup = Rebinds("127.0.0.1")
        client = HttpClient(rules=EgressRules(lookup=lookup))
        with pytest.raises(Denied):
            await ask(client, f"https://rebinding.example:{port}/mcp")
        assert lookup.asked == 1
        assert not canary.received


async def test_a_name_is_looked_up_once_and_the_checked_address_is_the_one_connected_to() -> None:
    """Were the name asked again for the connection, the second answer would lead to the canary."""
    async with HttpPeer() as canary:
        port = canary.origin.rpartition(":")[2]
        lookup = Rebinds("127.0.0.3", "127.0.0.1")
        client = HttpClient(rules=EgressRules(["127.0.0.3"], lookup=lookup))
        with pytest.raises(UpstreamError):
            await ask(client, f"https://rebinding.example:{port}/mcp")
        assert lookup.asked == 1
        assert not canary.received


async def test_an_allowed_address_is_really_reached() -> None:
    async with HttpPeer() as server:
        assert await ask(HttpClient(rules=EgressRules(["127.0.0.1"])), server.url) == 202


@pytest.mark.parametrize("status", [301, 302, 307, 308])
@pytest.mark.promise("T10", "A redirect to this machine is not followed.")
async def test_t10_a_redirect_to_this_machine_is_not_followed(status: int) -> None:
    async with HttpPeer() as canary, Redirects(status, canary.url) as server:
        client = HttpClient(rules=EgressRules(["127.0.0.1"]))
        with pytest.raises(UpstreamError, match="redirects"):
            await ask(client, server.url)
        assert not canary.received
