"""Groups: servers, tags and profiles, with typed tools, for clients that declare the extension."""

from pathlib import Path
from typing import Any

from tests.conftest import OpenGateway
from tests.gateway.extensions_document import shows
from tests.gateway.serving import META, Command, raw_client, serve_http
from tests.gateway.test_extensions import CAPABILITIES, ask, extended, house
from wicket_mcp.extensions import GROUPS, UI

DECLARED: dict[str, dict[str, Any]] = {"speaks": {GROUPS: {}}, "does not": {}}


@shows("groups", "servers and tags", clients="modern", servers="modern")
async def test_servers_and_tags_are_groups_with_typed_tools(open_gateway: OpenGateway) -> None:
    servers = {name: {**extended("modern", name), "tags": ["both", name]} for name in ("one", "two")}
    async with (
        open_gateway(servers) as gateway,
        serve_http(gateway) as address,
        raw_client(address) as client,
    ):
        groups = [group["name"] for group in (await ask(client, "groups/list", {}))["groups"]]
        assert groups == ["tag-both", "tag-one", "tag-two"], "a tagged server is inside its tags"
        inside = (await ask(client, "groups/get", {"name": "two"}))["contents"]
        assert [tool["name"] for tool in inside["tools"]] == ["two__seen", "two__open", "two__only_two"]
        assert inside["tools"][0]["vendorField"] == {"kept": True}
        called = await ask(client, "tools/call", {"name": "two__seen", "arguments": {}})
        assert called["structuredContent"]["server"] == "two"
        tagged = (await ask(client, "groups/get", {"name": "tag-both"}))["contents"]
        assert [(group["name"], group["title"]) for group in tagged["groups"]] == [("one", "one"), ("two", "two")]
        assert all(group["description"] for group in tagged["groups"])
        unknown = await ask(client, "groups/get", {"name": "twoo"})
        assert unknown["code"] == -32002
        assert "two" in unknown["message"]


@shows("groups", "what is in groups is not in lists", clients="modern", servers="modern")
async def test_a_client_that_speaks_groups_has_no_flat_lists(open_gateway: OpenGateway) -> None:
    async with house(open_gateway, "modern", "flat") as client:
        assert len((await ask(client, "tools/list", {}))["tools"]) == 6
        assert (await ask(client, "tools/list", {}, {GROUPS: {}}))["tools"] == []
        both = await ask(client, "tools/list", {}, {GROUPS: {}, UI: {}})
        assert {tool["name"] for tool in both["tools"]} == {"one__open", "one__refresh", "two__open", "two__refresh"}
        inside = (await ask(client, "groups/get", {"name": "two"}, {GROUPS: {}, UI: {}}))["contents"]
        assert [tool["name"] for tool in inside["tools"]] == ["two__seen", "two__only_two"]
        listed = (await ask(client, "resources/list", {}, {GROUPS: {}}))["resources"]
        assert not [entry for entry in listed if entry["uri"].startswith("ui://")]
        assert [entry["uri"] for entry in inside["resources"]] == ["ui://two/board/main.html"]


@shows("groups", "names of groups", clients="modern", servers="modern")
async def test_groups_have_the_names_that_the_draft_allows(open_gateway: OpenGateway) -> None:
    servers = {name: extended("modern", name) for name in ("My_Server", "my-server", "tag-x", "a--b")}
    servers["tag-x"]["tags"] = ["x", "Öl & Gas"]
    async with (
        open_gateway(servers) as gateway,
        serve_http(gateway) as address,
        raw_client(address) as client,
    ):
        groups = {group["title"]: group["name"] for group in (await ask(client, "groups/list", {}))["groups"]}
        assert groups == {
            "My_Server": "my-server",
            "my-server": "my-server-2",
            "a--b": "a-b",
            "x": "tag-x-2",
            "Öl & Gas": "tag-l-gas",
        }
        for title in ("My_Server", "my-server"):
            inside = (await ask(client, "groups/get", {"name": groups[title]}))["contents"]
            assert inside["tools"][0]["name"] == f"{title}__seen"


