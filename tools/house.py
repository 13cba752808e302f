"""Measures the house from its sources alone: `python tools/house.py [--where FIGURE]`, in a few seconds.

One line for each figure: now, the most that it may be today (`house.toml`, which only falls), and the goal of
ARCHITECTURE.md. Exit status 1 where a figure is above its most. `--where` lists the places behind a figure. A figure is
a look at the house, not a target: joining lines or hiding a name helps nobody.
"""

import ast
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

ROOT = Path(__file__).parent.parent
LIMITS = Path(__file__).with_name("house.toml")
CORE = "wicket_mcp"
GOALS = {
    "core lines": 53_000,
    "core files": 360,
    "all lines": 66_000,
    "all files": 430,
    "setters after construction": 15,
    "ContextVars": 1,
    "small modules with one importer": 30,
    "functions with one call site elsewhere": 150,
    "most parameters": 8,
    "widest module's imports": 20,
    "reads of principal.name": 5,
    "files that ask for url or command": 3,
    "modules no test imports": 130,
    "functions over 40 lines": 0,
    "complexity over 10": 0,
    "noqa": 0,
    "inline imports": 0,
    "except Exception": 0,
}
LONG, HARD, SMALL, TINY = 40, 10, 120, 15
BRANCHES = (
    ast.If,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.ExceptHandler,
    ast.IfExp,
    ast.Assert,
    ast.match_case,
    ast.comprehension,
)
Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class Module:
    """One file: its tree, and what it imports of ours."""

    name: str
    tree: ast.Module
    text: str
    imports: set[str] = field(default_factory=set[str])
    names: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    """Its names for functions of other modules."""
    aliases: dict[str, str] = field(default_factory=dict[str, str])
    """Its names for modules."""

    @property
    def lines(self) -> int:
        return self.text.count("\n")

    def functions(self) -> Iterator[Function]:
        return (node for node in ast.walk(self.tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


class House:
    """All modules, and the places behind each figure."""

    def __init__(self, root: Path = ROOT) -> None:
        self.places: dict[str, list[str]] = defaultdict(list)
        self.modules = {module.name: module for module in _read(root / "src")}
        for module in self.modules.values():
            self._resolve(module)
        for module in self.modules.values():
            self._count_lines(module)
            self._count_nodes(module)
            self._count_functions(module)
        self._count_importers()
        self._count_call_sites()
        tested = set(_imported_by(root / "tests"))
        self.places["modules no test imports"] = sorted(
            name for name, module in self.modules.items() if module.lines > TINY and name not in tested
        )
        self.places["widest module's imports"] = _widest(
            (len(module.imports), module.name) for module in self.modules.values()
        )

    def figures(self) -> dict[str, int]:
        core = [module for module in self.modules.values() if module.name.split(".")[0] == CORE]
        figures = {figure: len(self.places[figure]) for figure in GOALS}
        for figure in ("most parameters", "widest module's imports"):
            figures[figure] = int(self.places[figure][0].split()[0])
        sizes = {
            "core lines": sum(module.lines for module in core),
            "core files": len(core),
            "all lines": sum(module.lines for module in self.modules.values()),
            "all files": len(self.modules),
        }
        return figures | sizes

    def _resolve(self, module: Module) -> None:
        inline = {id(node) for function in module.functions() for node in ast.walk(function)}
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in self._packages:
                if id(node) in inline:
                    self.places["inline imports"].append(f"{module.name}:{node.lineno}")
                for alias in node.names:
                    full, short = f"{node.module}.{alias.name}", alias.asname or alias.name
                    module.imports.add(full if full in self.modules else node.module)
                    if full in self.modules:
                        module.aliases[short] = full
                    else:
                        module.names[short] = (node.module, alias.name)

    @property
    def _packages(self) -> set[str]:
        return {name.split(".")[0] for name in self.modules}

    def _count_lines(self, module: Module) -> None:
        if "url is None" in module.text or ".command is" in module.text:
            self.places["files that ask for url or command"].append(module.name)
        lines = enumerate(module.text.splitlines(), 1)
        self.places["noqa"] += [f"{module.name}:{number}" for number, line in lines if "# noqa" in line]

    def _count_nodes(self, module: Module) -> None:
        for node in ast.walk(module.tree):
            place = f"{module.name}:{getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.ExceptHandler) and "Exception" in _names(node.type):
                self.places["except Exception"].append(place)
            is_name = isinstance(node, ast.Attribute) and node.attr == "name" and _last(node.value) == "principal"
            if is_name and not module.name.endswith(".party"):
                self.places["reads of principal.name"].append(place)
            if isinstance(node, ast.Call) and _last(node.func) == "ContextVar":
                self.places["ContextVars"].append(place)
            if isinstance(node, ast.ClassDef):
                methods = [part for part in node.body if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)]
                setters = [method.name for method in methods if not method.name.startswith("_") and _is_setter(method)]
                self.places["setters after construction"] += [f"{module.name}.{node.name}.{name}" for name in setters]

    def _count_functions(self, module: Module) -> None:
        counts: list[tuple[int, str]] = []
        for function in module.functions():
            place = f"{module.name}.{function.name}"
            if (length := (function.end_lineno or 0) - function.lineno + 1) > LONG:
                self.places["functions over 40 lines"].append(f"{length} {place}")
            if (complexity := _complexity(function)) > HARD:
                self.places["complexity over 10"].append(f"{complexity} {place}")
            arguments = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
            counts.append((len([name for name in arguments if name.arg not in ("self", "cls")]), place))
        known = [(int(count), place) for count, place in (entry.split() for entry in self.places["most parameters"])]
        self.places["most parameters"] = _widest([*known, *counts])

    def _count_importers(self) -> None:
        importers: dict[str, set[str]] = defaultdict(set)
        for module in self.modules.values():
            for name in module.imports:
                importers[name].add(module.name)
        for name, known in importers.items():
            if len(known) == 1 and name in self.modules and self.modules[name].lines < SMALL:
                (importer,) = known
                if _folder(name) == _folder(importer):
                    self.places["small modules with one importer"].append(f"{name} <- {importer}")

    def _count_call_sites(self) -> None:
        uses: Counter[tuple[str, str]] = Counter()
        own: Counter[tuple[str, str]] = Counter()
        for module in self.modules.values():
            for node in ast.walk(module.tree):
                if isinstance(node, ast.Name):
                    own[module.name, node.id] += 1
                    if node.id in module.names:
                        uses[module.names[node.id]] += 1
                elif isinstance(node, ast.Attribute) and _last(node.value) in module.aliases:
                    uses[module.aliases[_last(node.value)], node.attr] += 1
        for module in self.modules.values():
            defined = [
                part.name for part in module.tree.body if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)
            ]
            self.places["functions with one call site elsewhere"] += [
                f"{module.name}.{name}"
                for name in defined
                if not name.startswith("_") and uses[module.name, name] == 1 and not own[module.name, name]
            ]


