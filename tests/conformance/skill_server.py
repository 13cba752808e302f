"""A server of the modern era with skills, as the conformance suite's `sep-2640-*` scenarios look for them.

Two skills, listed on two pages, in folders with folders in them; a third is served but not listed.
"""

import hashlib
from typing import ClassVar

from tests.conformance.wire_server import Message, Problem, serve

SKILLS = "io.modelcontextprotocol/skills"
CACHED: Message = {"ttlMs": 60_000, "cacheScope": "public"}
DESCRIPTIONS = {
    "pdf-forms": "Fill in PDF forms, step by step",
    "code-review": "Review a change before it is merged",
    "unlisted": "A skill that only those find who know of it",
}


def manifest(name: str) -> str:
    return f"---\nname: {name}\ndescription: {DESCRIPTIONS[name]}\n---\n\nSee references/GUIDE.md.\n"


FILES = {
    f"skill://{name}/{path}": text
    for name in DESCRIPTIONS
    for path, text in (("SKILL.md", manifest(name)), ("references/GUIDE.md", f"How to {name}.\n"))
}


def entry(name: str) -> Message:
    files = [
        {"uri": uri, "digest": f"sha256:{hashlib.sha256(text.encode()).hexdigest()}", "size": len(text.encode())}
        for uri, text in FILES.items()
        if uri.startswith(f"skill://{name}/")
    ]
    about = {"name": name, "description": DESCRIPTIONS[name]}
    return {"uri": f"skill://{name}/SKILL.md", "frontmatter": about, "resources": files}


def directory(uri: str) -> list[Message]:
    """The direct children of a folder; none where it is no folder."""
    below = [file.removeprefix(f"{uri}/") for file in FILES if file.startswith(f"{uri}/")]
    children: dict[str, Message] = {}
    for path in below:
        name, deeper, _ = path.partition("/")
        kind = "inode/directory" if deeper else "text/markdown"
        children[name] = {"uri": f"{uri}/{name}", "name": name, "mimeType": kind}
    return list(children.values())


class SkillServer:
    named: ClassVar[dict[str, str]] = {"tools/call": "name", "resources/read": "uri"}

    async def answer(self, method: str, params: Message) -> Message:
        match method:
            case "server/discover":
                known: Message = {"resources": {}, "tools": {}, "extensions": {SKILLS: {"directoryRead": True}}}
                info = {"io.modelcontextprotocol/serverInfo": {"name": "skills", "version": "1"}}
                return {"supportedVersions": ["2026-07-28"], "capabilities": known, "_meta": info, **CACHED}
            case "tools/list":
                return {"tools": [], **CACHED}
            case "resources/list":
                listed = [
                    {
                        "uri": f"skill://{name}/SKILL.md",
                        "name": name,
                        "description": words,
                        "mimeType": "text/markdown",
                    }
                    for name, words in DESCRIPTIONS.items()
                ]
                return {"resources": listed[:2], **CACHED}
            case "skills/list":
                if params.get("cursor"):
                    return {"skills": [entry("code-review")], **CACHED}
                return {"skills": [entry("pdf-forms")], "nextCursor": "2", **CACHED}
            case "skills/get":
                name = params["uri"].removeprefix("skill://").removesuffix("/SKILL.md")
                if name not in DESCRIPTIONS:
                    raise Problem(-32602, "No such skill", {"uri": params["uri"]})
                return {"skill": entry(name), **CACHED}
            case "resources/read":
                if params["uri"] not in FILES:
                    raise Problem(-32602, "No such resource", {"uri": params["uri"]})
                content = {"uri": params["uri"], "mimeType": "text/markdown", "text": FILES[params["uri"]]}
                return {"contents": [content], **CACHED}
            case "resources/directory/read":
                if not (children := directory(params["uri"])):
                    raise Problem(-32602, "Not a directory", {"uri": params["uri"]})
                return {"resources": children, **CACHED}
            case _:
                raise Problem(-32601, f"Method not found: {method}")


if __name__ == "__main__":
    serve(SkillServer())
