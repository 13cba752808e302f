"""Names: wire names, near names, and which tool a name means."""

import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wicket_mcp.catalog.names import NameIndex, wire_names
from wicket_mcp.errors import AmbiguousName, UnknownName
from wicket_mcp.model import Tool
from wicket_mcp.spelling import nearest

WIRE = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def tool(server: str, name: str) -> Tool:
    return Tool(server, name, {"name": name})


NAMES = st.text(st.sampled_from("aB1_-. /é"), min_size=0, max_size=8)
SOME_TOOLS = st.lists(st.builds(tool, NAMES, NAMES), max_size=12)


class TestWireNames:
    def test_a_plain_tool_is_named_by_server_and_tool(self) -> None:
        issue = tool("github", "create_issue")
        assert wire_names([issue]) == {"github__create_issue": issue}

    def test_a_long_name_keeps_a_readable_head_and_gets_a_hash(self) -> None:
        (name,) = wire_names([tool("server", "a_tool_with_a_name_that_goes_on_and_on_for_far_too_long_to_be_sent")])
        assert name.startswith("server__a_tool_with_a_name_that_goes_on")
        assert len(name) == 64

    def test_names_that_look_alike_on_the_wire_stay_apart(self) -> None:
        tools = [
            tool("a", "b.c"),
            tool("a", "b_c"),
            tool("a__b", "c"),
            tool("a", "b__c"),
            tool("a_", "c"),
            tool("a", "_c"),
        ]
        named = wire_names(tools)
        assert sorted(one.key for one in named.values()) == sorted(one.key for one in tools)
        assert named["a__b_c"].name == "b_c"
        assert named["a__b__c"].server == "a"

    @given(SOME_TOOLS, st.randoms(use_true_random=False))
    def test_names_are_legal_unique_and_independent_of_order(self, tools: list[Tool], chance: random.Random) -> None:
        named = wire_names(tools)
        assert {(one.server, one.name) for one in named.values()} == {(one.server, one.name) for one in tools}
        assert all(WIRE.fullmatch(name) for name in named)
        chance.shuffle(tools)
        assert list(wire_names(tools).items()) == list(named.items())

    @given(SOME_TOOLS, SOME_TOOLS)
    def test_a_name_does_not_change_when_other_tools_appear(self, tools: list[Tool], others: list[Tool]) -> None:
        before, after = wire_names(tools), wire_names([*tools, *others])
        assert all(after[name] == one for name, one in before.items())

    @pytest.mark.parametrize(
        ("first", "second"),
        [(("a__b", "c"), ("a", "b__c")), (("a_", "c"), ("a", "_c")), (("a", "b.c"), ("a", "b_c"))],
    )
    @pytest.mark.promise("T13", "A look-alike does not take another tool's name.")
    def test_t13_a_look_alike_takes_nobodys_name(self, first: tuple[str, str], second: tuple[str, str]) -> None:
        alone = [*wire_names([tool(*first)]), *wire_names([tool(*second)])]
        assert sorted(wire_names([tool(*first), tool(*second)])) == sorted(alone)

    def test_a_tool_called_like_another_ones_shortened_name_does_not_take_it(self) -> None:
        (shortened,) = wire_names([tool("a", "b~c")])
        imitation = tool("a", shortened.removeprefix("a__"))
        assert wire_names([tool("a", "b~c"), imitation])[shortened].name == "b~c"

    def test_every_real_tool_has_one(self, real_tools: list[Tool]) -> None:
        named = wire_names(real_tools)
        assert len(named) == len(real_tools)
        assert all(WIRE.fullmatch(name) for name in named)


class TestNearest:
    @pytest.mark.parametrize(
        ("name", "expected"),
        [
            ("github.creat_issue", "github.create_issue"),
            ("github.craete_issue", "github.create_issue"),
            ("GITHUB.CREATEISSUE", "github.create_issue"),
            ("createIssue", "github.create_issue"),
            ("github-create-issue", "github.create_issue"),
            ("issue_create", "github.create_issue"),
            ("hub.create_issue", "github.create_issue"),
            ("company_internal_tools.execute_sqll", "motherduck.execute_query"),
            ("postgres.qury", "postgres.query"),
            ("read_fil", "filesystem.read_file"),
        ],
    )
    def test_a_slip_finds_the_real_name_first(self, name: str, expected: str, real_tools: list[Tool]) -> None:
        assert nearest(name, [one.key for one in real_tools])[0] == expected

    def test_what_is_far_off_is_not_offered(self) -> None:
        assert nearest("weather", ["github.create_issue", "git.log"]) == []

    def test_no_more_than_asked_for(self) -> None:
        assert len(nearest("get_user", [f"s{number}.get_user" for number in range(9)], limit=2)) == 2

    @given(st.text(max_size=20), st.lists(st.text(max_size=12), max_size=10))
    def test_the_order_of_candidates_does_not_matter(self, name: str, candidates: list[str]) -> None:
        found = nearest(name, candidates)
        assert found == nearest(name, candidates[::-1])
        assert set(found) <= set(candidates)


