"""Measurements from the columns of a table file, as `Signals`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.csv

from sojourn.data.signals import Signals
from sojourn.errors import SojournError
from sojourn.io.columnar import arrow_errors, open_table
from sojourn.io.layout import Malformed, Span
from sojourn.io.text import check_path
from sojourn.io.times import is_time

if TYPE_CHECKING:
    from sojourn.io.sources import Partition


def gather_signals(
    partition: Partition, batches: Callable[..., Any], malformed: Malformed
) -> Signals:
    """The rows of a partition as signals, in the order of ids, each in the order of its times."""
    layout, path = partition.layout, partition.path
    table = _table(partition)
    table = _within(table, layout.id, partition.span)
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


def _table(partition: Partition) -> Any:
    """The columns that are wanted, as an Arrow table."""
    path, layout = partition.path, partition.layout
    if layout.format in ("parquet", "arrow"):
        file = open_table(path, layout)
        first, last = partition.pieces or (0, len(file.sizes))
        with arrow_errors(path):
            batches = list(file.batches(range(first, last)))
            return pa.Table.from_batches(batches).select(list(layout.wanted))
    check_path(path)
    parse = pa.csv.ParseOptions(delimiter=layout.delimiter or ",")
    blanks = [*layout.missing, "", "NaN", "nan", "NA"]
    convert = pa.csv.ConvertOptions(
        include_columns=list(layout.wanted), null_values=blanks, strings_can_be_null=True
    )
    with arrow_errors(path):
        return pa.csv.read_csv(path, parse_options=parse, convert_options=convert)


def _within(table: Any, id: str | None, span: Span) -> Any:
    """The rows whose ids are in the span."""
    if id is None or (span.above is None and span.upto is None):
        return table
    ids = table.column(id)
    ids = ids.cast(ids.type.value_type) if pa.types.is_dictionary(ids.type) else ids
    keep = pa.compute.is_valid(ids)
    if span.above is not None:
        keep = pa.compute.and_(keep, pa.compute.greater(ids, span.above))
    if span.upto is not None:
        keep = pa.compute.and_(keep, pa.compute.less_equal(ids, span.upto))
    return table.filter(keep)
