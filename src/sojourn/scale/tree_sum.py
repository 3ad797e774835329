"""Sums of floating-point results over sequences that come out the same however the data are cut.

Sequences laid end to end belong to chunks by where they start: chunk c has those that start at
symbols cS to (c + 1)S - 1 of all the data. The sequences of a chunk are added up in one run, and
chunks along a binary tree over their numbers. Neither knows of partitions, workers or threads. A
partition adds up the chunks that it has all of; of the chunks at its two ends it passes on the
sequences, which are few, and those are run where two partitions meet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sojourn.data.sequences import Sequences
from sojourn.errors import SojournError
from sojourn.scale.threads import SYMBOLS_PER_CHUNK, in_order

Run = Callable[[Sequences], Callable[[tuple[int, int]], Any]]


@dataclass(frozen=True, eq=False)
class Sums:
    """Sums over the chunks ``first`` to ``last - 1``.

    Parameters
    ----------
    first, last : int
    nodes : tuple of (number, level, sum)
        Node (j, k) is of the 2^k chunks from j 2^k on; None where no sequence starts in them. They
        are as few as can be, in order.

    Examples
    --------
    >>> three = Sums.of(0, 3, [(0, 0.5), (2, 0.25)])
    >>> [(j, k) for j, k, _ in three.nodes]
    [(0, 1), (2, 0)]
    >>> (three + Sums.of(3, 4, [(3, 4.0)])).total()
    4.75
    """

    first: int
    last: int
    nodes: tuple[tuple[int, int, Any], ...] = ()

    @classmethod
    def of(cls, first: int, last: int, chunks: Iterable[tuple[int, Any]]) -> Sums:
        """The sums of chunks given in order, as (number, sum); those left out are empty."""
        nodes: list[tuple[int, int, Any]] = []
        following = first
        for number, value in chunks:
            for empty in range(following, number):
                _push(nodes, (empty, 0, None))
            _push(nodes, (number, 0, value))
            following = number + 1
        for empty in range(following, last):
            _push(nodes, (empty, 0, None))
        return cls(first, last, tuple(nodes))

    def __add__(self, other: Sums) -> Sums:
        if self.last != other.first:
            raise SojournError(
                f"chunks {self.first} to {self.last} and {other.first} to {other.last} do not "
                f"follow one another; a file may have changed while it was read"
            )
        nodes = list(self.nodes)
        for node in other.nodes:
            _push(nodes, node)
        return Sums(self.first, other.last, tuple(nodes))

    def total(self) -> Any:
        """The sum of all chunks."""
        values = [value for _, _, value in self.nodes if value is not None]
        if not values:
            raise SojournError("there is nothing to add up: there are no sequences")
        result = values[0]
        for value in values[1:]:
            result = result + value
        return result


def _push(nodes: list[tuple[int, int, Any]], node: tuple[int, int, Any]) -> None:
    """Add a node at the right, and its parent where its sibling stands beside it."""
    while nodes and node[0] % 2 == 1 and nodes[-1][:2] == (node[0] - 1, node[1]):
        left, right = nodes.pop()[2], node[2]
        both = right if left is None else left if right is None else left + right
        node = (node[0] // 2, node[1] + 1, both)
    nodes.append(node)


@dataclass(frozen=True, eq=False)
class Stretch:
    """What a pass over a run of sequences gives.

    Parameters
    ----------
    begin, end : int
        Number of symbols before its first sequence, and to the end of its last.
    head : Sequences or None
        Those in the chunk that began before it, or all where no chunk begins in it.
    sums : Sums or None
        Of the chunks that lie in it; None where no chunk begins in it.
    tail : Sequences or None
        Those in the chunk that it does not end.
    """

    begin: int
    end: int
    head: Sequences | None
    sums: Sums | None
    tail: Sequences | None


def chunk_bounds(starts: NDArray[np.int64], size: int) -> list[tuple[int, tuple[int, int]]]:
    """Chunks, as (number, (first, last)), of sequences that start at these symbols.

    Examples
    --------
    >>> chunk_bounds(np.array([0, 3, 5, 19]), size=5)
    [(0, (0, 2)), (1, (2, 3)), (3, (3, 4))]
    """
    numbers = starts // size
    edges = np.flatnonzero(np.diff(numbers, prepend=-1, append=-1))
    return [(int(numbers[first]), (int(first), int(last))) for first, last in pairwise(edges)]


def stretch(
    run: Run,
    sequences: Sequences,
    begin: int = 0,
    n_jobs: int | None = None,
    size: int = SYMBOLS_PER_CHUNK,
) -> Stretch:
    """Pass over sequences that have `begin` symbols before them.

    Parameters
    ----------
    run : callable
        ``run(sequences)`` gives a function of (first, last) that returns what is added up over
        sequences ``first`` to ``last - 1``.
    sequences : Sequences
    begin : int
    n_jobs : int or None
        Number of threads.
    size : int
        Symbols a chunk; the same wherever results are compared.

    Examples
    --------
    >>> seqs = Sequences.from_lists([[0, 0, 0], [0, 0], [0] * 5, [0]])
    >>> lengths = lambda s: lambda bounds: int(s.lengths[slice(*bounds)].sum())
    >>> parts = [stretch(lengths, part, b, 1, 4) for part, b in ((seqs[:1], 0), (seqs[1:], 3))]
    >>> finished(lengths, joined(lengths, *parts))
    11
    """
    starts = sequences.offsets[:-1] + begin
    end = begin + sequences.n_total
    first, last = -(-begin // size), end // size
    if first > last:
        return Stretch(begin, end, sequences, None, None)
    a, b = np.searchsorted(starts, [first * size, last * size]).tolist()
    chunks = [(number, (a + i, a + j)) for number, (i, j) in chunk_bounds(starts[a:b], size)]
    results = in_order(run(sequences), [bounds for _, bounds in chunks], n_jobs)
    numbered = zip((number for number, _ in chunks), results, strict=True)
    sums = Sums.of(first, last, numbered)
    return Stretch(begin, end, _some(sequences, 0, a), sums, _some(sequences, b, len(sequences)))


def joined(run: Run, a: Stretch, b: Stretch) -> Stretch:
    """Two passes, the second over what follows the first, as one."""
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
    sums = a.sums
    if sums.last < b.sums.first:  # one chunk that is whole only now
        chunk = [] if between is None else [(sums.last, run(between)((0, len(between))))]
        sums = sums + Sums.of(sums.last, b.sums.first, chunk)
    return Stretch(a.begin, b.end, a.head, sums + b.sums, b.tail)


def finished(run: Run, whole: Stretch) -> Any:
    """The sum over all sequences, the last chunk closed as it is."""
    if whole.begin != 0 or whole.sums is None:
        raise SojournError(f"this pass begins at symbol {whole.begin}; expected all the data")
    if whole.tail is None:
        return whole.sums.total()
    n = whole.sums.last
    last = Sums.of(n, n + 1, [(n, run(whole.tail)((0, len(whole.tail))))])
    return (whole.sums + last).total()


def _some(sequences: Sequences, first: int, last: int) -> Sequences | None:
    return sequences[first:last] if last > first else None


def _after(a: Sequences | None, b: Sequences | None) -> Sequences | None:
    if a is None or b is None:
        return b if a is None else a
    return Sequences.concatenate([a, b])
