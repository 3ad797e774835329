"""Reading files: every format gives the same sequences, and every bad file a clear sentence."""

import bz2
import contextlib
import copy
import csv
import decimal
import gzip
import io
import json
import lzma
import os
import re
import resource
import subprocess
import sys
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sojourn as sj
from sojourn.io import csv as csv_reader
from sojourn.io import formats, gather
from sojourn.io import text as text_reader
from sojourn.io.gather import sort_rows
from sojourn.io.sources import SkippedRowsWarning
from sojourn.scale.threads import each

WORDS = [["climb", "climb", None, "level"], ["level"], ["descend, fast", 'the "end"', "é"]]
NUMBERS = [[3, 10, None, 0], [10], [9, 9, 2]]
COLUMNS = {"id": "flight", "time": "seconds", "symbol": "command"}


def same(a: sj.Sequences, b: sj.Sequences) -> None:
    assert a.to_lists() == b.to_lists()
    assert a.ids.tolist() == b.ids.tolist()
    assert a.vocabulary.tolist() == b.vocabulary.tolist()
    assert a.codes.dtype == np.int32
    assert a.vocabulary.dtype.kind == b.vocabulary.dtype.kind
    assert a.ids.dtype.kind == b.ids.dtype.kind


def long_table(lists, ids) -> dict:
    rows = [(i, t, s) for i, row in zip(ids, lists, strict=True) for t, s in enumerate(row)]
    flight, seconds, command = zip(*rows, strict=True)
    return {"flight": list(flight), "seconds": list(seconds), "command": list(command)}


def csv_text(table: dict, delimiter: str = ",", end: str = "\n") -> str:
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter, lineterminator=end)
    writer.writerow(table)
    writer.writerows(zip(*table.values(), strict=True))
    return out.getvalue()


def json_text(table: dict) -> str:
    rows = zip(*table.values(), strict=True)
    return "".join(json.dumps(dict(zip(table, row, strict=True))) + "\n" for row in rows)


def write_stream(table, path: Path) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=2)


LONG_WRITERS = {
    "a.csv": lambda t, p: p.write_text(csv_text(t), "utf-8"),
    "a.CSV": lambda t, p: p.write_text(csv_text(t), "utf-8"),
    "a.tsv": lambda t, p: p.write_text(csv_text(t, "\t"), "utf-8"),
    "semicolon.csv": lambda t, p: p.write_text(csv_text(t, ";"), "utf-8"),
    "a.csv.gz": lambda t, p: p.write_bytes(gzip.compress(csv_text(t).encode())),
    "a.csv.bz2": lambda t, p: p.write_bytes(bz2.compress(csv_text(t).encode())),
    "a.tsv.xz": lambda t, p: p.write_bytes(lzma.compress(csv_text(t, "\t").encode())),
    "windows.csv": lambda t, p: p.write_bytes(csv_text(t, end="\r\n").encode("utf-8-sig")),
    "old_mac.csv": lambda t, p: p.write_bytes(csv_text(t, end="\r").encode()),
    "no_last_end.csv": lambda t, p: p.write_text(csv_text(t).rstrip("\n"), "utf-8"),
    "blank_lines.csv": lambda t, p: p.write_text(csv_text(t, end="\n\n"), "utf-8"),
    "a.jsonl": lambda t, p: p.write_text(json_text(t)),
    "a.ndjson.gz": lambda t, p: p.write_bytes(gzip.compress(json_text(t).encode())),
    "a.parquet": lambda t, p: pa.parquet.write_table(pa.table(t), p, row_group_size=3),
    "a.feather": lambda t, p: pa.feather.write_feather(pa.table(t), str(p), chunksize=3),
    "stream.arrow": lambda t, p: write_stream(pa.table(t), p),
    "categories.parquet": lambda t, p: pa.parquet.write_table(categories(t), p),
    "categories.feather": lambda t, p: pa.feather.write_feather(categories(t), str(p)),
}
LIST_WRITERS = {
    "a.parquet": lambda t, p: pa.parquet.write_table(t, p, row_group_size=2),
    "a.arrow": lambda t, p: pa.feather.write_feather(t, str(p), chunksize=2),
    "a.jsonl": lambda t, p: p.write_text(json_text(t.to_pydict())),
}


def categories(table: dict):
    """Columns as Arrow dictionaries: in two orders, with values that no row has."""
    out = pa.table(table)
    column = out["command"]
    if pa.types.is_string(column.type):
        values = pa.array(["unused", *reversed(column.drop_null().unique().to_pylist())])
        codes = pa.compute.index_in(column.combine_chunks(), values).cast(pa.int16())
        out = out.set_column(2, "command", pa.DictionaryArray.from_arrays(codes, values))
    return out


@pytest.mark.parametrize("ids", [[3, 20, 100], ["a", "b", "ç"]], ids=["int", "str"])
@pytest.mark.parametrize("lists", [WORDS, NUMBERS], ids=["words", "numbers"])
@pytest.mark.parametrize("name", LONG_WRITERS)
def test_long_tables_of_every_format_give_the_same_sequences(tmp_path, name, lists, ids):
    LONG_WRITERS[name](long_table(lists, ids), tmp_path / name)
    same(sj.read(tmp_path / name, **COLUMNS), sj.Sequences.from_lists(lists, ids))


@pytest.mark.parametrize("ids", [[3, 20, 100], ["a", "b", "ç"], None], ids=["int", "str", "none"])
@pytest.mark.parametrize("lists", [WORDS, NUMBERS], ids=["words", "numbers"])
@pytest.mark.parametrize("name", LIST_WRITERS)
def test_columns_of_lists_give_the_same_sequences(tmp_path, name, lists, ids):
    table = {"names": ids, "commands": lists} if ids else {"commands": lists}
    LIST_WRITERS[name](pa.table(table), tmp_path / name)
    seqs = sj.read(tmp_path / name, id="names" if ids else None, symbol="commands", quiet=True)
    same(seqs, sj.Sequences.from_lists(lists, ids))


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("suffix", [".txt", ".txt.gz"])
def test_lines_are_sequences(tmp_path, suffix, end):
    text = end.join(["climb level\tlevel", "  7 ? ", "climb"]) + end
    data = text.encode()
    path = tmp_path / f"a{suffix}"
    path.write_bytes(gzip.compress(data, mtime=0) if suffix.endswith(".gz") else data)
    lists = [["climb", "level", "level"], ["7", None], ["climb"]]
    same(sj.read(path, missing="?"), sj.Sequences.from_lists(lists))


def test_lines_can_have_marks_between_their_symbols(tmp_path):
    (tmp_path / "a.txt").write_text("1, 2,,3\n10\n")
    seqs = sj.read(tmp_path / "a.txt", delimiter=",")
    same(seqs, sj.Sequences.from_lists([[1, 2, None, 3], [10]]))


@pytest.mark.parametrize(("name", "mark"), [("a.csv", ","), ("a.tsv", "\t")])
def test_a_table_of_integers_without_a_header_is_a_sequence_a_row(tmp_path, name, mark, capsys):
    rows = [["3", "0", "10"], ["", "2", "2"]]
    (tmp_path / name).write_text("\n".join(mark.join(row) for row in rows))
    seqs = sj.read(tmp_path / name)
    same(seqs, sj.Sequences.from_lists([[3, 0, 10], [None, 2, 2]]))
    assert "no header, one sequence per row" in capsys.readouterr().err
    same(sj.read(tmp_path / name, format="matrix", delimiter=mark), seqs)
    assert capsys.readouterr().err == ""


# --- order ---------------------------------------------------------------------------------------


