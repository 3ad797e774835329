"""Sparse tables of counts by key: kept in ascending order, or under way in a table that grows."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sojourn.checks import check_arrays
from sojourn.errors import SojournError

Ints = NDArray[np.integer[Any]]
Keys = NDArray[np.unsignedinteger[Any]]

# A table of all cells there can be is held where it is not larger than this.
MAX_CELLS = 1 << 24
MAX_COUNT = 1 << 30  # of two tables whose sum fits in 32 bits
MAX_KEY = 2**32 - 1  # above all that are kept in 32 bits
SPARSE = 16  # cells per count from which on few of them are met
BLOCK = 1 << 18  # entries at a time


@dataclass(frozen=True, eq=False)
class Table:
    """Sparse counts: keys in ascending order, and how often each was met.

    Both are kept in 32 bits where they fit: the counts of large data are many.
    """

    keys: Keys
    counts: Ints

    def __post_init__(self) -> None:
        check_arrays(self, keys="uint32|uint64 n", counts="int32|uint32|int64+ n")
        if np.any(self.counts < 1):
            raise SojournError("a table has a positive count for each of its keys")
        if np.any(self.keys[1:] <= self.keys[:-1]):
            raise SojournError("keys of a table stand in ascending order, each once")
        small = (
            not self.keys.size or self.keys[-1] < MAX_KEY,
            self.counts.max(initial=0) < MAX_COUNT,
        )
        keys, counts = np.uint32 if small[0] else np.uint64, np.int32 if small[1] else np.int64
        object.__setattr__(self, "keys", self.keys.astype(keys, copy=False))
        object.__setattr__(self, "counts", self.counts.astype(counts, copy=False))

    def __add__(self, other: Table) -> Table:
        a, b = (self, other) if len(self.keys) >= len(other.keys) else (other, self)
        a_keys, b_keys = (
            t.keys.astype(max(a.keys.dtype, b.keys.dtype), copy=False) for t in (a, b)
        )
        at = np.searchsorted(a_keys, b_keys)
        there = at < len(a_keys)
        there[there] = a_keys[at[there]] == b_keys[there]
        counts = a.counts.astype(max(a.counts.dtype, b.counts.dtype))
        counts[at[there]] += b.counts[there]
        new = ~there
        return Table(
            np.insert(a_keys, at[new], b_keys[new]), np.insert(counts, at[new], b.counts[new])
        )

    def between(self, symbols: range, n_u: int, n_o: int, n_v: int) -> Table:
        """Those of some symbols, the keys being of past, symbol and future."""
        if len(symbols) == n_o:
            return self
        rows = np.add.outer(np.arange(n_u) * n_o, [symbols.start, symbols.stop]) * n_v
        if self.keys.dtype == np.uint32:
            rows = np.minimum(rows, MAX_KEY)
        begin, end = np.searchsorted(self.keys, rows.astype(self.keys.dtype)).T
        parts = [slice(a, b) for a, b in zip(begin, end, strict=True)]
        return Table(
            *(np.concatenate([x[part] for part in parts]) for x in (self.keys, self.counts))
        )

    def grouped(self, to: Callable[[Keys], Keys], n_cells: int) -> Table:
        """The table of other keys, of `n_cells` possible ones, counts of the same key added."""
        parts = (slice(i, i + BLOCK) for i in range(0, len(self.keys), BLOCK))
        if n_cells > max(MAX_CELLS, 4 * len(self.keys)):
            moved = [to(self.keys[part].astype(np.uint64)) for part in parts]
            return summed(np.concatenate([np.empty(0, np.uint64), *moved]), self.counts)
        small = self.counts.sum() <= MAX_COUNT
        total: Ints = np.zeros(n_cells, np.int32 if small else np.int64)
        for part in parts:
            keys = to(self.keys[part].astype(np.uint64)).astype(np.int64)
            np.add.at(total, keys, self.counts[part].astype(total.dtype))
        return _met(total)


def _met(cells: Ints) -> Table:
    """The table of the cells that are not zero; in blocks, for memory."""
    keys, done = np.empty(np.count_nonzero(cells), np.uint32), 0
    for first in range(0, len(cells), BLOCK):
        found = np.flatnonzero(cells[first : first + BLOCK])
        keys[done : done + len(found)] = found + first
        done += len(found)
    return Table(keys, cells[cells > 0])


def summed(keys: Keys, counts: Ints) -> Table:
    """The table of keys in any order, counts of the same key added."""
    order = np.argsort(keys, kind="stable")
    keys, counts = keys[order], counts[order]
    first = np.flatnonzero(np.append(True, keys[1:] != keys[:-1])) if keys.size else order
    return Table(
        keys[first], np.add.reduceat(counts, first, dtype=np.int64) if keys.size else counts
    )


def cells(n_cells: int, most: int | None = None) -> Cells | Hashed | Listed:
    """An empty table for keys below `n_cells`, of which at most `most` will be counted."""
    if n_cells <= (MAX_CELLS if most is None else min(MAX_CELLS, SPARSE * most)):
        return Cells(n_cells)
    return Hashed() if most is None else Listed()


class Listed:
    """Keys as they come: where they are few, sorting them once is quickest."""

    def __init__(self) -> None:
        self.parts: list[NDArray[np.uint64]] = [np.empty(0, np.uint64)]

    def add(self, keys: NDArray[np.uint64]) -> None:
        """Count keys."""
        self.parts.append(keys)

    def joined(self, other: Listed) -> Listed:
        """Both together; neither is changed."""
        both = Listed()
        both.parts = self.parts + other.parts
        return both

    def sorted(self) -> Table:
        """What was counted until now."""
        keys = np.sort(np.concatenate(self.parts))
        first = np.flatnonzero(np.append(True, keys[1:] != keys[:-1])[: len(keys)])
        return Table(keys[first], np.diff(np.append(first, len(keys))))


class Cells:
    """Counts by key in a table of all keys there can be."""

    def __init__(self, n_cells: int) -> None:
        self.cells = np.zeros(n_cells, np.uint32)
        self.n = 0  # counted in these cells
        self.full: list[Table] = []  # cells that were put aside before they could overflow

    def add(self, keys: NDArray[np.uint64]) -> None:
        """Count keys."""
        self.n += len(keys)
        _count_keys(self.cells, keys)
        self._put_aside()

    def _put_aside(self) -> None:
        if self.n > MAX_COUNT:
            self.full, self.cells, self.n = [self.sorted()], np.zeros_like(self.cells), 0

    def joined(self, other: Cells) -> Cells:
        """Both together; neither is changed."""
        both = Cells(0)
        both.full, both.n = self.full + other.full, self.n + other.n
        both.cells = self.cells + other.cells
        both._put_aside()
        return both

    def sorted(self) -> Table:
        """What was counted until now."""
        return reduce(operator.add, self.full, _met(self.cells))


@njit(cache=True, nogil=True)
def _count_keys(cells, keys):  # type: ignore[no-untyped-def]
    for i in range(len(keys)):
        cells[keys[i]] += 1


class Hashed:
    """Counts by key in a table of open addresses that grows."""

    def __init__(self, room: int = 1 << 12) -> None:
        self.keys = np.zeros(room, np.uint64)
        self.counts = np.zeros(room, np.int64)
        self.used = 0

    def add(self, keys: NDArray[np.uint64], counts: Ints | None = None) -> None:
        """Count keys, once each or as often as given."""
        more = np.ones(len(keys), np.int64) if counts is None else counts
        done, room = 0, len(self.keys)
        if 4 * (self.used + len(keys)) > 3 * room:
            # Most keys are old ones: grow as far as new ones ask for.
            room = max(2 * room, 1 << (2 * len(keys)).bit_length())
        while done < len(keys):
            if room > len(self.keys):
                old, n = self.keys, self.counts
                self.keys, self.counts = np.zeros(room, np.uint64), np.zeros(room, np.int64)
                _insert(self.keys, self.counts, 0, old, n, 0)
            done, self.used = _insert(self.keys, self.counts, self.used, keys, more, done)
            room = 2 * len(self.keys)

    def joined(self, other: Hashed) -> Hashed:
        """Both together; neither is changed."""
        large, small = (self, other) if self.used >= other.used else (other, self)
        both = Hashed.__new__(Hashed)
        both.keys, both.counts, both.used = large.keys.copy(), large.counts.copy(), large.used
        there = small.counts > 0
        both.add(small.keys[there], small.counts[there])
        return both

    def sorted(self) -> Table:
        """What was counted until now."""
        there = self.counts > 0
        return summed(self.keys[there], self.counts[there])


@njit(cache=True, nogil=True)
def _insert(table, counts, used, keys, more, begin):  # type: ignore[no-untyped-def]
    """Add counts until three quarters of the table are in use; where it stopped, and entries."""
    mask = np.uint64(len(table) - 1)
    limit = 3 * len(table) // 4
    for i in range(begin, len(keys)):
        if more[i] == 0:  # an entry that is not in use
            continue
        key = keys[i]
        h = key * np.uint64(0x9E3779B97F4A7C15)
        at = (h ^ (h >> np.uint64(29))) & mask
        while counts[at] != 0 and table[at] != key:
            at = (at + np.uint64(1)) & mask
        if counts[at] == 0:
            if used >= limit:
                return i, used
            table[at] = key
            used += 1
        counts[at] += more[i]
    return len(keys), used
