"""The parts of one configuration ("rooms"): immutable, built from it and from the live parts.

A new configuration creates new rooms; nothing here changes afterwards, so every option that a room reads takes effect
on reload. What must continue (connections, the catalogue, caches, watches, running scripts) is a live part and is
passed from one generation to the next (`app.py`).
"""

import asyncio
import hashlib
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from wicket_mcp.calls.approve import Approvals, SessionApprovals
from wicket_mcp.calls.audit import Audit
from wicket_mcp.calls.cache import Cache
from wicket_mcp.calls.limits import Admit, GiveBack, ServerBuckets
from wicket_mcp.calls.pipeline import Parts, Pipeline
from wicket_mcp.calls.profile_budgets import ProfileBudgets, TokenBudgets, limit_profile
from wicket_mcp.calls.sign_in import demand_account, sign_in
from wicket_mcp.calls.watches import Watches
from wicket_mcp.catalog.addresses import Addresses
from wicket_mcp.catalog.catalogue import Catalogue
from wicket_mcp.catalog.failures import lacks_something
from wicket_mcp.catalog.instructions import inline_signatures, instructions
from wicket_mcp.catalog.listing import fingerprint
from wicket_mcp.catalog.shares import shares_of
from wicket_mcp.codec import encode
from wicket_mcp.config.model.config import Config, HttpConfig, ProfileConfig, RegistryConfig
from wicket_mcp.dialects import factory
from wicket_mcp.dialects.factory import FacadeOf
from wicket_mcp.errors import ConfigError, WicketError
from wicket_mcp.identity.approver import Approver
from wicket_mcp.library import Library
from wicket_mcp.model import LOCAL, Caller, JsonObject, Principal
from wicket_mcp.results.handles import Handles
from wicket_mcp.results.results import Results
from wicket_mcp.results.storage import ResultStorage
from wicket_mcp.scripting import Scripting
from wicket_mcp.surface.protocol import Served
from wicket_mcp.trust.always import FILE as ALWAYS_FILE
from wicket_mcp.trust.always import Always
from wicket_mcp.trust.flow import Flow
from wicket_mcp.trust.memory import Memory
from wicket_mcp.trust.rules import Rules
from wicket_mcp.verbs import Verbs

if TYPE_CHECKING:
    from wicket_mcp.dialects.base import Menu
    from wicket_mcp.telemetry.trace import Tracing

_PROFILE = "profile:"


class Live(msgspec.Struct, frozen=True):
    """The live parts, passed from one configuration to the next."""

    library: Library
    scripting: Scripting
    watches: Watches
    audit: Audit
    cache: Cache
    buckets: ServerBuckets
    results: ResultStorage
    admit: Admit
    give_back: GiveBack
    memory: Memory
    """What sessions have read, for flow rules."""
    budgets: ProfileBudgets
    session_approvals: SessionApprovals
    facade: FacadeOf
    """The registry, created on demand."""
    tracing: "Tracing | None" = None
    """Set if spans are exported."""


