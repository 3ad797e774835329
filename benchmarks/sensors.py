"""Measurements beside hmmlearn's GaussianHMM: one EM iteration, and what stays are worth.

Timings are taken in turns on one thread, with hmmlearn's default (logarithms) and its faster
variant (scaling); the median is kept. The second part fits both models to states whose stays are
far from geometric, and scores held-out sequences.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from sojourn import HSMM, Params, Signals
from sojourn.em.em import run_em
from sojourn.emissions import Gaussian

N_STATES, N_CHANNELS, LENGTH = 4, 3, 1000
STEPS = 300_000
REPEATS = 5


def truth(rng: np.random.Generator, covariance: str) -> Gaussian:
    """States that overlap a little."""
    means = 2.0 * rng.normal(size=(N_STATES, N_CHANNELS))
    covariances = np.stack([np.eye(N_CHANNELS)] * N_STATES)
    return Gaussian(covariance=covariance, shrinkage=0.0, means=means, covariances=covariances)


def stays(rng: np.random.Generator, steps: int) -> np.ndarray:
    """States with stays of 8 to 12 steps."""
    moves = np.cumsum(rng.integers(1, N_STATES, size=steps // 8)) % N_STATES
    return np.repeat(moves, rng.integers(8, 13, size=len(moves)))[:steps]


def hmm(density: Gaussian, implementation: str) -> Any:
    """hmmlearn's model, set for one EM iteration."""
    from hmmlearn.hmm import GaussianHMM

    kind = {"diagonal": "diag"}.get(density.covariance, density.covariance)
    model = GaussianHMM(N_STATES, kind, n_iter=1, init_params="", implementation=implementation)
    model.startprob_ = np.full(N_STATES, 1 / N_STATES)
    model.transmat_ = np.full((N_STATES, N_STATES), 1 / N_STATES)
    model.means_ = density.means
    ones = np.ones((N_STATES, N_CHANNELS))
    model.covars_ = density.covariances if kind == "full" else ones
    return model


def iteration(covariance: str, steps: int = STEPS) -> dict[str, float]:
    """Seconds of one EM iteration, each the median of runs in turns."""
    rng = np.random.default_rng(0)
    density = truth(rng, covariance)
    values = density.sample(stays(rng, steps), rng)
    lengths = [LENGTH] * (len(values) // LENGTH)
    values = values[: sum(lengths)]
    signals = Signals.from_stacked(values, lengths)

    def ours(n_d: int) -> None:
        p = Params.random(N_STATES, n_d, 1, rng=1)
        run_em(
            Params(p.start, p.transition, p.duration, p.emission, density=density),
            signals,
            max_iter=1,
            n_jobs=1,
        )

    calls = {
        "sojourn, max_duration=1": lambda: ours(1),
        "sojourn, max_duration=20": lambda: ours(20),
        "hmmlearn, log": lambda: hmm(density, "log").fit(values, lengths),
        "hmmlearn, scaling": lambda: hmm(density, "scaling").fit(values, lengths),
    }
    found: dict[str, list[float]] = {name: [] for name in calls}
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours(1)
        for _ in range(REPEATS):
            for name, call in calls.items():
                began = time.perf_counter()
                call()
                found[name].append(time.perf_counter() - began)
    return {name: float(np.median(times)) for name, times in found.items()}


def held_out(steps: int = 10_000) -> dict[str, float]:
    """Held-out log-density per step where stays are far from geometric."""
    from hmmlearn.hmm import GaussianHMM

    rng = np.random.default_rng(1)
    density = truth(rng, "full")
    values = density.sample(stays(rng, 2 * steps), rng)
    train, test = values[:steps], values[steps : 2 * steps]
    lengths = [200] * (steps // 200)
    fits = [
        GaussianHMM(N_STATES, "full", n_iter=50, random_state=seed).fit(train, lengths)
        for seed in range(3)
    ]
    best = max(fits, key=lambda model: model.score(train, lengths))
    ours = HSMM(N_STATES, 14).fit(train, lengths=lengths)
    return {
        "hmmlearn, best of 3": best.score(test, lengths) / steps,
        "sojourn": ours.score(test, lengths=lengths),
    }


def run() -> None:
    """Print both comparisons."""
    for covariance in ("diagonal", "full"):
        times = iteration(covariance)
        base = times["sojourn, max_duration=1"]
        for name, seconds in times.items():
            print(
                f"{covariance:9} {name:26} {1e9 * seconds / STEPS:6.0f} ns per step, "
                f"{seconds / base:5.2f} x"
            )
    with threadpool_limits(1):
        scores = held_out()
    for name, score in scores.items():
        print(f"held out  {name:26} {score:.4f} nats per step")
