"""Section 6.1 of the paper: how close each method comes to the true likelihood, and how fast.

Random models, sequences of 100 symbols. The measure is the paper's: the root mean square over 1,000
test sequences of |p̂ - p| / p.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reproduction.fits import em_with_path, timed
from reproduction.grid import Cell
from sojourn import HSMM, Params, Sequences, SpectralHSMM
from sojourn.checks import MAX_ENTRIES

Floats = NDArray[np.float64]
Size = tuple[int, int, int]  # n_o, n_x, n_d: the paper's order

SIZES: tuple[Size, ...] = ((3, 2, 2), (5, 4, 6))
TRAINING = (500, 1000, 5000, 10_000, 100_000)
LENGTH = 100


@dataclass(frozen=True)
class Method:
    """A way to learn: its name, what it is, and about how many passes over the data it makes."""

    name: str
    title: str
    passes: int

    @property
    def iterative(self) -> bool:
        """Whether it maximises the likelihood, pass by pass."""
        return self.passes > 1


METHODS = (
    Method("pooled", "spectral, the paper's (raw)", 1),
    Method("linear", "the same, ℓ = n_d consecutive symbols", 1),
    Method("spectral", "spectral, our default", 1),
    Method("em", "plain EM, random start", 200),
    Method("hsmm", "HSMM, our default", 60),
    Method("bound", "EM from the truth (bound)", 120),
)


@dataclass(frozen=True)
class Plan:
    """What is run; the defaults are the paper's."""

    runs: int = 100  # random models, each with data of its own
    sizes: tuple[Size, ...] = SIZES
    training: tuple[int, ...] = TRAINING  # numbers of training sequences
    test: int = 1000  # test sequences
    iterations: int = 200  # maximum number of passes of plain EM and of EM from the truth
    most_for_em: int | None = None  # largest training set for methods that iterate; None: no limit
    n_jobs: int = 1  # times are processor seconds, so that one thread is the fair choice


QUICK = Plan(runs=2, training=(200, 2000), test=300, iterations=40, most_for_em=200)


def cells(plan: Plan) -> list[Cell]:
    """All measurements of a plan, run after run, so that a stopped run leaves complete ones."""
    found = []
    grid = product(range(plan.runs), plan.sizes, plan.training, METHODS)
    for run, size, n, method in grid:
        too_many = method.iterative and plan.most_for_em and n > plan.most_for_em
        if too_many or (method.name == "linear" and not linear_fits(size)):
            continue
        asked = {"method": method.name, "size": list(size), "n": n, "run": run, "test": plan.test}
        asked |= {"iterations": plan.iterations} if method.iterative else {}
        asked |= {"n_jobs": plan.n_jobs}
        found.append(Cell(asked, _seconds(method, n, plan.iterations)))
    return found


def _seconds(method: Method, n: int, iterations: int) -> float:
    """About how long a cell takes, for the estimate of the time left."""
    if not method.iterative:
        return 0.1 + 1e-7 * LENGTH * n
    passes = iterations if method.name == "em" else method.passes
    return (2.0 if method.name == "hsmm" else 0.1) + passes * 2e-7 * LENGTH * n


