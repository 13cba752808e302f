"""A record in the official registry's `server.json` format: its schema, parsing it, and creating one.

Data without a field in that format (category, tags, author, tools, the long description) goes into the part of `_meta`
that is reserved for publishers, so that any other registry can carry it. Pure; knows no store.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import jsonschema_rs

from wicket_mcp.errors import BadArguments
from wicket_mcp.model import JsonObject, as_list, as_object, as_text
from wicket_mcp.schema.signature import first_sentence
from wicket_mcp.telemetry.log import clean

PUBLISHER = "io.modelcontextprotocol.registry/publisher-provided"
OFFICIAL = "io.modelcontextprotocol.registry/official"
FORM = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
NAME_PATTERN = "^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$"
MAX_DESCRIPTION = 100
MAX_BODY = 64 * 1024
MAX_TOOLS = 500

_FORGES = {
    "github.com": "io.github",
    "gitlab.com": "com.gitlab",
    "bitbucket.org": "org.bitbucket",
    "codeberg.org": "org.codeberg",
}
_RANGE = re.compile(r"^[\^~<>=*]|(^|\.)[xX*](\.|$)|\s|\|\|")
_SEMVER = re.compile(r"v?(\d+)(?:\.(\d+))?(?:\.(\d+))?(?:\.\d+)*(?:-([0-9A-Za-z.-]+))?(?:\+.*)?")

_TEXT: JsonObject = {"type": "string"}
_ADDRESS: JsonObject = {"type": "string", "pattern": r"^(https?://[^\s]+|\{[a-zA-Z_][a-zA-Z0-9_]*\}[^\s]*)$"}
_OBJECTS: JsonObject = {"type": "array", "items": {"type": "object"}}


def _transport(*kinds: str) -> JsonObject:
    return {
        "type": "object",
        "properties": {"type": {"enum": list(kinds)}, "url": _ADDRESS, "headers": _OBJECTS},
        "required": ["type"] if "stdio" in kinds else ["type", "url"],
    }


SCHEMAS: dict[str, JsonObject] = {
    "Repository": {
        "type": "object",
        "properties": {"url": _TEXT, "source": _TEXT, "id": _TEXT, "subfolder": _TEXT},
        "required": ["url", "source"],
    },
    "Package": {
        "type": "object",
        "properties": {
            "registryType": {**_TEXT, "description": "npm, pypi, oci, nuget, mcpb, …", "minLength": 1},
            "registryBaseUrl": _TEXT,
            "identifier": {**_TEXT, "minLength": 1, "maxLength": 500},
            "version": {**_TEXT, "minLength": 1, "maxLength": 255, "not": {"const": "latest"}},
            "runtimeHint": _TEXT,
            "fileSha256": {**_TEXT, "pattern": "^[a-f0-9]{64}$"},
            "transport": _transport("stdio", "streamable-http", "sse"),
            "runtimeArguments": _OBJECTS,
            "packageArguments": _OBJECTS,
            "environmentVariables": _OBJECTS,
        },
        "required": ["registryType", "identifier", "transport"],
    },
    "ServerDetail": {
        "type": "object",
        "description": "A server as its publisher describes it (server.json).",
        "properties": {
            "$schema": _TEXT,
            "name": {
                **_TEXT,
                "pattern": NAME_PATTERN,
                "minLength": 3,
                "maxLength": 200,
                "description": "Reverse-DNS namespace, a slash, and a name.",
            },
            "title": {**_TEXT, "minLength": 1, "maxLength": 100},
            "description": {**_TEXT, "minLength": 1, "maxLength": MAX_DESCRIPTION},
            "version": {**_TEXT, "minLength": 1, "maxLength": 255},
            "websiteUrl": _TEXT,
            "repository": {"$ref": "#/components/schemas/Repository"},
            "icons": _OBJECTS,
            "packages": {"type": "array", "items": {"$ref": "#/components/schemas/Package"}, "maxItems": 100},
            "remotes": {"type": "array", "items": _transport("streamable-http", "sse"), "maxItems": 100},
            "_meta": {"type": "object", "properties": {PUBLISHER: {"type": "object"}}},
        },
        "required": ["name", "description", "version"],
    },
}

_validator: Any = jsonschema_rs.validator_for(
    {"$ref": "#/components/schemas/ServerDetail", "components": {"schemas": SCHEMAS}}
)


def check(body: Any) -> JsonObject:
    """`body` if it is a server.json that can be published. Raises BadArguments, naming the field."""
    problem: Any = next(_validator.iter_errors(body), None)
    if problem is not None:
        where = ".".join(str(part) for part in problem.instance_path) or "the document"
        raise BadArguments(f"Not a server.json: {where}: {clean(problem.message, 200)}.", hint="Correct that field.")
    for version in (body["version"], *(package.get("version", "1") for package in as_list(body.get("packages")))):
        if version == "latest" or _RANGE.search(version):
            raise BadArguments(f"'{version}' is not one version.", hint="Name one, such as 1.0.2.")
    return body


@dataclass(frozen=True, slots=True)
class Registration:
    """The input of `register_server`."""

    name: str
    description: str
    repository_url: str
    category: str
    tags: tuple[str, ...]
    docker_image: str = ""
    npm_package: str = ""


def from_registration(registration: Registration, author: str) -> JsonObject:
    """The record for a registration. Raises BadArguments."""
    source, namespace, name = _locate(registration.repository_url)
    packages = [
        {"registryType": kind, "identifier": identifier, "transport": {"type": "stdio"}}
        for kind, identifier in (("npm", registration.npm_package), ("oci", registration.docker_image))
        if identifier
    ]
    return check(
        {
            "$schema": FORM,
            "name": f"{namespace}/{name}",
            "title": registration.name[:100],
            "description": first_sentence(registration.description, MAX_DESCRIPTION) or registration.name[:100],
            "version": "1.0.0",
            "repository": {"url": registration.repository_url, "source": source},
            "packages": packages,
            "_meta": {
                PUBLISHER: {
                    "category": registration.category,
                    "tags": list(registration.tags),
                    "author": author or namespace.rpartition(".")[2],
                    "description": registration.description,
                }
            },
        }
    )


def _locate(url: str) -> tuple[str, str, str]:
    """The source, namespace and name for a record, from a repository's address."""
    try:
        split = urlsplit(url)
        host = (split.hostname or "").lower()
        parts = [part.removesuffix(".git") for part in split.path.split("/") if part]
    except ValueError:
        split, host, parts = None, "", []
    if split is None or split.scheme != "https" or "." not in host or not parts:
        raise BadArguments(
            "repository_url is not the address of a repository.", hint="Give one such as https://github.com/user/repo."
        )
    name = _plain(parts[-1])
    if host in _FORGES:
        if len(parts) < 2:
            raise BadArguments("repository_url names no repository.", hint=f"It is https://{host}/user/repo.")
        return host.partition(".")[0], f"{_FORGES[host]}.{_plain(parts[0])}", name
    return "other", reversed_domain(host), name


