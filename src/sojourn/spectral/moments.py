"""Moments: how often windows of symbols occur together. One pass, and they add.

Two sets are counted over a window shape (`windows`): the `Adjacent` one, whose left and right
windows touch, and the paper's `Gapped` one, with a symbol between them (`tables`).
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from sojourn.data.sequences import Sequences
from sojourn.errors import SojournError
from sojourn.scale.threads import each, in_order, n_threads
from sojourn.spectral.count_dense import Buffer, Table, buffer
from sojourn.spectral.holdout import BLOCK, NO_LIMIT, SHARE, Pieces, split
from sojourn.spectral.moment_tables import Shape, kind_of, shape_of
from sojourn.spectral.windows import check_offsets


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

    def __post_init__(self) -> None:
        if not isinstance(self.heldout, Pieces):
            raise SojournError(f"heldout is a {type(self.heldout).__name__}, not Pieces")
        if not self.tables or len({shape_of(table).n_symbols for table in self.tables}) > 1:
            raise SojournError("moments need at least one table, all over the same symbols")
        for name in ("n_sequences", "n_total", "longest", "limit"):
            if not 0 <= operator.index(getattr(self, name)) <= NO_LIMIT:
                raise SojournError(f"{name} is {getattr(self, name)}; it lies in 0 … {NO_LIMIT}")
        n_o, codes = shape_of(self.tables[0]).n_symbols, self.heldout.codes
        if codes.size and not -1 <= codes.min() <= codes.max() < n_o:
            raise SojournError(f"heldout.codes must lie in -1 … {n_o - 1}")

    def __add__(self, other: Moments) -> Moments:
        if [kind_of(table) for table in self.tables] != [kind_of(table) for table in other.tables]:
            mine, its = ([table.offsets for table in m.tables] for m in (self, other))
            raise SojournError(
                f"moments over windows {mine} and {its} do not add, or are of other algorithms or "
                f"vocabularies; where n_states, max_duration, windows or algorithm have changed, "
                f"fit again"
            )
        tables = _added(self.tables, other.tables)
        heldout = self.heldout + other.heldout
        kept, evicted, limit = heldout.bounded(min(self.limit, other.limit))
        if evicted:
            tables = _added(tables, tuple(_counted(evicted, shape_of(t)) for t in tables))
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
        counts = (self.tables[table],)
        if not self.heldout:
            return counts[0]
        return _added(counts, (_counted(self.heldout, shape_of(counts[0])),))[0]

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
    tally = Tally(windows, sequences.n_symbols, gapped=gapped, per_step=per_step, holdout=holdout)
    tally.add(sequences, n_jobs, shift)
    return tally.moments(n_jobs)


class Tally:
    """Moments under way: sequences are counted in place, part after part, in any order.

    Parameters
    ----------
    windows, gapped, per_step, holdout
        As in `count`.
    n_symbols : int
        Size of the vocabulary of all parts.

    Examples
    --------
    >>> tally = Tally([(0,)], n_symbols=2, holdout=False)
    >>> for rows in ([[0, 1, 1]], [[0, 1], [1, 0, 1]]):
    ...     tally.add(Sequences.from_lists(rows))
    >>> tally.moments().n_total, tally.moments().tables[0].first
    (8, array([2, 1]))
    """

    def __init__(
        self,
        windows: Sequence[Sequence[int]],
        n_symbols: int,
        *,
        gapped: bool = False,
        per_step: bool = False,
        holdout: bool = True,
    ) -> None:
        gapped = gapped or per_step
        self._shapes = [Shape(check_offsets(w), n_symbols, gapped) for w in windows]
        self._per_step, self._share = per_step, SHARE if holdout else 0.0
        self._tables: tuple[Table, ...] = ()
        self._buffers: list[Buffer] = []
        self._n_sequences = self._n_total = self._longest = self._steps = 0
        self._heldout, self._limit = Pieces.none(), NO_LIMIT

    def add(self, sequences: Sequences, n_jobs: int | None = None, shift: int = 0) -> None:
        """Count more sequences; `n_jobs` and `shift` as in :func:`count`."""
        longest = int(sequences.lengths.max())
        if not self._buffers or (self._per_step and longest > self._steps):
            self._begin(longest)
        block = None if self._per_step else BLOCK
        training, eligible = split(sequences, self._share, block, shift)
        kept, evicted, self._limit = eligible.bounded(self._limit)
        self._count(training.with_pieces(evicted), n_jobs)
        self._hold_out(self._heldout + kept.compact())
        self._n_sequences += len(sequences)
        self._n_total += sequences.n_total
        self._longest = max(self._longest, longest)

    def __add__(self, other: Tally) -> Tally:
        """Both together; neither is changed."""
        both = copy(self)
        if other._steps == self._steps:
            both._buffers = [a + b for a, b in zip(self._buffers, other._buffers, strict=True)]
            both._tables = _added(self._tables, other._tables)
        else:
            both._tables = _added(self.moments().tables, other.moments().tables)
            both._buffers = []
            both._begin(max(self._steps, other._steps))
        both._n_sequences += other._n_sequences
        both._n_total += other._n_total
        both._longest = max(self._longest, other._longest)
        both._limit = min(self._limit, other._limit)
        both._hold_out(self._heldout + other._heldout)
        return both

    def moments(self, n_jobs: int | None = 1) -> Moments:
        """What was counted until now; `n_jobs` as in :func:`count`."""
        tables = tuple(in_order(lambda buffer: buffer.table(), self._buffers, n_jobs))
        return Moments(
            _added(self._tables, tables),
            self._heldout.compact(),
            self._n_sequences,
            self._n_total,
            self._longest,
            self._limit,
        )

    def _begin(self, longest: int) -> None:
        """Empty buffers, for sequences that may be as long as that."""
        if self._buffers:
            self._tables = self.moments().tables
        if self._per_step:  # one step alone would read as all together
            self._steps = max(longest, self._steps, 2)
            self._shapes = [replace(shape, steps=self._steps) for shape in self._shapes]
        for shape in self._shapes:
            shape.check()
        self._buffers = [buffer(shape) for shape in self._shapes]

    def _hold_out(self, pieces: Pieces) -> None:
        """Hold out those of the pieces that may be, and count the others."""
        self._heldout, evicted, self._limit = pieces.bounded(self._limit)
        if evicted:
            self._count(evicted, 1)
            self._heldout = self._heldout.compact()

    def _count(self, pieces: Pieces, n_jobs: int | None) -> None:
        pairs = zip(self._buffers, self._shapes, strict=True)
        self._buffers = [_with_counts(counts, pieces, shape, n_jobs) for counts, shape in pairs]


def _with_counts(counts: Buffer, pieces: Pieces, shape: Shape, n_jobs: int | None) -> Buffer:
    """The buffer with the pieces counted, by threads that have a buffer each."""
    # A thread earns its tables only if there is more to count than to add up.
    worth = 1 << 16 if shape.sparse else shape.n_entries + 1
    threads = min(n_threads(n_jobs), 1 + pieces.n_total // worth, len(pieces))
    if threads <= 1:
        counts.count(pieces)
        return counts
    edges = np.linspace(0, pieces.n_total, threads + 1)[1:-1]
    cuts = np.searchsorted(np.cumsum(pieces.ends - pieces.begins), edges)
    parts = [pieces.take(index) for index in np.split(np.arange(len(pieces)), cuts)]
    buffers = [counts, *(buffer(shape) for _ in parts[1:])]
    each(lambda pair: pair[0].count(pair[1]), list(zip(buffers, parts, strict=True)), n_jobs)
    return reduce(operator.add, buffers)


def _counted(pieces: Pieces, shape: Shape) -> Table:
    counts = buffer(shape)
    counts.count(pieces)
    return counts.table()


def _added(a: tuple[Table, ...], b: tuple[Table, ...]) -> tuple[Table, ...]:
    """Two sets of tables of the same shapes, or the one that there is."""
    if not a or not b:
        return a or b
    return tuple(mine + its for mine, its in zip(a, b, strict=True))
