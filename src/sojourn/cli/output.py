"""Results: a table on a terminal, CSV or JSON elsewhere, or a file."""

from __future__ import annotations

import csv
import json
import math
import os
import sys
from collections.abc import Iterator, Mapping
from typing import IO, Any, NamedTuple

import click

from sojourn.cli.options import check_written, grouped
from sojourn.errors import printable
from sojourn.storage.atomic import atomic_write

Columns = Mapping[str, Any]  # by name, of equal length: arrays or lists

MOST_ROWS = 1000  # on a terminal
ENDINGS = {".csv": "csv", ".json": "json", ".parquet": "parquet", ".pq": "parquet"}
# What a formula begins with, also in full width.
FORMULA = tuple("=+-@\t\r\uff1d\uff0b\uff0d\uff20")
SHAPE = click.Choice(["table", "csv", "json"])


class Output(NamedTuple):
    """Where results go, and in which format."""

    output: str | None
    shape: str | None

    def write(self, columns: Columns) -> None:
        """Write columns to the file, or to standard output: a table on a terminal, else CSV."""
        if self.output is None or self.output == "-":
            default = "table" if sys.stdout.isatty() else "csv"
            _TEXT[self.shape or default](sys.stdout, columns)
            return
        ending = ENDINGS.get(os.path.splitext(self.output)[1].lower())
        if ending == "parquet":
            from sojourn.io.columnar import write_parquet

            write_parquet(self.output, columns)
            return
        with atomic_write(self.output) as file:
            _TEXT[self.shape or ending or "csv"](file, columns)


def _checked(output: str | None, shape: str | None) -> Output:
    """An output whose ending is known and whose folder exists, before any work is done."""
    if output is not None and output != "-":
        ending = os.path.splitext(output)[1].lower()
        if ending not in ENDINGS and shape is None:
            raise click.BadParameter(
                f"{output} ends in {ending or 'nothing'}; it is written by its ending, one of "
                f"{', '.join(ENDINGS)}, or as --format says.",
                param_hint="--output",
            )
        check_written(output)
    return Output(output, shape)


writes_results = grouped(
    "output",
    _checked,
    click.option("--format", "shape", type=SHAPE, help="Format (on a terminal a table, else CSV)."),
    click.option(
        "--output",
        "-o",
        metavar="FILE",
        help="Write to a .csv, .json or .parquet file; - is standard output.",
    ),
)


def _rows(columns: Columns) -> Iterator[tuple[Any, ...]]:
    """Rows of plain values, some thousand at a time."""
    n = len(next(iter(columns.values())))
    for start in range(0, n, 4096):
        parts = [values[start : start + 4096] for values in columns.values()]
        plain = [part if isinstance(part, list) else part.tolist() for part in parts]
        yield from zip(*plain, strict=True)


def _csv(file: IO[str], columns: Columns) -> None:
    """Numbers are written in full: reading them again gives the same bits."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_inert(value) for value in row] for row in _rows(columns))


def _inert(value: Any) -> Any:
    """Text that a spreadsheet would run as a formula, after an apostrophe that keeps it text."""
    if isinstance(value, list):  # JSON alone has lists
        value = " | ".join(value)
    if not isinstance(value, str) or not value.startswith(FORMULA):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value


def _json(file: IO[str], columns: Columns) -> None:
    """A list of objects, one per line; numbers that are not finite are null."""
    names, before = list(columns), "[\n"
    for row in _rows(columns):
        plain = [None if isinstance(v, float) and not math.isfinite(v) else v for v in row]
        item = dict(zip(names, plain, strict=True))
        file.write(before + json.dumps(item, ensure_ascii=False))
        before = ",\n"
    file.write("[]\n" if before == "[\n" else "\n]\n")


def _table(file: IO[str], columns: Columns) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    rows = _rows(columns)
    shown = [row for _, row in zip(range(MOST_ROWS), rows, strict=False)]
    for name, values in zip(columns, zip(*shown, strict=True), strict=False):
        numbers = all(isinstance(v, int | float | None) for v in values)
        table.add_column(name, justify="right" if numbers else "left", overflow="fold")
    for row in shown:
        table.add_row(*map(_cell, row))
    console = Console(file=file, highlight=False, markup=False, emoji=False)
    console.print(table)
    if more := sum(1 for _ in rows):
        console.print(f"… and {more:,} rows more; use a pipe or -o to get them all")


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.6g}"
    value = " | ".join(value) if isinstance(value, list) else value
    # A symbol may be any text, and must not move the cursor.
    return printable(str(value))


def long(sequences: Any, **more: Any) -> dict[str, Any]:
    """Sequences as a table with one row per symbol."""
    import numpy as np

    lengths = sequences.lengths
    starts = np.repeat(sequences.offsets[:-1], lengths)
    symbols = [*sequences.vocabulary.tolist(), None]  # code -1 is the last
    seen: dict[str, Any] = {"symbol": [symbols[code] for code in sequences.codes.tolist()]}
    if channels := getattr(sequences, "channels", ()):
        seen = dict(zip(channels, sequences.values.T, strict=True))
        for name, known in sequences.categories.items():
            words = [*known.tolist(), None]
            seen[name] = [words[code] for code in np.nan_to_num(seen[name], nan=-1).astype(int)]
    position = np.arange(sequences.n_total) - starts
    return {"id": np.repeat(sequences.ids, lengths), "position": position, **seen, **more}


_TEXT = {"table": _table, "csv": _csv, "json": _json}
