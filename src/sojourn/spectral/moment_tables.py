"""Tables of counts of windows, the shape that they are counted for, and the counting.

The axes of a table are in time order and named so: ``M_LoR`` is indexed by left window, symbol,
right window.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum
from math import prod
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sojourn.checks import MAX_ENTRIES, check_arrays
from sojourn.contexts.pieces import Pieces
from sojourn.errors import SojournError
from sojourn.spectral.windows import check_offsets

Codes = NDArray[np.int64]
# Symbols that are counted at a time: a dozen arrays of their size are held.
AT_ONCE = 1 << 18
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
    M_LoR: NDArray[Any]  # L, o, R; its sum over o is what it is divided by (n_t, n_L, n_o, n_R)
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
    def needs(self) -> int:
        """Length of the shortest sequence that holds both windows."""
        return 2 * self.offsets[-1] + (3 if self.form is Form.ADJACENT else 4)

    def check(self, n_steps: int = 1) -> None:
        """Raise if the largest table is too large."""
        n_o, n_entries = self.n_symbols, self.n_entries * n_steps
        if n_entries <= MAX_ENTRIES:
            return
        fitting = [n for n in range(1, 27) if n_o ** (2 * n + 1) * n_steps <= MAX_ENTRIES]
        if fitting:
            remedy = f"at most {fitting[-1]}, such as windows={tuple(range(fitting[-1]))}, fit"
        else:
            most = int((MAX_ENTRIES / n_steps) ** (1 / 3) + 1e-9)
            remedy = f"windows of one symbol fit where there are at most {most}"
        raise SojournError(
            f"windows of {len(self.offsets)} symbols out of {n_o} need a table of "
            f"{n_entries:.3g} entries ({n_entries * 8 / 2**30:.3g} GiB), and at most "
            f"{MAX_ENTRIES:.3g} are held: {remedy}; algorithm='contexts' has no such limit"
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


def shape_of(table: Adjacent | Gapped) -> Shape:
    """The shape that a table was counted for; tables of equal shapes add."""
    if isinstance(table, Adjacent):
        return Shape(table.offsets, table.H_o.shape[1])
    form = Form.PER_STEP if len(table.M_LoR) > 1 else Form.POOLED
    return Shape(table.offsets, table.M_LoR.shape[2], form)


Table = Adjacent | Gapped


def count_windows(pieces: Pieces, shape: Shape) -> Table:
    """The windows in the pieces; for each step by itself, pieces must be whole sequences.

    Windows are numbers to the base n_o, the earliest symbol first; -1 where a symbol is missing or
    beyond the ends of the piece.
    """
    per_step = shape.form is Form.PER_STEP
    batches = [pieces] if per_step else pieces.batches(AT_ONCE)
    total = _count_batch(batches[0] if batches else pieces, shape)
    for batch in batches[1:]:
        total = total + _count_batch(batch, shape)
    return total


def _count_batch(pieces: Pieces, shape: Shape) -> Any:
    pieces, n, n_o = pieces.compact(), shape.n_windows, shape.n_symbols
    o, lengths = pieces.codes.astype(np.int64), pieces.ends - pieces.begins
    t = np.arange(len(o)) - np.repeat(pieces.begins, lengths)
    left = np.repeat(pieces.ends, lengths) - np.arange(len(o))  # symbols from here to the end
    begins = (t == 0) & np.repeat(pieces.fresh, lengths)

    def at(values: Codes, shift: int) -> Codes:
        """The values `shift` steps later, in the same piece."""
        inside = (t + shift >= 0) & (shift < left)
        return np.where(inside, np.roll(values, -shift), -1)

    def window(offsets: Any) -> Codes:
        number = np.zeros_like(o)
        for offset in offsets:
            symbol = at(o, offset)
            number = np.where((number < 0) | (symbol < 0), -1, number * n_o + symbol)
        return number

    def table(sizes: tuple[int, ...], *axes: Codes, over: Any = True) -> Codes:
        counted = over & np.all([axis >= 0 for axis in axes], axis=0)
        cells = np.ravel_multi_index([axis[counted] for axis in axes], sizes)
        return np.bincount(cells, minlength=prod(sizes)).reshape(sizes)

    R, L = window(shape.offsets), window([-offset for offset in reversed(shape.offsets)])
    R1, both = at(R, 1), (at(R, 1) >= 0) & (R >= 0)  # what is divided is over the same steps
    if shape.form is Form.ADJACENT:
        complete = both & (o >= 0)
        H = table((n, n), at(L, -1), R, over=complete)
        H_o = table((n, n_o, n), at(L, -1), o, R1, over=complete)
        return Adjacent(shape.offsets, H, H_o, table((n,), R, over=begins))
    per_step = shape.form is Form.PER_STEP
    n_t = max(int(lengths.max(initial=0)), 2) if per_step else 1  # 1: all steps together
    shape.check(n_t)
    step = t if per_step else np.zeros_like(t)
    return Gapped(
        shape.offsets,
        table((n_t, n, n_o, n), step, at(L, -1), o, R1),
        table((n_t, n, n), step, at(L, -2), R, over=both),
        table((n_t, n, n), step, at(L, -2), R1, over=both),
        table((n_t, n_o, n_o), step, o, at(o, 1)),
        table((n_o, n_o, n), o, at(o, 1), at(R, 2), over=begins),
    )