def reversed_domain(domain: str) -> str:
    return ".".join(reversed(domain.lower().split(".")))


def domain_of(name: str) -> str | None:
    """The domain whose owner may publish under this name; None for accounts at a forge."""
    namespace = name.partition("/")[0].lower()
    if any(namespace.startswith(f"{prefix}.") for prefix in _FORGES.values()):
        return None
    return reversed_domain(namespace)


def _plain(text: str) -> str:
    return re.sub(r"[^a-zA-Z0-9.-]+", "-", text).strip("-.") or "server"


def publisher_meta(body: JsonObject) -> JsonObject:
    """The publisher's own part of `_meta`."""
    return as_object(as_object(body.get("_meta")).get(PUBLISHER))


def category(body: JsonObject) -> str:
    return as_text(publisher_meta(body).get("category"))


def tags(body: JsonObject) -> tuple[str, ...]:
    return tuple(tag for tag in as_list(publisher_meta(body).get("tags")) if isinstance(tag, str))


def author(body: JsonObject) -> str:
    return as_text(publisher_meta(body).get("author")) or as_text(body.get("name")).partition("/")[0]


def title(body: JsonObject) -> str:
    return as_text(body.get("title")) or as_text(body.get("name")).partition("/")[2]


def long_description(body: JsonObject) -> str:
    return as_text(publisher_meta(body).get("description")) or as_text(body.get("description"))


def tools(body: JsonObject) -> dict[str, str]:
    """The tools that the publisher names, and their descriptions: a table, or a list of names."""
    named: Any = publisher_meta(body).get("tools")
    if isinstance(named, dict):
        pairs: Iterable[tuple[str, Any]] = as_object(named).items()
    else:
        pairs = ((name, "") for name in as_list(named) if isinstance(name, str))
    return {name: as_text(words) for name, words in list(pairs)[:MAX_TOOLS]}


def package(body: JsonObject, kind: str) -> str | None:
    """The identifier of the record's package of this kind."""
    packages = (as_object(entry) for entry in as_list(body.get("packages")))
    return next((as_text(entry.get("identifier")) for entry in packages if entry.get("registryType") == kind), None)


def remotes(body: JsonObject) -> list[str]:
    """Addresses that can be used directly: those with a variable need the user's input first."""
    addresses = [as_text(as_object(entry).get("url")) for entry in as_list(body.get("remotes"))]
    return [address for address in addresses if address.startswith(("https://", "http://")) and "{" not in address]


def newest(versions: Sequence[str]) -> int:
    """Which of these is the latest, given in order of publication: by semantic version if all have one."""
    keys = [_semantic(version) for version in versions]
    if not keys or any(key is None for key in keys):
        return len(versions) - 1
    return max(range(len(keys)), key=lambda at: (keys[at], at))


def _semantic(version: str) -> Any:
    match = _SEMVER.fullmatch(version)
    if match is None:
        return None
    numbers = tuple(int(part or 0) for part in match.group(1, 2, 3))
    before = match[4]
    if before is None:
        return numbers, 1, ()
    parts = tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in before.split("."))
    return numbers, 0, parts
