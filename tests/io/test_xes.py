"""Event logs in XES: what they state about themselves, and files that want to do harm."""

import gzip
import os
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import sojourn as sj
from sojourn.io import xes

LOGS = Path(os.environ.get("SOJOURN_DATA", "")) / "logs"
needs_logs = pytest.mark.skipif(not (LOGS / "receipt.xes.gz").exists(), reason="needs the logs")

HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n<log xes.version="1.0">\n'
EXTRAS = """
<extension name="Concept" prefix="concept" uri="http://www.xes-standard.org/concept.xesext"/>
<global scope="event"><string key="concept:name" value="no event"/></global>
<classifier name="Activity" keys="concept:name"/>
<string key="concept:name" value="no case"/>
"""


def event(name, time="2026-01-01T00:00:00.000+01:00", transition="complete", more=""):
    return (
        f'<event><date value="{time}" key="time:timestamp"/>{more}'
        f'<string key="lifecycle:transition" value="{transition}"/>'
        f'<string key="concept:name" value="{name}"><int key="concept:name" value="1"/></string>'
        f"</event>"
    )


def trace(name, *events):
    return f'<trace><string key="concept:name" value="{name}"/>{"".join(events)}</trace>\n'


def log(tmp_path, *traces, name="log.xes", extras=EXTRAS):
    path = tmp_path / name
    data = (HEAD + extras + "".join(traces) + "</log>\n").encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


@needs_logs
def test_receipt_is_read_to_the_numbers_that_it_states():
    path = LOGS / "receipt.xes.gz"
    text = gzip.decompress(path.read_bytes()).decode()
    stated = dict(
        re.findall(r'<int key="meta_(\w+:\w+_total|\w+:events_m\w+)" value="(\d+)"', text)
    )
    seqs = sj.read(path)
    assert len(seqs) == int(stated["general:traces_total"])
    assert seqs.n_total == int(stated["general:events_total"])
    assert seqs.n_symbols == int(stated["concept:different_names_total"])
    assert seqs.lengths.min() == int(stated["general:events_min"])
    assert seqs.lengths.max() == int(stated["general:events_max"])
    longest = float(re.search(r'meta_time:duration_max" value="([^"]+)', text)[1])
    ends = seqs.times[seqs.offsets[1:] - 1] - seqs.times[seqs.offsets[:-1]]
    assert ends.max() / np.timedelta64(1, "s") == pytest.approx(longest, abs=1)


@needs_logs
def test_the_running_example_is_read_to_its_six_cases():
    seqs = sj.read(LOGS / "running-example.xes")
    text = (LOGS / "running-example.xes").read_text()
    assert (len(seqs), seqs.n_total) == (text.count("<trace>"), text.count("<event>")) == (6, 42)
    assert seqs.n_symbols == 8
    assert seqs[0] == [
        "register request",
        "examine thoroughly",
        "check ticket",
        "decide",
        "reject request",
    ]


@pytest.mark.parametrize("name", ["log.xes", "log.xes.gz"])
def test_cases_events_and_times_are_read(tmp_path, capsys, name):
    path = log(
        tmp_path,
        trace(
            "b", event("pay", "2026-01-01T12:00:00.000+02:00"), event("ask", "2026-01-01T09:30:00Z")
        ),
        trace("a", event("ask"), event("&lt;pay&gt; &#233;")),
        name=name,
    )
    seqs = sj.read(path)
    assert seqs.ids.tolist() == ["a", "b"]
    assert seqs.to_lists() == [["ask", "<pay> é"], ["ask", "pay"]]
    assert seqs.times[2:].astype("M8[m]").astype(str).tolist() == [
        "2026-01-01T09:30",
        "2026-01-01T10:00",
    ]
    assert capsys.readouterr().err == ""  # the names are the standard's: nothing is guessed


def test_other_attributes_can_be_symbols_ids_and_times(tmp_path):
    more = '<string key="org:resource" value="Ann"/>'
    path = log(tmp_path, trace("a", event("x", more=more), event("y")))
    assert sj.read(path, symbol="org:resource").to_lists() == [["Ann", None]]
    assert sj.read(path, id=False).to_lists() == [["x", "y"]]
    with pytest.raises(sj.SojournError, match="symbol='cost', but the file has no such column"):
        sj.read(path, symbol="cost")


def test_a_log_without_times_keeps_its_order(tmp_path):
    plain = '<event><string key="concept:name" value="{}"/></event>'
    path = log(tmp_path, trace("1", plain.format("z"), plain.format("a")))
    seqs = sj.read(path)
    assert seqs.to_lists() == [["z", "a"]]
    assert seqs.times is None


