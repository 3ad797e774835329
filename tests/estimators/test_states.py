"""Labels as people have them, names of states, decoding, and the summary of a model."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from sojourn import HSMM, Params, SojournError, load

TRUTH = Params(
    [0.9, 0.1, 0.0],
    [[0, 1, 0], [0, 0, 1], [1, 0, 0]],
    [[0, 0, 0.5, 0.5], [0.6, 0.4, 0, 0], [0, 1, 0, 0]],
    [[0.8, 0.2, 0], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]],
)
DATA, STATES, _ = TRUTH.sample(60, 30, rng=0, return_states=True)
ROWS = np.split(STATES, DATA.offsets[1:-1])
WORDS = np.array(["ascent", "level", "turn"])
FAST = {"max_iter": 5, "verbose": False}


def model():
    return HSMM(3, 4, **FAST).fit(DATA)


def with_gaps(row):
    return [None if t % 7 == 3 else x for t, x in enumerate(row.tolist())]


FORMS = {
    "arrays": ROWS,
    "lists": [row.tolist() for row in ROWS],
    "words": [WORDS[row] for row in ROWS],
    "pandas": [pd.Series(WORDS[row]) for row in ROWS],
    "polars": [pl.Series(WORDS[row].tolist()) for row in ROWS],
    "floats with gaps": [
        np.array([np.nan if x is None else x for x in with_gaps(row)]) for row in ROWS
    ],
    "pandas with gaps": [pd.Series(with_gaps(row)) for row in ROWS],
    "words with gaps": [
        [None if x is None else str(WORDS[x]) for x in with_gaps(row)] for row in ROWS
    ],
}


@pytest.mark.parametrize("form", FORMS)
def test_labels_in_every_form_give_the_same_states(form):
    fitted = HSMM(3, 4, **FAST).fit(DATA, FORMS[form])
    assert fitted.emissionprob_.argmax(axis=1).tolist() == [0, 1, 2]
    names = None if fitted.states_ is None else fitted.states_.tolist()
    assert names == (WORDS.tolist() if "words" in form or form in ("pandas", "polars") else None)


def test_columns_of_labels_are_read_with_lengths():
    frame = pd.DataFrame({"symbol": DATA.codes, "phase": WORDS[STATES]})
    fitted = HSMM(3, 4, **FAST).fit(frame["symbol"], frame["phase"], lengths=DATA.lengths)
    assert fitted.states_.tolist() == WORDS.tolist()


def test_labels_tell_sizes_that_are_auto():
    fitted = HSMM("auto", "auto", **FAST).fit(DATA, [WORDS[row] for row in ROWS])
    assert fitted.params_.duration.shape == (3, 4)  # the longest labelled stay has four steps
    assert HSMM("auto", 6, **FAST).fit(DATA, ROWS).params_.duration.shape == (3, 6)


def test_more_names_than_states_are_an_error():
    with pytest.raises(SojournError, match="3 words, ascent, level, turn"):
        HSMM(2, 4, **FAST).fit(DATA, [WORDS[row] for row in ROWS])


def test_stays_beyond_max_duration_need_a_tail_or_clip():
    fitted = HSMM(3, 2, **FAST).fit(DATA, ROWS)
    assert fitted.expected_durations_[0] > 3.0  # of stays of three and four steps
    with pytest.raises(SojournError, match="clip=True"):
        HSMM(3, 2, tail=False, **FAST).fit(DATA, ROWS)


def test_names_are_used_and_saved(tmp_path):
    fitted = model().name_states({0: "ascent"})
    assert fitted.states_.tolist() == ["ascent", "state 1", "state 2"]
    assert {stay.name for stay in fitted.segments(DATA[:5])[0]} <= set(fitted.states_.tolist())
    fitted.save(tmp_path / "m.sojourn")
    again = load(tmp_path / "m.sojourn")
    assert again.states_.tolist() == fitted.states_.tolist()
    assert str(again.summary()) == str(fitted.summary())
    assert fitted.name_states(["a", "b", "c"]).state_names == ["a", "b", "c"]


@pytest.mark.parametrize("names", [{3: "x"}, ["a", "b"], {0: "same", 1: "same"}])
def test_names_must_fit_the_states(names):
    with pytest.raises(SojournError):
        model().name_states(names)


def test_posterior_decoding_is_right_for_more_steps_than_viterbi():
    rng = np.random.default_rng(1)
    blurred = 0.35 * TRUTH.emission + 0.65 * rng.dirichlet(np.ones(3), 3)
    noisy = Params(TRUTH.start, TRUTH.transition, TRUTH.duration, blurred)
    data, states, _ = noisy.sample(200, 40, rng=2, return_states=True)
    fitted = HSMM(3, 4, init=noisy, max_iter=1, tail=False, verbose=False).fit(data)
    right = [
        np.mean(np.concatenate(fitted.predict(data, method=method)) == states)
        for method in ("viterbi", "posterior")
    ]
    assert right[1] > right[0]
    gamma = np.concatenate(fitted.predict_proba(data))
    guess = np.concatenate(fitted.predict(data, method="posterior"))
    assert np.array_equal(guess, gamma.argmax(axis=1))


def test_time_in_states_is_that_of_the_data_not_of_an_endless_run():
    # every sequence begins in a state that is never entered again
    once = Params(
        [1, 0, 0],
        [[0, 1, 0], [0, 0, 1], [0, 1, 0]],
        [[0, 1], [1, 0], [1, 0]],
        [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    )
    data = once.sample(100, 6, rng=0)
    fitted = HSMM(3, 2, init=once, max_iter=3, tail=False, verbose=False).fit(data)
    assert fitted.occupancy_ == pytest.approx([1 / 3, 1 / 3, 1 / 3], abs=1e-6)
    assert fitted.visits_ == pytest.approx([100, 200, 200], abs=1e-6)


def test_summary_has_a_row_per_state_and_doubts():
    few = HSMM(3, 4, **FAST).fit(DATA[:2])
    text = str(few.summary())
    assert text.splitlines()[0].split() == ["state", "time", "stays", "steps", "emits", "then"]
    assert "fewer than 20 stays in" in text
    rows = model().summary().rows
    assert sum(row.share for row in rows) == pytest.approx(1.0)
    assert rows[0].symbols[0][0] == 0
    assert all(row.mean > 0 and row.spread >= 0 for row in rows)


def test_spread_of_stays_includes_the_tail():
    p = Params([1], [[1]], [[0.0, 1.0]], [[1.0]], tail=[0.5])
    from sojourn.exact.summary import duration_variances

    # two steps and a geometric number more: variance ρ / (1 - ρ)² = 2
    assert duration_variances(p) == pytest.approx([2.0])
