"""Rows of text files in which a line stands by itself: a sequence, or a JSON object."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import chain
from types import NoneType
from typing import Any

import numpy as np
import pyarrow as pa

from sojourn.errors import SojournError
from sojourn.io.arrow_codes import to_arrow
from sojourn.io.gather import FLOATS, INTEGER, Rows
from sojourn.io.layout import Layout, Malformed
from sojourn.io.text import Block, blocks

DECODER = json.JSONDecoder()


def is_matrix(names: list[str]) -> bool:
    """Whether what should be a header holds numbers: a table without one, a sequence a row.

    Examples
    --------
    >>> is_matrix(["3", "", "0"]), is_matrix(["id", "3"])
    (True, False)
    """
    return any(names) and all(not name or INTEGER.fullmatch(name) for name in names)


def sequence_rows(found: Iterator[Block], layout: Layout, malformed: Malformed) -> Iterator[Rows]:
    """Rows of a file with a sequence a line, the symbols divided by white space or a mark.

    Parameters
    ----------
    found : iterator of Block
        The lines.
    layout : Layout
        Of format "lines", or "matrix" where lines are integers and all equally many.
    malformed : Malformed
        Takes empty lines, but for those at the end of the file.
    """
    mark = None if layout.delimiter is None else layout.delimiter.encode()
    missing = {text.encode() for text in layout.missing}
    integers = set(missing)
    width = 0
    blank: list[int] = []
    for block in found:
        numbers: list[int] = []
        sequences: list[list[bytes]] = []
        for i, text in enumerate(block.data.splitlines()):
            if not text or text.isspace():
                blank.append(block.number(i))
                continue
            if blank:
                malformed.add(f"line {blank[0]}", "is empty; expected a sequence", len(blank))
                blank.clear()
            symbols = text.split(mark)
            if mark is not None:
                symbols = [symbol.strip() for symbol in symbols]
            if layout.format == "matrix":
                width = width or len(symbols)
                if fault := _matrix_fault(symbols, width, integers):
                    malformed.add(f"line {block.number(i)}", fault)
                    continue
            numbers.append(block.number(i))
            sequences.append(symbols)
        if sequences:
            offsets = np.concatenate(([0], np.cumsum(list(map(len, sequences)))))
            flat = [None if symbol in missing else symbol for symbol in chain(*sequences)]
            symbol = pa.array(flat, pa.binary()).cast(pa.string())
            lists = pa.LargeListArray.from_arrays(to_arrow(offsets), symbol)
            yield Rows(lists, None, None, np.array(numbers) - 1, _lines(numbers))


def json_rows(found: Iterator[Block], layout: Layout, malformed: Malformed) -> Iterator[Rows]:
    """Rows of a file with a JSON object a line.

    Parameters
    ----------
    found : iterator of Block
        The lines.
    layout : Layout
        The names of what is read of each object.
    malformed : Malformed
        Takes lines that are no objects, lack a name, or hold what is no symbol, id or time.
    """
    names = layout.wanted
    kinds: dict[str | None, Any] = {}  # by name; None: of the symbols whether they stand in lists
    for block in found:
        numbers: list[int] = []
        values: dict[str, list[Any]] = {name: [] for name in names}
        for i, text in enumerate(block.data.splitlines()):
            if not text or text.isspace():
                continue
            record = _object(text)
            fault = record if isinstance(record, str) else _fault(record, names, layout, kinds)
            if fault or isinstance(record, str):
                malformed.add(f"line {block.number(i)}", fault)
                continue
            numbers.append(block.number(i))
            for name, column in values.items():
                column.append(record[name])
        if numbers:
            symbol = _column(values[layout.symbol or ""], kinds, layout.symbol or "")
            id = None if layout.id is None else _column(values[layout.id], kinds, layout.id)
            time = None if layout.time is None else _times(values[layout.time])
            yield Rows(symbol, id, time, np.array(numbers) - 1, _lines(numbers))


def keys_of(path: str, on_error: str) -> dict[str, bool]:
    """Names in the first object of a file of JSON lines, and whether they hold lists."""
    malformed = Malformed(path, on_error)
    for block in blocks(path, malformed):
        for i, text in enumerate(block.data.splitlines()):
            if text.strip():
                record = _object(text)
                if not isinstance(record, str):
                    return {key: isinstance(value, list) for key, value in record.items()}
                malformed.add(f"line {block.number(i)}", record)
    raise SojournError(f"{path} is empty; expected a JSON object a line")


def _lines(numbers: list[int]) -> Callable[[int], str]:
    return lambda i: f"line {numbers[i]}"


def _matrix_fault(symbols: list[bytes], width: int, integers: set[bytes]) -> str:
    """What is wrong with a row of an integer table; `integers` grows by those seen."""
    if len(symbols) != width:
        return (
            f"has {len(symbols)} values and the first row {width}; where sequences differ in "
            f"length pass format='lines', delimiter=','"
        )
    for symbol in set(symbols) - integers:
        if not INTEGER.fullmatch(symbol.decode()):
            advice = FLOATS if b"." in symbol else "pass format='csv' if the first line is a header"
            return f"holds {symbol.decode()!r:.40}, which is not an integer; {advice}"
        integers.add(symbol)
    return ""


def _object(text: bytes) -> dict[str, Any] | str:
    """A line's JSON object, or what is wrong with the line."""
    line = text.decode().strip()
    try:
        record, end = DECODER.raw_decode(line)
    except (ValueError, RecursionError) as error:
        return f"is not JSON ({error})"
    if end < len(line):
        return f"is not JSON (extra data at column {end + 1})"
    if not isinstance(record, dict):
        return f"is a JSON {type(record).__name__}; expected an object a line"
    return record


