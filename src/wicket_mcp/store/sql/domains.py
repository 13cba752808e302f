"""Claims to domains. Implements DomainStore."""

from collections.abc import Sequence

from wicket_mcp.store.model import StoredDomain
from wicket_mcp.store.sql.part import Part, upsert

_DOMAIN = "principal, domain, token, state, created_at, checked_at, verified_at, method, problem"


class SqlDomains(Part):
    async def save_domain(self, domain: StoredDomain) -> None:
        d = domain
        row = (d.principal, d.domain, d.token, d.state, d.created_at, d.checked_at, d.verified_at, d.method, d.problem)
        await self._change(upsert("domain", _DOMAIN, "principal, domain"), *row)

    async def domains(self, principal: str) -> Sequence[StoredDomain]:
        text = f"SELECT {_DOMAIN} FROM domain WHERE principal = ? ORDER BY domain"  # noqa: S608
        return [StoredDomain(*row) for row in await self._rows(text, principal)]
