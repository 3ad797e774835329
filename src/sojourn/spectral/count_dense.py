"""Counting windows: kernels, and the buffers that they count into, batch after batch.

Counts are kept in bytes: most windows are rare, and a processor's cache holds four times as many
bytes as 32-bit counts. Cells that pass 255 are listed, and added up when the tables are made.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from copy import copy
from typing import Any, NamedTuple, Self

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sojourn.spectral.count_sparse import Sparse, count_sparse
from sojourn.spectral.holdout import Pieces
from sojourn.spectral.moment_tables import Adjacent, Form, Gapped, Shape
from sojourn.spectral.paper import count_per_step

Table = Adjacent | Gapped | Sparse
Counts = NDArray[np.int64]
# Cells that have overflowed, and how often each.
Overflow = tuple[NDArray[np.uint32], NDArray[np.int64]]

# Windows are coded tile by tile, so that even one endless sequence needs little memory.
TILE = 4096
BAD = np.uint32(0xFFFFFFFF)  # the code of a window that holds a missing symbol
# Symbols that are counted at once, but for longer pieces: the room for overflows grows with them.
AT_ONCE = 1 << 22
# Overflows are listed as they come, this many before they are put in order.
LISTED = 1 << 16
# Overflows that are fewer than one in this many of all cells are sorted, others found in a table.
FEW = 16


class Cells(NamedTuple):
    """What a kernel counts into."""

    low: NDArray[np.uint8]  # counts modulo 256
    overflow: NDArray[np.uint32]  # the cells that passed 255, in the order in which they did
    n_overflow: NDArray[np.int64]  # the number of these                                     (1,)


# ---- kernels: pieces are `holdout.Spans`, tables are `Cells` -------------------------------------


@njit(cache=True, nogil=True)
def _up(cells, i):  # type: ignore[no-untyped-def]
    """Count one more of `i`."""
    n = np.uint8(cells.low[i] + 1)
    cells.low[i] = n
    if n == 0:
        cells.overflow[cells.n_overflow[0]] = i
        cells.n_overflow[0] += 1


@njit(cache=True, nogil=True)
def _up_all(cells, at, n):  # type: ignore[no-untyped-def]
    """Count the first `n` entries of a tile, without those that are BAD."""
    for s in range(n):
        if at[s] != BAD:
            _up(cells, at[s])


@njit(cache=True, nogil=True)
def _window_codes(codes, first, last, window, n_o, out):  # type: ignore[no-untyped-def]
    """Codes of the windows that start at `first` to `last` - 1; offset by offset, as vectors."""
    no = np.uint32(n_o)
    out[: last - first] = 0
    for j in range(window.shape[0]):
        symbols = codes[first + window[j] : last + window[j]]
        for s in range(last - first):
            c, code = symbols[s], out[s]
            longer = np.uint32(code * no + np.uint32(c))
            out[s] = BAD if c < 0 or code == BAD else longer


@njit(cache=True, nogil=True)
def _count_first(pieces, window, n_o, first):  # type: ignore[no-untyped-def]
    """Count the first window of each sequence."""
    code = np.empty(1, np.uint32)
    for i in range(pieces.begins.shape[0]):
        begin = pieces.begins[i]
        if pieces.fresh[i] and pieces.ends[i] - begin > window[-1]:
            _window_codes(pieces.codes, begin, begin + 1, window, n_o, code)
            if code[0] != BAD:
                _up(first, code[0])


@njit(cache=True, nogil=True)
def _count_runs(pieces, window, n_o, tables):  # type: ignore[no-untyped-def]
    """Count the windows of 2ℓ + 1 symbols in a row."""
    first, runs = tables
    _count_first(pieces, window, n_o, first)
    length = 2 * window.shape[0] + 1
    in_a_row = np.arange(length)
    run = np.empty(TILE, np.uint32)
    for i in range(pieces.begins.shape[0]):
        end = pieces.ends[i] - length + 1
        for t0 in range(pieces.begins[i], end, TILE):
            t1 = min(t0 + TILE, end)
            _window_codes(pieces.codes, t0, t1, in_a_row, n_o, run)
            _up_all(runs, run, t1 - t0)


@njit(cache=True, nogil=True)
def _count_adjacent(pieces, window, n_o, tables):  # type: ignore[no-untyped-def]
    """Count L, R and L, o, R one step later."""
    first, H, H_o = tables
    _count_first(pieces, window, n_o, first)
    codes, span = pieces.codes, window[-1]
    mirror = (span - window)[::-1].copy()  # a left window, read from its first symbol
    no = np.uint32(n_o)
    n_R = np.uint32(n_o ** window.shape[0])
    left, at, at_o = np.empty(TILE, np.uint32), np.empty(TILE, np.uint32), np.empty(TILE, np.uint32)
    right = np.empty(TILE + 1, np.uint32)
    for i in range(pieces.begins.shape[0]):
        begin, end = pieces.begins[i], pieces.ends[i]
        # L ends at t-1, R at t and at t+1: t from begin + span + 1 to end - span - 2
        for t0 in range(begin + span + 1, end - span - 1, TILE):
            t1 = min(t0 + TILE, end - span - 1)
            _window_codes(codes, t0 - 1 - span, t1 - 1 - span, mirror, n_o, left)
            _window_codes(codes, t0, t1 + 1, window, n_o, right)
            symbols, n = codes[t0:t1], t1 - t0
            for t in range(n):
                L, R, R1, o = left[t], right[t], right[t + 1], symbols[t]
                complete = L != BAD and R != BAD and R1 != BAD and o >= 0
                at[t] = np.uint32(L * n_R + R) if complete else BAD
                at_o[t] = np.uint32((L * no + np.uint32(o)) * n_R + R1) if complete else BAD
            _up_all(H, at, n)
            _up_all(H_o, at_o, n)


@njit(cache=True, nogil=True)
def _count_gapped(pieces, window, n_o, tables):  # type: ignore[no-untyped-def]
    """Count the paper's moments, all steps together."""
    M_LoR, M_LR, M_LR1, M_oo, root = tables
    codes, span = pieces.codes, window[-1]
    mirror = (span - window)[::-1].copy()
    no = np.uint64(n_o)
    n_R = np.uint64(n_o ** window.shape[0])
    left = np.empty(TILE, np.uint32)
    right = np.empty(TILE + 1, np.uint32)
    for i in range(pieces.begins.shape[0]):
        begin, end = pieces.begins[i], pieces.ends[i]
        if pieces.fresh[i] and end - begin > span + 2:
            _window_codes(codes, begin + 2, begin + 3, window, n_o, right)
            o1, o2 = codes[begin], codes[begin + 1]
            if o1 >= 0 and o2 >= 0 and right[0] != BAD:
                _up(root, (np.uint64(o1) * no + np.uint64(o2)) * n_R + np.uint64(right[0]))
        for t in range(begin, end - 1):
            o, o1 = codes[t], codes[t + 1]
            if o >= 0 and o1 >= 0:
                _up(M_oo, np.uint64(o) * no + np.uint64(o1))
        # L ends at t-1, R starts at t+1 and, for M_LR1, at t+2
        for t0 in range(begin + span + 1, end - span - 1, TILE):
            t1 = min(t0 + TILE, end - span - 1)
            later = min(t1 + 2, end - span)  # the last R that fits may be the one at t1
            _window_codes(codes, t0 - 1 - span, t1 - 1 - span, mirror, n_o, left)
            _window_codes(codes, t0 + 1, later, window, n_o, right)
            for t in range(t1 - t0):
                L, R, o = np.uint64(left[t]), np.uint64(right[t]), codes[t0 + t]
                if L == BAD or R == BAD:
                    continue
                if o >= 0:
                    _up(M_LoR, (L * no + np.uint64(o)) * n_R + R)
                if t0 + t + 2 < later and right[t + 1] != BAD:
                    _up(M_LR, L * n_R + R)
                    _up(M_LR1, L * n_R + np.uint64(right[t + 1]))


