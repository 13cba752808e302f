"""What a principal may not see changes nothing in the answers to its searches."""

import random
import re
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import OpenGateway, replay

from wicket_mcp import Gateway
from wicket_mcp.model import Listing, Principal, Tool
from wicket_mcp.search import Answer, SearchIndex

QUERIES = 150
SHOWN = ("git", "time", "filesystem")
HIDDEN = ("slack", "sentry")


def words_of(gateway: Gateway) -> list[str]:
    texts = [f"{tool.name} {tool.description}" for tool in gateway.catalogue.now.tools]
    return sorted({word for text in texts for word in re.findall("[a-z]{4,}", text.lower())})


def ask(words: list[str]) -> list[str]:
    rng = random.Random(20)
    asked = [" ".join(rng.sample(words, rng.randint(1, 3))) for _ in range(QUERIES - 3)]
    return [*asked, "qwerty", "giraffe", "blorf"]


async def answers(gateway: Gateway, principal: Principal, queries: list[str]) -> list[Answer]:
    await gateway.verbs.view(principal)
    await gateway.verbs.search("begin", principal=principal)
    await gateway.finder.finish_indexing()
    return [await gateway.verbs.search(query, principal=principal, limit=10) for query in queries]


PROFILES: dict[str, dict[str, Any]] = {
    "a whole server": {"servers": SHOWN, "keys": ["k"]},
    "some tools": {"tools": ["git.git_*", "filesystem.read_*", "filesystem.list_*"], "keys": ["k"]},
    "other names": {"servers": SHOWN, "names": {"git.git_log": "history"}, "keys": ["k"]},
}


@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
async def test_two_gateways_that_differ_in_what_is_hidden_answer_alike(
    open_gateway: OpenGateway, tmp_path: Path, profile: dict[str, Any]
) -> None:
    """W20: 150 queries of the same bound key, of words that the hidden tools have, or the shown ones, or none."""
    few = {name: replay(name) for name in SHOWN}
    options: dict[str, Any] = {"profiles": {"narrow": profile}, "search": {"learn": False}}
    async with (
        open_gateway(few, **options) as plain,
        open_gateway(
            {**few, **{name: replay(name) for name in HIDDEN}}, state_dir=str(tmp_path / "b"), **options
        ) as full,
    ):
        key = plain.place(Principal("k", frozenset({"discover"})))
        await full.catalogue.complete()
        queries = ask(words_of(full))
        assert len(queries) == QUERIES
        said = zip(queries, await answers(plain, key, queries), await answers(full, key, queries), strict=True)
        assert [query for query, one, other in said if one != other] == []


@pytest.mark.parametrize("learned", [True, False])
def test_an_index_of_some_tools_is_as_if_the_others_had_never_been_read(learned: bool) -> None:
    """W20: what is cut from a segment, instead of read again, is the same."""
    tools = [
        Tool("s", f"tool_{n}", {"description": f"Does the thing {n} with {'apples' * (n % 3)}"}) for n in range(20)
    ]
    other = Listing("t", tools=(Tool("t", "apples", {"description": "Counts apples"}),))
    whole = Listing("s", instructions="About things.", tools=tuple(tools))
    index = SearchIndex.build([]).with_listing(whole, learned=learned).with_listing(other, learned=learned)
    for kept in ([], [0], [3, 4, 9], list(range(19)), list(range(20))):
        part = Listing("s", instructions="About things.", tools=tuple(tools[place] for place in kept))
        alone = SearchIndex.build([]).with_listing(part, learned=learned) if kept else SearchIndex.build([])
        cut = index.narrow({"s": part.tools})
        assert len(cut) == len(kept)
        assert not kept or cut.segment("s") == alone.segment("s")
        assert cut.search("thing 4 apples").hits == alone.search("thing 4 apples").hits
