"""The synthetic experiment, end to end in its quick form; and a grid that can be continued."""

import csv
import io
import json
import sys
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from reproduction import synthetic, synthetic_page
from reproduction.__main__ import run
from reproduction.grid import Cell, run_grid
from reproduction.page import Page
from reproduction.synthetic import METHODS, QUICK, Plan, cells, linear_fits

FIGURES = ("error-by-iteration", "error-by-training", "time", "error-and-time")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What ``python -m reproduction synthetic --quick`` leaves behind."""
    folder = tmp_path_factory.mktemp("synthetic")
    assert run(["synthetic", "--quick", "-o", str(folder)]) == 0
    return folder


def table(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def medians(folder):
    """Median error by size, method and N."""
    return {
        (row["size"], row["method"], int(row["n"])): float(row["median"])
        for row in table(folder / "errors.csv")
    }


def test_the_folder_holds_figures_numbers_and_a_page(folder):
    for name in FIGURES:
        assert ET.parse(folder / f"{name}.svg").getroot().tag.endswith("svg")
        assert (folder / f"{name}.png").read_bytes()[:4] == b"\x89PNG"
    page = (folder / "index.html").read_text("utf-8")
    assert page.count("data:image/svg+xml;base64,") == len(FIGURES)
    assert 'src="http' not in page  # it needs no other file
    assert "href" not in page
    assert page.count('class="verdict') == 5


def test_every_cell_of_the_plan_is_in_the_table(folder):
    rows = table(folder / "runs.csv")
    expected = cells(QUICK)
    assert len(rows) == len(expected) == len(list((folder / "cells").glob("*.json")))
    found = {(r["method"], r["size"], int(r["n"]), int(r["run"])) for r in rows}
    asked = [cell.asked for cell in expected]
    assert found == {(a["method"], " ".join(map(str, a["size"])), a["n"], a["run"]) for a in asked}
    assert all(float(r["rmse"]) > 0 and 0 <= float(r["seconds"]) < 1000 for r in rows)
    ems = [row for row in rows if row["method"] == "em"]
    assert all(1 <= float(row["passes"]) <= QUICK.iterations for row in ems)
    steps = table(folder / "iterations.csv")
    assert {row["method"] for row in steps} == {"em", "bound"}


def test_effects_have_the_direction_that_the_full_run_finds(folder):
    # Each holds by a factor of 1.2 or more at these seeds.
    found = medians(folder)
    for size in ("3 2 2", "5 4 6"):
        for method in ("pooled", "spectral"):
            assert found[size, method, 2000] < found[size, method, 200] / 1.2
        assert found[size, "hsmm", 200] < found[size, "spectral", 200] / 1.2
        assert found[size, "hsmm", 200] < 1.5 * found[size, "bound", 200]
        assert found[size, "spectral", 2000] < found[size, "pooled", 2000] / 1.2
    # At (3, 2, 2) two windows of two symbols say it all, and 200 sequences are few for contexts.
    assert found["5 4 6", "spectral", 200] < found["5 4 6", "pooled", 200] / 1.2
    assert found["5 4 6", "pooled", 2000] > 2 * found["3 2 2", "pooled", 2000]


def test_linear_windows_equal_theorem_1s_where_two_symbols_are_enough(folder):
    found = medians(folder)
    for n in QUICK.training:
        assert found["3 2 2", "linear", n] == found["3 2 2", "pooled", n]
    assert not linear_fits((5, 4, 6))
    assert ("5 4 6", "linear", 200) not in found


def test_a_second_run_measures_nothing_and_writes_the_same(folder, monkeypatch):
    before = {p.name: p.read_bytes() for p in folder.iterdir() if p.is_file()}
    monkeypatch.setattr(synthetic_page, "measure", lambda asked: pytest.fail("measured again"))
    synthetic_page.reproduce_synthetic(folder, QUICK)
    assert {p.name: p.read_bytes() for p in folder.iterdir() if p.is_file()} == before


def test_plans_are_the_papers_by_default():
    asked = [cell.asked for cell in cells(Plan())]
    assert {a["run"] for a in asked} == set(range(100))
    assert {a["n"] for a in asked} == {500, 1000, 5000, 10_000, 100_000}
    assert {tuple(a["size"]) for a in asked} == {(3, 2, 2), (5, 4, 6)}
    assert {a["test"] for a in asked} == {1000}
    capped = [cell.asked for cell in cells(Plan(runs=1, most_for_em=1000))]
    iterative = {method.name for method in METHODS if method.iterative}
    assert max(a["n"] for a in capped if a["method"] in iterative) == 1000


def test_rmse_is_of_likelihoods_and_a_zero_counts_as_an_error_of_one():
    true = np.log([0.1, 0.2])
    assert synthetic.rmse(true, true) == 0
    assert synthetic.rmse(np.array([-np.inf, np.log(0.2)]), true) == pytest.approx(np.sqrt(0.5))
    assert np.isfinite(synthetic.rmse(true + 1e4, true))


def test_claims_are_judged_by_the_medians():
    def rows(errors, seconds):
        return [
            {"size": list(size), "method": m, "n": n, "run": 0, "rmse": e, "seconds": seconds[m]}
            for size in synthetic.SIZES
            for (m, n), e in errors.items()
        ]

    seconds = {"pooled": 0.1, "spectral": 0.2, "em": 100.0}
    errors = {("pooled", 500): 0.5, ("pooled", 5000): 0.1, ("em", 500): 0.2, ("em", 5000): 0.2}
    errors |= {("spectral", n): errors["pooled", n] for n in (500, 5000)}
    plan = Plan(runs=1, training=(500, 5000))
    summary = synthetic.summarise(rows(errors, seconds))
    paper = synthetic_page.claims(summary, plan)
    assert [claim.agrees for claim in paper] == [True, True, True, False, True]
    errors |= {("pooled", 5000): 0.6, ("em", 500): 0.7}
    summary = synthetic.summarise(rows(errors, {**seconds, "em": 1.0}))
    other = synthetic_page.claims(summary, plan)
    assert [claim.agrees for claim in other] == [False, False, False, False, False]
    without = synthetic.summarise([row for row in rows(errors, seconds) if row["method"] != "em"])
    assert [c.agrees for c in synthetic_page.claims(without, plan)][1:3] == [None, None]


def test_a_stopped_grid_continues_with_the_cells_that_are_left(tmp_path):
    asked = []

    def measure(question):
        if len(asked) == 2:
            raise KeyboardInterrupt
        asked.append(question["n"])
        return {"twice": 2 * question["n"]}

    grid = [Cell({"method": "a", "n": n}) for n in range(4)]
    with pytest.raises(KeyboardInterrupt):
        run_grid(grid, measure, tmp_path)
    asked.clear()
    rows = run_grid(grid, lambda q: asked.append(q["n"]) or {"twice": 2 * q["n"]}, tmp_path)
    assert asked == [2, 3]
    assert [row["twice"] for row in rows] == [0, 2, 4, 6]


@pytest.mark.parametrize("content", ["", "[]", '{"asked": {"n": 2}, "result": {"x": 9}}'])
def test_a_file_that_answers_another_question_is_measured_again(tmp_path, content):
    cell = Cell({"n": 1})
    (tmp_path / cell.file_name).write_text(content)
    assert run_grid([cell], lambda _: {"x": 1}, tmp_path) == [{"n": 1, "x": 1}]
    assert json.loads((tmp_path / cell.file_name).read_text())["result"] == {"x": 1}
    assert len(list(tmp_path.iterdir())) == 1  # no draft is left


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_is_shown_on_a_terminal_only(tmp_path, monkeypatch, terminal):
    screen = io.StringIO()
    screen.isatty = lambda: terminal
    monkeypatch.setattr(sys, "stderr", screen)
    run_grid([Cell({"method": "em", "n": n}) for n in (1, 2)], lambda _: {}, tmp_path)
    assert ("2/2: em 2" in screen.getvalue()) == terminal
    assert terminal or not screen.getvalue()


def test_a_page_shows_names_as_text(tmp_path):
    page = Page("<b>&", "<script>", {"a": "<i>"}).save(tmp_path)
    text = page.read_text("utf-8")
    assert "<script>" not in text
    assert "<i>" not in text
    assert "&lt;script&gt;" in text
