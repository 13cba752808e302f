"""A teacher for pairs: mpnet reads a request and a tool as one text, and learns whether they belong together.

    python tools/encoder/cross.py --encoder encoder.bin --data DATA --teacher TEACHER \\
        --paraphrases tools/encoder/paraphrases/*.txt --seconds 285 --out LABELS

For training only: it has 110 million numbers. After it has learnt from what `pairing.py` shows, it says of every
request how well each of its nearest tools does it: of its own server, of others, and operations of the corpus, which
are described as real ones are and which nobody labelled. `judge.py` and `train.py` learn from LABELS: candidates.npy
has texts' numbers (a request, then its candidates), says.npy what the teacher says of each.
"""

import argparse
import math
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import teacher
import torch
from material import START, say
from packed import unpack
from pairing import Batch, Material, wrongness

from wicket_mcp.search.encoder import Encoder

REQUEST, TOOL = 40, 72
"""The teacher's pieces that are read of each."""
BEGIN, PAD, END = 0, 1, 2
OWN, OTHERS, CORPUS = 7, 3, 3
"""Candidates of each request that are labelled."""
PARTS = 12
"""Of the labels: as many as there is time for."""
NOTHING = -99.0
"""Where there is no candidate."""
TOGETHER = 120_000
"""Pieces that are read at a time without learning."""


class Cross(torch.nn.Module):
    def __init__(self, weights: dict[str, torch.Tensor]) -> None:
        super().__init__()
        self.names = {name: name.replace(".", "/") for name in weights}
        self.rows = torch.nn.ParameterDict(
            {self.names[name]: torch.nn.Parameter(rows) for name, rows in weights.items()}
        )
        self.last = torch.nn.Parameter(torch.randn(768) * 0.02)
        self.bias = torch.nn.Parameter(torch.tensor(-1.0))

    def forward(self, ids: torch.Tensor, drop: float) -> torch.Tensor:
        mask = (ids != PAD).long()
        weights = {name: self.rows[key] for name, key in self.names.items()}
        rows = teacher.read(weights, ids, mask, drop if self.training else 0.0).float()
        mean = (rows * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True)
        return (mean * self.last).sum(1) + self.bias


class Pieces:
    """Texts as the teacher's pieces."""

    def __init__(self, texts: list[str], folder: Path, device: str) -> None:
        from tokenizers import Tokenizer  # noqa: PLC0415

        cutter = Tokenizer.from_file(str(folder / "tokenizer.json"))
        cutter.no_padding()
        cutter.enable_truncation(TOOL)
        rows = np.full((len(texts), TOOL), PAD, np.int32)
        lengths = np.zeros(len(texts), np.int64)
        for at in range(0, len(texts), 50_000):
            for number, entry in enumerate(cutter.encode_batch_fast(texts[at : at + 50_000], add_special_tokens=False)):
                rows[at + number, : len(entry.ids)] = entry.ids
                lengths[at + number] = len(entry.ids)
        self.rows, self.lengths = torch.from_numpy(rows).to(device), torch.from_numpy(lengths).to(device)

    def sizes(self, requests: torch.Tensor, tools: torch.Tensor) -> torch.Tensor:
        return self.lengths[requests].clamp(max=REQUEST) + self.lengths[tools] + 4

    def join(self, requests: torch.Tensor, tools: torch.Tensor) -> torch.Tensor:
        """Both texts of each pair as one row."""
        first, second = self.lengths[requests].clamp(max=REQUEST)[:, None], self.lengths[tools][:, None]
        width = math.ceil(int((first + second).max() + 4) / 8) * 8
        at = torch.arange(width, device=requests.device)[None].expand(len(requests), -1)
        of_request = self.rows[requests].gather(1, (at - 1).clamp(0, TOOL - 1)).long()
        of_tool = self.rows[tools].gather(1, (at - first - 3).clamp(0, TOOL - 1)).long()
        joined = torch.where(at <= first, of_request, END)
        joined = torch.where((at > first + 2) & (at <= first + second + 2), of_tool, joined)
        joined = torch.where(at > first + second + 3, PAD, joined)
        joined[:, 0] = BEGIN
        return joined


