"""Algorithms 1 and 2 and Appendix B of Melnyk and Banerjee, equation by equation.

| paper                                          | here                                       |
|------------------------------------------------|--------------------------------------------|
| Sections 4.3, 4.4, estimates of M for every t  | `moment_tables.count_windows`              |
| Section 4.4, sums of M over t                  | `pooled`                                   |
| M⁻¹, Section 2, "tensor inversion"             | `operators.inverse`, of rank k and scaled  |
| eqs. (DtensorObs), (DtensorAcc)                | `d_tilde`                                  |
| eqs. (tensorXobs), (XtensorAcc)                | `x_tilde`                                  |
| eqs. (tensorOobs), (OtensorAcc)                | `o_tilde`                                  |
| Appendix B, eqs. (X11), (X2)                   | `root_tilde`, `tail_tilde`                 |
| Algorithm 1, learning                          | `algorithm_1`                              |
| Algorithm 2, learning                          | `algorithm_2`                              |
| both algorithms, inference; eq. (mesTensorObserv) | `as_operators`, then `raw_log_prob`     |

L is the paper's O_L, the symbols before step t; R its O_R, those after it. Tensors are kept in the
coordinates of k singular vectors: with M ≈ (Gᵀ)⁺ V⁺, M⁻¹ = V G, and D̃, X̃ are written between a V
and the next one. What a V leaves out, the next inverse would cut anyway.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import svd
from threadpoolctl import threadpool_limits

from sojourn.data.sequences import Sequences
from sojourn.errors import SojournError
from sojourn.spectral.moment_tables import Gapped
from sojourn.spectral.operators import Array, Inverse, Operators, inverse


@dataclass(frozen=True, eq=False)
class PaperTensors:
    """The observable tensors of the paper, for each step (n_t > 1) or for all (n_t = 1)."""

    D_tilde: Array  # (n_t, k, k)
    X_tilde: Array  # (n_t, n_o, k, k)
    O_tilde: Array  # a projection to rank n_x                                    (n_t, n_o, n_o)
    root: Array  # the first two symbols and the window after them                (n_o, n_o, k)
    pairs: Array  # the first two symbols alone, for sequences that end there     (n_o, n_o)
    tail: Array  # X̃ with its right window summed out                             (n_t, n_o, k)


@dataclass(frozen=True, eq=False)
class PaperSpectrum:
    """The paper's tensors at the largest rank asked for; any smaller rank is a part of them."""

    singular_values: Array
    tensors: PaperTensors
    average: Array  # the state before each step, in that step's coordinates       (n_t, k)

    @property
    def max_rank(self) -> int:
        """The rank before any cut."""
        return int(self.average.shape[1])

    def cut(self, rank: int) -> Operators:
        """Operators of the leading `rank` directions."""
        return as_operators(self, rank)


