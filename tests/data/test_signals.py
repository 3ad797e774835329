"""Measurements in every form: the same values, names kept, bad input named."""

from datetime import time
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import sojourn as sj
from sojourn import Signals, SojournError
from sojourn.data.as_signals import as_signals, is_numbers

RNG = np.random.default_rng(0)
ROWS = [RNG.normal(size=(3, 2)), RNG.normal(size=(3, 2))]
STACKED = np.concatenate(ROWS)


def same(a: Signals, b: Signals) -> None:
    np.testing.assert_array_equal(a.values, b.values)
    np.testing.assert_array_equal(a.offsets, b.offsets)
    np.testing.assert_array_equal(a.codes, b.codes)


def test_every_form_holds_the_same_values():
    expected = as_signals(ROWS)
    same(expected, as_signals(np.stack(ROWS)))
    same(expected, as_signals(STACKED, lengths=[3, 3]))
    same(expected, as_signals([row.tolist() for row in ROWS]))
    same(expected, as_signals([np.ma.masked_array(row) for row in ROWS]))
    same(expected, as_signals(expected))
    table = {"id": [0] * 3 + [1] * 3, "a": STACKED[:, 0], "b": STACKED[:, 1]}
    same(expected, Signals.from_table(table, id="id"))
    same(expected, Signals.from_table(pa.table(table), id="id", values=["a", "b"]))
    assert [row.shape for row in expected] == [(3, 2), (3, 2)]


@pytest.mark.parametrize("module", ["pandas", "polars"])
def test_data_frames_keep_names_and_sort_by_time(module):
    frames = pytest.importorskip(module)
    frame = frames.DataFrame(
        {
            "engine": ["a", "b", "a", "b"],
            "seconds": [2, 1, 1, 2],
            "speed": [1.0, 2.0, 3.0, None],
            "mode": ["up", "down", None, "up"],
        }
    )
    found = Signals.from_table(frame, id="engine", time="seconds")
    assert found.channels == ("speed", "mode")
    assert found.ids.tolist() == ["a", "b"]
    assert found.categories["mode"].tolist() == ["down", "up"]
    np.testing.assert_array_equal(found[0], [[3.0, np.nan], [1.0, 1.0]])
    np.testing.assert_array_equal(found[1], [[2.0, 0.0], [np.nan, 1.0]])
    frame = frame[["speed"]]
    assert Signals.from_arrays([frame, frame]).channels == ("speed",)


def test_one_dimensional_floats_are_one_channel():
    found = as_signals([np.array([0.5, np.nan]), np.array([1.0])])
    assert found.values.tolist()[0] == [0.5]
    assert found.codes.tolist() == [0, -1, 0]
    assert found.n_observed.tolist() == [1, 1]


def test_floats_are_numbers_and_integers_are_symbols():
    assert is_numbers([np.array([0.5])])
    assert is_numbers([[0.5, 1.5]])
    assert is_numbers(np.zeros((2, 3, 1)))
    assert is_numbers([np.zeros((3, 2), dtype=int)])
    assert is_numbers(as_signals(ROWS))
    assert not is_numbers([[0, 1], [1]])
    assert not is_numbers([["a"], ["b"]])
    assert not is_numbers(np.zeros((2, 3), dtype=int))
    assert not is_numbers(sj.Sequences.from_lists([[0, 1]]))


def test_parts_are_picked_as_in_sequences():
    signals = as_signals([RNG.normal(size=(n, 2)) for n in (2, 3, 1, 4)])
    for index in (slice(1, 3), [2, 0], np.array([True, False, True, False])):
        picked = signals[index]
        codes = sj.Sequences(signals.codes, signals.offsets, signals.vocabulary, signals.ids)[index]
        np.testing.assert_array_equal(picked.offsets, codes.offsets)
        wanted = np.arange(4)[index]
        np.testing.assert_array_equal(picked.values, np.concatenate([signals[i] for i in wanted]))
    same(signals, Signals.concatenate([signals[:1], signals[1:]]))
    same(signals, signals[:1].concatenate([signals[:1], signals[1:]]))


