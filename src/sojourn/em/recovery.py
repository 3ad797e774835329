"""Parameters from moments: the emission table by joint eigenvalues, and a model around it.

Take a window L that ends at t-1, the symbol o at t, and a window R that starts at t+1. Given the
state at t and the steps it has left, the three are independent, and o depends on the state alone:

    M_o = P(L, o_t = o, R) = F_L diag(p(o | x), once for each remaining duration) F_Rᵀ

With the SVD U S Vᵀ of Σ_o M_o, scaled and cut to rank k, the matrices C_o = S⁻¹ Uᵀ M_o V commute
and add up to the identity, and their joint eigenvalues are the columns of the emission table.
Counts are noisy and k is often cut below the true rank: then the C_o commute only nearly, every
random combination of them has other eigenvectors, and the emission vectors that these give
scatter around the true ones. So they are taken from many combinations and clustered by k-means.

Durations and transitions are left to EM, which finds them from flat ones once emissions are right.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sojourn.data.sequences import Sequences
from sojourn.exact.params import Params
from sojourn.spectral.classes import k_means
from sojourn.spectral.operators import inverse

Array = NDArray[np.float64]

COMBINATIONS = 20  # eigenvectors of as many random combinations are pooled
CLUSTERINGS = 5  # clusterings from random centres; the tightest is taken
ROUNDING = 1e-13  # of singular values, relative to the largest
SMOOTHING = 0.1  # what comes from moments is no more certain than this


def count_around(sequences: Sequences, length: int) -> NDArray[np.int64]:
    """Counts (left window, symbol, right window) of each symbol with the windows around it."""
    n_o, codes = sequences.n_symbols, sequences.codes.astype(np.int64)
    width = 2 * length + 1
    n = max(len(codes) - width + 1, 0)
    owner = np.repeat(np.arange(len(sequences)), sequences.lengths)
    inside = owner[:n] == owner[width - 1 :]  # not over the end of a sequence
    key = np.zeros(n, np.int64)
    for j in range(width):
        key = key * n_o + codes[j : j + n]
        inside &= codes[j : j + n] >= 0
    counts = np.bincount(key[inside], minlength=n_o**width)
    return counts.reshape(n_o**length, n_o, n_o**length)


def recover_emission(
    M_LoR: NDArray[np.generic], n_states: int, rank: int, rng: np.random.Generator
) -> Array:
    """The emission table that explains how a symbol and the windows around it occur together.

    Of counts or probabilities of left window, symbol and right window; `rank` singular directions
    are in use, and windows of ℓ neighbouring symbols have ℓ·n_x at most. The order of the rows
    means nothing; where fewer than n_x different vectors are found, some are equal.

    Examples
    --------
    >>> from sojourn.theory.exact_moments import exact_moments
    >>> p = Params.random(2, 2, 3, rng=0)
    >>> M_LoR = exact_moments(p, [(0, 1)], gapped=True).tables[0].M_LoR[0]
    >>> E = recover_emission(M_LoR, n_states=2, rank=4, rng=np.random.default_rng(0))
    >>> np.allclose(E[np.argsort(E[:, 0])], p.emission[np.argsort(p.emission[:, 0])])
    True
    """
    C, before, after = _commuting(np.asarray(M_LoR, np.float64), rank)
    pooled = [
        _joint_eigenvalues(C, before, after, rng.standard_normal(len(C)))
        for _ in range(COMBINATIONS)
    ]
    points = np.concatenate([points for points, _ in pooled])
    weights = np.concatenate([weights for _, weights in pooled])
    seed = int(rng.integers(2**31))
    return _on_simplex(k_means(points, weights, n_states, seed, CLUSTERINGS).cluster_centers_)


def _commuting(M_LoR: Array, rank: int) -> tuple[Array, Array, Array]:
    """C_o = S⁻¹ Uᵀ M_o V, and the sums over all left and over all right windows in its basis."""
    M = M_LoR.sum(axis=1)
    V, G, s = inverse(M, rank)
    k = max(1, min(rank, int(np.sum(s > ROUNDING * s[0]))))
    G, V = G[:k], V[:, :k]  # S⁻¹ Uᵀ and V, scaled                          (k, n_L), (n_R, k)
    C = np.einsum("kl,lor,rm->okm", G, M_LoR, V, optimize=True)
    return C, M.sum(axis=0) @ V, G @ M.sum(axis=1)


def _joint_eigenvalues(
    C: Array, before: Array, after: Array, combination: Array
) -> tuple[Array, Array]:
    """An emission vector for each eigenvector of a combination of the C_o, and its weight."""
    _, P = np.linalg.eig(np.einsum("o,okm->km", combination, C))
    Q = np.linalg.pinv(P)
    values = np.einsum("iom,mi->io", np.tensordot(Q, C, (1, 1)), P)  # diagonals of P⁻¹ C_o P
    # Noise turns two near eigenvalues into a conjugate pair: its two parts then stand for two.
    vectors = values.real + values.imag
    points = _on_simplex(vectors)
    mass = np.abs((before @ P) * (Q @ after))
    share = mass / max(mass.sum(), np.finfo(float).tiny)
    # A vector that is far from any distribution weighs little. The floor keeps rare states.
    return points, (share + 0.02) / (0.1 + np.abs(points - vectors).sum(axis=1))


def _on_simplex(vectors: Array) -> Array:
    """The distribution nearest to each row."""
    ordered = -np.sort(-vectors, axis=1)
    excess = (np.cumsum(ordered, axis=1) - 1.0) / np.arange(1, vectors.shape[1] + 1)
    last = np.sum(ordered > excess, axis=1) - 1
    points = np.maximum(vectors - excess[np.arange(len(vectors)), last][:, None], 0.0)
    return points / points.sum(axis=1, keepdims=True)


def starting_from(
    emission: Array, frequencies: NDArray[np.generic], max_duration: int, self_transitions: bool
) -> Params:
    """A model with about this emission table and flat others, for EM to start from."""
    common = np.asarray(frequencies, np.float64) / np.sum(frequencies)
    mixed = (1 - SMOOTHING) * emission + SMOOTHING * common
    return flat_around(mixed, max_duration, self_transitions)


def flat_around(emission: Array, max_duration: int, self_transitions: bool) -> Params:
    """The model with this emission table whose other tables are flat."""
    n_x = len(emission)
    transition = np.ones((n_x, n_x))
    if not self_transitions:
        np.fill_diagonal(transition, 0.0)
    return Params(
        np.full(n_x, 1 / n_x),
        transition / transition.sum(axis=1, keepdims=True),
        np.full((n_x, max_duration), 1 / max_duration),
        emission,
    )
