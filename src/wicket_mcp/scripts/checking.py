"""Type-checks a Python script before it runs, so that mistakes in the use of tools are reported at once.

The checker is the engine's own, in its worker. It gets the tools as stubs, in a module that the checked text imports; a
warm session checks a script in a millisecond. Nothing is run, because the checked text ends in a deliberate error. Only
certain failures are reported, not the checker's weaker warnings.
"""

import ast
import re
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic_monty import ExternalModule, MontyError, MontyTypingError

from wicket_mcp.scripts.languages import PYTHON_MODULES
from wicket_mcp.scripts.modules import missing_module
from wicket_mcp.scripts.rewriting import provides
from wicket_mcp.scripts.worker import Failure

_MODULE = "wicket_tools"
_END = "\nreturn"  # outside a function: the deliberate error
_DIAGNOSTIC = re.compile(r"^[^:\n]+:(\d+):(\d+): (?:error|warning)\[([\w-]+)\] (.*)$", re.MULTILINE)
_ALWAYS_WRONG = frozenset({"unresolved-reference", "unresolved-import", "unused-awaitable"})
_WRONG_ON_OURS = frozenset(
    {"missing-argument", "unknown-argument", "invalid-argument-type", "unresolved-attribute",
     "too-many-positional-arguments"}
)  # fmt: skip
_WRONG_ON_A_CALL = frozenset(
    {"not-subscriptable", "unresolved-attribute", "not-iterable", "unsupported-operator", "call-non-callable",
     "invalid-context-manager"}
)  # fmt: skip
_CALL = "`CoroutineType[Any, Any, Any]`"
_WRONG_WITH_A_CALL = re.compile(  # a script's own wrong annotation does no harm: built-ins only
    r"`(?:len|sorted|any|all|(?:int|float|list|set|tuple|enumerate)\.\w+)` is incorrect"
    r"|after \*\*|assign to a subscript"
)
_OURS = re.compile(r"(?:bound method )?`_(\w+(?:\.\w+)?)`")
_A_CALL = re.compile(
    r"(?:(?:an )?([Oo])bject of type )?`CoroutineType\[[^`]*\]`( is not awaited| with no `__\w+__` method)?"
)
_ALLOWED = re.compile(
    r"`return` statement outside|outside of an asynchronous function|__future__ imports must be at the top"
)
_UNKNOWN_MEMBER = re.compile(r"Module `([\w.]+)` has no member `(\w+)`")
_UNKNOWN_NAME = re.compile(r"Name `(\w+)` used when not defined")
_UNKNOWN_MODULE = re.compile(r"Cannot resolve imported module `([\w.]+)`")
_MODULES = frozenset({*PYTHON_MODULES, "os", "urllib", "__future__", "abc", "warnings", "keyword", "zlib"})
_ENGINE_NAMES = (
    "map filter getattr hasattr setattr format open callable ImportError ModuleNotFoundError FileNotFoundError "
    "FileExistsError PermissionError UnicodeDecodeError UnicodeEncodeError IsADirectoryError NotADirectoryError "
    "UnboundLocalError property"
)
ENGINE_NAMES = frozenset(_ENGINE_NAMES.split())
"""Names that the checker does not know but the engine has or gets."""
_MOST = 5
_USUAL_STUBS = """
from typing import Any, Literal
class _tool:
    async def use(self, *, text: str, count: int = ..., kind: Literal['a'] | str = ..., more: list[str]) -> Any: ...
tool: _tool
"""
_USUAL_CODE = """
import asyncio
import json
async def one(name: str) -> dict[str, int]:
    found = await tool.use(text=f"{name}", count=len(name), more=[])
    return {key: int(value) for key, value in sorted(found.items()) if value is not None}
rows = [row["id"] for row in await tool.use(text="x", count=1, kind="a", more=["y"])]
both = await asyncio.gather(*[one(str(row)) for row in rows[:10]], tool.use(text=json.dumps(rows), more=[]))
try:
    print(max(rows), sum(len(item) for item in both), ", ".join(map(str, rows)))
except Exception as error:
    print(error)
"""


