"""The client that the suite starts for its `auth/*` scenarios: Wicket, used as a person uses it.

    python -m tests.conformance.auth URL      the suite appends the URL and names the scenario

`wicket login` signs in, with a browser command that follows the authorization server's redirects; then the SDK's client
lists and calls the tools through Wicket, and opens the page when a call asks for one. What each scenario tells its
client beforehand (a client id, a key, a token) goes into the server's `auth` section.
"""

import asyncio
import os
import sys
from typing import Any

import aiohttp
import mcp_types as types
from mcp import Client
from mcp.client import ClientRequestContext

from tests.conformance.suite import Revision, required
from tests.conformance.targets import ROOT, configured, serving
from wicket_mcp.codec import decode
from wicket_mcp.model import LEGACY_VERSIONS, as_object

BROWSER = f"{sys.executable} -m tests.conformance.browser"
DOCUMENT = "https://conformance-test.local/client-metadata.json"
"""What `auth/basic-cimd` wants a client to be known by."""


async def browse(url: str) -> None:
    """What a browser does on the way through a sign-in whose page asks nothing."""
    jar = aiohttp.CookieJar(unsafe=True)  # like browsers, also for hosts without a name
    async with aiohttp.ClientSession(cookie_jar=jar) as session, session.get(url) as answer:
        await answer.read()


async def visit(context: ClientRequestContext, params: types.ElicitRequestParams) -> types.ElicitResult:
    if isinstance(params, types.ElicitRequestFormParams):
        return types.ElicitResult(action="decline")
    await browse(params.url)
    return types.ElicitResult(action="accept")


def section(scenario: str, context: dict[str, Any]) -> dict[str, Any]:
    """The options of `auth` that a scenario's context stands for."""
    match scenario:
        case "auth/client-credentials-jwt":
            kept = {"private_key": context["private_key_pem"], "algorithm": context["signing_algorithm"]}
            return {"kind": "client_credentials", "client_id": context["client_id"], **kept}
        case "auth/client-credentials-basic":
            return {"kind": "client_credentials", **_picked(context, "client_id", "client_secret")}
        case "auth/enterprise-managed-authorization":
            return {
                "kind": "id_jag",
                **_picked(context, "client_id", "client_secret", "idp_client_id"),
                "subject_token": context["idp_id_token"],
                "idp": context["idp_token_endpoint"],
            }
        case "auth/wif-jwt-bearer":
            return {"kind": "workload", "client_id": context["client_id"], "subject_token": context["valid_jwt"]}
        case _:
            return _picked(context, "client_id", "client_secret")


def _picked(context: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: context[name] for name in names if name in context}


def scenarios(revision: Revision) -> list[str]:
    """The `auth/*` scenarios of a revision, scored or not."""
    scored, unscored = required(revision, "client")
    return [scenario for scenario in (*scored, *unscored) if scenario.startswith("auth/")]


def command() -> str:
    """What the suite is to start."""
    return f"{sys.executable} -m tests.conformance.auth"


async def login(config: str, environment: dict[str, str]) -> int:
    arguments = ("-m", "wicket_mcp", "login", "reference", "--config", config)
    process = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, cwd=ROOT, env={**os.environ, **environment, "BROWSER": BROWSER}
    )
    return await process.wait()


async def main(url: str) -> None:
    scenario = os.environ["MCP_CONFORMANCE_SCENARIO"]
    legacy = os.environ["MCP_CONFORMANCE_PROTOCOL_VERSION"] in LEGACY_VERSIONS
    given = as_object(decode(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}"))
    options = {"url": url}
    tables: dict[str, dict[str, Any]] = {"servers.reference.auth": section(scenario, given)}
    if scenario == "auth/basic-cimd":
        tables["oauth"] = {"client_metadata_url": DOCUMENT}
    with configured(options, tables) as (config, state):
        if tables["servers.reference.auth"].get("kind") is None and await login(config, state):
            sys.exit("wicket login failed")
        async with serving(config, state) as address:
            client = Client(address, mode="legacy" if legacy else "auto", elicitation_callback=visit)
            async with client as session:
                for tool in (await session.list_tools()).tools:
                    result = await session.call_tool(tool.name, {})
                    if result.is_error:
                        sys.exit(f"the call failed: {result.content}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[-1]))
