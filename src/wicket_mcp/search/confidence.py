"""How likely it is that an answer serves its query, and when to say that nothing does.

Three signs, weighed on the half of the project's own queries that is tuned on, in catalogues of 5 to 1,966 tools
(`bench/retrieval/calibrate.py` prints the numbers): how close the meaning of the closest hit is, how many subjects of
the query no hit mentions, and whether it names a product that no hit mentions. Scores do not come in: a tool may be
the best of a catalogue by far and still not be what was asked for.
"""

from math import exp

from wicket_mcp.search.mentions import Mentions

CLOSENESS, SUBJECT, PRODUCT, NOTHING = 11.54, -1.95, -8.38, -2.26
MOST_SUBJECTS = 2
SURE = 0.5


def confidence(closest: float, mentions: Mentions) -> float:
    """`closest` is the best cosine of meanings between the query and a hit."""
    evidence = NOTHING + CLOSENESS * closest
    evidence += SUBJECT * min(MOST_SUBJECTS, mentions.missing_subjects)
    evidence += PRODUCT * bool(mentions.missing_products)
    return 1 / (1 + exp(-max(-50.0, min(50.0, evidence))))
