"""Counting windows: kernels, and the buffers that they count into, piece after piece."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from copy import copy
from typing import Any, Protocol, Self

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sojourn.spectral.count_sparse import Sparse, count_sparse
from sojourn.spectral.holdout import Pieces
from sojourn.spectral.moment_tables import Adjacent, Gapped, Shape

Table = Adjacent | Gapped | Sparse
# The bytes of counts, room for the cells that run over, and the number of these.
Cells = tuple[NDArray[np.uint8], NDArray[np.uint32], NDArray[np.int64]]
# Cells that ran over, and how often each.
Over = tuple[NDArray[np.uint32], NDArray[np.int64]]

# Windows are coded tile by tile, so that even one endless sequence needs little memory.
TILE = 4096
BAD = np.uint32(0xFFFFFFFF)  # the code of a window that holds a missing symbol
# Symbols that are counted at once, but for longer pieces: the room for cells that run over grows
# with them.
AT_ONCE = 1 << 22
# Cells that have run over are listed as they come, this many before they are put in order.
LISTED = 1 << 16
# Cells that are fewer than one in this many of all are sorted, and others found in a table of all.
FEW = 16


class Buffer(Protocol):
    """What windows of one shape are counted into."""

    def count(self, pieces: Pieces) -> None:
        """Count the windows of more pieces."""

    def __add__(self, other: Any) -> Buffer:
        """A buffer with what two of the shape have counted."""

    def table(self) -> Table:
        """All that was counted."""


def buffer(shape: Shape) -> Buffer:
    """An empty buffer for a shape.

    Examples
    --------
    >>> from sojourn.spectral.holdout import split
    >>> from sojourn.data.sequences import Sequences
    >>> pieces, _ = split(Sequences.from_lists([[0, 1, 1, 0, 1]]), 0.0)
    >>> counts = buffer(Shape((0,), 2))
    >>> counts.count(pieces)
    >>> counts.count(pieces)
    >>> counts.table().H
    array([[0, 2],
           [2, 2]])
    """
    if shape.sparse:
        return _Occurring(shape)
    if shape.gapped:
        return _GappedBuffer(shape)
    in_a_row = shape.offsets == tuple(range(len(shape.offsets)))
    return _RunBuffer(shape) if in_a_row else _AdjacentBuffer(shape)


class _Counts:
    """How often each of `n` things was seen: a byte for each, and a list of those that ran over.

    Most windows are rare, so that the bytes are nearly all there is, and a processor's cache holds
    four times as many of them as of 32-bit counts.

    Examples
    --------
    >>> counts = _Counts(2)
    >>> for _ in range(3):
    ...     cells = counts.cells(200)
    ...     for _ in range(200):
    ...         _up(cells, np.uint32(1))
    ...     counts.carry(cells)
    >>> counts.low, (counts + counts).wide()
    (array([ 0, 88], dtype=uint8), array([   0, 1200]))
    """

    def __init__(self, n: int) -> None:
        self.low = np.zeros(n, np.uint8)
        self.over = np.empty(0, np.uint32), np.empty(0, np.int64)  # where, sorted, and how often
        self.listed: list[NDArray[Any]] = []
        self.n_listed = 0

    def cells(self, most: int) -> Cells:
        """What a kernel counts into: no more than `most` things, or it writes out of bounds."""
        # A cell at 255 runs over at once, and then after every 256.
        room = min(most, len(self.low) + most // 256)
        return self.low, np.empty(room, np.uint32), np.zeros(1, np.int64)

    def carry(self, cells: Cells) -> None:
        """Take over from the cells what has run over."""
        _, at, (n,) = cells
        if n:
            self.listed.append(at[:n].copy())
            self.n_listed += int(n)
        if self.n_listed > max(LISTED, len(self.over[0])):
            self.over = self._settled()
            self.listed, self.n_listed = [], 0

    def __add__(self, other: _Counts) -> _Counts:
        both = _Counts(0)
        both.low = self.low + other.low
        carried = np.flatnonzero(both.low < self.low)
        both.over = _gathered(len(both.low), (self._settled(), other._settled(), (carried, 1)))
        return both

    def wide(self) -> NDArray[np.int64]:
        """The counts, in 64 bits."""
        counts = self.low.astype(np.int64)
        at, times = self._settled()
        counts[at] += times << 8
        return counts

    def _settled(self) -> Over:
        """All cells that have run over, in order; nothing is changed, as others may be reading."""
        if not self.listed:
            return self.over
        return _gathered(len(self.low), (self.over, *((at, 1) for at in self.listed)))


def _gathered(n: int, parts: Iterable[tuple[NDArray[Any], NDArray[Any] | int]]) -> Over:
    """Cells of `n` and how often, each once and in order."""
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


class _Dense(ABC):
    """Tables of all windows that could occur, counted in place."""

    def __init__(self, shape: Shape, *sizes: tuple[int, ...]) -> None:
        self.shape, self.sizes = shape, sizes
        self.window = np.array(shape.offsets, np.int64)
        self.counts = [_Counts(math.prod(size)) for size in sizes]

    def count(self, pieces: Pieces) -> None:
        """Count the windows of more pieces, so many at once."""
        ends = np.cumsum(pieces.ends - pieces.begins)
        cuts = np.searchsorted(ends, np.arange(AT_ONCE, pieces.n_total, AT_ONCE))
        for index in np.split(np.arange(len(pieces)), np.unique(cuts)):
            some = pieces.take(index)
            cells = [counts.cells(some.n_total) for counts in self.counts]
            self.count_into(some, cells)
            for counts, mine in zip(self.counts, cells, strict=True):
                counts.carry(mine)

    @abstractmethod
    def count_into(self, pieces: Pieces, cells: list[Cells]) -> None:
        """Count the windows of pieces into the cells of the tables."""

    def __add__(self, other: Self) -> Self:
        both = copy(self)
        both.counts = [a + b for a, b in zip(self.counts, other.counts, strict=True)]
        return both

    def wide(self) -> list[NDArray[np.int64]]:
        """The tables, in 64 bits."""
        return [
            counts.wide().reshape(size)
            for counts, size in zip(self.counts, self.sizes, strict=True)
        ]


class _RunBuffer(_Dense):
    """Windows in a row.

    L, o and R one step later are one run of 2ℓ + 1 symbols, and R is what follows L in it: a single
    count gives both tables.
    """

    def __init__(self, shape: Shape) -> None:
        n = shape.n_windows
        super().__init__(shape, (n,), (n, n, shape.n_symbols))

    def count_into(self, pieces: Pieces, cells: list[Cells]) -> None:
        first, runs = cells
        where, n_o = (pieces.codes, pieces.begins, pieces.ends), self.shape.n_symbols
        _first_kernel(*where, pieces.fresh, self.window, n_o, first)
        _run_kernel(*where, 2 * len(self.window) + 1, n_o, runs)

    def table(self) -> Adjacent:
        first, runs = self.wide()
        n, n_o = self.shape.n_windows, self.shape.n_symbols
        return Adjacent(self.shape.offsets, runs.sum(axis=2), runs.reshape(n, n_o, n), first)


class _AdjacentBuffer(_Dense):
    """Windows that touch and have gaps inside."""

    def __init__(self, shape: Shape) -> None:
        n = shape.n_windows
        super().__init__(shape, (n,), (n, n), (n, shape.n_symbols, n))

    def count_into(self, pieces: Pieces, cells: list[Cells]) -> None:
        first, H, H_o = cells
        where, n_o = (pieces.codes, pieces.begins, pieces.ends), self.shape.n_symbols
        _first_kernel(*where, pieces.fresh, self.window, n_o, first)
        _adjacent_kernel(*where, self.window, n_o, H, H_o)

    def table(self) -> Adjacent:
        first, H, H_o = self.wide()
        return Adjacent(self.shape.offsets, H, H_o, first)


class _GappedBuffer(_Dense):
    """The paper's windows, of all steps together or of each apart."""

    def __init__(self, shape: Shape) -> None:
        n, n_o, n_t = shape.n_windows, shape.n_symbols, max(shape.steps, 1)
        sizes = ((n_t, n, n_o, n), (n_t, n, n), (n_t, n, n), (n_t, n_o, n_o), (n_o, n_o, n))
        super().__init__(shape, *sizes)

    def count_into(self, pieces: Pieces, cells: list[Cells]) -> None:
        where = (pieces.codes, pieces.begins, pieces.ends, pieces.fresh)
        n_o, per_step = self.shape.n_symbols, self.shape.steps > 0
        _gapped_kernel(*where, self.window, n_o, per_step, *cells)

    def table(self) -> Gapped:
        return Gapped(self.shape.offsets, *self.wide())


