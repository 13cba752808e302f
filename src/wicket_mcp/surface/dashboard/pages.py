"""What each page of the dashboard shows: one function per page, from the gateway to plain values for its template.

Nothing here waits for a server: it shows the states and listings that are already known. A principal without `admin`
sees its own calls and its part of the catalogue; everything else is for administrators. Knows no HTTP.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from urllib.parse import quote
from weakref import WeakKeyDictionary

from wicket_mcp.calls.activity import by_server
from wicket_mcp.calls.approve import may_approve, shows_all
from wicket_mcp.catalog.view import View
from wicket_mcp.codec import decode, encode, pretty
from wicket_mcp.errors import BadArguments, UnknownName, WicketError
from wicket_mcp.identity.accounts import has_own_account, may_sign_in, own_keys
from wicket_mcp.model import LOCAL, JsonObject, Principal, Silent, Tool, as_object, as_text
from wicket_mcp.request import tool_call
from wicket_mcp.results.content import texts_of
from wicket_mcp.schema.signature import first_sentence, signature
from wicket_mcp.store.audit_file import estimate_tokens
from wicket_mcp.store.model import AuditQuery, CallRecord
from wicket_mcp.store.records import SUCCESSES, is_call
from wicket_mcp.surface.dashboard.forms import arguments_of, fields_of
from wicket_mcp.surface.dashboard.option_sources import lines_of
from wicket_mcp.surface.dashboard.parts import (
    DAY,
    FAILED,
    PAGE,
    cut_page,
    draw_hours,
    draw_timeline,
    estimate_costs,
    fold,
    group_by_state,
    limit_to,
    mark_lines,
    suggest_fix,
    sum_tokens,
)
from wicket_mcp.surface.dashboard.settings import clients_of, sections_of
from wicket_mcp.surface.dashboard.source import Source
from wicket_mcp.surface.under_way import Glimpse, Load
from wicket_mcp.telemetry.log import escape
from wicket_mcp.trust.always import render
from wicket_mcp.trust.pins import difference

WEEK = 7 * DAY
MOST_OF_A_SCRIPT = 500
SAMPLE = 500
"""How many recent calls the latencies are computed from."""
MOST_FOLDED = 100
"""How many records are looked at when equal ones are shown once."""
SHOWN_RESULT = 20_000
Asked = Mapping[str, str]
"""The query of a URL, or the fields of a form."""


class Pages:
    """The pages, over one gateway."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._costs: WeakKeyDictionary[View, Mapping[str, int]] = WeakKeyDictionary()

    async def prepare(self) -> None:
        """Load the stored listings and count the tools' tokens."""
        await self._count_costs(await self.source.verbs().current_view(LOCAL))

    async def overview(self, principal: Principal, params: Asked) -> JsonObject:
        now = time.time()
        glimpse = await self.source.under_way(principal, "")
        servers = await self._servers(principal, glimpse)
        totals = await self.source.store.call_totals(now - DAY, 3600.0, limit_to(principal))
        calls, failed = sum(t.calls for t in totals), sum(t.failed for t in totals)
        saved = await self._savings(principal, now)
        failed_lately = AuditQuery(owner=limit_to(principal), outcome="failed", since=now - DAY, limit=MOST_FOLDED)
        return {
            "servers": servers,
            "groups": group_by_state(servers),
            "states": Counter(server["state"] for server in servers),
            "tool_count": sum(server["tools"] or 0 for server in servers),
            "calls": calls,
            "failed": failed,
            "chart": (chart := draw_hours(totals, now)),
            "most_in_an_hour": max(bar.calls for bar in chart),
            "saved": saved,
            "needs": await self._needs(principal, servers, glimpse.lost, now),
            "failures": fold(await self.source.store.find_calls(failed_lately), 6),
        }

    async def servers(self, principal: Principal, params: Asked) -> JsonObject:
        now = time.time()
        latest = await self.source.store.find_calls(
            AuditQuery(owner=limit_to(principal), method="tools/call", limit=SAMPLE)
        )
        counts = await self.source.store.call_totals(now - DAY, DAY, limit_to(principal))
        calls: Counter[str] = Counter()
        failed: Counter[str] = Counter()
        for total in counts:
            calls[total.server] += total.calls
            failed[total.server] += total.failed
        servers = await self._servers(principal, await self.source.under_way(principal, ""))
        disabled = [server.name for server in self.source.config().servers if not server.enabled]
        return {
            "servers": servers,
            "disabled": disabled if principal.may("admin") else [],
            "calls": calls,
            "failed": failed,
            "activity": by_server(latest),
        }

    async def server(self, principal: Principal, params: Asked, name: str) -> JsonObject:
        verbs = self.source.verbs()
        view = await verbs.current_view(principal)
        config = view.server(name)
        glimpse = await self.source.under_way(principal, config.name)
        (status,) = [row for row in await self._servers(principal, glimpse) if row["name"] == config.name]
        listing = view.listings.get(config.name)
        records = await self.source.store.find_calls(
            AuditQuery(owner=limit_to(principal), server=config.name, since=time.time() - DAY, limit=SAMPLE)
        )
        return {
            "server": status,
            "listing": listing,
            "tools": [(tool, signature(tool)) for tool in view.by_server.get(config.name, ())[:500]],
            "keys": self._gateway_keys(principal, config.name),
            "own_keys": own_keys(config),
            "may_sign_in": may_sign_in(config, principal),
            "lacks_account": has_own_account(config) and not await self._has_account(principal, config.name),
            "stderr": glimpse.stderr,
            "activity": by_server(record for record in records if is_call(record)).get(config.name),
            "records": records[:20],
        }

    async def _has_account(self, principal: Principal, server: str) -> bool:
        """Whether `principal` has signed in to the server."""
        return any(secret.name == f"oauth {server}" for secret in await self.source.credentials(principal.id))

    async def give_keys(self, principal: Principal, form: Asked, name: str) -> str:
        """Keep the keys that `principal` gives for their own use of a command; its name. Raises BadArguments."""
        config = (await self.source.verbs().current_view(principal)).server(name)
        keys = {key: form.get(f"key {key}", "") for key in own_keys(config)}
        if not keys:
            raise BadArguments(f"Server '{config.name}' takes no keys of its users.")
        if empty := [key for key, value in keys.items() if not value.strip() or "\0" in value]:
            raise BadArguments(f"{', '.join(empty)} was left empty.", hint="Give all keys; nothing was kept.")
        await self.source.give(config.name, principal, keys)
        return config.name

    async def tools(self, principal: Principal, params: Asked) -> JsonObject:
        view = await self.source.verbs().current_view(principal)
        words, server = params.get("q", "").lower().split(), params.get("server", "")
        matches = [
            tool
            for tool in (view.by_server.get(server, ()) if server else view.tools)
            if all(word in f"{tool.key} {tool.description}".lower() for word in words)
        ]
        page = max(1, int(params["page"])) if params.get("page", "").isdecimal() and len(params["page"]) < 6 else 1
        usage = await self.source.verbs().usage(principal)
        return {
            "tools": [
                (tool, first_sentence(tool.description), usage.get(tool.key, 0)) for tool in cut_page(matches, page)
            ],
            "found": len(matches),
            "page_number": page,
            "page_count": max(1, -(-len(matches) // PAGE)),
            "servers": list(view.by_server),
        }

    async def tool(self, principal: Principal, params: Asked, key: str) -> JsonObject:
        verbs = self.source.verbs()
        tool = (await verbs.current_view(principal)).resolve(key)
        records = await self.source.store.find_calls(
            AuditQuery(owner=limit_to(principal), server=tool.server, tool=tool.name, limit=500)
        )
        annotations = as_object(tool.definition.get("annotations"))
        return {
            "tool": tool,
            "signature": signature(tool),
            "schema": pretty(tool.input_schema),
            "output": pretty(tool.output_schema) if tool.output_schema else "",
            "hints": {name: as_text(value) or encode(value).decode() for name, value in annotations.items()},
            "tokens": estimate_costs([tool])[tool.key],
            "fields": fields_of(tool, params),
            "activity": by_server(records).get(tool.server),
            "records": records[:10],
            "errors": Counter(record.outcome for record in records if record.outcome not in SUCCESSES).most_common(),
            "may_call": principal.may("invoke"),
            **(await self._pin_history(tool) if principal.may("admin") else {}),
        }

    async def _pin_history(self, tool: Tool) -> JsonObject:
        """The accepted definitions of a tool, each with its changes, and the one that waits to be accepted."""
        identity = (tool.server, "tool", tool.own_name or tool.name)
        held = [change for change in self.source.held() if (change.server, change.kind, change.name) == identity]
        pins = await self.source.pins(tool)
        definitions = [as_object(decode(pin.definition)) for pin in pins]
        changes = ["", *(difference(old, new) for old, new in pairwise(definitions))]
        versions = [(pin, mark_lines(change)) for pin, change in zip(pins, changes, strict=False)]
        return {
            "held": [(change, mark_lines(change.diff())) for change in held],
            "pins": versions[::-1][:5],
            "passphrase": await self.source.approver.is_set(),
        }

    async def call(self, principal: Principal, form: Asked, key: str) -> JsonObject:
        """Call a tool with the values of a form; the result is shown beside the form."""
        tool = (await self.source.verbs().current_view(principal)).resolve(key)
        started = time.perf_counter()
        answer: JsonObject
        try:
            arguments = arguments_of(tool, form)
            caller = Silent(principal, session=f"dashboard {principal.id}", client_name="dashboard")
            body = (await self.source.verbs().call(tool_call(tool, arguments, caller))).body
            text = "\n".join(texts_of(body)) or pretty(body)
            answer = {"text": text[:SHOWN_RESULT], "failed": bool(body.get("isError"))}
        except WicketError as problem:
            answer = {"text": str(problem), "failed": True}
        answer["ms"] = (time.perf_counter() - started) * 1000
        return {**await self.tool(principal, form, key), "answer": answer}

    async def search(self, principal: Principal, params: Asked) -> JsonObject:
        query, missing = params.get("q", "").strip()[:500], params.get("tool", "").strip()[:200]
        if not query:
            return {"query": "", "missing": missing}
        started = time.perf_counter()
        answer = await self.source.verbs().search(query, principal=principal, limit=10)
        spent = (time.perf_counter() - started) * 1000
        explained = [(hit, await self.source.explain(query, principal, hit.tool)) for hit in answer.hits]
        rows = [(hit.tool, why.as_hit(hit.score)) for hit, why in explained]
        return {
            "query": query,
            "missing": missing,
            "answer": answer,
            "ms": spent,
            "rows": [
                (tool, why, signature(tool), estimate_tokens(len(signature(tool)) + len(tool.description)))
                for tool, why in rows
            ],
            "absent": await self._absence(query, missing, principal, [tool.key for tool, _ in rows])
            if missing
            else None,
            "best": max((why.score for _, why in rows), default=1.0) or 1.0,
        }

    async def activity(self, principal: Principal, params: Asked) -> JsonObject:
        run = params.get("run", "")
        owner = limit_to(principal)
        query = AuditQuery(
            principal="" if owner else params.get("principal", ""),
            owner=owner,
            server=params.get("server", ""),
            tool=params.get("tool", ""),
            outcome=params.get("outcome", ""),
            run=run,
            limit=MOST_OF_A_SCRIPT if run else 100,
        )
        records = await self.source.store.find_calls(query)
        runs: dict[str, list[CallRecord]] = {}
        for record in records:
            if record.run:
                runs.setdefault(record.run, []).insert(0, record)
        view = await self.source.verbs().current_view(principal)
        glimpse = await self.source.under_way(principal, "")
        return {
            "running": glimpse.requests,
            "questions": glimpse.questions,
            "records": records,
            "runs": {name: (calls[0], draw_timeline(calls)) for name, calls in runs.items()},
            "servers": list(view.servers),
            "lost": glimpse.lost,
        }

    async def tokens(self, principal: Principal, params: Asked) -> JsonObject:
        now = time.time()
        view = await self.source.verbs().current_view(principal)
        costs = await self._count_costs(view)
        flat = {name: sum(costs.get(tool.key, 0) for tool in tools) for name, tools in view.by_server.items()}
        lists = await self.source.store.list_totals(now - WEEK, limit_to(principal))
        totals = await self.source.store.call_totals(now - WEEK, WEEK, limit_to(principal))
        results: Counter[str] = Counter()
        for total in totals:
            results[total.server] += estimate_tokens(total.result_bytes)
        return {
            "saved": await self._savings(principal, now),
            "flat": sorted(flat.items(), key=lambda pair: -pair[1]),
            "flat_total": sum(flat.values()),
            "heaviest": sorted(costs.items(), key=lambda pair: -pair[1])[:15],
            "dialects": sum_tokens(lists, "dialect"),
            "clients": sum_tokens(lists, "client"),
            "results": results.most_common(15),
        }

    async def approvals(self, principal: Principal, params: Asked) -> JsonObject:
        held = [(change, mark_lines(change.diff())) for change in self.source.held()]
        standing = [(rule, escape(render(rule))) for rule in await self.source.always().list()]
        questions = [
            (question, may_approve(question, principal), shows_all(question))
            for question in await self.source.approvals.approvals(time.time())
        ]
        passphrase = await self.source.approver.is_set()
        return {"questions": questions, "held": held, "standing": standing, "passphrase": passphrase}

    async def accept(self, principal: Principal, form: Asked) -> None:
        """Accept a server's definition as it was shown. If it has changed since, it is not accepted."""
        identity = tuple(form.get(name, "") for name in ("server", "kind", "name", "digest"))
        for change in self.source.held():
            if (change.server, change.kind, change.name, change.digest) == identity:
                await self.source.approver.check(form.get("passphrase", ""))
                await self.source.accept(change, principal.name)
                detail = f"{change.kind} {change.key}"
                self.source.audit.act(principal.id, "approve definition", detail, server=change.server)
                return
        raise UnknownName("held definition", ".".join(identity[:3:2])[:100], hint="It may have changed: look again.")

    async def access(self, principal: Principal, params: Asked) -> JsonObject:
        now = time.time()
        keys = [key for key in await self.source.keys.list() if principal.may("admin") or key.id == principal.id]
        grants = [
            entry
            for entry in await self.source.grants().list()
            if principal.may("admin") or entry.principal == principal.id
        ]
        acts = await self.source.store.find_calls(
            AuditQuery(owner=limit_to(principal), method="admin", limit=MOST_FOLDED)
        )
        rejected: Sequence[CallRecord] = ()
        if principal.may("admin"):
            rejected = await self.source.store.find_calls(AuditQuery(method="auth", limit=MOST_FOLDED))
        connected = (await self.source.under_way(principal, "")).clients
        credentials = await self.source.credentials(limit_to(principal) or None)
        clients: dict[tuple[str, str], float] = {}
        for record in await self.source.store.find_calls(
            AuditQuery(owner=limit_to(principal), since=now - DAY, limit=SAMPLE)
        ):
            if "/" in record.method:
                clients.setdefault((record.principal, record.client), record.at)
        return {
            "keys": keys,
            "grants": grants,
            "acts": fold(acts, 30),
            "rejected": fold(rejected, 30),
            "clients": clients,
            "connected": connected,
            "credentials": [(secret.owner, secret.name, secret.updated_at) for secret in credentials],
            "now": now,
        }

    async def settings(self, principal: Principal, params: Asked) -> JsonObject:
        config = self.source.config()
        lines = await asyncio.to_thread(lines_of, config.path)
        return {
            "sections": sections_of(config, config.path, lines),
            "path": str(config.path or ""),
            "notes": config.notes,
            "clients": clients_of(self.source.address(), token=self.source.needs_token),
        }

    # Parts of several pages

    async def _servers(self, principal: Principal, glimpse: Glimpse) -> list[JsonObject]:
        """Every server, as all processes see it."""
        signed_out = await self.source.signed_out(principal)
        servers: list[JsonObject] = []
        for status in await self.source.verbs().servers(principal):
            load = glimpse.loads.get(status.name, Load())
            used = bool(load.state) and status.name not in signed_out
            state, problem = (load.state, load.problem or status.problem) if used else (status.state, status.problem)
            state = "failing" if state == "waiting" else state  # what it waits for is the next attempt
            servers.append(
                {
                    "name": status.name,
                    "state": state,
                    "tools": status.tools,
                    "description": status.description,
                    "version": status.version,
                    "transport": "http" if status.transport == "auto" else status.transport,
                    "problem": problem,
                    "hint": load.hint if used and load.problem else "",
                    "fix": suggest_fix(status.name, state, problem, needs_sign_in=status.name in signed_out),
                    "era": load.era,
                    "needs_sign_in": status.name in signed_out,
                    "calls": load.calls,
                    "waiting": load.waiting,
                    "restarts": load.restarts,
                }
            )
        return servers

    def _gateway_keys(self, principal: Principal, server: str) -> Mapping[str, bool]:
        """The secrets that the gateway needs for a server, and whether each is present; without those that every user
        gives.
        """
        own = next((own_keys(config) for config in self.source.config().servers if config.name == server), ())
        keys = self.source.verbs().required_keys(server, principal)
        return {name: is_present for name, is_present in keys.items() if name not in own}

    async def _needs(
        self, principal: Principal, servers: Sequence[JsonObject], lost: int, now: float
    ) -> list[tuple[str, str, str]]:
        """What needs a person's attention: what, why, and where to go."""
        needs: list[tuple[str, str, str]] = []
        for server in servers:
            name, where = server["name"], f"/ui/servers/{quote(server['name'], safe='')}"
            keys = self._gateway_keys(principal, name)
            if server["needs_sign_in"]:
                needs.append((f"Sign in to {name}", f"Nobody has signed in to it for {principal.name}.", where))
            elif server["problem"]:
                title = f"{name} is {server['state']}" if server["state"] in FAILED else f"{name} has a problem"
                needs.append((title, f"{server['problem']} {server['hint']}".rstrip(), where))
            elif absent := [key for key, is_present in keys.items() if not is_present]:
                words = f"Set {', '.join(absent)} where the gateway is started."
                needs.append((f"{name} needs a secret", words, where))
        if principal.may("admin"):
            recent = await self.source.store.find_calls(AuditQuery(method="admin", since=now - DAY, limit=50))
            changes = [record for record in recent if record.tool == "tools changed"]
            needs += [("Tools changed", record.detail, "/ui/tools") for record in changes[:5]]
            for change in self.source.held()[:5]:
                needs.append((f"{change.kind} {change.key} is held", change.words, "/ui/approvals"))
            for question in await self.source.approvals.approvals(now):
                if not question.approved_by:
                    needs.append(("A call waits for approval", question.words, "/ui/approvals"))
            if lost:
                needs.append(("Audit records were lost", f"{lost} since the gateway started.", "/ui/activity"))
        return needs

    async def _count_costs(self, view: View) -> Mapping[str, int]:
        """The cost of each tool in a flat list, in tokens; counted once per view."""
        costs = self._costs.get(view)
        if costs is None:
            costs = self._costs[view] = await asyncio.to_thread(estimate_costs, view.tools)
        return costs

    async def _savings(self, principal: Principal, now: float) -> int:
        """How many more tokens this week's tool lists would have cost as flat lists."""
        flat = sum((await self._count_costs(await self.source.verbs().current_view(principal))).values())
        totals = await self.source.store.list_totals(now - WEEK, limit_to(principal))
        return sum(max(0, flat - estimate_tokens(t.result_bytes)) * t.lists for t in totals if t.dialect != "flat")

    async def _absence(self, query: str, name: str, principal: Principal, keys: Sequence[str]) -> JsonObject:
        """Why a tool is not among the results."""
        view = await self.source.verbs().current_view(principal)
        try:
            tool = view.resolve(name)
        except WicketError as problem:
            return {"name": name, "words": self._explain_unknown(name, view, principal) or str(problem)}
        if held := [change for change in self.source.held() if change.kind == "tool" and change.key == tool.key]:
            return {"name": tool.key, "words": f"It is held and cannot be called: {held[0].words}. {held[0].remedy}"}
        if tool.key in keys:
            return {"name": tool.key, "words": f"It is number {keys.index(tool.key) + 1}."}
        return {"name": tool.key, "why": await self.source.explain(query, principal, tool)}

    def _explain_unknown(self, name: str, view: View, principal: Principal) -> str:
        """Why no tool of this name is known, if it is because of its server."""
        server = name.partition(".")[0]
        disabled = {config.name for config in self.source.config().servers if not config.enabled}
        if server in disabled and principal.may("admin"):
            return f"Server '{server}' is disabled in the configuration."
        if server not in view.servers or server in view.listings:
            return ""
        why = self.source.failures().get(server, "nobody has asked it for its tools yet")
        return f"The tools of server '{server}' are not known: {why}"
