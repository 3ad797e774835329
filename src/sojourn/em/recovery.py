"""Parameters from moments: the emission table by joint eigenvalues, and a model around it.

Take a window L that ends at t-1, the symbol o at t, and a window R that starts at t+1. Given the
state at t and the steps it has left, the three are independent, and o depends on the state alone:

    M_o = P(L, o_t = o, R) = F_L diag(p(o | x), once for each remaining duration) F_Rᵀ

With the SVD U S Vᵀ of Σ_o M_o, scaled and cut to rank k, the matrices C_o = S⁻¹ Uᵀ M_o V commute
and add up to the identity, and their joint eigenvalues are the columns of the emission table.
Counts are noisy and k is often cut below the true rank: then the C_o commute only nearly, every
random combination of them has other eigenvectors, and the emission vectors that these give
scatter around the true ones. So they are taken from many combinations and clustered.

Durations and transitions are left to EM, which finds them from flat ones once emissions are right.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sojourn.exact.params import Params

Array = NDArray[np.float64]

COMBINATIONS = 20  # eigenvectors of as many random combinations are pooled
CLUSTERINGS = 5  # clusterings from random centres; the tightest is taken
SMOOTHING = 0.1  # what comes from moments is no more certain than this


def recover_emission(
    M_LoR: NDArray[np.generic], n_states: int, rank: int, rng: np.random.Generator
) -> Array:
    """The emission table that explains how a symbol and the windows around it occur together.

    Parameters
    ----------
    M_LoR : array (n_L, n_o, n_R)
        Counts or probabilities of left window, symbol and right window.
    n_states : int
        Number of rows wanted.
    rank : int
        Number k of singular directions in use, at most n_L and n_R. The rank of a window of ℓ
        neighbouring symbols is at most ℓ·n_x.
    rng : numpy Generator
        Of the combinations and the clustering.

    Returns
    -------
    array (n_x, n_o)
        Rows sum to one; their order means nothing. Where fewer than n_x different vectors are
        found, some rows are equal.

    Examples
    --------
    >>> from sojourn.spectral.exact_moments import exact_moments
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
    return _cluster(points, weights, n_states, rng)


def _commuting(M_LoR: Array, rank: int) -> tuple[Array, Array, Array]:
    """C_o = S⁻¹ Uᵀ M_o V, and the sums over all left and over all right windows in its basis."""
    M = M_LoR.sum(axis=1)
    a, b = _inverse_root(M.sum(axis=1)), _inverse_root(M.sum(axis=0))
    U, s, Vt = np.linalg.svd(a[:, None] * M * b, full_matrices=False)
    k = max(1, min(rank, int(np.sum(s > 1e-13 * s[0]))))
    G = (U[:, :k] / s[:k]).T * a  # S⁻¹ Uᵀ, scaled                                   (k, n_L)
    W = b[:, None] * Vt[:k].T  # V, scaled                                           (n_R, k)
    C = np.einsum("kl,lor,rm->okm", G, M_LoR, W, optimize=True)
    return C, M.sum(axis=0) @ W, G @ M.sum(axis=1)


def _inverse_root(sums: Array) -> Array:
    return np.where(sums > 0, sums, np.inf) ** -0.5


def _joint_eigenvalues(
    C: Array, before: Array, after: Array, combination: Array
) -> tuple[Array, Array]:
    """An emission vector for each eigenvector of a combination of the C_o, and its weight."""
    _, P = np.linalg.eig(np.einsum("o,okm->km", combination, C))
    Q = np.linalg.pinv(P)
    values = np.einsum("ik,okm,mi->io", Q, C, P, optimize=True)  # the diagonals of P⁻¹ C_o P
    # Noise turns two near eigenvalues into a conjugate pair: its two parts then stand for two.
    vectors = values.real + values.imag
    points = _on_simplex(vectors)
    mass = np.abs((before @ P) * (Q @ after))
    share = mass / max(mass.sum(), np.finfo(float).tiny)
    # A vector that is far from any distribution says little. The floor keeps rare states.
    return points, (share + 0.02) / (0.1 + np.abs(points - vectors).sum(axis=1))


def _on_simplex(vectors: Array) -> Array:
    """The distribution nearest to each row."""
    ordered = -np.sort(-vectors, axis=1)
    excess = (np.cumsum(ordered, axis=1) - 1.0) / np.arange(1, vectors.shape[1] + 1)
    last = np.sum(ordered > excess, axis=1) - 1
    points = np.maximum(vectors - excess[np.arange(len(vectors)), last][:, None], 0.0)
    return points / points.sum(axis=1, keepdims=True)


def _cluster(points: Array, weights: Array, n: int, rng: np.random.Generator) -> Array:
    """Centres of n groups of weighted points: the tightest of several runs of k-means."""
    runs = [_k_means(points, weights, n, rng) for _ in range(CLUSTERINGS)]
    return min(runs, key=lambda run: run[1])[0]


def _k_means(
    points: Array, weights: Array, n: int, rng: np.random.Generator
) -> tuple[Array, float]:
    """Centres, and the weighted squares of the distances to them."""
    centres = points[[rng.choice(len(points), p=weights / weights.sum())]]
    for _ in range(n - 1):
        pull = weights * _squares(points, centres).min(axis=1)
        total = pull.sum()
        centre = rng.choice(len(points), p=pull / total if total > 0 else None)
        centres = np.concatenate([centres, points[[centre]]])
    for _ in range(50):
        squares = _squares(points, centres)
        member = np.eye(n)[squares.argmin(axis=1)] * weights[:, None]
        mass = member.sum(axis=0)[:, None]
        moved = np.where(mass > 0, member.T @ points / np.where(mass > 0, mass, 1.0), centres)
        still = np.array_equal(moved, centres)
        centres = moved
        if still:
            break
    return centres, float(weights @ _squares(points, centres).min(axis=1))


def _squares(points: Array, centres: Array) -> Array:
    return np.asarray(((points[:, None] - centres) ** 2).sum(axis=2))


def starting_from(
    emission: Array, frequencies: NDArray[np.generic], max_duration: int, self_transitions: bool
) -> Params:
    """A model with about this emission table and flat others, for EM to start from.

    Parameters
    ----------
    emission : array (n_x, n_o)
    frequencies : array (n_o,)
        How often symbols occur; some of it is mixed into every row, for EM cannot leave a zero.
    max_duration : int
    self_transitions : bool
        Whether a state may follow itself.

    Examples
    --------
    >>> starting_from(np.eye(2), np.array([3, 1]), 4, False).emission
    array([[0.975, 0.025],
           [0.075, 0.925]])
    """
    n_x = len(emission)
    common = np.asarray(frequencies, np.float64) / np.sum(frequencies)
    transition = np.ones((n_x, n_x))
    if not self_transitions:
        np.fill_diagonal(transition, 0.0)
    return Params(
        np.full(n_x, 1 / n_x),
        transition / transition.sum(axis=1, keepdims=True),
        np.full((n_x, max_duration), 1 / max_duration),
        (1 - SMOOTHING) * emission + SMOOTHING * common,
    )
