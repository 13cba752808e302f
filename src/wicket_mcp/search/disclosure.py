"""Fits an answer into a token budget: typed signatures for the first hits, less for the rest.

Knows neither how a tool is rendered nor how tokens are counted; both are passed in. Later hits lose detail before
earlier ones do, and a hit is dropped only when even its name does not fit.
"""

from collections.abc import Callable, Sequence

import msgspec

from wicket_mcp.model import Hit, Tool

Writer = Callable[[Tool], str]


class Shown(msgspec.Struct, frozen=True):
    """A hit as it is disclosed: the text, and its level of detail (0 is the most)."""

    hit: Hit
    text: str
    level: int


def disclose(
    hits: Sequence[Hit], budget: int, levels: Sequence[Writer], count: Callable[[str], int]
) -> tuple[Shown, ...]:
    """As many hits as fit, each at the most detailed level that leaves room for all others at the least detailed one.

    `levels` render a tool with less and less detail; `count` returns a text's tokens.
    """
    least = [levels[-1](hit.tool) for hit in hits]
    costs = [count(text) for text in least]
    fitting = len(hits)
    while fitting > 1 and sum(costs[:fitting]) > budget:
        fitting -= 1
    room = budget - sum(costs[:fitting])
    disclosed: list[Shown] = []
    for hit, text, cost in zip(hits[:fitting], least, costs, strict=False):
        level = len(levels) - 1
        for better, write in enumerate(levels[:-1]):
            richer = write(hit.tool)
            more = count(richer) - cost
            if more <= room:
                text, level = richer, better
                room -= max(0, more)
                break
        disclosed.append(Shown(hit, text, level))
    return tuple(disclosed)
