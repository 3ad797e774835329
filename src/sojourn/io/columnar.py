"""Rows of Parquet and Arrow files, and the pieces that such files are written in.

A piece is a row group or a record batch. Where a file is sorted by id, partitions of whole
sequences can be cut from its pieces by their least and greatest ids alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet
from numpy.typing import NDArray

from sojourn.errors import SojournError
from sojourn.io.arrow_codes import distinct_values, is_list, to_arrow, to_numpy
from sojourn.io.gather import Rows, check_type
from sojourn.io.layout import Layout, Span, check_column
from sojourn.io.text import Expansion, check_path
from sojourn.io.times import is_time
from sojourn.storage.atomic import atomic_write

BATCH_ROWS = 1 << 18


def open_table(path: str, layout: Layout) -> TableFile:
    """A Parquet or Arrow file, its columns checked against the layout."""
    check_path(path)
    with arrow_errors(path):
        kind = ParquetFile if layout.format == "parquet" else ArrowFile
        file: TableFile = kind(path, layout)
    names = file.schema.names
    for name in layout.wanted:
        check_column(name, names, path)
        type = file.schema.field(name).type
        if name in layout.values:
            continue  # any type; `signals` reads them
        if name != layout.time:
            check_type(type, name, "id" if name == layout.id else "symbol", path)
        elif not is_time(type):
            raise SojournError(
                f"{path}: the time column {name!r} has type {type}; expected numbers or dates"
            )
    return file


@contextmanager
def arrow_errors(path: str) -> Iterator[None]:
    """Errors of Arrow as errors that name the file."""
    try:
        yield
    except SojournError:
        raise
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # the file system's, which names the file
        raise SojournError(f"{path}: {error}") from None


class TableFile(ABC):
    """A file of columns, read piece by piece."""

    schema: Any

    def __init__(self, path: str, layout: Layout) -> None:
        self.path, self.layout = path, layout

    @abstractmethod
    def batches(self, pieces: range) -> Iterator[Any]:
        """Record batches of some pieces, with the columns of the layout."""

    @cached_property
    @abstractmethod
    def sizes(self) -> list[int]:
        """Number of rows of each piece."""

    @property
    def symbol_counts(self) -> list[int]:
        """Number of symbols in each piece."""
        return self.sizes

    def bounds(self, piece: int, exact: bool) -> tuple[Any, Any]:
        """The least id of a piece and the greatest, or at least what they lie between."""
        ids = distinct_values(
            batch.column(self.layout.id) for batch in self.batches(range(piece, piece + 1))
        )
        return (min(ids), max(ids)) if ids else (None, None)

    def rows(self, pieces: range, shared: bool = False) -> Iterator[Rows]:
        """Rows of some pieces; of the first without those that have no id, if it is shared."""
        watch = Expansion(self.path, self.layout.max_expansion)
        end = start = sum(self.sizes[: pieces.start])
        shared_end = start + self.sizes[pieces.start] if shared else 0
        with arrow_errors(self.path):
            for batch in self.batches(pieces):
                watch.add(batch.nbytes)
                number = np.arange(end, end + len(batch))
                end += len(batch)
                if shared and number.size and number[0] < shared_end:
                    there = to_numpy(batch.column(self.layout.id).is_valid())
                    keep = there | (number >= shared_end)
                    batch, number = batch.filter(to_arrow(keep)), number[keep]
                own = self.layout
                id, time, symbol, lifecycle = (
                    None if name is None else batch.column(name)
                    for name in (own.id, own.time, own.symbol, own.lifecycle)
                )
                yield Rows(symbol, id, time, number, partial(_row, number), lifecycle)


class ParquetFile(TableFile):
    """A Parquet file, in row groups."""

    def __init__(self, path: str, layout: Layout) -> None:
        super().__init__(path, layout)
        metadata = pa.parquet.read_metadata(path)
        leaves = [metadata.schema.column(i) for i in range(metadata.num_columns)]
        paths = [leaf.path for leaf in leaves]  # "name", or of lists "name.list.element"
        self.leaves = {
            name: [paths.index(name)]
            if name in paths
            else [i for i, path in enumerate(paths) if path.startswith(f"{name}.")]
            for name in layout.wanted
        }
        # Strings come as codes at once, none is made for each row; in lists Arrow cannot do that.
        text = [
            leaf.path
            for leaf in leaves
            if leaf.path in (layout.id, layout.symbol) and leaf.physical_type == "BYTE_ARRAY"
        ]
        self.file = pa.parquet.ParquetFile(
            path, metadata=metadata, read_dictionary=text, buffer_size=1 << 20
        )
        self.schema = self.file.schema_arrow

    @cached_property
    def sizes(self) -> list[int]:
        metadata = self.file.metadata
        return [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]

    @property
    def symbol_counts(self) -> list[int]:
        metadata, (leaf, *_) = self.file.metadata, self.leaves[self.layout.symbol or ""]
        groups = range(metadata.num_row_groups)
        return [metadata.row_group(i).column(leaf).num_values for i in groups]

    def batches(self, pieces: range) -> Iterator[Any]:
        watch = Expansion(self.path, self.layout.max_expansion)
        for i in pieces:
            group = self.file.metadata.row_group(i)
            for leaf in {leaf for leaves in self.leaves.values() for leaf in leaves}:
                watch.add(group.column(leaf).total_uncompressed_size)
        columns = list(self.layout.wanted)
        n_symbols, n_rows = sum(self.symbol_counts), sum(self.sizes)  # a row may be a sequence
        at_once = max(1, BATCH_ROWS * n_rows // max(n_symbols, n_rows, 1))
        # One thread is as fast here, and each more keeps memory of its own.
        yield from self.file.iter_batches(
            at_once, row_groups=list(pieces), columns=columns, use_threads=False
        )

    def bounds(self, piece: int, exact: bool) -> tuple[Any, Any]:
        leaf = self.leaves[self.layout.id or ""][0]
        statistics = self.file.metadata.row_group(piece).column(leaf).statistics
        if exact or statistics is None or not statistics.has_min_max:
            return super().bounds(piece, exact)
        return statistics.min, statistics.max


class ArrowFile(TableFile):
    """An Arrow file, Feather included, in record batches; or an Arrow stream, in one piece."""

    def __init__(self, path: str, layout: Layout) -> None:
        super().__init__(path, layout)
        with pa.OSFile(path) as source:
            reader, _ = self._reader(source, None)
            self.schema = reader.schema
        names = self.schema.names
        self.fields = [names.index(name) for name in layout.wanted if name in names]

    def batches(self, pieces: range) -> Iterator[Any]:
        with pa.OSFile(self.path) as source:
            reader, is_file = self._reader(source, self.fields)
            for batch in (reader.get_batch(i) for i in pieces) if is_file else reader:
                batch.validate(full=True)  # else a broken file could end the process
                for start in range(0, len(batch), BATCH_ROWS):
                    yield batch.slice(start, BATCH_ROWS)

    @cached_property
    def sizes(self) -> list[int]:
        with pa.OSFile(self.path) as source, arrow_errors(self.path):
            reader, is_file = self._reader(source, self.fields[:1])
            if not is_file:
                return [sum(map(len, reader))]
            return [len(reader.get_batch(i)) for i in range(reader.num_record_batches)]

    @staticmethod
    def _reader(source: Any, fields: list[int] | None) -> tuple[Any, bool]:
        options = pa.ipc.IpcReadOptions(included_fields=fields, use_threads=False)
        try:
            return pa.ipc.open_file(source, options=options), True
        except pa.ArrowInvalid:
            source.seek(0)
            return pa.ipc.open_stream(source, options=options), False


def _row(number: NDArray[np.int64], i: int) -> str:
    return f"row {number[i] + 1}"


def cut(file: TableFile, target: int) -> list[tuple[range, Span]]:
    """Partitions of whole sequences, of about `target` symbols each: pieces to read, ids to keep.

    A piece that holds the end of one partition and the start of the next is read for both.
    """
    counts = file.symbol_counts
    n = len(counts)
    whole = n <= 1 or sum(counts) <= target
    in_lists = is_list(file.schema.field(file.layout.symbol or "").type)
    if whole or not (in_lists or file.layout.id):
        return [(range(n), Span())]
    bounds = [] if in_lists else _bounds(file)
    parts: list[tuple[range, Span]] = []
    start, above = 0, None
    while start < n:
        stop, held = start, 0
        while stop < n and held < target:
            held += counts[stop]
            stop += 1
        if in_lists:  # a row is whole by itself
            parts.append((range(start, stop), Span()))
            start = stop
            continue
        upto = bounds[stop - 1][1]
        while stop < n and bounds[stop][0] == upto:
            stop += 1
        shared = bounds[stop - 1][1] != upto
        parts.append((range(start, stop), Span(above, upto if shared else None)))
        start, above = (stop - 1, upto) if shared else (stop, None)
    return parts


def _bounds(file: TableFile) -> list[tuple[Any, Any]]:
    """Least and greatest id of each piece, none below those before it."""
    bounds: list[tuple[Any, Any]] = []
    for exact in (False, True):  # some writers cut the texts that they note short
        with arrow_errors(file.path):
            bounds = [file.bounds(i, exact) for i in range(len(file.sizes))]
        last = next((low for low, _ in bounds if low is not None), 0)
        for i, (low, high) in enumerate(bounds):
            bounds[i] = (last, last) if low is None else (low, high)
            last = bounds[i][1]
        if all(high <= low for (_, high), (low, _) in pairwise(bounds)):
            return bounds
    i = next(i for i, ((_, high), (low, _)) in enumerate(pairwise(bounds)) if high > low)
    raise SojournError(
        f"{file.path} is not sorted by {file.layout.id!r}: piece {i} ends with {bounds[i][1]!r}, "
        f"piece {i + 1} begins with {bounds[i + 1][0]!r}; sort it, or pass rows_per_partition=None "
        f"to take each file as one partition"
    )


def write_parquet(path: str, columns: Mapping[str, Any]) -> None:
    """Columns of equal length as one Parquet file; a column of numbers and words becomes words."""

    def column(values: Any) -> Any:
        try:
            return pa.array(values)
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            return pa.array([str(value) for value in values])

    table = pa.table({name: column(values) for name, values in columns.items()})
    with atomic_write(path, "wb") as file:
        pa.parquet.write_table(table, file)
