"""`wicket status`: what is configured and known, without starting anything."""

import time
from typing import TYPE_CHECKING, Any

from wicket_mcp.cli.common import ConfigOption, JsonOption, VerboseOption, with_gateway
from wicket_mcp.cli.output import apply_style, say_json, table, wrap, write
from wicket_mcp.cli.roots import explain_roots, roots_of_servers

if TYPE_CHECKING:
    from wicket_mcp.app import Gateway

_MOST_CALLS = 50_000  # of the last hour that are looked at


def status(config: ConfigOption = None, json: JsonOption = False, verbose: VerboseOption = False) -> None:
    """Show what is configured and known, without starting anything.

    Example: wicket status --json
    """

    async def work(gateway: "Gateway") -> dict[str, Any]:
        seen = await gateway.verbs.servers(gateway.principal)
        settings = gateway.config
        state = settings.state_path
        return {
            "config": str(settings.path or ""),
            "state": str(state),
            "store": _without_password(settings.store or ""),
            "token_file": str(state / "token"),
            "address": f"http://{settings.http.host}:{settings.http.port}/mcp",
            "dialects": list(settings.dialects),
            "servers": {server.name: server.state for server in seen},
            "disabled": [server.name for server in settings.servers if not server.enabled],
            "tools": sum(server.tools or 0 for server in seen),
            "scripts": str(gateway.scripting.engine.status()),
            "notes": list(settings.notes),
            "roots": await roots_of_servers(gateway),
            "last_hour": await _last_hour(gateway),
        }

    facts = with_gateway(config, work, verbose=verbose, names_notes=False)
    if json:
        say_json(facts)
        return
    for key, value in _rows(facts):
        write(apply_style(f"{key:11}", "bold"), wrap(value, " " * 11).strip())
    if facts["last_hour"]:
        write()
        table(
            ("last hour", "calls", "a minute", "failed", "cached", "median", "95 %"),
            [
                (name, *(str(row[key]) for key in ("calls", "per_minute", "failed", "cached")), *_latencies(row))
                for name, row in facts["last_hour"].items()
            ],
        )


async def _last_hour(gateway: "Gateway") -> dict[str, Any]:
    """What servers did in the last hour, the busiest first; milliseconds."""
    from wicket_mcp.calls.activity import by_server
    from wicket_mcp.store.model import AuditQuery

    query = AuditQuery(method="tools/call", since=time.time() - 3600, limit=_MOST_CALLS)
    records = [record for record in await gateway.store.find_calls(query) if record.server]
    seen = sorted(by_server(records).items(), key=lambda pair: -pair[1].calls)
    return {
        name: {
            "calls": row.calls,
            "per_minute": round(row.calls / 60, 2),
            "failed": row.failed,
            "cached": row.cached,
            "p50_ms": row.p50,
            "p95_ms": row.p95,
        }
        for name, row in seen
    }


def _without_password(address: str) -> str:
    """The address of a database as far as others may read it."""
    scheme, separator, location = address.partition("://")
    account, at, place = location.rpartition("@")
    return f"{scheme}{separator}{account.partition(':')[0]}{at}{place.partition('?')[0]}"


def _latencies(row: dict[str, Any]) -> tuple[str, str]:
    cells = ["-" if row[key] is None else f"{row[key]:.1f} ms" for key in ("p50_ms", "p95_ms")]
    return cells[0], cells[1]


def _rows(facts: dict[str, Any]) -> list[tuple[str, str]]:
    unseen = [name for name, state in facts["servers"].items() if state == "unseen"]
    rows = [
        ("config", facts["config"]),
        ("state", facts["state"]),
        *([("store", facts["store"])] if facts["store"] else []),
        ("token file", facts["token_file"]),
        ("address", f"{facts['address']} (when served with --http)"),
        ("dialects", ", ".join(facts["dialects"])),
        (
            "servers",
            f"{len(facts['servers'])}"
            + (f", never listed: {', '.join(unseen)} (wicket doctor says why)" if unseen else ""),
        ),
        ("tools", f"{facts['tools']:,}"),
        ("scripts", facts["scripts"]),
    ]
    if unsigned := [name for name, state in facts["servers"].items() if state == "needs sign-in"]:
        rows.append(("sign-in", f"needed: {', '.join(unsigned)} (wicket login NAME)"))
    if facts["disabled"]:
        rows.append(("disabled", ", ".join(facts["disabled"])))
    rows += [("roots", words) for words in explain_roots(facts["roots"])]
    return rows + [("note", text) for text in facts["notes"]]
