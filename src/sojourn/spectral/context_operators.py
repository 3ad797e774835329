r"""Operators from counts of contexts: one scaled singular value decomposition.

Pasts and futures are one-hot, so scaling counts by the square roots of their sums is exactly the
scaling of canonical correlation:

    D_u^-½ H D_v^-½ ≈ U S Vᵀ,   Ṽ = D_v^-½ V,
    M_o = (S² + R)⁻¹ S Uᵀ D_u^-½ H_o Ṽ,   p(o | q) = q M_o w,   w = Vᵀ D_v^½ 1.

A state q is what the futures are expected to be, in the coordinates Ṽ: that of a past context u is
row u of D_u⁻¹ H Ṽ, that before the first symbol the mean of Ṽ over first futures. R is a part, the
ridge, of the variance that counting adds to S²; the first direction has none. The end needs no
operator: its probability is that of the futures that begin with it. Where ends are not predicted,
futures that reach one are left out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sojourn.checks import check_arrays
from sojourn.contexts.counts import ContextCounts
from sojourn.contexts.tables import Table
from sojourn.contexts.trees import BY_LENGTH
from sojourn.errors import SojournError
from sojourn.spectral.operators import scaled_svd

Floats = NDArray[np.float64]

RIDGE = 0.1
ROUNDING = 1e-9  # singular values below this share of the first are not structure
# From this many symbols on the rarer ones share operators, and symbols that occur less often than
# this have none of their own: k² numbers are not learned from fewer.
SHARED_FROM, OWN_AT = 257, 500
MAX_OWN = 1 << 24  # numbers in the operators of single symbols


@dataclass(frozen=True, eq=False)
class ContextOperators:
    """A linear model of sequences over contexts.

    Parameters
    ----------
    start : array (k,)
        The state before the first symbol.
    emit : array (n_symbols + 1, k)
        ``emit @ q`` are the probabilities of the symbols and of the end.
    own : array (n_own, k, k)
        M_o of the symbols that have one of their own.
    which : int32 array (n_symbols,)
        Where a symbol's operator is in `own`, or -1.
    shared : array (k or 0, k, k)
        The operator of a symbol without its own is ``Σ_j emit[o, j] shared[j]``.
    restart : array (n_pasts, k)
        The state of each past context.
    singular_values : array
        Of the scaled counts, largest first; the first is 1.
    ridge : float
        What was added to the squares of all but the first of them.
    """

    start: Floats
    emit: Floats
    own: Floats
    which: NDArray[np.int32]
    shared: Floats
    restart: Floats
    singular_values: Floats
    ridge: float

    def __post_init__(self) -> None:
        sizes = check_arrays(
            self,
            start="float64 k",
            emit="float64 e k",
            own="float64 n k k",
            which="int32 o",
            shared="float64 j k k",
            restart="float64 p k",
            singular_values="float64+ s",
        )
        k = sizes["k"]
        right = sizes["e"] == sizes["o"] + 1 and sizes["j"] in (0, k) and 1 <= k <= sizes["s"]
        if not right or sizes["p"] < 1:
            raise SojournError(f"the shapes of the operators do not fit together: {sizes}")
        if np.any(self.which < -1) or np.any(self.which >= len(self.own)):
            raise SojournError("a symbol's operator is beyond their number")
        if np.any(self.which < 0) and not len(self.shared):
            raise SojournError("symbols without operators need shared ones")

    @property
    def rank(self) -> int:
        """Number of directions in use."""
        return len(self.start)

    @property
    def n_symbols(self) -> int:
        """Number of symbols."""
        return len(self.which)

    def combined(self, weights: Floats) -> Floats:
        """The sum of the operators of the symbols, with weights; ones for a step not seen."""
        own, rest = self.which >= 0, self.which < 0
        total = np.tensordot(np.bincount(self.which[own], weights[own], len(self.own)), self.own, 1)
        if rest.any():
            total = total + np.tensordot(weights[rest] @ self.emit[:-1][rest], self.shared, 1)
        return total

    def cut(self, rank: int) -> ContextOperators:
        """The leading `rank` directions: a smaller model is a corner of a larger one."""
        k = min(rank, self.rank)
        return ContextOperators(
            self.start[:k].copy(),
            self.emit[:, :k].copy(),
            self.own[:, :k, :k].copy(),
            self.which,
            self.shared[:k, :k, :k].copy(),
            self.restart[:, :k].copy(),
            self.singular_values,
            self.ridge,
        )

    def with_ridge(self, ridge: float) -> ContextOperators:
        """The same operators with another ridge, which scales their rows."""
        s2 = self.singular_values[: self.rank] ** 2
        factor = np.where(np.arange(self.rank) > 0, (s2 + self.ridge) / (s2 + ridge), 1.0)
        emit = self.emit * factor
        emit[-1] = self.emit[-1]  # the end has a row of its own
        shared = self.shared * factor[:, None] / factor[: len(self.shared), None, None]
        own = self.own * factor[:, None]
        return replace(self, emit=emit, own=own, shared=shared, ridge=ridge)


def learn_operators(
    counts: ContextCounts, max_rank: int, ends: bool, ridge: float = RIDGE, seed: int = 0
) -> ContextOperators:
    """Operators of all counts, with at most `max_rank` directions.

    Matrices are multiplied by as many threads as NumPy uses: one, where bits must not change.
    """
    trees = counts.trees
    n_o, n_u, n_v = trees.n_symbols, trees.n_pasts, trees.n_futures
    used = np.ones(n_v, bool) if ends else _unended(counts)
    (left, right), n = _entries(counts.pairs, n_v, used)
    H = sp.csr_array((n, (left, right)), (n_u, n_v))
    (left, right), n = _entries(counts.moves, n_v, used)
    past, symbol = np.divmod(left, n_o)
    H_o = sp.csr_array((n, (symbol * n_u + past, right)), (n_o * n_u, n_v))
    begins = np.full(n_v, -1)
    begins[trees.future_context] = trees.futures.first_tokens
    # One average future more: the start of one long sequence does not exclude all other starts.
    first = np.where(used, counts.first, 0.0) + H.sum(axis=0) / max(H.sum(), 1.0)
    return from_moments(H, H_o, first, begins, max_rank, ridge=ridge, seed=seed)


def _entries(
    table: Table, n_v: int, used: NDArray[np.bool_]
) -> tuple[tuple[NDArray[np.int64], NDArray[np.int64]], Floats]:
    """Rows, columns and counts of a table, in the columns that are used."""
    left, right = np.divmod(table.keys.astype(np.int64), n_v)
    if used.all():
        return (left, right), table.counts.astype(float)
    kept = used[right]
    return (left[kept], right[kept]), table.counts[kept].astype(float)


def _unended(counts: ContextCounts) -> NDArray[np.bool_]:
    """Which futures do not reach the end of the sequence, (n_futures,).

    Where lengths say nothing, the others are left out, as windows that do not fit are: an end that
    depends on the length so far is no function of the state. All are used where most reach it.
    """
    trees, tree = counts.trees, counts.trees.futures
    context, above = trees.future_context, trees.future_context[tree.parent]
    ended = (tree.token == tree.n_symbols) & (tree.split[tree.parent] != BY_LENGTH)
    used = np.ones(trees.n_futures, bool)
    used[context[ended & (context != above)]] = False
    n = counts.pairs.counts
    inside = n[used[(counts.pairs.keys % np.uint64(trees.n_futures)).astype(np.int64)]]
    return used if 2 * inside.sum() > n.sum() else np.ones_like(used)


def from_moments(
    H: sp.csr_array,
    H_o: sp.csr_array,
    first: Floats,
    begins: NDArray[np.int64],
    max_rank: int,
    *,
    ridge: float = RIDGE,
    seed: int = 0,
) -> ContextOperators:
    """Operators from counts, or from exact probabilities with ``ridge=0``.

    Parameters
    ----------
    H : sparse array (n_u, n_v)
        Of past and future at a position.
    H_o : sparse array (n_symbols · n_u, n_v)
        Of symbol, the past before it and the future after it.
    first : array (n_v,)
        Of the futures where a sequence starts.
    begins : int64 array (n_v,)
        The symbol that a future begins with, ``n_symbols`` for the end.
    max_rank : int
    ridge : float
        In units of the variance that counting adds to a squared singular value.
    seed : int
        Of the random projection.
    """
    n_u, n_v = H.shape
    n_o = H_o.shape[0] // n_u
    total = H.sum()
    d_u, U, s, Vt, d_v = scaled_svd(H, max_rank, seed)
    k = max(1, min(max_rank, int((s > ROUNDING * s[0]).sum())))
    U, s, V = U[:, :k], s[:k], Vt[:k].T
    W = V * d_v[:, None]  # Ṽ = D_v^-½ V              (n_v, k)
    used_u, used_v = (d_u > 0).sum(), (d_v > 0).sum()
    noise = float(ridge * (np.sqrt(used_u) + np.sqrt(used_v)) ** 2 / total)
    G = (U * d_u[:, None] * (s / (s * s + noise * (np.arange(len(s)) > 0)))).T  # (k, n_u)
    root_v = np.sqrt(np.asarray(H.sum(axis=0)).ravel())
    w = V.T @ root_v  # w = Vᵀ D_v^½ 1            (k,)
    seen = np.asarray(H_o.sum(axis=1)).reshape(n_o, n_u).sum(axis=1)
    own, which, shared, emit = _moves(H_o, G, W, w, seen)
    end = V[begins == n_o].T @ root_v[begins == n_o]  # the end's own row of the same sum
    restart = (H @ W) * (d_u**2)[:, None]  # D_u⁻¹ H Ṽ                 (n_u, k)
    restart[d_u == 0] = first @ W / max(first.sum(), 1e-300)
    start = first @ W / first.sum() if first.sum() > 0 else root_v**2 @ W / total
    return ContextOperators(start, np.vstack([emit, end]), own, which, shared, restart, s, noise)


def _moves(
    H_o: sp.csr_array, G: Floats, W: Floats, w: Floats, seen: Floats
) -> tuple[Floats, NDArray[np.int32], Floats, Floats]:
    """Operators of the symbols: their own, or what those of all symbols have in common."""
    (k, n_u), n_o = G.shape, len(seen)
    emit, which = np.empty((n_o, k)), np.full(n_o, -1, np.int32)
    few = n_o < SHARED_FROM
    order = np.argsort(-seen, kind="stable")
    n_own = n_o if few else min(int((seen >= OWN_AT).sum()), MAX_OWN // (k * k))
    which[order[:n_own]] = np.arange(n_own)
    own = np.empty((n_own, k, k))
    crossed, squares = np.zeros((k, k * k)), np.zeros((k, k))
    rows = np.flatnonzero(np.diff(H_o.indptr))  # most pasts are never before a rare symbol
    met, bounds = H_o[rows], np.searchsorted(rows, n_u * np.arange(n_o + 1))
    step = max(1, (1 << 22) // (k * max(k, int(np.diff(bounds).max()))))
    for first in range(0, n_o, step):
        last = min(first + step, n_o)
        M, begin, end = np.empty((last - first, k, k)), bounds[first], bounds[last]
        pasts, after = rows[begin:end] % n_u, met[begin:end] @ W  # H_o Ṽ          (all rows, k)
        for o, (a, b) in enumerate(pairwise((bounds[first : last + 1] - begin).tolist())):
            M[o] = G[:, pasts[a:b]] @ after[a:b]  # M_o = G H_o Ṽ                           (k, k)
        emit[first:last] = M @ w  # p(o | q) = q M_o w
        has = which[first:last] >= 0
        own[which[first:last][has]] = M[has]
        if not few:
            # M_o is linear in what the states emit: least squares over symbols, by how often seen
            weighed = emit[first:last] / np.maximum(seen[first:last], 1.0)[:, None]
            crossed += weighed.T @ M.reshape(last - first, -1)
            squares += weighed.T @ emit[first:last]
    if few:
        return own, which, np.empty((0, k, k)), emit
    squares[np.diag_indices(k)] += 1e-9 * np.trace(squares) / k
    shared = np.linalg.solve(squares, crossed).reshape(k, k, k).astype(np.float64)
    return own, which, shared, emit
