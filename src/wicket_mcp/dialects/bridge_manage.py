"""The `bridge` tools that install servers and control them, here or in Claude Desktop. For administrators."""

from wicket_mcp.config.model.names import derive
from wicket_mcp.dialects import bridge_words as words
from wicket_mcp.dialects.base import ToolCall
from wicket_mcp.errors import BadArguments, Unavailable, UnknownName, WicketError
from wicket_mcp.model import JsonObject
from wicket_mcp.registry import claude
from wicket_mcp.registry.facade import Desk
from wicket_mcp.registry.install import Wanted
from wicket_mcp.verbs import Verbs

_PAST = {"start": "Started", "stop": "Stopped", "restart": "Restarted", "remove": "Removed"}
_RESTART = "🔄 Please restart Claude Desktop for changes to take effect."


async def install(desk: Desk, verbs: Verbs, call: ToolCall) -> JsonObject:
    arguments, principal = call.arguments, call.caller.principal
    name, mode = derive(arguments["name"]).replace(".", "-"), arguments.get("mode", "bridge")
    wanted = Wanted(name, arguments["type"], arguments["command"], arguments.get("env", {}))
    try:
        if mode == "direct":
            return await _install_directly(desk, wanted)
        start = arguments.get("auto_start", True)
        await desk.managed.install(wanted, principal, start=start)
    except Unavailable as problem:
        return words.failed(problem, f"Failed to install {name}")
    desk.act(principal.name, "install server", name)
    await desk.onboarding.took(principal, "install_first_server")
    then = f"Server started and tools available with prefix: {name}_" if start else "Use control_mcp_server to start."
    return words.done(f"Installed {name} ({wanted.kind}, bridge mode)\n{then}")


async def _install_directly(desk: Desk, wanted: Wanted) -> JsonObject:
    config = await desk.managed.plan(wanted)
    if config.command is None:
        raise BadArguments("Claude Desktop starts commands only.", hint="Install a remote server in bridge mode.")
    entry: JsonObject = {"command": config.command, "args": list(config.args)}
    claude.put(claude.config_path(), wanted.name, {**entry, "env": dict(config.env)} if config.env else entry)
    return words.done(f"Installed {wanted.name} ({wanted.kind}, direct mode)\n{_RESTART}")


async def list_managed(desk: Desk, verbs: Verbs, call: ToolCall) -> JsonObject:
    return words.answer([words.managed(one) for one in await desk.managed.list()])


async def control(desk: Desk, verbs: Verbs, call: ToolCall) -> JsonObject:
    name, action = call.arguments["name"], call.arguments["action"]
    try:
        await desk.managed.control(name, action)
    except UnknownName as problem:
        missing = BadArguments(f"Server '{name}' not found.", hint=problem.hint)
        return words.failed(missing)
    except WicketError as problem:
        return words.failed(problem, f"Failed to {action} server '{name}'")
    desk.act(call.caller.principal.name, f"{action} server", name)
    return words.done(f"{_PAST[action]} server '{name}'")


async def list_claude(desk: Desk, verbs: Verbs, call: ToolCall) -> JsonObject:
    return words.answer(claude.servers(claude.config_path()))


async def remove_claude(desk: Desk, verbs: Verbs, call: ToolCall) -> JsonObject:
    desk.managed.permit()
    name = call.arguments["name"]
    try:
        claude.remove(claude.config_path(), name)
    except UnknownName:
        return words.failed(BadArguments(f"Server '{name}' not found in Claude Desktop config."))
    return words.done(f"Removed '{name}' from Claude Desktop config.\n{_RESTART}")
