"""`wicket run`: a script that calls tools, from a shell."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wicket_mcp.cli.common import ConfigOption, JsonOption, VerboseOption, for_user
from wicket_mcp.cli.output import note, say, say_json
from wicket_mcp.errors import BadArguments, ConfigError
from wicket_mcp.scripts.languages import LANGUAGES, SUFFIXES, installed_languages

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wicket_mcp.app import Gateway
    from wicket_mcp.scripts.outcome import Outcome


def run(
    file: Annotated[str, typer.Argument(help="The script; '-' reads it from stdin.")],
    language: Annotated[
        str | None,
        typer.Option(
            "--language",
            "-l",
            help=f"{', '.join(LANGUAGES)}; else by the file's name.",
            show_default=False,
        ),
    ] = None,
    arg: Annotated[
        list[str] | None,
        typer.Option("--arg", "-a", help="key=value (or key:=JSON) for the script's args; repeatable."),
    ] = None,
    config: ConfigOption = None,
    json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Run a script that calls tools, and print its value.

    Example: wicket run report.py --arg city=Oslo
    """
    from wicket_mcp.model import Silent
    from wicket_mcp.scripting import Script

    variables = _collect(map(_argument, arg or []))
    script = Script(_source(file), language or _language(file), variables)

    async def work(gateway: "Gateway") -> "Outcome":
        return await gateway.verbs.run(script, Silent(gateway.principal))

    outcome = for_user(config, work, verbose=verbose)
    if json:
        say_json(outcome.to_dict())
    else:
        _show(outcome)
    if not outcome.ok:
        raise typer.Exit(1)


def _show(outcome: "Outcome") -> None:
    """The value to stdout; what was printed, and what went wrong, beside it."""
    if not outcome.ok:
        note(f"wicket: {outcome.explain()}")
        return
    if outcome.printed:
        note(outcome.printed.rstrip())
    if isinstance(outcome.value, str):
        say(outcome.value)
    elif outcome.has_value:
        say_json(outcome.value)


def _source(file: str) -> str:
    if file == "-":
        return sys.stdin.read()
    try:
        return Path(file).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else "it is not UTF-8 text"
        raise ConfigError(f"cannot be read: {reason}.", file=file, hint="Check the path.") from None


def _language(file: str) -> str:
    language = SUFFIXES.get(Path(file).suffix.lower())
    if language is None:
        if file == "-":
            return installed_languages()[0].name
        raise BadArguments(
            "The language of the script is not known.",
            hint=f"Add --language {', '.join(LANGUAGES)}.",
        )
    return language.name


def _collect(pairs: "Iterable[tuple[str, Any]]") -> dict[str, Any]:
    """What was given, by name; what was given twice is a list, as for `wicket call`."""
    by_name: dict[str, list[Any]] = {}
    for key, value in pairs:
        by_name.setdefault(key, []).append(value)
    return {key: values[0] if len(values) == 1 else values for key, values in by_name.items()}


def _argument(item: str) -> tuple[str, Any]:
    from wicket_mcp.codec import decode

    key, equals, value = item.partition("=")
    if not equals or not key.rstrip(":"):
        raise BadArguments(f"'{item}' is not key=value.", hint="Write --arg city=Oslo, or --arg ids:=[1,2] for JSON.")
    if not key.endswith(":"):
        return key, value
    try:
        return key[:-1], decode(value)
    except ValueError as problem:
        raise BadArguments(f"'{key[:-1]}' cannot be read as JSON: {problem}.", hint="Check the quoting.") from None
