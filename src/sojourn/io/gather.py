"""Rows of a table, batch by batch and whatever file they come from, gathered into `Sequences`.

What is kept of a row is its time and two codes, of its id and of its symbol: 16 bytes. Rows that
stand in order already are not sorted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sojourn.data import adapters
from sojourn.data.sequences import Sequences
from sojourn.errors import SojournError
from sojourn.io.arrow_codes import (
    Codes,
    Growing,
    Values,
    coded,
    codes_of,
    is_list,
    is_string,
    list_lengths,
    ranked,
    to_arrow,
)
from sojourn.io.layout import WHOLE, Malformed, Span
from sojourn.io.times import read_times

INTEGER = re.compile(r"0|-?[1-9][0-9]{0,18}")  # as Python would write it: "007" is a name
NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
DIGITS = re.compile(r"[+-]?[0-9]+")
NOT_THERE = {"na", "n/a", "#n/a", "nan", "null", "none", "nil", "-", "?", ".", "missing"}
FLOATS = (
    "symbols are strings or integers: cut measurements into symbols with sojourn.Discretizer (an "
    "integer column with gaps may have been written as floats: use a nullable integer type)"
)


@dataclass(frozen=True)
class Rows:
    """A batch of rows: Arrow columns of equal length.

    Parameters
    ----------
    symbol : Arrow array
        Strings or integers, null where missing; or lists of them, each a whole sequence.
    id : Arrow array or None
        Strings or integers: whose row it is.
    time : Arrow array or None
        Numbers, dates or the text of them.
    number : int64 array
        Number of each row in its file, from 0, by which a sequence goes that has no id.
    place : callable
        Where in the file row `i` of the batch stands, in words.

    Examples
    --------
    >>> rows = Rows(pa.array(["a"]), None, None, np.arange(1), "row {}".format)
    >>> rows.place(0)
    'row 0'
    """

    symbol: Any
    id: Any
    time: Any
    number: NDArray[np.int64]
    place: Callable[[int], str]


Batches = Callable[[Malformed], Iterable[Rows]]


@dataclass(frozen=True)
class Wish:
    """What is to become of the symbols and ids of a file, beside what its layout says.

    Parameters
    ----------
    text : bool
        Whether they are text, which becomes integers where all of it is integers.
    vocabulary, unknown
        As in `Sequences.from_lists`.
    text_ids : bool, optional
        Whether ids stay text; told from the ids themselves if not given.
    span : Span
        Rows to keep of those read.
    """

    text: bool
    vocabulary: Any = None
    unknown: str = "error"
    text_ids: bool | None = None
    span: Span = WHOLE


def gather(batches: Batches, malformed: Malformed, wish: Wish) -> Sequences:
    """All rows of a file as sequences, in the order of their ids, each in the order of its times.

    Parameters
    ----------
    batches : callable
        Gives the rows from the start; called once more to find the place of a bad symbol.
    malformed : Malformed
        Takes rows without an id or a time.
    wish : Wish
        What is to become of the symbols and ids.

    Examples
    --------
    >>> rows = Rows(pa.array(["a", "b"]), pa.array([2, 1]), None, np.arange(2), "row {}".format)
    >>> seqs = gather(lambda _: [rows], Malformed("file"), Wish(text=False))
    >>> seqs.ids.tolist(), seqs.to_lists()
    ([1, 2], [['b'], ['a']])
    """
    symbols, owners, times = Codes(), Codes(), Growing()
    seen: set[Any] = set()
    kind = ""
    for batch in batches(malformed):
        rows, time, kind = sound(batch, kind, malformed, wish.span)
        if is_list(rows.symbol.type):
            rows = _flat(rows, seen, malformed.path, wish.span.first)
        if len(rows.symbol) == 0:
            continue
        symbols.add(coded(rows.symbol))
        if rows.id is not None:
            owners.add(coded(rows.id))
        if time is not None:
            times.add(time)
    if not symbols.dictionaries:
        skipped = f" but {malformed.count} malformed ones" if malformed.count else ""
        raise SojournError(f"{malformed.path} holds no rows{skipped}; expected at least one")
    symbol, codes = symbols.joined()
    if wish.text and isinstance(symbol, list) and not _is_text(wish.vocabulary):
        symbol = typed(symbol, batches, malformed)
    distinct, codes = ranked(symbol, codes)
    if distinct.size == 0 and wish.vocabulary is None:
        raise SojournError(
            f"{malformed.path}: every symbol is missing; pass vocabulary= to say what there can be"
        )
    if distinct.dtype.kind == "i" and distinct.size and distinct[0] < 0:
        raise SojournError(
            f"{malformed.path}: {find(distinct[0], batches, malformed)} has the symbol "
            f"{distinct[0]}; expected integers of 0 and more: {adapters.MISSING}"
        )
    if owners.dictionaries:
        name, owner = owners.joined()
        if wish.text and isinstance(name, list) and not wish.text_ids and all_integers(name):
            name = np.array(list(map(int, name)), dtype=np.int64)
        ids, owner = ranked(name, owner)
    else:
        ids, owner = np.array([wish.span.first]), np.zeros(len(codes), dtype=np.int32)
    time = times.taken() if times.size else None
    rows_in_order, lengths = arranged(owner, len(ids), time)
    if rows_in_order is not None:
        codes = codes[rows_in_order]
    found = Sequences(codes, np.concatenate(([0], np.cumsum(lengths))), distinct, ids)
    return found if wish.vocabulary is None else found.recode(wish.vocabulary, wish.unknown)


def arranged(
    owner: NDArray[np.int32], n: int, time: NDArray[Any] | None
) -> tuple[NDArray[np.int64] | None, NDArray[np.int64]]:
    """Rows sorted by owner and time (None where they stand so) and the number of each owner's.

    Examples
    --------
    >>> arranged(np.array([0, 0, 1], dtype=np.int32), 2, np.array([1, 2, 0]))
    (None, array([2, 1]))
    """
    ends = np.flatnonzero(owner[1:] != owner[:-1]) + 1
    if ends.size == n - 1 and np.all(owner[ends] > owner[ends - 1]):
        if time is not None:
            later = time[1:] >= time[:-1]
            later[ends - 1] = True
        if time is None or later.all():
            return None, np.diff(ends, prepend=0, append=owner.size)
    from sojourn.io.order import order  # numba, which sorted files do not need

    return order(owner, n, time)


def typed(values: list[str], batches: Batches, malformed: Malformed) -> Values:
    """Symbols that are text as integers where all of them are, else as they are.

    Examples
    --------
    >>> typed(["10", "9"], lambda _: [], Malformed("file"))
    array([10,  9])
    """
    if not values:
        return values
    if all_integers(values):
        return np.array(list(map(int, values)), dtype=np.int64)
    odd = [value for value in values if not INTEGER.fullmatch(value)]
    if all(map(NUMBER.fullmatch, values)) and not all(map(DIGITS.fullmatch, values)):
        odd = [value for value in odd if not DIGITS.fullmatch(value)]
        where = find(odd[0], batches, malformed)
        raise SojournError(f"{malformed.path}: {where} has the symbol {odd[0]}, a float; {FLOATS}")
    if len(odd) < len(values) and all(value.lower() in NOT_THERE for value in odd):
        where, tokens = find(odd[0], batches, malformed), ("", *sorted(odd))
        raise SojournError(
            f"{malformed.path}: {where} has the symbol {odd[0]!r}, but the others are integers; "
            f"pass missing={tokens!r} if that stands for a missing one"
        )
    return values


def all_integers(values: Iterable[str]) -> bool:
    """Whether every text is an integer of 64 bits, written in the one way that gives it back.

    Examples
    --------
    >>> all_integers(["10", "-3"]), all_integers(["7", "007"])
    (True, False)
    """
    return all(INTEGER.fullmatch(value) and -(2**63) <= int(value) < 2**63 for value in values)


def find(value: Any, batches: Batches, malformed: Malformed) -> str:
    """The place of the first row that holds a symbol, found by reading the file again."""
    for rows in batches(replace(malformed, on_error="skip")):
        chunk = rows.symbol.flatten() if is_list(rows.symbol.type) else rows.symbol
        if pa.types.is_dictionary(chunk.type):
            chunk = chunk.dictionary_decode()
        wanted = str(value) if is_string(chunk.type) else int(value)
        k = pc.index(chunk, pa.scalar(wanted, chunk.type)).as_py()
        if k >= 0 and chunk is not rows.symbol and is_list(rows.symbol.type):
            k = np.searchsorted(np.cumsum(list_lengths(rows.symbol)), k, side="right")
        if k >= 0:
            return rows.place(int(k))
    return "a row"


def check_type(type: Any, name: str, what: str, path: str) -> None:
    """Nothing where a column of an Arrow type can be symbols or ids, else what to do about it.

    Examples
    --------
    >>> check_type(pa.int8(), "command", "symbol", "events.parquet")
    """
    inner = type.value_type if pa.types.is_dictionary(type) else type
    if what == "symbol" and is_list(inner):
        inner = inner.value_type
        inner = inner.value_type if pa.types.is_dictionary(inner) else inner
    if pa.types.is_integer(inner) or pa.types.is_null(inner) or is_string(inner):
        return
    advice = "expected strings or integers: cast the column to one of these"
    if what == "symbol" and (pa.types.is_floating(inner) or pa.types.is_decimal(inner)):
        advice = FLOATS
    raise SojournError(f"{path}: the {what} column {name!r} has type {type}; {advice}")


def _is_text(vocabulary: Any) -> bool:
    """Whether symbols must stay text to be found in a vocabulary."""
    return vocabulary is not None and np.asarray(vocabulary).dtype.kind not in "iu"


def sound(
    rows: Rows, kind: str, malformed: Malformed, span: Span
) -> tuple[Rows, NDArray[Any] | None, str]:
    """The rows that can be used and are in the span, their times, and whether these are dates."""
    keep = np.ones(len(rows.symbol), dtype=np.bool_)
    faults: list[tuple[NDArray[np.bool_], str]] = []
    if rows.id is not None:
        owner = coded(rows.id)
        rows = replace(rows, id=owner)
        if span.above is not None or span.upto is not None:
            keep = _within(owner, span)
        if owner.null_count:
            faults.append((codes_of(owner) < 0, "has no id"))
    time = None
    if rows.time is not None:
        time, bad, kind = read_times(rows.time, kind)
        if bad.any():
            expected = f"a {kind}" if kind else "a number or a date"
            faults.append((bad, f"has no time that can be read; expected {expected}"))
    if is_list(rows.symbol.type):
        faults.append((list_lengths(rows.symbol) == 0, "is an empty sequence"))
    if faults and (wrong := np.flatnonzero(keep & np.any([bad for bad, _ in faults], axis=0))).size:
        k = int(wrong[0])
        reason = next(reason for bad, reason in faults if bad[k])
        malformed.add(rows.place(k), reason, len(wrong))
        keep[wrong] = False
    if keep.all():
        return rows, time, kind
    at, where = np.flatnonzero(keep), rows.place
    mask = to_arrow(keep)
    kept = Rows(
        rows.symbol.filter(mask),
        None if rows.id is None else rows.id.filter(mask),
        None,
        rows.number[keep],
        lambda i: where(int(at[i])),
    )
    return kept, None if time is None else time[keep], kind


def _within(owner: Any, span: Span) -> NDArray[np.bool_]:
    """Which rows of a coded id column are in the span; those without an id are."""
    inside = [
        (span.above is None or value > span.above) and (span.upto is None or value <= span.upto)
        for value in owner.dictionary.to_pylist()
    ]
    if all(inside):
        return np.ones(len(owner), dtype=np.bool_)
    mask: NDArray[np.bool_] = np.array([*inside, True])[codes_of(owner)]
    return mask


def _flat(rows: Rows, seen: set[Any], path: str, first: int) -> Rows:
    """Rows that hold a sequence each as rows that hold a symbol each."""
    owner = coded(to_arrow(rows.number + first) if rows.id is None else rows.id)
    for i, value in enumerate(owner.to_pylist()):
        if value in seen:
            raise SojournError(
                f"{path}: {rows.place(i)} has the id {value!r}, as a row before it; where a row "
                f"holds a whole sequence expected each id once: pass another id=, or id=False"
            )
        seen.add(value)
    at = np.repeat(np.arange(len(rows.symbol)), list_lengths(rows.symbol))
    return Rows(rows.symbol.flatten(), owner.take(to_arrow(at)), None, rows.number[at], rows.place)
