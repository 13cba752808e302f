"""`wicket login` and `wicket logout`: a person's own accounts at the servers behind Wicket."""

from typing import TYPE_CHECKING, Any

from wicket_mcp.cli.common import ConfigOption, JsonOption, ServerArgument, VerboseOption, tell, with_gateway
from wicket_mcp.cli.output import note

if TYPE_CHECKING:
    from wicket_mcp.app import Gateway
    from wicket_mcp.config.model.config import ServerConfig
    from wicket_mcp.errors import UpstreamError

_ATTEMPTS = 3
"""A server may move to another authorization server, or ask for more rights, once somebody has signed in."""


def login(
    server: ServerArgument, config: ConfigOption = None, json: JsonOption = False, verbose: VerboseOption = False
) -> None:
    """Sign in to a server, or give it your keys.

    Opens the browser ($BROWSER, or oauth.browser in the configuration), or prints the address, and waits until you have
    signed in. For a command with credentials = "user" it asks for your keys. If WICKET_API_KEY is set, it signs in for
    the holder of that key.

    Example: wicket login linear
    """

    async def work(gateway: "Gateway") -> dict[str, Any]:
        await gateway.act_for_key()
        chosen = gateway.catalogue.server(server)
        if chosen.url is None:
            await _give_keys(gateway, chosen)
        return {"server": chosen.name, "signed_in": True, "tools": await _sign_in(gateway, chosen)}

    done = with_gateway(config, work, verbose=verbose)
    amount = f"{done['tools']} tool{'' if done['tools'] == 1 else 's'}"
    tell(done, f"Signed in to '{done['server']}': {amount}.", json=json)


def logout(
    server: ServerArgument, config: ConfigOption = None, json: JsonOption = False, verbose: VerboseOption = False
) -> None:
    """Sign out of a server.

    Example: wicket logout linear
    """

    async def work(gateway: "Gateway") -> dict[str, Any]:
        await gateway.act_for_key()
        chosen = gateway.catalogue.server(server)
        forgotten = await gateway.accounts.sign_ins.sign_out(chosen, gateway.principal)
        return {"server": chosen.name, "signed_out": forgotten}

    done = with_gateway(config, work, verbose=verbose)
    words = "Signed out of" if done["signed_out"] else "Nobody was signed in to"
    tell(done, f"{words} '{done['server']}'.", json=json)


async def _sign_in(gateway: "Gateway", server: "ServerConfig") -> int:
    """Sign in until the server can be used; the number of its tools. Raises WicketError."""
    from wicket_mcp.errors import NeedsSignIn, Unavailable, UpstreamError

    for attempt in range(_ATTEMPTS + 1):
        try:
            await gateway.pool.start(server.name, principal=gateway.principal)
            await gateway.verbs.view(gateway.principal, [server.name])
            await gateway.catalogue.renew(server.name)
        except UpstreamError as problem:
            if attempt == _ATTEMPTS or not _asks_for_sign_in(server, problem):
                raise
            await _visit(gateway, server)
            continue
        listed = await gateway.verbs.tools(gateway.principal, server.name)
        unsigned = await gateway.accounts.missing([server], gateway.principal)
        if not unsigned:
            if problem := gateway.catalogue.failures.get(server.name):
                raise Unavailable(server.name, f"You are signed in, but '{server.name}' fails: {problem}")
            return len(listed)
        if attempt < _ATTEMPTS:
            await _visit(gateway, server)
    raise NeedsSignIn(server.name)


def _asks_for_sign_in(server: "ServerConfig", problem: "UpstreamError") -> bool:
    """Whether signing in may help. 401 may be all that a server says about it."""
    from wicket_mcp.errors import NeedsSignIn
    from wicket_mcp.identity.accounts import has_own_token
    from wicket_mcp.upstream.http_errors import http_status

    if server.url is None or has_own_token(server.auth, server.headers):
        return False
    return isinstance(problem, NeedsSignIn) or http_status(problem) == 401


async def _visit(gateway: "Gateway", server: "ServerConfig") -> None:
    import asyncio
    import platform
    from urllib.parse import urlsplit

    from wicket_mcp.cli.browser import open_browser

    pending = await gateway.accounts.sign_ins.begin(server, gateway.principal)
    if await asyncio.to_thread(open_browser, pending.link, gateway.config.oauth.browser):
        note(
            f"Sign in to '{server.name}' in your browser. If none has opened, open this address:\n\n  {pending.link}\n"
        )
    else:
        port = urlsplit(pending.begun.authorization.redirect_uri).port
        note(
            f"Open this address to sign in to '{server.name}':\n\n  {pending.link}\n\n"
            f"If your browser is on another computer, run this there first: ssh -L {port}:127.0.0.1:{port} "
            f"{platform.node()}"
        )
    await pending.wait()


async def _give_keys(gateway: "Gateway", server: "ServerConfig") -> None:
    """Ask for the variables that a command needs, and keep them. Raises ConfigError."""
    import asyncio
    import sys
    from getpass import getpass

    from wicket_mcp.errors import ConfigError
    from wicket_mcp.identity.accounts import own_keys

    if not own_keys(server):
        raise ConfigError(
            f"Server '{server.name}' has nothing to sign in to.",
            hint='Keys of its users need credentials = "user" and their names in required_keys.',
        )
    values: dict[str, str] = {}
    for name in server.required_keys:
        if sys.stdin.isatty():
            values[name] = await asyncio.to_thread(getpass, f"{name}: ")
        else:
            values[name] = (await asyncio.to_thread(sys.stdin.readline)).rstrip("\r\n")
        if not values[name]:
            raise ConfigError(f"'{name}' was left empty.", hint="Nothing was kept.")
    await gateway.accounts.give(server, gateway.principal, values)
