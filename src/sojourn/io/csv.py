"""Rows of text tables: a header line, then one row per line, with commas, tabs or other delimiters.

Arrow parses a table block by block. A block that it refuses is parsed again by Python, which is
slow but knows the line of every record; so is a block whose line numbers are asked for.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from sojourn.errors import SojournError
from sojourn.io.arrow_codes import CODED_TEXT
from sojourn.io.gather import Rows
from sojourn.io.layout import Layout, Malformed, check_column
from sojourn.io.text import (
    BYTE_ORDER_MARK,
    LINE_BYTES,
    Block,
    blocks,
    count_lines,
    is_text,
    parse_ahead,
    text_fault,
)

# A record put after a block. It does not come back by itself if the block ends within quotes,
# which Arrow would take for a field that ends with the block.
SENTINEL = "\x1f\x1f"

Record = tuple[int, list[str] | str]  # line in its block, from 0; fields, or what is wrong


def header_of(path: str, format: str, delimiter: str | None) -> tuple[list[str], str]:
    """Names of a table's columns, and the delimiter between them.

    If no delimiter is given and the header has no comma, it may be a semicolon or a tab.
    """
    first = next(blocks(path), Block(b"", 1))
    if delimiter is None:
        line = next(iter(first.data.splitlines()), b"").decode(errors="replace")
        usual = "\t" if format == "tsv" else ","
        delimiter = next((mark for mark in (usual, ";", "\t") if mark in line), usual)
    return _split_header(first, delimiter, path)[0], delimiter


def table_rows(path: str, layout: Layout, malformed: Malformed) -> Iterator[Rows]:
    """Rows of a text table, block by block."""
    found = blocks(path, layout.max_expansion)
    delimiter = layout.delimiter or ","
    names, first = _split_header(next(found, Block(b"", 1)), delimiter, path)
    wanted = (layout.id, layout.time, layout.symbol, layout.lifecycle)
    for name in filter(None, wanted):
        check_column(name, names, path)
    places = (None if name is None else names.index(name) for name in wanted)
    table = _Table(len(names), delimiter, layout.missing, *places)
    rest: Block | None = None  # an incomplete record, which the next block continues
    for block, parsed in parse_ahead(chain([first], found), table.fast):
        if rest is not None:
            block = rest + block
            parsed = table.fast(block)
        rows, closed = parsed or table.slow(block, malformed)
        rest = None
        if not closed:
            *_, (at, _) = table.records(block)
            block, rest = block.split(at)
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


def _split_header(block: Block, delimiter: str, path: str) -> tuple[list[str], Block]:
    """Names of the columns, and the block without them."""
    if not block.data:
        raise SojournError(f"{path} is empty; expected a header line with the names of the columns")
    found = _records(block, delimiter)
    _, names = next(found)
    if SENTINEL in "".join(names):
        raise SojournError(f"{path}: line 1 opens a quoted name that is never closed")
    if isinstance(names, str):
        raise SojournError(f"{path}: line 1 {names}; expected the names of the columns")
    return [name.strip() for name in names], block.split(next(found)[0])[1]


def _records(block: Block, delimiter: str) -> Iterator[Record]:
    """Records of a block, by Python; a line that is not text is left out of them, as a fault.

    The last one is no record but `SENTINEL`, by itself if the block does not end within quotes.
    """
    numbers: list[int] = []  # of the lines that are text
    faults: list[Record] = []

    def lines() -> Iterator[str]:
        data = block.data + (b"" if block.data[-1:] in b"\r\n" else b"\n")
        for i, text in enumerate([*data.splitlines(keepends=True), SENTINEL.encode()]):
            if fault := text_fault(text):
                faults.append((i, fault))
            else:
                numbers.append(i)
                yield text.decode()

    reader = csv.reader(lines(), delimiter=delimiter)
    record: list[str] | str | None = []
    while record is not None:
        n_read = reader.line_num
        try:
            record = next(reader, None)
        except csv.Error as error:
            record = f"cannot be parsed ({error})"
        yield from faults
        faults.clear()
        if record is not None:
            yield numbers[n_read], record


@dataclass(frozen=True)
class _Table:
    """Where a table's columns are, and how they are written."""

    n: int
    delimiter: str
    missing: tuple[str, ...]
    id: int | None
    time: int | None
    symbol: int | None
    lifecycle: int | None

    def fast(self, block: Block, time_type: Any = None) -> tuple[Rows, bool] | None:
        """Rows of a block by Arrow, and whether its quotes are closed; None if it has faults."""
        data = block.data
        if not is_text(data) or data.startswith(BYTE_ORDER_MARK):  # which Arrow would leave out
            return None
        quotes = b'"' in data
        if quotes:
            fields = [SENTINEL if i == self.symbol else "" for i in range(self.n)]
            end = b"" if data.endswith((b"\n", b"\r")) else b"\n"
            data += end + self.delimiter.join(fields).encode() + b"\n"
        places = (self.id, self.time, self.symbol, self.lifecycle)
        wanted = [str(i) for i in places if i is not None]
        types = {name: CODED_TEXT for name in wanted if name != str(self.time)}
        if time_type is not None:
            types[str(self.time)] = time_type
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
                of_day = pa.types.is_time(time.type)
                zone = getattr(time.type, "tz", None)
                time = time.cast(pa.time64("ns") if of_day else pa.timestamp("ns", zone))
            except pa.ArrowInvalid:
                return self.fast(block, pa.string())
        symbol, id, cycle = (column.get(str(i)) for i in (self.symbol, self.id, self.lifecycle))

        def place(i: int) -> str:
            return f"line {block.line + next(islice(self.records(block), i, None))[0]}"

        return Rows(symbol, id, time, np.arange(len(table)), place, cycle), closed

    def slow(self, block: Block, malformed: Malformed) -> tuple[Rows, bool]:
        """Rows of a block that has faults, by Python, and whether its quotes are closed."""
        *found, (_, last) = self.records(block)
        closed = last == [SENTINEL]
        lines, good = [], []
        for at, fields in found if closed else []:
            if isinstance(fields, str):
                malformed.add(f"line {block.line + at}", fields)
            elif len(fields) != self.n:
                malformed.add(
                    f"line {block.line + at}",
                    f"has {len(fields)} field{'s' if len(fields) != 1 else ''}; expected {self.n}, "
                    f"the number of names in the header",
                )
            else:
                lines.append(block.line + at)
                good.append(fields)
        id, time, symbol, cycle = (
            None
            if i is None
            else pa.array([None if row[i] in self.missing else row[i] for row in good], pa.string())
            for i in (self.id, self.time, self.symbol, self.lifecycle)
        )
        number = np.arange(len(good))
        return Rows(symbol, id, time, number, lambda i: f"line {lines[i]}", cycle), closed

    def records(self, block: Block) -> Iterator[Record]:
        """Records by Python; empty lines are none, but missing symbols in a single column."""
        for at, fields in _records(block, self.delimiter):
            if fields or self.n == 1:
                yield at, fields or [""]
