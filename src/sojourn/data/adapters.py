"""Columns of symbols, ids or numbers, whatever holds them: lists, NumPy, pandas, polars, Arrow.

None of those packages but NumPy is imported: a column is known by the methods it has.
"""

from collections.abc import Callable, Mapping
from types import NoneType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sojourn.errors import SojournError

Values = NDArray[np.int64] | list[str]
Place = Callable[[int], tuple[str, int]]  # entry -> whose it is and its position, for errors

MISSING = "a missing symbol is None in lists, null in tables and a masked entry in arrays"

# What to do about a value that is no symbol, by its type.
_ADVICE: list[tuple[tuple[type, ...], str]] = [
    ((bool, np.bool_), "write 0 and 1, or strings"),
    (
        (float, np.floating),
        "cut numbers into integers or strings first (a table's integer column with gaps reads as "
        f"float: use a nullable integer type); {MISSING}",
    ),
    ((bytes, np.bytes_), "decode bytes into strings first"),
    ((complex, np.complexfloating), "Complex data not supported"),
    ((list, tuple, np.ndarray, dict, set), "a sequence is flat: one symbol per position"),
]


def is_collection(value: Any) -> bool:
    """Whether a value holds others in an order, a string not counted."""
    unordered_or_text = isinstance(value, str | bytes | dict | set | frozenset)
    return (
        hasattr(value, "__iter__") and not unordered_or_text and getattr(value, "shape", None) != ()
    )


def read_column(
    column: Any, place: Place, least: int | None = None
) -> tuple[Values, NDArray[np.bool_] | None]:
    """Values present in a column, and the mask of the missing ones (None where all are there)."""
    present, missing = split_missing(column)
    if missing is not None and missing.any():
        at, place_all = np.flatnonzero(~missing), place
        place = lambda k: place_all(int(at[k]))  # noqa: E731
    else:
        missing = None
    values = _plain(present, place)
    if least is not None and isinstance(values, np.ndarray) and np.any(low := values < least):
        k = int(np.argmax(low))
        owner, position = place(k)
        raise SojournError(
            f"{owner} has {values[k]} at position {position}; "
            f"expected integers of {least} and more. Negative values in data are not symbols; "
            f"{MISSING}"
        )
    return values, missing


def read_complete(column: Any, name: str, least: int | None = None) -> Values:
    """Values of a column in which none may be missing."""
    values, missing = read_column(column, lambda k: (name, k), least)
    if missing is not None:
        raise SojournError(
            f"{name} has no value at position {np.argmax(missing)}; none may be missing there"
        )
    return values


def read_distinct(
    column: Any, name: str, least: int | None = None
) -> tuple[NDArray[Any], NDArray[np.int32]]:
    """Sorted values of a column that has each once, and the place of each entry among them."""
    distinct, codes = factorise(read_complete(column, name, least))
    if distinct.size < codes.size:
        first = np.unique(codes, return_index=True)[1]
        k = int(np.setdiff1d(np.arange(codes.size), first)[0])
        raise SojournError(
            f"{name} has {distinct[codes[k]].item()!r} at position {k} and {first[codes[k]]}; "
            f"expected each value once"
        )
    return distinct, codes


def read_integers(column: Any, name: str) -> NDArray[np.int64]:
    """Values of a column of integers such as lengths."""
    if isinstance(column, list | np.ndarray) and len(column) and isinstance(column[0], float):
        raise SojournError(f"{name} has {column[0]} at position 0; expected integers")
    values = read_complete(column, name)
    if isinstance(values, list):
        raise SojournError(f"{name} has the string {values[0]!r} at position 0; expected integers")
    return values


def factorise(values: Values) -> tuple[NDArray[Any], NDArray[np.int32]]:
    """Sorted distinct values, and the code of each value in that order."""
    if isinstance(values, list):
        distinct = sorted(set(values))
        index = {symbol: code for code, symbol in enumerate(distinct)}
        codes = np.fromiter(map(index.__getitem__, values), dtype=np.int32, count=len(values))
        return _string_array(distinct), codes
    if values.size == 0:
        return values, np.empty(0, dtype=np.int32)
    low, high = int(values.min()), int(values.max())
    if high - low > 4 * values.size + 1024:  # too sparse for a table: sort
        distinct_values, inverse = np.unique(values, return_inverse=True)
        return distinct_values, inverse.astype(np.int32)
    shifted = values - low
    seen = np.zeros(high - low + 1, dtype=np.bool_)
    seen[shifted] = True
    code_of = np.cumsum(seen, dtype=np.int32) - np.int32(1)
    return np.flatnonzero(seen).astype(np.int64) + low, code_of[shifted]


def offsets_of(lengths: NDArray[Any]) -> NDArray[np.int64]:
    """Where each of the stretches of these lengths starts, and where the last ends."""
    return np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))


def name_of(i: int, ids: NDArray[Any]) -> str:
    """Sequence `i` for an error message, with its id where that says more."""
    own = ids[i].item()
    return f"sequence {i}" if own == i else f"sequence {i} (id {own!r})"


