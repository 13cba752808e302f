"""A legacy server on pipes with one resource: its client hears of every `echo`, once it has subscribed."""

from stdio_peer import Echo, Message

URI = "test://watched"


class Watched(Echo):
    """See the module's docstring."""

    subscribed = False

    def on_initialize(self, number: object, params: Message) -> None:
        capabilities = {"tools": {}, "resources": {"subscribe": True}}
        info = {"name": "watched", "version": "1"}
        version = params["protocolVersion"]
        self.answer(number, {"protocolVersion": version, "capabilities": capabilities, "serverInfo": info})

    def on_request(self, message: Message) -> None:
        number = message["id"]
        if message["method"] == "resources/list":
            self.answer(number, {"resources": [{"uri": URI, "name": "watched"}]})
        elif message["method"] == "resources/templates/list":
            self.answer(number, {"resourceTemplates": []})
        elif message["method"] == "resources/subscribe":
            self.subscribed = True
            self.answer(number, {})
        else:
            super().on_request(message)

    def on_call(self, number: object, name: str, arguments: Message, meta: Message) -> None:
        super().on_call(number, name, arguments, meta)
        if name == "echo" and self.subscribed:
            self.notify("notifications/resources/updated", {"uri": URI})


if __name__ == "__main__":
    Watched().run()
