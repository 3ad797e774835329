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
from sojourn.errors import SojournError

Values = NDArray[np.int64] | list[str]

# Integers with fewer values between them are coded by their distance from the least.
MOST_BY_RANGE = 1 << 16

# Rows that an array which grows begins with, more than a partition has (what is not used is never
# touched), and bytes from which on it is moved by the system rather than copied.
ROOM, LARGE = 1 << 22, 1 << 26

# Codes that are looked through at once.
PIECE = 1 << 16

DTYPES = {
    pa.int8(): np.int8,
    pa.int32(): np.int32,
    pa.int64(): np.int64,
    pa.float64(): np.float64,
}


def to_numpy(array: Any, null: Any = None) -> NDArray[Any]:
    """Numbers or truth values of an Arrow array, with `null` where they are null.

    Examples
    --------
    >>> to_numpy(pa.array([7, 3, None, 1], pa.int32()).slice(1), null=-1)
    array([ 3, -1,  1], dtype=int32)
    """
    if pa.types.is_boolean(array.type):
        return to_numpy(array.cast(pa.int8()), null).view(np.bool_)
    dtype = np.dtype(DTYPES[array.type])
    if len(array) == 0:
        return np.empty(0, dtype)
    valid, data = array.buffers()
    values = np.frombuffer(data, dtype, count=len(array), offset=array.offset * dtype.itemsize)
    if array.null_count:
        bits = np.unpackbits(np.frombuffer(valid, np.uint8), bitorder="little")
        values = np.where(bits[array.offset : array.offset + len(array)], values, dtype.type(null))
    return values


def to_arrow(array: NDArray[Any]) -> Any:
    """An Arrow array of numbers or truth values.

    Examples
    --------
    >>> to_arrow(np.array([True, False])).to_pylist()
    [True, False]
    """
    if array.dtype.kind == "b":
        return to_arrow(array.view(np.int8)).cast(pa.bool_())
    type = next(type for type, dtype in DTYPES.items() if dtype == array.dtype)
    return pa.Array.from_buffers(
        type, len(array), [None, pa.py_buffer(np.ascontiguousarray(array))]
    )


def is_list(type: Any) -> bool:
    """Whether an Arrow type holds a list in each row.

    Examples
    --------
    >>> is_list(pa.list_(pa.string())), is_list(pa.string())
    (True, False)
    """
    return bool(
        pa.types.is_list(type) or pa.types.is_large_list(type) or pa.types.is_fixed_size_list(type)
    )


def is_string(type: Any) -> bool:
    """Whether an Arrow type holds text.

    Examples
    --------
    >>> is_string(pa.large_string()), is_string(pa.int8())
    (True, False)
    """
    return bool(
        pa.types.is_string(type) or pa.types.is_large_string(type) or pa.types.is_string_view(type)
    )


def list_lengths(lists: Any) -> NDArray[np.int64]:
    """Length of each list of an Arrow array, 0 where it is null.

    Examples
    --------
    >>> list_lengths(pa.array([[1, 2], None, []]))
    array([2, 0, 0])
    """
    return to_numpy(pc.list_value_length(lists).cast(pa.int64()), null=0)


def coded(column: Any) -> Any:
    """A column as an Arrow dictionary of strings or of int64, with int32 codes.

    Examples
    --------
    >>> coded(pa.array(["a", "b", "a"])).indices.to_pylist()
    [0, 1, 0]
    """
    if pa.types.is_dictionary(column.type) and column.dictionary.null_count:
        column = column.dictionary_decode()  # null may be a value there, too
    if pa.types.is_dictionary(column.type):
        plain = column.type.value_type in (pa.string(), pa.int64())
        if plain and column.type.index_type == pa.int32():
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
    numbers = to_numpy(column if column.type in DTYPES else column.cast(pa.int64()))
    wide = np.int64 if numbers.dtype == np.int64 else np.int32
    codes = np.empty(len(numbers), np.int32)
    np.subtract(numbers, wide(least), out=codes, dtype=wide, casting="unsafe")
    values = to_arrow(np.int64(least) + np.arange(most - least + 1))
    return pa.DictionaryArray.from_arrays(to_arrow(codes), values, safe=False)


def codes_of(column: Any) -> NDArray[np.int32]:
    """Codes of a coded column, -1 where it is null.

    Examples
    --------
    >>> codes_of(coded(pa.array(["a", None])))
    array([ 0, -1], dtype=int32)
    """
    return to_numpy(column.indices, null=-1)


def distinct_values(chunks: Iterable[Any]) -> set[Any]:
    """Values that occur in the chunks of a column, null left out.

    Examples
    --------
    >>> sorted(distinct_values([pa.array(["b", None]), pa.array(["a", "b"])]))
    ['a', 'b']
    """
    found: set[Any] = set()
    for chunk in chunks:
        found.update(pc.unique(chunk.flatten() if is_list(chunk.type) else chunk).to_pylist())
    return found - {None}


