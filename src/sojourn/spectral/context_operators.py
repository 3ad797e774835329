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

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sojourn.checks import check_arrays
from sojourn.contexts.counts import ContextCounts, Trees
from sojourn.contexts.tables import Table
from sojourn.contexts.trees import BY_LENGTH, Ints
from sojourn.errors import SojournError
from sojourn.scale.threads import each
from sojourn.spectral.operators import leading_svd, scaled_svd

Floats = NDArray[np.float64]

RIDGE = 0.1
RIDGE_OF_CLASSES = 20.0  # a rare symbol has few counts: directions of noise are not for it
ROUNDING = 1e-9  # singular values below this share of the first are not structure
# From this many symbols on they share operators: what differs by less than noise is made alike.
SHARED_FROM, MAX_SHARED = 257, 64
NOISE = 2.0  # of counts, in units of what it is for equally frequent contexts
POWERS = 6  # of counts by themselves in the decomposition: small directions are close to noise
BLOCK = 1 << 22  # numbers at a time; symbols in the first block decide what is shared
# Entries of a table at a time, and of a part of it with some symbols of a small alphabet.
STEP, PART = 1 << 18, 1 << 20


@dataclass(frozen=True, eq=False)
class ContextOperators:
    """A linear model of sequences over contexts.

    Parameters
    ----------
    start : array (k,)
        The state before the first symbol.
    emit : array (n_symbols + 1, k)
        ``emit @ q`` are the probabilities of the symbols and of the end.
    own : array (n_symbols or n_shared, k, k)
        M_o of each symbol, or what all of them are made of.
    modes : array (n_symbols, n_shared) or (0, 0)
        With modes the operator of a symbol is ``Σ_j modes[o, j] own[j]``.
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
    modes: Floats
    restart: Floats
    singular_values: Floats
    ridge: float

    def __post_init__(self) -> None:
        sizes = check_arrays(
            self,
            start="float64 k",
            emit="float64 e k",
            own="float64 n k k",
            modes="float64 m j",
            restart="float64 p k",
            singular_values="float64+ s",
        )
        n_o, n = sizes["e"] - 1, sizes["n"]
        right = (sizes["m"], sizes["j"], n) in ((0, 0, n_o), (n_o, n, max(n, 1)))
        if not right or not 1 <= sizes["k"] <= sizes["s"] or sizes["p"] < 1:
            raise SojournError(f"the shapes of the operators do not fit together: {sizes}")

    @property
    def rank(self) -> int:
        """Number of directions in use."""
        return len(self.start)

    @property
    def n_symbols(self) -> int:
        """Number of symbols."""
        return len(self.emit) - 1

    def combined(self, weights: Floats) -> Floats:
        """The sum of the operators of the symbols, with weights; ones for a step not seen."""
        return np.tensordot(weights @ self.modes if len(self.modes) else weights, self.own, 1)

    def cut(self, rank: int) -> ContextOperators:
        """The leading `rank` directions: a smaller model is a corner of a larger one."""
        k = min(rank, self.rank)
        return ContextOperators(
            self.start[:k].copy(),
            self.emit[:, :k].copy(),
            self.own[:, :k, :k].copy(),
            self.modes,
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
        return replace(self, emit=emit, own=self.own * factor[:, None], ridge=ridge)


class Moves(NamedTuple):
    """Counts of past, symbol and future: a row for each past and symbol that was met."""

    met: sp.csr_array  # (n, n_v)
    past: Ints  # of each row            (n,)
    symbol: Ints
    symbols: range  # all that the counts are of


def learn_operators(
    counts: ContextCounts,
    max_rank: int,
    ends: bool,
    ridge: float = RIDGE,
    seed: int = 0,
    more: ContextCounts | None = None,
    n_jobs: int | None = 1,
) -> ContextOperators:
    """Operators of all counts, and of `more`, with at most `max_rank` directions.

    Matrices are multiplied by as many threads as NumPy uses: one, where bits must not change.
    """
    trees, all_of = counts.trees, [counts] if more is None else [counts, more]
    n_o, n_u, n_v = trees.n_symbols, trees.n_pasts, trees.n_futures
    pairs = reduce(operator.add, (some.pairs for some in all_of))
    used = np.ones(n_v, bool) if ends else _unended(trees, pairs)
    met, past = _matrix(pairs, n_v, used)
    place = np.searchsorted(past, np.arange(n_u + 1))  # every past has a row
    H: Any = sp.csr_array((met.data.astype(float), met.indices, met.indptr[place]), (n_u, n_v))
    # Large tables become matrices a few symbols at a time; adding them up first would take memory.
    n_parts = 1 if n_o >= SHARED_FROM else min(n_o, 1 + len(counts.moves.keys) // PART)
    bounds = np.linspace(0, n_o, n_parts + 1).astype(int).tolist()

    def moves(symbols: range) -> Moves:
        tables = (some.moves.between(symbols, n_u, n_o, n_v) for some in all_of)
        met, row = _matrix(reduce(operator.add, tables), n_v, used)
        return Moves(met, *np.divmod(row, n_o), symbols)

    H_o = [partial(moves, range(a, b)) for a, b in pairwise(bounds)]
    begins = np.full(n_v, -1)  # of a context the first of its nodes, which is above the others
    begins[trees.future_context[::-1]] = trees.futures.first_tokens[::-1]
    # One average future more: the start of one long sequence does not exclude all other starts.
    first = np.where(used, sum(some.first for some in all_of), 0.0)
    first = first + H.sum(axis=0) / max(H.sum(), 1.0)
    moments = (H, H_o, n_o, first, begins)
    return from_moments(*moments, max_rank, ridge=ridge, seed=seed, n_jobs=n_jobs)


def _matrix(table: Table, n_v: int, used: NDArray[np.bool_]) -> tuple[sp.csr_array, Ints]:
    """Counts with a row for each past, or past and symbol, that has any, and what it is of.

    Futures that are not used have none. Integers as they are: the counts of large data are many.
    """
    right, n = np.empty(len(table.keys), np.int32), np.empty_like(table.counts)
    first, of, size, previous = [np.empty(0, np.int64)], [np.empty(0, np.int64)], 0, -1
    for begin in range(0, len(n), STEP):
        keys = table.keys[begin : begin + STEP].astype(np.int64)
        row = keys // n_v
        v = keys - row * n_v
        kept = used[v]
        row, part = row[kept], slice(size, size + int(kept.sum()))
        right[part], n[part] = v[kept], table.counts[begin : begin + STEP][kept]
        new = np.flatnonzero(np.diff(row, prepend=previous))
        first.append(size + new)
        of.append(row[new])
        size, previous = part.stop, row[-1] if len(row) else previous
    bounds = np.append(np.concatenate(first), size)
    met = sp.csr_array((n[:size], right[:size], bounds), (len(bounds) - 1, n_v))
    return met, np.concatenate(of)


def _unended(trees: Trees, pairs: Table) -> NDArray[np.bool_]:
    """Which futures do not reach the end of the sequence, (n_futures,).

    Where lengths say nothing, the others are left out, as windows that do not fit are: an end that
    depends on the length so far is no function of the state. All are used where most reach it.
    """
    tree = trees.futures
    context, above = trees.future_context, trees.future_context[tree.parent]
    ended = (tree.token == tree.n_symbols) & (tree.split[tree.parent] != BY_LENGTH)
    used = np.ones(trees.n_futures, bool)
    used[context[ended & (context != above)]] = False
    n = pairs.counts
    inside = n[used[(pairs.keys % np.uint64(trees.n_futures)).astype(np.int64)]]
    return used if 2 * inside.sum() > n.sum() else np.ones_like(used)


def from_moments(
    H: sp.csr_array,
    H_o: Sequence[Callable[[], Moves]],
    n_symbols: int,
    first: Floats,
    begins: NDArray[np.int64],
    max_rank: int,
    *,
    ridge: float = RIDGE,
    shrink: float = NOISE,
    seed: int = 0,
    n_jobs: int | None = 1,
) -> ContextOperators:
    """Operators from counts, or from exact probabilities with ``ridge=0, shrink=0``.

    `H_o` are functions, each of which gives the counts of some symbols, the one of all where they
    share operators. `first` are futures where a sequence starts, `begins` what a future begins with
    (`n_symbols`: the end). `ridge` and `shrink` are in units of the noise of counting.
    """
    total = H.sum()
    n_iter = POWERS if n_symbols < SHARED_FROM else 2  # of many symbols noise is shrunk below
    d_u, U, s, Vt, d_v = scaled_svd(H, max_rank, seed, n_iter)
    k = max(1, min(max_rank, int((s > ROUNDING * s[0]).sum())))
    U, s, V = U[:, :k], s[:k], Vt[:k].T
    W = V * d_v[:, None]  # Ṽ = D_v^-½ V              (n_v, k)
    used_u, used_v = (d_u > 0).sum(), (d_v > 0).sum()
    noise = float(ridge * (np.sqrt(used_u) + np.sqrt(used_v)) ** 2 / total)
    gain = s / (s * s + noise * (np.arange(k) > 0))
    root_v = np.sqrt(np.asarray(H.sum(axis=0)).ravel())
    w = V.T @ root_v  # w = Vᵀ D_v^½ 1            (k,)
    left = U * d_u[:, None]
    if n_symbols < SHARED_FROM:
        own = np.concatenate(each(lambda part: _Scaled(part(), left, W).all(), H_o, n_jobs))
        modes = np.empty((0, 0))
    else:
        scaled = _Scaled(H_o[0](), left, W)
        own, modes = _shared(scaled, shrink / total, 0.5 * (shrink > 0) / total, seed)
    own *= gain[:, None]  # M_o = (S² + R)⁻¹ S K_o          (n, k, k)
    emit = own @ w  # p(o | q) = q M_o w
    emit = modes @ emit if len(modes) else emit
    end = V[begins == n_symbols].T @ root_v[begins == n_symbols]  # its own row
    restart = (H @ W) * (d_u**2)[:, None]  # D_u⁻¹ H Ṽ                 (n_u, k)
    restart[d_u == 0] = first @ W / max(first.sum(), 1e-300)
    start = first @ W / first.sum() if first.sum() > 0 else root_v**2 @ W / total
    return ContextOperators(start, np.vstack([emit, end]), own, modes, restart, s, noise)


class _Scaled:
    """K_o = Uᵀ D_u^-½ H_o Ṽ of the symbols, made when asked for."""

    def __init__(self, H_o: Moves, left: Floats, right: Floats) -> None:
        self.met, past, symbol, symbols = H_o
        self.rows = np.lexsort((past, symbol))
        self.past, self.symbol = past[self.rows], symbol[self.rows] - symbols.start
        self.n_symbols = len(symbols)
        self.bounds = np.searchsorted(self.symbol, np.arange(self.n_symbols + 1))
        self.left, self.right, self.k = left, right, left.shape[1]

    def all(self) -> Floats:
        """Of all symbols, (n, k, k)."""
        return self.of(np.arange(self.n_symbols))

    def of(self, symbols: NDArray[np.int64]) -> Floats:
        """Of some symbols, (n, k, k)."""
        out, sizes = np.empty((len(symbols), self.k, self.k)), np.diff(self.bounds)[symbols]
        step = max(1, BLOCK // (self.k * max(int(sizes.max(initial=0)), 1)))
        for first in range(0, len(symbols), step):
            some = slice(first, first + step)
            ends = np.cumsum(sizes[some])
            rows = np.arange(ends[-1]) + np.repeat(
                self.bounds[symbols[some]] - ends + sizes[some], sizes[some]
            )
            after = self.met[self.rows[rows]] @ self.right  # (rows, k)
            left = self.left[self.past[rows]]
            for K, (a, b) in zip(out[some], pairwise([0, *ends.tolist()]), strict=True):
                K[:] = left[a:b].T @ after[a:b]
        return out


def _shared(scaled: _Scaled, noise: float, least: float, seed: int) -> tuple[Floats, Floats]:
    """What the operators of all symbols are made of, and how: their matrix has low rank.

    Row o of it, K_o over the root of how often o was seen, has noise of equal variance in every
    entry: singular values are shrunk as is best for that (Gavish and Donoho). The last matrix goes
    to the average state, for symbols that were hardly seen: all have it with the weight `least`.
    """
    k, n_o, sums = scaled.k, scaled.n_symbols, scaled.met.sum(axis=1)[scaled.rows]
    seen = np.bincount(scaled.symbol, sums, n_o)
    order, step = np.argsort(-seen, kind="stable"), max(BLOCK // (k * k), 1)
    first, *rest = np.split(order, np.arange(step, n_o, step))  # the most frequent ones decide
    X, root = scaled.of(first).reshape(len(first), -1), np.sqrt(np.maximum(seen[first], 0.5))
    X /= root[:, None]
    _, s, basis = leading_svd(X, min(MAX_SHARED, *X.shape), seed)
    s = s[: len(basis)]
    a, b = noise**2 * np.array(X.shape)
    shrunk = np.sqrt(np.maximum((s * s - a - b) ** 2 - 4 * a * b, 0.0)) / np.maximum(s * s, 1e-300)
    shrunk[s <= np.sqrt(a) + np.sqrt(b)] = 0.0
    shrunk[0] = 1.0  # how frequent symbols are
    kept = shrunk > 0
    modes = np.full((n_o, int(kept.sum()) + 1), least)
    modes[first, :-1] = X @ basis[kept].T * root[:, None]
    for some in rest:
        modes[some, :-1] = scaled.of(some).reshape(len(some), -1) @ basis[kept].T
    average = np.eye(1, k * k)  # the first direction is the same in all states
    return np.vstack([shrunk[kept, None] * basis[kept], average]).reshape(-1, k, k), modes