def table(path, kind):
    rows = [
        ("c", "ask", "start", "2026-01-01T00:00:00"),
        ("c", "ask", "complete", "2026-01-01T00:10:00"),
        ("c", "pay", "complete", "2026-01-01T00:20:00"),
    ]
    if kind == "xes":
        return log(path, trace("c", *(event(a, t + "Z", s) for _, a, s, t in rows)))
    names = ["case:concept:name", "concept:name", "lifecycle:transition", "time:timestamp"]
    frame = pd.DataFrame(rows, columns=names)
    made = path / f"log.{kind}"
    if kind == "csv":
        frame.to_csv(made, index=False)
    elif kind == "parquet":
        frame.assign(**{names[3]: pd.to_datetime(frame[names[3]])}).to_parquet(made)
    else:
        frame.to_json(made, orient="records", lines=True)
    return made


@pytest.mark.parametrize("kind", ["xes", "csv", "parquet", "jsonl"])
def test_lifecycle_transitions_are_chosen_or_part_of_the_symbol(tmp_path, kind):
    path = table(tmp_path, kind)
    assert sj.read(path, quiet=True).to_lists() == [["ask", "ask", "pay"]]
    assert sj.read(path, quiet=True, lifecycle="complete").to_lists() == [["ask", "pay"]]
    named = [["ask+start", "ask+complete", "pay+complete"]]
    assert sj.read(path, quiet=True, lifecycle="all").to_lists() == named
    for lifecycle, n in (("all", 3), ("start", 1)):
        (scanned,) = sj.scan(path, quiet=True, lifecycle=lifecycle)
        assert (scanned.n_symbols, scanned.n_total) == (n, n)
    assert sj.read(path, quiet=True, every="5min").to_lists() == [["ask"] * 4 + ["pay"]]


def test_a_table_without_lifecycle_says_so(tmp_path):
    (tmp_path / "a.csv").write_text("id,symbol\n1,a\n")
    with pytest.raises(sj.SojournError, match="lifecycle= needs one column 'lifecycle:transition'"):
        sj.read(tmp_path / "a.csv", lifecycle="complete")


def test_empty_cases_are_malformed_or_empty_sequences(tmp_path):
    path = log(tmp_path, trace("2", event("x")), trace("1"))
    with pytest.raises(sj.SojournError, match="trace '1' is an empty sequence"):
        sj.read(path)
    seqs = sj.read(path, empty=True)
    assert (seqs.ids.tolist(), seqs.to_lists()) == ([1, 2], [[], ["x"]])


def test_batches_join_to_the_same_sequences(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    traces = [
        trace(
            f"case {i}", *(event(str(s)) for s in rng.choice(["x", "y", "z"], rng.integers(1, 9)))
        )
        for i in range(60)
    ]
    path = log(tmp_path, *traces)
    whole = sj.read(path)
    monkeypatch.setattr(xes, "EVENTS_AT_ONCE", 7)
    monkeypatch.setattr("sojourn.io.text.PIECE_BYTES", 100)
    assert sj.read(path).to_lists() == whole.to_lists()
    assert len(whole) == 60


LAUGHS = "".join(f'<!ENTITY a{i + 1} "{f"&a{i};" * 10}">' for i in range(9))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f'<!DOCTYPE log [<!ENTITY a0 "ha">{LAUGHS}]><log>&a9;</log>', "has a document type"),
        ('<!DOCTYPE log SYSTEM "http://localhost:1/x.dtd"><log/>', "has a document type"),
        (
            '<!DOCTYPE l [<!ENTITY x SYSTEM "file:///etc/passwd">]><log>&x;</log>',
            "has a document type",
        ),
        ("<log>&x;</log>", "the XML cannot be read: undefined entity"),
        ("<log><trace>", "the XML cannot be read: no element found: line 1"),
        ("<html><body/></html>", "begins with <html>; expected <log>, as XES does"),
        ("no XML", "the XML cannot be read: syntax error: line 1"),
        ("<log></log>", "has no events; expected a log with at least one"),
        ("<log><trace><event/></trace></log>", "trace 1 has no concept:name"),
        ("<log>" + "<a>" * 200, "nests tags more than 100 deep"),
        ("<log>" + "".join(f"<t{i}/>" for i in range(2000)), "more than 1000 kinds of tags"),
        (
            f"<log>{trace('x', event('a' * 20000))}</log>",
            "line 1 has a name of more than 16,384 characters",
        ),
        ("<log><!--" + "a" * (6 << 20), "begins a tag or comment of more than 4,194,304 bytes"),
        (f'<log a="{"a" * (6 << 20)}', "begins a tag or comment of more than 4,194,304 bytes"),
    ],
    ids=lambda value: value[:20],
)
def test_hostile_and_broken_files_are_refused(tmp_path, text, message):
    path = tmp_path / "bad.xes"
    path.write_text(text)
    with pytest.raises(sj.SojournError, match=re.escape(message)):
        sj.read(path)


def test_a_compressed_bomb_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("sojourn.io.text.FREE_BYTES", 1 << 16)
    path = log(tmp_path, trace("a", event("x"), " " * (1 << 20)), name="bomb.xes.gz")
    with pytest.raises(sj.SojournError, match="over 200 times as many"):
        sj.read(path)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(sj.SojournError, match="cannot be decompressed"):
        sj.read(path, max_expansion=float("inf"))