@given(
    st.lists(
        st.tuples(st.sampled_from("xyz"), st.integers(0, 4), st.sampled_from(["a", "b", None])),
        min_size=1,
        max_size=40,
    ),
    st.booleans(),
)
def test_rows_are_sorted_by_id_and_time_and_ties_keep_their_order(tmp_path_factory, rows, timed):
    path = tmp_path_factory.mktemp("order") / "a.parquet"
    flight, seconds, command = map(list, zip(*rows, strict=True))
    table = pa.table({"flight": flight, "seconds": seconds, "command": pa.array(command, "string")})
    pa.parquet.write_table(table, path, row_group_size=7)
    ids = sorted(set(flight))
    by_time = (lambda row: row[1]) if timed else (lambda row: 0)
    lists = [
        [symbol for _, _, symbol in sorted((r for r in rows if r[0] == i), key=by_time)]
        for i in ids
    ]
    time = "seconds" if timed else False
    seqs = sj.read(path, "flight", time, "command", vocabulary=["a", "b"])
    same(seqs, sj.Sequences.from_lists(lists, ids, ["a", "b"]))


@given(st.integers(0, 5), st.integers(1, 300), st.booleans())
def test_rows_are_sorted_as_by_lexsort(seed, n, integers):
    rng = np.random.default_rng(seed)
    owner = rng.integers(0, 5, n).astype(np.int32)
    time = rng.integers(-3, 3, n) if integers else rng.random(n).round(1)
    rows, lengths = sort_rows(owner, 6, time)
    assert rows.tolist() == np.lexsort((time, owner)).tolist()
    assert lengths.tolist() == np.bincount(owner, minlength=6).tolist()
    assert sort_rows(owner, 6, None)[0].tolist() == np.argsort(owner, kind="stable").tolist()


def test_rows_in_order_are_not_sorted(tmp_path, monkeypatch):
    pa.parquet.write_table(pa.table(long_table(WORDS, [1, 2, 3])), tmp_path / "a.parquet")
    monkeypatch.setattr(gather, "_group", None)  # a call would fail
    assert len(sj.read(tmp_path / "a.parquet", **COLUMNS)) == 3
    rows, lengths = sort_rows(np.array([0, 0, 1], np.int32), 2, np.array([1, 2, 0]))
    assert rows is None
    assert lengths.tolist() == [2, 1]


TIMES = {
    "floats": ["0.5", "-1", "1e3"],
    "large integers": ["9007199254740993", "9007199254740992", "9007199254740994"],
    "dates": ["2024-01-02", "2024-01-01", "2024-11-01"],
    "seconds": ["2024-01-01 00:00:10", "2024-01-01T00:00:09", "2024-01-01 00:01:00"],
    "parts of seconds": ["2024-01-01 00:00:10.5", "2024-01-01 00:00:10", "2024-01-01 00:00:11"],
    "zones": ["2024-01-01T00:00:00+01:00", "2023-12-31T22:30:00Z", "2024-01-01T00:00:00Z"],
    "clock": ["10:00:01", "09:59:59", "23:00:00"],
}


