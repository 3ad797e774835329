"""Counting contexts: which futures follow which pasts. One pass, integers that add.

The trees are frozen before the pass. Each position adds one to the pair of its past and its future,
H[u, v]; each symbol one to the triple of the past before it, itself and the future after it,
H_o[u, v]; each symbol or end one to what follows its past in the context tree. All are sparse.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any, Self

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sojourn.checks import check_arrays
from sojourn.contexts.grow import grow
from sojourn.contexts.pieces import NO_LIMIT, Pieces, Tally
from sojourn.contexts.tables import Keys, Table, cells
from sojourn.contexts.trees import (
    Codes,
    Flat,
    Ints,
    Tree,
    cut,
    kept_ancestors,
    lay_out,
    locate,
    pruned,
)
from sojourn.errors import SojournError
from sojourn.scale.threads import each, n_threads, shared_out

# Symbols that a thread lays out and counts at a time: their arrays stay in the cache.
CHUNK = 1 << 15


@dataclass(frozen=True, eq=False)
class Trees:
    """Frozen trees of pasts and futures, and the contexts that their nodes belong to.

    Parameters
    ----------
    pasts, futures : Tree
    past_context, future_context : int32 arrays (n_nodes,)
        Context of each node of either tree.
    n_pasts, n_futures : int
        Number of contexts.
    reads : int32 array (n_symbols,) or None
        What is read in place of each symbol: one that stands for its class (`classes`). None where
        all are read as they are.
    """

    pasts: Tree
    futures: Tree
    past_context: Codes
    future_context: Codes
    n_pasts: int
    n_futures: int
    reads: Codes | None = None

    def __post_init__(self) -> None:
        check_arrays(self, past_context="int32 p", future_context="int32 f")
        if self.reads is not None:
            check_arrays(self, reads=f"int32 {self.n_symbols}")
            if self.reads.min() < 0 or self.reads.max() >= self.n_symbols:
                raise SojournError("trees read symbols of the vocabulary")
        for tree, context, n in (
            (self.pasts, self.past_context, self.n_pasts),
            (self.futures, self.future_context, self.n_futures),
        ):
            inside = context.shape == tree.parent.shape and 0 <= context.min() <= context.max() < n
            if not inside:
                raise SojournError("a context of a tree's node is beyond their number")
        if self.pasts.forward or not self.futures.forward:
            raise SojournError("pasts are read backwards and futures forwards")
        if self.pasts.n_symbols != self.futures.n_symbols:
            raise SojournError("trees of pasts and futures have one vocabulary")

    @property
    def n_symbols(self) -> int:
        """Size of the vocabulary."""
        return self.pasts.n_symbols

    def cut(self, split_at: float) -> Trees:
        """The same trees with contexts of nodes that at least `split_at` positions reach."""
        past, n_pasts = cut(self.pasts, split_at)
        future, n_futures = cut(self.futures, split_at)
        return replace(
            self, past_context=past, future_context=future, n_pasts=n_pasts, n_futures=n_futures
        )

    def pruned(self, least: float) -> Trees:
        """The same contexts without the nodes of futures below them, which nothing counts.

        Of the pasts, which a context tree uses, those that at least `least` positions reached stay.
        """
        pasts, number = pruned(self.pasts, kept_ancestors(self.pasts, self.past_context, least))
        context = np.empty(pasts.n_nodes, np.int32)
        context[number] = self.past_context
        futures, _ = pruned(self.futures, kept_ancestors(self.futures, self.future_context))
        alone = np.arange(futures.n_nodes, dtype=np.int32)
        return replace(
            self, pasts=pasts, futures=futures, past_context=context, future_context=alone
        )


def grow_trees(
    pieces: Pieces,
    n_symbols: int,
    split_at: int,
    keep_at: int,
    split_pasts_at: int | None = None,
    reads: Codes | None = None,
) -> Trees:
    """Trees of the pasts and futures in the pieces; every node is a context of its own.

    Pasts may be split at fewer positions than futures.
    """
    flat = lay_out(pieces, n_symbols, reads)
    # Pasts keep every child: what follows it is smoothed by its parent's. Futures are features.
    pasts = grow(flat, n_symbols, False, split_pasts_at or split_at, 1)
    futures = grow(flat, n_symbols, True, split_at, keep_at)
    u, v = (np.arange(tree.n_nodes, dtype=np.int32) for tree in (pasts, futures))
    return Trees(pasts, futures, u, v, pasts.n_nodes, futures.n_nodes, reads)


@dataclass(frozen=True, eq=False)
class ContextCounts:
    """Counts over contexts; those over the same trees add.

    Parameters
    ----------
    trees : Trees
    pairs : Table
        Of past · n_futures + future, over positions.
    moves : Table
        Of (past · n_symbols + symbol) · n_futures + future one step on, over symbols.
    follows : Table
        Of node of the pasts · (n_symbols + 1) + symbol or end, over symbols and ends.
    first : int64 array (n_futures,)
        Futures from the start of a sequence on.
    """

    trees: Trees
    pairs: Table
    moves: Table
    follows: Table
    first: Ints

    def __post_init__(self) -> None:
        trees = self.trees
        n_u, n_v, n_o = trees.n_pasts, trees.n_futures, trees.n_symbols
        n_nodes = trees.pasts.n_nodes
        limits = (n_u * n_v, n_u * n_o * n_v, n_nodes * (n_o + 1))
        for table, limit in zip((self.pairs, self.moves, self.follows), limits, strict=True):
            if table.keys.size and int(table.keys[-1]) >= limit:
                raise SojournError("counts are of contexts or symbols that the trees do not have")
        check_arrays(self, first=f"int64+ {n_v}")

    def __add__(self, other: ContextCounts) -> ContextCounts:
        if other.trees is not self.trees and not _same(self.trees, other.trees):
            raise SojournError("counts over different trees do not add; fit again")
        return ContextCounts(
            self.trees,
            self.pairs + other.pairs,
            self.moves + other.moves,
            self.follows + other.follows,
            self.first + other.first,
        )

    def follows_of(self, trees: Trees, least: float) -> Table:
        """What follows the pasts of ``trees.pruned(least)``, trees being a cut of these."""
        _, number = pruned(trees.pasts, kept_ancestors(trees.pasts, trees.past_context, least))
        n = np.uint64(trees.n_symbols + 1)

        def to(keys: Keys) -> Keys:
            node, symbol = np.divmod(keys, n)
            return number[node].astype(np.uint64) * n + symbol

        return self.follows.grouped(to, len(number) * int(n))

    def grouped(self, trees: Trees) -> ContextCounts:
        """The counts over a coarser cut of the same trees."""
        if _same(self.trees, trees):
            return self
        n, m = np.uint64(self.trees.n_futures), np.uint64(trees.n_futures)
        n_o, n_cells = np.uint64(trees.n_symbols), trees.n_pasts * trees.n_futures
        past, future = np.empty(self.trees.n_pasts, np.uint64), np.empty(int(n), np.uint64)
        past[self.trees.past_context] = trees.past_context  # the coarser context of each
        future[self.trees.future_context] = trees.future_context

        def pair(keys: Keys) -> Keys:
            left, right = np.divmod(keys, n)
            return past[left] * m + future[right]

        def move(keys: Keys) -> Keys:
            left, right = np.divmod(keys, n)
            left, symbol = np.divmod(left, n_o)
            return (past[left] * n_o + symbol) * m + future[right]

        pairs = self.pairs.grouped(pair, n_cells)
        moves = self.moves.grouped(move, n_cells * trees.n_symbols)
        first = np.bincount(future.astype(np.int64), self.first, int(m)).astype(np.int64)
        return ContextCounts(trees, pairs, moves, self.follows, first)


def _same(a: Trees, b: Trees) -> bool:
    def arrays(t: Trees) -> list[NDArray[np.generic]]:
        trees = [x for tree in (t.pasts, t.futures) for x in (tree.parent, tree.token, tree.split)]
        reads = np.empty(0) if t.reads is None else t.reads
        return [*trees, t.past_context, t.future_context, reads]

    return all(np.array_equal(x, y) for x, y in zip(arrays(a), arrays(b), strict=True))


def count_contexts(pieces: Pieces, trees: Trees, n_jobs: int | None = None) -> ContextCounts:
    """Counts of the pieces over the trees, by threads; the same for any number of them."""
    n = pieces.n_total + len(pieces)
    count = partial(_count, trees, pieces, most=n)
    return reduce(operator.add, shared_out(count, _chunks(pieces), n_jobs)).counts(n_jobs)


@dataclass(frozen=True, eq=False)
class ContextMoments:
    """Counts over contexts, and the pieces held out of them; those over the same trees add.

    Parameters
    ----------
    counts : ContextCounts
    heldout : Pieces
        What was not counted, to choose the rank and the mixture by.
    n_sequences, n_total : int
        Number of sequences and of symbols, the held-out ones included.
    limit : int
        Pieces with this key or a larger one are not held out; see `Pieces.bounded`.
    """

    counts: ContextCounts
    heldout: Pieces
    n_sequences: int
    n_total: int
    limit: int = NO_LIMIT

    def __post_init__(self) -> None:
        codes, n_o = self.heldout.codes, self.counts.trees.n_symbols
        if codes.size and not -1 <= codes.min() <= codes.max() < n_o:
            raise SojournError(f"heldout.codes must lie in -1 … {n_o - 1}")
        for name in ("n_sequences", "n_total", "limit"):
            if not 0 <= operator.index(getattr(self, name)) <= NO_LIMIT:
                raise SojournError(f"{name} is {getattr(self, name)}; it lies in 0 … {NO_LIMIT}")

    def __add__(self, other: ContextMoments) -> ContextMoments:
        limit = min(self.limit, other.limit)
        kept, evicted, limit = (self.heldout + other.heldout).bounded(limit)
        counts = self.counts + other.counts
        return ContextMoments(
            counts + count_contexts(evicted, counts.trees, 1) if len(evicted) else counts,
            kept.compact(),
            self.n_sequences + other.n_sequences,
            self.n_total + other.n_total,
            limit,
        )


class ContextTally(Tally):
    """Counts over contexts under way."""

    def __init__(self, trees: Trees) -> None:
        super().__init__()
        self._counter = _Counter(trees)

    def moments(self) -> ContextMoments:
        """What was counted until now."""
        sizes = (self.n_sequences, self.n_total, self.limit)
        return ContextMoments(self._counter.counts(), self.heldout, *sizes)

    def _count(self, pieces: Pieces, n_jobs: int | None) -> None:
        chunks = _chunks(pieces)
        if min(n_threads(n_jobs), len(chunks)) <= 1:
            _count(self._counter.trees, pieces, chunks, self._counter)
            return
        counters = shared_out(partial(_count, self._counter.trees, pieces), chunks, n_jobs)
        self._counter = reduce(operator.add, counters, self._counter)

    def _join(self, other: Self) -> None:
        self._counter = self._counter + other._counter


class _Counter:
    """Tables under way; pieces are added in any order."""

    def __init__(self, trees: Trees, most: int | None = None) -> None:
        """Tables of all keys, unless `most` positions are few for them."""
        self.trees = trees
        n_cells = trees.n_pasts * trees.n_futures
        sizes = (n_cells, n_cells * trees.n_symbols, trees.pasts.n_nodes * (trees.n_symbols + 1))
        # pairs, moves, follows
        self.tables: Any = [cells(n, most) for n in sizes]
        self.first = np.zeros(trees.n_futures, np.int64)

    def __add__(self, other: _Counter) -> _Counter:
        both = copy(self)
        both.tables = [a.joined(b) for a, b in zip(self.tables, other.tables, strict=True)]
        both.first = self.first + other.first
        return both

    def counts(self, n_jobs: int | None = 1) -> ContextCounts:
        """What was counted until now."""
        pairs, moves, follows = each(lambda table: table.sorted(), self.tables, n_jobs)
        return ContextCounts(self.trees, pairs, moves, follows, self.first.copy())


def _count(
    trees: Trees,
    pieces: Pieces,
    chunks: Iterable[Ints],
    into: _Counter | None = None,
    most: int | None = None,
) -> _Counter:
    """Count chunks of the pieces, into a counter or a new one for `most` positions."""
    counter = _Counter(trees, most) if into is None else into
    for chunk in chunks:
        some = pieces.take(chunk)
        flat = lay_out(some, trees.n_symbols, trees.reads)
        past, future = locate(trees.pasts, flat), locate(trees.futures, flat)
        for table, found in zip(counter.tables, _keys(flat, trees, past, future), strict=True):
            table.add(found)
        fresh = flat.starts[some.fresh & (flat.stops > flat.starts)]
        np.add.at(counter.first, trees.future_context[future[fresh]], 1)
    return counter


def _chunks(pieces: Pieces) -> list[Ints]:
    ends = np.cumsum(pieces.ends - pieces.begins + 2)
    cuts = np.searchsorted(ends, np.arange(CHUNK, ends[-1] if len(ends) else 0, CHUNK))
    return [c for c in np.split(np.arange(len(pieces)), np.unique(cuts)) if len(c)]


def _keys(flat: Flat, trees: Trees, past: Codes, future: Codes) -> list[NDArray[np.uint64]]:
    """What the positions add to the pairs, the moves and the follows."""
    keys = [np.empty(len(flat.codes), np.uint64) for _ in range(3)]
    contexts = (trees.past_context, trees.future_context)
    sizes = (np.uint64(trees.n_symbols), np.uint64(trees.n_futures))
    used = _fill_keys(flat.codes, flat.starts, flat.stops, past, future, *contexts, *sizes, *keys)
    return [found[:n] for found, n in zip(keys, used, strict=True)]


@njit(cache=True, nogil=True)
def _fill_keys(  # type: ignore[no-untyped-def]
    codes, starts, stops, past, future, past_context, future_context, n_o, n_v,
    pairs, moves, follows,
):  # fmt: skip
    a, b, c = 0, 0, 0
    for i in range(len(starts)):
        for p in range(starts[i], stops[i]):
            u = np.uint64(past_context[past[p]])
            pairs[a] = u * n_v + np.uint64(future_context[future[p]])
            a += 1
            symbol = np.uint64(codes[p])
            if symbol <= n_o:
                follows[c] = np.uint64(past[p]) * (n_o + np.uint64(1)) + symbol
                c += 1
                if symbol < n_o and p + 1 < stops[i]:
                    then = np.uint64(future_context[future[p + 1]])
                    moves[b] = (u * n_o + symbol) * n_v + then
                    b += 1
    return a, b, c
