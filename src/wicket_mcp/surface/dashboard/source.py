"""What the dashboard may ask the gateway, as plain functions; filled by `serving.py`."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from wicket_mcp.calls.audit import Audit
from wicket_mcp.config.model.config import Config
from wicket_mcp.identity.approver import Approver
from wicket_mcp.identity.grants import Grants
from wicket_mcp.identity.keys import Keys
from wicket_mcp.model import Principal, Tool
from wicket_mcp.search import Explanation
from wicket_mcp.store.base import ApprovalStore, AuditStore
from wicket_mcp.store.model import StoredPin, StoredSecret
from wicket_mcp.surface.under_way import Glimpse
from wicket_mcp.trust.always import Always
from wicket_mcp.trust.pins import Held
from wicket_mcp.verbs import Verbs


@dataclass(frozen=True, slots=True)
class Source:
    """The gateway, as far as the dashboard sees it."""

    config: Callable[[], Config]
    verbs: Callable[[], Verbs]
    store: AuditStore
    approvals: ApprovalStore
    approver: Approver
    """Knows the passphrase that approvals need, if there is one."""
    always: Callable[[], Always]
    """The approvals that a user has given with "always"."""
    audit: Audit
    keys: Keys
    grants: Callable[[], Grants]
    """The access that OAuth clients were granted."""
    place: Callable[[Principal], Principal]
    """A principal with the profile that it is bound to (`trust/policy.py`)."""
    needs_token: bool
    address: Callable[[], str]
    """Where MCP is served."""
    credentials: Callable[[str | None], Awaitable[Sequence[StoredSecret]]]
    """What the vault holds, of one principal or of all; sealed."""
    under_way: Callable[[Principal, str], Awaitable[Glimpse]]
    """The activity in all processes of the gateway that a principal may see, with the last lines on stderr of a
    server.
    """
    pins: Callable[[Tool], Awaitable[Sequence[StoredPin]]]
    """The accepted definitions of a tool, oldest first."""
    explain: Callable[[str, Principal, Tool], Awaitable[Explanation]]
    signed_out: Callable[[Principal], Awaitable[Collection[str]]]
    """The servers that a principal must sign in to before using them."""
    sign_in: Callable[[str, Principal], Awaitable[str]]
    """Begin signing in to a server; returns the link for the user to open."""
    give: Callable[[str, Principal, dict[str, str]], Awaitable[None]]
    """Keep the keys that a principal gives for their own use of a command."""
    enable: Callable[[str, bool], Awaitable[None]]
    """Enable or disable a server in its configuration file."""
    start: Callable[[str], Awaitable[None]]
    """Connect a server and read its tools, resources and prompts."""
    held: Callable[[], Sequence[Held]]
    """Definitions from servers that are not accepted yet."""
    failures: Callable[[], Mapping[str, str]]
    """The servers whose last listing failed, and why."""
    accept: Callable[[Held, str], Awaitable[None]]
    """Accept a definition on a user's behalf."""
    stop: Callable[[str, Principal], Awaitable[None]]
    """Close a server's connections once its calls have ended; the next call starts it again."""
