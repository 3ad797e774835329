"""Sums of floating-point results over sequences that come out the same however the data are cut.

Sequences laid end to end belong to chunks by where they start: chunk c has those that start at
symbols cS to (c + 1)S - 1 of all the data. What one chunk gives is computed in one go, and chunks
are added along a binary tree over their numbers. Neither knows of partitions, workers or threads. A
partition adds up the chunks that it has all of; of the chunks at its two ends it passes on the
sequences, which are few, and those are computed where two partitions meet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sojourn.data.sequences import Sequences
from sojourn.errors import SojournError
from sojourn.io.sources import Partition
from sojourn.scale.passes import Pass
from sojourn.scale.threads import SYMBOLS_PER_CHUNK

Chunk = tuple[int, tuple[int, int]]  # its number, and its sequences as (first, last)
# Given sequences, a function of (first, last) that computes what is to be added up over those.
ChunkFunction = Callable[[Sequences], Callable[[tuple[int, int]], Any]]


class TreeSum:
    """A sum over the chunks ``first`` to ``last - 1``.

    Node (j, k, sum) is of the 2^k chunks from j 2^k on; None where no sequence starts in them. The
    nodes are as few as can be, in order.

    Examples
    --------
    >>> three = TreeSum(0, [(0, 0.5), (2, 0.25)])
    >>> [(j, k) for j, k, _ in three.nodes]
    [(0, 1), (2, 0)]
    >>> (three + TreeSum(3, [(3, 4.0)])).total()
    4.75
    """

    def __init__(self, first: int, chunks: Iterable[tuple[int, Any]] = ()) -> None:
        self.first = self.last = first
        self.nodes: list[tuple[int, int, Any]] = []
        for number, value in chunks:
            self.push(number, value)

    def push(self, number: int, value: Any) -> None:
        """Add a chunk at the right; those before it that were not pushed are empty."""
        self.pad(number)
        self._push((number, 0, value))
        self.last = number + 1

    def pad(self, last: int) -> None:
        """Add empty chunks up to ``last - 1``."""
        for empty in range(self.last, last):
            self._push((empty, 0, None))
        self.last = max(self.last, last)

    def _push(self, node: tuple[int, int, Any]) -> None:
        """Add a node at the right, or its parent where its sibling stands beside it."""
        while self.nodes and node[0] % 2 == 1 and self.nodes[-1][:2] == (node[0] - 1, node[1]):
            left, right = self.nodes.pop()[2], node[2]
            both = right if left is None else left if right is None else left + right
            node = (node[0] // 2, node[1] + 1, both)
        self.nodes.append(node)

    def __add__(self, other: TreeSum) -> TreeSum:
        if self.last != other.first:
            raise SojournError(
                f"chunks {self.first} to {self.last} and {other.first} to {other.last} do not "
                f"follow one another; a file may have changed while it was read"
            )
        both = self.copy()
        both.last = other.last
        for node in other.nodes:
            both._push(node)
        return both

    def copy(self) -> TreeSum:
        """The same sum, to be added to."""
        other = TreeSum(self.first)
        other.nodes, other.last = list(self.nodes), self.last
        return other

    def total(self) -> Any:
        """The sum of all chunks."""
        values = [value for _, _, value in self.nodes if value is not None]
        if not values:
            raise SojournError("there is nothing to add up: there are no sequences")
        result = values[0]
        for value in values[1:]:
            result = result + value
        return result


def chunk_bounds(starts: NDArray[np.int64], size: int = SYMBOLS_PER_CHUNK) -> list[Chunk]:
    """Chunks, as (number, (first, last)), of sequences that start at these symbols."""
    numbers = starts // size
    edges = np.flatnonzero(np.diff(numbers, prepend=-1, append=-1))
    return [(int(numbers[first]), (int(first), int(last))) for first, last in pairwise(edges)]


@dataclass(frozen=True, eq=False)
class Stretch:
    """The sum over some sequences in a row."""

    begin: int  # number of symbols before its first sequence
    end: int  # and up to the end of its last
    # those in the chunk that began before it, or all where no chunk begins in it
    head: Sequences | None
    sums: TreeSum | None  # of the chunks that lie in it; None where no chunk begins in it
    tail: Sequences | None  # those in the chunk that it does not end


@dataclass(frozen=True, eq=False)
class Summing(Pass[Stretch | None]):
    """The pass that adds up a function of chunks."""

    ordered: ClassVar[bool] = True

    # ``of_chunks(sequences)`` is a function of (first, last) that gives what is added up over
    # sequences ``first`` to ``last - 1``
    of_chunks: ChunkFunction
    size: int = SYMBOLS_PER_CHUNK  # symbols of a chunk; the same wherever results are compared

    def empty(self) -> None:
        """No partition, which is no stretch."""

    def add(self, total: Stretch | None, sequences: Sequences, partition: Partition) -> Stretch:
        """The sum with one more partition, whose place among all symbols is known."""
        begin, end = partition.begin, partition.begin + sequences.n_total
        first, last = -(-begin // self.size), end // self.size
        if first > last:
            return self.join(total, Stretch(begin, end, sequences, None, None))
        starts = sequences.offsets[:-1] + begin
        a, b = np.searchsorted(starts, [first * self.size, last * self.size]).tolist()
        sums, of_chunk = TreeSum(first), self.of_chunks(sequences)
        for number, (i, j) in chunk_bounds(starts[a:b], self.size):
            sums.push(number, of_chunk((a + i, a + j)))
        sums.pad(last)
        head, tail = _some(sequences, 0, a), _some(sequences, b, len(sequences))
        return self.join(total, Stretch(begin, end, head, sums, tail))

    def join(self, a: Stretch | None, b: Stretch | None) -> Stretch:
        """The sums over two stretches, the second after the first, as one."""
        if a is None or b is None:
            both = b if a is None else a
            assert both is not None
            return both
        if a.end != b.begin:
            raise SojournError(
                f"a partition begins at symbol {b.begin}, but the one before it ends at {a.end}; a "
                f"file has changed while it was read"
            )
        if a.sums is None:
            return Stretch(a.begin, b.end, _after(a.head, b.head), b.sums, b.tail)
        between = _after(a.tail, b.head)
        if b.sums is None:
            return Stretch(a.begin, b.end, a.head, a.sums, between)
        sums = a.sums.copy()
        if sums.last < b.sums.first and between is not None:  # a chunk that is complete only now
            sums.push(sums.last, self.of_chunks(between)((0, len(between))))
        sums.pad(b.sums.first)
        return Stretch(a.begin, b.end, a.head, sums + b.sums, b.tail)

    def total(self, all_data: Stretch | None) -> Any:
        """The sum over all sequences, the last chunk closed as it is."""
        if all_data is None or all_data.begin != 0 or all_data.sums is None:
            begin = "nowhere" if all_data is None else f"at symbol {all_data.begin}"
            raise SojournError(f"this pass begins {begin}; expected all the data")
        sums, tail = all_data.sums.copy(), all_data.tail
        if tail is not None:
            sums.push(sums.last, self.of_chunks(tail)((0, len(tail))))
        return sums.total()


def _some(sequences: Sequences, first: int, last: int) -> Sequences | None:
    """A copy of some of the sequences, so that the others need not be kept; None where none."""
    return sequences[np.arange(first, last)] if last > first else None


def _after(a: Sequences | None, b: Sequences | None) -> Sequences | None:
    if a is None or b is None:
        return b if a is None else a
    return a.concatenate([a, b])
