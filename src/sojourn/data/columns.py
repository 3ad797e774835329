"""Which columns of a table are id, time and symbol, by name or by a guess from usual names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from sojourn.errors import SojournError

Column = str | Literal[False] | None  # a name, no such column, or to be guessed

# Usual names of columns, the surest first.
ID_NAMES = """
    case:concept:name id sequence_id sequence seq_id seq trace_id trace case_id case session_id
    session episode trajectory flight_id flight song run_id run user_id user subject patient
    device machine unit
"""
TIME_NAMES = """
    time:timestamp time timestamp datetime date t ts seconds second sec secs ms step tick frame
    onset start position pos order
"""
ROW_IDS = "event|row|record|message|log|line|entry|index"
SYMBOL_NAMES = """
    concept:name symbol symbols event events activity command action syllable token tokens
    observation obs code word state label
"""


class Columns(NamedTuple):
    """Names of a table's columns, None where there is none."""

    id: str | None
    time: str | None
    symbol: str


def choose_columns(
    names: Sequence[str],
    lists: Callable[[str], bool],
    id: Column,
    time: Column,
    symbol: str | None,
    what: str,
    values: Sequence[str] = (),
) -> tuple[Columns, list[str]]:
    """The columns of a file or table, called `what`, and in words which of them were guessed.

    Of measurements, `symbol` is the first of their columns, `values`.
    """
    measured: list[tuple[str, Column]] = [("values", v) for v in values] or [("symbol", symbol)]
    for role, name in (("id", id), ("time", time), *measured):
        if name is not None and name is not False and names.count(name) != 1:
            raise SojournError(
                f"{what}: {role}={name!r}, but the file has {names.count(name) or 'no'} "
                f"such column{'s' if names.count(name) > 1 else ''}: {listed(names)}"
            )
    given = [id, time, symbol, *values]
    times = Counter(names)
    free = [name for name in names if name and name not in given and times[name] == 1]
    guesses = []
    # A list column by such a name ("sequence") holds the symbols themselves.
    if id is None and (found := id_among(free)) is not None and not lists(found):
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
            f"{what}: cannot guess which column holds the symbols; pass symbol= one of "
            f"{listed(rest or names)}{', and id= that of the sequences' if id is None else ''}"
            "; columns of measurements are named with values="
        )
    if symbol_guessed:
        guesses.append(f"symbol {symbol!r}")
    others = [name for name in names if name not in (time, symbol, *values)]
    if id is None and others and not in_lists:
        raise SojournError(
            f"{what}: cannot guess which column has the ids of the sequences; pass id= one of "
            f"{listed(others)}, or id=False if the file is one sequence"
        )
    if id is None and not in_lists:
        guesses.append("one sequence")
    if time is None and not in_lists:
        guesses.append("rows in order")
    if time and lists(symbol):
        raise SojournError(
            f"{what}: {symbol!r} holds whole sequences, which are in order; leave time= out"
        )
    if len({id, time, symbol} - {None, False}) < sum(bool(name) for name in (id, time, symbol)):
        raise SojournError(f"{what}: id, time and symbol must be different columns")
    return Columns(id or None, time or None, symbol), guesses


def id_among(names: Sequence[str]) -> str | None:
    """The column with the ids: by a known name, or the only one that ends in "id".

    An id of an event or row, such as "event_id", is not one of sequences.
    """
    ending = [name for name in names if re.search(r"([_ ]id|[a-z]I[dD])$", name)]
    ending = [name for name in ending if not re.match(ROW_IDS, name, re.IGNORECASE)]
    return _first(names, ID_NAMES) or (ending[0] if len(ending) == 1 else None)


def _first(names: Sequence[str], known: str) -> str | None:
    """The column whose name comes first among those known."""
    by_name = {name.strip().lower().replace(" ", "_"): name for name in reversed(names)}
    return next((by_name[name] for name in known.split() if name in by_name), None)


def listed(names: Sequence[str]) -> str:
    """Names of columns, for an error message."""
    shown = ", ".join(repr(name if len(name) <= 40 else name[:37] + "...") for name in names[:12])
    more = ", …" if len(names) > 12 else ""
    return shown + more if names else "(none)"
