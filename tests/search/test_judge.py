"""The judge: what it tells apart that lies close together, when it is asked, and how what it read is kept."""

from math import log
from pathlib import Path

import pytest
from msgspec.structs import replace

from wicket_mcp.model import Listing, Tool
from wicket_mcp.search import SearchIndex, build_segment
from wicket_mcp.search import judge as judge_module
from wicket_mcp.search.confidence import SURE, Evidence, interpolate
from wicket_mcp.search.encoder import packaged_encoder
from wicket_mcp.search.judge import LONGEST_TOOL, WIDTH, Judge, packaged_judge
from wicket_mcp.search.numeric import np
from wicket_mcp.search.segment import Segment

ABOUT = {
    "post_message": "Post a message to a channel",
    "reply_to_thread": "Reply to a message in its thread",
    "list_channels": "List the channels of the workspace",
    "add_reaction": "Add an emoji to a message",
    "list_members": "List the members of the workspace with their names",
}
CHAT = Listing("chat", tools=tuple(Tool("chat", name, {"description": about}) for name, about in ABOUT.items()))


@pytest.fixture(scope="module")
def index() -> SearchIndex:
    return SearchIndex.build([CHAT])


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ("tell everybody in #events that lunch is at one", "post_message"),
        ("answer under what Mia wrote", "reply_to_thread"),
        ("give her post a thumbs up", "add_reaction"),
    ],
)
def test_what_serves_a_request_is_told_from_its_siblings(index: SearchIndex, asked: str, name: str) -> None:
    judged = dict(zip(ABOUT, index.judge(asked, CHAT.tools), strict=True))
    assert judged[name] > 0
    assert max(judged, key=lambda tool: judged[tool]) == name


@pytest.mark.parametrize("asked", ["delete the message I just posted", "rename the channel", "remove Tom from here"])
def test_what_is_about_the_same_things_but_does_something_else_is_told_too(index: SearchIndex, asked: str) -> None:
    assert max(index.judge(asked, CHAT.tools)) < 0


def test_only_an_answer_in_doubt_is_judged(index: SearchIndex) -> None:
    clear, doubtful = index.search("post a message to a channel"), index.search("delete my message")
    assert clear.confident
    assert clear.evidence.judged is None
    assert doubtful.evidence.is_in_doubt
    best = max(index.judge("delete my message", CHAT.tools))
    assert doubtful.evidence.judged is not None
    assert best <= doubtful.evidence.judged < best + 2 * log(5)
    assert not doubtful.confident


def test_the_tools_of_a_doubtful_answer_come_in_the_order_that_the_judge_gives_them(index: SearchIndex) -> None:
    asked = "give her post a thumbs up"
    answer = index.search(asked)
    assert max(CHAT.tools, key=lambda tool: index.explain(asked, tool).score).name == "post_message"
    explained = {hit.tool.name: index.explain(asked, hit.tool).as_hit(hit.score) for hit in answer.hits}
    assert answer.first.is_in_doubt
    assert answer.hits[0].tool.name == "add_reaction"
    assert explained["add_reaction"].judged > 0
    assert [hit.score for hit in answer.hits] == sorted((hit.score for hit in answer.hits), reverse=True)
    assert explained["post_message"].judged < 0


def test_an_order_is_changed_only_where_the_answer_is_in_doubt(index: SearchIndex) -> None:
    asked = "post a message to a channel"
    answer = index.search(asked)
    assert not answer.first.is_in_doubt
    assert [index.explain(asked, hit.tool).score for hit in answer.hits] == [hit.score for hit in answer.hits]


def test_only_tools_that_mention_the_named_product_are_judged() -> None:
    tools = (
        Tool("hub", "post_message", {"description": "Post a message to a channel"}),
        Tool("desk", "list_rooms", {"description": "List the rooms of Discord and who is in them"}),
    )
    index = SearchIndex.build([Listing(tool.server, tools=(tool,)) for tool in tools])
    asked = "let the people in #events on Discord know that lunch is late"
    hub, desk = index.judge(asked, tools)
    assert hub > desk == pytest.approx(index.search(asked).evidence.judged)


