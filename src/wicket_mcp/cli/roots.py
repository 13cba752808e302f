"""Who gets the folders that clients have open (their roots): what serving has said about it, and the configuration.

Used by `wicket servers`, `wicket status` and `wicket doctor`. Reads the audit and the catalogue; starts nothing.
"""

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wicket_mcp.app import Gateway

WITHHELD, OWN = "withheld", "own"
_RECENT = 7 * 86400  # seconds for which what was said while serving counts


async def roots_of_servers(gateway: "Gateway") -> dict[str, str]:
    """By server: `withheld` if it is shared and a client with open folders has used it lately, `own` if each client
    has its own server and that server its client's folders. Not named: roots were not in question."""
    from wicket_mcp.store.model import AuditQuery
    from wicket_mcp.upstream.pool import ROOTS_WITHHELD

    query = AuditQuery(method="admin", tool=ROOTS_WITHHELD, since=time.time() - _RECENT)
    shared = {record.detail.partition(" ")[0] for record in await gateway.store.find_calls(query)}
    servers = gateway.catalogue.servers
    own = {name for name, server in servers.items() if server.isolation == "session"}
    return {name: OWN if name in own else WITHHELD for name in sorted(servers) if name in own | shared}


def explain_roots(roots: dict[str, str]) -> list[str]:
    """Sentences for a person."""
    withheld, own = ([name for name in roots if roots[name] == kind] for kind in (WITHHELD, OWN))
    words: list[str] = []
    if withheld:
        words.append(
            f"withheld from {', '.join(withheld)}: clients share it, so it works on no folder that one of them has "
            'open. isolation = "session" starts one for each client.'
        )
    if own:
        words.append(f"{', '.join(own)}: each client has its own, which gets the folders that the client has open.")
    return words
