"""Writes docs/conformance.md from differences.toml: python -m tests.conformance.document"""

from collections.abc import Iterable, Iterator

from tests.conformance.differences import Entry, Known, known
from tests.conformance.extension_scenarios import SKILLS, SKILLS_CLIENT, TASKS
from tests.conformance.suite import REVISIONS, ROOT

FILE = ROOT / "docs" / "conformance.md"

INTRODUCTION = """\
# Conformance

The tests run the official suite, `@modelcontextprotocol/conformance` {version}, against a reference server of both
protocol eras ([`tests/conformance/reference_server.py`](../tests/conformance/reference_server.py), on the official
SDK), and against Wicket in front of the same server. This server is the only upstream, and Wicket passes its names
unchanged (`unprefixed = true`, dialect `flat`). A check that passes directly must pass through Wicket. All exceptions
are listed below, and the tests fail if the list is not exact.

To run it: `scripts/node`, then `scripts/test tests/conformance`. To look at one scenario:
`python -m tests.conformance.run http --requirements 2026-07-28 --scenario caching -v` (also `direct` and `stdio`).

## As a server

Scored scenarios that pass. A client of each era speaks to Wicket over HTTP. Wicket reaches the upstream over HTTP or
stdio.

| revision | direct | through Wicket, HTTP upstream | through Wicket, stdio upstream |
| --- | --- | --- | --- |
"""

CLIENT = """
## As a client

The suite's client scenarios are servers that check their client. The SDK's client speaks to them directly, and through
Wicket, which is then their client. The scenarios below `auth/` are about signing in, and are in the next table.

| revision | direct | through Wicket |
| --- | --- | --- |
"""

AUTH = """
## Signing in

In the scenarios below `auth/`, the SDK's client signs in by itself (direct). Through Wicket, `wicket login` signs in
with a browser that follows the redirects. Then the SDK's client lists and calls the tools through Wicket, and opens the
page if a call asks for more rights. The extensions are client credentials (by secret and by key), enterprise-managed
authorization, workload identity and DPoP (without and with nonces); the SDK's client does not have the last three.

| revision | scored, direct | scored, through Wicket | extensions, direct | extensions, through Wicket |
| --- | --- | --- | --- | --- |
"""

AUTHORIZATION = """
## As an authorization server

The suite has two scenarios for authorization servers, which run against Wicket's own (`http.authorization`). An
automated browser that allows every request takes the place of the person.

| scenario | checks |
| --- | --- |
"""

EXTENSIONS = """
## Extensions

The reference server and the SDK's client have neither tasks nor skills. These scenarios run against servers that have
them ([`task_server.py`](../tests/conformance/task_server.py),
[`skill_server.py`](../tests/conformance/skill_server.py)), and against Wicket in front of these. Every single check
has the same outcome through Wicket as directly. In the client scenarios, the suite's server checks Wicket.

| scenarios | direct | through Wicket |
| --- | --- | --- |
"""

DIFFERENCES = """
## Differences

"""

TABLE = """\
| role | revision | upstream | check | direct | Wicket | reason |
| --- | --- | --- | --- | --- | --- | --- |
"""


def page(facts: Known) -> str:
    """The whole document."""
    server = (_row(revision, facts.scores["server"][revision].values()) for revision in REVISIONS)
    client = (_row(revision, facts.scores["client"][revision].values()) for revision in REVISIONS)
    columns = ("direct", "wicket", "direct extensions", "wicket extensions")
    auth = (_row(revision, (facts.scores["auth"][revision][name] for name in columns)) for revision in REVISIONS)
    return "".join(
        [
            INTRODUCTION.format(version=facts.suite),
            *server,
            CLIENT,
            *client,
            AUTH,
            *auth,
            AUTHORIZATION,
            *(_row(f"`{scenario}`", [checks]) for scenario, checks in facts.authorization.items()),
            EXTENSIONS,
            *_extensions(),
            DIFFERENCES,
            *_differences(facts.difference),
        ]
    )


def _row(first: str, cells: Iterable[str]) -> str:
    return f"| {' | '.join([first, *cells])} |\n"


def _extensions() -> Iterator[str]:
    for name, scenarios in (("`tasks-*`", TASKS), ("`sep-2640-skills-*`", SKILLS)):
        yield _row(f"{name}, as a server", [f"{len(scenarios)} of {len(scenarios)}"] * 2)
    yield _row("`sep-2640-client-*`, as a client", ["", f"{len(SKILLS_CLIENT)} of {len(SKILLS_CLIENT)}"])


def _differences(entries: tuple[Entry, ...]) -> Iterator[str]:
    if not entries:
        yield "None.\n"
        return
    yield TABLE
    for entry in entries:
        cells = [entry.revision, ", ".join(entry.ways), f"`{entry.check}`", entry.direct, entry.wicket, entry.reason]
        yield _row(entry.role, cells)


if __name__ == "__main__":
    FILE.write_text(page(known()))