@pytest.mark.parametrize("format", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("kind", TIMES)
def test_times_may_be_numbers_or_dates(tmp_path, kind, format):
    path = tmp_path / f"a.{format}"
    table = {"time": TIMES[kind], "symbol": ["second", "first", "third"]}
    if format == "csv":
        path.write_text(csv_text(table))
    elif format == "jsonl":
        path.write_text(json_text(table))
    else:
        pa.parquet.write_table(pa.table(table), path)
    assert sj.read(path, quiet=True).to_lists() == [["first", "second", "third"]]


@pytest.mark.parametrize(
    "type",
    [pa.uint64(), pa.int8(), pa.float32(), pa.decimal128(5, 1), pa.date32(), pa.timestamp("ms")],
    ids=str,
)
def test_times_of_any_type_sort(tmp_path, type):
    if pa.types.is_decimal(type):
        times = pa.array([decimal.Decimal(n) for n in (2, 1, 3)], type)
    else:
        times = pa.array([2, 1, 3], pa.int32() if type == pa.date32() else pa.int64()).cast(type)
    pa.parquet.write_table(pa.table({"t": times, "symbol": [2, 1, 3]}), tmp_path / "a.parquet")
    assert sj.read(tmp_path / "a.parquet", quiet=True).to_lists() == [[1, 2, 3]]


@pytest.mark.parametrize("most", [2**60, 2**64 - 1])
def test_times_of_64_bits_without_a_sign_are_read(tmp_path, most):
    table = pa.table({"t": pa.array([most, 1], pa.uint64()), "symbol": [2, 1]})
    pa.parquet.write_table(table, tmp_path / "a.parquet")
    assert sj.read(tmp_path / "a.parquet", quiet=True).to_lists() == [[1, 2]]


def test_blocks_of_one_file_may_hold_integers_then_floats(tmp_path, monkeypatch):
    monkeypatch.setattr(text_reader, "BLOCK_BYTES", 16)
    table = {"time": ["0", "1", "2", "3.5", "2.5"], "symbol": ["a", "b", "c", "e", "d"]}
    (tmp_path / "a.csv").write_text(csv_text(table))
    assert sj.read(tmp_path / "a.csv", quiet=True).to_lists() == [["a", "b", "c", "d", "e"]]


def test_blocks_of_one_file_may_not_hold_numbers_then_dates(tmp_path, monkeypatch):
    monkeypatch.setattr(text_reader, "BLOCK_BYTES", 16)
    (tmp_path / "a.csv").write_text("time,symbol\n1,a\n2,b\n3,c\n2024-01-01,d\n2024-01-02,e\n")
    with pytest.raises(
        sj.SojournError, match="line 5 has no time that can be read; expected a num"
    ):
        sj.read(tmp_path / "a.csv", quiet=True)


def test_a_block_without_a_good_row_says_nothing_of_the_times(tmp_path, monkeypatch):
    monkeypatch.setattr(text_reader, "BLOCK_BYTES", 12)  # a block for each line
    (tmp_path / "a.csv").write_text("time,symbol\n1,too,many\n1.5,a\n2.5,b\n")
    with pytest.warns(SkippedRowsWarning, match="skipped 1 malformed row: line 2 has 3 fields"):
        seqs = sj.read(tmp_path / "a.csv", quiet=True, on_error="skip")
    assert seqs.to_lists() == [["a", "b"]]


@pytest.mark.parametrize(
    "times", [[2, 1, 3], [2.5, 1, 3], [2**70, 1, 2**71], [2**53 + 1, 1, 2e300]]
)
def test_numbers_in_json_are_times(tmp_path, times):
    (tmp_path / "a.jsonl").write_text(json_text({"t": times, "symbol": ["b", "a", "c"]}))
    assert sj.read(tmp_path / "a.jsonl", quiet=True).to_lists() == [["a", "b", "c"]]


# --- symbols and ids -----------------------------------------------------------------------------


def test_names_that_look_like_numbers_stay_apart(tmp_path):
    (tmp_path / "a.csv").write_text("id,symbol\n007,1\n7,01\n007,1\n")
    seqs = sj.read(tmp_path / "a.csv", quiet=True)
    assert (seqs.ids.tolist(), seqs.to_lists()) == (["007", "7"], [["1", "1"], ["01"]])


def test_text_stays_text_for_a_vocabulary_of_text(tmp_path):
    (tmp_path / "a.txt").write_text("1 2\n")
    assert sj.read(tmp_path / "a.txt", vocabulary=["1", "2", "x"]).to_lists() == [["1", "2"]]
    assert sj.read(tmp_path / "a.txt", vocabulary=[1, 2, 3]).to_lists() == [[1, 2]]
    with pytest.raises(sj.SojournError, match=r"has symbol 2 at position 1, which is not in"):
        sj.read(tmp_path / "a.txt", vocabulary=[1])
    seqs = sj.read(tmp_path / "a.txt", vocabulary=[1], unknown="missing")
    assert seqs.to_lists() == [[1, None]]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "id,symbol\n1,0.5\n1,7\n", r"line 2 has the symbol 0.5, a float; .*Discretizer"),
        ("a.csv", "id,symbol\n1,5\n1,-7\n", r"line 3 has the symbol -7; expected integers of 0"),
        ("a.csv", "id,symbol\n1,5\n1,NA\n", r"line 3 has the symbol 'NA', .* missing=\('', 'NA'\)"),
        ("a.csv", "id,symbol\n1,\n1,\n", "every symbol is missing; pass vocabulary="),
        ("a.txt", "1 2\n2 1.5\n", r"line 2 has the symbol 1.5, a float"),
        ("a.txt", "1 2\n\n2 1.5\n", r"line 2 is empty; expected a sequence"),
        ("a.csv", "1,2\n3,4.5\n", r"line 2 holds '4.5', which is not an integer; .*Discretizer"),
        ("a.csv", "1,2\n3\n", r"line 2 has 1 values and the first row 2; .*format='lines'"),
        ("a.jsonl", '{"symbol": 1}\n{"symbol": 1.5}\n', r"line 2 holds 1.5 .*Discretizer"),
        ("a.jsonl", '{"symbol": 1}\n\n{"symbol": "1"}\n', r"line 3 holds '1' .* hold type int"),
        ("a.jsonl", '{"symbol": true}\n', r"line 1 holds True in 'symbol'; expected a string or"),
        ("a.jsonl", '{"symbol": 99999999999999999999}', r"does not fit 64 bits; use strings"),
        ("a.jsonl", '{"symbol": "\\ud800"}', r"line 1 holds half a character"),
        ("a.jsonl", '{"symbol": ["a"]}\n{"symbol": "a"}', r"line 2 holds no list in 'symbol'"),
        ("a.jsonl", '{"symbol": ["a"]}\n{"symbol": []}', r"line 2 is an empty sequence"),
        ("a.jsonl", '{"symbol": "a"}\n{"simbol": "a"}', r"line 2 has no 'symbol'"),
        ("a.jsonl", '{"symbol": "a"}\n{"symbol": "a"', r"line 2 is not JSON \(Expecting"),
        ("a.jsonl", '[{"symbol": "a"}]', r"line 1 is a JSON list; expected one object per line"),
        ("a.jsonl", '{"symbol": "a", "id": [1]}', r"cannot guess which column has the ids"),
        ("a.jsonl", '{"id": 1, "symbol": 1}\n{"id": [], "symbol": 1}', r"line 2 holds \[\] in"),
        ("a.csv", "t,symbol\n1.4.26 8:00,a\n", r"2026-03-29 17:39, and got '1\.4\.26 8:00'"),
        ("a.csv", "who,what\nx,a\n", r"'who', 'what', and id= that of the sequences; .* values="),
        ("a.csv", "t,symbol\n2300-01-01,a\n", r"line 2 has no time that can be read"),
        ("a.csv", "t,symbol\n1,a\n2,b\n2020-01-01,a\n", r"line 4 has no time .* a number"),
        ("a.csv", "t,symbol\n2020-01-01,a\n1,a\n", r"line 3 has no time .* a date"),
        ("a.csv", "t,symbol\n1,a\n\n,b\n", r"line 4 has no time .* a number"),
        ("a.csv", "t,symbol\nNaN,a\n", r"line 2 has no time"),
        ("a.csv", 'id,symbol\n1,"a\nb"\n\n,b\n', r"line 5 has no id"),
        ("a.csv", 'id,symbol\n1,a\n"', r"line 3 opens a quoted field that is never closed"),
        ("a.jsonl", '{"symbol": 1, "t": true}', r"line 1 has the time True; expected a number"),
        ("a.jsonl", '{"id": "a", "symbol": [1]}\n' * 2, r"line 2 has the id 'a', as a row before"),
    ],
)  # fmt: skip
def test_what_is_no_symbol_is_named_with_its_line(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(sj.SojournError, match=message) as caught:
        sj.read(tmp_path / name, quiet=True)
    assert str(caught.value).startswith(str(tmp_path / name))


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ({"symbol": [0.5]}, "the symbol column 'symbol' has type double; .*Discretizer"),
        ({"symbol": [True]}, "the symbol column 'symbol' has type bool; expected strings or"),
        ({"symbol": [[0.5]]}, "the symbol column 'symbol' has type list.*double.*Discretizer"),
        ({"id": [0.5], "symbol": [1]}, "the id column 'id' has type double; expected strings or"),
        ({"t": [True], "symbol": [1]}, "the time column 't' has type bool; expected numbers or"),
        ({"symbol": [3, -1]}, "row 2 has the symbol -1; expected integers of 0 and more"),
        ({"symbol": [[3], [4, -1]]}, "row 2 has the symbol -1; expected integers of 0 and more"),
        ({"symbol": [["a"], []]}, "row 2 is an empty sequence"),
        ({"symbol": [["a"], None]}, "row 2 is an empty sequence"),
        ({"id": [1, 1], "symbol": [[3], [4]]}, "row 2 has the id 1, as a row before it"),
        ({"id": ["a", None], "symbol": [3, 4]}, "row 2 has no id"),
        ({"t": [1.0, float("nan")], "symbol": [3, 4]}, "row 2 has no time that can be read"),
        ({"t": [1, None], "symbol": [3, 4]}, "row 2 has no time that can be read; expected a num"),
        ({"t": ["1", "1_0"], "symbol": [3, 4]}, "row 2 has no time that can be read"),
        ({"t": ["1", "soon"], "symbol": [3, 4]}, "row 2 has no time that can be read; .*a number"),
    ],
)
@pytest.mark.parametrize("name", ["a.parquet", "a.feather"])
def test_columns_of_other_types_are_refused(tmp_path, name, column, message):
    write = {"a.parquet": pa.parquet.write_table, "a.feather": pa.feather.write_feather}[name]
    write(pa.table(column), str(tmp_path / name))
    with pytest.raises(sj.SojournError, match=message):
        sj.read(tmp_path / name, quiet=True)


def test_null_may_be_a_value_of_an_arrow_dictionary(tmp_path):
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0]), pa.array(["a", None]))
    pa.feather.write_feather(pa.table({"symbol": column}), str(tmp_path / "a.feather"))
    assert sj.read(tmp_path / "a.feather", quiet=True).to_lists() == [["a", None, "a"]]
    table = pa.table({"id": column, "symbol": [1, 2, 3]})
    pa.feather.write_feather(table, str(tmp_path / "a.feather"))
    with pytest.raises(sj.SojournError, match="row 2 has no id"):
        sj.read(tmp_path / "a.feather", quiet=True)


# --- guesses -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ("flight,set,label,seconds,command", "id 'flight', time 'seconds', symbol 'command'"),
        ("song,onset,offset,syllable", "id 'song', time 'onset', symbol 'syllable'"),
        ("Case ID,Timestamp,Activity", "id 'Case ID', time 'Timestamp', symbol 'Activity'"),
        ("id,what", "id 'id', symbol 'what', rows in order"),
        ("t,event", "time 't', symbol 'event', one sequence"),
        ("event;id", "delimiter ';', id 'id', symbol 'event', rows in order"),
    ],
)
def test_guesses_are_printed_unless_quiet(tmp_path, header, said, capsys):
    path = tmp_path / "a.csv"
    mark = ";" if ";" in header else ","
    path.write_text(f"{header}\n" + mark.join("1" * len(header.split(mark))))
    sj.read(path)
    assert capsys.readouterr().err == f"sojourn: {path}: guessed {said}\n"
    sj.read(path, quiet=True)
    assert capsys.readouterr() == ("", "")


