"""What is mutated, and by whose tests: for each module the folders of tests that may know it.

`decides` marks the modules that decide who may do what; the percentage is of those.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Module:
    """A module's path in the repository, and the folders of its tests; the first one is its own."""

    path: str
    tests: tuple[str, ...]
    decides: bool = True

    @classmethod
    def read(cls, text: str) -> "Module":
        """One of the table by its name (`identity/keys`), or any other as PATH:TESTS,TESTS."""
        path, colon, tests = text.partition(":")
        if colon:
            return cls(path, tuple(tests.split(",")))
        found = [module for module in MODULES if module.name == path]
        if not found:
            raise SystemExit(f"'{path}' is not in tools/mutants/table.py; write PATH:TESTS for another module.")
        return found[0]

    @property
    def name(self) -> str:
        return self.path.removeprefix("src/wicket_mcp/").removesuffix(".py")


def _module(name: str, *tests: str, decides: bool = True) -> Module:
    return Module(f"src/wicket_mcp/{name}.py", tuple(f"tests/{folder}" for folder in tests), decides)


_IDENTITY = ("identity", "registry")
_TRUST = ("trust", "gateway")

MODULES = (
    _module("calls/pipeline", "unit/calls", "calls", "trust"),
    _module("calls/approve", "trust", "unit/calls"),
    _module("calls/held", "trust", "eras/test_held.py"),
    _module("calls/authorise", "registry", "unit/calls"),
    _module("identity/keys", *_IDENTITY),
    _module("identity/claims", *_IDENTITY),
    _module("identity/tokens", *_IDENTITY),
    _module("identity/jwks", *_IDENTITY),
    _module("identity/grants", "identity"),
    _module("identity/vault", "identity"),
    _module("sealing", "unit/test_sealing.py", "identity", "eras/test_held.py"),
    _module("quota", "unit/test_quota.py", "unit/surface", "gateway/test_task_room.py"),
    _module("party", "unit", "identity", "registry"),
    _module("consent", "unit", "trust"),
    _module("trust/pins", *_TRUST),
    _module("trust/flow", *_TRUST),
    _module("trust/policy", *_TRUST),
    _module("trust/rules", *_TRUST),
    _module("upstream/egress_rules", "registry", "upstream"),
    _module("surface/guard", "gateway", "surface", "identity"),
    _module("surface/sessions", "gateway", "unit/surface"),
    _module("surface/owned", "upstream", "cluster"),
    _module("surface/held_calls", "unit/surface", "eras/test_held.py"),
    _module("results/handles", "gateway", "cluster"),
    _module("results/results", "gateway", "store", decides=False),
    _module("upstream/lifecycle", "unit/upstream", "upstream", decides=False),
    _module("upstream/lock_ownership", "cluster"),
    _module("upstream/ownership", "upstream"),
    _module("upstream/era", "unit/upstream", "upstream", "eras/test_manners.py", decides=False),
    _module("store/postgres/members", "cluster", "store", decides=False),
    _module("daemon/server", "daemon"),
    _module("schema/signature", "schema", "unit/schema", decides=False),
    _module("schema/typetext", "schema", "unit/schema", decides=False),
    _module("search/confidence", "search", decides=False),
    _module("search/finder", "search", decides=False),
)
"""Those that the report on the tests measured, and the values of the architecture once they have a module."""
