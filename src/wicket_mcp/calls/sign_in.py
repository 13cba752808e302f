"""A call that needs a sign-in: the client is asked to open the page, and the call continues afterwards.

NeedsSignIn means that nothing was done, so the request is simply made again. A client that cannot be asked gets the
address in the error, and can repeat the call later. If no callback is served (the library, a command), the error names
the command instead.
"""

import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeAlias
from urllib.parse import quote, urljoin

from wicket_mcp.calls.forward import ask
from wicket_mcp.catalog.catalogue import Catalogue
from wicket_mcp.errors import Internal, NeedsSignIn, Unasked
from wicket_mcp.identity.accounts import Accounts, may_sign_in, own_keys
from wicket_mcp.request import Handler, Layer, Request, Result

DemandAccount: TypeAlias = Callable[[Request], Awaitable[None]]
"""Raises NeedsSignIn if the caller is known to have no account at the request's server."""
ROUNDS = 3  # a server may ask for more rights after a sign-in


def demand_account(accounts: Accounts, catalogue: Catalogue) -> DemandAccount:
    """Checked before a person is asked about a call: a call that cannot be made is not asked about."""

    async def demand(request: Request) -> None:
        config = catalogue.servers.get(request.server)
        if config is not None and await accounts.missing([config], request.principal):
            raise NeedsSignIn(config.name)

    return demand


def sign_in(accounts: Accounts, catalogue: Catalogue) -> Layer:
    def layer(inner: Handler) -> Handler:
        async def handle(request: Request) -> Result:
            if accounts.is_behind:  # another process may have signed in or out
                with suppress(Internal):  # a state that does not answer: as before
                    await accounts.compare_given()
            for _ in range(ROUNDS):
                try:
                    return await inner(request)
                except NeedsSignIn as problem:
                    await _sign_in(request, problem, accounts, catalogue)
            return await inner(request)

        return handle

    return layer


async def _sign_in(request: Request, problem: NeedsSignIn, accounts: Accounts, catalogue: Catalogue) -> None:
    """Ask the caller's user to sign in. Raises NeedsSignIn or SignInFailed if that does not happen."""
    server = problem.server
    config = catalogue.servers.get(server)
    if config is not None and own_keys(config) and accounts.address:
        where = urljoin(accounts.address, f"/ui/servers/{quote(server, safe='')}")
        hint = f"Give your keys at {where} or with: wicket login {server}. Then repeat the call."
        raise NeedsSignIn(server, problem.why, hint=hint)
    if config is None or config.url is None or not accounts.serves_callback:
        raise problem
    if not may_sign_in(config, request.principal):
        hint = f"All users share its account. Ask the owner of this gateway to run: wicket login {server}"
        raise NeedsSignIn(server, problem.why, hint=hint)
    pending = await accounts.sign_ins.begin(config, request.principal)
    visit = secrets.token_urlsafe(16)
    question = {
        "mode": "url",
        "message": f"Sign in to '{server}' in your browser to go on with this call.",
        "url": pending.link,
        "elicitationId": visit,
    }
    try:
        reply = await ask(request.caller, server, "elicitation/create", question, from_us=True)
    except Unasked:
        hint = f"Open this address to sign in, then repeat the call: {pending.link}"
        raise NeedsSignIn(server, problem.why, hint=hint) from None
    if reply.get("action") != "accept":
        raise NeedsSignIn(server, "the sign-in was declined", hint=f"Sign in with: wicket login {server}")
    await pending.wait()
    if not request.caller.resumes:
        request.caller.notify("notifications/elicitation/complete", {"elicitationId": visit})
