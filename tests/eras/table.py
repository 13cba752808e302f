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
    Feature("timeout", "timeout of the upstream, which gets a cancellation"),
    Feature("disconnect", "client leaves during a call"),
    Feature("elicitation-form", "elicitation, form", BOTH),
    Feature("elicitation-url", "elicitation, URL", BOTH),
    Feature("elicitation-rounds", "elicitation, several rounds in one call", BOTH),
    Feature("elicitation-withdrawn", "elicitation withdrawn by the upstream"),
    Feature("elicitation-prompt", "elicitation while a prompt is made"),
    Feature("questions", "several questions of different kinds at once", BOTH),
    Feature("sampling", "sampling", BOTH),
    Feature("roots", "roots"),
    Feature("unsupported", "question of a kind that the client does not support", BOTH),
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
    Feature("everything-elicitation-url", "elicitation, URL: as a question, and by an error"),
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
        "In the legacy protocol over HTTP, a dropped connection does not cancel a call: the call continues. It is "
        "cancelled when the client ends its session, as a client does when it shuts down properly.",
        client="legacy",
        near="http",
    ),
    Named(
        "disconnect",
        "When a client closes Wicket's input, its calls are finished, for at most 30 seconds. If the client then "
        "terminates Wicket, as the protocol's shutdown says, they are cancelled.",
        near="stdio",
    ),
    Named(
        "elicitation-withdrawn",
        "A modern server asks by ending its answer, so it has no open question to withdraw.",
        upstream="modern",
    ),
    Named(
        "elicitation-withdrawn",
        "A modern client cannot be told that a question was withdrawn. Its answer comes too late, and it gets the "
        "result of the call, which continued.",
        client="modern",
        upstream="legacy",
    ),
    Named(
        "logging",
        "Over stdio, a legacy server does not say which call a message belongs to. The message goes to the client of "
        "the only call under way. If there are several, only the gateway's owner sees it, in the audit and on the "
        'dashboard (unless the server has `isolation = "session"`).',
        upstream="legacy",
        far="stdio",
    ),
    Named(
        "caching",
        "The legacy era has no caching hints, so they are left out.",
        client="legacy",
    ),
    Named(
        "caching",
        "A legacy server gives no hints, so its resources are marked as private and not to be cached.",
        client="modern",
        upstream="legacy",
    ),
    Named(
        "tasks",
        "docs/extensions.md has the table for servers with tasks. A server without tasks refuses a tool that runs only "
        "as a task. For a legacy client of a modern server, Wicket declares tasks and waits.",
    ),
    Named(
        "everything-elicitation-url",
        "The modern era does not have the error that asks to visit a page (-32042). The client is asked by "
        "`input_required` instead, and its repeated request is the second attempt.",
        client="modern",
    ),
    Named("everything-tasks", "Wicket calls the tool that runs only as a task as a task, and waits for the result."),
)

LINKS = tuple(Link(*one) for one in product(ERAS, ERAS, TRANSPORTS, TRANSPORTS))
EVERYTHING_LINKS = tuple(link for link in LINKS if link.upstream == "legacy")


def tries(features: tuple[Feature, ...]) -> list[tuple[str, Dialect]]:
    """Each feature in each vocabulary that it is tried through; with a link, one is a cell and one test."""
    return [(feature.key, dialect) for feature in features for dialect in feature.dialects]


def notes(feature: str, link: Link) -> tuple[int, ...]:
    """The numbers, counted from 1, of what is to be said about a cell."""
    return tuple(number for number, named in enumerate(NAMED, 1) if named.covers(feature, link))
