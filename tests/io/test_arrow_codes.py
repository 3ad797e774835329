"""Columns as codes: every width of integers, and chunks with dictionaries of their own."""

from itertools import chain

import numpy as np
import pyarrow as pa
import pytest

from sojourn.io import arrow_codes as arrays
from sojourn.io.arrow_codes import Codes, coded

WIDTHS = {f"{sign}int{bits}": (sign, bits) for sign in ("", "u") for bits in (8, 16, 32, 64)}


def ends(sign, bits):
    return (0, 2**bits - 1) if sign else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


@pytest.mark.parametrize("name", WIDTHS)
@pytest.mark.parametrize("end", [0, 1])
def test_integers_of_every_width_at_both_ends(name, end):
    least, most = ends(*WIDTHS[name])
    most = min(most, 2**63 - 1)  # beyond it no id or symbol is
    values = [most - i for i in range(201)] if end else [least + i for i in range(201)]
    column = coded(pa.array(values * 2, getattr(pa, name)()))
    assert column.type == pa.dictionary(pa.int32(), pa.int64())
    assert column.to_pylist() == values * 2


def test_integers_beyond_64_bits_with_a_sign_are_an_error():
    with pytest.raises(pa.ArrowInvalid):
        coded(pa.array([2**63, 2**63 + 1], pa.uint64()))


def test_small_integers_that_are_far_apart():
    values = [-100, *range(-100, 101), None]
    assert coded(pa.array(values, pa.int8())).to_pylist() == values
    assert coded(pa.array(values[:-1], pa.int8())).to_pylist() == values[:-1]


@pytest.mark.parametrize("piece", [3, arrays.PIECE])
@pytest.mark.parametrize(
    "chunks",
    [
        [[5, 5, 5, 6, 6, 9], [9, 9, 12, 12]],
        [[12, 12], [9, 9, 5, 5, 5], [6]],
        [[7, None, 8], [None, None], [8, 9, 7]],
        [[1, 2, 3], [1, 2, 3], [3, 2, 1]],
        [[4] * 9, [4] * 9 + [6] * 9],
    ],
)
def test_chunks_are_joined_whatever_the_dictionaries(chunks, piece, monkeypatch):
    monkeypatch.setattr(arrays, "PIECE", piece)
    column = Codes()
    for chunk in chunks:
        column.add(coded(pa.array(chunk, pa.int64())))
    values, codes = column.joined()
    whole = list(chain(*chunks))
    assert [None if code < 0 else values[code] for code in codes] == whole
    assert set(values) == set(whole) - {None}


def test_floats_after_integers_keep_them():
    times = arrays.Growing()
    times.add(np.arange(5))
    times.add(np.array([0.5]))
    assert times.taken().tolist() == [0, 1, 2, 3, 4, 0.5]
