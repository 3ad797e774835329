"""Measurements from files: the same values as in memory, and fits of scans."""

import bz2
import gzip
import lzma

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest

import sojourn as sj
from sojourn import HSMM, Signals, SojournError
from sojourn import emissions as em

RNG = np.random.default_rng(0)
N, LENGTH = 40, 30
LEVEL = np.tile(np.repeat([0.0, 5.0], 5), N * LENGTH // 10)
TABLE = {
    "engine": np.repeat(np.arange(N), LENGTH),
    "second": np.tile(np.arange(LENGTH), N),
    "speed": LEVEL + RNG.normal(size=N * LENGTH),
    "load": RNG.normal(size=N * LENGTH) - LEVEL,
}
SIGNALS = Signals.from_table(TABLE, id="engine", time="second", values=["speed", "load"])
COLUMNS = {"id": "engine", "time": "second", "values": ["speed", "load"]}


def write(path):
    table = pa.table(TABLE)
    if path.suffix == ".parquet":
        pa.parquet.write_table(table, path, row_group_size=100)
    elif path.suffix == ".arrow":
        pa.feather.write_feather(table, path, compression="uncompressed")
    else:
        mark = {"delimiter": "\t"} if path.suffix == ".tsv" else {}
        pa.csv.write_csv(table, path, pa.csv.WriteOptions(**mark))
    return path


@pytest.mark.parametrize("ending", ["parquet", "arrow", "csv", "tsv"])
def test_files_hold_what_memory_holds(tmp_path, ending):
    found = sj.read(write(tmp_path / f"sensors.{ending}"), **COLUMNS)
    np.testing.assert_array_equal(found.values, SIGNALS.values)
    np.testing.assert_array_equal(found.ids, SIGNALS.ids)
    assert found.channels == ("speed", "load")


def test_rows_need_not_be_in_order_and_may_be_missing(tmp_path):
    path = tmp_path / "few.csv"
    path.write_text("engine,second,speed,load\nb,2,1.5,\na,1,0.5,2\nb,1,,3\n")
    found = sj.read(path, **COLUMNS)
    assert found.ids.tolist() == ["a", "b"]
    np.testing.assert_array_equal(found[1], [[np.nan, 3.0], [1.5, np.nan]])


def test_a_scan_fits_and_scores_as_the_data_in_memory_do(tmp_path):
    scan = sj.scan(write(tmp_path / "sensors.parquet"), **COLUMNS, rows_per_partition=300)
    assert len(scan) > 2
    options = {"max_iter": 6, "tol": 0.0, "tail": False}
    ours = HSMM(2, 6, **options).fit(scan)
    start = ours.params_
    here = HSMM(2, 6, init=start, **options).fit(SIGNALS)
    there = HSMM(2, 6, init=start, **options).fit(scan)
    assert here.history_ == there.history_  # to the bit
    np.testing.assert_array_equal(ours.score_samples(scan), ours.score_samples(SIGNALS))
    assert ours.score(scan) == ours.score(SIGNALS)
    assert ours.bic(scan) == ours.bic(SIGNALS)
    np.testing.assert_allclose(np.sort(ours.params_.density.means[:, 0]), [0, 5], atol=0.3)


def test_a_scan_is_read_in_the_order_of_the_emission(tmp_path):
    path = write(tmp_path / "sensors.parquet")
    kinds = em.Channels({"load": em.StudentT(), "speed": em.Gaussian()})
    scan = sj.scan(path, **COLUMNS, rows_per_partition=300)
    model = HSMM(2, 5, emissions=kinds, max_iter=4).fit(scan)
    assert model.channels_ == ("load", "speed")
    np.testing.assert_array_equal(model.score_samples(scan), model.score_samples(SIGNALS))


@pytest.mark.parametrize(
    ("ending", "opener"), [(".gz", gzip.open), (".bz2", bz2.open), (".xz", lzma.open)]
)
def test_compressed_tables_are_read_within_the_limit_of_expansion(
    tmp_path, ending, opener, monkeypatch
):
    text, path = write(tmp_path / "sensors.csv").read_bytes(), tmp_path / f"sensors.csv{ending}"
    with opener(path, "wb") as file:
        file.write(text)
    np.testing.assert_array_equal(sj.read(path, **COLUMNS).values, SIGNALS.values)
    monkeypatch.setattr("sojourn.io.text.FREE_BYTES", 100)
    with pytest.raises(SojournError, match=r"over 1\.5 times as many"):
        sj.read(path, **COLUMNS, max_expansion=1.5)


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        (["10", "9"], [9, 10]),
        (["007", "7"], ["007", "7"]),  # two sequences, not one
        (["2026-01-02", "2026-01-01"], ["2026-01-01", "2026-01-02"]),
        (["true", "1.5"], ["1.5", "true"]),
    ],
)
def test_ids_are_read_as_those_of_symbols_are(tmp_path, ids, expected):
    path = tmp_path / "sensors.csv"
    path.write_text("engine,speed\n" + "".join(f"{name},0.5\n" for name in ids))
    assert sj.read(path, id="engine", values=["speed"]).ids.tolist() == expected
    path.write_text("engine,speed\n" + "".join(f"{name},a\n" for name in ids))
    assert sj.read(path, id="engine", symbol="speed").ids.tolist() == expected


