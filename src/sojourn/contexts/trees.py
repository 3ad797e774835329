"""Contexts: trees of pasts and futures of variable length, grown from data.

A position is a step of a sequence, or its end. Its past is read backwards and its future forwards,
in runs: the symbol of a run, a bucket of the run's length, then the next run. A node that at least
`split_at` positions reach is split by what they read next; a path closes at the start or end of the
sequence and at a missing symbol. So every position has one node in the tree of pasts and one in the
tree of futures: one-hot features whose length adapts to the data.

Coarser trees are cuts of a fine one (`cut`): a tree is grown once, counted once, and every size in
between follows by adding up counts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sojourn.checks import check_arrays, positive_int
from sojourn.contexts.pieces import Pieces
from sojourn.data.adapters import read_only
from sojourn.errors import SojournError

Ints = NDArray[np.int64]
Codes = NDArray[np.int32]

# Lengths of runs that are distinguished: the least of each bucket. Longer runs in coarser steps.
BUCKETS = np.array(
    [1, 2, 3, 4, 5, 7, 9, 13, 17, 25, 33, 49, 65, 97, 129, 193, 257, 385, 513, 769, 1025], np.int32
)
_SMALL = 1025
# The bucket of every short length, in a table.
BUCKET_OF = (np.searchsorted(BUCKETS, np.arange(_SMALL + 1), side="right") - 1).astype(np.int32)
MAX_RUNS = 24  # runs that a path reads at most

# What a node does with a position: nothing more, or split by the symbol at the pointer, by the
# length of the run there, or by the symbol of the run after it (all lengths in one bucket).
LEAF, BY_SYMBOL, BY_LENGTH, BY_NEXT_SYMBOL = 0, 1, 2, 3


@dataclass(frozen=True, eq=False)
class Tree:
    """A tree of pasts or of futures.

    Parameters
    ----------
    parent : int32 array (n_nodes,)
        -1 for the root; parents stand before their children.
    token : int32 array (n_nodes,)
        What a node's positions read at its parent: a symbol, ``n_symbols`` for the start or end of
        the sequence, ``n_symbols + 1`` for a missing symbol, or a bucket of lengths.
    split : uint8 array (n_nodes,)
        How a node is split: LEAF, BY_SYMBOL, BY_LENGTH or BY_NEXT_SYMBOL.
    count : int64 array (n_nodes,)
        Positions that reached the node when the tree was grown.
    n_symbols : int
    forward : bool
        Whether it is read forwards, as futures are.
    """

    parent: Codes
    token: Codes
    split: NDArray[np.uint8]
    count: Ints
    n_symbols: int
    forward: bool

    def __post_init__(self) -> None:
        nodes = {"parent": "int32 n", "token": "int32 n", "split": "uint8 n", "count": "int64+ n"}
        n = check_arrays(self, **nodes)["n"]
        if n < 1 or self.parent[0] != -1 or positive_int("n_symbols", self.n_symbols) >= 2**31:
            raise SojournError("a tree has a root, and symbols that fit 32 bits")
        if type(self.forward) is not bool:
            raise SojournError("forward of a tree is True or False")
        inner = self.parent[1:]
        if np.any(inner < 0) or np.any(inner >= np.arange(1, n)):
            raise SojournError("parents of a tree stand before their children")
        width = max(self.n_symbols + 2, len(BUCKETS))
        if np.any(self.token[1:] < 0) or np.any(self.token[1:] >= width) or np.any(self.split > 3):
            raise SojournError(
                "a tree reads symbols, buckets of lengths, and the ends of sequences"
            )
        if np.any(self.split[inner] == LEAF) or np.any(self.count < 0):
            raise SojournError("a leaf of a tree has no children, and counts are not negative")
        children = np.bincount(inner, minlength=n)
        sizes = np.where(children > 0, 1 << np.ceil(np.log2(children + 1)).astype(np.int64), 1)
        first = np.cumsum(sizes) - sizes  # at least one slot of a row stays empty
        table = np.stack([first, sizes - 1, self.split, self.token], axis=1).astype(np.int32)
        lookup = Lookup(table.ravel(), np.zeros(int(sizes.sum()), np.int32))
        _fill(*lookup, self.parent)
        object.__setattr__(self, "_lookup", lookup)

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.parent)

    @cached_property
    def first_tokens(self) -> Ints:
        """What the positions of each node read first; -1 at the root."""
        at = np.arange(self.n_nodes)
        while True:
            above = self.parent[at]
            higher = above > 0
            if not higher.any():
                return np.where(above == 0, self.token[at], -1).astype(np.int64)
            at = np.where(higher, above, at)

    @property
    def lookup(self) -> Lookup:
        """The tables by which kernels find a child."""
        return self._lookup  # type: ignore[attr-defined]


class Lookup(NamedTuple):
    """How kernels find a child: each node has a row of slots, found by the last bits of a token."""

    nodes: Codes  # first slot, slots - 1, how it is split, and token of each   flat (n_nodes, 4)
    slots: Codes  # a child, or 0; those of a node come in the order of (token & slots - 1)


@njit(cache=True, nogil=True)
def _fill(nodes, slots, parent):  # type: ignore[no-untyped-def]
    for i in range(1, len(parent)):
        first, last = nodes[4 * parent[i]], nodes[4 * parent[i] + 1]
        at = nodes[4 * i + 3] & last
        while slots[first + at] != 0:
            at = (at + 1) & last
        slots[first + at] = i


@njit(inline="always")
def bucket_of(length, table, least):  # type: ignore[no-untyped-def]
    """The bucket of a run's length."""
    if length < len(table):
        return table[length]
    return np.int32(len(least) - 1)


