"""Rows of any file, batch by batch, gathered into `Sequences`.

What is kept of a row is its time and two codes, of its id and of its symbol: 16 bytes. Rows that
are in order already are not sorted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit
from numpy.typing import NDArray

from sojourn.data import adapters
from sojourn.data.adapters import Values
from sojourn.data.sequences import Sequences
from sojourn.errors import SojournError
from sojourn.io.arrow_codes import (
    Codes,
    Growing,
    coded,
    codes_of,
    is_list,
    is_string,
    list_lengths,
    ranked,
    to_arrow,
    to_numpy,
)
from sojourn.io.layout import TEXT, Malformed, Span
from sojourn.io.times import as_times, has_zone, read_times

if TYPE_CHECKING:
    from sojourn.io.sources import Partition

INTEGER = re.compile(r"0|-?[1-9][0-9]{0,18}")  # as Python would write it: "007" is a name
NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
DIGITS = re.compile(r"[+-]?[0-9]+")
WORDS_FOR_MISSING = {"na", "n/a", "#n/a", "nan", "null", "none", "nil", "-", "?", ".", "missing"}
FLOATS = (
    "symbols are strings or integers: cut measurements into symbols with sojourn.Discretizer (an "
    "integer column with gaps may have been written as floats: use a nullable integer type)"
)


@dataclass(frozen=True)
class Rows:
    """A batch of rows: Arrow columns of equal length."""

    symbol: Any  # strings or integers, null where missing; or lists of them, each a sequence
    id: Any  # strings or integers, or no column
    time: Any  # numbers, dates or the text of either, or no column
    number: NDArray[np.int64]  # in the file, from 0; the id of a sequence that has none
    place: Callable[[int], str]  # where in the file row i of the batch is, in words
    lifecycle: Any = None  # text, or no column
    empty: tuple[str, ...] = ()  # ids of sequences without rows

    def filter(self, keep: NDArray[np.bool_]) -> Rows:
        """The rows that a mask keeps, without their lifecycle, which nobody asks for again."""
        at, mask, columns = np.flatnonzero(keep), to_arrow(keep), (self.symbol, self.id, self.time)
        symbol, id, time = (None if column is None else column.filter(mask) for column in columns)
        place = lambda i: self.place(int(at[i]))  # noqa: E731
        return Rows(symbol, id, time, self.number[at], place, empty=self.empty)


Batches = Callable[[Malformed], Iterable[Rows]]  # the rows of a file from its start


def gather(partition: Partition, batches: Batches, malformed: Malformed) -> Sequences:
    """All rows of a partition as sequences, in the order of ids, each in the order of its times.

    Rows without an id or a time are malformed. The file is read once more to find the place of a
    symbol that cannot be one.
    """
    layout, vocabulary, time_type, local = partition.layout, partition.vocabulary, None, None
    text = layout.format in TEXT
    span = partition.span
    path = malformed.path
    symbols, owners, times = Codes(), Codes(), Growing()
    seen: set[Any] = set()
    empty: list[Any] = []  # ids of sequences without symbols
    kind = ""
    for batch in batches(malformed):
        empty += batch.empty
        rows, time, kind = usable_rows(batch, kind, malformed, span, layout.empty)
        if time is not None and time_type is None and len(batch.time):
            time_type = batch.time.type
            zone = None if layout.clock is None else layout.clock.zone
            local = None if has_zone(batch.time) else zone
        if is_list(rows.symbol.type):
            empty += _empty_ids(rows, span.first)
            rows = _one_symbol_per_row(rows, seen, path, span.first)
        if len(rows.symbol) == 0:
            continue
        symbols.add(coded(rows.symbol))
        if rows.id is not None:
            owners.add(coded(rows.id))
        if time is not None:
            times.add(time)
    if not symbols.dictionaries:
        skipped = f" but {malformed.count} malformed ones" if malformed.count else ""
        raise SojournError(f"{path} holds no rows{skipped}; expected at least one")
    symbol, codes = symbols.joined()
    if text and isinstance(symbol, list) and not _is_text(vocabulary):
        symbol = typed(symbol, batches, malformed)
    distinct, codes = ranked(symbol, codes)
    if distinct.size == 0 and vocabulary is None:
        raise SojournError(
            f"{path}: every symbol is missing; pass vocabulary= to say what there can be"
        )
    if distinct.dtype.kind == "i" and distinct.size and distinct[0] < 0:
        raise SojournError(
            f"{path}: {find(distinct[0], batches, malformed)} has the symbol {distinct[0]}; "
            f"expected integers of 0 and more: {adapters.MISSING}"
        )
    ids, owner = np.array([span.first]), np.zeros(len(codes), dtype=np.int32)
    if owners.dictionaries:
        name, owner = owners.joined()
        every_name = chain(name, empty) if isinstance(name, list) else ()
        if text and every_name and not partition.text_ids and all_integers(every_name):
            name = np.array(list(map(int, name)), dtype=np.int64)
        ids, owner = ranked(name, owner)
    time = times.taken() if times.size else None
    order, lengths = sort_rows(owner, len(ids), time)
    if order is not None:
        codes = codes[order]
    if time is not None and (layout.times or layout.clock is not None):
        time = as_times(time if order is None else time[order], time_type, kind, local)
    else:
        time = None
    if empty:
        ids, lengths = _with_empty(ids, lengths, empty)
    found = Sequences(codes, adapters.offsets_of(lengths), distinct, ids, times=time)
    if layout.clock is not None:
        found = layout.clock.apply(found)
    return found if vocabulary is None else found.recode(vocabulary, partition.unknown)


def usable_rows(
    rows: Rows, kind: str, malformed: Malformed, span: Span, empty: bool = False
) -> tuple[Rows, NDArray[Any] | None, str]:
    """The rows that are not malformed and are in the span, their times, and the kind of these."""
    keep = np.ones(len(rows.symbol), dtype=np.bool_)
    faults: list[tuple[NDArray[np.bool_], str]] = []
    if rows.id is not None:
        owner = coded(rows.id)
        rows = replace(rows, id=owner)
        if span.above is not None or span.upto is not None:
            keep = within(owner, span)
        if owner.null_count:
            faults.append((codes_of(owner) < 0, "has no id"))
    time = None
    if rows.time is not None:
        time, bad, kind = read_times(rows.time, kind)
        if bad.any():
            expected = f"a {kind}" if kind else "a number, or a date such as 2026-03-29 17:39"
            came = rows.time[int((bad & keep).argmax())].as_py()
            faults.append(
                (bad, f"has no time that can be read; expected {expected}, and got {came!r}")
            )
    if is_list(rows.symbol.type):
        none = to_numpy(rows.symbol.is_null()) if empty else list_lengths(rows.symbol) == 0
        faults.append((none, "is an empty sequence"))
    if faults and (wrong := np.flatnonzero(keep & np.any([bad for bad, _ in faults], axis=0))).size:
        k = int(wrong[0])
        reason = next(reason for bad, reason in faults if bad[k])
        malformed.add(rows.place(k), reason, len(wrong))
        keep[wrong] = False
    if keep.all():
        return rows, time, kind
    return replace(rows, time=None).filter(keep), None if time is None else time[keep], kind


def of_transition(rows: Rows, transition: str) -> Rows:
    """The rows of one transition, such as "complete"; or all, with "+complete" in their symbols."""
    cycle = rows.lifecycle
    cycle = cycle.dictionary_decode() if pa.types.is_dictionary(cycle.type) else cycle
    if transition == "all":
        symbol = rows.symbol
        symbol = symbol.dictionary_decode() if pa.types.is_dictionary(symbol.type) else symbol
        cycle = pc.fill_null(cycle.cast(pa.string()), "")
        joined = pc.binary_join_element_wise(symbol.cast(pa.string()), cycle, "+")
        return replace(rows, symbol=joined)
    return rows.filter(to_numpy(pc.fill_null(pc.equal(cycle, transition), False)))


def within(owner: Any, span: Span) -> NDArray[np.bool_]:
    """Which rows of a coded id column are in the span; those without an id are."""
    inside = [
        (span.above is None or value > span.above) and (span.upto is None or value <= span.upto)
        for value in owner.dictionary.to_pylist()
    ]
    if all(inside):
        return np.ones(len(owner), dtype=np.bool_)
    mask: NDArray[np.bool_] = np.array([*inside, True])[codes_of(owner)]
    return mask


def _one_symbol_per_row(rows: Rows, seen: set[Any], path: str, first: int) -> Rows:
    """Rows that hold one sequence each as rows that hold one symbol each."""
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


def _empty_ids(rows: Rows, first: int) -> list[Any]:
    """Ids of the rows that hold an empty sequence."""
    none = list_lengths(rows.symbol) == 0
    if not none.any():
        return []
    ids = to_arrow(rows.number + first) if rows.id is None else rows.id
    found: list[Any] = ids.filter(to_arrow(none)).to_pylist()
    return found


def _with_empty(
    ids: NDArray[Any], lengths: NDArray[np.int64], empty: list[Any]
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Ids and lengths with those of sequences without symbols among them, in order."""
    joined = np.append(ids, np.array(empty).astype(ids.dtype.kind))  # text may be of integers
    order = np.argsort(joined, kind="stable")
    return joined[order], np.append(lengths, np.zeros(len(empty), dtype=np.int64))[order]


