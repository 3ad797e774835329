"""What a file holds: its format and columns. Rows that do not fit are malformed, and counted."""

from __future__ import annotations

import errno
import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sojourn.checks import check_choice
from sojourn.errors import SojournError

if TYPE_CHECKING:
    from sojourn.data.clock import Clock

FORMATS = ("csv", "tsv", "matrix", "lines", "jsonl", "parquet", "arrow", "xes")
TEXT = ("csv", "tsv", "matrix", "lines", "xes")  # symbols and ids are text until all were seen
SUFFIXES = {
    "csv": (".csv",),
    "tsv": (".tsv", ".tab"),
    "lines": (".txt", ".seq"),
    "jsonl": (".jsonl", ".ndjson", ".json"),
    "parquet": (".parquet", ".pq"),
    "arrow": (".feather", ".arrow", ".ipc"),
    "xes": (".xes",),
}
COMPRESSED = (".gz", ".bz2", ".xz")


@dataclass(frozen=True)
class Layout:
    """How to read a file, with nothing left to guess."""

    format: str
    id: str | None = None
    time: str | None = None
    symbol: str | None = None  # None where lines are sequences
    delimiter: str | None = None  # None for white space
    missing: tuple[str, ...] = ("",)
    on_error: str = "raise"
    max_expansion: float = 200.0
    empty: bool = False  # whether a sequence may have no symbols
    times: bool = False  # whether sequences keep their times
    clock: Clock | None = None  # what events become, by their times
    lifecycle: str | None = None  # the column with what happened to an activity
    transition: str | None = None  # which of these to keep, or "all"
    values: tuple[str, ...] = ()  # columns of measurements; then `symbol` is the first of them

    @property
    def wanted(self) -> tuple[str, ...]:
        """Names of the columns to read."""
        columns = (self.id, self.time, self.symbol, self.lifecycle, *self.values[1:])
        return tuple(name for name in columns if name is not None)


@dataclass(frozen=True)
class Span:
    """Which rows of a file a partition has: those with ``above < id <= upto``, if given."""

    above: str | int | None = None
    upto: str | int | None = None
    first: int = 0  # number of sequences before it, where they have no ids of their own


ALL_ROWS = Span()


@dataclass
class Malformed:
    """Count of the rows of a file that are malformed: the first is an error, or all are skipped."""

    path: str
    on_error: str = "raise"
    count: int = 0
    first: str = field(default="", repr=False)

    def add(self, place: str, reason: str, n: int = 1) -> None:
        """Count `n` malformed rows, the first of which is at `place`."""
        if self.on_error == "raise":
            raise SojournError(
                f"{self.path}: {place} {reason}; correct it, or pass on_error='skip' to leave "
                f"such rows out"
            )
        self.first = self.first or f"{place} {reason}"
        self.count += n

    def __str__(self) -> str:
        rows = "row:" if self.count == 1 else "rows, for example"
        return f"{self.path}: skipped {self.count} malformed {rows} {self.first}"


def check_column(name: str, names: list[str], path: str) -> None:
    """Raise an error if a file has no such column, or several."""
    if len(names) == 1 and name != names[0] and re.search("[,;\t]", names[0]):
        raise SojournError(
            f"{path}: its header {names[0]!r} is one column by the delimiter of the first file; "
            f"files read together need one delimiter: read this one by itself"
        )
    if names.count(name) != 1:
        raise SojournError(
            f"{path}: expected one column {name!r}, but there are {names.count(name)}: "
            f"{', '.join(map(repr, names[:12]))}"
        )


def format_of(path: str, format: str | None) -> str:
    """The format of a file: the one given, or that of the end of its name."""
    if format is not None:
        check_choice("format", format, FORMATS)
        return format
    stem, suffix = os.path.splitext(path.lower())
    if suffix in COMPRESSED:
        stem, suffix = os.path.splitext(stem)
    for known, suffixes in SUFFIXES.items():
        if suffix in suffixes:
            return known
    if not os.path.exists(path):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    raise SojournError(
        f"{path}: no format is known by the ending {suffix!r}; pass format= one of "
        f"{', '.join(FORMATS)}"
    )
