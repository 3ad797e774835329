"""Sequences: what goes in comes out again, and what must not go in is named."""

import copy
import re
import sys
from itertools import chain, groupby

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from sojourn import END, Sequences, SojournError, as_sequences
from sojourn.data.runs import runs, sums

MISSING = "a missing symbol is None in lists, null in tables and a masked entry in arrays"
NEGATIVE = f"expected integers of 0 and more. Negative values in data are not symbols; {MISSING}"

strings = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=4)
integers = st.integers(0, 20) | st.integers(0, 2**63 - 1)


def ragged(symbols):
    rows = st.lists(st.lists(st.none() | symbols, min_size=1, max_size=8), min_size=1, max_size=6)
    return rows.filter(lambda rows: any(s is not None for row in rows for s in row))


any_lists = ragged(strings) | ragged(integers)


EMPTY = (
    "sequence 1 is empty; every sequence needs at least one symbol: drop it, or fit with "
    "ends=True, and where you make a Sequences of it pass empty=True"
)


def error(call, *args, **kwargs):
    """The message of the SojournError that the call must raise."""
    with pytest.raises(SojournError) as caught:
        call(*args, **kwargs)
    return str(caught.value)


# --- what goes in comes out again -----------------------------------------------------------------


@given(any_lists)
def test_lists_round_trip_and_fields_keep_their_promises(lists):
    seqs = Sequences.from_lists(lists)
    assert seqs.to_lists() == lists
    assert [seqs[i] for i in range(len(lists))] == lists
    assert seqs.codes.dtype == np.int32
    assert seqs.offsets.dtype == np.int64
    assert seqs.lengths.tolist() == [len(row) for row in lists]
    assert (len(seqs), seqs.n_total) == (len(lists), sum(map(len, lists)))
    seen = {s for row in lists for s in row if s is not None}
    assert seqs.vocabulary.tolist() == sorted(seen)
    assert seqs.vocabulary.dtype.kind in "iU"
    assert seqs.n_symbols == len(seen)
    assert ((seqs.codes == -1).tolist()) == [s is None for row in lists for s in row]
    assert seqs.ids.tolist() == list(range(len(lists)))


@given(any_lists, st.data())
def test_every_form_gives_the_same_codes(lists, data):
    want = Sequences.from_lists(lists)
    flat = [s for row in lists for s in row]
    lengths = [len(row) for row in lists]
    ids = [i for i, row in enumerate(lists) for _ in row]
    columns = [
        flat,
        tuple(flat),
        np.array(flat, dtype=object),
        pd.Series(flat, dtype="object"),
        pl.Series(flat),
        pa.array(flat),
        pa.array(flat).dictionary_encode(),
        pa.chunked_array([flat[:1], flat[1:]], type=pa.array(flat).type),
    ]
    column = data.draw(st.sampled_from(columns))
    for got in (
        Sequences.from_stacked(column, lengths),
        Sequences.from_stacked(column, np.array(lengths, dtype=np.uint8)),
        Sequences.from_columns(column, ids),
        as_sequences(column, lengths=lengths),
        as_sequences(pa.array(lists)),
        as_sequences(pl.Series(lists)),
        as_sequences(pd.Series(lists)),
        as_sequences(tuple(row) for row in lists),
        as_sequences([pd.Series(row, dtype="object") for row in lists]),
        as_sequences([pa.array(row, type=pa.array(flat).type) for row in lists]),
    ):
        np.testing.assert_array_equal(got.codes, want.codes)
        np.testing.assert_array_equal(got.offsets, want.offsets)
        np.testing.assert_array_equal(got.vocabulary, want.vocabulary)
        np.testing.assert_array_equal(got.ids, want.ids)


