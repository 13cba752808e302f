"""What the dashboard may ask of the gateway, as plain functions; filled by `serving.py`."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from wicket_mcp.calls.audit import Audit
from wicket_mcp.config.model.config import Config
from wicket_mcp.identity.grants import Grants
from wicket_mcp.identity.keys import Keys
from wicket_mcp.model import Principal, Tool
from wicket_mcp.search import Explanation
from wicket_mcp.store.base import ApprovalStore, AuditStore
from wicket_mcp.store.model import StoredPin
from wicket_mcp.surface.under_way import Glimpse
from wicket_mcp.trust.always import Always
from wicket_mcp.trust.pins import Held
from wicket_mcp.verbs import Verbs


@dataclass(frozen=True, slots=True)
class Source:
    """The gateway, as far as people look into it."""

    config: Callable[[], Config]
    verbs: Callable[[], Verbs]
    store: AuditStore
    approvals: ApprovalStore
    always: Callable[[], Always]
    """What somebody said "always" to."""
    audit: Audit
    keys: Keys
    grants: Callable[[], Grants]
    """What OAuth clients were allowed."""
    address: Callable[[], str]
    """Where MCP is served."""
    lost: Callable[[], int]
    under_way: Callable[[Principal], Awaitable[Glimpse]]
    """What goes on in all processes of the gateway, as far as somebody may see it."""
    pins: Callable[[Tool], Awaitable[Sequence[StoredPin]]]
    """The definitions of a tool that were accepted, the oldest first."""
    eras: Callable[[], Mapping[str, str]]
    """The protocol version that each connected server speaks."""
    explain: Callable[[str, Principal, Tool], Awaitable[Explanation]]
    signed_out: Callable[[Principal], Awaitable[Collection[str]]]
    """The servers that somebody cannot use before signing in to them."""
    sign_in: Callable[[str, Principal], Awaitable[str]]
    """Begin to sign in to a server; the link that a person opens."""
    stderr: Callable[[str], Sequence[str]]
    """The last lines of a server on stderr."""
    enable: Callable[[str, bool], Awaitable[None]]
    """Enable or disable a server in the file that the configuration was read from."""
    start: Callable[[str], Awaitable[None]]
    """Connect a server and read what it offers."""
    held: Callable[[], Sequence[Held]]
    """What servers say that nobody has accepted yet."""
    accept: Callable[[Held, str], Awaitable[None]]
    """Accept it, in somebody's name."""
    stop: Callable[[str], Awaitable[None]]
    """End the connections of a server once its calls have ended; the next call starts it again."""
