"""What the encoder is trained on: texts as piece numbers, each with the vector that the teacher gives it."""

import argparse
import os
import random
import sys
import time
from collections.abc import Iterator
from multiprocessing import Pool
from pathlib import Path

import numpy as np
import paraphrases as written
import synonyms
import teacher
import torch
import torch.nn.functional as nn
from student import LONGEST, VECTOR, Student, begin_with

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))
from wicket_mcp.search.encoder import Encoder
from wicket_mcp.search.tokenizer import Tokenizer

START = time.perf_counter()
PREFIXES = (
    "can you ", "could you please ", "please ", "i need to ", "i want to ", "help me ", "i'd like to ", "how do i ",
    "how can i ", "is there a way to ", "we need to ", "my boss asked me to ", "i'm trying to ", "let's ", "hey, ",
    "i was wondering if you could ", "",
)  # fmt: skip
JOINTS = (" and ", ". Then ", ". Also, ", ", then ", " and then ", "; ")
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def say(*parts: object) -> None:
    sys.stdout.write(f"{time.perf_counter() - START:6.1f} " + " ".join(map(str, parts)) + "\n")
    sys.stdout.flush()


def tokenizer(data: Path) -> tuple[Tokenizer, list[str], np.ndarray]:
    rows = [line.split("\t") for line in (data / "pieces.tsv").read_text("utf-8").splitlines()]
    scores = np.array([float(score) for _, score in rows], np.float32)
    return Tokenizer([piece for piece, _ in rows], scores.tolist()), [piece for piece, _ in rows], scores


_TOKENIZER: list[Tokenizer] = []


def prepare_cutting(data: Path) -> None:
    """So that this process can cut texts."""
    _TOKENIZER[:] = _TOKENIZER or [tokenizer(data)[0]]


