"""Scoring with observable operators: the normalised filter, and the paper's raw product.

The normalised filter keeps a state v with v · stop = 1. At each step the probabilities of the next
symbol, q_o = v B_o stop, are cut below at ε and made to sum to one; the state moves to
v B_o / q_o, or to the average state where q_o is below ε. What it defines is a true distribution:
positive, summing to one over all sequences of a length, without underflow.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sojourn.operators import Operators
from sojourn.parallel import chunks, each

Array = NDArray[np.float64]
FAST = {"reassoc", "contract", "nsz"}  # sums in any order; NaN and infinity keep their meaning


@dataclass(frozen=True, eq=False)
class Filter:
    """Operators laid out for the kernels.

    Parameters
    ----------
    moves : array (n_t, n_o + 1, k, k + n_o)
        For each symbol, and last for a missing one, B_o beside B_o Q, where column u of Q is
        B_u · stop: one product gives the next state and the next symbol's probabilities.
    start, rest : arrays (k + n_o,)
        The two special states, each with its next symbol's probabilities.
    epsilon : float
        Least probability of a symbol before they are made to sum to one.
    """

    moves: Array
    start: Array
    rest: Array
    epsilon: float


def make_filter(operators: Operators, epsilon: float) -> Filter:
    """Lay the operators out for scoring."""
    B, stop = operators.B, operators.stop
    n_t, n_o, k, _ = B.shape
    Q = np.einsum("toij,j->tio", B, stop)  # what each state says of the next symbol
    after = Q[np.minimum(np.arange(n_t) + 1, n_t - 1)]  # a move of step t ends before step t + 1
    moves = np.empty((n_t, n_o + 1, k, k + n_o))
    moves[:, :n_o, :, :k] = B
    moves[:, :n_o, :, k:] = np.einsum("toij,tju->toiu", B, after, optimize=True)
    moves[:, n_o] = moves[:, :n_o].sum(axis=1)
    scale = operators.start @ stop
    v = operators.start / scale if scale > 0 else operators.rest
    start = np.concatenate([v, v @ Q[0]])
    rest = np.concatenate([operators.rest, operators.rest @ Q[-1]])
    return Filter(np.ascontiguousarray(moves), start, rest, epsilon)


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def filter_step(v, out, move, rest, n_o, code, epsilon):  # type: ignore[no-untyped-def]
    """One step: `out` from `v` and a symbol, and the probability the symbol had."""
    k = v.shape[0] - n_o
    p = 1.0
    scale = 1.0
    if code >= 0:
        total = 0.0
        for u in range(n_o):
            total += max(v[k + u], epsilon)
        q = v[k + code]
        p = max(q, epsilon) / total
        if not q >= epsilon:  # NaN too
            out[:] = rest
            return p
        scale = 1.0 / q
    width = v.shape[0]
    for j in range(width):
        out[j] = 0.0
    for i in range(k):
        x = v[i] * scale
        for j in range(width):
            out[j] += x * move[i, j]
    return p


@njit(cache=True, nogil=True)
def _normalised(moves, start, rest, epsilon, codes, begins, ends, fresh, surprise, states):  # type: ignore[no-untyped-def]
    n_t, n_o = moves.shape[0], moves.shape[1] - 1
    width = start.shape[0]
    v, w = np.empty(width), np.empty(width)
    for i in range(begins.shape[0]):
        v[:] = start if fresh[i] else rest
        for t in range(begins[i], ends[i]):
            code = codes[t]
            step = min(t - begins[i], n_t - 1) if fresh[i] else n_t - 1
            move = moves[step, code if code >= 0 else n_o]
            p = filter_step(v, w, move, rest, n_o, code, epsilon)
            surprise[t] = -np.log(p)
            v, w = w, v
        states[i] = v


@njit(cache=True, nogil=True)
def _raw(moves, start, codes, begins, ends, out):  # type: ignore[no-untyped-def]
    """Log of the signed product, minus infinity where it is not positive."""
    n_t, n_o = moves.shape[0], moves.shape[1] - 1
    k = moves.shape[2]
    width = k + n_o
    v, w = np.empty(width), np.empty(width)
    for i in range(begins.shape[0]):
        v[:] = start
        log_scale = 0.0
        mass = 1.0
        for t in range(begins[i], ends[i]):
            code = codes[t]
            # v · stop after this symbol is what v said of it before; of a missing one, of all
            mass = v[k + code] if code >= 0 else v[k:].sum()
            move = moves[min(t - begins[i], n_t - 1), code if code >= 0 else n_o]
            largest = 0.0
            for j in range(width):
                w[j] = 0.0
            for a in range(k):
                for j in range(width):
                    w[j] += v[a] * move[a, j]
            for j in range(k):
                largest = max(largest, abs(w[j]))
            if t == ends[i] - 1:
                break
            if largest > 0:
                log_scale += np.log(largest)
                for j in range(width):
                    w[j] /= largest
            v, w = w, v
        out[i] = log_scale + np.log(mass) if mass > 0 else -np.inf


def run_filter(
    model: Filter,
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
    states : array (n, k + n_o)
        The normalised state, and q of the next symbol before it is cut at ε.
    """
    surprise = np.zeros(len(codes))
    states = np.empty((len(begins), len(model.start)))
    if fresh is None:
        fresh = np.ones(len(begins), bool)
    sizes = np.concatenate([np.zeros(1, np.int64), np.cumsum(ends - begins)])

    def run(bounds: tuple[int, int]) -> None:
        s = slice(*bounds)
        args = (model.moves, model.start, model.rest, model.epsilon, codes)
        _normalised(*args, begins[s], ends[s], fresh[s], surprise, states[s])

    each(run, chunks(sizes), n_jobs)
    return surprise, states


def raw_log_prob(
    model: Filter,
    codes: NDArray[np.int32],
    offsets: NDArray[np.int64],
    n_jobs: int | None = None,
) -> Array:
    """Log of the paper's signed product for each sequence; -inf where it is not positive."""
    out = np.empty(len(offsets) - 1)

    def run(bounds: tuple[int, int]) -> None:
        s = slice(*bounds)
        _raw(model.moves, model.start, codes, offsets[:-1][s], offsets[1:][s], out[s])

    each(run, chunks(offsets), n_jobs)
    return out


def next_symbol(model: Filter, states: Array, horizon: int = 1) -> Array:
    """Distribution of the symbol `horizon` steps after each state, (n, n_o)."""
    n_o = model.moves.shape[1] - 1
    for _ in range(horizon - 1):
        states = states[:, :-n_o] @ model.moves[-1, n_o]
    q = np.maximum(states[:, -n_o:], model.epsilon)
    return q / q.sum(axis=1, keepdims=True)
