"""The client that the suite starts for its scenarios of skills: reads, through Wicket, as far as it is let.

    python -m tests.conformance.skill_client URL      the suite appends the URL and names the scenario

It checks nothing itself: what Wicket hands over, it would use.
"""

import asyncio
import os
import sys
from typing import Any

from tests.conformance.targets import wicket
from tests.gateway.serving import META, Raw, raw_client


async def ask(client: Raw, method: str, **params: Any) -> Any:
    routing = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method}
    if method == "resources/read":
        routing["Mcp-Name"] = params["uri"]
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": META}}
    return (await client.post(message, routing))[2]


async def use_skills(client: Raw) -> None:
    skills = (await ask(client, "skills/list"))["result"]["skills"]
    if os.environ["MCP_CONFORMANCE_SCENARIO"].endswith("no-prefetch"):
        return
    for skill in skills:
        for file in skill["resources"]:
            read = await ask(client, "resources/read", uri=file["uri"])
            if "result" not in read:
                return


async def main() -> None:
    async with wicket({"url": sys.argv[-1]}) as address, raw_client(address) as client:
        await use_skills(client)


if __name__ == "__main__":
    asyncio.run(main())