@given(st.lists(st.tuples(st.integers(-3, 3), st.none() | integers), min_size=1, max_size=30))
def test_columns_group_rows_by_id_and_keep_their_order(rows):
    groups = {}
    for name, symbol in rows:
        groups.setdefault(name, []).append(symbol)
    symbols, vocabulary = [symbol for _, symbol in rows], sorted({s for _, s in rows if s} | {0})
    for ids in ([name for name, _ in rows], pd.Series([name for name, _ in rows])):
        seqs = Sequences.from_columns(symbols, ids, vocabulary=vocabulary)
        assert dict(zip(seqs.ids.tolist(), seqs.to_lists(), strict=True)) == groups
        assert seqs.ids.tolist() == list(groups)  # the order of first appearance


@given(any_lists, st.data())
def test_a_selection_equals_the_selection_of_the_lists(lists, data):
    seqs = Sequences.from_lists(lists, ids=[f"s{i}" for i in range(len(lists))])
    bound = st.none() | st.integers(-7, 7)
    cut = slice(data.draw(bound), data.draw(bound), data.draw(st.sampled_from([None, 1, 2, -1])))
    picked = data.draw(st.lists(st.integers(-len(lists), len(lists) - 1)))
    mask = data.draw(st.lists(st.booleans(), min_size=len(lists), max_size=len(lists)))
    everything = range(len(lists))
    for index, chosen in (
        (cut, everything[cut]),
        (picked, [everything[i] for i in picked]),
        (np.array(picked, dtype=np.int32), [everything[i] for i in picked]),
        (np.array(mask), np.flatnonzero(mask).tolist()),
    ):
        part = seqs[index]
        assert part.to_lists() == [lists[i] for i in chosen]
        assert part.ids.tolist() == [f"s{i}" for i in chosen]
        np.testing.assert_array_equal(part.vocabulary, seqs.vocabulary)


def test_an_index_out_of_range_is_an_index_error():
    seqs = Sequences.from_lists([[0], [1]])
    assert seqs[-1] == seqs[np.int64(1)] == [1]
    with pytest.raises(IndexError):
        seqs[2]


def test_a_slice_shares_the_codes():
    seqs = Sequences.from_lists([[0, 1], [1, 2], [2]])
    assert np.shares_memory(seqs[1:].codes, seqs.codes)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint64, np.int64, object])
def test_arrays_of_every_integer_type(dtype):
    X = np.array([[3, 1, 3], [7, 7, 1]], dtype=dtype)
    for seqs in (
        Sequences.from_array(X),
        Sequences.from_array(X.tolist()),
        as_sequences(X),
        as_sequences(np.asfortranarray(X)),
        as_sequences(list(X)),
        as_sequences(X.reshape(-1), lengths=[3, 3]),
        as_sequences(X.reshape(-1, 1), lengths=[3, 3]),
    ):
        assert seqs.codes.tolist() == [1, 0, 1, 2, 2, 0]
        assert seqs.vocabulary.dtype == np.int64
        assert seqs.to_lists() == [[3, 1, 3], [7, 7, 1]]


def test_masked_entries_are_missing_whatever_lies_under_the_mask():
    X = np.ma.array([[3, -1, 3], [7, 7, 1]], mask=[[0, 1, 0], [0, 0, 1]])
    want = [[3, None, 3], [7, 7, None]]
    assert as_sequences(X).to_lists() == want
    assert as_sequences(list(X)).to_lists() == want
    assert as_sequences(X.reshape(-1), lengths=[3, 3]).to_lists() == want
    assert as_sequences(X.reshape(-1, 1), lengths=[3, 3]).to_lists() == want


@pytest.mark.parametrize(
    "column",
    [
        pd.Series([4, None, 2], dtype="Int16"),
        pd.Series([4, None, 2], dtype="int32[pyarrow]"),
        pd.Series([4, None, 2], dtype=pd.CategoricalDtype([2, 4])),
        pd.array([4, None, 2]),
        pl.Series([4, None, 2], dtype=pl.UInt8),
        pa.array([4, None, 2], type=pa.uint16()),
        pa.array([4, None, 2]).dictionary_encode(),
        pa.chunked_array([[4], [None, 2]]),
    ],
    ids=lambda column: f"{type(column).__module__}.{type(column).__name__}",
)
def test_nullable_integer_columns(column):
    assert Sequences.from_columns(column).to_lists() == [[4, None, 2]]


