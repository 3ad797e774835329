"""The spectral methods on fixed windows in plain loops: the oracle of the fast ones.

A sequence is a list of symbols 0 … n_o - 1, None where one is missing; a window is a tuple of
offsets that starts at 0. The right window at s reads the symbols at s + offset, the left window
that ends at s those at s - offset.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Row = Sequence[int | None]


def window(row: Row, places: Sequence[int], n_o: int) -> int | None:
    """Number of the window at these places, earliest symbol first; None if any is not there."""
    number = 0
    for place in places:
        symbol = row[place] if 0 <= place < len(row) else None
        if symbol is None:
            return None
        number = number * n_o + symbol
    return number


def right(row: Row, s: int, offsets: Sequence[int], n_o: int) -> int | None:
    """The right window that starts at s."""
    return window(row, [s + offset for offset in offsets], n_o)


def left(row: Row, s: int, offsets: Sequence[int], n_o: int) -> int | None:
    """The left window that ends at s, the mirror image of the right one."""
    return window(row, [s - offset for offset in reversed(offsets)], n_o)


def count_adjacent(
    rows: Sequence[Row], offsets: Sequence[int], n_o: int, weights: Any = None
) -> Any:
    """H[L, R] and H_o[L, o, R1] over steps with complete windows, L ending and R starting at t."""
    n, weights = n_o ** len(offsets), np.ones(len(rows), int) if weights is None else weights
    H, H_o, first = (np.zeros(shape, weights.dtype) for shape in ((n, n), (n, n_o, n), n))
    for row, weight in zip(rows, weights, strict=True):
        if (R := right(row, 0, offsets, n_o)) is not None:
            first[R] += weight
        for t, o in enumerate(row):
            L, R = left(row, t - 1, offsets, n_o), right(row, t, offsets, n_o)
            R1 = right(row, t + 1, offsets, n_o)
            if None not in (L, o, R, R1):  # what is divided is counted over the same steps
                H[L, R] += weight
                H_o[L, o, R1] += weight
    return H, H_o, first


def count_gapped(
    rows: Sequence[Row], offsets: Sequence[int], n_o: int, n_t: int = 1, weights: Any = None
) -> Any:
    """The paper's M (Section 4.2) at each of n_t steps, or summed over all (n_t = 1); its root."""
    n, weights = n_o ** len(offsets), np.ones(len(rows), int) if weights is None else weights
    shapes = ((n_t, n, n_o, n), (n_t, n, n), (n_t, n, n), (n_t, n_o, n_o), (n_o, n_o, n))
    M_LoR, M_LR, M_LR1, M_oo, root = (np.zeros(shape, weights.dtype) for shape in shapes)
    for row, weight in zip(rows, weights, strict=True):
        R = right(row, 2, offsets, n_o)
        if R is not None and None not in row[:2]:
            root[row[0], row[1], R] += weight  # eq. (X11)
        for t, o in enumerate(row):
            step = t if n_t > 1 else 0
            R, R1 = right(row, t, offsets, n_o), right(row, t + 1, offsets, n_o)
            if t + 1 < len(row) and None not in (o, row[t + 1]):
                M_oo[step, o, row[t + 1]] += weight  # eq. (tensorOobs)
            if None not in (L := left(row, t - 1, offsets, n_o), o, R1):
                M_LoR[step, L, o, R1] += weight  # eq. (tensorXobs)
            if None not in (L := left(row, t - 2, offsets, n_o), R, R1):
                M_LR[step, L, R] += weight  # eq. (DtensorObs), inverted
                M_LR1[step, L, R1] += weight  # eq. (DtensorObs)
    return M_LoR, M_LR, M_LR1, M_oo, root


def scaled_inverse(M: Any, k: int) -> Any:
    """V and G, with V G a generalised inverse of M: G M V = I of rank k.

    Rows and columns are scaled by their sums, which makes the noise of counts even.
    """
    a, b = (np.where(sums > 0, sums, np.inf) ** -0.5 for sums in (M.sum(axis=1), M.sum(axis=0)))
    U, s, Vt = np.linalg.svd(a[:, None] * M * b, full_matrices=False)
    return b[:, None] * Vt[:k].T, (U[:, :k] / s[:k]).T * a  # (n_R, k), (k, n_L)


