"""Scoring with observable operators: the normalised filter, and the paper's raw product.

The normalised filter keeps a state v with v · stop = 1. At each step the probabilities of the next
symbol, q_o = v B_o stop, are cut below at ε and made to sum to one; the state moves to
v B_o / q_o, or to the average state where q_o is below ε. A missing symbol moves it by the sum of
all B_o. What it defines is a true distribution: positive, summing to one over all sequences of a
length, without underflow.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sojourn.exact.forward import KERNEL, LANES
from sojourn.scale.threads import SYMBOLS_PER_CHUNK, chunks, each
from sojourn.spectral import lowrank_filter as lowrank
from sojourn.spectral.holdout import Spans
from sojourn.spectral.lowrank_filter import SharedFilter
from sojourn.spectral.lowrank_operators import SharedOperators
from sojourn.spectral.operators import Operators

Array = NDArray[np.float64]


class Filter(NamedTuple):
    """Operators laid out for the kernels.

    A state is stored with what it predicts: k coordinates v, then n_o probabilities of the next
    symbol, q_o = v B_o stop; both are padded with zeros to fill vector registers. One product gives
    the next state and its predictions.
    """

    updates: Array  # per symbol, and last for a missing one: B_o beside B_o Q
    # where column u of Q is B_u · stop                                   (n_t, n_o + 1, k, width)
    start: Array  # the state before the first symbol                              (width,)
    average: Array  # the average state before each step                           (n_t, width)
    n_symbols: int
    epsilon: float  # least probability of a symbol before they are made to sum to one

    @property
    def tables(self) -> Filter:
        """What the kernels read: itself."""
        return self


AnyFilter = Filter | SharedFilter


def make_filter(operators: Operators | SharedOperators, epsilon: float) -> AnyFilter:
    """Lay the operators out for scoring.

    Examples
    --------
    >>> B = np.full((1, 2, 1, 1), 0.5)  # two symbols, equally likely always
    >>> one = np.ones(1)
    >>> make_filter(Operators(one, B, one, one[None], one, 1), 1e-6).start
    array([1. , 0. , 0. , 0. , 0.5, 0.5, 0. , 0. ])
    """
    if isinstance(operators, SharedOperators):
        return lowrank.make_filter(operators, epsilon)
    n_t, n_o, rank, _ = operators.B.shape
    k = _padded(rank)
    B = np.zeros((n_t, n_o, k, k))
    B[:, :, :rank, :rank] = operators.B
    start, stop = (np.pad(v, (0, k - rank)) for v in (operators.start, operators.stop))
    average = np.pad(operators.rest, ((0, 0), (0, k - rank)))
    Q = np.einsum("toij,j->tio", B, stop)  # what each state predicts             (n_t, k, n_o)
    after = Q[np.minimum(np.arange(n_t) + 1, n_t - 1)]  # an update of step t ends before t + 1
    updates = np.zeros((n_t, n_o + 1, k, k + _padded(n_o)))
    updates[:, :n_o, :, :k] = B
    updates[:, :n_o, :, k : k + n_o] = np.einsum("toij,tju->toiu", B, after, optimize=True)
    updates[:, n_o] = updates[:, :n_o].sum(axis=1)
    scale = start @ stop
    first = start / scale if scale > 0 else average[0]
    pad = np.zeros(_padded(n_o) - n_o)
    return Filter(
        updates,
        np.concatenate([first, first @ Q[0], pad]),
        np.hstack([average, np.einsum("ti,tio->to", average, Q), np.tile(pad, (n_t, 1))]),
        n_o,
        epsilon,
    )


def _padded(n: int) -> int:
    return -(-n // LANES) * LANES


@njit(**KERNEL)
def _step(  # type: ignore[no-untyped-def]
    state, at, to, updates, update, average, following, k, n_o, code, epsilon
):
    """One step of the state at `at`, stored at `to`; the probability that the symbol had.

    Where the state has lost its meaning, row `following` of `average` is stored in its place.
    `state` and `updates` are flat, and places in them unsigned: so the loops below run in vectors.
    """
    width = np.uint64(average.shape[1])
    rows = np.uint64(k)
    total = 0.0
    q = 0.0  # of a missing symbol: the sum over all, by which the state is kept in scale
    for u in range(np.uint64(n_o)):
        x = state[at + rows + u]
        q += x
        total += x if x > epsilon else epsilon  # NaN too becomes ε
    p = 1.0
    if code >= 0:
        q = state[at + rows + np.uint64(code)]
        p = (q if q > epsilon else epsilon) / total
        if not total < np.inf:  # the state has overflowed
            p = 1.0 / n_o
    if not (q >= epsilon and total < np.inf):  # NaN too
        for j in range(width):
            state[to + j] = average[following, j]
        return p
    scale = 1.0 / q
    for j in range(width):
        state[to + j] = 0.0
    for i in range(np.uint64(0), rows, np.uint64(4)):
        a = state[at + i] * scale
        b = state[at + i + np.uint64(1)] * scale
        c = state[at + i + np.uint64(2)] * scale
        d = state[at + i + np.uint64(3)] * scale
        m0 = update + i * width
        m1, m2, m3 = m0 + width, m0 + np.uint64(2) * width, m0 + np.uint64(3) * width
        for j in range(width):
            low = a * updates[m0 + j] + b * updates[m1 + j]
            state[to + j] += low + c * updates[m2 + j] + d * updates[m3 + j]
    return p


@njit(cache=True, nogil=True)
def filter_pieces(model, pieces, surprise, states):  # type: ignore[no-untyped-def]
    """The filter over each piece (`Spans`), one that is not fresh from the average state."""
    n_t, _, k, width = model.updates.shape
    updates, average, n_o = model.updates.reshape(-1), model.average, model.n_symbols
    epsilon, codes = model.epsilon, pieces.codes
    state = np.empty(2 * width)
    size = np.uint64(k * width)
    for i in range(pieces.begins.shape[0]):
        begin, fresh = pieces.begins[i], pieces.fresh[i]
        at, to = np.uint64(0), np.uint64(width)
        state[:width] = model.start if fresh else average[n_t - 1]
        for t in range(begin, pieces.ends[i]):
            code = codes[t]
            step = min(t - begin, n_t - 1) if fresh else n_t - 1
            update = np.uint64(step * (n_o + 1) + (code if code >= 0 else n_o)) * size
            following = min(step + 1, n_t - 1)
            p = _step(state, at, to, updates, update, average, following, k, n_o, code, epsilon)
            surprise[t] = 0.0 - np.log(p)  # not -0 where p is 1
            at, to = to, at
        for j in range(width):
            states[i, j] = state[at + np.uint64(j)]


@njit(cache=True, nogil=True)
def _skip(model, lengths, steps, states):  # type: ignore[no-untyped-def]
    """Advance the state after each sequence by missing symbols."""
    n_t, _, k, width = model.updates.shape
    updates, average, n_o = model.updates.reshape(-1), model.average, model.n_symbols
    state = np.empty(2 * width)
    size = np.uint64(k * width)
    for i in range(states.shape[0]):
        at, to = np.uint64(0), np.uint64(width)
        state[:width] = states[i]
        for t in range(lengths[i], lengths[i] + steps):
            update = np.uint64(min(t, n_t - 1) * (n_o + 1) + n_o) * size
            following = min(t + 1, n_t - 1)
            _step(state, at, to, updates, update, average, following, k, n_o, -1, model.epsilon)
            at, to = to, at
        for j in range(width):
            states[i, j] = state[at + np.uint64(j)]


@njit(cache=True, nogil=True)
def _multiply(model, pieces, out):  # type: ignore[no-untyped-def]
    """Log of the signed product, minus infinity where it is not positive."""
    n_t, _, k, width = model.updates.shape
    n_o = model.n_symbols
    v, w = np.empty(width), np.empty(width)
    for i in range(pieces.begins.shape[0]):
        v[:] = model.start
        log_scale, mass = 0.0, 1.0
        for t in range(pieces.begins[i], pieces.ends[i]):
            code = pieces.codes[t]
            # v · stop after this symbol is what v predicted of it; of a missing one, of all
            mass = v[k + code] if code >= 0 else v[k : k + n_o].sum()
            update = model.updates[min(t - pieces.begins[i], n_t - 1), code if code >= 0 else n_o]
            w[:] = 0.0
            for a in range(k):
                for j in range(width):
                    w[j] += v[a] * update[a, j]
            largest = np.abs(w[:k]).max()
            if largest > 0 and t < pieces.ends[i] - 1:
                log_scale += np.log(largest)
                w /= largest
            v, w = w, v
        out[i] = log_scale + np.log(mass) if mass > 0 else -np.inf


def run_filter(
    model: AnyFilter,
    codes: NDArray[np.int32],
    begins: NDArray[np.int64],
    ends: NDArray[np.int64],
    fresh: NDArray[np.bool_] | None = None,
    n_jobs: int | None = None,
) -> tuple[Array, Array]:
    """Surprise of each symbol and the state at the end of each piece.

    Returns
    -------
    surprise : array, of the length of `codes`
        -log p(o_t | o_<t); 0 at a missing symbol and outside of the pieces.
    states : array (n, width)
        The state after each piece, as the filter stores it; q is not cut at ε yet.
    """
    kernel, size = filter_pieces, SYMBOLS_PER_CHUNK
    if isinstance(model, SharedFilter):
        kernel, size = lowrank.filter_pieces, lowrank.SYMBOLS_PER_CHUNK
    if fresh is None:
        fresh = np.ones(len(begins), bool)
    surprise, states = np.zeros(len(codes)), np.empty((len(begins), len(model.start)))

    def run(bounds: tuple[int, int]) -> None:
        s = slice(*bounds)
        kernel(model.tables, Spans(codes, begins[s], ends[s], fresh[s]), surprise, states[s])

    sizes = np.concatenate([np.zeros(1, np.int64), np.cumsum(ends - begins)])
    each(run, chunks(sizes, size), n_jobs)
    return surprise, states


def raw_log_prob(
    model: AnyFilter,
    codes: NDArray[np.int32],
    offsets: NDArray[np.int64],
    n_jobs: int | None = None,
) -> Array:
    """Log of the paper's signed product for each sequence; -inf where it is not positive."""
    kernel = lowrank.multiply if isinstance(model, SharedFilter) else _multiply
    begins, ends, fresh = offsets[:-1], offsets[1:], np.ones(len(offsets) - 1, bool)
    out = np.empty(len(begins))

    def run(bounds: tuple[int, int]) -> None:
        s = slice(*bounds)
        kernel(model.tables, Spans(codes, begins[s], ends[s], fresh[s]), out[s])

    each(run, chunks(offsets), n_jobs)
    return out


def next_symbol(
    model: AnyFilter, states: Array, lengths: NDArray[np.int64], horizon: int = 1
) -> Array:
    """Distribution of the symbol `horizon` steps after sequences that end in `states`, (n, n_o)."""
    if isinstance(model, SharedFilter):
        out = np.empty((len(states), model.n_symbols))
        lowrank.predict(model.tables, horizon - 1, states, out)
        return out
    states = states.copy()
    _skip(model, lengths, horizon - 1, states)
    k = model.updates.shape[2]
    q = states[:, k : k + model.n_symbols]
    q = np.where(q > model.epsilon, q, model.epsilon)
    q[~np.isfinite(q.sum(axis=1))] = 1.0  # as in `_step`
    return q / q.sum(axis=1, keepdims=True)
