"""Collect the text that the embedding table is trained on: descriptions of operations, and what people ask for.

    python tools/table/corpus.py --wheels WHEELS --repos REPOS --out corpus.jsonl

WHEELS and REPOS are as `tools/encoder/operations.py` says, which reads them. A line is {"d": operation text} or
{"q": request} or both, when the request asks for that operation.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "encoder"))
import operations
from operations import Line, gitdir, operation, plain

from wicket_mcp.codec import decode, encode


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wheels", type=Path, required=True)
    parser.add_argument("--repos", type=Path, required=True)
    parser.add_argument("--catalog", type=Path, default=Path(__file__).parents[2] / "tests/data/catalog")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()

    def catalog() -> Iterator[Line]:
        for path in sorted(options.catalog.glob("*.json")):
            listing = decode(path.read_bytes())
            for tool in listing["tools"]:
                yield {"d": operation(listing["server"], tool["name"], plain(tool.get("description")))}

    sources = {
        "aws": operations.aws(options.wheels),
        "google": operations.google(options.wheels),
        "azure": operations.azure(options.wheels),
        "openapi": operations.openapi(gitdir(options.repos / "APIs-guru+openapi-directory")),
        "requests": operations.requests(options.repos),
        "wordnet": operations.wordnet(gitdir(options.repos / "globalwordnet+english-wordnet")),
        "catalog": catalog(),
    }
    seen: set[str] = set()
    with options.out.open("w") as out:
        for source, lines in sources.items():
            count = pairs = 0
            for line in lines:
                mark = encode(line).decode()
                if mark not in seen and max(map(len, line.values())) > 12:
                    seen.add(mark)
                    count, pairs = count + 1, pairs + (len(line) == 2)
                    out.write(mark + "\n")
            sys.stderr.write(f"{source}: {count} lines, {pairs} pairs\n")


if __name__ == "__main__":
    main()
