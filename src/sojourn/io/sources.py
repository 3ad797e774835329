"""Sequences from files: all at once with `read`, partition by partition with `scan`.

pyarrow does the parsing. It is an extra (``sojourn[files]``) and imported when a file is read.
"""

from __future__ import annotations

import glob
import os
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from sojourn.checks import check_choice, optional, positive_int
from sojourn.data import adapters
from sojourn.data.clock import Clock
from sojourn.data.columns import Column
from sojourn.data.sequences import Sequences
from sojourn.data.signals import MEASURED
from sojourn.errors import SojournError
from sojourn.io.layout import ALL_ROWS, TEXT, Layout, Malformed, Span, format_of

if TYPE_CHECKING:
    from sojourn.io.formats import Survey

FilePath = str | os.PathLike[str]

ROWS_PER_PARTITION = 1 << 20
PYARROW = ("pyarrow", "reading files", "files")


class SkippedRowsWarning(UserWarning):
    """Rows that were malformed were left out, as `on_error="skip"` asks."""


def read(
    path: FilePath,
    id: Column = None,
    time: Column = None,
    symbol: str | None = None,
    *,
    format: str | None = None,
    delimiter: str | None = None,
    missing: Iterable[str] = ("",),
    on_error: str = "raise",
    vocabulary: Any = None,
    unknown: str = "error",
    max_expansion: float = 200.0,
    quiet: bool = False,
    empty: bool = False,
    every: Any = None,
    fill: str = "hold",
    max_gap: Any = None,
    zone: str | None = None,
    gaps: Iterable[Any] | None = None,
    lifecycle: str | None = None,
    values: Iterable[str] | str | None = None,
) -> Sequences:
    r"""Sequences from one file.

    Parameters
    ----------
    path : str or path
        A table with one row per event (CSV, TSV, JSON lines, Parquet, Feather or Arrow); a table
        with one complete sequence per row, as a list (the last four); an event log in XES; a text
        file with one sequence per line; or a CSV file of integers without a header, one sequence
        per row. Text may be compressed: .gz, .bz2, .xz.
    id, time, symbol : str, optional
        Columns with the id of the sequence, the time and the symbol. Columns that are not given are
        guessed from their names, and the guess is printed to standard error. ``id=False`` makes the
        file one sequence, ``time=False`` keeps the order of the file.
    format : {"csv", "tsv", "matrix", "lines", "jsonl", "parquet", "arrow", "xes"}, optional
        Inferred from the ending of the file name if not given.
    delimiter : str, optional
        The character between fields; for ``"lines"`` any white space if not given.
    missing : iterable of str
        How a missing symbol is written in text. In the other formats it is null.
    on_error : {"raise", "skip"}
        What to do about a malformed row (too few fields, not UTF-8, without id or time): an error
        with the line, or leave it out and warn (`SkippedRowsWarning`) how many were left out.
    vocabulary, unknown
        As in `Sequences.from_lists`. Where the vocabulary is strings, text stays text.
    max_expansion : float
        How many times the size of a compressed file its content may have, above 64 MiB.
    quiet : bool
        Whether to print no guesses.
    empty : bool
        Whether a blank line of text, or an empty list, is a sequence without symbols, for a model
        with ``ends=True``; otherwise it is malformed.
    every, fill, max_gap, zone
        Make one symbol per step of a clock, ``every="1h"``, as `Sequences.resample` does; the zone
        is also that of dates that have none. ``every`` may be the `clock_` of a fitted model.
    gaps
        Make the time to the next event part of the symbol, as `Sequences.with_gaps` does.
    lifecycle : str, optional
        Which events of a log to keep by their ``lifecycle:transition``, such as ``"complete"``; or
        ``"all"``, which adds it to the symbol, as in ``"pay+complete"``.
    values : list of str, optional
        Columns with measurements, of a CSV, TSV, Parquet or Arrow file: the result is `Signals`.

    Returns
    -------
    Sequences
        In the order of their ids, each in the order of its times, which it keeps; rows with equal
        times keep the order of the file. A column of text becomes integers if all of its entries
        are integers.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "events.csv")
    ...     _ = path.write_text("flight,seconds,command\na,2,level\na,1,climb\nb,1,climb\n")
    ...     seqs = read(path, id="flight", time="seconds", symbol="command")
    >>> seqs.ids.tolist(), seqs.to_lists()
    (['a', 'b'], [['climb', 'level'], ['climb']])
    """
    if not isinstance(path, str | os.PathLike):
        raise SojournError(
            f"path is {type(path).__name__}; expected the name of a file. Tables in memory: "
            f"Sequences.from_pandas, from_polars, and Signals.from_table for measurements"
        )
    how = (delimiter, missing, on_error, max_expansion, quiet, empty)
    clock = Clock.of(every, fill, max_gap, zone, gaps)
    layout = _layout(os.fspath(path), format, (id, time, symbol), *how, clock, lifecycle, values)
    layout = replace(layout, times=True)
    return Partition(os.fspath(path), layout, vocabulary=vocabulary, unknown=unknown).read()


