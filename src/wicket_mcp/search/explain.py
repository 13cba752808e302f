"""Why a tool got its score: the contribution of each field and word."""

from collections.abc import Collection, Mapping

from wicket_mcp.model import Listing, Tool
from wicket_mcp.search.answer import Explanation
from wicket_mcp.search.choice import prior
from wicket_mcp.search.features import Features
from wicket_mcp.search.fields import tool_text
from wicket_mcp.search.ranker import PART, Scores
from wicket_mcp.search.segment import FIELDS
from wicket_mcp.search.text import STOP, stem, words


def explain(
    scores: Scores,
    position: int,
    tool: Tool,
    listing: Listing,
    query: str,
    usage: Mapping[str, int],
    favourites: Collection[str],
    learned: float = 0.0,
    named: float = 0.0,
    deprecated: float = 0.0,
) -> Explanation:
    text = tool_text(tool, listing)
    query_features = Features().add(words(query))
    shares_by_field: dict[str, float] = {}
    tool_stems: set[str] = set()
    for name, weight in FIELDS.items():
        field_words = words(getattr(text, name))
        tool_stems.update(map(stem, field_words))
        field_features = Features().add(field_words)
        shares_by_field[name] = weight * sum(
            worth * worth * len(counted.keys() & query_counts.keys())
            for (counted, worth), (query_counts, _) in zip(field_features.kinds(), query_features.kinds(), strict=True)
        )
    letters, meaning = float(scores.letters[position] + scores.covered[position]), float(scores.meaning[position])
    total = sum(shares_by_field.values()) or 1.0
    shares = {name: letters * share / total for name, share in shares_by_field.items() if share}
    scale = scores.scale
    whole = (letters + meaning) / scale
    added = prior(tool.key, usage, favourites)
    share = (1 / (1 + PART)) if len(scores.by_part) else 1.0
    moved = float(scores.moved[position])
    remainder = (
        float(scores.fit[position]) - moved - whole * share
    )  # of the best part, or of the intent of a query of one part
    return Explanation(
        letters=letters / scale * share,
        meaning=meaning / scale * share,
        part=remainder if len(scores.by_part) else 0.0,
        intent=0.0 if len(scores.by_part) else remainder,
        reranked=moved,
        usage=added,
        learned=learned,
        named=named,
        deprecated=deprecated,
        score=float(scores.fit[position]) + added + learned + named + deprecated,
        fields={name: value / scale * share for name, value in sorted(shares.items(), key=lambda item: -item[1])},
        words=tuple(dict.fromkeys(w for w in words(query) if w not in STOP and stem(w) in tool_stems)),
    )
