"""Parameters from moments: the emission table by joint eigenvalues, and a model around it.

Take a window L that ends at t-1, the symbol o at t, and a window R that starts at t+1. Given the
state at t and the steps it has left, the three are independent, and o depends on the state alone:

    M_o = P(L, o_t = o, R) = F_L diag(p(o | x), once for each remaining duration) F_Rᵀ

With the SVD U S Vᵀ of Σ_o M_o, scaled and cut to rank k, the matrices C_o = S⁻¹ Uᵀ M_o V commute
and add up to the identity, and their joint eigenvalues are the columns of the emission table.
Counts are noisy and k is often cut below the true rank: then the C_o commute only nearly, every
random combination of them has other eigenvectors, and the emission vectors that these give
scatter around the true ones. So they are taken from many combinations and clustered.

Where the rows of the emission table tell states apart, pairs of neighbouring symbols then give
the pairs of neighbouring states, hence the mean of each duration and the transitions.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sojourn.params import Params, allows_self_transitions

Array = NDArray[np.float64]

COMBINATIONS = 20  # eigenvectors of as many random combinations are pooled
CLUSTERINGS = 5  # clusterings from random centres; the tightest is taken
PAIR_STEPS = 300  # of the fit to pairs of symbols, a matrix product of n_x by n_o each
# A share of the overall frequencies is mixed into every emission row and of the average into every
# other one: EM cannot leave a zero, and what comes from moments is no more certain than this.
SMOOTHING = 0.1


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
    >>> from sojourn.population import exact_moments
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


def around_emission(
    emission: Array,
    pairs: NDArray[np.generic],
    max_duration: int,
    rng: np.random.Generator,
    self_transitions: bool | None = None,
) -> Params:
    """A model to start from with about this emission table, fitted to pairs of symbols.

    The pairs of states behind the pairs of neighbouring symbols are the mixture weights J in
    ``P(o_t, o_t+1) = Eᵀ J E``. How often a state stays gives the mean of its durations, whose law
    is taken to be as flat as that mean allows; where it goes gives the transitions.

    Parameters
    ----------
    emission : array (n_x, n_o)
    pairs : array (n_o, n_o)
        Counts of neighbouring symbols.
    max_duration : int
    rng : numpy Generator
        Tells states of equal emissions apart.
    self_transitions : bool or None
        As in :meth:`sojourn.Params.random`.

    Examples
    --------
    >>> E = np.array([[0.9, 0.1], [0.1, 0.9]])
    >>> p = around_emission(E, np.array([[40, 10], [10, 40]]), 5, np.random.default_rng(0))
    >>> p.transition
    array([[0., 1.],
           [1., 0.]])
    """
    n_x, n_o = emission.shape
    counts = np.asarray(pairs, np.float64)
    frequencies = counts.sum(axis=0) + counts.sum(axis=1)
    emission = _mixed(emission, frequencies / frequencies.sum())
    J = _state_pairs(emission, counts / counts.sum(), rng)
    law = J.sum(axis=1)
    stay = np.divide(J.diagonal(), law, out=np.full(n_x, 0.5), where=law > 0)
    mean = 1.0 / np.maximum(1.0 - stay, 1e-9)
    leave = J.copy()
    if not allows_self_transitions(n_x, max_duration, self_transitions):
        np.fill_diagonal(leave, 0.0)
    allowed = leave > 0
    transition = _mixed(_rows(leave + 1e-9 * allowed), None) * allowed
    return Params(
        start=_mixed(law[None] / law.sum(), None)[0],
        transition=_rows(transition),
        duration=np.stack([_flattest(min(m, 0.9 * max_duration), max_duration) for m in mean]),
        emission=emission,
    )


def _state_pairs(emission: Array, pairs: Array, rng: np.random.Generator) -> Array:
    """The law J of neighbouring states for which Eᵀ J E is most likely to give the pairs: EM."""
    n_x = len(emission)
    J = rng.random((n_x, n_x)) + np.eye(n_x) * n_x
    J /= J.sum()
    for _ in range(PAIR_STEPS):
        expected = emission.T @ J @ emission
        ratio = np.divide(pairs, expected, out=np.zeros_like(pairs), where=expected > 0)
        J = J * (emission @ ratio @ emission.T)
        J /= J.sum()
    return J


def _flattest(mean: float, max_duration: int) -> Array:
    """The law on 1 ... max_duration with this mean that is closest to uniform: p(d) ∝ zᵈ."""
    d = np.arange(1.0, max_duration + 1)

    def law(slope: float) -> Array:
        p = np.exp(slope * (d - (d[-1] if slope > 0 else d[0])))
        return np.asarray(p / p.sum())

    low, high = -20.0, 20.0
    for _ in range(60):  # the mean grows with the slope
        middle = 0.5 * (low + high)
        low, high = (middle, high) if law(middle) @ d < mean else (low, middle)
    # A tenth of uniform: no duration is ruled out for good.
    return 0.9 * law(0.5 * (low + high)) + 0.1 / max_duration


def _mixed(rows: Array, base: Array | None) -> Array:
    """The rows with some of a base law mixed in: uniform if none is given."""
    other = np.full(rows.shape[1], 1.0 / rows.shape[1]) if base is None else base
    return (1.0 - SMOOTHING) * rows + SMOOTHING * other


def _rows(table: Array) -> Array:
    return np.asarray(table / table.sum(axis=1, keepdims=True))