def typed(values: list[str], batches: Batches, malformed: Malformed) -> Values:
    """Symbols that are text as integers where all of them are, else as they are."""
    if not values:
        return values
    if all_integers(values):
        return np.array(list(map(int, values)), dtype=np.int64)
    odd = [value for value in values if not INTEGER.fullmatch(value)]
    if all(map(NUMBER.fullmatch, values)) and not all(map(DIGITS.fullmatch, values)):
        odd = [value for value in odd if not DIGITS.fullmatch(value)]
        where = find(odd[0], batches, malformed)
        raise SojournError(f"{malformed.path}: {where} has the symbol {odd[0]}, a float; {FLOATS}")
    if len(odd) < len(values) and all(value.lower() in WORDS_FOR_MISSING for value in odd):
        where, tokens = find(odd[0], batches, malformed), ("", *sorted(odd))
        raise SojournError(
            f"{malformed.path}: {where} has the symbol {odd[0]!r}, but the others are integers; "
            f"pass missing={tokens!r} if that stands for a missing one"
        )
    return values


def all_integers(values: Iterable[str]) -> bool:
    """Whether every text is an integer of 64 bits, written in the one way that gives it back."""
    return all(INTEGER.fullmatch(value) and -(2**63) <= int(value) < 2**63 for value in values)


