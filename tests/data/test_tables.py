"""Sequences from and to tables, joined, picked by id and described."""

from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pandas as pd
import polars as pl
import pytest

from sojourn import Sequences, SojournError, as_sequences

TABLE = {
    "case:concept:name": ["b", "a", "b", "a", "b"],
    "concept:name": ["pay", "ask", "ask", None, "ship"],
    "time:timestamp": [datetime(2026, 3, 1, hour, tzinfo=UTC) for hour in (5, 1, 2, 3, 9)],
    "org:resource": list("vwxyz"),
}
ORDERED = {"b": ["ask", "pay", "ship"], "a": ["ask", None]}


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_a_table_with_the_standard_names_of_event_logs_needs_no_arguments(make):
    seqs = Sequences.from_pandas(make(TABLE))
    assert {name: seqs[name] for name in seqs.ids.tolist()} == ORDERED
    day = np.datetime64("2026-03-01", "h")
    assert (seqs.times == day + np.array([2, 5, 9, 1, 3])).all()


@pytest.mark.parametrize("to", ["to_pandas", "to_polars"])
def test_a_table_of_sequences_gives_them_back(to):
    seqs = Sequences.from_pandas(pd.DataFrame(TABLE))
    again = Sequences.from_polars(getattr(seqs, to)())
    assert again.to_lists() == seqs.to_lists()
    assert again.ids.tolist() == seqs.ids.tolist()
    assert (again.times == seqs.times).all()
    assert list(seqs[:1].to_columns()) == ["id", "time", "symbol"]


def test_the_index_of_a_series_has_the_ids():
    seqs = Sequences.from_pandas(pd.Series(["x", "y", "z"], index=[7, 5, 7]))
    assert seqs.ids.tolist() == [7, 5]
    assert seqs.to_lists() == [["x", "z"], ["y"]]


def test_a_named_index_counts_as_columns():
    """It was dropped, so that all cases were one sequence."""
    table = pd.DataFrame({"case": list("abab"), "when": [3, 1, 2, 4], "what": list("wxyz")})
    for index in ("case", "when", ["case", "when"]):
        seqs = Sequences.from_pandas(table.set_index(index), symbol="what", time="when")
        assert seqs.ids.tolist() == ["a", "b"]
        assert seqs.to_lists() == [["y", "w"], ["x", "z"]]


@pytest.mark.parametrize(
    "column",
    [
        pd.Series(pd.to_datetime(["2026-01-01T03:00+02:00", "2026-01-01T00:30+00:00"], utc=True)),
        pd.Series(pd.to_datetime(["2026-01-01T01:00", "2026-01-01T00:30"])),
        pd.Series(pd.to_datetime(["2026-01-01T01:00", "2026-01-01T00:30"])).dt.tz_localize("UTC"),
        pl.Series([datetime(2026, 1, 1, 1), datetime(2026, 1, 1, 0, 30)]),
        ["2026-01-01T03:00+02:00", "2026-01-01 00:30"],
        [
            datetime(2026, 1, 1, 3, tzinfo=timezone(timedelta(hours=2))),
            datetime(2026, 1, 1, 0, 30, tzinfo=UTC),
        ],
        np.array(["2026-01-01T01:00", "2026-01-01T00:30"], dtype="M8[m]"),
    ],
    ids=["pandas offsets", "pandas", "pandas zone", "polars", "text", "datetime", "numpy"],
)
def test_dates_of_every_kind_become_utc(column):
    seqs = Sequences.from_columns(["late", "early"], time=column)
    assert seqs.to_lists() == [["early", "late"]]
    assert (
        seqs.times.tolist() == np.array(["2026-01-01T00:30", "2026-01-01T01:00"], "M8[ns]").tolist()
    )


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ([1, None], "the time column has no value at position 1; expected a date or a number"),
        ([1.0, float("nan")], "the time column has np.float64(nan) at position 1; expected a date"),
        (["noon", "one"], "the time column has 'noon' at position 0; expected a date or a number"),
        ([1, "2026-01-01"], "the time column holds a number at position 0, a date at 1"),
        ([1], "there are 2 rows but 1 times"),
    ],
)
def test_times_that_cannot_be_read(column, message):
    with pytest.raises(SojournError) as caught:
        Sequences.from_columns(["a", "b"], ["x", "y"], time=column)
    assert str(caught.value).startswith(message)


def test_sequences_refuse_times_that_do_not_fit():
    arrays = [np.array([0, 0, 0]), np.array([0, 2, 3]), np.array(["a"]), np.array(["x", "y"])]
    assert Sequences(*arrays, times=np.array([1.0, 2.0, 0.0])).times.tolist() == [1, 2, 0]
    with pytest.raises(
        SojournError, match=r"sequence 0 \(id 'x'\) goes back in time at position 1"
    ):
        Sequences(*arrays, times=np.array([1.0, 0.0, 0.0]))
    with pytest.raises(SojournError, match="there are 3 symbols but 2 times"):
        Sequences(*arrays, times=np.array([1.0, 0.0]))
    with pytest.raises(SojournError, match="times must be a one-dimensional array of numbers or d"):
        Sequences(*arrays, times=np.array(["a", "b", "c"]))


def test_picking_joining_and_recoding_keep_times():
    seqs = Sequences.from_columns(list("abcd"), [1, 2, 1, 2], time=[4, 3, 5, 6])
    assert seqs[[1]].times.tolist() == [3, 6]
    assert seqs[1:].times.tolist() == [3, 6]
    assert seqs.recode(list("abcdz")).times.tolist() == [4, 5, 3, 6]
    joined = Sequences.concat([seqs[1:], seqs[:1]])
    assert joined.times.tolist() == [3, 6, 4, 5]
    assert Sequences.concat([seqs, Sequences.from_lists([["a"]])]).times is None


