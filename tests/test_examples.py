"""The examples of the gallery: each runs unchanged, draws its figures and shows what it claims."""

import os
import runpy
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

GALLERY = Path(__file__).parents[1] / "examples" / "gallery"
RECORDED = Path(os.environ.get("SOJOURN_DATA", "")) / "finch4.csv"


@pytest.fixture
def run(monkeypatch):
    """Run an example; its variables, and how many figures it showed."""

    def call(name):
        figures = []

        def show():
            for number in plt.get_fignums():
                figure = plt.figure(number)
                figure.canvas.draw()
                figures.append(figure)
            plt.close("all")

        plt.close("all")  # figures that other tests left open are not of the example
        monkeypatch.setattr(plt, "show", show)
        left = runpy.run_path(str(GALLERY / f"{name}.py"))
        assert not plt.get_fignums(), "a figure was made and not shown"
        for figure in figures:
            for ax in figure.axes:
                assert ax.get_xlabel() or ax.get_ylabel() or ax.get_label() == "<colorbar>"
        return left, len(figures)

    yield call
    plt.close("all")


def test_every_example_has_a_test():
    tested = {name[5:] for name in globals() if name.startswith("test_plot_")}
    assert tested == {path.stem for path in GALLERY.glob("plot_*.py")}


def test_plot_01_flights(run):
    left, figures = run("plot_01_flights")
    assert figures == 2
    assert left["auc"] > 0.95
    alarms, abnormal = left["alarms"], left["abnormal"]
    assert alarms[abnormal].mean() > 0.8
    assert alarms[~abnormal].mean() < 0.15  # 5 % of 28 flights are meant; 4 or fewer pass
    assert left["why"].pvalue == pytest.approx(1 / (len(left["training"]) + 1))


@pytest.mark.parametrize("source", ["simulated", "recorded"])
def test_plot_02_bird_song(run, source, monkeypatch, capsys):
    if source == "simulated":
        monkeypatch.delenv("SOJOURN_DATA", raising=False)
    elif not RECORDED.is_file():
        pytest.skip("SOJOURN_DATA names no folder with finch4.csv")
    left, figures = run("plot_02_bird_song")
    assert figures == 1
    assert f"{source} songs" in capsys.readouterr().out
    assert left["perplexity"]["free"] < left["perplexity"]["geometric"] - 0.02
    assert left["distance"]["free"] < 0.5 * left["distance"]["geometric"]


def test_plot_03_machine_log(run):
    left, figures = run("plot_03_machine_log")
    assert figures == 2
    plain, likelihood, residuals = (
        {fault: left["auc"][way, fault] for fault in left["FAULTS"]} for way in left["WAYS"]
    )
    assert min(residuals.values()) > 0.95
    for fault in ("long press", "short cooling", "arm retries"):
        assert plain[fault] < 0.7
        assert plain[fault] + 0.1 < likelihood[fault] < residuals[fault]
    assert min(plain["heater flicker"], likelihood["heater flicker"]) > 0.95
    assert any(reason.kind == "stay" for reason in left["why"].reasons)


def test_plot_04_smart_home(run):
    left, figures = run("plot_04_smart_home")
    assert figures == 2
    assert left["agreement"] > 0.9
    assert left["right"] > 0.95
    assert left["error"] < 1.0  # hours, of a night of more than seven
    assert left["expected"][5] > left["expected"][-5] + 4


def test_plot_11_choosing_sizes(run):
    left, figures = run("plot_11_choosing_sizes")
    assert figures == 1
    assert left["enough"] == left["best"].n_states == left["machine"].n_states
    score = {(size.n_states, size.max_duration): size.score for size in left["found"].sizes}
    assert all(score[n, 20] > score[n, 1] + 0.03 for n in (3, 4, 6))
    assert score[4, 20] - score[3, 20] > 0.04  # several standard errors


def test_plot_12_streaming(run):
    left, figures = run("plot_12_streaming")
    assert figures == 1
    assert left["alarms"] > 0.8
    assert left["false_alarms"] < 0.35  # 13 % of 40 are meant; training on 108,470 steps is little
    assert left["holding"][0] < left["alarm"] < left["holding"][-1]
    assert left["same"]


def test_plot_05_sensors(run):
    left, figures = run("plot_05_sensors")
    assert figures == 1
    assert left["right"] > 0.98
    assert left["why"].pvalue < 0.05
    assert left["why"].reasons[0].text.startswith("knocks is ")


def test_plot_06_motions(run):
    pytest.importorskip("aeon")
    left, figures = run("plot_06_motions")
    assert figures == 2
    ours, theirs = zip(*left["auc"].values(), strict=True)
    assert min(ours) > 0.7
    assert sum(ours) / 4 > sum(theirs) / 4 + 0.1


def test_plot_07_vowels(run):
    pytest.importorskip("aeon")
    left, figures = run("plot_07_vowels")
    assert figures == 2
    assert left["accuracy"] > 0.95


def test_plot_13_power(run):
    pytest.importorskip("aeon")
    left, figures = run("plot_13_power")
    assert figures == 1
    assert all(ours > theirs for ours, theirs in left["auc"].values())


def test_plot_08_process_log(run):
    left, figures = run("plot_08_process_log")
    assert figures == 1
    assert left["error"] < 0.8 * left["plain"]
    assert 0.72 < left["covered"] < 0.88  # 80 % are meant


def test_plot_09_turbofans(run):
    left, figures = run("plot_09_turbofans")
    assert figures == 2
    assert left["error"] < 0.8 * left["without"]
    assert 0.65 < left["covered"] <= 0.95  # 80 % of 40 are meant, give or take twice the error


def test_plot_10_contexts(run):
    left, figures = run("plot_10_contexts")
    assert figures == 2
    assert left["perplexity"] < left["ngrams"][left["best"]] - 0.05
