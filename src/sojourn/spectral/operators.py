"""Observable operators: moments → SVD → one small matrix a symbol.

All three algorithms end in the same form, ``p(o_1 … o_T) = start · B_{o_1} ⋯ B_{o_T} · stop``, so
one filter (`filtering`) serves them all. The adjacent form has it by nature; for the paper's two,
root and tail of Appendix B are folded into a few more coordinates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import svd as dense_svd
from scipy.sparse import csr_array, diags_array, issparse
from sklearn.utils.extmath import randomized_svd
from threadpoolctl import threadpool_limits

from sojourn.checks import check_arrays, positive_int
from sojourn.errors import SojournError
from sojourn.spectral.moment_tables import Adjacent, Gapped

Array = NDArray[np.float64]

# A full decomposition up to here; beyond, the few leading vectors are found by random projections.
DENSE = 400
# Singular values below this share of the largest are rounding, not structure.
ROUNDING = 1e-15


@dataclass(frozen=True, eq=False)
class Operators:
    """A linear model of sequences: ``p(o_1 … o_T) = start · B_{o_1} ⋯ B_{o_T} · stop``.

    Parameters
    ----------
    start, stop : arrays (k,)
        Row vector before the first symbol, column vector after the last.
    B : array (n_t, n_o, k, k)
        One operator a symbol, for all steps (n_t = 1) or for each; the last serves all later ones.
    rest : array (n_t, k)
        The average state before each step, taken where a state has lost its meaning;
        ``rest · stop = 1``.
    singular_values : array
        Of the moment matrix, largest first: all of them, or the `rank` in use of a large table.
    rank : int
        Number of singular directions in use.
    tensors : PaperTensors or None
        The paper's own D̃, X̃, Õ, where they were estimated.
    """

    start: Array
    B: Array
    stop: Array
    rest: Array
    singular_values: Array
    rank: int
    tensors: PaperTensors | None = None

    def __post_init__(self) -> None:
        sizes = check_arrays(
            self,
            start="float64 k",
            B="float64 t o k k",
            stop="float64 k",
            rest="float64 t k",
            singular_values="float64 s",
        )
        if 0 in sizes.values():
            raise SojournError(f"operators need at least one step, symbol and direction: {sizes}")
        positive_int("rank", self.rank)

    @property
    def n_symbols(self) -> int:
        """Number of symbols."""
        return int(self.B.shape[1])


@dataclass(frozen=True, eq=False)
class PaperTensors:
    """The observable tensors of the paper, in the coordinates of k singular vectors.

    Parameters
    ----------
    D_tilde : array (n_t, k, k)
        Eq. (DtensorAcc), or (DtensorObs) for each step.
    X_tilde : array (n_t, n_o, k, k)
        Eq. (XtensorAcc) or (tensorXobs).
    O_tilde : array (n_t, n_o, n_o)
        Eq. (OtensorAcc) or (tensorOobs): a projection to rank n_x.
    root : array (n_o, n_o, k)
        Eq. (X11): the first two symbols and the window after them.
    pairs : array (n_o, n_o)
        The first two symbols alone, for sequences that end there.
    tail : array (n_t, n_o, k)
        Eq. (X2): X̃ with its right window summed out.
    """

    D_tilde: Array
    X_tilde: Array
    O_tilde: Array
    root: Array
    pairs: Array
    tail: Array


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Operators at the largest rank that was asked for; any smaller rank is a corner of them."""

    singular_values: Array
    B: Array
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


