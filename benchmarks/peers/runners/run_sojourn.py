"""sojourn itself: plain EM of an HSMM for the times an iteration, and its two estimators."""

import time

import loop
import numpy as np

import sojourn
from sojourn import HSMM, Params, Sequences, SpectralHSMM
from sojourn.em.em import run_em
from sojourn.em.start import fit_params


def sequences(rows, n_o):
    """All symbols known, also those that these rows do not hold."""
    offsets = np.arange(len(rows) + 1) * rows.shape[1]
    return Sequences(rows.ravel().astype(np.int32), offsets, np.arange(n_o), np.arange(len(rows)))


class Model:
    """Plain EM, one pass an iteration."""

    def __init__(self, tables, train):
        self.params = Params(*tables)
        self.train = sequences(train, self.params.n_symbols)

    def iterate(self, n):
        result = run_em(
            self.params, self.train, max_iter=n, tol=0, accelerate=False, pseudocount=0.01, n_jobs=1
        )
        self.params = result.params

    def score(self, X):
        return self.params.log_prob(sequences(X, self.params.n_symbols), n_jobs=1)


class Path:
    """Held-out likelihood of models on the way; computing it is not timed."""

    def __init__(self, test):
        self.test, self.points, self.best = test, [], None
        self.away = [0.0, 0.0]
        self.began = time.process_time(), time.perf_counter()

    def __call__(self, done, _, model):
        now = time.process_time(), time.perf_counter()
        scores = (
            model.log_prob(self.test, n_jobs=1)
            if isinstance(model, Params)
            else model.score_samples(self.test)
        )
        spent = [t - b - a for t, b, a in zip(now, self.began, self.away, strict=True)]
        self.points.append((done, *spent, float(np.mean(scores)) / self.test.lengths[0]))
        self.last = scores
        later = time.process_time(), time.perf_counter()
        self.away = [a + u - t for a, u, t in zip(self.away, later, now, strict=True)]

    def result(self):
        """The model at the end stands for the run: there is nothing to know in advance."""
        return {
            "points": self.points,
            "held_out": loop.per_symbol(self.last, self.test.lengths[0]),
            "peak": loop.peak_mb(),
        }


def fit(_, data, job):
    """A complete fit with all defaults except one thread."""
    n_x, n_d, n_o = data["shape"].tolist()
    train, test = sequences(data["train"], n_o), sequences(data["test"], n_o)
    small = Params.random(n_x, n_d, n_o, rng=0).sample(4 * n_x, 4 * n_d + 8, rng=0)
    if job["model"] == "spectral":
        SpectralHSMM(n_x, n_d, n_jobs=1).fit(small)  # compiled or loaded now
    else:
        HSMM(n_x, n_d, n_jobs=1, max_iter=2, verbose=False).fit(small)
    loop.forget_peak()
    path = Path(test)
    if job["model"] == "spectral":
        path(1, 0.0, SpectralHSMM(n_x, n_d, n_jobs=1, random_state=job["seed"]).fit(train))
        return path.result()
    defaults = HSMM(n_x, n_d)
    result = fit_params(
        train,
        n_x,
        n_d,
        n_o,
        init="moments" if job["model"] == "moments" else "spectral",
        rng=job["seed"],
        max_iter=defaults.max_iter,
        tol=defaults.tol,
        pseudocount=defaults.pseudocount,
        n_jobs=1,
        callback=path,
    )
    path(round(result.n_passes), 0.0, result.params)
    return path.result()


if __name__ == "__main__":
    loop.serve(Model, sojourn.__version__, {**loop.TASKS, "fit": fit})
