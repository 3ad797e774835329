"""Stays in a state, read off a decoded path, and what comes after the last one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sojourn.params import Params
from sojourn.viterbi import Decoded

Floats = NDArray[np.float64]


class Segment(NamedTuple):
    """One stay in a state: its first step, its length, the state, and how sure that is."""

    start: int
    length: int
    state: int
    confidence: float


def stays(found: Decoded, gamma: Floats, offsets: NDArray[np.int64]) -> list[list[Segment]]:
    """The stays of each decoded path.

    Parameters
    ----------
    found : Decoded
        Paths of all sequences end to end.
    gamma : array (n_total, n_states)
        Posterior probabilities; the confidence of a stay is their mean over it.
    offsets : array (n + 1,)
        Where each sequence starts.
    """
    sure = gamma[np.arange(len(gamma)), found.states]
    at = np.flatnonzero(found.begins)
    sizes = np.diff(np.append(at, len(sure)))
    means = np.add.reduceat(sure, at) / sizes
    owner = np.searchsorted(offsets, at, side="right") - 1
    columns = (at - offsets[owner], sizes, found.states[at], means)
    rows: list[list[Segment]] = [[] for _ in range(len(offsets) - 1)]
    for i, *stay in zip(owner.tolist(), *(c.tolist() for c in columns), strict=True):
        rows[i].append(Segment(*stay))
    return rows


def next_symbol(params: Params, alpha: Floats, horizon: int = 1) -> Floats:
    """Distribution of the symbol `horizon` steps on, (n, n_symbols).

    Parameters
    ----------
    params : Params
    alpha : array (n, n_states, max_duration)
        p(state, steps remaining), the present one counted.
    horizon : int

    Examples
    --------
    >>> p = Params([1, 0], [[0, 1], [1, 0]], [[0, 1], [0.5, 0.5]], [[1, 0], [0, 1]])
    >>> next_symbol(p, np.array([[[0.25, 0.75], [0, 0]]]))
    array([[0.75, 0.25]])
    """
    for _ in range(horizon):
        entering = alpha[:, :, 0] @ params.transition
        alpha = np.concatenate([alpha[:, :, 1:], np.zeros_like(alpha[:, :, :1])], axis=2)
        alpha = alpha + entering[:, :, None] * params.duration
    return np.asarray(alpha.sum(axis=2) @ params.emission)
