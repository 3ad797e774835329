"""Maximum likelihood by expectation-maximisation: quasi-Newton steps, EM steps, never downhill.

One E-step at a point gives its likelihood, the gradient and the next EM step, so a trial point that
turns out better costs nothing extra: its E-step is the next one. A trial that is no better is
dropped for the plain EM step, which cannot be worse, and still teaches the curvature.

What is maximised is the log-likelihood plus ``pseudocount`` times the sum of the logarithms of all
possible entries of the tables, rows that follow a duration law excepted. Entries that are zero at
the start stay zero.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sojourn.data.sequences import Sequences
from sojourn.em.durations import laws_of
from sojourn.em.lbfgs import Curvature, Local, moved, survey
from sojourn.em.mstep import (
    Model,
    Weights,
    initial_law,
    log_prior,
    m_step,
    maximise,
    on_laws,
    weigh,
)
from sojourn.errors import SojournError
from sojourn.exact.expected_counts import Counting, expected_counts_each
from sojourn.exact.params import Params
from sojourn.scale.passes import Parts

__all__ = ["EMResult", "m_step", "run_em"]

Floats = NDArray[np.float64]
Codes = NDArray[np.int32]

# By how much, relative to the objective, an EM step may seem to fall.
_ROUNDING = 1e-9

Callback = Callable[[int, float, Params], object]
State = dict[str, Any]  # of a climb between two passes, in numbers, arrays and Params


@dataclass(frozen=True, eq=False)
class EMResult:
    """The best model that EM found, and how it got there.

    Attributes
    ----------
    params : Params
        The model.
    initial : ndarray, shape (n_states, max_duration), or None
        Law of the first state and the steps it has left, where stays may begin before a sequence.
    history : list of float
        What is maximised, at the start and after each accepted step; it never falls.
    log_likelihood : float
        Of the sequences under the model, without pseudo-counts.
    n_passes : float
        Passes over the data, those of rejected steps included.
    converged : bool
        Whether the last gain, and what seemed left to gain, were below the tolerance.

    Examples
    --------
    >>> p = Params.random(2, 2, 3, rng=0)
    >>> result = run_em(p, p.sample(20, 30, rng=1), max_iter=3, n_jobs=1)
    >>> result.n_passes, result.converged
    (3.0, False)
    """

    params: Params
    initial: Floats | None
    history: list[float]
    log_likelihood: float
    n_passes: float
    converged: bool


@dataclass(frozen=True, eq=False)
class _Point:
    """A model, what the data expect of it, and what is maximised there."""

    model: Model
    weights: Weights
    log_likelihood: float
    objective: float

    @cached_property
    def local(self) -> Local:
        return survey(self.model, self.weights)


def run_em(
    params: Params,
    sequences: Sequences | Parts,
    *,
    max_iter: int = 500,
    tol: float = 1e-6,
    pseudocount: float = 0.0,
    durations: str | Sequence[str] = "free",
    left_censored: bool = False,
    labels: Codes | None = None,
    n_jobs: int | None = None,
    accelerate: bool = True,
    callback: Callback | None = None,
    save: Callable[[State], object] | None = None,
    state: State | None = None,
) -> EMResult:
    """Climb from a model to a maximum of the likelihood of the sequences.

    Parameters
    ----------
    params : Params
        Where to start; what is zero there stays zero.
    sequences : Sequences or Parts
        Codes below ``params.n_symbols``, or -1 where missing; in memory, or in partitions of known
        sizes that each pass reads again.
    max_iter : int
        Most passes over the data.
    tol : float
        Stop when an EM step gains less than this a symbol and, by the curvature met so far, there
        is no more than that left to gain.
    pseudocount : float
        Added to the expected count of every entry that is possible.
    durations : str or sequence of str
        The law of the durations: "free", "geometric", "poisson", "negative_binomial" or
        "lognormal"; one for all states, or one for each.
    left_censored : bool
        Whether the first stay may have begun before its sequence.
    labels : ndarray of int32, shape (n_total,), optional
        The state at every step where it is known, -1 where not.
    n_jobs : int or None
        Number of threads; the result is the same to the bit for any of them.
    accelerate : bool
        Extrapolate the EM steps; if not, take them one by one.
    callback : callable, optional
        ``callback(iteration, objective, params)`` after each accepted step.
    save : callable, optional
        Given the state of the climb after each pass.
    state : dict, optional
        Such a state of a climb from the same start over the same data, to go on from.

    Returns
    -------
    EMResult
        After a keyboard interrupt, the best so far.

    Examples
    --------
    >>> truth = Params.random(2, 2, 3, rng=0)
    >>> seqs = truth.sample(100, 30, rng=1)
    >>> result = run_em(Params.random(2, 2, 3, rng=2), seqs, n_jobs=1)
    >>> result.converged, result.log_likelihood > float(truth.log_prob(seqs).sum())
    (True, True)
    """
    if not pseudocount >= 0.0:
        raise SojournError(f"pseudocount is {pseudocount!r}; expected a number of at least 0")
    if max_iter < 1:
        raise SojournError(f"max_iter is {max_iter!r}; expected at least 1")
    model = on_laws(params, laws_of(durations, params.n_states))
    parts = Parts.of(sequences, n_jobs) if isinstance(sequences, Sequences) else sequences
    if isinstance(sequences, Sequences):
        labels = _checked(labels, sequences, params.n_states)
    passes = 0

    def evaluate(model: Model) -> _Point:
        nonlocal passes
        passes += 1
        initial = initial_law(model.params) if left_censored else None
        counting = Counting(model.params, initial, labels)
        counts = counting.finished(parts.reduced(counting.stretch, counting.joined))
        return _Point(
            model,
            weigh(counts, model, pseudocount, left_censored),
            counts.log_likelihood,
            counts.log_likelihood + log_prior(model, pseudocount),
        )

    curvature = Curvature()
    step: Floats | None = None  # None stands for an EM step, which alone may end the climb
    converged = left_out = False
    if state is None:
        point = evaluate(model)
        history = [point.objective]
    else:
        point, history, step = _recalled(state, model.laws, curvature)
        passes, converged, left_out = state["passes"], state["converged"], state["left_out"]
    if point.objective == -np.inf or left_out:
        kept, labels = _possible(model.params, sequences, left_censored, labels, n_jobs)
        parts = Parts.of(kept, n_jobs)
        if not left_out:
            point = evaluate(model)
            history, left_out = [point.objective], True
    enough = tol * parts.n_total

    def note() -> None:
        if save is not None:
            save(_noted(point, history, curvature, step, passes, converged, left_out))

    if state is None:
        note()
    try:
        while passes < max_iter and not converged:
            if step is not None:
                trial = evaluate(moved(point.model, step))
                gain = trial.objective - point.objective
                curvature.judge(point.local, step, gain)
                if gain > -np.inf:
                    curvature.learn(point.local, trial.local)
                if not gain > 0.0:
                    step = None
                    note()
                    continue
            else:
                trial = evaluate(maximise(point.weights, point.model))
                gain = trial.objective - point.objective
                if accelerate:
                    curvature.learn(point.local, trial.local)
            if gain >= 0.0:  # an EM step falls by rounding alone
                point = trial
                history.append(point.objective)
            following = curvature.step(point.local) if accelerate else None
            if step is None:
                converged = gain <= 0.0 or max(gain, curvature.promise) < enough
                if gain < 0.0:
                    converged = gain >= -_ROUNDING * (1.0 + abs(point.objective))
                    note()
                    break
            elif gain < enough:
                following = None
            step = following
            note()
            if gain >= 0.0 and callback is not None:
                callback(len(history) - 1, point.objective, point.model.params)
    except KeyboardInterrupt:
        converged = False
    params = point.model.params
    return EMResult(
        params=params,
        initial=initial_law(params) if left_censored else None,
        history=history,
        log_likelihood=point.log_likelihood,
        n_passes=float(passes),
        converged=converged,
    )


def _checked(labels: Codes | None, sequences: Sequences, n_states: int) -> Codes | None:
    """The labels, or None where there are none."""
    if labels is None:
        return None
    labels = np.ascontiguousarray(labels, dtype=np.int32)
    if labels.shape != sequences.codes.shape:
        raise SojournError(
            f"there are {labels.size} labels for {sequences.n_total} symbols; give one a step, "
            f"-1 where the state is not known"
        )
    if labels.size and not -1 <= labels.min() <= labels.max() < n_states:
        raise SojournError(
            f"labels lie in {labels.min()} ... {labels.max()}; expected states 0 ... "
            f"{n_states - 1}, or -1 where the state is not known"
        )
    return labels if np.any(labels >= 0) else None


def _noted(
    point: _Point,
    history: list[float],
    curvature: Curvature,
    step: Floats | None,
    passes: int,
    converged: bool,
    left_out: bool,
) -> State:
    """All that the next pass depends on."""
    w = point.weights
    return {
        "params": point.model.params,
        "theta": point.model.theta,
        "weights": [w.start, w.transition, w.duration, w.emission, w.size_biased],
        "log_likelihood": point.log_likelihood,
        "objective": point.objective,
        "history": np.array(history),
        "pairs": np.array(curvature.pairs),
        "radius": float(curvature.radius),
        "promise": float(curvature.promise),
        "step": step,
        "passes": passes,
        "converged": bool(converged),
        "left_out": left_out,
    }


def _recalled(
    state: State, laws: tuple[str, ...], curvature: Curvature
) -> tuple[_Point, list[float], Floats | None]:
    """What `_noted` was given."""
    model = Model(state["params"], state["theta"], laws)
    weights = Weights(*state["weights"])
    curvature.pairs.extend((step, fall) for step, fall in state["pairs"])
    curvature.radius, curvature.promise = state["radius"], state["promise"]
    point = _Point(model, weights, state["log_likelihood"], state["objective"])
    return point, state["history"].tolist(), state["step"]


def _possible(
    params: Params,
    sequences: Sequences | Parts,
    left_censored: bool,
    labels: Codes | None,
    n_jobs: int | None,
) -> tuple[Sequences, Codes | None]:
    """The sequences, and labels, that the model can produce; a warning if some are left out."""
    if isinstance(sequences, Parts):
        raise SojournError(
            "some sequences cannot be produced by the model to start from; give small "
            "probabilities where it has zeros, or leave such sequences out of the files"
        )
    initial = initial_law(params) if left_censored else None
    possible = np.empty(len(sequences), dtype=bool)
    for first in range(0, len(sequences), 256):  # counts of each sequence take room
        part = sequences[first : first + 256]
        known = None
        if labels is not None:
            at = sequences.offsets[first]
            known = labels[at : at + part.n_total]
        each = expected_counts_each(params, part, initial, known, n_jobs)
        possible[first : first + 256] = [np.isfinite(one.log_likelihood) for one in each]
    out = sequences.ids[~possible]
    if not possible.any():
        raise SojournError(
            f"the model to start from can produce none of the {len(out)} sequences, the first "
            f"being {out[0].item()!r}; give small probabilities where it has zeros"
        )
    warnings.warn(
        f"{len(out)} of {len(sequences)} sequences cannot be produced by the model to start from "
        f"and are left out, the first being {out[0].item()!r}",
        stacklevel=3,
    )
    if labels is not None:
        labels = labels[np.repeat(possible, sequences.lengths)]
    return sequences[possible], labels
