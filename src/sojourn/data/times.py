"""Times of events: columns of dates or numbers, and lengths of time such as ``"15min"``.

Dates are held as ``datetime64`` in UTC, numbers as floats in whatever unit the data have.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
from numpy.typing import NDArray

from sojourn.data import adapters
from sojourn.errors import SojournError

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
QUARTER = 900 * 10**6  # microseconds; clocks change at quarters of an hour

# Unit -> seconds, and its name in the plural.
UNITS = {
    "w": (604800.0, "weeks"),
    "d": (86400.0, "days"),
    "h": (3600.0, "hours"),
    "min": (60.0, "minutes"),
    "s": (1.0, "seconds"),
    "ms": (1e-3, "milliseconds"),
    "us": (1e-6, "microseconds"),
}
LENGTH = re.compile(r"([0-9]*\.?[0-9]+(?:e[+-]?[0-9]+)?)\s*([a-z]*)")


@dataclass(frozen=True)
class Length:
    """A length of time: so many of a unit, or a number where times are numbers (unit "")."""

    count: float
    unit: str

    @property
    def seconds(self) -> float:
        """Seconds; the number itself where there is no unit."""
        return self.count * (UNITS[self.unit][0] if self.unit else 1.0)

    @property
    def name(self) -> str:
        """Name of the unit, in the plural."""
        return UNITS[self.unit][1] if self.unit else "units of time"

    def __str__(self) -> str:
        count = int(self.count) if self.count.is_integer() else self.count
        return f"{count}{self.unit}"


def length_of_time(given: Any, what: str, dated: bool) -> Length:
    """A length of time from ``"15min"``, a number of seconds or a `timedelta`.

    Where times are not dates, it is a number in their unit.
    """
    longest = 1e12 if dated else np.inf  # seconds: 30,000 years, which 64 bits hold
    if isinstance(given, timedelta):
        given = given.total_seconds()
    if isinstance(given, str) and (found := LENGTH.fullmatch(given.strip())):
        count, unit = float(found[1]), found[2]
        if unit in UNITS and dated and 0 < count * UNITS[unit][0] < longest:
            return Length(count, unit)
        if not unit:
            given = count
        elif unit in UNITS and not dated:
            raise SojournError(
                f"{what} is {given!r}, but the times are numbers, not dates; pass a number in "
                f"their unit"
            )
    if not isinstance(given, int | float) or isinstance(given, bool) or not 0 < given < longest:
        raise SojournError(
            f"{what} is {given!r}; expected a length of time such as '1h', '15min' or '1d' (units: "
            f"{', '.join(UNITS)}), or a number above 0"
        )
    if not dated:
        return Length(float(given), "")
    unit = next((unit for unit, (size, _) in UNITS.items() if given % size == 0), "s")
    return Length(given / UNITS[unit][0], unit)


def read_times(column: Any, name: str) -> NDArray[Any]:
    """Times of a column, none missing: ``datetime64[ns]`` in UTC, or floats."""
    if hasattr(column, "dt") and getattr(getattr(column, "dtype", None), "tz", None) is not None:
        column = column.dt.tz_convert("UTC").dt.tz_localize(None)  # pandas
    values, missing = adapters.split_missing(column)
    if missing is not None and missing.any():
        raise _unreadable(name, int(np.argmax(missing)), None)
    if not isinstance(values, np.ndarray) or values.dtype.kind not in "iufMm":
        values = _parsed(list(values), name)
    if values.dtype.kind == "m":
        values = values / np.timedelta64(1, "s")
    if values.dtype.kind == "M":
        values = values.astype("M8[ns]")
        bad = np.isnat(values)
    else:
        values = values.astype(np.float64)
        bad = ~np.isfinite(values)
    if bad.any():
        k = int(np.argmax(bad))
        raise _unreadable(name, k, values[k])
    return values


def _parsed(values: list[Any], name: str) -> NDArray[Any]:
    found: list[tuple[str, Any]] = []
    for k, value in enumerate(values):
        if isinstance(value, datetime):
            found.append(("date", _nanoseconds(value)))
        elif isinstance(value, time):
            found.append(("time of day", _nanoseconds(datetime.combine(EPOCH, value))))
        elif isinstance(value, int | float | Decimal) and not isinstance(value, bool):
            found.append(("number", value))
        elif isinstance(value, str) and (parsed := parse_time(value)) is not None:
            found.append(parsed)
        else:
            raise _unreadable(name, k, value)
        if found[k][0] != found[0][0]:
            raise SojournError(
                f"{name} holds a {found[0][0]} at position 0, a {found[k][0]} at {k}"
            )
    numbers = [number for _, number in found]
    if found and found[0][0] != "number":
        return np.array(numbers, dtype=np.int64).view("M8[ns]")
    return np.array(numbers, dtype=np.float64)


def _unreadable(name: str, k: int, value: Any) -> SojournError:
    shown = "no value" if value is None else repr(value)
    return SojournError(f"{name} has {shown} at position {k}; expected a date or a number")


def parse_time(text: str) -> tuple[str, int | float] | None:
    """Kind and value of a time as text; nanoseconds since 1970 or midnight if it is no number."""
    if "_" not in text:  # Python reads 1_000, no one else does
        try:
            number = int(text) if len(text) < 19 and text.isdigit() else float(text)
            return None if number != number else ("number", number)
        except ValueError:
            pass
    kind = "date"
    try:
        date = datetime.fromisoformat(text)
    except ValueError:
        kind = "time of day"
        try:
            date = datetime.combine(EPOCH, time.fromisoformat(text))
        except ValueError:
            return None
    nanoseconds = _nanoseconds(date)
    return (kind, nanoseconds) if abs(nanoseconds) < 2**63 else None


def _nanoseconds(date: datetime) -> int:
    since = (date if date.tzinfo else date.replace(tzinfo=UTC)) - EPOCH
    return since // timedelta(microseconds=1) * 1000


def zone_of(name: str) -> ZoneInfo:
    """A time zone by its name."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        raise SojournError(
            f"zone is {name!r}; expected a name such as 'Europe/Amsterdam'"
        ) from None


