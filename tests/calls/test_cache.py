"""What is kept, for whom, for how long."""

from typing import Any

import pytest

from wicket_mcp.calls.cache import Cache, add_mark, key_of, lifetime
from wicket_mcp.config.model.config import ServerConfig
from wicket_mcp.model import Principal, Silent, Tool


def tool(name: str, *, read_only: bool = False) -> Tool:
    return Tool("s", name, {"name": name, "annotations": {"readOnlyHint": read_only}})


def server(**options: Any) -> ServerConfig:
    return ServerConfig(name="s", command="x", **options)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


ANSWER = {"content": [{"type": "text", "text": "42"}], "_meta": {"vendor": 1}}


@pytest.mark.parametrize(
    ("rules", "name", "read_only", "seconds"),
    [
        ({}, "get", True, 0),
        ({"*": "1m"}, "get", True, 60),
        ({"*": "1m"}, "get", False, 0),
        ({"get": "5s"}, "get", False, 5),
        ({"*": "1m", "get_*": "10m"}, "get_x", True, 600),
        ({"*": "1m", "get_x": "2s"}, "get_x", True, 2),
        ({"other": "5s"}, "get", True, 0),
    ],
)
def test_a_pattern_covers_read_only_tools_and_a_name_any(
    rules: dict[str, str], name: str, read_only: bool, seconds: float
) -> None:
    assert lifetime(server(cache=rules), tool(name, read_only=read_only)) == seconds


def test_an_answer_is_marked_ages_and_ends() -> None:
    clock = Clock()
    kept = Cache(clock)
    kept.keep("k", ANSWER, 10)
    clock.now = 4.0
    found = kept.find("k")
    assert found is not None
    assert found["_meta"] == {"vendor": 1, "wicket/cached": {"mark": "[cached]", "age_s": 4.0}}
    assert [block["text"] for block in add_mark(found)["content"]] == ["42", "[cached]"]
    assert add_mark(ANSWER) == ANSWER
    clock.now = 10.0
    assert kept.find("k") is None


@pytest.mark.parametrize("answer", [{**ANSWER, "isError": True}, {"resultType": "input_required", "content": []}])
def test_what_is_no_final_answer_is_not_kept(answer: dict[str, Any]) -> None:
    kept = Cache(Clock())
    kept.keep("k", answer, 10)
    assert kept.find("k") is None


def test_the_oldest_make_room() -> None:
    kept = Cache(Clock(), most=3000)
    for number in range(4):
        kept.keep(str(number), {"content": [], "pad": "x" * 900}, 10)
    assert [kept.find(str(number)) is None for number in range(4)] == [True, False, False, False]


@pytest.mark.promise("T21", "A cached answer is used only for its own principal and session.")
def test_t21_a_key_tells_callers_sessions_and_servers_apart() -> None:
    me, other = Silent(Principal("me"), "1"), Silent(Principal("you"), "1")
    arguments = {"a": {"x": 1, "y": 2}}
    key = key_of(server(), tool("t"), arguments, me)
    assert key == key_of(server(), tool("t"), {"a": {"y": 2, "x": 1}}, me)
    assert key == key_of(server(), tool("t"), arguments, Silent(Principal("me"), "2"))
    shared = {
        key_of(server(), tool("t"), arguments, other),
        key_of(server(), tool("u"), arguments, me),
        key_of(server(), tool("t"), {"a": 1}, me),
        key_of(server(env={"TOKEN": "b"}), tool("t"), arguments, me),
    }
    assert key not in shared
    assert len(shared) == 4
    isolated = server(isolation="session")
    assert key_of(isolated, tool("t"), {}, me) != key_of(isolated, tool("t"), {}, Silent(Principal("me"), "2"))