def cut(texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
    found = [_TOKENIZER[0].encode(text, LONGEST) for text in texts]
    lengths = np.array([len(ids) for ids in found], np.int16)
    padded = np.zeros((len(found), LONGEST), np.int32)
    for row, ids in zip(padded, found, strict=True):
        row[: len(ids)] = ids
    return padded, lengths


def numbers(texts: list[str], data: Path) -> tuple[np.ndarray, np.ndarray]:
    parts = [texts[at : at + 5000] for at in range(0, len(texts), 5000)]
    with Pool(os.cpu_count(), prepare_cutting, (data,)) as pool:
        done = pool.map(cut, parts, chunksize=1)
    return np.concatenate([ids for ids, _ in done]), np.concatenate([lengths for _, lengths in done])


def noisy(text: str, seed: random.Random) -> str:
    """The text as somebody types it in haste."""
    words = text.split(" ")
    for _ in range(1 + len(words) // 7):
        at = seed.randrange(len(words))
        word = words[at]
        if len(word) < 4 or not word.isascii():
            continue
        place, kind = seed.randrange(1, len(word) - 1), seed.randrange(5)
        if kind == 0:
            words[at] = word[:place] + word[place + 1 :]
        elif kind == 1:
            words[at] = word[: place - 1] + word[place] + word[place - 1] + word[place + 1 :]
        elif kind == 2:
            words[at] = word[:place] + seed.choice(LETTERS) + word[place:]
        elif kind == 3:
            words[at] = word[:place] + seed.choice(LETTERS) + word[place + 1 :]
        else:
            words[at] = word[:place] + word[place] + word[place:]
    return " ".join(words)


def unshared(request: str, described: str) -> str:
    """The request without the words that it shares with what it asks for, where enough is left of it."""
    shared = set(described.lower().split())
    words = request.split()
    left = [word for word in words if word.lower() not in shared or len(word) < 4]
    return " ".join(left) if len(left) < len(words) and sum(len(word) > 3 for word in left) >= 3 else ""


def _reword(job: tuple[int, list[str], float]) -> list[str]:
    number, texts, share = job
    chance, known = random.Random(f"reword {number}"), synonyms.load()
    return [synonyms.reword(text, known, chance, share) if len(text) < 240 else "" for text in texts]


def reworded(texts: list[str], share: float = 0.75, number: int = 0) -> list[str]:
    """Each text in other words; empty where it has none that could be replaced."""
    jobs = [(number + at, texts[at : at + 5000], share) for at in range(0, len(texts), 5000)]
    with Pool(os.cpu_count()) as pool:
        return [text for part in pool.map(_reword, jobs, chunksize=1) for text in part]


def taught(texts: list[str], folder: Path, device: str) -> torch.Tensor:
    """The teacher's vectors."""
    if folder.suffix == ".bin":
        return remembered(texts, folder, device)
    from tokenizers import Tokenizer as Teachers  # noqa: PLC0415

    cutter = Teachers.from_file(str(folder / "tokenizer.json"))
    cutter.no_padding()
    cutter.enable_truncation(teacher.LONGEST)
    weights = teacher.load(folder / "teacher.npz", device, torch.float16 if device == "cuda" else torch.float32)
    lengths = np.zeros(len(texts), np.int32)
    ids: list[list[int]] = []
    for at in range(0, len(texts), 100_000):
        ids.extend(entry.ids for entry in cutter.encode_batch_fast(texts[at : at + 100_000]))
    lengths[:] = [len(entry) for entry in ids]
    say("cut for the teacher")
    order = np.argsort(lengths, kind="stable")
    found = torch.empty((len(texts), 768), dtype=torch.float16, device=device)
    at = 0
    with torch.no_grad():
        while at < len(order):
            longest = int(lengths[order[min(at + 64, len(order) - 1)]])
            count = min(len(order) - at, max(64, 120_000 // max(longest, 8)))
            rows = order[at : at + count]
            width = int(lengths[rows[-1]])
            flat = np.ones((len(rows), width), np.int64)
            mask = np.zeros((len(rows), width), np.int64)
            for row, number in enumerate(rows):
                flat[row, : lengths[number]] = ids[number]
                mask[row, : lengths[number]] = 1
            vectors = teacher.encode(weights, torch.from_numpy(flat).to(device), torch.from_numpy(mask).to(device))
            found[torch.from_numpy(rows).to(device)] = vectors.half()
            at += count
    say("taught", len(texts))
    return found


def remembered(texts: list[str], path: Path, device: str) -> torch.Tensor:
    """The vectors of an earlier encoder: who learns more from itself does not forget what it knew."""
    file = Encoder(path.read_bytes())
    state = begin_with(path)
    student = Student(len(state["embeddings"]), file.width, len(file.layers()), file._heads, state["up.0"].shape[1], [])
    student.load_state_dict(state, strict=False)
    student.to(device).eval()
    _TOKENIZER[:] = [file.tokenizer]
    parts = [texts[at : at + 4096] for at in range(0, len(texts), 4096)]
    found = []
    with Pool(os.cpu_count()) as pool, torch.no_grad(), torch.autocast(device, torch.bfloat16):
        for ids, lengths in pool.imap(cut, parts):
            longest = int(lengths.max())
            rows = torch.from_numpy(ids[:, :longest]).to(device), torch.from_numpy(lengths.astype(np.int64)).to(device)
            found.append(student(*rows)[0].half())
    say("remembered", len(texts))
    return torch.cat(found)


class Data:
    """Texts as piece numbers, each with the vector that it should have."""

    def __init__(self, options: argparse.Namespace, device: str) -> None:
        seed = random.Random(options.seed)
        texts, pairs, foreign = read_corpus(options.data, options.few)
        self.tools = written.load(options.paraphrases)
        base = len(texts)
        index: dict[str, int] = {}
        for tool in self.tools:
            for text in (tool.text, tool.bare, tool.padded, *tool.english):
                index.setdefault(text, base + len(index))
        for text in (text for many in written.unserved(options.paraphrases).values() for text in many):
            index.setdefault(text, base + len(index))
        texts += list(index)
        dressed, joined = dress(texts, sorted({a for a, _ in pairs}), seed)
        plain = len(texts)
        texts += [said for said, _ in dressed] + joined
        pairs_of: dict[int, int] = {at: plain + number for number, (_, at) in enumerate(dressed)}
        pairs += [(pairs_of[a], b) for a, b in pairs if a in pairs_of]
        self.plain = len(texts)
        spoilt = [
            (noisy(texts[at], seed), at)
            for at in seed.sample(range(self.plain), self.plain // 4)
            if len(texts[at]) < 200
        ]
        for tool in self.tools:
            for code, text in tool.foreign:
                foreign.append((code, text, index[tool.english[0] if tool.english else tool.bare]))
        parted = [(text, a, b) for a, b in pairs if seed.random() < 0.4 and (text := unshared(texts[a], texts[b]))]
        students = texts + [text for text, _ in spoilt] + [text for _, text, _ in foreign]
        sources = [*range(self.plain), *(at for _, at in spoilt), *(at for _, _, at in foreign)]
        self.foreign = np.arange(self.plain + len(spoilt), len(students))
        pairs += [(len(students) + number, b) for number, (_, _, b) in enumerate(parted)]
        students += [text for text, _, _ in parted]
        sources += [a for _, a, _ in parted]
        # Texts in other words lie where the teacher has the original, and requests ask for the same.
        other = reworded(texts)
        again = reworded(texts, 1.0, 10_000_000)
        begin = len(students)
        rows = [(text, at) for many in (other, again) for at, text in enumerate(many) if text]
        students += [text for text, _ in rows]
        sources += [at for _, at in rows]
        self.reworded = np.arange(begin, len(students))
        where: dict[int, list[int]] = {}
        for number, (_, at) in enumerate(rows):
            where.setdefault(at, []).append(begin + number)
        pairs += [(seed.choice(where[a]), b) for a, b in pairs if a in where]
        extra: dict[str, list[int]] = {}
        for tool_text, text in asked_otherwise(self.tools):
            extra.setdefault(tool_text, []).append(len(students))
            students.append(text)
            sources.append(index[tool_text])
        self.codes = np.array([code for code, _, _ in foreign])
        ids, self.lengths = numbers(students, options.data)
        counts = f"{len(texts)} texts {len(spoilt)} spoilt {len(foreign)} foreign {len(pairs)} pairs"
        say(f"{counts} {len(parted)} without shared words {self.lengths.mean():.1f} pieces")
        self.spoilt = np.arange(self.plain, self.plain + len(spoilt))
        self.vectors = shortened(taught(texts, options.teacher, device))
        self.sources = torch.tensor(sources, device=device)
        self.ids = torch.from_numpy(ids).to(device)
        self.pairs = np.array(pairs, np.int64)
        self.groups = written.groups(self.tools)
        # A translation of a written request asks for the same tool.
        offset = {text: self.plain + len(spoilt) + at for at, (_, text, _) in enumerate(foreign)}
        self.servers: list[list[tuple[list[int], list[int], list[int]]]] = []
        for group in self.groups:
            entries = []
            for tool in group:
                asked = [index[text] for text in tool.english] + [offset[text] for _, text in tool.foreign]
                entries.append(
                    ([index[tool.text], index[tool.padded], index[tool.bare]], asked, extra.get(tool.text, []))
                )
            self.servers.append(entries)
        self.rows = {text: at for at, text in enumerate(texts[:base])} | index | offset
        self.clusters = neighbours(self.vectors[: self.plain], max(8, self.plain // 700))
        self.siblings = siblings(texts, self.pairs)


def read_corpus(data: Path, few: int) -> tuple[list[str], list[tuple[int, int]], list[tuple[str, str, int]]]:
    """Texts, or the first few of them; pairs of a request and what it asks for; and translations."""
    texts = (data / "texts.txt").read_text("utf-8").split("\n")[:-1]
    if few:
        texts = texts[:few]
    rows = [row.split("\t") for row in (data / "pairs.tsv").read_text().splitlines()]
    pairs = [(int(a), int(b)) for a, b in rows if int(a) < len(texts) and int(b) < len(texts)]
    foreign = [row.split("\t") for row in (data / "foreign.tsv").read_text("utf-8").split("\n")[:-1]]
    return texts, pairs or [(0, 1)], [(code, text, int(at)) for code, text, at in foreign if int(at) < len(texts)]


def dress(texts: list[str], requests: list[int], seed: random.Random) -> tuple[list[tuple[str, int]], list[str]]:
    """Some of the requests as people begin them, and some of these joined with another."""
    dressed: list[tuple[str, int]] = []
    for at in requests:
        text = texts[at]
        if len(text) < 160 and seed.random() < 0.6:
            dressed.append((seed.choice(PREFIXES) + text[:1].lower() + text[1:], at))
    joined = [
        seed.choice(dressed)[0].rstrip(".") + seed.choice(JOINTS) + texts[seed.choice(requests)]
        for _ in range(len(dressed) // 4)
    ]
    return dressed, joined


def asked_otherwise(tools: list[written.WrittenTool]) -> Iterator[tuple[str, str]]:
    """Each tool's text, beside what it does and what is asked of it in other words."""
    asks = [(tool.text, text) for tool in tools for text in (tool.about, *tool.english)]
    variants = [reworded([text for _, text in asks], 0.9, 20_000_000 + 1_000_000 * n) for n in range(4)]
    for (tool_text, _), *said in zip(asks, *variants, strict=True):
        for text in sorted({*said} - {""}):
            yield tool_text, text


def shortened(vectors: torch.Tensor) -> torch.Tensor:
    """A teacher's vectors in as many dimensions as ours: the first principal ones."""
    if vectors.shape[1] == VECTOR:
        return vectors
    sample = vectors[torch.randperm(len(vectors), device=vectors.device)[:200_000]].float()
    _, basis = torch.linalg.eigh(sample.T @ sample)
    basis = basis.flip(1)[:, :VECTOR]
    kept = (sample @ basis).norm(dim=1).mean()
    say(f"{VECTOR} dimensions keep {kept:.3f} of a vector's length")
    return torch.cat([nn.normalize(part.float() @ basis, dim=1).half() for part in vectors.split(200_000)])


def siblings(texts: list[str], pairs: np.ndarray) -> list[np.ndarray]:
    """Pairs whose operations are of one server, together: each is a hard negative for the others."""
    found: dict[str, list[int]] = {}
    for number, at in enumerate(pairs[:, 1].tolist()):
        server, colon, _ = texts[at][:48].partition(":")
        if colon:
            found.setdefault(server, []).append(number)
    return [np.array(numbers) for numbers in found.values() if len(numbers) >= 8]


def neighbours(vectors: torch.Tensor, count: int) -> list[np.ndarray]:
    centres = vectors[torch.randperm(len(vectors), device=vectors.device)[:count]].float()
    owner = torch.zeros(len(vectors), dtype=torch.long, device=vectors.device)
    for _ in range(5):
        owner = torch.cat([(part.float() @ centres.T).argmax(1) for part in vectors.split(50_000)])
        centres = nn.normalize(torch.zeros_like(centres).index_add_(0, owner, vectors.float()), dim=1)
    order = owner.argsort().cpu().numpy()
    sizes = torch.bincount(owner, minlength=count).cpu().numpy()
    say(count, "clusters")
    return [part for part in np.split(order, np.cumsum(sizes)[:-1]) if len(part) >= 16]
