"""What rules cost a call: CPU of the gateway's process for a call of an echo server, by configuration, interleaved.

`nothing` has neither rules nor held changes, and its stack has no layer of theirs; the others say what is asked of each
call. Read the differences: what a call costs as a whole is measured by `overhead.py`.
"""

import asyncio
import statistics
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from wicket_mcp import Gateway

PEER = Path(__file__).parent / "peers" / "echo.py"
ROUNDS, CALLS = 15, 200
CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "nothing": {},
    "nothing again": {},
    "rules about another server": {"policy": [{"server": "other", "action": "deny"}]},
    "changes are held": {"held": "hold"},
    "ten rules, none matches": {"policy": [{"tool": f"other_{number}", "action": "deny"} for number in range(10)]},
    "a condition on an argument": {"policy": [{"arguments": {"message": {"pattern": "secret"}}, "action": "deny"}]},
    "flow = ask": {"policy": {"flow": "ask"}},
}


async def main() -> None:
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        gateways: dict[str, Gateway] = {}
        for number, (name, options) in enumerate(CONFIGURATIONS.items()):
            held = {"changed": held, "added": held} if (held := options.get("held")) else {}
            server = {"command": sys.executable, "args": [str(PEER), "stdio"], **held}
            policy = options.get("policy", [])
            config = {"servers": {"echo": server}, "state_dir": f"{folder}/{number}", "policy": policy}
            gateways[name] = await stack.enter_async_context(Gateway.open(config))
        spent: dict[str, list[float]] = {name: [] for name in gateways}
        for _ in range(ROUNDS):
            for name, gateway in gateways.items():
                started = time.process_time()
                for _ in range(CALLS):
                    await gateway.call("echo.echo", {"message": "hello"})
                spent[name].append((time.process_time() - started) / CALLS * 1e6)
    least = min(spent["nothing"])
    for name, times in spent.items():
        median, best = statistics.median(times), min(times)
        print(f"{name:28} least {best:6.1f} µs   median {median:6.1f} µs   {best - least:+.1f}")


if __name__ == "__main__":
    asyncio.run(main())
