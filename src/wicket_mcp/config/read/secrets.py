"""Fills in a server's secrets, just before it is started.

    ${env:NAME}  ${NAME}  ${NAME:-default}    an environment variable
    ${file:path}                              a file's content, relative to the configuration
    ${keyring:NAME}                           a secret of the system's keyring (`wicket secret set NAME`)
    ${input:id}                               what VS Code would ask for: the variable ID, in capitals
    ${workspaceFolder}  ${userHome}           the current folder and the home folder
    $${…}                                     the text `${…}` itself

One server at a time, so that a missing secret affects only its server. A filled-in value is never expanded again, and
never part of an error, a log line or a repr.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from msgspec.structs import replace

from wicket_mcp.config.model.auth import SECRETS, AuthConfig
from wicket_mcp.config.model.server import ResolvedServer, ServerConfig, is_web_address
from wicket_mcp.errors import ConfigError
from wicket_mcp.telemetry.redact import SHORTEST_SECRET, is_secret_name

_REFERENCE = re.compile(r"[a-z]+:.*|[A-Za-z_][A-Za-z0-9_]*(?::-.*)?|/", re.DOTALL)
_KEYRING_NAME = re.compile(r"\$\{keyring:([^}]*?)(?:\}|:-)")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ENV_LINE = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_.]*)\s*=\s*(.*?)\s*")
_LARGEST_FILE = 1024**2


_PUBLIC = frozenset({"HOME", "LANG", "LOGNAME", "PATH", "PWD", "SHELL", "TERM", "TMPDIR", "TZ", "USER"})
"""Variables without secrets: masking a home folder would make every path unreadable."""


class _Missing(Exception):
    """A reference without a value and without a default."""

    def __init__(self, name: str, problem: str, hint: str) -> None:
        super().__init__(name)
        self.name, self.problem, self.hint = name, problem, hint


AskKeyring = Callable[[str], str | None]
"""The secret of a name; raises ConfigError."""


async def fill_in(
    server: ServerConfig, environ: Mapping[str, str] | None = None, base_dir: Path | None = None
) -> ResolvedServer:
    """As `resolve`, without keeping others waiting while a keyring asks its user to unlock it."""
    texts = (server.env_file or "", *(text for _, text in _texts(server)))
    names = [name for text in texts for name in _KEYRING_NAME.findall(text)]
    if not names:
        return resolve(server, environ, base_dir)
    from wicket_mcp.config.read import keyring  # noqa: PLC0415  (few keep secrets there)

    entries = await keyring.load(dict.fromkeys(names))
    return resolve(server, environ, base_dir, lambda name: keyring.value_of(entries.get(name)))


def resolve(
    server: ServerConfig,
    environ: Mapping[str, str] | None = None,
    base_dir: Path | None = None,
    ask_keyring: AskKeyring | None = None,
) -> ResolvedServer:
    """The server with every reference filled in; `env` has the declared variables, not the inherited ones.

    Raises ConfigError, which names the server, what it lacks, and how to provide it.
    """
    scope = _Scope(environ, base_dir, ask_keyring)
    problems = list(scope.problems(server))
    if problems:
        where, first = problems[0]
        others = dict.fromkeys(missing.name for _, missing in problems if missing.name != first.name)
        also = f" It also lacks {', '.join(others)}." if others else ""
        raise _refusal(server, where, first.problem, first.hint + also)
    resolved = ResolvedServer(
        config=server,
        command=None if server.command is None else _from_home(scope.expand(server.command)),
        args=tuple(scope.expand(argument) for argument in server.args),
        env=scope.environment(server),
        cwd=None if server.cwd is None else str(scope.path(server.cwd)),
        url=None if server.url is None else scope.expand(server.url),
        headers={name: scope.expand(value) for name, value in server.headers.items()},
        auth=scope.authentication(server.auth),
        secrets=tuple(scope.filled_in) + tuple(value for _, _, value in literal_secrets(server)),
    )
    _check(resolved)
    return resolved


def expand(text: str, key: str, base_dir: Path | None = None) -> str:
    """`text`, the value of option `key`, with its references filled in. Raises ConfigError."""
    try:
        return _Scope(None, base_dir).expand(text)
    except _Missing as missing:
        raise ConfigError(missing.problem, key=key, hint=missing.hint) from None


def missing_secrets(
    server: ServerConfig, environ: Mapping[str, str] | None = None, base_dir: Path | None = None
) -> tuple[str, ...]:
    """The variables and files that the server needs and does not have, each once, in order."""
    return tuple(dict.fromkeys(missing.name for _, missing in _Scope(environ, base_dir).problems(server)))


def known_missing(
    server: ServerConfig, environ: Mapping[str, str] | None = None, base_dir: Path | None = None
) -> tuple[str, ...]:
    """As `missing_secrets`, at once: an entry that the keyring has not been asked for lately counts as present."""
    scope = _Scope(environ, base_dir, _known_in_keyring)
    return tuple(dict.fromkeys(missing.name for _, missing in scope.problems(server)))


def named_variables(server: ServerConfig) -> tuple[str, ...]:
    """The environment variables that the server's entry names, set or not, each once, in order."""
    references = (part for _, text in _texts(server) for is_reference, part in _parts(text) if is_reference)
    names = (_variable_of(reference.partition(":-")[0]) for reference in references)
    referred = [name for name in names if _VARIABLE.fullmatch(name) and name not in _PUBLIC and name not in _PLACES]
    return tuple(dict.fromkeys((*referred, *server.required_keys, *server.inherit_env)))


