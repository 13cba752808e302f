"""How many poisoned tools the linter finds, and how many honest ones it finds fault with.

`python bench/lint.py CORPORA CATALOG`: CORPORA has clones of the public attack corpora (`MSB`, `mcp-scanner` and
`progent`, which has ASB's tools), which stay out of this repository; CATALOG has the captured listings of real servers,
one JSON file each. `--sources FOLDER` adds sources of honest Python servers, for their prompts and resources: checkouts
of `awslabs/mcp`, `modelcontextprotocol/servers`, `modelcontextprotocol/python-sdk`, `basicmachines-co/basic-memory`,
`voska/hass-mcp`, `alexei-led/aws-mcp-server` and `PrefectHQ/fastmcp`. Nothing of the corpora is run: tools are read off
their source. A tool counts as found when it has a finding of medium or high severity. The patterns were tuned on one
half of the tools, by the checksum of their names; the other half is printed too. What attacks with its code or its
answers, behind an honest definition, is no matter for a linter of texts, and is left out: `--mismatch` counts it all
the same.
"""

import ast
import json
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from wicket_mcp.model import JsonObject, Listing, Tool
from wicket_mcp.trust.lint import lint

MSB_TOOLS = "MSB/data/tools/attack_tools"
CISCO = "mcp-scanner/evals"
ASB = "progent/asb/data/all_attack_tools.jsonl"


def main() -> None:
    corpora, catalog = (Path(argument) for argument in sys.argv[1:3])
    verbose = "--verbose" in sys.argv
    sets = {**msb(corpora), **cisco(corpora), "ASB": asb(corpora)}
    if "--mismatch" in sys.argv:
        sets["Cisco, behaviour only"] = list(cisco_behaviour(corpora))
    total = [0, 0]
    for name, tools in sets.items():
        missed = undetected(tools)
        found = len(tools) - len(missed)
        unseen = [tool for tool in tools if is_unseen(tool)]
        rest = sum(is_unseen(tool) for tool in missed)
        held_out = f"   held-out half {1 - rest / len(unseen):.1%}" if unseen else ""
        print(f"{name:28} {found:5} of {len(tools):5} found = {found / len(tools):6.1%}{held_out}")
        total = [total[0] + found, total[1] + len(tools)]
        for tool in missed if verbose else []:
            print(f"    missed {tool.name}: {' '.join(tool.description.split())[:150]}")
    print(f"{'all':28} {total[0]:5} of {total[1]:5} found = {total[0] / total[1]:.1%}")
    honest = list(captured(catalog))
    count_alarms(honest, "tool", sum(len(listing.tools) for listing in honest), verbose)
    count_alarms(honest, "instructions", sum(bool(listing.instructions) for listing in honest), verbose)
    if "--sources" in sys.argv:
        sources = list(declared(Path(sys.argv[sys.argv.index("--sources") + 1])))
        for kind in ("prompt", "resource", "template"):
            count_alarms(sources, kind, sum(len(getattr(listing, f"{kind}s")) for listing in sources), verbose)


def count_alarms(honest: list[Listing], kind: str, count: int, verbose: bool) -> None:
    """How many honest entries of this kind have a finding of some weight."""
    findings = [finding for finding in lint(honest) if finding.severity != "low" and finding.place.startswith(kind)]
    alarms = {(finding.server, finding.place.partition(":")[0]) for finding in findings}
    high = {(finding.server, finding.place.partition(":")[0]) for finding in findings if finding.severity == "high"}
    share = f"{len(alarms) / count:.2%}" if count else "-"
    print(f"{'false alarms':28} {len(alarms):5} of {count:5} honest: {kind:12} = {share}, {len(high)} of them high")
    for finding in findings if verbose else []:
        print(f"    {finding.severity} {finding.server}: {finding.words}")


def is_unseen(tool: Tool) -> bool:
    """Whether a tool belongs to the half that the patterns were not tuned on."""
    return zlib.crc32(tool.name.encode()) % 2 == 1


def undetected(tools: list[Tool]) -> list[Tool]:
    """The tools without a finding of some weight. A tool is looked at beside the real one that it imitates."""
    servers = dict.fromkeys(tool.server for tool in tools)
    missed: list[Tool] = []
    for server in servers:
        own = [tool for tool in tools if tool.server == server]
        real = [Listing("real", tools=tuple(REAL.get(server, ())))]
        findings = lint([*real, Listing(server, tools=tuple(own))])
        found = {finding.place.partition(":")[0] for finding in findings if finding.severity != "low"}
        missed += [tool for tool in own if f"tool {tool.key}" not in found]
    return missed


REAL: dict[str, list[Tool]] = {}
"""By attacking server, the tools of the honest one that it imitates."""


