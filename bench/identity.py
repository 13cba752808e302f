"""What it costs to know a caller: the same call with the owner's token, an API key, and a JWT of an identity provider.

    python bench/identity.py [--rounds N] [--calls N] [--json]

One gateway, asked in turn in many short rounds, each in the other order than the one before; processor time of the
gateway alone. What else the machine does meets all kinds of a round alike, so kinds are compared within a pair of
rounds, one in each order, which cancels who came first; the median of the pairs counts, with the interval that nine in
ten repetitions would fall into. Exit status 1 when even its upper end is too much.
"""

import argparse
import asyncio
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from aiohttp import web
from joserfc import jwt
from joserfc.jwk import RSAKey

from clients import HttpClient, Program
from contenders import ECHO, wicket_serve, write_wicket_config
from machine import cpu_seconds, description, free_port, load_average
from report import Verdict, number, save, table
from wicket_mcp.model import JsonObject

TARGETS = {"API key": 1.15, "JWT": 1.10}
"""How much of the owner's processor time a call may take: the median for a key, its upper bound too for a JWT."""
AT_ONCE = 4
OWNER, KEY, JWT = "owner's token", "API key", "JWT"
CALL: JsonObject = {"name": "call_tool", "arguments": {"name": "echo.echo", "arguments": {"message": "hello"}}}


async def serve_keys(key: RSAKey) -> tuple[str, web.AppRunner]:
    """An issuer that has nothing but keys."""
    app = web.Application()

    async def keys(_: web.Request) -> web.Response:
        return web.json_response({"keys": [{**key.as_dict(private=False), "kid": "k"}]})

    app.router.add_get("/keys", keys)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    return f"http://127.0.0.1:{runner.addresses[0][1]}", runner


def write_tokens(folder: Path, config: Path, token: str) -> dict[str, Path]:
    """A file for each kind of token; the owner's is made when the gateway starts."""
    options = ("keys", "create", "bench", "-s", "discover", "-s", "invoke", "-c", str(config))
    command = [*wicket_serve(config)[:3], *options]
    made = subprocess.run(command, capture_output=True, text=True, check=True)
    for name, text in ((KEY, made.stdout.strip()), (JWT, token)):
        (folder / name).write_text(text, "utf-8")
    return {OWNER: folder / "state" / "token", KEY: folder / KEY, JWT: folder / JWT}


async def measure(folder: Path, rounds: int, calls: int) -> dict[str, list[float]]:
    """Milliseconds of processor time for a call, by kind of token, in each round."""
    key = RSAKey.generate_key(2048)
    issuer, runner = await serve_keys(key)
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    config = write_wicket_config(folder, {"echo": ECHO})
    http = f'[http]\npublic_url = "{address}"\n[[http.issuers]]\nissuer = "{issuer}"\njwks = "{issuer}/keys"\n'
    config.write_text(f"{config.read_text('utf-8')}\n{http}", "utf-8")
    claims: JsonObject = {"iss": issuer, "sub": "ann", "aud": f"{address}/mcp", "exp": int(time.time()) + 3600}
    claims |= {
        "scope": "discover invoke",
        "groups": [f"group-{count}" for count in range(20)],
        "email": "a@example.com",
    }
    files = write_tokens(folder, config, jwt.encode({"alg": "RS256", "kid": "k"}, claims, key))
    program = Program((*wicket_serve(config), "--http", f"127.0.0.1:{port}"), folder / "log")
    await program.start()
    clients = {
        name: [HttpClient(port, modern=True, token_file=path) for _ in range(AT_ONCE)] for name, path in files.items()
    }
    spent: dict[str, list[float]] = {name: [] for name in clients}
    try:
        for client in [client for group in clients.values() for client in group]:
            await client.start()
        for count in range(rounds + 1):
            turn = list(clients.items())
            for name, group in turn if count % 2 else reversed(turn):
                before = cpu_seconds(program.pid)
                await asyncio.gather(*(_ask(client, calls // AT_ONCE) for client in group))
                spent[name].append((cpu_seconds(program.pid) - before) * 1000 / calls)
    finally:
        await program.stop()
        await runner.cleanup()
    return {name: each[1:] for name, each in spent.items()}  # the first round warms up


async def _ask(client: HttpClient, calls: int) -> None:
    for _ in range(calls):
        await client.request("tools/call", CALL)


def compare(each: list[float], owner: list[float]) -> tuple[float, float, float]:
    """The median of a kind's share of the owner's processor time in two rounds, and its interval (bootstrap)."""
    pairs = zip(each[::2], each[1::2], owner[::2], owner[1::2], strict=False)
    shares = [(one + again) / (other + once_more) for one, again, other, once_more in pairs]
    dice = random.Random(1)
    drawn = sorted(statistics.median(dice.choices(shares, k=len(shares))) for _ in range(2000))
    return statistics.median(shares), drawn[100], drawn[1899]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=600, help="how often every kind is measured")
    parser.add_argument("--calls", type=int, default=40, help="calls of one kind in a round")
    parser.add_argument("--json", action="store_true", help="also write bench/out/identity.json")
    options = parser.parse_args()
    print(f"machine: {description()}; load average before: {load_average()}")
    with tempfile.TemporaryDirectory(prefix="wicket-bench-") as folder:
        spent = asyncio.run(measure(Path(folder), options.rounds, options.calls))
    usual = {name: statistics.median(each) for name, each in spent.items()}
    shares = {name: compare(each, spent[OWNER]) for name, each in spent.items()}
    rows = [
        [name, number(usual[name], 3), f"{share:.3f}", f"{low:.3f} - {high:.3f}"]
        for name, (share, low, high) in shares.items()
    ]
    print(table(["caller known by", "CPU ms a call", "of the owner's", "nine in ten"], rows))
    (key, _, key_high), (share, _, high) = shares[KEY], shares[JWT]
    verdicts = [
        Verdict(
            "an API key costs at most 15 % more than the owner's token",
            f"{key:.3f}x, at most {key_high:.3f}x",
            key <= TARGETS[KEY],
        ),
        Verdict(
            "a JWT costs at most 10 % more than the owner's token",
            f"{share:.3f}x, at most {high:.3f}x",
            high <= TARGETS[JWT],
        ),
    ]
    print(*verdicts, sep="\n")
    if options.json:
        measured = {"cpu_ms": usual, "key_of_owner": key, "jwt_of_owner": share}
        print(f"written: {save('identity', measured, verdicts)}")
    sys.exit(0 if all(verdict.met for verdict in verdicts) else 1)


if __name__ == "__main__":
    main()
