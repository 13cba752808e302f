"""What an agent gets for what it asks, over the real catalogues."""

from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from tests.conftest import OpenGateway, replay
from tests.dialects.seeds import Speaker

from wicket_mcp.codec import decode
from wicket_mcp.model import Listing, Tool
from wicket_mcp.search import SearchIndex
from wicket_mcp.search.text import words

QUERIES = Path(__file__).parents[2] / "bench" / "queries" / "catalog.jsonl"


def keys(index: SearchIndex, query: str, limit: int = 5) -> list[str]:
    return [hit.tool.key for hit in index.search(query, limit=limit).hits]


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("create a github issue", "github.create_issue"),
        ("send an email", "google-workspace.send_gmail_message"),
        ("run a cypher query", "neo4j-cypher.read_neo4j_cypher"),
        ("resolveLibraryId", "context7.resolve-library-id"),
        ("linear_createProject", "linear.linear_createProject"),
        ("turn a street address into coordinates", "google-maps.maps_geocode"),
        ("merge pul reqest on githb", "github.merge_pull_request"),
        ("elasticsaerch clustr helth", "elasticsearch.get_cluster_health"),
        ("Convertir el documento de Word a PDF", "office-word.convert_to_pdf"),
    ],
)
def test_the_wanted_tool_is_among_the_first_five(index: SearchIndex, query: str, wanted: str) -> None:
    assert wanted in keys(index, query)


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("hdel", "redis.hdel"),
        ("rpop", "redis.rpop"),
        ("redis.set", "redis.set"),
        ("Redis set", "redis.set"),
        ("browser_resume", "playwright-allcaps.browser_resume"),
        ("linear.linear_searchDocuments", "linear.linear_searchDocuments"),
        ("kubectl_context", "kubernetes-node.kubectl_context"),
        ("create-index", "mongodb.create-index"),
    ],
)
def test_a_query_that_is_the_name_of_a_tool_finds_it_first_and_surely(
    index: SearchIndex, query: str, first: str
) -> None:
    answer = index.search(query)
    assert answer.hits[0].tool.key == first
    assert answer.confident
    assert index.explain(query, answer.hits[0].tool).score == pytest.approx(answer.hits[0].score)


def test_t20_a_tool_that_is_called_by_its_name_scores_the_same_beside_a_hidden_one() -> None:
    shown, hidden = Tool("a", "hget", {"description": "Reads"}), Tool("b", "hget_all", {"description": "hget " * 9})
    beside = SearchIndex.build([Listing(tool.server, tools=(tool,)) for tool in (shown, hidden)])
    alone = SearchIndex.build([Listing("a", tools=(shown,))])
    (hit,) = beside.search("hget", visible=lambda tool: tool.server == "a").hits
    assert hit.score == pytest.approx(alone.search("hget").hits[0].score, abs=0.02)


@pytest.mark.parametrize("query", ["http://a" + "/" * 1_000_000, "a/b github " * 100_000])
def test_the_end_of_a_long_query_is_not_read(query: str) -> None:
    index = SearchIndex.build([Listing("x", tools=(Tool("x", "read_page", {"description": "Reads a page"}),))])
    assert index.search(query).hits == index.search(query[:4000]).hits


def test_a_query_without_words_is_no_name_not_even_of_a_tool_without_one() -> None:
    nameless = [Tool("x", name, {"description": "Reads pages"}) for name in ("", "((", "🙂")]
    index = SearchIndex.build([Listing("x", tools=tuple(nameless))])
    assert [index.search(query).hits for query in ("", "((", "🙂", "\0")] == [()] * 4


@pytest.mark.parametrize(
    ("query", "wanted"), [("sentry dsn", "sentry.find_dsns"), ("gmail labels", "google-workspace.list_gmail_labels")]
)
def test_a_query_of_which_a_tools_name_has_every_word_is_answered_surely(
    index: SearchIndex, query: str, wanted: str
) -> None:
    answer = index.search(query)
    assert answer.confident
    assert wanted in [hit.tool.key for hit in answer.hits]


def test_a_query_of_several_parts_gets_a_tool_for_each(index: SearchIndex) -> None:
    answer = index.search("take a screenshot of the web page, then send a message to the slack channel")
    found = {hit.tool.server for hit in answer.hits}
    assert "slack" in found
    assert found & {"playwright", "playwright-allcaps", "puppeteer", "chrome-devtools"}
    assert [part.text for part in answer.parts] == [
        "take a screenshot of the web page",
        "send a message to the slack channel",
    ]
    assert all(part.tools for part in answer.parts)
    assert {key for part in answer.parts for key in part.tools} <= {hit.tool.key for hit in answer.hits}


