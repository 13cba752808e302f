"""What a name means for a principal, asking servers that were never listed before giving up.

Slow look-ups run in a thread, one after the other for each principal. Used by the corridor, the verbs and the commands.
"""

from typing import TYPE_CHECKING

from wicket_mcp.budget import MAX_NAME, MAX_NAMES, check_length
from wicket_mcp.catalog.failures import STILL_STARTING, ask_again
from wicket_mcp.catalog.view import View
from wicket_mcp.errors import NeedsSignIn, Unavailable, UnknownName
from wicket_mcp.lanes import Lane
from wicket_mcp.model import LOCAL, Principal, Tool

if TYPE_CHECKING:
    from wicket_mcp.catalog.catalogue import Catalogue


class Lookup:
    """The names of one catalogue."""

    def __init__(self, catalogue: "Catalogue") -> None:
        self._catalogue = catalogue
        self._lane = Lane("names that are looked up", width=2, share=1, waiting=MAX_NAMES * 4)

    async def resolve(self, name: str, principal: Principal = LOCAL) -> Tool:
        """The tool that `name` means for `principal`.

        Raises UnknownName, AmbiguousName, Denied, and Unavailable if the server in the name could not be asked.
        """
        check_length(name, MAX_NAME, "A name")
        catalogue = self._catalogue
        snapshot = await catalogue.load()
        try:
            return await self._find(snapshot.view(principal), name, principal)
        except UnknownName:
            meant = snapshot.aliases.get(name, name)
            visible = [server for server in snapshot.servers if snapshot.policy.shows(principal, server)]
            unseen = [server for server in visible if server not in snapshot.listings]
            likely = [server for server in unseen if meant.startswith((f"{server}.", f"{server}__"))]
            open_still = [
                server for server in unseen if catalogue.is_listing(server) or server not in catalogue.failures
            ]
        if unseen:  # a call that names its server waits as long as that takes; otherwise any of them may have the tool
            patience = None if likely else catalogue.patience
            snapshot = await catalogue.complete(likely or open_still, principal, patience=patience)
        else:  # another process may know it
            await catalogue.catch_up()
            snapshot = catalogue.now
        view = snapshot.view(principal)
        try:
            return await self._find(view, name, principal)
        except UnknownName as problem:
            failing = [server for server in catalogue.failures if server in visible]
            silent = next((server for server in failing if meant.startswith(f"{server}.")), None)
            if silent is None or not unseen:
                near = await self._lane.compute(principal.id, lambda: view.names.near(name))
                starting = sum(catalogue.failures.get(server) == STILL_STARTING for server in visible)
                hint = ask_again(starting) if starting else problem.hint
                unknown = UnknownName(problem.kind, problem.name, near, hint=hint)
                hidden = await self.find_hidden(name, principal)
                unknown.rule = hidden[1] if hidden is not None else ""
                raise unknown from None
            if silent in catalogue.unauthenticated:
                raise NeedsSignIn(silent, catalogue.unauthenticated[silent]) from None
            raise Unavailable(silent, f"'{name}' is not known: {catalogue.failures[silent]}") from None

    async def find_hidden(self, name: str, principal: Principal) -> tuple[Tool, str] | None:
        """The tool of this name that an option keeps from `principal`, and the option. Asks no server."""
        snapshot = await self._catalogue.load()
        if snapshot.policy.visibility(principal).unrestricted:
            return None
        return await self._lane.compute(principal.id, lambda: snapshot.find_hidden(name, principal))

    async def _find(self, view: View, name: str, principal: Principal) -> Tool:
        """`view.resolve`, with slow work done in a thread."""
        if not view.is_quick(name):
            await self._lane.compute(principal.id, view.prepare)
        return view.resolve(name, suggest=False)
