"""Collect the texts that the encoder is trained on.

    python tools/encoder/corpus.py --wheels WHEELS --repos REPOS --debian DEBIAN --code FOLDER... --out DATA

Writes DATA/texts.txt (one English text a line), DATA/pairs.tsv (line numbers of a request and of what it asks for) and
DATA/foreign.tsv (a language, a text in it, the line number of the English). WHEELS and REPOS are as `operations.py`,
`sources.py` and `languages.py` say; DEBIAN holds S-en.bz2, S-de.bz2 … (`Translation-LANGUAGE.bz2` of Debian's main
archive); every FOLDER holds Python packages whose docstrings are read. The order of the lines is fixed by SEED.
"""

import argparse
import random
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))
import languages
import operations
import sources
from operations import git, gitdir

Part = TypeVar("Part")
SEED = 11
LONGEST = 420
_SPACE = re.compile(r"\s+")


class Texts:
    """Distinct texts, numbered."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def add(self, text: str) -> int | None:
        text = _SPACE.sub(" ", text.encode("utf-8", "replace").decode())[:LONGEST].strip()
        letters = sum(c.isalpha() for c in text)
        if len(text) < 6 or letters < 0.6 * len(text) or (not text.isascii() and letters < 4):
            return None
        return self.numbers.setdefault(text, len(self.numbers))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wheels", type=Path, required=True)
    parser.add_argument("--repos", type=Path, required=True)
    parser.add_argument("--debian", type=Path, required=True)
    parser.add_argument("--code", type=Path, nargs="*", default=[])
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()

    def repo(name: str) -> Path:
        return gitdir(options.repos / name)

    def everyday() -> "list[operations.Line]":
        pairs = languages.tabbed(
            "de", git(repo("DarrenCarvalho+Language-Translation"), "show", "HEAD:data/deu.txt").decode()
        )
        return [{"q": english} for _, _, english in pairs]

    found = {
        "aws": operations.aws(options.wheels), "google": operations.google(options.wheels),
        "azure": operations.azure(options.wheels), "openapi": operations.openapi(repo("APIs-guru+openapi-directory")),
        "requests": operations.requests(options.repos),
        "wordnet": operations.wordnet(repo("globalwordnet+english-wordnet")),
        "actions": sources.actions(repo("activepieces+activepieces")),
        "services": sources.services(repo("home-assistant+core")),
        "modules": sources.modules(repo("ansible-collections+community.general")),
        "commands": sources.commands(repo("tldr-pages+tldr")),
        "servers": sources.servers(repo("punkpeye+awesome-mcp-servers")),
        "dialogues": sources.dialogues(options.repos), "questions": sources.questions(repo("yizhongw+self-instruct")),
        "everyday": everyday(),
        "debian": sources.debian(options.debian / "S-en.bz2"),
        "github": sources.markdown(repo("github+docs"), r"^content/.*\.md$", 120_000),
        "kubernetes": sources.markdown(repo("kubernetes+website"), r"^content/en/.*\.md$", 60_000),
        "mdn": sources.markdown(repo("mdn+content"), r"^files/en-us/.*\.md$", 150_000),
        "docstrings": sources.docstrings(options.code, 60_000),
        "members": sources.members(operations.wheel(options.wheels, "botocore"), 250_000),
    }  # fmt: skip
    texts, pairs, foreign = Texts(), dict[tuple[int, int], None](), dict[tuple[str, str, int], None]()
    for source, lines in found.items():
        before, paired = len(texts.numbers), len(pairs)
        for line in present(source, lines):
            request = texts.add(line["q"]) if "q" in line else None
            described = texts.add(line["d"]) if "d" in line else None
            if request is not None and described is not None and request != described:
                pairs[request, described] = None
        sys.stderr.write(f"{source}: {len(texts.numbers) - before} texts, {len(pairs) - paired} pairs\n")
    before = len(texts.numbers)
    sentences = [languages.everything(options.repos, options.debian)]
    sentences.append(
        languages.tabbed("de", git(repo("DarrenCarvalho+Language-Translation"), "show", "HEAD:data/deu.txt").decode())
    )
    sentences.append(languages.tabbed("zh", git(repo("Wyn09+Transformer"), "show", "HEAD:cmn.txt").decode()))
    counts: dict[str, int] = {}
    for part in sentences:
        for code, other, english in present("languages", part):
            other = _SPACE.sub(" ", other)[:LONGEST].strip()
            if other == english or len(other) < 2 or sum(c.isalpha() for c in other) < 0.5 * len(other):
                continue
            number = texts.add(english)
            if number is not None and (code, other, number) not in foreign:
                foreign[code, other, number] = None
                counts[code] = counts.get(code, 0) + 1
    sys.stderr.write(f"languages: {counts}, {len(texts.numbers) - before} more texts\n")
    write(options.out, list(texts.numbers), list(pairs), list(foreign))


def present(source: str, lines: Iterable[Part]) -> Iterator[Part]:
    """What there is of a source: the rest is left out if its files are not there."""
    try:
        yield from lines
    except OSError as problem:
        sys.stderr.write(f"{source}: left out from here on ({problem})\n")


def write(out: Path, texts: list[str], pairs: list[tuple[int, int]], foreign: list[tuple[str, str, int]]) -> None:
    """Neighbouring lines stay neighbours: they compress better, and training shuffles them anyway."""
    seed = random.Random(SEED)
    seed.shuffle(pairs)
    out.mkdir(parents=True, exist_ok=True)
    (out / "texts.txt").write_text("\n".join(texts) + "\n", "utf-8")
    (out / "pairs.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in pairs))
    (out / "foreign.tsv").write_text("".join(f"{code}\t{text}\t{number}\n" for code, text, number in foreign), "utf-8")
    sys.stderr.write(f"{len(texts)} texts, {len(pairs)} pairs, {len(foreign)} translations\n")


if __name__ == "__main__":
    main()
