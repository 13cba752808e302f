"""`wicket lint`: what is wrong with the texts of servers."""

from typing import TYPE_CHECKING, Annotated

import typer

from wicket_mcp.cli.common import ConfigOption, JsonOption, VerboseOption, name_failures, with_library
from wicket_mcp.cli.output import say, say_json, table

if TYPE_CHECKING:
    from wicket_mcp.library import Library
    from wicket_mcp.trust.lint import Finding

_ORDER = {"high": 0, "medium": 1, "low": 2}


def lint(
    server: Annotated[str | None, typer.Argument(help="Only this server.", show_default=False)] = None,
    config: ConfigOption = None,
    json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Look for hidden text and orders to the model in texts of servers.

    Asks every server what it offers now; one that does not answer is named and not judged. The exit code is 1 if it
    finds something of high severity.

    Example: wicket lint github
    """

    async def work(library: "Library") -> "list[Finding]":
        import asyncio

        from wicket_mcp.trust.lint import lint as examine

        catalogue = library.catalogue
        await catalogue.load()
        names = [*catalogue.servers] if server is None else [catalogue.server(server).name]
        await asyncio.gather(*map(catalogue.renew, names))
        name_failures(catalogue.failures, verbose=verbose)
        findings = examine(catalogue.listings_as_said())
        return [finding for finding in findings if finding.server in names and finding.server not in catalogue.failures]

    findings = sorted(
        with_library(config, work, verbose=verbose), key=lambda item: (_ORDER[item.severity], item.server)
    )
    if json:
        fields = ("id", "severity", "server", "place", "quote")
        say_json([{field: getattr(finding, field) for field in fields} for finding in findings])
    elif not findings:
        say("Nothing was found.")
    else:
        table(("SEVERITY", "SERVER", "ID", "FINDING"), ((f.severity, f.server, f.id, f.words) for f in findings))
    if any(finding.severity == "high" for finding in findings):
        raise typer.Exit(1)
