"""The rooms that put the others together give each part what it needs when they make it, or through its methods."""

import ast
import os
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "wicket_mcp"
COMPOSING = [
    "app.py",
    "library.py",
    "observing.py",
    "replicas.py",
    "rooms.py",
    "scripting.py",
    "serving.py",
    "verbs.py",
]


def attributes_set_on_others(source: str) -> list[str]:
    """Assignments such as `other.name = value` and `self.other.name = value`."""
    targets: list[ast.expr] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                targets += target.elts if isinstance(target, ast.Tuple) else [target]
        elif isinstance(node, ast.AugAssign | ast.AnnAssign):
            targets.append(node.target)
    outside = [
        target for target in targets if isinstance(target, ast.Attribute) and ast.unparse(target.value) != "self"
    ]
    # A span is the notebook of one request, which every layer writes in.
    return [ast.unparse(target) for target in outside if ".span." not in ast.unparse(target)]


def test_what_is_looked_for_is_found() -> None:
    source = "class A:\n def f(self, b):\n  self.x = 1\n  b.y = self.c.z = 2\n  self.d.e, b.g = 3, 4\n  b.span.name = 5"
    assert attributes_set_on_others(source) == ["b.y", "self.c.z", "self.d.e", "b.g"]


@pytest.mark.parametrize("name", COMPOSING)
def test_no_attribute_is_set_from_outside(name: str) -> None:
    assert attributes_set_on_others((PACKAGE / name).read_text("utf-8")) == []


def test_only_the_last_layer_sends_requests_to_the_pool() -> None:
    """Watches have their own handler within the pipeline. Owners pass on what another gateway admitted."""
    senders = {"request", "notify", "watch", "set_log_level"}
    found: set[str] = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            match node:
                case ast.Call(func=ast.Attribute(value=pool, attr=sent)) if sent in senders:
                    if ast.unparse(pool).rpartition(".")[2].lstrip("_") == "pool":
                        found.add(path.relative_to(PACKAGE).as_posix())
                case _:
                    pass
    assert found == {"calls/forward.py", "calls/watches.py", "replicas.py"}


def _starts_python(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(value=ast.Name(id="sys"), attr="executable") | ast.Constant(value="-m"):
            return True
        case _:
            return False


def test_our_own_python_is_started_from_one_place() -> None:
    """Anywhere else it may import modules of the working folder; `client_entries.py` only recognises such a command."""
    found = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if any(map(_starts_python, ast.walk(ast.parse(path.read_text("utf-8")))))
    }
    assert found == {"config/edit/client_entries.py", "interpreter.py"}


def test_processes_are_started_where_somebody_has_looked_at_what_they_read() -> None:
    """Whoever adds a place sees to it that nothing of the working folder is imported or read, and that its test says
    so: `tests/cli/test_hostile_folder.py`.
    """
    starters = {"Popen", "run", "call", "check_call", "check_output", "subprocess_exec", "subprocess_shell"}
    starters |= {"create_subprocess_exec", "create_subprocess_shell"}
    starters |= {name for name in dir(os) if name.startswith(("exec", "spawn", "posix_spawn", "popen", "system"))}
    found: set[str] = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            match node:
                case ast.Attribute(value=module, attr=name) if name in starters:
                    if ast.unparse(module) in ("subprocess", "asyncio.subprocess", "os") or "subprocess" in name:
                        found.add(path.relative_to(PACKAGE).as_posix())
                case _:
                    pass
    assert found == {
        "cli/browser.py",  # the user's own
        "cli/from_registry.py",  # a container engine
        "cli/service.py",  # systemctl, launchctl
        "registry/install.py",  # a container engine
        "scripts/mounts.py",  # the dynamic loader
        "scripts/nursery.py",
        "shim/finding.py",
        "trust/images.py",  # a container engine
        "trust/packages.py",
        "upstream/keeper.py",  # /bin/sh, with a script of ours
        "upstream/stdio.py",  # the servers of the user, who decides what they import
        "workers.py",
    }
