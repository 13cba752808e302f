"""Train the judge: which of a request and a tool belong together, read side by side.

    python tools/encoder/judge.py --encoder encoder.bin --data DATA --paraphrases tools/encoder/paraphrases/*.txt \\
        --corpus 0.5 --seconds 225 --out FIRST
    python tools/encoder/judge.py … --begin FIRST --seconds 258 --drop 0.12 --seed 3 --out SECOND
    python tools/encoder/judge.py … --begin SECOND --labels LABELS --rate 6e-4 --seed 21 --seconds 505 --out THIRD
    python tools/encoder/judge.py … --begin THIRD --plain 0.75 --rate 3e-4 --batch 256 --seconds 720 --out FOURTH
    python tools/encoder/judge.py --encoder encoder.bin --begin FOURTH --pack judge.bin

It begins with the encoder's first layers and keeps its word pieces as they are. It learns from pairs (`pairing.py`) and
from what a greater network says of others (LABELS, which `cross.py` writes). DATA as for `train.py`. Needs torch;
minutes on one H200. The packaged file was made so, in 900, 5,900, 4,700 and then some hundred steps. The last were on a
CPU, with 1,070 of the servers of paraphrases 33 to 50, 720 of which have requests in plain words: the others' avoid the
tools' own words and those that nothing serves do not, from which it had learnt that plain words speak against a tool.
"""

import argparse
import math
import sys
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as nn

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))
sys.path.insert(0, str(Path(__file__).parent))
from material import say
from packed import PARTS, unpack
from pairing import SHOWN, Batch, Material, wrongness
from student import attention, norm

from wicket_mcp.search.encoder import Encoder
from wicket_mcp.search.judge import LONGEST_REQUEST, LONGEST_TOOL, WIDTH, write_judge

ALONE, BOTH, HEADS = 3, 3, 4
"""Layers for each text alone and for both together; heads of attention."""
DRAWN = 8
"""Labelled candidates of a request that are looked at in one step."""


class Judge(torch.nn.Module):
    def __init__(self, begin: dict[str, torch.Tensor]) -> None:
        super().__init__()
        self.embeddings = begin["embeddings"]
        width = self.embeddings.shape[1]

        def matrix(rows: int, columns: int, scale: float = 1.0) -> torch.nn.Parameter:
            return torch.nn.Parameter(torch.randn(rows, columns) * scale / math.sqrt(rows))

        def listed(many: list[torch.nn.Parameter]) -> torch.nn.ParameterList:
            return torch.nn.ParameterList(many)

        deep = 1 / math.sqrt(2 * BOTH)
        copied = [begin[f"{part}.{layer}"].clone() for layer in range(ALONE) for part in PARTS]
        self.positions = torch.nn.Parameter(begin["positions"].clone())
        self.alone = listed([torch.nn.Parameter(rows) for rows in copied])
        self.request, self.tool = matrix(width, WIDTH), matrix(width, WIDTH)
        shapes = ((2 * WIDTH, 1.0), (3 * WIDTH, 1.0), (WIDTH, deep), (3 * WIDTH, 1.0))
        self.both = listed(
            [
                one
                for _ in range(BOTH)
                for one in (*(matrix(WIDTH, *shape) for shape in shapes), matrix(3 * WIDTH, WIDTH, deep))
            ]
        )
        self.hidden = matrix(2 * WIDTH, WIDTH)
        self.last = torch.nn.Parameter(torch.zeros(WIDTH))
        self.bias = torch.nn.Parameter(torch.tensor(-2.0))

    def read(self, ids: torch.Tensor, lengths: torch.Tensor, longest: int, drop: float) -> tuple[torch.Tensor, ...]:
        """Rows of each text alone, and where it has any."""
        lengths = lengths.clamp(max=longest)
        size = int(lengths.max())
        here = torch.arange(size, device=ids.device)[None] < lengths[:, None]
        rows = self.embeddings[ids[:, :size].long()] + self.positions[:size]
        rows = nn.dropout(rows, drop / 2, self.training)
        for attend, mix, up, down in zip(*(list(self.alone)[part::4] for part in range(4)), strict=True):
            query, key, value = by_head(norm(rows) @ attend, 3)
            mixed = attention(query, key, value, here)
            rows = rows + nn.dropout(mixed @ mix, drop, self.training)
            rows = rows + nn.dropout(nn.relu(norm(rows) @ up).square() @ down, drop, self.training)
        return norm(rows), here

    def weigh(
        self, asked: torch.Tensor, of_asked: torch.Tensor, told: torch.Tensor, of_told: torch.Tensor, drop: float
    ) -> torch.Tensor:
        """A number for each pair: positive if the tool rather does what is asked."""
        here = torch.cat([of_asked, of_told], 1)
        rows, beside = asked, norm(told)
        for keys, attend, mix, up, down in zip(*(list(self.both)[part::5] for part in range(5)), strict=True):
            query, *own = by_head(norm(rows) @ attend, 3)
            key, value = (torch.cat(both, 2) for both in zip(own, by_head(beside @ keys, 2), strict=True))
            rows = rows + nn.dropout(attention(query, key, value, here) @ mix, drop, self.training)
            rows = rows + nn.dropout(nn.relu(norm(rows) @ up).square() @ down, drop, self.training)
        rows = norm(rows)
        mean = (rows * of_asked[..., None]).sum(1) / of_asked.sum(1, keepdim=True)
        most = rows.masked_fill(~of_asked[..., None], -9).amax(1)
        return (nn.relu(torch.cat([mean, most], 1) @ self.hidden) @ self.last + self.bias).float()