# ---- buffers ------------------------------------------------------------------------------------


class Counter:
    """How often each of `n` cells was counted: one byte per cell, and a list of overflows.

    Examples
    --------
    >>> counter = Counter(2)
    >>> for _ in range(3):
    ...     cells = counter.cells(200)
    ...     for _ in range(200):
    ...         _up(cells, np.uint32(1))
    ...     counter.carry(cells)
    >>> counter.low, (counter + counter).wide()
    (array([ 0, 88], dtype=uint8), array([   0, 1200]))
    """

    def __init__(self, n: int) -> None:
        self.low = np.zeros(n, np.uint8)
        self.overflow: Overflow = np.empty(0, np.uint32), np.empty(0, np.int64)  # sorted
        self.listed: list[NDArray[Any]] = []
        self.n_listed = 0

    def cells(self, most: int) -> Cells:
        """What a kernel counts into, at most `most` times, or it writes out of bounds."""
        # A cell at 255 overflows at once, and then after every 256.
        room = min(most, len(self.low) + most // 256)
        return Cells(self.low, np.empty(room, np.uint32), np.zeros(1, np.int64))

    def carry(self, cells: Cells) -> None:
        """Note the overflows of the cells."""
        n = int(cells.n_overflow[0])
        if n:
            self.listed.append(cells.overflow[:n].copy())
            self.n_listed += n
        if self.n_listed > max(LISTED, len(self.overflow[0])):
            self.overflow = self._all_overflows()
            self.listed, self.n_listed = [], 0

    def __add__(self, other: Counter) -> Counter:
        both = Counter(0)
        both.low = self.low + other.low
        carried = np.flatnonzero(both.low < self.low)
        parts = (self._all_overflows(), other._all_overflows(), (carried, 1))
        both.overflow = _gathered(len(both.low), parts)
        return both

    def wide(self) -> NDArray[np.int64]:
        """The counts, in 64 bits."""
        counts = self.low.astype(np.int64)
        at, times = self._all_overflows()
        counts[at] += times << 8
        return counts

    def _all_overflows(self) -> Overflow:
        """All overflows, in order; nothing is changed, as others may be reading."""
        if not self.listed:
            return self.overflow
        return _gathered(len(self.low), (self.overflow, *((at, 1) for at in self.listed)))


def _gathered(n: int, parts: Iterable[tuple[NDArray[Any], NDArray[Any] | int]]) -> Overflow:
    """Cells out of `n` and how often each, every cell once and in order."""
    at, times = zip(*((at, np.broadcast_to(times, at.shape)) for at, times in parts), strict=True)
    cells, weight = np.concatenate(at), np.concatenate(times)
    if len(cells) * FEW > n:
        total = np.bincount(cells, weight, n)
        where = np.flatnonzero(total)
        total = total[where]
    else:
        where, which = np.unique(cells, return_inverse=True)
        total = np.bincount(which, weight, len(where))
    return where.astype(np.uint32), total.astype(np.int64)


class Layout(NamedTuple):
    """How windows of one sort are counted: the kernel, its tables, and what they become."""

    kernel: Callable[..., None]
    sizes: Callable[[int, int], tuple[tuple[int, ...], ...]]  # for n windows of n_o symbols
    table: Callable[..., Adjacent | Gapped]  # of the offsets and the counts


def _runs_table(offsets: tuple[int, ...], first: Counts, runs: Counts) -> Adjacent:
    """L, o and R one step later are one run, and R is what follows L in it: one count for both."""
    n, _, n_o = runs.shape
    return Adjacent(offsets, runs.sum(axis=2), runs.reshape(n, n_o, n), first)


IN_A_ROW = Layout(_count_runs, lambda n, n_o: ((n,), (n, n, n_o)), _runs_table)
WITH_GAPS = Layout(
    _count_adjacent,
    lambda n, n_o: ((n,), (n, n), (n, n_o, n)),
    lambda offsets, first, H, H_o: Adjacent(offsets, H, H_o, first),
)
PAPER = Layout(
    _count_gapped,
    lambda n, n_o: ((1, n, n_o, n), (1, n, n), (1, n, n), (1, n_o, n_o), (n_o, n_o, n)),
    Gapped,
)


def _layout(shape: Shape) -> Layout:
    if shape.form is Form.POOLED:
        return PAPER
    return IN_A_ROW if shape.offsets == tuple(range(len(shape.offsets))) else WITH_GAPS


class DenseBuffer:
    """Tables of all windows that could occur, counted in place."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.sizes = _layout(shape).sizes(shape.n_windows, shape.n_symbols)
        self.counters = [Counter(math.prod(size)) for size in self.sizes]

    def count(self, pieces: Pieces) -> None:
        """Count the windows of more pieces."""
        kernel, window = _layout(self.shape).kernel, np.array(self.shape.offsets, np.int64)
        for batch in pieces.batches(AT_ONCE):
            tables = tuple(counter.cells(batch.n_total) for counter in self.counters)
            kernel(batch.spans, window, self.shape.n_symbols, tables)
            for counter, cells in zip(self.counters, tables, strict=True):
                counter.carry(cells)

    def __add__(self, other: Self) -> Self:
        both = copy(self)
        both.counters = [a + b for a, b in zip(self.counters, other.counters, strict=True)]
        return both

    def table(self) -> Adjacent | Gapped:
        """All that was counted."""
        pairs = zip(self.counters, self.sizes, strict=True)
        wide = (counter.wide().reshape(size) for counter, size in pairs)
        return _layout(self.shape).table(self.shape.offsets, *wide)


class SumBuffer:
    """Tables that are made anew for each batch, by `count_batch`, and added up."""

    def __init__(self, shape: Shape, count_batch: Callable[[Pieces, Shape], Any]) -> None:
        self.shape, self.count_batch = shape, count_batch
        self.found: Any = None

    def count(self, pieces: Pieces) -> None:
        """Count the windows of more pieces."""
        table = self.count_batch(pieces, self.shape)
        self.found = table if self.found is None else self.found + table

    def __add__(self, other: Self) -> Self:
        both = copy(self)
        both.found = self.table() + other.table()
        return both

    def table(self) -> Any:
        """All that was counted."""
        return self.count_batch(Pieces.none(), self.shape) if self.found is None else self.found


Buffer = DenseBuffer | SumBuffer


def buffer(shape: Shape) -> Buffer:
    """An empty buffer for a shape."""
    if shape.sparse:
        return SumBuffer(shape, count_sparse)
    if shape.form is Form.PER_STEP:
        return SumBuffer(shape, count_per_step)
    return DenseBuffer(shape)