@pytest.mark.parametrize(
    "column",
    [
        pd.Series(["b", None, "a"]),
        pd.Series(["b", np.nan, "a"], dtype=object),
        pd.Series(["b", None, "a"], dtype="category"),
        pd.Categorical(["b", None, "a"]),
        pl.Series(["b", None, "a"]),
        pl.Series(["b", None, "a"], dtype=pl.Categorical),
        pl.Series(["b", None, "a"], dtype=pl.Enum(["a", "b"])),
        pa.array(["b", None, "a"], type=pa.large_string()),
        pa.array(["b", None, "a"], type=pa.string_view()),
        pa.chunked_array([["b"], [None, "a"]]).dictionary_encode(),
        # null as an entry of the dictionary, not of the codes
        pa.chunked_array([pa.DictionaryArray.from_arrays([0, 1, 2], ["b", None, "a"])]),
        np.ma.array(["b", "", "a"], mask=[0, 1, 0]),
    ],
    ids=lambda column: f"{type(column).__module__}.{type(column).__name__}",
)
def test_nullable_string_columns(column):
    seqs = Sequences.from_columns(column)
    assert seqs.to_lists() == [["b", None, "a"]]
    assert seqs.codes.tolist() == [1, -1, 0]


def test_strings_in_numpy_arrays():
    for dtype in (np.str_, np.dtypes.StringDType(), object):
        assert as_sequences(np.array([["no", "yes"]], dtype=dtype)).to_lists() == [["no", "yes"]]


def test_a_sequences_is_immutable_and_leaves_the_arrays_of_its_maker_alone():
    codes = np.array([0, 1], dtype=np.int32)
    seqs = Sequences(codes, np.array([0, 2]), np.array([5, 6]), np.array([0]))
    for array in (seqs.codes, seqs.offsets, seqs.vocabulary, seqs.ids, seqs[:1].codes):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    with pytest.raises(AttributeError):
        seqs.codes = codes
    codes[0] = 1  # still writeable for the one who owns it
    source = np.array([[1, 2]])
    seqs = Sequences.from_array(source)
    source[:] = 9
    assert seqs.to_lists() == [[1, 2]]


def test_repr():
    assert repr(Sequences.from_lists([list("abcdefgh"), ["a", None]])) == (
        "Sequences(2 sequences of 2 to 8, 10 symbols (1 missing) over 8: "
        "'a', 'b', 'c', 'd', 'e', 'f', …)"
    )
    one = Sequences.from_lists([[10, 20]])
    assert repr(one) == "Sequences(1 sequence of 2, 2 symbols over 2: 10, 20)"
    assert repr(one[:0]) == "Sequences(0 sequences over 2 symbols)"


# --- vocabularies ---------------------------------------------------------------------------------


@given(any_lists, st.data())
def test_recoding_keeps_known_symbols_and_drops_the_others(lists, data):
    seqs = Sequences.from_lists(lists)
    kept = data.draw(st.lists(st.sampled_from(seqs.vocabulary.tolist()), min_size=1, unique=True))
    other = seqs.recode(kept, unknown="missing")
    assert other.vocabulary.tolist() == sorted(kept)
    assert other.to_lists() == [[s if s in kept else None for s in row] for row in lists]
    direct = Sequences.from_lists(lists, vocabulary=kept, unknown="missing")
    np.testing.assert_array_equal(direct.codes, other.codes)
    np.testing.assert_array_equal(as_sequences(seqs, None, kept, "missing").codes, other.codes)
    back = other.recode(seqs.vocabulary)
    assert back.to_lists() == other.to_lists()
    if len(kept) < seqs.n_symbols:
        assert "is not in the vocabulary" in error(seqs.recode, kept)


def test_a_vocabulary_of_more_symbols_than_occur():
    seqs = as_sequences([["b"]], vocabulary=["c", "b", "a"])
    assert seqs.vocabulary.tolist() == ["a", "b", "c"]
    assert seqs.codes.tolist() == [1]
    assert as_sequences(seqs) is seqs
    assert as_sequences(seqs, vocabulary=["a", "b", "c"]) is seqs


