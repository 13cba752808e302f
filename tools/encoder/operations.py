"""Descriptions of operations and what people ask for: the part of the corpus that is nearest to tools and queries.

WHEELS is a folder filled by `pip download --no-deps -d WHEELS botocore google-api-python-client awscli azure-cli`
(Apache-2.0, MIT). REPOS holds clones, bare or not, named owner+name, of APIs-guru/openapi-directory (CC0),
clinc/oos-eval (CC BY 3.0), xliuhw/NLU-Evaluation-Data (CC BY 4.0), PolyAI-LDN/task-specific-datasets
and globalwordnet/english-wordnet (CC BY 4.0). No benchmark's tools or queries are read.

A line is {"d": operation text} or {"q": request} or both, when the request asks for that operation.
"""

import csv
import gzip
import html
import io
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))
from wicket_mcp.codec import decode

Line = dict[str, str]
_TAG = re.compile(r"<[^>]+>")
_SPACE = re.compile(r"\s+")
_WORDS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
LONGEST = 600


def plain(text: Any) -> str:
    return _SPACE.sub(" ", html.unescape(_TAG.sub(" ", text if isinstance(text, str) else ""))).strip()


def split(identifier: str) -> str:
    return " ".join(_WORDS.findall(identifier))


def operation(server: str, name: str, description: str) -> str:
    return f"{split(server)}: {split(name)}. {description[:LONGEST]}"


def wheel(folder: Path, name: str) -> zipfile.ZipFile:
    return zipfile.ZipFile(next(iter(sorted(folder.glob(f"{name}-*.whl")))))


def aws(folder: Path) -> Iterator[Line]:
    """AWS operations, and the titles of their worked examples as requests."""
    described: dict[tuple[str, str], str] = {}
    with wheel(folder, "botocore") as archive:
        newest = {p.split("/")[2]: p for p in sorted(archive.namelist()) if p.endswith("service-2.json.gz")}
        for service, path in newest.items():
            model = decode(gzip.decompress(archive.read(path)))
            for name, entry in model["operations"].items():
                text = operation(service, name, plain(entry.get("documentation")))
                described[service, re.sub(r"[^a-z0-9]", "", name.lower())] = text
                yield {"d": text}
    with wheel(folder, "awscli") as archive:
        for path in archive.namelist():
            parts = path.split("/")
            if not path.startswith("awscli/examples/") or not path.endswith(".rst") or len(parts) != 4:
                continue
            text = described.get((parts[2], re.sub(r"[^a-z0-9]", "", parts[3][:-4].lower())))
            body = archive.read(path).decode("utf-8", "replace")
            for title in re.findall(r"^\*\*(?:Example \d+: *)?(.+?)\*\*\s*$", body, re.MULTILINE)[:4]:
                request = re.sub(r"^To ", "", title)
                yield {"q": request, "d": text} if text else {"q": request}


def google(folder: Path) -> Iterator[Line]:
    with wheel(folder, "google_api_python_client") as archive:
        for path in archive.namelist():
            if not path.endswith(".json") or "/documents/" not in path or re.search(r"(alpha|beta|preview)", path):
                continue
            document = decode(archive.read(path))
            title = document.get("title", "")
            yield {"d": f"{title}. {plain(document.get('description'))[:LONGEST]}"}
            yield from _google_methods(title, document)


def _google_methods(title: str, node: dict[str, Any]) -> Iterator[Line]:
    for entry in node.get("methods", {}).values():
        name = ".".join(entry.get("id", "").split(".")[1:])
        yield {"d": operation(title, name, plain(entry.get("description")))}
    for inner in node.get("resources", {}).values():
        yield from _google_methods(title, inner)


_COMMAND = re.compile(
    r"@register_command\(\s*\"(.+?)\".*?\"\"\"(.+?)(?:\n\n|:example|\"\"\")",
    re.DOTALL,
)


def azure(folder: Path) -> Iterator[Line]:
    """Azure commands, and the sentences over their examples as requests."""
    with wheel(folder, "azure_cli") as archive:
        for path in archive.namelist():
            if not path.endswith(".py") or "command_modules" not in path:
                continue
            source = archive.read(path).decode("utf-8", "replace")
            if path.endswith("_help.py"):
                for name, body in re.findall(r"helps\[['\"](.+?)['\"]\] = [f]?\"\"\"(.*?)\"\"\"", source, re.DOTALL):
                    summary = re.search(r"short-summary: *(.+)", body)
                    longer = re.search(r"long-summary: *[>|]?-?(.+?)(?:\n\w|\Z)", body, re.DOTALL)
                    about = f"{plain(summary[1]) if summary else ''} {plain(longer[1]) if longer else ''}"
                    head, _, tail = name.partition(" ")
                    text = operation(f"azure {head}", tail or head, about.strip())
                    yield {"d": text}
                    for request in re.findall(r"- name: *[>|]?-?\s*(.+)", body)[:4]:
                        yield {"q": plain(request), "d": text}
            else:
                for name, doc in _COMMAND.findall(source):
                    head, _, tail = name.partition(" ")
                    yield {"d": operation(f"azure {head}", tail, plain(doc))}


