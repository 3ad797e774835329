"""`Sequences`, what every model reads: made from lists, arrays and tables, and turned into them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import chain
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sojourn.data import adapters
from sojourn.data.clock import Clock, common_clock, text_of
from sojourn.data.columns import Column, choose_columns
from sojourn.data.measurements import as_frame, column_names
from sojourn.data.ragged import Ragged
from sojourn.data.times import length_of_time, read_times
from sojourn.errors import SojournError


@dataclass(frozen=True, eq=False, repr=False)
class Sequences(Ragged):
    """Ragged sequences of strings or of integers, as codes into a sorted vocabulary.

    Use `from_lists`, `from_array`, `from_stacked`, `from_columns` or `from_pandas`; the constructor
    checks its arrays and makes its views of them read-only.

    Parameters
    ----------
    codes : int32 array (n_total,)
        Position of each symbol in the vocabulary, -1 where it is missing.
    offsets : int64 array (n + 1,)
        Start of each sequence in `codes`, and the end of the last one.
    vocabulary : int64 or str array (n_symbols,)
        The symbols, sorted, each once.
    ids : int64 or str array (n,)
        A name for each sequence.
    times : float64 or datetime64 array (n_total,), optional
        When each symbol occurred, in order within a sequence; dates are in UTC.
    clock : Clock, optional
        What made one symbol per step of time, see `resample`; so models know what a step lasts.

    Examples
    --------
    >>> seqs = Sequences.from_lists([["climb", "climb", "level"], ["level", None]])
    >>> seqs
    Sequences(2 sequences of 2 to 3, 5 symbols (1 missing) over 2: 'climb', 'level')
    >>> seqs.codes, seqs[1]
    (array([ 0,  0,  1,  1, -1], dtype=int32), ['level', None])
    """

    @classmethod
    def from_lists(
        cls,
        lists: Any,
        ids: Any = None,
        vocabulary: Any = None,
        unknown: str = "error",
        empty: bool = False,
    ) -> Sequences:
        """Sequences from a list of lists (or arrays, or columns) of symbols.

        Parameters
        ----------
        lists : iterable of sequences
            Strings or integers of 0 and more, not mixed; None where a symbol is missing.
        ids : column of str or int, optional
            A name for each sequence, each once; 0, 1, … if not given.
        vocabulary : column of str or int, optional
            The symbols there can be; those that occur if not given.
        unknown : {"error", "missing", "add"}
            What a symbol outside a given vocabulary is; "add" adds it to the vocabulary.
        empty : bool
            Whether a sequence may have no symbols, as for a model with ``ends=True``.

        Examples
        --------
        >>> Sequences.from_lists([[3, 7], [7, None, 3]], ids=["a", "b"]).ids
        array(['a', 'b'], dtype='<U1')
        """
        if not adapters.is_collection(lists):
            raise SojournError(
                f"expected a list of sequences, got {type(lists).__name__}; "
                f"where X is one sequence pass [X]"
            )
        rows = list(lists)
        ids = adapters.read_ids(ids, len(rows))
        for i, row in enumerate(rows):
            if type(row) is not list and type(row) is not tuple:
                rows[i] = adapters.read_row(row, adapters.name_of(i, ids))
        lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
        adapters.check_lengths(lengths, ids, empty)
        arrays = rows and all(isinstance(row, np.ndarray) for row in rows)
        flat: Any = np.concatenate(rows) if arrays else list(chain.from_iterable(rows))
        return cls._encode(flat, lengths, ids, vocabulary, unknown)

    @classmethod
    def from_array(
        cls, X: Any, ids: Any = None, vocabulary: Any = None, unknown: str = "error"
    ) -> Sequences:
        """Sequences of equal length, the rows of a two-dimensional array.

        Parameters
        ----------
        X : array (n, length)
            Integers of 0 and more, or strings; a missing symbol is a masked entry.
        ids, vocabulary, unknown
            As in `from_lists`.

        Examples
        --------
        >>> Sequences.from_array(np.array([[0, 5], [5, 5]])).to_lists()
        [[0, 5], [5, 5]]
        """
        # Left to itself, NumPy would turn a list of mixed lists into strings without a word.
        if not isinstance(X, np.ndarray):
            X = np.asarray(X, dtype=None if hasattr(X, "__array__") else object)
        if X.ndim != 2:
            raise SojournError(
                f"expected a two-dimensional array, one sequence per row, got shape {X.shape}; "
                f"pass [X] for one sequence, or lengths= for several laid end to end"
            )
        if X.shape[1] == 0:
            raise SojournError(
                f"the sequences are empty: found array with 0 feature(s) (shape={X.shape}) while "
                f"a minimum of 1 is required."
            )
        ids, lengths = adapters.read_ids(ids, len(X)), np.full(len(X), X.shape[1], dtype=np.int64)
        return cls._encode(X.reshape(-1), lengths, ids, vocabulary, unknown)

    @classmethod
    def from_stacked(
        cls,
        X: Any,
        lengths: Any,
        ids: Any = None,
        vocabulary: Any = None,
        unknown: str = "error",
        empty: bool = False,
    ) -> Sequences:
        """Sequences laid end to end in one column, with the length of each.

        Parameters
        ----------
        X : column (n_total,) or array (n_total, 1)
            Symbols, as in `from_lists`; a missing one is None, null or a masked entry.
        lengths : column of int (n,)
            Lengths that add up to n_total.
        ids, vocabulary, unknown, empty
            As in `from_lists`.

        Examples
        --------
        >>> Sequences.from_stacked(np.array([[4], [4], [6]]), lengths=[2, 1]).to_lists()
        [[4, 4], [6]]
        """
        lengths = adapters.read_integers(lengths, "lengths")
        ids = adapters.read_ids(ids, len(lengths))
        adapters.check_lengths(lengths, ids, empty)
        if getattr(X, "shape", (0,))[1:] == (1,):
            X = (X if isinstance(X, np.ndarray) else np.asarray(X)).reshape(-1)
        return cls._encode(X, lengths, ids, vocabulary, unknown)

    @classmethod
    def from_columns(
        cls,
        symbol: Any,
        id: Any = None,
        vocabulary: Any = None,
        unknown: str = "error",
        time: Any = None,
    ) -> Sequences:
        """Sequences from columns of a table: one symbol per row, and the id of its sequence.

        Parameters
        ----------
        symbol : column of str or int
            A list, an array, or a column of pandas, polars or Arrow; null where missing.
        id : column of str or int, optional
            The sequence that each row belongs to. Rows of one id need not be adjacent; they keep
            their order. Without it all rows are one sequence.
        vocabulary, unknown
            As in `from_lists`.
        time : column of dates or numbers, optional
            Rows of a sequence are sorted by it, and the times are kept.

        Returns
        -------
        Sequences
            In the order in which the ids first appear.

        Examples
        --------
        >>> seqs = Sequences.from_columns(symbol=["a", "b", "c"], id=["y", "x", "y"])
        >>> seqs.ids.tolist(), seqs.to_lists()
        (['y', 'x'], [['a', 'c'], ['b']])
        """
        if id is None and time is None:
            return cls.from_lists([symbol], None, vocabulary, unknown)
        names, lengths, rows = adapters.group_rows(id, "the id column", len(symbol))
        if time is None:
            return cls._encode(symbol, lengths, names, vocabulary, unknown, rows)
        when = read_times(time, "the time column")
        if len(when) != lengths.sum():
            raise SojournError(f"there are {lengths.sum()} rows but {len(when)} times")
        rows = adapters.sort_by_time(rows, lengths, when)
        found = cls._encode(symbol, lengths, names, vocabulary, unknown, rows)
        return replace(found, times=when[rows])

    @classmethod
    def from_pandas(
        cls,
        table: Any,
        id: Column = None,
        time: Column = None,
        symbol: str | None = None,
        *,
        vocabulary: Any = None,
        unknown: str = "error",
    ) -> Sequences:
        """Sequences from a table with one row per event; `from_polars` is the same.

        Parameters
        ----------
        table : pandas or polars DataFrame, Arrow table, or pandas Series
            Of a Series the index has the ids; of a DataFrame named levels of it are columns.
        id, time, symbol : str, optional
            Names of columns, guessed from usual names if not given, as by `sojourn.read`;
            ``id=False`` makes all rows one sequence, ``time=False`` keeps their order.
        vocabulary, unknown
            As in `from_lists`.

        Examples
        --------
        >>> import pandas as pd
        >>> columns = {"flight": ["b", "a", "b"], "t": [2, 1, 1], "command": ["x", "y", "z"]}
        >>> seqs = Sequences.from_pandas(pd.DataFrame(columns))
        >>> seqs["b"], seqs.times
        (['z', 'x'], array([1., 2., 1.]))
        """
        table = as_frame(table)
        if not hasattr(table, "columns"):
            if not hasattr(table, "index"):
                raise SojournError(f"expected a DataFrame, got {type(table).__name__}")
            return cls.from_columns(table, np.asarray(table.index), vocabulary, unknown)
        names = column_names(table)
        lists = dict.fromkeys(names, False)
        columns, _ = choose_columns(names, lists.__getitem__, id, time, symbol, "the table")
        own, when, what = (None if name is None else table[name] for name in columns)
        return cls.from_columns(what, own, vocabulary, unknown, when)

    from_polars = from_pandas

    def to_pandas(self) -> Any:
        """A DataFrame with the columns of `to_columns`; an empty sequence has no rows in it."""
        import pandas as pd  # type: ignore[import-untyped]

        return pd.DataFrame(self.to_columns())

    def to_polars(self) -> Any:
        """A polars DataFrame with the columns of `to_columns`."""
        import polars as pl

        columns = self.to_columns()
        return pl.DataFrame(columns | {"symbol": columns["symbol"].tolist()})

    @classmethod
    def _encode(
        cls,
        column: Any,
        lengths: NDArray[np.int64],
        ids: NDArray[Any],
        vocabulary: Any,
        unknown: str,
        rows: NDArray[np.int64] | None = None,
    ) -> Sequences:
        """Code a column of symbols; `rows` puts its entries in the order of the sequences."""
        if len(lengths) == 0:
            raise SojournError("there are no sequences; expected at least 1")
        if hasattr(column, "__len__") and len(column) != lengths.sum():
            raise SojournError(
                f"the column holds {len(column)} symbols, but the sequences {lengths.sum()}; pass "
                f"an id for every row, or lengths that add up to the number of symbols"
            )
        offsets = adapters.offsets_of(lengths)
        place = in_order = adapters.place_of(offsets, ids)
        if rows is not None:
            place = lambda k: in_order(int(np.argmax(rows == k)))  # noqa: E731
        values, missing = adapters.read_column(column, place, least=0)
        symbols, codes = adapters.factorise(values)
        if missing is not None:
            present, codes = codes, np.full(missing.size, -1, dtype=np.int32)
            codes[~missing] = present
        if rows is not None:
            codes = codes[rows]
        if symbols.size == 0 and vocabulary is None:
            raise SojournError("every symbol is missing; pass vocabulary= to say what there can be")
        vocabulary = symbols if vocabulary is None else vocabulary
        return cls(codes, offsets, symbols, ids).recode(vocabulary, unknown)

    @classmethod
    def concatenate(cls, parts: Iterable[Sequences]) -> Sequences:
        """Sequences part after part; their vocabulary has all symbols of the parts.

        Ids stay as they are; times and clock are kept where all have them, two clocks refused.

        Examples
        --------
        >>> seqs = Sequences.from_lists([["a", "b"], ["b"]])
        >>> Sequences.concatenate([seqs[:1], Sequences.from_lists([["c"]], ids=[7])])
        Sequences(2 sequences of 1 to 2, 3 symbols over 3: 'a', 'b', 'c')
        """
        parts = list(parts)
        if not parts:
            raise SojournError("there is nothing to concatenate; expected at least one Sequences")
        symbols = parts[0].vocabulary
        if not all(np.array_equal(part.vocabulary, symbols) for part in parts):
            symbols = np.unique(np.concatenate([part.vocabulary for part in parts]))
            parts = [part.recode(symbols) for part in parts]
        lengths, codes, ids = (
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("lengths", "codes", "ids")
        )
        every_time = [part.times for part in parts if part.times is not None]
        alike = len({times.dtype.kind for times in every_time}) == 1
        times = np.concatenate(every_time) if alike and len(every_time) == len(parts) else None
        clock = common_clock(parts)
        return cls(codes, adapters.offsets_of(lengths), symbols, ids, times=times, clock=clock)

    @classmethod
    def concat(cls, parts: Iterable[Sequences]) -> Sequences:
        """`concatenate`, by its name in pandas and polars."""
        return cls.concatenate(parts)

    def resample(
        self,
        every: Any,
        fill: str = "hold",
        *,
        nothing: str | int = "nothing",
        max_gap: Any = None,
        gap: str = "split",
        zone: str | None = None,
    ) -> Sequences:
        """One symbol per step of a clock, from the step of the first event to that of the last.

        Parameters
        ----------
        every : str, number or timedelta
            What a step lasts: ``"1h"``, ``"15min"``, ``"1d"``, or a number of seconds; a number in
            the unit of the times where these are numbers. Steps begin at multiples of it (on the
            hour), days and weeks at midnight of the `zone`, UTC if there is none.
        fill : {"hold", "nothing", "missing", "commonest"}
            The symbol of a step. With ``"hold"`` it is that of the last event so far. With
            ``"nothing"`` and ``"missing"`` it is that of the last event in the step; a step without
            one gets the symbol `nothing`, or a missing one. With ``"commonest"`` it is the
            commonest in the step, of equally common ones the last; steps without an event hold.
        nothing : str or int
            The symbol of steps without an event, for ``fill="nothing"``.
        max_gap : str, number or timedelta, optional
            The longest time between two events that is filled.
        gap : {"split", "missing"}
            Whether a longer one splits the sequence, into ids such as "a.1" and "a.2", or the steps
            between are missing.
        zone : str, optional
            The time zone of days, such as ``"Europe/Amsterdam"``: a day is 23 or 25 hours long
            where clocks change.

        Examples
        --------
        >>> seqs = Sequences.from_columns(["on", "off", "on"], time=[0, 7, 31])
        >>> seqs.resample(10).to_lists(), seqs.resample(10, "nothing").to_lists()
        ([['off', 'off', 'off', 'on']], [['off', 'nothing', 'nothing', 'on']])
        """
        dated = self.times is None or self.times.dtype.kind == "M"
        every = str(length_of_time(every, "every", dated))
        if max_gap is not None:
            max_gap = str(length_of_time(max_gap, "max_gap", dated))
        return Clock(every, fill, nothing, max_gap, gap, zone).apply(self)

    def with_gaps(self, gaps: Iterable[Any]) -> Sequences:
        """Symbols that name the time to the next event too, in the stretches between `gaps`.

        The last event of a sequence, which no other follows, keeps its symbol.

        Parameters
        ----------
        gaps : list of str, number or timedelta
            Bounds that increase, such as ``["1min", "1h", "1d"]`` or, in seconds or the unit of
            the times, ``[60, 3600, 86400]``.

        Examples
        --------
        >>> Sequences.from_columns(["a", "b", "a"], time=[0, 7, 99]).with_gaps([10, 60])[0]
        ['a <10', 'b >=60', 'a']
        """
        texts = (f"{gap:.15g}" if isinstance(gap, Real) else text_of(gap, "gaps") for gap in gaps)
        return Clock(gaps=tuple(texts)).apply(self)
