"""Texts in German, French, Spanish, Chinese and Japanese with the English that they translate.

A line is (language, foreign text, English text). The encoder learns to put the foreign text where the teacher has the
English one. Sources are translations of free software's messages, package descriptions, command pages and sentences.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from operations import gitdir, plain
from sources import blobs, packages, sentences, strip

from wicket_mcp.codec import decode

Pair = tuple[str, str, str]
LANGUAGES = ("de", "fr", "es", "zh", "ja")
_ALIASES = {"zh-cn": "zh", "zh_cn": "zh", "zh_hans": "zh", "zh-hans": "zh", "zh": "zh"}
_ENTRY = re.compile(r'^msgid ((?:".*"\n)+)msgstr ((?:".*"\n?)+)', re.MULTILINE)


def language(code: str) -> str:
    code = _ALIASES.get(code.lower(), code.lower())
    return code if code in LANGUAGES else ""


def clean(text: str) -> str:
    text = re.sub(r"%\(?\w*\)?[sdif]|\{\{?[^}]*\}?\}|<[^>]+>|&\w+;", " ", text.replace("\\n", " ").replace('\\"', '"'))
    return strip(text)


def _unquote(lines: str) -> str:
    return clean("".join(re.findall(r'"(.*)"', lines)))


def po(repo: Path, pattern: str) -> Iterator[Pair]:
    for path, text in blobs(repo, pattern):
        code = next((found for part in re.split(r"[/.]", path) if (found := language(part))), "")
        if not code:
            continue
        for original, translated in _ENTRY.findall(text):
            yield code, _unquote(translated), _unquote(original)


def keyed(repo: Path, pattern: str) -> Iterator[Pair]:
    """JSON from English to another language."""
    for path, text in blobs(repo, pattern):
        code = next((found for part in re.split(r"[/.]", path) if (found := language(part))), "")
        if not code:
            continue
        try:
            data = decode(text.encode())
        except ValueError:
            continue
        for english, other in data.items():
            if isinstance(other, str) and " " in english:
                yield code, clean(other), clean(english)


def numbered(repo: Path, pattern: str) -> Iterator[Pair]:
    """JSON or plain YAML files that share their keys, one a language."""
    texts: dict[str, dict[str, dict[str, str]]] = {}
    for path, text in blobs(repo, pattern):
        name = Path(path).stem
        code = "en" if re.search(r"(^|\.)en$", name) else language(re.split(r"\.", name)[-1])
        if code:
            texts.setdefault(str(Path(path).parent) + name.split(".")[0].replace(name, ""), {})[code] = _flat(
                path, text
            )
    for group in texts.values():
        for code, entries in group.items():
            if code != "en":
                yield from (
                    (code, clean(t), clean(group["en"][k])) for k, t in entries.items() if k in group.get("en", {})
                )


def _flat(path: str, text: str) -> dict[str, str]:
    if path.endswith(".json"):
        data: Any = decode(text.encode())
        entries = data if isinstance(data, list) else [{"id": k, "translation": v} for k, v in data.items()]
        return {e["id"]: e["translation"] for e in entries if isinstance(e["translation"], str)}
    found: dict[str, str] = {}
    stack: list[tuple[int, str]] = []
    for indent, key, value in re.findall(r"^( *)([\w.\"'-]+): *(.*)$", text, re.MULTILINE):
        depth = len(indent)
        stack = [entry for entry in stack if entry[0] < depth]
        stack.append((depth, key))
        if value and value[0] not in "|>&*{":
            found[".".join(k for _, k in stack[1:])] = value.strip("\"'")
    return found


def debian(english: Path, others: dict[str, Path]) -> Iterator[Pair]:
    originals = {package: (short, long) for package, short, long in packages(english)}
    for code, path in others.items():
        for package, short, long in packages(path):
            if package not in originals:
                continue
            yield code, short, originals[package][0]
            if found := sentences(originals[package][1], 1):
                first = re.split(r"(?<=[.。])\s*", long)[0]
                yield code, first, found[0]


def commands(repo: Path) -> Iterator[Pair]:
    """Pages about commands: the same example stands above the same command line."""
    examples = re.compile(r"^- (.+):$\n\n`(.+)`", re.MULTILINE)
    english: dict[str, dict[str, str]] = {}
    about: dict[str, str] = {}
    for path, text in blobs(repo, r"^pages/.*\.md$", "pages"):
        key = "/".join(path.split("/")[1:])
        english[key] = {_line(line): strip(said) for said, line in examples.findall(text)}
        about[key] = next(iter(re.findall(r"^> (.+)$", text, re.MULTILINE)), "")
    for path, text in blobs(repo, r"^pages\.(de|fr|es|zh|ja)/.*\.md$"):
        code, key = path.split("/")[0].split(".")[1], "/".join(path.split("/")[1:])
        if key not in english:
            continue
        if first := re.search(r"^> (.+)$", text, re.MULTILINE):
            yield code, strip(first[1]), strip(about[key])
        ours = examples.findall(text)
        theirs = list(english[key].values())
        for at, (said, line) in enumerate(ours):
            match = english[key].get(_line(line)) or (theirs[at] if len(ours) == len(theirs) else None)
            if match:
                yield code, strip(said), match


def _line(command: str) -> str:
    return re.sub(r"\{\{.*?\}\}", "{}", command)


def intents(repo: Path) -> Iterator[Pair]:
    """Spoken requests with their translations, in the same order."""
    texts: dict[tuple[str, str], list[str]] = {}
    for path, text in blobs(repo, r"^data/xSID-0\.7/(en|de|ja|zh|fr|es)\.(test|valid)\.conll$"):
        code, part = Path(path).name.split(".")[:2]
        texts[code, part] = re.findall(r"^# text(?:-\w+)?[:=] *(.+)$", text, re.MULTILINE)
    for (code, part), lines in texts.items():
        if code != "en" and len(lines) == len(texts["en", part]):
            yield from ((code, plain(a), plain(b)) for a, b in zip(lines, texts["en", part], strict=True))


def tabbed(code: str, text: str) -> Iterator[Pair]:
    """Sentences as English, tab, translation."""
    for row in text.splitlines():
        parts = row.split("\t")
        if len(parts) >= 2:
            yield code, parts[1].strip(), parts[0].strip()


def documents(repo: Path, pairs: list[tuple[str, str]], english: Path | None = None) -> Iterator[Pair]:
    """Titles of pages that exist in two languages, and their headings where there are as many."""
    originals = {path.split("/en/", 1)[-1].split("/en-us/", 1)[-1]: text
                 for path, text in blobs(english or repo, r"/en(-us)?/.*\.md$")}  # fmt: skip
    for code, folder in pairs:
        for path, text in blobs(repo, rf"{folder}/.*\.md$"):
            key = path.split(f"{folder}/", 1)[-1]
            if key not in originals:
                continue
            ours, theirs = _outline(text), _outline(originals[key])
            if len(ours) == len(theirs):
                yield from ((code, a, b) for a, b in zip(ours, theirs, strict=True))
            elif ours and theirs:
                yield code, ours[0], theirs[0]


def _outline(text: str) -> list[str]:
    title = re.findall(r"^title: *[\"']?(.+?)[\"']?$", text, re.MULTILINE)[:1]
    body = re.sub(r"<!--.*?-->|```.*?```", "", text, flags=re.DOTALL)
    return [strip(part) for part in title + re.findall(r"^#{2,4} +(.+?)(?: *\{#.*)?$", body, re.MULTILINE)]


def everything(repos: Path, debian_folder: Path) -> Iterator[Pair]:
    def repo(name: str) -> Path:
        return gitdir(repos / name)

    yield from keyed(repo("activepieces+activepieces"), r"/i18n/(de|fr|es|zh|ja)\.json$")
    yield from keyed(repo("zulip+zulip"), r"^locale/(de|fr|es|ja|zh_Hans)/translations\.json$")
    yield from keyed(repo("microsoft+vscode-loc"), r"pack-(de|fr|es|ja|zh-hans)/translations/extensions/.*\.json$")
    yield from po(repo("zulip+zulip"), r"^locale/(de|fr|es|ja|zh_Hans)/.*\.po$")
    yield from po(repo("apache+superset"), r"translations/(de|fr|es|ja|zh)/.*\.po$")
    yield from po(repo("frappe+erpnext"), r"^erpnext/locale/(de|fr|es|zh|ja)\.po$")
    yield from po(repo("python+python-docs-zh-cn"), r"\.po$")
    yield from numbered(repo("mattermost+mattermost"), r"i18n/(en|de|fr|es|ja|zh-CN)\.json$")
    yield from numbered(repo("discourse+discourse"), r"config/locales/(client|server)\.(en|de|fr|es|ja|zh_CN)\.yml$")
    yield from commands(repo("tldr-pages+tldr"))
    yield from intents(repo("mainlp+xsid"))
    others = {"de": "de", "fr": "fr", "es": "es", "ja": "ja", "zh": "zh_CN"}
    files = {code: debian_folder / f"S-{name}.bz2" for code, name in others.items()}
    yield from debian(debian_folder / "S-en.bz2", files)
    yield from documents(
        repo("kubernetes+website"),
        [
            ("de", "content/de"),
            ("fr", "content/fr"),
            ("es", "content/es"),
            ("ja", "content/ja"),
            ("zh", "content/zh-cn"),
        ],
    )
    yield from documents(
        repo("mdn+translated-content"),
        [("fr", "files/fr"), ("es", "files/es"), ("ja", "files/ja"), ("zh", "files/zh-cn")],
        repo("mdn+content"),
    )
