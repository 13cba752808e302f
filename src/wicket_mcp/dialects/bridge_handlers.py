"""The `bridge` tools that look up, register, watch and call servers."""

from wicket_mcp.dialects import bridge_words as words
from wicket_mcp.dialects.base import ToolCall
from wicket_mcp.errors import WicketError
from wicket_mcp.model import JsonObject
from wicket_mcp.registry.facade import RegistryFacade
from wicket_mcp.registry.server_json import Registration, from_registration
from wicket_mcp.schema.arguments import parse_arguments
from wicket_mcp.verbs import Verbs

# Discovery


async def discover(facade: RegistryFacade, verbs: Verbs, call: ToolCall) -> JsonObject:
    arguments = call.arguments
    matches, total = await facade.discover(
        arguments["query"],
        call.caller.principal,
        limit=arguments.get("limit", 10),
        category=arguments.get("category", ""),
        tags=tuple(arguments.get("tags", ())),
    )
    live = await _live_tools(facade, verbs, call)
    servers = [words.server(known, live.get(known.record.name)) for known in matches]
    return words.answer({"servers": servers, "total": total, "query": arguments["query"]})


async def discover_smart(facade: RegistryFacade, verbs: Verbs, call: ToolCall) -> JsonObject:
    arguments = call.arguments
    advice, known = await facade.advise(
        arguments["query"], arguments.get("context", ""), arguments.get("limit", 5), call.caller.principal
    )
    live = await _live_tools(facade, verbs, call)
    recommendations = [
        {
            **words.server(about, live.get(about.record.name)),
            "covers": list(choice.covers),
            "confidence": choice.confidence,
            "reason": choice.reason,
        }
        for choice, about in zip(advice.recommendations, known, strict=True)
    ]
    return words.answer(
        {
            "query": arguments["query"],
            "needs": list(advice.needs),
            "recommendations": recommendations,
            "uncovered": list(advice.uncovered),
        }
    )


# Registry


async def register(facade: RegistryFacade, verbs: Verbs, call: ToolCall) -> JsonObject:
    arguments, principal = call.arguments, call.caller.principal
    await facade.keys.admit(principal, "register", "registration")
    registration = Registration(
        arguments["name"],
        arguments["description"],
        arguments["repository_url"],
        arguments["category"],
        tuple(arguments["tags"]),
        arguments.get("docker_image", ""),
        arguments.get("npm_package", ""),
    )
    record = await facade.registry.publish(from_registration(registration, ""), principal, origin="registered")
    index = await facade.registry.index()
    return words.answer(
        {
            "success": True,
            "id": index.ids[record.name],
            "server_name": record.name,
            "version": record.version,
            "message": f"Registered '{arguments['name']}'.",
        }
    )


async def verify_domain(facade: RegistryFacade, verbs: Verbs, call: ToolCall) -> JsonObject:
    principal = call.caller.principal
    await facade.keys.admit(principal, "register", "registration")
    return words.answer(words.domain(await facade.domains.begin(call.arguments["domain"], principal)))


async def check_domain(facade: RegistryFacade, verbs: Verbs, call: ToolCall) -> JsonObject:
    principal = call.caller.principal
    await facade.keys.admit(principal, "register", "health")
    return words.answer(words.domain(await facade.domains.check(call.arguments["domain"], principal)))


# Monitoring


async def health(facade: RegistryFacade, verbs: Verbs, call: ToolCall) -> JsonObject:
    arguments = call.arguments
    measured = await facade.measure(arguments.get("server_id"), arguments.get("limit", 10), call.caller.principal)
    return words.answer({"servers": [words.health(server) for server in measured]})


async def onboarding(facade: RegistryFacade, verbs: Verbs, call: ToolCall) -> JsonObject:
    principal = call.caller.principal
    progress = await facade.progress(principal)
    return words.answer(
        {
            "user_id": principal.name,
            "onboarding_complete": progress.complete,
            "completed_steps": list(progress.completed),
            "next_steps": list(progress.next),
            "recommended_servers": await facade.suggestions(),
            "progress_percentage": progress.percentage,
        }
    )


# Invocation


async def invoke(facade: RegistryFacade, verbs: Verbs, call: ToolCall) -> JsonObject:
    arguments = call.arguments
    endpoint, tool = arguments["endpoint"], arguments["tool_name"]
    try:
        if "://" not in endpoint:
            server = (await verbs.current_view(call.caller.principal)).server(endpoint)
            request = call.request(f"{server.name}.{tool}", arguments["arguments"], whole=True)
            return (await verbs.call(request)).body
        parsed = parse_arguments(arguments["arguments"])
        return await facade.invoke(endpoint, tool, parsed, arguments.get("headers", {}), call.caller)
    except WicketError as problem:
        return words.failure(problem, f"Failed to invoke {tool}")


async def _live_tools(facade: RegistryFacade, verbs: Verbs, call: ToolCall) -> dict[str, list[str]]:
    """For each record that runs here, its actual tools."""
    view = await verbs.current_view(call.caller.principal)
    linked = facade.links(await facade.registry.index())
    return {
        name: [tool.name for server in servers for tool in view.by_server.get(server, ())]
        for name, servers in linked.items()
        if servers
    }
