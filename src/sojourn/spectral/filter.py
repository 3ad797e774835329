"""Scoring with observable operators: the normalised filter, and the paper's raw product.

The normalised filter keeps a state v with v · stop = 1. At each step the probabilities of the next
symbol, q_o = v B_o stop, are cut below at ε and made to sum to one; the state moves to
v B_o / q_o, or to the average state where q_o is below ε. A missing symbol moves it by the sum of
all B_o. What it defines is a true distribution: positive, summing to one over all sequences of a
length, without underflow.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sojourn.scale.threads import chunks, each
from sojourn.spectral.lowrank_filter import (
    SharedFilter,
    make_shared,
    next_shared,
    raw_shared,
    run_shared,
)
from sojourn.spectral.lowrank_operators import SharedOperators
from sojourn.spectral.operators import Operators

Array = NDArray[np.float64]
FAST = {"reassoc", "contract", "nsz"}  # sums in any order; NaN and infinity keep their meaning
LANES = 4  # numbers to a vector, and rows that a step takes at once


@dataclass(frozen=True, eq=False)
class Filter:
    """Operators laid out for the kernels.

    A state is stored with what it says of the next symbol: k coordinates v, then n_o probabilities
    q_o = v B_o stop. Both parts are filled up with zeros so that vectors are used whole.

    Parameters
    ----------
    moves : array (n_t, n_o + 1, k, width)
        For each symbol, and last for a missing one, B_o beside B_o Q, where column u of Q is
        B_u · stop: one product gives the next state and the next symbol's probabilities.
    start : array (width,)
        The state before the first symbol.
    rest : array (n_t, width)
        The average state before each step.
    n_symbols : int
    epsilon : float
        Least probability of a symbol before they are made to sum to one.
    """

    moves: Array
    start: Array
    rest: Array
    n_symbols: int
    epsilon: float

    @property
    def probabilities(self) -> slice:
        """Where a stored state has the next symbol's probabilities."""
        k = self.moves.shape[2]
        return slice(k, k + self.n_symbols)


def make_filter(operators: Operators | SharedOperators, epsilon: float) -> Filter | SharedFilter:
    """Lay the operators out for scoring.

    Examples
    --------
    >>> B = np.full((1, 2, 1, 1), 0.5)  # two symbols, equally likely always
    >>> one = np.ones(1)
    >>> make_filter(Operators(one, B, one, one[None], one, 1), 1e-6).start
    array([1. , 0. , 0. , 0. , 0.5, 0.5, 0. , 0. ])
    """
    if isinstance(operators, SharedOperators):
        return make_shared(operators, epsilon)
    n_t, n_o, rank, _ = operators.B.shape
    k = _filled(rank)
    B = np.zeros((n_t, n_o, k, k))
    B[:, :, :rank, :rank] = operators.B
    start, stop = (np.pad(v, (0, k - rank)) for v in (operators.start, operators.stop))
    rest = np.pad(operators.rest, ((0, 0), (0, k - rank)))
    Q = np.einsum("toij,j->tio", B, stop)  # what each state says of the next symbol
    after = Q[np.minimum(np.arange(n_t) + 1, n_t - 1)]  # a move of step t ends before step t + 1
    moves = np.zeros((n_t, n_o + 1, k, k + _filled(n_o)))
    moves[:, :n_o, :, :k] = B
    moves[:, :n_o, :, k : k + n_o] = np.einsum("toij,tju->toiu", B, after, optimize=True)
    moves[:, n_o] = moves[:, :n_o].sum(axis=1)
    scale = start @ stop
    first = start / scale if scale > 0 else rest[0]
    pad = np.zeros(_filled(n_o) - n_o)
    return Filter(
        moves,
        np.concatenate([first, first @ Q[0], pad]),
        np.hstack([rest, np.einsum("ti,tio->to", rest, Q), np.tile(pad, (n_t, 1))]),
        n_o,
        epsilon,
    )