def test_nothing_is_printed_where_nothing_was_guessed(tmp_path, capsys):
    (tmp_path / "a.csv").write_text(csv_text(long_table(WORDS, "abc")))
    sj.read(tmp_path / "a.csv", **COLUMNS)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("header", "columns", "message"),
    [
        ("pilot,seconds,command", {}, "pass id= one of 'pilot', or id=False"),
        ("id,x,y", {}, "which column holds the symbols; pass symbol= one of 'x', 'y'"),
        ("id,symbol", {"id": "flight"}, "id='flight', but the file has no such column: 'id', 'sym"),
        ("id,id,symbol", {"id": "id"}, "id='id', but the file has 2 such columns"),
        ("id,id,symbol", {}, "pass id= one of 'id', 'id', or id=False"),
        (",t,symbol", {}, "pass id= one of '', or id=False"),
        ("id,symbol", {"id": "id", "symbol": "id"}, "must be different columns"),
        ("", {}, "which column holds the symbols"),
    ],
)
def test_what_cannot_be_guessed_is_asked_for(tmp_path, header, columns, message):
    (tmp_path / "a.csv").write_text(f"{header}\n")
    with pytest.raises(sj.SojournError, match=message):
        sj.read(tmp_path / "a.csv", quiet=True, **columns)


def test_a_file_can_be_taken_as_one_sequence_in_its_order(tmp_path):
    (tmp_path / "a.csv").write_text("pilot,seconds,command\nx,2,b\ny,1,a\n")
    seqs = sj.read(tmp_path / "a.csv", id=False, time=False, symbol="command")
    assert seqs.to_lists() == [["b", "a"]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"format": "xlsx"}, "format is 'xlsx'; it is one of 'csv', 'tsv'"),
        ({"on_error": "ignore"}, "on_error is 'ignore'; it is one of 'raise', 'skip'"),
        ({"delimiter": "ab"}, "delimiter is 'ab'; expected one ASCII character"),
        ({"format": "lines", "symbol": "x"}, "a file with one sequence per line has no columns"),
        ({"unknown": "x", "vocabulary": [1]}, "unknown is 'x'; it is one of 'error', 'missing'"),
    ],
)
def test_options_are_checked(tmp_path, options, message):
    (tmp_path / "a.csv").write_text("id,symbol\n1,1\n")
    with pytest.raises(sj.SojournError, match=message):
        sj.read(tmp_path / "a.csv", quiet=True, **options)


def test_an_unknown_ending_asks_for_the_format(tmp_path):
    (tmp_path / "a.dat").write_text("a b\n")
    with pytest.raises(sj.SojournError, match=r"known by the ending '.dat'; pass format= one of"):
        sj.read(tmp_path / "a.dat")
    assert sj.read(tmp_path / "a.dat", format="lines").to_lists() == [["a", "b"]]


def test_a_file_that_is_not_there_is_not_asked_for_its_format(tmp_path):
    with pytest.raises(FileNotFoundError):
        sj.read(tmp_path / "nothing")


def test_without_pyarrow_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(sj.SojournError, match=r"pip install 'sojourn\[files\]'"):
        sj.read(tmp_path / "a.csv")


def test_reading_does_not_import_pandas(tmp_path):
    # Arrow's own conversions would, at the cost of half a second and 40 MB.
    (tmp_path / "a.csv").write_text("id,symbol\nb,1\na,2\nb,\n")
    code = (
        "import sys, sojourn; seqs = sojourn.read(sys.argv[1], quiet=True);"
        "assert len(seqs) == 2; print('pandas' in sys.modules)"
    )
    source = str(Path(sj.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "a.csv"],
        capture_output=True,
        text=True,
        check=True,
        env=dict(os.environ, PYTHONPATH=source),
    )
    assert done.stdout.strip() == "False"


# --- malformed rows ------------------------------------------------------------------------------

BAD_CSV = (
    b"id,time,symbol\n"
    b"a,1,x\n"
    b"a,2\n"  # 3: too few fields
    b"a,3,y,z\n"  # 4: too many
    b",4,x\n"  # 5: no id
    b"a,soon,x\n"  # 6: no time
    b"a,5,\xff\n"  # 7: not UTF-8
    b"a,6,\x00\n"  # 8: NUL
    b"a,7,\n"  # a missing symbol, which is fine
    b"b,8,y\n"
)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (3, "line 3 has 2 fields; expected 3, the number of names in the header"),
        (4, "line 4 has 4 fields; expected 3"),
        (5, "line 5 has no id"),
        (6, "line 6 has no time that can be read; expected a number"),
        (7, r"line 7 is not UTF-8 \(byte 0xff at column 5\)"),
        (8, "line 8 holds a NUL byte"),
    ],
)
def test_a_malformed_row_is_an_error_with_file_line_and_reason(tmp_path, line, message):
    lines = BAD_CSV.splitlines(keepends=True)
    good = [b"\n" if 3 <= i <= 8 and i != line else text for i, text in enumerate(lines, 1)]
    path = tmp_path / "a.csv"
    path.write_bytes(b"".join(good))
    with pytest.raises(sj.SojournError, match=message) as caught:
        sj.read(path, quiet=True)
    assert str(caught.value).startswith(f"{path}: line {line} ")
    assert str(caught.value).endswith("pass on_error='skip' to leave such rows out")


@pytest.mark.parametrize("block", [1 << 23, 8, 16, 40])
def test_malformed_rows_can_be_skipped_and_are_counted(tmp_path, block, monkeypatch):
    monkeypatch.setattr(text_reader, "BLOCK_BYTES", block)
    path = tmp_path / "a.csv"
    path.write_bytes(BAD_CSV)
    with pytest.warns(SkippedRowsWarning) as caught:
        seqs = sj.read(path, quiet=True, on_error="skip")
    assert seqs.to_lists() == [["x", None], ["y"]]
    (warning,) = caught
    assert str(warning.message).startswith(f"{path}: skipped 6 malformed rows, for example line")
    assert warning.filename == __file__


@pytest.mark.parametrize(
    ("name", "text", "lists", "n"),
    [
        ("a.txt", b"a b\n\n\nb\n\xff\na\n\n", [["a", "b"], ["b"], ["a"]], 3),
        ("a.csv", b"1,2\n3\nx,1\n2,1\n", [[1, 2], [2, 1]], 2),
        ("a.jsonl", b'{\n{"symbol": "a"}\n{"symbol": 1}\n{"symbol": "b"}\n', [["a", "b"]], 2),
    ],
)
def test_other_text_can_be_skipped_too(tmp_path, name, text, lists, n):
    (tmp_path / name).write_bytes(text)
    with pytest.warns(SkippedRowsWarning, match=f"skipped {n} malformed rows, for example line"):
        seqs = sj.read(tmp_path / name, quiet=True, on_error="skip")
    assert seqs.to_lists() == lists


@pytest.mark.parametrize("first", [b"id,symb\xffol\n", b"id,\0symbol\n"])
def test_a_header_cannot_be_skipped(tmp_path, first):
    (tmp_path / "a.csv").write_bytes(first + b"1,2\n")
    with pytest.raises(
        sj.SojournError, match=r"line 1 (is not UTF-8|holds a NUL).*; expected the names"
    ):
        sj.read(tmp_path / "a.csv", quiet=True, on_error="skip")


def test_rows_of_a_table_file_can_be_skipped_too(tmp_path):
    table = {
        "id": ["a", None, "a", "b"],
        "t": [1.0, 2.0, float("nan"), 4.0],
        "symbol": [1, 2, 3, 4],
    }
    pa.parquet.write_table(pa.table(table), tmp_path / "a.parquet")
    with pytest.warns(SkippedRowsWarning, match="skipped 2 malformed rows, for example row 2"):
        seqs = sj.read(tmp_path / "a.parquet", quiet=True, on_error="skip")
    assert seqs.to_lists() == [[1], [4]]


def test_ids_of_lines_do_not_move_when_lines_are_skipped(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"a\n\xff\nb\n")
    with pytest.warns(SkippedRowsWarning):
        seqs = sj.read(tmp_path / "a.txt", on_error="skip")
    assert seqs.ids.tolist() == [0, 2]