class TestResolving:
    TOOLS = (
        tool("github", "create_issue"),
        tool("gitlab", "create_issue"),
        tool("github", "list-commits"),
        tool("my.server", "do.it"),
        tool("Files", "Read"),
        tool("math", "3d"),
        tool("lua", "end"),
    )
    INDEX = NameIndex(TOOLS, hint="Use find_tools to search.")

    @pytest.mark.parametrize(
        ("name", "key"),
        [
            ("github.create_issue", "github.create_issue"),
            ("list-commits", "github.list-commits"),
            ("do.it", "my.server.do.it"),
            ("my.server.do.it", "my.server.do.it"),
            ("GitHub.Create_Issue", "github.create_issue"),
            ("LIST-COMMITS", "github.list-commits"),
            ("files.read", "Files.Read"),
            ("github.list_commits", "github.list-commits"),
            ("list_commits", "github.list-commits"),
            ("my_server.do_it", "my.server.do.it"),
            ("my_server_do_it", "my.server.do.it"),
            ("math._3d", "math.3d"),
            ("lua._end", "lua.end"),
            ("_end", "lua.end"),
            ("github__create_issue", "github.create_issue"),
            ("GITHUB__CREATE_ISSUE", "github.create_issue"),
            ("github__list_commits", "github.list-commits"),
            ("github/create_issue", "github.create_issue"),
            ("my.server/do.it", "my.server.do.it"),
            ("My.Server/Do.It", "my.server.do.it"),
        ],
    )
    def test_a_tool_is_found_by_any_of_its_spellings(self, name: str, key: str) -> None:
        assert self.INDEX.resolve(name).key == key

    def test_a_bare_name_of_two_servers_lists_both(self) -> None:
        with pytest.raises(AmbiguousName) as caught:
            self.INDEX.resolve("create_issue")
        assert caught.value.candidates == ("github.create_issue", "gitlab.create_issue")

    def test_a_miss_names_the_nearest_and_how_to_search(self) -> None:
        with pytest.raises(UnknownName) as caught:
            self.INDEX.resolve("github.creat_issue")
        assert str(caught.value) == (
            "No tool named 'github.creat_issue'. Did you mean 'github.create_issue' or 'gitlab.create_issue'? "
            "Use find_tools to search."
        )

    def test_an_exact_name_wins_over_one_that_differs_in_case(self) -> None:
        index = NameIndex([tool("s", "Get"), tool("s", "get")])
        assert index.resolve("s.Get").name == "Get"
        assert index.resolve("get").name == "get"
        with pytest.raises(AmbiguousName):
            index.resolve("GET")

    def test_two_tools_with_the_same_canonical_name_are_told_apart_by_a_slash(self) -> None:
        index = NameIndex([tool("a.b", "c"), tool("a", "b.c")])
        with pytest.raises(AmbiguousName) as caught:
            index.resolve("a.b.c")
        assert caught.value.candidates == ("a.b/c", "a/b.c")
        assert index.resolve("a.b/c").server == "a.b"
        assert index.resolve("a/b.c").server == "a"

    def test_a_long_name_is_not_echoed_whole(self) -> None:
        with pytest.raises(UnknownName) as caught:
            self.INDEX.resolve("x\n" * 5000)
        assert len(str(caught.value)) < 200
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize("name", ["", ".", "__", "/", "\n", "\ud800"])
    def test_a_name_of_nothing_is_unknown(self, name: str) -> None:
        with pytest.raises(UnknownName):
            self.INDEX.resolve(name)

    def test_every_real_tool_is_found_by_its_names(self, real_tools: list[Tool]) -> None:
        index = NameIndex(real_tools)
        for one in real_tools:
            assert index.resolve(one.key) is one
            assert index.resolve(f"{one.server}/{one.name}") is one
            assert index.resolve(one.key.upper()) is one
        assert all(index.resolve(name) is one for name, one in wire_names(real_tools).items())

    @given(SOME_TOOLS, NAMES)
    def test_resolving_finds_a_tool_or_says_why_not(self, tools: list[Tool], name: str) -> None:
        try:
            found = NameIndex(tools).resolve(name)
        except (AmbiguousName, UnknownName):
            return
        assert found in tools
