"""The context tree: what follows each past, smoothed by what follows its shorter pasts.

A node that was met n times, c of them with symbol o next, says

    p(o | node) = λ c/n + (1 - λ) p(o | parent),

the parent of the root being uniform. How far a node is trusted, λ, is learned on held-out positions
(`trust`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numba import njit
from numpy.typing import NDArray

from sojourn.checks import check_arrays, positive_int
from sojourn.contexts.tables import Table
from sojourn.contexts.trees import Codes, Flat, Ints, Tree, locate, outcomes
from sojourn.contexts.trust import USUAL, features, learn_weights, trust_of
from sojourn.errors import SojournError

Floats = NDArray[np.float64]

# A table of all probabilities is made if it has at most this many.
MAX_DENSE = 1 << 23
# Nodes on all paths that weights are learned on at most, where every outcome is one.
MOST_CROSSED = 4_000_000


@dataclass(frozen=True, eq=False)
class Followers:
    """Counts of what follows the nodes of a tree of pasts, and how far each is trusted.

    Parameters
    ----------
    parent : int32 array (n_nodes,)
    first : int64 array (n_nodes + 1,)
        Where the entries of each node begin.
    symbol, count : int32 and int64 arrays
        The symbols that followed a node or one below it, ascending; ``n_symbols`` is the end.
    trust : array (n_nodes,)
        λ of each node.
    n_symbols : int
    """

    parent: Codes
    first: NDArray[np.int64]
    symbol: Codes
    count: NDArray[np.int64]
    trust: Floats
    n_symbols: int

    def __post_init__(self) -> None:
        nodes = {"parent": "int32 n", "first": "int64+ f", "trust": "float64+ n"}
        sizes = check_arrays(self, symbol="int32 e", count="int64+ e", **nodes)
        n = sizes["n"]
        right = n > 0 and sizes["f"] == n + 1 and self.first[0] == 0
        right = right and self.first[-1] == sizes["e"] and positive_int("n_symbols", self.n_symbols)
        if not right or np.any(np.diff(self.first) < 0):
            raise SojournError("the entries of a context tree do not fit its nodes")
        if np.any(self.symbol < 0) or np.any(self.symbol > self.n_symbols):
            raise SojournError("a context tree counts symbols that are not in the vocabulary")
        begins = np.zeros(sizes["e"] + 1, bool)
        begins[self.first] = True  # the first symbol of a node follows none
        if np.any((self.symbol[1:] <= self.symbol[:-1]) & ~begins[1:-1]):
            raise SojournError("the symbols of a node of a context tree are ascending, each once")
        if np.any(self.count < 1) or not np.all((self.trust >= 0) & (self.trust <= 1)):
            raise SojournError("a context tree has positive counts and trust between 0 and 1")
        if self.parent[0] != -1 or np.any(self.parent[1:] >= np.arange(1, n)):
            raise SojournError("parents of a context tree stand before their children")
        if np.any(self.parent[1:] < 0):
            raise SojournError("a context tree has one root")

    @cached_property
    def totals(self) -> Floats:
        """How often each node was met."""
        sums = np.concatenate([[0], np.cumsum(self.count)])
        return (sums[self.first[1:]] - sums[self.first[:-1]]).astype(float)

    @cached_property
    def dense(self) -> Floats:
        """p(symbol or end | node) for all nodes; empty where that would be too large."""
        n, width = len(self.parent), self.n_symbols + 1
        if n * width > MAX_DENSE:
            return np.empty((0, width))
        table = np.zeros((n, width))
        owner = np.repeat(np.arange(n), np.diff(self.first))
        table[owner, self.symbol] = self.count / np.maximum(self.totals[owner], 1.0)
        _smooth(table, self.parent, self.trust)
        return table

    def _row(self, node: int) -> Floats:
        """p(symbol or end | node) of one node."""
        path = [node]
        while self.parent[path[-1]] >= 0:
            path.append(int(self.parent[path[-1]]))
        p = np.full(self.n_symbols + 1, 1.0 / (self.n_symbols + 1))
        for x in reversed(path):
            mine = slice(self.first[x], self.first[x + 1])
            p *= 1.0 - self.trust[x]
            p[self.symbol[mine]] += self.trust[x] * self.count[mine] / max(self.totals[x], 1.0)
        return p

    def rows(self, nodes: Codes) -> Floats:
        """p(symbol or end | node) of each node, (n, n_symbols + 1)."""
        if len(self.dense):
            return self.dense[nodes]
        return np.array([self._row(int(node)) for node in nodes]).reshape(-1, self.n_symbols + 1)

    def prob(self, nodes: Codes, codes: Codes, ends: bool) -> Floats:
        """p(code | node) at each place; given that the sequence continues, if not `ends`."""
        symbol = np.minimum(codes, self.n_symbols)  # what is missing is not looked at
        if len(self.dense):
            p = self.dense[nodes, symbol]
            return p if ends else p / (1.0 - self.dense[nodes, self.n_symbols])
        tables = (self.parent, self.first, self.symbol, self.count, self.totals, self.trust)
        p = _walk(nodes, symbol, *tables, self.n_symbols)
        if ends:
            return p
        last = np.full(len(nodes), self.n_symbols, np.int32)
        return p / (1.0 - _walk(nodes, last, *tables, self.n_symbols))


@njit(cache=True, nogil=True)
def _smooth(table, parent, trust):  # type: ignore[no-untyped-def]
    n, width = table.shape
    for i in range(n):
        for o in range(width):
            above = 1.0 / width if i == 0 else table[parent[i], o]
            table[i, o] = trust[i] * table[i, o] + (1.0 - trust[i]) * above


@njit(cache=True, nogil=True)
def _met(node, wanted, first, symbol, count):  # type: ignore[no-untyped-def]
    """How often a symbol followed a node, by bisection."""
    lo, hi = first[node], first[node + 1]
    while lo < hi:
        middle = (lo + hi) // 2
        if symbol[middle] < wanted:
            lo = middle + 1
        else:
            hi = middle
    return count[lo] if lo < first[node + 1] and symbol[lo] == wanted else 0


@njit(cache=True, nogil=True)
def _walk(nodes, symbols, parent, first, symbol, count, totals, trust, n_o):  # type: ignore[no-untyped-def]
    """Probability of each symbol after its node: from the node to the root."""
    out = np.empty(len(nodes))
    for t in range(len(nodes)):
        p, rest, x = 0.0, 1.0, nodes[t]
        while x >= 0:
            p += rest * trust[x] * _met(x, symbols[t], first, symbol, count) / max(totals[x], 1.0)
            rest *= 1.0 - trust[x]
            x = parent[x]
        out[t] = p + rest / (n_o + 1)
    return out


def learn_followers(
    tree: Tree, follows: Table, heldout: Flat | None, ends: bool, weights: Floats | None = None
) -> tuple[Followers, Floats]:
    """The context tree of the counts, and the weights of its trust: given, or learned."""
    counted, totals = _counted(tree, follows)
    evidence = features(tree, *counted, totals)
    if weights is None:
        weights = USUAL
        if heldout is not None:
            paths = _paths_of(tree, heldout, ends, counted, totals)
            weights = learn_weights(evidence, paths, 1.0 / (tree.n_symbols + ends))
    trust = np.where(totals > 0, trust_of(evidence, weights), 0.0)
    return Followers(tree.parent, *counted, trust, tree.n_symbols), weights


def cross_weights(tree: Tree, folds: Iterable[tuple[Table, Flat]], ends: bool) -> Floats | None:
    """The weights of trust that all folds favour, each judged by the counts of the others.

    A fold is those counts, and its own pieces. None where paths to the root have too many nodes.
    """
    begins, n = [np.zeros(1, np.int64)], 0
    evidence: list[Floats] = []
    shares: list[Floats] = []
    nodes: list[Ints] = []
    for follows, own in folds:
        counted, totals = _counted(tree, follows)
        begin, share, node = _paths_of(tree, own, ends, counted, totals)
        begins.append(begin[1:] + n)
        shares.append(share)
        nodes.append(node + tree.n_nodes * len(evidence))
        evidence.append(features(tree, *counted, totals))
        n += len(share)
        if n > MOST_CROSSED:
            return None
    paths = (np.concatenate(begins), np.concatenate(shares), np.concatenate(nodes))
    return learn_weights(np.concatenate(evidence), paths, 1.0 / (tree.n_symbols + ends))


def _counted(tree: Tree, follows: Table) -> tuple[tuple[Ints, Codes, Ints], Floats]:
    """Counts by node as rows of symbols: where each begins, symbols, counts; and their sums."""
    C = _with_ancestors(tree, follows)
    totals = np.asarray(C.sum(axis=1), np.float64).ravel()
    return (C.indptr.astype(np.int64), C.indices.astype(np.int32), C.data), totals


def _paths_of(
    tree: Tree, flat: Flat, ends: bool, counted: tuple[Ints, Codes, Ints], totals: Floats
) -> tuple[Ints, Floats, Ints]:
    """The path of every outcome of the pieces, for `learn_weights`."""
    at = outcomes(flat, tree.n_symbols + ends)
    met = (locate(tree, flat)[at], flat.codes[at])
    begin, share, node = _paths(*met, tree.parent, *counted, totals)
    return begin, share, node


def _with_ancestors(tree: Tree, follows: Table) -> sp.csr_array:
    """Counts by node and symbol, every count being one of all nodes above its own too."""
    n_o, shape = tree.n_symbols, (tree.n_nodes, tree.n_symbols + 1)
    node, symbol = np.divmod(follows.keys.astype(np.int64), n_o + 1)
    if tree.n_nodes * (n_o + 1) <= MAX_DENSE:
        table = np.zeros(shape, np.int64)
        table[node, symbol] = follows.counts
        _add_up(table, tree.parent)
        return sp.csr_array(table)
    node, symbol = node.astype(np.int32), symbol.astype(np.int32)
    nodes, symbols, counts = [node], [symbol], [follows.counts.astype(np.int64)]
    while node.size:
        node = tree.parent[node]
        inside = node >= 0
        node, symbol = node[inside], symbol[inside]
        nodes.append(node)
        symbols.append(symbol)
        counts.append(counts[-1][inside])
    where = (np.concatenate(nodes), np.concatenate(symbols))
    C = sp.csr_array(sp.coo_array((np.concatenate(counts), where), shape))
    C.sum_duplicates()
    return C


@njit(cache=True, nogil=True)
def _add_up(table, parent):  # type: ignore[no-untyped-def]
    for i in range(len(parent) - 1, 0, -1):
        for o in range(table.shape[1]):
            table[parent[i], o] += table[i, o]


@njit(cache=True, nogil=True)
def _paths(nodes, codes, parent, first, symbol, count, totals):  # type: ignore[no-untyped-def]
    """Every node on the way to the root that was met, and its relative frequency of the symbol."""
    size = 0
    for t in range(len(nodes)):
        x = nodes[t]
        while x >= 0:
            size += 1
            x = parent[x]
    begin = np.zeros(len(nodes) + 1, np.int64)
    share, node = np.zeros(size), np.zeros(size, np.int64)
    j = 0
    for t in range(len(nodes)):
        x = nodes[t]
        while x >= 0:
            if totals[x] > 0:
                share[j] = _met(x, codes[t], first, symbol, count) / totals[x]
                node[j] = x
                j += 1
            x = parent[x]
        begin[t + 1] = j
    return begin, share[:j], node[:j]
