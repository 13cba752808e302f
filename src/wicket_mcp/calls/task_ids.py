"""Ids of tasks as clients know them: they carry the server and its own id, and are sealed to the principal.

No state is kept: an id stays valid after a restart, because the keys of the ring do. The empty server
stands for Wicket itself, which keeps tasks for servers that have none (`surface/local_tasks.py`). With other gateways,
the id of such a task begins with the gateway that keeps it (`gateway~`), also outside the seal, so that each of them
can forward a request.
"""

from wicket_mcp.codec import decode, encode
from wicket_mcp.errors import UnknownName
from wicket_mcp.model import Principal, as_list
from wicket_mcp.sealing import Ring

_PURPOSE = "tasks"


class TaskIds:
    """Seals and opens ids."""

    def __init__(self, ring: Ring) -> None:
        self._ring = ring

    def seal(self, server: str, task: str, principal: Principal) -> str:
        keeper = "" if server else task[: task.find("~") + 1]
        return f"{keeper}{self._ring.seal(_PURPOSE, encode([server, task]), _binding(principal))}"

    def open(self, sealed: str, principal: Principal) -> tuple[str, str]:
        """The server and its own id. Raises UnknownName for an id that was not sealed for this principal."""
        data = self._ring.unseal(_PURPOSE, sealed.rpartition("~")[2], _binding(principal))
        fields = as_list(decode(data)) if data is not None else []
        if len(fields) != 2:
            raise UnknownName("task", sealed[:60])
        return str(fields[0]), str(fields[1])


def _binding(principal: Principal) -> bytes:
    return principal.id.encode("utf-8", "surrogatepass")
