"""Classes of symbols: what trees read in place of the symbols of a large alphabet.

Of tens of thousands of symbols hardly any is frequent enough to be a context. Symbols that stand
among the same others are alike to a state, so trees may read one for all of them:

    D_a^-½ A D_b^-½ ≈ U S Vᵀ,

A counting which symbols come within a few steps after which, D the sums of its rows or columns and
their mean (Amini, Chen, Bickel and Levina, 2013: without it rare symbols have directions of their
own). Directions of the rows of (U S, V S) are clustered. Classes are for the contexts alone: every
symbol keeps its operator and its probabilities.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from sojourn.contexts.pieces import Pieces
from sojourn.contexts.trees import Codes
from sojourn.spectral.operators import inverse_root, leading_svd

N_CLASSES, RANK = 64, 32
GAP = 4  # steps within which symbols stand together


def learn_classes(pieces: Pieces, n_symbols: int, seed: int = 0) -> Codes:
    """For each symbol the most frequent one of its class."""
    codes, owner = pieces.codes, np.repeat(np.arange(len(pieces)), pieces.ends - pieces.begins)
    A = sp.csr_array((n_symbols, n_symbols), dtype=np.float64)
    for gap in range(1, GAP + 1):
        inside = (owner[gap:] == owner[:-gap]) & (codes[gap:] >= 0) & (codes[:-gap] >= 0)
        pairs = (codes[:-gap][inside], codes[gap:][inside])
        A = A + sp.csr_array((np.ones(len(pairs[0])), pairs), A.shape)
    sums = [np.asarray(A.sum(axis=axis), np.float64) for axis in (1, 0)]
    a, b = (n + n.mean() for n in sums)
    scaled = sp.diags_array(inverse_root(a)) @ A @ sp.diags_array(inverse_root(b))
    U, s, Vt = leading_svd(scaled, RANK, seed)
    rows = np.hstack([U[:, 1:], Vt[1:].T]) * np.tile(s[1 : U.shape[1]], 2)
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300)
    seen = np.bincount(codes[codes >= 0], minlength=n_symbols)
    n = min(N_CLASSES, n_symbols)
    with threadpool_limits(1):
        label = k_means(rows, seen, n, seed, max_iter=20).labels_
    order = np.argsort(seen, kind="stable").astype(np.int32)
    stands = np.zeros(n, np.int32)
    stands[label[order]] = order  # the last one written is the most frequent
    alone = seen * n > seen.sum()  # as frequent as classes are on average
    return np.where(alone, np.arange(n_symbols, dtype=np.int32), stands[label])


def k_means(
    points: Any,
    weights: NDArray[Any] | None,
    n_clusters: int,
    seed: int,
    n_init: int = 1,
    max_iter: int = 300,
) -> Any:
    """Clusters of weighted points; by one thread, if bits matter: several add up in any order."""
    from sklearn.cluster import KMeans  # takes as long to load as all of sojourn

    means = KMeans(n_clusters, n_init=n_init, max_iter=max_iter, random_state=seed)
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        return means.fit(points, sample_weight=weights)  # equal points may make fewer clusters
