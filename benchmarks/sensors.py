"""Measurements beside hmmlearn's GaussianHMM: one EM iteration, and what stays are worth.

Timings are processor times of one thread, taken in turns, with hmmlearn's default (logarithms)
and its faster variant (scaling); the median is kept. The second part fits both models to states
whose stays are far from geometric, and scores held-out sequences. The third draws 10^5 steps of
hidden states of each emission and fits them: how far parameters are from the truth, in standard
errors, which are learned from fits of ten parts.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from sojourn import HSMM, Params, Signals, emissions
from sojourn.em.em import run_em
from sojourn.emissions import Gaussian
from sojourn.emissions.base import Floats
from sojourn.exact.draw import sample

N_STATES, N_CHANNELS, LENGTH = 4, 3, 1000
STEPS = 1_000_000
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
    """Processor time of one EM iteration, each the median of runs in turns."""
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
        ours(1), ours(20)  # compiled, and in memory
        for _ in range(REPEATS):
            for name, call in calls.items():
                began = time.thread_time()
                call()
                found[name].append(time.thread_time() - began)
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


EMISSIONS: dict[str, emissions.Emission] = {
    "Gaussian, full": emissions.Gaussian(
        means=[[0.0, 0.0], [1.0, 2.0]], covariances=[np.eye(2), [[2.0, 0.8], [0.8, 1.0]]]
    ),
    "Gaussian, diagonal": emissions.Gaussian(
        covariance="diagonal", means=[[0.0, 0.0], [1.0, 2.0]], covariances=[np.eye(2)] * 2
    ),
    "Gaussian, tied": emissions.Gaussian(
        covariance="tied",
        means=[[0.0, 0.0], [1.0, 2.0]],
        covariances=[[[2.0, 0.8], [0.8, 1.0]]] * 2,
    ),
    "StudentT": emissions.StudentT(
        locations=[[0.0], [4.0]], scales=[[1.0], [0.5]], dofs=[[4.0], [8.0]]
    ),
    "Poisson": emissions.Poisson(rates=[[2.0], [9.0]]),
    "NegativeBinomial": emissions.NegativeBinomial(rates=[[3.0], [20.0]], sizes=[[2.0], [5.0]]),
    "Bernoulli": emissions.Bernoulli(probabilities=[[0.1, 0.8], [0.6, 0.3]]),
    "Categorical": emissions.Categorical(probabilities=[[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]]),
    "Exponential": emissions.Exponential(scales=[[0.5], [7.0]]),
    "Gamma": emissions.Gamma(shapes=[[2.0], [9.0]], scales=[[1.0], [1.0]]),
}


def recovery(steps: int = 100_000) -> dict[str, Floats]:
    """Distances of fitted parameters and durations from the truth, in standard errors."""
    duration = np.array([[0.0, 0.0, 0.3, 0.4, 0.3, 0.0], [0.5, 0.0, 0.0, 0.0, 0.2, 0.3]])
    found = {}
    for name, density in EMISSIONS.items():
        p = Params([0.5, 0.5], 1 - np.eye(2), duration, np.ones((2, 1)), density=density)
        drawn = sample(p, steps // 500, 500, 7)
        values = density.sample(drawn.states, np.random.default_rng(8))
        signals = Signals.from_stacked(values, [500] * (steps // 500))
        how: dict[str, Any] = {"tail": False, "pseudocount": 0.0, "tol": 1e-8, "n_jobs": 1}
        wish = type(density)(**density.options() | {"shrinkage": 1e-6})

        def fit(part: Any, init: Any = "spectral", how: Any = how, wish: Any = wish) -> Params:
            return HSMM(2, 6, emissions=wish, init=init, **how).fit(part).params_

        whole = fit(signals)
        parts = [_parameters(fit(signals[i::10], whole), p) for i in range(10)]
        error = np.std(parts, axis=0, ddof=1) / np.sqrt(10)
        free = error > 1e-9
        found[name] = (_parameters(whole, p) - _parameters(p, p))[free] / error[free]
    return found


def _parameters(params: Params, truth: Params) -> Floats:
    """Densities and possible durations, of states in the order that is nearer to the truth."""
    assert params.density is not None
    mine, true = (next(iter(p.density.arrays().values())) for p in (params, truth) if p.density)
    order = [0, 1] if np.abs(mine - true).sum() <= np.abs(mine[::-1] - true).sum() else [1, 0]
    tables = [table[order].ravel() for table in params.density.arrays().values()]
    return np.concatenate([params.duration[order][truth.duration > 0], *tables])


def run() -> None:
    """Print all comparisons."""
    for covariance in ("diagonal", "full"):
        times = iteration(covariance)
        one, twenty = times["sojourn, max_duration=1"], times["sojourn, max_duration=20"]
        for name, seconds in times.items():
            print(
                f"{covariance:9} {name:26} {1e9 * seconds / STEPS:6.0f} ns per step, "
                f"{seconds / one:5.2f} x max_duration=1, {seconds / twenty:5.2f} x max_duration=20"
            )
    with threadpool_limits(1):
        scores = held_out()
    for name, score in scores.items():
        print(f"held out  {name:26} {score:.4f} nats per step")
    for name, away in recovery().items():
        within = np.mean(np.abs(away) <= 3.0)
        print(
            f"recovered {name:26} {len(away):3} parameters, {within:.0%} within 3 standard errors, "
            f"root mean square {np.sqrt(np.mean(away**2)):.2f}"
        )
