"""A detector for the tests of the report: it scores by likelihood and gives prepared reasons."""

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np

import sojourn as sj
from sojourn.detect.novelty import encode

EVIL = "<script>window.hacked = 1</script>"
EVIL_ID = "</script><img src=x onerror='window.hacked=2'>\u2028&amp;\""


@dataclass
class Detector:
    """The interface of `AnomalyDetector` around a fitted model, fast enough for tests."""

    model_: object
    contamination: float = 0.05
    method: str = "loglik"
    unknown: str = "novel"

    def fit(self, X):
        self.usual = np.sort(self.score_samples(X))
        self.calibration_ = SimpleNamespace(scores=self.usual)
        self.typical_ = X[:3]
        self.offset_ = float(np.quantile(self.usual, self.contamination))
        return self

    def _encode(self, X, lengths):
        return encode(X, lengths, self.model_.vocabulary_, self.unknown)

    def score_samples(self, X):
        return self.model_.score_samples(X) / X.lengths

    def pvalues(self, X):
        below = np.searchsorted(self.usual, self.score_samples(X), side="right")
        return (below + 1) / (len(self.usual) + 1)

    def predict(self, X):
        return np.where(self.score_samples(X) < self.offset_, -1, 1)

    def explain(self, X):
        found = []
        rows = zip(X.ids.tolist(), X, self.model_.surprise(X), strict=True)
        for name, symbols, surprise in rows:
            t = int(surprise.argmax())
            place = (t, min(t + 5, len(symbols)))
            reasons = [
                SimpleNamespace(
                    kind="surprise",
                    text=f"{symbols[t]} at step {t} is surprising: {surprise[t]:.1f} nats",
                    weight=2.0,
                    start=t,
                    stop=None,
                    brief=f"{symbols[t]} where it is not expected",
                ),
                SimpleNamespace(
                    kind="duration",
                    text="a stay is too long",
                    weight=1.0,
                    start=place[0],
                    stop=place[1],
                    brief="too long",
                ),
                SimpleNamespace(
                    kind="symbol",
                    text=f"{symbols[0]} is rare",
                    weight=0.5,
                    start=None,
                    stop=None,
                    brief="rare",
                ),
            ]
            found.append(
                SimpleNamespace(id=name, score=0.0, pvalue=0.5, steps=[t], reasons=reasons)
            )
        return found


def model(params, vocabulary):
    """A fitted `HSMM` with given tables."""
    found = sj.HSMM(params.n_states, params.max_duration)
    found.params_, found.initial_ = params, None
    found.history_, found.n_passes_, found.converged_ = [-2.0], 1.0, True
    found.vocabulary_, found.n_symbols_ = np.array(vocabulary), params.n_symbols
    return found


def case(n=40, length=60, n_states=4, n_symbols=6, seed=1, names=None, ids=None):
    """A detector and sequences, the names among them being hostile."""
    p = sj.Params.random(n_states, 8, n_symbols, rng=seed)
    names = names or sorted([EVIL, '$x_1$ & "co"', *(f"s{i}" for i in range(n_symbols - 2))])
    raw = p.sample(n, length, rng=seed + 1)
    ids = ids or [EVIL_ID, *(f"f{i}" for i in range(1, n))]
    sequences = sj.Sequences(raw.codes, raw.offsets, np.array(sorted(names)), np.array(ids))
    return Detector(model(p, sorted(names))).fit(sequences), sequences
