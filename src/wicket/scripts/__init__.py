"""Scripts that an agent writes: each runs in its own jailed process and calls tools through the gateway.

`Scripts` is the door of this room; what a script may see is an `Api`, what it did is an `Outcome`.
"""

from wicket.scripts.api import Api, Server
from wicket.scripts.engine import Scripts, Status
from wicket.scripts.limits import Limits
from wicket.scripts.outcome import CallRecord, Outcome, Problem
from wicket.scripts.session import CallTool

__all__ = ["Api", "CallRecord", "CallTool", "Limits", "Outcome", "Problem", "Scripts", "Server", "Status"]
