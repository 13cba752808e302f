"""A server that says what it is told to, with fields that nobody knows: `python mirror_server.py legacy|modern`.

A request brings in the field SAY what to add to the answer: to its top (`result`), to what is inside it (`inner`), to
its `_meta`; which notifications to send before it (`notify`), what to ask the client first (`ask`), and which `error`
to give instead. The answer tells, under HEARD, which fields and which `_meta` nobody knows came with the request, and
under ANSWERED what the client answered.
"""

import json
import sys
from pathlib import Path
from typing import Any

Message = dict[str, Any]
PREFIX = "com.example/"
SAY, HEARD, ANSWERED = f"{PREFIX}say", f"{PREFIX}heard", f"{PREFIX}answered"
KEPT: Message = {f"{PREFIX}of-entry": {"deep": [1, {"kept": None}]}}
WATCHED = "mirror://watched"
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
CAPABILITIES: Message = {
    "tools": {},
    "resources": {"subscribe": True},
    "prompts": {},
    "completions": {},
    "logging": {},
    "extensions": {"io.modelcontextprotocol/skills": {}},
    "experimental": {f"{PREFIX}trial": {"kept": 1}},
    f"{PREFIX}capability": {"kept": [2]},
}
LISTS: Message = {
    "tools": [{"name": "mirror", "inputSchema": {"type": "object"}, **KEPT}],
    "resources": [{"uri": WATCHED, "name": "watched", **KEPT}],
    "resourceTemplates": [{"uriTemplate": "mirror://{name}", "name": "any", **KEPT}],
    "prompts": [{"name": "greet", **KEPT}],
    "skills": [{"uri": "skill://x/SKILL.md", "frontmatter": {"name": "x"}, "resources": "dynamic", **KEPT}],
}


def MIRROR(era: str, beside: Message | None = None) -> Message:  # noqa: N802  (reads as the constant that it nearly is)
    """Its configuration; `beside` are fields beside the entries of its lists, by the key of the entries,
    and those of its greeting, as `server`.
    """
    return {"command": sys.executable, "args": [str(Path(__file__)), era, json.dumps(beside or {})]}


def unknown(fields: Message) -> Message:
    return {key: value for key, value in fields.items() if key.startswith(PREFIX) and key != SAY}


