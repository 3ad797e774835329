"""What EM maximises at each step, and its maximum: a model from expected counts.

The expected log-likelihood of everything hidden and seen is a sum over the rows of the tables,
Σ w log p, with the expected counts as weights w. Pseudo-counts add to the weights; duration rows of
a parametric family get none, since one or two parameters need no smoothing. Those of a free row are
as many as for five durations, spread evenly over longer rows: else a larger `max_duration` alone
would lower what is maximised, by more than a few longer stays can gain.

Where the first stay may have begun before its sequence, the first state is drawn from ``start`` and
the sequence begins at a random step of its stay, with r steps left with probability P(D >= r) /
E[D]. The full duration d of that stay is then one more hidden quantity. It is length-biased, d p(d)
/ E[D], and all its steps are equally likely to be the first seen; so given r it is d >= r with
probability p(d) / P(D >= r), and -N log E[D] joins the sum for N such stays (see `durations`).
Such a stay may have been held in its tail before the sequence began, tail / (1 - tail) times on
average.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sojourn.em.durations import (
    FAMILIES,
    LONGEST_TAIL,
    NO_COUNTS,
    fit_free,
    fit_tail,
    residual,
)
from sojourn.exact.expected_counts import ExpectedCounts
from sojourn.exact.params import Params

Floats = NDArray[np.float64]

# Durations that pseudo-counts are added for, at most.
SMOOTHED_STEPS = 5


@dataclass(frozen=True, eq=False)
class Weights:
    """The weight of each entry's logarithm in what the M-step maximises; tables as in `Model.rows`.

    ``length_biased`` is the part of a duration row's weight that belongs to length-biased stays, N
    above.
    """

    start: Floats  # (1, n_x)
    transition: Floats
    duration: Floats
    emission: Floats
    tail: Floats  # held, counting down                                       (n_x, 2)
    end: Floats  # ends, continues                                            (n_x, 2)
    empty: Floats  # without symbols, with some                               (1, 2)
    length_biased: Floats  # (n_x,)
    statistics: Floats | None = None  # of the density, where observations are numbers

    @property
    def tables(self) -> list[Floats]:
        """All but the last two."""
        return [getattr(self, field.name) for field in fields(self)[:-2]]


def of_rows(rows: Sequence[Floats], before: Params) -> Params:
    """The model of such tables, with ends if the one before it has some."""
    start, transition, duration, emission, tail, end, empty = rows
    return Params(
        start[0],
        transition,
        duration,
        emission,
        tail=np.minimum(tail[:, 0], LONGEST_TAIL),
        end=end[:, 0] if before.ends else None,
        empty=min(float(empty[0, 0]), LONGEST_TAIL),
        density=before.density,
    )


@dataclass(frozen=True, eq=False)
class Model:
    """Tables, and the parameters of the duration rows of parametric families.

    ``theta`` has one row per state, zero where its family has fewer than two parameters or none.
    """

    params: Params
    theta: Floats
    families: tuple[str, ...]

    @cached_property
    def rows(self) -> list[Floats]:
        """The tables, each as rows that sum to one; in the order of `Weights`."""
        p = self.params
        end = np.zeros(p.n_states) if p.end is None else p.end
        pairs = [np.array([each, 1.0 - each]).T for each in (p.tail, end, np.array([p.empty]))]
        return [p.start[None], p.transition, p.duration, p.emission, *pairs]

    @cached_property
    def smoothed(self) -> list[Floats]:
        """Where each row may have more than zero: the pseudo-counts, as a share of those given."""
        shares = [np.asarray(rows > 0.0, np.float64) for rows in self.rows]
        each = min(1.0, SMOOTHED_STEPS / self.params.max_duration)
        shares[2] *= [[each * (name == "free")] for name in self.families]
        return shares


def on_families(params: Params, families: tuple[str, ...]) -> Model:
    """The model with each duration row replaced by the nearest member of its family."""
    theta = np.zeros((params.n_states, 2))
    duration = params.duration.copy()
    for x, name in enumerate(families):
        if name != "free":
            best = FAMILIES[name].best(duration[x], 0.0, duration[x] > 0.0)
            duration[x] = FAMILIES[name].row(best, duration[x] > 0.0)
            theta[x, : len(best)] = best
    if all(name == "free" for name in families):
        return Model(params, theta, families)
    return Model(replace(params, duration=duration), theta, families)


def weigh(counts: ExpectedCounts, model: Model, pseudocount: float, left_censored: bool) -> Weights:
    """The weights that expected counts under a model stand for."""
    params = model.params
    n_x, first, tail = params.n_states, counts.initial, counts.tail
    length_biased = np.zeros(n_x)
    if left_censored:
        first, length_biased = _full_stays(counts.initial, params.duration), counts.start
        # Those whose tail was over when the sequence began, and those that were in it.
        over, within = first[:, -1] - counts.initial[:, -1], first[:, -1]
        tail = tail + np.stack([within * params.steps_beyond, over], axis=1)
    expected = [
        counts.start[None],
        counts.transition,
        counts.duration + first,
        counts.emission,
        tail,
        np.stack([counts.end, counts.transition.sum(axis=1)], axis=1),
        np.array([[counts.n_empty, counts.initial.sum()]]),
    ]
    tables = [w + pseudocount * share for w, share in zip(expected, model.smoothed, strict=True)]
    return replace(Weights(*[*tables, length_biased]), statistics=counts.statistics)


def maximise(weights: Weights, model: Model) -> Model:
    """The model at which the weights have their maximum; rows without weight stay as they are."""
    before = model.params
    theta, duration, tail = model.theta.copy(), before.duration.copy(), before.tail.copy()
    for x, name in enumerate(model.families):
        w, biased = weights.duration[x], float(weights.length_biased[x])
        beyond = float(before.steps_beyond[x])
        if w.sum() > NO_COUNTS and name == "free":
            duration[x] = fit_free(w, biased, beyond)
        elif w.sum() > NO_COUNTS:
            family, allowed = FAMILIES[name], before.duration[x] > 0.0
            k = len(family.box(before.max_duration))
            theta[x, :k] = family.best(w, biased, allowed, near=theta[x, :k], beyond=beyond)
            duration[x] = family.row(theta[x, :k], allowed)
        if tail[x] > 0.0:
            held, down = weights.tail[x]
            tail[x] = fit_tail(held, down, biased, duration[x], tail[x])
    tables = [_normalised(w, p) for w, p in zip(weights.tables, model.rows, strict=True)]
    tables[2], tables[4] = duration, np.stack([tail, 1.0 - tail], axis=1)
    params = of_rows(tables, before)
    if params.density is not None and weights.statistics is not None:
        params = replace(params, density=params.density.updated(weights.statistics))
    return Model(params, theta, model.families)


def m_step(
    counts: ExpectedCounts,
    params: Params,
    pseudocount: float = 0.0,
    families: Sequence[str] | None = None,
    left_censored: bool = False,
) -> Params:
    """The model that maximises the expected log-likelihood that the counts stand for."""
    names = ("free",) * params.n_states if families is None else tuple(families)
    model = on_families(params, names)
    return maximise(weigh(counts, model, pseudocount, left_censored), model).params


def log_prior(model: Model, pseudocount: float) -> float:
    """What pseudo-counts and shrinkage add to the log-likelihood, up to a constant."""
    density = model.params.density
    own = 0.0 if density is None else density.log_prior()
    if pseudocount == 0.0:
        return own
    total = 0.0
    for p, share in zip(model.rows, model.smoothed, strict=True):
        total += float((share * np.log(np.where(p > 0.0, p, 1.0))).sum())
    return pseudocount * total + own


def initial_distribution(params: Params) -> Floats:
    """p(first state, steps left) where a sequence begins at a random step of its first stay."""
    return params.start[:, None] * residual(params.duration, params.tail)


def _full_stays(initial: Floats, duration: Floats) -> Floats:
    """Expected full durations of stays of which r steps were left: p(d | r) = p(d) / P(D >= r)."""
    survivor = np.cumsum(duration[:, ::-1], axis=1)[:, ::-1]
    share = np.divide(initial, survivor, out=np.zeros_like(initial), where=survivor > 0.0)
    return duration * np.cumsum(share, axis=1)


def _normalised(weights: Floats, before: Floats) -> Floats:
    """Rows of weights as probabilities; those with none stay as they were."""
    sums = weights.sum(axis=1, keepdims=True)
    seen = sums > NO_COUNTS
    return np.where(seen, weights / np.where(seen, sums, 1.0), before)
