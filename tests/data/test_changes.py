"""Events from changing channels, against a twin in plain loops; symbols, against scikit-learn."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.cluster import MiniBatchKMeans
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer

import sojourn as sj
from sojourn.data.discretize import METHODS

TABLE = {
    "flight": ["b", "a", "b", "a", "b", "b"],
    "second": [0, 1, 2, 0, 1, 3],
    "flaps": [0.0, 5.0, 10.0, 5.0, 0.0, 10.0],
    "gear": ["up", "down", "down", "up", "up", "up"],
}


def naive(table, channels, id, time, idle):
    """Events by loops over the rows, one list per id, in the order of first rows."""
    n = len(table[channels[0]])
    ids = list(dict.fromkeys(table[id])) if id else [0]
    lists = []
    for own in ids:
        rows = [i for i in range(n) if not id or table[id][i] == own]
        if time:
            rows.sort(key=lambda i: table[time][i])
        last, events = {}, []
        for i in rows:
            now = []
            for name in channels:
                value = table[name][i]
                if value is None or value != value:
                    continue
                if name in last and last[name] != value:
                    now.append(name)
                last[name] = value
            if not now and idle == "hold":
                now = events[-1:] or [None]
            if not now and idle == "symbol":
                now = ["idle"]
            events += now
        lists.append(events)
    return lists, ids


readings = {
    "flaps": st.sampled_from([0.0, 5.0, float("nan")]),
    "gear": st.sampled_from(["up", "down", None]),
    "throttle": st.integers(0, 1),
}


@st.composite
def tables(draw):
    n = draw(st.integers(1, 12))
    column = lambda items: draw(st.lists(items, min_size=n, max_size=n))  # noqa: E731
    table = {name: column(items) for name, items in readings.items()}
    return table | {"flight": column(st.sampled_from("xyz")), "second": column(st.integers(0, 5))}


@given(tables(), st.sampled_from([None, "flight"]), st.sampled_from([None, "second"]))
def test_events_equal_those_of_the_naive_loops(table, id, time):
    channels = ["throttle", "flaps", "gear"]  # not in the order of the alphabet
    for idle in ("hold", "symbol", "drop"):
        lists, ids = naive(table, channels, id, time, idle)
        if not all(lists):
            with pytest.raises(sj.SojournError, match="has no change in any channel and would be"):
                sj.events_from_changes(table, channels, id, time, idle)
            continue
        seqs = sj.events_from_changes(table, channels, id, time, idle)
        assert seqs.to_lists() == lists
        assert seqs.ids.tolist() == ids
        assert seqs.vocabulary.tolist() == sorted(channels + ["idle"] * (idle == "symbol"))


HOLDERS = {
    "dict": lambda table: table,
    "arrays": lambda table: {name: np.array(column) for name, column in table.items()},
    "pandas": pd.DataFrame,
    "categories": lambda table: pd.DataFrame(table).astype({"gear": "category"}),
    "polars": pl.DataFrame,
    "arrow": pa.table,
}


@pytest.mark.parametrize("holder", HOLDERS)
def test_tables_of_any_package_give_the_same_events(holder):
    seqs = sj.events_from_changes(HOLDERS[holder](TABLE), ["gear", "flaps"], "flight", "second")
    assert seqs.ids.tolist() == ["b", "a"]
    assert seqs.to_lists() == [[None, None, "gear", "flaps", "gear"], [None, "gear"]]


@pytest.mark.parametrize(
    "missing", ["nan", "None", "masked", "pandas", "nullable", "polars", "arrow"]
)
def test_a_value_that_was_not_recorded_is_no_change(missing):
    column = {
        "nan": [1.0, float("nan"), float("nan"), 1.0, 2.0, float("nan")],
        "None": [1, None, None, 1, 2, None],
        "masked": np.ma.array([1, 0, 7, 1, 2, 0], mask=[0, 1, 1, 0, 0, 1]),
        "pandas": pd.Series([1, None, None, 1, 2, None]),
        "nullable": pd.Series([1, None, None, 1, 2, None], dtype="Int64"),
        "polars": pl.Series([1, None, None, 1, 2, None]),
        "arrow": pa.chunked_array([[1, None], [None, 1, 2, None]]),
    }[missing]
    seqs = sj.events_from_changes({"x": column}, ["x"], idle="symbol")
    assert seqs.to_lists() == [["idle"] * 4 + ["x", "idle"]]


def test_nan_in_a_list_of_words_is_no_word():
    table = {"x": ["a", float("nan"), "a", "b"]}
    assert sj.events_from_changes(table, ["x"], idle="drop").to_lists() == [["x"]]


def test_large_integers_are_compared_exactly():
    table = {"x": pa.array([2**60, None, 2**60 + 1])}
    assert sj.events_from_changes(table, ["x"], idle="drop").to_lists() == [["x"]]


def test_times_may_be_dates():
    table = {"t": pd.to_datetime(["2024-01-02", "2024-01-01"]), "x": [2, 1], "y": [1, 1]}
    assert sj.events_from_changes(table, ["x"], time="t", idle="drop").to_lists() == [["x"]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"idle": "keep"}, "idle is 'keep'; it is one of 'hold', 'symbol', 'drop'"),
        ({"channels": []}, r"channels is \[\]; expected a list of names"),
        ({"channels": ["gear", "gear"]}, "expected each name once"),
        ({"channels": ["brakes"]}, "the table has no column 'brakes'; it has 'flight', 'second'"),
        ({"idle": "symbol", "idle_symbol": "gear"}, "a channel is called 'gear'; pass another"),
        ({"id": "pilot"}, "the table has no column 'pilot'"),
        ({"time": "gear"}, "the time column 'gear' has type"),
        ({"time": "gaps"}, "the time column 'gaps' lacks values"),
        ({"id": "short"}, "'short' has 2 rows and 'gear' 6; expected as many"),
    ],
)
def test_arguments_of_events_are_checked(options, message):
    table = TABLE | {"gaps": [None, 1, 2, 3, 4, 5], "short": ["a", "b"]}
    with pytest.raises(sj.SojournError, match=message):
        sj.events_from_changes(table, **({"channels": ["gear"]} | options))


def test_a_table_without_rows_is_refused():
    with pytest.raises(sj.SojournError, match="the table has no rows"):
        sj.events_from_changes({"x": []}, ["x"])


# --- Discretizer ---------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["quantile", "uniform"])
@pytest.mark.parametrize("n_symbols", [2, 5, 9])
def test_bins_are_those_of_scikit_learn(method, n_symbols):
    rng = np.random.default_rng(0)
    train, test = rng.gamma(2.0, size=500), rng.gamma(3.0, size=300) - 0.5
    bins = KBinsDiscretizer(
        n_symbols,
        encode="ordinal",
        strategy=method,
        subsample=None,
        quantile_method="averaged_inverted_cdf",
    ).fit(train[:, None])
    ours = sj.Discretizer(n_symbols, method).fit(train)
    assert ours.edges_.tolist() == bins.bin_edges_[0].tolist()
    assert ours.transform(test).tolist() == bins.transform(test[:, None])[:, 0].tolist()
    assert (
        ours.transform(ours.edges_).tolist() == bins.transform(ours.edges_[:, None])[:, 0].tolist()
    )


@pytest.mark.parametrize("n_channels", [1, 3])
def test_clusters_are_those_of_scikit_learn(n_channels):
    rng = np.random.default_rng(1)
    train = rng.normal(size=(400, n_channels)) * [1.0, 100.0, 0.01][:n_channels] + 5
    test = rng.normal(size=(300, n_channels)) * [1.0, 100.0, 0.01][:n_channels] + 5
    scale = train.std(axis=0)
    clusters = MiniBatchKMeans(6, random_state=0, n_init="auto").fit(train / scale)
    ours = sj.Discretizer(6, "kmeans", random_state=0).fit(train)
    order = np.lexsort(clusters.cluster_centers_.T[::-1])
    np.testing.assert_allclose(ours.centres_ / scale, clusters.cluster_centers_[order], rtol=1e-12)
    symbol_of = np.argsort(order)
    assert ours.transform(test).tolist() == symbol_of[clusters.predict(test / scale)].tolist()
    assert np.all(np.diff(ours.centres_[:, 0]) > 0)


def test_clusters_are_found_in_pieces_too(monkeypatch):
    monkeypatch.setattr("sojourn.data.discretize.DISTANCES_AT_ONCE", 12)
    X = np.random.default_rng(2).normal(size=(50, 2))
    ours = sj.Discretizer(4, "kmeans", random_state=0).fit(X)
    distances = ((X[:, None] - ours.centres_) / ours.scale_) ** 2
    assert ours.transform(X).tolist() == distances.sum(axis=2).argmin(axis=1).tolist()


@pytest.mark.parametrize("method", METHODS)
def test_what_was_learned_round_trips_through_plain_arrays(method):
    X = np.random.default_rng(3).normal(size=200)
    ours = sj.Discretizer(5, method, random_state=0).fit(X)
    arrays = ours.to_arrays()
    assert all(array.dtype.kind in "if" for array in arrays.values())
    through = json.loads(json.dumps({name: array.tolist() for name, array in arrays.items()}))
    again = sj.Discretizer.from_arrays({name: np.array(row) for name, row in through.items()})
    assert again.transform(X).tolist() == ours.transform(X).tolist()
    assert (again.method, again.n_symbols, again.n_symbols_) == (method, 5, 5)
    with pytest.raises(ValueError, match="read-only"):
        next(array for name, array in arrays.items() if array.dtype.kind == "f")[0] = 1.0


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "hold",
    [
        np.array,
        list,
        pd.Series,
        pl.Series,
        lambda x: pa.chunked_array([x]),
        lambda x: pd.Series(x).convert_dtypes(),
        lambda x: np.ma.masked_invalid(x),
        lambda x: np.array(x)[:, None],
        lambda x: pd.DataFrame({"x": x}),
        lambda x: pl.DataFrame({"x": x}),
        lambda x: pa.table({"x": x}),
    ],
)
def test_missing_values_become_missing_symbols(method, hold):
    x = [0.0, 1.0, float("nan"), 10.0, 11.0]
    symbols = sj.Discretizer(2, method, random_state=0).fit_transform(hold(x))
    assert symbols.tolist() == [0, 0, None, 1, 1]
    seqs = sj.Sequences.from_columns(symbols, ["b", "b", "b", "a", "a"])
    assert seqs.to_lists() == [[0, 0, None], [1, 1]]


def test_a_row_with_one_missing_channel_is_missing():
    X = np.array([[0.0, 0.0], [0.0, np.nan], [9.0, 9.0]])
    assert sj.Discretizer(2, "kmeans", random_state=0).fit_transform(X).tolist() == [0, None, 1]


RNG = np.random.default_rng(0)
AROUND_ZERO = np.where(RNG.random(1000) < 0.8, 0.0, RNG.normal(size=1000))


@pytest.mark.parametrize(
    ("values", "n_symbols", "expected"),
    [
        ([0, 0, 0, 0, 0, 0, 1, 2], 3, [[0], [1], [2]]),
        ([0, 1] * 50, 2, [[0], [1]]),
        (RNG.poisson(0.3, 500).clip(0, 3), 2, [[0], [1, 2, 3]]),
        (RNG.poisson(0.3, 500).clip(0, 3), 3, [[0], [1], [2, 3]]),
        ([1, np.nextafter(1, 2)] * 9, 2, [[1], [np.nextafter(1, 2)]]),
    ],
)
def test_frequent_values_have_a_bin_of_their_own(values, n_symbols, expected):
    """All of them became one symbol, without a word."""
    ours = sj.Discretizer(n_symbols).fit(values)
    assert [ours.transform(own).tolist() for own in expected] == [
        [k] * len(own) for k, own in enumerate(expected)
    ]
    again = sj.Discretizer.from_arrays(ours.to_arrays())
    assert (again.transform(values) == ours.transform(values)).all()


@pytest.mark.parametrize("n_symbols", [3, 4, 8])
def test_zeros_stay_apart_from_numbers_around_them(n_symbols):
    symbols = sj.Discretizer(n_symbols).fit_transform(AROUND_ZERO)
    assert len(np.unique(symbols)) == n_symbols
    assert len(np.unique(symbols[AROUND_ZERO == 0])) == 1
    assert (symbols == symbols[AROUND_ZERO == 0][0]).sum() == (AROUND_ZERO == 0).sum()
    assert np.bincount(symbols).min() > 5  # of 200: no bin is of one value


def test_fewer_values_than_symbols_are_as_many_symbols_and_warned_of():
    with pytest.warns(UserWarning, match="n_symbols is 4, but different values are 3, .* n_sy.*=3"):
        ours = sj.Discretizer(4).fit([0, 0, 0, 0, 0, 0, 1, 2])
    assert ours.transform([0, 1, 2]).tolist() == [0, 1, 2]
    with pytest.warns(UserWarning, match="n_symbols is 4, but different values are 1"):
        constant = sj.Discretizer(4, "uniform").fit([3.0, 3.0])
    assert constant.transform([3.0, 4.0]).tolist() == [0, 0]


def test_it_is_an_estimator():
    ours = sj.Discretizer(3, "uniform").fit([0.0, 1.0])
    options = {"n_symbols": 3, "method": "uniform", "random_state": None, "names": False}
    assert clone(ours).get_params() == options
    assert ours.fit([[0.0], [2.0], [9.0]]).edges_[-1] == 9
    ours.set_params(method="kmeans").fit([0.0, 1.0, 2.0])
    assert not hasattr(ours, "edges_")


@pytest.mark.parametrize(
    ("options", "X", "message"),
    [
        ({"method": "median"}, [1.0], "method is 'median'; it is one of 'quantile', 'uniform', "),
        ({"n_symbols": 1}, [1.0], "n_symbols is 1; expected 2 or more"),
        ({"n_symbols": 2.5}, [1.0], "n_symbols must be an integer of at least 1, not 2.5"),
        ({}, [float("nan")], "there is no row without a missing value"),
        ({}, [1.0, float("inf")], "row 1 is infinite"),
        ({}, ["a"], "X is not a table of numbers"),
        ({}, [[1.0, 2.0]], "cuts one channel, but there are 2; pass method='kmeans'"),
        ({}, np.zeros((2, 2, 2)), "cuts one channel, but there are 2; pass method='kmeans'"),
        ({"method": "kmeans"}, np.zeros((40, 100)), r"40 steps of 100 channels; .*pass list\(X\)"),
        ({"method": "kmeans"}, [1.0, 1.0], "there are 1 different rows, too few for 8 clusters"),
    ],
)
def test_arguments_of_the_discretizer_are_checked(options, X, message):
    with pytest.raises(sj.SojournError, match=message):
        sj.Discretizer(**options).fit(X)


def test_it_must_be_fitted_and_given_the_same_channels():
    with pytest.raises(sj.SojournError, match="is not fitted; call fit"):
        sj.Discretizer().transform([1.0])
    with pytest.raises(sj.SojournError, match="is not fitted; call fit"):
        sj.Discretizer().to_arrays()
    ours = sj.Discretizer(2).fit([1.0, 2.0])
    with pytest.raises(sj.SojournError, match="there are 2 channels; fitted were 1"):
        ours.transform([[1.0, 2.0]])
    with pytest.raises(sj.SojournError, match="these are not a Discretizer's arrays: edges"):
        sj.Discretizer.from_arrays({"edges": ours.edges_})


def test_bins_and_clusters_have_names():
    speed = pd.DataFrame({"speed": [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]})
    ours = sj.Discretizer(3, "uniform", names=True).fit(speed)
    assert ours.symbols_.tolist() == ["speed < 1.67", "1.67 ≤ speed < 3.33", "speed ≥ 3.33"]
    assert ours.transform([0.5, float("nan"), 9.0]).tolist() == [
        "speed < 1.67",
        None,
        "speed ≥ 3.33",
    ]
    again = sj.Discretizer.from_arrays(ours.to_arrays())
    assert again.transform([0.5]).tolist() == ["speed < 1.67"]
    close = sj.Discretizer(3, "uniform", names=True).fit([1.0, 1.00001, 1.00003])
    assert len(set(close.symbols_)) == 3
    both = pd.DataFrame({"speed": [0.0, 1.0, 9.0], "load": [0.0, 1.0, 9.0]})
    found = sj.Discretizer(2, "kmeans", random_state=0, names=True).fit(both)
    assert found.symbols_.tolist()[1] == "speed 9, load 9"


def test_sequences_of_measurements_become_sequences_and_a_pipeline_takes_them():
    rng = np.random.default_rng(0)
    truth = sj.Params.random(2, 3, 4, rng=0).sample(30, 40, rng=1)
    rows = [np.array(row, float) + 0.1 * rng.normal(size=len(row)) for row in truth.to_lists()]
    table = np.stack(rows)
    for X in (rows, table[:, :, None], sj.Signals.from_arrays(rows)):
        found = sj.Discretizer(4, "kmeans", random_state=0).fit_transform(X)
        assert found.to_lists() == truth.to_lists()
    pipe = make_pipeline(sj.Discretizer(4, names=True), sj.SpectralHSMM(2, 3)).fit(rows)
    assert pipe.score_samples(rows).shape == (30,)
    assert np.isfinite(pipe.score(rows))