class Mirror:
    def __init__(self, era: str, beside: Message) -> None:
        self.modern = era == "modern"
        self.beside = beside
        self.listening: Any = None
        self.of_task: Message = {}

    def run(self) -> None:
        while message := self.receive():
            method, params = message.get("method", ""), message.get("params", {})
            if "id" not in message:
                continue
            if method == "subscriptions/listen":
                self.listening = message["id"]
                tag = {SUBSCRIPTION: self.listening}
                self.notify("subscriptions/acknowledged", {"notifications": {}, "_meta": tag})
                continue
            result = self.greet(method) or self.list(method, params) or self.answer(method, params)
            outcome: Message = {"error": {"code": -32601, "message": "unknown", **KEPT}}
            if "error" in params.get(SAY, {}):
                outcome = {"error": params[SAY]["error"]}
            elif result is not None:
                outcome = {"result": {"resultType": "complete", **result} if self.modern else result}
            self.send({"jsonrpc": "2.0", "id": message["id"], **outcome})

    def receive(self) -> Message:
        line = sys.stdin.buffer.readline()
        return json.loads(line) if line else {}

    def send(self, message: Message) -> None:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()

    def notify(self, event: str, params: Message) -> None:
        self.send({"jsonrpc": "2.0", "method": f"notifications/{event}", "params": params})

    def greet(self, method: str) -> Message | None:
        about: Message = {"capabilities": CAPABILITIES, "serverInfo": {"name": "mirror", "version": "1"}}
        about |= self.beside.get("server", {})
        if method == "server/discover" and self.modern:
            tasks: Message = {"extensions": {"io.modelcontextprotocol/tasks": {}, **CAPABILITIES["extensions"]}}
            return {**about, "supportedVersions": ["2026-07-28"], "capabilities": {**CAPABILITIES, **tasks}}
        if method == "initialize" and not self.modern:
            return {**about, "protocolVersion": "2025-11-25"}
        return None

    def list(self, method: str, params: Message) -> Message | None:
        kinds = {"resources/templates/list": "resourceTemplates"}
        kind = kinds.get(method, method.removesuffix("/list"))
        if not method.endswith("/list") or kind not in LISTS:
            return None
        say: Message = params.get(SAY, {})
        heard = {HEARD: {"params": unknown(params), "meta": unknown(params.get("_meta", {}))}} if say else {}
        hidden: Message = {"name": "hidden", "uri": "mirror://hidden", "uriTemplate": "hidden://{x}", "inputSchema": {}}
        entries = [*([hidden] if say else []), *({**entry, **say.get("inner", {})} for entry in LISTS[kind])]
        meta = {"_meta": say["meta"]} if say.get("meta") else {}
        return {**self.beside.get(kind, {}), kind: entries, **heard, **say.get("result", {}), **meta}

    def answer(self, method: str, params: Message) -> Message | None:
        say: Message = params.get(SAY, {})
        answered: Message = {}
        if "ask" in say:
            replies: Any = params.get("inputResponses")
            if self.modern and replies is None:
                return {"resultType": "input_required", "inputRequests": {"q": say["ask"]}, "requestState": "s"}
            answered = {ANSWERED: replies["q"] if self.modern else self.ask(say["ask"])}
        for event, fields in say.get("notify", ()):
            self.tell(event, fields, params)
        body = self.body(method, params, say.get("inner", {}))
        if body is None:
            return None
        heard = {HEARD: {"params": unknown(params), "meta": unknown(params.get("_meta", {}))}}
        meta = {"_meta": say["meta"]} if say.get("meta") else {}
        return {**body, **answered, **heard, **say.get("result", {}), **meta}

    def ask(self, question: Message) -> Message:
        self.send({"jsonrpc": "2.0", "id": "mine", **question})
        while (message := self.receive()).get("id") != "mine":
            pass
        return message["result"]

    def tell(self, event: str, fields: Message, params: Message) -> None:
        if event == "progress":
            fields = {**fields, "progressToken": params["_meta"]["progressToken"], "progress": 1}
        elif event == "message":
            fields = {**fields, "level": "error", "data": "x"}
        elif event == "resources/updated" or event.endswith("/list_changed"):
            fields = {**fields, **({"uri": WATCHED} if event == "resources/updated" else {})}
            if self.modern:
                fields["_meta"] = {**fields.get("_meta", {}), SUBSCRIPTION: self.listening}
        self.notify(event, fields)

    def body(self, method: str, params: Message, inner: Message) -> Message | None:
        text = {"type": "text", "text": "x", **inner}
        if method == "tools/call" and params.get(SAY, {}).get("task"):
            self.of_task = inner
            return {"resultType": "task", **self.task(inner)}
        if method in ("tasks/get", "tasks/update", "tasks/cancel"):
            return self.task(inner if SAY in params else self.of_task)
        bodies: Message = {
            "tools/call": {"content": [text]},
            "resources/read": {"contents": [{"uri": params.get("uri"), "text": "x", **inner}]},
            "prompts/get": {"messages": [{"role": "user", "content": text, **inner}]},
            "completion/complete": {"completion": {"values": [], **inner}},
            "resources/subscribe": {},
            "logging/setLevel": {},
        }
        return bodies.get(method)

    def task(self, inner: Message) -> Message:
        times = {"createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z", "ttlMs": 60_000}
        return {"taskId": "t", "status": "working", **times, **inner}


if __name__ == "__main__":
    Mirror(sys.argv[1], json.loads(sys.argv[2])).run()
