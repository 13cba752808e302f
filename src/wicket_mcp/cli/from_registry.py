"""`wicket add --from-registry NAME`: a server of the registry, shown and asked about before it is added.

A record is data of its publisher: its package runs through npx, uvx, pipx, docker or podman, whichever is here, at the
version that the record names, and arguments of the launcher itself are left out. A value of the record is only ever a
literal. A variable of the user's environment is taken if the server needs one of that name, and the question names it;
one that decides what runs is never set. What the record cannot say is told as a note.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from getpass import getpass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from wicket_mcp.cli.added import tell_added
from wicket_mcp.cli.common import with_gateway
from wicket_mcp.cli.outline import changes_what_runs
from wicket_mcp.cli.output import say, say_json
from wicket_mcp.cli.trust import keep_trust
from wicket_mcp.errors import ConfigError
from wicket_mcp.model import JsonObject, as_list, as_object, as_text
from wicket_mcp.telemetry.log import enclose, one_line

if TYPE_CHECKING:
    from wicket_mcp.config.model.server import ServerConfig

_LAUNCHERS = {"npm": ("npx",), "pypi": ("uvx", "pipx"), "oci": ("docker", "podman")}
"""What runs a package of each kind; the first kind and the first program that are here are used."""
_ENGINE_TIMEOUT = 10.0
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def add_from_registry(
    name: str, path: Path, more: Sequence[str], options: Mapping[str, Any], *, yes: bool, json: bool
) -> None:
    """Add the server of this id or full name, with `more` arguments and the user's own options.

    Raises WicketError where there is none, or none that can run.
    """
    from wicket_mcp.config.edit import wicket_toml
    from wicket_mcp.registry.service import name_doubt

    with keep_trust(path):
        if not path.exists():
            wicket_toml.save(path, wicket_toml.TEMPLATE)
    record = with_gateway(path, lambda gateway: gateway.registry.registry.find(name))
    notes = [doubt] if (doubt := name_doubt(record)) else []
    server = _server_of(as_object(record.body), more, options, notes)
    launch = server.url or " ".join((server.command or "", *server.args))
    if not json:
        say(one_line(f"{record.name} {record.version}: {server.description}"))
        say(f"  runs {one_line(launch)}")
        for name, value in server.env.items():
            say(one_line(f"  takes {name} from {value}" if "${" in value else f"  sets {name}"))
        for text in notes:
            say(f"  {one_line(text)}")
    if not yes and (json or not typer.confirm(f"Add it as {server.name}?", default=False)):
        if json:
            say_json({"config": str(path), "offered": launch, "notes": notes, "added": None})
        return
    if not json:
        server = _keep_secrets(server, _secret_names(as_object(record.body)))
    server, secrets = wicket_toml.extract_secrets(server, path.parent)
    text = wicket_toml.add_server(wicket_toml.read_or_start(path), server, path)
    wicket_toml.write_secrets(secrets)
    with keep_trust(path):
        saved = wicket_toml.save(path, text)
    if json:
        say_json({"config": str(path), "offered": launch, "notes": notes, "added": server.name})
    else:
        tell_added(server, path, saved, secrets)


def _keep_secrets(server: "ServerConfig", secret: Collection[str]) -> "ServerConfig":
    """Ask for the secrets that the server needs and the environment lacks, and keep them in the system's keyring.

    The file then names where each is. Where nobody can be asked, or there is no keyring, it names the variable.
    """
    from msgspec.structs import replace

    from wicket_mcp.config.read import keyring

    referred = (name for name, value in server.env.items() if value == f"${{env:{name}}}")
    unset = [name for name in referred if name in secret and name not in os.environ]
    if not unset or not sys.stdin.isatty() or not keyring.is_usable():
        return server
    env = dict(server.env)
    for name in unset:
        value = getpass(f"{name} (kept in the system's keyring; empty to set it later): ")
        if value:
            keyring.write(f"{server.name}/{name}", value)
            env[name] = f"${{keyring:{server.name}/{name}}}"
    return replace(server, env=env)


def _secret_names(body: JsonObject) -> frozenset[str]:
    """The variables that a record marks as secret."""
    packages = map(as_object, as_list(body.get("packages")))
    entries = (as_object(entry) for package in packages for entry in as_list(package.get("environmentVariables")))
    return frozenset(as_text(entry.get("name")) for entry in entries if entry.get("isSecret"))


def _server_of(body: JsonObject, more: Sequence[str], options: Mapping[str, Any], notes: list[str]) -> "ServerConfig":
    from wicket_mcp.config.model.config import Config
    from wicket_mcp.config.model.names import derive
    from wicket_mcp.registry.server_json import remotes

    packages = [as_object(entry) for entry in as_list(body.get("packages"))]
    usable = [entry for kind in _LAUNCHERS for entry in packages if entry.get("registryType") == kind]
    runnable = [entry for entry in usable if any(map(shutil.which, _LAUNCHERS[as_text(entry.get("registryType"))]))]
    values: dict[str, Any] = {"description": as_text(body.get("description"))}
    if usable:
        values |= _launch((runnable or usable)[0], more, options.get("env", {}), notes)
    elif addresses := remotes(body):
        values["url"] = addresses[0]
        if not _is_literal(addresses[0]):
            raise ConfigError(f"{enclose(addresses[0])} is not an address.", hint="Do not use this record.")
        notes.append("Where it asks for a sign-in: wicket login NAME; for a key: headers in wicket.toml.")
    else:
        raise ConfigError(
            f"{as_text(body.get('name'))} has no package or address that Wicket can run.",
            hint="Add it by its command: wicket add NAME -- COMMAND",
        )
    name = derive(as_text(body.get("name")).rpartition("/")[2])
    values |= {key: value for key, value in options.items() if key != "env" or not usable}
    return Config.from_dict({"servers": {name: values}}).servers[0]


def _launch(package: JsonObject, more: Sequence[str], chosen: Mapping[str, str], notes: list[str]) -> dict[str, Any]:
    from wicket_mcp.registry.install import container

    identifier, version = as_text(package.get("identifier")), as_text(package.get("version"))
    for part in (identifier, version):
        if part.startswith("-") or not _is_literal(part):
            raise ConfigError(f"{enclose(part)} does not name a package.", hint="Do not use this record.")
    env = _variables(package, chosen, notes)
    kind = as_text(package.get("registryType"))
    launcher = _find_launcher(kind, notes)
    if kind == "npm":
        command = [launcher, "-y", f"{identifier}@{version}" if version else identifier]
    elif kind == "pypi":
        specification = f"{identifier}=={version}" if version else identifier
        command = [launcher, specification] if launcher == "uvx" else [launcher, "run", specification]
    else:
        tagged = f"{identifier}:{version}" if version and ":" not in identifier.rpartition("/")[2] else identifier
        command = list(container(tagged, env, launcher))
    command += (*_arguments(package, more, notes), *more)
    if as_list(package.get("runtimeArguments")):
        notes.append("Its arguments for the launcher itself are left out: look at them with wicket registry show.")
    return {"command": command[0], "args": command[1:], "env": env}


def _find_launcher(kind: str, notes: list[str]) -> str:
    """The program that runs a package of this kind; if none is here, the usual one, and a note says so."""
    programs = _LAUNCHERS[kind]
    present = [program for program in programs if shutil.which(program)]
    if not present:
        notes.append(f"It needs {' or '.join(programs)}, which is not installed here.")
        return programs[0]
    if kind != "oci":
        return present[0]
    if running := next((engine for engine in present if _is_running(engine)), None):
        return running
    notes.append(f"It needs {present[0]}, whose engine is not running here: start it before you use the server.")
    return present[0]


def _is_running(engine: str) -> bool:
    """Whether a container engine answers; its program may be there without it."""
    try:
        answer = subprocess.run([engine, "version"], capture_output=True, timeout=_ENGINE_TIMEOUT, check=False, cwd="/")
    except (OSError, subprocess.TimeoutExpired):
        return False
    return answer.returncode == 0


def _is_literal(text: str) -> bool:
    """Whether a text of a record means only itself wherever we write it: in one line, and without a reference."""
    return text.isprintable() and not set("{}$") & set(text)


def _variables(package: JsonObject, chosen: Mapping[str, str], notes: list[str]) -> dict[str, str]:
    env = dict(chosen)
    for entry in map(as_object, as_list(package.get("environmentVariables"))):
        name, default = as_text(entry.get("name")), as_text(entry.get("value") or entry.get("default"))
        if name in chosen:
            continue
        if not _VARIABLE.fullmatch(name) or changes_what_runs(name):
            notes.append(f"Its record sets {enclose(name)}, which is left out: it could decide what runs.")
        elif default and _is_literal(default):
            env[name] = default
        elif default or entry.get("isRequired"):
            env |= {name: f"${{env:{name}}}"} if entry.get("isRequired") else {}
            notes.append(
                f"It needs {name}: set it before Wicket starts."
                if entry.get("isRequired")
                else f"The value that its record has for {name} is left out: it refers to something."
            )
    return env


def _arguments(package: JsonObject, more: Sequence[str], notes: list[str]) -> list[str]:
    """The arguments that the record gives; a note for each that it needs and `more` does not give."""
    arguments: list[str] = []
    for entry in map(as_object, as_list(package.get("packageArguments"))):
        name, value = as_text(entry.get("name")), as_text(entry.get("value") or entry.get("default"))
        hint = as_text(entry.get("valueHint")) or "value"
        is_named = entry.get("type") == "named"
        if is_named and not _is_literal(name):
            raise ConfigError(f"{enclose(name)} does not name an argument.", hint="Do not use this record.")
        if is_named and any(text == name or text.startswith(f"{name}=") for text in more):
            continue
        if value and _is_literal(value):
            arguments += [name, value] if is_named else [value]
        elif entry.get("isRequired") and (is_named or not more):
            words = f"{name} {hint.upper()}" if is_named else hint.upper()
            notes.append(f"It needs {words}: add it after --, as in wicket add --from-registry NAME -- {words}")
    return arguments
