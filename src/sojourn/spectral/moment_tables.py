"""Tables of counts, one set for each window, and the shape that they are counted for.

The axes of a table are in time order and named so: ``M_LoR`` is indexed by left window, symbol,
right window.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sojourn.checks import MAX_ENTRIES, check_arrays
from sojourn.errors import SojournError
from sojourn.spectral.count_sparse import Sparse
from sojourn.spectral.windows import check_offsets

# Larger tables of windows that touch are kept as those entries that occur: adding up and
# decomposing all that could occur would take longer than counting.
MAX_DENSE = 2**23
COUNTS = "int64|float64"  # expected counts are not integers


class Form(StrEnum):
    """Which windows are counted: one of the three algorithms."""

    ADJACENT = "adjacent"  # L and R touch; all steps together
    POOLED = "pooled"  # a symbol between L and R; all steps together (Algorithm 2)
    PER_STEP = "per_step"  # a symbol between L and R; each step by itself (Algorithm 1)

    @classmethod
    def of(cls, gapped: bool, per_step: bool) -> Form:
        """The form that the flags of `sojourn.count` ask for."""
        return cls.PER_STEP if per_step else cls.POOLED if gapped else cls.ADJACENT


@dataclass(frozen=True, eq=False)
class Adjacent:
    """Counts of windows that touch: L ends at t-1, R starts at t, all over the same steps t.

    The right window has the shape `offsets`; the left window is its mirror image.
    """

    offsets: tuple[int, ...]
    H: NDArray[Any]  # L and R                                                    (n_L, n_R)
    H_o: NDArray[Any]  # L, the symbol at t, and R one step later                  (n_L, n_o, n_R)
    first: NDArray[Any]  # the first window of each sequence                       (n_R,)

    def __post_init__(self) -> None:
        _check_counts(self, H="n n", H_o="n o n", first="n")

    def __add__(self, other: Any) -> Self:
        return _add(self, other)


@dataclass(frozen=True, eq=False)
class Gapped:
    """The paper's counts: L ends at t-1, R starts at t+1, the symbol o at t lies between.

    The leading axis is the step t from the start of the sequence (Algorithm 1, n_t >= 2), or has
    one entry for all steps together (Algorithm 2). Entry t of `M_LR` and `M_LR1` is for the left
    window that ends at t-2, as in the paper's D̃ for step t.
    """

    offsets: tuple[int, ...]
    M_LoR: NDArray[
        Any
    ]  # L, o, R; the sum over o is the M(L, R) it is divided by  (n_t, n_L, n_o, n_R)
    M_LR: NDArray[Any]  # L and R                                                  (n_t, n_L, n_R)
    M_LR1: NDArray[Any]  # L and R one step later, over the same t as M_LR         (n_t, n_L, n_R)
    M_oo: NDArray[Any]  # the symbols at t and t+1                                 (n_t, n_o, n_o)
    root: NDArray[Any]  # the first two symbols and the window at the third        (n_o, n_o, n_R)

    def __post_init__(self) -> None:
        _check_counts(
            self, M_LoR="t n o n", M_LR="t n n", M_LR1="t n n", M_oo="t o o", root="o o n"
        )

    def __add__(self, other: Any) -> Self:
        n_t = max(len(self.M_LoR), len(other.M_LoR))
        return _add(self._padded(n_t), other._padded(n_t))

    def _padded(self, n_t: int) -> Gapped:
        """The same counts with empty steps after them, so that sets of other lengths add."""
        more = n_t - len(self.M_LoR)
        M_LoR, M_LR, M_LR1, M_oo = (
            np.pad(M, [(0, more)] + [(0, 0)] * (M.ndim - 1)) if more else M
            for M in (self.M_LoR, self.M_LR, self.M_LR1, self.M_oo)
        )
        return Gapped(self.offsets, M_LoR, M_LR, M_LR1, M_oo, self.root)


@dataclass(frozen=True)
class Shape:
    """What to count: a window, over how many symbols, in which form.

    Examples
    --------
    >>> shape = Shape((0, 2), n_symbols=3)
    >>> shape.n_windows, shape.n_entries, shape.needs
    (9, 243, 7)
    """

    offsets: tuple[int, ...]
    n_symbols: int
    form: Form = Form.ADJACENT

    @property
    def n_windows(self) -> int:
        """Number of windows n_o^ℓ."""
        return int(self.n_symbols ** len(self.offsets))

    @property
    def n_entries(self) -> int:
        """Number of entries of the largest table, of one step."""
        return self.n_windows**2 * self.n_symbols

    @property
    def sparse(self) -> bool:
        """Whether only the windows that occur are kept; it depends on nothing but the shape."""
        return self.form is Form.ADJACENT and self.n_entries > MAX_DENSE

    @property
    def needs(self) -> int:
        """Number of symbols a sequence needs to hold both windows once."""
        return 2 * self.offsets[-1] + (3 if self.form is Form.ADJACENT else 4)

    def check(self, n_steps: int = 1, *, full: bool = False) -> None:
        """Raise if the largest table is too large; `full` for all windows that could occur."""
        n_o, n_entries = self.n_symbols, self.n_entries * n_steps
        sparse = self.sparse and not full
        if sparse and self.n_windows >= 2**63:
            most = max(n for n in range(1, 63) if n_o**n < 2**63)
            raise SojournError(
                f"windows of {len(self.offsets)} symbols out of {n_o} do not fit in 64 bits; at "
                f"most {most} do, such as windows={tuple(range(most))}"
            )
        if sparse or n_entries <= MAX_ENTRIES:
            return
        fitting = [n for n in range(1, 27) if n_o ** (2 * n + 1) * n_steps <= MAX_ENTRIES]
        if fitting:
            remedy = f"at most {fitting[-1]}, such as windows={tuple(range(fitting[-1]))}, fit"
        else:
            most = int((MAX_ENTRIES / n_steps) ** (1 / 3) + 1e-9)
            remedy = f"windows of one symbol fit where there are at most {most}; merge rare ones"
        if self.form is Form.PER_STEP:
            remedy += ", or keep no step apart: algorithm='pooled'"
        if self.form is not Form.ADJACENT:
            remedy += "; algorithm='adjacent' keeps only what occurs"
        raise SojournError(
            f"windows of {len(self.offsets)} symbols out of {n_o} need a table of "
            f"{n_entries:.3g} entries ({n_entries * 8 / 2**30:.3g} GiB), and at most "
            f"{MAX_ENTRIES:.3g} are held: {remedy}"
        )


def _check_counts(table: Adjacent | Gapped, **axes: str) -> None:
    """Raise if the tables do not fit together, or with their offsets."""
    sizes = check_arrays(table, **{name: f"{COUNTS}+ {names}" for name, names in axes.items()})
    n_o, ell = sizes["o"], len(check_offsets(table.offsets))
    if sizes["n"] != n_o**ell or 0 in sizes.values():
        raise SojournError(
            f"tables of {sizes['n']} windows are not of {ell} symbols out of {n_o} each"
        )


def _add(a: Any, b: Any) -> Any:
    """Two sets of counts of one shape, table by table."""
    names = [f.name for f in fields(a) if f.name != "offsets"]
    return type(a)(a.offsets, *(getattr(a, name) + getattr(b, name) for name in names))


def shape_of(table: Adjacent | Gapped | Sparse) -> Shape:
    """The shape that a table was counted for; tables of equal shapes add."""
    if isinstance(table, Sparse):
        return Shape(table.offsets, table.n_symbols)
    if isinstance(table, Adjacent):
        return Shape(table.offsets, table.H_o.shape[1])
    form = Form.PER_STEP if len(table.M_LoR) > 1 else Form.POOLED
    return Shape(table.offsets, table.M_LoR.shape[2], form)