def msb(corpora: Path) -> dict[str, list[Tool]]:
    """MSB's attacks that stand in a definition: injected descriptions, preference, parameters, names."""
    folder = corpora / MSB_TOOLS
    sets: dict[str, list[Tool]] = {
        "MSB prompt injection": [],
        "MSB preference manipulation": [],
        "MSB out-of-scope parameter": [],
        "MSB name collision": [],
    }
    goals = [json.loads(line)["implementation"] for line in (corpora / "MSB/data/attack_task.jsonl").open()]
    template = assigned(corpora / "MSB/data/prompt_template.py", "PROMPT_INJECTION_TEMPLATE")
    for file in sorted(folder.glob("*/*/*.py")):
        kinds = file.stem.split("-")[1:]
        honest = file.with_name(f"{file.stem.split('-')[0]}.py")
        real = list(tools_of(honest, "real"))
        names = {tool.name for tool in real}
        for tool in tools_of(file, file.stem):
            added = {**tool.definition}
            if not kinds:
                for number, goal in enumerate(goals):
                    text = f"{tool.description}\n{template.replace('{goal}', goal)}"
                    body = {**added, "name": f"{tool.name}_{number}", "description": text}
                    sets["MSB prompt injection"].append(Tool(tool.server, body["name"], body))
            elif "best tool" in tool.description:
                sets["MSB preference manipulation"].append(tool)
            elif "llm_model_name" in str(tool.definition):
                sets["MSB out-of-scope parameter"].append(tool)
            elif kinds == ["name_overlap"] and tool.name not in names and tool.name.endswith("_v1"):
                sets["MSB name collision"].append(tool)
                REAL.setdefault(tool.server, real)
    return sets


def cisco(corpora: Path) -> dict[str, list[Tool]]:
    file = corpora / CISCO / "remote/malicious/malicious_mcp_server.py"
    return {"Cisco malicious server": list(tools_of(file, "malicious"))}


def cisco_behaviour(corpora: Path) -> Iterator[Tool]:
    for file in sorted((corpora / CISCO / "behavioral-analysis/data").glob("*/*.py")):
        yield from tools_of(file, file.stem)


def asb(corpora: Path) -> list[Tool]:
    entries = [json.loads(line) for line in (corpora / ASB).open(encoding="utf-8")]
    return [
        Tool("asb", name, {"name": name, "description": entry["Description"]})
        for entry in entries
        if (name := entry["Attacker Tool"])
    ]


def tools_of(file: Path, server: str) -> Iterator[Tool]:
    """The tools that a Python source declares with a decorator, read and not run."""
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and any(
            "tool" in ast.unparse(decorator) for decorator in node.decorator_list
        ):
            properties: JsonObject = {
                argument.arg: {"description": " ".join(texts(argument.annotation))}
                for argument in node.args.args
                if argument.arg not in ("ctx", "self")
            }
            body = {
                "name": node.name,
                "description": ast.get_docstring(node) or "",
                "inputSchema": {"type": "object", "properties": properties},
            }
            yield Tool(server, node.name, body)


def texts(annotation: ast.expr | None) -> Iterator[str]:
    """What a parameter's `Field(description=…)` says."""
    for node in ast.walk(annotation) if annotation is not None else ():
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def assigned(file: Path, name: str) -> str:
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Assign) and any(ast.unparse(target) == name for target in node.targets):
            return ast.literal_eval(node.value)
    raise LookupError(name)


def captured(catalog: Path) -> Iterator[Listing]:
    for file in sorted(catalog.glob("*.json")):
        body: Any = json.loads(file.read_text("utf-8"))
        server = body["server"]
        tools = tuple(Tool(server, tool["name"], tool) for tool in body["tools"])
        yield Listing(server, tools=tools, instructions=body.get("instructions") or "")


def declared(folder: Path) -> Iterator[Listing]:
    """The prompts, resources and templates that honest Python servers declare with a decorator, read and not run."""
    for file in sorted(folder.rglob("*.py")):
        if "test" in str(file.relative_to(folder)):
            continue
        entries: dict[str, list[JsonObject]] = {"prompt": [], "resource": [], "template": []}
        try:
            tree = ast.parse(file.read_text("utf-8"))
        except SyntaxError:  # of a newer Python
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                for call in node.decorator_list:
                    if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
                        add_entry(entries, call.func.attr, call, node)
        if any(entries.values()):
            prompts, resources, templates = (tuple(listed) for listed in entries.values())
            yield Listing(str(file), prompts=prompts, resources=resources, templates=templates)


def add_entry(
    entries: dict[str, list[JsonObject]], kind: str, call: ast.Call, function: ast.FunctionDef | ast.AsyncFunctionDef
) -> None:
    if kind not in ("prompt", "resource"):
        return
    said: JsonObject = {
        each.arg: each.value.value for each in call.keywords if each.arg and isinstance(each.value, ast.Constant)
    }
    first = call.args[0].value if call.args and isinstance(call.args[0], ast.Constant) else None
    entry = {"name": function.name, "description": ast.get_docstring(function) or "", **said}
    if kind == "prompt":
        arguments = [
            {"name": argument.arg, "description": " ".join(texts(argument.annotation))}
            for argument in function.args.args
        ]
        entries[kind].append({**entry, "arguments": arguments})
    elif isinstance(uri := said.get("uri", first), str):
        kind, key = ("template", "uriTemplate") if "{" in uri else ("resource", "uri")
        entries[kind].append({**entry, key: uri})


if __name__ == "__main__":
    main()
