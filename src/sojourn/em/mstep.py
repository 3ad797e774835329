"""What EM maximises at each step, and its maximum: a model from expected counts.

The expected log-likelihood of everything hidden and seen is a sum over the rows of the tables,
Σ w log p, with the expected counts as weights w. Pseudo-counts add to the weights; rows that follow
a duration law get none, since a law has one or two parameters and needs no smoothing.

Where the first stay may have begun before its sequence, the first state is drawn from ``start`` and
the sequence meets its stay at a random step: r steps are left with probability P(D >= r) / E[D].
The whole duration d of that stay is then one more hidden quantity. It is met with probability
d p(d) / E[D], and at each of its steps alike, so given r it is d >= r with probability
p(d) / P(D >= r), and -N log E[D] joins the sum for the N stays so met (see `durations`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sojourn.em.durations import LAWS, NO_COUNTS, fit_free, residual
from sojourn.exact.expected_counts import ExpectedCounts
from sojourn.exact.params import Params

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Weights:
    """The weight of each entry's logarithm in what the M-step maximises.

    ``size_biased`` is the part of a duration row's weight that belongs to stays met at a random
    step, N above.
    """

    start: Floats
    transition: Floats
    duration: Floats
    emission: Floats
    size_biased: Floats


@dataclass(frozen=True, eq=False)
class Model:
    """Tables, and the parameters of those duration rows that follow a law.

    ``theta`` has a row for each state, zero where its law has fewer than two parameters or none.
    """

    params: Params
    theta: Floats
    laws: tuple[str, ...]


def on_laws(params: Params, laws: tuple[str, ...]) -> Model:
    """The model with each duration row replaced by the nearest one that follows its law.

    Examples
    --------
    >>> p = Params([1], [[1]], [[0.5, 0.2, 0.3]], [[1]])
    >>> on_laws(p, ("geometric",)).params.duration.round(3)
    array([[0.438, 0.323, 0.238]])
    """
    theta = np.zeros((params.n_states, 2))
    duration = params.duration.copy()
    for x, name in enumerate(laws):
        if name != "free":
            best = LAWS[name].best(duration[x], 0.0, duration[x] > 0.0)
            duration[x] = LAWS[name].row(best, duration[x] > 0.0)
            theta[x, : len(best)] = best
    if all(name == "free" for name in laws):
        return Model(params, theta, laws)
    return Model(Params(params.start, params.transition, duration, params.emission), theta, laws)


def weigh(counts: ExpectedCounts, model: Model, pseudocount: float, left_censored: bool) -> Weights:
    """The weights that expected counts under a model stand for."""
    params = model.params
    free = np.array([[name == "free"] for name in model.laws])
    if left_censored:
        first, size_biased = _whole_stays(counts.initial, params.duration), counts.start
    else:
        first, size_biased = counts.initial, np.zeros(params.n_states)
    return Weights(
        start=counts.start + pseudocount * (params.start > 0.0),
        transition=counts.transition + pseudocount * (params.transition > 0.0),
        duration=counts.duration + first + pseudocount * (free & (params.duration > 0.0)),
        emission=counts.emission + pseudocount * (params.emission > 0.0),
        size_biased=size_biased,
    )


def maximise(weights: Weights, model: Model) -> Model:
    """The model at which the weights have their maximum; rows without weight stay as they are."""
    before = model.params
    theta, duration = model.theta.copy(), before.duration.copy()
    for x, name in enumerate(model.laws):
        w, size = weights.duration[x], float(weights.size_biased[x])
        if w.sum() <= NO_COUNTS:
            continue
        if name == "free":
            duration[x] = fit_free(w, size)
        else:
            law, allowed = LAWS[name], before.duration[x] > 0.0
            k = len(law.box(before.max_duration))
            theta[x, :k] = law.best(w, size, allowed, near=theta[x, :k])
            duration[x] = law.row(theta[x, :k], allowed)
    params = Params(
        start=_normalised(weights.start[None], before.start[None])[0],
        transition=_normalised(weights.transition, before.transition),
        duration=duration,
        emission=_normalised(weights.emission, before.emission),
    )
    return Model(params, theta, model.laws)


def m_step(
    counts: ExpectedCounts,
    params: Params,
    pseudocount: float = 0.0,
    laws: Sequence[str] | None = None,
    left_censored: bool = False,
) -> Params:
    """The model that maximises the expected log-likelihood that the counts stand for.

    Parameters
    ----------
    counts : ExpectedCounts
        What the data expect under ``params``.
    params : Params
        The model before; what is zero there stays zero, and rows that met no data stay as they are.
    pseudocount : float
        Added to every entry that is not zero in ``params``.
    laws : sequence of str, optional
        The duration law of each state; free tables if not given.
    left_censored : bool
        Whether ``counts.initial`` holds stays met at a random step.

    Examples
    --------
    >>> from sojourn import Sequences
    >>> from sojourn.exact.expected_counts import expected_counts
    >>> p = Params([1, 0], [[0, 1], [1, 0]], [[0, 1], [0.5, 0.5]], [[1, 0], [0, 1]])
    >>> counts = expected_counts(p, Sequences.from_lists([[0, 0, 1], [0, 0, 1, 0]]))
    >>> m_step(counts, p).duration
    array([[0.  , 1.  ],
           [0.75, 0.25]])
    """
    model = on_laws(params, ("free",) * params.n_states if laws is None else tuple(laws))
    return maximise(weigh(counts, model, pseudocount, left_censored), model).params


def log_prior(model: Model, pseudocount: float) -> float:
    """What the pseudo-counts add to the log-likelihood: Dirichlet densities, up to a constant."""
    if pseudocount == 0.0:
        return 0.0
    params = model.params
    free = np.array([name == "free" for name in model.laws])
    tables = (params.start, params.transition, params.duration[free], params.emission)
    return pseudocount * float(sum(np.log(table[table > 0.0]).sum() for table in tables))


def initial_law(params: Params) -> Floats:
    """p(first state, steps left) where the first stay is met at a random one of its steps.

    Examples
    --------
    >>> initial_law(Params([1], [[1]], [[0.5, 0.0, 0.5]], [[1]]))
    array([[0.5 , 0.25, 0.25]])
    """
    return params.start[:, None] * residual(params.duration)


def _whole_stays(initial: Floats, duration: Floats) -> Floats:
    """Expected whole durations of stays of which r steps were left: p(d | r) = p(d) / P(D >= r)."""
    survivor = np.cumsum(duration[:, ::-1], axis=1)[:, ::-1]
    share = np.divide(initial, survivor, out=np.zeros_like(initial), where=survivor > 0.0)
    return duration * np.cumsum(share, axis=1)


def _normalised(weights: Floats, before: Floats) -> Floats:
    """Rows of weights as probabilities; those with none stay as they were."""
    sums = weights.sum(axis=1, keepdims=True)
    seen = sums > NO_COUNTS
    return np.where(seen, weights / np.where(seen, sums, 1.0), before)