def _fault(
    record: dict[str, Any], names: Iterable[str], layout: Layout, kinds: dict[str | None, Any]
) -> str:
    """What is wrong with an object; `kinds` grows by what the names are seen to hold."""
    for name in names:
        if name not in record:
            return f"has no {name!r}"
        value = record[name]
        if name == layout.time:
            if isinstance(value, bool | list | dict):
                return f"has the time {value!r:.40}; expected a number or a date"
            continue
        whole = name == layout.symbol and isinstance(value, list)
        if name == layout.symbol and value is not None and kinds.setdefault(None, whole) != whole:
            return f"holds {'a list' if whole else 'no list'} in {name!r}, unlike the lines before"
        for item in value if whole else (value,):
            if fault := _item_fault(item, name, kinds):
                return fault
    return ""


def _item_fault(item: Any, name: str, kinds: dict[str | None, Any]) -> str:
    """What is wrong with a symbol or an id."""
    kind = type(item)
    if item is None or (kind is str and kinds.get(name) is str and item.isascii()):
        return ""
    if kind is float:
        return f"holds {item} in {name!r}; {FLOATS}"
    if kind is not str and kind is not int:
        return f"holds {item!r:.40} in {name!r}; expected a string or an integer"
    if kinds.setdefault(name, kind) is not kind:
        return f"holds {item!r:.40} in {name!r}; the lines before hold type {kinds[name].__name__}"
    if kind is int and not -(2**63) <= item < 2**63:
        return f"holds {item!r:.40} in {name!r}, which does not fit 64 bits; use strings"
    # JSON can write half of a surrogate pair, which no encoding of text can.
    if kind is str and not item.isascii() and any("\ud800" <= mark <= "\udfff" for mark in item):
        return f"holds half a character in {name!r}"
    return ""


def _column(values: list[Any], kinds: dict[str | None, Any], name: str) -> Any:
    """Symbols or ids as an Arrow column."""
    type = pa.int64() if kinds.get(name) is int else pa.string()
    whole = any(isinstance(value, list) for value in values)
    return pa.array(values, pa.large_list(type) if whole else type)


def _times(values: list[Any]) -> Any:
    """Times as an Arrow column: of numbers where all are numbers that it can hold, else of text."""
    kinds = set(map(type, values)) - {NoneType}
    if kinds <= {int, float}:
        with suppress(pa.ArrowInvalid, OverflowError):
            return pa.array(values, pa.int64() if kinds == {int} else pa.float64())
    return pa.array([value if value is None else str(value) for value in values], pa.string())
