"""When search says that nothing fits, and what it says then; which servers a query names."""

import pytest
from tests.conftest import OpenGateway, replay
from tests.dialects.seeds import Speaker

from wicket_mcp.model import Listing, Tool
from wicket_mcp.search import SearchIndex
from wicket_mcp.search.mentions import Mentioned, mentions, products, shorten_addresses
from wicket_mcp.search.naming import MEANT, PERHAPS, Naming

ABOUT = "Add a card with a name and a text to a board"


def some(listings: list[Listing], *servers: str) -> SearchIndex:
    return SearchIndex.build([listing for listing in listings if listing.server in servers])


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("create a GitHub issue", ["GitHub"]),
        ("post it to slack and discord", []),
        ("post it to Slack and Discord", ["Slack", "Discord"]),
        ("in other words", []),
        ("turn my Word file into a PDF", ["Word"]),
        ("Word by word", []),
        ("a list on booking.com", ["booking.com"]),
        ("grab every page and segment the follow ups", []),
        ("ship it by UPS", ["UPS"]),
        ("a user of AWS IAM", ["AWS", "IAM"]),
        ("share the album from google photos with Ann", ["google photos"]),
        ("put it on my SQS queue", ["SQS"]),
        ("keep the photos of the records", []),
        ("在飞书群里发一条放假通知", ["飞书"]),
        ("a Google Form about food", ["Google Form"]),
        ('the key "Slack" of acme/Slack', []),
        ("replace 2025 in offer.docx", [".docx"]),
        ("my .XLSX online, please", [".xlsx"]),
        ("see notes.txt", []),
        ("read https://example.com/postgres/scaling", []),
        ("close https://github.com/acme/web/issues/3 on Linear", ["Linear"]),
        ("mail ann@slack.com, see www.figma.com", []),
        ("copy s3://reports/may to GitHub/GitLab", ["s3", "GitHub", "GitLab"]),
        ("read https://example.com/a.docx", [".docx"]),
    ],
)
def test_products_are_known_by_name_and_common_words_by_their_capital(query: str, named: list[str]) -> None:
    assert products(query) == named


@pytest.mark.parametrize(
    ("product", "text", "is_mentioned"),
    [
        ("RDS", "Keep records of words", False),
        ("RDS", "Restart an RDS instance", True),
        ("Google Photos", "Albums of GooglePhotos", True),
        ("Power BI", "Runs with the power of bifocals", False),
        ("Notion", "The notion of a page", False),
        ("Notion", "A page of Notion", True),
        ("LINE", "Adds a line", False),
        ("amazon", "An account at AWS", True),
        ("Zoo", "Fodder", True),
        (".docx", "Edits a Word file", True),
        (".docx", "Edits words", False),
    ],
)
def test_a_product_is_mentioned_by_each_of_its_names_as_names_are_written(
    product: str, text: str, is_mentioned: bool
) -> None:
    assert Mentioned(Tool("zoo", "feed", {"description": text})).mentions(product) is is_mentioned


@pytest.mark.parametrize(
    ("product", "is_mentioned"), [("AWS", True), ("amazon", True), ("Google Calendar", False), ("aws calendar", True)]
)
def test_the_names_of_a_server_and_its_tool_mention_products_too(product: str, is_mentioned: bool) -> None:
    tool = Tool("awslabs-desk", "aws_add_entry", {"description": "Add an entry to a calendar"})
    assert Mentioned(tool).mentions(product) is is_mentioned


def test_a_format_is_missing_where_the_file_is_to_be_changed_not_where_it_is_only_handled() -> None:
    tools = [Mentioned(Tool("disk", "edit", {"description": "Edit a text file, or move it"}))]
    assert mentions("replace 2025 in offer.docx", lambda: tools).missing_products == (".docx",)
    assert mentions("move offer.docx to the archive", lambda: tools).missing_products == ()


def test_a_tool_that_mentions_the_named_product_gets_a_place() -> None:
    boards = [Listing(f"board{n}", tools=(Tool(f"board{n}", "add_card", {"description": ABOUT}),)) for n in range(8)]
    desk = Listing("desk", tools=(Tool("desk", "add", {"description": "Put something on a Trello board"}),))
    index = SearchIndex.build([*boards, desk])
    asked = "add a card to my board with the name and the text that I tell"
    assert "desk.add" not in [hit.tool.key for hit in index.search(asked).hits]
    assert "desk.add" in [hit.tool.key for hit in index.search(f"{asked}, in Trello").hits]


def test_the_closest_tool_is_one_that_mentions_the_product() -> None:
    tools = (
        Tool("hub", "merge_change", {"description": "Approve a change request and merge it"}),
        Tool("desk", "get_links", {"description": "Links of an item, for example to Bitbucket"}),
    )
    index = SearchIndex.build([Listing(tool.server, tools=(tool,)) for tool in tools])
    named = index.search("approve the change request in Bitbucket").evidence
    unnamed = index.search("approve the change request").evidence
    assert named.is_product_there
    assert named.closest < unnamed.closest


async def test_a_github_issue_is_declined_where_git_is_all_there_is(open_gateway: OpenGateway) -> None:
    async with open_gateway({"git": replay("git")}) as gateway:
        said = await Speaker(gateway, "native").text("find_tools", query="create a GitHub issue")
        assert said.startswith(
            "[No tool clearly fits: none of them mentions GitHub. Nearest servers: git. The closest:]"
        )
        assert "No tool clearly fits" not in await Speaker(gateway, "native").text("find_tools", query="commit changes")
    async with open_gateway({"git": replay("git"), "github": replay("github")}) as gateway:
        answer = await gateway.verbs.search("create a GitHub issue")
        assert answer.confident
        assert answer.unmentioned == ()
        assert answer.hits[0].tool.key == "github.create_issue"


