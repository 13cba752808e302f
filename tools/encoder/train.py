"""Train the encoder from random numbers: distil the teacher, then teach it which request asks for which tool.

    python tools/encoder/train.py --data DATA --teacher TEACHER --paraphrases tools/encoder/paraphrases/*.txt \\
        --keep KEEP --state FIRST --out OUT
    python tools/encoder/train.py … --keep KEEP --begin FIRST --seed 8 --rate 1.2e-3 --steps 7900 --state SECOND …
    python tools/encoder/train.py … --keep OTHER --begin SECOND --seed 9 --rate 1e-3 --steps 6110 --batch 3072 \
        --pairs 1024 --written 512 --weight-written 0.3 --exits 4 3 --out OUT
    python tools/encoder/train.py … --begin encoder.bin --layers 9 --exits 4 3 --seed 11 --rate 1e-3 --steps 5700 \
        --batch 3072 --pairs 1024 --written 1024 --weight-written 0.4 --drop 0.03 --out OUT
    python tools/encoder/leave.py --encoder OUT/encoder.bin --data DATA --after 3 --out encoder.bin
    python tools/encoder/train.py … --teacher encoder.bin --begin encoder.bin --layers 9 --exits 3 2 --seed 12 \
        --rate 1e-3 --steps 0 --seconds 520 --batch 3072 --pairs 1024 --written 1536 --weight-written 0.5 \
        --drop 0.06
    python tools/encoder/train.py … --teacher encoder.bin --begin encoder.bin --keep KEEP --layers 9 --exits 3 2 \
        --seed 13 --rate 1e-3 --steps 0 --seconds 310 --batch 3072 --pairs 1024 --written 1536 --weight-written 0.5 \
        --drop 0.06 --state SIXTH
    python tools/encoder/train.py … --teacher encoder.bin --begin SIXTH --keep KEEP --layers 9 --exits 3 --seed 14 \
        --rate 9e-4 --steps 0 --seconds 500 --batch 1536 --pairs 768 --written 2048 --weight-written 0.8 \
        --drop 0.08 --out OUT
    python tools/encoder/blend.py encoder.bin OUT/encoder-3.bin 0.75 encoder.bin
    python tools/encoder/train.py … --teacher encoder.bin --begin encoder.bin --layers 9 --exits 3 --seed 15 \
        --rate 1e-3 --steps 0 --seconds 400 --batch 1536 --pairs 768 --written 2048 --weight-written 0.8 --drop 0.08
    python tools/encoder/blend.py encoder.bin OUT/encoder-3.bin 0.6 encoder.bin
    python tools/encoder/cross.py …
    python tools/encoder/train.py … --teacher encoder.bin --begin encoder.bin --labels LABELS --layers 9 --exits 3 \
        --seed 16 --rate 1e-3 --steps 0 --seconds 410 --batch 1536 --pairs 768 --written 2048 --weight-written 0.8 \
        --drop 0.08
    python tools/encoder/blend.py encoder.bin OUT/encoder-3.bin 0.7 NEW

DATA comes from `corpus.py` and `vocabulary.py` (48000 pieces), TEACHER (teacher.npz, tokenizer.json) from `teacher.py`.
Needs torch and tokenizers; an hour on one H200, of which a minute for the teacher in each run. The packaged file was
made so: the first two runs without the rewording, and before paraphrases 11 to 19 were written; the last one begins
with the file of the third, and the clock stopped it after some 5,700 steps. The fifth run had the texts that could
still be had, paraphrases 01 to 22, and the file before it as its teacher, so that it forgets nothing (3,400 steps). The
file after it comes from two more, with paraphrases 01 to 31 and the fifth's file as their teacher (1,600 and 3,700
steps), of which three quarters were laid over one of the fifth's; they also had vectors of their own for what serves
and what does not, which told it no better and are gone. The one after that has paraphrases 01 to 40 (2,700 steps), and
six tenths of it; the packaged one 01 to 50, before those in plain words (`=`) were written, and what `cross.py` says
(2,560 steps, seven tenths). The order of a GPU's sums is not fixed, so another run gives other last digits. Five things
are learnt at once. Texts lie where the teacher has them, and to one another as the teacher's do. So do they in other
words (`synonyms.py`), by which the encoder learns what the teacher does not know: how people talk of what tools do. A
translation lies where the teacher has its English. A request is nearer to what it asks for than to anything else of the
batch, its siblings of the same server among them. It lies to its candidates as a network that reads both texts at once
says of them. All of it is asked of the last layer, and of a query's early exit beside the last layer of tools.
OUT gets encoder-N.bin for each exit after N layers, in parts: join them, and write the SHA-256 into
`wicket_mcp/search/encoder.py`.
"""

