"""The file that proves the ownership of a domain: read over https, under the egress rules.

Every read uses a new connection, so that it sees the domain's current state.
"""

import asyncio

from wicket_mcp.errors import UpstreamError, WicketError
from wicket_mcp.model import Principal
from wicket_mcp.registry.dns import LookupFailed
from wicket_mcp.upstream.egress import Endpoint, HttpClient
from wicket_mcp.upstream.egress_rules import EgressRules, NotPublic

PATH = "/.well-known/mcp-registry-auth"
MAX_SIZE = 64 * 1024
TIMEOUT = 10.0


async def read(domain: str, rules: EgressRules, principal: Principal) -> str:
    """The content of the file on `domain`. Raises LookupFailed, with as much of the reason as `principal` may know."""
    url = f"https://{domain}{PATH}"
    client = HttpClient(rules=rules)
    try:
        async with asyncio.timeout(TIMEOUT):
            answer = await client.send("GET", Endpoint.of("domain", url, {}), {"Accept": "text/plain"})
            try:
                body = await answer.body(MAX_SIZE)
            finally:
                answer.close()
    except TimeoutError:
        raise LookupFailed(f"{url} did not answer within {TIMEOUT:g} s") from None
    except UpstreamError as problem:
        why = problem.message.removeprefix(f"Server 'domain' at https://{domain}").strip(" .")
        raise LookupFailed(f"{url} cannot be read: it {why}") from None
    except NotPublic as problem:
        visible = problem if principal.may("admin") else problem.discreet()
        raise LookupFailed(f"{url} cannot be read: {visible.message}") from None
    except WicketError as problem:
        raise LookupFailed(f"{url} cannot be read: {problem.message}") from None
    finally:
        await client.close()
    if answer.status != 200:
        raise LookupFailed(f"{url} answered HTTP {answer.status}")
    return body.decode("utf-8", "replace")
