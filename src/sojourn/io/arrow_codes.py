"""Arrow columns of strings and integers as codes, and numbers to and from NumPy.

Arrow's own conversions import pandas where it is installed; these do not.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sojourn.data import adapters
from sojourn.data.adapters import Values
from sojourn.errors import SojournError

# Integers with fewer values between them are coded by their distance from the least.
MOST_BY_RANGE = 1 << 16

LARGEST_INTEGER = 2**63 - 1
CODED_TEXT, CODED_INTEGERS = (pa.dictionary(pa.int32(), type) for type in (pa.string(), pa.int64()))

# Rows that an array which grows begins with: so many that the system, not the heap, holds it. What
# is not used is never touched.
ROOM = 1 << 24

# Codes that are looked through at once.
PIECE = 1 << 16


def to_numpy(array: Any, null: Any = None) -> NDArray[Any]:
    """Numbers or truth values of an Arrow array, with `null` where they are null."""
    if pa.types.is_boolean(array.type):
        return to_numpy(array.cast(pa.int8()), null).view(np.bool_)
    if array.null_count == 0:
        return np.from_dlpack(array)
    numbers = pa.Array.from_buffers(
        array.type, len(array), [None, array.buffers()[1]], offset=array.offset
    )
    return np.where(to_numpy(array.is_valid()), np.from_dlpack(numbers), null)


def to_arrow(array: NDArray[Any]) -> Any:
    """An Arrow array of numbers or truth values."""
    if array.dtype.kind == "b":
        return to_arrow(array.view(np.int8)).cast(pa.bool_())
    buffers = [None, pa.py_buffer(np.ascontiguousarray(array))]
    return pa.Array.from_buffers(pa.from_numpy_dtype(array.dtype), len(array), buffers)


def is_list(type: Any) -> bool:
    """Whether an Arrow type holds a list in each row."""
    return bool(
        pa.types.is_list(type) or pa.types.is_large_list(type) or pa.types.is_fixed_size_list(type)
    )


def is_string(type: Any) -> bool:
    """Whether an Arrow type holds text."""
    return bool(
        pa.types.is_string(type) or pa.types.is_large_string(type) or pa.types.is_string_view(type)
    )


def list_lengths(lists: Any) -> NDArray[np.int64]:
    """Length of each list of an Arrow array, 0 where it is null."""
    return to_numpy(pc.list_value_length(lists).cast(pa.int64()), null=0)


def coded(column: Any) -> Any:
    """A column as an Arrow dictionary of strings or of int64, with int32 codes."""
    if column.type == pa.uint64() and (pc.max(column).as_py() or 0) > LARGEST_INTEGER:
        raise SojournError(
            f"a symbol or id is {pc.max(column).as_py()}, which does not fit 64 bits with a sign; "
            f"write it as text"
        )
    if pa.types.is_dictionary(column.type) and column.dictionary.null_count:
        column = column.dictionary_decode()  # null may be a value there, too
    if pa.types.is_dictionary(column.type):
        if column.type in (CODED_TEXT, CODED_INTEGERS):
            return column
        values = column.dictionary.cast(_plain(column.dictionary.type))
        return pa.DictionaryArray.from_arrays(column.indices.cast(pa.int32()), values)
    return _by_range(column) or column.cast(_plain(column.type)).dictionary_encode()


def _by_range(column: Any) -> Any:
    """Integers that lie close together, coded without a search; None for any others."""
    if not pa.types.is_integer(column.type) or len(column) == 0 or column.null_count:
        return None
    ends = pc.min_max(column)
    least, most = ends["min"].as_py(), ends["max"].as_py()
    if most - least >= min(len(column), MOST_BY_RANGE):
        return None
    narrow = column.type in (pa.int8(), pa.int32(), pa.int64())
    numbers = to_numpy(column if narrow else column.cast(pa.int64()))
    wide = np.int64 if numbers.dtype == np.int64 else np.int32
    codes = np.empty(len(numbers), np.int32)
    np.subtract(numbers, wide(least), out=codes, dtype=wide, casting="unsafe")
    values = to_arrow(np.int64(least) + np.arange(most - least + 1))
    return pa.DictionaryArray.from_arrays(to_arrow(codes), values, safe=False)


def codes_of(column: Any) -> NDArray[np.int32]:
    """Codes of a coded column, -1 where it is null."""
    return to_numpy(column.indices, null=-1)


def distinct_values(chunks: Iterable[Any]) -> set[Any]:
    """Values that occur in the chunks of a column, null left out."""
    found: set[Any] = set()
    for chunk in chunks:
        found.update(pc.unique(chunk.flatten() if is_list(chunk.type) else chunk).to_pylist())
    return found - {None}


class Growing:
    """An array that grows at its end, in place: once it is large the system moves pages, not bytes.

    Lists of chunks, joined at the end, would be in memory twice.
    """

    def __init__(self) -> None:
        self.array: NDArray[Any] | None = None
        self.size = 0

    def add(self, values: NDArray[Any]) -> None:
        """Append values; integers become floats where floats follow them."""
        size = self.size + len(values)
        if self.array is None:
            self.array = np.empty(max(size, ROOM), values.dtype)
        if values.dtype.kind == "f" and self.array.dtype.kind == "i":
            integers, self.array = self.array, np.empty(self.array.size, values.dtype)
            self.array[: self.size] = integers[: self.size]
        if size > self.array.size:
            self.array.resize(size + size // 16, refcheck=False)
        self.array[self.size : size] = values
        self.size = size

    def taken(self) -> NDArray[Any]:
        """All values; the array is the caller's from here on."""
        array, self.array = self.array, None
        if array is None:
            return np.empty(0)
        array.resize(self.size, refcheck=False)
        return array


