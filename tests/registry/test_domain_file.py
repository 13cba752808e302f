"""A domain is proved by the file on it: real names, real addresses, real TLS, and the installed command."""

from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.dialects.talking import Talker, talking
from tests.peers.dns_server import Names
from tests.peers.tls import Authority
from tests.peers.website import Website
from tests.registry.command import serving, wicket
from tests.registry.conftest import OpenFacade
from wicket_mcp.model import LOCAL, Principal

ANN = Principal("ann", frozenset({"register"}))
FILE = "/.well-known/mcp-registry-auth"
PRIVATE = "127.0.0.0/8"


@dataclass(frozen=True)
class Served:
    """A gateway that trusts the tests' authority, asks the tests' DNS server, and may reach this machine."""

    origin: str
    key: str
    names: Names
    authority: Authority

    @asynccontextmanager
    async def site(self, domain: str) -> AsyncGenerator[Website]:
        async with Website(self.authority.context(domain)) as site:
            self.names.zone.addresses[domain] = site.address
            yield site

    @asynccontextmanager
    async def talking(self) -> AsyncGenerator[Talker]:
        async with talking(f"{self.origin}/mcp", self.key) as talker:
            yield talker


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder: Path = tmp_path_factory.mktemp("gateway")
    authority = Authority(tmp_path_factory.mktemp("authority"))
    with Names() as names:
        (folder / "wicket.toml").write_text(
            f'state_dir = "state"\n[registry]\nresolvers = ["{names.address}"]\nallowed_addresses = ["{PRIVATE}"]\n'
            "[registry.rates]\nregistration = 0\n"
        )
        key = wicket(folder, "keys", "create", "ann", "-s", "register").strip()
        with serving(folder, SSL_CERT_FILE=str(authority.file)) as origin:
            yield Served(origin, key, names, authority)


async def test_a_domain_is_verified_by_its_file(served: Served) -> None:
    async with served.site("file.example") as site, served.talking() as talker:
        begun = await talker.value("verify_domain", domain="file.example")
        assert begun["file"]["url"] == f"https://file.example{FILE}"
        absent = await talker.value("check_domain_ownership", domain="file.example")
        assert (absent["status"], absent["verified"]) == ("failed", False)
        assert f"https://file.example{FILE} answered HTTP 404" in absent["message"]
        site.pages[FILE] = f"# who owns this\n{begun['file']['content']}\n"
        checked = await talker.value("check_domain_ownership", domain="file.example")
        assert (checked["status"], checked["method"]) == ("verified", "file")
        (_, asked) = site.received
        assert (asked.verb, asked.path, asked.headers["host"]) == ("GET", FILE, "file.example")
        assert not {"authorization", "cookie"} & set(asked.headers)


async def test_what_is_not_the_file_with_the_token_proves_nothing(served: Served) -> None:
    async with (
        served.site("forged.example") as site,
        served.site("elsewhere.example") as elsewhere,
        served.talking() as talker,
    ):
        begun = await talker.value("verify_domain", domain="forged.example")
        elsewhere.pages[FILE] = site.pages["/"] = begun["file"]["content"]
        for page, why in (
            ("wicket-verify=somebody-elses-token", "does not have it either"),
            (f"x{begun['file']['content']}", "does not have it either"),
            (f"https://elsewhere.example{FILE}", "redirects (HTTP 302)"),
            (f"{' ' * 70_000}{begun['file']['content']}", "larger than 65536 bytes"),
        ):
            site.pages[FILE] = page
            checked = await talker.value("check_domain_ownership", domain="forged.example")
            assert checked["status"] == "failed"
            assert why in checked["message"]
        assert not elsewhere.received


async def test_a_certificate_that_nobody_trusts_proves_nothing(
    open_facade: OpenFacade, names: Names, tmp_path: Path
) -> None:
    domains = (await open_facade(registry={"resolvers": [names.address], "allowed_addresses": [PRIVATE]})).domains
    async with Website(Authority(tmp_path).context("file.example")) as site:
        names.zone.addresses["file.example"] = site.address
        claim = await domains.begin("file.example", ANN)
        site.pages[FILE] = f"wicket-verify={claim.token}"
        checked = await domains.check("file.example", ANN)
        assert checked.state == "failed"
        assert "has a certificate that is not accepted" in checked.problem
        assert not site.received


@pytest.mark.parametrize("address", ["127.0.0.1", "10.1.2.3", "169.254.169.254", "::1", "fd00::1", "64:ff9b::7f00:1"])
async def test_a_domain_that_leads_to_a_private_address_is_not_asked(
    open_facade: OpenFacade, names: Names, address: str
) -> None:
    domains = (await open_facade(registry={"resolvers": [names.address]})).domains
    names.zone.addresses["inside.example"] = address
    await domains.begin("inside.example", ANN)
    checked = await domains.check("inside.example", ANN)
    assert checked.state == "failed"
    assert "The address is not a public address" in checked.problem
    assert address not in checked.problem, "what is inside is told to administrators alone"
    await domains.begin("inside.example", LOCAL)
    told = (await domains.check("inside.example", LOCAL)).problem
    assert f"leads to {'127.0.0.1' if address.startswith('64:') else address}, which is not a public address" in told


async def test_a_domain_without_an_address_or_a_resolver_that_fails_is_said_to_be_so(
    open_facade: OpenFacade, names: Names
) -> None:
    domains = (await open_facade(registry={"resolvers": [names.address]})).domains
    await domains.begin("nowhere.example", ANN)
    assert "host name that cannot be resolved" in (await domains.check("nowhere.example", ANN)).problem
    names.zone.refusing = True
    assert "host name that cannot be resolved" in (await domains.check("nowhere.example", ANN)).problem
