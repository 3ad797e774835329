"""Growing a tree of pasts or futures from data, by counting sort."""

from __future__ import annotations

import numpy as np
from numba import njit

from sojourn.contexts.trees import (
    BUCKET_OF,
    BUCKETS,
    BY_LENGTH,
    BY_NEXT_SYMBOL,
    BY_SYMBOL,
    LEAF,
    MAX_RUNS,
    Flat,
    Tree,
    bucket_of,
    positions,
)


def grow(flat: Flat, n_symbols: int, forward: bool, split_at: int, keep_at: int) -> Tree:
    """The tree of all positions: nodes that `split_at` of them reach are split.

    A child needs `keep_at` positions to be a node; those of smaller ones stop at its parent.
    """
    edge = flat.last if forward else flat.first
    order = positions(flat).astype(np.int32)
    sizes = (split_at, keep_at, MAX_RUNS)
    found = _grow(flat.read, edge, order, n_symbols, forward, *sizes, BUCKET_OF, BUCKETS)
    node = found[0][: found[1]]
    parent, token = (node[:, column].astype(np.int32) for column in (PARENT, TOKEN))
    count = node[:, HI] - node[:, LO]
    return Tree(parent, token, node[:, SPLIT].astype(np.uint8), count, n_symbols, forward)


# Columns of a tree under growth: the positions of a node are order[LO:HI].
LO, HI, RUNS, PARENT, TOKEN, SPLIT, NEXT = range(7)


@njit(cache=True, nogil=True)
def _grow(  # type: ignore[no-untyped-def]
    codes, edge, order, n_o, forward, split_at, keep_at, max_runs, table, least
):
    """Breadth first, by counting sort: O(positions · depth). Loops alone compile quickly."""
    n = len(order)
    step = 1 if forward else -1
    at, token = np.empty(n, np.int32), np.empty(n, np.int32)
    spare_order, spare_at = np.empty(n, np.int32), np.empty(n, np.int32)
    for j in range(n):
        at[j] = order[j] if forward else order[j] - 1
    width = max(n_o + 2, len(least))
    count, place = np.zeros(width, np.int64), np.zeros(width, np.int64)
    touched = np.zeros(width, np.int64)
    node = np.zeros((1024, 7), np.int64)
    node[0, HI], node[0, PARENT], node[0, NEXT] = n, -1, BY_SYMBOL
    n_nodes, i = 1, 0
    while i < n_nodes:
        a, b, how = node[i, LO], node[i, HI], node[i, NEXT]
        if how == LEAF or b - a < split_at or node[i, RUNS] >= max_runs:
            i += 1
            continue
        if how == BY_LENGTH:
            same = True
            for j in range(a, b):
                token[j] = bucket_of((edge[at[j]] - at[j]) * step + 1, table, least)
                same = same and token[j] == token[a]
            if same:  # there is nothing to split by: the next run is read
                how = BY_NEXT_SYMBOL
                for j in range(a, b):
                    at[j] = edge[at[j]] + step
        if how != BY_LENGTH:
            for j in range(a, b):
                token[j] = codes[at[j]]
        n_touched = 0
        for j in range(a, b):
            if count[token[j]] == 0:
                touched[n_touched] = token[j]
                n_touched += 1
            count[token[j]] += 1
        if n_nodes + n_touched > len(node):
            node = _longer(node, 2 * len(node) + n_touched)
        spot, first = a, n_nodes
        for j in range(n_touched):
            s = touched[j]
            if count[s] >= keep_at:
                place[s] = node[n_nodes, LO] = spot
                spot += count[s]
                node[n_nodes, HI], node[n_nodes, PARENT], node[n_nodes, TOKEN] = spot, i, s
                within = how != BY_LENGTH and s < n_o  # the run's length comes next
                node[n_nodes, RUNS] = node[i, RUNS] + (0 if within else 1)
                closed = how != BY_LENGTH and s >= n_o
                node[n_nodes, NEXT] = LEAF if closed else BY_LENGTH if within else BY_SYMBOL
                n_nodes += 1
        if n_nodes > first:
            node[i, SPLIT] = how
            for j in range(a, b):
                s, q = token[j], at[j]
                if how == BY_LENGTH:
                    q = edge[q] + step
                if count[s] >= keep_at:
                    spare_order[place[s]], spare_at[place[s]] = order[j], q
                    place[s] += 1
                else:
                    spare_order[spot], spare_at[spot] = order[j], q
                    spot += 1
            for j in range(a, b):
                order[j], at[j] = spare_order[j], spare_at[j]
        for j in range(n_touched):
            count[touched[j]] = 0
        i += 1
    return node, n_nodes


@njit(cache=True, nogil=True)
def _longer(node, size):  # type: ignore[no-untyped-def]
    longer = np.zeros((size, 7), np.int64)
    for i in range(len(node)):
        for j in range(7):
            longer[i, j] = node[i, j]
    return longer
