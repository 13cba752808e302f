"""A server with one resource, which refuses to report changes of any other; `python picky_watched.py modern|legacy`.

In the stateless era it refuses the whole subscription that names another resource. Its tool `release` gives it one tool
more, and it says so of its list and of the resource; `calls` tells what it was asked.
"""

import sys
from typing import Any

from stdio_peer import Echo, Message, Modern

URI = "test://watched"
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"


class Picky(Echo):
    """What both eras have in common."""

    def __init__(self) -> None:
        super().__init__()
        self.watched: list[str] = []
        self.more: list[Message] = []

    def on_list(self, number: Any, params: Message) -> None:
        self.answer(number, {"tools": [*self.tools, *self.more]})

    def on_request(self, message: Message) -> None:
        if message["method"] == "resources/list":
            self.answer(message["id"], {"resources": [{"uri": URI, "name": "watched"}]})
        elif message["method"] == "resources/templates/list":
            self.answer(message["id"], {"resourceTemplates": []})
        else:
            super().on_request(message)

    def on_call(self, number: Any, name: str, arguments: Message, meta: Message) -> None:
        if name == "release":
            self.more = [{"name": "grown", "inputSchema": {"type": "object"}}]
            self.say("notifications/tools/list_changed", {})
            if URI in self.watched:
                self.say("notifications/resources/updated", {"uri": URI})
        if name == "calls":
            self.answer(number, {"content": [], "structuredContent": {"requests": self.requests}})
        else:
            super().on_call(number, name, arguments, meta)

    def say(self, method: str, params: Message) -> None:
        self.notify(method, params)

    def refuse_resource(self, number: Any) -> None:
        self.refuse(number, -32602, "no such resource")


class PickyLegacy(Picky):
    """Refuses the one request."""

    def on_initialize(self, number: Any, params: Message) -> None:
        capabilities = {"tools": {"listChanged": True}, "resources": {"subscribe": True}}
        info = {"name": "picky", "version": "1"}
        version = params["protocolVersion"]
        self.answer(number, {"protocolVersion": version, "capabilities": capabilities, "serverInfo": info})

    def on_request(self, message: Message) -> None:
        if message["method"] != "resources/subscribe":
            super().on_request(message)
        elif message["params"]["uri"] == URI:
            self.watched = [URI]
            self.answer(message["id"], {})
        else:
            self.refuse_resource(message["id"])


class PickyModern(Picky, Modern):
    """Refuses the subscription, which ended the earlier one."""

    listening: Any = None

    def on_request(self, message: Message) -> None:
        if message["method"] == "server/discover":
            self.answer(
                message["id"],
                {
                    "supportedVersions": ["2026-07-28"],
                    "capabilities": {"tools": {"listChanged": True}, "resources": {"subscribe": True}},
                    "ttlMs": 0,
                    "cacheScope": "private",
                    "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "picky", "version": "1"}},
                },
            )
        elif message["method"] == "subscriptions/listen":
            self.listen(message["id"], message["params"]["notifications"])
        else:
            super().on_request(message)

    def listen(self, number: Any, notifications: Message) -> None:
        self.listening, self.watched = None, notifications.get("resourceSubscriptions", [])
        if set(self.watched) - {URI}:
            self.refuse_resource(number)
            return
        self.listening = number
        about = {"notifications": notifications, "_meta": {SUBSCRIPTION: number}}
        self.notify("notifications/subscriptions/acknowledged", about)

    def say(self, method: str, params: Message) -> None:
        if self.listening is not None:
            self.notify(method, {**params, "_meta": {SUBSCRIPTION: self.listening}})


if __name__ == "__main__":
    {"modern": PickyModern, "legacy": PickyLegacy}[sys.argv[1]]().run()
