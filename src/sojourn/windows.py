"""Windows of time steps: which symbols to read so that they tell the hidden state.

A window is a tuple of offsets, ``0 = o_0 < o_1 < ...``. The right window at time s reads the
symbols at s + o_j; the left window that ends at s reads those at s - o_j. Both are coded in time
order, the earliest symbol first.

The hidden state is the pair (x, d): the state and the steps that remain in it, this one counted.
In matrices it has the index ``(d - 1) * n_x + x``: the paper's blocks, one a duration.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sojourn.errors import SojournError
from sojourn.params import Params

Matrix = NDArray[Any]  # float64, or residues modulo a prime
Product = Callable[[Matrix, Matrix], Matrix]

# 1 GiB of float64: beyond it a table is more likely a mistake than a wish.
MAX_ENTRIES = 2**27
# Windows that are only tried have smaller tables, decomposed in hundredths of a second.
MAX_CANDIDATE_ENTRIES = 2**23
MAX_CANDIDATE_LENGTH = 8


def window_length(n_states: int, max_duration: int, n_symbols: int | None = None) -> int:
    """Number of symbols a window needs: the smallest ℓ with n_x^(ℓ-1) ≥ n_d.

    Parameters
    ----------
    n_states, max_duration : int
        Sizes n_x and n_d of the model.
    n_symbols : int, optional
        Number of symbols n_o; where it is smaller than n_x it takes the place of n_x, because a
        symbol cannot tell more states apart than there are symbols.

    Returns
    -------
    int
        ℓ; 1 where one state or one symbol leaves nothing to tell apart.

    Examples
    --------
    >>> window_length(3, 20), window_length(8, 40), window_length(1, 5)
    (4, 3, 1)
    """
    n_d, base = _size("max_duration", max_duration), _base(n_states, n_symbols)
    ell = 1
    while base > 1 and base ** (ell - 1) < n_d:  # integers: a logarithm would round
        ell += 1
    return ell


def theorem_offsets(
    n_states: int, max_duration: int, n_symbols: int | None = None, *, length: int | None = None
) -> tuple[int, ...]:
    """Offsets of Theorem 1: gaps that grow with the powers of n_x, over a span of n_d steps.

    Parameters
    ----------
    n_states, max_duration : int
        Sizes n_x and n_d of the model.
    n_symbols : int, optional
        Number of symbols; see `window_length`.
    length : int, optional
        Number ℓ of offsets asked for; `window_length` where not given. Theorem 1 places a shorter
        window at the end of the span; here it is moved to start at 0, which leaves its rank as it
        is. A longer one repeats offset 0 and is therefore cut to the full one.

    Examples
    --------
    >>> theorem_offsets(3, 20)
    (0, 11, 17, 19)
    >>> theorem_offsets(8, 40)
    (0, 32, 39)
    >>> theorem_offsets(3, 20, length=3)
    (0, 6, 8)
    """
    base = _base(n_states, n_symbols)
    full = window_length(n_states, max_duration, n_symbols)
    ell = full if length is None else min(full, _size("length", length))
    # max[t, t + (n_d - 1) - (n_x^i - 1)], i = 0, ..., ℓ-1                              Theorem 1
    steps = sorted({max(0, max_duration - base**i) for i in range(ell)})
    return tuple(step - steps[0] for step in steps)


def contiguous_offsets(length: int) -> tuple[int, ...]:
    """Offsets of ``length`` symbols in a row.

    Examples
    --------
    >>> contiguous_offsets(3)
    (0, 1, 2)
    """
    return tuple(range(_size("length", length)))


def left_offsets(offsets: Sequence[int]) -> tuple[int, ...]:
    """Offsets of the mirrored, left window from its last symbol, in time order.

    Examples
    --------
    The paper's left window at (3, 20) ends at t-2 and reads t-21, t-19, t-13 and t-2:

    >>> left_offsets((0, 11, 17, 19))
    (-19, -17, -11, 0)
    """
    return tuple(-offset for offset in reversed(check_offsets(offsets)))


def check_offsets(offsets: Sequence[int]) -> tuple[int, ...]:
    """The offsets as a tuple of integers, or an error that says what is wrong with them.

    Examples
    --------
    >>> check_offsets([0, 2, 5])
    (0, 2, 5)
    """
    try:
        window = tuple(operator.index(offset) for offset in offsets)
    except TypeError:
        raise SojournError(
            f"offsets of a window are integers; got {offsets!r}: give a tuple such as (0, 2, 5)"
        ) from None
    ascending = all(a < b for a, b in pairwise(window))
    if not window or window[0] != 0 or not ascending:
        raise SojournError(
            f"offsets of a window start at 0 and grow; got {window}: give a tuple such as (0, 2, 5)"
        )
    return window


def choose_offsets(
    windows: str | Sequence[int], n_states: int, max_duration: int, n_symbols: int | None = None
) -> tuple[int, ...]:
    """Offsets for ``"theorem"``, ``"contiguous"`` (both of `window_length`) or given ones.

    Examples
    --------
    >>> choose_offsets("theorem", 4, 6), choose_offsets("contiguous", 4, 6)
    ((0, 2, 5), (0, 1, 2))
    """
    if not isinstance(windows, str):
        return check_offsets(windows)
    if windows == "theorem":
        return theorem_offsets(n_states, max_duration, n_symbols)
    if windows == "contiguous":
        return contiguous_offsets(window_length(n_states, max_duration, n_symbols))
    raise SojournError(
        f"windows is {windows!r}; it is 'theorem', 'contiguous' or a tuple of offsets"
    )


def candidate_offsets(
    n_states: int, max_duration: int, n_symbols: int
) -> tuple[tuple[int, ...], ...]:
    """Windows worth comparing on data: contiguous ones, shortest first, and Theorem 1's.

    From 25 symbols on a full table of two is too large: then they are one symbol, and two.

    Examples
    --------
    >>> candidate_offsets(4, 6, 5)
    ((0,), (0, 1), (0, 1, 2), (0, 1, 2, 3), (0, 2, 5))
    """
    fitting = [
        contiguous_offsets(length)
        for length in range(1, MAX_CANDIDATE_LENGTH + 1)
        if n_symbols ** (2 * length + 1) <= MAX_CANDIDATE_ENTRIES or length == 1
    ]
    if len(fitting) == 1:
        # Two are counted sparsely: with one symbol they tell most of what data of any size can.
        return fitting[0], contiguous_offsets(2)
    theorem = theorem_offsets(n_states, max_duration, n_symbols)
    if theorem in fitting or n_symbols ** (2 * len(theorem) + 1) > MAX_CANDIDATE_ENTRIES:
        return tuple(fitting)
    return (*fitting, theorem)


def step_matrix(transition: Matrix, duration: Matrix) -> Matrix:
    """The matrix V of one step: ``V[(x', d'), (x, d)] = p(x', d' | x, d)``.

    Parameters
    ----------
    transition : array, shape (n_x, n_x)
    duration : array, shape (n_x, n_d)

    Returns
    -------
    array, shape (n_x·n_d, n_x·n_d)

    Examples
    --------
    >>> step_matrix(np.array([[0, 1], [1, 0]]), np.array([[1, 0], [0, 1]]))
    array([[0, 1, 1, 0],
           [0, 0, 0, 1],
           [0, 0, 0, 0],
           [1, 0, 0, 0]])
    """
    n_x, n_d = duration.shape
    V = np.zeros((n_x * n_d, n_x * n_d), duration.dtype)
    # d = 1: Ψ = (D ⊙ I) 𝒳, a new state and its duration                             eq. (matrixV)
    V[:, :n_x] = (duration.T[:, :, None] * transition.T).reshape(n_x * n_d, n_x)
    # d > 1: the state stays and its counter falls
    V[np.arange(n_x * (n_d - 1)), np.arange(n_x, n_x * n_d)] = 1
    return V


def khatri_rao(A: Matrix, B: Matrix) -> Matrix:
    """Khatri-Rao product: each column is the Kronecker product of the two columns.

    Examples
    --------
    >>> khatri_rao(np.array([[1, 2]]), np.array([[3, 4], [5, 6]]))
    array([[ 3,  8],
           [ 5, 12]])
    """
    return (A[:, None, :] * B).reshape(-1, A.shape[1])


def sequential_states(params: Params, length: int) -> NDArray[np.float64]:
    """Algorithm 3: the matrix T of ``length`` states in a row.

    Returns
    -------
    array, shape (n_x^ℓ, n_x·n_d)
        ``p(x_{t+1}, ..., x_{t+ℓ} | x_t, d_t)``. Rows are coded in time order, the earliest state
        being the most significant digit (the paper's rows in another order).

    Examples
    --------
    >>> p = Params.random(2, 3, 4, rng=0)
    >>> sequential_states(p, 2).shape
    (4, 6)
    """
    n_x, n_d = params.n_states, params.max_duration
    check_table(n_x ** _size("length", length), n_x * n_d)
    V, E = step_matrix(params.transition, params.duration), _indicator(n_x, n_d)
    T = E @ V  # p(x_{t+1} | x_t, d_t) = [𝒳 I ... I]
    for _ in range(length - 1):
        T = khatri_rao(E, T) @ V  # eqs. (expan), (prop)
    return T


def efficient_states(params: Params) -> NDArray[np.float64]:
    """Algorithm 4, its errata mended: the matrix T of the states in Theorem 1's window.

    Three things differ from the printed algorithm: the loop runs to n_d - 1, the counter c grows
    only where a state is added, and T starts as ``p(x_t | x_t, d_t)`` in place of
    ``p(x_{t+1} | x_t, d_t)``, without which the last offset would be one more than Theorem 1's.

    Returns
    -------
    array, shape (n_x^ℓ, n_x·n_d)
        ``p(x_{t+1+o} for o in theorem_offsets | x_t, d_t)``, rows in time order.

    Examples
    --------
    >>> p = Params.random(3, 8, 4, rng=0)
    >>> np.linalg.matrix_rank(efficient_states(p)) == 3 * 8
    np.True_
    """
    n_x, n_d = params.n_states, params.max_duration
    base = _base(n_x, params.n_symbols)
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

    Parameters
    ----------
    V : array, shape (n_x·n_d, n_x·n_d)
        The `step_matrix`.
    n_states : int
    offsets : sequence of int
    product : callable
        Matrix product; residues modulo a prime have their own.

    Returns
    -------
    array, shape (n_x^ℓ, n_x·n_d)

    Examples
    --------
    >>> p = Params.random(3, 8, 4, rng=0)
    >>> T = future_states(step_matrix(p.transition, p.duration), 3, theorem_offsets(3, 8))
    >>> np.allclose(T, efficient_states(p))
    True
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
    V: Matrix, law: Matrix, n_states: int, offsets: Sequence[int], product: Product = np.matmul
) -> Matrix:
    """Joint law of a left window's states and the hidden state at its end.

    Parameters
    ----------
    V : array, shape (n_x·n_d, n_x·n_d)
        The `step_matrix`.
    law : array, shape (n_x·n_d,)
        ``p(x, d)`` at the window's first time step.
    n_states : int
    offsets : sequence of int
    product : callable
        Matrix product; residues modulo a prime have their own.

    Returns
    -------
    array, shape (n_x^ℓ, n_x·n_d)
        ``p(x_{t-o} for o in offsets, x_t, d_t)``, rows in time order.

    Examples
    --------
    >>> p = Params.random(3, 8, 4, rng=0)
    >>> law = (p.start[:, None] * p.duration).T.ravel()
    >>> left = past_states(step_matrix(p.transition, p.duration), law, 3, (0, 1))
    >>> left.shape, round(left.sum(), 12)
    ((9, 24), np.float64(1.0))
    """
    window = check_offsets(offsets)
    check_table(n_states ** len(window), len(V))
    E = _indicator(n_states, len(V) // n_states, V.dtype)
    joint = law * E
    for gap in reversed(np.diff(window)):  # mirrored: the largest gaps lie far from the end
        for _ in range(gap):
            joint = product(joint, V.T)
        joint = khatri_rao(joint, E)
    return joint


def check_table(rows: int, columns: int) -> None:
    """Raise if a table of this shape is too large to hold.

    Examples
    --------
    >>> check_table(729, 320)
    """
    if rows * columns > MAX_ENTRIES:
        raise SojournError(
            f"a table of {rows} × {columns} entries would take {rows * columns / 2**27:.3g} GiB; "
            f"at most {MAX_ENTRIES} entries are held: use a shorter window"
        )


def _indicator(n_x: int, n_d: int, dtype: Any = np.float64) -> Matrix:
    """E = [I ... I]: the state x of each (x, d)."""
    return np.tile(np.eye(n_x, dtype=dtype), (1, n_d))


def _base(n_states: int, n_symbols: int | None) -> int:
    """How many states one symbol can tell apart."""
    n_x = _size("n_states", n_states)
    return n_x if n_symbols is None else min(n_x, _size("n_symbols", n_symbols))


def _size(name: str, value: int) -> int:
    try:
        size = operator.index(value)
    except TypeError:
        size = 0
    if size < 1:
        raise SojournError(f"{name} is {value!r}; it is a whole number of at least 1")
    return size
