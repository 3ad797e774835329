"""Starts from predictive states: pasts that promise the same future are one state.

Contexts of the past are described by what follows them: row u of Q = D_u⁻¹ H Ṽ, the state of
context u in the spectral method on contexts, where H[u, v] counts which future v follows which past
u. The contexts are clustered by k-means, and each step of the data belongs to the cluster of the
past up to and with that step. Runs of one cluster are stays, and counting them gives a model for EM
to start from. No two states need different emissions, so there may be more states than symbols.

Distances between rows of Q weigh a future by one over its frequency, so rare ones count for much.
Those between square roots of shares, √P(v | u), are about the likelihood that is lost when two
contexts become one (Hellinger's distance). Which is better depends on the data; both are tried.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from sojourn.contexts.grow import grow
from sojourn.contexts.pieces import Pieces
from sojourn.contexts.trees import BY_LENGTH, cut, lay_out, locate, positions
from sojourn.data.runs import runs
from sojourn.data.sequences import Sequences
from sojourn.exact.params import Params
from sojourn.spectral.classes import k_means
from sojourn.spectral.operators import scaled_svd

Floats = NDArray[np.float64]
Codes = NDArray[np.int32]

# Contexts per state, about, and directions of Q per state: one clustering for each pair.
CONTEXTS, DIRECTIONS = (5, 20), (1, 2)
# Positions that a context needs to be split, at least.
SPLIT_AT = 20
CLUSTERINGS = 8  # from random centres; the tightest is taken
DENSE = 1 << 15  # entries of a table that is clustered sooner with its zeros
# Stays, transitions and symbols that are added to those counted, spread as all of them are.
SMOOTHING = 1.0
LONGEST_TAIL = 0.999  # for EM to start from


class Size(NamedTuple):
    """What a model has."""

    n_states: int
    max_duration: int
    n_symbols: int
    loops: bool  # whether a state may follow itself
    tail: NDArray[np.bool_]  # which stays may be longer                          (n_states,)
    ends: bool

    @property
    def n_entries(self) -> int:
        """Number of entries, about that of parameters."""
        return self.n_states * (self.n_states + self.max_duration + self.n_symbols)


def cluster_pasts(
    sequences: Sequences, n_states: int, ends: bool, rng: np.random.Generator
) -> list[Codes]:
    """The cluster of each step, by coarse and fine contexts, each described in three ways."""
    n_o = sequences.n_symbols
    flat = lay_out(Pieces.all_of(sequences), n_o)
    places = positions(flat)
    after = np.setdiff1d(places, flat.starts, assume_unique=True)  # of each step: the one behind it
    splits = [max(SPLIT_AT, sequences.n_total / (n * n_states)) for n in CONTEXTS]
    least = int(min(splits))
    pasts, futures = (grow(flat, n_o, forward, least, least // 2) for forward in (False, True))
    past, future = locate(pasts, flat), locate(futures, flat)
    if not ends:  # lengths say nothing: a future that reaches the end is what came before it
        at_end = (futures.token >= n_o) & (futures.split[futures.parent] != BY_LENGTH)
        future = np.where(at_end[future], futures.parent[future], future)
    found: list[Codes] = []
    for split_at in splits:
        (of_past, n_u), (of_future, n_v) = cut(pasts, split_at), cut(futures, split_at)
        u, v = of_past[past], of_future[future]
        H = csr_array((np.ones(len(places)), (u[places], v[places])), (n_u, n_v))
        Q = _states(H, max(DIRECTIONS) * n_states)
        weights = np.bincount(u[after], minlength=n_u)
        described: list[Floats | csr_array] = [Q[:, : k * n_states] for k in DIRECTIONS]
        described.append(_roots(H))
        each = (_clustered(points, weights, n_states, rng) for points in described)
        found.extend(clusters[u[after]] for clusters in each)
    return found


def _states(H: csr_array, rank: int) -> Floats:
    """What each past context promises: Q = D_u⁻¹ H Ṽ = D_u^-½ U S, (n_u, k)."""
    a, U, s, _, _ = scaled_svd(H, min(rank, *H.shape), seed=0)
    return np.asarray(a[:, None] * U * s[: U.shape[1]])


def _roots(H: csr_array) -> Floats | csr_array:
    """Square roots of the shares of the futures that follow each past context."""
    roots = csr_array(H / np.maximum(H.sum(axis=1), 1.0)[:, None]).sqrt()
    return np.asarray(roots.toarray(), np.float64) if np.prod(H.shape) <= DENSE else roots


def _clustered(
    points: Floats | csr_array,
    weights: NDArray[np.int64],
    n_clusters: int,
    rng: np.random.Generator,
) -> Codes:
    """The cluster of each point, by k-means; points without weight belong to the first."""
    clusters = np.zeros(points.shape[0], np.int32)
    used = np.flatnonzero(weights)
    if len(used) <= n_clusters:
        clusters[used] = np.arange(len(used))
        return clusters
    seed = int(rng.integers(2**31))
    clusters[used] = k_means(points[used], weights[used], n_clusters, seed, CLUSTERINGS).labels_
    return clusters


def counted(sequences: Sequences, labels: Codes, size: Size, rng: np.random.Generator) -> Params:
    """The model of labelled steps by smoothed counts, with no zeros but those that are wanted.

    What is added is not quite the same for each state: EM cannot tell equal states apart.
    """
    n_states, max_duration, n_symbols, loops, tail, ends = size
    starts, lengths, _ = runs(labels, sequences.offsets)
    if loops:  # a longer run is several stays
        n_stays = -(-lengths // max_duration)
        begin = np.repeat(starts, n_stays)
        nth = np.arange(len(begin)) - np.repeat(np.cumsum(n_stays) - n_stays, n_stays)
        lengths = np.minimum(np.repeat(lengths, n_stays) - nth * max_duration, max_duration)
        starts = begin + nth * max_duration
    state = labels[starts]
    is_edge = np.zeros(len(labels) + 1, bool)
    is_edge[sequences.offsets] = True
    first, last = is_edge[starts], is_edge[starts + lengths]
    shape = (n_states, n_states)
    transition = _table(state[:-1][~first[1:]], state[1:][~first[1:]], shape, rng)
    if not loops:
        np.fill_diagonal(transition, 0.0)
    cell = np.minimum(lengths, max_duration)
    duration = _table(state, cell - 1, (n_states, max_duration), rng)
    seen = sequences.codes >= 0
    emission = _table(labels[seen], sequences.codes[seen], (n_states, n_symbols), rng)
    start = _table(np.zeros(first.sum(), int), state[first], (1, n_states), rng)[0]
    tails: Floats = np.zeros(n_states)
    if tail.any() and not loops:
        down = np.bincount(state, lengths >= max_duration, n_states)
        held = np.bincount(state, lengths - cell, n_states)
        tails = np.where(tail, np.minimum((held + 0.5) / (held + down + 1.0), LONGEST_TAIL), 0.0)
    stays = np.bincount(state, minlength=n_states)
    is_empty = sequences.lengths == 0
    return Params(
        start,
        transition / transition.sum(axis=1, keepdims=True),
        duration,
        emission,
        tail=tails,
        end=(np.bincount(state[last], minlength=n_states) + 0.1) / (stays + 1.0) if ends else None,
        empty=(is_empty.sum() + 0.1) / (len(sequences) + 1.0) if ends else 0.0,
    )


def _table(
    row: NDArray[np.integer],
    column: NDArray[np.integer],
    shape: tuple[int, int],
    rng: np.random.Generator,
) -> Floats:
    """Counts of pairs as rows of probabilities, smoothed towards the counts of all rows."""
    counts = np.bincount(row * np.int64(shape[1]) + column, minlength=shape[0] * shape[1])
    table = counts.reshape(shape).astype(np.float64)
    common = (table.sum(axis=0) + 1.0) * rng.uniform(0.5, 1.5, shape)
    table += SMOOTHING * common / common.sum(axis=1, keepdims=True)
    return np.asarray(table / table.sum(axis=1, keepdims=True))