@shows("groups", "changes are told to clients that declare groups", clients="modern", servers="modern")
async def test_a_change_of_groups_is_told_over_a_subscription(tmp_path: Path) -> None:
    command = await Command.start(tmp_path, {"one": extended("modern", "one")}, "--no-daemon")
    wanted = {"notifications": {"groupsListChanged": True, "promptsListChanged": True}}
    for number, declared in enumerate(DECLARED.values(), 1):
        meta = {**META, CAPABILITIES: {"extensions": declared}}
        listen = {"id": number, "method": "subscriptions/listen", "params": {**wanted, "_meta": meta}}
        command.send({"jsonrpc": "2.0", **listen})
        told = (await command.receive())["params"]
        honoured = {"promptsListChanged": True, **({"groupsListChanged": True} if declared else {})}
        assert told["notifications"] == honoured
    about = {"jsonrpc": "2.0", "id": 3, "method": "server/discover", "params": {"_meta": META}}
    command.send(about)
    offered = (await command.receive())["result"]["capabilities"]["extensions"]
    assert offered[GROUPS] == {"listChanged": True}
    config = tmp_path / "wicket.toml"
    config.write_text(f"{config.read_text()}\n[profiles.look]\ntools = ['*.seen']\n")
    told = await command.receive()
    assert told["method"] == "notifications/groups/list_changed"
    assert told["params"]["_meta"] == {"io.modelcontextprotocol/subscriptionId": 1}
    groups = {"jsonrpc": "2.0", "id": 4, "method": "groups/list", "params": {"_meta": META}}
    command.send(groups)
    while (answer := await command.receive()).get("id") != 4:
        pass
    assert [group["name"] for group in answer["result"]["groups"]] == ["one", "profile-look"]
    await command.finish()


@shows("groups", "changes are told to clients that declare groups", clients="legacy", servers="modern")
async def test_a_change_of_groups_is_told_to_a_legacy_client_that_declared_them(tmp_path: Path) -> None:
    heard: dict[str, list[str]] = {}
    for name, declared in DECLARED.items():
        folder = tmp_path / name
        folder.mkdir()
        command = await Command.start(folder, {"one": extended("modern", "one")}, "--no-daemon")
        hello = {"protocolVersion": "2025-11-25", "clientInfo": {"name": "t", "version": "1"}}
        await command.ask("initialize", {**hello, "capabilities": {"extensions": declared}})
        command.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        await command.ask("groups/list")
        config = folder / "wicket.toml"
        profile = "[profiles.look]\ntools = ['*.seen']\ndialects = ['flat']\n"
        config.write_text(f"dialects = ['flat']\n{config.read_text()}\n{profile}")
        heard[name] = []
        while "notifications/tools/list_changed" not in heard[name]:
            heard[name].append((await command.receive())["method"])
        await command.finish()
    assert "notifications/groups/list_changed" in heard["speaks"]
    assert "notifications/groups/list_changed" not in heard["does not"]


@shows("groups", "profiles", clients="modern", servers="modern")
async def test_profiles_are_groups_with_the_tools_that_they_show(open_gateway: OpenGateway) -> None:
    servers = {name: extended("modern", name) for name in ("one", "two")}
    profiles = {
        "look": {"tools": ["*.seen"], "instructions": "Only look. Change nothing."},
        "second": {"servers": ["two"], "dialects": ["native"]},
    }
    async with open_gateway(servers, profiles=profiles) as gateway, serve_http(gateway) as address:
        async with raw_client(address) as client:
            groups = {group["name"]: group for group in (await ask(client, "groups/list", {}))["groups"]}
            assert list(groups) == ["one", "two", "profile-look", "profile-second"]
            assert groups["profile-look"]["description"] == "Only look"
            look = await ask(client, "groups/get", {"name": "profile-look"})
            assert look["instructions"] == "Only look. Change nothing."
            assert [tool["name"] for tool in look["contents"]["tools"]] == ["one__seen", "two__seen"]
            second = (await ask(client, "groups/get", {"name": "profile-second"}))["contents"]
            assert [tool["name"] for tool in second["tools"]] == ["two__seen", "two__open", "two__only_two"]
            assert [entry["uri"] for entry in second["resources"]] == ["ui://two/board/main.html"]
        async with raw_client(f"{address}/p/second") as inside:
            names = [group["name"] for group in (await ask(inside, "groups/list", {}))["groups"]]
            assert names == ["two", "profile-second"], "inside a profile, others are not known of"
            assert "message" in await ask(inside, "groups/get", {"name": "profile-look"})
            skills = (await ask(inside, "skills/list", {}))["skills"]
            assert [skill["uri"] for skill in skills] == ["skill://two/pdf-forms/SKILL.md"]
