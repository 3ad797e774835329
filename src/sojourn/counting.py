"""Counting windows: kernels, and the buffers that they count into, piece after piece."""

from __future__ import annotations

import math
from copy import copy
from typing import Any, Protocol, Self

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sojourn.holdout import Pieces
from sojourn.sparse import Sparse, count_sparse
from sojourn.tables import Adjacent, Gapped, Shape

Table = Adjacent | Gapped | Sparse

# Windows are coded tile by tile, so that even one endless sequence needs little memory.
TILE = 4096
BAD = np.uint32(0xFFFFFFFF)  # the code of a window that holds a missing symbol
# Buffers count in 32 bits, which are faster than 64: they take no more symbols than this before
# they are emptied, but for a single piece that is longer.
MOST_SYMBOLS = 2**32 - 1


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
    >>> from sojourn.holdout import split
    >>> from sojourn.sequences import Sequences
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


class _Dense:
    """Tables of all windows that could occur, counted in place."""

    def __init__(self, shape: Shape, *sizes: tuple[int, ...]) -> None:
        self.shape, self.sizes = shape, sizes
        self.window = np.array(shape.offsets, np.int64)
        self.counts = [np.zeros(math.prod(size), np.uint32) for size in sizes]

    def __add__(self, other: Self) -> Self:
        both = copy(self)
        both.counts = [a + b for a, b in zip(self.counts, other.counts, strict=True)]
        return both

    def wide(self) -> list[NDArray[np.int64]]:
        """The tables, in 64 bits."""
        return [
            counts.astype(np.int64).reshape(size)
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

    def count(self, pieces: Pieces) -> None:
        first, runs = self.counts
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

    def count(self, pieces: Pieces) -> None:
        first, H, H_o = self.counts
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

    def count(self, pieces: Pieces) -> None:
        where = (pieces.codes, pieces.begins, pieces.ends, pieces.fresh)
        n_o, per_step = self.shape.n_symbols, self.shape.steps > 0
        _gapped_kernel(*where, self.window, n_o, per_step, *self.counts)

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
def _window_codes(codes, first, last, window, n_o, out):  # type: ignore[no-untyped-def]
    """Codes of the windows that start at `first` to `last` - 1."""
    for s in range(first, last):
        code = np.uint32(0)
        least = np.int32(0)
        for j in range(window.shape[0]):
            c = codes[s + window[j]]
            least = min(least, c)
            code = np.uint32(code * np.uint32(n_o) + np.uint32(c))
        out[s - first] = code if least >= 0 else BAD


@njit(cache=True, nogil=True)
def _first_kernel(codes, begins, ends, fresh, window, n_o, first):  # type: ignore[no-untyped-def]
    code = np.empty(1, np.uint32)
    for i in range(begins.shape[0]):
        if fresh[i] and ends[i] - begins[i] > window[-1]:
            _window_codes(codes, begins[i], begins[i] + 1, window, n_o, code)
            if code[0] != BAD:
                first[code[0]] += np.uint32(1)


@njit(cache=True, nogil=True)
def _run_kernel(codes, begins, ends, length, n_o, counts):  # type: ignore[no-untyped-def]
    """Count the runs of `length` symbols."""
    no = np.uint32(n_o)
    top = np.uint32(n_o**length)
    for i in range(begins.shape[0]):
        code = np.uint32(0)
        seen = 0  # symbols since the last missing one
        for t in range(begins[i], ends[i]):
            c = codes[t]
            if c < 0:
                seen = 0
                code = np.uint32(0)
                continue
            code = np.uint32(code * no + np.uint32(c))
            seen += 1
            if seen > length:  # the symbol that leaves the run
                code = np.uint32(code - np.uint32(codes[t - length]) * top)
            if seen >= length:
                counts[code] += np.uint32(1)


@njit(cache=True, nogil=True)
def _adjacent_kernel(codes, begins, ends, window, n_o, H, H_o):  # type: ignore[no-untyped-def]
    span = window[-1]
    mirror = (span - window)[::-1].copy()  # a left window, read from its first symbol
    no = np.uint64(n_o)
    n_R = np.uint64(n_o ** window.shape[0])
    left = np.empty(TILE, np.uint32)
    right = np.empty(TILE + 1, np.uint32)
    for i in range(begins.shape[0]):
        begin, end = begins[i], ends[i]
        # L ends at t-1, R at t and at t+1: t from begin + span + 1 to end - span - 2
        for t0 in range(begin + span + 1, end - span - 1, TILE):
            t1 = min(t0 + TILE, end - span - 1)
            _window_codes(codes, t0 - 1 - span, t1 - 1 - span, mirror, n_o, left)
            _window_codes(codes, t0, t1 + 1, window, n_o, right)
            for t in range(t1 - t0):
                L, R, R1, o = left[t], right[t], right[t + 1], codes[t0 + t]
                if L != BAD and R != BAD and R1 != BAD and o >= 0:
                    H[np.uint64(L) * n_R + np.uint64(R)] += np.uint32(1)
                    row = np.uint64(L) * no + np.uint64(o)
                    H_o[row * n_R + np.uint64(R1)] += np.uint32(1)


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
                root[(np.uint64(o1) * no + np.uint64(o2)) * n_R + np.uint64(right[0])] += np.uint32(
                    1
                )
        for t in range(begin, end - 1):
            o, o1 = codes[t], codes[t + 1]
            if o >= 0 and o1 >= 0:
                step = np.uint64(t - begin) if per_step else np.uint64(0)
                M_oo[(step * no + np.uint64(o)) * no + np.uint64(o1)] += np.uint32(1)
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
                    M_LoR[(row * no + np.uint64(o)) * n_R + np.uint64(R)] += np.uint32(1)
                if t0 + t + 2 < later and right[t + 1] != BAD:
                    if per_step:  # D̃ for step t+1 has this left window
                        row += n_R
                    M_LR[row * n_R + np.uint64(R)] += np.uint32(1)
                    M_LR1[row * n_R + np.uint64(right[t + 1])] += np.uint32(1)