class Checker:
    """Checks the scripts of one session, which has `modules`."""

    def __init__(self, modules: Mapping[str, Any] | None = None) -> None:
        self.modules: dict[str, Any] = dict(modules or {})

    def warm_up(self, session: Any) -> None:
        """Let the checker load what every script needs."""
        self._complaints(session, f"{_MODULE}_usual", _USUAL_STUBS, "tool", _USUAL_CODE)

    def check(self, session: Any, source: str, stubs: str, names: Iterable[str]) -> None:
        """Check `source`, for which `stubs` declare these names. Raises Failure."""
        names = list(names)
        imported = ", ".join(_unbound(source, names))
        problems: list[tuple[int, int, str]] = []
        for line, column, code, message in self._complaints(session, _MODULE, stubs, imported, source):
            if line < 1 or _ALLOWED.search(message):
                continue  # our own, or allowed by the engine: a script may `return` and `await` at top level
            if code == "invalid-syntax":
                raise _syntax_failure(source, line, column, message)
            if (
                line <= source.count("\n") + 1
                and _surely_wrong(code, message, names)
                and not _engine_has(message, names)
            ):
                problems.append((line, column, _in_the_authors_words(message, names)))
        if problems:
            several = len(problems) > 1
            message_text = "\n".join(f"line {line}: {text}" if several else text for line, _, text in problems[:_MOST])
            raise Failure("type", message_text, line=problems[0][0], column=problems[0][1])

    def _complaints(
        self, session: Any, module: str, stubs: str, imported: str, source: str
    ) -> list[tuple[int, int, str, str]]:
        self.modules[module] = ExternalModule({}, stubs=stubs)
        first = f"from {module} import {imported}" if imported else "pass"
        try:
            session.feed_run(f"{first}\n{source}{_END}")
        except MontyTypingError as error:
            diagnostics = _DIAGNOSTIC.findall(str(error.display()))
            return [(int(line) - 1, int(column), code, message) for line, column, code, message in diagnostics]
        except MontyError:  # the engine cannot parse the source: it reports that when it runs it
            pass
        return []


def _surely_wrong(code: str, message: str, names: Iterable[str]) -> bool:
    if code in _ALWAYS_WRONG:
        return True
    if _CALL in message and (code in _WRONG_ON_A_CALL or _WRONG_WITH_A_CALL.search(message)):
        return True
    return code in _WRONG_ON_OURS and any(_is_ours(match[1], names) for match in _OURS.finditer(message))


def _engine_has(message: str, names: Iterable[str]) -> bool:
    """Whether the checker misses a name that the engine has or gets, including a server's name used as a variable
    later.
    """
    if match := _UNKNOWN_NAME.match(message):
        return match[1] in ENGINE_NAMES or match[1] in names
    if match := _UNKNOWN_MEMBER.match(message):
        return provides(match[1], match[2])
    if match := _UNKNOWN_MODULE.match(message):
        return match[1] in _MODULES or match[1].partition(".")[0] in _MODULES
    return False


def _is_ours(path: str, names: Iterable[str]) -> bool:
    return path.partition(".")[0] in names


def _in_the_authors_words(message: str, names: Iterable[str]) -> str:
    """A checker's message without the names that only our stubs use."""

    def ours(match: re.Match[str]) -> str:
        return f"`{match[1]}`" if _is_ours(match[1], names) else match[0]

    def call(match: re.Match[str]) -> str:
        if match[2] == " is not awaited":
            return "A call is not awaited"
        return {"O": "A call that is not awaited", "o": "a call that is not awaited"}.get(
            match[1], "`call that is not awaited`"
        )

    if match := _UNKNOWN_MODULE.match(message):
        return missing_module(match[1])
    return _A_CALL.sub(call, _OURS.sub(ours, message))


def _syntax_failure(source: str, line: int, column: int, message: str) -> Failure:
    """The first error in the author's own text: the checker's message may be about the text that we add."""
    try:
        ast.parse(source)
    except SyntaxError as error:
        if error.msg != "invalid syntax" or error.lineno != line:  # otherwise the checker's message is better
            line, column, message = error.lineno or line, error.offset or 0, error.msg
    except (ValueError, RecursionError, MemoryError):
        pass
    written = source.rstrip().count("\n") + 1
    if line > written:  # at the end: where something is missing
        line, column = written, len(source.rstrip().rpartition("\n")[2]) + 1
    return Failure("syntax", message, line=line, column=column)


def _unbound(source: str, names: Iterable[str]) -> list[str]:
    """Those of `names` that the script reads but never binds: a script's own `results` is its own variable."""
    known = set(names)
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return sorted(known)
    read: set[str] = set()
    bound: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Load()):
                read.add(name)
            case ast.Name(id=name) | ast.arg(arg=name) | ast.alias(asname=str(name)):
                bound.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                bound.add(name)
            case ast.alias(name=name):
                bound.add(name.partition(".")[0])
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                bound.add(name)
            case _:
                pass
    return sorted(known & read - bound)