def _read(source: Path) -> Iterator[Module]:
    for path in sorted(source.rglob("*.py")):
        text = path.read_text("utf-8")
        name = ".".join(path.relative_to(source).with_suffix("").parts).removesuffix(".__init__")
        yield Module(name, ast.parse(text), text)


def _imported_by(tests: Path) -> Iterator[str]:
    for path in tests.rglob("*.py"):
        if "data" not in path.relative_to(tests).parts:
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.ImportFrom) and node.module:
                    yield node.module
                    yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _complexity(function: Function) -> int:
    """Ways through a function, without those through functions in it."""
    count, nodes = 1, list(ast.iter_child_nodes(function))
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        count += isinstance(node, BRANCHES) + (len(node.ifs) if isinstance(node, ast.comprehension) else 0)
        count += len(node.values) - 1 if isinstance(node, ast.BoolOp) else 0
        nodes.extend(ast.iter_child_nodes(node))
    return count


def _is_setter(method: Function) -> bool:
    """Whether a method only stores what it is given: state that comes after construction."""
    given = {argument.arg for argument in (*method.args.args, *method.args.kwonlyargs)} - {"self"}
    body = [part for part in method.body if not (isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant))]
    stores = [part for part in body if _stores(part)]
    takes = any(given & _names(part.value) for part in stores if isinstance(part, ast.Assign))
    plain = all(part in stores or isinstance(part, ast.Expr | ast.If) for part in body)
    return 0 < len(body) <= 3 and takes and plain


def _stores(part: ast.stmt) -> bool:
    if not isinstance(part, ast.Assign):
        return False
    target = part.targets[0]
    targets = target.elts if isinstance(target, ast.Tuple) else [target]
    return all(isinstance(place, ast.Attribute | ast.Subscript) for place in targets)


def _names(node: ast.AST | None) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)} if node is not None else set()


def _last(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _folder(name: str) -> str:
    return name.rpartition(".")[0]


def _widest(counts: "Iterator[tuple[int, str]] | Sequence[tuple[int, str]]") -> list[str]:
    return [f"{count} {place}" for count, place in sorted(counts, reverse=True)[:20]]


def main(arguments: Sequence[str]) -> int:
    house = House()
    if arguments[:1] == ["--where"]:
        print(*house.places[arguments[1]], sep="\n")
        return 0
    figures, most = house.figures(), tomllib.loads(LIMITS.read_text("utf-8"))
    print(f"{'figure':40}{'now':>8}{'most':>8}{'goal':>8}")
    for figure, goal in GOALS.items():
        print(f"{figure:40}{figures[figure]:>8}{most[figure]:>8}{goal:>8}{'  *' * (figures[figure] > most[figure])}")
    return int(any(figures[figure] > most[figure] for figure in GOALS))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
