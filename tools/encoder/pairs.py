"""What the judge learns from: servers with their tools, requests for each, and requests that none of them serves.

The written ones come first. Then the corpus's: operations of one service, each asked for by what the corpus pairs it
with, or by its own description in other words.
"""

import os
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing import Pool
from pathlib import Path

import numpy as np
import paraphrases as written
import synonyms
from material import PREFIXES, cut, noisy, prepare_cutting, say
from student import LONGEST

MOST_TOOLS, FEWEST_TOOLS = 24, 4
_PARTS = 10
"""Groups that are made of one service at most."""
_LONG = 300


@dataclass
class Server:
    tools: list[tuple[int, int, int]] = field(default_factory=list)
    """Texts of each tool: as it is described, with more besides, and its name alone."""
    requests: list[tuple[int, int]] = field(default_factory=list)
    """A text, and the tool that it asks for."""
    unserved: list[int] = field(default_factory=list)
    has_plain: bool = False
    """Whether some requests are in the tools' own words."""


class Texts:
    """Numbers of texts, each once."""

    def __init__(self) -> None:
        self.all: list[str] = []
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        if text not in self._numbers:
            self._numbers[text] = len(self.all)
            self.all.append(text)
        return self._numbers[text]

    def cut(self, data: Path) -> tuple[np.ndarray, np.ndarray]:
        """Piece numbers of all texts, and how many each has."""
        parts = [self.all[at : at + 4000] for at in range(0, len(self.all), 4000)]
        with Pool(os.cpu_count(), prepare_cutting, (data,)) as pool:
            done = pool.map(cut, parts, chunksize=1)
        return np.concatenate([ids[:, :LONGEST] for ids, _ in done]), np.concatenate([lengths for _, lengths in done])


def read_all(data: Path, paths: list[Path]) -> tuple[Texts, list[Server], list[Server]]:
    """The texts, the servers that we wrote and those of the corpus: always in the same order."""
    chance, texts = random.Random(1), Texts()
    return texts, read_written(sorted(paths), texts, chance), read_corpus(data, texts, chance)


def labelled(data: Path, paths: list[Path], labels: Path, rows: dict[str, int]) -> tuple[np.ndarray, np.ndarray]:
    """Rows of requests and their candidates, or -1, and what `cross.py` says of them."""
    known = np.array([rows.get(text, -1) for text in read_all(data, paths)[0].all] + [-1])
    chosen = known[np.load(labels / "candidates.npy")]
    says = np.load(labels / "says.npy").astype(np.float32)
    usable = (chosen[:, 0] >= 0) & ((chosen[:, 1:] >= 0).sum(1) > 1)
    say("labelled", int(usable.sum()), "requests", int((chosen[usable, 1:] >= 0).sum()), "pairs")
    return chosen[usable], says[usable]


def read_written(paths: list[Path], texts: Texts, chance: random.Random) -> list[Server]:
    unserved = written.unserved(paths)
    servers: list[Server] = []
    for group in written.groups(written.load(paths)):
        server = Server(unserved=[texts.number(text) for text in unserved.get(group[0].server, ())])
        server.has_plain = any(tool.has_plain for tool in group)
        for place, tool in enumerate(group):
            server.tools.append((texts.number(tool.text), texts.number(tool.padded), texts.number(tool.bare)))
            for text in (*tool.english, *(text for _, text in tool.foreign)):
                server.requests.append((texts.number(text), place))
                if chance.random() < 0.12 and len(text) < 150:
                    server.requests.append((texts.number(noisy(text, chance)), place))
        servers.append(server)
    return servers


def read_corpus(data: Path, texts: Texts, chance: random.Random) -> list[Server]:
    lines = (data / "texts.txt").read_text("utf-8").split("\n")
    paired: dict[str, dict[str, list[str]]] = {}
    for row in (data / "pairs.tsv").read_text().splitlines():
        asked, described = (lines[int(number)] for number in row.split("\t"))
        service, colon, _ = described[:48].partition(":")
        if colon and len(asked) < 200:
            paired.setdefault(service, {}).setdefault(described, []).append(asked)
    services: dict[str, dict[str, list[str]]] = {}
    for line in lines:
        service, colon, _ = line[:48].partition(":")
        about = line.partition(". ")[2][:160]
        if colon and 30 < len(line) < _LONG and len(about) > 15:
            services.setdefault(service, {})[line] = [about]
    known = synonyms.load()

    def in_other_words(about: str) -> str:
        said = synonyms.reword(about, known, chance, 0.9) or about
        if chance.random() < 0.5:
            said = chance.choice(PREFIXES) + said[:1].lower() + said[1:]
        if chance.random() < 0.5:
            said = " ".join(word for word in said.split() if chance.random() > 0.25) or said
        return said

    reworded = {
        service: {line: [in_other_words(about)] for line, (about,) in operations.items()}
        for service, operations in services.items()
        if len(operations) >= 2 * FEWEST_TOOLS
    }
    return [*_groups(paired, texts, chance), *_groups(reworded, texts, chance)]


def _groups(services: dict[str, dict[str, list[str]]], texts: Texts, chance: random.Random) -> Iterator[Server]:
    for operations in services.values():
        rows = list(operations.items())
        chance.shuffle(rows)
        for at in range(0, min(len(rows), _PARTS * MOST_TOOLS), MOST_TOOLS):
            part = rows[at : at + MOST_TOOLS]
            if len(part) < FEWEST_TOOLS:
                continue
            numbers = [texts.number(described) for described, _ in part]
            requests = [
                (texts.number(text), place)
                for place, (_, many) in enumerate(part)
                for text in chance.sample(many, min(4, len(many)))
            ]
            yield Server([(number, number, number) for number in numbers], requests)
