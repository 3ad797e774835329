"""What a file holds: its format, and which of its columns are whose, when and what.

What the caller does not say is guessed from names; the guesses come back in words, so that they
can be shown. A file that is not as its layout says has malformed rows, which are kept count of.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from sojourn.errors import SojournError

Column = str | Literal[False] | None  # a name, no such column, or to be guessed

FORMATS = ("csv", "tsv", "matrix", "lines", "jsonl", "parquet", "arrow")
TEXT = ("csv", "tsv", "matrix", "lines")  # whose symbols and ids are text until all were seen
SUFFIXES = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".txt": "lines",
    ".seq": "lines",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".feather": "arrow",
    ".arrow": "arrow",
    ".ipc": "arrow",
}
COMPRESSED = (".gz", ".bz2", ".xz")

# Names by which columns go, the surest first.
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
    """How to read a file, with nothing left to guess.

    Examples
    --------
    >>> Layout("csv", id="flight", time=None, symbol="command").wanted
    ('flight', 'command')
    """

    format: str
    id: str | None = None
    time: str | None = None
    symbol: str | None = None  # None where lines are sequences
    delimiter: str | None = None  # None for white space
    missing: tuple[str, ...] = ("",)
    on_error: str = "raise"
    max_expansion: float = 200.0

    @property
    def wanted(self) -> tuple[str, ...]:
        """Names of the columns to read."""
        return tuple(name for name in (self.id, self.time, self.symbol) if name is not None)


@dataclass(frozen=True)
class Span:
    """Which rows of a file a partition has: those with ``above < id <= upto``, if these are given.

    ``first`` is the number of sequences before it, where they have no ids of their own.

    Examples
    --------
    >>> Span(above="a", upto="f")
    Span(above='a', upto='f', first=0)
    """

    above: str | int | None = None
    upto: str | int | None = None
    first: int = 0


WHOLE = Span()


@dataclass
class Malformed:
    """Count of the rows of a file that cannot be used: the first is an error, or all are skipped.

    Examples
    --------
    >>> rows = Malformed("events.csv", on_error="skip")
    >>> rows.add("line 3", "has no id")
    >>> str(rows)
    'events.csv: skipped 1 malformed row: line 3 has no id'
    """

    path: str
    on_error: str = "raise"
    count: int = 0
    first: str = field(default="", repr=False)

    def add(self, place: str, reason: str, n: int = 1) -> None:
        """Take note of `n` malformed rows, of which the first stands at `place`."""
        if self.on_error == "raise":
            raise SojournError(
                f"{self.path}: {place} {reason}; correct it, or pass on_error='skip' to leave "
                f"such rows out"
            )
        self.first = self.first or f"{place} {reason}"
        self.count += n

    def __str__(self) -> str:
        rows = f"row{'s'[: self.count != 1]}"
        such = ", for example" if self.count != 1 else ":"
        return f"{self.path}: skipped {self.count} malformed {rows}{such} {self.first}"


def format_of(path: str, format: str | None) -> str:
    """The format of a file: the one given, or what the end of its name says."""
    if format is not None:
        if format not in FORMATS:
            raise SojournError(f"format is {format!r}; expected one of {', '.join(FORMATS)}")
        return format
    stem, suffix = os.path.splitext(path.lower())
    if suffix in COMPRESSED:
        stem, suffix = os.path.splitext(stem)
    if suffix not in SUFFIXES:
        raise SojournError(
            f"{path}: no format is known by the ending {suffix!r}; pass format= one of "
            f"{', '.join(FORMATS)}"
        )
    return SUFFIXES[suffix]


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
        columns_of_lists = [name for name in free if lists(name) and name.lower()[-2:] != "id"]
        symbol = columns_of_lists[0] if len(columns_of_lists) == 1 else _first(free, SYMBOL_NAMES)
    rest = [name for name in free if name != symbol]
    whole = symbol is not None and lists(symbol)
    if time is None and not whole and (found := _first(rest, TIME_NAMES)) is not None:
        time = found
        rest.remove(found)
        guesses.append(f"time {found!r}")
    if symbol is None and len(rest) == 1:
        symbol = rest.pop()
    if symbol is None:
        raise SojournError(
            f"{path}: cannot tell which column holds the symbols; pass symbol= one of "
            f"{_listed(rest or names)}"
        )
    if symbol_guessed:
        guesses.append(f"symbol {symbol!r}")
    others = [name for name in names if name not in (time, symbol)]
    if id is None and others and not whole:
        raise SojournError(
            f"{path}: cannot tell which column tells the sequences apart; pass id= one of "
            f"{_listed(others)}, or id=False if the file is one sequence"
        )
    if id is None and not whole:
        guesses.append("one sequence")
    if time is None and not whole:
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
    return shown + ", …" * (len(names) > 12) if names else "(none)"
