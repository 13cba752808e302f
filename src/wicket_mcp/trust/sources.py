"""Labels of results, by the names of servers, tools and fields: who may have written them, and who may read them.

A table of kinds, first match wins, over the words of a tool's name and then of its server's. A result of no known kind
counts as untrusted and not private, which is the cautious choice. Labels are joined, never weakened: a result's own
statements (`_meta`) can only make them stricter. Pure; the kinds were chosen to cover the captured servers
(`tests/trust`).
"""

import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache

import msgspec

from wicket_mcp.model import JsonObject, Tool, as_list, as_object

META_IFC = "ifc"
META_TRUST = "io.modelcontextprotocol/trust-annotations"
_WRITTEN = ("untrusted", "maliciousActivityHint", "openWorldHint")
"""Statements that others may have written a result."""
_SECRET = ("sensitive", "privateHint")
"""Statements that not everyone may read it."""


class Labels(msgspec.Struct, frozen=True):
    """Integrity and confidentiality of a value, and a description of it."""

    untrusted: bool
    private: bool
    kind: str = ""

    @property
    def ifc(self) -> JsonObject:
        """The labels as a result states them in `_meta.ifc`."""
        integrity = {"integrity": "untrusted"} if self.untrusted else {}
        return {**integrity, "confidentiality": "private"} if self.private else integrity


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_COMPUTES = _words(
    "get current now today convert calculate calculator calculation time timezone date uuid random number math sum add "
    "subtract multiply divide sequentialthinking sequential thinking think"
)
"""A tool whose name has only these words returns nothing that a person wrote."""
_COMPUTED = Labels(untrusted=False, private=False, kind="a calculation")
_KINDS: tuple[tuple[Labels, frozenset[str]], ...] = (
    (
        Labels(untrusted=True, private=True, kind="mail"),
        _words("email emails mail mails gmail inbox imap outlook smtp"),
    ),
    (
        Labels(untrusted=True, private=True, kind="messages"),
        _words(
            "message messages channel channels chat chats conversation conversations thread threads dm slack telegram"
        ),
    ),
    (
        Labels(untrusted=True, private=True, kind="a calendar"),
        _words("calendar calendars meeting meetings appointment appointments freebusy"),
    ),
    (
        Labels(untrusted=True, private=True, kind="contacts"),
        _words("contact contacts profile profiles people user users member members viewer"),
    ),
    (
        Labels(untrusted=True, private=True, kind="an account"),
        _words("account accounts balance transactions invoice invoices order orders payment payments hubspot"),
    ),
    (
        Labels(untrusted=True, private=False, kind="an issue"),
        _words("issue issues pr comment comments discussion discussions review reviews ticket tickets jira merge pull"),
    ),
    (
        Labels(untrusted=True, private=False, kind="a web page"),
        _words(
            "web webpage webpages url urls fetch crawl scrape browser page pages navigate site sitemap brave tavily "
            "exa duckduckgo firecrawl puppeteer playwright wikipedia news rss feed arxiv papers paper map research"
        ),
    ),
    (
        Labels(untrusted=True, private=True, kind="a file"),
        _words(
            "file files directory directories folder drive document documents doc docs note notes memory graph "
            "spreadsheet sheet workbook presentation slide filesystem excel word powerpoint notion clipboard "
            "diff commit git repository code content contents pdf"
        ),
    ),
    (
        Labels(untrusted=True, private=True, kind="a database"),
        _words(
            "query sql database databases table tables record records collection rows aggregate redis "
            " sqlite postgres mongodb airtable clickhouse motherduck elasticsearch documentdb valkey neo4j cypher"
        ),
    ),
    (
        Labels(untrusted=True, private=False, kind="a log"),
        _words("log logs event events trace traces alert alerts console metrics"),
    ),
)
_NAME_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_UNKNOWN = Labels(untrusted=True, private=False)

OTHERS_WRITE = _words(
    "body content contents text message comment comments description snippet html markdown notes bio caption excerpt "
    "abstract transcript reply review feedback"
)
"""Fields with text that a person wrote, however short it is."""


@lru_cache(maxsize=4096)
def kind_of(server: str, tool: str) -> Labels:
    """The labels of a tool's results, from names only."""
    for name in (tool, server):
        words = {word.lower() for word in _NAME_WORD.findall(name)}
        if words and words <= _COMPUTES and words & _COMPUTES - {"get", "current", "number", "add"}:
            return _COMPUTED
        for labels, known in _KINDS:
            if not words.isdisjoint(known):
                return labels
    return _UNKNOWN


def labels_of(tool: Tool, body: JsonObject, trusted: Sequence[str]) -> Labels:
    """The labels of one result: from the table, then from the configuration's trust, then from the result itself."""
    kind = kind_of(tool.server, tool.own_name or tool.name)
    # `openWorldHint: false` means that a tool stays in its own domain, not that its content is trusted: file servers
    # set it.
    untrusted = kind.untrusted and not any(fnmatchcase(tool.own_key, pattern) for pattern in trusted)
    private = kind.private
    for stated in _statements(body):
        ifc = as_object(stated.get(META_IFC))
        untrusted = untrusted or ifc.get("integrity") == "untrusted" or any(stated.get(key) is True for key in _WRITTEN)
        private = private or ifc.get("confidentiality") == "private" or any(stated.get(key) is True for key in _SECRET)
    return Labels(untrusted, private, kind.kind)


def _statements(body: JsonObject) -> Iterator[JsonObject]:
    """What a result says about its data, as a whole and in its parts; none takes back what another says."""
    meta = as_object(body.get("_meta"))
    yield from (meta, as_object(meta.get(META_TRUST)), as_object(body.get("annotations")))
    for name in ("content", "contents", "messages", "resource", "result"):
        part = body.get(name)
        for block in as_list(part) if isinstance(part, list) else (part,):
            if isinstance(block, dict):
                yield from _statements(as_object(block))


def trusted_fields(tool: str, trusted: Sequence[str]) -> frozenset[str]:
    """The fields of a tool's results that the configuration trusts: `server.tool:field`."""
    pairs = (pattern.rpartition(":") for pattern in trusted if ":" in pattern)
    return frozenset(field for name, _, field in pairs if fnmatchcase(tool, name))