@njit(inline="always")
def descend(codes, edge, at, step, nodes, slots, table, least):  # type: ignore[no-untyped-def]
    """The deepest node that reading from `at` on reaches; `step` is 1 forwards, -1 backwards.

    Places are unsigned, so that none is taken to be counted from the end of an array.
    """
    one, four = np.uint64(1), np.uint64(4)
    node, q = np.uint64(0), np.int64(at)
    while True:
        how = nodes[node * four + np.uint64(2)]
        if how == LEAF:
            return node
        if how == BY_NEXT_SYMBOL:
            q = np.int64(edge[np.uint64(q)]) + step
        token = codes[np.uint64(q)]
        if how == BY_LENGTH:
            before = q
            q = np.int64(edge[np.uint64(q)]) + step
            token = bucket_of((q - before) * step, table, least)
        first, last = np.uint64(nodes[node * four]), np.uint64(nodes[node * four + one])
        slot = np.uint64(token) & last
        child = np.uint64(slots[first + slot])
        while child != 0 and nodes[child * four + np.uint64(3)] != token:
            slot = (slot + one) & last
            child = np.uint64(slots[first + slot])
        if child == 0:
            return node
        node = child


class Flat(NamedTuple):
    """Pieces of sequences laid end to end, each between two marks: what trees read.

    A code is ``n_symbols`` where a sequence starts or ends, and ``n_symbols + 1`` where a symbol is
    missing and where a piece is cut from its sequence.
    """

    codes: Codes
    read: Codes  # what trees read there: the code, or one for all symbols of its class
    first: Codes  # first and last place of the run, as it is read, that each place is in
    last: Codes
    starts: Ints  # first position of each piece                                 (n,)
    stops: Ints  # the place after its last; the end of a sequence is one         (n,)


def lay_out(pieces: Pieces, n_symbols: int, reads: Codes | None = None) -> Flat:
    """Lay pieces end to end for the trees; step t of piece i is at place ``starts[i] + t``.

    `reads` is what trees read in place of each symbol.
    """
    lengths = pieces.ends - pieces.begins
    size = int(lengths.sum()) + 2 * len(lengths)
    if size >= 2**31:
        raise SojournError(f"{size} places are too many at once; lay out chunks of them")
    starts = np.cumsum(lengths + 2) - lengths - 1
    codes, first, last = (np.empty(size, np.int32) for _ in range(3))
    read = codes if reads is None else np.empty_like(codes)
    where = (pieces.begins, pieces.ends, pieces.fresh, pieces.closed)
    reads = np.empty(0, np.int32) if reads is None else reads
    given = (read_only(pieces.codes), *where, n_symbols, read_only(reads))
    _lay_out(*given, codes, read, first, last)
    return Flat(codes, read, first, last, starts, starts + lengths + pieces.closed)


@njit(cache=True, nogil=True)
def _lay_out(codes, begins, ends, fresh, closed, n_o, reads, flat, read, first, last):  # type: ignore[no-untyped-def]
    p = 0
    for i in range(len(begins)):
        flat[p] = read[p] = n_o if fresh[i] else n_o + 1
        first[p] = p
        p += 1
        for t in range(begins[i], ends[i]):
            c = codes[t]
            flat[p] = c if c >= 0 else n_o + 1
            read[p] = reads[c] if c >= 0 and len(reads) else flat[p]
            first[p] = first[p - 1] if read[p] == read[p - 1] and t > begins[i] else p
            p += 1
        flat[p] = read[p] = n_o if closed[i] else n_o + 1
        first[p] = p
        p += 1
    if p > 0:
        last[p - 1] = p - 1
    for q in range(p - 2, -1, -1):
        last[q] = last[q + 1] if first[q + 1] == first[q] else q


