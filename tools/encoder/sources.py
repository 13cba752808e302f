"""Technical and everyday English for the encoder's corpus: documentation, package descriptions, dialogues, docstrings.

Every function yields lines as `operations.py` does: {"d": text}, {"q": request}, or both where the request asks for
what the text describes. Nothing of what they read is kept in the project; `encoder.NOTICE` names licences.
"""

import ast
import bz2
import re
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from operations import Line, git, gitdir, plain, split

from wicket_mcp.codec import decode

_SENTENCE = re.compile(r"(?<=[a-z0-9)\"'`][.!?])\s+(?=[A-Z\"'`(])")
_MARKUP = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|<[^>]+>|!?\[([^\]]*)\]\([^)]*\)|[`*_#>|]+")


def sentences(text: str, most: int = 6) -> list[str]:
    found = [part.strip() for part in _SENTENCE.split(plain(text))]
    return [part for part in found if 18 <= len(part) <= 320][:most]


def blobs(repo: Path, pattern: str, under: str = ".") -> Iterator[tuple[str, str]]:
    """Path and text of every file whose path matches, read through one process."""
    listing = git(repo, "ls-tree", "-r", "-l", "HEAD", under).decode("utf-8", "replace").splitlines()
    wanted = [row for row in listing if re.search(pattern, row.partition("\t")[2]) and row.split()[3].isdigit()]
    command = ["git", "-C", str(repo), "cat-file", "--batch"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout
        for row in wanted:
            process.stdin.write(row.split()[2].encode() + b"\n")
            process.stdin.flush()
            head = process.stdout.readline().split()
            if head[-1] == b"missing":
                continue
            data = process.stdout.read(int(head[2]))
            process.stdout.read(1)
            yield row.partition("\t")[2], data.decode("utf-8", "replace")
        process.stdin.close()


def debian(translation: Path) -> Iterator[Line]:
    """Package descriptions: the short one asks for what the long one says."""
    for package, short, long in packages(translation):
        found = sentences(long, 5)
        if found:
            yield {"q": short, "d": f"{split(package)}: {found[0]}"}
        yield from ({"d": sentence} for sentence in found)


def packages(translation: Path) -> Iterator[tuple[str, str, str]]:
    for block in bz2.decompress(translation.read_bytes()).decode("utf-8", "replace").split("\n\n"):
        found = re.match(r"Package: (\S+)\n(?:.*\n)*?Description-(?!md5)\w+: (.*)\n?((?: .*\n?)*)", block)
        if found:
            long = re.sub(r"\n \.\n", "\n\n", "\n" + found[3])
            paragraphs = [plain(part) for part in long.split("\n\n")]
            yield found[1], found[2].strip(), " ".join(paragraphs)


def markdown(repo: Path, pattern: str, limit: int) -> Iterator[Line]:
    """A heading asks for the paragraph below it; the sentences of prose stand alone."""
    count = 0
    for _, text in blobs(repo, pattern):
        title = re.search(r"^title: *[\"']?(.+?)[\"']?$", text, re.MULTILINE)
        about = re.search(r"^(?:intro|description): *[\"']?(.+?)[\"']?$", text, re.MULTILINE)
        if title and about:
            yield {"q": strip(title[1]), "d": strip(about[1])}
        text = re.sub(r"^---\n.*?\n---\n|```.*?```|~~~.*?~~~", "", text, flags=re.DOTALL)
        for heading, body in re.findall(r"^#{1,4} +(.+)\n+((?:[A-Z].*\n)+)", text, re.MULTILINE):
            found = sentences(strip(body), 4)
            if found and len(heading) > 8:
                yield {"q": strip(heading), "d": found[0]}
        for paragraph in re.findall(r"^(?:[-*] +|\d+\. +)?([A-Z][^\n|]{30,})$", text, re.MULTILINE):
            for sentence in sentences(strip(paragraph), 5):
                count += 1
                yield {"d": sentence}
        if count > limit:
            return


def strip(text: str) -> str:
    return re.sub(r"\s+", " ", _MARKUP.sub(lambda found: found[1] or " ", text)).strip()


def actions(repo: Path) -> Iterator[Line]:
    """Actions of automation pieces: what each is called, what it does, and the long description for agents."""
    for path, text in blobs(repo, r"pieces/.*/src/lib/(actions?|triggers?)/.*\.ts$", "packages/pieces"):
        product = split(path.split("/community/")[-1].split("/")[0])
        name = _quoted(text, "displayName")
        short = _quoted(text, "description")
        found = re.search(r"aiMetadata:\s*\{\s*description:\s*(['\"`])(.*?)(?<!\\)\1", text, re.DOTALL)
        long = plain(found[2]) if found else ""
        if name and short:
            yield {"q": short, "d": f"{product}: {name}. {(long or short)[:400]}"}
        if long:
            yield {"q": f"{name} {product}", "d": long[:400]}
            yield from ({"d": sentence} for sentence in sentences(long))


def _quoted(text: str, key: str) -> str:
    found = re.search(rf"\b{key}:\s*(['\"`])(.*?)(?<!\\)\1", text, re.DOTALL)
    return plain(found[2].replace("\\'", "'")) if found else ""


