"""The rankers that are compared. Each indexes one set's tools and names the best of them for a query.

The baselines' own code lives beside the data sets (rankers.py there) and is loaded from that folder; the hybrids
fuse its scores as it does: a weighted sum after scaling each list to 0..1.
"""

import importlib
import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from retrieval.mcpproxy import McpProxy
from retrieval.models import PublicModel
from retrieval.sets import Labelled
from wicket_mcp.model import Listing
from wicket_mcp.search import SearchIndex
from wicket_mcp.search.fields import tool_text
from wicket_mcp.search.numeric import np
from wicket_mcp.search.segment import Model

DEPTH = 50


class Ranker(Protocol):
    def build(self, data: Labelled) -> None: ...
    def rank(self, query: str) -> list[tuple[str, str]]: ...


class Wicket:
    """Wicket as it is served: `SearchIndex.search`; or with another model in place of its own."""

    def __init__(self, model: Model | None = None) -> None:
        self._model = model

    def build(self, data: Labelled) -> None:
        self.listings: list[Listing] = data.listings()
        options = {"model": self._model} if self._model else {}
        self.index = SearchIndex.build(self.listings, **options)
        self.index.warm()

    def close(self) -> None:
        if isinstance(self._model, PublicModel):
            self._model.keep()

    def rank(self, query: str) -> list[tuple[str, str]]:
        return [(hit.tool.server, hit.tool.name) for hit in self.index.search(query, limit=DEPTH).hits]

    def serve(self, query: str) -> list[tuple[str, str]]:
        """The five tools that an agent is shown."""
        return [(hit.tool.server, hit.tool.name) for hit in self.index.search(query).hits]


class Baseline:
    """A ranker of the data folder's rankers.py, or a sum of several."""

    def __init__(self, *parts: tuple[float, Any]) -> None:
        self._parts = parts

    def build(self, data: Labelled) -> None:
        self._names = [(tool["server"], tool["name"]) for tool in data.tools]
        for _, ranker in self._parts:
            ranker.build(data.tools)

    def rank(self, query: str) -> list[tuple[str, str]]:
        if len(self._parts) == 1:
            return [self._names[i] for i in self._parts[0][1].topk(query, DEPTH)]
        total = sum(weight * _scaled(ranker.scores([query])[0]) for weight, ranker in self._parts)
        return [self._names[i] for i in np.argsort(-np.asarray(total), kind="stable")[:DEPTH]]


def _scaled(scores: Any) -> Any:
    return (scores - scores.min()) / (scores.max() - scores.min() + 1e-9)


class Meaning:
    """A sentence encoder alone, over what Wicket has it read of a tool."""

    def __init__(self, model: PublicModel) -> None:
        self._model = model

    def build(self, data: Labelled) -> None:
        tools = [(tool, listing) for listing in data.listings() for tool in listing.tools]
        self._names = [(tool.server, tool.name) for tool, _ in tools]
        self._vectors = self._model.encode([tool_text(tool, listing).meaning for tool, listing in tools])

    def rank(self, query: str) -> list[tuple[str, str]]:
        near = self._vectors @ self._model.encode([query])[0]
        return [self._names[i] for i in np.argsort(-near, kind="stable")[:DEPTH]]

    def close(self) -> None:
        self._model.keep()


class FastMCP:
    """The ranker of FastMCP's search transform, on the text that it extracts from a tool."""

    def __init__(self) -> None:
        base: Any = importlib.import_module("fastmcp.server.transforms.search.base")
        bm25: Any = importlib.import_module("fastmcp.server.transforms.search.bm25")
        self._index: Any = bm25._BM25Index()
        self._text: Any = base._extract_searchable_text

    def build(self, data: Labelled) -> None:
        class Shape:
            def __init__(self, tool: dict[str, Any]) -> None:
                self.name, self.description = tool["name"], tool["description"]
                self.parameters = tool["input_schema"]

        self._names = [(tool["server"], tool["name"]) for tool in data.tools]
        self._index.build([self._text(Shape(tool)) for tool in data.tools])

    def rank(self, query: str) -> list[tuple[str, str]]:
        return [self._names[i] for i in self._index.query(query, DEPTH)]


class WordLlama:
    """The static table of PyPI's wordllama, read without its loader (which looks for the files elsewhere)."""

    def __init__(self) -> None:
        safetensors: Any = importlib.import_module("safetensors.numpy")
        tokenizers: Any = importlib.import_module("tokenizers")

        spec = importlib.util.find_spec("wordllama")
        if spec is None or not spec.submodule_search_locations:
            raise ImportError("wordllama")
        home = Path(spec.submodule_search_locations[0])
        tensors: dict[str, Any] = safetensors.load_file(home / "weights" / "l2_supercat_256.safetensors")
        self._table: Any = next(iter(tensors.values())).astype(np.float32)
        self._tokens: Any = tokenizers.Tokenizer.from_file(str(next((home / "tokenizers").glob("*.json"))))

    def encode(self, texts: Sequence[str]) -> Any:
        rows: list[list[int]] = [self._tokens.encode(text, add_special_tokens=False).ids for text in texts]
        return np.stack([self._table[row].mean(0) if row else np.zeros(self._table.shape[1]) for row in rows])


def make(name: str, data: Path) -> Ranker:
    """Raises ImportError when a package of the ranker's is missing."""
    given: dict[str, Callable[[], Ranker]] = {"wicket": Wicket, "fastmcp": FastMCP, "mcpproxy": McpProxy}
    if name in given:
        return given[name]()
    if name in ABLATIONS:
        from retrieval.ablation import Ablated, Used  # noqa: PLC0415  (changes the ranker, where it is used)

        return Used() if name == "wicket:use" else Ablated(name.partition(":")[2])
    code = _load(data / "rankers.py")
    if name in MODELS:
        return Meaning(PublicModel(name, code))
    if (model := name.removeprefix("wicket+")) in MODELS:
        return Wicket(PublicModel(model, code))
    return _baseline(name, code)


def _load(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location("toolret_rankers", path)
    if spec is None or spec.loader is None or not path.exists():
        raise ImportError(str(path))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _baseline(name: str, code: Any) -> Ranker:
    def dense(encoder: Any) -> Any:
        made = code.Dense()
        made.encode = encoder.encode
        return made

    lexical = {"bm25s": lambda: code.BM25S("full"), "fts5": code.FTS5, "bm25f": code.BM25F}
    if name in lexical:
        return Baseline((1.0, lexical[name]()))
    if name == "bm25f+wordllama":
        return Baseline((0.3, code.BM25F()), (0.7, dense(WordLlama())))
    return Baseline((0.25, code.BM25F()), (0.25, code.TfidfChar("full")), (0.5, dense(WordLlama())))


ALL = (
    "wicket",
    "bm25s",
    "fts5",
    "fastmcp",
    "mcpproxy",
    "minilm",
    "wicket+minilm",
    "bm25f",
    "bm25f+wordllama",
    "bm25f+char+wordllama",
)
ABLATIONS = ("wicket:words", "wicket:letters", "wicket:table", "wicket:encoder", "wicket:reranker", "wicket:use")
"""Wicket with fewer signals, and with what it learns; run with --rankers."""
MODELS = ("minilm", "mpnet")
"""Sentence encoders, alone or as `wicket+NAME` in place of Wicket's own. mpnet takes minutes for a catalogue, once."""
LEXICAL = ("bm25s", "fts5", "bm25f")
