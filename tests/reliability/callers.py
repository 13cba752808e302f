"""A caller that can be notified and asked, and remembers both."""

from dataclasses import dataclass, field
from typing import Any

from wicket_mcp.model import LOCAL, SCOPES, JsonObject, Principal


@dataclass
class Person:
    """Somebody who accepts whatever is asked."""

    principal: Principal = LOCAL
    session: str = "s"
    client_name: str = "test"
    capabilities: JsonObject = field(default_factory=lambda: {"elicitation": {"form": {}, "url": {}}})
    resumes: bool = False
    log_level: str = "debug"
    heard: list[JsonObject] = field(default_factory=list[Any])
    asked: list[JsonObject] = field(default_factory=list[Any])

    def notify(self, method: str, params: JsonObject) -> None:
        self.heard.append(params)

    async def ask(self, method: str, params: JsonObject) -> JsonObject:
        self.asked.append(params)
        return {"action": "accept", "content": {}}


def person(name: str) -> Person:
    return Person(Principal(name, SCOPES), session=name)