def test_a_request_that_no_tool_serves_is_declined_with_the_nearest_servers(index: SearchIndex) -> None:
    answer = index.search("order a pepperoni pizza to my door")
    assert not answer.confident
    assert answer.confidence < 0.5
    assert len(answer.nearest) <= 3


def test_most_requests_of_the_public_benchmark_are_judged_rightly(index: SearchIndex) -> None:
    rows = [decode(line) for line in QUERIES.read_bytes().splitlines()]
    assert len(rows) == 200
    assert sum(row["split"] == "dev" for row in rows) == 100
    none = [index.search(row["query"]).confident for row in rows if not row["gold"]]
    assert sum(none) <= len(none) * 0.5
    served = [row for row in rows if row["gold"] and row["kind"] in ("task", "typo")]
    confident = [index.search(row["query"]).confident for row in served]
    assert sum(confident) >= len(confident) * 0.95
    first = [bool({*keys(index, row["query"])} & {*row["gold"][0]}) for row in served]
    assert sum(first) >= len(first) * 0.8


def test_nothing_is_found_in_an_empty_index() -> None:
    answer = SearchIndex.build([]).search("anything")
    assert answer.hits == ()
    assert not answer.confident


@pytest.mark.parametrize("query", ["", "   ", "?!", "the of and", "\ud800", "x" * 100_000, "，。", "🙂"])
def test_a_query_without_meaning_is_answered_without_confidence(index: SearchIndex, query: str) -> None:
    assert not index.search(query).confident


def test_servers_that_were_not_asked_for_are_left_out(index: SearchIndex) -> None:
    answer = index.search("create an issue", servers=["gitlab", "linear"])
    assert {hit.tool.server for hit in answer.hits} <= {"gitlab", "linear"}
    assert len(answer.hits) == 5


@pytest.mark.promise("T20", "Hidden tools do not change search results.")
def test_t20_what_policy_hides_neither_appears_nor_changes_the_rest(index: SearchIndex) -> None:
    everything = keys(index, "create an issue", 50)
    hidden: Callable[[Tool], bool] = lambda tool: tool.server != "github"  # noqa: E731
    rest = [hit.tool.key for hit in index.search("create an issue", limit=20, visible=hidden).hits]
    assert rest[:15] == [key for key in everything if not key.startswith("github.")][:15]


def test_a_fitting_tool_that_cannot_be_used_is_named_with_the_reason(index: SearchIndex) -> None:
    def trouble(tool: Tool) -> str:
        return "its server needs a key" if tool.server == "google-maps" else ""

    answer = index.search("distance matrix between places with google maps", trouble=trouble)
    assert "google-maps" not in {hit.tool.server for hit in answer.hits}
    assert answer.withheld[0].hit.tool.key == "google-maps.maps_distance_matrix"
    assert answer.withheld[0].reason == "its server needs a key"


def test_an_unusable_tool_is_not_mentioned_when_a_usable_one_fits_better(index: SearchIndex) -> None:
    answer = index.search("create a github issue", trouble=lambda tool: "broken" if tool.server == "slack" else "")
    assert answer.withheld == ()


def test_usage_decides_between_tools_that_fit_alike_and_no_more(index: SearchIndex) -> None:
    query = "take a screenshot of the page"
    before = index.search(query, limit=10).hits
    upper, lower = next((a.tool.key, b.tool.key) for a, b in pairwise(before) if a.score - b.score < 0.02)
    after = [hit.tool.key for hit in index.search(query, limit=10, usage={lower: 10_000}).hits]
    assert after.index(lower) < after.index(upper)
    unrelated = index.search(query, limit=10, usage={"redis.lpush": 10_000}, favourites=["redis.lpush"])
    assert "redis.lpush" not in [hit.tool.key for hit in unrelated.hits]


def test_favourites_rise_like_used_tools(index: SearchIndex) -> None:
    query = "search the web"
    before = index.search(query, limit=10).hits
    upper, lower = next((a.tool.key, b.tool.key) for a, b in pairwise(before) if a.score - b.score < 0.02)
    liked = [hit.tool.key for hit in index.search(query, limit=10, favourites=[lower]).hits]
    assert liked.index(lower) < liked.index(upper)


