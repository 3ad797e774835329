"""Exact moments of a known model: what `moments.count` tends to.

Learning from these must give back the model's own probabilities; that identity is the first test
of every algorithm, and it splits what is wrong with an estimate into bias and noise.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sojourn.errors import SojournError
from sojourn.exact.params import Params
from sojourn.spectral.holdout import Pieces
from sojourn.spectral.moment_tables import Adjacent, Gapped, Shape
from sojourn.spectral.moments import Moments
from sojourn.spectral.theory.step import step_matrix
from sojourn.spectral.windows import check_offsets

Array = NDArray[np.float64]


def exact_moments(
    params: Params,
    windows: Sequence[Sequence[int]],
    *,
    length: int = 100,
    gapped: bool = False,
    per_step: bool = False,
) -> Moments:
    """Expected counts, for one sequence of a length, of everything that `count` counts.

    Parameters
    ----------
    params : Params
    windows : sequence of offsets
    length : int
        Number of symbols of the sequence.
    gapped, per_step : bool
        As in `sojourn.spectral.moments.count`.

    Returns
    -------
    Moments
        With nothing held out.

    Examples
    --------
    >>> p = Params.random(2, 2, 3, rng=0)
    >>> H = exact_moments(p, [(0, 1)]).tables[0].H
    >>> H.shape, np.linalg.matrix_rank(H)
    ((9, 9), np.int64(4))
    """
    gapped = gapped or per_step
    steps = length if per_step else 0
    shapes = [Shape(check_offsets(w), params.n_symbols, gapped, steps) for w in windows]
    for shape in shapes:
        shape.check(full=True)
        if length < shape.needs:
            raise SojournError(
                f"windows {shape.offsets} need sequences of at least {shape.needs} symbols, not "
                f"{length}"
            )
    make = _gapped if gapped else _adjacent
    tables = tuple(make(params, shape, length) for shape in shapes)
    no = np.empty(0, np.int64)
    none = Pieces(no.astype(np.int32), no, no, no.astype(bool), no.astype(np.uint64))
    return Moments(tables, none, 1, length, length)


class _Chain:
    """The hidden chain over (x, d), and the laws of windows given or with its state."""

    def __init__(self, params: Params, window: tuple[int, ...]) -> None:
        self.V = step_matrix(params.transition, params.duration).T  # (S, S), rows sum to one
        self.E = np.tile(params.emission, (params.max_duration, 1))  # (S, n_o)
        self.law = (params.start[:, None] * params.duration).T.ravel()  # (S,) at t = 1
        self.window = window

    def right(self) -> Array:
        """p(R | state at the window's first step), (S, n_R)."""
        F = self.E
        for gap in reversed(np.diff(self.window)):
            F = np.linalg.matrix_power(self.V, gap) @ F
            F = (self.E[:, :, None] * F[:, None, :]).reshape(len(F), -1)
        return F

    def left(self, law: Array) -> Array:
        """p(L, state at the window's last step), (n_L, S), from the law at its first step."""
        J = (law[:, None] * self.E).T
        for gap in reversed(np.diff(self.window)):
            J = J @ np.linalg.matrix_power(self.V, gap)
            J = (J[:, None, :] * self.E.T).reshape(-1, J.shape[1])
        return J

    def laws(self, n: int, apart: bool = False) -> Array:
        """p(state) at the first n steps, (n, S); summed over them if not `apart`, (1, S)."""
        law, out = self.law, np.empty((n, len(self.law)))
        for row in out:
            row[:] = law
            law = law @ self.V
        return out if apart else out.sum(axis=0, keepdims=True)


def _adjacent(params: Params, shape: Shape, length: int) -> Adjacent:
    window, chain = shape.offsets, _Chain(params, shape.offsets)
    F, span = chain.right(), window[-1]
    # L's first step for t = span + 1, ..., length - span - 2
    law = chain.laws(length - 2 * span - 2)[0]
    J = chain.left(law) @ chain.V  # p(L, state at t)                        (n_L, S)
    H_o = np.stack([(J * e) @ chain.V @ F for e in chain.E.T], axis=1)
    return Adjacent(window, J @ F, H_o, chain.law @ F)


def _gapped(params: Params, shape: Shape, length: int) -> Gapped:
    window, chain = shape.offsets, _Chain(params, shape.offsets)
    V, E, F, span = chain.V, chain.E, chain.right(), window[-1]
    n, n_o, apart = F.shape[1], E.shape[1], shape.steps > 0
    n_t = max(shape.steps, 1)
    M_LoR, M_LR, M_LR1 = np.zeros((n_t, n, n_o, n)), np.zeros((n_t, n, n)), np.zeros((n_t, n, n))
    M_oo = np.zeros((n_t, n_o, n_o))
    for t, law in enumerate(chain.laws(length - 1, apart)):
        M_oo[t] = (law[:, None] * E).T @ V @ E
    # `law` is that at the first step of L; o lies span + 1 steps later
    for t, law in enumerate(chain.laws(length - 2 * span - 2, apart), apart * (span + 1)):
        J = chain.left(law) @ V  # p(L, state at t)                              (n_L, S)
        M_LoR[t] = np.stack([(J * e) @ V @ F for e in E.T], axis=1)
    # and the first R span + 2 steps later
    for t, law in enumerate(chain.laws(length - 2 * span - 3, apart), apart * (span + 2)):
        J = chain.left(law) @ V @ V
        M_LR[t], M_LR1[t] = J @ F, J @ V @ F
    root = np.einsum("sa,s,st,tb,tu,ur->abr", E, chain.law, V, E, V, F, optimize=True)
    return Gapped(window, M_LoR, M_LR, M_LR1, M_oo, root)
