"""Servers as objects of a Python script: their stand-ins in the engine, and the tool that a call means.

These objects contain nothing of the driver but a name: the engine asks the driver about every use. Knows no frames.
"""

import re
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from pydantic_monty import ClassInstance

_POSITIONS = {
    ("tools", "search"): ("query", "limit"),
    ("tools", "describe"): ("names", "detail"),
    ("tools", "call"): ("name", "arguments"),
    ("results", "get"): ("id",),
}
_NOT_AWAITED = re.compile(r"<coroutine external_future\(\d+\)>")


class server:  # noqa: N801  (scripts see this name in errors)
    """The stand-in for a server inside the sandbox; empty, because the wrapper does everything."""


class _Server(ClassInstance):
    """One server: knows its tools, and returns one as a value, as in `f = server.tool`."""

    def bind(self, name: str, tools: list[str] | None, values: dict[str, tuple[str, str]]) -> "_Server":
        self.name, self._tools, self._values = name, tools, values
        return self

    def lookup_lazy_attrs(self, name: str) -> Any:
        self.check(name)

        def tool() -> None:
            """Never called: the engine asks by the name that it gets here."""

        tool.__name__ = f"{self.name}__{name}"
        self._values[tool.__name__] = self.name, name
        return tool

    def check(self, name: str) -> None:
        if name.startswith("__") or (self._tools is not None and name not in self._tools):
            raise AttributeError(f"{self.name} has no tool '{name}'")


class Servers:
    """Everything that a script finds by name."""

    def __init__(
        self, servers: Mapping[str, list[str] | None], positions: Mapping[str, list[str]] | None = None
    ) -> None:
        self._positions = positions or {}
        self._servers: dict[str, list[str] | None] = {**servers, "tools": None, "results": None}
        self._values: dict[str, tuple[str, str]] = {}
        self._by_id: dict[UUID, _Server] = {}

    def get(self, name: str) -> Any:
        """The object of that name, created on demand; the engine asks once."""
        if name not in self._servers:
            return None
        stand_in = _Server(server()).bind(name, self._servers[name], self._values)
        self._by_id[stand_in.id] = stand_in
        return stand_in

    def resolve_call(self, receiver: UUID | None, function: str) -> tuple[str, str]:
        """The server and tool of a call. Raises AttributeError, or NameError for an unknown function."""
        if receiver is None:
            if function not in self._values:
                raise NameError(f"name '{function}' is not defined")
            return self._values[function]
        receiving = self._by_id[receiver]
        receiving.check(function)
        return receiving.name, function

    def arguments(self, server: str, tool: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The named arguments of a call. Raises TypeError."""
        positions = _POSITIONS.get((server, tool))
        if positions is not None:
            body = {**dict(zip(positions, args, strict=False)), **kwargs}
            if tool == "describe" and isinstance(body.get("names"), str):
                body["names"] = [body["names"]]
            return body
        if len(args) == 1 and isinstance(args[0], dict):
            return {**args[0], **kwargs}
        names = self._positions.get(f"{server}.{tool}", [])
        if len(args) > len(names):
            example = ", ".join(f"{name}=…" for name in names[:3]) or "name=value"
            raise TypeError(f"{server}.{tool} takes named arguments: {server}.{tool}({example})")
        return {**dict(zip(names, args, strict=False)), **kwargs}


def is_not_awaited(value: Any) -> bool:
    """Whether a script's value is the engine's text for a call that was not awaited."""
    return isinstance(value, str) and _NOT_AWAITED.fullmatch(value) is not None