def by_head(rows: torch.Tensor, kinds: int) -> torch.Tensor:
    count, length, width = rows.shape
    return rows.view(count, length, kinds, HEADS, width // kinds // HEADS).permute(2, 0, 3, 1, 4)


class Labels:
    """What a greater network says of requests and their candidates (`cross.py`)."""

    def __init__(self, folder: Path, material: Material) -> None:
        device = material.ids.device
        rows = torch.from_numpy(np.load(folder / "candidates.npy")).to(device).long()
        self.requests, self.tools = rows[:, 0], rows[:, 1:]
        self.says = torch.from_numpy(np.load(folder / "says.npy")).to(device).float()
        self.shown = torch.arange(len(material.ids), device=device)[:, None].repeat(1, 3)
        for texts in (texts for server in material.written for texts in server.tools):
            self.shown[texts[0]] = torch.tensor(texts, device=device)
        self.shares = torch.tensor(SHOWN, device=device)

    def batch(self, size: int) -> tuple[torch.Tensor, ...]:
        """Texts of requests and of tools, pairs of a request's and a tool's place, and what is said of them; for each
        request the places of its pairs."""
        device = self.says.device
        rows = torch.randint(len(self.requests), (size,), device=device)
        drawn = (torch.rand(size, self.says.shape[1], device=device) + (self.tools[rows] >= 0)).topk(DRAWN, 1).indices
        tools, says = self.tools[rows].gather(1, drawn), self.says[rows].gather(1, drawn)
        there = tools >= 0
        numbers, places = tools[there].unique(return_inverse=True)
        variants = self.shares.multinomial(len(numbers), replacement=True)
        return self.requests[rows], self.shown[numbers, variants], there.nonzero(), places, says, there


def compare(judge: Judge, material: Material, batch: Batch, drop: float) -> tuple[torch.Tensor, ...]:
    weighed = read_and_weigh(judge, material, (batch.requests, batch.tools, batch.pairs[:, 0], batch.places), drop)
    return wrongness(batch, weighed)


def imitate(judge: Judge, material: Material, batch: tuple[torch.Tensor, ...], drop: float) -> tuple[torch.Tensor, ...]:
    """How far it is from what the labels say of each pair, and of which of the tools or none; and how often it chooses
    as they do."""
    requests, tools, pairs, places, says, there = batch
    weighed = read_and_weigh(judge, material, (requests, tools, pairs[:, 0], places), drop)
    parting = nn.binary_cross_entropy_with_logits(weighed, says[there].sigmoid())
    every = torch.full(there.shape, -1e4, device=says.device).index_put(tuple(pairs.T), weighed)
    none = torch.zeros(len(every), 1, device=says.device)
    theirs = torch.cat([says.masked_fill(~there, -1e4), none], 1)
    ours = torch.cat([every, none], 1)
    choosing = nn.cross_entropy(ours, theirs.softmax(1))
    return parting, choosing, (ours.argmax(1) == theirs.argmax(1)).float().mean()


def read_and_weigh(judge: Judge, material: Material, batch: tuple[torch.Tensor, ...], drop: float) -> torch.Tensor:
    """What it says of pairs: texts of requests and of tools, then the places of both in each pair."""
    requests, tools, of_request, of_tool = batch
    with torch.autocast(requests.device.type, torch.bfloat16, enabled=requests.device.type == "cuda"):
        asked, of_asked = judge.read(material.ids[requests], material.lengths[requests], LONGEST_REQUEST, drop)
        told, of_told = judge.read(material.ids[tools], material.lengths[tools], LONGEST_TOOL, drop)
        # Gathered as float32: sums of these at one place are quick on a GPU, those of shorter numbers are not.
        asked = (asked @ judge.request).float()[of_request]
        told = (told @ judge.tool).float()[of_tool]
        return judge.weigh(asked, of_asked[of_request], told, of_told[of_tool], drop)


def train(judge: Judge, material: Material, options: argparse.Namespace) -> None:
    labels = Labels(options.labels, material) if options.labels else None
    plain = [server for server in material.written if server.has_plain]
    chance = np.random.default_rng(options.seed)
    slow = [rows for name, rows in judge.named_parameters() if name.startswith(("alone", "positions"))]
    quick = [rows for name, rows in judge.named_parameters() if not name.startswith(("alone", "positions"))]
    rates = (0.3 * options.rate, options.rate)
    optimiser = torch.optim.AdamW(
        [{"params": slow}, {"params": quick}], options.rate, betas=(0.9, 0.98), weight_decay=0.02
    )
    begun, step, mean = time.perf_counter(), 0, {}
    while (done := (time.perf_counter() - begun) / options.seconds) < 1:
        for group, rate in zip(optimiser.param_groups, rates, strict=True):
            group["lr"] = rate * min(1, (step + 1) / options.warm) * (1 - done) ** 0.8
        if labels and chance.random() < options.imitate:
            parting, choosing, right = imitate(judge, material, labels.batch(options.batch), options.drop)
        else:
            servers = material.corpus if done < options.corpus and chance.random() < 0.65 else material.written
            if plain and chance.random() < options.plain:
                servers = plain
            batch = material.batch(chance, options.batch, servers)
            parting, choosing, right = compare(judge, material, batch, options.drop)
        optimiser.zero_grad(set_to_none=True)
        (parting + 0.5 * choosing).backward()
        torch.nn.utils.clip_grad_norm_(judge.parameters(), 1.0)
        optimiser.step()
        step += 1
        if done > 0.6:
            for name, rows in judge.named_parameters():
                mean[name] = mean[name].lerp_(rows.detach(), 0.004) if name in mean else rows.detach().clone()
        if step % options.every == 0:
            say(f"step {step} {100 * done:.0f}%", *(f"{value.item():.3f}" for value in (parting, choosing, right)))
    judge.load_state_dict(mean, strict=False)


def pack(judge: Judge, path: Path) -> None:
    state = {name: rows.detach().float().cpu().numpy() for name, rows in judge.named_parameters()}

    def layers(name: str, parts: int) -> list[list[np.ndarray]]:
        count = sum(key.startswith(f"{name}.") for key in state) // parts
        return [[state[f"{name}.{parts * layer + part}"] for part in range(parts)] for layer in range(count)]

    judging = state["hidden"], state["last"], float(state["bias"])
    narrowing = state["request"], state["tool"]
    path.write_bytes(write_judge(state["positions"], layers("alone", 4), narrowing, layers("both", 5), judging, HEADS))


def main() -> None:
    options = parser().parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(options.seed)
    encoder = Encoder(options.encoder.read_bytes())
    options.layers, options.early, options.heads = len(encoder.layers()), encoder._early, encoder._heads
    state = {name: torch.from_numpy(rows).to(device) for name, rows in unpack(encoder).items()}
    judge = Judge(state).to(device)
    if options.begin:
        judge.load_state_dict({name: rows.float() for name, rows in torch.load(options.begin).items()})
    if options.pack:
        pack(judge, options.pack)
        return
    train(judge, Material(options, state, device), options)
    torch.save({name: rows.detach().half().cpu() for name, rows in judge.named_parameters()}, options.out)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--encoder", type=Path, required=True)
    made.add_argument("--data", type=Path)
    made.add_argument("--paraphrases", type=Path, nargs="+", default=[])
    made.add_argument("--labels", type=Path, help="what `cross.py` wrote")
    made.add_argument("--imitate", type=float, default=0.6, help="the share of the steps that learn from labels")
    made.add_argument("--corpus", type=float, default=0.0, help="the share of the time in which the corpus is read too")
    made.add_argument("--plain", type=float, default=0.0, help="the share for servers with requests in plain words")
    made.add_argument("--begin", type=Path)
    made.add_argument("--out", type=Path)
    made.add_argument("--pack", type=Path)
    made.add_argument("--batch", type=int, default=448)
    made.add_argument("--rate", type=float, default=8e-4)
    made.add_argument("--drop", type=float, default=0.1)
    made.add_argument("--warm", type=int, default=300)
    made.add_argument("--seconds", type=float, default=250)
    made.add_argument("--every", type=int, default=250)
    made.add_argument("--seed", type=int, default=1)
    return made


if __name__ == "__main__":
    main()
