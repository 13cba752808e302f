"""The index as a value: shared segments, persistence, and what happens to bytes that are not ours."""

import subprocess
import sys

from wicket_mcp.model import Listing, Tool
from wicket_mcp.search import SearchIndex, build_segment

SCHEMA = {"type": "object", "properties": {"path": {"type": "string", "description": "Where the file lies"}}}
FILES = Listing("files", tools=(Tool("files", "read_file", {"description": "Read a file", "inputSchema": SCHEMA}),))
MAIL = Listing("mail", tools=(Tool("mail", "send_mail", {"description": "Send an e-mail message"}),))


def first(index: SearchIndex, query: str) -> str:
    hits = index.search(query).hits
    return hits[0].tool.key if hits else ""


def test_adding_and_dropping_a_server_changes_only_that_server() -> None:
    both = SearchIndex.build([FILES]).with_listing(MAIL)
    assert first(both, "send an email") == "mail.send_mail"
    assert first(both, "read a file") == "files.read_file"
    alone = both.without("mail")
    assert first(alone, "send an e-mail message") != "mail.send_mail"
    assert first(both, "send an email") == "mail.send_mail"
    assert both.segment("files") is alone.segment("files")


def test_a_new_listing_replaces_the_old_one() -> None:
    index = SearchIndex.build([FILES, MAIL])
    changed = Listing("mail", tools=(Tool("mail", "read_inbox", {"description": "List received mail"}),))
    assert len(index.with_listing(changed)) == 2
    assert first(index.with_listing(changed), "received mail") == "mail.read_inbox"


def test_an_index_read_back_answers_like_the_one_that_was_stored(listings: list[Listing], index: SearchIndex) -> None:
    stored = {listing.server: (listing, index.segment(listing.server)) for listing in listings}
    again = SearchIndex.load(stored)
    for query in ("create a branch", "query the database", "what time is it in tokyo"):
        assert again.search(query) == index.search(query)


def test_a_segment_of_another_version_or_listing_is_rebuilt() -> None:
    good = build_segment(MAIL)
    foreign = [b"", b"junk", good[:-1], good[:4] + b"\xff\xff" + good[6:], build_segment(Listing("x", tools=()))]
    for data in foreign:
        index = SearchIndex.load({"mail": (MAIL, data)})
        assert first(index, "send mail") == "mail.send_mail"
        assert index.segment("mail") == build_segment(MAIL, learned=False)


def test_a_listing_of_strange_shapes_is_indexed() -> None:
    odd: dict[str, object] = {
        "description": 7,
        "title": None,
        "inputSchema": {"properties": {"a": 1, "b": {"enum": [1, None], "properties": {"c": {"items": {}}}}, "": []}},
    }
    deep: dict[str, object] = {}
    for _ in range(50):
        deep = {"properties": {"again": deep}}
    tools = (Tool("odd", "strange", odd), Tool("odd", "deep", {"inputSchema": deep}), Tool("odd", "", {}))
    index = SearchIndex.build([Listing("odd", tools=tools)])
    assert first(index, "strange") == "odd.strange"


def test_the_same_listing_makes_the_same_bytes_in_another_process() -> None:
    code = (
        "from wicket_mcp.search import build_segment; from wicket_mcp.model import Listing, Tool; import sys;"
        "t = Tool('mail', 'send_mail', {'description': 'Send an e-mail message'});"
        "sys.stdout.buffer.write(build_segment(Listing('mail', tools=(t,))))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stdout == build_segment(MAIL)


def test_numpy_is_not_imported_before_the_first_search() -> None:
    code = (
        "import sys; from wicket_mcp.search import SearchIndex; from wicket_mcp.model import Listing, Tool;"
        "index = SearchIndex.load({'a': (Listing('a', tools=(Tool('a', 'b', {}),)), b'')});"
        "assert 'numpy' not in sys.modules, 'too early';"
        "index.search('x'); assert 'numpy' in sys.modules; import os; assert 'OPENBLAS_NUM_THREADS' not in os.environ"
    )
    environment = {"PATH": ""}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr


def test_an_explanation_adds_up_to_the_score(index: SearchIndex) -> None:
    for query in (
        "create a github issue",
        "show what is not staged",
        "read the csv file from disk, then send a message to the slack channel",
    ):
        answer = index.search(query, usage={"github.create_issue": 5})
        for hit in answer.hits:
            why = index.explain(query, hit.tool, usage={"github.create_issue": 5})
            assert abs(why.score - hit.score) < 1e-5
            added = why.usage + why.learned + why.named + why.deprecated + why.intent
            brought = why.letters + why.meaning + why.part + why.reranked + added
            assert abs(brought - why.score) < 1e-5
            assert abs(sum(why.fields.values()) - why.letters) < 1e-5


def test_the_successor_that_a_deprecated_tool_names_takes_its_place() -> None:
    old = Tool("disk", "read_file", {"description": "Read a file. DEPRECATED: use fetch-content instead."})
    new = Tool("disk", "fetch-content", {"description": "The words that lie somewhere on the disk."})
    index = SearchIndex.build([Listing("disk", tools=(old, new))])
    answer = index.search("read a file")
    assert [hit.tool.name for hit in answer.hits] == ["fetch-content", "read_file"]
    for hit in answer.hits:
        why = index.explain("read a file", hit.tool)
        assert (why.deprecated > 0) == (hit.tool is new)
        assert abs(why.score - hit.score) < 1e-5


def test_an_explanation_says_what_a_deprecated_tool_loses() -> None:
    tools = (Tool("disk", "read", {"description": "Read a file. DEPRECATED: use open."}),)
    index = SearchIndex.build([Listing("disk", tools=tools)])
    hit = index.search("read a file").hits[0]
    why = index.explain("read a file", hit.tool)
    assert why.deprecated < 0
    assert abs(why.score - hit.score) < 1e-5


def test_an_explanation_names_words_and_fields(index: SearchIndex) -> None:
    hit = index.search("create a github issue").hits[0]
    why = index.explain("create a github issue", hit.tool)
    assert set(why.words) >= {"create", "github", "issue"}
    assert next(iter(why.fields)) == "name"
