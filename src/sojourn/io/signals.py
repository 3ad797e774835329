"""Measurements from the columns of a table file, as `Signals`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from sojourn.data.signals import Signals
from sojourn.errors import SojournError
from sojourn.io.arrow_codes import coded, distinct_values, to_arrow
from sojourn.io.columnar import arrow_errors, open_table
from sojourn.io.csv import header_of
from sojourn.io.gather import all_integers, within
from sojourn.io.layout import Malformed, check_column
from sojourn.io.text import check_expansion, opened
from sojourn.io.times import is_time

if TYPE_CHECKING:
    from sojourn.io.sources import Partition


def gather_signals(partition: Partition, malformed: Malformed) -> Signals:
    """The rows of a partition as signals, in the order of ids, each in the order of its times."""
    layout, path = partition.layout, partition.path
    table, span = _table(partition, malformed), partition.span
    if layout.id is not None and (span.above is not None or span.upto is not None):
        owner = coded(table.column(layout.id).combine_chunks())
        table = table.filter(to_arrow(within(owner, span)))
    for name in (layout.id, layout.time):
        nulls = 0 if name is None else table.column(name).null_count
        if nulls:
            malformed.add(f"{nulls} rows", f"have nothing in column {name!r}", nulls)
            table = table.filter(table.column(name).is_valid())
    if len(table) == 0:
        raise SojournError(f"{path} holds no rows; expected at least one")
    if layout.time is not None and not is_time(table.column(layout.time).type):
        raise SojournError(
            f"{path}: the time column {layout.time!r} has type {table.column(layout.time).type}; "
            f"expected numbers or dates"
        )
    try:
        signals = Signals.from_table(table, layout.id, layout.time, list(layout.values))
    except SojournError as error:
        raise SojournError(f"{path}: {error}") from None
    if layout.id is None:
        return signals.cut(signals.offsets, np.array([partition.span.first]))
    order = np.argsort(signals.ids, kind="stable")
    return signals if (order == np.arange(len(order))).all() else signals[order]


def _table(partition: Partition, malformed: Malformed) -> Any:
    """The columns that are wanted, as an Arrow table."""
    path, layout = partition.path, partition.layout
    if layout.format in ("parquet", "arrow"):
        file = open_table(path, layout)
        first, last = partition.pieces or (0, len(file.sizes))
        with arrow_errors(path):
            batches = list(file.batches(range(first, last)))
            return pa.Table.from_batches(batches).select(list(layout.wanted))
    names, mark = header_of(path, layout.format, layout.delimiter)
    for name in layout.wanted:
        check_column(name, names, path)
    check_expansion(path, layout.max_expansion)
    wrong: list[Any] = []  # rows that have another number of fields

    def leave_out(row: Any) -> str:
        wrong.append(row)
        return "skip"

    read = pa.csv.ReadOptions(column_names=names, skip_rows=1)
    parse = pa.csv.ParseOptions(delimiter=mark, invalid_row_handler=leave_out)
    blanks = [*layout.missing, "", "NaN", "nan", "NA"]
    convert = pa.csv.ConvertOptions(
        include_columns=list(layout.wanted),
        column_types={layout.id: pa.string()} if layout.id else {},
        null_values=blanks,
        strings_can_be_null=True,
    )
    with arrow_errors(path), opened(path) as file:
        table = pa.csv.read_csv(file, read, parse, convert)
    if wrong:
        row = wrong[0]
        reason = f"has {row.actual_columns} fields; expected {row.expected_columns}"
        malformed.add(f"the row {row.text!r:.60}", reason, len(wrong))
    if layout.id and all_integers(distinct_values(table.column(layout.id).chunks)):
        ids = table.column(layout.id).cast(pa.int64())
        table = table.set_column(table.column_names.index(layout.id), layout.id, ids)
    return table
