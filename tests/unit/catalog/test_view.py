"""Views: what a principal may not see is nowhere in its view, and those who may see the same share one."""

from collections.abc import Callable, Iterable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wicket_mcp.catalog.names import bare_names, plain_names, upper_names, wire_names
from wicket_mcp.catalog.snapshot import Snapshot
from wicket_mcp.catalog.view import Unlisted, View
from wicket_mcp.config.model.config import ServerConfig
from wicket_mcp.errors import AmbiguousName, Denied, UnknownName
from wicket_mcp.model import LOCAL, Listing, Principal, Tool
from wicket_mcp.trust.policy import Policy, Visibility

SERVERS = ("a", "a.b", "A-b", "git")
NAMES = st.text(st.sampled_from("aB_-. /"), min_size=1, max_size=5)
OFFERED = st.fixed_dictionaries({server: st.lists(NAMES, max_size=6, unique=True) for server in SERVERS})
NAMINGS = (wire_names, plain_names, upper_names, bare_names)
UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""No clock decides here, however busy the machine is."""
LOOKER, CALLER = Principal("ann", frozenset({"discover"})), Principal("bob", frozenset({"invoke"}))


def snapshot(
    offered: dict[str, list[str]], aliases: dict[str, str] | None = None, *, denied: tuple[str, ...] = ()
) -> Snapshot:
    listings = {
        server: Listing(server, {}, tools=tuple(Tool(server, name, {"name": name}) for name in names))
        for server, names in offered.items()
    }
    servers = {name: ServerConfig(name=name, command="x", denied_tools=denied) for name in listings}
    return Snapshot(1, listings, servers, aliases or {}, {}, Policy(servers.values()))


def every(taken: Snapshot) -> list[Tool]:
    return [tool for listing in taken.listings.values() for tool in listing.tools]


def hiding(hidden: Iterable[Tool]) -> Callable[[Tool], bool]:
    gone = {(tool.server, tool.name) for tool in hidden}
    return lambda tool: (tool.server, tool.name) not in gone


def resolve(view: View, name: str) -> Tool | UnknownName | AmbiguousName:
    try:
        return view.resolve(name)
    except (UnknownName, AmbiguousName) as problem:
        return problem


def names_in(problem: UnknownName | AmbiguousName) -> set[str]:
    return set(problem.near if isinstance(problem, UnknownName) else problem.candidates)


@UNHURRIED
@given(OFFERED, st.data(), NAMES)
@pytest.mark.promise("T20", "Hidden tools are not in lists, hints or tables.")
def test_t20_what_is_hidden_is_in_no_list_no_hint_and_no_table(
    offered: dict[str, list[str]], data: st.DataObject, asked: str
) -> None:
    taken = snapshot(offered)
    tools = every(taken)
    hidden = data.draw(st.lists(st.sampled_from(tools), unique_by=id)) if tools else []
    visible = hiding(hidden)
    view = View(taken, Visibility(visible))
    shown = [tool for tool in tools if visible(tool)]

    assert list(view.tools) == shown
    assert [tool for listed in view.by_server.values() for tool in listed] == shown
    for naming in NAMINGS:
        assert all(visible(tool) for tool in view.spell(naming).values())
    assert all(view.find(tool.server, tool.name) is None for tool in hidden)

    known = {tool.key for tool in shown} | {f"{tool.server}/{tool.name}" for tool in shown}
    for name in (asked, *(spelling for tool in tools for spelling in (tool.key, tool.name, f"{tool.key}x"))):
        assert all(visible(tool) for tool in view.names.find(name))
        meant = resolve(view, name)
        assert visible(meant) if isinstance(meant, Tool) else names_in(meant) <= known


@UNHURRIED
@given(OFFERED, NAMES)
def test_who_may_not_look_tools_up_is_told_no_name_and_reaches_the_same_tools(
    offered: dict[str, list[str]], asked: str
) -> None:
    taken = snapshot(offered)
    listed, unlisted = taken.view(LOOKER), taken.view(CALLER)
    empty = (unlisted.tools, unlisted.by_server, unlisted.servers, unlisted.listings, unlisted.failures)
    assert not any(empty)
    assert not any(unlisted.spell(naming) for naming in NAMINGS)
    for name in (asked, *(spelling for tool in every(taken) for spelling in (tool.key, tool.name, tool.key.upper()))):
        meant, told = resolve(unlisted, name), resolve(listed, name)
        if isinstance(meant, Tool):
            assert meant is told
        else:
            assert type(meant) is type(told)
            assert not names_in(meant)
            assert meant.hint == "Looking for tools needs an API key with the scope 'discover'."
        assert unlisted.find_spelled(wire_names, name) is listed.find_spelled(wire_names, name)


def test_a_server_is_known_by_name_alone_to_those_who_may_not_look() -> None:
    view = snapshot({"git": [], "github": []}).view(CALLER)
    assert view.server("GIT").name == "git"
    with pytest.raises(UnknownName, match="scope 'discover'") as caught:
        view.server("gti")
    assert caught.value.near == ()


def test_principals_that_may_see_the_same_share_a_view() -> None:
    taken = snapshot({"git": ["log"]})
    assert taken.view(LOCAL) is taken.view(LOOKER)
    assert isinstance(taken.view(CALLER), Unlisted)
    assert taken.view(CALLER) is taken.view(Principal("eve", frozenset({"invoke", "register"})))


def test_where_nothing_is_restricted_no_tool_is_asked_about() -> None:
    asked: list[Tool] = []

    def visible(tool: Tool) -> bool:
        asked.append(tool)
        return True

    view = View(snapshot({"git": ["log", "show"]}), Visibility(visible, unrestricted=True))
    assert len(view.tools) == 2
    assert not asked


@pytest.mark.promise("V23", "Without the scope `discover`, a denied tool looks like one that does not exist.")
def test_v23_a_tool_that_the_configuration_leaves_out_is_denied_by_its_name_to_those_who_may_look() -> None:
    taken = snapshot({"git": ["log", "push"]}, denied=("push",))
    with pytest.raises(Denied, match="'denied_tools'"):
        taken.view(LOOKER).resolve("git.push")
    with pytest.raises(UnknownName):
        taken.view(CALLER).resolve("git.push")


def test_an_alias_is_followed_once_and_only_where_no_tool_has_its_name() -> None:
    aliases = {"history": "git.log", "log": "git.show", "loop": "history"}
    taken = snapshot({"git": ["log", "show"]}, aliases)
    for principal in (LOOKER, CALLER):
        view = taken.view(principal)
        assert (view.resolve("history").name, view.resolve("log").name) == ("log", "log")
        with pytest.raises(UnknownName, match="No tool named 'loop'"):
            view.resolve("loop")
