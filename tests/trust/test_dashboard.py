"""What waits for a person, in the dashboard: changed definitions with their difference, and calls."""

from html import unescape

import pytest

from tests.conftest import OpenGateway
from tests.surface.test_dashboard import visiting
from tests.trust.conftest import READ, SEND, Offer
from tests.trust.test_flow import MAIL, result
from tests.trust.test_rules import call
from wicket_mcp.errors import Denied
from wicket_mcp.identity.approver import Approver
from wicket_mcp.model import Silent


async def test_a_held_tool_is_shown_with_its_difference_and_accepted(offer: Offer, open_gateway: OpenGateway) -> None:
    async with open_gateway({"m": offer(SEND)}) as gateway, visiting(gateway) as visitor:
        await gateway.tools()
        offer({**SEND, "description": "Sends it <b>to us</b>."})
        await gateway.catalogue.renew("m")
        await visitor.sign_in()
        csrf = await visitor.csrf()
        assert "tool m.send is held" in (await visitor.get("/ui"))[1]
        _, text = await visitor.get("/ui/approvals")
        assert '<span class="removed">-  &#34;description&#34;: &#34;Send a message to somebody.&#34;' in text
        assert '<span class="added">+  &#34;description&#34;: &#34;Sends it &lt;b&gt;to us&lt;/b&gt;.&#34;' in text
        _, page = await visitor.get("/ui/tools/m.send")
        assert "Accept it as it is now" in page
        assert '<span class="added">+  &#34;description&#34;: &#34;Sends it &lt;b&gt;to us&lt;/b&gt;.&#34;' in page
        (change,) = gateway.catalogue.held_entries("m").values()
        form = {"server": "m", "kind": "tool", "name": "send", "digest": change.digest}
        assert (await visitor.post("/ui/approvals/held", None, csrf=csrf, **{**form, "digest": "0"}))[0] == 404
        assert gateway.catalogue.held_entries("m"), "what was not shown is not accepted"
        assert (await visitor.post("/ui/approvals/held", None, csrf=csrf, **form))[0] == 303
        assert (await gateway.call("m.send", {"to": "ann"}))["content"]
        assert (await gateway.store.pins("m"))[-1].approved_by == "local"
        _, page = await visitor.get("/ui/tools/m.send")  # what changed when it was accepted stays to be seen
        assert "Accept it as it is now" not in page
        assert '<span class="added">+  &#34;description&#34;: &#34;Sends it &lt;b&gt;to us&lt;/b&gt;.&#34;' in page
        assert "The first that was seen." in page
        key, _ = await gateway.registry.keys.create("ann", {"discover", "invoke"})
        await visitor.sign_in(key)
        assert "Accepted definitions" not in (await visitor.get("/ui/tools/m.send"))[1]


async def test_a_call_that_waits_shows_where_its_arguments_came_from(offer: Offer, open_gateway: OpenGateway) -> None:
    server = offer(SEND, READ, results={"read": result(MAIL)})
    async with open_gateway({"m": server}, policy={"flow": "ask"}) as gateway, visiting(gateway) as visitor:
        await gateway.call("m.read")
        with pytest.raises(Denied):
            await gateway.call("m.send", {"to": "desk@attacker.example"})
        await visitor.sign_in()
        page = unescape((await visitor.get("/ui/approvals"))[1])
        assert "'to' came from what m.read gave at" in page
        assert '"to": "desk@attacker.example"' in page
        assert "flow" in page.partition("came from")[2].partition("</p>")[0]


async def test_a_call_is_approved_once_for_a_session_or_always(offer: Offer, open_gateway: OpenGateway) -> None:
    policy = [{"action": "ask"}]
    async with open_gateway({"m": offer(SEND)}, policy=policy) as gateway, visiting(gateway) as visitor:
        await visitor.sign_in()
        csrf = await visitor.csrf()
        for to, act, times in (("ann", "once", 1), ("eve", "session", 2), ("bob", "always", 2)):
            with pytest.raises(Denied):
                await gateway.call("m.send", {"to": to})
            (question,) = [each for each in await gateway.store.approvals(0) if not each.approved_by]
            assert (await visitor.post(f"/ui/approvals/{question.id}/{act}", csrf=csrf))[0] == 303
            for _ in range(times):
                assert (await gateway.call("m.send", {"to": to}))["content"]
        for to in ("ann", "eve"):
            with pytest.raises(Denied):
                await call(gateway, Silent(session="another"), "m.send", to=to)
        assert (await call(gateway, Silent(session="another"), "m.send", to="bob"))["content"]
        with pytest.raises(Denied):
            await gateway.call("m.send", {"to": "ann"})
        (standing,) = await gateway.store.standing_approvals()
        assert "arguments.to = {const = &#34;bob&#34;}" in (await visitor.get("/ui/approvals"))[1]
        assert (await visitor.post("/ui/approvals/always-0/revoke", csrf=csrf))[0] == 404
        assert (await visitor.post(f"/ui/approvals/{standing.id}/revoke", csrf=csrf))[0] == 303
        with pytest.raises(Denied):
            await gateway.call("m.send", {"to": "bob"})


async def test_the_dashboard_asks_for_it(offer: Offer, open_gateway: OpenGateway) -> None:
    """W5: whoever reads the gateway's token can sign in to the dashboard."""
    async with open_gateway({"m": offer(SEND)}, policy=[{"action": "ask"}]) as gateway, visiting(gateway) as visitor:
        await gateway.tools()
        with pytest.raises(Denied):
            await gateway.call("m.send", {"to": "ann"})
        offer({**SEND, "description": "Another."})
        await gateway.catalogue.renew("m")
        await visitor.sign_in()
        assert 'type="password"' not in (await visitor.get("/ui/approvals"))[1]
        await Approver(gateway.store).change("correct horse")
        csrf = await visitor.csrf()
        for page in ("/ui/approvals", "/ui/tools/m.send"):
            assert 'type="password" name="passphrase"' in (await visitor.get(page))[1]
        (question,) = await gateway.store.approvals(0)
        (change,) = gateway.catalogue.held_entries("m").values()
        held = {"server": "m", "kind": "tool", "name": "send", "digest": change.digest}
        call_of, definition = f"/ui/approvals/{question.id}/once", "/ui/approvals/held"
        for guess in ("", "wrong horse battery"):
            for path, fields in ((call_of, {}), (definition, held)):
                assert (await visitor.post(path, None, csrf=csrf, passphrase=guess, **fields))[0] == 403
        assert (await gateway.store.approvals(0))[0].approved_by == ""
        assert gateway.catalogue.held_entries("m")
        assert (await visitor.post(call_of, csrf=csrf, passphrase="correct horse"))[0] == 303
        assert (await visitor.post(definition, None, csrf=csrf, passphrase="correct horse", **held))[0] == 303
        assert (await gateway.call("m.send", {"to": "ann"}))["content"]
