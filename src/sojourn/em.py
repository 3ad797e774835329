"""Maximum likelihood by expectation-maximisation, extrapolated, and never downhill.

One E-step at a point gives both its likelihood and the next EM step, so a trial point that turns
out better costs nothing extra: its E-step is the next one. A trial that is no better is dropped for
the plain EM step, which cannot be worse.

What is maximised is the log-likelihood plus ``pseudocount`` times the sum of the logarithms of all
possible entries of the four tables, rows that follow a duration law excepted: a law has few
parameters and needs no smoothing. Entries that are zero at the start stay zero.

Where the first stay may have begun before its sequence, the first state is drawn from ``start`` and
the sequence meets its stay at a random step: r steps are left with probability P(D >= r) / E[D].
The whole duration d of that stay is one more hidden quantity, met with probability
d p(d) / E[D] and then equally likely at each of its steps; see :mod:`sojourn.durations` for the
M-step that follows.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sojourn.durations import LAWS, NO_COUNTS, fit_free, laws_of, residual
from sojourn.errors import SojournError
from sojourn.params import Params
from sojourn.posterior import ExpectedCounts, expected_counts, expected_counts_each

if TYPE_CHECKING:
    from sojourn.sequences import Sequences

Floats = NDArray[np.float64]
Codes = NDArray[np.int32]
Callback = Callable[[int, float, Params], object]


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
        Whether the last gain was below the tolerance.

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
    """A model, what the data expect of it and what is maximised there."""

    params: Params
    counts: ExpectedCounts
    objective: float


def run_em(
    params: Params,
    sequences: Sequences,
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
) -> EMResult:
    """Climb from a model to a maximum of the likelihood of the sequences.

    Parameters
    ----------
    params : Params
        Where to start; what is zero there stays zero.
    sequences : Sequences
        Codes below ``params.n_symbols``, or -1 where missing.
    max_iter : int
        Most passes over the data.
    tol : float
        Stop when a step gains less than this a symbol.
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
    laws = laws_of(durations, params.n_states)
    if not pseudocount >= 0.0:
        raise SojournError(f"pseudocount is {pseudocount!r}; expected a number of at least 0")
    if max_iter < 1:
        raise SojournError(f"max_iter is {max_iter!r}; expected at least 1")
    params = on_laws(params, laws)
    sequences, labels = _possible(params, sequences, left_censored, labels, n_jobs)
    passes = 0

    def evaluate(model: Params) -> _Point:
        nonlocal passes
        initial = initial_law(model) if left_censored else None
        counts = expected_counts(model, sequences, initial, labels, n_jobs)
        passes += 1
        value = counts.log_likelihood + _log_prior(model, pseudocount, laws)
        return _Point(model, counts, value)

    point = evaluate(params)
    history = [point.objective]
    converged = False
    earlier: tuple[Params, Params] | None = None  # where the last EM step began and ended
    try:
        while passes < max_iter and not converged:
            following = m_step(point.counts, point.params, pseudocount, laws, left_censored)
            trial = None
            if accelerate and earlier is not None and passes + 1 < max_iter:
                trial = evaluate(_extrapolate(earlier[0], earlier[1], following, laws))
            if trial is not None and trial.objective > point.objective:
                earlier = None
            else:
                trial = evaluate(following)
                earlier = (point.params, following) if earlier is None else None
            gain = trial.objective - point.objective
            if gain >= 0.0:
                point = trial
                history.append(point.objective)
                if callback is not None:
                    callback(len(history) - 1, point.objective, point.params)
            converged = bool(gain < tol * sequences.n_total)
    except KeyboardInterrupt:
        pass
    return EMResult(
        params=point.params,
        initial=initial_law(point.params) if left_censored else None,
        history=history,
        log_likelihood=point.counts.log_likelihood,
        n_passes=float(passes),
        converged=converged,
    )


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
        The model before; rows that met no data stay as they are.
    pseudocount : float
        Added to every entry that is not zero in ``params``.
    laws : sequence of str, optional
        The duration law of each state; free tables if not given.
    left_censored : bool
        Whether ``counts.initial`` holds stays met at a random step.

    Examples
    --------
    >>> from sojourn import Sequences
    >>> p = Params([1, 0], [[0, 1], [1, 0]], [[0, 1], [0.5, 0.5]], [[1, 0], [0, 1]])
    >>> counts = expected_counts(p, Sequences.from_lists([[0, 0, 1], [0, 0, 1, 0]]))
    >>> m_step(counts, p).duration
    array([[0.  , 1.  ],
           [0.75, 0.25]])
    """
    laws = ("free",) * params.n_states if laws is None else laws
    duration = counts.duration
    size_biased = np.zeros(params.n_states)
    if left_censored:
        size_biased = counts.start
        duration = duration + _whole_stays(counts.initial, params.duration)
    else:
        duration = duration + counts.initial
    return Params(
        start=_normalised(counts.start[None], params.start[None], pseudocount)[0],
        transition=_normalised(counts.transition, params.transition, pseudocount),
        duration=np.stack(
            [
                _fit_row(law, w, size, row, pseudocount)
                for law, w, size, row in zip(
                    laws, duration, size_biased, params.duration, strict=True
                )
            ]
        ),
        emission=_normalised(counts.emission, params.emission, pseudocount),
    )


def initial_law(params: Params) -> Floats:
    """p(first state, steps left) where the first stay is met at a random one of its steps.

    Examples
    --------
    >>> initial_law(Params([1], [[1]], [[0.5, 0.0, 0.5]], [[1]]))
    array([[0.5 , 0.25, 0.25]])
    """
    return params.start[:, None] * residual(params.duration)


def on_laws(params: Params, laws: Sequence[str]) -> Params:
    """The model with each duration row replaced by the nearest that follows its law.

    Examples
    --------
    >>> on_laws(Params([1], [[1]], [[0.5, 0.0, 0.5]], [[1]]), ["free"]).duration
    array([[0.5, 0. , 0.5]])
    """
    if all(law == "free" for law in laws):
        return params
    rows = [
        row if law == "free" else LAWS[law].fit(row, allowed=row > 0.0)
        for law, row in zip(laws, params.duration, strict=True)
    ]
    return Params(params.start, params.transition, np.stack(rows), params.emission)


def _whole_stays(initial: Floats, duration: Floats) -> Floats:
    """Expected whole durations of stays of which r steps were left: p(d | r) = p(d) / P(D >= r)."""
    survivor = np.cumsum(duration[:, ::-1], axis=1)[:, ::-1]
    share = np.divide(initial, survivor, out=np.zeros_like(initial), where=initial > 0.0)
    return duration * np.cumsum(share, axis=1)


def _normalised(counts: Floats, before: Floats, pseudocount: float) -> Floats:
    """Rows of counts as probabilities; those with none stay as they were."""
    counts = counts + pseudocount * (before > 0.0)
    sums = counts.sum(axis=1, keepdims=True)
    seen = sums > NO_COUNTS
    return np.where(seen, counts / np.where(seen, sums, 1.0), before)


def _fit_row(law: str, weights: Floats, size: float, before: Floats, pseudocount: float) -> Floats:
    """A duration row, no worse than the one before for what the M-step maximises."""
    allowed = before > 0.0
    if law == "free":
        weights = weights + pseudocount * allowed
    if weights.sum() <= NO_COUNTS:
        return before
    if law == "free":
        return fit_free(weights, size)
    row = LAWS[law].fit(weights, size, allowed)
    d = np.arange(1.0, len(row) + 1.0)

    def value(p: Floats) -> float:
        return float(weights[allowed] @ np.log(p[allowed]) - size * np.log(p @ d))

    return row if value(row) >= value(before) else before


def _log_prior(params: Params, pseudocount: float, laws: Sequence[str]) -> float:
    if pseudocount == 0.0:
        return 0.0
    free = np.array([law == "free" for law in laws])
    tables = (params.start, params.transition, params.duration[free], params.emission)
    return pseudocount * float(sum(np.log(table[table > 0.0]).sum() for table in tables))


def _extrapolate(x0: Params, x1: Params, x2: Params, laws: Sequence[str]) -> Params:
    """SQUAREM's step from three successive EM iterates, in square roots of probabilities."""
    tables = [
        tuple(np.sqrt(np.atleast_2d(getattr(p, name))) for p in (x0, x1, x2))
        for name in ("start", "transition", "duration", "emission")
    ]
    r2 = sum(float(((b - a) ** 2).sum()) for a, b, _ in tables)
    v2 = sum(float(((c - 2 * b + a) ** 2).sum()) for a, b, c in tables)
    step = max(1.0, np.sqrt(r2 / v2)) if v2 > 0.0 else 1.0
    start, transition, duration, emission = (
        _towards(a + 2 * step * (b - a) + step**2 * (c - 2 * b + a), c) for a, b, c in tables
    )
    return on_laws(Params(start[0], transition, duration, emission), laws)