class Codes:
    """A column that grows by coded chunks, each with a dictionary of its own."""

    def __init__(self) -> None:
        self.codes = Growing()
        self.dictionaries: list[tuple[int, Any]] = []  # with the number of rows of each

    def add(self, chunk: Any) -> None:
        """Take in the rows of one more chunk."""
        self.codes.add(codes_of(chunk))
        self.dictionaries.append((len(chunk), chunk.dictionary))

    def joined(self) -> tuple[Values, NDArray[np.int32]]:
        """Values that occur, in no order, and the code of each row; the column is empty then."""
        known = [values for _, values in self.dictionaries if len(values)]
        types = {values.type for values in known} or {pa.string()}
        if len(types) > 1:
            raise SojournError("a column holds both strings and integers; use one of the two")
        merged = pa.chunked_array(known, types.pop()).combine_chunks().dictionary_encode()
        values, code_of, codes = merged.dictionary, codes_of(merged), self.codes.taken()
        end = last = 0
        for n_rows, own in self.dictionaries:
            start, end = end, end + n_rows
            first, last = last, last + len(own)
            take(np.append(code_of[first:last], np.int32(-1)), codes[start:end])
        self.dictionaries.clear()
        used = np.zeros(len(values) + 1, dtype=np.bool_)
        for start in range(0, len(codes), PIECE):
            used[codes[start : start + PIECE]] = True
            if used[:-1].all():
                break
        else:
            new = np.cumsum(used, dtype=np.int32) - np.int32(1)
            new[-1] = -1
            codes, values = take(new, codes), values.filter(to_arrow(used[:-1]))
        return (values.to_pylist() if is_string(values.type) else to_numpy(values)), codes


def take(table: NDArray[np.int32], codes: NDArray[np.int32]) -> NDArray[np.int32]:
    """``table[codes]``, written over `codes` piece by piece."""
    for start in range(0, codes.size, 1 << 20):
        codes[start : start + (1 << 20)] = table[codes[start : start + (1 << 20)]]
    return codes


def ranked(values: Values, codes: NDArray[np.int32]) -> tuple[NDArray[Any], NDArray[np.int32]]:
    """Sorted distinct values, and codes into them."""
    distinct, rank = adapters.factorise(values)
    if np.array_equal(rank, np.arange(len(rank))):
        return distinct, codes
    return distinct, take(np.append(rank, np.int32(-1)), codes)


def _plain(type: Any) -> Any:
    return pa.string() if is_string(type) or pa.types.is_null(type) else pa.int64()
