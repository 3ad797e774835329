"""Events on a clock: resampling and gaps, against plain loops."""

from collections import Counter
from datetime import datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sojourn import Sequences, SojournError, read
from sojourn.data.clock import Clock

AMSTERDAM = ZoneInfo("Europe/Amsterdam")
RNG = np.random.default_rng(0)


def plain(rows, every, fill, max_gap=None, gap="split", step_of=None):
    """One symbol per step, by loops; rows are (id, time, symbol), in any order."""
    step_of = step_of or (lambda t: t // every)
    cases = {}
    for name, time, symbol in rows:
        cases.setdefault(name, []).append((time, symbol))
    made = {}
    for name, events in cases.items():
        events.sort(key=lambda event: event[0])
        pieces, too_long = [[events[0]]], []
        for before, event in pairwise(events):
            if max_gap is not None and event[0] - before[0] > max_gap:
                too_long.append((step_of(before[0]), step_of(event[0])))
                if gap == "split":
                    pieces.append([])
            pieces[-1].append(event)
        for k, piece in enumerate(pieces):
            symbols, last = [], None
            for step in range(step_of(piece[0][0]), step_of(piece[-1][0]) + 1):
                own = [symbol for time, symbol in piece if step_of(time) == step]
                if own and fill == "commonest":
                    most = max(Counter(own).values())
                    last = next(s for s in reversed(own) if own.count(s) == most)
                elif own:
                    last = own[-1]
                elif fill == "nothing":
                    last = "nothing"
                elif fill == "missing":
                    last = None
                between = any(low < step < high for low, high in too_long)
                symbols.append(None if between else last)
            made[name if len(pieces) == 1 else f"{name}.{k + 1}"] = symbols
    return made


def as_dict(seqs):
    return dict(zip(seqs.ids.tolist(), seqs.to_lists(), strict=True))


ROWS = st.lists(
    st.tuples(st.sampled_from("xyz"), st.integers(-30, 200), st.sampled_from("abc")), min_size=1
)
FILL = st.sampled_from(["hold", "nothing", "missing", "commonest"])


@settings(max_examples=200)
@given(
    ROWS,
    st.integers(1, 40),
    FILL,
    st.none() | st.integers(1, 60),
    st.sampled_from(["split", "missing"]),
)
def test_resampling_is_that_of_plain_loops(rows, every, fill, max_gap, gap):
    id, time, symbol = zip(*rows, strict=True)
    seqs = Sequences.from_columns(symbol, id, vocabulary=list("abc"), time=time)
    found = seqs.resample(every, fill, max_gap=max_gap, gap=gap)
    assert as_dict(found) == plain(rows, every, fill, max_gap, gap)
    assert found.times[found.offsets[:-1]].tolist() == [
        t // every * every for t in found.times[found.offsets[:-1]].tolist()
    ]


@settings(max_examples=50)
@given(ROWS, st.randoms(use_true_random=False))
def test_the_order_of_rows_with_different_times_does_not_matter(rows, random):
    rows = [(name, 1000 * time + k, symbol) for k, (name, time, symbol) in enumerate(rows)]
    shuffled = random.sample(rows, len(rows))
    found = []
    for some in (rows, shuffled):
        id, time, symbol = zip(*some, strict=True)
        seqs = Sequences.from_columns(symbol, id, vocabulary=list("abc"), time=time)
        found.append(as_dict(seqs.resample(7000, "commonest", max_gap=30_000)))
    assert found[0] == found[1]


@pytest.mark.parametrize("day", ["2026-03-29", "2026-10-25", "2026-07-01"])
@pytest.mark.parametrize("every", ["1h", "15min", "1d"])
def test_clocks_that_change_neither_lose_nor_repeat_a_step(day, every):
    start = datetime.fromisoformat(day).replace(tzinfo=AMSTERDAM) - timedelta(days=1)
    first = start.timestamp()
    seconds = np.sort(RNG.choice(3 * 86400, 40, replace=False)) + first
    symbols = RNG.choice(list("abc"), 40)
    times = pd.Series(pd.to_datetime(seconds, unit="s", utc=True)).dt.tz_convert(AMSTERDAM)
    seqs = Sequences.from_columns(symbols, time=times, vocabulary=list("abc"))
    found = seqs.resample(every, "nothing", zone="Europe/Amsterdam")

    def step_of(t):
        if every == "1d":
            return datetime.fromtimestamp(t, AMSTERDAM).date().toordinal()
        return int(t // {"1h": 3600, "15min": 900}[every])

    rows = [(0, t, s) for t, s in zip(seconds.tolist(), symbols.tolist(), strict=True)]
    assert as_dict(found) == plain(rows, None, "nothing", step_of=step_of)
    if every == "1d":
        local = pd.Series(found.times).dt.tz_localize("UTC").dt.tz_convert(AMSTERDAM)
        assert (local.dt.hour == 0).all()


def test_the_same_moments_in_other_zones_give_the_same_steps():
    times = pd.Series(pd.date_range("2026-03-28", periods=50, freq="47min", tz="UTC"))
    symbols = RNG.choice(list("ab"), 50)
    found = [
        Sequences.from_columns(symbols, time=times.dt.tz_convert(zone)).resample("1h").to_lists()
        for zone in ("UTC", "Asia/Kolkata", "America/New_York")
    ]
    assert found[0] == found[1] == found[2]


def test_a_clock_travels_with_what_is_picked_joined_and_recoded():
    seqs = Sequences.from_columns(list("abab"), list("xxyy"), time=[0, 9000, 0, 4000])
    seqs = Sequences.from_pandas(
        seqs.to_pandas().assign(time=lambda t: pd.to_datetime(t.time, unit="s"))
    )
    hourly = seqs.resample("60min")
    assert hourly.clock.unit == (60, "minutes")
    hourly = seqs.resample(timedelta(hours=1))
    assert hourly.clock.every == "1h"
    assert hourly.clock.unit == (1, "hours")
    assert repr(hourly).endswith("every 1h)")
    assert hourly.to_lists() == [["a", "a", "b"], ["a", "b"]]
    for other in (hourly[1:], hourly[[0]], hourly.recode(list("abc")), Sequences.concat([hourly])):
        assert other.clock == hourly.clock
    assert seqs.clock is None


def test_empty_sequences_stay_empty():
    arrays = [np.array([0, 0]), np.array([0, 0, 2, 2]), np.array(["a"]), np.array(["x", "y", "z"])]
    seqs = Sequences(*arrays, times=np.array([0.0, 25.0])).resample(10)
    assert as_dict(seqs) == {"x": [], "y": ["a", "a", "a"], "z": []}


@settings(max_examples=50)
@given(ROWS)
def test_gaps_are_those_to_the_next_event(rows):
    id, time, symbol = zip(*rows, strict=True)
    found = Sequences.from_columns(symbol, id, vocabulary=list("abc"), time=time).with_gaps([5, 60])
    for name in dict.fromkeys(id):
        events = sorted((row for row in rows if row[0] == name), key=lambda row: row[1])
        expected = []
        for event, after in zip(events, [*events[1:], None], strict=True):
            gap = "" if after is None else after[1] - event[1]
            label = "" if gap == "" else " <5" if gap < 5 else " 5-60" if gap < 60 else " >=60"
            expected.append(event[2] + label)
        assert found[name] == expected


def test_a_step_that_floats_cannot_hold_has_one_event_of_each_of_its_multiples():
    tenths = np.array([k / 10 for k in range(200)])
    for origin in (0.0, 1.7e9):  # seconds since 1970, too
        seqs = Sequences.from_columns(np.arange(200), time=origin + tenths).resample(0.1)
        assert seqs[0] == list(range(200))


def test_bounds_of_gaps_are_kept_in_full_and_may_be_timedeltas():
    seqs = Sequences.from_columns(["a", "b"], time=[0, 1_234_568])
    assert seqs.with_gaps([1_234_567])[0] == ["a >=1234567", "b"]
    seqs = Sequences.from_columns(["a", "b"], time=["2026-01-01", "2026-01-04"])
    assert seqs.with_gaps([timedelta(days=2)])[0] == ["a >=2d", "b"]


def test_gaps_of_dates_have_units():
    times = pd.to_datetime(pd.Series(["2026-01-01T00:00", "2026-01-01T00:02", "2026-01-03T00:00"]))
    seqs = Sequences.from_columns(["a", None, "a"], time=times)
    assert seqs.with_gaps(["1min", "1h", "1d"])[0] == ["a 1min-1h", None, "a"]
    assert seqs.with_gaps([60, 3600, 86400])[0] == ["a 60-3600", None, "a"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s: s.resample("1h"), "every is '1h', but the times are numbers, not dates; pass a"),
        (lambda s: s.resample("soon"), "every is 'soon'; expected a length of time such as '1h'"),
        (lambda s: s.resample(0), "every is 0; expected a length of time such as '1h'"),
        (lambda s: s.resample(True), "every is True; expected a length of time"),
        (lambda s: s.resample(1, "last"), "fill is 'last'; it is one of 'hold', 'nothing', 'missi"),
        (lambda s: s.resample(1, gap="drop"), "gap is 'drop'; it is one of 'split', 'missing'"),
        (lambda s: s.resample(1e-9), "every='1e-09' would make 3e+09 steps; pass a longer every="),
        (lambda s: s.resample(1, "nothing"), "'nothing' is the symbol of an event; pass another n"),
        (
            lambda s: s.resample(1, "nothing", nothing=3),
            "steps without an event get the symbol 3, ",
        ),
        (lambda s: s.with_gaps([]), "pass every= or gaps=, not both"),
        (lambda s: s.with_gaps([9, 3]), "gaps is ['9', '3']; expected lengths of time that increa"),
        (lambda s: Sequences.from_lists([["a"]]).resample(1), "the sequences have no times; read "),
    ],
)
def test_clocks_that_cannot_be(call, message):
    seqs = Sequences.from_columns(["a", "nothing"], time=[0, 3])
    with pytest.raises(SojournError) as caught:
        call(seqs)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("every", ["1000000000000d", "1e308w", 1e300, 0])
