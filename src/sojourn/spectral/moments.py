"""Moments: how often windows of symbols occur together. One pass, and they add.

A window (`windows`) is counted in one of three forms (`moment_tables`): the adjacent one, whose
left and right windows touch, or the paper's, with a symbol between them.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Self

from sojourn.contexts.pieces import BLOCK, NO_LIMIT, SHARE, Pieces, Tally
from sojourn.data.sequences import Sequences
from sojourn.errors import SojournError
from sojourn.scale.threads import in_order, n_threads
from sojourn.spectral.moment_tables import Form, Shape, Table, count_windows, shape_of
from sojourn.spectral.windows import check_offsets


@dataclass(frozen=True, eq=False)
class Moments:
    """Counts over one or several windows, and the pieces held out of them.

    Parameters
    ----------
    tables : tuple of Adjacent or Gapped
        One for each window, in the order asked for.
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
    >>> (a + b).n_total, (a + b).with_heldout(0).first
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
        if list(map(shape_of, self.tables)) != list(map(shape_of, other.tables)):
            mine, its = ([table.offsets for table in m.tables] for m in (self, other))
            raise SojournError(
                f"moments over windows {mine} and {its} do not add, or are of other algorithms or "
                f"vocabularies; where n_states, max_duration, windows or algorithm have changed, "
                f"fit again"
            )
        heldout = self.heldout + other.heldout
        kept, evicted, limit = heldout.bounded(min(self.limit, other.limit))
        pairs = zip(self.tables, other.tables, strict=True)
        return Moments(
            tuple(_with_counts(a + b, evicted) for a, b in pairs),
            kept.compact(),
            self.n_sequences + other.n_sequences,
            self.n_total + other.n_total,
            max(self.longest, other.longest),
            limit,
        )

    def with_heldout(self, table: int) -> Table:
        """One of the tables with the held-out pieces counted too."""
        return _with_counts(self.tables[table], self.heldout)

    @property
    def needs(self) -> int:
        """Length of the shortest sequence that holds the windows of some table."""
        return min(shape_of(table).needs for table in self.tables)


def _with_counts(table: Table, pieces: Pieces) -> Table:
    """A table with more pieces counted."""
    return table + count_windows(pieces, shape_of(table)) if pieces else table


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
    """Moments of the sequences over each of the windows.

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
    form = Form.of(gapped, per_step)
    tally = WindowTally(windows, sequences.n_symbols, form, holdout=holdout)
    tally.add(sequences, n_jobs, shift)
    return tally.moments()


class WindowTally(Tally):
    """Moments under way: sequences are counted part after part, in any order.

    `n_symbols` is the size of the vocabulary of all parts; the rest is as in `count`.
    """

    def __init__(
        self,
        windows: Sequence[Sequence[int]],
        n_symbols: int,
        form: Form = Form.ADJACENT,
        *,
        holdout: bool = True,
    ) -> None:
        # A block has lost its first step, so sequences are whole where each step counts by itself.
        super().__init__(SHARE if holdout else 0.0, None if form is Form.PER_STEP else BLOCK)
        self._shapes = [Shape(check_offsets(window), n_symbols, form) for window in windows]
        for shape in self._shapes:
            shape.check()
        self._tables: list[Table] = [count_windows(Pieces.none(), shape) for shape in self._shapes]

    def moments(self) -> Moments:
        """What was counted until now."""
        sizes = (self.n_sequences, self.n_total, self.longest, self.limit)
        return Moments(tuple(self._tables), self.heldout, *sizes)

    def _count(self, pieces: Pieces, n_jobs: int | None) -> None:
        parts = pieces.batches(-(-pieces.n_total // n_threads(n_jobs)) or 1)
        counted = [in_order(partial(count_windows, shape=s), parts, n_jobs) for s in self._shapes]
        pairs = zip(counted, self._tables, strict=True)
        self._tables = [reduce(operator.add, more, table) for more, table in pairs]

    def _join(self, other: Self) -> None:
        self._tables = [a + b for a, b in zip(self._tables, other._tables, strict=True)]
