"""What this process does at once when any process has changed something in the state; composition only.

Everything else that is kept in memory (keys, grants, standing approvals, accounts, pins) compares the store's version
when it is used (`store/base.py`). This is for what nobody asks about before it matters: lists that clients were shown,
processes that were started with somebody's variables, servers that were installed elsewhere.
"""

from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wicket_mcp.app import Gateway


def follow(gateway: "Gateway") -> Callable[[], None]:
    """Have `gateway` follow the changes of its store, until the returned function is called."""
    actions: Mapping[str, Callable[[], Coroutine[Any, Any, None]]] = {
        "listing": gateway.catalogue.catch_up,
        "pin": gateway.catalogue.catch_up,
        "vault_key": gateway.accounts.compare_given,
        "managed_server": gateway.follow_installed,
    }

    def take(area: str) -> None:
        if (action := actions.get(area)) is not None:
            gateway.tasks.start(action(), f"take in a change of {area}")

    return gateway.store.hear_changes(take)
