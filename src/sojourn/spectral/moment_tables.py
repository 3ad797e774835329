"""Tables of counts, one set for each window shape, and what tells their shapes.

The axes of a table stand in time order and are named so: ``M_LoR`` is indexed by left window,
symbol, right window.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
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


@dataclass(frozen=True, eq=False)
class Adjacent:
    """Counts of windows that touch: L ends at t-1, R starts at t.

    Parameters
    ----------
    offsets : tuple of int
        The window shape; the left window is its mirror image.
    H : array (n_L, n_R)
        L and R at the same t.
    H_o : array (n_L, n_o, n_R)
        L, the symbol at t, and R one step later; over the same t as `H`.
    first : array (n_R,)
        The first window of each sequence.
    """

    offsets: tuple[int, ...]
    H: NDArray[Any]
    H_o: NDArray[Any]
    first: NDArray[Any]

    def __post_init__(self) -> None:
        sizes = check_arrays(
            self,
            H=f"{COUNTS} n n",
            H_o=f"{COUNTS} n o n",
            first=f"{COUNTS} n",
        )
        _check_windows(self.offsets, sizes)

    def __add__(self, other: Any) -> Self:
        return _add(self, other)


@dataclass(frozen=True, eq=False)
class Gapped:
    """The paper's counts: L ends at t-1, R starts at t+1, the symbol o at t lies between.

    The leading axis is the step: one entry for all t together (Algorithm 2), or one for each t
    from the start of the sequence (Algorithm 1).

    Parameters
    ----------
    offsets : tuple of int
        The window shape; the left window is its mirror image.
    M_LoR : array (n_t, n_L, n_o, n_R)
        L, o and R; its sum over o is the M(L, R) it is divided by.
    M_LR, M_LR1 : arrays (n_t, n_L, n_R)
        L with R, and with R one step later, over the same t. Entry t of the leading axis is of the
        left window that ends at t-2, as in the paper's D̃ for step t.
    M_oo : array (n_t, n_o, n_o)
        The symbols at t and t+1.
    root : array (n_o, n_o, n_R)
        The first two symbols of each sequence and the window that starts at the third.
    """

    offsets: tuple[int, ...]
    M_LoR: NDArray[Any]
    M_LR: NDArray[Any]
    M_LR1: NDArray[Any]
    M_oo: NDArray[Any]
    root: NDArray[Any]

    def __post_init__(self) -> None:
        sizes = check_arrays(
            self,
            M_LoR=f"{COUNTS} t n o n",
            M_LR=f"{COUNTS} t n n",
            M_LR1=f"{COUNTS} t n n",
            M_oo=f"{COUNTS} t o o",
            root=f"{COUNTS} o o n",
        )
        _check_windows(self.offsets, sizes)

    def __add__(self, other: Any) -> Self:
        n_t = max(len(self.M_LoR), len(other.M_LoR))
        return _add(self._padded(n_t), other._padded(n_t))

    def _padded(self, n_t: int) -> Gapped:
        """The same counts with empty steps after them, so that sets of other lengths add."""
        more = n_t - len(self.M_LoR)
        steps = (self.M_LoR, self.M_LR, self.M_LR1, self.M_oo)
        M_LoR, M_LR, M_LR1, M_oo = (
            np.concatenate([M, np.zeros((more, *M.shape[1:]), M.dtype)]) if more else M
            for M in steps
        )
        return Gapped(self.offsets, M_LoR, M_LR, M_LR1, M_oo, self.root)


@dataclass(frozen=True)
class Shape:
    """What to count: a window, and whether its halves touch or the paper's symbol lies between.

    Examples
    --------
    >>> shape = Shape((0, 2), n_symbols=3)
    >>> shape.n_windows, shape.n_entries, shape.needs
    (9, 243, 7)
    """

    offsets: tuple[int, ...]
    n_symbols: int
    gapped: bool = False
    steps: int = 0  # of a gapped shape: 0 for all t together, else the longest sequence

    @property
    def n_windows(self) -> int:
        """Number of windows n_o^ℓ."""
        return int(self.n_symbols ** len(self.offsets))

    @property
    def n_entries(self) -> int:
        """Number of entries of the largest table."""
        return self.n_windows**2 * self.n_symbols * max(self.steps, 1)

    @property
    def sparse(self) -> bool:
        """Whether only the windows that occur are kept; it depends on nothing but the shape."""
        return not self.gapped and self.n_entries > MAX_DENSE

    @property
    def needs(self) -> int:
        """Number of symbols a sequence needs to hold both windows once."""
        return 2 * self.offsets[-1] + (4 if self.gapped else 3)

    def check(self, full: bool = False) -> None:
        """Raise if the largest table is too large to hold; `full` for all that could occur."""
        n_o, steps = self.n_symbols, max(self.steps, 1)
        sparse = self.sparse and not full
        if sparse and self.n_windows >= 2**63:
            most = max(n for n in range(1, 63) if n_o**n < 2**63)
            raise SojournError(
                f"windows of {len(self.offsets)} symbols out of {n_o} do not fit in 64 bits; at "
                f"most {most} do, such as windows={tuple(range(most))}"
            )
        if sparse or self.n_entries <= MAX_ENTRIES:
            return
        fitting = [n for n in range(1, 27) if n_o ** (2 * n + 1) * steps <= MAX_ENTRIES]
        if fitting:
            remedy = f"at most {fitting[-1]}, such as windows={tuple(range(fitting[-1]))}, fit"
        else:
            most = int((MAX_ENTRIES / steps) ** (1 / 3) + 1e-9)
            remedy = f"windows of one symbol fit where there are at most {most}; merge rare ones"
        if self.steps:
            remedy += ", or keep no step apart: algorithm='pooled'"
        if self.gapped:
            remedy += "; algorithm='adjacent' keeps only what occurs"
        raise SojournError(
            f"windows of {len(self.offsets)} symbols out of {n_o} need a table of "
            f"{self.n_entries:.3g} entries ({self.n_entries * 8 / 2**30:.3g} GiB), and at most "
            f"{MAX_ENTRIES:.3g} are held: {remedy}"
        )


def _check_windows(offsets: tuple[int, ...], sizes: dict[str, int]) -> None:
    n_o, ell = sizes["o"], len(check_offsets(offsets))
    if sizes["n"] != n_o**ell or 0 in sizes.values():
        raise SojournError(
            f"tables of {sizes['n']} windows are not of {ell} symbols out of {n_o} each"
        )


def _add(a: Any, b: Any) -> Any:
    """Two sets of counts over the same window shape, table by table."""
    names = [f.name for f in fields(a) if f.name != "offsets"]
    return type(a)(a.offsets, *(getattr(a, name) + getattr(b, name) for name in names))


def shape_of(table: Adjacent | Gapped | Sparse) -> Shape:
    """The shape that a table was counted for."""
    if isinstance(table, Sparse):
        return Shape(table.offsets, table.n_symbols)
    if isinstance(table, Adjacent):
        return Shape(table.offsets, table.H_o.shape[1])
    n_t = len(table.M_LoR)
    return Shape(table.offsets, table.M_LoR.shape[2], True, n_t if n_t > 1 else 0)


def kind_of(table: Adjacent | Gapped | Sparse) -> Shape:
    """What two tables must have in common to add."""
    shape = shape_of(table)
    return replace(shape, steps=min(shape.steps, 1))
