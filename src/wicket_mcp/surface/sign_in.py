"""What the configuration says about signing in, put together: the front door and what is mounted beside it.

`serving.py` holds one for as long as it serves and hands it every new configuration. Without an issuer and without our
own authorization server there is no door, and nothing of `identity` that validates tokens is loaded.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from wicket_mcp.config.model.config import Config
from wicket_mcp.surface.asgi import Mount
from wicket_mcp.surface.front_door import FrontDoor, Verifier
from wicket_mcp.tasks import Tasks

if TYPE_CHECKING:
    from wicket_mcp.identity.tokens import Tokens


class SignIn:
    """`paths` are where MCP is served."""

    def __init__(self, config: Config, paths: Sequence[str], tasks: Tasks) -> None:
        self._paths = paths
        self._tasks = tasks
        self._tokens: Tokens | None = None
        self.door: FrontDoor | None = None
        self.reconfigure(config)

    @property
    def mounts(self) -> tuple[Mount, ...]:
        return (self.door,) if self.door is not None else ()

    def reconfigure(self, config: Config) -> None:
        """Obey another configuration. Raises ConfigError, and then everything is as it was."""
        http = config.http
        old, tokens = self._tokens, None
        verifiers: list[Verifier] = []
        if http.issuers:
            from wicket_mcp.identity.tokens import Tokens  # noqa: PLC0415  (for those who accept tokens)

            tokens = Tokens.of(config, self._paths)
            verifiers.append(tokens)
        self._tokens = tokens
        issuers = [issuer.issuer for issuer in http.issuers]
        self.door = FrontDoor(http.public_url, self._paths, issuers, verifiers) if verifiers else None
        if old is not None:
            self._tasks.start(old.close(), "close the connections to earlier issuers")

    async def close(self) -> None:
        if self._tokens is not None:
            await self._tokens.close()