def _filled(n: int) -> int:
    return -(-n // LANES) * LANES


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def filter_step(  # type: ignore[no-untyped-def]
    state, at, to, moves, move, rest, then, k, n_o, code, epsilon
):
    """One step of the state at `at`, stored at `to`; the probability that the symbol had.

    Where the state says nothing of the symbol, row `then` of `rest` is stored in its place.
    `state` and `moves` are flat, and places in them unsigned: so the loops below run in vectors.
    """
    width = np.uint64(rest.shape[1])
    rows = np.uint64(k)
    total = 0.0
    q = 0.0  # of a missing symbol: what is said of all, by which the state is kept in scale
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
            state[to + j] = rest[then, j]
        return p
    scale = 1.0 / q
    for j in range(width):
        state[to + j] = 0.0
    for i in range(np.uint64(0), rows, np.uint64(4)):
        a = state[at + i] * scale
        b = state[at + i + np.uint64(1)] * scale
        c = state[at + i + np.uint64(2)] * scale
        d = state[at + i + np.uint64(3)] * scale
        m0 = move + i * width
        m1, m2, m3 = m0 + width, m0 + np.uint64(2) * width, m0 + np.uint64(3) * width
        for j in range(width):
            low = a * moves[m0 + j] + b * moves[m1 + j]
            state[to + j] += low + c * moves[m2 + j] + d * moves[m3 + j]
    return p


@njit(cache=True, nogil=True)
def _normalised(  # type: ignore[no-untyped-def]
    moves, n_t, start, rest, k, n_o, epsilon, codes, begins, ends, fresh, surprise, states
):
    width = start.shape[0]
    state = np.empty(2 * width)
    size = np.uint64(k * width)
    for i in range(begins.shape[0]):
        at, to = np.uint64(0), np.uint64(width)
        state[:width] = start if fresh[i] else rest[n_t - 1]
        for t in range(begins[i], ends[i]):
            code = codes[t]
            step = min(t - begins[i], n_t - 1) if fresh[i] else n_t - 1
            move = np.uint64(step * (n_o + 1) + (code if code >= 0 else n_o)) * size
            then = min(step + 1, n_t - 1)
            p = filter_step(state, at, to, moves, move, rest, then, k, n_o, code, epsilon)
            surprise[t] = 0.0 - np.log(p)  # not -0 where p is 1
            at, to = to, at
        for j in range(width):
            states[i, j] = state[at + np.uint64(j)]


@njit(cache=True, nogil=True)
def _skip(moves, n_t, rest, k, n_o, epsilon, lengths, steps, states):  # type: ignore[no-untyped-def]
    """Move the state after each sequence on by missing symbols."""
    width = states.shape[1]
    state = np.empty(2 * width)
    size = np.uint64(k * width)
    for i in range(states.shape[0]):
        at, to = np.uint64(0), np.uint64(width)
        state[:width] = states[i]
        for t in range(lengths[i], lengths[i] + steps):
            move = np.uint64(min(t, n_t - 1) * (n_o + 1) + n_o) * size
            then = min(t + 1, n_t - 1)
            filter_step(state, at, to, moves, move, rest, then, k, n_o, -1, epsilon)
            at, to = to, at
        for j in range(width):
            states[i, j] = state[at + np.uint64(j)]


@njit(cache=True, nogil=True)
def _raw(moves, start, n_o, codes, begins, ends, out):  # type: ignore[no-untyped-def]
    """Log of the signed product, minus infinity where it is not positive."""
    n_t, _, k, width = moves.shape
    v, w = np.empty(width), np.empty(width)
    for i in range(begins.shape[0]):
        v[:] = start
        log_scale, mass = 0.0, 1.0
        for t in range(begins[i], ends[i]):
            code = codes[t]
            # v · stop after this symbol is what v said of it before; of a missing one, of all
            mass = v[k + code] if code >= 0 else v[k : k + n_o].sum()
            move = moves[min(t - begins[i], n_t - 1), code if code >= 0 else n_o]
            w[:] = 0.0
            for a in range(k):
                for j in range(width):
                    w[j] += v[a] * move[a, j]
            largest = np.abs(w[:k]).max()
            if largest > 0 and t < ends[i] - 1:
                log_scale += np.log(largest)
                w /= largest
            v, w = w, v
        out[i] = log_scale + np.log(mass) if mass > 0 else -np.inf


def run_filter(
    model: Filter | SharedFilter,
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
        The state after each piece, as `Filter` stores it; q is not cut at ε yet.
    """
    if fresh is None:
        fresh = np.ones(len(begins), bool)
    if isinstance(model, SharedFilter):
        return run_shared(model, codes, begins, ends, fresh, n_jobs)
    surprise = np.zeros(len(codes))
    states = np.empty((len(begins), len(model.start)))
    sizes = np.concatenate([np.zeros(1, np.int64), np.cumsum(ends - begins)])
    n_t, _, k, _ = model.moves.shape
    flat = model.moves.reshape(-1)

    def run(bounds: tuple[int, int]) -> None:
        s = slice(*bounds)
        args = (flat, n_t, model.start, model.rest, k, model.n_symbols, model.epsilon, codes)
        _normalised(*args, begins[s], ends[s], fresh[s], surprise, states[s])

    each(run, chunks(sizes), n_jobs)
    return surprise, states


def raw_log_prob(
    model: Filter | SharedFilter,
    codes: NDArray[np.int32],
    offsets: NDArray[np.int64],
    n_jobs: int | None = None,
) -> Array:
    """Log of the paper's signed product for each sequence; -inf where it is not positive."""
    if isinstance(model, SharedFilter):
        return raw_shared(model, codes, offsets, n_jobs)
    out = np.empty(len(offsets) - 1)

    def run(bounds: tuple[int, int]) -> None:
        s = slice(*bounds)
        _raw(
            model.moves,
            model.start,
            model.n_symbols,
            codes,
            offsets[:-1][s],
            offsets[1:][s],
            out[s],
        )

    each(run, chunks(offsets), n_jobs)
    return out


def next_symbol(
    model: Filter | SharedFilter, states: Array, lengths: NDArray[np.int64], horizon: int = 1
) -> Array:
    """Distribution of the symbol `horizon` steps after sequences that end in `states`, (n, n_o)."""
    if isinstance(model, SharedFilter):
        return next_shared(model, states, horizon)
    n_t, _, k, _ = model.moves.shape
    states = states.copy()
    args = (model.moves.reshape(-1), n_t, model.rest, k, model.n_symbols, model.epsilon)
    _skip(*args, lengths, horizon - 1, states)
    q = states[:, model.probabilities]
    q = np.where(q > model.epsilon, q, model.epsilon)
    q[~np.isfinite(q.sum(axis=1))] = 1.0  # as in `filter_step`
    return q / q.sum(axis=1, keepdims=True)
