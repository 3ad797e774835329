"""What a file holds: its format, and which of its columns are id, time and symbol.

What the caller does not name is guessed; the guesses are returned in words, so that they can be
shown. Rows that do not fit the layout are malformed, and counted.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from sojourn.checks import check_choice
from sojourn.errors import SojournError

Column = str | Literal[False] | None  # a name, no such column, or to be guessed

FORMATS = ("csv", "tsv", "matrix", "lines", "jsonl", "parquet", "arrow")
TEXT = ("csv", "tsv", "matrix", "lines")  # whose symbols and ids are text until all were seen
SUFFIXES = {
    "csv": (".csv",),
    "tsv": (".tsv", ".tab"),
    "lines": (".txt", ".seq"),
    "jsonl": (".jsonl", ".ndjson", ".json"),
    "parquet": (".parquet", ".pq"),
    "arrow": (".feather", ".arrow", ".ipc"),
}
COMPRESSED = (".gz", ".bz2", ".xz")

# Usual names of columns, the surest first.
ID_NAMES = """
    id sequence_id sequence seq_id seq trace_id trace case_id case case:concept:name session_id
    session episode trajectory flight_id flight song run_id run user_id user subject patient
    device machine unit
"""
TIME_NAMES = """
    time timestamp time:timestamp datetime date t ts seconds second sec secs ms step tick frame
    onset start position pos order
"""
SYMBOL_NAMES = """
    symbol symbols event events activity concept:name command action syllable token tokens
    observation obs code word state label
"""


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

    @property
    def wanted(self) -> tuple[str, ...]:
        """Names of the columns to read."""
        return tuple(name for name in (self.id, self.time, self.symbol) if name is not None)


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
    raise SojournError(
        f"{path}: no format is known by the ending {suffix!r}; pass format= one of "
        f"{', '.join(FORMATS)}"
    )


def choose_columns(
    layout: Layout,
    names: Sequence[str],
    lists: Callable[[str], bool],
    id: Column,
    time: Column,
    symbol: str | None,
    path: str,
) -> tuple[Layout, list[str]]:
    """The layout with its columns filled in, and in words which of them were guessed."""
    for role, name in (("id", id), ("time", time), ("symbol", symbol)):
        if name is not None and name is not False and names.count(name) != 1:
            raise SojournError(
                f"{path}: {role}={name!r}, but the file has {names.count(name) or 'no'} "
                f"such column{'s' if names.count(name) > 1 else ''}: {_listed(names)}"
            )
    given = [id, time, symbol]
    free = [name for name in names if name and name not in given and names.count(name) == 1]
    guesses = []
    # A list column by such a name ("sequence") holds the symbols themselves.
    if id is None and (found := _first(free, ID_NAMES)) is not None and not lists(found):
        id = found
        free.remove(found)
        guesses.append(f"id {found!r}")
    symbol_guessed = symbol is None
    if symbol is None:
        with_lists = [name for name in free if lists(name) and name.lower()[-2:] != "id"]
        symbol = with_lists[0] if len(with_lists) == 1 else _first(free, SYMBOL_NAMES)
    rest = [name for name in free if name != symbol]
    in_lists = symbol is not None and lists(symbol)
    if time is None and not in_lists and (found := _first(rest, TIME_NAMES)) is not None:
        time = found
        rest.remove(found)
        guesses.append(f"time {found!r}")
    if symbol is None and len(rest) == 1:
        symbol = rest.pop()
    if symbol is None:
        raise SojournError(
            f"{path}: cannot guess which column holds the symbols; pass symbol= one of "
            f"{_listed(rest or names)}"
        )
    if symbol_guessed:
        guesses.append(f"symbol {symbol!r}")
    others = [name for name in names if name not in (time, symbol)]
    if id is None and others and not in_lists:
        raise SojournError(
            f"{path}: cannot guess which column has the ids of the sequences; pass id= one of "
            f"{_listed(others)}, or id=False if the file is one sequence"
        )
    if id is None and not in_lists:
        guesses.append("one sequence")
    if time is None and not in_lists:
        guesses.append("rows in order")
    if time and lists(symbol):
        raise SojournError(
            f"{path}: {symbol!r} holds whole sequences, which are in order; leave time= out"
        )
    if len({id, time, symbol} - {None, False}) < sum(bool(name) for name in (id, time, symbol)):
        raise SojournError(f"{path}: id, time and symbol must be different columns")
    return replace(layout, id=id or None, time=time or None, symbol=symbol), guesses


def _first(names: Sequence[str], known: str) -> str | None:
    """The column whose name comes first among those known."""
    by_name = {name.strip().lower().replace(" ", "_"): name for name in reversed(names)}
    return next((by_name[name] for name in known.split() if name in by_name), None)


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name if len(name) <= 40 else name[:37] + "...") for name in names[:12])
    more = ", …" if len(names) > 12 else ""
    return shown + more if names else "(none)"