def test_concat_joins_vocabularies():
    parts = [Sequences.from_lists([["a"]]), Sequences.from_lists([["c", "b"]], ids=["x"])]
    joined = Sequences.concat(parts)
    assert joined.to_lists() == [["a"], ["c", "b"]]
    assert joined.vocabulary.tolist() == ["a", "b", "c"]
    with pytest.raises(SojournError, match="but the vocabulary holds symbols such as"):
        Sequences.concat([parts[0], Sequences.from_lists([[1]])])
    with pytest.raises(SojournError, match="nothing to concatenate"):
        Sequences.concat([])


def test_a_sequence_is_found_by_its_id():
    seqs = Sequences.from_lists([["a"], ["b", "b"]], ids=["x", "y"])
    assert seqs["y"] == ["b", "b"]
    with pytest.raises(
        SojournError, match="there is no sequence 'z'; the ids are such as 'x', 'y'"
    ):
        seqs["z"]


def test_an_id_of_several_sequences_picks_none_of_them():
    """The first was taken without a word."""
    seqs = Sequences.from_lists([["a"], ["b", "b"]], ids=["x", "y"])
    twice = Sequences.concat([seqs, seqs[:1]])
    assert twice["y"] == ["b", "b"]
    with pytest.raises(SojournError, match=r"2 sequences have the id 'x'; .* place, 0 or 2"):
        twice["x"]


def test_describe_counts():
    seqs = Sequences.from_lists([["a", "b", None], [], ["b"]], empty=True)
    assert seqs.describe() == {
        "sequences": 3,
        "symbols": 4,
        "missing": 1,
        "empty": 1,
        "vocabulary": 2,
        "lengths": {"least": 0, "25%": 0.5, "median": 1, "75%": 2, "most": 3},
        "commonest": {"b": 2, "a": 1},
    }
    timed = Sequences.from_columns(["a", "b"], time=[3, 99]).resample(10)
    assert (timed.describe()["first"], timed.describe()["every"]) == (0, "10")


def test_a_column_without_lengths_is_an_error_that_names_them():
    X = np.zeros((200, 1), dtype=int)
    with pytest.raises(SojournError, match=r"as in fit\(X, lengths=\[…\]\), lengths=\[200\] where"):
        as_sequences(X)
    assert len(as_sequences(X, lengths=[200])) == 1
    assert len(Sequences.from_array(X)) == 200


EVENTS = pd.DataFrame({"id": list("aabbb"), "event": list("xyxyx")})


@pytest.mark.parametrize(
    ("X", "lengths", "message"),
    [
        (EVENTS.groupby("id").event, None, r"SeriesGroupBy of pandas; pass Sequences\.from_pandas"),
        (EVENTS.event, None, r"X is a flat column of 5 symbols; pass \[X\] where it is one"),
        (EVENTS.event.to_numpy(), None, "X is a flat column of 5 symbols"),
        (pl.Series(list("xy")), None, "X is a flat column of 2 symbols"),
        (np.array([0, 1, 1]), None, "X is a flat column of 3 symbols"),
        ([["a", "b"], ["a", "b", "a"]], [2, 3], "a list of sequences knows its lengths; leave"),
    ],
)
def test_columns_given_as_sequences_are_named(X, lengths, message):
    with pytest.raises(SojournError, match=message):
        as_sequences(X, lengths)


def test_columns_of_lists_are_sequences():
    rows = [["a", "b"], ["a"]]
    for column in (pd.Series(rows), pl.Series(rows), pd.Series(rows).to_numpy()):
        assert as_sequences(column).to_lists() == rows


def test_the_only_name_that_ends_in_id_has_the_ids_but_not_that_of_events():
    table = pd.DataFrame(
        {"claim_id": ["x", "x", "y"], "ts": [3, 1, 2], "activity": ["b", "a", "a"]}
    )
    seqs = Sequences.from_pandas(table)
    assert {name: seqs[name] for name in seqs.ids.tolist()} == {"x": ["a", "b"], "y": ["a"]}
    with pytest.raises(SojournError, match="cannot guess which column has the ids"):
        Sequences.from_pandas(table.rename(columns={"claim_id": "event_id"}))


def test_a_table_of_measurements_is_pointed_to_signals():
    with pytest.raises(SojournError, match=r"for measurements Signals\.from_table"):
        as_sequences(pd.DataFrame({"speed": [1.0, 2.0]}))


def test_measurements_given_to_a_model_of_symbols_name_what_it_was_fitted_to():
    with pytest.raises(SojournError, match="the model was fitted to symbols"):
        as_sequences([np.zeros((5, 2))], vocabulary=["a", "b"])


def test_times_of_parts_are_kept_where_all_are_of_one_kind():
    numbers = Sequences.from_columns(["a", "b"], time=[1, 2])
    dates = Sequences.from_columns(["a", "b"], time=["2026-01-01", "2026-01-02"])
    assert Sequences.concatenate([numbers, numbers]).times.tolist() == [1.0, 2.0] * 2
    assert Sequences.concatenate([numbers, dates]).times is None


def test_sequences_without_times_cannot_be_resampled_whatever_the_clock():
    for every in ("1h", 10):
        with pytest.raises(SojournError, match="the sequences have no times"):
            Sequences.from_lists([["a"]]).resample(every)
