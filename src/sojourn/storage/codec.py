"""Values as JSON in which arrays stand by name: no code, and no pickle.

A value becomes plain JSON where that keeps its type; else an object with one key that names it:
``{"array": "learned.params_.start"}``, ``{"tuple": […]}``, ``{"Params": {…}}`` and so on. Which
classes may stand in a file is decided by the caller, who passes their `Forms`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sojourn.checks import MAX_ENTRIES
from sojourn.errors import SojournError

Arrays = dict[str, NDArray[Any]]

DTYPES = {"float64", "int64", "int32", "uint64", "uint32", "uint16", "uint8", "bool"}


class Form(NamedTuple):
    """How an object of a class becomes a dictionary of values, and is made from one again."""

    to_dict: Callable[[Any], dict[str, Any]]
    from_dict: Callable[[dict[str, Any]], Any]


Forms = Mapping[str, Form]  # by the name of the class, which is all that a file has of it


def dataclass_form(cls: Any, without: tuple[str, ...] = ()) -> Form:
    """The form of a dataclass: its fields; those in `without` have defaults and are not kept."""
    kept = [field.name for field in fields(cls) if field.name not in without]
    needed = {field.name for field in fields(cls) if field.default is MISSING}

    def from_dict(given: dict[str, Any]) -> Any:
        if not needed <= set(given) <= {field.name for field in fields(cls)}:
            raise SojournError(
                f"its {cls.__name__} has the fields {sorted(given)}; expected {sorted(needed)}: "
                f"another version wrote it; fit and save it again"
            )
        return cls(**given)

    return Form(lambda value: {name: getattr(value, name) for name in kept}, from_dict)


def encode(value: Any, place: str, arrays: Arrays, forms: Forms | None = None) -> Any:
    """A value as JSON; its arrays are added to `arrays` under names that begin with `place`."""

    def inside(items: Mapping[Any, Any]) -> dict[str, Any]:
        return {key: encode(item, f"{place}.{key}", arrays, forms) for key, item in items.items()}

    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, np.ndarray):
        return _encode_array(value, place, arrays)
    if isinstance(value, list):
        return list(inside(dict(enumerate(value))).values())
    if type(value) is tuple or isinstance(value, range):
        return {"tuple": list(inside(dict(enumerate(value))).values())}
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        inner = inside(value)
        return inner if len(inner) != 1 else {"dict": inner}  # one key would read as a class
    name = type(value).__name__
    if forms is not None and name in forms:
        return {name: inside(forms[name].to_dict(value))}
    raise SojournError(
        f"{place} is a {name}, which a model file cannot hold; it holds numbers, strings, lists "
        f"and arrays. If it is an argument, set_params changes it and leaves what was learned"
    )


def decode(value: Any, arrays: Arrays, forms: Forms | None = None) -> Any:
    """The value that `encode` was given."""
    if isinstance(value, list):
        return [decode(item, arrays, forms) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) != 1:
        return {key: decode(item, arrays, forms) for key, item in value.items()}
    ((name, inner),) = value.items()
    if name in _ARRAYS:
        return _ARRAYS[name](inner, arrays)
    if name == "float":
        return float(inner)
    if name == "tuple":
        return tuple(decode(inner, arrays, forms))
    if name != "dict" and (forms is None or name not in forms):
        raise SojournError(f"it holds a {name!r}, which this version does not know")
    given = {key: decode(item, arrays, forms) for key, item in inner.items()}
    return given if forms is None or name == "dict" else forms[name].from_dict(given)


def _encode_array(array: NDArray[Any], place: str, arrays: Arrays) -> Any:
    if array.dtype.kind == "U":
        return {"strings": {"values": array.tolist(), "width": array.dtype.itemsize // 4}}
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    if array.dtype.name not in DTYPES:
        raise SojournError(f"{place} is an array of {array.dtype}, which a model file cannot hold")
    if array.dtype == np.int64 and array.ndim > 1 and array.size and array.min() >= 0:
        return _encode_counts(array, place, arrays)
    arrays[place] = array
    return {"array": place}


def _encode_counts(array: NDArray[np.int64], place: str, arrays: Arrays) -> Any:
    """A table of counts in few bytes: the entries that are not zero, if those are few."""
    flat = np.ascontiguousarray(array).reshape(-1)
    at = np.flatnonzero(flat)
    small = np.min_scalar_type(int(flat.max()))
    names = {"values": f"{place}.values", "shape": list(array.shape)}
    if at.size * (4 + small.itemsize) < flat.size * small.itemsize and flat.size < 2**32:
        names["at"] = f"{place}.at"
        arrays[f"{place}.at"] = at.astype(np.uint32)
        flat = flat[at]
    arrays[f"{place}.values"] = flat.astype(small)
    return {"sparse": names}


def _decode_strings(inner: Any, _: Arrays) -> NDArray[Any]:
    width, values = int(inner["width"]), inner["values"]
    if not all(isinstance(v, str) and len(v) <= width for v in values):
        raise SojournError(f"its strings are not strings of at most {width} characters")
    if not 0 < width <= MAX_ENTRIES // (4 * max(len(values), 1)):
        raise SojournError(f"its strings are {width} characters wide")
    return np.array(values, dtype=f"<U{width}")


def _decode_counts(inner: Any, arrays: Arrays) -> NDArray[Any]:
    shape, values = tuple(inner["shape"]), arrays[inner["values"]]
    size = math.prod(shape)
    if not all(isinstance(n, int) and n >= 0 for n in shape) or size > MAX_ENTRIES:
        raise SojournError(f"it holds a table of shape {shape}")
    if values.dtype.kind != "u" or values.ndim != 1:
        raise SojournError(f"its counts are {values.dtype} of shape {values.shape}")
    if "at" not in inner:
        return values.astype(np.int64).reshape(shape)
    at = arrays[inner["at"]]
    if at.dtype.kind != "u" or at.shape != values.shape:
        raise SojournError(f"its {values.size} counts have {at.size} places")
    flat = np.zeros(size, np.int64)
    flat[at] = values
    return flat.reshape(shape)


_ARRAYS: dict[str, Callable[[Any, Arrays], NDArray[Any]]] = {
    # A copy, for what was read is read-only and need not be aligned.
    "array": lambda name, arrays: arrays[name].copy(),
    "strings": _decode_strings,
    "sparse": _decode_counts,
}
