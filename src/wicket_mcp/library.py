"""Only the parts needed for finding a tool: catalogue, connections, store, search.

Every gateway has them. A command that only searches for tools has nothing else, so that its user does not wait until
surfaces, scripts, dialects and the registry are loaded.
"""

from functools import partial

from wicket_mcp.calls.forward import Forward
from wicket_mcp.calls.task_ids import TaskIds
from wicket_mcp.catalog.catalogue import Catalogue
from wicket_mcp.catalog.skills import Skills
from wicket_mcp.config.model.config import Config
from wicket_mcp.identity.accounts import Accounts
from wicket_mcp.identity.key_file import sealing_keys_or_temporary
from wicket_mcp.identity.vault import Vault
from wicket_mcp.identity.wrapping import wrapping
from wicket_mcp.model import LOCAL
from wicket_mcp.sealing import Ring
from wicket_mcp.search.finder import Finder
from wicket_mcp.store.base import Store
from wicket_mcp.trust.packages import Integrity
from wicket_mcp.trust.pins import Pins
from wicket_mcp.upstream.events import UpstreamEvent
from wicket_mcp.upstream.pool import Pool


class Library:
    """What the configured servers offer, and how to find it. The opener of the store closes it, after this."""

    def __init__(self, config: Config, store: Store) -> None:
        self._config = config
        self.store = store
        self.principal = LOCAL
        """The principal it acts for."""
        self.vault = Vault(store, wrapping(config))
        self.accounts = Accounts(self.vault, store, config.base_dir, config.oauth)
        self.pool = Pool(
            config.servers,
            on_event=self._on_event,
            max_message=config.limits.max_message,
            max_call=config.limits.max_call,
            base_dir=config.base_dir,
            credentials=self.accounts,
            before_start=Integrity(store).check,
        )
        self.forward = Forward(self.pool)
        self.ring = Ring(partial(sealing_keys_or_temporary, config.state_path))
        """Seals what clients carry for us. All who share a store have the same keys."""
        self.task_ids = TaskIds(self.ring)
        self.catalogue = Catalogue(
            config.servers,
            self.pool,
            self.forward,
            self.store,
            config.limits,
            config.aliases,
            Pins(self.store),
            config.profiles,
        )
        self.skills = Skills(self.catalogue, self.forward)
        self.finder = Finder(
            self.catalogue,
            self.pool,
            self.store,
            self.store,
            self.store,
            config.base_dir,
            favourites=config.favourites,
            options=config.search,
            unsigned=self.accounts.missing,
        )

    @property
    def config(self) -> Config:
        """The configuration in use."""
        return self._config

    def reconfigure(self, config: Config) -> None:
        self._config = config

    async def close(self) -> None:
        await self.finder.close()
        await self.skills.close()
        await self.catalogue.close()
        await self.pool.close()
        await self.accounts.close()

    def _on_event(self, event: UpstreamEvent) -> None:
        self.catalogue.on_event(event)
