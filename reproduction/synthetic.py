"""Section 6.1 of the paper: how near each method comes to the true likelihood, and how soon.

Random models, sequences of 100 symbols. The measure is the paper's: the root mean square over 1,000
test sequences of |p̂ - p| / p.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reproduction.grid import Cell
from sojourn.checks import MAX_ENTRIES
from sojourn.data.sequences import Sequences
from sojourn.em.em import run_em
from sojourn.estimators.hsmm import HSMM
from sojourn.estimators.spectral_hsmm import SpectralHSMM
from sojourn.exact.params import Params

Floats = NDArray[np.float64]
Size = tuple[int, int, int]  # n_o, n_x, n_d: the paper's order

SIZES: tuple[Size, ...] = ((3, 2, 2), (5, 4, 6))
TRAINING = (500, 1000, 5000, 10_000, 100_000)
LENGTH = 100
TOLERANCE = 1e-8  # nats a symbol, of all EM; the default of `HSMM`


@dataclass(frozen=True)
class Method:
    """A way to learn: its name, what it is, and about how many passes over the data it makes."""

    name: str
    title: str
    passes: int

    @property
    def iterative(self) -> bool:
        """Whether it climbs the likelihood, pass by pass."""
        return self.passes > 1


METHODS = (
    Method("pooled", "spectral, the paper's (raw)", 1),
    Method("linear", "the same, ℓ = n_d in a row", 1),
    Method("adjacent", "spectral, our default", 1),
    Method("em", "plain EM, random start", 200),
    Method("hsmm", "HSMM, our default", 60),
    Method("bound", "EM from the truth (bound)", 120),
)
BY_NAME = {method.name: method for method in METHODS}


@dataclass(frozen=True)
class Plan:
    """What is run; the defaults are the paper's.

    Parameters
    ----------
    runs : int
        Random models, each with data of its own.
    sizes : tuple of (n_o, n_x, n_d)
    training : tuple of int
        Numbers of training sequences.
    test : int
        Number of test sequences.
    iterations : int
        Most passes of plain EM, and of EM from the truth.
    most_for_em : int or None
        Most training sequences for the methods that iterate; None for no limit.
    n_jobs : int
        Threads; times are processor seconds, so that one is the fair number.
    """

    runs: int = 100
    sizes: tuple[Size, ...] = SIZES
    training: tuple[int, ...] = TRAINING
    test: int = 1000
    iterations: int = 200
    most_for_em: int | None = None
    n_jobs: int = 1


QUICK = Plan(runs=2, training=(400, 4000), test=300, iterations=40, most_for_em=400)


def cells(plan: Plan) -> list[Cell]:
    """All measurements of a plan, run after run, so that a run that is stopped has whole ones.

    Examples
    --------
    >>> len(cells(Plan(runs=1, sizes=((3, 2, 2),), training=(500,))))
    6
    """
    found = []
    for run in range(plan.runs):
        for size in plan.sizes:
            for n in plan.training:
                for method in METHODS:
                    if method.name == "linear" and not linear_fits(size):
                        continue
                    if method.iterative and plan.most_for_em and n > plan.most_for_em:
                        continue
                    asked = {
                        "method": method.name,
                        "size": list(size),
                        "n": n,
                        "run": run,
                        "test": plan.test,
                        **({"iterations": plan.iterations} if method.iterative else {}),
                        "n_jobs": plan.n_jobs,
                    }
                    found.append(Cell(asked, _seconds(method, size, n, plan.iterations)))
    return found


def _seconds(method: Method, size: Size, n: int, iterations: int) -> float:
    """About how long a cell takes, for the estimate of the time left."""
    if not method.iterative:
        return 0.1 + 1e-7 * LENGTH * n
    passes = iterations if method.name == "em" else method.passes
    return (2.0 if method.name == "hsmm" else 0.1) + passes * 2e-7 * LENGTH * n


def linear_entries(size: Size) -> int:
    """Entries of the largest table that windows of ℓ = n_d symbols in a row need (Corollary 3).

    Examples
    --------
    >>> linear_entries((3, 2, 2)), linear_entries((5, 4, 6))
    (243, 1220703125)
    """
    n_o, _, n_d = size
    return int(n_o ** (2 * n_d + 1))


def linear_fits(size: Size) -> bool:
    """Whether those tables can be held."""
    return linear_entries(size) <= MAX_ENTRIES


def measure(asked: dict[str, Any]) -> dict[str, Any]:
    """Error and time of one method on one random model.

    Examples
    --------
    >>> asked = {"method": "adjacent", "size": [3, 2, 2], "n": 100, "run": 0, "test": 50}
    >>> sorted(measure({**asked, "n_jobs": 1}))
    ['rmse', 'seconds']
    """
    size, method = tuple(asked["size"]), asked["method"]
    truth, train, test, true = _data(size, asked["n"], asked["run"], asked["test"])
    iterations, n_jobs = asked.get("iterations", 0), asked["n_jobs"]
    _warm_up(method, size)
    return _METHODS[method](Task(truth, train, test, true, iterations, asked["run"], n_jobs))


@dataclass(frozen=True, eq=False)
class Task:
    """What a method gets: data, what to compare with, and how long it may try."""

    truth: Params
    train: Sequences
    test: Sequences
    true: Floats
    iterations: int
    run: int
    n_jobs: int


def rmse(estimated: Floats, true: Floats) -> float:
    """Root mean square of |p̂ - p| / p from logarithms.

    Examples
    --------
    >>> round(rmse(np.log([0.2, 0.3]), np.log([0.1, 0.3])), 12)
    0.707106781187
    """
    # e^300 is no number to draw, but its square is still a finite one.
    return float(np.sqrt(np.mean(np.expm1(np.minimum(estimated - true, 300.0)) ** 2)))


def _spectral(task: Task, **options: Any) -> dict[str, Any]:
    n_x, n_d = task.truth.n_states, task.truth.max_duration
    model = SpectralHSMM(n_x, n_d, n_jobs=task.n_jobs, **options)
    began = time.process_time()
    model.fit(task.train)
    seconds = time.process_time() - began
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # products that are not positive count as p̂ = 0
        return {"rmse": rmse(model.score_samples(task.test), task.true), "seconds": seconds}


def _pooled(task: Task) -> dict[str, Any]:
    rank = task.truth.n_states * task.truth.max_duration  # as printed: nothing is chosen
    return _spectral(task, algorithm="pooled", filter="raw", rank=rank)


def _linear(task: Task) -> dict[str, Any]:
    n_x, n_d = task.truth.n_states, task.truth.max_duration
    windows = tuple(range(n_d))
    return _spectral(task, algorithm="pooled", filter="raw", rank=n_x * n_d, windows=windows)


def _hsmm(task: Task) -> dict[str, Any]:
    n_x, n_d = task.truth.n_states, task.truth.max_duration
    began = time.process_time()
    model = HSMM(n_x, n_d, verbose=False, n_jobs=task.n_jobs).fit(task.train)
    seconds = time.process_time() - began
    error = rmse(model.score_samples(task.test), task.true)
    return {"rmse": error, "seconds": seconds, "passes": model.n_passes_}


def _em(task: Task) -> dict[str, Any]:
    truth = task.truth
    start = Params.random(
        truth.n_states, truth.max_duration, truth.n_symbols, rng=30_000 + task.run
    )
    return _climb(task, start, accelerate=False)


def _bound(task: Task) -> dict[str, Any]:
    return _climb(task, task.truth, accelerate=True)


def _climb(task: Task, start: Params, accelerate: bool) -> dict[str, Any]:
    """EM from a model, with its error and time at some iterations on the way."""
    watched = set(_watched(task.iterations))
    path: list[tuple[int, float, float]] = []
    spent, since = 0.0, time.process_time()

    def note(iteration: int, _: float, params: Params) -> None:
        nonlocal spent, since
        spent += time.process_time() - since  # scoring the test set is not part of learning
        if iteration in watched:
            path.append((iteration, spent, rmse(params.log_prob(task.test), task.true)))
        since = time.process_time()

    found = run_em(
        start,
        task.train,
        max_iter=task.iterations,
        tol=TOLERANCE,
        accelerate=accelerate,
        n_jobs=task.n_jobs,
        callback=note,
    )
    seconds = spent + time.process_time() - since
    error = rmse(found.params.log_prob(task.test), task.true)
    path.append((len(found.history) - 1, seconds, error))
    answer: dict[str, Any] = {"rmse": error, "seconds": seconds, "passes": found.n_passes}
    return {**answer, "converged": found.converged, "path": path}


def _watched(most: int) -> Iterable[int]:
    """Iterations at which the error is noted: all early ones, then ever fewer."""
    return np.unique(np.round(np.geomspace(1, most, 40)).astype(int)).tolist()


_METHODS: dict[str, Callable[[Task], dict[str, Any]]] = {
    "pooled": _pooled,
    "linear": _linear,
    "adjacent": _spectral,
    "em": _em,
    "hsmm": _hsmm,
    "bound": _bound,
}


@lru_cache(maxsize=1)  # the methods of a run follow one another
def _data(size: Size, n: int, run: int, test: int) -> tuple[Params, Sequences, Sequences, Floats]:
    n_o, n_x, n_d = size
    truth = Params.random(n_x, n_d, n_o, rng=run)
    train = truth.sample(n, LENGTH, rng=10_000 + run)
    tests = truth.sample(test, LENGTH, rng=20_000 + run)
    return truth, train, tests, truth.log_prob(tests)


@cache
def _warm_up(method: str, size: Size) -> None:
    """Run a method on next to nothing, so that loading its kernels is not timed."""
    n_o, n_x, n_d = size
    truth = Params.random(n_x, n_d, n_o, rng=0)
    data = truth.sample(50, LENGTH, rng=1)
    _METHODS[method](Task(truth, data, data, truth.log_prob(data), 3, 0, 1))
