"""Larger models that contain a smaller one, for EM to start from what that one has learned."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sojourn.exact.params import Params

Floats = NDArray[np.float64]

# Share of a row that is spread evenly, since EM cannot leave a zero.
SPREAD = 1e-3


def with_durations(params: Params, max_duration: int) -> Params:
    """The same model with more free steps: a geometric tail is written out and continues.

    A model of single steps that may follow themselves becomes one of geometric stays.

    Examples
    --------
    >>> short = Params([1], [[1]], [[0.2, 0.8]], [[1]], tail=[0.5])
    >>> with_durations(short, 4).duration.round(2)
    array([[0.2, 0.4, 0.2, 0.2]])
    """
    n_x, n_d = params.duration.shape
    if n_d >= max_duration:
        return params
    A, tail = params.transition, params.tail
    if n_d == 1 and n_x > 1 and A.diagonal().any():
        # A stay of single steps continues by the diagonal.
        tail = np.minimum(A.diagonal(), 1.0 - SPREAD)
        A = _spread(A * (1.0 - np.eye(n_x)), 1.0 - np.eye(n_x))
    beyond = np.arange(max_duration - n_d)
    geometric = (1.0 - tail)[:, None] * tail[:, None] ** beyond  # of n_d, n_d + 1 and so on
    rest = tail[:, None] ** (max_duration - n_d)
    D = np.hstack([params.duration[:, :-1], params.duration[:, -1:] * np.hstack([geometric, rest])])
    return replace(params, transition=A, duration=_spread(D, np.ones_like(D)), tail=tail)


def time_in_states(params: Params) -> Floats:
    """Long-run share of time in each state."""
    A = params.transition
    # Averaging over two steps makes a cycle of states converge, too.
    visits = np.linalg.matrix_power((A + np.eye(len(A))) / 2, 1 << 12).T @ params.start
    share = visits * params.mean_durations
    return np.asarray(share / share.sum())


def _spread(table: Floats, possible: Floats) -> Floats:
    """Rows that sum to one, with a little wherever there may be something."""
    table = table * possible
    table = table / np.maximum(table.sum(axis=-1, keepdims=True), 1e-300)
    mixed = (1.0 - SPREAD) * table + SPREAD * possible / possible.sum(axis=-1, keepdims=True)
    return np.asarray(mixed / mixed.sum(axis=-1, keepdims=True))
