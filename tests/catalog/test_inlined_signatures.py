"""Small catalogues stand in the instructions whole: never in more than 3,000 tokens (o200k), over real tools."""

import json
import random
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from itertools import groupby
from typing import Any

from tests.conftest import CATALOG
from wicket_mcp.catalog.instructions import SIGNATURE_FORMS, inline_signatures
from wicket_mcp.catalog.snapshot import Snapshot
from wicket_mcp.config.model.config import ServerConfig
from wicket_mcp.model import LOCAL, Listing, Tool
from wicket_mcp.schema.signature import brief_signature
from wicket_mcp.trust.policy import Policy

TOKENIZER: Any = import_module("rs_bpe").openai.o200k_base()
MOST = 3000
CLEARLY_LESS = 2000
LONG, SHORT = SIGNATURE_FORMS


@cache
def captured() -> tuple[Tool, ...]:
    files = ((path.stem, json.loads(path.read_text("utf-8"))) for path in sorted(CATALOG.glob("*.json")))
    return tuple(Tool(server, tool["name"], tool) for server, body in files for tool in body["tools"])


def density(tool: Tool) -> float:
    """Bytes of its signature for each token."""
    line = brief_signature(tool, SHORT)
    return len(line.encode()) / TOKENIZER.count(line)


def inlined(tools: Sequence[Tool]) -> str:
    by_server = groupby(sorted(tools, key=lambda tool: tool.server), key=lambda tool: tool.server)
    listings = {server: Listing(server, {}, tools=tuple(group)) for server, group in by_server}
    servers = {name: ServerConfig(name=name, command="never-started") for name in listings}
    return inline_signatures(Snapshot(1, listings, servers, {}, {}, Policy(servers.values())).view(LOCAL))


def most_that_fit(tools: Sequence[Tool]) -> str:
    """The text about as many of the first tools as are shown."""
    fitting, too_many = 0, len(tools)
    while too_many - fitting > 1:
        middle = (fitting + too_many) // 2
        if inlined(tools[:middle]):
            fitting = middle
        else:
            too_many = middle
    return inlined(tools[:fitting])


def test_even_the_signatures_with_the_most_tokens_take_at_most_3000() -> None:
    shown = TOKENIZER.count(most_that_fit(sorted(captured(), key=density)))
    assert MOST * 0.9 < shown <= MOST


def test_catalogues_of_some_servers_are_inlined_if_they_take_clearly_less_and_never_if_more() -> None:
    chance, searched = random.Random(16), 0
    servers = {server: list(group) for server, group in groupby(captured(), key=lambda tool: tool.server)}
    for _ in range(60):
        tools = [tool for name in chance.sample(list(servers), chance.randint(1, 8)) for tool in servers[name]]
        text = inlined(tools)
        if text:
            assert TOKENIZER.count(text) <= MOST
            assert text.count("\n") == len(tools)
        else:
            searched += 1
            lines = "\n".join(brief_signature(tool, SHORT) for tool in tools)
            assert TOKENIZER.count(lines) > CLEARLY_LESS
    assert 10 < searched < 50  # both happen


def test_signatures_are_long_where_all_fit_and_shorter_where_only_that_fits() -> None:
    tools = [tool for tool in captured() if len(brief_signature(tool, LONG)) > SHORT + 50]
    few, many = inlined(tools[:10]), inlined(tools[:60])
    assert brief_signature(tools[0], LONG) in few
    assert brief_signature(tools[0], SHORT) in many
    assert max(map(len, many.splitlines()[1:])) <= SHORT