def git(repository: Path, *arguments: str) -> bytes:
    command = ["git", "-C", str(repository), *arguments]
    return subprocess.run(command, capture_output=True, check=False).stdout


_OPERATION = re.compile(r"^    (?:get|put|post|delete|patch):$", re.MULTILINE)
_KEY = re.compile(r"^      (description|operationId|summary): ?(.*(?:\n {7,}.*|\n(?=\n {7,}))*)", re.MULTILINE)


def openapi(repository: Path) -> Iterator[Line]:
    """Every operation of the directory, read by indentation: a YAML parser would take an hour."""
    listing = git(repository, "ls-tree", "-r", "-l", "HEAD", "APIs").decode().splitlines()
    seen: set[str] = set()
    for row in listing:
        about, _, path = row.partition("\t")
        if not path.endswith(".yaml") or path.startswith(("APIs/googleapis.com", "APIs/amazonaws.com")):
            continue
        if not about.split()[3].isdigit():
            continue
        source = git(repository, "cat-file", "blob", about.split()[2]).decode("utf-8", "replace")
        found = re.search(r"^  title: *(.+)$", source, re.MULTILINE)
        title = plain(found[1]).strip("'\"") if found else path.split("/")[1]
        taken = 0
        for block in _OPERATION.split(source)[1:]:
            if taken >= 250:
                break
            keys = {key: plain(value.lstrip("|>-+ ")).strip("'\"") for key, value in _KEY.findall(block[:6000])}
            name, summary, described = (keys.get(k, "") for k in ("operationId", "summary", "description"))
            mark = f"{name}|{summary}"
            if mark in seen or not (summary or described):
                continue
            seen.add(mark)
            taken += 1
            if summary and described and summary.lower().rstrip(".") not in described.lower():
                yield {"q": summary, "d": operation(title, name, described)}
            else:
                yield {"d": operation(title, name, described or summary)}


def requests(repos: Path) -> Iterator[Line]:
    """What people say to assistants, with the intent where it is known."""
    clinc = repos / "clinc+oos-eval"
    data = decode(git(gitdir(clinc), "show", "HEAD:data/data_full.json"))
    domains = decode(git(gitdir(clinc), "show", "HEAD:data/domains.json"))
    domain = {intent: name for name, intents in domains.items() for intent in intents}
    for part in ("train", "val", "test", "oos_train", "oos_val", "oos_test"):
        for text, intent in data[part]:
            yield (
                {"q": text}
                if intent == "oos"
                else {"q": text, "d": f"{split(domain.get(intent, ''))}: {split(intent)}."}
            )
    bank = gitdir(repos / "PolyAI-LDN+task-specific-datasets")
    for row in csv.DictReader(io.StringIO(git(bank, "show", "HEAD:banking_data/train.csv").decode())):
        yield {"q": row["text"], "d": f"bank: {split(row['category'])}."}
    home = gitdir(repos / "xliuhw+NLU-Evaluation-Data")
    for path in git(home, "ls-tree", "-r", "--name-only", "HEAD").decode().splitlines():
        if not re.search(r"autoGeneFromRealAnno.*/testset/csv/\w+\.csv$", path):
            continue
        text = git(home, "show", f"HEAD:{path}").decode("utf-8", "replace")
        for row in csv.DictReader(io.StringIO(text), delimiter=";"):
            yield {"q": row["answer_from_anno"], "d": f"{row['scenario']}: {split(row['intent'])} {row['scenario']}."}


_YAML_LIST = re.compile(r"^  (\w+):\n((?:  - .*\n|    .*\n)+)", re.MULTILINE)


def wordnet(repository: Path) -> Iterator[Line]:
    """What general English words mean, and sentences that use them."""
    for path in git(repository, "ls-tree", "-r", "--name-only", "HEAD", "src/yaml/").decode().splitlines():
        if not re.search(r"/(noun|verb|adj|adv)\.\w+\.yaml$", path):
            continue
        source = git(repository, "show", f"HEAD:{path}").decode("utf-8", "replace")
        for block in re.split(r"^\d{8}-\w:$", source, flags=re.MULTILINE)[1:]:
            lists = {
                key: _yaml_list(body)
                for key, body in re.findall(r"^  (\w+):\n((?:  - .*\n|    .*\n)+)", block, re.MULTILINE)
            }
            if "definition" in lists and "members" in lists:
                yield {"q": ", ".join(lists["members"][:4]), "d": lists["definition"][0]}
            yield from ({"q": example} for example in lists.get("example", ())[:1])


def _yaml_list(body: str) -> list[str]:
    return [plain(item).strip("'\"") for item in re.split(r"^  - ", body, flags=re.MULTILINE)[1:]]


def gitdir(clone: Path) -> Path:
    return clone / "repo" if (clone / "repo").is_dir() else clone
