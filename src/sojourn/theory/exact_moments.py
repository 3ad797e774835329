"""Exact moments of a known model: what `moments.count` tends to.

Learning from these must give back the model's own probabilities; that identity is the first test
of every algorithm, and it splits what is wrong with an estimate into bias and noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sojourn.contexts.pieces import Pieces
from sojourn.errors import SojournError
from sojourn.exact.params import Params, check_without_tail_or_end
from sojourn.spectral.moment_tables import Adjacent, Form, Gapped, Shape
from sojourn.spectral.moments import Moments
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
    check_without_tail_or_end(params, "exact_moments")
    form = Form.of(gapped, per_step)
    n_steps = length if per_step else 1
    shapes = [Shape(check_offsets(window), params.n_symbols, form) for window in windows]
    for shape in shapes:
        shape.check(n_steps)
        if length < shape.needs:
            raise SojournError(
                f"windows {shape.offsets} need sequences of at least {shape.needs} symbols, not "
                f"{length}"
            )
    tables: list[Adjacent | Gapped] = []
    for shape in shapes:
        chain = _Chain(params, shape.offsets)
        adjacent = form is Form.ADJACENT
        tables.append(_adjacent(chain, length) if adjacent else _gapped(chain, length, n_steps))
    return Moments(tuple(tables), Pieces.none(), 1, length, length)


class _Chain:
    """The hidden chain over S = n_x · n_d pairs (x, d), and the windows seen from its states."""

    def __init__(self, params: Params, window: tuple[int, ...]) -> None:
        self.V = step_matrix(params.transition, params.duration).T  # rows sum to one        (S, S)
        self.E = np.tile(params.emission, (params.max_duration, 1))  # (S, n_o)
        self.start = (params.start[:, None] * params.duration).T.ravel()  # p(state at t = 1)  (S,)
        self.window, self.span = window, window[-1]

    def right(self) -> Array:
        """p(R | state at the window's first step), (S, n_R)."""
        F = self.E
        for gap in reversed(np.diff(self.window)):
            F = np.linalg.matrix_power(self.V, gap) @ F
            F = (self.E[:, :, None] * F[:, None, :]).reshape(len(F), -1)
        return F

    def left(self, first: Array) -> Array:
        """p(L, state at the window's last step), (n_L, S), given p(state) at its first step."""
        J = (first[:, None] * self.E).T
        for gap in reversed(np.diff(self.window)):
            J = J @ np.linalg.matrix_power(self.V, gap)
            J = (J[:, None, :] * self.E.T).reshape(-1, J.shape[1])
        return J

    def states(self, n: int, apart: bool = False) -> Array:
        """p(state) at the first n steps, (n, S); summed over them if not `apart`, (1, S)."""
        p, out = self.start, np.empty((n, len(self.start)))
        for row in out:
            row[:] = p
            p = p @ self.V
        return out if apart else out.sum(axis=0, keepdims=True)


def _adjacent(chain: _Chain, length: int) -> Adjacent:
    F = chain.right()
    # p(state) at L's first step, for t = span + 1, ..., length - span - 2
    first = chain.states(length - 2 * chain.span - 2)[0]
    J = chain.left(first) @ chain.V  # p(L, state at t)                        (n_L, S)
    H_o = np.stack([(J * e) @ chain.V @ F for e in chain.E.T], axis=1)
    return Adjacent(chain.window, J @ F, H_o, chain.start @ F)


def _gapped(chain: _Chain, length: int, n_t: int) -> Gapped:
    V, E, F, span = chain.V, chain.E, chain.right(), chain.span
    n, n_o, apart = F.shape[1], E.shape[1], n_t > 1
    M_LoR, M_LR, M_LR1 = np.zeros((n_t, n, n_o, n)), np.zeros((n_t, n, n)), np.zeros((n_t, n, n))
    M_oo = np.zeros((n_t, n_o, n_o))
    for t, p in enumerate(chain.states(length - 1, apart)):
        M_oo[t] = (p[:, None] * E).T @ V @ E
    # p is p(state) at the first step of L; o lies span + 1 steps later
    for t, p in enumerate(chain.states(length - 2 * span - 2, apart), apart * (span + 1)):
        J = chain.left(p) @ V  # p(L, state at t)                              (n_L, S)
        M_LoR[t] = np.stack([(J * e) @ V @ F for e in E.T], axis=1)
    # and the first R span + 2 steps later
    for t, p in enumerate(chain.states(length - 2 * span - 3, apart), apart * (span + 2)):
        J = chain.left(p) @ V @ V
        M_LR[t], M_LR1[t] = J @ F, J @ V @ F
    root = np.einsum("sa,s,st,tb,tu,ur->abr", E, chain.start, V, E, V, F, optimize=True)
    return Gapped(chain.window, M_LoR, M_LR, M_LR1, M_oo, root)


def step_matrix(transition: NDArray[Any], duration: NDArray[Any]) -> NDArray[Any]:
    """The matrix V of one step, ``V[(x', d'), (x, d)] = p(x', d' | x, d)``, (n_x·n_d, n_x·n_d)."""
    n_x, n_d = duration.shape
    V = np.zeros((n_x * n_d, n_x * n_d), duration.dtype)
    # d = 1: Ψ = (D ⊙ I) 𝒳, a new state and its duration                             eq. (matrixV)
    V[:, :n_x] = (duration.T[:, :, None] * transition.T).reshape(n_x * n_d, n_x)
    # d > 1: the state stays and its counter falls
    V[np.arange(n_x * (n_d - 1)), np.arange(n_x, n_x * n_d)] = 1
    return V