def learn(cross: Cross, material: Material, pieces: Pieces, options: argparse.Namespace) -> None:
    device = material.ids.device
    chance = np.random.default_rng(options.seed)
    optimiser = torch.optim.AdamW(
        cross.parameters(), options.rate, betas=(0.9, 0.98), weight_decay=0.01, fused=device.type == "cuda"
    )
    begun, step, averages = time.perf_counter(), 0, torch.zeros(3, device=device)
    cross.train()
    while (done := (time.perf_counter() - begun) / options.seconds) < 1:
        for group in optimiser.param_groups:
            group["lr"] = options.rate * min(1, (step + 1) / 80) * (1 - done)
        batch = material.batch(chance, options.batch, material.written)
        parts = wrongness(batch, weigh(cross, pieces, batch, options.drop))
        optimiser.zero_grad(set_to_none=True)
        (parts[0] + 0.5 * parts[1]).backward()
        torch.nn.utils.clip_grad_norm_(cross.parameters(), 1.0)
        optimiser.step()
        step += 1
        averages = averages.lerp(torch.stack(parts).detach(), 0.05 if step > 20 else 0.5)
        if step % 100 == 0:
            say(f"step {step} {100 * done:.0f}%", *(f"{value:.3f}" for value in averages.tolist()))
    cross.eval()


def weigh(cross: Cross, pieces: Pieces, batch: Batch, drop: float) -> torch.Tensor:
    requests, tools = batch.requests[batch.pairs[:, 0]], batch.tools[batch.places]
    order = pieces.sizes(requests, tools).argsort()
    with torch.autocast(requests.device.type, torch.bfloat16):
        found = [cross(pieces.join(requests[part], tools[part]), drop) for part in order.chunk(4)]
    return torch.cat(found)[order.argsort()]


