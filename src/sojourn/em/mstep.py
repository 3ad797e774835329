"""What EM maximises at each step, and its maximum: a model from expected counts.

The expected log-likelihood of everything hidden and seen is a sum over the rows of the tables,
Σ w log p, with the expected counts as weights w. Pseudo-counts add to the weights; duration rows of
a parametric family get none, since one or two parameters need no smoothing.

Where the first stay may have begun before its sequence, the first state is drawn from ``start`` and
the sequence begins at a random step of its stay, with r steps left with probability P(D >= r) /
E[D]. The full duration d of that stay is then one more hidden quantity. It is length-biased, d p(d)
/ E[D], and all its steps are equally likely to be the first seen; so given r it is d >= r with
probability p(d) / P(D >= r), and -N log E[D] joins the sum for N such stays (see `durations`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sojourn.em.durations import FAMILIES, NO_COUNTS, fit_free, residual
from sojourn.exact.expected_counts import ExpectedCounts
from sojourn.exact.params import Params

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Weights:
    """The weight of each entry's logarithm in what the M-step maximises.

    ``length_biased`` is the part of a duration row's weight that belongs to length-biased stays, N
    above.
    """

    start: Floats
    transition: Floats
    duration: Floats
    emission: Floats
    length_biased: Floats


@dataclass(frozen=True, eq=False)
class Model:
    """Tables, and the parameters of the duration rows of parametric families.

    ``theta`` has one row per state, zero where its family has fewer than two parameters or none.
    """

    params: Params
    theta: Floats
    families: tuple[str, ...]


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
    fitted = Params(params.start, params.transition, duration, params.emission)
    return Model(fitted, theta, families)


def weigh(counts: ExpectedCounts, model: Model, pseudocount: float, left_censored: bool) -> Weights:
    """The weights that expected counts under a model stand for."""
    params = model.params
    free = np.array([[name == "free"] for name in model.families])
    if left_censored:
        first, length_biased = _full_stays(counts.initial, params.duration), counts.start
    else:
        first, length_biased = counts.initial, np.zeros(params.n_states)
    return Weights(
        start=counts.start + pseudocount * (params.start > 0.0),
        transition=counts.transition + pseudocount * (params.transition > 0.0),
        duration=counts.duration + first + pseudocount * (free & (params.duration > 0.0)),
        emission=counts.emission + pseudocount * (params.emission > 0.0),
        length_biased=length_biased,
    )


def maximise(weights: Weights, model: Model) -> Model:
    """The model at which the weights have their maximum; rows without weight stay as they are."""
    before = model.params
    theta, duration = model.theta.copy(), before.duration.copy()
    for x, name in enumerate(model.families):
        w, biased = weights.duration[x], float(weights.length_biased[x])
        if w.sum() <= NO_COUNTS:
            continue
        if name == "free":
            duration[x] = fit_free(w, biased)
        else:
            family, allowed = FAMILIES[name], before.duration[x] > 0.0
            k = len(family.box(before.max_duration))
            theta[x, :k] = family.best(w, biased, allowed, near=theta[x, :k])
            duration[x] = family.row(theta[x, :k], allowed)
    params = Params(
        start=_normalised(weights.start[None], before.start[None])[0],
        transition=_normalised(weights.transition, before.transition),
        duration=duration,
        emission=_normalised(weights.emission, before.emission),
    )
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
    """What the pseudo-counts add to the log-likelihood: Dirichlet densities, up to a constant."""
    if pseudocount == 0.0:
        return 0.0
    params = model.params
    free = np.array([name == "free" for name in model.families])
    tables = (params.start, params.transition, params.duration[free], params.emission)
    return pseudocount * float(sum(np.log(table[table > 0.0]).sum() for table in tables))


def initial_distribution(params: Params) -> Floats:
    """p(first state, steps left) where a sequence begins at a random step of its first stay."""
    return params.start[:, None] * residual(params.duration)


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
