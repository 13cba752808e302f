"""Which steps a principal has taken. Implements OnboardingStore."""

from collections.abc import Mapping

from wicket_mcp.store.sqlite.connection import Part


class SqliteOnboarding(Part):
    async def record_step(self, principal: str, step: str, at: float) -> None:
        await self._change("INSERT OR IGNORE INTO onboarding VALUES (?, ?, ?)", principal, step, at)

    async def steps(self, principal: str) -> Mapping[str, float]:
        return dict(await self._rows("SELECT step, at FROM onboarding WHERE principal = ?", principal))