def _towards(root: Floats, latest: Floats) -> Floats:
    """Rows of probabilities from square roots, none of which falls to a tenth of the latest."""
    p = np.maximum(root, 0.1 * latest) ** 2
    return p / p.sum(axis=1, keepdims=True)


def _possible(
    params: Params,
    sequences: Sequences,
    left_censored: bool,
    labels: Codes | None,
    n_jobs: int | None,
) -> tuple[Sequences, Codes | None]:
    """The sequences, and labels, that the model can produce; a warning if some are left out."""
    if labels is not None:
        labels = np.ascontiguousarray(labels, dtype=np.int32)
        if labels.shape != sequences.codes.shape:
            raise SojournError(
                f"there are {labels.size} labels for {sequences.n_total} symbols; give one a step, "
                f"-1 where the state is not known"
            )
        if labels.size and not -1 <= labels.min() <= labels.max() < params.n_states:
            raise SojournError(
                f"labels lie in {labels.min()} ... {labels.max()}; expected states 0 ... "
                f"{params.n_states - 1}, or -1 where the state is not known"
            )
    initial = initial_law(params) if left_censored else None
    counts = expected_counts(params, sequences, initial, labels, n_jobs)
    if np.isfinite(counts.log_likelihood):
        return sequences, labels
    possible = np.concatenate(
        [
            [
                np.isfinite(one.log_likelihood)
                for one in expected_counts_each(
                    params,
                    sequences[i : i + 256],
                    initial,
                    None
                    if labels is None
                    else labels[
                        sequences.offsets[i] : sequences.offsets[min(i + 256, len(sequences))]
                    ],
                    n_jobs,
                )
            ]
            for i in range(0, len(sequences), 256)
        ]
    )
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