def test_symbols_all_missing_need_a_vocabulary():
    assert error(as_sequences, [[None]]) == (
        "every symbol is missing; pass vocabulary= to say what there can be"
    )
    for vocabulary in (["a"], [3]):
        assert as_sequences([[None]], vocabulary=vocabulary).codes.tolist() == [-1]
    assert as_sequences(pl.Series([None, None]), [2], ["a"]).codes.tolist() == [-1, -1]


def test_unknown_symbols_are_named():
    assert error(as_sequences, [["a"], ["a", "x"]], vocabulary=["a", "b"]) == (
        "sequence 1 has symbol 'x' at position 1, which is not in the vocabulary of 2 symbols; "
        "set unknown='missing' on the model to treat it as not seen, or refit (before you split "
        "lists for scikit-learn, make one Sequences of all: its parts share a vocabulary)"
    )
    seqs = Sequences.from_lists([[1], [1, 9]], ids=["F1", "F2"])
    assert error(seqs.recode, [1]).startswith("sequence 1 (id 'F2') has symbol 9 at position 1, ")
    assert error(seqs.recode, ["1"], unknown="missing") == (
        "sequence 0 (id 'F1') has symbol 1 at position 0, but the vocabulary holds symbols such "
        "as '1'"
    )
    # Recoding to fewer symbols is no error where none of the others is used.
    assert seqs[:1].recode([1]).codes.tolist() == [0]


@pytest.mark.parametrize(
    ("vocabulary", "message"),
    [
        ([], "the vocabulary is empty; expected at least one symbol"),
        ([1, 2, 1], "the vocabulary has 1 at position 2 and 0; expected each value once"),
        ([1, None], "the vocabulary has no value at position 1; none may be missing there"),
        (
            [-1],
            f"the vocabulary has -1 at position 0; {NEGATIVE}",
        ),
        (
            [1, "a"],
            "the vocabulary has the string 'a' at position 1, but the vocabulary has the integer 1 "
            "at position 0; use strings or integers, not both",
        ),
        (
            "ab",
            "expected a column of symbols (a list, a one-dimensional array, a table's column), "
            "got 'ab'",
        ),
    ],
)
def test_bad_vocabularies(vocabulary, message):
    assert error(as_sequences, [[1]], vocabulary=vocabulary) == message


def test_unknown_has_three_values():
    message = "unknown is 'ignore'; it is one of 'error', 'missing', 'add'"
    assert error(as_sequences, [[1]], unknown="ignore") == message


# --- what must not go in --------------------------------------------------------------------------

FLOATS = (
    "expected a string or an integer: cut numbers into integers or strings first (a table's "
    f"integer column with gaps reads as float: use a nullable integer type); {MISSING}"
)


@pytest.mark.parametrize(
    ("bad", "what"),
    [
        (
            -1,
            f"-1 at position 1; {NEGATIVE}",
        ),
        (
            -7,
            f"-7 at position 1; {NEGATIVE}",
        ),
        (1.0, f"1.0 (float) at position 1; {FLOATS}"),
        (float("nan"), f"NaN (float) at position 1; {FLOATS}"),
        (np.float32("inf"), f"inf (float) at position 1; {FLOATS}"),
        (
            True,
            "True (bool) at position 1; expected a string or an integer: write 0 and 1, or strings",
        ),
        (
            np.True_,
            "True (bool) at position 1; expected a string or an integer: write 0 and 1, or strings",
        ),
        (
            b"a",
            "b'a' (bytes) at position 1; expected a string or an integer: "
            "decode bytes into strings first",
        ),
        (
            [1, 2],
            "[1, 2] (list) at position 1; expected a string or an integer: "
            "a sequence is flat: one symbol per position",
        ),
        (2**63, "9223372036854775808 at position 1, which does not fit 64 bits; use strings"),
    ],
    ids=repr,
)
def test_bad_symbols_are_named_with_sequence_and_position(bad, what):
    named = [5, None, 5], [5, bad]
    assert error(Sequences.from_lists, named) == f"sequence 1 has {what}"
    assert error(Sequences.from_lists, named, ids=["F1", "F2"]) == (
        f"sequence 1 (id 'F2') has {what}"
    )
    flat = [5, None, 5, 5, bad]
    assert error(Sequences.from_stacked, flat, [3, 2]) == f"sequence 1 has {what}"
    # Sequence 'b' has rows 1 and 2 of the table.
    scrambled, ids = [5, 5, bad, 5, None], ["a", "b", "b", "a", "a"]
    assert error(Sequences.from_columns, scrambled, ids) == f"sequence 1 (id 'b') has {what}"


