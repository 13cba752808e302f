"""Proof of domain ownership: a TXT record or a file on the domain repeats a token for this principal and domain.

    pending ──found──> verified ──90 days──> expired
       └──looked, not there──> failed ──found──> verified;   24 h without proof: expired

A proof covers subdomains, never a parent. Each principal has its own tokens: two may prove the same domain. If the
configuration names resolvers, only these are used for a domain, also to fetch its file.
"""

import re
import secrets
import time
from collections.abc import Callable
from datetime import UTC, datetime

from msgspec.structs import replace

from wicket_mcp.errors import BadArguments, UnknownName
from wicket_mcp.model import JsonObject, Principal
from wicket_mcp.registry import wellknown
from wicket_mcp.registry.dns import LookupFailed, lookup, txt_records
from wicket_mcp.registry.settings import Terms
from wicket_mcp.store.base import DomainStore
from wicket_mcp.store.model import StoredDomain
from wicket_mcp.upstream.egress_rules import EgressRules

PROVE_WITHIN = 24 * 3600.0
VALID_FOR = 90 * 24 * 3600.0
LABEL = "_wicket"
VALUE = "wicket-verify="
_DOMAIN = re.compile(r"(?=.{4,253}$)([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z][a-z0-9-]{0,61}[a-z0-9]")


class Domains:
    """Proofs of ownership: `begin` returns the challenge, `check` looks for the answer, `covers` returns the result."""

    def __init__(self, store: DomainStore, terms: Terms, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock
        self.use(terms)

    def use(self, terms: Terms) -> None:
        """Use these resolvers and allowed addresses from now on."""
        named = terms.resolvers
        self._rules = EgressRules(terms.allowed, lookup(named) if named else None)
        self._resolvers = named

    async def begin(self, domain: str, principal: Principal) -> StoredDomain:
        """The challenge for a domain; the same one while it is open or met."""
        name = normalise(domain)
        claim = await self._claim(name, principal)
        if claim is None or claim.state == "expired":
            claim = StoredDomain(principal.id, name, secrets.token_urlsafe(24), "pending", self._clock())
            await self._store.save_domain(claim)
        return claim

    async def check(self, domain: str, principal: Principal) -> StoredDomain:
        """Look for the proof now, if it is still needed. Raises UnknownName if nothing was begun."""
        name = normalise(domain)
        claim = await self._claim(name, principal)
        if claim is None or claim.state == "expired":
            parent = await self._covering(name, principal)
            if parent is not None:
                return parent
        if claim is None:
            raise UnknownName("domain", name, hint="Call verify_domain first: it gives the record to set.")
        if claim.state in ("verified", "expired"):
            return claim
        method, problem = await self._proof(claim, principal)
        now = self._clock()
        if method:
            claim = replace(claim, state="verified", verified_at=now, checked_at=now, method=method, problem="")
        else:
            claim = replace(claim, state="failed", checked_at=now, problem=problem)
        await self._store.save_domain(claim)
        return claim

    async def covers(self, principal: Principal, domain: str) -> bool:
        """Whether the principal has proved this domain or a parent of it."""
        return await self._covering(domain.lower(), principal) is not None

    async def _covering(self, domain: str, principal: Principal) -> StoredDomain | None:
        for claim in await self._store.domains(principal.id):
            if self._expire_claim(claim).state == "verified" and f".{domain}".endswith(f".{claim.domain}"):
                return claim
        return None

    async def _claim(self, domain: str, principal: Principal) -> StoredDomain | None:
        claims = await self._store.domains(principal.id)
        return next((self._expire_claim(claim) for claim in claims if claim.domain == domain), None)

    def _expire_claim(self, claim: StoredDomain) -> StoredDomain:
        """The claim, expired if its time is over."""
        since = claim.created_at if claim.verified_at is None else claim.verified_at
        allowed = PROVE_WITHIN if claim.verified_at is None else VALID_FOR
        return replace(claim, state="expired") if self._clock() > since + allowed else claim

    async def _proof(self, claim: StoredDomain, principal: Principal) -> tuple[str, str]:
        """How the domain repeats the token; else "" and why it does not."""
        record = f"{VALUE}{claim.token}"
        problems: list[str] = []
        try:
            if record in await txt_records(f"{LABEL}.{claim.domain}", self._resolvers):
                return "dns", ""
            problems.append(f"no TXT record at {LABEL}.{claim.domain} has the token")
        except LookupFailed as failed:
            problems.append(str(failed))
        try:
            if record in (await wellknown.read(claim.domain, self._rules, principal)).split():
                return "file", ""
            problems.append(f"https://{claim.domain}{wellknown.PATH} does not have it either")
        except LookupFailed as failed:
            problems.append(str(failed))
        return "", "; ".join(problems)


def normalise(domain: str) -> str:
    """A domain name in normal form. Raises BadArguments."""
    text = domain.strip().rstrip(".").lower()
    try:
        plain = text if text.isascii() else text.encode("idna").decode("ascii")
    except UnicodeError:
        plain = ""
    if not _DOMAIN.fullmatch(plain):
        raise BadArguments(f"'{domain[:80]}' is not a domain name.", hint="Give one such as example.com.")
    return plain


def challenge(claim: StoredDomain) -> JsonObject:
    """What the owner has to do, and by when."""
    value = f"{VALUE}{claim.token}"
    return {
        "dns_record": {"type": "TXT", "name": f"{LABEL}.{claim.domain}", "value": value},
        "file": {"url": f"https://{claim.domain}{wellknown.PATH}", "content": value},
        "expires_at": timestamp(claim.created_at + PROVE_WITHIN),
        "instructions": "Set the TXT record or serve the file, then call check_domain_ownership.",
    }


def timestamp(at: float) -> str:
    """Seconds in the time format of the registry's API."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
