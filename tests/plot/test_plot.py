"""Figures: on the axes given, with what was asked for, and clear refusals."""

import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

import sojourn as sj
from sojourn import plot
from sojourn.plot.base import PALETTE, color_of

P = sj.Params.random(3, 5, 4, rng=0)
DATA = P.sample(60, 40, rng=1)
HSMM = sj.HSMM(3, 5).fit(DATA)
SPECTRAL = sj.SpectralHSMM(2, 2).fit(DATA)
SCORES = np.linspace(-3, -1, 20)
BAD = np.arange(20) < 5


FIGURES = {
    "durations": lambda ax: plot.durations(HSMM, ax=ax),
    "one duration": lambda ax: plot.durations(HSMM, 2, ax=ax),
    "emissions": lambda ax: plot.emissions(HSMM, ax=ax),
    "transitions": lambda ax: plot.transitions(HSMM, ax=ax),
    "spectrum": lambda ax: plot.spectrum(SPECTRAL, ax=ax),
    "ranks": lambda ax: plot.ranks(SPECTRAL, ax=ax),
    "scores": lambda ax: plot.scores(SCORES, BAD, -2.0, ax=ax),
    "roc": lambda ax: plot.roc(SCORES, BAD, ["a", "b"] * 10, ax=ax),
    "precision_recall": lambda ax: plot.precision_recall(SCORES, BAD, ax=ax),
    "timeline": lambda ax: plot.timeline(HSMM, DATA, 3, marks=[1, 5], ax=ax),
    "timeline without states": lambda ax: plot.timeline(SPECTRAL, DATA, -1, ax=ax),
}


def test_colours_repeat_after_ten_states():
    assert color_of(0) == color_of(10) == PALETTE[0]


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_is_drawn_on_the_axes_given(name):
    figure = Figure()
    ax = figure.subplots()
    assert FIGURES[name](ax) is ax
    figure.draw_without_rendering()
    assert ax.has_data() or ax.patches


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_makes_axes_where_none_are_given(name):
    ax = FIGURES[name](None)
    assert ax.figure.number in plt.get_fignums()
    plt.close(ax.figure)


def test_durations_are_the_tables_of_the_model():
    ax = plot.durations(HSMM, 1, ax=Figure().subplots())
    shown = ax.patches[0].get_data().values
    assert np.array_equal(shown[:4], HSMM.params_.duration[1, :4])
    last, tail = HSMM.params_.duration[1, 4], HSMM.params_.tail[1]
    assert np.allclose(shown[4:], last * (1 - tail) * tail ** np.arange(len(shown) - 4))
    assert shown.sum() >= 0.95  # further stays are left out


def test_arrows_are_the_transitions_that_are_not_rare():
    ax = plot.transitions(HSMM, least=0.3, ax=Figure().subplots())
    arrows = {patch.get_gid() for patch in ax.patches} - {None}
    assert arrows == {f"{i}-{j}" for i, j in np.argwhere(HSMM.params_.transition >= 0.3)}


def test_occupancy_is_the_share_of_the_data():
    share = np.concatenate(HSMM.predict_proba(DATA)).mean(axis=0)
    bars = [bar.get_width() for bar in plot.occupancy(HSMM).patches]
    assert np.allclose(bars, share, atol=1e-9)  # sums of the same numbers


def test_scores_far_below_the_others_are_counted_in_the_first_bar():
    values = np.r_[-1e6, -np.inf, np.linspace(-2, -1, 50)]
    ax = plot.scores(values, ax=Figure().subplots())
    assert "the first bar holds 2 scores" in ax.get_title(loc="left")
    assert sum(patch.get_height() for patch in ax.patches) == 52


def test_curves_of_the_kinds_and_of_all():
    kinds = np.where(BAD, np.arange(20).astype(str), "normal")
    kinds[:5] = ["x", "x", "y", "y", "y"]
    ax = plot.roc(SCORES, BAD, kinds, ax=Figure().subplots())
    assert ax.get_legend_handles_labels()[1] == ["y: AUC 1.00", "x: AUC 1.00", "all: AUC 1.00"]


def test_a_dollar_sign_in_a_name_is_a_dollar_sign():
    name = r"$\frac{$"  # as a formula it would be an error
    seqs = sj.Sequences.from_lists([[name, "b"] * 20] * 20)
    model = sj.HSMM(2, 2, max_iter=1).fit(seqs, seqs.to_lists())
    for draw in (plot.durations, plot.emissions, plot.occupancy, plot.transitions):
        figure = Figure()
        draw(model, ax=figure.subplots())
        figure.draw_without_rendering()
    figure = Figure()
    ax = plot.timeline(model, seqs, ax=figure.subplots())
    figure.draw_without_rendering()
    assert [label.get_text() for label in ax.get_yticklabels()][:2] == [name, "b"]


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: plot.durations(SPECTRAL), "a SpectralHSMM has no states to show"),
        (lambda: plot.spectrum(HSMM), "a HSMM has no singular values"),
        (lambda: plot.durations(HSMM, 3), "state is 3; the model has states 0 … 2"),
        (lambda: plot.roc([1.0, 2.0], [True, True]), "all 2 labels are abnormal"),
        (lambda: plot.precision_recall([1.0, 2.0], np.zeros(2, bool)), "all 2 labels are normal"),
        (lambda: plot.scores([1.0, np.nan]), "or NaN"),
        (lambda: plot.roc([1.0, 2.0], [1, 0]), "2 times True or False"),
        (lambda: plot.timeline(HSMM, DATA, 60), "index is 60; there are 60 sequences"),
    ],
)
def test_refusals(draw, message):
    with pytest.raises(sj.SojournError, match=message):
        draw()
    plt.close("all")


def test_a_timeline_of_a_model_of_ends_is_as_long_as_the_sequence():
    seqs = [["a", "b", "b"], ["a", "b"]] * 10
    ax = plot.timeline(sj.ContextTree(ends=True).fit(seqs), seqs)
    assert ax.get_xlim() == (0, 3)