@dataclass(frozen=True, eq=False)
class PaperSpectrum:
    """The paper's tensors at the largest rank that was asked for."""

    singular_values: Array
    tensors: PaperTensors
    average: Array  # before each step, since each step has coordinates of its own   (n_t, k)

    @property
    def max_rank(self) -> int:
        """The rank before any cut."""
        return int(self.average.shape[1])

    def cut(self, rank: int) -> Operators:
        """Operators of the leading `rank` directions, root and tail folded in.

        p = root[o_1, o_2] D̃ X̃_{o_3} ⋯ D̃ tail_{o_T}, each mode o contracted with Õ: the paper's
        eq. (mesTensorObserv) between its eqs. (X11) and (X2).

        The coordinates are: before the first symbol, after it, the state, the probability so far.
        """
        k, T = min(rank, self.max_rank), self.tensors
        n_t, n_o, _ = T.tail.shape
        one, state, p = slice(1, 1 + n_o), slice(1 + n_o, 1 + n_o + k), 1 + n_o + k
        B = np.zeros((n_t, n_o, p + 1, p + 1))
        D, root = T.D_tilde[:, :k, :k], T.root[:, :, :k]
        for t in range(n_t):
            O = T.O_tilde[t]
            X = np.einsum("okm,oq->qkm", T.X_tilde[t, :, :k, :k], O)  # X̃ ×_o Õ|_{o = q}
            tail = O.T @ T.tail[t, :, :k]
            B[t, :, 0, one] = O.T  # the first symbol q has the coordinates Õ[:, q]
            B[t, :, 0, p] = O.T @ T.pairs.sum(axis=1)
            B[t, :, one, state] = np.einsum("abk,bq->qak", root, O)
            B[t, :, one, p] = (T.pairs @ O).T
            B[t, :, state, state] = D[t] @ X
            B[t, :, state, p] = tail @ D[t].T
        start, stop, rest = np.zeros(p + 1), np.zeros(p + 1), np.zeros((n_t, p + 1))
        start[[0, p]], stop[p], rest[:, p] = 1, 1, 1
        rest[:, state] = self.average[:, :k]
        return Operators(start, B, stop, rest, self.singular_values, k, T)


def decompose(
    table: Adjacent | Gapped, max_rank: int, n_states: int, seed: int = 0
) -> Spectrum | PaperSpectrum:
    """Operators of a table of moments, up to a rank.

    Parameters
    ----------
    table : Adjacent or Gapped
        The adjacent form, or the paper's Algorithm 2; Algorithm 1 where the table keeps its steps
        apart.
    max_rank : int
        Rank of the inverses; n_x · n_d for a model that is not cut.
    n_states : int
        Rank of the paper's projection Õ.
    seed : int
        Of the random projections that large tables are decomposed with.

    Examples
    --------
    >>> from sojourn.exact.params import Params
    >>> from sojourn.spectral.exact_moments import exact_moments
    >>> p = Params.random(2, 2, 3, rng=0)
    >>> decompose(exact_moments(p, [(0, 1)]).tables[0], 4, 2).cut(4).B.shape
    (1, 3, 4, 4)
    """
    # Matrices this small lose by threads, and one thread adds in one order: the same bits always.
    with threadpool_limits(1, user_api="blas"):
        if isinstance(table, Gapped):
            return _paper(table, max_rank, n_states, seed)
        return _adjacent(table, max_rank, seed)


def _adjacent(table: Adjacent, max_rank: int, seed: int) -> Spectrum:
    n_L, n_o, n_R = table.H_o.shape
    n = table.H.sum()
    H = table.H / n
    V, G, s = inverse(H, max_rank, seed)  # H⁺ = V G                    (n_R, k), (k, n_L)
    k = max(1, int((s[: V.shape[1]] > ROUNDING * s[0]).sum()))
    W, G = V[:, :k], G[:k]
    H_oW = (table.H_o.reshape(n_L * n_o, n_R) @ W).reshape(n_L, n_o, k) / n
    B = np.einsum("kl,lom->okm", G, H_oW, optimize=True)  # B_o = G H_o W             (n_o, k, k)
    average = H.sum(axis=0)
    # The start of one long sequence says little of others': a count, unlike an exact moment, is
    # mixed with one average window.
    first = table.first + average if table.first.dtype.kind == "i" else table.first
    start = first / first.sum() @ W
    return Spectrum(s, B, start, G @ H.sum(axis=1), average @ W)


