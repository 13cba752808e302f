"""The numbers of `wicket_mcp.search.confidence`, fitted on the half that is tuned on.

python -m retrieval.calibrate       (in bench/, with PYTHONPATH=../src)

A logistic regression in which every size of catalogue, and servable and unservable queries, weigh the same. The
intercept is then set so that WRONGLY percent of the servable queries of the tuned half are declined.
"""

from retrieval.declining import SIZES, WRONGLY, cases
from retrieval.sets import Labelled, catalogue
from wicket_mcp.search import SearchIndex, build_segment
from wicket_mcp.search.numeric import np

_ROUNDS = 100


def main() -> None:
    rows: list[tuple[float, ...]] = []
    groups: list[int] = []
    listings = Labelled("catalogue", "dev", list(catalogue()), []).listings()
    segments = {listing.server: build_segment(listing) for listing in listings}
    for case in cases(listings, "dev"):
        index = SearchIndex.load({one.server: (one, segments[one.server]) for one in case.listings})
        for served, queries in ((True, case.servable), (False, case.unservable)):
            for query in queries:
                rows.append(index.search(query.text).evidence.inputs)
                groups.append(2 * list(SIZES).index(case.size) + served)
    features, group = np.array(rows, float), np.array(groups)
    wanted = (group % 2).astype(float)
    weight = 1 / np.bincount(group)[group]
    found = np.zeros(features.shape[1])
    for _ in range(_ROUNDS):  # Newton's method
        guess = 1 / (1 + np.exp(-features @ found))
        slope = features.T @ (weight * (wanted - guess)) - 1e-4 * found
        curve = (features * (weight * guess * (1 - guess))[:, None]).T @ features + 1e-4 * np.eye(len(found))
        found = found + np.linalg.solve(curve, slope)
    evidence = features @ found
    for share in (WRONGLY, 5.0, 8.0):
        shift = float(np.quantile(evidence[wanted == 1], share / 100))
        declined = [float((evidence[(group == 2 * at)] < shift).mean()) for at in range(len(SIZES))]
        numbers = ", ".join(f"{value:.2f}" for value in (*found[:-1], found[-1] - shift))
        print(f"WEIGHTS = ({numbers})")
        print(f"    declines {share} % of the servable and {', '.join(f'{x:.0%}' for x in declined)} of the others")


if __name__ == "__main__":
    main()
