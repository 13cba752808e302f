"""How likely an answer serves its query, and when to say that nothing does.

Five signals, with weights from the tuning half of the project's own queries, in catalogues of 5 to 1,966 tools
(`bench/retrieval/calibrate.py` prints the numbers): how close the meaning of the closest hit is, how many subjects of
the query no hit mentions, whether it names a product that no hit mentions, how many tools there are (among many, one is
close by chance), and how few words the query has. Scores are not used: a tool may be by far the best of a catalogue and
still be the wrong one.
"""

from math import exp, log

from wicket_mcp.search.mentions import Mentions

CLOSENESS, SUBJECT, PRODUCT, SIZE, SHORT, NOTHING = 14.36, -0.40, -4.03, -0.48, -4.69, 0.35
MOST_SUBJECTS = 2
SURE = 0.5


def confidence(closest: float, mentions: Mentions, tools: int, words: int) -> float:
    """`closest` is the best cosine of meanings between the query and a hit; `words` counts the meaningful ones."""
    evidence = NOTHING + CLOSENESS * closest
    evidence += SUBJECT * min(MOST_SUBJECTS, mentions.missing_subjects)
    evidence += PRODUCT * bool(mentions.missing_products)
    evidence += SIZE * log(max(1, tools)) + SHORT / (1 + words)
    return 1 / (1 + exp(-max(-50.0, min(50.0, evidence))))
