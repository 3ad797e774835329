"""What a model has learned, as JSON in which arrays stand by name: no code, and no pickle.

A value becomes plain JSON where that says it all; else an object with one key that names its kind:
``{"array": "learned.params_.start"}``, ``{"tuple": […]}``, ``{"Params": {…}}`` and so on.
"""

from __future__ import annotations

import math
import re
from dataclasses import MISSING, fields, is_dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sojourn.checks import MAX_ENTRIES
from sojourn.errors import SojournError

Arrays = dict[str, NDArray[Any]]

# The dataclasses that may stand in a file, and where they live.
NOUNS = {
    "Params": "sojourn.exact.params",
    "Operators": "sojourn.spectral.operators",
    "Choice": "sojourn.spectral.select_rank",
    "Trial": "sojourn.spectral.select_rank",
    "Moments": "sojourn.spectral.moments",
    "Adjacent": "sojourn.spectral.moment_tables",
    "Gapped": "sojourn.spectral.moment_tables",
    "Sparse": "sojourn.spectral.count_sparse",
    "SharedOperators": "sojourn.spectral.lowrank_operators",
    "Pieces": "sojourn.spectral.holdout",
    "Whitening": "sojourn.detect.residuals",
    "Calibration": "sojourn.detect.calibration",
    "Norms": "sojourn.detect.explain",
}
# Estimators, which may stand in a file by themselves or within a detector.
MODELS = {"SpectralHSMM": "sojourn.estimators.spectral_hsmm", "HSMM": "sojourn.estimators.hsmm"}
LEARNED = re.compile(r"[a-z]\w*_")
# Classes that turn themselves into plain arrays and back, by `to_arrays` and `from_arrays`.
SELF_MADE = {"Discretizer": "sojourn.data.discretize"}
# Fields that are not kept: the operators hold all that scoring needs.
DROPPED = {("Operators", "tensors")}
DTYPES = {"float64", "int64", "int32", "uint64", "uint32", "uint16", "uint8", "bool"}


class LeftOut:
    """Stands for the moments of a model that was saved without them: any use is an error."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what Python itself asks for, such as __deepcopy__
            raise AttributeError(name)
        raise SojournError(
            "this model was saved without its moments, so there is nothing that partial_fit could "
            "add to; save it with moments=True, or fit again"
        )


def encode(value: Any, place: str, arrays: Arrays) -> Any:
    """A value as JSON; its arrays are added to `arrays` under names that begin with `place`.

    Examples
    --------
    >>> arrays = {}
    >>> encode({"rank": 3, "window": (0, 1), "start": np.array([0.5, 0.5])}, "x", arrays)
    {'rank': 3, 'window': {'tuple': [0, 1]}, 'start': {'array': 'x.start'}}
    >>> arrays
    {'x.start': array([0.5, 0.5])}
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, np.ndarray):
        return _encode_array(value, place, arrays)
    if isinstance(value, list):
        return [encode(item, f"{place}.{i}", arrays) for i, item in enumerate(value)]
    if isinstance(value, tuple) and type(value) is tuple:
        return {"tuple": [encode(item, f"{place}.{i}", arrays) for i, item in enumerate(value)]}
    if isinstance(value, range):
        return encode(tuple(value), place, arrays)
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        inner = {key: encode(item, f"{place}.{key}", arrays) for key, item in value.items()}
        return inner if len(inner) != 1 else {"dict": inner}  # one key would read as a kind
    name = type(value).__name__
    if name in MODELS:
        return {name: encode_model(value, place, arrays)}
    if name in SELF_MADE:
        return {name: encode(value.to_arrays(), place, arrays)}
    if name in NOUNS and is_dataclass(value):
        kept = [f.name for f in fields(value) if (name, f.name) not in DROPPED]
        return {name: {key: encode(getattr(value, key), f"{place}.{key}", arrays) for key in kept}}
    raise SojournError(
        f"{place} is a {name}, which a model file cannot hold; it holds numbers, strings, lists "
        f"and arrays. If it is an argument, set_params changes it and leaves what was learned"
    )


def decode(value: Any, arrays: Arrays) -> Any:
    """The value that `encode` was given.

    Examples
    --------
    >>> decode({"window": {"tuple": [0, 1]}, "rank": 2}, {})
    {'window': (0, 1), 'rank': 2}
    """
    if isinstance(value, list):
        return [decode(item, arrays) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) != 1:
        return {key: decode(item, arrays) for key, item in value.items()}
    ((kind, inner),) = value.items()
    if kind in ("array", "sparse", "strings"):
        return _decode_array(kind, inner, arrays)
    if kind == "float":
        return float(inner)
    if kind == "tuple":
        return tuple(decode(inner, arrays))
    if kind == "dict":
        return {key: decode(item, arrays) for key, item in inner.items()}
    if kind in MODELS:
        return decode_model(kind, inner, arrays)
    if kind in SELF_MADE:
        made: Any = getattr(import_module(SELF_MADE[kind]), kind)
        return made.from_arrays(decode(inner, arrays))
    if kind not in NOUNS:
        raise SojournError(f"it holds a {kind!r}, which this version does not know")
    noun: Any = getattr(import_module(NOUNS[kind]), kind)
    given = {key: decode(item, arrays) for key, item in inner.items()}
    needed = {f.name for f in fields(noun) if f.default is MISSING}
    if not needed <= set(given) <= {f.name for f in fields(noun)}:
        raise SojournError(f"its {kind} has the fields {sorted(given)}; expected {sorted(needed)}")
    return noun(**given)


def encode_model(model: Any, place: str, arrays: Arrays) -> dict[str, Any]:
    """Arguments of an estimator and what it has learned, without the moments."""
    learned = {name: value for name, value in vars(model).items() if LEARNED.fullmatch(name)}
    learned.pop("moments_", None)
    return {
        "arguments": encode(model.get_params(deep=False), f"{place}.arguments", arrays),
        "learned": encode(learned, f"{place}.learned", arrays),
    }


def decode_model(kind: str, inner: Any, arrays: Arrays) -> Any:
    """The estimator that `encode_model` was given; one that was fitted is to be checked."""
    arguments, learned = decode(inner["arguments"], arrays), decode(inner["learned"], arrays)
    sizes = {name: arguments.pop(name) for name in ("n_states", "max_duration")}
    model = getattr(import_module(MODELS[kind]), kind)(**sizes, **arguments)
    if kind == "SpectralHSMM" and learned:
        learned.setdefault("moments_", LeftOut())
    for name, value in learned.items():
        if not LEARNED.fullmatch(name):
            raise SojournError(f"it holds {name!r}, which nothing learned is called")
        setattr(model, name, value)
    return model


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


def _decode_array(kind: str, inner: Any, arrays: Arrays) -> NDArray[Any]:
    if kind == "array":
        return arrays[inner].copy()  # what was read is read-only, and need not be aligned
    if kind == "strings":
        width, values = int(inner["width"]), inner["values"]
        if not all(isinstance(v, str) and len(v) <= width for v in values):
            raise SojournError("its strings are not strings of the width that it says")
        if not 0 < width <= MAX_ENTRIES // (4 * max(len(values), 1)):
            raise SojournError(f"its strings are {width} characters wide")
        return np.array(values, dtype=f"<U{width}")
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
        raise SojournError("its counts and their places are not alike")
    flat = np.zeros(size, np.int64)
    flat[at] = values
    return flat.reshape(shape)
