"""Fit the network that looks at the best tools a second time: `src/wicket_mcp/search/reranker.bin`.

    python tools/reranker/fit.py --data FOLDER --seen FILE --out FILE

FOLDER has the labelled public sets as `bench/search` reads them. Used are its `dev` sets, which may be tuned on, and
the tuning halves of the project's own queries; never `report`. What the network sees of each query's best tools is kept
in `--seen`, which is read again if it exists (collecting takes some minutes, fitting one). No text and no label of a
set gets into the result: it is 1,299 numbers.

Every set weighs the same but for `restbench`, which the encoder harms most. Each query is shown twice: among all tools
of its set, and among some twenty, because users have small catalogues. Seeds 0 to 2. Needs torch. `--without a,b`
leaves sets out, to measure what the network makes of queries of a kind that it has never seen.
"""

# pyright: basic, reportMissingImports=false, reportPrivateUsage=false
# torch is installed only where this runs.
import argparse
import random
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "src"))
sys.path.insert(0, str(ROOT / "bench"))
from retrieval.sets import Query, names, read  # noqa: E402  (the lines above find it)
from wicket_mcp.search import SearchIndex  # noqa: E402
from wicket_mcp.search.matrix import shortlist  # noqa: E402
from wicket_mcp.search.ranker import compare  # noqa: E402
from wicket_mcp.search.reranker import (  # noqa: E402
    CANDIDATES,
    FEATURES,
    HIDDEN,
    MOST,
    NETWORKS,
    Signals,
    describe,
)

FEW = 20
STEPS, BATCH, RATE, DECAY = 500, 32, 5e-3, 0.6
WEIGHTS = {"restbench": 6.0}


def collect(data: Path) -> dict[str, np.ndarray]:
    """For each set: what the network sees, and the numbers of the needs that each tool serves (-1: none)."""
    found: dict[str, np.ndarray] = {}
    for name in [name for name, split in names(data).items() if split == "dev"]:
        whole = read(data, name)
        index = SearchIndex.build(whole.listings())
        places = {(tool.server, tool.name): at for at, tool in enumerate(index._tools)}
        servers = np.array([list(index._positions).index(tool.server) for tool in index._tools])
        chance = random.Random(name)
        rows: list[tuple[np.ndarray, np.ndarray]] = []
        for query in (query for query in whole.queries if query.groups):
            written, english = index._read(query.text)
            _, signals = compare(index._matrix, english, original=written)
            assert signals is not None
            serves = _serves(query, places, len(servers))
            rows.append(_seen(signals, serves))
            kept = _few(serves, chance)
            rows.append(_seen(_among(signals, kept, servers[kept]), serves[kept]))
        found[f"{name}:seen"], found[f"{name}:serves"] = map(np.stack, zip(*rows, strict=True))
        print(name, found[f"{name}:seen"].shape, flush=True)
    return found


def _serves(query: Query, places: dict[tuple[str, str], int], tools: int) -> np.ndarray:
    serves = np.full(tools, -1)
    for need, group in enumerate(query.groups):
        serves[[places[tool] for tool in group if tool in places]] = need
    return serves


def _few(serves: np.ndarray, chance: random.Random) -> np.ndarray:
    """Some twenty tools, at least one for each need."""
    others = np.flatnonzero(serves < 0).tolist()
    return np.array(sorted({*np.flatnonzero(serves >= 0)[:FEW], *chance.sample(others, min(FEW, len(others)))}))


def _among(signals: Signals, kept: np.ndarray, servers: np.ndarray) -> Signals:
    """The signals as they would be if only these tools were there."""
    fit = signals.fit[kept]
    means = np.bincount(servers, fit) / np.maximum(np.bincount(servers), 1)
    return replace(
        signals,
        **{name: getattr(signals, name)[kept] for name in ("fit", "letters", "coverage", "table", "encoder")},
        by_server=means[servers].astype(np.float32),
        parts=tuple(part[kept] for part in signals.parts),
    )


def _seen(signals: Signals, serves: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    near = shortlist(signals.fit, CANDIDATES)
    near = near[np.argsort(-signals.fit[near], kind="stable")]
    seen = np.full((CANDIDATES, FEATURES), np.nan, np.float32)
    seen[: len(near)] = describe(signals, near)
    need = np.full(CANDIDATES, -1)
    need[: len(near)] = serves[near]
    return seen, need


class Network(torch.nn.Module):
    def __init__(self, mean: torch.Tensor, scale: torch.Tensor) -> None:
        super().__init__()
        self.mean, self.scale = mean, scale
        self.inner, self.outer = torch.nn.Linear(FEATURES, HIDDEN), torch.nn.Linear(HIDDEN, 1)
        torch.nn.init.zeros_(self.outer.weight)
        torch.nn.init.zeros_(self.outer.bias)
        self.sharpness = torch.nn.Parameter(torch.tensor(3.2))

    def forward(self, seen: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(self.inner((seen - self.mean) / self.scale))
        return seen[..., 0] + MOST * torch.tanh(self.outer(hidden)[..., 0])

    def folded(self) -> list[np.ndarray]:
        """The weights for features as they are: mean and scale are taken into the first layer."""
        inner = self.inner.weight / self.scale
        bias = self.inner.bias - inner @ self.mean
        return [x.detach().numpy() for x in (inner.T, bias, self.outer.weight[0], self.outer.bias)]


def fit(sets: dict[str, tuple[torch.Tensor, torch.Tensor]], seed: int) -> Network:
    torch.manual_seed(seed)
    every = torch.cat([seen[~seen[..., 0].isnan()] for seen, _ in sets.values()])
    network = Network(every.mean(0), every.std(0))
    steps = torch.optim.AdamW(network.parameters(), lr=RATE, weight_decay=DECAY)
    for step in range(STEPS):
        for group in steps.param_groups:
            group["lr"] = RATE * (1 - step / STEPS) + 1e-5
        total = torch.tensor(0.0)
        for name, (seen, serves) in sets.items():
            picked = torch.randint(len(seen), (BATCH,))
            there = ~seen[picked][..., 0].isnan()
            scores = torch.where(there, network(seen[picked].nan_to_num()), torch.tensor(-9.0))
            shares = torch.log_softmax(scores * network.sharpness.exp(), 1)
            serving = (serves[picked] >= 0) & there
            loss = -(shares * serving).sum(1) / serving.sum(1).clamp(min=1)
            total = total + WEIGHTS.get(name, 1.0) * loss[serving.any(1)].mean()
        steps.zero_grad()
        (total / len(sets)).backward()
        steps.step()
    return network


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seen", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--without", default="", help="sets that are left out, separated by commas")
    options = parser.parse_args()
    if not options.seen.exists():
        np.savez(options.seen, allow_pickle=False, **collect(options.data))
    kept = np.load(options.seen)
    chosen = [key.removesuffix(":seen") for key in kept.files if key.endswith(":seen")]
    chosen = [name for name in chosen if name not in options.without.split(",")]
    sets = {name: tuple(torch.from_numpy(kept[f"{name}:{what}"]) for what in ("seen", "serves")) for name in chosen}
    torch.set_num_threads(1)
    networks = [fit(sets, seed).folded() for seed in range(NETWORKS)]
    axes = (1, 0, 0, 0)
    parts = [np.concatenate([one[at] for one in networks], axis) for at, axis in enumerate(axes)]
    options.out.write_bytes(b"".join(part.astype("<f4").tobytes() for part in parts))


if __name__ == "__main__":
    main()