def algorithm_1(table: Gapped, rank: int, n_states: int, seed: int = 0) -> PaperSpectrum:
    """Algorithm 1: tensors for every step, from the moments of that step.

    Near the ends of a sequence the windows do not fit. There, and beyond the longest training
    sequence, the tensors of the nearest step at which they fit are used, as homogeneity allows.
    """
    D_steps, X_steps, O_steps = (
        np.flatnonzero(M.reshape(len(M), -1).any(axis=1))
        for M in (table.M_LR, table.M_LoR, table.M_oo)
    )
    if not (D_steps.size and X_steps.size and O_steps.size):
        raise SojournError(
            f"no sequence holds a left and two right windows {table.offsets}, or one of each with "
            f"a symbol between, without a missing symbol; give longer sequences or a smaller "
            f"max_duration or window"
        )
    n_t = max(int(D_steps[-1]), int(X_steps[-1])) + 1
    D_at, X_at, O_at = (_nearest(steps, n_t) for steps in (D_steps, X_steps, O_steps))
    # One thread adds in one order, so the bits are the same always; small matrices gain by it too.
    with threadpool_limits(1, user_api="blas"):
        D_inverse = {t: inverse(table.M_LR[t], rank, seed) for t in D_steps.tolist()}
        X_inverse = {t: inverse(table.M_LoR[t].sum(axis=1), rank, seed) for t in X_steps.tolist()}
        V = [D_inverse[t].V for t in (*D_at, D_at[-1])]  # coordinates before each step
        D, X, O, tail = [], [], [], []
        for t in range(n_t):
            M_LoR, by_X = table.M_LoR[X_at[t]], X_inverse[X_at[t]]
            D.append(d_tilde(D_inverse[D_at[t]], table.M_LR1[D_at[t]], by_X.V))
            X.append(x_tilde(by_X, M_LoR, V[t + 1]))
            O.append(o_tilde(table.M_oo[O_at[t]], n_states))
            tail.append(tail_tilde(by_X, M_LoR))
        root, pairs = root_tilde(table.root, V[min(2, n_t)])
        window = table.M_LR.sum(axis=(0, 1)) / table.M_LR.sum()  # the average right window
        average = np.array([window @ V_t for V_t in V[:n_t]])
    D_all, X_all, O_all, tail_all = (np.array(tensor) for tensor in (D, X, O, tail))
    tensors = PaperTensors(D_all, X_all, O_all, root, pairs, tail_all)
    return PaperSpectrum(X_inverse[X_at[n_t // 2]].s, tensors, average)


def algorithm_2(table: Gapped, rank: int, n_states: int, seed: int = 0) -> PaperSpectrum:
    """Algorithm 2: the same equations, every M being a sum over all steps."""
    return algorithm_1(pooled(table), rank, n_states, seed)


def d_tilde(by_D: Inverse, M_LR1: Array, V_X: Array) -> Array:
    """M(L_{t-1}, R_{t-1})⁻¹ M(L_{t-1}, R_t): eqs. (DtensorObs), (DtensorAcc)."""
    return by_D.G @ M_LR1 @ V_X  # (k, n_L) (n_L, n_R) (n_R, k)


def x_tilde(by_X: Inverse, M_LoR: Array, V_next: Array) -> Array:
    """M(L_t, R_t)⁻¹ M(L_t, o_t, R_t): eqs. (tensorXobs), (XtensorAcc)."""
    X: Array = np.einsum("kl,lor,rm->okm", by_X.G, M_LoR, V_next, optimize=True)
    return X  # (n_o, k, k)


def o_tilde(M_oo: Array, n_states: int) -> Array:
    """M(o_t, o_{t+1})⁻¹ M(o_t, o_{t+1}) of rank n_x, a projection: (tensorOobs), (OtensorAcc)."""
    U = svd(M_oo)[0][:, :n_states]
    return U @ U.T  # (n_o, n_o)


def tail_tilde(by_X: Inverse, M_LoR: Array) -> Array:
    """X̃ with its right window summed out, for the last symbol: eq. (X2)."""
    tail: Array = np.einsum("kl,lo->ok", by_X.G, M_LoR.sum(axis=2))
    return tail  # (n_o, k)


def root_tilde(counts: NDArray[Any], V: Array) -> tuple[Array, Array]:
    """P(o_1, o_2, R) and P(o_1, o_2), R starting at o_3: eq. (X11), its window one step earlier."""
    root = counts / max(counts.sum(), 1)
    return root @ V, root.sum(axis=2)  # (n_o, n_o, k), (n_o, n_o)


def as_operators(spectrum: PaperSpectrum, rank: int) -> Operators:
    """The product of eq. (mesTensorObserv) between its two ends, as operators of rank k.

    p(o_1 … o_T) = root[o_1, o_2] D̃ X̃_{o_3} ⋯ D̃ tail_{o_T}, each symbol's mode contracted with Õ.
    The coordinates of a state: before the first symbol, after it, the k of the paper, and the
    probability so far.
    """
    k, T = min(rank, spectrum.max_rank), spectrum.tensors
    n_t, n_o, _ = T.tail.shape
    one, state, p = slice(1, 1 + n_o), slice(1 + n_o, 1 + n_o + k), 1 + n_o + k
    B = np.zeros((n_t, n_o, p + 1, p + 1))
    D, root = T.D_tilde[:, :k, :k], T.root[:, :, :k]
    for t, O in enumerate(T.O_tilde):
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
    rest[:, state] = spectrum.average[:, :k]
    return Operators(start, B, stop, rest, spectrum.singular_values, k, T)


def _nearest(steps: NDArray[np.int64], n_t: int) -> list[int]:
    """For each step the nearest one of those at which the windows fit."""
    return [int(steps[np.argmin(np.abs(steps - t))]) for t in range(n_t)]


def pooled(table: Gapped) -> Gapped:
    """The moments of all steps together."""
    names = ("M_LoR", "M_LR", "M_LR1", "M_oo") if len(table.M_LoR) > 1 else ()
    return replace(table, **{name: getattr(table, name).sum(0, keepdims=True) for name in names})


def raw_log_prob(operators: Operators, sequences: Sequences) -> Array:
    """Log of the signed product for each sequence; -inf where it is not positive."""
    B, n_t = operators.B, len(operators.B)
    any_symbol = B.sum(axis=1)  # of a missing one
    out = np.empty(len(sequences))
    for i, (begin, end) in enumerate(zip(sequences.offsets, sequences.offsets[1:], strict=False)):
        v, log_scale = operators.start, 0.0
        for t, o in enumerate(sequences.codes[begin:end].tolist()):
            v = v @ (B[min(t, n_t - 1), o] if o >= 0 else any_symbol[min(t, n_t - 1)])
            largest = np.abs(v).max()
            if largest > 0:  # kept in scale, so that nothing underflows
                v, log_scale = v / largest, log_scale + np.log(largest)
        p = v @ operators.stop
        out[i] = log_scale + np.log(p) if p > 0 else -np.inf
    return out