@pytest.mark.parametrize(
    ("tools", "expected"), [(0, 1.0), (10, 1.0), (31, 2.0 - 0.017), (100, 3.0), (1000, 5.0), (50_000, 5.0)]
)
def test_a_value_between_two_sizes_lies_between_theirs(tools: int, expected: float) -> None:
    table = ((10, 1.0, 0.0), (100, 3.0, 0.0), (1000, 5.0, 0.0))
    assert interpolate(table, tools, 1) == pytest.approx(expected, abs=1e-3)


def test_what_is_judged_decides_where_the_first_look_does_not() -> None:
    first = Evidence(closest=0.35, fit=0.25, tools=100, words=6)
    assert first.is_in_doubt
    likely, unlikely = (replace(first, judged=judged) for judged in (6.0, -9.0))
    assert likely.confidence > SURE > unlikely.confidence


def test_a_near_answer_whose_tool_does_the_contrary_is_judged_however_near_it_is() -> None:
    sure = Evidence(closest=0.7, fit=0.7, tools=2000, words=4, act=0.3, is_product_there=True)
    contrary = replace(sure, act=-0.4, best_act=-0.4)
    assert [each.confidence > SURE for each in (sure, contrary)] == [True, True]
    assert [each.is_in_doubt for each in (sure, contrary, replace(contrary, errands=2))] == [False, True, False]


def test_a_tool_that_is_both_close_and_liked_by_the_judge_says_more_than_two_of_which_each_is_one() -> None:
    parted = Evidence(closest=0.3, fit=0.2, tools=100, words=6, judged=1.0, agreed=4.0)
    assert replace(parted, agreed=7.0).confidence > parted.confidence


def test_agreement_is_that_of_one_tool(index: SearchIndex) -> None:
    asked = "what does Ann look like, and is she awake"
    alone = [SearchIndex.build([Listing("chat", tools=(tool,))]) for tool in CHAT.tools]
    near = [one.search(asked, thorough=True).evidence.closest for one in alone]
    opinions = index.judge(asked, CHAT.tools)
    agreed = max(opinion + 20 * closeness for opinion, closeness in zip(opinions, near, strict=True))
    assert index.search(asked, thorough=True).evidence.agreed == pytest.approx(agreed, abs=0.05)
    assert agreed < max(opinions) + 20 * max(near) - 0.5


def test_what_the_judge_read_is_stored_with_the_segment(index: SearchIndex) -> None:
    segment = Segment.read(index.segment("chat"), len(CHAT.tools))
    assert segment is not None
    assert segment.readings.shape == (int(segment.pieces.sum()), WIDTH)
    unread = SearchIndex.load({"chat": (CHAT, build_segment(CHAT, learned=False))})
    asked = "unpin the message in the channel"
    assert unread.judge(asked, CHAT.tools) == pytest.approx(index.judge(asked, CHAT.tools), abs=1e-4)


def test_a_segment_that_was_cut_short_is_built_again(index: SearchIndex) -> None:
    whole = index.segment("chat")
    assert Segment.read(whole[:-1], len(CHAT.tools)) is None
    assert Segment.read(whole + b"\0", len(CHAT.tools)) is None


def test_long_texts_are_read_to_a_limit_and_empty_ones_too() -> None:
    judge = packaged_judge()
    tools = judge.read_tools(["word " * 500, ""])
    assert [len(rows) for rows in tools] == [LONGEST_TOOL, 1]
    assert np.isfinite(judge.weigh(judge.read_request("word " * 500), tools)).all()
    assert np.isfinite(judge.weigh(judge.read_request(""), tools)).all()


def test_tools_are_judged_alike_alone_and_beside_others() -> None:
    judge = packaged_judge()
    request = judge.read_request("who is here?")
    tools = judge.read_tools(list(ABOUT.values()))
    alone = [float(judge.weigh(request, [tool])[0]) for tool in tools]
    assert judge.weigh(request, tools).tolist() == pytest.approx(alone, abs=1e-3)


def test_another_file_is_refused(tmp_path: Path) -> None:
    data = Path(judge_module.__file__).with_name("judge.bin").read_bytes()
    with pytest.raises(ValueError, match="not a judge"):
        Judge(b"WKENCOD2" + data[8:], packaged_encoder())
    (tmp_path / "judge.bin").write_bytes(data[:-1] + b"x")
    with pytest.raises(ValueError, match="install wicket-mcp again"):
        judge_module.read_judge(tmp_path / "judge.bin")
