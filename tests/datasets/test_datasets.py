"""Shipped and simulated approaches are as their page describes them."""

import gzip
import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

import sojourn as sj
from sojourn.datasets import ANOMALIES, COMMANDS, PHASES, approaches, simulate_approaches

SCRIPT = Path(__file__).parents[2] / "scripts/make_approaches.py"
N = 200


@pytest.fixture(scope="module")
def flights():
    return simulate_approaches(N, rng=0, return_phases=True)


def stays(sequences):
    """Code and length of every maximal run of one symbol."""
    starts = np.zeros(sequences.n_total, dtype=bool)
    starts[sequences.offsets[:-1]] = True
    starts[1:] |= np.diff(sequences.codes) != 0
    at = np.flatnonzero(starts)
    return sequences.codes[at], np.diff(np.append(at, sequences.n_total))


def share(sequences, symbol):
    """The share of its seconds that each sequence spends on a symbol."""
    return np.array([np.mean(np.array(sequence) == symbol) for sequence in sequences])


def changes(sequences, symbol):
    """How often a symbol begins."""
    codes, _ = stays(sequences)
    return np.count_nonzero(sequences.vocabulary[codes] == symbol)


def test_flights_have_nine_commands_and_last_500_to_4000_seconds(flights):
    X, phases = flights
    assert X.vocabulary.tolist() == list(COMMANDS)
    assert np.unique(X.codes).size == 9
    assert X.lengths.min() >= 500
    assert X.lengths.max() <= 4000
    assert X.lengths.max() > 2 * X.lengths.min()
    assert phases.vocabulary.tolist() == sorted(PHASES)
    assert phases.lengths.tolist() == X.lengths.tolist()


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_a_seed_gives_the_same_flights_on_any_number_of_threads(flights, n_jobs):
    again = simulate_approaches(N, rng=0, n_jobs=n_jobs)
    assert np.array_equal(again.codes, flights[0].codes)
    assert np.array_equal(again.offsets, flights[0].offsets)
    assert not np.array_equal(simulate_approaches(N, rng=1).offsets, flights[0].offsets)


def test_fewer_flights_are_the_first_of_more(flights):
    few = simulate_approaches(10, rng=0)
    assert few.to_lists() == flights[0][:10].to_lists()


def test_phases_end_with_the_landing_in_its_order(flights):
    for sequence in flights[1][:50]:
        order = [s for i, s in enumerate(sequence) if i == 0 or s != sequence[i - 1]]
        assert order[0] == "descent"
        assert order[-5:] == ["level", "intercept", "final", "flare", "rollout"]
        assert "holding" not in order


def test_durations_of_phases_are_not_geometric(flights):
    # A geometric distribution has a coefficient of variation of nearly 1 and its mode at 1 step.
    phases = flights[1]
    codes, lengths = stays(phases)
    for name in ("intercept", "final", "flare", "rollout"):
        own = lengths[phases.vocabulary[codes] == name]
        assert own.std() / own.mean() < 0.6, name
        assert own.min() > 0.2 * own.mean(), name


def test_habits_differ_by_flight(flights):
    styles = share(flights[0], "vertical_speed")
    assert np.mean(styles < 0.05) > 0.2  # idle descents
    assert np.mean(styles > 0.10) > 0.2  # a vertical speed selected


@pytest.mark.parametrize("kind", ANOMALIES)
def test_an_unusual_flight_is_unusual_in_the_way_described(flights, kind):
    X, phases = flights
    odd, odd_phases = simulate_approaches(N, rng=0, anomaly=kind, return_phases=True)
    assert odd.lengths.min() >= 500
    assert odd.lengths.max() <= 4000
    if kind == "fast_descent":
        descent = share(phases, "descent") * phases.lengths
        fast = share(odd_phases, "descent") * odd_phases.lengths
        assert np.median(fast) < 0.7 * np.median(descent)
    elif kind == "airbrake":
        assert changes(odd, "airbrake") > 4 * changes(X, "airbrake")
    elif kind == "aborted_descent":
        assert np.all(share(odd_phases, "holding") * odd.lengths > 100)
        assert np.all(share(phases, "holding") == 0)
    elif kind == "missing_flaps":
        assert np.all(share(odd, "flaps") == 0)
        assert np.all(share(X, "flaps") > 0)
    else:
        low_mach = [
            np.any((np.array(f) == "mach") & np.isin(p, ["intercept", "final"]))
            for f, p in zip(odd, odd_phases, strict=True)
        ]
        assert np.mean(low_mach) > 0.2
        assert changes(odd, "vertical_mode") > 1.5 * changes(X, "vertical_mode")


