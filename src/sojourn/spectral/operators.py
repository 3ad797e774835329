"""Observable operators: moments → one scaled SVD → one small matrix per symbol.

All three algorithms end in the same form, ``p(o_1 … o_T) = start · B_{o_1} ⋯ B_{o_T} · stop``, so
one filter (`filter`) serves them all. The adjacent form, learned here, has it by nature; `paper`
folds root and tail of Appendix B into a few more coordinates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import svd as dense_svd
from scipy.sparse import csr_array, diags_array, issparse
from sklearn.utils.extmath import randomized_svd
from threadpoolctl import threadpool_limits

from sojourn.checks import check_arrays, positive_int
from sojourn.errors import SojournError
from sojourn.spectral.moment_tables import Adjacent

if TYPE_CHECKING:
    from sojourn.spectral.paper import PaperTensors

Array = NDArray[np.float64]

# A full decomposition up to here; beyond, the few leading vectors are found by random projections.
DENSE, SPARSE = 400, 256
OVERSAMPLING, POWERS = 16, 2
# Singular values below this share of the largest are rounding, not structure.
ROUNDING = 1e-15


@dataclass(frozen=True, eq=False)
class Operators:
    """A linear model of sequences: ``p(o_1 … o_T) = start · B_{o_1} ⋯ B_{o_T} · stop``.

    There is one operator per symbol, for all steps (n_t = 1) or for each, the last of which serves
    all later ones.
    """

    start: Array  # row vector before the first symbol                              (k,)
    B: Array  # (n_t, n_o, k, k)
    stop: Array  # column vector after the last symbol                              (k,)
    rest: Array  # the average state before each step; rest · stop = 1              (n_t, k)
    singular_values: Array  # of the scaled moment matrix, the largest first
    rank: int  # number of singular directions in use
    tensors: PaperTensors | None = None  # D̃, X̃, Õ, where they were estimated

    def __post_init__(self) -> None:
        vectors = {"start": "float64 k", "stop": "float64 k", "rest": "float64 t k"}
        forms = {"B": "float64 t o k k", "singular_values": "float64+ s"}
        sizes = check_arrays(self, **forms, **vectors)
        if 0 in sizes.values():
            raise SojournError(f"operators need at least one step, symbol and direction: {sizes}")
        positive_int("rank", self.rank)

    @property
    def n_symbols(self) -> int:
        """Number of symbols."""
        return int(self.B.shape[1])


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Operators at the largest rank asked for; any smaller rank is a leading block of them."""

    singular_values: Array
    B: Array  # (n_o, k, k)
    start: Array
    stop: Array
    rest: Array

    @property
    def max_rank(self) -> int:
        """The rank before any cut."""
        return len(self.stop)

    def cut(self, rank: int) -> Operators:
        """Operators of the leading `rank` directions."""
        k = min(rank, self.max_rank)
        scale = self.rest[:k] @ self.stop[:k]
        rest = self.rest[:k] / (scale if scale > 0 else 1)
        B = np.ascontiguousarray(self.B[None, :, :k, :k])
        return Operators(self.start[:k], B, self.stop[:k], rest[None], self.singular_values, k)


def learn_adjacent(table: Adjacent, max_rank: int, seed: int = 0) -> Spectrum:
    """Operators of the adjacent form, up to a rank; n_x · n_d for a model that is not cut.

    `seed` is that of the random projections that large tables are decomposed with.
    """
    n_L, n_o, n_R = table.H_o.shape
    n = table.H.sum()
    H = table.H / n
    # One thread adds in one order, so the bits are the same always; small matrices gain by it too.
    with threadpool_limits(1, user_api="blas"):
        V, G, s = inverse(H, max_rank, seed)  # G H V = I                  (n_R, k), (k, n_L)
        k = max(1, int((s[: V.shape[1]] > ROUNDING * s[0]).sum()))
        W, G = V[:, :k], G[:k]
        H_oW = (table.H_o.reshape(n_L * n_o, n_R) @ W).reshape(n_L, n_o, k) / n
        B = np.einsum("kl,lom->okm", G, H_oW, optimize=True)  # B_o = G H_o W     (n_o, k, k)
        average = H.sum(axis=0)
        # One long sequence's start tells little about others: a count, unlike an exact moment, is
        # mixed with one average window.
        first = table.first + average if table.first.dtype.kind == "i" else table.first
        start = first / first.sum() @ W
        return Spectrum(s, B, start, G @ H.sum(axis=1), average @ W)


class Inverse(NamedTuple):
    """An inverse V G of the leading `rank` directions of a matrix, and its singular values."""

    V: Array  # (n_R, k)
    G: Array  # (k, n_L)
    s: Array  # all singular values of a full decomposition, else the k largest


def inverse(M: Any, rank: int, seed: int = 0) -> Inverse:
    """A rank-k inverse of a table of counts; with exact moments any inverse will do."""
    a, U, s, Vt, b = scaled_svd(M, rank, seed)
    kept = s[:rank]
    reciprocal = np.divide(1.0, kept, out=np.zeros_like(kept), where=kept > ROUNDING * s[0])
    return Inverse(b[:, None] * Vt.T, (U * reciprocal).T * a, s)


def scaled_svd(
    M: Any, rank: int, seed: int, n_iter: int = POWERS
) -> tuple[Array, Array, Array, Array, Array]:
    """diag(a) M diag(b) ≈ U diag(s) Vᵀ of rank k, for a dense table or a SciPy sparse array.

    a and b are the inverse roots of the row and column sums: the noise of the entries is then about
    equal. Returns a, U (n_L, k), s, Vᵀ (k, n_R) and b; s may be longer than k. `n_iter` is as in
    `leading_svd`.
    """
    sparse = issparse(M)
    M = M if sparse else np.asarray(M, np.float64)
    a, b = inverse_root(M.sum(axis=1)), inverse_root(M.sum(axis=0))
    scaled: Any = csr_array(diags_array(a) @ M @ diags_array(b)) if sparse else a[:, None] * M * b
    return a, *leading_svd(scaled, rank, seed, n_iter), b


def leading_svd(M: Any, rank: int, seed: int, n_iter: int = POWERS) -> tuple[Array, Array, Array]:
    """M ≈ U diag(s) Vᵀ of rank k: U (n, k), s, which may be longer, and Vᵀ (k, m).

    Large tables are projected at random first, and multiplied `n_iter` times by themselves.
    """
    sparse = issparse(M)
    if min(M.shape) > max(SPARSE if sparse else DENSE, rank + OVERSAMPLING):
        how = {"n_oversamples": OVERSAMPLING, "n_iter": n_iter, "power_iteration_normalizer": "QR"}
        U, s, Vt = randomized_svd(M, rank, random_state=seed, **how)
    else:
        full = M.toarray() if sparse else M
        U, s, Vt = dense_svd(full, full_matrices=False, check_finite=False)
    return U[:, :rank], s, Vt[:rank]


def inverse_root(sums: Any) -> Array:
    """Inverse roots of sums, 0 where a sum is 0."""
    sums = np.asarray(sums, np.float64)
    return np.where(sums > 0, sums, np.inf) ** -0.5