def services(repo: Path) -> Iterator[Line]:
    """What devices and services of a home can do."""
    for path, text in blobs(repo, r"components/\w+/strings\.json$", "homeassistant/components"):
        product = split(path.split("/")[2])
        try:
            data = decode(text.encode())
        except ValueError:
            continue
        for entry in (data.get("services") or {}).values():
            name, about = str(entry.get("name", "")), plain(entry.get("description"))
            if about and "[%" not in about:
                yield {"q": about, "d": f"{product}: {name}."}
            for field in (entry.get("fields") or {}).values():
                if len(text := plain(field.get("description"))) > 20 and "[%" not in text:
                    yield {"d": text}


def modules(repo: Path) -> Iterator[Line]:
    """Modules of a configuration manager."""
    for path, text in blobs(repo, r"^plugins/modules/.*\.py$", "plugins/modules"):
        name = split(Path(path).stem)
        short = re.search(r"^short_description: *(.+)$", text, re.MULTILINE)
        long = re.search(r"^description:\n((?: +.*\n)+)", text, re.MULTILINE)
        about = plain(re.sub(r"^ +- ", "", long[1], flags=re.MULTILINE)) if long else ""
        if short and about:
            yield {"q": plain(short[1]), "d": f"{name}: {about[:300]}"}
        for part in re.findall(r"^    description:\n((?:      .*\n)+)", text, re.MULTILINE):
            yield from ({"d": s} for s in sentences(re.sub(r"[A-Z]\(([^)]*)\)", r"\1", part.replace(" - ", " ")), 2))


def commands(repo: Path) -> Iterator[Line]:
    """Commands, and what people do with them."""
    for path, text in blobs(repo, r"^pages/.*\.md$", "pages"):
        name = split(Path(path).stem)
        about = " ".join(re.findall(r"^> (?!More information|See also)(.+)$", text, re.MULTILINE))
        tool = f"{name}: {strip(about)}"
        yield {"d": tool}
        for example in re.findall(r"^- (.+):$", text, re.MULTILINE):
            yield {"q": strip(example), "d": tool}


def servers(repo: Path) -> Iterator[Line]:
    """One line about each of the servers of a public list."""
    for _, text in blobs(repo, r"^README\.md$"):
        for name, about in re.findall(r"^- \[([^\]]+)\]\([^)]*\).*? - (.+)$", text, re.MULTILINE):
            yield {"q": strip(about)[:300], "d": f"{split(name.split('/')[-1])}: {strip(about)[:300]}"}


def dialogues(repos: Path) -> Iterator[Line]:
    """What people say when they want something done."""
    schema = gitdir(repos / "google-research-datasets+dstc8-schema-guided-dialogue")
    for path, text in blobs(schema, r"(train|dev)/.*\.json$"):
        data = decode(text.encode())
        if path.endswith("schema.json"):
            for service in data:
                for intent in service["intents"]:
                    name = f"{split(service['service_name'])}: {split(intent['name'])}."
                    yield {"q": intent["description"], "d": f"{name} {service['description']}"}
            continue
        for dialogue in data:
            for turn in dialogue["turns"]:
                if turn["speaker"] == "USER" and len(turn["utterance"]) > 25:
                    intents = {f["service"]: f["state"]["active_intent"] for f in turn["frames"] if "state" in f}
                    service, intent = next(iter(intents.items()), ("", "NONE"))
                    target = {"d": f"{split(service)}: {split(intent)}."} if intent not in ("NONE", "") else {}
                    yield {"q": turn["utterance"], **target}
    for _, text in blobs(gitdir(repos / "google-research-datasets+Taskmaster"), r"data/.*\.json$|dialogs\.json$"):
        try:
            data = decode(text.encode())
        except ValueError:
            continue
        for dialogue in data if isinstance(data, list) else []:
            for turn in dialogue.get("utterances", []):
                if str(turn.get("speaker", "")).upper().startswith("USER") and len(turn.get("text", "")) > 25:
                    yield {"q": plain(turn["text"])}


def questions(repo: Path) -> Iterator[Line]:
    for _, text in blobs(repo, r"(seed_tasks|user_oriented_instructions)\.jsonl$"):
        for row in text.splitlines():
            entry = decode(row.encode())
            yield {"q": plain(entry["instruction"])[:300]}


def docstrings(folders: list[Path], limit: int) -> Iterator[Line]:
    """A function's name asks for what the first sentence of its docstring says."""
    count = 0
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            if "test" in str(path) or path.stat().st_size > 400_000:
                continue
            try:
                tree = ast.parse(path.read_text("utf-8"))
            except (SyntaxError, ValueError):
                continue
            for node in ast.walk(tree):
                if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) or node.name[0] == "_":
                    continue
                found = sentences(strip((ast.get_docstring(node) or "").split("\n\n")[0]), 2)
                if found:
                    count += 1
                    yield {"q": f"{split(path.stem)} {split(node.name)}", "d": found[0]}
            if count > limit:
                return


def members(wheel: zipfile.ZipFile, limit: int) -> Iterator[Line]:
    """What the fields of requests and answers mean, from the service models of AWS."""
    import gzip  # noqa: PLC0415

    count = 0
    with wheel as archive:
        newest = {p.split("/")[2]: p for p in sorted(archive.namelist()) if p.endswith("service-2.json.gz")}
        for path in newest.values():
            model: dict[str, Any] = decode(gzip.decompress(archive.read(path)))
            taken = 0
            for shape in model["shapes"].values():
                for name, member in (shape.get("members") or {}).items():
                    for sentence in sentences(plain(member.get("documentation")), 2):
                        taken, count = taken + 1, count + 1
                        yield {"q": split(name), "d": sentence} if taken % 5 == 0 else {"d": sentence}
                if taken > 900:
                    break
            if count > limit:
                return
