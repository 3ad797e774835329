"""Counts of the windows that occur, where there are too many that could.

One table holds the left window L that ends at t-1, the right window R that starts at t, and the
right window R1 one step later, so the symbol at t is the first of R. Windows are numbered by the
order of their codes among those that occur. Tables hold every entry, however rare, so that they
add; rare windows are pooled when operators are made (`lowrank_operators`).
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sojourn.checks import check_arrays
from sojourn.errors import SojournError
from sojourn.scale.hashing import mix_one
from sojourn.spectral.holdout import Pieces
from sojourn.spectral.windows import check_offsets

if TYPE_CHECKING:
    from sojourn.spectral.moment_tables import Shape

Ids = NDArray[np.int32]
Codes = NDArray[np.int64]

EMPTY = np.int32(-1)
SMALLEST = 1 << 12  # slots of a new hash table
TILE = 4096
BLOCK = 1 << 23  # symbols counted at a time: their entries take some 40 bytes each


@dataclass(frozen=True, eq=False)
class Sparse:
    """Counts of left windows with two right ones, those that occur only.

    A window's code is its symbols in time order, as digits of a number to the base `n_symbols`. The
    left window is the mirror image of the right one, which has the shape `offsets`. Entries are in
    ascending order and all different.
    """

    offsets: tuple[int, ...]
    n_symbols: int
    left: Codes  # codes of the left windows that occur, ascending                 (n_L,)
    right: Codes  # (n_R,)
    L: Ids  # place in `left` of the window that ends at t-1                       (n,)
    R: Ids  # place in `right` of the window that starts at t                      (n,)
    R1: Ids  # place in `right` of the window that starts at t+1                   (n,)
    counts: Codes  # (n,)
    first: Codes  # how often each right window starts a sequence                  (n_R,)

    def __post_init__(self) -> None:
        most = self.n_symbols ** len(check_offsets(self.offsets))
        codes = {"left": "int64 l", "right": "int64 r", "first": "int64 r"}
        ids = dict.fromkeys(("L", "R", "R1"), "int32 n")
        sizes = check_arrays(self, counts="int64 n", **codes, **ids)
        limits = {"left": most, "right": most, "L": sizes["l"], "R": sizes["r"], "R1": sizes["r"]}
        for name, limit in limits.items():
            values = getattr(self, name)
            if values.size and not 0 <= values.min() <= values.max() < limit:
                raise SojournError(f"{name} of Sparse must lie in 0 … {limit - 1}")
        for name in ("left", "right"):
            if (np.diff(getattr(self, name)) <= 0).any():
                raise SojournError(f"{name} of Sparse must be ascending")
        if min(self.counts.min(initial=1) - 1, self.first.min(initial=0)) < 0:
            raise SojournError("counts of Sparse must be positive, those in first not negative")

    def __add__(self, other: Any) -> Sparse:
        left, mine, its = _union(self.left, other.left)
        right, my_right, its_right = _union(self.right, other.right)
        # Windows keep their order under new numbers, so entries do, and two sets merge in one run.
        a = (mine[self.L], my_right[self.R], my_right[self.R1], self.counts)
        b = (its[other.L], its_right[other.R], its_right[other.R1], other.counts)
        L, R, R1, counts = _merge(*a, *b)
        first = np.zeros(len(right), np.int64)
        first[my_right] += self.first
        first[its_right] += other.first
        return Sparse(self.offsets, self.n_symbols, left, right, L, R, R1, counts, first)

    @property
    def symbols(self) -> Ids:
        """The symbol at t of each entry: the first of R."""
        n_with_same_first = self.n_symbols ** (len(self.offsets) - 1)
        return (self.right // n_with_same_first).astype(np.int32)[self.R]


def count_sparse(pieces: Pieces, shape: Shape) -> Sparse:
    """Count the windows of the pieces."""
    window = np.array(shape.offsets, np.int64)
    tables = []
    for batch in pieces.batches(BLOCK):
        left, right, L, R, R1, first = _windows(*batch.spans, window, shape.n_symbols)
        left, new_left = _ranked(left)
        right, new_right = _ranked(right)
        entries = _counted(new_left[L], new_right[R], new_right[R1])
        ordered = np.zeros(len(right), np.int64)
        ordered[new_right] = first
        tables.append(Sparse(shape.offsets, shape.n_symbols, left, right, *entries, ordered))
    return reduce(operator.add, tables)


def _counted(L: Ids, R: Ids, R1: Ids) -> tuple[Ids, Ids, Ids, Codes]:
    """The different entries in ascending order, and how often each occurs."""
    # Packed in 64 bits they are sorted faster than any hash counts them. Pairs (L, R) that differ
    # are numbered first, so that the third window fits beside them.
    pairs = L.astype(np.int64) << 32 | R
    order = np.argsort(pairs)
    pairs = pairs[order]
    new = np.append(True, pairs[1:] != pairs[:-1])[: len(pairs)]
    pairs, number = pairs[new], np.cumsum(new) - 1
    keys = np.sort(number << 32 | R1[order])
    new = np.append(True, keys[1:] != keys[:-1])[: len(keys)]
    counts = np.diff(np.append(np.flatnonzero(new), len(keys)))
    keys = keys[new]
    pair = pairs[keys >> 32]
    low = 2**32 - 1
    return (
        (pair >> 32).astype(np.int32),
        (pair & low).astype(np.int32),
        (keys & low).astype(np.int32),
        counts,
    )


def _ranked(codes: Codes) -> tuple[Codes, Ids]:
    """The codes in ascending order, and the new place of each."""
    order = np.argsort(codes)
    place = np.empty(len(codes), np.int32)
    place[order] = np.arange(len(codes), dtype=np.int32)
    return codes[order], place


@njit(cache=True, nogil=True)
def _union(a, b):  # type: ignore[no-untyped-def]
    """All codes of either, ascending, and where those of each stand."""
    n, m = len(a), len(b)
    both = np.empty(n + m, np.int64)
    at, bt = np.empty(n, np.int32), np.empty(m, np.int32)
    i = j = k = 0
    while i < n or j < m:
        from_a = i < n and (j == m or a[i] <= b[j])
        from_b = j < m and (i == n or b[j] <= a[i])
        if from_a:
            both[k] = a[i]
            at[i] = k
            i += 1
        if from_b:
            both[k] = b[j]
            bt[j] = k
            j += 1
        k += 1
    return both[:k].copy(), at, bt


@njit(cache=True, nogil=True)
def _merge(L, R, R1, counts, L2, R2, R12, counts2):  # type: ignore[no-untyped-def]
    """Two sorted sets of entries as one, the counts of equal ones added."""
    n, m = len(L), len(L2)
    out_L, out_R = np.empty(n + m, np.int32), np.empty(n + m, np.int32)
    out_R1 = np.empty(n + m, np.int32)
    out = np.empty(n + m, np.int64)
    i = j = k = 0
    while i < n or j < m:
        if j == m:
            side = -1
        elif i == n:
            side = 1
        else:
            side = np.int64(L[i]) - L2[j]
            if side == 0:
                side = np.int64(R[i]) - R2[j]
            if side == 0:
                side = np.int64(R1[i]) - R12[j]
        if side <= 0:
            out_L[k], out_R[k], out_R1[k], out[k] = L[i], R[i], R1[i], counts[i]
            i += 1
            if side == 0:
                out[k] += counts2[j]
                j += 1
        else:
            out_L[k], out_R[k], out_R1[k], out[k] = L2[j], R2[j], R12[j], counts2[j]
            j += 1
        k += 1
    return out_L[:k].copy(), out_R[:k].copy(), out_R1[:k].copy(), out[:k].copy()


@njit(cache=True, nogil=True)
def _place_of(code, slots, known, n):  # type: ignore[no-untyped-def]
    """The number of a window, which is `n` and noted where it is new; open addressing."""
    mask = np.uint64(len(slots) - 1)
    s = mix_one(np.uint64(code)) & mask
    while slots[s] != EMPTY:
        if known[slots[s]] == code:
            return slots[s]
        s = (s + np.uint64(1)) & mask
    slots[s] = n
    known[n] = code
    return np.int32(n)


@njit(cache=True, nogil=True)
def _room(slots, known, n, more):  # type: ignore[no-untyped-def]
    """The tables, grown where `more` windows would fill more than half of the slots."""
    if 2 * (n + more) <= len(slots):
        return slots, known
    size = len(slots)
    while 2 * (n + more) > size:
        size *= 2
    slots = np.full(size, EMPTY, np.int32)
    grown = np.empty(size // 2, np.int64)
    grown[:n] = known[:n]
    mask = np.uint64(size - 1)
    for i in range(n):
        s = mix_one(np.uint64(grown[i])) & mask
        while slots[s] != EMPTY:
            s = (s + np.uint64(1)) & mask
        slots[s] = i
    return slots, grown


@njit(cache=True, nogil=True)
def _code_at(codes, s, window, n_o):  # type: ignore[no-untyped-def]
    """The code of the window that starts at s; -1 where it holds a missing symbol."""
    code = np.int64(0)
    for j in range(window.shape[0]):
        c = codes[s + window[j]]
        if c < 0:
            return np.int64(-1)
        code = code * n_o + c
    return code


@njit(cache=True, nogil=True)
def _windows(codes, begins, ends, fresh, window, n_o):  # type: ignore[no-untyped-def]
    """Windows in order of appearance, the three of each step, and counts of first windows."""
    span = window[-1]
    mirror = (span - window)[::-1].copy()  # a left window, read from its first symbol
    l_slots, left, n_left = np.full(SMALLEST, EMPTY, np.int32), np.empty(SMALLEST // 2, np.int64), 0
    r_slots, right, n_right = l_slots.copy(), left.copy(), 0
    most = 0
    for i in range(begins.shape[0]):
        most += max(ends[i] - begins[i] - 2 * span - 2, 0)
    L, R, R1 = np.empty(most, np.int32), np.empty(most, np.int32), np.empty(most, np.int32)
    starts, n_starts = np.empty(begins.shape[0], np.int32), 0
    n = 0
    for i in range(begins.shape[0]):
        begin, end = begins[i], ends[i]
        if fresh[i] and end - begin > span:
            code = _code_at(codes, begin, window, n_o)
            if code >= 0:
                r_slots, right = _room(r_slots, right, n_right, 1)
                starts[n_starts] = _place_of(code, r_slots, right, n_right)
                n_right = max(n_right, starts[n_starts] + 1)
                n_starts += 1
        # L ends at t-1, R starts at t and R1 at t+1: t from begin + span + 1 to end - span - 2
        for t0 in range(begin + span + 1, end - span - 1, TILE):
            t1 = min(t0 + TILE, end - span - 1)
            l_slots, left = _room(l_slots, left, n_left, t1 - t0)
            r_slots, right = _room(r_slots, right, n_right, t1 - t0 + 1)
            following = _code_at(codes, t0, window, n_o)
            place = np.int32(-1)  # of the window that starts at t, where it is known
            for t in range(t0, t1):
                code, following = following, _code_at(codes, t + 1, window, n_o)
                before = _code_at(codes, t - 1 - span, mirror, n_o)
                if code < 0 or following < 0 or before < 0:
                    place = np.int32(-1)
                    continue
                if place < 0:
                    place = _place_of(code, r_slots, right, n_right)
                    n_right = max(n_right, place + 1)
                R[n] = place
                place = _place_of(following, r_slots, right, n_right)
                n_right = max(n_right, place + 1)
                R1[n] = place
                L[n] = _place_of(before, l_slots, left, n_left)
                n_left = max(n_left, L[n] + 1)
                n += 1
    first = np.zeros(n_right, np.int64)
    for place in starts[:n_starts]:
        first[place] += 1
    return left[:n_left].copy(), right[:n_right].copy(), L[:n], R[:n], R1[:n], first