def test_mixed_symbols_are_named_on_both_sides():
    assert error(as_sequences, [["a", None], ["b", 3]]) == (
        "sequence 1 has the integer 3 at position 1, but sequence 0 has the string 'a' at "
        "position 0; use strings or integers, not both"
    )
    assert "has the string 'b' at position 0, but" in error(as_sequences, [np.array([1]), ["b"]])
    assert "has the string 'b' at position 1, but" in error(as_sequences, [[1, "b"]])
    assert "has the string 'b' at position 1, but" in error(Sequences.from_array, [[1, "b"]])


@pytest.mark.parametrize(
    ("array", "what"),
    [
        (np.array([[0, -1], [1, 1]]), "sequence 0 has -1 at position 1; expected integers of 0"),
        (np.array([[0.0, 1.0]]), "sequence 0 has 0.0 (float) at position 0; expected"),
        (np.array([[0.0, 1.0], [2.0, np.nan]]), "sequence 1 has NaN (float) at position 1; expect"),
        (np.array([[0, 1], [1, np.inf]]), "sequence 1 has inf (float) at position 1; expected"),
        (np.array([[True, False]]), "sequence 0 has True (bool) at position 0; expected"),
        (np.array([[b"a"]]), "sequence 0 has b'a' (bytes) at position 0; expected"),
        (np.array([[1j]]), "sequence 0 has 1j (complex) at position 0; expected"),
        (np.array([["2026-11-15"]], dtype="M8[D]"), "sequence 0 has datetime.date(2026, 11, 15)"),
        (np.array([[0, 2**63]], dtype=np.uint64), "sequence 0 has 9223372036854775808 at positio"),
        (np.ma.array([[0, -2, -3]], mask=[[1, 1, 0]]), "sequence 0 has -3 at position 2; expecte"),
        (np.empty((0, 3), dtype=int), "there are no sequences; expected at least 1"),
        (np.empty((3, 0), dtype=int), "the sequences are empty: found array with 0 feature(s)"),
        (np.array([1, 2]), "X is a flat column of 2 symbols; pass [X] where it is one sequence"),
        (np.zeros((1, 2, 3), dtype=int), "expected one column, got ndarray of shape (2, 3)"),
        (np.array(3), "expected a list of sequences, got ndarray; where X is one sequence pass"),
    ],
    ids=repr,
)
def test_bad_arrays(array, what):
    assert error(as_sequences, array).startswith(what)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([], "there are no sequences; expected at least 1"),
        (
            [[1], []],
            EMPTY,
        ),
        (
            [np.array([1]), np.array([])],
            EMPTY,
        ),
        (
            ["abc", "de"],
            "sequence 0 is the string 'abc'; expected a list of symbols: pass list('abc') for its "
            "characters, or [X] where X is one sequence",
        ),
        (
            [1, 2],
            "sequence 0 is 1; expected a list of symbols: pass [X] where X is one sequence, "
            "or lengths= where it is several laid end to end",
        ),
        (
            [[1], None],
            "sequence 1 is None (NoneType); expected a list of symbols: pass [X] where X is one "
            "sequence, or lengths= where it is several laid end to end",
        ),
        ("abc", "expected a list of sequences, got str; where X is one sequence pass [X]"),
        (None, "expected a list of sequences, got NoneType; where X is one sequence pass [X]"),
        ({"a": [1]}, "expected a list of sequences, got dict; where X is one sequence pass [X]"),
        (
            [["a\0"]],
            "the string 'a\\x00' ends in a NUL character; strip it first",
        ),
        (
            pd.DataFrame({"a": [1]}),
            "X is a table (DataFrame); pass Sequences.from_pandas(X, id=…, symbol=…), "
            "from_polars for one of polars, or for measurements Signals.from_table(X, id=…, "
            "values=[…])",
        ),
        (
            scipy.sparse.csr_array(np.eye(2, dtype=int)),
            "X is a sparse matrix; pass X.toarray(), one sequence per row",
        ),
        (pa.array([[1], None]), "lengths has no value at position 1; none may be missing there"),
        (
            Sequences.from_lists([[1]])[:0],
            "there are no sequences; expected at least 1",
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_bad_collections(X, message):
    assert error(as_sequences, X) == message


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        (
            [2, 2],
            "the column holds 3 symbols, but the sequences 4; pass an id for every row, or lengths "
            "that add up to the number of symbols",
        ),
        (
            [3, 0],
            EMPTY,
        ),
        (
            [4, -1],
            EMPTY.replace("is empty", "has length -1"),
        ),
        ([1.5, 1.5], "lengths has 1.5 at position 0; expected integers"),
        (["3"], "lengths has the string '3' at position 0; expected integers"),
        ([], "there are no sequences; expected at least 1"),
    ],
    ids=repr,
)
def test_bad_lengths(lengths, message):
    assert error(as_sequences, [1, 2, 3], lengths) == message
    assert error(Sequences.from_stacked, np.array([[1], [2], [3]]), lengths) == message


