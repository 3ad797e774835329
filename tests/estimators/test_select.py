"""`select` and the sizes called "auto"."""

import numpy as np
import pytest

from sojourn import HSMM, Params, SojournError, select
from sojourn.em.durations import n_parameters
from sojourn.em.sizes import Selection, Size


def stays_of_four() -> Params:
    """Two states that last just four steps: no HMM of two states can say so."""
    duration = [[0, 0, 0, 1, 0], [0, 0, 0, 1, 0]]
    return Params([0.5, 0.5], [[0, 1], [1, 0]], duration, [[0.9, 0.1], [0.1, 0.9]])


DATA = stays_of_four().sample(60, 60, rng=0)


def test_the_true_size_is_found_by_what_is_left_out():
    found = select(DATA, n_states=[1, 2], max_duration=[1, 2, 5], cv=3)
    assert (found.n_states, found.max_duration) == (2, 5)
    assert len(found.sizes) == 6
    best = found.best
    assert best.score > max(s.score for s in found.sizes if s is not best) + 0.05


def test_the_table_marks_the_best():
    sizes = (Size(1, 1, -1.0, 0.1, 0.5), Size(2, 3, -0.5, 0.1, 0.5))
    lines = str(Selection(sizes)).splitlines()
    assert lines[-1].endswith("<- best")
    assert "-0.50000" in lines[-1]
    assert not lines[1].endswith("best")


def test_of_equal_scores_the_smaller_size_is_chosen():
    sizes = (Size(3, 2, -0.5, 0, 0), Size(2, 4, -0.5, 0, 0), Size(2, 3, -0.5, 0, 0))
    assert (Selection(sizes).n_states, Selection(sizes).max_duration) == (2, 3)


def test_auto_sizes_are_chosen_in_the_fit():
    model = HSMM("auto", 5, init="moments", max_iter=30).fit(DATA)
    assert model.params_.n_states >= 2
    model = HSMM(2, "auto", init="moments", max_iter=30).fit(DATA)
    assert model.params_.max_duration >= 4


def test_auto_tries_no_stays_that_no_sequence_has_room_for(capsys):
    HSMM(2, "auto", init="moments", max_iter=5, verbose=True).fit(DATA.codes[:80].reshape(40, 2))
    shown = capsys.readouterr().err
    assert "2 free steps" in shown
    assert "4 free steps" not in shown


def test_one_long_sequence_is_cut_to_be_dealt_out():
    long = stays_of_four().sample(1, 2000, rng=1)
    found = select(long, n_states=[1, 2], max_duration=[5], cv=4, init="moments")
    assert found.n_states == 2


def test_the_spectral_method_compares_too():
    found = select(DATA, n_states=[1, 2], max_duration=[5], method="spectral", cv=3)
    assert found.n_states == 2


def test_parameters_of_a_law_are_its_own():
    p = Params.random(3, 10, 4, rng=0)
    assert n_parameters(p) == 2 + 3 + 27 + 9
    assert n_parameters(p, "negative_binomial") == 2 + 3 + 6 + 9
    assert n_parameters(p, ["free", "poisson", "geometric"]) == 2 + 3 + 11 + 9


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cv": 1}, "cv must be at least 2"),
        ({"n_states": []}, "nothing to compare"),
        ({"n_states": [0]}, "n_states must be an integer"),
        ({"method": "guess"}, "method is 'guess'"),
    ],
)
def test_wrong_arguments_are_named(options, message):
    with pytest.raises(SojournError, match=message):
        select(DATA, **{"n_states": [1], "max_duration": [1], **options})


def test_too_few_symbols_for_the_folds():
    with pytest.raises(SojournError, match="too few"):
        select(np.zeros((1, 3), int), n_states=[1], max_duration=[1], cv=4)


def test_sizes_are_counted_on_the_terminal(capsys):
    data = Params.random(2, 3, 4, rng=3).sample(40, 30, rng=1)
    select(data, [2], [3, 5], cv=2, verbose=True)
    shown = capsys.readouterr().err
    assert "2 states, 3 free steps; at most 1 more sizes" in shown
    assert "2 states, 5 free steps; the last size" in shown


def test_a_larger_size_starts_from_the_smaller_one(monkeypatch):
    from sojourn.estimators import hsmm

    given, fit = [], hsmm.fit_params
    monkeypatch.setattr(hsmm, "fit_params", lambda *a, **k: given.append(k["init"]) or fit(*a, **k))
    data = Params.random(2, 3, 4, rng=3).sample(40, 30, rng=1)
    select(data, [2], [3, 5], cv=2)
    assert [type(init).__name__ for init in given] == ["str", "str", "Params", "Params"]
    assert given[-1].max_duration == 5
