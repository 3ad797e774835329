"""One way from every form of measurements in memory to `Signals`."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from sojourn.data.sequences import Sequences
from sojourn.data.signals import Signals
from sojourn.errors import SojournError


def is_numbers(X: Any) -> bool:
    """Whether data are measurements, not symbols: floats, or rows of several channels."""
    if isinstance(X, Sequences):
        return isinstance(X, Signals)
    dtype = getattr(X, "dtype", None)
    if isinstance(X, np.ndarray):
        return X.dtype.kind == "f" or X.ndim == 3
    if dtype is not None or not isinstance(X, list | tuple) or not X:
        return False
    first = X[0]
    if isinstance(first, np.ndarray):
        return first.dtype.kind == "f" or first.ndim == 2
    if hasattr(first, "columns"):  # a list of data frames
        return True
    items = list(first)[:1] if isinstance(first, list | tuple) else []
    return bool(items) and isinstance(items[0], float | np.floating | list | tuple | np.ndarray)


def as_signals(X: Any, lengths: Any = None) -> Signals:
    """`Signals` from any of the forms in which `HSMM` takes measurements.

    Parameters
    ----------
    X : Signals, list of arrays, array (n, length, n_channels), or table with `lengths`
    lengths : column of int, optional
        Lengths of the sequences that the rows of `X` hold end to end.
    """
    if isinstance(X, Signals):
        if lengths is not None:
            raise SojournError("a Signals knows its lengths; leave lengths= out")
        if len(X) == 0:
            raise SojournError("there are no sequences; expected at least 1")
        return X
    if isinstance(X, Sequences):
        raise SojournError("X holds symbols; the emissions of this model observe numbers")
    if lengths is not None:
        if isinstance(X, list | tuple) and X and np.ndim(X[0]) == 2:
            raise SojournError(
                "X is a list of sequences, whose lengths are known; leave lengths= out"
            )
        return Signals.from_stacked(X, lengths)
    if hasattr(X, "columns"):
        raise SojournError(
            f"X is a table ({type(X).__name__}); use Signals.from_table(X, id=…, time=…, values=…)"
        )
    if len(getattr(X, "shape", (0, 0, 0))) == 2:
        n, d = X.shape
        raise SojournError(
            f"X has shape {X.shape}, which may be one sequence of {d} channels or {n} sequences of "
            f"one channel; pass [X] for the first, X[:, :, None] for the second, or lengths= for "
            f"several sequences laid end to end"
        )
    found = Signals.from_arrays(X)
    if isinstance(X, np.ndarray) and X.shape[2] > X.shape[1]:
        warnings.warn(
            f"X has shape {X.shape}, taken as {X.shape[0]} sequences of {X.shape[1]} steps "
            f"and {X.shape[2]} channels; if steps come last, pass X.transpose(0, 2, 1)",
            stacklevel=4,
        )
    return found