def test_a_sequences_has_its_own_lengths():
    seqs = Sequences.from_lists([[1]])
    assert error(as_sequences, seqs, [1]) == "a Sequences knows its lengths; leave lengths= out"


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (["a"], "there are 2 sequences but 1 ids"),
        (["a", "a"], "ids has 'a' at position 1 and 0; expected each value once"),
        (["a", None], "ids has no value at position 1; none may be missing there"),
        ([0.5, 1.5], f"ids has 0.5 (float) at position 0; {FLOATS}"),
    ],
)
def test_bad_ids(ids, message):
    assert error(Sequences.from_lists, [[1], [2]], ids=ids) == message
    assert error(Sequences.from_array, [[1], [2]], ids=ids) == message


def test_bad_id_columns():
    assert error(Sequences.from_columns, [1, 2], pd.Series(["a", None])) == (
        "the id column has no value at position 1; none may be missing there"
    )
    assert error(Sequences.from_columns, [1, 2], ["a"]).startswith("the column holds 2 symbols")
    assert error(Sequences.from_columns, [], []) == "there are no sequences; expected at least 1"
    assert Sequences.from_columns([1, 2], [-5, 3]).ids.tolist() == [-5, 3]


GOOD = {"codes": [0, 1], "offsets": [0, 2], "vocabulary": [5, 6], "ids": [0]}


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("codes", [0.0, 1.0], "codes must be a one-dimensional array of integers, got float64"),
        ("codes", [0, 2], "codes must lie in -1 … 1"),
        ("codes", [-2, 0], "codes must lie in -1 … 1"),
        ("codes", [0, 2**32], "codes must lie in -1 … 1"),
        ("offsets", [0, 1], "offsets must run from 0 to the number of codes, 2"),
        ("offsets", [0, 0, 2], "there are 2 sequences but 1 ids"),
        ("vocabulary", [6, 5], "the vocabulary must be sorted, each symbol once"),
        ("vocabulary", [5.0, 6.0], "vocabulary must be a one-dimensional array of integers or"),
        ("ids", [[0]], "ids must be a one-dimensional array of integers or strings, got int64"),
    ],
)
def test_the_constructor_checks_its_arrays(field, value, message):
    arrays = {name: np.array(array) for name, array in GOOD.items()}
    assert Sequences(**arrays).to_lists() == [[5, 6]]
    arrays[field] = np.array(value)
    with pytest.raises(SojournError, match=re.escape(message)):
        Sequences(**arrays)