def place_of(offsets: NDArray[np.int64], ids: NDArray[Any]) -> Place:
    """The sequence and the position there of each of the entries laid end to end."""

    def place(k: int) -> tuple[str, int]:
        i = int(np.searchsorted(offsets, k, side="right")) - 1
        return name_of(i, ids), k - int(offsets[i])

    return place


def read_ids(ids: Any, n: int) -> NDArray[Any]:
    """Ids of `n` sequences, each once: those given, or 0, 1, 2 and so on."""
    if ids is None:
        return np.arange(n)
    distinct, at = read_distinct(ids, "ids")
    if at.size != n:
        raise SojournError(f"there are {n} sequences but {at.size} ids")
    return distinct[at]


def read_row(row: Any, owner: str) -> Any:
    """One sequence that is neither a list nor a tuple, as an int64 array or a list."""
    if type(row) is np.ndarray and row.ndim == 1 and row.dtype.kind == "i":
        return row  # the usual case; its entries are checked with all the others
    if isinstance(row, str):
        raise SojournError(
            f"{owner} is the string {row!r}; expected a list of symbols: pass list({row!r}) for "
            f"its characters, or [X] where X is one sequence"
        )
    if not is_collection(row):
        raise SojournError(
            f"{owner} is {_shown(row)}; expected a list of symbols: pass [X] "
            f"where X is one sequence, or lengths= where it is several laid end to end"
        )
    values, missing = read_column(row, lambda k: (owner, k), least=0)
    if missing is None:
        return values
    present = iter(values if isinstance(values, list) else values.tolist())
    return [None if gone else next(present) for gone in missing]


def check_lengths(lengths: NDArray[np.int64], ids: NDArray[Any], empty: bool = False) -> None:
    """Raise an error that names a sequence without symbols, unless such sequences are allowed."""
    if np.any(short := lengths < (0 if empty else 1)):
        i = int(np.argmax(short))
        what = "is empty" if lengths[i] == 0 else f"has length {lengths[i]}"
        raise SojournError(
            f"{name_of(i, ids)} {what}; every sequence needs at least one symbol: drop it, or fit "
            f"with ends=True, and where you make a Sequences of it pass empty=True"
        )


def group_rows(
    column: Any, name: str, n: int
) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[np.int64]]:
    """Ids of a table's n rows, in order of appearance, how many each has, and these together.

    Without a column of ids all rows are one sequence.
    """
    if column is None:
        return np.array([0]), np.array([n]), np.arange(n)
    ids, owner = factorise(read_complete(column, name))
    first = np.empty(ids.size, dtype=np.int64)
    first[owner[::-1]] = np.arange(owner.size)[::-1]  # the last write to an id is its first row
    order = np.argsort(first)
    rank = np.argsort(order)[owner]
    together = np.all(rank[1:] >= rank[:-1])
    rows = np.arange(rank.size) if together else np.argsort(rank, kind="stable")
    return ids[order], np.bincount(rank, minlength=ids.size), rows


def sort_by_time(
    rows: NDArray[np.int64], lengths: NDArray[np.int64], times: NDArray[Any]
) -> NDArray[np.int64]:
    """Rows of sequences of these lengths, each sorted by time; ties keep their order."""
    return rows[np.lexsort((times[rows], np.repeat(np.arange(len(lengths)), lengths)))]


def column_of(table: Any, name: str) -> Any:
    """A column of a table of pandas, polars or Arrow, or of a dict of columns."""
    names = list(getattr(table, "column_names", getattr(table, "columns", ())))
    if isinstance(table, Mapping):
        names = list(table)
    if name not in names:
        raise SojournError(
            f"the table has no column {name!r}; it has {', '.join(map(repr, names)) or 'none'}"
        )
    return table[name]