def test_channels_are_taken_by_name_and_symbols_recoded():
    table = {"mode": ["up", "down", "up"], "speed": [1.0, 2.0, 3.0]}
    found = Signals.from_table(table).taking(
        ["speed", "mode"], {"mode": np.array(["down", "still", "up"])}
    )
    np.testing.assert_array_equal(found.values, [[1.0, 2.0], [2.0, 0.0], [3.0, 2.0]])
    with pytest.raises(SojournError, match="no channel 'sped'; there are 'mode', 'speed'"):
        Signals.from_table(table).taking(["sped"])
    known = {"mode": np.array(["down"])}
    with pytest.raises(SojournError, match="'mode' has symbol 'up', which the model has not seen"):
        Signals.from_table(table).taking(["mode"], known)
    missing = Signals.from_table(table).taking(["mode"], known, "missing")
    assert missing.codes.tolist() == [-1, 0, -1]
    numbers = Signals.from_table({"gear": [10.0, 1.7, 2.0]})
    gears = {"gear": np.array(["10", "2"])}
    np.testing.assert_array_equal(
        numbers.taking(["gear"], gears, "missing").values, [[0.0], [np.nan], [1.0]]
    )
    with pytest.raises(SojournError, match=r"'gear' has symbol '1\.7', which the model"):
        numbers.taking(["gear"], gears)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.zeros((4, 3)), r"one sequence of 3 channels or 4 sequences of one channel"),
        ([np.array([[1.0, np.inf]])], r"inf in channel 'channel 1' at position 0"),
        ([np.zeros((2, 2)), np.zeros((2, 3))], r"sequence 0 has 2 channels and sequence 1 has 3"),
        ([np.zeros((0, 2))], r"sequence 0 is empty"),
        ([np.array([["a", "b"]])], r"sequence 0 is not a table of numbers"),
        ([np.zeros((2, 2, 2))], r"sequence 0 has shape \(2, 2, 2\)"),
        (3.0, r"expected a list of arrays, got float"),
        ([], r"there are no sequences"),
    ],
)
def test_bad_input_is_named(X, message):
    with pytest.raises(SojournError, match=message):
        as_signals(X)


def test_bad_tables_are_named():
    with pytest.raises(SojournError, match="channel 'a' has 'x' at row 1 beside numbers"):
        Signals.from_table({"a": [1.0, "x"]})
    with pytest.raises(SojournError, match="no column 'b'"):
        Signals.from_table({"a": [1.0]}, values=["b"])
    with pytest.raises(
        SojournError, match=r"column 't' has .*nan.* at position 0; expected a date"
    ):
        Signals.from_table({"a": [1.0, 2.0], "t": [np.nan, 1.0]}, time="t")
    for columns in ({"a": [1.0, 2.0], "t": [1]}, {"a": [1.0], "t": [1, 2]}):
        with pytest.raises(SojournError, match=r"columns have \[1, 2\] rows"):
            Signals.from_table(columns, time="t")
    with pytest.raises(SojournError, match="sequence 0 is empty"):
        Signals.from_table({"a": []})
    with pytest.raises(SojournError, match="some parts are no Signals"):
        Signals.concatenate([Signals.from_arrays([[1.0]]), sj.Sequences.from_lists([["a"]])])
    with pytest.raises(SojournError, match=r"column 't' has '29\.03\.2026' at position 0"):
        Signals.from_table({"a": [1.0, 2.0], "t": ["29.03.2026", "01.04.2026"]}, time="t")
    with pytest.raises(SojournError, match="column 't' has no value at position 1"):
        Signals.from_table({"a": [1.0, 2.0], "t": np.ma.array([1, 2], mask=[0, 1])}, time="t")
    with pytest.raises(SojournError, match="channel 'when' holds dates; expected numbers: pass"):
        Signals.from_table({"a": [1.0, 2.0], "when": np.array(["2026-03-29", "NaT"], "M8[ns]")})
    with pytest.raises(SojournError, match="add up to 5"):
        as_signals(np.zeros((4, 2)), lengths=[2, 3])
    with pytest.raises(SojournError, match="2 channels but 1 names"):
        Signals.from_arrays(ROWS, channels=["a"])
    with pytest.raises(SojournError, match="X is a table"):
        as_signals(pa.table({"a": [1.0]}))


@pytest.mark.parametrize(
    "times",
    [
        ["10", "9", "8"],
        ["2026-03-29T10:00+02:00", "2026-03-29T07:30+00:00", "2026-03-29T07:00Z"],
        [time(10), time(9), time(8)],
        np.array([3, 2, 1], "m8[s]"),
        pa.array([Decimal("1.30"), Decimal("1.20"), Decimal("1.10")]),
    ],
)
def test_times_are_sorted_by_what_they_mean(times):
    """Text was sorted letter by letter, so that 10 came before 9."""
    found = Signals.from_table({"a": [1.0, 2.0, 3.0], "t": times}, time="t")
    assert found.values.ravel().tolist() == [3.0, 2.0, 1.0]


def test_models_of_symbols_refuse_measurements():
    with pytest.raises(SojournError, match="Discretizer"):
        sj.as_sequences(as_signals(ROWS))


def test_ids_and_times_are_not_taken_for_channels_without_being_named():
    table = {"unit_id": [1, 1, 2], "timestamp": [0, 1, 0], "load": [0.5, 0.7, 0.1]}
    with pytest.raises(sj.SojournError, match=r"'unit_id' looks like ids.*pass id='unit_id'"):
        sj.Signals.from_table(table)
    with pytest.raises(sj.SojournError, match=r"'timestamp' looks like times.*time='timestamp'"):
        sj.Signals.from_table(table, id="unit_id")
    assert sj.Signals.from_table(table, id="unit_id", time="timestamp").channels == ("load",)
    two = sj.Signals.from_table(table, id=False, values=["timestamp", "load"])
    assert two.channels == ("timestamp", "load")


MACHINES = {  # sorted by machine, with names that nobody can guess
    "unit_nr": np.repeat([4, 5, 6], 4),
    "cycle": np.tile(np.arange(4), 3),
    "speed": np.arange(12) / 7,
    "temp": np.arange(12) / 3,
}


