"""Sequences of measurements: one row of numbers per step, one column per channel."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sojourn.checks import LARGEST
from sojourn.data import adapters
from sojourn.data.columns import Column, id_among, listed
from sojourn.data.measurements import (
    as_frame,
    channel_names,
    column_names,
    counted,
    may_be_ids,
    read_channel,
    read_table,
)
from sojourn.data.sequences import Sequences
from sojourn.data.times import read_times
from sojourn.errors import SojournError

Floats = NDArray[np.float64]
Categories = Mapping[str, NDArray[Any]]

# A step has no symbol, only values: the code of a step that has some.
MEASURED = np.array(["measured"])


@dataclass(frozen=True, eq=False, repr=False)
class Signals(Sequences):
    """Ragged sequences of measurements in named channels; NaN is missing, in its channel only.

    Use `from_arrays`, `from_stacked` or `from_table`. As a `Sequences` it has one symbol, that a
    step was measured; a step at which every channel is missing is a missing one.

    Parameters
    ----------
    codes, offsets, vocabulary, ids
        As in `Sequences`.
    values : float64 array (n_total, n_channels)
        The measurements of all sequences, end to end.
    channels : tuple of str
        A name for each column.
    categories : mapping from channel to array
        Of channels that hold symbols: what their values 0, 1, … stand for.

    Examples
    --------
    >>> signals = Signals.from_arrays([[[0.5, 10.0], [0.7, np.nan]], [[0.1, 12.0]]])
    >>> signals
    Signals(2 sequences of 1 to 2, 3 steps of 2 channels: 'channel 0', 'channel 1')
    >>> signals[0]
    array([[ 0.5, 10. ],
           [ 0.7,  nan]])
    """

    values: Floats = field(default_factory=lambda: np.empty((0, 0)))
    channels: tuple[str, ...] = ()
    categories: Categories = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        values = adapters.read_only(np.asarray(self.values, dtype=np.float64))
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "channels", tuple(map(str, self.channels)))
        if values.shape != (self.n_total, len(self.channels)) or not self.channels:
            raise SojournError(
                f"values have shape {values.shape} for {self.n_total} steps and "
                f"{len(self.channels)} channels; expected one row per step, one column per channel"
            )
        if len(set(self.channels)) < len(self.channels):
            raise SojournError(f"a channel is named twice: {', '.join(self.channels)}")

    @classmethod
    def of(
        cls,
        values: Floats,
        offsets: NDArray[np.int64],
        ids: NDArray[Any],
        channels: Sequence[str],
        categories: Categories | None = None,
    ) -> Signals:
        """Signals of values that are checked here to be finite or NaN."""
        place = adapters.place_of(offsets, ids)
        if (np.abs(values) > LARGEST).any():
            k, j = (int(i) for i in np.argwhere(np.abs(values) > LARGEST)[0])
            owner, position = place(k)
            raise SojournError(
                f"{owner} has {values[k, j]} in channel {channels[j]!r} at position {position}; "
                f"expected numbers up to {LARGEST:g}, or NaN where one is missing"
            )
        codes = np.where(np.isnan(values).all(axis=1), -1, 0).astype(np.int32)
        known = {} if categories is None else dict(categories)
        return cls(codes, offsets, MEASURED, ids, values, tuple(channels), known)

    @classmethod
    def from_arrays(cls, arrays: Any, ids: Any = None, channels: Any = None) -> Signals:
        """Signals from a list of arrays (length, n_channels), or an array (n, length, n_channels).

        Parameters
        ----------
        arrays : iterable of arrays (length, n_channels)
            A one-dimensional array is one channel.
        ids : column of str or int, optional
            A name for each sequence, each once; 0, 1, … if not given.
        channels : list of str, optional
            A name for each channel; those of data frames, or "channel 0", … if not given.

        Examples
        --------
        >>> Signals.from_arrays([np.array([0.5, 0.7]), np.array([0.1])], channels=["load"])
        Signals(2 sequences of 1 to 2, 3 steps of 1 channel: 'load')
        """
        if not adapters.is_collection(arrays):
            raise SojournError(
                f"expected a list of arrays, got {type(arrays).__name__}; where X is one sequence "
                f"pass [X]"
            )
        rows = list(arrays)
        ids = adapters.read_ids(ids, len(rows))
        if not rows:
            raise SojournError("there are no sequences; expected at least 1")
        tables = [read_table(row, adapters.name_of(i, ids)) for i, row in enumerate(rows)]
        widths = {table.shape[1]: i for i, table in reversed(list(enumerate(tables)))}
        if len(widths) > 1:
            (a, i), (b, j), *_ = sorted(widths.items(), key=lambda item: item[1])
            raise SojournError(
                f"{adapters.name_of(i, ids)} has {counted(a)} and {adapters.name_of(j, ids)} has "
                f"{b}; expected the same channels in all, NaN where one is missing"
            )
        lengths = np.array([len(table) for table in tables], dtype=np.int64)
        adapters.check_lengths(lengths, ids)
        names = channel_names(channels, rows[0], tables[0].shape[1])
        return cls.of(np.concatenate(tables), adapters.offsets_of(lengths), ids, names)

    @classmethod
    def from_stacked(  # type: ignore[override]
        cls, X: Any, lengths: Any, ids: Any = None, channels: Any = None
    ) -> Signals:
        """Signals laid end to end in one table, with the length of each.

        Parameters
        ----------
        X : array (n_total, n_channels)
        lengths : column of int (n,)
            Lengths that add up to n_total.
        ids, channels
            As in `from_arrays`.

        Examples
        --------
        >>> Signals.from_stacked(np.arange(6.0).reshape(3, 2), lengths=[2, 1])[1]
        array([[4., 5.]])
        """
        lengths = adapters.read_integers(lengths, "lengths")
        ids = adapters.read_ids(ids, len(lengths))
        adapters.check_lengths(lengths, ids)
        values = read_table(X, "X")
        if len(values) != lengths.sum():
            raise SojournError(
                f"X has {len(values)} rows, but the lengths add up to {lengths.sum()}"
            )
        names = channel_names(channels, X, values.shape[1])
        return cls.of(values, adapters.offsets_of(lengths), ids, names)

    @classmethod
    def from_table(
        cls, table: Any, id: Column = None, time: Column = None, values: Any = None
    ) -> Signals:
        """Signals from a table of pandas, polars or Arrow: one row per step.

        Parameters
        ----------
        table : data frame, Arrow table, or dict of columns
            Named levels of a pandas index are columns.
        id : str or False
            Column with the sequence of each row; False makes all rows one sequence. It may be left
            out where no other column can have ids: numbers with fractions are channels.
        time : str, optional
            Column to sort each sequence by; without it rows keep their order.
        values : list of str, optional
            Columns that are channels; all others if not given. Columns of strings are symbols.

        Examples
        --------
        >>> table = {"engine": ["a", "a", "b"], "s": [2, 1, 1], "load": [0.5, 0.7, 0.1]}
        >>> Signals.from_table(table, id="engine", time="s")[0]
        array([[0.7],
               [0.5]])
        """
        table = as_frame(table)
        everything = list(table) if isinstance(table, Mapping) else column_names(table)
        wanted = [values] if isinstance(values, str) else values
        names = [n for n in everything if n not in (id, time)] if wanted is None else list(wanted)
        if not names:
            raise SojournError("there are no channels; name the columns in values=")
        if wanted is None:
            _check_not_ids(names, id, time)
        columns = [adapters.column_of(table, name) for name in names]
        _check_roles(table, everything, names, wanted is None, (id, time))
        id, time = id or None, time or None
        own = None if id is None else adapters.column_of(table, id)
        used = [*names, *filter(None, (id, time))]
        sizes = {len(adapters.column_of(table, name)) for name in used}
        if len(sizes) > 1:
            raise SojournError(f"columns have {sorted(sizes)} rows; expected as many in all")
        ids, lengths, rows = adapters.group_rows(own, f"column {id!r}", len(columns[0]))
        adapters.check_lengths(lengths, ids)
        if time is not None:
            when = adapters.column_of(table, time)
            times = np.asarray(when)
            missing = np.ma.is_masked(when) or (times != times).any()
            if missing or times.dtype.kind not in "iuM":
                times = read_times(when, f"column {time!r}")
            rows = adapters.sort_by_time(rows, lengths, times)
        read = [read_channel(column, name) for column, name in zip(columns, names, strict=True)]
        of_names = zip(names, read, strict=True)
        categories = {name: known for name, (_, known) in of_names if known is not None}
        stacked = np.stack([column for column, _ in read], axis=1)[rows]
        return cls.of(stacked, adapters.offsets_of(lengths), ids, names, categories)

    from_pandas = from_polars = from_table  # type: ignore[assignment]  # as of Sequences

    @classmethod
    def concatenate(
        cls, parts: Iterable[Sequences], categories: Categories | None = None
    ) -> Signals:
        """Signals of the same channels, part after part, with the ids that they have."""
        signals: list[Any] = list(parts)
        if not signals or not all(isinstance(part, Signals) for part in signals):
            raise SojournError("some parts are no Signals; expected measurements in all of them")
        known = signals[0].categories if categories is None else categories
        names = signals[0].channels
        lengths = np.concatenate([part.lengths for part in signals])
        ids = np.concatenate([part.ids for part in signals])
        values = np.concatenate([part.taking(names, known).values for part in signals])
        return cls.of(values, adapters.offsets_of(lengths), ids, names, known)

    def taking(
        self, channels: Sequence[str], categories: Categories | None = None, unknown: str = "error"
    ) -> Signals:
        """These channels, in this order, their symbols as codes into these categories."""
        for name in channels:
            if name not in self.channels:
                raise SojournError(
                    f"there is no channel {name!r}; there are {', '.join(map(repr, self.channels))}"
                )
        at = [self.channels.index(name) for name in channels]
        known = self.categories if categories is None else categories
        same = all(_same(known.get(name), self.categories.get(name)) for name in channels)
        if list(channels) == list(self.channels) and same:
            return self
        values = self.values[:, at]
        for name in set(self.categories) & set(channels) - set(known):
            raise SojournError(
                f"channel {name!r} holds strings such as {self.categories[name][0].item()!r}; "
                f"expected numbers"
            )
        for j, name in enumerate(channels):
            if name in known:
                values[:, j] = self._recoded(name, known[name], unknown)
        codes = np.where(np.isnan(values).all(axis=1), -1, 0).astype(np.int32)
        kept = {name: known[name] for name in channels if name in known}
        return replace(self, codes=codes, values=values, channels=tuple(channels), categories=kept)

    def _recoded(self, name: str, new: NDArray[Any], unknown: str) -> Floats:
        """A channel of symbols, or of numbers that are written alike, as codes into these."""
        column = self.values[:, self.channels.index(name)].copy()
        there = ~np.isnan(column)
        distinct, own = np.unique(column[there], return_inverse=True)
        symbols = [f"{number:.15g}" for number in distinct.tolist()]
        if name in self.categories:
            symbols = [str(self.categories[name][int(code)]) for code in distinct.tolist()]
        code_of = {str(symbol): code for code, symbol in enumerate(new.tolist())}
        if unknown != "missing" and (absent := [s for s in symbols if s not in code_of]):
            raise SojournError(
                f"channel {name!r} has symbol {absent[0]!r}, which the model has "
                f"not seen; pass unknown='missing' to treat it as not seen, or refit"
            )
        column[there] = np.array([code_of.get(s, np.nan) for s in symbols])[own]
        return column

    def __iter__(self) -> Iterator[Any]:
        for start, stop in pairwise(self.offsets.tolist()):
            yield self.values[start:stop]

    def _taken(self, at: Any, offsets: NDArray[np.int64], ids: NDArray[Any]) -> Signals:
        times = None if self.times is None else self.times[at]
        codes, values = self.codes[at], self.values[at]
        return replace(self, codes=codes, offsets=offsets, ids=ids, values=values, times=times)

    def __repr__(self) -> str:
        low, high = (self.lengths.min(), self.lengths.max()) if len(self) else (0, 0)
        size = f"{low}" if low == high else f"{low} to {high}"
        shown = ", ".join(map(repr, self.channels[:6])) + ", …" * (len(self.channels) > 6)
        n = len(self)
        return (
            f"Signals({n} sequence{'s' * (n != 1)} of {size}, {self.n_total} steps of "
            f"{counted(len(self.channels))}: {shown})"
        )


def _check_not_ids(names: list[str], id: Column, time: Column) -> None:
    """Raise where a column that nobody named as a channel looks like ids or times."""
    ids = id_among(names) if id is None else None
    times = [n for n in names if time is None and n.lower() in ("time", "timestamp", "datetime")]
    for role, name in (("id", ids), ("time", times[0] if times else None)):
        if name is not None:
            raise SojournError(
                f"column {name!r} looks like {role}s, not like a channel; pass {role}={name!r}, or "
                f"name the channels in values="
            )


def _check_roles(
    table: Any, everything: list[str], names: list[str], guessed: bool, given: tuple[Column, Column]
) -> None:
    """Raise where columns that nobody named may have ids, so that all rows would be one sequence.

    Channels are guessed, or nobody knows what the other columns are.
    """
    unnamed = names if guessed else [n for n in everything if n not in (*names, *given)]
    if given[0] is not None or (guessed and len(unnamed) == 1):
        return
    found = [n for n in unnamed if may_be_ids(adapters.column_of(table, n), guessed)]
    if found:
        raise SojournError(
            f"cannot guess whether {listed(found)} {'has' if len(found) == 1 else 'have'} the ids "
            f"of the sequences, times or neither; pass id= and time=, or id=False if all rows are "
            f"one sequence{', or name the channels in values=' * guessed}"
        )


def _same(a: NDArray[Any] | None, b: NDArray[Any] | None) -> bool:
    return a is b or (a is not None and b is not None and np.array_equal(a, b))
