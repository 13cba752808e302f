"""What the fuzz lane is made of: JSON of any shape, JSON that is nearly a schema, a message or a reference."""

from typing import Any

from hypothesis import strategies as st

TEXTS = st.text(max_size=12) | st.sampled_from(["", "$", "$result", "path", "x.echo", "x", "\ud800", "\x00", "a" * 600])
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([2**64, -(2**64), 1e308, -0.0])
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4), max_leaves=12
)
OBJECTS = st.dictionaries(TEXTS, VALUES, max_size=5)

_KEYWORDS = [
    *("type", "properties", "items", "required", "enum", "const", "anyOf", "oneOf", "allOf", "not", "$ref", "$defs"),
    *("additionalProperties", "pattern", "format", "minimum", "maxLength", "default", "nullable"),
]
_WORDS = [
    "object",
    "array",
    "string",
    "integer",
    "null",
    "#",
    "#/$defs/a",
    "#/properties/a",
    "(a+)+$",
    "[",
    "date-time",
]
_KEYS = st.sampled_from(_KEYWORDS) | st.sampled_from(["a", "b", ""])
SCHEMAS = st.recursive(
    SCALARS | st.sampled_from(_WORDS) | st.lists(st.sampled_from(_WORDS), max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=5),
    max_leaves=25,
).filter(lambda schema: isinstance(schema, dict))

REFERENCES = st.fixed_dictionaries({"$result": TEXTS | VALUES}, optional={"path": TEXTS | VALUES, "more": VALUES})
WITH_REFERENCES = st.recursive(
    SCALARS | REFERENCES,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXTS, inner, max_size=5),
    max_leaves=20,
)
PATHS = st.lists(
    st.sampled_from(
        [".", "[", "]", "*", "[*]", "[0]", "[-1]", "[1:]", "[:]", '["a"]', "'", "$", "items", "a", " ", "\x00"]
    ),
    max_size=8,
).map("".join) | st.text(max_size=20)