def test_a_file_of_which_all_is_skipped_is_an_error(tmp_path):
    (tmp_path / "a.csv").write_text("id,symbol\n,a\n,b\n")
    with pytest.raises(sj.SojournError, match="holds no rows but 2 malformed ones"):
        sj.read(tmp_path / "a.csv", quiet=True, on_error="skip")
    (tmp_path / "a.jsonl").write_text('{"symbols": ["a", 0.5]}\n')
    with pytest.raises(sj.SojournError, match="holds no rows but 1 malformed ones"):
        list(sj.scan(tmp_path / "a.jsonl", vocabulary=["a"], quiet=True, on_error="skip"))


@pytest.mark.parametrize("block", [1 << 23, 16])
def test_quotes_may_hold_line_ends_and_must_be_closed(tmp_path, block, monkeypatch):
    monkeypatch.setattr(text_reader, "BLOCK_BYTES", block)
    path = tmp_path / "a.csv"
    path.write_bytes(b'id,symbol\n1,"long\nand ""longer"""\n1,5" disk\n2,x\n')
    lists = [['long\nand "longer"', '5" disk'], ["x"]]
    assert sj.read(path, quiet=True).to_lists() == lists
    with path.open("ab") as file:
        file.write(b'2,"y\n2,z\n')
    with pytest.raises(sj.SojournError, match="line 6 opens a quoted field that is never closed"):
        sj.read(path, quiet=True)
    with pytest.warns(SkippedRowsWarning, match="skipped 2 malformed rows, for example line 6"):
        assert sj.read(path, quiet=True, on_error="skip").to_lists() == lists
    path.write_text('"id,symbol\n1,2\n')
    with pytest.raises(sj.SojournError, match="line 1 opens a quoted name that is never closed"):
        sj.read(path, quiet=True)


@pytest.mark.parametrize("block", [1 << 23, 16, 5])
def test_a_byte_order_mark_within_a_file_is_part_of_a_symbol(tmp_path, block, monkeypatch):
    monkeypatch.setattr(text_reader, "BLOCK_BYTES", block)
    (tmp_path / "a.csv").write_bytes("symbol\nx\n\ufeffy\nz\n".encode("utf-8-sig"))
    assert sj.read(tmp_path / "a.csv", quiet=True).to_lists() == [["x", "\ufeffy", "z"]]


def test_a_quote_that_goes_on_beyond_measure_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(text_reader, "BLOCK_BYTES", 64)
    monkeypatch.setattr(csv_reader, "LINE_BYTES", 256)
    (tmp_path / "a.csv").write_text('id,symbol\n1,"' + "a\n" * 1000)
    with pytest.raises(sj.SojournError, match="line 2 opens a quoted field that is not closed wit"):
        sj.read(tmp_path / "a.csv", quiet=True)


def test_an_empty_line_is_a_missing_symbol_where_there_is_one_column(tmp_path):
    (tmp_path / "a.csv").write_text("symbol\nx\n\ny\n")
    assert sj.read(tmp_path / "a.csv", quiet=True).to_lists() == [["x", None, "y"]]
    (tmp_path / "a.csv").write_text("symbol\nx\n\ny,z\n")
    with pytest.raises(sj.SojournError, match="line 4 has 2 fields; expected 1"):
        sj.read(tmp_path / "a.csv", quiet=True)
    with pytest.warns(SkippedRowsWarning, match="skipped 1 malformed row: line 4 has 2 fields"):
        seqs = sj.read(tmp_path / "a.csv", quiet=True, on_error="skip")
    assert seqs.to_lists() == [["x", None]]


# --- bad files -----------------------------------------------------------------------------------

ALL_FORMATS = ["csv", "tsv", "matrix", "lines", "jsonl", "parquet", "arrow"]


@pytest.mark.parametrize("format", ALL_FORMATS)
def test_an_empty_file(tmp_path, format):
    (tmp_path / "a").write_bytes(b"")
    with pytest.raises(sj.SojournError, match=r"a is empty; expected at least one sequence"):
        sj.read(tmp_path / "a", format=format)


@pytest.mark.parametrize("format", ["csv", "tsv", "matrix", "lines", "jsonl"])
@pytest.mark.parametrize("data", [b"\xef\xbb\xbf", b"\n", b" \n \r\n", b"\xef\xbb\xbf\n"])
def test_a_file_of_nothing_but_a_mark_or_white_space(tmp_path, format, data):
    (tmp_path / "a").write_bytes(data)
    with pytest.raises(sj.SojournError, match=r"is empty|holds no rows|which column holds"):
        sj.read(tmp_path / "a", format=format)


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_a_file_of_nothing_but_a_header(tmp_path, end):
    (tmp_path / "a.csv").write_bytes(b"id,symbol" + end.encode())
    with pytest.raises(sj.SojournError, match="holds no rows; expected at least one"):
        sj.read(tmp_path / "a.csv", quiet=True)


@pytest.mark.parametrize("format", ALL_FORMATS)
def test_a_directory(tmp_path, format):
    with pytest.raises(sj.SojournError, match=r"is a directory; pass a file, or read many with"):
        sj.read(tmp_path, format=format)


@pytest.mark.parametrize("format", ALL_FORMATS)
def test_a_file_that_is_not_there(tmp_path, format):
    with pytest.raises(FileNotFoundError, match="nothing"):
        sj.read(tmp_path / "nothing", format=format)


@pytest.mark.skipif(not hasattr(os, "seteuid"), reason="needs POSIX permissions")
@pytest.mark.parametrize("format", ALL_FORMATS)
def test_a_file_that_may_not_be_read(tmp_path, format):
    import sojourn.io.formats  # now, as what is installed may not be readable below

    assert sojourn.io.formats
    path = tmp_path / "secret"
    path.write_text("id,symbol\n1,2\n")
    path.chmod(0)
    user = os.geteuid()
    if user == 0:  # who may read anything
        os.seteuid(65534)
    try:
        with pytest.raises(PermissionError, match="secret"):
            sj.read(path, format=format)
    finally:
        os.seteuid(user)


@pytest.mark.parametrize(
    ("format", "first"), [("csv", b"id,symbol\n"), ("lines", b"a\n"), ("jsonl", b'{"symbol": 1}\n')]
)
def test_a_line_of_a_gigabyte(tmp_path, format, first):
    path = tmp_path / "a"
    with path.open("wb") as file:
        file.write(first)
        file.truncate(1 << 30)  # a hole, which takes no room on disk
    before = peak_memory()
    with pytest.raises(sj.SojournError, match="line 2 is longer than 67,108,864 bytes; expected l"):
        sj.read(path, format=format, quiet=True)
    assert peak_memory() - before < 400e6  # a few copies of the longest line, not of the file


def peak_memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def test_a_decompression_bomb_of_text(tmp_path, monkeypatch):
    monkeypatch.setattr(text_reader, "FREE_BYTES", 1 << 24)  # beyond which the ratio counts
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress((b"a" * (1 << 20) + b"\n") * 40))
    with pytest.raises(sj.SojournError, match=r"holds more than 17,\d+,\d+, over 200 times as ma"):
        sj.read(tmp_path / "a.txt.gz")
    seqs = sj.read(tmp_path / "a.txt.gz", max_expansion=float("inf"))
    assert len(seqs) == 40


def test_a_bomb_of_short_lines_is_refused_before_any_is_parsed(tmp_path, monkeypatch):
    """Parsing them would take minutes and gigabytes; decompressing takes a moment."""
    monkeypatch.setattr(text_reader, "FREE_BYTES", 1 << 24)
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"a,x\n" * 5_000_000))
    parsed = []
    monkeypatch.setattr(formats, "sequence_rows", lambda *_: parsed.append(1))
    with pytest.raises(sj.SojournError, match="over 200 times as many"):
        sj.read(tmp_path / "a.txt.gz", format="lines")
    assert parsed == []


@pytest.mark.parametrize("format", ["csv", "lines", "jsonl", "parquet", "arrow"])
def test_a_pipe_is_refused_rather_than_waited_for(tmp_path, format):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(sj.SojournError, match="pipe is a pipe, a device or a socket"):
        sj.read(tmp_path / "pipe", format=format)