def test_a_step_longer_than_all_dates_is_refused(every):
    seqs = Sequences.from_columns(["a"], time=["2024-01-01"])
    with pytest.raises(SojournError, match="expected a length of time such as"):
        seqs.resample(every)


def test_an_unknown_zone_and_split_ids_that_exist():
    times = pd.to_datetime(pd.Series(["2026-01-01", "2026-01-05", "2026-01-01"]))
    seqs = Sequences.from_columns(list("aaa"), ["x", "x", "x.2"], time=times)
    with pytest.raises(SojournError, match="zone is 'Mars'; expected a name such as"):
        seqs.resample("1d", zone="Mars")
    with pytest.raises(SojournError, match="are ids of others already"):
        seqs.resample("1d", max_gap="2d")


def test_clocks_that_mean_the_same_count_alike():
    seqs = Sequences.from_columns(["a", "b"], [0, 0], time=[0, 7200])
    dated = Sequences.from_columns(["a", "b"], [0, 0], time=np.array([0, 7200], "M8[s]"))
    hour = dated.resample("1h").clock
    assert hour.counts_as(dated.resample("60min", max_gap="5h", zone="Europe/Amsterdam").clock)
    for other in (
        dated.resample("2h"),
        dated.resample("1h", fill="missing"),
        seqs.resample(3600),
        dated.with_gaps(["1h"]),
        dated,
    ):
        assert not hour.counts_as(other.clock)


def test_parts_of_different_clocks_are_not_joined():
    seqs = Sequences.from_columns(["a", "b"], [0, 0], time=np.array([0, 7200], "M8[s]"))
    one, two = seqs.resample("1h"), seqs.resample("2h")
    with pytest.raises(SojournError, match="hold steps of 1h, others steps of 2h"):
        Sequences.concat([one, two])
    assert Sequences.concat([one, one]).clock == one.clock
    assert Sequences.concat([one, seqs]).clock is None


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"fill": "nothing"}, "fill= and max_gap= are for steps of a clock"),
        ({"max_gap": "1h", "gaps": ["1h"]}, "fill= and max_gap= are for steps of a clock"),
        ({"zone": "Europe/Amsterdam"}, "zone= is for steps of a clock or gaps"),
        ({"every": Clock("1h"), "fill": "missing"}, "which has its own fill="),
        ({"every": 10, "zone": "Europe/Amsterdam"}, "zone= is for dates"),
    ],
)
def test_no_argument_of_a_clock_is_ignored(how, message, tmp_path):
    (tmp_path / "a.csv").write_text("id,time,symbol\na,1,x\na,2,y\n")
    with pytest.raises(SojournError, match=message):
        read(tmp_path / "a.csv", quiet=True, **how)