def positions(flat: Flat) -> Ints:
    """The places that are positions: steps of the pieces, and ends of sequences."""
    inside = np.zeros(len(flat.codes) + 1, np.int8)
    inside[flat.starts] += 1
    np.subtract.at(inside, flat.stops, 1)
    return np.flatnonzero(np.cumsum(inside[:-1]))


def outcomes(flat: Flat, n: int) -> Ints:
    """The positions of outcomes below n, symbols or also the end: those that can be scored."""
    at = positions(flat)
    return at[flat.codes[at] < n]


def steps_of(flat: Flat, fresh: NDArray[np.bool_], n_t: int, seen: int = 0) -> Codes:
    """The step of each place, counted from `seen` in fresh pieces, n_t - 1 at most."""
    steps = np.full(len(flat.codes), n_t - 1, np.int32)
    if n_t > 1:
        for begin, stop in zip(flat.starts[fresh], flat.stops[fresh], strict=True):
            here = steps[begin : stop + 1]
            here[:] = np.minimum(np.arange(seen, seen + len(here)), n_t - 1)
    return steps


def locate(tree: Tree, flat: Flat) -> Codes:
    """The node of the past before each place, or of the future from it on; 0 between pieces."""
    out = np.zeros(len(flat.codes), np.int32)
    edge = flat.last if tree.forward else flat.first
    where = (flat.read, edge, flat.starts, flat.stops, 1 if tree.forward else -1)
    _locate(*where, *tree.lookup, BUCKET_OF, BUCKETS, out)
    return out


@njit(cache=True, nogil=True)
def _locate(codes, edge, starts, stops, step, nodes, slots, table, least, out):  # type: ignore[no-untyped-def]
    before = 1 if step < 0 else 0
    for i in range(len(starts)):
        for p in range(starts[i], stops[i]):
            out[p] = descend(codes, edge, p - before, step, nodes, slots, table, least)


def cut(tree: Tree, split_at: float) -> tuple[Codes, int]:
    """A coarser tree: the context that each node belongs to, and their number.

    Nodes with fewer than `split_at` positions are not split; children with fewer than half as many
    (but for those at the start or end of a sequence) share one context with what stopped at their
    parent.
    """
    label = np.empty(tree.n_nodes, np.int32)
    n = _cut(
        tree.parent, tree.token, tree.split, tree.count, tree.n_symbols, float(split_at), label
    )
    return label, n


def kept_ancestors(tree: Tree, context: Codes, least: float = np.inf) -> Codes:
    """Each node, or the nearest one above it that is left when the tree is pruned.

    Left are the contexts, which are those of a cut, and below them the nodes that at least `least`
    positions reached.
    """
    kept = np.append(True, context[1:] != context[tree.parent[1:]]) | (tree.count >= least)
    at = np.arange(tree.n_nodes, dtype=np.int32)
    _rise(tree.parent, kept, at)
    return at


@njit(cache=True, nogil=True)
def _rise(parent, kept, at):  # type: ignore[no-untyped-def]
    for i in range(1, len(at)):
        if not kept[i]:
            at[i] = at[parent[i]]


def pruned(tree: Tree, at: Codes) -> tuple[Tree, Codes]:
    """The tree of the nodes that stay, and the number there of what each node becomes."""
    kept = at == np.arange(tree.n_nodes)
    number = (np.cumsum(kept) - 1).astype(np.int32)[at]
    parent = np.append(np.int32(-1), number[tree.parent[1:]][kept[1:]])
    split = np.where(np.bincount(parent[1:], minlength=len(parent)) > 0, tree.split[kept], LEAF)
    smaller = replace(
        tree,
        parent=parent,
        token=tree.token[kept],
        split=split.astype(np.uint8),
        count=tree.count[kept],
    )
    return smaller, number


@njit(cache=True, nogil=True)
def _cut(parent, token, split, count, n_o, split_at, label):  # type: ignore[no-untyped-def]
    n = len(parent)
    opened = np.zeros(n, np.bool_)  # split in the coarser tree too
    own = np.zeros(n, np.bool_)
    has_child = np.zeros(n, np.bool_)
    for i in range(1, n):
        p = parent[i]
        marks = token[i] == n_o and split[p] != BY_LENGTH
        if count[i] >= split_at / 2 or marks:
            own[i] = True
            has_child[p] = True
    own[0] = True
    total = 0
    for i in range(n):
        if i > 0 and not opened[parent[i]]:
            label[i] = label[parent[i]]
            continue
        if not own[i]:
            label[i] = label[parent[i]]  # shared with what stops at the parent
            continue
        opened[i] = count[i] >= split_at and has_child[i] and split[i] != LEAF
        label[i] = total
        total += 1
    return total