def test_a_header_of_many_columns_is_read_in_a_moment(tmp_path):
    """Its line is longer than any buffer, and each name is looked at once."""
    names = ["id", "symbol", *(f"column_{i}" for i in range(50_000))]
    row = ["a", "x", *(["1"] * 50_000)]
    (tmp_path / "wide.csv").write_text(",".join(names) + "\n" + ",".join(row) + "\n")
    assert sj.read(tmp_path / "wide.csv", quiet=True).to_lists() == [["x"]]


@pytest.mark.parametrize("column", ["id", "symbol"])
def test_integers_beyond_64_bits_with_a_sign_are_named(tmp_path, column):
    columns = {"id": pa.array([1], pa.uint64()), "symbol": pa.array([2], pa.uint64())}
    columns[column] = pa.array([2**64 - 1], pa.uint64())
    pa.parquet.write_table(pa.table(columns), tmp_path / "a.parquet")
    with pytest.raises(sj.SojournError, match="is 18446744073709551615, which does not fit"):
        sj.read(tmp_path / "a.parquet", quiet=True)


@pytest.mark.parametrize("name", ["a.parquet", "a.feather"])
def test_a_decompression_bomb_of_columns(tmp_path, name, monkeypatch):
    monkeypatch.setattr(text_reader, "FREE_BYTES", 1 << 20)
    path = tmp_path / name
    table = pa.table({"symbol": np.zeros(1_000_000, dtype=np.int64)})
    if name == "a.feather":
        pa.feather.write_feather(table, str(path), compression="zstd")
    else:
        pa.parquet.write_table(table, path)
    with pytest.raises(sj.SojournError, match="over 200 times as many; if you trust it, pass max_"):
        sj.read(path, quiet=True)
    assert sj.read(path, quiet=True, max_expansion=float("inf")).n_total == 1_000_000


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.csv", "id,symbol\n1,2\n".encode("utf-16"), "is UTF-16 text; expected UTF-8"),
        ("a.csv.gz", b"id,symbol\n1,2\n", "cannot be decompressed: Not a gzipped file"),
        ("a.csv.gz", gzip.compress(b"id,symbol\n" * 99, mtime=0)[:-20], "cannot be decompressed: "),
        ("a.csv.bz2", b"id,symbol\n1,2\n", "cannot be decompressed: Invalid data stream"),
        ("a.csv.xz", b"id,symbol\n1,2\n", "cannot be decompressed: Input format not supported"),
        ("a.csv", gzip.compress(b"id,symbol\n1,2\n", mtime=0), "line 1 (holds a NUL|is not UTF-8)"),
        ("a.parquet", b"id,symbol\n1,2\n", "a.parquet: Parquet"),
        ("a.parquet", b"PAR1" + b"\xff" * 40 + b"PAR1", "a.parquet: "),
        ("a.arrow", b"id,symbol\n1,2\n", "a.arrow: "),
        ("a.arrow", b"ARROW1\0\0" + b"\xff" * 40 + b"ARROW1", "a.arrow: "),
        ("a.jsonl", b'{"symbol": ' + b"[" * 100_000, r"line 1 is not JSON \("),
    ],
)
def test_files_that_are_not_what_their_name_says(tmp_path, name, data, message):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(sj.SojournError, match=message):
        sj.read(tmp_path / name, quiet=True)


def test_a_broken_arrow_file_is_an_error_not_a_crash(tmp_path):
    path = tmp_path / "a.arrow"
    pa.feather.write_feather(
        pa.table({"symbol": ["climb", "level", "descend"] * 5}),
        str(path),
        compression="uncompressed",
    )
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(300):
        broken = bytearray(whole)
        for at in rng.integers(0, len(whole), 3):
            broken[at] = rng.integers(256)
        path.write_bytes(broken)
        with contextlib.suppress(ValueError, OSError):
            sj.read(path, symbol="symbol")


# --- scans ---------------------------------------------------------------------------------------


def joined(parts) -> tuple[list, list]:
    lists, ids = [], []
    for seqs in parts:
        lists += seqs.to_lists()
        ids += seqs.ids.tolist()
    return lists, ids


def random_table(rng, n_sequences: int, kind: str) -> tuple[dict, list, list]:
    lengths = rng.integers(1, 12, n_sequences)
    ids = [f"f{i:03d}" for i in range(n_sequences)] if kind == "str" else list(range(n_sequences))
    lists = [rng.choice(["a", "b", "c"], n).tolist() for n in lengths]
    return long_table(lists, ids), lists, ids


