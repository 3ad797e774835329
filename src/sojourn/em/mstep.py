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

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import accumulate, pairwise
from typing import NamedTuple

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
from sojourn.exact.params import LEAST, Params

Floats = NDArray[np.float64]

# Durations that pseudo-counts are added for, at most.
SMOOTHED_STEPS = 5


class Layout(NamedTuple):
    """Where tables stand, end to end in one vector: a pass over small ones is mostly calls.

    In this order: start (1, n_x), transition, duration, emission, then pairs that sum to one: tail
    (held, counting down), end (ends, continues), each (n_x, 2), and empty or not (1, 2).
    """

    shapes: tuple[tuple[int, int], ...]
    bounds: tuple[int, ...]
    widths: NDArray[np.int64]  # of each row of each table

    def tables(self, flat: Floats) -> list[Floats]:
        """Views of each table."""
        parts = zip(pairwise(self.bounds), self.shapes, strict=True)
        return [flat[a:b].reshape(shape) for (a, b), shape in parts]

    def sums(self, flat: Floats) -> Floats:
        """For each entry, the sum of its row."""
        sums = [np.add.reduce(table, axis=1) for table in self.tables(flat)]
        return np.repeat(np.concatenate(sums), self.widths)


@lru_cache(maxsize=64)
def layout(n_x: int, n_d: int, n_o: int) -> Layout:
    """The layout of the tables of a model."""
    shapes = ((1, n_x), (n_x, n_x), (n_x, n_d), (n_x, n_o), (n_x, 2), (n_x, 2), (1, 2))
    bounds = tuple(accumulate((a * b for a, b in shapes), initial=0))
    return Layout(shapes, bounds, np.repeat([b for _, b in shapes], [a for a, _ in shapes]))


class Weights(NamedTuple):
    """The weight of each entry's logarithm in what the M-step maximises."""

    flat: Floats  # of the tables, in their `Layout`
    length_biased: Floats  # of a duration row's, what belongs to length-biased stays: N   (n_x,)
    statistics: Floats | None  # of the density, where observations are numbers


@dataclass(frozen=True, eq=False)
class Model:
    """Tables, and the parameters of the duration rows of parametric families.

    ``theta`` has one row per state, zero where its family has fewer than two parameters or none.
    """

    params: Params
    theta: Floats
    families: tuple[str, ...]

    @cached_property
    def layout(self) -> Layout:
        """Where its tables stand in `flat`."""
        return layout(*self.params.duration.shape, self.params.n_symbols)

    @cached_property
    def all_free(self) -> bool:
        """Whether no duration row is of a parametric family."""
        return all(name == "free" for name in self.families)

    @cached_property
    def flat(self) -> Floats:
        """The tables end to end."""
        p, found = self.params, np.empty(self.layout.bounds[-1])
        *tables, tail, end, empty = self.layout.tables(found)
        for table, values in zip(
            tables, (p.start, p.transition, p.duration, p.emission), strict=True
        ):
            table[:] = values
        for pair, value in (tail, p.tail), (end, 0.0 if p.end is None else p.end), (empty, p.empty):
            pair[:, 0] = value
            pair[:, 1] = 1.0 - pair[:, 0]
        return found

    @cached_property
    def smoothed(self) -> Floats:
        """Where each row may have more than zero: the pseudo-counts, as a share of those given."""
        shares = np.asarray(self.flat > 0.0, np.float64)
        each = min(1.0, SMOOTHED_STEPS / self.params.max_duration)
        self.layout.tables(shares)[2][:] *= [[each * (name == "free")] for name in self.families]
        return shares

    def moved_to(self, flat: Floats, theta: Floats) -> Model:
        """The model of other tables, with ends and a density if this one has."""
        start, transition, duration, emission, tail, end, empty = self.layout.tables(flat)
        before = self.params
        tails, ends = (np.where(pair[:, 0] < LEAST, 0.0, pair[:, 0]) for pair in (tail, end))
        params = Params.trusted(
            *(start[0], transition, duration, emission, np.minimum(tails, LONGEST_TAIL)),
            ends if before.ends else None,
            min(float(empty[0, 0]), LONGEST_TAIL),
            before.density,
        )
        return Model(params, theta, self.families)


