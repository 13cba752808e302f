"""A server with extensions, started as `python extended_server.py legacy|modern [NAME]`, raw JSON-RPC over its pipes.

It declares the extension `com.example/tally`, whose method it answers with what it was sent; its tools have an
interface in the way of MCP Apps, and one of them is for that interface only. `seen` tells what came with the call.
Who sends it the notification `com.example/poke` is told, outside any call, what its parameter `say` holds.
A page is read with other fields if the request names some in `com.example/content`.
If its NAME is `bare`, it gives no sign that it uses extensions; `misnames` answers with another file than it was asked
for, and `unlists` fails to list its skills.
"""

import hashlib
import json
import sys
from typing import Any

Message = dict[str, Any]
OBJECT: Message = {"type": "object"}
ABOUT = {"name": "pdf-forms", "description": "Fill in PDF forms. Step by step.", "uri": "untouched"}
SKILL_TEXT = "---\n" + "".join(f"{key}: {value}\n" for key, value in ABOUT.items()) + "---\nOpen the form."
DIGEST = hashlib.sha256(SKILL_TEXT.encode()).hexdigest()
PAGE = "ui://board/main.html"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"


class ExtendedServer:
    def __init__(self, era: str, name: str) -> None:
        self.era = era
        self.name = name
        self.handshake: Message = {}
        self.notified: list[Message] = []
        self.called: list[str] = []
        self.listening: Message = {}

    def run(self) -> None:
        for line in sys.stdin.buffer:
            message = json.loads(line)
            method, params = message.get("method", ""), message.get("params", {})
            if "id" not in message:
                if "com.example/" in method:
                    self.notified.append({"method": method, "params": params})
                if method == "com.example/poke":
                    self.announce(params["say"])
                continue
            if method == "subscriptions/listen":
                self.listening = message
                continue
            if params.get("name") == "seen" and "tick" in params.get("arguments", {}):
                self.send(
                    {"jsonrpc": "2.0", "method": "notifications/com.example/tick", "params": {"deep": {"kept": 1}}}
                )
            result = self.answer(method, params)
            outcome = {"error": {"code": -32601, "message": f"unknown: {method}"}} if result is None else {}
            if result is not None:
                outcome = {"result": {"resultType": "complete", **result} if self.era == "modern" else result}
            self.send({"jsonrpc": "2.0", "id": message["id"], **outcome})

    def announce(self, params: Message) -> None:
        """Say something that belongs to no call."""
        if self.era == "modern":
            tag = {"io.modelcontextprotocol/subscriptionId": self.listening["id"]}
            params = {**params, "_meta": {**params.get("_meta", {}), **tag}}
        self.send({"jsonrpc": "2.0", "method": "notifications/com.example/tick", "params": params})

    def send(self, message: Message) -> None:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()

    def answer(self, method: str, params: Message) -> Message | None:
        if method == ("server/discover" if self.era == "modern" else "initialize"):
            self.handshake = params
            return self.greeting()
        if method == "tools/list":
            return {"tools": self.tools()}
        if method == "tools/call":
            return self.call(params["name"], params)
        if method == "resources/list":
            return {"resources": [{"uri": PAGE, "name": "main", "_meta": {"ui": {"prefersBorder": True}}}]}
        if method == "resources/templates/list":
            return {"resourceTemplates": []}
        if method == "resources/read" and params["uri"].startswith("skill://"):
            text = SKILL_TEXT if params["uri"].endswith("SKILL.md") else "changed since"
            uri = "skill://pdf-forms/unknown.md" if self.name == "misnames" else params["uri"]
            return {"contents": [{"uri": uri, "mimeType": "text/markdown", "text": text}]}
        if method == "resources/read":
            ui = {"csp": {"connectDomains": ["https://example.com"]}, "domain": "x"}
            page: Message = {"uri": params["uri"], "mimeType": "text/html;profile=mcp-app", "_meta": {"ui": ui}}
            page["text"] = f"<html>{self.name}</html>"
            return {"contents": [{**page, **params.get("com.example/content", {})}], "vendor": {"kept": 1}}
        if method == "skills/list" and self.name == "unlists":
            return None
        if method == "skills/list":
            large = [self.skill("large", 513)] if self.name == "large" else []
            ttl = 40_000 if self.name == "two" else 60_000
            return {"skills": [self.skill(), *large], "ttlMs": ttl, "cacheScope": "public"}
        if method == "skills/get" and self.name == "large":
            return {"skill": self.skill("large", 513)}
        if method == "skills/get" and params["uri"] == "skill://unlisted/SKILL.md":
            return {"skill": self.skill("unlisted")}
        if method == "resources/directory/read":
            return {"resources": [{"uri": f"{params['uri']}/SKILL.md", "name": "SKILL.md"}]}
        if method.startswith("com.example/"):
            return {"method": method, "server": self.name, "params": params, "vendor": {"kept": 1}}
        return None

    def greeting(self) -> Message:
        declared = {"com.example/tally": {"by": self.name}, "io.modelcontextprotocol/skills": {"directoryRead": True}}
        known: Message = {"tools": {}, "resources": {}, **({"extensions": declared} if self.name != "bare" else {})}
        info = {"name": self.name, "version": "1"}
        if self.era == "modern":
            return {"supportedVersions": ["2026-07-28"], "capabilities": known, "serverInfo": info}
        return {"protocolVersion": "2025-11-25", "capabilities": known, "serverInfo": info}

    def skill(self, folder: str = "pdf-forms", count: int = 2) -> Message:
        """One file is what it is said to be, the others are not."""
        files = [
            {"uri": f"skill://{folder}/{name}", "digest": f"sha256:{DIGEST}", "size": len(SKILL_TEXT)}
            for name in ("SKILL.md", "other.md", *(f"{number}.md" for number in range(2, count)))
        ]
        return {"uri": f"skill://{folder}/SKILL.md", "frontmatter": ABOUT, "resources": files, "vendor": 1}

    def tools(self) -> list[Message]:
        if self.name == "bare":
            return [{"name": "seen", "inputSchema": OBJECT}]
        opens = {"ui": {"resourceUri": PAGE, "vendor": 1}, "ui/resourceUri": PAGE, "com.example/mark": True}
        return [
            {
                "name": "seen",
                "inputSchema": OBJECT,
                "vendorField": {"kept": True},
                "annotations": {"readOnlyHint": True, "title": "Seen"},
            },
            {"name": "open", "inputSchema": OBJECT, "_meta": opens},
            {"name": "refresh", "inputSchema": OBJECT, "_meta": {"ui": {"visibility": ["app"]}}},
            {"name": f"only_{self.name}", "inputSchema": OBJECT},
        ]

    def call(self, name: str, params: Message) -> Message:
        self.called.append(name)
        seen = {
            "server": self.name,
            "called": self.called,
            "meta": params.get("_meta", {}),
            "handshake": self.handshake,
            "listening": self.listening.get("params", {}).get("_meta", {}).get(CAPABILITIES),
        }
        content: list[Message] = [{"type": "text", "text": name}]
        if name == "open":
            content.append({"type": "resource_link", "uri": PAGE, "name": "main"})
            plain = {"uri": PAGE, "mimeType": "text/plain", "text": "x"}
            content.append({"type": "resource", "resource": plain, "vendor": 1})
        if params.get("arguments", {}).get("page"):
            page = {"uri": PAGE, "mimeType": "text/html;profile=mcp-app", "text": f"<html>{self.name}</html>"}
            page |= params.get("com.example/content", {})
            content.append({"type": "resource", "resource": page})
        ui = {"_meta": {"ui": {"resourceUri": PAGE}, "com.example/mark": 2}} if name == "open" else {}
        return {
            "content": content,
            "structuredContent": {**seen, "notified": self.notified, "called": self.called},
            **ui,
        }


if __name__ == "__main__":
    ExtendedServer(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "plain").run()