@pytest.mark.parametrize("statistics", [True, False])
@pytest.mark.parametrize("kind", ["int", "str"])
@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
@pytest.mark.parametrize("seed", range(4))
def test_a_sorted_file_is_cut_into_whole_sequences(tmp_path, seed, suffix, kind, statistics):
    rng = np.random.default_rng(seed)
    table, lists, ids = random_table(rng, 40, kind)
    path = tmp_path / f"a.{suffix}"
    size = int(rng.integers(1, 30))
    if suffix == "parquet":
        pa.parquet.write_table(
            pa.table(table), path, row_group_size=size, write_statistics=statistics
        )
    else:
        pa.feather.write_feather(pa.table(table), str(path), chunksize=size)
    for target in (1, 7, 50, 10**6):
        parts = sj.scan(path, **COLUMNS, rows_per_partition=target)
        assert joined(parts) == (lists, ids)
        assert len(parts) == len(list(parts)) <= max(1, len(table["flight"]) // target + 1)
        if target == 1:
            assert len(parts) > 5
        for seqs in parts:
            assert seqs.vocabulary.tolist() == ["a", "b", "c"]
            assert seqs.n_total <= target + 12 + size + 12  # the target, a sequence, a piece


def test_a_sequence_may_span_many_pieces(tmp_path):
    lists = [["a"] * 3, ["b"] * 50, ["a"] * 2, ["b"] * 2]
    pa.parquet.write_table(
        pa.table(long_table(lists, [1, 2, 3, 4])), tmp_path / "a.parquet", row_group_size=4
    )
    parts = sj.scan(tmp_path / "a.parquet", **COLUMNS, rows_per_partition=4)
    assert [seqs.ids.tolist() for seqs in parts] == [[1, 2], [3, 4]]
    assert joined(parts)[0] == lists


def test_an_unsorted_file_cannot_be_cut_and_says_what_to_do(tmp_path):
    table = pa.table({"flight": [1, 2, 1, 2], "seconds": [1, 1, 0, 0], "command": list("abcd")})
    pa.parquet.write_table(table, tmp_path / "a.parquet", row_group_size=2)
    parts = sj.scan(tmp_path / "a.parquet", **COLUMNS, rows_per_partition=2)
    with pytest.raises(sj.SojournError, match=r"is not sorted by 'flight': piece 0 ends with 2, p"):
        list(parts)
    whole = sj.scan(tmp_path / "a.parquet", **COLUMNS, rows_per_partition=None)
    assert joined(whole) == ([["c", "a"], ["d", "b"]], [1, 2])


def test_rows_without_an_id_are_counted_once(tmp_path):
    # Pieces of three rows: most are read for two partitions, one holds no id at all.
    ids = [1, 1, 2] + [None, 2, 3] + [None] * 3 + [3, None, 4]
    table = pa.table({"id": ids, "symbol": list("aab_bc___c_d")})
    pa.parquet.write_table(table, tmp_path / "a.parquet", row_group_size=3)
    for target, n_parts in ((1, 3), (4, 2), (100, 1)):
        options = {"on_error": "skip", "rows_per_partition": target, "quiet": True}
        parts = sj.scan(tmp_path / "a.parquet", **options)
        assert len(parts) == n_parts
        with pytest.warns(SkippedRowsWarning) as caught:
            assert joined(parts)[0] == [["a", "a"], ["b", "b"], ["c", "c"], ["d"]]
        (warning,) = caught
        first, more = re.search(r"skipped (\d+) .*?(?:; (\d+) in|$)", str(warning.message)).groups()
        assert int(first) + int(more or 0) == 5


@pytest.mark.parametrize("name", LONG_WRITERS)
def test_a_scan_of_many_files_shares_one_vocabulary(tmp_path, name):
    suffix = name.partition(".")[2]
    for i, (lists, ids) in enumerate(((WORDS[:2], ["1", "2"]), (WORDS[2:], ["x"]))):
        LONG_WRITERS[name](long_table(lists, ids), tmp_path / f"{i}.{suffix}")
    parts = sj.scan(tmp_path / f"*.{suffix}", **COLUMNS)
    assert joined(parts) == (WORDS, ["1", "2", "x"])
    vocabulary = sj.Sequences.from_lists(WORDS).vocabulary.tolist()
    assert [seqs.vocabulary.tolist() for seqs in parts] == [vocabulary] * 2
    assert parts.vocabulary.tolist() == vocabulary


def test_a_column_whose_name_begins_with_that_of_another_is_not_taken_for_it(tmp_path):
    table = pa.table({"id.part": [1, 1, 2, 2], "id": [1, 1, 1, 1], "symbol": list("abcd")})
    pa.parquet.write_table(table, tmp_path / "a.parquet", row_group_size=2)
    how = {"id": "id", "symbol": "symbol", "time": False, "rows_per_partition": 2}
    assert [seqs.to_lists() for seqs in sj.scan(tmp_path / "a.parquet", **how)] == [[list("abcd")]]


def test_a_model_refuses_partitions_that_add_symbols_of_their_own(tmp_path):
    (tmp_path / "a.txt").write_text("a b a\n")
    (tmp_path / "b.txt").write_text("c b a\n")
    parts = sj.scan(tmp_path / "*.txt", vocabulary=["a", "b"], unknown="add")
    assert [seqs.n_symbols for seqs in parts] == [2, 3]
    with pytest.raises(sj.SojournError, match="unknown='add' gives each partition a vocabulary"):
        sj.SpectralHSMM(1, 1).fit(parts)


def test_integers_in_one_file_and_words_in_another_are_all_text(tmp_path):
    (tmp_path / "a.txt").write_text("1 2\n")
    (tmp_path / "b.txt").write_text("1 x\n")
    parts = sj.scan(tmp_path / "*.txt")
    assert joined(parts) == ([["1", "2"], ["1", "x"]], [0, 1])
    assert joined(sj.scan([tmp_path / "a.txt"]))[0] == [[1, 2]]


def test_a_file_of_lines_is_cut_at_line_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(text_reader, "BLOCK_BYTES", 64)
    rng = np.random.default_rng(0)
    lists = [rng.choice(["climb", "level"], rng.integers(1, 9)).tolist() for _ in range(60)]
    (tmp_path / "a.txt").write_bytes(
        b"\xef\xbb\xbf" + "\r\n".join(map(" ".join, lists[:50])).encode()
    )
    (tmp_path / "b.txt").write_text("\n".join(map(" ".join, lists[50:])) + "\n")
    parts = sj.scan(tmp_path / "*.txt", rows_per_partition=20)
    assert len(parts) > 5
    assert joined(parts) == (lists, list(range(60)))
    assert joined(reversed(parts.partitions[:0])) == ([], [])
    assert [part.read().ids[0] for part in parts.partitions[:2]] == [
        0,
        len(parts.partitions[0].read()),
    ]


@pytest.mark.parametrize("name", LIST_WRITERS)
def test_lists_without_ids_are_numbered_through(tmp_path, name):
    suffix = name.partition(".")[2]
    for i, lists in enumerate((WORDS, WORDS[::-1])):
        LIST_WRITERS[name](pa.table({"commands": lists}), tmp_path / f"{i}.{suffix}")
    parts = sj.scan(tmp_path / f"*.{suffix}", symbol="commands", rows_per_partition=4)
    assert joined(parts) == (WORDS + WORDS[::-1], list(range(6)))


def test_files_without_ids_are_a_sequence_each(tmp_path):
    for name in "abc":
        (tmp_path / f"{name}.csv").write_text(f"symbol\n{name}\n{name}\n")
    parts = sj.scan(tmp_path / "*.csv", quiet=True)
    assert joined(parts) == ([["a", "a"], ["b", "b"], ["c", "c"]], [0, 1, 2])


def test_partitions_are_small_and_can_be_sent_away(tmp_path):
    table, lists, ids = random_table(np.random.default_rng(0), 3000, "int")
    pa.parquet.write_table(pa.table(table), tmp_path / "a.parquet", row_group_size=1000)
    parts = sj.scan(tmp_path / "a.parquet", **COLUMNS, rows_per_partition=1000)
    # what a cluster sends to a worker: a copy, and little enough to say in words
    sent = [copy.deepcopy(part) for part in parts.partitions]
    assert max(len(repr(part)) for part in sent) < 1500
    assert joined(part.read() for part in sent) == (lists, ids)


def test_a_scan_reads_nothing_until_asked_and_the_vocabulary_once(tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text("a b\n")
    (tmp_path / "b.txt").write_bytes(b"a \xff\n")
    parts = sj.scan(tmp_path / "*.txt")  # the second file is not looked at
    with pytest.raises(sj.SojournError, match=r"b\.txt: line 1 is not UTF-8"):
        _ = parts.vocabulary
    given = sj.scan(tmp_path / "a.txt", vocabulary=["c", "b", "a"])
    assert given.vocabulary.tolist() == ["a", "b", "c"]
    assert next(iter(given)).codes.tolist() == [0, 1]
    assert given.partitions is given.partitions


def test_skipped_rows_of_a_scan_are_told_at_its_end(tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.csv").write_text("id,symbol\n1,x\n,y\n,z\n")
    parts = sj.scan(tmp_path / "*.csv", quiet=True, on_error="skip")
    with pytest.warns(SkippedRowsWarning) as caught:
        assert [seqs.to_lists() for seqs in parts] == [[["x"]], [["x"]]]
    (warning,) = caught
    assert str(warning.message) == (
        f"{tmp_path / 'a.csv'}: skipped 2 malformed rows, for example line 3 has no id; "
        f"2 in 1 more partitions"
    )
    assert parts.vocabulary.tolist() == ["x", "y", "z"]


def test_a_float_in_a_scan_is_named_with_its_file_and_line(tmp_path):
    (tmp_path / "a.txt").write_text("1 2\n")
    (tmp_path / "b.txt").write_text("1\n2.5\n")
    with pytest.raises(sj.SojournError, match=r"b.txt: line 2 has the symbol 2.5, a float"):
        list(sj.scan(tmp_path / "*.txt"))


@pytest.mark.parametrize(
    ("paths", "options", "message"),
    [
        ("nothing/*.csv", {}, "no file matches 'nothing"),
        ([], {}, "there are no files to scan"),
        (
            "*",
            {"rows_per_partition": 0},
            "rows_per_partition must be an integer of at least 1, not 0",
        ),
    ],
)
def test_a_scan_of_nothing(paths, options, message):
    with pytest.raises(sj.SojournError, match=message):
        sj.scan(paths, **options)


def test_a_scan_adds_up_like_its_partitions(tmp_path):
    table, lists, _ = random_table(np.random.default_rng(1), 50, "int")
    pa.parquet.write_table(pa.table(table), tmp_path / "a.parquet", row_group_size=20)
    parts = sj.scan(tmp_path / "a.parquet", **COLUMNS, rows_per_partition=20)
    counts = sum(each(lambda seqs: np.bincount(seqs.codes, minlength=3), parts, n_jobs=2))
    assert counts.tolist() == np.unique([*chain(*lists)], return_counts=True)[1].tolist()


# --- data that is not in the repository ----------------------------------------------------------


@pytest.mark.parametrize(("name", "n"), [("flightsim.csv", 160), ("finch4.csv", 441)])
def test_real_files_are_read_as_they_are(name, n, capsys):
    if not (folder := os.environ.get("SOJOURN_DATA")):
        pytest.skip("SOJOURN_DATA does not say where the data is")
    path = Path(folder, name)
    id, time, symbol = {
        "flightsim.csv": ("flight", "seconds", "command"),
        "finch4.csv": ("song", "onset", "syllable"),
    }[name]
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    seqs = sj.read(path)
    assert f"guessed id {id!r}, time {time!r}, symbol {symbol!r}" in capsys.readouterr().err
    assert len(seqs) == n
    rows.sort(key=lambda row: (row[id], float(row[time])))
    flat = {str(i): [] for i in seqs.ids.tolist()}
    for row in rows:
        flat[row[id]].append(row[symbol])
    assert [list(map(str, seq)) for seq in seqs] == list(flat.values())


@pytest.mark.parametrize("ids", [[2**63 - 2, 2**63 - 1], [-(2**63), 2**63 - 1], [-3, 5]])
def test_ids_may_be_any_integers_of_64_bits(tmp_path, ids):
    path = tmp_path / "events.parquet"
    pa.parquet.write_table(pa.table({"id": pa.array(ids, pa.int64()), "symbol": ["a", "b"]}), path)
    seqs = sj.read(path, id="id", time=False, symbol="symbol")
    assert seqs.ids.tolist() == ids
    assert seqs.to_lists() == [["a"], ["b"]]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.txt", "\nb a\n  \na\n\n"),
        (
            "a.jsonl",
            "".join(f'{{"symbol": {s}}}\n' for s in ("[]", '["b", "a"]', "[]", '["a"]', "[]")),
        ),
        ("a.parquet", None),
    ],
)
def test_empty_sequences_are_read_where_they_are_allowed(tmp_path, name, text):
    path = tmp_path / name
    if text is None:
        lists = pa.array([[], ["b", "a"], [], ["a"], []], pa.list_(pa.string()))
        pa.parquet.write_table(pa.table({"symbol": lists}), path)
    else:
        path.write_text(text)
    seqs = sj.read(path, quiet=True, empty=True)
    assert seqs.to_lists() == [[], ["b", "a"], [], ["a"], []]
    assert seqs.ids.tolist() == [0, 1, 2, 3, 4]
    scanned = list(sj.scan([path, path], quiet=True, empty=True))
    assert [ids for part in scanned for ids in part.ids.tolist()] == list(range(10))
    assert [part.to_lists() for part in scanned] == [seqs.to_lists()] * 2
    with pytest.raises(sj.SojournError, match=r"(line|row) 1 is (an )?empty"):
        sj.read(path, quiet=True)


def test_a_model_without_ends_refuses_the_empty_sequences_of_a_scan(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("a b a b\n\nb a b a\n")
    with pytest.raises(sj.SojournError, match="line 2 is empty; expected a sequence"):
        sj.SpectralHSMM(1, 1).fit(sj.scan(path, empty=True))


def test_ids_of_empty_sequences_take_their_place(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(
        "".join(
            json.dumps(r) + "\n"
            for r in [
                {"id": "x", "symbol": ["a"]},
                {"id": "long name", "symbol": []},
                {"id": "m", "symbol": []},
            ]
        )
    )
    seqs = sj.read(path, quiet=True, empty=True)
    assert seqs.ids.tolist() == ["long name", "m", "x"]
    assert seqs.to_lists() == [[], [], ["a"]]


# ---- times --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("format", "kind"),
    [
        *((format, kind) for format in ("csv", "jsonl") for kind in ("text", "offset", "number")),
        *(("parquet", kind) for kind in ("text", "offset", "s", "ns", "date32", "number")),
    ],
)
def test_times_of_files_are_kept(tmp_path, kind, format):
    days = np.array(["2026-01-03", "2026-01-01", "2026-01-02"], "M8[D]")
    texts = days.astype("M8[s]").astype(str).tolist()
    times = {
        "text": texts,
        "offset": [text + "+02:00" for text in texts],
        "s": pa.array(days.astype("M8[s]")),
        "ns": pa.array(days.astype("M8[ns]")),
        "date32": pa.array(days),
        "number": [3, 1, 2],
    }[kind]
    columns = {"id": ["a", "a", "a"], "time": times, "symbol": ["z", "x", "y"]}
    path = tmp_path / f"a.{format}"
    if format == "parquet":
        pa.parquet.write_table(pa.table(columns), path)
    elif format == "csv":
        path.write_text(csv_text(columns))
    else:
        path.write_text(json_text(columns))
    seqs = sj.read(path, quiet=True)
    assert seqs.to_lists() == [["x", "y", "z"]]
    shift = np.timedelta64(2 if kind == "offset" else 0, "h")
    expected = np.array([1.0, 2.0, 3.0]) if kind == "number" else np.sort(days) - shift
    assert (seqs.times == expected).all()


def test_a_clock_is_the_same_at_once_and_in_partitions(tmp_path):
    rng = np.random.default_rng(0)
    day, hour, symbol = rng.integers(25, 31, 400), rng.integers(0, 24, 400), rng.integers(0, 2, 400)
    lines = [f"{i % 20},2026-03-{day[i]}T{hour[i]:02}:30:00,{'ab'[symbol[i]]}" for i in range(400)]
    for k in (0, 1):
        own = [line for line in lines if (int(line.split(",")[0]) < 10) == (k == 0)]
        (tmp_path / f"{k}.csv").write_text("id,time,symbol\n" + "\n".join(own) + "\n")
    (tmp_path / "all.csv").write_text("id,time,symbol\n" + "\n".join(lines) + "\n")
    for how in (
        {"every": "6h", "fill": "nothing", "max_gap": "2d"},
        {"every": "1d", "zone": "Europe/Amsterdam"},
        {"gaps": ["1h", "1d"]},
    ):
        whole = sj.read(tmp_path / "all.csv", quiet=True, **how)
        parts = list(sj.scan([tmp_path / "0.csv", tmp_path / "1.csv"], quiet=True, **how))
        joined = {}
        for part in parts:
            joined |= dict(zip(map(str, part.ids.tolist()), part.to_lists(), strict=True))
        assert joined == dict(zip(map(str, whole.ids.tolist()), whole.to_lists(), strict=True))
        assert all(part.clock == whole.clock for part in parts)


def test_dates_without_a_zone_are_those_of_the_zone_given(tmp_path):
    path = tmp_path / "a.csv"
    local = ["2026-03-29T01:30", "2026-03-29T03:30", "2026-10-25T01:30", "2026-10-25T03:30"]
    path.write_text("time,symbol\n" + "\n".join(f"{text},a" for text in local) + "\n")
    hours = sj.read(path, id=False, quiet=True, every="1h", zone="Europe/Amsterdam", max_gap="2d")
    # an hour is left out in March, and shown twice in October
    assert [len(own) for own in hours] == [2, 4]


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"every": "1h", "time": False}, "every= and gaps= need times; pass time= the column"),
        ({"every": "1h"}, "every is '1h', but the times are numbers, not dates"),
        ({"every": "often"}, "every is 'often'; expected a length of time such as"),
        ({"every": "1h", "max_gap": "soon"}, "max_gap is 'soon'; expected a length of time such"),
        ({"every": 1, "gaps": [1]}, "pass every= or gaps=, not both"),
        ({"every": "1d", "zone": "Mars"}, "zone is 'Mars'; expected a name such as"),
    ],
)
def test_clocks_that_do_not_fit_a_file(tmp_path, how, message):
    path = tmp_path / "a.csv"
    path.write_text("id,time,symbol\n1,1,a\n1,2,b\n")
    with pytest.raises(sj.SojournError, match=re.escape(message)):
        sj.read(path, quiet=True, **how)