def test_integers_far_apart_are_coded_as_those_close_together_are():
    # Two ways to code integers, by table and by sorting, chosen by how far apart they lie.
    near = np.array([0, 3, 3, 1, 0])
    far = near * 10**15
    np.testing.assert_array_equal(
        Sequences.from_stacked(near, [5]).codes, Sequences.from_stacked(far, [5]).codes
    )
    assert Sequences.from_stacked(far, [5]).vocabulary.tolist() == [0, 10**15, 3 * 10**15]


@given(any_lists, st.data())
def test_concatenate_undoes_slicing(lists, data):
    seqs = Sequences.from_lists(lists, ids=[f"id {i}" for i in range(len(lists))])
    at = data.draw(st.integers(0, len(lists)))
    again = Sequences.concatenate([seqs[:at], seqs[at:]])
    assert again.to_lists() == lists
    assert again.ids.tolist() == seqs.ids.tolist()
    assert again.vocabulary.tolist() == seqs.vocabulary.tolist()


@given(any_lists)
def test_n_observed_counts_the_symbols_that_are_not_missing(lists):
    expected = [sum(symbol is not None for symbol in row) for row in lists]
    assert Sequences.from_lists(lists).n_observed.tolist() == expected


@given(st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=6), min_size=1, max_size=5))
def test_runs_are_those_of_groupby_in_each_sequence(lists):
    seqs = Sequences.from_lists(lists, vocabulary=[0, 1])
    expected, start = [], 0
    for row in lists:
        for value, group in groupby(row):
            length = len(list(group))
            expected.append((start, length, value))
            start += length
    found = runs(seqs.codes, seqs.offsets)
    assert [*zip(*(part.tolist() for part in found), strict=True)] == expected
    joined = [(value, len(list(group))) for value, group in groupby(chain(*lists))]
    assert [*zip(*(part.tolist() for part in runs(seqs.codes)[:0:-1]), strict=True)] == joined


# ---- empty sequences and the end ---------------------------------------------------------------


@pytest.mark.parametrize(
    "X",
    [
        [[], ["b", "a"], [], ["a"], []],
        (np.array(["b", "a", "a"]), [0, 2, 0, 1, 0]),
        pa.array([[], ["b", "a"], [], ["a"], []], pa.list_(pa.string())),
    ],
    ids=["lists", "stacked", "arrow"],
)
def test_empty_sequences_are_kept_where_they_are_allowed(X):
    X, lengths = X if isinstance(X, tuple) else (X, None)
    seqs = as_sequences(X, lengths, empty=True)
    assert seqs.to_lists() == [[], ["b", "a"], [], ["a"], []]
    assert seqs[[4, 3]].to_lists() == [[], ["a"]]
    assert seqs[1:3].to_lists() == [["b", "a"], []]
    assert seqs.n_observed.tolist() == [0, 2, 0, 1, 0]
    assert seqs.recode(["a", "b", "c"]).lengths.tolist() == [0, 2, 0, 1, 0]
    assert error(as_sequences, X, lengths).startswith("sequence 0 is empty; every sequence needs")
    assert error(as_sequences, seqs).startswith("sequence 0 is empty; every sequence needs")


def test_runs_and_sums_of_empty_sequences():
    values, offsets = np.array([1, 1, 2, 2, 2]), np.array([0, 0, 2, 2, 4, 5, 5])
    assert sums(values, offsets).tolist() == [0, 2, 0, 4, 2, 0]
    assert runs(values, offsets).lengths.tolist() == [2, 2, 1]
    assert sums(values[:0], np.array([0, 0, 0])).tolist() == [0, 0]


def test_there_is_one_end():
    assert repr(END) == "END"
    assert copy.copy(END) is END
    assert copy.deepcopy([END])[0] is END
    # What goes to another process is found there by this name in its module.
    assert END.__reduce_ex__(4) == "END"
    assert sys.modules[type(END).__module__].END is END
