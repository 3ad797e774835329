"""scikit-splearn's spectral weighted automata, learned from factors (all windows of a sequence).

They are distributions over finite strings, so a probability includes that of the end of the string.
There is no EM: a fit is one step.
"""

from importlib.metadata import version

import loop
import numpy as np
from splearn.datasets.data_sample import SplearnArray
from splearn.spectral import Spectral

WINDOW = 2


def words(rows, n_symbols):
    return SplearnArray(rows.astype(float), nbL=n_symbols, nbEx=len(rows))


class Model:
    def __init__(self, shape, train):
        n_x, n_d, self.n_symbols = (int(n) for n in shape)
        most = sum(self.n_symbols**k for k in range(WINDOW + 1))
        self.spectral = Spectral(
            rank=min(n_x * n_d, most - 1), lrows=WINDOW, lcolumns=WINDOW, version="factor",
            partial=True, sparse=True, smooth_method="none", mode_quiet=True,
        )  # fmt: skip
        self.train = train

    def fit(self):
        self.spectral.fit(words(self.train, self.n_symbols))

    def score(self, X):
        with np.errstate(all="ignore"):
            return np.log(self.spectral.predict_proba(words(X, self.n_symbols)))


def fit(Model, data, job):
    """A complete fit, and which share of its results are probabilities."""
    model, watch = Model(data["shape"], data["train"]), loop.Watch()
    loop.forget_peak()
    with watch:
        model.fit()
    peak = loop.peak_mb()
    test = data["test"]
    with loop.Watch() as scoring:
        scores = loop.per_symbol(model.score(test), test.shape[1])
    known = [score for score in scores if score is not None]
    return {
        "points": [
            (1, watch.cpu, watch.wall, None if len(known) < len(scores) else np.mean(known))
        ],
        "held_out": scores,
        "peak": peak,
        "score": {"cpu": scoring.cpu / test.size, "wall": scoring.wall / test.size},
    }


if __name__ == "__main__":
    loop.serve(Model, version("scikit-splearn"), {"fit": fit})