def linear_entries(size: Size) -> int:
    """Entries of the largest table that windows of ℓ = n_d consecutive symbols need (Corollary 3).

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


@dataclass(frozen=True, eq=False)
class Task:
    """What a method gets: data, true log-likelihoods to compare with, and its limits."""

    truth: Params
    train: Sequences
    test: Sequences
    true: Floats
    iterations: int
    run: int
    n_jobs: int

    @property
    def size(self) -> tuple[int, int]:
        """Numbers of states and of durations."""
        return self.truth.n_states, self.truth.max_duration

    def error(self, log_prob: Callable[[Sequences], Floats]) -> float:
        """RMSE of a model on the test sequences."""
        return rmse(log_prob(self.test), self.true)


def measure(asked: dict[str, Any]) -> dict[str, Any]:
    """Error and time of one method on one random model."""
    size, method = tuple(asked["size"]), asked["method"]
    data = _data(size, asked["n"], asked["run"], asked["test"])
    _warm_up(method, size)
    return _METHODS[method](Task(*data, asked.get("iterations", 0), asked["run"], asked["n_jobs"]))


def rmse(estimated: Floats, true: Floats) -> float:
    """Root mean square of |p̂ - p| / p from logarithms.

    Examples
    --------
    >>> round(rmse(np.log([0.2, 0.3]), np.log([0.1, 0.3])), 12)
    0.707106781187
    """
    # e^300 is far beyond any figure, but its square is still finite.
    return float(np.sqrt(np.mean(np.expm1(np.minimum(estimated - true, 300.0)) ** 2)))


def _spectral(task: Task, **options: Any) -> dict[str, Any]:
    with timed() as times:
        model = SpectralHSMM(*task.size, n_jobs=task.n_jobs, **options).fit(task.train)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # products that are not positive count as p̂ = 0
        return {"rmse": task.error(model.score_samples), **times}


def _pooled(task: Task, **options: Any) -> dict[str, Any]:
    n_x, n_d = task.size  # the rank as printed: nothing is chosen
    return _spectral(task, algorithm="pooled", filter="raw", rank=n_x * n_d, **options)


def _linear(task: Task) -> dict[str, Any]:
    return _pooled(task, windows=tuple(range(task.truth.max_duration)))


def _hsmm(task: Task) -> dict[str, Any]:
    with timed() as times:
        model = HSMM(*task.size, verbose=False, n_jobs=task.n_jobs).fit(task.train)
    return {"rmse": task.error(model.score_samples), **times, "passes": model.n_passes_}


def _em(task: Task) -> dict[str, Any]:
    start = Params.random(*task.size, task.truth.n_symbols, rng=30_000 + task.run)
    return _run_em(task, start, accelerate=False)


def _bound(task: Task) -> dict[str, Any]:
    return _run_em(task, task.truth, accelerate=True)


def _run_em(task: Task, start: Params, accelerate: bool) -> dict[str, Any]:
    # The error is noted at all early iterations, then at fewer and fewer.
    watched = np.unique(np.round(np.geomspace(1, task.iterations, 40)).astype(int)).tolist()
    _, about = em_with_path(
        start,
        task.train,
        lambda params: (task.error(params.log_prob),),
        iterations=task.iterations,
        watched=watched,
        accelerate=accelerate,
        n_jobs=task.n_jobs,
    )
    return {"rmse": about["path"][-1][-1], **about}


_METHODS: dict[str, Callable[[Task], dict[str, Any]]] = {
    "pooled": _pooled,
    "linear": _linear,
    "spectral": _spectral,
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
    """Run a method on very little data, so that loading its kernels is not timed."""
    n_o, n_x, n_d = size
    truth = Params.random(n_x, n_d, n_o, rng=0)
    data = truth.sample(50, LENGTH, rng=1)
    _METHODS[method](Task(truth, data, data, truth.log_prob(data), 3, 0, 1))


@dataclass(frozen=True)
class Summary:
    """One row per size, method and N: the errors of all runs, and the median time."""

    rows: list[dict[str, Any]]

    def of(self, size: Size, method: str) -> list[dict[str, Any]]:
        """Rows of one line of a figure, by growing N."""
        return [r for r in self.rows if tuple(r["size"]) == tuple(size) and r["method"] == method]

    def at(self, size: Size, method: str, n: int) -> dict[str, Any] | None:
        """One row, or None."""
        return next((r for r in self.of(size, method) if r["n"] == n), None)

    def ticks(self, size: Size) -> list[int]:
        """Numbers of training sequences to label on an axis: not too close to each other."""
        chosen: list[int] = []
        for n in sorted({r["n"] for r in self.rows if tuple(r["size"]) == size}, reverse=True):
            if not chosen or chosen[-1] / n > 3:
                chosen.append(n)
        return chosen


def summarise(rows: Sequence[dict[str, Any]]) -> Summary:
    """Mean, spread and quantiles of the errors over runs."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((tuple(row["size"]), row["method"], row["n"]), []).append(row)
    found = []
    for (size, method, n), group in sorted(groups.items()):
        errors = np.array([row["rmse"] for row in group])
        mean, sd = float(errors.mean()), float(errors.std(ddof=1)) if len(errors) > 1 else 0.0
        q10, median, q90 = np.quantile(errors, (0.1, 0.5, 0.9)).tolist()
        one = {"size": list(size), "method": method, "n": n, "runs": len(group)}
        one |= {"mean": mean, "sd": sd, "mean_less_sd": mean - sd, "mean_plus_sd": mean + sd}
        one |= {"median": median, "q10": q10, "q90": q90, "worst": float(errors.max())}
        found.append({**one, "seconds": float(np.median([row["seconds"] for row in group]))})
    return Summary(found)
