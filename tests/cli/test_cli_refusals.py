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