def read_recorded(column: Any, name: str) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Values of any type that are neither null nor NaN, and the mask of the rows that have one."""
    values, missing = split_missing(column)
    if isinstance(values, list):
        items, values = values, np.asarray(values)
        if values.dtype.kind in "US":
            values = np.asarray(items, dtype=object)  # else NaN would be the word "nan"
    if values.ndim != 1:
        raise SojournError(f"{name!r} has shape {values.shape}; expected one column")
    there = np.ones(len(values), dtype=np.bool_) if missing is None else ~missing
    if values.dtype.kind in "fcmMO":
        number = np.asarray(values == values, dtype=np.bool_)  # NaN and NaT are not
        there[there] = number
        values = values[number]
    return values, there


def _string_array(distinct: list[str]) -> NDArray[np.str_]:
    array = np.array(distinct, dtype=np.str_)
    for symbol, kept in zip(distinct, array.tolist(), strict=True):
        if symbol != kept:  # NumPy pads its strings with NUL and strips it again
            raise SojournError(f"the string {symbol!r} ends in a NUL character; strip it first")
    return array


def split_missing(column: Any) -> tuple[Any, NDArray[np.bool_] | None]:
    """The entries that are there, still unchecked, and the mask of those that are not."""
    if not is_collection(column):
        raise SojournError(
            f"expected a column of symbols (a list, a one-dimensional array, a table's column), "
            f"got {_shown(column)}"
        )
    if len(shape := getattr(column, "shape", (0,))) != 1:
        raise SojournError(f"expected one column, got {type(column).__name__} of shape {shape}")
    if isinstance(column, np.ma.MaskedArray):
        return column.compressed(), np.ma.getmaskarray(column)
    if hasattr(column, "combine_chunks"):  # Arrow, chunked
        column = column.combine_chunks()
    if hasattr(column, "dictionary_decode"):  # Arrow, dictionary
        column = column.dictionary_decode()
    if str(getattr(column, "type", "")) == "string_view":  # Arrow cannot filter it
        column = column.cast("large_string")
    for null, drop in (("isna", "dropna"), ("is_null", "drop_nulls"), ("is_null", "drop_null")):
        if hasattr(column, null) and hasattr(column, drop):  # pandas, polars, Arrow
            return np.asarray(getattr(column, drop)()), np.asarray(getattr(column, null)())
    if hasattr(column, "__array__"):
        column = np.asarray(column)
        if column.dtype.kind != "O":
            return column, None
    items = list(column)
    if NoneType not in set(map(type, items)):
        return items, None
    missing = np.fromiter((item is None for item in items), dtype=np.bool_, count=len(items))
    return [item for item in items if item is not None], missing


def _plain(values: Any, place: Place) -> Values:
    """The entries as int64 or as a list of str, after a check of every one."""
    if len(values) == 0:
        return np.empty(0, dtype=np.int64)
    if isinstance(values, np.ndarray):
        if values.dtype.kind in "iu":
            if values.dtype.kind == "u" and values.max() > np.iinfo(np.int64).max:
                raise _too_large(values, place)
            return values.astype(np.int64, copy=False)
        if values.dtype.kind in "fcbSmMV":  # known by the dtype; NaN is shown first
            k = int(np.argmin(np.isfinite(values))) if values.dtype.kind in "fc" else 0
            raise _no_symbol(values[k], *place(k))
        values = values.tolist()
    kinds = {kind: _kind(kind) for kind in set(map(type, values))}
    if set(kinds.values()) == {"string"}:
        return list(values)
    if set(kinds.values()) == {"integer"}:
        try:
            return np.fromiter(map(int, values), dtype=np.int64, count=len(values))
        except OverflowError:
            raise _too_large(values, place) from None
    for k, value in enumerate(values):
        if not kinds[type(value)]:
            raise _no_symbol(value, *place(k))
    first = kinds[type(values[0])]
    k = next(k for k, value in enumerate(values) if kinds[type(value)] != first)
    (owner, at), (first_owner, first_at) = place(k), place(0)
    raise SojournError(
        f"{owner} has the {kinds[type(values[k])]} {_shown(values[k])} at position {at}, but "
        f"{first_owner} has the {first} {_shown(values[0])} at position {first_at}; use strings or "
        f"integers, not both"
    )


def _kind(kind: type) -> str:
    if issubclass(kind, str):
        return "string"
    return "integer" if issubclass(kind, int | np.integer) and not issubclass(kind, bool) else ""


def _shown(value: Any) -> str:
    """A value as an error message shows it: short, and without NumPy's wrapping."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str | int):
        return repr(value)
    text = "NaN" if isinstance(value, float) and value != value else repr(value)
    return f"{text if len(text) <= 40 else text[:37] + '...'} ({type(value).__name__})"


def _no_symbol(value: Any, owner: str, position: int) -> SojournError:
    advice = next((text for types, text in _ADVICE if isinstance(value, types)), MISSING)
    shown = f"{value} (bool)" if isinstance(value, bool | np.bool_) else _shown(value)
    return SojournError(
        f"{owner} has {shown} at position {position}; expected a string or an integer: {advice}"
    )


def _too_large(values: Any, place: Place) -> SojournError:
    k = next(k for k, value in enumerate(values) if not -(2**63) <= int(value) < 2**63)
    owner, position = place(k)
    return SojournError(
        f"{owner} has {int(values[k])} at position {position}, which does not fit 64 bits; "
        f"use strings"
    )


def frozen(array: Any, name: str, kinds: str) -> NDArray[Any]:
    """A read-only view, contiguous and of the one dtype that the field has."""
    array = np.asarray(array)
    if array.ndim != 1 or array.dtype.kind not in kinds:
        expected = {"i": "integers", "iU": "integers or strings"}.get(kinds, "numbers or dates")
        raise SojournError(
            f"{name} must be a one-dimensional array of {expected}, got {array.dtype} of shape "
            f"{array.shape}"
        )
    if name == "codes" and array.dtype != np.int32:
        array = np.clip(array, -2, 2**31 - 1).astype(np.int32)  # what is outside stays outside
    if name != "codes" and array.dtype.kind == "i":
        array = array.astype(np.int64, copy=False)
    return read_only(np.ascontiguousarray(array))


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """A view that cannot be written to; kernels are compiled for such arrays once."""
    view = array.view()
    view.flags.writeable = False
    return view