def _is_text(vocabulary: Any) -> bool:
    """Whether symbols must stay text to be found in a vocabulary."""
    return vocabulary is not None and np.asarray(vocabulary).dtype.kind not in "iu"


def find(value: Any, batches: Batches, malformed: Malformed) -> str:
    """The place of the first row that holds a symbol, found by reading the file again."""
    for rows in batches(replace(malformed, on_error="skip")):
        chunk = rows.symbol.flatten() if is_list(rows.symbol.type) else rows.symbol
        if pa.types.is_dictionary(chunk.type):
            chunk = chunk.dictionary_decode()
        wanted = str(value) if is_string(chunk.type) else int(value)
        k = pc.index(chunk, pa.scalar(wanted, chunk.type)).as_py()
        if k >= 0 and is_list(rows.symbol.type):
            k = np.searchsorted(np.cumsum(list_lengths(rows.symbol)), k, side="right")
        if k >= 0:
            return rows.place(int(k))
    return "a row"


def check_type(type: Any, name: str, what: str, path: str) -> None:
    """Raise an error if a column of an Arrow type can be neither symbols nor ids."""
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


def sort_rows(
    owner: NDArray[np.int32], n: int, time: NDArray[Any] | None
) -> tuple[NDArray[np.int64] | None, NDArray[np.int64]]:
    """Rows sorted by owner and then time, ties in their old order; and the rows of each owner.

    No rows are returned where they are in order already. Counting the rows of each owner puts them
    together in one pass, so that only short stretches are left to sort: three times faster than
    sorting all rows at once.
    """
    ends = np.flatnonzero(owner[1:] != owner[:-1]) + 1
    if ends.size == n - 1 and np.all(owner[ends] > owner[ends - 1]):
        if time is not None:
            later = time[1:] >= time[:-1]
            later[ends - 1] = True
        if time is None or later.all():
            return None, np.diff(ends, prepend=0, append=owner.size)
    rows, lengths = _group(owner, n)
    if time is not None:
        _sort_by_time(rows, lengths, time)
    return rows, lengths


@njit(cache=True, nogil=True)
def _group(owner: NDArray[np.int32], n: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Counting sort of the rows by owner."""
    lengths = np.zeros(n, dtype=np.int64)
    for i in range(owner.size):
        lengths[owner[i]] += 1
    place = np.cumsum(lengths) - lengths
    rows = np.empty(owner.size, dtype=np.int64)
    for i in range(owner.size):
        rows[place[owner[i]]] = i
        place[owner[i]] += 1
    return rows, lengths


@njit(cache=True, nogil=True)
def _sort_by_time(rows: NDArray[np.int64], lengths: NDArray[np.int64], time: NDArray[Any]) -> None:
    """Sort each owner's rows by time in place, where they are not sorted already."""
    start = 0
    for length in lengths:
        own = rows[start : start + length]
        start += length
        times = time[own]
        for i in range(1, length):
            if times[i] < times[i - 1]:
                own[:] = own[np.argsort(times, kind="mergesort")]
                break
