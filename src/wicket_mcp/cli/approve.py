"""`wicket approve`: a person's yes to what is held and to calls that wait, and what somebody said "always" to."""

import getpass
import os
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wicket_mcp.cli.common import ConfigOption, JsonOption, VerboseOption, record_act, tell, with_library
from wicket_mcp.cli.output import note, say, say_json, table
from wicket_mcp.errors import BadArguments, Denied, UnknownName

if TYPE_CHECKING:
    from wicket_mcp.library import Library
    from wicket_mcp.trust.always import Always


_WAITING = "wicket approve lists what waits."
_LISTS = "wicket approve --list shows them."


def approve(
    name: Annotated[
        str,
        typer.Argument(help="A held tool (server.tool), a server, or the id of a call. Without it: list what waits."),
    ] = "",
    always: Annotated[
        bool, typer.Option("--always", help="Approve this call and all later calls with the same arguments.")
    ] = False,
    standing: Annotated[bool, typer.Option("--list", help="List what is always approved.")] = False,
    revoke: Annotated[
        str, typer.Option("--revoke", metavar="ID", help="Revoke an approval that --list shows.", show_default=False)
    ] = "",
    passphrase: Annotated[
        bool, typer.Option("--passphrase", help="Set, change or remove the passphrase that approvals need.")
    ] = False,
    config: ConfigOption = None,
    json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Approve a changed tool, or a call that waits for approval.

    Shows what changed, or the call with its arguments, and asks in a terminal. A server's name approves everything of
    that server that is held.

    Example: wicket approve github.create_issue
    """
    if (bool(name) + standing + bool(revoke) + passphrase) > 1:
        raise BadArguments("A name, --list, --revoke and --passphrase exclude each other.", hint="Use one of them.")
    if standing:
        _list_standing(config, json=json, verbose=verbose)
    elif revoke:
        _revoke(config, revoke, json=json, verbose=verbose)
    elif passphrase:
        _change_passphrase(config, json=json, verbose=verbose)
    elif name:
        _approve(config, name, always=always, json=json, verbose=verbose)
    else:
        _list_waiting(config, json=json, verbose=verbose)


def _approve(config: Path | None, name: str, *, always: bool, json: bool, verbose: bool) -> None:
    by = getpass.getuser()

    async def work(library: "Library") -> list[str]:
        from wicket_mcp.calls.approve import ALWAYS_MARK

        catalogue = library.catalogue
        await catalogue.load()
        waiting = {call.id: call for call in await library.store.approvals(time.time()) if not call.approved_by}
        if (question := waiting.get(name)) is not None:
            agrees = await _person(library)
            note(f"{question.words}\nArguments: {question.arguments}")
            approver = f"{by}{ALWAYS_MARK}" if always else by
            if not await agrees() or await library.store.approve(name, approver, time.time()) is None:
                return []
            if always:
                note(f"The rule is made once the call is made again; {_LISTS}")
            act, key = f"approve call{ALWAYS_MARK if always else ''}", f"{question.server}.{question.tool}"
            await record_act(library, by, act, f"{key} {name} ({_place()})", server=question.server)
            return [f"call {name} of {key}"]
        if always:
            raise UnknownName("waiting call", name, hint=f"--always is for calls. {_WAITING}")
        changes = [held for server in catalogue.servers for held in catalogue.held_entries(server).values()]
        matches = [held for held in changes if name in (held.key, held.server)]
        if not matches:
            raise UnknownName("held tool or waiting call", name, [held.key for held in changes][:3], hint=_WAITING)
        agrees, approved = await _person(library), list[str]()
        for held in matches:
            note(f"{held.kind} {held.key}: {held.words}\n{held.diff()}")
            if await agrees():
                await catalogue.approve(held, by)
                detail = f"{held.key} {held.digest} ({_place()})"
                await record_act(library, by, f"approve {held.kind}", detail, server=held.server)
                approved.append(f"{held.kind} {held.key}")
        return approved

    approved = with_library(config, work, verbose=verbose, asks=True)
    if json:
        say_json({"approved": approved, "by": by})
    else:
        say(f"Approved {', '.join(approved)}." if approved else "Nothing was approved.")
    if not approved:
        raise typer.Exit(1)


def _terminal() -> str:
    """The terminal at which somebody can be asked; empty if there is none."""
    return os.ttyname(sys.stdin.fileno()) if sys.stdin.isatty() and sys.stderr.isatty() else ""


def _place() -> str:
    """Where the answer came from, for the audit."""
    return _terminal() or "unattended"


async def _person(library: "Library") -> "Callable[[], Awaitable[bool]]":
    """Asks whether somebody agrees to what was just shown. Raises Denied where nobody can be asked, unless the
    configuration makes the command itself the yes.
    """
    from wicket_mcp.identity.approver import Approver

    approver = Approver(library.store)
    needs_passphrase = await approver.is_set()
    if not _terminal() and (needs_passphrase or not library.config.policy.unattended):
        raise Denied(
            "Nothing was approved: there is no terminal here at which a person could be asked.",
            hint="A person can approve it in a terminal of their own, or in the dashboard.",
        )
    known = False

    async def agrees() -> bool:
        nonlocal known
        if _terminal() and not typer.confirm("Approve it?", default=False, err=True):
            return False
        if needs_passphrase and not known:
            await approver.check(getpass.getpass("The approver's passphrase: "))
            known = True
        return True

    return agrees


def _change_passphrase(config: Path | None, *, json: bool, verbose: bool) -> None:
    async def work(library: "Library") -> bool:
        from wicket_mcp.identity.approver import Approver

        if not _terminal():
            raise Denied("There is no terminal here to ask for a passphrase.", hint="Run it in a terminal.")
        approver = Approver(library.store)
        if await approver.is_set():
            await approver.check(getpass.getpass("The passphrase until now: "))
        new = getpass.getpass("The new passphrase (empty for none): ")
        if getpass.getpass("Once more: ") != new:
            raise BadArguments("The two are not the same.", hint="Nothing was changed.")
        await approver.change(new)
        await record_act(library, getpass.getuser(), "change passphrase", f"{'set' if new else 'removed'} ({_place()})")
        return bool(new)

    is_set = with_library(config, work, verbose=verbose, asks=True)
    words = "Approvals need the passphrase from now on." if is_set else "Approvals need no passphrase."
    tell({"passphrase": is_set}, words, json=json)


def _list_waiting(config: Path | None, *, json: bool, verbose: bool) -> None:
    async def work(library: "Library") -> list[dict[str, str]]:
        catalogue = library.catalogue
        await catalogue.load()
        calls = [question for question in await library.store.approvals(time.time()) if not question.approved_by]
        rows = [{"name": question.id, "what": question.words} for question in calls]
        changes = [held for server in catalogue.servers for held in catalogue.held_entries(server).values()]
        return rows + [{"name": held.key, "what": f"{held.kind}: {held.words}"} for held in changes]

    rows = with_library(config, work, verbose=verbose)
    if json:
        say_json(rows)
    elif not rows:
        say("Nothing waits for an approval.")
    else:
        table(("NAME", "WHAT"), ((row["name"], row["what"]) for row in rows))


def _list_standing(config: Path | None, *, json: bool, verbose: bool) -> None:
    from wicket_mcp.model import name_of
    from wicket_mcp.trust.always import conditions, render

    rows = with_library(config, lambda library: _always(library).list(), verbose=verbose)
    if json:
        entries: list[dict[str, Any]] = [
            {
                "id": row.id,
                "principal": name_of(row.principal),
                "tool": f"{row.server}.{row.tool}",
                "arguments": conditions(row),
                "by": row.approved_by,
                "at": row.at,
            }
            for row in rows
        ]
        say_json(entries)
    elif not rows:
        say("Nothing is always allowed.")
    else:
        say("\n".join(render(row) for row in rows).rstrip())
        note("To be asked again: wicket approve --revoke ID")


def _revoke(config: Path | None, number: str, *, json: bool, verbose: bool) -> None:
    by = getpass.getuser()

    async def work(library: "Library") -> str:
        always = _always(library)
        revoked = await always.revoke(number)
        if revoked is None:
            raise UnknownName("standing approval", number, [rule.id for rule in await always.list()][:3], hint=_LISTS)
        key = f"{revoked.server}.{revoked.tool}"
        await record_act(library, by, "revoke always", f"{key} {number}", server=revoked.server)
        return key

    key = with_library(config, work, verbose=verbose)
    if json:
        say_json({"revoked": number, "tool": key, "by": by})
    else:
        say(f"Revoked {number}: {key} is asked about again.")


def _always(library: "Library") -> "Always":
    from wicket_mcp.trust.always import FILE, Always

    return Always(library.store, library.config.state_path / FILE)