@pytest.mark.parametrize("make", [dict, pd.DataFrame, pl.DataFrame, pa.table])
@pytest.mark.parametrize("ids", [np.repeat([4, 5, 6], 4), np.repeat(["x", "y", "z"], 4)])
def test_machines_are_not_one_sequence_because_nobody_named_their_ids(make, ids):
    """All rows were one sequence, and ids and times channels, without a word."""
    table = make(MACHINES | {"unit_nr": ids})
    refused = "cannot guess whether 'unit_nr', 'cycle' have the ids .* pass id= and time=, or id=F"
    for how in ({}, {"values": ["speed", "temp"]}, {"values": "speed"}):
        with pytest.raises(SojournError, match=refused):
            Signals.from_table(table, **how)
    with pytest.raises(SojournError, match="cannot guess whether 'unit_nr' has the ids"):
        Signals.from_table(table, time="cycle", values=["speed"])
    found = Signals.from_table(table, id="unit_nr", time="cycle")
    assert (found.lengths.tolist(), found.channels) == ([4, 4, 4], ("speed", "temp"))
    assert len(Signals.from_table(table, id=False, time="cycle", values=["temp"])) == 1
    assert len(Signals.from_table(table, id=False, time=False).channels) == 4


def test_ids_that_are_whole_floats_are_not_left_over():
    table = pd.DataFrame(MACHINES, dtype=float)
    with pytest.raises(SojournError, match="cannot guess whether 'unit_nr', 'cycle' have"):
        Signals.from_table(table, values=["speed"])


def test_channels_of_floats_and_of_changing_words_need_no_id():
    floats = pd.DataFrame({"flag": [0.0, 1.0, 0.0], "speed": [0.1, 0.2, np.nan]})
    assert Signals.from_table(floats).channels == ("flag", "speed")
    assert Signals.from_table(floats, values=["flag"]).channels == ("flag",)
    assert Signals.from_table(floats.assign(mode=["on", "off", "on"])).channels[2] == "mode"
    assert Signals.from_table({"count": [1, 2, 3]}).channels == ("count",)


def test_a_named_index_counts_as_columns():
    """It was dropped, so that all rows were one sequence."""
    frame = pd.DataFrame(MACHINES)
    with pytest.raises(SojournError, match="cannot guess whether 'unit_nr' has"):
        Signals.from_table(frame.set_index("unit_nr"), time="cycle", values=["speed"])
    expected = Signals.from_table(frame, id="unit_nr", time="cycle")
    for index in ("unit_nr", "cycle", ["unit_nr", "cycle"]):
        same(expected, Signals.from_table(frame.set_index(index), id="unit_nr", time="cycle"))
    kept = frame.set_index("unit_nr", drop=False)
    same(expected, Signals.from_table(kept, id="unit_nr", time="cycle"))
    dated = frame[["speed"]].set_index(pd.date_range("2026-01-01", periods=12, name="day"))
    assert Signals.from_table(dated, time="day").channels == ("speed",)
    with pytest.raises(SojournError, match=r"channel 'day' holds dates; .* pass time='day'"):
        Signals.from_table(dated, id=False)
    unnamed = frame[["speed"]].set_axis(range(5, 17))
    assert Signals.from_table(unnamed).channels == ("speed",)


def test_a_table_that_is_not_read_yet_is_to_be_collected():
    for cls in (Signals, sj.Sequences):
        with pytest.raises(SojournError, match=r"got LazyFrame; pass table\.collect\(\)"):
            cls.from_polars(pl.DataFrame(MACHINES).lazy())


def test_frames_are_read_by_the_names_that_sequences_have_too():
    frame = pa.table({"engine": ["a", "b", "a"], "t": [1, 0, 0], "load": [0.5, 0.1, 0.7]})
    found = Signals.from_pandas(frame, id="engine", time="t", values=["load"])
    assert isinstance(found, Signals)
    assert found["a"].tolist() == [[0.7], [0.5]]


def test_numbers_written_as_text_are_not_taken_for_symbols():
    texts = [f"{i / 7:.3f}" for i in range(40)]
    for one in ("n/a", "7,5"):
        with pytest.raises(SojournError, match=r"'load' holds text: numbers such as '0\.000'"):
            Signals.from_table({"load": [*texts, one]})
    modes = Signals.from_table({"mode": ["1.0", "2.0", "off"] * 9})  # few: versions, names
    assert modes.categories["mode"].tolist() == ["1.0", "2.0", "off"]


def test_lengths_beside_a_list_of_sequences_are_refused():
    with pytest.raises(SojournError, match="leave lengths= out"):
        as_signals([np.ones((3, 2)), np.ones((4, 2))], lengths=[3, 4])
    with pytest.raises(SojournError, match=r"lengths has 2\.0 at position 0; expected integers"):
        as_signals(np.ones((4, 2)), lengths=[2.0, 2.0])


def test_channels_before_steps_are_named():
    with pytest.warns(UserWarning, match=r"6 steps and 100 channels.*X\.transpose\(0, 2, 1\)"):
        as_signals(np.random.default_rng(0).normal(size=(3, 6, 100)))