def scan(
    paths: FilePath | Iterable[FilePath],
    id: Column = None,
    time: Column = None,
    symbol: str | None = None,
    *,
    format: str | None = None,
    delimiter: str | None = None,
    missing: Iterable[str] = ("",),
    on_error: str = "raise",
    vocabulary: Any = None,
    unknown: str = "error",
    max_expansion: float = 200.0,
    quiet: bool = False,
    empty: bool = False,
    every: Any = None,
    fill: str = "hold",
    max_gap: Any = None,
    zone: str | None = None,
    gaps: Iterable[Any] | None = None,
    lifecycle: str | None = None,
    values: Iterable[str] | str | None = None,
    rows_per_partition: int | None = ROWS_PER_PARTITION,
) -> Scan:
    """Sequences from many or large files, read partition by partition when they are needed.

    Each file must contain complete sequences. A Parquet or Arrow file that is larger than a
    partition must be sorted by id, and is cut between ids; a file with one sequence per line is cut
    between lines; any other file is one partition. All files have the format and columns of the
    first.

    Parameters
    ----------
    paths : str, path, or iterable of them
        A pattern such as ``"events/*.parquet"``, or the files.
    id, time, symbol, format, delimiter, missing, on_error, vocabulary, unknown
        As in `read`.
    max_expansion, quiet, empty, every, fill, max_gap, zone, gaps, lifecycle, values
        As in `read`; times are not kept.
    rows_per_partition : int or None
        Approximate number of symbols per partition; None makes each file one partition.

    Returns
    -------
    Scan
        Iterating over it gives one `Sequences` per partition, all with one vocabulary unless
        ``unknown="add"``. If it is not given, finding it takes one pass over all symbols.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name, text in (("a.txt", "climb level"), ("b.txt", "level level descend")):
    ...         _ = Path(folder, name).write_text(text)
    ...     parts = scan(Path(folder, "*.txt"))
    ...     [(seqs.ids.tolist(), seqs.n_symbols, seqs.to_lists()) for seqs in parts]
    [([0], 3, [['climb', 'level']]), ([1], 3, [['level', 'level', 'descend']])]
    """
    if rows_per_partition is not None:
        positive_int("rows_per_partition", rows_per_partition)
    files = _listed(paths)
    how = (delimiter, missing, on_error, max_expansion, quiet, empty)
    clock = Clock.of(every, fill, max_gap, zone, gaps)
    layout = _layout(files[0], format, (id, time, symbol), *how, clock, lifecycle, values)
    vocabulary = MEASURED if layout.values else vocabulary
    return Scan(files, layout, vocabulary, unknown, rows_per_partition)


@dataclass(frozen=True, eq=False)
class Partition:
    """Complete sequences of one file that are not read yet: what to read, and no data."""

    path: str  # the file
    layout: Layout  # its format and columns
    # row groups of a Parquet file or batches of an Arrow file, ``first`` to ``last - 1``; or
    # bytes of a text file. All of the file if not given
    pieces: tuple[int, int] | None = None
    span: Span = ALL_ROWS  # the ids to keep of those in the pieces
    line: int = 1  # number of the first line, in a text file
    vocabulary: Any = field(default=None, repr=False)  # as in `Sequences.from_lists`
    unknown: str = "error"  # as in `Sequences.from_lists`
    text_ids: bool | None = None  # whether ids that are text stay text
    number: int = 0  # its place among the partitions of a scan
    begin: int = 0  # number of symbols before it, once that is known
    size: int | None = None  # number of symbols in it, once that is known
    then: Any = field(default=None, repr=False)  # what the sequences are made into, if not None

    def __str__(self) -> str:
        where = f", pieces {self.pieces[0]} to {self.pieces[1] - 1}" if self.pieces else ""
        upto = f", ids up to {self.span.upto!r}" if self.span.upto is not None else ""
        return f"{self.path}{where}{upto}"

    def read(self) -> Sequences:
        """The sequences, read now."""
        seqs, malformed = self.load()
        if malformed.count:
            warnings.warn(str(malformed), SkippedRowsWarning, stacklevel=3)
        return seqs

    def load(self) -> tuple[Sequences, Malformed]:
        """The sequences, and the malformed rows that were left out of them."""
        optional(*PYARROW)
        from sojourn.io.formats import rows_of
        from sojourn.io.gather import gather
        from sojourn.io.signals import gather_signals

        malformed = Malformed(self.path, self.layout.on_error)
        sequences: Sequences = (
            gather_signals(self, malformed)
            if self.layout.values
            else gather(self, partial(rows_of, self), malformed)
        )
        if self.size not in (None, sequences.n_total):
            raise SojournError(
                f"{self} holds {sequences.n_total} symbols, but held {self.size} when it was first "
                f"read; files must not change during a fit"
            )
        return sequences if self.then is None else self.then(sequences), malformed