@torch.no_grad()
def say_of(cross: Cross, pieces: Pieces, requests: torch.Tensor, tools: torch.Tensor) -> torch.Tensor:
    """What it says of each pair of texts."""
    sizes = pieces.sizes(requests, tools)
    order = sizes.argsort()
    found = torch.empty(len(order), dtype=torch.float16, device=order.device)
    at = 0
    with torch.autocast(order.device.type, torch.bfloat16):
        while at < len(order):
            longest = int(sizes[order[min(at + 1024, len(order) - 1)]])
            part = order[at : at + TOGETHER // longest]
            found[part] = cross(pieces.join(requests[part], tools[part]), 0.0).half()
            at += len(part)
    return found


@torch.no_grad()
def candidates(material: Material, chance: torch.Generator) -> Iterator[torch.Tensor]:
    """For each request: its text, then the texts of its candidates, or -1. The first is the tool that it asks for."""
    device = material.ids.device
    rows = [(owner, texts[0]) for owner, server in enumerate(material.written) for texts in server.tools]
    owners, tools = (torch.tensor(column, device=device) for column in zip(*rows, strict=True))
    corpus = torch.tensor(sorted({texts[0] for server in material.corpus for texts in server.tools}), device=device)
    asks = [
        (text, owner, server.tools[place][0] if place >= 0 else -1)
        for owner, server in enumerate(material.written)
        for text, place in (*server.requests, *((text, -1) for text in server.unserved))
    ]
    for part in torch.tensor(asks, device=device).split(1024):
        texts, asker, right = part.T
        vectors = material.as_requests[texts]

        def pick(near: torch.Tensor, count: int, wide: int) -> torch.Tensor:
            """Some of the nearest: all that are wanted, or a draw from more of them."""
            nearest = near.float().topk(wide, 1)
            noise = torch.rand(nearest.values.shape, generator=chance, device=device)
            drawn = (nearest.values + (noise if wide > count else 0.0)).topk(count, 1).indices
            return nearest.indices.gather(1, drawn).masked_fill(nearest.values.gather(1, drawn) < -5, -1)

        def of(texts: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
            return texts[places.clamp(min=0)].masked_fill(places < 0, -1)

        near = vectors @ material.as_tools[tools].T
        own = asker[:, None] == owners[None]
        is_right = right[:, None] == tools[None]
        columns = [
            right[:, None],
            of(tools, pick(near.masked_fill(~own | is_right, -9), OWN - 1, OWN - 1)),
            of(tools, pick(near.masked_fill(own | is_right, -9), OTHERS, 3 * OTHERS)),
            of(corpus, pick(vectors @ material.as_tools[corpus].T, CORPUS, 3 * CORPUS)),
        ]
        yield torch.cat([texts[:, None], *columns], 1)


def label(cross: Cross, material: Material, pieces: Pieces, options: argparse.Namespace) -> None:
    chance = torch.Generator(material.ids.device).manual_seed(options.seed)
    rows = torch.cat(list(candidates(material, chance)))
    rows = rows[torch.randperm(len(rows), generator=chance, device=rows.device)]
    say(len(rows), "requests", int((rows[:, 1:] >= 0).sum()), "pairs")
    found: list[torch.Tensor] = []
    for part in rows.chunk(PARTS):
        if time.perf_counter() - START > options.until:
            say("no time for the rest")
            break
        there = part[:, 1:] >= 0
        says = torch.full(there.shape, NOTHING, dtype=torch.float16, device=rows.device)
        requests = part[:, :1].expand(-1, there.shape[1])[there]
        says[there] = say_of(cross, pieces, requests, part[:, 1:][there])
        found.append(says)
        say("labelled", len(found))
    says = torch.cat(found)
    np.save(options.out / "candidates.npy", rows[: len(says)].cpu().numpy().astype(np.int32))
    np.save(options.out / "says.npy", says.cpu().numpy())


def main() -> None:
    options = parser().parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(options.seed)
    torch.set_float32_matmul_precision("high")
    options.out.mkdir(parents=True, exist_ok=True)
    encoder = Encoder(options.encoder.read_bytes())
    options.layers, options.early, options.heads = len(encoder.layers()), encoder._early, encoder._heads
    material = Material(options, {name: torch.from_numpy(rows) for name, rows in unpack(encoder).items()}, device)
    pieces = Pieces(material.texts.all, options.teacher, device)
    say("cut for the teacher")
    cross = Cross(teacher.load(options.teacher / "teacher.npz", device, torch.float32)).to(device)
    learn(cross, material, pieces, options)
    if options.check:
        check(cross, options, device)
    label(cross, material, pieces, options)


def check(cross: Cross, options: argparse.Namespace, device: str) -> None:
    """What it says of pairs that are kept for tuning, for those who compare it with others."""
    with np.load(options.check) as kept:
        requests, tools, pairs = kept["requests"].tolist(), kept["tools"].tolist(), kept["pairs"]
    pieces = Pieces([*requests, *tools], options.teacher, device)
    there = pairs >= 0
    of = np.broadcast_to(np.arange(len(requests))[:, None], pairs.shape)[there]
    says = np.full(pairs.shape, -12.0, np.float16)
    at = torch.from_numpy(of).to(device), torch.from_numpy(pairs[there] + len(requests)).to(device).long()
    says[there] = say_of(cross, pieces, *at).cpu().numpy()
    np.save(options.out / "check.npy", says)
    say("checked")


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--encoder", type=Path, required=True)
    made.add_argument("--data", type=Path, required=True)
    made.add_argument("--teacher", type=Path, required=True)
    made.add_argument("--paraphrases", type=Path, nargs="+", required=True)
    made.add_argument("--check", type=Path)
    made.add_argument("--out", type=Path, required=True)
    made.add_argument("--batch", type=int, default=192)
    made.add_argument("--rate", type=float, default=5e-5)
    made.add_argument("--drop", type=float, default=0.1)
    made.add_argument("--seconds", type=float, default=330)
    made.add_argument("--until", type=float, default=540, help="seconds after which no more is labelled")
    made.add_argument("--seed", type=int, default=1)
    return made


if __name__ == "__main__":
    main()
