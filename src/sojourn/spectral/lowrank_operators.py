"""Operators of large alphabets: a few matrices that all symbols share.

Given the state a symbol depends on nothing else, so the table H_o[l, r] has rank n_x over symbols
as well: B_o = Σ_m modes[o, m] B^(m) with n_x matrices B^(m) in place of n_o. The modes are the
leading singular vectors of how often symbols and the windows beside them occur together, scaled as
H is; the paper's Õ is the same projection. A symbol that occurred five times is then described by
n_x numbers and not by k², and a model grows by n_x numbers per symbol.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numba import njit
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from sojourn.checks import check_arrays, positive_int
from sojourn.errors import SojournError
from sojourn.exact.params import ROW_TOLERANCE
from sojourn.spectral.count_sparse import Codes, Ids, Sparse
from sojourn.spectral.operators import ROUNDING, Spectrum, inverse, scaled_svd

Array = NDArray[np.float64]

# From this many symbols on they share operators; below, one matrix per symbol is small and faster.
SHARED_FROM = 257
# Windows with a pool of their own on either side; the rest share.
MAX_WINDOWS = 1 << 15
# A matrix with this share of entries, or few rows, is faster to multiply when it is not sparse.
DENSE_SHARE, DENSE_ROWS = 1 / 16, 1 << 12


@dataclass(frozen=True, eq=False)
class SharedOperators:
    """A linear model of sequences over many symbols, as `Operators` is one over few.

    The operator of symbol o is ``Σ_m modes[o, m] B[m]``.
    """

    start: Array  # before the first symbol                                       (k,)
    stop: Array  # after the last                                                 (k,)
    rest: Array  # the average state; rest · stop = 1                             (k,)
    modes: Array  # (n_o, m)
    B: Array  # (m, k, k)
    frequency: Array  # of each symbol; positive, and sums to one                 (n_o,)
    singular_values: Array  # of the moment matrix, largest first
    rank: int  # number of singular directions in use

    def __post_init__(self) -> None:
        vectors = dict.fromkeys(("start", "stop", "rest"), "float64 k")
        forms = {"frequency": "float64+ o", "singular_values": "float64+ s"}
        sizes = check_arrays(self, modes="float64 o m", B="float64 m k k", **vectors, **forms)
        if 0 in sizes.values():
            raise SojournError(f"operators need at least one symbol, mode and direction: {sizes}")
        if not (self.frequency > 0).all() or abs(self.frequency.sum() - 1) > ROW_TOLERANCE:
            raise SojournError(
                "frequency of SharedOperators must be positive for every symbol, and sum to one"
            )
        positive_int("rank", self.rank)

    @property
    def n_symbols(self) -> int:
        """Number of symbols."""
        return len(self.modes)


@dataclass(frozen=True, eq=False)
class SharedSpectrum:
    """Operators at the largest rank asked for; any smaller rank is a leading block of them."""

    singular_values: Array
    modes: Array
    B: Array
    start: Array
    stop: Array
    rest: Array
    frequency: Array

    @property
    def max_rank(self) -> int:
        """The rank before any cut."""
        return len(self.stop)

    def cut(self, rank: int) -> SharedOperators:
        """Operators of the leading `rank` directions."""
        k = min(rank, self.max_rank)
        start, stop, rest = self.start[:k], self.stop[:k], self.rest[:k]
        scale = rest @ stop
        rest = rest / (scale if scale > 0 else 1)
        B = np.ascontiguousarray(self.B[:, :k, :k])
        ends = (start, stop, rest)
        return SharedOperators(*ends, self.modes, B, self.frequency, self.singular_values, k)


def decompose_sparse(
    table: Sparse, max_rank: int, n_states: int, seed: int = 0
) -> Spectrum | SharedSpectrum:
    """Operators of a sparse table, up to a rank; where symbols share them, by n_states modes."""
    # One thread adds in one order: the same bits always.
    with threadpool_limits(1, user_api="blas"):
        return _decompose(table, max_rank, n_states, seed)


def _decompose(table: Sparse, max_rank: int, n_states: int, seed: int) -> Spectrum | SharedSpectrum:
    n_o, length = table.n_symbols, len(table.offsets)
    n = table.counts.sum()
    weight_L = _sums(table.L, table.counts, len(table.left))
    weight_R = _sums(table.R, table.counts, len(table.right))
    weight_R += _sums(table.R1, table.counts, len(table.right))
    pool_L = pools(table.left % n_o, weight_L, MAX_WINDOWS)
    pool_R = pools(table.right // n_o ** (length - 1), weight_R, MAX_WINDOWS)
    n_L, n_R = int(pool_L.max(initial=0)) + 1, int(pool_R.max(initial=0)) + 1
    L, R, R1, p = pool_L[table.L], pool_R[table.R], pool_R[table.R1], table.counts / n
    H = sp.csr_array((p, (L, R)), (n_L, n_R))
    small = max(H.shape) <= DENSE_ROWS or H.nnz > DENSE_SHARE * H.shape[0] * H.shape[1]
    rank = min(max_rank, n_L, n_R)
    V, G, s = inverse(H.toarray() if small else H, rank, seed)  # H⁺ = V G   (n_R, k), (k, n_L)
    k = max(1, int((s[: V.shape[1]] > ROUNDING * s[0]).sum()))
    W, G = np.ascontiguousarray(V[:, :k]), np.ascontiguousarray(G[:k].T)
    average, before = H.sum(axis=0), H.sum(axis=1)
    first = np.bincount(pool_R, table.first, n_R) + average
    entries, L, R1, p = _by_symbol(table.symbols, L, R1, p, n_o, n_R)
    if n_o < SHARED_FROM:
        modes = shares = np.eye(n_o)
    else:
        modes, shares = _modes(np.diff(entries), L, R1, p, (n_L, n_R), n_states, seed)
    B = np.zeros((modes.shape[1], k, k))
    _mix(entries, L, R1, p, G, W, shares, B)
    ends = (first / first.sum() @ W, G.T @ before, average @ W)
    if n_o < SHARED_FROM:
        return Spectrum(s, B, *ends)
    seen = np.bincount(table.symbols, table.counts, n_o) + 0.5  # none is impossible
    return SharedSpectrum(s, modes, B, *ends, seen / seen.sum())


def _sums(groups: Ids, counts: Codes, n: int) -> Array:
    return np.asarray(np.bincount(groups, counts, n), np.float64)


def _modes(
    sizes: Codes, L: Ids, R: Ids, p: Array, shape: tuple[int, int], rank: int, seed: int
) -> tuple[Array, Array]:
    """What each symbol is made of, and its share in each of the matrices, (n_o, m) both.

    The operators are projected by Ũ Ũᵀ, U being the left singular vectors of the table of symbols
    and the windows beside them, scaled by the roots of frequencies.
    """
    n_o = len(sizes)
    owner = np.repeat(np.arange(n_o), sizes)
    beside = np.concatenate([L, R.astype(np.int64) + shape[0]])
    where = (np.tile(owner, 2), beside)
    M = sp.csr_array((np.tile(p, 2), where), (n_o, sum(shape)))
    a, U, _, _, _ = scaled_svd(M, min(rank, n_o), seed)
    return np.sqrt(M.sum(axis=1))[:, None] * U, a[:, None] * U


def pools(nearest: Codes, weights: Array, most: int) -> Ids:
    """The pool of each window: its own for the frequent ones, one for all others near a symbol.

    `nearest` is the symbol of each window that is nearest to t, `weights` how often the window
    occurs, `most` the largest number of pools. Half of them are for the most frequent windows. The
    other windows are pooled by the symbol nearest to t, and where too rare even so, into one last
    pool. Of equal weights the window that comes first wins.
    """
    n = len(nearest)
    if n <= most:
        return np.arange(n, dtype=np.int32)
    pool = np.empty(n, np.int32)
    order = np.argsort(-weights, kind="stable")
    single, rest = order[: most // 2 - 1], order[most // 2 - 1 :]
    pool[single] = np.arange(len(single))
    symbols, member = np.unique(nearest[rest], return_inverse=True)
    ranked = np.argsort(-np.bincount(member, weights[rest]), kind="stable")
    number = np.empty(len(symbols), np.int64)
    number[ranked] = np.arange(len(symbols))
    pool[rest] = len(single) + np.minimum(number, most - len(single) - 1)[member]
    return pool


def _by_symbol(
    symbols: Ids, L: Ids, R: Ids, p: Array, n_o: int, n_R: int
) -> tuple[Codes, Ids, Ids, Array]:
    """Entries in the order of symbols, then L, then R; those that pooling made equal are added."""
    keys = (symbols.astype(np.int64) * (int(L.max()) + 1) + L) * n_R + R
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    new = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
    at = order[new]
    entries = np.concatenate(
        [np.zeros(1, np.int64), np.cumsum(np.bincount(symbols[at], minlength=n_o))]
    )
    return entries, L[at], R[at], np.add.reduceat(p[order], new)


@njit(cache=True, nogil=True)
def _mix(entries, L, R, weights, G, W, shares, B):  # type: ignore[no-untyped-def]
    """B^(m) = Σ_o shares[o, m] G H_o W: first H_o W, a row for each L, then one product."""
    k = G.shape[1]
    for o in range(len(shares)):
        begin, end = entries[o], entries[o + 1]
        rows = 0
        for e in range(begin, end):
            rows += e == begin or L[e] != L[e - 1]
        if rows == 0:
            continue
        left, right = np.empty((rows, k)), np.zeros((rows, k))
        row = -1
        for e in range(begin, end):
            if e == begin or L[e] != L[e - 1]:
                row += 1
                left[row] = G[L[e]]
            w, r = weights[e], R[e]
            for j in range(k):
                right[row, j] += w * W[r, j]
        B_o = np.dot(left.T, right)
        for m in range(shares.shape[1]):
            if shares[o, m] != 0.0:
                B[m] += shares[o, m] * B_o