def test_arguments_are_checked():
    with pytest.raises(sj.SojournError, match="n must be an integer"):
        simulate_approaches(0)
    with pytest.raises(sj.SojournError, match="anomaly is 'late'; it is one of 'fast_descent'"):
        simulate_approaches(2, rng=0, anomaly="late")


def test_the_datasets_are_an_attribute_of_the_package():
    assert sj.datasets.ANOMALIES is ANOMALIES
    assert "datasets" in dir(sj)
    assert set(sj.datasets.__all__) <= set(dir(sj.datasets))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = sj.datasets.nothing


def test_the_shipped_approaches_are_complete():
    data = approaches()
    assert (len(data.normal), len(data.unusual)) == (82, 53)
    kinds, counts = np.unique(data.kinds, return_counts=True)
    assert dict(zip(kinds.tolist(), counts.tolist(), strict=True)) == {
        "calibration": 24, "firefighting": 8, "glider": 15, "survey": 6,
    }  # fmt: skip
    for part in (data.normal, data.unusual):
        assert part.n_symbols == 9
        assert part.lengths.min() >= 241
        assert part.lengths.max() <= 781
        assert part.codes.min() >= 0
        assert len(set(part.ids.tolist())) == len(part)
    downward = np.mean([s.startswith("descending") for row in data.normal for s in row])
    assert downward > 0.5
    assert "MIT License" in Path(sj.datasets.__file__).with_name("data").joinpath(
        "LICENSE-traffic.md"
    ).read_text("utf-8")


@pytest.fixture(scope="module")
def script():
    if not SCRIPT.exists():
        pytest.skip("the script is in the repository, not beside these tests")
    spec = importlib.util.spec_from_file_location("make_approaches", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def descent(seconds=400, top=7000.0, rate=20.0):
    """Fixes of a straight descent at a constant rate, (n, 3)."""
    time = np.arange(seconds, dtype=float)
    return np.column_stack((time, np.maximum(top - rate * time, 0.0), np.full(seconds, 90.0)))


def test_fixes_are_read_from_rows_and_from_columns(script):
    rows = [{"timestamp": 1000 * i, "callsign": "A", "icao24": "x"} for i in range(3)]
    columns = {name: {str(i): row[name] for i, row in enumerate(rows)} for name in rows[0]}
    for table in (rows, columns):
        read = script.read_fixes(gzip.compress(json.dumps(table).encode()))
        assert read == {"A_x": rows}


def test_fixes_on_the_ground_and_errors_of_reception_are_dropped(script):
    rows = [
        {"timestamp": 1000 * i, "altitude": 3000.0 - i, "track": 0, "groundspeed": 100}
        for i in range(30)
    ]
    rows[4]["altitude"], rows[7]["groundspeed"], rows[9]["onground"] = 39000.0, 5, True
    rows[11]["track"] = None
    assert script.airborne(rows)[:, 0].tolist() == [i for i in range(30) if i not in (4, 7, 9, 11)]


def test_an_approach_runs_from_6000_feet_to_the_first_low_fix(script):
    cut = script.approach(descent(), whole=True)
    assert cut[0, 1] == 6000.0
    assert cut[-1, 1] == 60.0  # the first within 75 feet
    assert script.approach(descent(top=5000.0, rate=15.0), whole=True) is None
    gap = np.delete(descent(), np.s_[100:200], axis=0)
    assert script.approach(gap) is None
    assert script.approach(descent()[::-1] * [-1, 1, 1]) is None  # a climb


def test_symbols_are_vertical_and_horizontal_movement(script):
    fixes = descent(400)
    fixes[:, 1] = np.concatenate((np.linspace(4000, 2000, 200), np.full(200, 2000.0)))
    fixes[300:, 2] = (90.0 + np.arange(100) * 3.0) % 360.0  # to the right, through north
    names = np.array(script.VOCABULARY)[script.symbols(fixes)]
    assert set(names[10:190]) == {"descending_straight"}
    assert set(names[210:290]) == {"level_straight"}
    assert set(names[310:380]) == {"level_right"}