import argparse
import math
import sys
import time
from collections.abc import Callable, Iterator
from itertools import cycle
from multiprocessing import Queue, get_context
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as nn

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))
sys.path.insert(0, str(Path(__file__).parent))
from material import Data, cut, prepare_cutting, say, taught, tokenizer
from packed import pack
from pairs import labelled
from student import Student, begin_with

SHOWN = (0.45, 0.35, 0.2)
"""How often a tool is read with what it does, with more text besides, and by its name alone."""
FEEDERS = 4
"""Processes that draw batches."""
DRAWN = 8
"""Labelled candidates of a request that are looked at in one step."""
Vectors = Callable[[list[str]], torch.Tensor]


def run(student: Student, data: Data, rows: np.ndarray, device: str, drop: float) -> torch.Tensor:
    """Vectors of rows, in four groups of like length."""
    order = np.argsort(data.lengths[rows], kind="stable")
    found = []
    for part in np.array_split(order, 4):
        picked = rows[part]
        longest = int(data.lengths[picked].max())
        at = torch.from_numpy(picked).to(device, non_blocking=True)
        lengths = torch.from_numpy(data.lengths[picked].astype(np.int64)).to(device, non_blocking=True)
        found.append(student(data.ids[at, :longest], lengths, drop))
    back = torch.from_numpy(np.argsort(order, kind="stable")).to(device, non_blocking=True)
    return torch.cat(found, 1)[:, back]


def relations(ours: torch.Tensor, others: torch.Tensor, theirs: torch.Tensor, heat: float = 0.05) -> torch.Tensor:
    """Each text's likeness to the others of the batch, as the teacher has it."""
    self_ = torch.eye(len(ours), dtype=torch.bool, device=ours.device)
    target = (theirs @ theirs.T / heat).masked_fill(self_, -1e4).softmax(1)
    logs = (ours @ others.T / heat).masked_fill(self_, -1e4).log_softmax(1)
    return nn.kl_div(logs, target, reduction="batchmean")


def contrast(
    asked: torch.Tensor,
    tools: torch.Tensor,
    wanted: torch.Tensor,
    same: torch.Tensor,
    server: torch.Tensor,
    near: float,
) -> torch.Tensor:
    """A request should be nearest to what it asks for. It is not held against the same tool, nor against one of another
    server that the teacher calls nearly the same."""
    own = torch.arange(len(asked), device=asked.device)
    close = (wanted @ wanted.T > near) & (server[:, None] != server[None, :]) | (same[:, None] == same[None, :])
    close[own, own] = False
    logits = (asked @ tools.T / 0.05).masked_fill(close, -1e4)
    return (nn.cross_entropy(logits, own) + 0.5 * nn.cross_entropy(logits.T, own)) / 1.5


def imitation(asked: torch.Tensor, tools: torch.Tensor, places: torch.Tensor, said: torch.Tensor) -> torch.Tensor:
    """A request lies to its candidates as a network that reads both (`cross.py`) says of them."""
    if not len(asked):
        return asked.sum()
    missing = places < 0
    near = (asked[:, None] * tools[places.clamp(min=0)]).sum(2) / 0.05
    theirs = said.float().masked_fill(missing, -1e4).softmax(1)
    return nn.kl_div(near.masked_fill(missing, -1e4).log_softmax(1), theirs, reduction="batchmean")


