"""Rows of text files in which every line is complete by itself: a sequence, or a JSON object.

Arrow parses blocks of JSON objects. A block that it refuses, or that it may understand otherwise
than line by line, is parsed again by Python, which is slow but knows what is wrong in which line.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.json

from sojourn.data.adapters import offsets_of
from sojourn.errors import SojournError
from sojourn.io.arrow_codes import coded, is_list, to_arrow, to_numpy
from sojourn.io.gather import FLOATS, INTEGER, Rows
from sojourn.io.layout import Layout, Malformed
from sojourn.io.text import LINE_FEED, Block, blocks, is_text, parse_ahead, text_fault

DECODER = json.JSONDecoder()
OPEN, CLOSE = b"{}"
ARROW_TYPES = {int: pa.int64(), float: pa.float64(), str: pa.string()}

# What the lines so far hold: int or str by name; under None, whether symbols come in lists.
Kinds = dict[str | None, Any]


def is_matrix(names: list[str]) -> bool:
    """Whether what should be a header holds integers: a table without one, one sequence per row."""
    return any(names) and all(not name or INTEGER.fullmatch(name) for name in names)


def sequence_rows(found: Iterator[Block], layout: Layout, malformed: Malformed) -> Iterator[Rows]:
    """Rows of a file with one sequence per line, its symbols separated by white space or a mark.

    In format "matrix" symbols are integers, equally many in every line. Blank lines are empty
    sequences where the layout allows them; else they are malformed, except at the end of the file.
    """
    mark = None if layout.delimiter is None else layout.delimiter.encode()
    missing = {text.encode() for text in layout.missing}
    integers = set(missing)
    width = 0
    blank: list[int] = []
    for block in found:
        clean = is_text(block.data)
        numbers: list[int] = []
        sequences: list[list[bytes]] = []
        for number, text in enumerate(block.data.splitlines(), block.line):
            is_blank = not text or text.isspace()
            if is_blank and not layout.empty:
                blank.append(number)
                continue
            if blank:
                malformed.add(f"line {blank[0]}", "is empty; expected a sequence", len(blank))
                blank.clear()
            if not clean and (fault := text_fault(text)):
                malformed.add(f"line {number}", fault)
                continue
            symbols = [] if is_blank else text.split(mark)
            if mark is not None:
                symbols = [symbol.strip() for symbol in symbols]
            if layout.format == "matrix":
                width = width or len(symbols)
                if fault := _matrix_fault(symbols, width, integers):
                    malformed.add(f"line {number}", fault)
                    continue
            numbers.append(number)
            sequences.append(symbols)
        if sequences:
            flat = [None if symbol in missing else symbol for symbol in chain(*sequences)]
            symbol = pa.array(flat, pa.binary()).cast(pa.string())
            offsets = offsets_of(np.array(list(map(len, sequences))))
            lists = pa.LargeListArray.from_arrays(to_arrow(offsets), symbol)
            yield Rows(lists, None, None, np.array(numbers) - 1, _place(numbers))


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


def keys_of(path: str, on_error: str) -> dict[str, bool]:
    """Names in the first object of a file of JSON lines, and whether they hold lists."""
    malformed = Malformed(path, on_error)
    for block in blocks(path):
        for number, text in enumerate(block.data.splitlines(), block.line):
            if text.strip():
                record = _object(text)
                if not isinstance(record, str):
                    return {key: isinstance(value, list) for key, value in record.items()}
                malformed.add(f"line {number}", record)
    raise SojournError(f"{path} is empty; expected one JSON object per line")


def json_rows(found: Iterator[Block], layout: Layout, malformed: Malformed) -> Iterator[Rows]:
    """Rows of a file with one JSON object per line.

    Malformed is a line that is no object, lacks a name, or holds what is no symbol, id or time.
    """
    first = next(found, Block(b"", 1))
    kinds: Kinds = {}
    types = _first_types(first, layout, kinds)
    for block, rows in parse_ahead(chain([first], found), lambda b: _fast(b, layout, types)):
        yield rows or _slow(block, layout, kinds, malformed)


def _first_types(block: Block, layout: Layout, kinds: Kinds) -> dict[str, Any]:
    """Arrow types of the first values of each name; none if a name has no value."""
    for text in block.data.splitlines():
        record = _object(text)
        if isinstance(record, str) or _fault(record, layout, kinds):
            continue
        time = None if layout.time is None else record[layout.time]
        known = {*kinds, None} >= {layout.id, layout.symbol}
        if known and (layout.time is None or time is not None):
            return _types(layout, kinds, type(time))
    return {}


def _types(layout: Layout, kinds: Kinds, time: type) -> dict[str, Any]:
    """Arrow types of the columns; a name that has no value yet may be text."""
    types = {name: ARROW_TYPES[kinds.get(name, str)] for name in layout.wanted}
    if layout.symbol is not None and kinds.get(None):
        types[layout.symbol] = pa.list_(types[layout.symbol])
    if layout.time is not None:
        types[layout.time] = ARROW_TYPES[time]
    return types


def _fast(block: Block, layout: Layout, types: dict[str, Any]) -> Rows | None:
    """Rows of a block by Arrow; None if it has faults, or objects do not stand one per line."""
    data = block.data.replace(b"\r\n", b"\n")
    if not types or not data or b"\r" in data or not is_text(data):
        return None
    view = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(view == LINE_FEED)
    if not data.endswith(b"\n"):
        ends = np.append(ends, len(view))
    starts = np.append(0, ends[:-1] + 1)
    if np.any(view[starts] != OPEN) or np.any(view[ends - 1] != CLOSE):
        return None
    try:
        table = _parse(data, types)
    except pa.ArrowException:
        if layout.time is None or types[layout.time] != pa.int64():
            return None
        floats = _fast(block, layout, types | {layout.time: pa.float64()})
        if floats is not None:
            types[layout.time] = pa.float64()  # at once in the blocks that follow
        return floats
    if len(table) != len(ends):
        return None
    for name in layout.wanted:
        for i in np.flatnonzero(to_numpy(table[name].combine_chunks().is_null())):
            record = _object(data[starts[i] : ends[i]])
            if isinstance(record, str) or not types.keys() <= record.keys():
                return None  # null because a name is absent
    return _rows(table, layout, range(block.line, block.line + len(table)))


def _slow(block: Block, layout: Layout, kinds: Kinds, malformed: Malformed) -> Rows:
    """Rows of a block whose lines were looked at by Python; `kinds` grows by what is seen."""
    good: list[str] = []
    numbers: list[int] = []
    for number, text in enumerate(block.data.splitlines(), block.line):
        if not text or text.isspace():
            continue
        record = _object(text)
        fault = record if isinstance(record, str) else _fault(record, layout, kinds)
        if fault or isinstance(record, str):
            malformed.add(f"line {number}", fault)
            continue
        values = {name: record[name] for name in layout.wanted}
        if layout.time is not None and values[layout.time] is not None:
            values[layout.time] = str(values[layout.time])  # numbers and text may be mixed
        good.append(json.dumps(values))
        numbers.append(number)
    types = _types(layout, kinds, str)
    table = _parse("\n".join(good).encode(), types) if good else pa.schema(types).empty_table()
    return _rows(table, layout, numbers)


def _parse(data: bytes, types: dict[str, Any]) -> Any:
    return pa.json.read_json(
        pa.BufferReader(data),
        pa.json.ReadOptions(use_threads=False, block_size=len(data) + 1),
        pa.json.ParseOptions(explicit_schema=pa.schema(types), unexpected_field_behavior="ignore"),
    )


def _rows(table: Any, layout: Layout, numbers: Sequence[int]) -> Rows:
    symbol, id, time, lifecycle = (
        None if name is None else table[name].combine_chunks()
        for name in (layout.symbol, layout.id, layout.time, layout.lifecycle)
    )
    symbol = symbol if symbol is None or is_list(symbol.type) else coded(symbol)
    number = np.array(numbers, dtype=np.int64) - 1
    id = None if id is None else coded(id)
    return Rows(symbol, id, time, number, _place(numbers), lifecycle)


def _object(text: bytes) -> dict[str, Any] | str:
    """A line's JSON object, or what is wrong with the line."""
    if fault := text_fault(text):
        return fault
    line = text.decode().strip()
    try:
        record, end = DECODER.raw_decode(line)
    except (ValueError, RecursionError) as error:
        return f"is not JSON ({error})"
    if end < len(line):
        return f"is not JSON (extra data at column {end + 1})"
    if not isinstance(record, dict):
        return f"is a JSON {type(record).__name__}; expected one object per line"
    return record


def _fault(record: dict[str, Any], layout: Layout, kinds: Kinds) -> str:
    """What is wrong with an object; `kinds` grows by what the names are seen to hold."""
    for name in layout.wanted:
        if name not in record:
            return f"has no {name!r}"
        value = record[name]
        if name == layout.time:
            if isinstance(value, bool | list | dict):
                return f"has the time {value!r:.40}; expected a number or a date"
            continue
        in_list = name == layout.symbol and isinstance(value, list)
        if (
            name == layout.symbol
            and value is not None
            and kinds.setdefault(None, in_list) != in_list
        ):
            shown = "a list" if in_list else "no list"
            return f"holds {shown} in {name!r}, unlike the lines before"
        for item in value if in_list else (value,):
            if fault := _item_fault(item, name, kinds):
                return fault
    return ""


def _item_fault(item: Any, name: str, kinds: Kinds) -> str:
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


def _place(numbers: Sequence[int]) -> Callable[[int], str]:
    return lambda i: f"line {numbers[i]}"