def test_a_row_with_too_few_fields_is_malformed(tmp_path):
    path = tmp_path / "sensors.csv"
    path.write_text("engine, second, speed, load\na, 0, 1.5, 2\na,1\na, 2, 2.5, 3\n")
    with pytest.raises(SojournError, match="the row 'a,1' has 2 fields; expected 4"):
        sj.read(path, **COLUMNS)
    with pytest.warns(sj.io.sources.SkippedRowsWarning, match="skipped 1 malformed row"):
        found = sj.read(path, **COLUMNS, on_error="skip")
    assert found.values.tolist() == [[1.5, 2.0], [2.5, 3.0]]


@pytest.mark.parametrize("rows_per_partition", [None, 200])
def test_a_row_without_an_id_is_malformed_in_partitions_too(tmp_path, rows_per_partition):
    engine = pa.array([None if i == 410 else e for i, e in enumerate(TABLE["engine"].tolist())])
    path = tmp_path / "sensors.parquet"
    pa.parquet.write_table(pa.table(TABLE | {"engine": engine}), path, row_group_size=100)
    scan = sj.scan(path, **COLUMNS, rows_per_partition=rows_per_partition)
    with pytest.raises(SojournError, match="1 rows have nothing in column 'engine'"):
        list(scan)


def test_channels_of_symbols_are_read_from_scans(tmp_path):
    # "low" never occurs in the partitions that the emission is chosen by first, nor 7 in a code.
    words = np.where(LEVEL > 0, "up", "down").astype("<U4")
    words[-LENGTH // 2 :] = "low"
    codes = np.where(LEVEL > 0, 7, 3)
    table = TABLE | {"mode": words, "code": codes}
    pa.parquet.write_table(pa.table(table), tmp_path / "m.parquet", row_group_size=100)
    how = {"id": "engine", "time": "second", "values": ["speed", "mode", "code"]}
    kinds = {"speed": em.Gaussian(), "mode": em.Categorical(), "code": em.Categorical()}
    scan = sj.scan(tmp_path / "m.parquet", **how, rows_per_partition=300)
    data = Signals.from_table(table, **how)
    options = {"max_iter": 4, "tol": 0.0, "tail": False, "emissions": em.Channels(kinds)}
    start = HSMM(2, 6, **options).fit(data).params_
    here = HSMM(2, 6, init=start, **options).fit(data)
    there = HSMM(2, 6, init=start, **options).fit(scan)
    assert here.history_ == there.history_  # to the bit
    parts = there.params_.density.parts
    assert parts["mode"].categories.tolist() == ["down", "low", "up"]
    assert parts["code"].categories.tolist() == [3, 7]
    assert there.score_samples(scan).tolist() == there.score_samples(data).tolist()
    default = HSMM(2, 6, max_iter=3).fit(
        sj.scan(tmp_path / "m.parquet", **how | {"values": ["speed", "mode"]})
    )
    assert default.params_.density.parts["mode"].probabilities.shape == (2, 3)


def test_bad_files_and_columns_are_named(tmp_path):
    path = tmp_path / "bad.csv"
    path.write_text("engine,second,speed\na,1,0.5\na,2,fast\n")
    found = sj.read(path, id="engine", time="second", values=["speed"])
    with pytest.raises(SojournError, match="channel 'speed' holds symbols"):
        HSMM(2, 3, emissions=em.Gaussian()).fit(found)
    with pytest.raises(SojournError, match="'sped'"):
        sj.read(path, id="engine", time="second", values=["sped"])
    with pytest.raises(SojournError, match="leave symbol="):
        sj.read(path, symbol="speed", values=["speed"])
    lines = tmp_path / "a.txt"
    lines.write_text("a b c\n")
    with pytest.raises(SojournError, match="values= are columns of measurements"):
        sj.read(lines, values=["a"])
