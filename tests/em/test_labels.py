"""Labels in every form: each counts or is refused, and none is silently ignored."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from sojourn import HSMM, Sequences, SojournError
from sojourn.em.labels import read_labels

X = Sequences.from_lists([[0, 1, 1], [1, 0], [0, 1, 1]])
ROWS = [[0, 1, None], [1, 0], [0, 0, 1]]
FLAT = [0, 1, -1, 1, 0, 0, 0, 1]
KNOWN = [label for row in ROWS for label in row]


def masked(row):
    gone = [v is None for v in row]
    return np.ma.masked_array([0 if v is None else v for v in row], gone)


@pytest.mark.parametrize(
    "y",
    [
        ROWS,
        tuple(map(tuple, ROWS)),
        [np.array(row, dtype=object) for row in ROWS],
        [masked(row) for row in ROWS],
        [pd.Series(row, dtype="Int64") for row in ROWS],
        [pl.Series(row, dtype=pl.Int64) for row in ROWS],
        [pa.array(row, pa.int64()) for row in ROWS],
        pa.array(ROWS, pa.list_(pa.int64())),
        Sequences.from_lists(ROWS),
        [ROWS[0], np.array(ROWS[1]), pd.Series(ROWS[2])],
    ],
    ids=[
        *("lists", "tuples", "objects", "masked", "pandas", "polars", "arrow", "nested"),
        *("Sequences", "mixed"),
    ],
)
def test_every_form_of_labels_counts(y):
    assert read_labels(y, X, None, 2).tolist() == FLAT


@pytest.mark.parametrize(
    "column",
    [KNOWN, masked(KNOWN), pd.Series(KNOWN, dtype="Int64"), pl.Series(KNOWN), pa.array(KNOWN)],
    ids=["list", "masked", "pandas", "polars", "arrow"],
)
def test_stacked_labels_count(column):
    assert read_labels(column, X, [3, 2, 3], 2).tolist() == FLAT


def test_a_row_may_be_unknown_in_all_its_steps():
    assert read_labels([ROWS[0], None, ROWS[2]], X, None, 2).tolist() == [
        *(0, 1, -1, -1, -1, 0, 0, 1)
    ]
    assert read_labels([np.array([0, 1, 1]), None, None], X, None, 2).tolist() == [
        *(0, 1, 1, -1, -1, -1, -1, -1)
    ]


@pytest.mark.parametrize(
    "y",
    [
        [None] * 3,
        (None, None, None),
        [[None] * 3, [None] * 2, [None] * 3],
        tuple([None] * n for n in (3, 2, 3)),
        [np.ma.masked_all(n, int) for n in (3, 2, 3)],
        [pd.Series([None] * n, dtype="Int64") for n in (3, 2, 3)],
    ],
    ids=["rows", "tuple of rows", "steps", "tuple of steps", "masked", "pandas"],
)
def test_labels_that_are_unknown_everywhere_are_no_labels(y):
    assert read_labels(y, X, None, 2) is None


def test_an_array_that_is_masked_everywhere_is_no_labels():
    X = Sequences.from_lists([[0, 1, 1], [1, 0, 0]])
    assert read_labels(np.ma.masked_all((2, 3), int), X, None, 2) is None


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([0] * 3, "cannot be read: they are a flat column"),
        ([1] * 3, "cannot be read: they are a flat column"),
        ([], "labels for 0 sequences but 3"),
        ((), "labels for 0 sequences but 3"),
        ([[]] * 3, "sequence 0 is empty"),
        ([[None]] * 3, "has 3 symbols but 1 labels"),
        ([[None]] * 2, "labels for 2 sequences but 3"),
        ([np.array([0])] * 3, "has 3 symbols but 1 labels"),
        ([[None] * 3, [None] * 2, [None] * 4], "has 3 symbols but 4 labels"),
        ([[0, 1, 1], [0, 1], []], "sequence 2 is empty"),
        ([[0, 1, 1], [0, 1], 1], "sequence 2 is 1"),
        ("abc", "cannot be read"),
        (7, "cannot be read"),
        ({0: [0, 1, 1]}, "cannot be read"),
        ([[0.0, 1.0, 1.0], [0.0, 1.0], [0.0, 0.0, 1.0]], "cannot be read"),
        ([[True, False, True], [True, False], [True, True, True]], "cannot be read"),
        ([[0, 1, -1], [0, 1], [0, 1, 1]], "cannot be read"),
        ([[0, 1, 1], [0, 1], [0, 1, 2**70]], "cannot be read"),
        (np.zeros((3, 3, 3), int), "cannot be read"),
    ],
)
def test_what_is_no_labels_is_refused(y, message):
    with pytest.raises(SojournError) as caught:
        read_labels(y, X, None, 2)
    assert message in str(caught.value)
    with pytest.raises(SojournError):
        HSMM(2, 3).fit(X, y)


@pytest.mark.parametrize("make", [list, np.array, pd.Series, pl.Series])
def test_a_flat_column_of_labels_goes_with_a_column_of_symbols_only(make):
    with pytest.raises(SojournError, match="they are a flat column; expected a row of label"):
        HSMM(2, 2).fit(X, make([0, 1, 1, 1, 0, 0, 0, 1]))


def test_rows_of_labels_go_with_a_column_of_symbols_too():
    column, lengths = [symbol for row in X for symbol in row], X.lengths
    by_rows = HSMM(2, 2, max_iter=1).fit(column, ROWS, lengths=lengths)
    expected = HSMM(2, 2, max_iter=1).fit(X, ROWS)
    np.testing.assert_array_equal(by_rows.emissionprob_, expected.emissionprob_)
