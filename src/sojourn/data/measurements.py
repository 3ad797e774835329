"""Columns and tables of measurements, whatever holds them, as floats with NaN where missing."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sojourn.data import adapters
from sojourn.errors import SojournError

Floats = NDArray[np.float64]

FEW = 20  # different numbers, written as text, that may be names


def column_names(table: Any) -> list[str]:
    """Names of the columns of a table of pandas, polars or Arrow."""
    return [str(name) for name in getattr(table, "column_names", getattr(table, "columns", ()))]


def as_frame(table: Any) -> Any:
    """A table in memory, with the named levels of a pandas index as columns."""
    if hasattr(table, "collect_schema") and not hasattr(table, "iter_rows"):  # polars, lazy
        raise SojournError("expected a DataFrame, got LazyFrame; pass table.collect()")
    levels = getattr(getattr(table, "index", None), "names", ())
    named = [name for name in levels if name is not None and name not in table.columns]
    return table.reset_index(level=named) if named and hasattr(table, "columns") else table


def may_be_ids(column: Any, channel: bool) -> bool:
    """Whether a column may have ids or times; floats and changing text may be a `channel`."""
    values = np.asarray(adapters.split_missing(column)[0])
    values = np.asarray(values.tolist()) if values.dtype.kind == "O" else values
    if values.dtype.kind == "f":
        return not channel and not (values > np.floor(values)).any()
    if channel and values.dtype.kind in "US":  # ids, if each comes in one stretch of rows
        stretches = 1 + np.count_nonzero(values[1:] != values[:-1])
        return bool(1 < stretches < len(values)) and len(set(values.tolist())) == stretches
    return values.dtype.kind in ("iu" if channel else "iuMUSO")


def read_channel(column: Any, name: str) -> tuple[Floats, NDArray[Any] | None]:
    """A column as floats, NaN where missing; of strings as codes, and what those stand for."""
    present, missing = adapters.split_missing(column)
    there = np.ones(len(column), dtype=bool) if missing is None else ~missing
    known = None
    values = np.asarray(present, dtype=object if isinstance(present, list) else None)
    texts = values.tolist() if values.dtype.kind in "OU" else []
    if texts and all(isinstance(text, str) for text in texts):
        known, values = adapters.factorise(texts)
        _check_no_numbers(known.tolist(), name)
    if values.dtype.kind == "M":
        raise SojournError(
            f"channel {name!r} holds dates; expected numbers: pass time={name!r} to sort by it, or "
            f"name the channels in values="
        )
    out = np.full(len(there), np.nan)
    try:
        out[there] = values.astype(np.float64)
    except (TypeError, ValueError):
        k, value = next((k, v) for k, v in enumerate(values.tolist()) if not _reads(v))
        raise SojournError(
            f"channel {name!r} has {value!r} at row {np.flatnonzero(there)[k]} beside numbers; "
            f"expected numbers, or strings only"
        ) from None
    return out, known


def _check_no_numbers(texts: list[str], name: str) -> None:
    """Raise where the strings of a channel are mostly numbers: one that is not made all strings."""
    written = [text for text in texts if re.fullmatch(r"\s*[-+]?\d*[.,]\d+\s*", text)]
    if len(written) > max(FEW, len(texts) / 2):
        other = next((text for text in texts if not re.fullmatch(r"[-+\s\d.,eE]+", text)), None)
        beside = "" if other is None else f", and {other!r}"
        raise SojournError(
            f"channel {name!r} holds text: numbers such as {written[0]!r}{beside}; make it "
            f"numbers, with a point, and NaN where one is missing"
        )


def _reads(value: Any) -> bool:
    """Whether a value can be a float."""
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def read_table(row: Any, owner: str) -> Floats:
    """One sequence as a table of floats (length, n_channels)."""
    try:
        if np.iscomplexobj(row):
            raise TypeError
        if isinstance(row, np.ma.MaskedArray):
            table = np.ma.filled(row.astype(np.float64), np.nan)
        elif hasattr(row, "column_names"):  # Arrow
            table = np.column_stack([np.asarray(column, np.float64) for column in row.columns])
        elif hasattr(row, "convert_dtypes"):  # pandas, whose NA is no float
            table = row.to_numpy(dtype=np.float64, na_value=np.nan)
        else:
            table = np.asarray(row, dtype=np.float64)
    except (TypeError, ValueError):
        given = row.ravel().tolist() if isinstance(row, np.ndarray) else []
        other = next((f", but has {value!r}" for value in given if not _reads(value)), "")
        raise SojournError(
            f"{owner} is not a table of numbers, one row per step and one column per channel"
            f"{other}; expected numbers, and NaN where one is missing"
        ) from None
    if table.ndim == 1:
        table = table[:, None]
    if table.ndim != 2 or table.shape[1] == 0:
        raise SojournError(
            f"{owner} has shape {table.shape}; expected (length,) or (length, n_channels)"
        )
    return table


def channel_names(channels: Any, table: Any, n: int) -> list[str]:
    """Names of n channels: those given, those of a data frame, or numbers."""
    if channels is None:
        own = column_names(table) if n > 1 or hasattr(table, "columns") else []
        return own if len(own) == n else [f"channel {j}" for j in range(n)]
    names = [channels] if isinstance(channels, str) else list(channels)
    if len(names) != n:
        raise SojournError(f"there are {n} channels but {len(names)} names: {', '.join(names)}")
    return names


def counted(n: int) -> str:
    """A number of channels, in words."""
    return f"{n} channel{'s' if n != 1 else ''}"
