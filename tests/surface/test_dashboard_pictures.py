"""The pictures of the documentation: every page of the dashboard, with servers and calls as a user would have them.

Made anew in every run, and kept where `WICKET_SCREENSHOTS=docs/images` says so; the documentation shows each of them.
"""

import os
import random
import time
from pathlib import Path

from tests.conftest import ROOT, OpenGateway, peer, replay
from tests.surface import test_dashboard_browser as dashboard
from wicket_mcp import Gateway
from wicket_mcp.store.model import CallRecord, StoredApproval
from wicket_mcp.surface.dashboard.render import PAGES

pytestmark = dashboard.pytestmark
LARGEST = 100_000  # bytes
SERVERS = ("github", "playwright", "filesystem", "slack")
PATHS = {name: f"/ui/{name}" for name in PAGES} | {
    "overview": "/ui",
    "search": "/ui/search?q=create+an+issue+about+a+broken+link",
    "server": "/ui/servers/github",
    "tool": "/ui/tools/github.create_issue",
}
DARK = ("activity", "tokens")


async def fill(gateway: Gateway) -> None:
    """A day of calls, a question that waits, a key."""
    rng, now = random.Random(7), time.time()
    tools = [(tool.server, tool.name) for tool in (await gateway.verbs.current_view(gateway.principal)).tools]
    for number in range(600):
        server, tool = rng.choice(tools[:40]) if number % 3 else ("github", "create_issue")
        outcome = rng.choices(("ok", "error", "cached", "timed_out", "denied"), (88, 4, 4, 2, 2))[0]
        at, spent = now - 86400 * rng.random() ** 2, 20 + rng.expovariate(0.01)
        client, run = rng.choice(("claude-code", "cursor", "vscode")), "3f2a" if number > 594 else ""
        if run:
            at = now - 1.5 + (number - 594) / 5
        sizes = (rng.randrange(200, 9000), "tools/call", client, "", run, spent - 2, rng.randrange(40, 400))
        steps = {"audit": 0.01, "resolve": 0.02, "arguments": 0.3, "forward": 1.67, "server": spent - 2}
        gateway.store.record_call(CallRecord(at, "local", server, tool, "d4c1", outcome, spent, *sizes, steps=steps))
    for _ in range(40):
        gateway.store.record_call(
            CallRecord(now - 3600, "local", "", "native", "", "ok", 0.0, 2400, "tools/list", "cursor")
        )
    words = (
        'May local (cursor) call github.create_issue? (the rule \'writes\' asks.)\nArguments: {\n  "title": "Crash"\n}'
    )
    asked = ("local", "github", "create_issue", "d", "p", words, now - 40, now + 800)
    await gateway.store.save_approval(StoredApproval("call-5d1c09", *asked))
    await gateway.registry.keys.create("laptop", {"discover", "invoke"})
    await gateway.vault.put("ann", "github", b"a credential")


async def test_a_picture_of_every_page_is_made_and_shown_in_the_documentation(
    open_gateway: OpenGateway, tmp_path: Path
) -> None:
    folder = Path(os.environ.get("WICKET_SCREENSHOTS") or tmp_path)
    servers = {name: replay(name) for name in SERVERS} | {"notes": peer("ExitsAtOnce")}
    size = {"width": 1000, "height": 580}
    shown = (ROOT / "docs" / "observe.md").read_text("utf-8")
    async with dashboard.browsing(open_gateway, servers, viewport=size) as browser:
        await fill(browser.gateway)
        await browser.open(PATHS["search"])  # the first search of a gateway also builds the index
        for name, path in PATHS.items():
            await browser.page.emulate_media(color_scheme="dark" if name in DARK else "light")
            await browser.page.set_viewport_size({**size, "height": 780} if name == "overview" else size)
            await browser.open(path)
            file = folder / f"dashboard-{name}.png"
            await browser.page.screenshot(path=file)
            assert 5_000 < file.stat().st_size <= LARGEST, name
            assert f"images/{file.name}" in shown
            assert (ROOT / "docs" / "images" / file.name).is_file()
        assert browser.problems == []
