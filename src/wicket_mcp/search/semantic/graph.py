"""all-MiniLM-L6-v2 as an ONNX graph with eight-bit weights, made from its published float weights."""

from typing import TYPE_CHECKING

from wicket_mcp.search.numeric import np
from wicket_mcp.search.semantic.onnxfile import FLOAT, INT64, Graph

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Weights = dict[str, NDArray[np.float32]]

WIDTH = 384
_HEADS = 12
_LAYERS = 6
_EPSILON = 1e-12


def minilm(weights: "Weights") -> bytes:
    """The model file: `input_ids` and `attention_mask` in, `tokens` (a vector for each token) out."""
    g = Graph()
    x = _embeddings(g, weights)
    mask = _mask(g)
    for layer in range(_LAYERS):
        x = _layer(g, weights, f"encoder.layer.{layer}.", x, mask, last=layer == _LAYERS - 1)
    return g.model({"input_ids": (INT64, 2), "attention_mask": (INT64, 2)}, {"tokens": (FLOAT, 3)})


def _ints(*values: int) -> "NDArray[np.int64]":
    return np.array(values, np.int64)


def _embeddings(g: Graph, weights: "Weights") -> str:
    table = weights["embeddings.word_embeddings.weight"]
    top = np.maximum(np.abs(table).max(1, keepdims=True), 1e-9)
    rows = g.node("Gather", g.tensor(np.rint(table / top * 127).astype(np.int8)), "input_ids")
    scales = g.node("Gather", g.tensor((top / 127).astype(np.float32)), "input_ids")
    found = g.node("Mul", g.node("Cast", rows, to=FLOAT), scales)
    positions = weights["embeddings.position_embeddings.weight"] + weights["embeddings.token_type_embeddings.weight"][0]
    length = g.node("Slice", g.node("Shape", "input_ids"), *(g.tensor(_ints(i)) for i in (1, 2, 0)))
    placed = g.node("Slice", g.tensor(positions), g.tensor(_ints(0)), length, g.tensor(_ints(0)))
    return _norm(g, weights, "embeddings.LayerNorm", g.node("Add", found, placed))


def _mask(g: Graph) -> str:
    """0 for a token, a large negative number for padding, shaped to add to attention scores."""
    kept = g.node("Cast", g.node("Unsqueeze", "attention_mask", g.tensor(_ints(1, 2))), to=FLOAT)
    missing = g.node("Sub", g.tensor(np.ones(1, np.float32)), kept)
    return g.node("Mul", missing, g.tensor(np.full(1, -1e4, np.float32)))


def _norm(g: Graph, weights: "Weights", name: str, x: str, result: str = "") -> str:
    scale, shift = g.tensor(weights[f"{name}.weight"]), g.tensor(weights[f"{name}.bias"])
    return g.node("LayerNormalization", x, scale, shift, name=result, axis=-1, epsilon=_EPSILON)


def _linear(g: Graph, x: str, weight: "NDArray[np.float32]", bias: "NDArray[np.float32]") -> str:
    """x · weightᵀ + bias, with activations quantised as they come and weights once, a scale for each output."""
    top = np.maximum(np.abs(weight).max(1), 1e-9)
    small = np.rint(weight / top[:, None] * 127).astype(np.int8).T
    quantised = g.node("DynamicQuantizeLinear", x, outputs=3)
    product = g.node("MatMulInteger", f"{quantised}:0", g.tensor(small), f"{quantised}:2")
    scale = g.node("Mul", f"{quantised}:1", g.tensor((top / 127).astype(np.float32)))
    return g.node("Add", g.node("Mul", g.node("Cast", product, to=FLOAT), scale), g.tensor(bias))


def _layer(g: Graph, weights: "Weights", name: str, x: str, mask: str, *, last: bool) -> str:
    self_ = f"{name}attention.self."
    joined = [
        np.concatenate([weights[f"{self_}{p}.{kind}"] for p in ("query", "key", "value")])
        for kind in ("weight", "bias")
    ]
    together = g.node("Split", _linear(g, x, *joined), outputs=3, axis=-1)
    shape = g.tensor(_ints(0, 0, _HEADS, WIDTH // _HEADS))
    apart = [g.node("Reshape", f"{together}:{i}", shape) for i in range(3)]
    query, value = (g.node("Transpose", apart[i], perm=[0, 2, 1, 3]) for i in (0, 2))
    key = g.node("Transpose", apart[1], perm=[0, 2, 3, 1])
    scores = g.node("Mul", g.node("MatMul", query, key), g.tensor(np.full(1, (WIDTH // _HEADS) ** -0.5, np.float32)))
    attended = g.node("MatMul", g.node("Softmax", g.node("Add", scores, mask), axis=-1), value)
    merged = g.node("Reshape", g.node("Transpose", attended, perm=[0, 2, 1, 3]), g.tensor(_ints(0, 0, WIDTH)))
    out = f"{name}attention.output."
    merged = _linear(g, merged, weights[f"{out}dense.weight"], weights[f"{out}dense.bias"])
    x = _norm(g, weights, f"{out}LayerNorm", g.node("Add", merged, x))
    inner = _gelu(
        g, _linear(g, x, weights[f"{name}intermediate.dense.weight"], weights[f"{name}intermediate.dense.bias"])
    )
    outer = _linear(g, inner, weights[f"{name}output.dense.weight"], weights[f"{name}output.dense.bias"])
    return _norm(g, weights, f"{name}output.LayerNorm", g.node("Add", outer, x), "tokens" if last else "")


def _gelu(g: Graph, x: str) -> str:
    erf = g.node("Erf", g.node("Mul", x, g.tensor(np.full(1, 2**-0.5, np.float32))))
    return g.node(
        "Mul",
        g.node("Mul", x, g.tensor(np.full(1, 0.5, np.float32))),
        g.node("Add", erf, g.tensor(np.ones(1, np.float32))),
    )
