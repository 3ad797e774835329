"""Expectation-maximisation with L-BFGS acceleration; what is maximised never decreases.

An E-step at a model gives its likelihood, the gradient and, by the M-step, the next model. An
accelerated step takes the place of the M-step where the curvature met so far promises more. Its
E-step is needed in any case if it is better; if not, it is dropped for the plain M-step, which
cannot be worse, and still teaches the curvature. Near a saddle, curvature learned on the way there
promises nothing. So where there seems to be no more to gain, two plain steps are taken, which leave
the slowest direction, and the curvature along the second must not promise more either.

What is maximised is the log-likelihood plus ``pseudocount`` times the sum of the logarithms of all
possible entries of the tables, duration rows of a parametric family excepted. Entries that are zero
at the start stay zero.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from sojourn.data.sequences import Sequences
from sojourn.em.durations import families_of
from sojourn.em.lbfgs import Curvature, Point, dot, moved
from sojourn.em.mstep import (
    Model,
    Weights,
    initial_distribution,
    log_prior,
    maximise,
    on_families,
    weigh,
)
from sojourn.errors import SojournError
from sojourn.exact.expected_counts import expected_counts
from sojourn.exact.forward import log_prob
from sojourn.exact.layout import Rooms
from sojourn.exact.params import Params
from sojourn.scale.passes import Partitions

Floats = NDArray[np.float64]
Codes = NDArray[np.int32]

# By how much, relative to the objective, an EM step may fall by rounding.
_ROUNDING = 1e-9

Callback = Callable[[int, float, Params], object]
State = dict[str, Any]  # of EM between two passes, in numbers, arrays and Params


@dataclass(frozen=True, eq=False)
class EMResult:
    """The best model that EM found, and how it got there."""

    params: Params  # the model
    # joint distribution of the first state and the steps it has left, where stays may begin
    # before a sequence  (n_states, max_duration)
    initial: Floats | None
    # what is maximised, at the start and after each accepted step; it never falls
    history: list[float]
    log_likelihood: float  # of the sequences under the model, without pseudo-counts
    n_passes: float  # passes over the data, those of rejected steps included
    converged: bool  # whether the last gain, and what seemed left to gain, were below the tolerance


class _Objective(NamedTuple):
    """What is maximised, beside the data."""

    pseudocount: float
    left_censored: bool
    n_jobs: int | None
    rooms: Rooms | None  # of the passes over sequences in memory


@dataclass(eq=False)
class _Run:
    """The variables of the loop: all that the next pass depends on, and so what is saved."""

    point: Point
    history: list[float]
    passes: int
    step: Floats | None = None  # the accelerated step to try next; None for an EM step
    converged: bool = False
    left_out: bool = False  # whether impossible sequences were
    curvature: Curvature = field(default_factory=Curvature)
    fresh: float = -np.inf  # what was reached when the curvature was last learned anew

    def state(self) -> State:
        """The same in numbers, arrays and Params."""
        return {
            "params": self.point.model.params,
            "theta": self.point.model.theta,
            "weights": [*self.point.weights],
            "log_likelihood": self.point.log_likelihood,
            "objective": self.point.objective,
            "history": np.array(self.history),
            "pairs": np.array([pair[:2] for pair in self.curvature.pairs]),
            "radius": float(self.curvature.radius),
            "promise": float(self.curvature.promise),
            "fresh": float(self.fresh),
            "step": self.step,
            "passes": self.passes,
            "converged": bool(self.converged),
            "left_out": self.left_out,
        }

    @classmethod
    def of(cls, state: State, families: tuple[str, ...]) -> Self:
        """The variables that `state` was made of."""
        model = Model(state["params"], state["theta"], families)
        weights = Weights(*state["weights"])
        point = Point(model, weights, state["log_likelihood"], state["objective"])
        curvature = Curvature()
        curvature.pairs.extend((step, fall, dot(step, fall)) for step, fall in state["pairs"])
        curvature.radius, curvature.promise = state["radius"], state["promise"]
        flags = (state["step"], state["converged"], state["left_out"])
        learned = (curvature, state["fresh"])
        return cls(point, state["history"].tolist(), state["passes"], *flags, *learned)


def run_em(
    params: Params,
    data: Sequences | Partitions,
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
    """Run EM from a model to a local optimum of the likelihood of the sequences."""
    if not pseudocount >= 0.0:
        raise SojournError(f"pseudocount is {pseudocount!r}; expected a number of at least 0")
    if max_iter < 1:
        raise SojournError(f"max_iter is {max_iter!r}; expected at least 1")
    model = on_families(params, families_of(durations, params.n_states))
    if isinstance(data, Sequences):
        labels = _checked(labels, data, params.n_states)
    rooms = Rooms(data.offsets, params) if isinstance(data, Sequences) else None
    objective = _Objective(pseudocount, left_censored, n_jobs, rooms)
    if state is None:
        point = _e_step(model, data, labels, objective)
        run = _Run(point, [point.objective], passes=1)
    else:
        run = _Run.of(state, model.families)
    if run.left_out or run.point.objective == -np.inf:
        data, labels = _possible(model.params, data, left_censored, labels, n_jobs)
        objective = objective._replace(rooms=Rooms(data.offsets, params))
        if not run.left_out:
            point = _e_step(model, data, labels, objective)
            run = _Run(point, [point.objective], passes=2, left_out=True)
    if save is not None and state is None:
        save(run.state())
    enough = tol * data.n_total
    accelerate = accelerate and params.density is None  # it moves tables, not densities
    while run.passes < max_iter and not run.converged:
        here, step = run.point, run.step
        model = maximise(here.weights, here.model) if step is None else moved(here.model, step)
        there = _e_step(model, data, labels, objective)
        run.passes += 1
        gain = there.objective - here.objective
        accepted = gain >= 0.0 if step is None else gain > 0.0
        if accepted:
            run.point = there
            run.history.append(there.objective)
        if accelerate:
            run.step = run.curvature.next_step(here, there, step, enough)
        if step is None:  # an EM step alone shows that there is no more to gain
            fell = gain < -_ROUNDING * (1.0 + abs(here.objective))
            small = gain <= 0.0 or max(gain, run.curvature.promise) < enough
            again = gain > 0.0 and accelerate and there.objective > run.fresh + enough
            run.converged = small and not fell and not again
            if small and again:
                run.curvature, run.fresh, run.step = Curvature(), there.objective, None
        if save is not None:
            save(run.state())
        if accepted and callback is not None:
            callback(len(run.history) - 1, there.objective, there.model.params)
        if step is None and not accepted:
            break  # an EM step falls by rounding alone
    params = run.point.model.params
    return EMResult(
        params=params,
        initial=initial_distribution(params) if left_censored else None,
        history=run.history,
        log_likelihood=run.point.log_likelihood,
        n_passes=float(run.passes),
        converged=run.converged,
    )


def _e_step(
    model: Model, data: Sequences | Partitions, labels: Codes | None, objective: _Objective
) -> Point:
    """What the data expect of a model: weights for the M-step, and what is maximised."""
    pseudocount, left_censored, n_jobs, rooms = objective
    initial = initial_distribution(model.params) if left_censored else None
    counts = expected_counts(model.params, data, initial, labels, n_jobs, rooms)
    return Point(
        model,
        weigh(counts, model, pseudocount, left_censored),
        counts.log_likelihood,
        counts.log_likelihood + log_prior(model, pseudocount),
    )


def _checked(labels: Codes | None, sequences: Sequences, n_states: int) -> Codes | None:
    """The labels, or None where there are none."""
    if labels is None:
        return None
    labels = np.ascontiguousarray(labels, dtype=np.int32)
    if labels.shape != sequences.codes.shape:
        raise SojournError(
            f"there are {labels.size} labels for {sequences.n_total} symbols; give one for each "
            f"step, -1 where the state is not known"
        )
    if labels.size and not -1 <= labels.min() <= labels.max() < n_states:
        raise SojournError(
            f"labels lie in {labels.min()} ... {labels.max()}; expected states 0 ... "
            f"{n_states - 1}, or -1 where the state is not known"
        )
    return labels if np.any(labels >= 0) else None


def _possible(
    params: Params,
    data: Sequences | Partitions,
    left_censored: bool,
    labels: Codes | None,
    n_jobs: int | None,
) -> tuple[Sequences, Codes | None]:
    """The sequences, and labels, that the model can produce; a warning if some are left out."""
    if isinstance(data, Partitions):
        raise SojournError(
            "some sequences cannot be produced by the model to start from; give small "
            "probabilities where it has zeros, or leave such sequences out of the files"
        )
    initial = initial_distribution(params) if left_censored else None
    possible = np.isfinite(log_prob(params, data, initial, n_jobs, labels))
    out = data.ids[~possible]
    if not possible.any():
        raise SojournError(
            f"the model to start from can produce none of the {len(out)} sequences, the first "
            f"being {out[0].item()!r}; give small probabilities where it has zeros"
        )
    warnings.warn(
        f"{len(out)} of {len(data)} sequences cannot be produced by the model to start from "
        f"and are left out, the first being {out[0].item()!r}",
        stacklevel=3,
    )
    if labels is not None:
        labels = labels[np.repeat(possible, data.lengths)]
    return data[possible], labels
