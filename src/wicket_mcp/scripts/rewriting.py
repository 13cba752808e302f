"""Rewrites Python that the engine does not support: `del`, generators, `asyncio.create_task`, …

Text to text. Edits are minimal, so that every line keeps its place, except for added lines: `Rewritten.line` returns
the author's line for a line of the result. Runs in the jail, before the script; a source that cannot be parsed is
returned unchanged, and the engine reports what is wrong with it. The added names (`_wicket_…`) are defined in
`prelude_python.txt`.

A generator becomes a function that collects what it yields: it runs to its end before the first value is used.
"""

import ast
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

import msgspec

from wicket_mcp.catalog.identifiers import identifier
from wicket_mcp.scripts.class_forms import without_base

_ADDED = frozenset({"operator", "heapq", "io", "contextlib", "types", "uuid", "pprint", "logging", "enum"})
"""Modules that exist only in the prelude."""
_IGNORED = frozenset({"__future__", "abc", "warnings"})
_ASYNCIO = (
    "gather create_task ensure_future wait_for shield as_completed wait to_thread get_event_loop get_running_loop "
    "new_event_loop set_event_loop Semaphore BoundedSemaphore Lock Event Queue TaskGroup timeout"
)
_PATCHED = {
    "asyncio": frozenset(_ASYNCIO.split()),
    "re": frozenset({"sub", "subn"}),
    "json": frozenset({"dumps", "loads"}),
    "functools": frozenset({"wraps"}),
    "collections": frozenset({"OrderedDict"}),
    "dataclasses": frozenset({"asdict", "astuple", "is_dataclass", "replace"}),
    "string": frozenset({"Template"}),
}
"""What the prelude adds to modules that the engine has."""
_SAME = {("pathlib", "PurePath"): "Path", ("pathlib", "PurePosixPath"): "Path"}
"""Names that the engine has under another name."""
_BASES = frozenset({"NamedTuple", "TypedDict"})
"""Base classes that `class_forms` makes superfluous."""
_TYPES = frozenset({"str", "dict", "list", "int", "float", "bytes", "set", "tuple"})
_METHOD_NAMES = (
    "get lower upper strip lstrip rstrip split title casefold capitalize isdigit isalpha startswith endswith replace "
    "append add pop items keys values index count join format encode decode islower isupper isspace"
)
_METHODS = frozenset(_METHOD_NAMES.split())
_TAKES_FUNCTION = frozenset({"map", "filter", "reduce", "partial"})
_YIELD = re.compile(rb"yield(\s+from\b)?")


class Rewritten(msgspec.Struct, frozen=True):
    """A script in the form that the engine supports."""

    source: str
    sections: tuple[str, ...] = ()
    """The parts of the prelude that it needs."""
    lines: tuple[int, ...] = ()
    """The author's line for each of its lines."""

    def line(self, number: int) -> int:
        return self.lines[number - 1] if 0 < number <= len(self.lines) else number


def provides(module: str, name: str) -> bool:
    """Whether the prelude adds this name to a module of the engine."""
    return module in _ADDED or name in _PATCHED.get(module, ())


def rewrite(source: str, servers: Collection[str] = ()) -> Rewritten:
    """`source` in the form that the engine supports; `servers` are the names of the servers in it."""
    try:
        tree = ast.parse(source)
        return _Rewriter(source, servers).run(tree)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Rewritten(source)


