"""Rows of text tables: a header line, then a row a line, with commas, tabs or other marks between.

Arrow parses a table block by block. A block that it refuses is parsed again by Python, which is
slow but knows the line of every record; so is a block whose line numbers are asked for.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from sojourn.errors import SojournError
from sojourn.io.gather import Rows
from sojourn.io.layout import Layout, Malformed
from sojourn.io.text import LINE_BYTES, Block, blocks, count_lines

CODED = pa.dictionary(pa.int32(), pa.string())
SENTINEL = "\x1f\x1f"  # a line of its own after a block, unless that ends within quotes


def header_of(path: str, format: str, delimiter: str | None) -> tuple[list[str], str]:
    """Names of a table's columns, and the character between them.

    Parameters
    ----------
    path : str
        A file with a header line.
    format : str
        "csv" or "tsv".
    delimiter : str, optional
        Where not given, a semicolon or a tab is taken if the header has no comma.
    """
    malformed = Malformed(path, "skip")  # only the header matters yet
    for block in blocks(path, malformed):
        if delimiter is None:
            first = block.data.splitlines()[0].decode()
            known = "\t" if format == "tsv" else ","
            delimiter = next((mark for mark in (known, ";", "\t") if mark in first), known)
        return _header(block, delimiter, path)[0], delimiter
    fault = f": {malformed.first}" if malformed.count else " is empty"
    raise SojournError(f"{path}{fault}; expected a header line with the names of the columns")


def _header(block: Block, delimiter: str, path: str) -> tuple[list[str], Block]:
    """Names of the columns, and the block without them."""
    if block.number(0) != 1:
        raise SojournError(f"{path}: line 1, the names of the columns, is not UTF-8 text")
    for size in (1 << 16, None):  # a few lines, which nearly always hold all of the header
        found = _records(Block(block.data[:size], 1, 0), delimiter)
        _, names = next(found, (0, [SENTINEL]))
        if SENTINEL not in "".join(names):
            break
    if SENTINEL in "".join(names):
        raise SojournError(f"{path}: line {block.line} opens a quoted name that is never closed")
    if isinstance(names, str):
        raise SojournError(f"{path}: line {block.line} {names}")
    return [name.strip() for name in names], block.from_line(next(found)[0])


def _records(block: Block, delimiter: str) -> Iterator[tuple[int, list[str] | str]]:
    """Records of a block, slowly: the line of each in the block, and its fields or its fault.

    The last one is no record but `SENTINEL`, by itself if the block does not end within quotes.
    """
    lines = [text.decode(errors="replace") for text in block.data.splitlines(keepends=True)]
    if lines and not lines[-1].endswith(("\n", "\r")):
        lines[-1] += "\n"
    reader = csv.reader([*lines, SENTINEL], delimiter=delimiter)
    while True:
        at = reader.line_num
        try:
            yield at, next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield at, f"cannot be parsed ({error})"


@dataclass(frozen=True)
class _Table:
    """Where a table's columns stand, and how they are written."""

    n: int
    id: int | None
    time: int | None
    symbol: int
    delimiter: str
    missing: tuple[str, ...]

    def fast(self, block: Block, time_type: Any = None) -> tuple[Rows, bool] | None:
        """Rows of a block by Arrow, and whether its quotes are closed; None if it has faults."""
        data = block.data
        quotes = b'"' in data
        if quotes:  # Arrow takes a quote that is never closed for a field to the end of the block
            fields = [SENTINEL if i == self.symbol else "" for i in range(self.n)]
            end = b"" if data.endswith((b"\n", b"\r")) else b"\n"
            data += end + self.delimiter.join(fields).encode() + b"\n"
        types = {str(i): CODED for i in (self.id, self.symbol) if i is not None}
        if time_type is not None:
            types[str(self.time)] = time_type
        wanted = [str(i) for i in (self.id, self.time, self.symbol) if i is not None]
        try:
            table = pa.csv.read_csv(
                pa.BufferReader(data),
                pa.csv.ReadOptions(
                    use_threads=False,
                    block_size=len(data) + 1,
                    column_names=[str(i) for i in range(self.n)],
                ),
                pa.csv.ParseOptions(
                    delimiter=self.delimiter,
                    newlines_in_values=quotes,
                    ignore_empty_lines=self.n > 1,  # a missing symbol where there is one column
                ),
                pa.csv.ConvertOptions(
                    check_utf8=False,  # done
                    column_types=types,
                    null_values=self.missing,
                    strings_can_be_null=True,
                    include_columns=wanted,
                ),
            )
        except pa.ArrowException:
            return None
        closed = True
        if quotes:
            closed = len(table) > 0 and table[str(self.symbol)][-1].as_py() == SENTINEL
            table = table.slice(0, max(len(table) - 1, 0))
        column = {name: table[name].combine_chunks() for name in wanted}
        time = column.get(str(self.time))
        if time is not None and pa.types.is_temporal(time.type):
            try:  # blocks of seconds and of milliseconds must agree
                is_clock = pa.types.is_time32(time.type) or pa.types.is_time64(time.type)
                time = time.cast(pa.time64("ns") if is_clock else pa.timestamp("ns"))
            except pa.ArrowInvalid:
                return self.fast(block, pa.string())
        number = np.arange(len(table))
        rows = Rows(
            column[str(self.symbol)], column.get(str(self.id)), time, number, self.place(block)
        )
        return rows, closed

    def slow(self, block: Block, malformed: Malformed) -> tuple[Rows, bool]:
        """Rows of a block that has faults, and whether its quotes are closed."""
        found = list(_records(block, self.delimiter))
        if found.pop()[1] != [SENTINEL]:
            return Rows(pa.array([], pa.string()), None, None, np.arange(0), str), False
        lines, good = [], []
        for at, fields in self.filled(found):
            if isinstance(fields, str):
                malformed.add(f"line {block.number(at)}", fields)
            elif len(fields) != self.n:
                malformed.add(
                    f"line {block.number(at)}",
                    f"has {len(fields)} field{'s'[: len(fields) != 1]}; expected {self.n}, the "
                    f"number of names in the header",
                )
            else:
                lines.append(block.number(at))
                good.append(fields)
        id, time, symbol = (
            None
            if i is None
            else pa.array([None if row[i] in self.missing else row[i] for row in good], pa.string())
            for i in (self.id, self.time, self.symbol)
        )
        number = np.arange(len(good))
        return Rows(symbol, id, time, number, lambda i: f"line {lines[i]}"), True

    def place(self, block: Block) -> Callable[[int], str]:
        """Where a row of a block stands in the file, by a slow pass when that is asked."""

        def line(i: int) -> str:
            found = self.filled(_records(block, self.delimiter))
            return f"line {block.number(next(islice(found, i, None))[0])}"

        return line

    def filled(
        self, found: Iterable[tuple[int, list[str] | str]]
    ) -> Iterator[tuple[int, list[str] | str]]:
        """Records without those of empty lines, which are missing symbols in a single column."""
        for at, fields in found:
            if fields:
                yield at, fields
            elif self.n == 1:
                yield at, [""]


