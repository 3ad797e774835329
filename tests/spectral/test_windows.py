"""Windows: their lengths, Theorem 1's offsets, and errors."""

from itertools import pairwise

import numpy as np
import pytest

from sojourn.errors import SojournError
from sojourn.spectral.windows import (
    check_offsets,
    choose_offsets,
    contiguous_offsets,
    theorem_offsets,
    window_length,
)


def left_offsets(offsets):
    """Offsets of the mirrored, left window from its last symbol, in time order."""
    return tuple(-offset for offset in reversed(offsets))


@pytest.mark.parametrize(
    ("sizes", "ell"),
    [
        ((3, 20), 4),
        ((3, 27), 4),
        ((3, 28), 5),
        ((5, 125), 4),  # the paper's ⌈1 + log n_d / log n_x⌉ gives 5 in floating point
        ((2, 1), 1),
        ((1, 7), 1),
        ((8, 40, 9), 3),
        ((8, 40, 3), 5),  # n_o = 3 takes the place of n_x
        ((8, 40, 1), 1),
    ],
)
def test_window_length_is_the_smallest_whose_power_reaches(sizes, ell):
    assert window_length(*sizes) == ell


def test_theorem_1_example_right_and_left():
    right = theorem_offsets(3, 20)
    assert right == (0, 11, 17, 19)
    t = 100
    assert {t - 2 + o for o in left_offsets(right)} == {t - 21, t - 19, t - 13, t - 2}
    assert left_offsets(right) == tuple(sorted(left_offsets(right)))  # time order


@pytest.mark.parametrize("n_x", [2, 3, 5])
@pytest.mark.parametrize("n_d", [1, 2, 3, 9, 10, 40])
def test_theorem_offsets_span_the_longest_stay(n_x, n_d):
    offsets = theorem_offsets(n_x, n_d)
    assert offsets[0] == 0
    assert offsets[-1] == n_d - 1
    assert len(offsets) == window_length(n_x, n_d)
    assert all(a < b for a, b in pairwise(offsets))
    # gaps are differences of powers of n_x but for the first, which is cut
    assert [b - a for a, b in pairwise(offsets)][:0:-1] == [
        n_x ** (i + 1) - n_x**i for i in range(len(offsets) - 2)
    ]


def test_offsets_of_one_state_of_other_lengths_and_by_name():
    assert theorem_offsets(1, 9) == (0,)
    assert theorem_offsets(8, 40, 3) == theorem_offsets(3, 40) == (0, 13, 31, 37, 39)
    assert theorem_offsets(3, 20, length=2) == (0, 2)
    assert theorem_offsets(3, 20, length=9) == (0, 11, 17, 19)
    assert choose_offsets("theorem", 8, 40, 9) == (0, 32, 39)
    assert choose_offsets("contiguous", 8, 40, 9) == contiguous_offsets(3) == (0, 1, 2)
    assert choose_offsets(np.array([0, 4]), 8, 40, 9) == (0, 4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: check_offsets((1, 2)), r"start at 0 and grow; got \(1, 2\)"),
        (lambda: check_offsets((0, 2, 2)), "start at 0 and grow"),
        (lambda: check_offsets(()), "start at 0 and grow"),
        (lambda: check_offsets((0, 1.5)), "are integers"),
        (lambda: choose_offsets("theorems", 2, 3), "'theorem', 'contiguous' or a tuple"),
        (lambda: window_length(0, 3), "n_states must be an integer of at least 1, not 0"),
        (lambda: window_length(2, 2.5), "max_duration must be an integer of at least 1, not 2.5"),
        (lambda: contiguous_offsets(0), "length must be an integer of at least 1, not 0"),
    ],
)
def test_errors_name_what_was_expected(call, message):
    with pytest.raises(SojournError, match=message):
        call()
