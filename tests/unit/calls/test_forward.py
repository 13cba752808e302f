"""The last layer, over a scripted pool: what was sent once is never offered to another server."""

from typing import Any, ClassVar

import pytest
from msgspec.structs import replace

from wicket_mcp.calls.fallback import fallback
from wicket_mcp.calls.forward import Forward
from wicket_mcp.catalog.catalogue import Catalogue
from wicket_mcp.config.model.config import ServerConfig
from wicket_mcp.errors import Crashed, Unavailable
from wicket_mcp.model import JsonObject, Principal, Silent, Tool
from wicket_mcp.request import Request, Result, tool_call


class Asker:
    """A client of the legacy era that answers every question."""

    principal, session, log_level, resumes = Principal("asker"), "s", "", False
    capabilities: ClassVar[JsonObject] = {"elicitation": {}}

    def notify(self, method: str, params: JsonObject) -> None:
        return None

    async def ask(self, method: str, params: JsonObject) -> JsonObject:
        return {"action": "accept", "content": {}}


class GoneAfterAsking:
    """A network peer in place of the pool: asks for input, and is away when the answer comes."""

    def __init__(self) -> None:
        self.sent = 0

    async def request(self, server: str, method: str, params: JsonObject, **options: Any) -> JsonObject:
        self.sent += 1
        if self.sent > 1:
            raise Unavailable(server, f"Server '{server}' is away.")
        question = {"method": "elicitation/create", "params": {"message": "sure?"}}
        return {"resultType": "input_required", "inputRequests": {"q": question}}


async def test_b20_a_server_that_leaves_after_it_asked_may_have_acted() -> None:
    pool: Any = GoneAfterAsking()
    asker: Any = Asker()
    request = tool_call(Tool("x", "act", {}), {}, asker)
    with pytest.raises(Crashed, match="may have acted") as told:
        await Forward(pool)(replace(request, server="x"))
    assert not told.value.retryable
    assert pool.sent == 2


async def test_b20_a_client_that_answers_an_earlier_round_gets_no_other_server() -> None:
    asked: list[str] = []

    async def away(request: Request) -> Result:
        asked.append(request.server)
        raise Unavailable(request.server, "away")

    catalogue: Any = object.__new__(Catalogue)
    layer = fallback(catalogue, ServerConfig(name="x", command="x", fallback=("y",)), lambda server: away)
    request = tool_call(Tool("x", "act", {}), {}, Silent(), resume={"inputResponses": {}})
    with pytest.raises(Unavailable):
        await layer(away)(replace(request, server="x"))
    assert asked == ["x"]