class Sampler:
    def __init__(self, data: Data, options: argparse.Namespace) -> None:
        self.data, self.chance = data, np.random.default_rng(options.seed)
        known = options.data, options.paraphrases, options.labels, data.rows
        self.labels = labelled(*known) if options.labels else None
        self.by_code = [data.foreign[data.codes == code] for code in sorted(set(data.codes.tolist()))]

    def texts(self, options: argparse.Namespace) -> np.ndarray:
        data, chance = self.data, self.chance
        parts = [chance.integers(0, data.plain, options.batch // 2)]
        while sum(map(len, parts)) < options.batch:
            cluster = data.clusters[chance.integers(len(data.clusters))]
            parts.append(chance.choice(cluster, min(32, len(cluster)), replace=False))
        parts.append(chance.choice(data.spoilt, options.batch // 8))
        parts.append(chance.choice(data.reworded, options.batch // 3))
        parts.extend(chance.choice(rows, options.batch // 12) for rows in self.by_code)
        return np.concatenate(parts)

    def pairs(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Half of them from anywhere, half with siblings beside them."""
        chance, data = self.chance, self.data
        numbers = [chance.integers(0, len(data.pairs), count - count // 2)]
        while sum(map(len, numbers)) < count and data.siblings:
            group = data.siblings[chance.integers(len(data.siblings))]
            numbers.append(group[chance.integers(0, len(group), 12)])
        picked = data.pairs[np.concatenate(numbers)[:count]]
        return picked[:, 0], picked[:, 1]

    def batch(self, options: argparse.Namespace) -> tuple[np.ndarray, ...]:
        return self.texts(options), *self.pairs(options.pairs), *self.tools(options.written), *self.imitate(options)

    def imitate(self, options: argparse.Namespace) -> tuple[np.ndarray, ...]:
        """Labelled requests, tools, the place of each request's candidates among these or -1, and what is said."""
        if self.labels is None:
            return tuple(np.zeros(shape, np.int64) for shape in (0, 0, (0, 1), (0, 1)))
        chosen, says = self.labels
        picked = self.chance.integers(0, len(chosen), options.labelled)
        candidates = chosen[picked, 1:]
        drawn = np.argsort(self.chance.random(candidates.shape) + (candidates < 0), 1)[:, :DRAWN]
        candidates, said = np.take_along_axis(candidates, drawn, 1), np.take_along_axis(says[picked], drawn, 1)
        tools, places = np.unique(candidates, return_inverse=True)
        if tools[0] < 0:
            tools[0] = tools[-1]
        return chosen[picked, 0], tools, np.where(candidates < 0, -1, places.reshape(candidates.shape)), said

    def tools(self, count: int) -> tuple[np.ndarray, ...]:
        """Requests that we wrote and their tools, whole servers at a time: siblings are the hardest to tell apart."""
        asked: list[int] = []
        tools: list[int] = []
        marks: list[tuple[int, int]] = []
        while len(asked) < count:
            server = int(self.chance.integers(len(self.data.servers)))
            for number, (texts, requests, others) in enumerate(self.data.servers[server]):
                if requests:
                    many = others if others and self.chance.random() < 0.4 else requests
                    asked.append(many[self.chance.integers(len(many))])
                    tools.append(texts[self.chance.choice(len(texts), p=SHOWN)])
                    marks.append((server * 1000 + number, server))
        return np.array(asked), np.array(tools), np.array([t for t, _ in marks]), np.array([s for _, s in marks])


def train(data: Data, options: argparse.Namespace, pieces: int, device: str) -> Student:
    torch.manual_seed(options.seed)
    shape = (options.width, options.layers, options.heads, options.inner, options.exits)
    student = Student(pieces, *shape).to(device)
    if options.begin:
        missing = student.load_state_dict(begin_with(options.begin), strict=False).missing_keys
        for name in missing:
            if name.startswith("early"):  # an exit that was not there before begins as the last one
                student.get_parameter(name).data.copy_(student.output.data)
            elif name.startswith(("mix", "down")):  # a layer that was not there before begins by changing nothing
                student.get_parameter(name).data.zero_()
    fast = [student.embeddings, student.positions]
    rest = [p for name, p in student.named_parameters() if name not in ("embeddings", "positions")]
    optimiser = torch.optim.AdamW(
        [
            {"params": fast, "lr": options.rate * 2, "weight_decay": 0.0},
            {"params": rest, "lr": options.rate, "weight_decay": 0.01},
        ],
        betas=(0.9, 0.98), fused=device == "cuda",
    )  # fmt: skip
    rates = [group["lr"] for group in optimiser.param_groups]
    batches = feed(data, options)
    begun, step, shown = time.perf_counter(), 0, 0
    averages = torch.zeros(5, device=device)
    mean: dict[str, torch.Tensor] = {}
    student.train()
    while True:
        done = (step / options.steps) if options.steps else (time.perf_counter() - begun) / options.seconds
        if done >= 1:
            break
        for group, rate in zip(optimiser.param_groups, rates, strict=True):
            group["lr"] = (
                rate * min(1.0, (step + 1) / 300) * (0.5 + 0.5 * math.cos(math.pi * done) if done > 0.1 else 1.0)
            )
        texts, asked, described, ours_asked, ours_tools, same, server, *labels = next(batches)
        rows = np.concatenate([texts, asked, described, ours_asked, ours_tools, *labels[:2]])
        with torch.autocast(device, torch.bfloat16):
            vectors = run(student, data, rows, device, options.drop)
        wanted = data.vectors[data.sources[torch.from_numpy(rows).to(device)]].float()
        size = [len(texts), len(asked), len(asked), len(ours_asked), len(ours_asked), *map(len, labels[:2])]
        places, said = (torch.from_numpy(part).to(device) for part in labels[2:])
        theirs = wanted.split(size)
        each = torch.arange(len(asked), device=device)
        numbers = torch.from_numpy(described).to(device)
        marks = torch.from_numpy(same).to(device), torch.from_numpy(server).to(device)
        whole = vectors[0].split(size)
        parts = []
        for leaving in vectors:  # what all layers say, then what an early exit says
            ours = leaving.split(size)
            beside = whole[0] if leaving is vectors[0] else whole[0].detach()
            parts.append(
                torch.stack(
                    (
                        1 - (ours[0] * theirs[0]).sum(1).mean(),
                        relations(ours[0], beside, theirs[0]),
                        contrast(ours[1], whole[2], theirs[2], numbers, each, 0.9),
                        contrast(ours[3], whole[4], theirs[4], *marks, 0.75),
                        imitation(ours[5], whole[6], places, said),
                    )
                )
            )
        weights = torch.tensor(
            [4.0, 1.0, options.weight_pairs, options.weight_written, options.weight_labels], device=device
        )
        losses = torch.stack(parts)
        loss = (losses[0] * weights).sum() + (losses[1:] * weights).sum() / max(1, len(losses) - 1)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(student.parameters(), 1.0)
        optimiser.step()
        if done > 0.85:
            for name, value in student.state_dict().items():
                mean[name] = value.clone() if name not in mean else mean[name].lerp_(value, 0.01)
        averages = averages * 0.98 + 0.02 * losses[-1].detach()
        step += 1
        if step % options.every == 0:
            say(f"step {step} {100 * done:.0f}%", *(f"{value:.3f}" for value in averages.tolist()))
            if options.check and (shown := shown + 1) % 4 == 0:
                check(student, options, device)
                student.train()
    if mean:
        student.load_state_dict(mean)
    return student.eval()


def feed(data: Data, options: argparse.Namespace) -> Iterator[tuple[np.ndarray, ...]]:
    """Batches from processes of their own, in an order that the seed fixes."""
    context = get_context("fork")
    sampler = Sampler(data, options)

    def fill(queue: "Queue[tuple[np.ndarray, ...]]", number: int) -> None:
        sampler.chance = np.random.default_rng((options.seed, number))
        while True:
            queue.put(sampler.batch(options))

    queues: list[Queue[tuple[np.ndarray, ...]]] = [context.Queue(maxsize=8) for _ in range(FEEDERS)]
    for number, queue in enumerate(queues):
        context.Process(target=fill, args=(queue, number), daemon=True).start()
    return (queue.get() for queue in cycle(queues))


def check(student: Student, options: argparse.Namespace, device: str) -> None:
    prepare_cutting(options.data)
    student.eval()

    def vectors(texts: list[str]) -> torch.Tensor:
        parts = []
        for at in range(0, len(texts), 1024):
            ids, lengths = cut(texts[at : at + 1024])
            with torch.no_grad(), torch.autocast(device, torch.bfloat16):
                rows = torch.from_numpy(ids).to(device), torch.from_numpy(lengths.astype(np.int64)).to(device)
                parts.append(student(*rows))
        return torch.cat(parts, 1)

    recall("student", lambda texts: vectors(texts)[0], vectors, options.check)


def recall(name: str, of_tools: Vectors, of_queries: Vectors, folder: Path) -> None:
    """Recall among the first five, meanings alone, on queries that are kept for tuning."""
    results = []
    for path in sorted(folder.glob("*.npz")):
        with np.load(path, allow_pickle=False) as kept:
            tools, queries, kinds, golds = (kept[name].tolist() for name in ("tools", "queries", "kinds", "golds"))
        described = of_tools(tools).float()
        for leaving, asked in enumerate(of_queries(queries)):
            _, best = (asked.float() @ described.T).topk(5, 1)
            hits: dict[str, list[float]] = {}
            for found, kind, gold in zip(best.tolist(), kinds, golds, strict=True):
                if not gold:
                    continue
                groups = [set(map(int, group.split(","))) for group in gold.split(";")]
                hits.setdefault(kind, []).append(sum(bool(group & set(found)) for group in groups) / len(groups))
            every = [value for values in hits.values() for value in values]
            by_kind = " ".join(f"{kind[:4]} {sum(v) / len(v):.2f}" for kind, v in sorted(hits.items()))
            results.append(f"{path.stem} {leaving} {sum(every) / len(every):.3f} ({by_kind})")
    say("  ", name, "\n          ".join(results))


def main() -> None:
    options = parser().parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(options.seed)
    torch.set_float32_matmul_precision("high")
    _, pieces, scores = tokenizer(options.data)
    kept = options.keep and options.keep.exists()
    data: Data = torch.load(options.keep, weights_only=False) if kept else Data(options, device)
    if options.check and not kept:
        recall(
            "teacher",
            lambda texts: taught(texts, options.teacher, device),
            lambda texts: taught(texts, options.teacher, device)[None],
            options.check,
        )
    if options.keep and not kept:
        torch.save(data, options.keep)
    if options.only_prepare:
        return
    say("data ready")
    student = train(data, options, len(pieces), device)
    if options.check:
        check(student, options, device)
    options.out.mkdir(parents=True, exist_ok=True)
    state = {name: value.float().cpu().numpy() for name, value in student.state_dict().items()}
    exits = [(after, state[f"early.{number}"]) for number, after in enumerate(options.exits)]
    for after, leave in exits or [(options.layers, state["output"])]:
        file = pack(pieces, scores, state, options.heads, after, leave)
        for at in range(0, len(file), 12_000_000):
            (options.out / f"encoder-{after}.bin.{at // 12_000_000}").write_bytes(file[at : at + 12_000_000])
    say("wrote", len(file), "bytes")
    if options.state:
        options.state.parent.mkdir(parents=True, exist_ok=True)
        torch.save({name: value.half() for name, value in student.state_dict().items()}, options.state)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--data", type=Path, required=True)
    made.add_argument("--teacher", type=Path, required=True)
    made.add_argument("--paraphrases", type=Path, nargs="+", required=True)
    made.add_argument("--out", type=Path, required=True)
    made.add_argument("--check", type=Path)
    made.add_argument("--keep", type=Path, help="where the prepared data is kept for a second training")
    made.add_argument("--only-prepare", action="store_true")
    made.add_argument("--begin", type=Path)
    made.add_argument("--state", type=Path)
    made.add_argument("--few", type=int, default=0)
    made.add_argument("--width", type=int, default=256)
    made.add_argument("--layers", type=int, default=6)
    made.add_argument("--heads", type=int, default=4)
    made.add_argument("--inner", type=int, default=768)
    made.add_argument("--exits", type=int, nargs="*", default=[])
    made.add_argument("--batch", type=int, default=2048)
    made.add_argument("--pairs", type=int, default=768)
    made.add_argument("--written", type=int, default=384)
    made.add_argument("--labels", type=Path, help="what `cross.py` wrote")
    made.add_argument("--labelled", type=int, default=384)
    made.add_argument("--weight-labels", type=float, default=0.4)
    made.add_argument("--weight-pairs", type=float, default=0.3)
    made.add_argument("--weight-written", type=float, default=0.15)
    made.add_argument("--rate", type=float, default=1.5e-3)
    made.add_argument("--drop", type=float, default=0.0)
    made.add_argument("--seconds", type=float, default=540)
    made.add_argument("--steps", type=int, default=7500)
    made.add_argument("--every", type=int, default=500)
    made.add_argument("--seed", type=int, default=7)
    return made


if __name__ == "__main__":
    main()
