"""The `bridge` tools that install servers and control them, here or in Claude Desktop. For administrators."""

from wicket_mcp.config.model.names import derive
from wicket_mcp.dialects import bridge_words as words
from wicket_mcp.dialects.base import ToolCall
from wicket_mcp.errors import BadArguments, Unavailable, UnknownName, WicketError
from wicket_mcp.model import JsonObject
from wicket_mcp.registry import claude
from wicket_mcp.registry.facade import RegistryFacade
from wicket_mcp.registry.install import InstallRequest
from wicket_mcp.verbs import Verbs

_PAST = {"start": "Started", "stop": "Stopped", "restart": "Restarted", "remove": "Removed"}
_RESTART = "🔄 Please restart Claude Desktop for changes to take effect."


async def install(facade: RegistryFacade, verbs: Verbs, call: ToolCall) -> JsonObject:
    arguments, principal = call.arguments, call.caller.principal
    name, mode = derive(arguments["name"]).replace(".", "-"), arguments.get("mode", "bridge")
    request = InstallRequest(name, arguments["type"], arguments["command"], arguments.get("env", {}))
    try:
        if mode == "direct":
            return await _install_directly(facade, request)
        start = arguments.get("auto_start", True)
        await facade.managed.install(request, principal, start=start)
    except Unavailable as problem:
        return words.failure(problem, f"Failed to install {name}")
    facade.act_on(principal.id, "install server", name)
    await facade.onboarding.took(principal, "install_first_server")
    next_step = (
        f"Server started and tools available with prefix: {name}_" if start else "Use control_mcp_server to start."
    )
    return words.success(f"Installed {name} ({request.kind}, bridge mode)\n{next_step}")


async def _install_directly(facade: RegistryFacade, request: InstallRequest) -> JsonObject:
    config = await facade.managed.plan(request)
    if config.command is None:
        raise BadArguments("Claude Desktop starts commands only.", hint="Install a remote server in bridge mode.")
    entry: JsonObject = {"command": config.command, "args": list(config.args)}
    claude.put(claude.config_path(), request.name, {**entry, "env": dict(config.env)} if config.env else entry)
    return words.success(f"Installed {request.name} ({request.kind}, direct mode)\n{_RESTART}")


async def list_managed(facade: RegistryFacade, verbs: Verbs, call: ToolCall) -> JsonObject:
    return words.answer([words.managed_server(server) for server in await facade.managed.list()])


async def control(facade: RegistryFacade, verbs: Verbs, call: ToolCall) -> JsonObject:
    name, action = call.arguments["name"], call.arguments["action"]
    try:
        await facade.managed.control(name, action)
    except UnknownName as problem:
        missing = BadArguments(f"Server '{name}' not found.", hint=problem.hint)
        return words.failure(missing)
    except WicketError as problem:
        return words.failure(problem, f"Failed to {action} server '{name}'")
    facade.act_on(call.caller.principal.id, f"{action} server", name)
    return words.success(f"{_PAST[action]} server '{name}'")


async def list_claude(facade: RegistryFacade, verbs: Verbs, call: ToolCall) -> JsonObject:
    return words.answer(claude.servers(claude.config_path()))


async def remove_claude(facade: RegistryFacade, verbs: Verbs, call: ToolCall) -> JsonObject:
    facade.managed.permit()
    name = call.arguments["name"]
    try:
        claude.remove(claude.config_path(), name)
    except UnknownName:
        return words.failure(BadArguments(f"Server '{name}' not found in Claude Desktop config."))
    return words.success(f"Removed '{name}' from Claude Desktop config.\n{_RESTART}")
