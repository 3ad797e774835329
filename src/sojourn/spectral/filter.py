"""Scoring with operators: the normalised filter, with restarts.

A row holds a state and what it predicts, q_o = p(o | state); negative ones are noise. Predictions
are cut below at ε and made to sum to one; the state moves to v M_o / q_o. Where the symbol that
came has less than ε, or the state has left the model otherwise, the filter restarts at the state of
the past context, or for windows at the average state. A missing symbol moves it by the sum of all
M_o. What this defines is a true distribution over sequences.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sojourn.contexts.trees import Codes, Flat
from sojourn.spectral.context_operators import ContextOperators
from sojourn.spectral.operators import Operators

Floats = NDArray[np.float64]

FAST = {"reassoc", "contract", "nsz"}  # sums in any order; NaN and infinity keep their meaning
LANES = 4  # rows of a matrix that a step takes at once
# A table larger than this does not hold the predictions after each symbol: they are made anew.
MAX_MOVES = 1 << 22
# Predictions that sum to more than this, negative ones cut, are of a state outside the model.
ASTRAY = 20.0


class Filter(NamedTuple):
    """Operators laid out for the kernel: k and widths are filled up with zeros to whole vectors."""

    moves: Floats  # flat matrices (k, width), or (k, k) where `emit` predicts
    modes: Floats  # the operator of o is Σ_j modes[o, j] shared[j], where there are any
    shared: Floats  # (n_shared, k, k)
    emit: Floats  # (n_o + 1, k), or none where moves hold the predictions         (0, k)
    start: Floats  # the row before the first symbol                              (width,)
    restart: Floats  # each past's row, or each step's; states alone where `emit` predicts (n, …)
    k: int
    n_o: int
    counted: int  # outcomes of a step: n_o, and one more where the end is predicted
    n_t: int  # number of steps with matrices of their own
    epsilon: float
    astray: float

    def predictions(self, rows: Floats) -> Floats:
        """Distribution of the next outcome after each row, (n, counted)."""
        q = rows[:, self.k : self.k + self.counted]
        q = np.where(q > self.epsilon, q, self.epsilon)
        q = np.where(q.sum(axis=1, keepdims=True) < np.inf, q, 1.0)
        return q / q.sum(axis=1, keepdims=True)


def context_filter(operators: ContextOperators, ends: bool) -> Filter:
    """Lay out operators over contexts; `ends` for a model that predicts the end."""
    o, n_o, rank = operators, operators.n_symbols, operators.rank
    k, epsilon = _padded(rank), min(1e-5, 1e-3 / n_o)
    width = k + _padded(n_o + 1)
    sizes = (k, n_o, n_o + ends, 1, epsilon, ASTRAY)
    n_own = 0 if len(o.modes) else n_o
    shared, emit = np.zeros((len(o.modes[:1].T), k, k)), np.empty((0, k))
    shared[:, :rank, :rank] = o.own[: len(shared)]
    if len(shared) or (n_o + 1) * k * width > MAX_MOVES:
        moves = np.zeros((n_own + 1, k, k))
        moves[:n_own, :rank, :rank] = o.own[:n_own]
        moves[n_own, :rank, :rank] = o.combined(np.ones(n_o))
        emit = np.pad(o.emit, ((0, 0), (0, k - rank)))
    else:
        moves = np.zeros((n_own + 1, k, width))
        moves[:n_own, :rank, :rank] = o.own
        moves[:n_own, :rank, k : k + n_o + 1] = o.own @ o.emit.T
        moves[n_own] = moves[:n_own].sum(axis=0)
    start = _rows(o.start[None], o.start[None] @ o.emit.T, k, width)[0]
    if len(emit):
        restart = np.pad(o.restart, ((0, 0), (0, k - rank)))
    else:
        restart = _rows(o.restart, o.restart @ o.emit.T, k, width)
    return Filter(moves.reshape(-1), o.modes, shared, emit, start, restart, *sizes)


def window_filter(operators: Operators, epsilon: float) -> Filter:
    """Lay out operators over windows, which may differ from step to step.

    Examples
    --------
    >>> B = np.full((1, 2, 1, 1), 0.5)  # two symbols, equally likely always
    >>> one = np.ones(1)
    >>> window_filter(Operators(one, B, one, one[None], one, 1), 1e-6).start
    array([1. , 0. , 0. , 0. , 0.5, 0.5, 0. , 0. ])
    """
    o = operators
    n_t, n_o, rank, _ = o.B.shape
    k, width = _padded(rank), _padded(rank) + _padded(n_o + 1)
    Q = np.einsum("toij,j->tio", o.B, o.stop)  # what each state predicts    (n_t, rank, n_o)
    after = Q[np.minimum(np.arange(n_t) + 1, n_t - 1)]  # a move of step t ends before t + 1
    moves = np.zeros((n_t, n_o + 1, k, width))
    moves[:, :n_o, :rank, :rank] = o.B
    moves[:, :n_o, :rank, k : k + n_o] = np.einsum("toij,tju->toiu", o.B, after, optimize=True)
    moves[:, n_o] = moves[:, :n_o].sum(axis=1)
    scale = o.start @ o.stop
    first = (o.start / scale if scale > 0 else o.rest[0])[None]
    start = _rows(first, first @ Q[0], k, width)[0]
    rest = _rows(o.rest, np.einsum("ti,tio->to", o.rest, Q), k, width)
    none = (np.empty((0, 0)), np.empty((0, k, k)), np.empty((0, k)))
    return Filter(moves.reshape(-1), *none, start, rest, k, n_o, n_o, n_t, epsilon, np.inf)


def _padded(n: int) -> int:
    return -(-n // LANES) * LANES


def _rows(states: Floats, predictions: Floats, k: int, width: int) -> Floats:
    rows = np.zeros((len(states), width))
    rows[:, : states.shape[1]] = states
    rows[:, k : k + predictions.shape[1]] = predictions
    return rows


def run_filter(
    filter: Filter, flat: Flat, contexts: Codes, fresh: NDArray[np.bool_], keep: bool = False
) -> tuple[Floats, Floats, Floats]:
    """Filter pieces: p of each place, the row after each piece, and, to keep, all states before.

    A place restarts at its past context (its step, for windows). p is 1 where nothing is scored.
    """
    prob = np.ones(len(flat.codes))
    rows = np.empty((len(flat.starts), len(filter.start)))
    states = np.empty((len(flat.codes) if keep else 0, filter.k))
    where = (flat.codes, flat.starts, flat.stops, contexts, fresh)
    _filter(*filter, *where, prob, rows, states)
    return prob, rows, states


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _move(state, at, to, moves, m, modes, shared, emit, k, code, scale):  # type: ignore[no-untyped-def]
    """The row at `at` moved by the matrix that starts at `m` (negative: shared), to `to`.

    With `emit` only the state is: `_emit` writes what it predicts.
    `state` and `moves` are flat, and places in them unsigned: so the loops below run in vectors.
    """
    rows = np.uint64(k)
    width = rows if len(emit) else np.uint64(len(state) // 2)
    for j in range(width):
        state[to + j] = 0.0
    if m < 0:
        for j in range(len(shared)):
            for i in range(k):
                x = modes[code, j] * state[at + np.uint64(i)] * scale
                for h in range(k):
                    state[to + np.uint64(h)] += x * shared[j, i, h]
    else:
        move = np.uint64(m)
        for i in range(np.uint64(0), rows, np.uint64(4)):
            a, b = state[at + i] * scale, state[at + i + np.uint64(1)] * scale
            c, d = state[at + i + np.uint64(2)] * scale, state[at + i + np.uint64(3)] * scale
            m0 = move + i * width
            m1, m2, m3 = m0 + width, m0 + np.uint64(2) * width, m0 + np.uint64(3) * width
            for j in range(width):
                low = a * moves[m0 + j] + b * moves[m1 + j]
                state[to + j] += low + c * moves[m2 + j] + d * moves[m3 + j]


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _emit(state, at, emit, k):  # type: ignore[no-untyped-def]
    """Write what the state at `at` predicts after it."""
    for o in range(len(emit)):
        q = 0.0
        for i in range(k):
            q += emit[o, i] * state[at + np.uint64(i)]
        state[at + np.uint64(k) + np.uint64(o)] = q


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _predicted(state, at, k, n_o, counted, epsilon):  # type: ignore[no-untyped-def]
    """The sum of the predictions of a row: of all outcomes cut at ε, and of the symbols uncut."""
    total, symbols = 0.0, 0.0
    for u in range(np.uint64(counted)):
        x = state[at + np.uint64(k) + u]
        total += x if x > epsilon else epsilon  # NaN too becomes ε
        if u < np.uint64(n_o):
            symbols += x
    return total, symbols


@njit(cache=True, nogil=True, error_model="numpy")
def _filter(  # type: ignore[no-untyped-def]
    moves, modes, shared, emit, start, restart, k, n_o, counted, n_t, epsilon, astray,
    codes, starts, stops, contexts, fresh, prob, last, states,
):  # fmt: skip
    width = len(start)
    state = np.zeros(2 * width)
    size = k * (k if len(emit) else width)
    n_matrices = len(moves) // size // n_t
    for i in range(len(starts)):
        at, to = np.uint64(0), np.uint64(width)
        for j in range(width if fresh[i] else restart.shape[1]):
            state[j] = start[j] if fresh[i] else restart[contexts[starts[i]], j]
        _emit(state, at, emit, k)
        for p in range(starts[i], stops[i]):
            for j in range(states.shape[1] if len(states) else 0):
                states[p, j] = state[at + np.uint64(j)]
            code = codes[p]
            if code == n_o and counted == n_o:
                continue  # ends are not predicted
            total, q = _predicted(state, at, k, n_o, counted, epsilon)
            if code <= n_o:
                q = state[at + np.uint64(k + code)]
                prob[p] = (q if q > epsilon else epsilon) / total
                if not total < np.inf:
                    prob[p] = 1.0 / counted
                if code == n_o:
                    continue
            if q >= epsilon and total < astray:  # not where any is NaN
                m = min(code, n_o) if len(shared) == 0 else np.int64(0 if code >= n_o else -1)
                m = (min(contexts[p], n_t - 1) * n_matrices + m) * size
                _move(state, at, to, moves, m, modes, shared, emit, k, code, 1.0 / q)
            else:
                for j in range(restart.shape[1]):
                    state[to + np.uint64(j)] = restart[contexts[p + 1], j]
            _emit(state, to, emit, k)
            at, to = to, at
        for j in range(width):
            last[i, j] = state[at + np.uint64(j)]


def unseen(A: Floats, weight: Floats, states: Floats, steps: int) -> tuple[Floats, Floats]:
    """States after steps of which nothing is seen, and how likely no end was among these.

    A is the sum of all operators and ``states @ weight`` the probability that states carry: 1, less
    where an end may have come. Powers by squaring: any number of steps.
    """
    log_alive = np.zeros(len(states))
    P, log_P = A, 0.0
    while steps > 0:
        if steps % 2:
            states = states @ P
            mass = states @ weight
            bad = ~(mass > 0)
            states = np.where(bad[:, None], 0.0, states / np.where(bad, 1.0, mass)[:, None])
            log_alive += np.where(bad, -np.inf, np.log(np.where(bad, 1.0, mass)) + log_P)
        steps //= 2
        P = P @ P
        largest = np.abs(P).max()
        if steps and largest > 0:
            P, log_P = P / largest, 2.0 * log_P + np.log(largest)
    return states, np.exp(np.minimum(log_alive, 0.0))