class _Occurring:
    """Windows that occur, of too many that could."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.found: Sparse | None = None

    def count(self, pieces: Pieces) -> None:
        table = count_sparse(pieces, self.shape.offsets, self.shape.n_symbols)
        self.found = table if self.found is None else self.found + table

    def __add__(self, other: _Occurring) -> _Occurring:
        both = _Occurring(self.shape)
        both.found = self.table() + other.table()
        return both

    def table(self) -> Sparse:
        if self.found is None:
            self.count(Pieces.none())
        assert self.found is not None
        return self.found


@njit(cache=True, nogil=True)
def _up(cells, i):  # type: ignore[no-untyped-def]
    """Count one more of `i`."""
    low, over, n_over = cells
    n = np.uint8(low[i] + 1)
    low[i] = n
    if n == 0:
        over[n_over[0]] = i
        n_over[0] += 1


@njit(cache=True, nogil=True)
def _up_all(cells, at, n):  # type: ignore[no-untyped-def]
    """Count the first `n` of a tile, but for those that are none."""
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
def _first_kernel(codes, begins, ends, fresh, window, n_o, first):  # type: ignore[no-untyped-def]
    code = np.empty(1, np.uint32)
    for i in range(begins.shape[0]):
        if fresh[i] and ends[i] - begins[i] > window[-1]:
            _window_codes(codes, begins[i], begins[i] + 1, window, n_o, code)
            if code[0] != BAD:
                _up(first, code[0])


@njit(cache=True, nogil=True)
def _run_kernel(codes, begins, ends, length, n_o, counts):  # type: ignore[no-untyped-def]
    """Count the runs of `length` symbols."""
    window = np.arange(length)
    run = np.empty(TILE, np.uint32)
    for i in range(begins.shape[0]):
        for t0 in range(begins[i], ends[i] - length + 1, TILE):
            t1 = min(t0 + TILE, ends[i] - length + 1)
            _window_codes(codes, t0, t1, window, n_o, run)
            _up_all(counts, run, t1 - t0)


@njit(cache=True, nogil=True)
def _adjacent_kernel(codes, begins, ends, window, n_o, H, H_o):  # type: ignore[no-untyped-def]
    span = window[-1]
    mirror = (span - window)[::-1].copy()  # a left window, read from its first symbol
    no = np.uint32(n_o)
    n_R = np.uint32(n_o ** window.shape[0])
    left, at, at_o = np.empty(TILE, np.uint32), np.empty(TILE, np.uint32), np.empty(TILE, np.uint32)
    right = np.empty(TILE + 1, np.uint32)
    for i in range(begins.shape[0]):
        begin, end = begins[i], ends[i]
        # L ends at t-1, R at t and at t+1: t from begin + span + 1 to end - span - 2
        for t0 in range(begin + span + 1, end - span - 1, TILE):
            t1 = min(t0 + TILE, end - span - 1)
            _window_codes(codes, t0 - 1 - span, t1 - 1 - span, mirror, n_o, left)
            _window_codes(codes, t0, t1 + 1, window, n_o, right)
            symbols, n = codes[t0:t1], t1 - t0
            for t in range(n):
                L, R, R1, o = left[t], right[t], right[t + 1], symbols[t]
                whole = L != BAD and R != BAD and R1 != BAD and o >= 0
                at[t] = np.uint32(L * n_R + R) if whole else BAD
                at_o[t] = np.uint32((L * no + np.uint32(o)) * n_R + R1) if whole else BAD
            _up_all(H, at, n)
            _up_all(H_o, at_o, n)


@njit(cache=True, nogil=True)
def _gapped_kernel(  # type: ignore[no-untyped-def]
    codes, begins, ends, fresh, window, n_o, per_step, M_LoR, M_LR, M_LR1, M_oo, root
):
    span = window[-1]
    mirror = (span - window)[::-1].copy()
    no = np.uint64(n_o)
    n_R = np.uint64(n_o ** window.shape[0])
    left = np.empty(TILE, np.uint32)
    right = np.empty(TILE + 1, np.uint32)
    for i in range(begins.shape[0]):
        begin, end = begins[i], ends[i]
        if fresh[i] and end - begin > span + 2:
            _window_codes(codes, begin + 2, begin + 3, window, n_o, right)
            o1, o2 = codes[begin], codes[begin + 1]
            if o1 >= 0 and o2 >= 0 and right[0] != BAD:
                _up(root, (np.uint64(o1) * no + np.uint64(o2)) * n_R + np.uint64(right[0]))
        for t in range(begin, end - 1):
            o, o1 = codes[t], codes[t + 1]
            if o >= 0 and o1 >= 0:
                step = np.uint64(t - begin) if per_step else np.uint64(0)
                _up(M_oo, (step * no + np.uint64(o)) * no + np.uint64(o1))
        # L ends at t-1, R starts at t+1 and, for M_LR1, at t+2
        for t0 in range(begin + span + 1, end - span - 1, TILE):
            t1 = min(t0 + TILE, end - span - 1)
            later = min(t1 + 2, end - span)  # the last R that fits may be the one at t1
            _window_codes(codes, t0 - 1 - span, t1 - 1 - span, mirror, n_o, left)
            _window_codes(codes, t0 + 1, later, window, n_o, right)
            for t in range(t1 - t0):
                L, R, o = left[t], right[t], codes[t0 + t]
                if L == BAD or R == BAD:
                    continue
                step = np.uint64(t0 + t - begin) if per_step else np.uint64(0)
                row = step * n_R + np.uint64(L)
                if o >= 0:
                    _up(M_LoR, (row * no + np.uint64(o)) * n_R + np.uint64(R))
                if t0 + t + 2 < later and right[t + 1] != BAD:
                    if per_step:  # D̃ for step t+1 has this left window
                        row += n_R
                    _up(M_LR, row * n_R + np.uint64(R))
                    _up(M_LR1, row * n_R + np.uint64(right[t + 1]))
