"""Events from recordings of many channels: what changed, row by row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sojourn.checks import check_choice
from sojourn.data.adapters import (
    column_of,
    factorise,
    group_rows,
    name_of,
    offsets_of,
    read_recorded,
    sort_by_time,
)
from sojourn.data.measurements import as_frame
from sojourn.data.sequences import Sequences
from sojourn.errors import SojournError

IDLE = ("hold", "symbol", "drop")


def events_from_changes(
    table: Any,
    channels: Sequence[str],
    id: str | None = None,
    time: str | None = None,
    idle: str = "hold",
    idle_symbol: str = "idle",
) -> Sequences:
    """Sequences of which channel changed, from a table with one row per time step.

    A channel changes in a row if its value differs from the last one recorded before in the same
    sequence. Each change is an event, whose symbol is the channel's name; several changes in one
    row are several events, in the order of `channels`. A value that is not recorded (null, None,
    NaN) is no change, and neither is the first that is.

    Parameters
    ----------
    table : table of pandas, polars or Arrow, or dict of columns
        One row per time step.
    channels : list of str
        The columns to watch: numbers, strings, anything that can be compared.
    id : str, optional
        The column with the sequence id; without it all rows are one sequence.
    time : str, optional
        The column to sort the rows of a sequence by; without it they keep their order.
    idle : {"hold", "symbol", "drop"}
        What a row without a change gives. ``"hold"`` repeats the last event, so that a symbol
        lasts until the next; before the first event of a sequence the symbol is missing.
        ``"symbol"`` gives `idle_symbol`, from the first row on. ``"drop"`` gives nothing, so that
        time is counted in events.
    idle_symbol : str
        The symbol of rows without a change, for ``idle="symbol"``.

    Returns
    -------
    Sequences
        In the order in which ids first appear; the vocabulary is all of `channels`, whether or
        not they change, and `idle_symbol` if it is used.

    Examples
    --------
    >>> table = {"flaps": [0, 0, 10, 10, 10], "gear": ["up", "up", "down", "down", "up"]}
    >>> events_from_changes(table, ["flaps", "gear"]).to_lists()
    [[None, None, 'flaps', 'gear', 'gear', 'gear']]
    >>> events_from_changes(table, ["flaps", "gear"], idle="symbol").to_lists()
    [['idle', 'idle', 'flaps', 'gear', 'idle', 'gear']]
    """
    check_choice("idle", idle, IDLE)
    table = as_frame(table)
    names = _channel_names(channels, idle_symbol if idle == "symbol" else None)
    recorded = [read_recorded(column_of(table, name), name) for name in names]
    rows, bounds, ids = _arrangement(table, id, time, len(recorded[0][1]), names)
    owner = np.repeat(np.arange(len(ids)), np.diff(bounds))
    n_rows = len(rows)

    at, what = [], []  # row and channel of each event
    for c, (values, there) in enumerate(recorded):
        own_place = np.flatnonzero(there[rows])
        own = values[(np.cumsum(there) - 1)[rows[own_place]]]
        changed = np.asarray(own[1:] != own[:-1], dtype=np.bool_)
        changed &= owner[own_place[1:]] == owner[own_place[:-1]]
        at.append(own_place[1:][changed])
        what.append(np.full(len(at[-1]), c))
    row, channel = np.concatenate(at), np.concatenate(what)
    order = np.argsort(row, kind="stable")  # channels of one row stay in their order
    row, channel = row[order], channel[order]

    vocabulary, code_of = factorise([*names, idle_symbol] if idle == "symbol" else names)
    n_events = np.bincount(row, minlength=n_rows)
    n_given = n_events if idle == "drop" else np.maximum(n_events, 1)
    start = offsets_of(n_given)
    codes = np.full(start[-1], -1, dtype=np.int32)
    first = np.cumsum(n_events) - n_events
    codes[start[row] + np.arange(len(row)) - first[row]] = code_of[channel]
    quiet = np.flatnonzero(n_events == 0)
    if idle == "symbol":
        codes[start[quiet]] = code_of[-1]
    elif idle == "hold":
        last = first[quiet] - 1  # the event before, if that is the same sequence's
        quiet, last = quiet[last >= 0], last[last >= 0]
        same = owner[row[last]] == owner[quiet]
        codes[start[quiet[same]]] = code_of[channel[last[same]]]
    offsets = start[bounds]
    if np.any(empty := np.diff(offsets) == 0):
        i = int(np.argmax(empty))
        raise SojournError(
            f"{name_of(i, ids)} has no change in any channel and would be empty; pass "
            f"idle='hold' or idle='symbol', or leave it out"
        )
    return Sequences(codes, offsets, vocabulary, ids)


def _channel_names(channels: Sequence[str], idle_symbol: str | None) -> list[str]:
    if isinstance(channels, str):
        channels = [channels]
    names = list(channels)
    if not names or not all(isinstance(name, str) for name in names):
        raise SojournError(f"channels is {names!r}; expected a list of names of columns")
    if len(set(names)) < len(names):
        raise SojournError(f"channels is {names!r}; expected each name once")
    if idle_symbol in names:
        raise SojournError(f"a channel is called {idle_symbol!r}; pass another idle_symbol=")
    return names


def _arrangement(
    table: Any, id: str | None, time: str | None, n: int, names: list[str]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[Any]]:
    """Rows of the table in the order of the sequences, where each begins, and their ids."""
    if n == 0:
        raise SojournError("the table has no rows; expected at least one")
    own = None if id is None else column_of(table, id)
    ids, lengths, rows = group_rows(own, f"the id column {id!r}", n)
    bounds = offsets_of(lengths)
    if bounds[-1] != n:
        raise SojournError(f"{id!r} has {bounds[-1]} rows and {names[0]!r} {n}; expected as many")
    if time is not None:
        times, there = read_recorded(column_of(table, time), time)
        if not there.all() or len(there) != n:
            raise SojournError(f"the time column {time!r} lacks values; none may be missing there")
        if times.dtype.kind not in "iufmM":
            raise SojournError(f"the time column {time!r} has type {times.dtype}; expected numbers")
        rows = sort_by_time(rows, lengths, times)
    return rows, bounds, ids
