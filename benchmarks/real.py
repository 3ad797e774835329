"""Real sequences, found through SOJOURN_DATA: held-out perplexity of bird song.

Five folds, song i in fold i modulo 5; sizes are chosen inside each training part.
"""

from __future__ import annotations

import csv
import os
import time
import warnings
from pathlib import Path

import numpy as np

from sojourn import HSMM, Sequences, SpectralHSMM, select

FOLDS = 5


def songs() -> Sequences | None:
    """The syllables of each song in order, where the data are there."""
    path = Path(os.environ.get("SOJOURN_DATA", "")) / "finch4.csv"
    if not path.is_file():
        return None
    with path.open(newline="") as file:
        rows = sorted(csv.DictReader(file), key=lambda r: (int(r["song"]), float(r["onset"])))
    return Sequences.from_columns(
        np.array([r["syllable"] for r in rows]), np.array([int(r["song"]) for r in rows])
    )


def run() -> None:
    """Perplexity by method, with the sizes that each chose."""
    data = songs()
    if data is None:
        print("skipped: set SOJOURN_DATA to a folder with finch4.csv")
        return
    fold = np.arange(len(data)) % FOLDS
    for method, most in (("spectral", 1.57), ("hsmm", 1.51)):
        total, n, sizes, began = 0.0, 0, [], time.perf_counter()
        for k in range(FOLDS):
            training, test = data[fold != k], data[fold == k]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # more states than symbols, on purpose
                if method == "spectral":
                    states = [2, 4, data.n_symbols]
                    found = select(training, states, [5, 10], method=method, cv=3)
                    model = SpectralHSMM(found.n_states, found.max_duration).fit(training)
                else:
                    found = select(training, [12, 16, 24], [6, 10], cv=3)
                    model = HSMM(found.n_states, found.max_duration, verbose=False).fit(training)
            sizes.append((found.n_states, found.max_duration))
            total += float(model.score_samples(test).sum())
            n += test.n_total
        seconds = time.perf_counter() - began
        print(
            f"finch4, {method}: perplexity {np.exp(-total / n):.4f} (at most {most}), "
            f"sizes {sizes}, {seconds:.0f} s",
            flush=True,
        )


if __name__ == "__main__":
    run()