@pytest.mark.parametrize("tools", [(), (Tool("zoo", "feed", {"description": "Fodder for zebras"}),)])
def test_the_missing_product_is_named_where_there_is_no_hit_at_all(tools: tuple[Tool, ...]) -> None:
    index = SearchIndex.build([Listing("zoo", tools=tools)] if tools else [])
    answer = index.search("qqxyzzy GitHub", visible=lambda tool: False)
    assert answer.hits == ()
    assert answer.doubt == "No tool clearly fits: none mentions GitHub."


@pytest.mark.parametrize(
    ("servers", "query"),
    [
        (["time", "fetch"], "send an email to my boss"),
        (["time", "fetch"], "scale the deployment to five pods"),
        (["filesystem", "git"], "book a flight to Madrid"),
        (["filesystem", "git"], "put a card on my Trello board"),
        (["github", "slack", "redis"], "order a pizza and pay the driver"),
        (["github", "slack", "redis"], "take a screenshot of the web page"),
        (["google-workspace"], "share the album from Dropbox"),
    ],
)
def test_small_catalogues_decline_what_they_cannot_do(listings: list[Listing], servers: list[str], query: str) -> None:
    answer = some(listings, *servers).search(query)
    assert not answer.confident
    assert answer.doubt.startswith("No tool clearly fits")


@pytest.mark.parametrize(
    ("servers", "query"),
    [
        (["time", "fetch"], "what time is it in Tokyo"),
        (["time", "fetch"], "get this web page"),
        (["filesystem", "git"], "which files are in the folder"),
        (["filesystem", "git"], "show the last commits"),
        (["github", "slack", "redis"], "open a pull request"),
        (["github", "slack", "redis"], "Schreibe eine Nachricht in den Slack-Kanal"),
    ],
)
def test_small_catalogues_do_not_decline_what_they_can(listings: list[Listing], servers: list[str], query: str) -> None:
    answer = some(listings, *servers).search(query)
    assert answer.confident
    assert answer.doubt == ""


def test_a_subject_that_no_tool_mentions_is_counted() -> None:
    tools = [Tool("desk", "add", {"description": "Add an appointment"})]
    mentioned = list(map(Mentioned, tools))
    found = mentions("put a meeting about flights into my calendar", lambda: mentioned)
    assert (found.subjects, found.missing_subjects) == (3, 1)
    assert mentions("hello there", lambda: mentioned).subjects == 0


@pytest.mark.parametrize(
    ("query", "gains"),
    [
        ("create an issue on GitHub", {"github": MEANT}),
        ("what time is it", {"time": 0.0}),
        ("Time: what is it", {"time": MEANT}),
        ("show the office ledger", {"office-ledger": PERHAPS}),
        ("use acme to pay", {"acme": MEANT}),
        ("pay it with Acme please", {"acme": MEANT}),
        ("pay the acme", {"acme": 0.0}),
        ("nothing of the sort", {}),
        ("open the OfficeBox", {"north-officebox": MEANT}),
        ("open the Officebox", {}),
        ("what is in amazon's graph", {}),
        ("what is in Neptune", {"aws-amazon-neptune": MEANT}),
    ],
)
def test_a_server_is_meant_where_its_name_is_no_ordinary_word(query: str, gains: dict[str, float]) -> None:
    assert (
        Naming(["github", "time", "office-ledger", "acme", "north-officebox", "aws-amazon-neptune", "..."]).gains(query)
        == gains
    )


@pytest.mark.parametrize(
    ("query", "server"),
    [
        ("add a comment in Linear", "linear"),
        ("add a comment to the Jira ticket", "atlassian"),
        ("create a customer in HubSpot", "hubspot"),
        ("create a page in Notion", "notion"),
        ("search for issues in GitLab", "gitlab"),
    ],
)
def test_the_server_that_a_query_names_comes_first(index: SearchIndex, query: str, server: str) -> None:
    assert index.search(query).hits[0].tool.server.startswith(server)


@pytest.mark.parametrize("query", ["find the customer", "open the dashboard", "list all users", "create an issue"])
def test_no_server_that_is_not_named_has_more_than_two_of_five_places(index: SearchIndex, query: str) -> None:
    servers = [hit.tool.server for hit in index.search(query).hits]
    assert len(servers) == 5
    assert max(map(servers.count, servers)) <= 2


@pytest.mark.parametrize(
    ("query", "read_as"),
    [
        ("read https://example.com/blog/scaling-postgres, please", "read URL, please"),
        ("(http://localhost:8080/) is down", "(URL) is down"),
        ("read https://example.com/a.pdf?x=1.", "read .pdf URL."),
        ("close https://github.com/acme/web/issues/3", "close https://github.com/acme/web/issues/3"),
        ("an https url", "an https url"),
    ],
)
def test_the_address_of_a_page_is_no_text_unless_a_product_has_the_site(query: str, read_as: str) -> None:
    assert shorten_addresses(query) == read_as


def test_a_page_whose_address_has_a_products_name_is_read_by_a_tool_for_any_page(listings: list[Listing]) -> None:
    index = SearchIndex.build([listing for listing in listings if listing.server in ("fetch", "postgres", "time")])
    for asked in ("read https://example.com/blog/scaling-postgres", "what does https://www.notion.so/Plan-42 say?"):
        answer = index.search(asked)
        assert answer.confident, answer
        assert answer.hits[0].tool.key == "fetch.fetch"