def _paper(table: Gapped, rank: int, n_states: int, seed: int) -> PaperSpectrum:
    """The paper's tensors.

    Algorithm 1 cannot place its windows near the ends of a sequence: there it uses the tensors of
    the nearest step at which they fit, which homogeneity allows. So it does past the longest
    sequence it was trained on.
    """
    D_steps = np.flatnonzero(table.M_LR.any(axis=(1, 2)))
    X_steps = np.flatnonzero(table.M_LoR.any(axis=(1, 2, 3)))
    O_steps = np.flatnonzero(table.M_oo.any(axis=(1, 2)))
    if len(D_steps) == 0:
        raise SojournError(
            f"no sequence holds a left and two right windows {table.offsets} without a missing "
            f"symbol; give longer sequences or a smaller max_duration or window"
        )
    n_t = max(int(D_steps[-1]), int(X_steps[-1])) + 1
    D_at, X_at, O_at = (_nearest(steps, n_t) for steps in (D_steps, X_steps, O_steps))
    D_inverse = {int(t): inverse(table.M_LR[t], rank, seed) for t in D_steps}
    X_inverse = {int(t): inverse(table.M_LoR[t].sum(axis=1), rank, seed) for t in X_steps}
    # A state before step t stands in the coordinates of D̃'s inverse at t, V_D; between D̃ and X̃
    # in those of X̃'s, V_X. What the bases leave out, the next inverse would cut anyway.
    V_D = [D_inverse[D_at[min(t, n_t - 1)]][0] for t in range(n_t + 1)]
    D_tilde, X_tilde, O_tilde, tail = [], [], [], []
    for t in range(n_t):
        V_X, X_plus, _ = X_inverse[X_at[t]]
        M_LoR = table.M_LoR[X_at[t]]
        D_tilde.append(D_inverse[D_at[t]][1] @ table.M_LR1[D_at[t]] @ V_X)  # eq. (DtensorAcc)
        X_tilde.append(np.einsum("kl,lor,rm->okm", X_plus, M_LoR, V_D[t + 1], optimize=True))
        tail.append(np.einsum("kl,lo->ok", X_plus, M_LoR.sum(axis=2)))  # eq. (X2)
        U = dense_svd(table.M_oo[O_at[t]])[0][:, :n_states]
        O_tilde.append(U @ U.T)  # M⁻¹ ×_{o_{t+1}} M at rank n_x                   eq. (OtensorAcc)
    root = table.root / max(table.root.sum(), 1)
    tensors = PaperTensors(
        np.array(D_tilde),
        np.array(X_tilde),
        np.array(O_tilde),
        root @ V_D[min(2, n_t)],
        root.sum(axis=2),
        np.array(tail),
    )
    law = table.M_LR.sum(axis=(0, 1)) / table.M_LR.sum()
    average = np.array([law @ V for V in V_D[:n_t]])
    return PaperSpectrum(X_inverse[X_at[n_t // 2]][2], tensors, average)


def _nearest(steps: NDArray[np.int64], n_t: int) -> list[int]:
    """For each step the nearest one of those at which the windows fit."""
    return [int(steps[np.argmin(np.abs(steps - t))]) for t in range(n_t)]


class Inverse(NamedTuple):
    """An inverse V G of the leading `rank` directions of a matrix, and its singular values."""

    V: Array  # (n_R, k)
    G: Array  # (k, n_L)
    s: Array  # all singular values of a full decomposition, else the k largest


def inverse(M: Any, rank: int, seed: int = 0) -> Inverse:
    """A rank-k inverse of a table of counts, dense or a SciPy sparse array.

    The SVD is of diag(a) M diag(b), with a and b the inverse roots of the row and column sums: the
    noise of its entries is then about equal. With exact moments any inverse will do.
    """
    sparse = issparse(M)
    M = M if sparse else np.asarray(M, np.float64)
    a, b = inverse_root(M.sum(axis=1)), inverse_root(M.sum(axis=0))
    scaled: Any = csr_array(diags_array(a) @ M @ diags_array(b)) if sparse else a[:, None] * M * b
    if not sparse and (min(M.shape) <= DENSE or rank > min(M.shape) // 4):
        U, s, Vt = dense_svd(scaled, full_matrices=False, check_finite=False)
    else:
        U, s, Vt = randomized_svd(scaled, rank, n_iter=4, random_state=seed)
    U, V, kept = U[:, :rank], Vt[:rank].T, s[:rank]
    reciprocal = np.divide(1.0, kept, out=np.zeros_like(kept), where=kept > ROUNDING * s[0])
    return Inverse(b[:, None] * V, (U * reciprocal).T * a, s)


def inverse_root(sums: Any) -> Array:
    """Inverse roots of sums, 0 where a sum is 0."""
    sums = np.asarray(sums, np.float64)
    return np.where(sums > 0, sums, np.inf) ** -0.5
