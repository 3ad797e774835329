"""Moments: how often windows of symbols occur together. One pass, and they add.

Two sets are counted over a window shape (`windows`): the `Adjacent` one, whose left and right
windows touch, and the paper's `Gapped` one, with a symbol between them (`tables`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sojourn.errors import SojournError
from sojourn.holdout import BLOCK, NO_LIMIT, SHARE, Pieces, split
from sojourn.parallel import each, n_threads
from sojourn.sequences import Sequences
from sojourn.sparse import Sparse, count_sparse
from sojourn.tables import Adjacent, Gapped, Shape, kind_of, shape_of
from sojourn.windows import check_offsets

Table = Adjacent | Gapped | Sparse

# Windows are coded tile by tile, so that even one endless sequence needs little memory.
TILE = 4096
BAD = np.uint32(0xFFFFFFFF)  # the code of a window that holds a missing symbol


@dataclass(frozen=True, eq=False)
class Moments:
    """Counts over one or several window shapes, and the pieces held out of them.

    Parameters
    ----------
    tables : tuple of Adjacent, Gapped or Sparse
        One for each window shape, in the order asked for.
    heldout : Pieces
        What was not counted, to choose ranks and windows by.
    n_sequences, n_total, longest : int
        Number of sequences and of symbols, and length of the longest sequence, the held-out ones
        included.
    limit : int
        Pieces with this key or a larger one are not held out; see `Pieces.bounded`.

    Examples
    --------
    >>> a, b = (count(Sequences.from_lists([row]), [(0,)]) for row in ([0, 1, 0], [1, 0, 1, 1]))
    >>> (a + b).n_total, (a + b).whole(0).first
    (7, array([1, 1]))
    """

    tables: tuple[Table, ...]
    heldout: Pieces
    n_sequences: int
    n_total: int
    longest: int
    limit: int = NO_LIMIT

    def __add__(self, other: Moments) -> Moments:
        if [kind_of(table) for table in self.tables] != [kind_of(table) for table in other.tables]:
            mine, its = ([table.offsets for table in m.tables] for m in (self, other))
            raise SojournError(
                f"moments over windows {mine} and {its} do not add, or are of other algorithms or "
                f"vocabularies; where n_states, max_duration, windows or algorithm have changed, "
                f"fit again"
            )
        tables = tuple(a + b for a, b in zip(self.tables, other.tables, strict=True))
        heldout = self.heldout + other.heldout
        kept, evicted, limit = heldout.bounded(min(self.limit, other.limit))
        if evicted:
            tables = tuple(t + _count_table(evicted, shape_of(t), 1) for t in tables)
        return Moments(
            tables,
            kept.compact(),
            self.n_sequences + other.n_sequences,
            self.n_total + other.n_total,
            max(self.longest, other.longest),
            limit,
        )

    def whole(self, table: int) -> Table:
        """One of the tables with the held-out pieces counted too."""
        counts = self.tables[table]
        return counts + _count_table(self.heldout, shape_of(counts), 1) if self.heldout else counts

    @property
    def needs(self) -> int:
        """Number of symbols a sequence needs to hold the windows of some table."""
        return min(shape_of(table).needs for table in self.tables)


def count(
    sequences: Sequences,
    windows: Sequence[Sequence[int]],
    *,
    gapped: bool = False,
    per_step: bool = False,
    holdout: bool = True,
    n_jobs: int | None = None,
    shift: int = 0,
) -> Moments:
    """Moments of the sequences over each of the window shapes.

    Sequences shorter than a window are used for what they can give. A window that holds a missing
    symbol is not counted, nor is anything that would be divided by it.

    Parameters
    ----------
    sequences : Sequences
    windows : sequence of offsets
    gapped : bool
        Count the paper's moments in place of the adjacent ones.
    per_step : bool
        Keep the paper's moments of each step apart (Algorithm 1).
    holdout : bool
        Hold some pieces out.
    n_jobs : int or None
        Number of threads; integer counts are the same for any.
    shift : int
        Number of sequences counted before these, where ids just number them.

    Returns
    -------
    Moments

    Examples
    --------
    >>> seqs = Sequences.from_lists([[0, 1, 1, 0, 1]])
    >>> count(seqs, [(0,)], holdout=False).tables[0].H
    array([[0, 1],
           [1, 1]])
    """
    longest = int(sequences.lengths.max())
    steps = max(longest, 2) if per_step else 0  # one step alone would read as all together
    shapes = [
        Shape(check_offsets(w), sequences.n_symbols, gapped or per_step, steps) for w in windows
    ]
    for shape in shapes:
        shape.check()
    training, eligible = split(
        sequences, SHARE if holdout else 0.0, None if per_step else BLOCK, shift
    )
    kept, evicted, limit = eligible.bounded()
    training = training.with_pieces(evicted)
    tables = tuple(_count_table(training, shape, n_jobs) for shape in shapes)
    return Moments(tables, kept.compact(), len(sequences), sequences.n_total, longest, limit)


def _count_table(pieces: Pieces, shape: Shape, n_jobs: int | None) -> Table:
    """Counts of the pieces, each thread with tables of its own."""
    # A thread earns its tables only if there is more to count than to add up.
    worth = 1 << 16 if shape.sparse else 4 * shape.n_entries + 1
    threads = min(n_threads(n_jobs), 1 + pieces.n_total // worth, len(pieces))
    edges = np.linspace(0, pieces.n_total, max(threads, 1) + 1)[1:-1]
    cuts = np.searchsorted(np.cumsum(pieces.ends - pieces.begins), edges)
    parts = np.split(np.arange(len(pieces)), cuts)
    kernel: Callable[..., Table] = _count_gapped if shape.gapped else _count_adjacent
    run = partial(_count_occurring if shape.sparse else kernel, shape=shape)
    results = each(lambda index: run(pieces.take(index)), parts, n_jobs)
    counted: Any = results[0]
    for more in results[1:]:
        counted = counted + more
    return cast(Table, counted)


def _count_occurring(pieces: Pieces, shape: Shape) -> Sparse:
    return count_sparse(pieces, shape.offsets, shape.n_symbols)


def _count_adjacent(pieces: Pieces, shape: Shape) -> Adjacent:
    n, n_o, span = shape.n_windows, shape.n_symbols, shape.offsets[-1]
    window = np.array(shape.offsets, np.int64)
    where = (pieces.codes, pieces.begins, pieces.ends)
    first, H_o = np.zeros(n, np.uint32), np.zeros(n * n_o * n, np.uint32)
    _first_kernel(*where, pieces.fresh, window, n_o, first)
    if shape.offsets == tuple(range(span + 1)):
        # Of windows in a row, L, o and R one step later are one run of 2ℓ + 1 symbols, and R is
        # what follows L in it: a single count gives both tables.
        _run_kernel(*where, 2 * span + 3, n_o, H_o)
        runs = H_o.astype(np.int64).reshape(n, n, n_o)
        return Adjacent(shape.offsets, runs.sum(axis=2), runs.reshape(n, n_o, n), _wide(first, n))
    H = np.zeros(n * n, np.uint32)
    _adjacent_kernel(*where, window, n_o, H, H_o)
    return Adjacent(shape.offsets, _wide(H, n, n), _wide(H_o, n, n_o, n), _wide(first, n))


def _wide(counts: NDArray[np.uint32], *shape: int) -> NDArray[np.int64]:
    return counts.astype(np.int64).reshape(shape)


def _count_gapped(pieces: Pieces, shape: Shape) -> Gapped:
    n, n_o, n_t = shape.n_windows, shape.n_symbols, max(shape.steps, 1)
    sizes = ((n_t, n, n_o, n), (n_t, n, n), (n_t, n, n), (n_t, n_o, n_o), (n_o, n_o, n))
    flat = [np.zeros(int(np.prod(size)), np.uint32) for size in sizes]
    window = np.array(shape.offsets, np.int64)
    args = (pieces.codes, pieces.begins, pieces.ends, pieces.fresh, window, n_o, shape.steps > 0)
    _gapped_kernel(*args, *flat)
    return Gapped(shape.offsets, *(_wide(t, *s) for t, s in zip(flat, sizes, strict=True)))


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
