"""Out-of-core sorting: what `read` gives in memory, from files in any order."""

import os

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from sojourn import SojournError, read, scan, sort_events
from sojourn.io.layout import Layout
from sojourn.io.sort import _check

pytest.importorskip("duckdb")


def shuffled(n=60_000, seed=0):
    """Rows of some sequences in no order, many at the same time."""
    rng = np.random.default_rng(seed)
    ids, times = rng.integers(0, 3000, n), rng.integers(0, 12, n)
    return ids, times, rng.integers(0, 9, n)


def joined(parts):
    return {i: s for seqs in parts for i, s in zip(seqs.ids.tolist(), seqs.to_lists(), strict=True)}


@pytest.mark.parametrize("text_ids", [False, True])
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_sorted_rows_are_those_that_reading_gives(tmp_path, text_ids, kind):
    ids, times, symbols = shuffled()
    ids = np.char.add("é'\"", ids.astype(str)) if text_ids else ids
    path, out = tmp_path / f"events.{kind}", tmp_path / "sorted.parquet"
    table = pa.table({"who": ids, "when": times, "what": symbols})
    if kind == "csv":
        pa.csv.write_csv(table, path)
    else:
        pq.write_table(table, path, row_group_size=5000)
    names = {"id": "who", "time": "when", "symbol": "what"}
    parts = sort_events(path, out, **names, memory_limit="100MB", rows_per_partition=1000)
    whole = read(path, **names)
    assert joined(parts) == dict(zip(whole.ids.tolist(), whole.to_lists(), strict=True))
    assert sorted(os.listdir(tmp_path)) == [path.name, out.name]  # and no draft
    with pytest.raises(SojournError, match="there already"):
        sort_events(path, out, **names)
    assert joined(sort_events(path, out, **names, overwrite=True)) == joined(parts)


def test_rows_of_a_sequence_may_lie_in_several_files(tmp_path):
    (tmp_path / "a.csv").write_text("id,time,symbol\n10,2,y\n9,1.5,x\n10,1,first\n")
    (tmp_path / "b.csv").write_text("id,time,symbol\n10,1,second\n9,0.5,\n")
    parts = sort_events(tmp_path / "*.csv", tmp_path / "all.parquet", quiet=True)
    assert joined(parts) == {9: [None, "x"], 10: ["first", "second", "y"]}  # 9 before "10"


@pytest.mark.parametrize(
    ("times", "message"),
    [
        (pa.array([5_000_000_000], pa.timestamp("ns")), "a time is a date in ns, and in .* in us"),
        (
            pa.array([5]),
            "b.parquet: a time is a number, and in .*a.parquet a date in us; write the",
        ),
    ],
)
def test_times_that_do_not_compare_are_refused(tmp_path, times, message):
    first = pa.array([10_000_000], pa.timestamp("us"))
    for name, time in (("a", first), ("b", times)):
        table = pa.table({"id": ["x"], "time": time, "symbol": [name]})
        pq.write_table(table, tmp_path / f"{name}.parquet")
    with pytest.raises(SojournError, match=message):
        sort_events(tmp_path / "*.parquet", tmp_path / "all.parquet", quiet=True)


def test_without_times_rows_keep_their_order(tmp_path):
    (tmp_path / "a.csv").write_text("id,symbol\nb,1\na,2\nb,3\na,4\n")
    parts = sort_events(tmp_path / "a.csv", tmp_path / "b.parquet", id="id", symbol="symbol")
    assert joined(parts) == {"a": [2, 4], "b": [1, 3]}


def test_malformed_rows_and_files_that_need_no_sorting(tmp_path):
    (tmp_path / "a.csv").write_text("id,symbol\nb,1\n,2\n")
    with pytest.raises(SojournError, match="line 3 has no id"):
        sort_events(tmp_path / "a.csv", tmp_path / "b.parquet", id="id", symbol="symbol")
    (tmp_path / "a.txt").write_text("x y z\n")
    with pytest.raises(SojournError, match="needs no sorting"):
        sort_events(tmp_path / "a.txt", tmp_path / "b.parquet")
    assert sorted(os.listdir(tmp_path)) == ["a.csv", "a.txt"]  # nothing half done is left


@pytest.mark.parametrize("how", [{"values": ["v", "w"]}, {"symbol": "v", "every": 1}])
def test_what_sorting_would_leave_out_is_refused(tmp_path, how):
    (tmp_path / "a.csv").write_text("id,t,v,w\na,2,1,5\na,1,2,6\n")
    with pytest.raises(SojournError, match="leave values=, every= and gaps= out"):
        sort_events(tmp_path / "a.csv", tmp_path / "out.parquet", "id", "t", **how)


def test_what_is_out_of_order_is_noticed(tmp_path):
    path = str(tmp_path / "x.parquet")
    pq.write_table(pa.table({"id": [1, 1, 2], "time": [1, 0, 0]}), path)
    with pytest.raises(SojournError, match="out of order"):
        _check(path, Layout("parquet", id="id", time="time"), 3)
    _check(path, Layout("parquet", id="id"), 3)
    with pytest.raises(SojournError, match="3 of 4 rows"):
        _check(path, Layout("parquet", id="id"), 4)
    assert len(scan(path, id="id", symbol="time", time=False)) == 1
