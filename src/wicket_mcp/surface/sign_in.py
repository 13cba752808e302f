"""Builds sign-in from the configuration: the front door and the mounts beside it.

`serving.py` keeps one while it serves and passes it every new configuration. Without an issuer and without our own
authorization server there is no front door, and the token validation of `identity` is not loaded.
"""

from collections.abc import Awaitable, Callable, Collection
from typing import TYPE_CHECKING

from wicket_mcp.config.model.config import Config
from wicket_mcp.surface.asgi import Mount, OnRejected
from wicket_mcp.surface.dashboard.sessions import UiSessions
from wicket_mcp.surface.front_door import FrontDoor, Verifier
from wicket_mcp.tasks import Tasks

if TYPE_CHECKING:
    from wicket_mcp.identity.clients import ClientsStore
    from wicket_mcp.identity.grants import Grants
    from wicket_mcp.identity.tokens import Tokens
    from wicket_mcp.identity.waiting import Waiting
    from wicket_mcp.surface.authorization import Authorization


class SignIn:
    """`paths` are where MCP is currently served, `bound` returns the address that we listen at; `grants` creates our
    own authorization server on demand.
    """

    def __init__(
        self,
        config: Config,
        paths: Collection[str],
        bound: Callable[[], str],
        tasks: Tasks,
        grants: "Callable[[], Grants]",
        store: "ClientsStore",
        waiting: "Waiting",
        on_act: Callable[[str, str, str], None],
        on_rejected: OnRejected,
        ui_sessions: UiSessions,
    ) -> None:
        self._ui_sessions = ui_sessions
        self.people: Authorization | None = None
        """Where people sign in with a provider."""
        self._paths = paths
        self._bound = bound
        self._tasks = tasks
        self._make_grants = grants
        self._grants: Grants | None = None
        self._store = store
        self._waiting = waiting
        self._on_act = on_act
        self._on_rejected = on_rejected
        self._closing: list[Callable[[], Awaitable[None]]] = []
        self.door: FrontDoor | None = None
        self.mounts: tuple[Mount, ...] = ()
        self.reconfigure(config)

    def reconfigure(self, config: Config) -> None:
        """Apply another configuration. Raises ConfigError, and then nothing changes."""
        http = config.http
        before, closing = self._closing, list[Callable[[], Awaitable[None]]]()
        issuers = [issuer.issuer for issuer in http.issuers]
        verifiers: list[Verifier] = []
        tokens = self._accept_tokens(config) if http.issuers else None
        if tokens is not None:
            closing.append(tokens.close)
            verifiers.append(tokens)
        own_server = http.authorization.enabled
        signs_in = own_server or any(issuer.client_id and not issuer.introspection for issuer in http.issuers)
        if signs_in:
            self._grants = self._grants or self._make_grants()
            self._grants.forget()
            if own_server:
                verifiers.insert(0, self._grants)
                issuers.insert(0, "")
        door = FrontDoor(http, self._bound, self._paths, issuers, verifiers) if verifiers else None
        self.door, self.mounts, self._closing = door, () if door is None else (door,), closing
        self.people = None
        if door is not None and self._grants is not None and signs_in:
            self.people = self._own_server(config, door, self._grants, tokens)
            self.mounts = (door, self.people)
        for close in before:
            self._tasks.start(_finish(close), "close the connections to earlier issuers")

    def _accept_tokens(self, config: Config) -> "Tokens":
        from wicket_mcp.identity.tokens import Tokens  # noqa: PLC0415  (for those who accept tokens)

        return Tokens.of(config, self._paths, self._on_act)

    def _own_server(
        self, config: Config, door: FrontDoor, grants: "Grants", tokens: "Tokens | None"
    ) -> "Authorization":
        from wicket_mcp.identity.clients import Clients  # noqa: PLC0415  (for those who turn it on)
        from wicket_mcp.identity.documents import Documents  # noqa: PLC0415
        from wicket_mcp.identity.providers import Providers  # noqa: PLC0415
        from wicket_mcp.surface.authorization import Authorization  # noqa: PLC0415

        documents = Documents(config.registry.allowed_addresses)
        self._closing.append(documents.close)
        clients = Clients(self._store, documents)
        issuers, documents = (tokens.issuers, tokens.documents) if tokens is not None else ((), documents)
        providers = Providers(issuers, documents, self._waiting)
        return Authorization(
            door,
            grants,
            clients,
            providers,
            self._paths,
            self._on_rejected,
            self._ui_sessions,
            grants_access=config.http.authorization.enabled,
        )

    async def close(self) -> None:
        for close in self._closing:
            await close()


async def _finish(close: Callable[[], Awaitable[None]]) -> None:
    await close()