def test_one_server_does_not_fill_the_whole_answer_when_another_fits_as_well() -> None:
    def offer(server: str, count: int) -> Listing:
        words = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta")[:count]
        tools = tuple(Tool(server, f"send_{w}", {"description": f"Send a message, {w} way"}) for w in words)
        return Listing(server, tools=tools)

    answer = SearchIndex.build([offer("one", 6), offer("two", 1)]).search("send a message", limit=5)
    assert {hit.tool.server for hit in answer.hits} == {"one", "two"}


@pytest.mark.promise("T14", "A tool filled with popular words is not ranked higher.")
def test_t14_a_tool_stuffed_with_popular_words_wins_nothing(listings: list[Listing]) -> None:
    rows = [decode(line) for line in QUERIES.read_bytes().splitlines()]
    asked = [row["query"] for row in rows if row["gold"] and row["kind"] in ("task", "paraphrase")][:50]
    thousand = [listing for listing in listings if len(listing.tools) < 60]
    used = Counter(
        word for listing in thousand for tool in listing.tools for word in words(f"{tool.name} {tool.description}")
    )
    bait = " ".join(word for word, _ in used.most_common(500) if len(word) > 2)
    properties = {f"p{i}": {"type": "string", "description": bait} for i in range(80)}
    definition = {"title": bait, "description": bait * 5, "inputSchema": {"properties": properties}}
    evil = Listing("evil", instructions=bait, tools=(Tool("evil", "helper", definition),))
    stuffed = SearchIndex.build([*thousand, evil])
    assert len(asked) == 50
    assert len(stuffed) > 1000
    assert not [query for query in asked if "evil.helper" in keys(stuffed, query, 3)]


def test_scores_fall_and_stay_between_zero_and_one(index: SearchIndex) -> None:
    scores = [hit.score for hit in index.search("list all pods in a namespace", limit=30).hits]
    assert scores == sorted(scores, reverse=True)
    assert 0 < scores[-1] <= scores[0] <= 1


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("read a file and tell me the time", {"filesystem.read_text_file", "time.get_current_time"}),
        ("tell me the time and read a file", {"filesystem.read_text_file", "time.get_current_time"}),
        ("create a directory, then convert a time", {"filesystem.create_directory", "time.convert_time"}),
    ],
)
async def test_short_errands_each_get_a_tool_and_the_answer_says_which(
    open_gateway: OpenGateway, query: str, wanted: set[str]
) -> None:
    servers = {"filesystem": replay("filesystem"), "time": replay("time")}
    async with open_gateway(servers) as gateway:
        answer = await gateway.verbs.search(query)
        assert wanted <= {hit.tool.key for hit in answer.hits}
        assert {part.tools[0] for part in answer.parts} == wanted
        said = await Speaker(gateway, "native").text("find_tools", query=query)
        assert said.endswith(f"[{answer.tool_by_task}]")
        assert all(f": {name}" in answer.tool_by_task for name in wanted)


def test_words_that_find_nothing_leave_the_word_to_meaning(index: SearchIndex) -> None:
    paraphrase = index.explain("put a new bug report into our project", tool_of(index, "github.create_issue"))
    keywords = index.explain("github create_issue", tool_of(index, "github.create_issue"))
    assert paraphrase.meaning > paraphrase.letters
    assert keywords.letters > keywords.meaning


def test_an_answer_is_a_choice_between_servers_unless_one_is_named() -> None:
    def listing(server: str, *names: str) -> Listing:
        tools = (Tool(server, name, {"name": name, "description": f"{name.title()} of an invoice."}) for name in names)
        return Listing(server, tools=tuple(tools))

    many = listing("ledger", *(f"change_{word}" for word in ("amount", "date", "name", "state", "text", "total")))
    index = SearchIndex.build([many, listing("books", "change_sum"), listing("desk", "change_note", "change_mark")])
    found = [hit.tool.server for hit in index.search("change of an invoice").hits]
    assert found.count("ledger") == 2
    named = [hit.tool.server for hit in index.search("ledger: change of an invoice").hits]
    assert named.count("ledger") == 5


def tool_of(index: SearchIndex, key: str) -> Tool:
    return next(hit.tool for hit in index.search(key, limit=20).hits if hit.tool.key == key)
