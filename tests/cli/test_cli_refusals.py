"""What the command line refuses before it does harm, and what it says of it."""

import csv
import os
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

import sojourn as sj
from sojourn import cli

P = sj.Params.random(3, 5, 4, rng=0)
COLUMNS = ["--id", "case", "--time", "when", "--symbol", "what", "-q"]
SIZES = ["--states", "2", "--max-duration", "3", "--max-iter", "3", "--seed", "0", *COLUMNS]


def write_log(path, n, seed):
    """Events at random times, about half an hour apart."""
    gaps = np.random.default_rng(seed).exponential(1800, (n, 30)).astype(int) + 1
    with open(path, "w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["case", "when", "what"])
        for i, (codes, times) in enumerate(zip(P.sample(n, 30, rng=seed), gaps, strict=True)):
            when = datetime(2024, 1, 1)
            for code, gap in zip(codes, times.tolist(), strict=True):
                when += timedelta(seconds=gap)
                rows.writerow([f"{i:04d}", when.isoformat(" "), f"ev{code}"])


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A log; models of its events and of its hours; page names beside them."""
    folder = tmp_path_factory.mktemp("refusals")
    write_log(folder / "tr.csv", 40, 1)
    write_log(folder / "te.csv", 20, 2)
    log = str(folder / "tr.csv")
    assert cli.run(["fit", log, *SIZES, "-o", str(folder / "events.sj")]) == 0
    assert cli.run(["fit", log, *SIZES, "--ends", "--every", "1h", "-o", str(folder / "e.sj")]) == 0
    return folder


@pytest.fixture
def here(made, tmp_path, monkeypatch):
    """A copy of these files, in the folder at work."""
    for path in made.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    monkeypatch.chdir(tmp_path)
    return tmp_path


def said(capsys, *args, code=1) -> str:
    """Standard error of a command that ends with this code, as one line."""
    assert cli.run([*map(str, args)]) == code
    return " ".join(capsys.readouterr().err.replace("│", " ").split())


@pytest.mark.parametrize(
    "args",
    [
        ("fit", "tr.csv", *SIZES, "-o", "tr.csv"),
        ("fit", "tr.csv", *SIZES, "-o", "./tr.csv"),
        ("fit", "tr.csv", *SIZES, "-o", "link.csv"),
        ("fit", "t*.csv", *SIZES, "--scan", "-o", "tr.csv"),
        ("fit", "tr.csv", *SIZES, "--checkpoint", "tr.csv", "-o", "m.sj"),
        ("score", "e.sj", "te.csv", "-o", "e.sj", "--format", "csv"),
        ("score", "e.sj", "te.csv", "-o", "te.csv"),
        ("convert", "te.csv", "tr.csv", *COLUMNS, "-o", "tr.csv"),
        ("detect", "events.sj", "te.csv", "--normal", "tr.csv", "-o", "tr.csv"),
        ("forecast", "e.sj", "te.csv", "--remaining", "--held-out", "tr.csv", "-o", "tr.csv"),
        ("report", "e.sj", "page.html", "-o", "page.html"),
        ("sample", "e.sj", "-o", "e.sj", "--format", "csv"),
    ],
)
def test_no_output_is_a_file_that_is_read(args, here, capsys):
    os.symlink("tr.csv", "link.csv")
    Path("page.html").write_text("case,what\na,ev1\n")
    before = {path.name: path.read_bytes() for path in here.iterdir()}
    assert "which is read; give another file" in said(capsys, *args, code=2)
    assert {path.name: path.read_bytes() for path in here.iterdir()} == before


def test_a_report_is_not_written_to_a_table(here, capsys):
    error = said(capsys, "report", "e.sj", "te.csv", "-o", "page.csv", code=2)
    assert "page.csv ends in .csv; expected .html or .htm" in error


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (
            ("forecast", "e.sj", "te.csv", "--every", "2h"),
            "counts steps of 1h, and the options ask",
        ),
        (("score", "e.sj", "te.csv", "--every", "2h"), "ask for steps of 2h; leave out --every"),
        (("score", "e.sj", "te.csv", "--every", "2h", "--scan"), "leave out --every"),
        (("detect", "events.sj", "te.csv", "--normal", "tr.csv", "--every", "1h"), "out --every"),
        (("report", "events.sj", "te.csv", "--gaps", "1h", "-o", "p.html"), "leave out --gaps"),
    ],
)
def test_a_clock_that_is_not_the_models_is_refused(args, words, here, capsys):
    assert words in said(capsys, *args, "-q")


def test_the_models_own_clock_may_be_named(here, capsys):
    said(capsys, "score", "e.sj", "te.csv", "--every", "60min", "--max-gap", "6h", code=0)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--fill", "nothing"], "--fill needs --every"),
        (["--max-gap", "1h"], "--max-gap needs --every"),
        (["--gaps", "1h", "--fill", "hold"], "--fill needs --every"),
        (["--zone", "Europe/Amsterdam"], "--zone needs --every or --gaps"),
    ],
)
def test_options_of_a_clock_are_not_ignored(options, words, here, capsys):
    for args in (["score", "e.sj", "te.csv"], ["fit", "te.csv", "-o", "m"], ["convert", "te.csv"]):
        assert words in said(capsys, *args, *options, code=2)
    numbered = Path("n.csv")
    numbered.write_text("id,time,symbol\na,1,x\na,9,y\n")
    zoned = ["--every", "2", "--zone", "Europe/Amsterdam", "-q"]
    assert "--zone is for dates" in said(capsys, "convert", numbered, *zoned)


def test_info_shows_the_clock_the_ends_and_the_columns_of_a_model(here, capsys):
    assert cli.run(["info", "e.sj", "--format", "csv"]) == 0
    facts = dict(csv.reader(capsys.readouterr().out.splitlines()))
    assert facts["clock"] == "steps of 1h"
    assert facts["ends"] == "True"
    assert facts["columns"] == "id case, time when, symbol what"
    assert cli.run(["info", "events.sj", "--format", "csv"]) == 0
    facts = dict(csv.reader(capsys.readouterr().out.splitlines()))
    assert "clock" not in facts
    assert facts["ends"] == "False"


def test_a_stream_says_once_that_lines_are_steps_of_the_clock(here, capsys, stdin):
    stdin(b"ev1\nev2\n")
    error = said(capsys, "stream", "e.sj", code=0)
    assert error == "sojourn: the model counts steps of 1h: each line is one step, not one event"
    stdin(b"ev1\n")
    assert said(capsys, "stream", "events.sj", code=0) == ""


def test_no_alarms_at_a_rate_of_nothing(here, capsys, stdin):
    sj.AnomalyDetector(sj.HSMM(1, 2, max_iter=2), cv=2).fit(P.sample(20, 9, rng=0)).save("d.sj")
    stdin(b"1\n")
    assert "--alarm is 0" in said(capsys, "stream", "d.sj", "--alarm", 0)


def test_messages_name_what_there_is_on_the_command_line(here, capsys, stdin):
    Path("new.csv").write_text("case,when,what\na,2024-01-01,never\n")
    Path("gone.csv").write_text("case,when,what\na,2024-01-01,\na,2024-01-02,\n")
    Path("one.csv").write_text("case,when,what\na,2024-01-01,ev1\n")
    Path("t.tsv").write_text("case\twhen\twhat\na\t2024-01-01\tev1\n")
    Path("unit.csv").write_text("unit,speed,temp\na,1.5,2.5\na,1.7,2.7\n")
    for args, words, without in [
        (("report", "e.sj", "te.csv", "--labels", "nope", "-o", "p.html"), "--labels nope", ""),
        (("forecast", "e.sj", "te.csv", "--time-to", "nope"), "--time-to is 'nope'", "symbol is"),
        (("score", "e.sj", "new.csv"), "--unknown missing", "lists"),
        (("fit", "gone.csv", *COLUMNS, "-o", "m"), "every symbol is missing", "vocabulary"),
        (("fit", "one.csv", *COLUMNS, "-o", "m"), "--states and --max-duration", "cv"),
        (("score", "events.sj", "t.tsv", "tr.csv"), "files read together need one delim", "are 0"),
        (("convert", "unit.csv", "--values", "speed,temp", "--id", "x"), "--id", "'x' one of"),
    ]:
        error = said(capsys, *args)
        assert words in error
        assert not without or without not in error
    stdin(b"")
    assert said(capsys, "score", "e.sj", "-").startswith("sojourn: standard input is empty")
    assert "--number" not in said(capsys, "sample", "e.sj", "-n", 0, code=2)


def test_no_column_of_values_is_offered_as_an_id(here, capsys):
    Path("unit.csv").write_text("machine_name,speed,temp\na,1.5,2.5\na,1.7,2.7\n")
    error = said(capsys, "convert", "unit.csv", "--values", "speed,temp")
    assert "give --id one of 'machine_name', or --no-id" in error


def test_conversion_keeps_the_times(here, capsys):
    said(capsys, "convert", "te.csv", *COLUMNS, "-o", "long.csv", code=0)
    before = sj.read("te.csv", id="case", time="when", symbol="what", every="1h")
    after = sj.read("long.csv", time="time", quiet=True, every="1h")
    assert after.to_lists() == before.to_lists()
    assert (after.times == before.times).all()


def test_dates_with_and_without_an_offset_are_not_mixed_without_a_word(here, capsys):
    Path("mixed.csv").write_text(
        "case,when,what\na,2024-01-01T10:00:00Z,x\na,2024-01-01T11:00:00,y\n", "utf-8"
    )
    error = said(capsys, "convert", "mixed.csv", *COLUMNS, code=0)
    assert "those without are taken as UTC" in error
    Path("mixed.csv").write_text(
        "case,when,what\na,2024-01-01T10:00:00Z,x\na,2024-01-01T11:00:00+02:00,y\n", "utf-8"
    )
    assert said(capsys, "convert", "mixed.csv", *COLUMNS, code=0) == ""
