"""Learn the encoder's word pieces from the corpus.

    python tools/encoder/vocabulary.py DATA SIZE

Writes DATA/pieces.tsv: a piece and its log probability a line, the unknown piece first. Needs `tokenizers`.
"""

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))
from wicket_mcp.search.tokenizer import split

UNKNOWN = "<?>"
MOST = 400
"""Times that a word is shown to the trainer at most: a logarithm of its count would do as well."""
FOREIGN = 3
"""How much more a word of another language counts: there is less text to see it in."""


def main() -> None:
    data, size = Path(sys.argv[1]), int(sys.argv[2])
    counted: Counter[str] = Counter()
    with (data / "texts.txt").open(encoding="utf-8") as file:
        for line in file:
            counted.update(split(line))
    with (data / "foreign.tsv").open(encoding="utf-8") as file:
        for line in file:
            for word in split(line.split("\t")[1]):
                counted[word] += FOREIGN
    if len(sys.argv) > 3:  # the paraphrases
        for line in Path(sys.argv[3]).read_text("utf-8").splitlines():
            for word in split(line):
                counted[word] += 5

    def words() -> Iterator[str]:
        for word, count in counted.items():
            if count >= 3:
                yield " ".join([word] * min(MOST, 1 + int(count**0.6)))

    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.UnigramTrainer(
        vocab_size=size, special_tokens=[UNKNOWN], unk_token=UNKNOWN, max_piece_length=16, show_progress=False
    )
    tokenizer.train_from_iterator(words(), trainer)
    import json  # noqa: PLC0415

    learnt = json.loads(tokenizer.to_str())["model"]["vocab"]
    common = sorted((word for word, count in counted.items() if count >= 60), key=lambda w: -counted[w])
    known = {piece for piece, _ in learnt}
    # Whole words that are common are pieces, whatever the model thinks of them; the least likely pieces make room.
    extra = [word for word in common[: size // 2] if word not in known and len(word) <= 16]
    keep = learnt[:1] + sorted(learnt[1:], key=lambda entry: -entry[1])
    singles = [entry for entry in keep[1:] if len(entry[0]) == 1]
    rest = [entry for entry in keep[1:] if len(entry[0]) > 1][: size - 1 - len(extra) - len(singles)]
    floor = min(score for _, score in rest)
    chosen = [keep[0], *singles, *rest, *((word, floor) for word in extra)]
    (data / "pieces.tsv").write_text("".join(f"{piece}\t{score:.4f}\n" for piece, score in chosen), "utf-8")
    sys.stderr.write(f"{len(counted)} words, {len(chosen)} pieces, {len(extra)} words added\n")


if __name__ == "__main__":
    main()
