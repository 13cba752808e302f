"""The matrix of eras as data: its features, its cells, and those cells that need a word of explanation.

Tests (`test_matrix.py`) and the page docs/eras.md (`document.py`) are made from this and nothing else.
"""

from dataclasses import dataclass
from itertools import product
from typing import Literal, TypeAlias

Era: TypeAlias = Literal["legacy", "modern"]
Transport: TypeAlias = Literal["stdio", "http"]
Dialect: TypeAlias = Literal["flat", "native"]

ERAS: tuple[Era, ...] = ("legacy", "modern")
TRANSPORTS: tuple[Transport, ...] = ("stdio", "http")


@dataclass(frozen=True, order=True)
class Link:
    """Who speaks to whom over what: a client of Wicket, and the server behind it."""

    client: Era
    upstream: Era
    near: Transport
    """How the client speaks to Wicket."""
    far: Transport
    """How Wicket speaks to the upstream."""

    def __str__(self) -> str:
        return f"{self.client}-{self.upstream}-{self.near}-{self.far}"


@dataclass(frozen=True)
class Feature:
    """A row: something that must work between any two. `dialects` are the vocabularies it is tried through."""

    key: str
    title: str
    dialects: tuple[Dialect, ...] = ("flat",)


BOTH: tuple[Dialect, ...] = ("flat", "native")

FEATURES = (
    Feature("call", "plain call, failed call, refused call", BOTH),
    Feature("content", "structured and rich content", BOTH),
    Feature("progress", "progress", BOTH),
    Feature("cancellation", "cancellation by the client", BOTH),
    Feature("timeout", "timeout of the upstream, which is told to cancel"),
    Feature("disconnect", "client leaves during a call"),
    Feature("elicitation-form", "elicitation, form", BOTH),
    Feature("elicitation-url", "elicitation, URL", BOTH),
    Feature("elicitation-rounds", "elicitation, several rounds in one call", BOTH),
    Feature("elicitation-withdrawn", "elicitation withdrawn by the upstream"),
    Feature("elicitation-prompt", "elicitation while a prompt is made"),
    Feature("questions", "several questions of different kinds at once", BOTH),
    Feature("sampling", "sampling", BOTH),
    Feature("roots", "roots"),
    Feature("unsupported", "question that the client did not declare", BOTH),
    Feature("logging", "logging", BOTH),
    Feature("tools-changed", "list_changed of tools"),
    Feature("resources-changed", "list_changed of resources"),
    Feature("prompts-changed", "list_changed of prompts"),
    Feature("resources", "resources: list, read, not found"),
    Feature("templates", "resource templates: list, read"),
    Feature("subscription", "updates of a resource: subscribe, listen"),
    Feature("prompts", "prompts: list, get"),
    Feature("completion", "completion for prompts and templates"),
    Feature("pagination", "pagination of every list"),
    Feature("caching", "caching hints"),
    Feature("tasks", "tasks"),
)

EVERYTHING = (
    Feature("everything-call", "plain call, with structured and rich content"),
    Feature("everything-progress", "progress", BOTH),
    Feature("everything-elicitation-form", "elicitation, form", BOTH),
    Feature("everything-elicitation-url", "elicitation, URL: asked for, and demanded by an error"),
    Feature("everything-sampling", "sampling", BOTH),
    Feature("everything-roots", "roots"),
    Feature("everything-resources", "resources and templates"),
    Feature("everything-subscription", "updates of a resource"),
    Feature("everything-prompts", "prompts and completion"),
    Feature("everything-tasks", "tasks"),
)
"""What `@modelcontextprotocol/server-everything`, a published server of the legacy era, is tried with."""


@dataclass(frozen=True)
class Named:
    """Cells in which the protocol gives something else than the row's title says; each has a test of what it says."""

    feature: str
    reason: str
    client: Era | None = None
    upstream: Era | None = None
    near: Transport | None = None
    far: Transport | None = None

    def covers(self, feature: str, link: Link) -> bool:
        wanted = (self.client, self.upstream, self.near, self.far)
        found = (link.client, link.upstream, link.near, link.far)
        return feature == self.feature and all(w is None or w == f for w, f in zip(wanted, found, strict=True))


NAMED = (
    Named(
        "disconnect",
        "To a legacy HTTP server a dropped connection means nothing, by the protocol: the call goes on. It is "
        "cancelled when the client ends its session, as a client does that leaves in good order.",
        client="legacy",
        near="http",
    ),
    Named(
        "disconnect",
        "A client that closes Wicket's input has its calls finished, for 30 seconds at most; when it then tells Wicket "
        "to terminate, as the protocol's shutdown says, they are cancelled.",
        near="stdio",
    ),
    Named(
        "elicitation-withdrawn",
        "A modern server asks by ending its answer: it has no question under way that it could take back.",
        upstream="modern",
    ),
    Named(
        "elicitation-withdrawn",
        "A modern client that holds the question cannot be told; its answer comes too late, and the call, which went "
        "on, gives its result.",
        client="modern",
        upstream="legacy",
    ),
    Named(
        "logging",
        "A legacy server does not say over stdio which call a message belongs to: it goes to the one call under way, "
        'and to nobody when there are several (unless the server has `isolation = "session"`).',
        upstream="legacy",
        far="stdio",
    ),
    Named(
        "caching",
        "The legacy era has no caching hints: they are left out.",
        client="legacy",
    ),
    Named(
        "caching",
        "A legacy server gives no hints: its resources are private and not to be kept.",
        client="modern",
        upstream="legacy",
    ),
    Named(
        "tasks",
        "docs/extensions.md has the cells of servers with tasks. A tool that runs only as a task, of a server that "
        "makes none, is refused by its server; for a legacy client of a modern server Wicket declares tasks and waits.",
    ),
    Named(
        "everything-elicitation-url",
        "The error that demands a visit to a page (-32042) is gone from the modern era: the client is asked by "
        "`input_required` instead, and its repeated request is the second try.",
        client="modern",
    ),
    Named("everything-tasks", "Its tool that runs only as a task is called as one; Wicket waits for the result."),
)

LINKS = tuple(Link(*one) for one in product(ERAS, ERAS, TRANSPORTS, TRANSPORTS))
EVERYTHING_LINKS = tuple(link for link in LINKS if link.upstream == "legacy")


def tries(features: tuple[Feature, ...]) -> list[tuple[str, Dialect]]:
    """Each feature in each vocabulary that it is tried through; with a link, one is a cell and one test."""
    return [(feature.key, dialect) for feature in features for dialect in feature.dialects]


def notes(feature: str, link: Link) -> tuple[int, ...]:
    """The numbers, counted from 1, of what is to be said about a cell."""
    return tuple(number for number, named in enumerate(NAMED, 1) if named.covers(feature, link))
