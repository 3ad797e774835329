"""Find unusual approaches among recorded ones: learn from airliners, rank the others, give reasons.

Run by `make demo`. Prints a ranked table with reasons and writes figures/demo.html, a report.
"""

import time
from pathlib import Path

import numpy as np
from sklearn.metrics import roc_auc_score

import sojourn as sj

REPORT = Path("figures/demo.html")
SHOWN = 12  # rows of the table
HELD_OUT = 3  # every third airliner is kept for the test


def main() -> None:
    began = time.perf_counter()
    data = sj.datasets.approaches()
    normal, vocabulary = data.normal, data.normal.vocabulary
    held_out = np.arange(len(normal)) % HELD_OUT == 0
    training, test = normal[np.flatnonzero(~held_out)], normal[np.flatnonzero(held_out)]
    flights = sj.Sequences.from_lists(
        [*test, *data.unusual], [*test.ids, *data.unusual.ids], vocabulary
    )
    kinds = np.array(["normal"] * len(test) + data.kinds.tolist())
    print(f"Learning from {len(training)} approaches of airliners to Paris, one symbol per second: "
          f"what the aircraft does.")  # fmt: skip
    print(f"Ranking {len(test)} others and {len(data.unusual)} of aircraft on special missions.\n")

    model = sj.HSMM(n_states=4, max_duration=40, random_state=0)
    detector = sj.AnomalyDetector(model, contamination=0.05).fit(training)
    scores, pvalues = detector.score_samples(flights), detector.pvalues(flights)
    fitted = time.perf_counter()

    order = np.argsort(scores)
    print(f"{'':4}{'flight':22}{'kind':14}{'score':>9}{'p':>8}   why")
    for rank, i in enumerate(order[:SHOWN], 1):
        why = detector.explain(flights[[i]])[0].reasons
        print(f"{rank:3d} {flights.ids[i]:22}{kinds[i]:14}{scores[i]:9.2f}{pvalues[i]:8.3f}   "
              f"{why[0].text if why else ''}")  # fmt: skip
    worst = order[0]
    print(f"\nMore on the first:\n{detector.explain(flights[[worst]])[0]}\n")

    abnormal = kinds != "normal"
    print(f"{'kind':14}{'flights':>8}{'flagged':>16}{'AUC':>7}")
    for kind in ("normal", *sorted(set(data.kinds.tolist())), "all missions"):
        own = abnormal if kind == "all missions" else kinds == kind
        flagged = np.mean(detector.predict(flights[np.flatnonzero(own)]) == -1)
        both = own | ~abnormal
        auc = "" if kind == "normal" else f"{roc_auc_score(own[both], -scores[both]):.3f}"
        print(f"{kind:14}{own.sum():8d}{flagged:16.0%}{auc:>7}")
    REPORT.parent.mkdir(exist_ok=True)
    sj.write_report(detector, flights, REPORT, labels=kinds, title="Approaches")
    print(f"\nlearned and scored in {fitted - began:.1f} s, "
          f"all done in {time.perf_counter() - began:.1f} s; report: {REPORT}")  # fmt: skip


if __name__ == "__main__":
    main()
