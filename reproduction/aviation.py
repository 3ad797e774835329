"""Section 6.2 of the paper: abnormal flights by the likelihood of the pilot's commands.

Models of four sizes are learned from normal flights. Test flights are ranked by their normalised
joint log-likelihood, log p(o_1 … o_T) / T; the area under the ROC curve (AUC) says how well that
tells abnormal from normal. Beside it stands the score of `AnomalyDetector`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from reproduction.flights import Flights, recorded, simulated
from reproduction.grid import Cell
from sojourn.data.sequences import Sequences
from sojourn.detect.detector import AnomalyDetector
from sojourn.em.em import run_em
from sojourn.estimators.spectral_hsmm import SpectralHSMM
from sojourn.exact.params import Params

Floats = NDArray[np.float64]
Size = tuple[int, int]  # n_x, n_d

SIZES: tuple[Size, ...] = ((8, 40), (7, 30), (6, 20), (5, 10))
PAPER_ITERATIONS = 200  # of plain EM, for the comparison of times
TITLES = {
    "spectral": "spectral, our default",
    "pooled": "spectral, the paper's Algorithm 2",
    "em": "plain EM, random start",
    "detector": "detector, default method",
}


@dataclass(frozen=True)
class Plan:
    """What is run; the defaults are the paper's.

    Parameters
    ----------
    sets : int
        Simulated sets of flights, each with its own training and test flights.
    flights : int
        Training flights of a set.
    test : int
        Normal test flights, and as many abnormal ones.
    sizes : tuple of (n_x, n_d)
    iterations : int
        Passes of plain EM.
    detector_flights : int
        Most training flights that the detector, which fits six models, is given.
    data : str or None
        A folder of recordings, in place of simulated flights; see `flights.recorded`.
    id, time : str
        Columns of those recordings.
    n_jobs : int or None
        Threads; None for all cores.
    """

    sets: int = 1
    flights: int = 10_020
    test: int = 100
    sizes: tuple[Size, ...] = SIZES
    iterations: int = PAPER_ITERATIONS
    detector_flights: int = 2000
    data: str | None = None
    id: str = "flight"
    time: str = "time"
    n_jobs: int | None = None


QUICK = Plan(flights=60, test=30, iterations=5, detector_flights=60)


def cells(plan: Plan) -> list[Cell]:
    """All measurements of a plan, set after set, the fast methods first.

    Examples
    --------
    >>> len(cells(Plan()))
    16
    """
    found = []
    for number in range(1 if plan.data else plan.sets):
        source: dict[str, Any] = {"set": number, "flights": plan.flights, "test": plan.test}
        if plan.data:
            flights = _flights((str(Path(plan.data).absolute()), plan.id, plan.time))
            source = {"data": flights.fingerprint, "flights": len(flights.train)}
        for method in TITLES:
            for size in plan.sizes:
                asked = {"method": method, "size": list(size), **source, "n_jobs": plan.n_jobs}
                asked |= {"iterations": plan.iterations} if method == "em" else {}
                asked |= {"most": plan.detector_flights} if method == "detector" else {}
                work = {"spectral": 1.0, "pooled": 1.0, "em": 0.05 * plan.iterations * size[0]}
                found.append(Cell(asked, work.get(method, 8.0)))
    return found


def measurer(plan: Plan) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """What measures the cells of a plan."""

    def measure(asked: dict[str, Any]) -> dict[str, Any]:
        if plan.data:
            flights = _flights((str(Path(plan.data).absolute()), plan.id, plan.time))
        else:
            flights = _flights((asked["flights"], asked["test"], asked["set"]))
        _warm_up(asked["method"])
        return _METHODS[asked["method"]](flights, asked)

    return measure


def auc(normal: Floats, abnormal: Floats) -> float:
    """Chance that an abnormal flight scores below a normal one.

    Examples
    --------
    >>> auc(np.array([-1.0, -2.0]), np.array([-3.0, -1.5]))
    0.75
    """
    scores = np.concatenate([normal, abnormal])
    scores = np.maximum(scores, -1e300)  # what is impossible is below all else
    return float(roc_auc_score(np.arange(len(scores)) >= len(normal), -scores))


def normalised(log_prob: Floats, flights: Sequences) -> Floats:
    """Log-likelihood a symbol of each flight, of those symbols that are known."""
    known = np.add.reduceat((flights.codes >= 0).astype(np.int64), flights.offsets[:-1])
    return log_prob / np.maximum(known, 1)


def _judged(score: Callable[[Sequences], Floats], flights: Flights) -> dict[str, Any]:
    """AUC, scores, and held-out log-likelihood a symbol of the normal test flights."""
    log_prob = score(flights.normal)
    normal = normalised(log_prob, flights.normal)
    abnormal = normalised(score(flights.abnormal), flights.abnormal)
    known = int((flights.normal.codes >= 0).sum())
    return {
        "auc": auc(normal, abnormal),
        "heldout": float(log_prob.sum()) / known,
        "normal": _plain(normal),
        "abnormal": _plain(abnormal),
    }


def _plain(scores: Floats) -> list[float]:
    return [float(s) for s in np.maximum(scores, -1e300).tolist()]  # JSON has no infinity


def _spectral(flights: Flights, asked: dict[str, Any], **options: Any) -> dict[str, Any]:
    model = SpectralHSMM(*asked["size"], n_jobs=asked["n_jobs"], **options)
    before = _reset_peak()
    began, wall = time.process_time(), time.perf_counter()
    model.fit(flights.train)
    seconds, wall = time.process_time() - began, time.perf_counter() - wall
    memory = None if before is None else _status("VmHWM") - before
    about = {"seconds": seconds, "wall": wall, "memory_mb": memory, "rank": model.rank_}
    return {**about, "window": list(model.window_), **_judged(model.score_samples, flights)}


def _pooled(flights: Flights, asked: dict[str, Any]) -> dict[str, Any]:
    return _spectral(flights, asked, algorithm="pooled")


def _em(flights: Flights, asked: dict[str, Any]) -> dict[str, Any]:
    """Plain EM, with what it has reached at some iterations on the way."""
    (n_x, n_d), n_jobs = asked["size"], asked["n_jobs"]
    n_o = flights.train.n_symbols
    coded = Flights(*(_as_codes(s) for s in (flights.train, flights.normal, flights.abnormal)))
    watched = {1, 2, 3, *range(5, 20, 5), *range(20, 100_000, 10)}
    path: list[tuple[int, float, float, float]] = []
    spent, since, wall = 0.0, time.process_time(), time.perf_counter()

    def note(iteration: int, _: float, params: Params) -> None:
        nonlocal spent, since
        spent += time.process_time() - since  # scoring is not part of learning
        if iteration in watched:
            found = _judged(params.log_prob, coded)
            path.append((iteration, spent, found["heldout"], found["auc"]))
        since = time.process_time()

    start = Params.random(n_x, n_d, n_o, rng=asked.get("set", 0))
    found = run_em(
        start,
        coded.train,
        max_iter=asked["iterations"],
        tol=1e-8,
        accelerate=False,
        n_jobs=n_jobs,
        callback=note,
    )
    seconds, wall = spent + time.process_time() - since, time.perf_counter() - wall
    answer = {"seconds": seconds, "wall": wall, "passes": found.n_passes, "path": path}
    answer |= {"per_pass": seconds / found.n_passes, "converged": found.converged}
    return {**answer, **_judged(found.params.log_prob, coded)}


def _as_codes(flights: Sequences) -> Sequences:
    """The same flights with numbers for symbols, as `Params` has them."""
    return Sequences(flights.codes, flights.offsets, np.arange(flights.n_symbols), flights.ids)


def _detector(flights: Flights, asked: dict[str, Any]) -> dict[str, Any]:
    began, wall = time.process_time(), time.perf_counter()
    train = flights.train[: asked["most"]]
    detector = AnomalyDetector(SpectralHSMM(*asked["size"], n_jobs=asked["n_jobs"])).fit(train)
    seconds, wall = time.process_time() - began, time.perf_counter() - wall
    normal = detector.score_samples(flights.normal)
    abnormal = detector.score_samples(flights.abnormal)
    scores = {"normal": _plain(normal), "abnormal": _plain(abnormal)}
    return {"seconds": seconds, "wall": wall, "auc": auc(normal, abnormal), **scores}


_METHODS: dict[str, Callable[[Flights, dict[str, Any]], dict[str, Any]]] = {
    "spectral": _spectral,
    "pooled": _pooled,
    "em": _em,
    "detector": _detector,
}


@lru_cache(maxsize=1)  # a set is large, and its cells follow one another
def _flights(source: tuple[Any, ...]) -> Flights:
    return recorded(*source) if isinstance(source[0], str) else simulated(*source)


@cache
def _warm_up(method: str) -> None:
    """Run a method on next to nothing, so that loading its kernels is not timed."""
    asked = {"method": method, "size": [4, 6], "iterations": 2, "most": 40, "n_jobs": 1}
    _METHODS[method](simulated(40, 5, 0), asked)


def _status(name: str) -> float:
    """A line of this process's status on Linux, in MB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) / 1024
    return float("nan")


def _reset_peak() -> float | None:
    """Make the present memory the highest so far, and give it; None where that is not possible."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
        return _status("VmRSS")
    except OSError:
        return None
