"""Columns as codes: every width of integers, and chunks with dictionaries of their own."""

from itertools import chain

import numpy as np
import pyarrow as pa
import pytest

from sojourn import SojournError
from sojourn.io import arrow_codes
from sojourn.io.arrow_codes import Codes, Growing, coded, to_arrow, to_numpy

WIDTHS = {f"{sign}int{bits}": (sign, bits) for sign in ("", "u") for bits in (8, 16, 32, 64)}


def ends(sign, bits):
    return (0, 2**bits - 1) if sign else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def joined(chunks):
    column = Codes()
    for chunk in chunks:
        column.add(chunk)
    return column.joined()


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
    with pytest.raises(SojournError):
        coded(pa.array([2**63, 2**63 + 1], pa.uint64()))


def test_small_integers_that_are_far_apart():
    values = [-100, *range(-100, 101), None]
    assert coded(pa.array(values, pa.int8())).to_pylist() == values
    assert coded(pa.array(values[:-1], pa.int8())).to_pylist() == values[:-1]


@pytest.mark.parametrize("piece", [3, arrow_codes.PIECE])
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
    monkeypatch.setattr(arrow_codes, "PIECE", piece)
    values, codes = joined(coded(pa.array(chunk, pa.int64())) for chunk in chunks)
    whole = list(chain(*chunks))
    assert [None if code < 0 else values[code] for code in codes] == whole
    assert set(values) == set(whole) - {None}


def test_chunks_of_strings_and_of_integers_are_an_error():
    chunks = [coded(pa.array([1])), coded(pa.array(["a"]))]
    with pytest.raises(SojournError, match="both strings and integers; use one of the two"):
        joined(chunks)


def test_a_chunk_without_values_has_any_type():
    chunks = [coded(pa.array(chunk)) for chunk in ([None, None], [3, None], [3, 2])]
    values, codes = joined(chunks)
    assert [None if code < 0 else values[code] for code in codes] == [None, None, 3, None, 3, 2]
    values, codes = joined([coded(pa.array([None], pa.string()))])
    assert (list(values), codes.tolist()) == ([], [-1])


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "float64", "bool"])
@pytest.mark.parametrize("n", [0, 1, 9])
def test_numbers_come_back_from_arrow(dtype, n):
    array = (np.arange(n) % 2).astype(dtype)
    assert to_numpy(to_arrow(array)).tolist() == array.tolist()
    assert to_numpy(to_arrow(array)).dtype == array.dtype


def test_null_becomes_the_number_given():
    column = pa.array([7, 3, None, 1], pa.int32()).slice(1)
    assert to_numpy(column, null=-1).tolist() == [3, -1, 1]


def test_floats_after_integers_keep_them():
    times = Growing()
    times.add(np.arange(5))
    times.add(np.array([0.5]))
    assert times.taken().tolist() == [0, 1, 2, 3, 4, 0.5]


def test_an_array_grows_beyond_its_room(monkeypatch):
    monkeypatch.setattr(arrow_codes, "ROOM", 4)
    numbers = Growing()
    for start in range(0, 1000, 10):
        numbers.add(np.arange(start, start + 10))
    assert numbers.taken().tolist() == list(range(1000))