@dataclass(frozen=True, eq=False)
class Scan:
    """Sequences of many files, in partitions that are read one at a time; made by `scan`.

    Parameters
    ----------
    files : tuple of str
        The files, in order.
    layout : Layout
        Their format and columns.
    given : column, optional
        The vocabulary, if the caller gave it.
    unknown : {"error", "missing", "add"}
        How a symbol outside the vocabulary is treated; "add" adds it to that of its partition.
    rows_per_partition : int or None
        Approximate number of symbols per partition.

    Examples
    --------
    >>> Scan(("a.txt", "b.txt"), Layout("lines")).files
    ('a.txt', 'b.txt')
    """

    files: tuple[str, ...]
    layout: Layout
    given: Any = field(default=None, repr=False)
    unknown: str = "error"
    rows_per_partition: int | None = ROWS_PER_PARTITION

    @cached_property
    def partitions(self) -> tuple[Partition, ...]:
        """What to read for each partition; small, and can be sent to other machines."""
        vocabulary, unknown = self.vocabulary, self.unknown
        text_ids = self._survey.text_ids if self.layout.format in TEXT else None
        return tuple(
            replace(part, vocabulary=vocabulary, unknown=unknown, text_ids=text_ids, number=i)
            for i, part in enumerate(self._survey.partitions)
        )

    @cached_property
    def vocabulary(self) -> NDArray[Any]:
        """The symbols of all files, sorted; or those given."""
        if self.given is not None:
            return adapters.read_distinct(self.given, "the vocabulary", least=0)[0]
        found = self._survey.vocabulary()
        return found if self.layout.clock is None else self.layout.clock.vocabulary(found)

    @cached_property
    def _survey(self) -> Survey:
        optional(*PYARROW)
        from sojourn.io.formats import Survey

        survey = Survey(self.layout, self.rows_per_partition)
        for path in self.files:
            survey.add(path, symbols=self.given is None)
        return survey

    def __len__(self) -> int:
        return len(self.partitions)

    def __iter__(self) -> Iterator[Sequences]:
        skipped = []
        for partition in self.partitions:
            seqs, malformed = partition.load()
            if malformed.count:
                skipped.append(malformed)
            yield seqs
        if skipped:
            warn_skipped(skipped)


def warn_skipped(skipped: Sequence[Malformed]) -> None:
    """Warn of the malformed rows that were left out of one partition or more."""
    total, others = sum(rows.count for rows in skipped), len(skipped) - 1
    more = f"; {total - skipped[0].count} in {others} more partitions" if others else ""
    warnings.warn(f"{skipped[0]}{more}", SkippedRowsWarning, stacklevel=3)


def _layout(
    path: str,
    format: str | None,
    columns: tuple[Column, Column, str | None],
    delimiter: str | None,
    missing: Iterable[str],
    on_error: str,
    max_expansion: float,
    quiet: bool,
    empty: bool,
    clock: Clock | None,
    lifecycle: str | None,
    values: Iterable[str] | str | None,
) -> Layout:
    """The layout of a file; what had to be guessed is printed."""
    check_choice("on_error", on_error, ("raise", "skip"))
    if delimiter is not None and (len(delimiter.encode()) != 1 or delimiter in '"\r\n'):
        raise SojournError(f"delimiter is {delimiter!r}; expected one ASCII character, as ',' is")
    optional(*PYARROW)
    from sojourn.io.formats import resolve

    layout = Layout(
        format_of(path, format),
        delimiter=delimiter,
        missing=(missing,) if isinstance(missing, str) else tuple(missing),
        on_error=on_error,
        max_expansion=max_expansion,
        empty=empty,
        clock=clock,
        transition=lifecycle,
    )
    measured = (values,) if isinstance(values, str) else tuple(values or ())
    if measured:
        if layout.format not in ("csv", "tsv", "parquet", "arrow") or columns[2] or clock:
            raise SojournError(
                f"{path}: values= are columns of measurements in a CSV, TSV, Parquet or Arrow "
                f"file; leave symbol=, every= and gaps= out"
            )
        columns, layout = (*columns[:2], measured[0]), replace(layout, values=measured)
    layout, guesses = resolve(path, layout, *columns, format_given=format is not None)
    if clock is not None and layout.time is None:
        raise SojournError(f"{path}: every= and gaps= need times; pass time= the column with them")
    if guesses and not quiet:
        print(f"sojourn: {path}: guessed {', '.join(guesses)}", file=sys.stderr)
    return layout


def _listed(paths: FilePath | Iterable[FilePath]) -> tuple[str, ...]:
    """The files that match a pattern, sorted, or those given."""
    if not isinstance(paths, str | os.PathLike):
        files = tuple(os.fspath(path) for path in paths)
        if not files:
            raise SojournError("there are no files to scan; expected at least one")
        return files
    pattern = os.fspath(paths)
    files = (pattern,) if os.path.exists(pattern) else tuple(sorted(glob.glob(pattern)))
    if not files:
        raise SojournError(f"no file matches {pattern!r}; the folder is {os.getcwd()!r}")
    return files
