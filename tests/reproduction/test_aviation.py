"""The aviation experiment, end to end in its quick form, and on recordings of your own."""

import csv
import xml.etree.ElementTree as ET

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from reproduction import aviation, aviation_page
from reproduction.__main__ import run
from reproduction.aviation import QUICK, SIZES, Plan, auc, cells
from reproduction.flights import recorded, simulated
from sojourn import SojournError

FIGURES = ("likelihoods", "roc", "auc")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What ``python -m reproduction aviation --quick`` leaves behind."""
    folder = tmp_path_factory.mktemp("aviation")
    assert run(["aviation", "--quick", "--jobs", "1", "-o", str(folder)]) == 0
    return folder


def table(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_the_folder_holds_figures_numbers_and_a_page(folder):
    for name in FIGURES:
        assert ET.parse(folder / f"{name}.svg").getroot().tag.endswith("svg")
        assert (folder / f"{name}.png").read_bytes()[:4] == b"\x89PNG"
    page = (folder / "index.html").read_text("utf-8")
    assert page.count("data:image/svg+xml;base64,") == len(FIGURES)
    assert page.count('class="verdict') == 3
    for number in ("0.91", "0.72", "6.8 h", "2 days"):  # the paper's stand beside ours
        assert number in page
    rows = table(folder / "runs.csv")
    assert len(rows) == len(aviation.TITLES) * len(SIZES) == len(cells(QUICK))
    assert len(table(folder / "scores.csv")) == len(rows) * 2 * QUICK.test
    assert [row["size"] for row in table(folder / "differences.csv")] == [
        "8 40",
        "7 30",
        "6 20",
        "5 10",
    ]


def test_effects_have_the_direction_that_the_full_run_finds(folder):
    rows = {(row["method"], row["size"]): row for row in table(folder / "runs.csv")}
    for size in ("8 40", "7 30", "6 20", "5 10"):
        for method in aviation.TITLES:
            assert 0.65 < float(rows[method, size]["auc"]) <= 1  # 0.5 is chance
        # Flights are no HSMM of these sizes: the spectral model predicts better, by 0.09 or more.
        spectral, em = (float(rows[m, size]["heldout"]) for m in ("spectral", "em"))
        assert spectral > em + 0.03


def test_a_second_run_measures_nothing(folder, monkeypatch):
    plan = Plan(**{**vars(QUICK), "n_jobs": 1})
    monkeypatch.setattr(aviation_page, "measurer", lambda plan: pytest.fail)
    before = (folder / "index.html").read_bytes()
    aviation_page.reproduce_aviation(folder, plan)
    assert (folder / "index.html").read_bytes() == before


def test_plans_are_the_papers_by_default():
    asked = [cell.asked for cell in cells(Plan())]
    assert {tuple(a["size"]) for a in asked} == {(8, 40), (7, 30), (6, 20), (5, 10)}
    assert {(a["flights"], a["test"]) for a in asked} == {(10_020, 100)}
    assert {a["set"] for a in (c.asked for c in cells(Plan(sets=5)))} == set(range(5))


def test_auc_counts_pairs_and_puts_impossible_flights_lowest():
    normal, abnormal = np.array([-1.0, -2.0, -2.5]), np.array([-3.0, -1.5, -np.inf])
    pairs = np.mean(abnormal[:, None] < normal)
    assert auc(normal, abnormal) == pytest.approx(pairs)


def test_the_interval_is_students():
    aucs = [(0.90, 0.88), (0.85, 0.86), (0.91, 0.87)]
    rows = [
        {"method": method, "size": [8, 40], "set": i, "auc": value}
        for i, pair in enumerate(aucs)
        for method, value in zip(("spectral", "em"), pair, strict=True)
    ]
    found = aviation_page._difference(rows, (8, 40))
    d = np.array([0.02, -0.01, 0.04])
    assert found["difference"] == pytest.approx(d.mean())
    half = 4.302653 * d.std(ddof=1) / np.sqrt(3)  # 97.5 % point of Student's t with 2 degrees
    assert found["high"] - found["difference"] == pytest.approx(half, rel=1e-6)


def recordings(folder, seed=0):
    """Controls that change now and then; in abnormal flights six times as often."""
    rng = np.random.default_rng(seed)
    for part, n, busy in (("train", 30, 1), ("normal", 10, 1), ("abnormal", 10, 6)):
        steps = 120
        turns = rng.random((n * steps, 3)) < np.array([0.05, 0.08, 0.1]) * busy
        columns = {
            "flight": np.repeat([f"{part}{i}" for i in range(n)], steps),
            "time": np.tile(np.arange(steps), n),
            **{f"knob{c}": np.cumsum(turns[:, c]) for c in range(3)},
        }
        yield part, pa.table(columns)


def write_recordings(folder, form):
    """Recordings as CSV files, as Parquet files, or as folders with one file of each."""
    folder.mkdir()
    for part, flights in recordings(folder):
        if form == "csv":
            pa_csv.write_csv(flights, folder / f"{part}.csv")
        elif form == "parquet":
            pq.write_table(flights, folder / f"{part}.parquet")
        else:
            (folder / part).mkdir()
            half = flights.num_rows // 240 * 120
            pq.write_table(flights.slice(0, half), folder / part / "a.parquet")
            pa_csv.write_csv(flights.slice(half), folder / part / "b.csv")
    return folder


def test_own_recordings_replace_simulated_flights(tmp_path):
    data = write_recordings(tmp_path / "data", "folder")
    plan = Plan(data=str(data), sizes=((2, 3),), iterations=3, detector_flights=30, n_jobs=1)
    page = aviation_page.reproduce_aviation(tmp_path / "out", plan)
    assert "recordings" in page.read_text("utf-8")
    rows = {row["method"]: row for row in table(tmp_path / "out/runs.csv")}
    assert float(rows["spectral"]["auc"]) > 0.9
    assert float(rows["detector"]["auc"]) > 0.9


def test_recordings_are_the_same_flights_in_every_form(tmp_path):
    found = [recorded(write_recordings(tmp_path / f, f)) for f in ("csv", "parquet", "folder")]
    for flights in found:
        assert (len(flights.train), len(flights.normal), len(flights.abnormal)) == (30, 10, 10)
        assert flights.train.vocabulary.tolist() == ["knob0", "knob1", "knob2"]
    assert len({flights.fingerprint for flights in found}) == 1


def test_other_recordings_are_other_cells(tmp_path):
    names = []
    for seed in (0, 1):
        folder = tmp_path / str(seed)
        folder.mkdir()
        for part, flights in recordings(tmp_path, seed):
            pq.write_table(flights, folder / f"{part}.parquet")
        names.append({cell.file_name for cell in cells(Plan(data=str(folder)))})
    assert not names[0] & names[1]


def test_faulty_recordings_are_named(tmp_path, capsys):
    with pytest.raises(SojournError, match=r"no train\.parquet, train\.csv or folder train"):
        recorded(tmp_path)
    pq.write_table(pa.table({"tail": [1], "knob": [2]}), tmp_path / "train.parquet")
    assert run(["aviation", "--data", str(tmp_path), "-o", str(tmp_path)]) == 1
    assert "has no column 'flight'" in capsys.readouterr().err
    (tmp_path / "train.parquet").write_bytes(b"no table")
    with pytest.raises(SojournError, match="cannot be read"):
        recorded(tmp_path)


def test_simulated_sets_differ_and_are_the_same_each_time():
    a, again, b = simulated(20, 10, 0), simulated(20, 10, 0), simulated(20, 10, 1)
    assert a.fingerprint == again.fingerprint != b.fingerprint
    assert not np.array_equal(a.train.codes[:500], a.normal.codes[:500])