class _Rewriter:
    def __init__(self, source: str, servers: Collection[str]) -> None:
        self._servers = frozenset(servers)
        self._data = source.encode("utf-8", "surrogatepass")
        if not self._data.endswith(b"\n"):
            self._data += b"\n"
        self._starts = [0, *(at + 1 for at, byte in enumerate(self._data) if byte == 10)]
        self._edits: list[tuple[int, int, int, bytes]] = []
        """Start, order among edits with the same start, end, text."""
        self._added_before: dict[int, int] = {}
        self._sections: dict[str, None] = {}
        self._modules: dict[str, str] = {}
        """Module by the name that the script gave it."""
        self._functions: set[str] = set()
        self._properties: set[str] = set()
        self._imported: dict[str, str] = {}
        """Module, or module and name, by the name that an import gave it."""

    def run(self, tree: ast.Module) -> Rewritten:
        nodes = list(ast.walk(tree))
        self._functions = {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
        self._properties = _properties(nodes)
        self._servers -= {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        self._servers -= {node.arg for node in nodes if isinstance(node, ast.arg)}
        for node in nodes:
            if isinstance(node, ast.Import | ast.ImportFrom):
                self._import(node)
        for node in nodes:
            self._visit(node)
        source = self._apply().decode("utf-8", "surrogatepass")
        return Rewritten(source, tuple(self._sections), tuple(self._line_map()))

    def _visit(self, node: ast.AST) -> None:
        match node:
            case ast.Delete():
                self._delete(node)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._generator(node)
                if node.name in self._properties:
                    (decorator,) = node.decorator_list
                    self._replace(self._start(decorator) - 1, self._end(decorator), b"")
            case ast.Call():
                self._call(node)
            case ast.Attribute(value=ast.Name(id=name) as value, attr=attr) if name in self._modules:
                self._attribute(value, self._modules[name], attr)
            case ast.Subscript(value=ast.Name(id=name) as value, slice=ast.Constant(value=str(tool))) if (
                name in self._servers
            ):  # a tool by its real name: server["get-sum"]
                self._replace(self._end(value), self._end(node), f".{identifier(tool)}".encode())
            case ast.AsyncWith():
                self._async_with(node)
            case ast.ClassDef():
                self._class(node)
            case ast.Attribute(value=value, attr="__class__", ctx=ast.Load()):
                self._insert(self._start(value), b"type(")
                self._replace(self._end(value), self._end(node), b")")
            case ast.Attribute(attr=attr, ctx=ast.Load()) if attr in self._properties:
                self._insert(self._end(node), b"()", order=-1)
            case ast.Assign(value=ast.GeneratorExp() as value):
                self._insert(self._start(value), b"iter(")
                self._insert(self._end(value), b")")
            case ast.AsyncFor():
                self._replace(self._start(node), self._data.index(b"for", self._start(node)), b"")
                self._insert(self._start(node.iter), b"await ")
            case ast.comprehension(is_async=1):
                at = self._data.rfind(b"async", 0, self._start(node.target))
                self._replace(at, at + 5, b"")
                self._insert(self._start(node.iter), b"await ")
            case ast.Name(id="callable", ctx=ast.Load()):
                self._need("callable")
            case _:
                pass

    # Imports

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        if isinstance(node, ast.ImportFrom):
            parts = list(self._from_import(node))
            special = parts != [f"from {node.module} import {ast.unparse(alias)}" for alias in node.names]
        else:
            parts = list(self._whole_import(node))
            special = any(alias.name in _ADDED | _IGNORED for alias in node.names)
        if special:
            padding = "\n" * ((node.end_lineno or node.lineno) - node.lineno)
            self._replace(self._start(node), self._end(node), ("; ".join(parts) or "pass").encode() + padding.encode())

    def _whole_import(self, node: ast.Import) -> Iterator[str]:
        for alias in node.names:
            local = alias.asname or alias.name
            self._imported[local] = alias.name
            if alias.name in _IGNORED:
                continue
            if alias.name in _ADDED:
                self._need(alias.name)
                yield f"{local} = _wicket_{alias.name}"
            else:
                if alias.name in _PATCHED:
                    self._modules[local] = alias.name
                yield f"import {alias.name}" + (f" as {alias.asname}" if alias.asname else "")

    def _from_import(self, node: ast.ImportFrom) -> Iterator[str]:
        module = node.module or ""
        for alias in node.names:
            local = alias.asname or alias.name
            self._imported[local] = f"{module}.{alias.name}"
            if module in _IGNORED:
                continue
            if (module, alias.name) in _SAME:
                yield f"from {module} import {_SAME[module, alias.name]} as {local}"
            elif module == "typing" and alias.name in _BASES:
                yield f"{local} = None"
            elif module in _ADDED or alias.name in _PATCHED.get(module, ()):
                self._need(module)
                yield f"{local} = _wicket_{module}.{alias.name}"
            else:
                yield f"from {module} import {alias.name}" + (f" as {alias.asname}" if alias.asname else "")

    # Expressions

    def _attribute(self, value: ast.Name, module: str, attr: str) -> None:
        if attr in _PATCHED[module] and (module, attr) not in _ON_CALL:
            self._use(value, module)

    def _call(self, node: ast.Call) -> None:
        match node.func:
            case ast.Attribute(value=ast.Name(id=name) as value, attr=attr) if name in self._modules:
                condition = _ON_CALL.get((self._modules[name], attr))
                if condition is not None and condition(node):
                    self._use(value, self._modules[name])
            case ast.Attribute(value=value, attr="sub" | "subn" as attr) if node.args and self._is_function(
                node.args[0]
            ):
                self._need("re")
                self._insert(self._start(node), f"_wicket_re.{attr}(".encode())
                self._replace(self._end(value), self._start(node.args[0]), b", ")
            case _:
                pass
        self._builtin_call(node)
        for keyword in node.keywords:
            if keyword.arg in ("key", "default", "default_factory"):
                self._method_as_value(keyword.value)
        called = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        if called in _TAKES_FUNCTION and node.args:
            self._method_as_value(node.args[0])

    def _builtin_call(self, node: ast.Call) -> None:
        """Calls of functions and methods that the engine lacks, or has only in part."""
        match node:
            case ast.Call(func=ast.Name(id="next"), args=[ast.GeneratorExp() as each, *more]):
                self._insert(self._start(each), b"iter(" if more else b"(iter")
                self._insert(self._end(each), b")")
            case ast.Call(
                func=ast.Name(id="map"), args=[ast.Lambda() | ast.Name() | ast.Attribute() as each, items], keywords=[]
            ) if not isinstance(items, ast.Starred):  # a call inside the engine's own map could not wait
                self._replace(self._start(node), self._start(each), b"iter([(")
                self._replace(self._end(each), self._start(items), b")(_wicket_each) for _wicket_each in ")
                self._replace(self._end(items), self._end(node), b"])")
            case ast.Call(func=ast.Attribute(value=value, attr="fromtimestamp" | "utcfromtimestamp")):
                self._need("datetime")
                self._replace(self._start(value), self._end(value), b"_wicket_datetime")
            case ast.Call(func=func) if self._meaning(func) == "datetime.timedelta":
                self._need("datetime")
                self._replace(self._start(func), self._end(func), b"_wicket_datetime.timedelta")
            case ast.Call(func=ast.Attribute(value=ast.Name(id="str"), attr="maketrans") as func):
                self._need("text")
                self._replace(self._start(func), self._end(func), b"_wicket_maketrans")
            case ast.Call(func=ast.Attribute(value=value, attr="translate"), args=[table]) if not self._meaning(value):
                self._need("text")
                self._insert(self._start(value), b"_wicket_translate(")
                self._replace(self._end(value), self._start(table), b", ")
            case _:
                pass

    def _meaning(self, node: ast.expr) -> str:
        """The full name of something imported; empty for anything else."""
        match node:
            case ast.Name(id=name):
                return self._imported.get(name, "")
            case ast.Attribute(value=ast.Name(id=name), attr=attr) if name in self._imported:
                return f"{self._imported[name]}.{attr}"
            case _:
                return ""

    def _is_function(self, node: ast.expr | None = None) -> bool:
        return isinstance(node, ast.Lambda) or (isinstance(node, ast.Name) and node.id in self._functions)

    def _method_as_value(self, node: ast.expr) -> None:
        """`counts.get` or `str.lower` as a value: the engine supports methods only in calls."""
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr=attr) if name in _TYPES and attr in _METHODS:
                text = f"(lambda _wicket_it, *_wicket_more: _wicket_it.{attr}(*_wicket_more))"
                self._replace(self._start(node), self._end(node), text.encode())
            case ast.Attribute(attr=attr) if attr in _METHODS:
                self._insert(self._start(node), b"(lambda *_wicket_more: ")
                self._insert(self._end(node), b"(*_wicket_more))")
            case _:
                pass

    def _use(self, value: ast.Name, module: str) -> None:
        self._need(module)
        self._replace(self._start(value), self._end(value), f"_wicket_{module}".encode())

    # Statements

    def _async_with(self, node: ast.AsyncWith) -> None:
        """The engine's `with`, which waits before it enters, and after it leaves a group of tasks."""
        self._need("asyncio")
        self._replace(self._start(node), self._data.index(b"with", self._start(node)), b"")
        for item in node.items:
            self._insert(self._start(item.context_expr), b"await _wicket_enter(")
            self._insert(self._end(item.context_expr), b")")
            called = item.context_expr.func if isinstance(item.context_expr, ast.Call) else item.context_expr
            if self._meaning(called) == "asyncio.TaskGroup" and isinstance(item.optional_vars, ast.Name):
                indent, after = b" " * node.col_offset, (node.end_lineno or node.lineno) + 1
                text = indent + f"await {item.optional_vars.id}._wicket_join()".encode()
                self._add_line(after, text, order=-1000 - node.col_offset)

    def _class(self, node: ast.ClassDef) -> None:
        form = without_base(node)
        if form is None:
            return
        text, section = form
        if section:
            self._need(section)
        padding = "\n" * ((node.end_lineno or node.lineno) - node.lineno)
        self._replace(self._start(node), self._end(node), text.encode() + padding.encode())

    def _delete(self, node: ast.Delete) -> None:
        first, gaps = node.targets[0], list(zip(node.targets, node.targets[1:], strict=False))
        if self._data[self._start(node) + 3 : self._start(first)].strip():
            return  # in parentheses
        self._replace(self._start(node), self._start(first), b"")
        for before, after in gaps:
            self._replace(self._end(before), self._start(after), b"; ")
        for target in node.targets:
            match target:
                case ast.Subscript(slice=ast.Slice()):
                    self._insert(self._end(target), b" = []", order=-1)
                case ast.Subscript(value=value, slice=key):
                    self._replace(self._end(value), self._start(key), b".pop(")
                    self._replace(self._end(key), self._end(target), b")")
                case _:
                    self._insert(self._end(target), b" = None", order=-1)

    def _generator(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        own = list(_own_nodes(function))
        yields = [node for node in own if isinstance(node, ast.Yield | ast.YieldFrom)]
        statements = {node.value for node in own if isinstance(node, ast.Expr)}
        if not yields or not statements.issuperset(yields):
            return  # a value sent back into a generator: the engine reports that it is not supported
        self._need("generator")
        finish = b"return _wicket_yielded." + (
            b"finish_async()" if isinstance(function, ast.AsyncFunctionDef) else b"finish()"
        )
        for node in yields:
            self._yield(node)
        for node in own:
            if isinstance(node, ast.Return):
                self._replace(self._start(node), self._end(node), finish)
        self._enclose(function, b"_wicket_yielded = _wicket_collected()", finish)

    def _yield(self, node: ast.Yield | ast.YieldFrom) -> None:
        match = _YIELD.match(self._data, self._start(node))
        if match is None:
            return
        opening = b"_wicket_yielded.extend((" if match[1] else b"_wicket_yielded.append(("
        self._replace(match.start(), match.end(), opening if node.value else opening + b"None")
        self._insert(self._end(node), b"))")

    def _enclose(self, function: ast.FunctionDef | ast.AsyncFunctionDef, first: bytes, last: bytes) -> None:
        """Put a statement before and after the body of a function."""
        body: Any = function.body
        begin = min([body[0].lineno, *(decorator.lineno for decorator in getattr(body[0], "decorator_list", []))])
        end: int = body[-1].end_lineno
        if begin == function.lineno or self._data[self._starts[begin - 1] : self._start(body[0])].strip(b" \t@"):
            self._insert(self._start(body[0]), first + b"; ")
            self._insert(self._end(body[-1]), b"; " + last)
            return
        indent = b" " * body[0].col_offset
        self._add_line(begin, indent + first, order=0)
        self._add_line(end + 1, indent + last, order=-1000 - body[0].col_offset)

    # Text

    def _need(self, section: str) -> None:
        self._sections[section] = None

    def _start(self, node: ast.expr | ast.stmt) -> int:
        return self._starts[node.lineno - 1] + node.col_offset

    def _end(self, node: ast.expr | ast.stmt) -> int:
        return self._starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)

    def _insert(self, at: int, text: bytes, order: int = 0) -> None:
        self._edits.append((at, order, at, text))

    def _replace(self, start: int, end: int, text: bytes) -> None:
        self._edits.append((start, 1, end, text))

    def _add_line(self, before: int, text: bytes, order: int) -> None:
        self._insert(self._starts[before - 1], text + b"\n", order)
        self._added_before[before] = self._added_before.get(before, 0) + 1

    def _apply(self) -> bytes:
        parts: list[bytes] = []
        at = 0
        for start, _, end, text in sorted(self._edits, key=lambda edit: edit[:2]):
            if start < at:
                raise ValueError("edits that overlap")
            parts += [self._data[at:start], text]
            at = end
        return b"".join([*parts, self._data[at:]])

    def _line_map(self) -> Iterable[int]:
        for line in range(1, len(self._starts) + 1):
            for _ in range(self._added_before.get(line, 0)):
                yield min(line, len(self._starts) - 1)
            yield line


def _properties(nodes: Iterable[ast.AST]) -> set[str]:
    """Methods that are read like attributes, and that nothing else in the script is named like."""
    methods: list[ast.FunctionDef] = [node for node in nodes if isinstance(node, ast.FunctionDef)]
    read = {
        node.name for node in methods if [ast.unparse(decorator) for decorator in node.decorator_list] == ["property"]
    }
    stored = {node.attr for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)}
    return read - stored - {node.name for node in methods if not node.decorator_list}


def _own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function's body, without those of nested functions."""
    pending: list[ast.AST] = list(getattr(function, "body", []))
    while pending:
        node = pending.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            pending.extend(ast.iter_child_nodes(node))


def _has_option(name: str) -> Callable[[ast.Call], bool]:
    def has(node: ast.Call) -> bool:
        return any(keyword.arg in (name, None) for keyword in node.keywords)

    return has


def _replaces_by_function(node: ast.Call) -> bool:
    replacement = node.args[1] if len(node.args) > 1 else None
    return replacement is not None and not isinstance(replacement, ast.Constant | ast.JoinedStr)


_ON_CALL = {
    ("asyncio", "gather"): _has_option("return_exceptions"),
    ("json", "dumps"): _has_option("default"),
    ("re", "sub"): _replaces_by_function,
}
"""Functions for which the engine's own are enough, unless the call needs what they lack."""
