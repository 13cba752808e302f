"""Which steps a principal has taken. Implements OnboardingStore."""

from collections.abc import Mapping

from wicket_mcp.store.sql.part import Part, insert


class SqlOnboarding(Part):
    async def record_step(self, principal: str, step: str, at: float) -> None:
        await self._change(f"{insert('onboarding', 'principal, step, at')} ON CONFLICT DO NOTHING", principal, step, at)

    async def steps(self, principal: str) -> Mapping[str, float]:
        return dict(await self._rows("SELECT step, at FROM onboarding WHERE principal = ?", principal))
