"""Let queries leave the encoder after fewer layers: fit the output of that layer to what a later one says.

    python tools/encoder/leave.py --encoder ENCODER --data DATA --after 3 --out FILE

A ridge regression in closed form over 24,000 requests and translations of the training data, seed 3; the vectors of
tools stay as they are. It prints the mean cosine between both outputs on a tenth of the texts that it did not see.
"""

import argparse
import random
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))
sys.path.insert(0, str(Path(__file__).parent))
import paraphrases as written

from wicket_mcp.search.encoder import _HEAD, Encoder
from wicket_mcp.search.transformer import shrink

REQUESTS, TRANSLATIONS, LONGEST = 14_000, 4_000, 200


def texts(data: Path) -> list[str]:
    chance = random.Random(3)
    every = (data / "texts.txt").read_text("utf-8").split("\n")
    asked = sorted({int(row.split("\t")[0]) for row in (data / "pairs.tsv").read_text().splitlines()})
    picked = [every[at] for at in chance.sample(asked, REQUESTS)]
    tools = written.load(sorted(Path(__file__).with_name("paraphrases").glob("*.txt")))
    picked += [text for tool in tools for text in tool.english]
    picked += [text for tool in tools for _, text in tool.foreign]
    foreign = (data / "foreign.tsv").read_text("utf-8").split("\n")[:-1]
    picked += [row.split("\t")[1] for row in chance.sample(foreign, TRANSLATIONS)]
    picked = [text[:LONGEST] for text in picked if text]
    chance.shuffle(picked)
    return picked


def mean_states(encoder: Encoder, ids: list[list[int]], layers: int) -> np.ndarray:
    parts = [ids[at : at + 32] for at in range(0, len(ids), 32)]
    used = encoder.layers()[:layers]
    return np.concatenate([encoder._forward(part, used) / [[len(text)] for text in part] for part in parts])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--after", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    data = options.encoder.read_bytes()
    encoder = Encoder(data)
    ids = [encoder.tokenizer.encode(text, 64) for text in texts(options.data)]
    states = mean_states(encoder, ids, options.after)
    wanted = mean_states(encoder, ids, encoder._early) @ encoder._leave
    wanted /= np.linalg.norm(wanted, axis=1, keepdims=True)
    seen = len(ids) * 9 // 10
    square = states[:seen].T @ states[:seen]
    least = np.eye(len(square)) * seen / len(square)
    matrix = np.linalg.solve(square + 1e-2 * least, states[:seen].T @ wanted[:seen])
    for _ in range(3):  # only directions count: the target is as long as its prediction
        lengths = (states[:seen] @ matrix * wanted[:seen]).sum(1, keepdims=True)
        matrix = np.linalg.solve(square + 1e-3 * least, states[:seen].T @ (wanted[:seen] * lengths))
        matrix /= np.abs(lengths).mean()
    said = states[seen:] @ matrix
    cosines = (said * wanted[seen:]).sum(1) / np.linalg.norm(said, axis=1)
    sys.stdout.write(f"cosine to the later exit: {cosines.mean():.3f}\n")
    head = list(_HEAD.unpack_from(data))
    head[4] = options.after
    leave, length = shrink((16 * matrix).astype(np.float32)), head[-1]
    body = data[_HEAD.size : len(data) - length - len(leave)]
    options.out.write_bytes(_HEAD.pack(*head) + body + leave + data[len(data) - length :])


if __name__ == "__main__":
    main()