def literal_secrets(server: ServerConfig) -> Iterator[tuple[str, str, str]]:
    """Literal values in the file that look like secrets: option (`env` or `headers`), name, value."""
    for option, values in (("env", server.env), ("headers", server.headers)):
        for name, value in values.items():
            if is_secret_name(name) and "${" not in value and len(value) >= SHORTEST_SECRET:
                yield option, name, value


class _Scope:
    """Where references are looked up."""

    def __init__(
        self, environ: Mapping[str, str] | None, base_dir: Path | None, ask_keyring: AskKeyring | None = None
    ) -> None:
        self._ask_keyring = ask_keyring or _read_keyring
        self._environ = os.environ if environ is None else environ
        self._base = Path.cwd() if base_dir is None else base_dir
        self.filled_in: set[str] = set()
        """Every value that replaced a reference, or came from a file of variables."""

    def problems(self, server: ServerConfig) -> Iterator[tuple[str, _Missing]]:
        """Everything that the server lacks, and the option that needs it."""
        for where, text in _texts(server):
            for is_reference, part in _parts(text):
                try:
                    if is_reference:
                        self._value(part)
                except _Missing as missing:
                    yield where, missing
        try:
            provided = {**self._file_variables(server), **server.env}
        except _Missing as missing:
            yield "env_file", missing
            provided = server.env
        for key in server.required_keys:
            if key not in provided and key not in self._environ:
                yield "required_keys", _unset(key)

    def expand(self, text: str) -> str:
        """`text` with its references filled in. Raises _Missing."""
        return "".join(self._value(part) if is_reference else part for is_reference, part in _parts(text))

    def path(self, text: str) -> Path:
        return self._base / _from_home(self.expand(text))

    def environment(self, server: ServerConfig) -> dict[str, str]:
        named = {key: self._environ[key] for key in server.required_keys if key in self._environ}
        from_file = self._file_variables(server)
        declared = {name: self.expand(value) for name, value in server.env.items()}
        self.filled_in.update(named.values(), from_file.values())
        return {**named, **from_file, **declared}

    def authentication(self, auth: AuthConfig) -> AuthConfig:
        filled = {option: self.expand(getattr(auth, option)) for option in SECRETS if getattr(auth, option)}
        return replace(auth, **filled) if filled else auth

    def _value(self, reference: str) -> str:
        name, has_default, default = reference.partition(":-")
        try:
            value = self._lookup(name)
        except _Missing:
            if not has_default:
                raise
            value = ""
        return self.expand(default) if has_default and not value else value

    def _lookup(self, name: str) -> str:
        scheme, colon, reference = name.partition(":")
        if not colon and name in _PLACES:
            return _PLACES[name](self._environ)
        if not colon or scheme == "env":
            variable = reference if colon else name
            value = self._variable(variable)
        elif scheme == "input":
            variable, value = reference, self._input(reference)
        elif scheme == "file":
            variable, value = "", self._read(self._base / _from_home(reference))
        elif scheme == "keyring":
            variable, value = "", _from_keyring(reference, self._ask_keyring)
        else:
            raise _unknown(scheme)
        if variable not in _PUBLIC:
            self.filled_in.add(value)
        return value

    def _variable(self, name: str) -> str:
        if not _VARIABLE.fullmatch(name):
            raise _unknown(name)
        if name not in self._environ:
            raise _unset(name)
        return self._environ[name]

    def _input(self, name: str) -> str:
        variable = input_variable(name)
        for candidate in (name, variable):
            if candidate in self._environ:
                return self._environ[candidate]
        problem = f"needs the input '{name}', which VS Code would ask for."
        raise _Missing(variable, problem, f"Set the environment variable {variable} instead.")

    def _read(self, path: Path) -> str:
        try:
            if path.stat().st_size > _LARGEST_FILE:
                raise _Missing(str(path), f"needs the file {path}, which is too large.", "Check the path.")
            return path.read_text("utf-8").rstrip("\r\n")
        except (OSError, ValueError) as error:
            reason = (error.strerror if isinstance(error, OSError) else None) or "not UTF-8 text"
            problem = f"needs the file {path}, which cannot be read ({reason})."
            raise _Missing(str(path), problem, "Create it or correct the path.") from None

    def _file_variables(self, server: ServerConfig) -> dict[str, str]:
        if server.env_file is None:
            return {}
        variables: dict[str, str] = {}
        for line in self._read(self.path(server.env_file)).splitlines():
            if (match := _ENV_LINE.fullmatch(line)) is not None:
                variables[match[1]] = _unquote(match[2])
        return variables


def input_variable(name: str) -> str:
    """The variable that is read instead of asking for `${input:name}`."""
    return re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_").upper()