def local_seconds(times: NDArray[Any], zone: ZoneInfo) -> NDArray[np.float64]:
    """What clocks of a zone show at these times, as seconds since 1970 there."""
    seconds = times.astype("M8[us]").astype(np.int64) / 1e6
    quarter, at = np.unique(seconds // 900, return_inverse=True)
    shift = [datetime.fromtimestamp(q * 900, zone).utcoffset() for q in quarter.tolist()]
    return seconds + np.array([s.total_seconds() if s else 0.0 for s in shift])[at]


def from_local(times: NDArray[Any], zone: ZoneInfo) -> NDArray[Any]:
    """Times in UTC from what clocks of a zone show.

    A time that clocks show twice is the first of the two; one that they leave out is the moment
    at which they change, so that order is kept.
    """
    shown = times.astype("M8[us]").astype(np.int64)
    quarter, at = np.unique(shown // QUARTER, return_inverse=True)
    starts, exist = [], []
    for q in quarter.tolist():
        last = q
        while (offsets := _offsets(last, zone))[0] < offsets[1]:  # back to where clocks change
            last -= 1
        exist.append(last == q)
        starts.append((last + (last < q)) * QUARTER - offsets[0])
    moments = np.array(starts)[at] + np.where(np.array(exist)[at], shown % QUARTER, 0)
    return moments.view("M8[us]")


def _offsets(quarter: int, zone: ZoneInfo) -> tuple[int, int]:
    """Offsets from UTC, in microseconds, of a time on the clock: by the clock before and after."""
    local = (EPOCH + timedelta(microseconds=quarter * QUARTER)).replace(tzinfo=zone)
    found = (local.replace(fold=fold).utcoffset() or timedelta() for fold in (0, 1))
    before, after = (offset // timedelta(microseconds=1) for offset in found)
    return before, after
