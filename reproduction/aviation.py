"""Section 6.2 of the paper: abnormal flights by the likelihood of the pilot's commands.

Models of four sizes are learned from normal flights. Test flights are ranked by their normalised
joint log-likelihood, log p(o_1 … o_T) / T; the area under the ROC curve (AUC) is the quality of
that ranking. Beside it stands the score of `AnomalyDetector`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from reproduction.fits import em_with_path, timed
from reproduction.flights import Flights, recorded, simulated
from reproduction.grid import Cell
from sojourn import AnomalyDetector, Params, Sequences, SpectralHSMM

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
    """What is run; the defaults are the paper's."""

    sets: int = 1  # simulated sets, each with its own training and test flights
    flights: int = 10_020  # training flights per set
    test: int = 100  # normal test flights, and as many abnormal ones
    sizes: tuple[Size, ...] = SIZES
    iterations: int = PAPER_ITERATIONS  # passes of plain EM
    detector_flights: int = 2000  # most training flights for the detector, which fits six models
    data: str | None = None  # a folder of recordings instead of simulations: `flights.recorded`
    id: str = "flight"  # columns of those recordings
    time: str = "time"
    n_jobs: int | None = None  # threads; None for all cores


QUICK = Plan(flights=40, test=20, iterations=5, detector_flights=40)


def cells(plan: Plan) -> list[Cell]:
    """All measurements of a plan, set after set, the fast methods first."""
    found = []
    for number in range(1 if plan.data else plan.sets):
        source: dict[str, Any] = {"set": number, "flights": plan.flights, "test": plan.test}
        if plan.data:
            flights = _recordings(plan)
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
    """The function that measures a cell of a plan."""

    def measure(asked: dict[str, Any]) -> dict[str, Any]:
        if plan.data:
            flights = _recordings(plan)
        else:
            flights = _simulated(asked["flights"], asked["test"], asked["set"])
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
    scores = np.maximum(scores, -1e300)  # an impossible flight scores below all others
    return float(roc_auc_score(np.arange(len(scores)) >= len(normal), -scores))


def normalised(log_prob: Floats, flights: Sequences) -> Floats:
    """Log-likelihood of each flight per observed symbol."""
    return log_prob / np.maximum(flights.n_observed, 1)


def _evaluate(score: Callable[[Sequences], Floats], flights: Flights) -> dict[str, Any]:
    """AUC, scores, and held-out log-likelihood per symbol of the normal test flights."""
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
    with timed() as times:
        model.fit(flights.train)
    memory = None if before is None else _status("VmHWM") - before
    window = list(getattr(model, "window_", ()))  # contexts have none
    about = {**times, "memory_mb": memory, "rank": model.rank_, "window": window}
    return about | _evaluate(model.score_samples, flights)


def _pooled(flights: Flights, asked: dict[str, Any]) -> dict[str, Any]:
    return _spectral(flights, asked, algorithm="pooled")


def _em(flights: Flights, asked: dict[str, Any]) -> dict[str, Any]:
    """Plain EM, with what it has reached at some iterations on the way."""
    coded = Flights(*(_as_codes(s) for s in (flights.train, flights.normal, flights.abnormal)))

    def judge(params: Params) -> tuple[float, float]:
        found = _evaluate(params.log_prob, coded)
        return found["heldout"], found["auc"]

    params, about = em_with_path(
        Params.random(*asked["size"], flights.train.n_symbols, rng=asked.get("set", 0)),
        coded.train,
        judge,
        iterations=asked["iterations"],
        watched={1, 2, 3, *range(5, 20, 5), *range(20, 100_000, 10)},
        n_jobs=asked["n_jobs"],
    )
    about["per_pass"] = about["seconds"] / about["passes"]
    return about | _evaluate(params.log_prob, coded)


def _as_codes(flights: Sequences) -> Sequences:
    """The same flights with codes for symbols, as `Params` has them."""
    return Sequences(flights.codes, flights.offsets, np.arange(flights.n_symbols), flights.ids)


def _detector(flights: Flights, asked: dict[str, Any]) -> dict[str, Any]:
    with timed() as times:
        detector = AnomalyDetector(SpectralHSMM(*asked["size"], n_jobs=asked["n_jobs"]))
        detector.fit(flights.train[: asked["most"]])
    normal, abnormal = (detector.score_samples(s) for s in (flights.normal, flights.abnormal))
    scores = {"normal": _plain(normal), "abnormal": _plain(abnormal)}
    return {**times, "auc": auc(normal, abnormal), **scores}


_METHODS: dict[str, Callable[[Flights, dict[str, Any]], dict[str, Any]]] = {
    "spectral": _spectral,
    "pooled": _pooled,
    "em": _em,
    "detector": _detector,
}


# A set is large, and its cells follow one another.
_simulated = lru_cache(maxsize=1)(simulated)


@lru_cache(maxsize=1)
def _recordings(plan: Plan) -> Flights:
    assert plan.data is not None
    return recorded(plan.data, plan.id, plan.time)


@cache
def _warm_up(method: str) -> None:
    """Run a method on very little data, so that loading its kernels is not timed."""
    asked = {"method": method, "size": [4, 6], "iterations": 2, "most": 20, "n_jobs": 1}
    _METHODS[method](simulated(20, 5, 0), asked)


def _status(name: str) -> float:
    """A line of this process's status on Linux, in MB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) / 1024
    return float("nan")


def _reset_peak() -> float | None:
    """Reset the peak of this process's memory to its present use, in MB; None where impossible."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
        return _status("VmRSS")
    except OSError:
        return None
