"""Windows of time steps: which symbols to read so that their distributions separate hidden states.

A window is a tuple of offsets, ``0 = w_0 < w_1 < ...``. The right window at time s reads the
symbols at s + w_j; the left window that ends at s reads those at s - w_j. Both are coded in time
order, the earliest symbol first. Theorem 1 of the paper: with the offsets of `theorem_offsets`, the
distributions of the window given each hidden state are linearly independent.

The hidden state is the pair (x, d): the state and the steps that remain in it, this one counted.
In matrices it has the index ``(d - 1) * n_x + x``: the paper's blocks, one per duration.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from itertools import pairwise

from sojourn.checks import positive_int
from sojourn.errors import SojournError


def window_length(n_states: int, max_duration: int, n_symbols: int | None = None) -> int:
    """Number of symbols a window needs: the smallest ℓ with n_x^(ℓ-1) ≥ n_d, 1 if n_x is 1.

    Where there are fewer symbols than states, n_o takes the place of n_x, because a symbol cannot
    separate more states than there are symbols.
    """
    n_d, base = positive_int("max_duration", max_duration), base_of(n_states, n_symbols)
    ell = 1
    while base > 1 and base ** (ell - 1) < n_d:  # integers: a logarithm would round
        ell += 1
    return ell


def theorem_offsets(
    n_states: int, max_duration: int, n_symbols: int | None = None, *, length: int | None = None
) -> tuple[int, ...]:
    """Offsets of Theorem 1, over n_d steps: from the last one back, gaps grow with powers of n_x.

    Theorem 1 places a window that is shorter than `window_length` at the end of the span; here it
    is moved to start at 0, which leaves its rank as it is. A longer one repeats offset 0 and is
    therefore cut to the full one.
    """
    base = base_of(n_states, n_symbols)
    full = window_length(n_states, max_duration, n_symbols)
    ell = full if length is None else min(full, positive_int("length", length))
    # max[t, t + (n_d - 1) - (n_x^i - 1)], i = 0, ..., ℓ-1                              Theorem 1
    steps = sorted({max(0, max_duration - base**i) for i in range(ell)})
    return tuple(step - steps[0] for step in steps)


def contiguous_offsets(length: int) -> tuple[int, ...]:
    """Offsets of ``length`` symbols in a row."""
    return tuple(range(positive_int("length", length)))


def check_offsets(offsets: Sequence[int]) -> tuple[int, ...]:
    """The offsets as a tuple of integers, or an error that names what is wrong."""
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
    """Offsets for ``"theorem"``, ``"contiguous"`` (both of `window_length`) or given ones."""
    if not isinstance(windows, str):
        return check_offsets(windows)
    if windows == "theorem":
        return theorem_offsets(n_states, max_duration, n_symbols)
    if windows == "contiguous":
        return contiguous_offsets(window_length(n_states, max_duration, n_symbols))
    raise SojournError(
        f"windows is {windows!r}; it is 'theorem', 'contiguous' or a tuple of offsets"
    )


def base_of(n_states: int, n_symbols: int | None) -> int:
    """How many states one symbol can separate."""
    n_x = positive_int("n_states", n_states)
    return n_x if n_symbols is None else min(n_x, positive_int("n_symbols", n_symbols))
