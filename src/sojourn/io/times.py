"""Times of rows, from numbers, dates and the text of either, as numbers that sort alike."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sojourn.data.times import from_local, parse_time, zone_of
from sojourn.io.arrow_codes import LARGEST_INTEGER, is_string, to_numpy

NANOSECONDS, IN_UTC = pa.timestamp("ns"), pa.timestamp("ns", "UTC")

OFFSET = r"(Z|[+-]\d{2}:?\d{2})$"


def read_times(column: Any, kind: str = "") -> tuple[NDArray[Any], NDArray[np.bool_], str]:
    """Times of a batch of rows, and which of them cannot be read."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    type = column.type
    bad: NDArray[np.bool_] = to_numpy(column.is_null())
    if pa.types.is_null(type) or len(column) == 0:
        return np.zeros(len(column), dtype=np.int64), bad, kind
    large = type == pa.uint64() and (pc.max(column).as_py() or 0) > LARGEST_INTEGER
    if pa.types.is_floating(type) or pa.types.is_decimal(type) or large:
        numbers = to_numpy(column.cast(pa.float64(), safe=False), null=0.0)
        return _alike(numbers, bad | np.isnan(numbers), "number", kind)
    if pa.types.is_integer(type):
        return _alike(to_numpy(column.cast(pa.int64()), null=0), bad, "number", kind)
    if pa.types.is_temporal(type):
        narrow = pa.types.is_date32(type) or pa.types.is_time32(type)
        column = column.cast(pa.int32()) if narrow else column
        this = "time of day" if pa.types.is_time(type) else "date"
        return _alike(to_numpy(column.cast(pa.int64()), null=0), bad, this, kind)
    if kind in ("", "date"):
        for type in (NANOSECONDS, IN_UTC):
            try:
                times = column.cast(pa.string()).cast(type).cast(pa.int64())
                return to_numpy(times, null=0), bad, "date"
            except pa.ArrowInvalid:
                pass
    return _from_text(column.cast(pa.string()).to_pylist(), kind)


def as_times(values: NDArray[Any], type: Any, kind: str, local: str | None) -> NDArray[Any] | None:
    """What `read_times` returned, as dates or floats; None where it was times of a day.

    `local` is the time zone of dates that have none of their own.
    """
    if kind != "date":
        return values.astype(np.float64) if kind == "number" else None
    dates: NDArray[Any] = values.view(f"M8[{unit_of(type)}]")
    return dates if local is None else from_local(dates, zone_of(local))


def unit_of(type: Any) -> str:
    """The unit in which `read_times` counts dates or times of a day of this type."""
    unit = "D" if pa.types.is_date32(type) else "ms" if pa.types.is_date64(type) else "ns"
    return getattr(type, "unit", unit)


def has_zone(column: Any) -> bool:
    """Whether the dates of a column have a time zone, or an offset in their text."""
    type = column.type
    if pa.types.is_dictionary(type):
        column, type = column.dictionary, column.dictionary.type
    if not is_string(type):
        return getattr(type, "tz", None) is not None
    found = pc.match_substring_regex(column.cast(pa.string()), OFFSET)
    some = bool(pc.any(found).as_py())
    if some and not pc.all(found).as_py():
        warnings.warn(
            "some times have an offset such as Z or +01:00 and others have none; those without are "
            "taken as UTC",
            stacklevel=2,
        )
    return some


def is_time(type: Any) -> bool:
    """Whether an Arrow type can be the times of rows."""
    inner = type.value_type if pa.types.is_dictionary(type) else type
    tests = ("integer", "floating", "decimal", "temporal", "null")
    return is_string(inner) or any(getattr(pa.types, f"is_{test}")(inner) for test in tests)


def _from_text(texts: list[str | None], kind: str) -> tuple[NDArray[Any], NDArray[np.bool_], str]:
    parsed = [None if text is None else parse_time(text) for text in texts]
    kind = kind or next((found[0] for found in parsed if found is not None), "")
    values = [found[1] if found is not None and found[0] == kind else None for found in parsed]
    times = np.array([0 if value is None else value for value in values])
    return times, np.array([value is None for value in values]), kind


def _alike(
    times: NDArray[Any], bad: NDArray[np.bool_], kind: str, before: str
) -> tuple[NDArray[Any], NDArray[np.bool_], str]:
    """The times, all of them bad where those before were of another kind."""
    return times, bad if before in ("", kind) else np.ones_like(bad), before or kind