class Growing:
    """An array that grows at its end, in place and without a second copy once it is large.

    Examples
    --------
    >>> times = Growing()
    >>> times.add(np.array([1, 2]))
    >>> times.add(np.array([2.5]))
    >>> times.taken()
    array([1. , 2. , 2.5])
    """

    def __init__(self) -> None:
        self.array: NDArray[Any] | None = None
        self.size = 0

    def add(self, values: NDArray[Any]) -> None:
        """Append values; integers become floats where floats follow them."""
        if self.array is None:
            self.array = np.empty(max(len(values), ROOM), values.dtype)
        if values.dtype.kind == "f" and self.array.dtype.kind == "i":
            whole, self.array = self.array, np.empty(self.array.size, values.dtype)
            self.array[: self.size] = whole[: self.size]
        size = self.size + len(values)
        if size > self.array.size and self.array.nbytes < LARGE:
            small, self.array = self.array, np.empty(2 * size, self.array.dtype)
            self.array[: self.size] = small[: self.size]
        elif size > self.array.size:  # the system moves pages, not bytes, so this may be often
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
    """A column that grows by coded chunks, each of which brings its own dictionary.

    Examples
    --------
    >>> codes = Codes()
    >>> for chunk in (["b", "a"], [None, "a"]):
    ...     codes.add(coded(pa.array(chunk)))
    >>> codes.joined()
    (['b', 'a'], array([ 0,  1, -1,  1], dtype=int32))
    """

    def __init__(self) -> None:
        self.codes = Growing()
        self.dictionaries: list[tuple[int, Any]] = []  # with the number of rows of each

    def add(self, chunk: Any) -> None:
        """Take in the rows of one more chunk."""
        self.codes.add(codes_of(chunk))
        self.dictionaries.append((len(chunk), chunk.dictionary))

    def joined(self) -> tuple[Values, NDArray[np.int32]]:
        """Values that occur, in no order, and the code of each row; the column is empty then."""
        # A chunk in which all is missing does not tell its type.
        known = [values for _, values in self.dictionaries if len(values)]
        types = {values.type for values in known} or {pa.string()}
        if len(types) > 1:
            raise SojournError("a column holds both strings and integers; use one of the two")
        merged = pa.chunked_array(known, types.pop()).combine_chunks().dictionary_encode()
        code_of, values, codes = codes_of(merged), merged.dictionary, self.codes.taken()
        end = first = 0
        for n_rows, own_values in self.dictionaries:
            own = code_of[first : first + len(own_values)]
            mine = codes[end : end + n_rows]
            ascending = len(own) > 0 and np.array_equal(own, own[0] + np.arange(len(own)))
            if ascending and own[0] == 0:
                pass  # as where each chunk has all symbols
            elif ascending and mine.size and mine.min() >= 0:
                mine += own[0]  # as where ids ascend; many times faster
            else:
                mine[:] = np.append(own, np.int32(-1))[mine]  # -1 is the last
            end, first = end + n_rows, first + len(own_values)
        self.dictionaries.clear()
        used = _used(codes, len(values))
        at = np.flatnonzero(used[:-1])
        if len(at) < len(values):
            if len(at) and not used[-1] and at[-1] - at[0] < len(at):
                codes -= np.int32(at[0])  # as where ids ascend, and a partition holds some
            else:
                new = np.cumsum(used, dtype=np.int32) - np.int32(1)
                new[-1] = -1
                codes = take(new, codes)
            values = values.filter(to_arrow(used[:-1]))
        return (values.to_pylist() if is_string(values.type) else to_numpy(values)), codes


def _used(codes: NDArray[np.int32], n: int) -> NDArray[np.bool_]:
    """Which of `n` codes occur; and whether -1 does, unless all others have been seen before."""
    used = np.zeros(n + 1, dtype=np.bool_)
    for start in range(0, len(codes), PIECE):
        piece = codes[start : start + PIECE]
        changes = np.flatnonzero(piece[1:] != piece[:-1])
        if len(changes) < len(piece) // 8:  # long runs, as of ids
            piece = piece[np.append(0, changes + 1)]
        used[piece] = True
        if used[:-1].all():
            break
    return used


def take(table: NDArray[np.int32], codes: NDArray[np.int32]) -> NDArray[np.int32]:
    """``table[codes]``, written over `codes` piece by piece.

    Examples
    --------
    >>> take(np.array([7, 8, -1], dtype=np.int32), np.array([1, -1, 0], dtype=np.int32))
    array([ 8, -1,  7], dtype=int32)
    """
    for start in range(0, codes.size, 1 << 20):
        codes[start : start + (1 << 20)] = table[codes[start : start + (1 << 20)]]
    return codes


def ranked(values: Values, codes: NDArray[np.int32]) -> tuple[NDArray[Any], NDArray[np.int32]]:
    """Sorted distinct values, and codes into them.

    Examples
    --------
    >>> ranked(["b", "a"], np.array([0, 1, -1], dtype=np.int32))
    (array(['a', 'b'], dtype='<U1'), array([ 1,  0, -1], dtype=int32))
    """
    distinct, rank = adapters.factorise(values)
    if np.array_equal(rank, np.arange(len(rank))):
        return distinct, codes
    return distinct, take(np.append(rank, np.int32(-1)), codes)


def _plain(type: Any) -> Any:
    return pa.string() if is_string(type) or pa.types.is_null(type) else pa.int64()
