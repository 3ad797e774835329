"""Ranks that the paper's theorems and lemmas claim, computed on a model of the reader's own.

`rank_report` computes in float64 and shows the singular values; `exact_rank_report` takes the same
tables as exact numbers and computes modulo a prime, where no small singular value is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sojourn.errors import SojournError
from sojourn.exact.params import Params, check_without_tail_or_end
from sojourn.spectral.windows import choose_offsets, contiguous_offsets, theorem_offsets
from sojourn.theory import modular
from sojourn.theory.exact_moments import step_matrix
from sojourn.theory.step import (
    Matrix,
    Product,
    check_table,
    future_states,
    khatri_rao,
    past_states,
)


@dataclass(frozen=True, eq=False)
class RankLine:
    """One matrix of a `RankReport`.

    Attributes
    ----------
    name : str
        Which matrix.
    source : str
        Where the paper claims its rank, in brackets where it does so without a proof.
    shape : tuple of int
    claimed : int or None
        The rank claimed; None where there is no claim for this window or model.
    rank : int
        The rank found.
    singular_values : array or None
        In descending order; None in exact arithmetic.

    Examples
    --------
    >>> line = rank_report(Params.random(n_states=2, max_duration=2, n_symbols=3, rng=0))["T"]
    >>> line.source, line.claimed, line.rank, line.holds
    ('Theorem 4', 4, 4, True)
    """

    name: str
    source: str
    shape: tuple[int, int]
    claimed: int | None
    rank: int
    singular_values: NDArray[np.float64] | None = None

    @property
    def holds(self) -> bool:
        """Whether the rank found is the one claimed (true where none is)."""
        return self.claimed is None or self.rank == self.claimed


@dataclass(frozen=True, eq=False)
class RankReport:
    """Claimed and computed ranks of one model's matrices.

    Attributes
    ----------
    sizes : tuple of int
        n_states, max_duration and n_symbols of the model.
    offsets : tuple of int
        The window.
    arithmetic : str
        How ranks were found.
    lines : tuple of RankLine
        ``report[name]`` is the line of one matrix; ``print(report)`` shows all of them.

    Examples
    --------
    >>> report = exact_rank_report(Params.random(2, 2, 3, rng=0))
    >>> print(report)
    n_states=2, max_duration=2, n_symbols=3; window (0, 1)
    exact, modulo 2147483647
    matrix   shape  claimed  found      claimed in
    V        4 × 4        4      4      proof of Theorem 2
    K        4 × 4        4      4      Section 5
    T        4 × 4        4      4      Theorem 4
    F right  9 × 4        4      4      Theorem 1
    F left   9 × 4        4      4      [mirror of Theorem 1]
    M        9 × 9        4      4      [Section 5]
    H        9 × 9        4      4      [adjacent form]
    M_oo     3 × 3        2      2      [Section 5]
    lemma 6  4 × 2        2      2      Lemma 6
    lemma 7  4 × 4        4      4      Lemma 7
    lemma 8  2 × 2        2      2      Lemma 8
    """

    sizes: tuple[int, int, int]
    offsets: tuple[int, ...]
    arithmetic: str
    lines: tuple[RankLine, ...] = field(repr=False)

    def __getitem__(self, name: str) -> RankLine:
        for line in self.lines:
            if line.name == name:
                return line
        names = ", ".join(repr(line.name) for line in self.lines)
        raise SojournError(f"there is no matrix {name!r} in this report; it holds {names}")

    @property
    def holds(self) -> bool:
        """Whether every claim holds."""
        return all(line.holds for line in self.lines)

    def __str__(self) -> str:
        n_x, n_d, n_o = self.sizes
        sigma = "" if self.lines[0].singular_values is None else "σ_found/σ_1"
        rows = [("matrix", "shape", "claimed", "found", "", sigma, "claimed in")]
        for line in self.lines:
            s = line.singular_values
            ratio = "" if s is None or line.rank == 0 else f"{s[line.rank - 1] / s[0]:.1e}"
            claimed = "-" if line.claimed is None else str(line.claimed)
            mark = "" if line.holds else "<" if line.rank < (line.claimed or 0) else ">"
            shape = f"{line.shape[0]} × {line.shape[1]}"
            rows.append((line.name, shape, claimed, str(line.rank), mark, ratio, line.source))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        left = (0, 6)  # columns of words
        table = [
            "  ".join(
                cell.ljust(width) if i in left else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        ]
        head = f"n_states={n_x}, max_duration={n_d}, n_symbols={n_o}; window {self.offsets}"
        return "\n".join([head, self.arithmetic, *table])


def rank_report(
    params: Params, windows: str | Sequence[int] = "theorem", *, before: int | None = None
) -> RankReport:
    """Ranks of a model's matrices in float64, with their singular values.

    A singular value counts if it exceeds the largest one times the longer side of the matrix times
    2.2e-16 (numpy's rule). A rank below the claim may thus mean no more than that float64 does not
    show it: use `exact_rank_report`.

    Parameters
    ----------
    params : Params
        The model.
    windows : {"theorem", "contiguous"} or sequence of int
        The window: Theorem 1's offsets, as many consecutive symbols, or given offsets.
    before : int, optional
        Steps from the start of a sequence to the left window's first symbol; `max_duration` where
        not given.

    Returns
    -------
    RankReport
        The lines: ``"V"`` one step; ``"K"`` p(x_t, d_t); ``"T"`` states of the right window given
        (x_t, d_t), read from t+1 on; ``"F right"`` and ``"F left"`` symbols of the right and left
        windows given (x_t, d_t); ``"M"`` both windows with one symbol between; ``"H"`` with none;
        ``"M_oo"`` two consecutive symbols; and the lemmas on Khatri-Rao products: ``"lemma 6"``
        D ⊙ I; ``"lemma 7"`` [A_1 ... A_{n_d}] ⊙ E, where the A are T summed over its first state;
        ``"lemma 8"`` the sum of 𝒳's columns in place of any one of them (the worst case).

    Examples
    --------
    >>> p = Params.random(n_states=3, max_duration=8, n_symbols=4, rng=0)
    >>> report = rank_report(p)
    >>> report["T"].claimed, report["T"].rank, report["T"].shape
    (24, 24, (27, 24))
    """
    return _report(params, windows, before, _FLOAT64)


def exact_rank_report(
    params: Params, windows: str | Sequence[int] = "theorem", *, before: int | None = None
) -> RankReport:
    """Ranks of a model's matrices in exact arithmetic, modulo the prime 2³¹ - 1.

    The float64 tables are taken at their exact values and each row is divided by its exact sum, so
    that this is a hidden semi-Markov model over the field of p elements. The ranks found are never
    above the true ones; see `sojourn.theory.modular`.

    Parameters
    ----------
    params, windows, before
        As for `rank_report`.

    Examples
    --------
    >>> p = Params.random(n_states=3, max_duration=20, n_symbols=4, rng=0)
    >>> exact_rank_report(p)["M"].rank, rank_report(p)["M"].rank < 60
    (60, True)
    """
    return _report(params, windows, before, _MODULAR)


@dataclass(frozen=True)
class _Arithmetic:
    """What a rank needs of a field."""

    name: str
    read: Callable[[NDArray[np.float64]], Matrix]
    reduce: Callable[[Matrix], Matrix]
    inverse: Callable[[Matrix], Matrix]
    product: Product
    compress: Callable[[Matrix], Matrix]  # A ↦ R with A = Q R, rank A Z = rank R Z for every Z
    rank: Callable[[Matrix], tuple[int, NDArray[np.float64] | None]]  # and singular values

    def line(self, name: str, source: str, claimed: int | None, A: Matrix) -> RankLine:
        """The rank of A beside its claim."""
        return RankLine(name, source, (len(A), A.shape[1]), claimed, *self.rank(A))

    def pair(self, name: str, source: str, claimed: int | None, A: Matrix, B: Matrix) -> RankLine:
        """The rank of A Bᵀ, which may be large, from that of the small R_A R_Bᵀ."""
        small = self.product(self.compress(A), self.compress(B).T)
        return RankLine(name, source, (len(A), len(B)), claimed, *self.rank(small))


def _svd_rank(A: Matrix) -> tuple[int, NDArray[np.float64] | None]:
    s = np.linalg.svd(A, compute_uv=False)
    return int((s > s[0] * max(A.shape) * np.finfo(np.float64).eps).sum()), s


_FLOAT64 = _Arithmetic(
    name="float64; σ counts above σ_1 · longer side · 2.2e-16",
    read=lambda table: table,
    reduce=lambda A: A,
    inverse=lambda v: np.divide(1.0, v, out=np.zeros_like(v), where=v > 0),
    product=np.matmul,
    compress=lambda A: np.linalg.qr(A).R,  # keeps singular values too
    rank=_svd_rank,
)
_MODULAR = _Arithmetic(
    name=f"exact, modulo {modular.PRIME}",
    read=modular.residues,
    reduce=lambda A: A % np.uint64(modular.PRIME),
    inverse=modular.inverse,
    product=modular.product,
    compress=modular.row_basis,
    rank=lambda A: (len(modular.row_basis(A)), None),
)


def _report(
    params: Params, windows: str | Sequence[int], before: int | None, arithmetic: _Arithmetic
) -> RankReport:
    check_without_tail_or_end(params, "a rank report")
    n_x, n_d, n_o = sizes = (params.n_states, params.max_duration, params.n_symbols)
    full = n_x * n_d
    steps = n_d if before is None else before
    if steps < 0:
        raise SojournError(f"before is {steps}; it is a number of steps, 0 or more")
    offsets = choose_offsets(windows, *sizes)
    check_table(max(n_x, n_o) ** len(offsets), full)
    reduce, product = arithmetic.reduce, arithmetic.product

    def rows(table: NDArray[np.float64]) -> Matrix:
        exact = arithmetic.read(np.atleast_2d(table))
        return reduce(exact * arithmetic.inverse(reduce(exact.sum(1))[:, None]))

    start, X, D, emission = map(
        rows, (params.start, params.transition, params.duration, params.emission)
    )
    V = reduce(step_matrix(X, D))
    now = reduce((start.T * D).T.reshape(full, 1))  # p(x, d) at the first step
    for _ in range(steps):
        now = product(V, now)

    T = future_states(V, n_x, offsets, product)
    left = past_states(V, now[:, 0], n_x, offsets, product)
    F_right = _symbols(T, emission, len(offsets), product)
    joint = _symbols(left, emission, len(offsets), product)  # F_left · K
    K = reduce(joint.sum(0))
    F_left = reduce(joint * arithmetic.inverse(K))
    one_left = product(emission.T, past_states(V, K, n_x, (0,), product))
    one_right = product(emission.T, future_states(V, n_x, (0,), product))

    claim, theorem = _claim(params, offsets)
    observed = claim if n_x <= n_o else None  # A3
    complete = full if observed == full else None
    seen = {"Theorem 4": "Theorem 1", "Theorem 2": "Corollary 3", "": ""}[theorem]
    mirrored = f"[mirror of {seen}]" if seen else ""
    line, pair = arithmetic.line, arithmetic.pair
    lines = (
        line("V", "proof of Theorem 2", full, V),
        line("K", "Section 5", full, np.diag(K)),
        line("T", theorem, claim, T),
        line("F right", seen, observed, F_right),
        line("F left", mirrored, observed, F_left),
        pair("M", "[Section 5]", complete, joint, product(F_right, V)),
        pair("H", "[adjacent form]", complete, joint, F_right),
        pair("M_oo", "[Section 5]", n_x if n_x <= n_o else None, one_left, one_right),
        *_lemmas(X, D, T, arithmetic),
    )
    return RankReport(sizes, offsets, arithmetic.name, lines)


def _lemmas(X: Matrix, D: Matrix, T: Matrix, arithmetic: _Arithmetic) -> list[RankLine]:
    """Lemmas 6-8 on matrices that the proofs of Theorems 2 and 4 apply them to."""
    n_x, n_d = D.shape
    rank, reduce = arithmetic.rank, arithmetic.reduce
    identity = np.eye(n_x, dtype=D.dtype)
    A = reduce(T.reshape(n_x, -1, n_x * n_d).sum(0))  # [A_1 ... A_{n_d}]
    W = khatri_rao(A, np.tile(identity, (1, n_d)))
    ranks = [rank(A[:, x::n_x])[0] for x in range(n_x)]
    swaps = []
    for x in range(n_x):  # u = Σ v_i in place of v_x
        swap = X.T.copy()
        swap[:, x] = reduce(X.T.sum(1))
        swaps.append(swap)
    worst = min(swaps, key=lambda swap: rank(swap)[0])
    independent = rank(X.T)[0] == n_x  # the hypothesis of Lemma 8
    return [
        arithmetic.line("lemma 6", "Lemma 6", n_x, khatri_rao(D.T, identity)),
        arithmetic.line("lemma 7", "Lemma 7", min(len(W), sum(ranks)), W),
        arithmetic.line("lemma 8", "Lemma 8", n_x if independent else None, worst),
    ]


def _symbols(states: Matrix, emission: Matrix, length: int, product: Product) -> Matrix:
    """Distribution of a window's symbols from that of its states: (⊗ O) T, one symbol at a time."""
    n_x, n_o = emission.shape
    columns = states.shape[1]
    F = states
    for _ in range(length):  # the first axis is emitted and goes last: ℓ turns restore time order
        F = product(emission.T, F.reshape(n_x, -1)).reshape(n_o, -1, columns)
        F = np.ascontiguousarray(F.transpose(1, 0, 2)).reshape(-1, columns)
    return F


def _claim(params: Params, offsets: tuple[int, ...]) -> tuple[int | None, str]:
    """Rank of T that the paper claims for a window, and where."""
    n_x, n_d, ell = params.n_states, params.max_duration, len(offsets)
    if offsets == theorem_offsets(n_x, n_d, length=ell):
        return min(n_x**ell, n_x * n_d), "Theorem 4"
    if offsets == contiguous_offsets(ell):
        return min(ell * n_x, n_x * n_d), "Theorem 2"
    return None, ""