def _variable_of(reference: str) -> str:
    """The variable that a reference reads; of a file or the keyring, something that is no variable's name."""
    scheme, _, name = reference.partition(":")
    return name if scheme == "env" else input_variable(name) if scheme == "input" else reference


def _texts(server: ServerConfig) -> Iterator[tuple[str, str]]:
    """Every text of a server that may contain a reference, with its option."""
    for option in ("command", "cwd", "url"):
        text: str | None = getattr(server, option)
        if text is not None:
            yield option, text
    yield from ((f"args[{index}]", text) for index, text in enumerate(server.args))
    yield from ((f"env.{name}", text) for name, text in server.env.items())
    yield from ((f"headers.{name}", text) for name, text in server.headers.items())
    yield from ((f"auth.{option}", getattr(server.auth, option)) for option in SECRETS)


def _parts(text: str) -> Iterator[tuple[bool, str]]:
    """The text split into plain pieces (False) and the insides of references (True)."""
    at = 0
    while (start := text.find("${", at)) >= 0:
        if text[:start].endswith("$"):
            yield False, text[at : start - 1] + "${"
            at = start + 2
            continue
        end = _closing(text, start + 2)
        yield False, text[at:start]
        body = text[start + 2 : end] if end < len(text) else ""
        is_reference = not body or _REFERENCE.fullmatch(body) is not None
        # Braces of a shell or a template (`${#list}`, `${name%.*}`) are left unchanged.
        yield is_reference, body if is_reference else text[start : end + 1]
        at = end + 1
    yield False, text[at:]


def _closing(text: str, at: int) -> int:
    """Where the reference that is open at `at` ends; a default may contain references."""
    depth = 1
    for match in re.finditer(r"\$\{|\}", text[at:]):
        depth += 1 if match[0] == "${" else -1
        if depth == 0:
            return at + match.start()
    return len(text)  # never closed: an empty reference, which is invalid


def _read_keyring(name: str) -> str | None:
    from wicket_mcp.config.read import keyring  # noqa: PLC0415  (few keep secrets there)

    return keyring.read(name)


def _known_in_keyring(name: str) -> str | None:
    from wicket_mcp.config.read import keyring  # noqa: PLC0415  (as above)

    entry = keyring.peek(name)
    return "" if entry is None else keyring.value_of(entry[0])


def _from_keyring(name: str, ask: AskKeyring) -> str:
    entry = f"keyring:{name}"
    try:
        value = ask(name)
    except ConfigError as problem:
        raise _Missing(entry, f"needs '{name}' of the keyring: {problem.message}.", problem.hint) from None
    if value is None:
        raise _Missing(entry, f"needs '{name}', which the keyring does not have.", f"wicket secret set {name}")
    return value


def _unset(variable: str) -> _Missing:
    problem = f"needs the environment variable {variable}, which is not set."
    return _Missing(variable, problem, f"Set it before Wicket starts, or give a default: ${{{variable}:-…}}.")


def _unknown(name: str) -> _Missing:
    reference = f"'${{{name}…}}'" if _VARIABLE.fullmatch(name) else "a reference"
    return _Missing(
        "${…}",
        f"has {reference} that Wicket cannot read.",
        "Use ${NAME}, ${env:NAME}, ${file:path} or ${keyring:NAME}; write $${ for the text ${ itself.",
    )


def _home(environ: Mapping[str, str]) -> str:
    return environ.get("HOME") or str(Path.home())


_PLACES: dict[str, Callable[[Mapping[str, str]], str]] = {
    "userHome": _home,
    "workspaceFolder": lambda _: str(Path.cwd()),
    "workspaceFolderBasename": lambda _: Path.cwd().name,
    "pathSeparator": lambda _: os.sep,
    "/": lambda _: os.sep,
}


def _from_home(path: str) -> str:
    return str(Path(path).expanduser()) if path.startswith("~/") else path


def _unquote(value: str) -> str:
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        return value[1:-1]
    return value.partition(" #")[0].rstrip()


def _check(server: ResolvedServer) -> None:
    """Checks that are possible only with the secrets filled in. Names the option, never its value."""
    if server.url is not None and not is_web_address(server.url):
        problem = "has a url that is not a web address once its references are filled in."
        raise _refusal(server.config, "url", problem, "It must start with http:// or https://.")
    for name, value in server.headers.items():
        if not value.isprintable():
            problem = "has a line break or control character in a header."
            raise _refusal(server.config, f"headers.{name}", problem, "Check the variable or file it comes from.")
    pieces = [
        ("command", server.command or ""),
        *((f"env.{name}", value) for name, value in server.env.items()),
    ]
    pieces += [(f"args[{index}]", value) for index, value in enumerate(server.args)]
    for where, value in pieces:
        if "\0" in value:
            problem = "has a NUL character where a program cannot be given one."
            raise _refusal(server.config, where, problem, "Check the variable or file it comes from.")


def _refusal(server: ServerConfig, where: str, problem: str, hint: str) -> ConfigError:
    return ConfigError(f"server '{server.name}' {problem}", key=f"{server.name}.{where}", hint=hint)
