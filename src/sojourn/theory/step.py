"""The matrix of one step, and Algorithms 3 and 4: windows of states given the present one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sojourn.checks import MAX_ENTRIES, positive_int
from sojourn.errors import SojournError
from sojourn.exact.params import Params
from sojourn.spectral.windows import base_of, check_offsets, window_length
from sojourn.theory.exact_moments import step_matrix

Matrix = NDArray[Any]  # float64, or residues modulo a prime
Product = Callable[[Matrix, Matrix], Matrix]


def khatri_rao(A: Matrix, B: Matrix) -> Matrix:
    """Khatri-Rao product: each column is the Kronecker product of the two columns."""
    return (A[:, None, :] * B).reshape(-1, A.shape[1])


def sequential_states(params: Params, length: int) -> NDArray[np.float64]:
    """Algorithm 3: the matrix T of ``length`` states in a row, (n_x^ℓ, n_x·n_d).

    ``p(x_{t+1}, ..., x_{t+ℓ} | x_t, d_t)``. Rows are coded in time order, the earliest state being
    the most significant digit (the paper's rows in another order).
    """
    n_x, n_d = params.n_states, params.max_duration
    check_table(n_x ** positive_int("length", length), n_x * n_d)
    V, E = step_matrix(params.transition, params.duration), _indicator(n_x, n_d)
    T = E @ V  # p(x_{t+1} | x_t, d_t) = [𝒳 I ... I]
    for _ in range(length - 1):
        T = khatri_rao(E, T) @ V  # eqs. (expan), (prop)
    return T


def efficient_states(params: Params) -> NDArray[np.float64]:
    """Algorithm 4, corrected: the matrix T of the states in Theorem 1's window, (n_x^ℓ, n_x·n_d).

    ``p(x_{t+1+o} for o in theorem_offsets | x_t, d_t)``, rows in time order. Three things differ
    from the printed algorithm: the loop runs to n_d - 1, the counter c grows only where a state is
    added, and T starts as ``p(x_t | x_t, d_t)`` in place of ``p(x_{t+1} | x_t, d_t)``, without
    which the last offset would be one more than Theorem 1's.
    """
    n_x, n_d = params.n_states, params.max_duration
    base = base_of(n_x, params.n_symbols)
    check_table(n_x ** window_length(n_x, n_d, params.n_symbols), n_x * n_d)
    V, E = step_matrix(params.transition, params.duration), _indicator(n_x, n_d)
    last = n_d - 1 if base > 1 else 0  # one symbol or state: a window of one
    T, c = E, 1
    for i in range(1, last + 1):
        T = T @ V  # eq. (prop2)
        if i == base**c - 1 or i == last:
            T = khatri_rao(E, T)  # eq. (expan2)
            c += 1
    return T @ V


def future_states(
    V: Matrix, n_states: int, offsets: Sequence[int], product: Product = np.matmul
) -> Matrix:
    """The matrix T of any right window: ``p(x_{t+1+o} for o in offsets | x_t, d_t)``.

    V is the `step_matrix`; residues modulo a prime have their own `product` of matrices.
    """
    window = check_offsets(offsets)
    check_table(n_states ** len(window), len(V))
    T = E = _indicator(n_states, len(V) // n_states, V.dtype)
    for gap in reversed(np.diff(window)):  # from the last state back to the first
        for _ in range(gap):
            T = product(T, V)
        T = khatri_rao(E, T)
    return product(T, V)


def past_states(
    V: Matrix, first: Matrix, n_states: int, offsets: Sequence[int], product: Product = np.matmul
) -> Matrix:
    """Joint distribution of a left window's states and the hidden state at its end.

    ``p(x_{t-o} for o in offsets, x_t, d_t)``, rows in time order, given `first`, p(x, d) at the
    window's first time step.
    """
    window = check_offsets(offsets)
    check_table(n_states ** len(window), len(V))
    E = _indicator(n_states, len(V) // n_states, V.dtype)
    joint = first * E
    for gap in reversed(np.diff(window)):  # mirrored: the largest gaps lie far from the end
        for _ in range(gap):
            joint = product(joint, V.T)
        joint = khatri_rao(joint, E)
    return joint


def check_table(rows: int, columns: int) -> None:
    """Raise if a table of this shape is too large to hold."""
    if rows * columns > MAX_ENTRIES:
        raise SojournError(
            f"a table of {rows} × {columns} entries would take {rows * columns / 2**27:.3g} GiB; "
            f"at most {MAX_ENTRIES} entries are held: use a shorter window"
        )


def _indicator(n_x: int, n_d: int, dtype: Any = np.float64) -> Matrix:
    """E = [I ... I]: the state x of each (x, d)."""
    return np.tile(np.eye(n_x, dtype=dtype), (1, n_d))