class Rooms(msgspec.Struct, frozen=True):
    """See the module's docstring."""

    config: Config
    live: Live
    pipeline: Pipeline
    verbs: Verbs
    _menus: dict[tuple[str, ...], "Menu"] = msgspec.field(default_factory=dict[tuple[str, ...], "Menu"])
    """The menus created so far; creating one loads its dialects."""

    def menu(self, names: tuple[str, ...] = ()) -> "Menu":
        """The dialects of these names as one list of tools; without names, the configured ones.

        Raises ConfigError for an unknown name.
        """
        if names not in self._menus:
            self._menus[names] = factory.menu(self._dialects(names), self.config, self.live.facade)
        return self._menus[names]

    def _dialects(self, names: tuple[str, ...], profile: str = "") -> tuple[str, ...]:
        if not (name := profile_of(names) or ("" if names else profile)):
            return names or self.config.dialects
        known = self.profile(name)  # None: removed while it is served, and then shows nothing in any dialect
        return (known.dialects if known else ()) or self.config.dialects

    def serve(self, names: tuple[str, ...]) -> Served:
        """What is served for these names of dialects. Without names, a principal or client that belongs to a profile
        gets the dialects of that profile."""
        profiles = self.config.profiles
        served = Served(self.verbs, self.menu(names), partial(self.instructions, names), self.live.audit.disclose)
        if not profiles:
            return served
        own = (
            {}
            if names
            else {entry.name: self.menu((profile_name(entry.name),)) for entry in profiles if entry.dialects}
        )
        served = served._replace(admit=partial(self.admit, names), profile_menus=own)
        budgeted = _profiles_with_budget(self.config)
        if not any(profile.tokens_per_hour for profile in budgeted.values()):
            return served
        return served._replace(budgets=TokenBudgets(self.live.budgets, budgeted))

    def profile(self, name: str) -> ProfileConfig | None:
        return next((profile for profile in self.config.profiles if profile.name == name), None)

    def admit(self, names: tuple[str, ...], principal: Principal, client: str = "") -> Principal:
        """The principal with its profile, for these names of dialects and this client (`trust/policy.py`)."""
        return self.live.library.catalogue.now.policy.place(principal, profile_of(names), client)

    async def instructions(self, names: tuple[str, ...] = (), principal: Principal = LOCAL) -> str:
        """The capability index for a principal's clients: fixed for a configuration once every server has been listed,
        and the same for principals that see the same.
        """
        if self.config.untrusted:
            return self.config.untrusted
        library = self.live.library
        servers = library.catalogue.servers
        visible = self.profile(principal.profile)
        snapshot = await library.catalogue.load()
        view = snapshot.view(principal)
        inlined = ""
        dialects = self._dialects(names, principal.profile)
        if "native" in dialects and len(snapshot.listings) == len(servers):
            inlined = view.all_signatures
            if inlined is None:
                inlined = await asyncio.to_thread(inline_signatures, view)
        words = factory.guide(dialects)
        identity = [
            (server.name, server.description, server.allowed_tools, server.denied_tools, fingerprint(server))
            for server in servers.values()
        ]
        own = [(server, sorted(share)) for server, share in shares_of(snapshot.listings, principal.id)]
        key = f"instructions {hashlib.blake2b(encode([words, visible, *identity, *own]), digest_size=16).hexdigest()}"
        text = inlined or None
        if text is None:
            with suppress(WicketError):  # without its state Wicket still answers
                text = await library.store.load_note(key)
        if text is None:
            unlisted = [server for name, server in servers.items() if name not in snapshot.listings]
            unusable = {server.name for server in unlisted if lacks_something(server, self.config.base_dir)}
            text = instructions(view, words, unusable)
            if len(snapshot.listings) == len(servers):
                with suppress(WicketError):
                    await library.store.save_note(key, text)
        if visible is not None and visible.instructions:
            text = f"{visible.instructions.strip()}\n\n{text}"
        listed = [server for server in servers.values() if library.catalogue.now.policy.shows(principal, server.name)]
        unsigned = await library.accounts.missing(listed, principal)
        return f"{text}\nNeeds sign-in (wicket login NAME): {', '.join(sorted(unsigned))}" if unsigned else text


def profile_name(name: str) -> str:
    """The form of a profile's name among the names of dialects."""
    return f"{_PROFILE}{name}"


def profile_of(names: tuple[str, ...]) -> str:
    """The profile that these names select; empty for dialects."""
    return names[0].removeprefix(_PROFILE) if names and names[0].startswith(_PROFILE) else ""


def build(config: Config, live: Live) -> Rooms:
    """The rooms for `config`. Raises ConfigError, and then nothing has changed."""
    check(config)
    library = live.library
    addresses = Addresses(library.catalogue, unprefixed=config.unprefixed)
    results = Results(live.results, Handles(library.ring), config.results, partial(_shows_tool, library.catalogue))
    approvals = _approvals(config, live, results)
    parts = Parts(
        catalogue=library.catalogue,
        addresses=addresses,
        results=results,
        audit=live.audit,
        admit=live.admit,
        give_back=live.give_back,
        cache=live.cache,
        buckets=live.buckets,
        approver=Approver(library.store),
        demand_account=demand_account(library.accounts, library.catalogue),
        forward=library.forward,
        subscribe=live.watches.subscribe,
        set_log_level=library.forward.set_log_level,
        account=library.accounts.version,
        sign_in=sign_in(library.accounts, library.catalogue) if may_need_sign_in(config) else None,
        task_ids=library.task_ids,
        approvals=approvals,
        profiles=limit_profile(live.budgets, budgeted) if (budgeted := _profiles_with_budget(config)) else None,
    )
    pipeline = Pipeline(parts) if live.tracing is None else _add_tracing(parts, library, live.tracing)
    verbs = Verbs(
        library.catalogue,
        library.pool,
        library.finder,
        pipeline,
        results,
        live.scripting,
        live.audit,
        library.store,
        library.store,
        addresses,
        live.watches,
        config.base_dir,
        library.accounts,
        library.task_ids,
        library.skills,
        config.untrusted,
        _Reading(approvals.flow, results) if approvals is not None and approvals.flow is not None else None,
    )
    return Rooms(config, live, pipeline, verbs)