def on_families(params: Params, families: tuple[str, ...]) -> Model:
    """The model with each duration row replaced by the nearest member of its family."""
    theta = np.zeros((params.n_states, 2))
    duration = params.duration.copy()
    for x, name in enumerate(families):
        if name != "free":
            best = FAMILIES[name].best(duration[x], 0.0, duration[x] > 0.0)
            duration[x] = FAMILIES[name].row(best, duration[x] > 0.0)
            theta[x, : len(best)] = best
    found = Model(params, theta, families)
    return found if found.all_free else replace(found, params=replace(params, duration=duration))


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
    flat = np.empty(model.layout.bounds[-1])
    start, transition, duration, emission, tails, end, empty = model.layout.tables(flat)
    start[0], transition[:], emission[:] = counts.start, counts.transition, counts.emission
    duration[:] = counts.duration + first
    tails[:], end[:, 0], end[:, 1] = tail, counts.end, counts.transition.sum(axis=1)
    empty[0] = counts.n_empty, counts.initial.sum()
    if pseudocount > 0.0:
        flat += pseudocount * model.smoothed
    return Weights(flat, length_biased, counts.statistics)


def maximise(weights: Weights, model: Model) -> Model:
    """The model at which the weights have their maximum; rows without weight stay as they are."""
    before, theta = model.params, model.theta.copy()
    sums = model.layout.sums(weights.flat)
    seen = sums > NO_COUNTS
    flat = np.where(seen, weights.flat / np.where(seen, sums, 1.0), model.flat)
    duration, tail = (model.layout.tables(flat)[i] for i in (2, 4))
    of_durations, of_tails = (model.layout.tables(weights.flat)[i] for i in (2, 4))
    for x, name in enumerate(model.families):
        w, biased = of_durations[x], float(weights.length_biased[x])
        if w.sum() > NO_COUNTS and (name != "free" or biased > 0.0):
            beyond = float(before.steps_beyond[x])
            if name == "free":
                duration[x] = fit_free(w, biased, beyond)
            else:
                family, allowed = FAMILIES[name], before.duration[x] > 0.0
                k = len(family.box(before.max_duration))
                theta[x, :k] = family.best(w, biased, allowed, near=theta[x, :k], beyond=beyond)
                duration[x] = family.row(theta[x, :k], allowed)
        held = before.tail[x]
        if held > 0.0:
            held = fit_tail(of_tails[x, 0], of_tails[x, 1], biased, duration[x], held)
        tail[x, 0] = held
    found = model.moved_to(flat, theta)
    if before.density is not None and weights.statistics is not None:
        density = before.density.updated(weights.statistics)
        found = replace(found, params=replace(found.params, density=density))
    return found


def log_prior(model: Model, pseudocount: float) -> float:
    """What pseudo-counts and shrinkage add to the log-likelihood, up to a constant."""
    density = model.params.density
    own = 0.0 if density is None else density.log_prior()
    if pseudocount == 0.0:
        return own
    terms = model.smoothed * np.log(np.where(model.flat > 0.0, model.flat, 1.0))
    total = sum(float(table.sum()) for table in model.layout.tables(terms))
    return pseudocount * total + own


def initial_distribution(params: Params) -> Floats:
    """p(first state, steps left) where a sequence begins at a random step of its first stay."""
    return params.start[:, None] * residual(params.duration, params.tail)


def _full_stays(initial: Floats, duration: Floats) -> Floats:
    """Expected full durations of stays of which r steps were left: p(d | r) = p(d) / P(D >= r)."""
    survivor = np.cumsum(duration[:, ::-1], axis=1)[:, ::-1]
    share = np.divide(initial, survivor, out=np.zeros_like(initial), where=survivor > 0.0)
    return duration * np.cumsum(share, axis=1)
