"""The normalised filter of large alphabets, whose operators are mixed from a few matrices.

It is the filter of `filter` with two differences. The probabilities of the next symbol are computed
when they are needed and not kept with the state; and they are cut below at a share of each symbol's
own frequency, since among many symbols most are rare and none is like the other.

Several sequences are scored side by side: each block of symbols is read once for all of them. The
result of one does not depend on the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sojourn.exact.forward import KERNEL
from sojourn.spectral.lowrank_operators import SharedOperators

Array = NDArray[np.float64]
SIDE_BY_SIDE = 8
BLOCK = 64  # symbols; with their k numbers they stay in the fastest memory
SYMBOLS_PER_CHUNK = 1 << 12


class SharedTables(NamedTuple):
    """Operators laid out for the kernels."""

    start: Array  # the state before the first symbol                              (k,)
    stop: Array  # (k,)
    average: Array  # the average state                                            (k,)
    readout: Array  # columns B[m] · stop: from a state to the next symbol's modes   (k, m)
    blocks: Array  # modes of the symbols in blocks, padded with zeros         (n_blocks, m, BLOCK)
    floor: (
        Array  # least probability of each symbol                               (n_blocks · BLOCK,)
    )
    epsilon: float  # the mean of `floor`
    modes: Array  # (n_o, m)
    B: Array  # (m, k, k)
    total: Array  # the sum of all operators, for a missing symbol                 (k, k)
    total_readout: Array  # total · stop                                           (k,)


@dataclass(frozen=True, eq=False)
class SharedFilter:
    """Operators of a large alphabet, ready for scoring."""

    operators: SharedOperators
    tables: SharedTables

    @property
    def n_symbols(self) -> int:
        """Number of symbols."""
        return self.operators.n_symbols

    @property
    def start(self) -> Array:
        """The state before the first symbol."""
        return self.tables.start


def make_filter(operators: SharedOperators, epsilon: float) -> SharedFilter:
    """Lay the operators out for scoring."""
    n_o, m = operators.modes.shape
    n_blocks = -(-n_o // BLOCK)
    modes, floor = np.zeros((n_blocks * BLOCK, m)), np.zeros(n_blocks * BLOCK)
    modes[:n_o], floor[:n_o] = operators.modes, epsilon * n_o * operators.frequency
    total = np.tensordot(operators.modes.sum(axis=0), operators.B, 1)
    scale = operators.start @ operators.stop
    return SharedFilter(
        operators,
        SharedTables(
            start=operators.start / scale if scale > 0 else operators.rest,
            stop=operators.stop,
            average=operators.rest,
            readout=np.ascontiguousarray((operators.B @ operators.stop).T),
            blocks=np.ascontiguousarray(modes.reshape(n_blocks, BLOCK, m).transpose(0, 2, 1)),
            floor=floor,
            epsilon=epsilon,
            modes=operators.modes,
            B=operators.B,
            total=total,
            total_readout=total @ operators.stop,
        ),
    )


@njit(**KERNEL)
def _project(v, readout, out):  # type: ignore[no-untyped-def]
    """The modes of the next symbol, given the state v."""
    for m in range(readout.shape[1]):
        out[m] = 0.0
    for j in range(readout.shape[0]):
        for m in range(readout.shape[1]):
            out[m] += v[j] * readout[j, m]


@njit(**KERNEL)
def _block_probs(x, blocks, floor, b, q):  # type: ignore[no-untyped-def]
    """Probabilities of the symbols of block b, stored in q; their sum, cut below."""
    for u in range(BLOCK):
        q[u] = 0.0
    for m in range(blocks.shape[1]):
        for u in range(BLOCK):
            q[u] += x[m] * blocks[b, m, u]
    total = 0.0
    for u in range(BLOCK):
        low = floor[b * BLOCK + u]
        total += q[u] if q[u] > low else low  # NaN too becomes the floor
    return total


@njit(**KERNEL)
def _update(v, code, scale, model, out):  # type: ignore[no-untyped-def]
    """The state after a symbol: v B_o · scale, or by all operators where it is missing."""
    k = v.shape[0]
    for j in range(k):
        out[j] = 0.0
    if code < 0:
        for i in range(k):
            for j in range(k):
                out[j] += v[i] * scale * model.total[i, j]
        return
    for m in range(model.B.shape[0]):
        share = model.modes[code, m] * scale
        for i in range(k):
            x = share * v[i]
            for j in range(k):
                out[j] += x * model.B[m, i, j]


@njit(cache=True, nogil=True)
def filter_pieces(model, pieces, surprise, states):  # type: ignore[no-untyped-def]
    """As `filter.filter_pieces`; the states are of k numbers."""
    codes, n, n_o = pieces.codes, pieces.begins.shape[0], model.modes.shape[0]
    k = model.average.shape[0]
    piece = np.full(SIDE_BY_SIDE, -1)
    at = np.zeros(SIDE_BY_SIDE, np.int64)
    v, w = np.empty((SIDE_BY_SIDE, k)), np.empty(k)
    x = np.empty((SIDE_BY_SIDE, model.readout.shape[1]))  # modes of the next symbol of each
    totals, qs = np.empty(SIDE_BY_SIDE), np.empty(SIDE_BY_SIDE)
    q = np.empty(BLOCK)
    following = 0
    while True:
        running = False
        for s in range(SIDE_BY_SIDE):
            while piece[s] < 0 or at[s] == pieces.ends[piece[s]]:
                if piece[s] >= 0:
                    states[piece[s]] = v[s]
                    piece[s] = -1
                if following == n:
                    break
                piece[s], at[s] = following, pieces.begins[following]
                v[s] = model.start if pieces.fresh[following] else model.average
                following += 1
            running = running or piece[s] >= 0
            totals[s] = 0.0
            if piece[s] >= 0:
                _project(v[s], model.readout, x[s])
        if not running:
            return
        for b in range(model.blocks.shape[0]):
            for s in range(SIDE_BY_SIDE):
                if piece[s] >= 0 and codes[at[s]] >= 0:
                    totals[s] += _block_probs(x[s], model.blocks, model.floor, b, q)
                    if codes[at[s]] // BLOCK == b:
                        qs[s] = q[codes[at[s]] % BLOCK]
        for s in range(SIDE_BY_SIDE):
            if piece[s] < 0:
                continue
            code = codes[at[s]]
            low = model.epsilon
            p = 1.0
            if code >= 0:
                low = model.floor[code]
                p = (qs[s] if qs[s] > low else low) / totals[s]
                if not totals[s] < np.inf:  # the state has overflowed
                    p = 1.0 / n_o
            else:
                qs[s] = (v[s] * model.total_readout).sum()
            surprise[at[s]] = 0.0 - np.log(p)
            at[s] += 1
            if qs[s] >= low and totals[s] < np.inf:  # not so of NaN
                _update(v[s], code, 1 / qs[s], model, w)
                v[s] = w
            else:
                v[s] = model.average


@njit(cache=True, nogil=True)
def predict(model, steps, states, out):  # type: ignore[no-untyped-def]
    """Distribution of the symbol after `steps` missing ones, for each state."""
    n_o = model.modes.shape[0]
    q, w = np.empty(BLOCK), np.empty(model.average.shape[0])
    x = np.empty(model.readout.shape[1])
    for i in range(states.shape[0]):
        v = states[i].copy()
        for _ in range(steps):
            mass = (v * model.total_readout).sum()
            if mass >= model.epsilon and mass < np.inf:
                _update(v, -1, 1 / mass, model, w)
                v[:] = w
            else:
                v[:] = model.average
        total = 0.0
        _project(v, model.readout, x)
        for b in range(model.blocks.shape[0]):
            total += _block_probs(x, model.blocks, model.floor, b, q)
            for o in range(b * BLOCK, min(n_o, (b + 1) * BLOCK)):
                p = q[o - b * BLOCK]
                out[i, o] = p if p > model.floor[o] else model.floor[o]
        for o in range(n_o):
            out[i, o] = out[i, o] / total if total < np.inf else 1.0 / n_o


@njit(cache=True, nogil=True)
def multiply(model, pieces, out):  # type: ignore[no-untyped-def]
    """Log of the signed product, minus infinity where it is not positive."""
    k = model.start.shape[0]
    for i in range(pieces.begins.shape[0]):
        v, w = model.start.copy(), np.empty(k)
        log_scale = 0.0
        for t in range(pieces.begins[i], pieces.ends[i]):
            _update(v, pieces.codes[t], 1.0, model, w)
            largest = np.abs(w).max()
            if largest > 0:
                log_scale += np.log(largest)
                w /= largest
            v, w = w, v
        mass = (v * model.stop).sum()
        out[i] = log_scale + np.log(mass) if mass > 0 else -np.inf