def table_rows(path: str, layout: Layout, malformed: Malformed) -> Iterator[Rows]:
    """Rows of a text table, a block at a time.

    Parameters
    ----------
    path : str
        A file with a header line.
    layout : Layout
        Its columns.
    malformed : Malformed
        Takes the rows that have too few fields or too many.
    """
    table: _Table | None = None
    rest: Block | None = None  # a record that the next block goes on with
    for block in blocks(path, malformed, layout.max_expansion):
        if table is None:
            names, block = _header(block, layout.delimiter or ",", path)
            table = _positions(names, layout, path)
        if rest is not None:
            block = rest + block
        if not block.data:
            continue
        rows, closed = table.fast(block) or table.slow(block, malformed)
        rest = None
        if not closed:
            *_, (at, _) = _records(block, table.delimiter)
            block, rest = block.before_line(at), block.from_line(at)
            if len(rest.data) > LINE_BYTES:
                raise SojournError(
                    f"{path}: line {rest.line} opens a quoted field that is not closed "
                    f"within {LINE_BYTES:,} bytes; close it, or double the quote"
                )
            rows, _ = table.fast(block) or table.slow(block, malformed)
        yield rows
    if rest is not None:
        malformed.add(
            f"line {rest.line}", "opens a quoted field that is never closed", count_lines(rest.data)
        )
    if table is None:
        raise SojournError(f"{path} is empty; expected a header line with the names of the columns")


def _positions(names: list[str], layout: Layout, path: str) -> _Table:
    """The places of a layout's columns in a file's header."""
    for name in layout.wanted:
        if names.count(name) != 1:
            raise SojournError(
                f"{path}: expected one column {name!r}, but the header has {names.count(name)}: "
                f"{', '.join(map(repr, names[:12]))}"
            )
    id, time, symbol = (
        None if name is None else names.index(name)
        for name in (layout.id, layout.time, layout.symbol)
    )
    return _Table(len(names), id, time, symbol or 0, layout.delimiter or ",", layout.missing)
