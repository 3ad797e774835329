"""The normalised filter of large alphabets, whose operators are mixed from a few matrices.

It is the filter of `filtering` with two differences. What a state says of the next symbol is
computed when it is needed and not kept with it; and probabilities are cut below at a share of each
symbol's own frequency, since among many symbols most are rare and none is like the other.

Several sequences go on side by side: each block of symbols is read once for all of them. What one
of them gives does not depend on the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sojourn.scale.threads import chunks, each
from sojourn.spectral.lowrank_operators import SharedOperators

Array = NDArray[np.float64]
FAST = {"reassoc", "contract", "nsz"}
SIDE_BY_SIDE = 8
BLOCK = 64  # symbols; with their k numbers they stay in the fastest memory
SYMBOLS_PER_CHUNK = 1 << 12


@dataclass(frozen=True, eq=False)
class SharedFilter:
    """Operators laid out for the kernels.

    Parameters
    ----------
    operators : SharedOperators
    said : array (k, m)
        Columns ``B[m] · stop``: what a state says of the next symbol, in modes.
    modes : array (n_blocks, m, BLOCK)
        Of the symbols in blocks, the last one filled up with zeros.
    any : array (k, k)
        The sum of all operators.
    floor : array (n_blocks · BLOCK,)
        Least probability of each symbol before they are made to sum to one.
    start : array (k,)
        The state before the first symbol.
    epsilon : float
        The mean of `floor`.
    """

    operators: SharedOperators
    said: Array
    modes: Array
    any: Array
    floor: Array
    start: Array
    epsilon: float

    @property
    def n_symbols(self) -> int:
        """Number of symbols."""
        return self.operators.n_symbols

    @property
    def kernel(self) -> tuple[Any, ...]:
        """What the kernels read."""
        o = self.operators
        tables = (self.said, self.modes, self.floor, self.epsilon, o.rest, self.any @ o.stop)
        return (*tables, o.modes, o.B, self.any)


def make_shared(operators: SharedOperators, epsilon: float) -> SharedFilter:
    """Lay the operators out for scoring.

    Examples
    --------
    >>> from sojourn import Params, count
    >>> from sojourn.spectral.lowrank_operators import decompose_sparse
    >>> seqs = Params.random(2, 2, 300, rng=0).sample(100, 50, rng=1)
    >>> operators = decompose_sparse(count(seqs, [(0,)], holdout=False).tables[0], 4, 2).cut(4)
    >>> make_shared(operators, 1e-5).modes.shape
    (5, 2, 64)
    """
    n_o, m = operators.modes.shape
    n_blocks = -(-n_o // BLOCK)
    modes = np.zeros((n_blocks * BLOCK, m))
    modes[:n_o] = operators.modes
    modes = np.ascontiguousarray(modes.reshape(n_blocks, BLOCK, m).transpose(0, 2, 1))
    said = np.ascontiguousarray((operators.B @ operators.stop).T)
    together = np.tensordot(operators.modes.sum(axis=0), operators.B, 1)
    floor = np.zeros(n_blocks * BLOCK)
    floor[:n_o] = epsilon * n_o * operators.frequency
    scale = operators.start @ operators.stop
    start = operators.start / scale if scale > 0 else operators.rest
    return SharedFilter(operators, said, modes, together, floor, start, epsilon)


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _in_modes(v, said, out):  # type: ignore[no-untyped-def]
    """What state v says of the next symbol, in modes."""
    for m in range(said.shape[1]):
        out[m] = 0.0
    for j in range(said.shape[0]):
        for m in range(said.shape[1]):
            out[m] += v[j] * said[j, m]


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _say(x, modes, floor, b, q):  # type: ignore[no-untyped-def]
    """Probabilities of the symbols of block b, stored in q; their sum, cut below."""
    for u in range(BLOCK):
        q[u] = 0.0
    for m in range(modes.shape[1]):
        for u in range(BLOCK):
            q[u] += x[m] * modes[b, m, u]
    total = 0.0
    for u in range(BLOCK):
        low = floor[b * BLOCK + u]
        total += q[u] if q[u] > low else low  # NaN too becomes the floor
    return total


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _move(v, code, scale, shares, B, every, out):  # type: ignore[no-untyped-def]
    """The state after a symbol: v B_o · scale, or by all operators where it is missing."""
    k = v.shape[0]
    for j in range(k):
        out[j] = 0.0
    if code < 0:
        for i in range(k):
            for j in range(k):
                out[j] += v[i] * scale * every[i, j]
        return
    for m in range(B.shape[0]):
        share = shares[code, m] * scale
        for i in range(k):
            x = share * v[i]
            for j in range(k):
                out[j] += x * B[m, i, j]


@njit(cache=True, nogil=True)
def _filter(  # type: ignore[no-untyped-def]
    said, modes, floor, epsilon, rest, said_of_any, shares, B, every,
    n_o, start, codes, begins, ends, fresh, surprise, states,
):  # fmt: skip
    k = rest.shape[0]
    n = begins.shape[0]
    piece = np.full(SIDE_BY_SIDE, -1)
    at = np.zeros(SIDE_BY_SIDE, np.int64)
    v, w = np.empty((SIDE_BY_SIDE, k)), np.empty(k)
    x = np.empty((SIDE_BY_SIDE, said.shape[1]))  # what each says of the next symbol, in modes
    totals, qs = np.empty(SIDE_BY_SIDE), np.empty(SIDE_BY_SIDE)
    q = np.empty(BLOCK)
    following = 0
    while True:
        running = False
        for s in range(SIDE_BY_SIDE):
            while piece[s] < 0 or at[s] == ends[piece[s]]:
                if piece[s] >= 0:
                    states[piece[s]] = v[s]
                    piece[s] = -1
                if following == n:
                    break
                piece[s], at[s] = following, begins[following]
                v[s] = start if fresh[following] else rest
                following += 1
            running = running or piece[s] >= 0
            totals[s] = 0.0
            if piece[s] >= 0:
                _in_modes(v[s], said, x[s])
        if not running:
            return
        for b in range(modes.shape[0]):
            for s in range(SIDE_BY_SIDE):
                if piece[s] >= 0 and codes[at[s]] >= 0:
                    totals[s] += _say(x[s], modes, floor, b, q)
                    if codes[at[s]] // BLOCK == b:
                        qs[s] = q[codes[at[s]] % BLOCK]
        for s in range(SIDE_BY_SIDE):
            if piece[s] < 0:
                continue
            code = codes[at[s]]
            low = epsilon
            p = 1.0
            if code >= 0:
                low = floor[code]
                p = (qs[s] if qs[s] > low else low) / totals[s]
                if not totals[s] < np.inf:  # the state has overflowed
                    p = 1.0 / n_o
            else:
                qs[s] = (v[s] * said_of_any).sum()
            surprise[at[s]] = 0.0 - np.log(p)
            at[s] += 1
            if qs[s] >= low and totals[s] < np.inf:  # not so of NaN
                _move(v[s], code, 1 / qs[s], shares, B, every, w)
                v[s] = w
            else:
                v[s] = rest


@njit(cache=True, nogil=True)
def _predict(  # type: ignore[no-untyped-def]
    said, modes, floor, epsilon, rest, said_of_any, shares, B, every,
    n_o, steps, states, out,
):  # fmt: skip
    q, w, x = np.empty(BLOCK), np.empty(rest.shape[0]), np.empty(said.shape[1])
    for i in range(states.shape[0]):
        v = states[i].copy()
        for _ in range(steps):
            mass = (v * said_of_any).sum()
            if mass >= epsilon and mass < np.inf:
                _move(v, -1, 1 / mass, shares, B, every, w)
                v[:] = w
            else:
                v[:] = rest
        total = 0.0
        _in_modes(v, said, x)
        for b in range(modes.shape[0]):
            total += _say(x, modes, floor, b, q)
            for o in range(b * BLOCK, min(n_o, (b + 1) * BLOCK)):
                p = q[o - b * BLOCK]
                out[i, o] = p if p > floor[o] else floor[o]
        for o in range(n_o):
            out[i, o] = out[i, o] / total if total < np.inf else 1.0 / n_o


@njit(cache=True, nogil=True)
def _raw(  # type: ignore[no-untyped-def]
    shares, B, every, start, stop, codes, begins, ends, out
):
    """Log of the signed product, minus infinity where it is not positive."""
    k = start.shape[0]
    for i in range(begins.shape[0]):
        v, w = start.copy(), np.empty(k)
        log_scale = 0.0
        for t in range(begins[i], ends[i]):
            _move(v, codes[t], 1.0, shares, B, every, w)
            largest = np.abs(w).max()
            if largest > 0:
                log_scale += np.log(largest)
                w /= largest
            v, w = w, v
        mass = (v * stop).sum()
        out[i] = log_scale + np.log(mass) if mass > 0 else -np.inf


def run_shared(
    model: SharedFilter,
    codes: NDArray[np.int32],
    begins: NDArray[np.int64],
    ends: NDArray[np.int64],
    fresh: NDArray[np.bool_],
    n_jobs: int | None = None,
) -> tuple[Array, Array]:
    """As `filtering.run_filter`; the states are of k numbers."""
    surprise, states = np.zeros(len(codes)), np.empty((len(begins), len(model.start)))
    sizes = np.concatenate([np.zeros(1, np.int64), np.cumsum(ends - begins)])
    args = (*model.kernel, model.n_symbols, model.start, codes)

    def run(bounds: tuple[int, int]) -> None:
        s = slice(*bounds)
        _filter(*(*args, begins[s], ends[s], fresh[s], surprise, states[s]))

    each(run, chunks(sizes, SYMBOLS_PER_CHUNK), n_jobs)
    return surprise, states


def raw_shared(
    model: SharedFilter,
    codes: NDArray[np.int32],
    offsets: NDArray[np.int64],
    n_jobs: int | None = None,
) -> Array:
    """As `filtering.raw_log_prob`."""
    out = np.empty(len(offsets) - 1)
    args = (*model.kernel[6:], model.start, model.operators.stop, codes)

    def run(bounds: tuple[int, int]) -> None:
        s = slice(*bounds)
        _raw(*(*args, offsets[:-1][s], offsets[1:][s], out[s]))

    each(run, chunks(offsets), n_jobs)
    return out


def next_shared(model: SharedFilter, states: Array, horizon: int) -> Array:
    """As `filtering.next_symbol`."""
    out = np.empty((len(states), model.n_symbols))
    _predict(*(*model.kernel, model.n_symbols, horizon - 1, states, out))
    return out