def _shows_tool(catalogue: Catalogue, principal: Principal, key: str) -> bool:
    """Whether the principal's profile, if it has one, shows a tool, by its own key. A name with dots may belong to
    several servers: then it must show the tool of each.
    """
    now = catalogue.now
    if not now.policy.is_restricted(principal):
        return True
    servers = [server for server in now.servers if key.startswith(f"{server}.")]
    verdicts = [now.policy.shows(principal, server, key[len(server) + 1 :]) for server in servers]
    return bool(verdicts) and all(verdicts)


def _profiles_with_budget(config: Config) -> Mapping[str, ProfileConfig]:
    """The profiles that have a budget."""
    return {profile.name: profile for profile in config.profiles if profile.calls_per_hour or profile.tokens_per_hour}


def may_need_sign_in(config: Config) -> bool:
    """Whether a server may require a sign-in."""
    remote = any(server.url is not None or server.credentials == "user" for server in config.servers)
    return remote or config.allow_runtime_servers


class _Reading:
    """See `verbs.Reading`."""

    def __init__(self, flow: Flow, results: Results) -> None:
        self._flow = flow
        self._results = results

    async def note(self, reader: Caller, run: str, handle: str, value: object) -> None:
        tool, body = await self._results.origin(handle, reader.principal)
        await self._flow.observe_stored(reader, run, tool, body, value)

    def labels(self, reader: Caller, run: str) -> JsonObject:
        return self._flow.labels_of_run(reader, run).ifc


def _approvals(config: Config, live: Live, results: Results) -> Approvals | None:
    """What decides about calls; None if there are no rules. Raises ConfigError."""
    policy = config.policy
    if not policy.rules and policy.flow == "off":
        return None
    rules = Rules(policy.rules)
    follows = policy.flow != "off" or rules.looks_at_labels
    flow = Flow(policy.flow, policy.trusted, live.memory) if follows else None
    store = live.library.store
    always = Always(store, config.state_path / ALWAYS_FILE)
    demand = demand_account(live.library.accounts, live.library.catalogue)
    return Approvals(rules, store, results.origin, always, Approver(store), demand, flow, live.session_approvals)


def _add_tracing(parts: Parts, library: Library, tracing: "Tracing") -> Pipeline:
    """The pipeline, with a second one for the requests that have spans."""

    def version(server: str) -> str:
        greeting = library.pool.greeting(server)
        return greeting.protocol_version if greeting else ""

    library.forward.tell(tracing.count)
    forward = tracing.client(library.catalogue.servers.get, version)(library.forward)
    traced = Pipeline(replace(parts, forward=forward, trace=tracing.name()))
    return Pipeline(parts, traced, tracing.wants)


def check(config: Config) -> None:
    """Check combinations of options that are wrong together. Raises ConfigError."""
    enabled = sum(server.enabled for server in config.servers)
    if config.unprefixed and enabled != 1:
        raise ConfigError(
            f"names can only pass without a prefix when there is one server, not {enabled}",
            key="unprefixed",
            hint="Leave it out, or leave one server enabled.",
        )
    if config.unprefixed and config.allow_runtime_servers:
        raise ConfigError(
            "names can only pass without a prefix when no server can be added",
            key="unprefixed",
            hint="Leave out this or allow_runtime_servers.",
        )
    if config.search.model:
        from wicket_mcp.search.user_model import find_model  # noqa: PLC0415  (few have a model of their own)

        find_model(config.search.model, config.base_dir)
    if config.registry != RegistryConfig():
        from wicket_mcp.registry.settings import check as check_registry  # noqa: PLC0415  (few configure a registry)

        check_registry(config.registry)
    if config.http != HttpConfig():
        from wicket_mcp.identity.settings import check as check_sign_in  # noqa: PLC0415  (few serve HTTP otherwise)

        check_sign_in(config)


def visible_options(config: Config) -> Mapping[str, object]:
    """The options that decide which of our tools a client sees."""
    return {
        name: getattr(config, name)
        for name in ("vendor_keys", "dialects", "dotted_names", "unprefixed", "meta", "favourites")
    }