def learn_adjacent(H: Any, H_o: Any, first: Any, k: int) -> Any:
    """Operators with p(o_1 … o_T) = start · B_{o_1} ⋯ B_{o_T} · stop, and the average state."""
    n = H.sum()
    V, G = scaled_inverse(H / n, k)  # G H V = I                                 (n_R, k), (k, n_L)
    B = np.einsum("kl,lor,rm->okm", G, H_o / n, V)  # B_o = G H_o V              (n_o, k, k)
    average = H.sum(axis=0) / n  # (n_R,)
    if first.dtype.kind == "i":  # counts: one average window more, so that few starts rule out none
        first = first + average
    return first / first.sum() @ V, B, G @ H.sum(axis=1) / n, average @ V


def learn_paper(M_LoR: Any, M_LR: Any, M_LR1: Any, M_oo: Any, root: Any, k: int, n_x: int) -> Any:
    """D̃, X̃, Õ, root and tail of Algorithm 2, from moments of all steps together."""
    V_D, D_plus = scaled_inverse(M_LR, k)
    V_X, X_plus = scaled_inverse(M_LoR.sum(axis=1), k)
    D = D_plus @ M_LR1 @ V_X  # eq. (DtensorAcc)                                 (k, k)
    X = np.einsum("kl,lor,rm->okm", X_plus, M_LoR, V_D)  # eq. (XtensorAcc)      (n_o, k, k)
    U = np.linalg.svd(M_oo)[0][:, :n_x]
    O = U @ U.T  # eq. (OtensorAcc): a projection to rank n_x                    (n_o, n_o)
    tail = np.einsum("kl,lor->ok", X_plus, M_LoR)  # eq. (X2)                    (n_o, k)
    return D, X, O, root / root.sum() @ V_D, tail


def paper_prob(row: Sequence[int], D: Any, X: Any, O: Any, root: Any, tail: Any) -> float:
    """Inference of Algorithm 2: eq. (mesTensorObserv) between (X11) and (X2); three symbols up."""
    v = np.einsum("abk,a,b->k", root, O[:, row[0]], O[:, row[1]])  # (k,)
    for o in row[2:-1]:
        v = v @ D @ np.einsum("okm,o->km", X, O[:, o])
    return float(v @ D @ np.einsum("ok,o->k", tail, O[:, row[-1]]))


def log_prob(row: Sequence[int], start: Any, B: Any, stop: Any) -> float:
    """Log of the signed product; -inf where it is not positive."""
    p = start
    for o in row:
        p = p @ B[o]
    return float(np.log(p @ stop)) if p @ stop > 0 else -np.inf


def surprise(row: Row, start: Any, B: Any, stop: Any, average: Any, epsilon: float) -> Any:
    """-log p(o_t | o_1 … o_{t-1}) by the normalised filter, 0 for missing; p of the next symbol.

    p is q cut below at ε and normalised. The state is divided by q itself; where q of the symbol is
    below ε it restarts from the average state.
    """
    out, v = [], start / (start @ stop)
    for symbol in (*row, None):
        q = v @ B @ stop  # (n_o,)
        p = np.maximum(q, epsilon) / np.maximum(q, epsilon).sum()
        out.append(0.0 if symbol is None else -np.log(p[symbol]))
        update, mass = (B.sum(axis=0), q.sum()) if symbol is None else (B[symbol], q[symbol])
        v = v @ update / mass if mass >= epsilon else average
    return np.array(out[:-1]), p


def choose(
    train: list[Row], heldout: list[Row], windows: Any, ranks: Any, n_o: int, epsilon: float
) -> Any:
    """Window and rank whose filter gives the held-out rows the most likelihood.

    `SpectralHSMM` holds out a fifth of the sequences, those with the smallest hashes of their ids,
    tries ranks 1, 2, 3, 4, 6, 8, 12, … up to n_x · n_d with ε = 0.001 / n_o, then a few other ε,
    and learns the operators of the best from all rows.
    """
    scores = {}
    for offsets in windows:
        H, H_o, first = count_adjacent(train, offsets, n_o)
        for k in ranks:
            start, B, stop, average = learn_adjacent(H, H_o, first, k)
            rows = (surprise(row, start, B, stop, average, epsilon)[0] for row in heldout)
            scores[offsets, k] = -sum(row.sum() for row in rows)
    return max(scores, key=lambda found: scores[found])
