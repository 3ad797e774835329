"""Rank and ε are chosen by what was held out; the operators over windows are of all the data."""

import numpy as np
import pytest

from sojourn import Params, Sequences, SojournError, count, exact_moments
from sojourn.contexts.pieces import split
from sojourn.spectral import select_rank as choice
from sojourn.spectral.answers import surprise
from sojourn.spectral.models import WindowModel
from sojourn.spectral.select_rank import (
    EPSILONS,
    RANKS,
    choose,
    decompose,
    heldout_score,
    learn_windows,
)

PARAMS = Params.random(3, 3, 4, rng=0)
TRAIN = PARAMS.sample(1500, 60, rng=1)
WINDOW = (0, 1)
MOMENTS = count(TRAIN, [WINDOW])


def test_the_best_trial_is_chosen():
    operators, chosen = learn_windows(MOMENTS, None, 9, 3)
    best = max(chosen.trials, key=lambda trial: trial.score)
    assert chosen.rank == best.rank == operators.rank
    assert chosen.epsilon == best.epsilon
    assert {trial.offsets for trial in chosen.trials} == {WINDOW}
    assert len({trial.rank for trial in chosen.trials}) > 3
    assert max(trial.rank for trial in chosen.trials) <= 9


def test_every_trial_has_the_score_of_the_held_out_sequences():
    """Counted by hand: the sequences of the held-out ids under operators of the others."""
    _, chosen = learn_windows(MOMENTS, None, 9, 3)
    assert len(MOMENTS.heldout) + MOMENTS.tables[0].first.sum() == 1500
    for trial in chosen.trials[::3]:
        model = WindowModel(decompose(MOMENTS.tables[0], 9, 3).cut(trial.rank), trial.epsilon)
        held = MOMENTS.heldout
        rows = [held.codes[b:e].tolist() for b, e in zip(held.begins, held.ends, strict=True)]
        sequences = Sequences.from_lists(rows, vocabulary=range(4))
        found, _ = surprise(model, sequences)
        # A sum of 18,000 terms in another order.
        assert trial.score == pytest.approx(-found.mean(), rel=1e-11)


def test_missing_symbols_are_not_counted_in_the_score():
    rows = [[0, None, 1, 2], [3, 3, None, None]]
    sequences = Sequences.from_lists(rows)
    operators, _ = learn_windows(MOMENTS, 2, 9, 3)
    found, _ = surprise(WindowModel(operators, 1e-4), sequences)
    score = heldout_score(operators, 1e-4, split(sequences, share=1.0)[1])
    assert score == pytest.approx(-found.sum() / 5, rel=1e-12)


def test_the_operators_are_of_all_the_data():
    operators, chosen = learn_windows(MOMENTS, None, 9, 3)
    everything = count(TRAIN, [WINDOW], holdout=False).tables[0]
    assert np.array_equal(operators.B, decompose(everything, operators.rank, 3).cut(99).B)
    part = decompose(MOMENTS.tables[0], operators.rank, 3).cut(99).B
    assert not np.array_equal(operators.B, part)


def test_a_given_rank_is_kept_and_the_rest_is_chosen():
    for rank in (1, 5):
        operators, chosen = learn_windows(MOMENTS, rank, 9, 3)
        assert operators.rank == chosen.rank == rank
        assert {trial.rank for trial in chosen.trials} == {rank}


def test_epsilon_is_a_candidate_and_at_most_a_hundredth_per_symbol():
    _, chosen = learn_windows(MOMENTS, None, 9, 3)
    assert chosen.epsilon * 4 in EPSILONS
    assert max(EPSILONS) <= 0.01


def test_epsilon_is_chosen_by_the_same_score():
    _, chosen = learn_windows(count(TRAIN[:80], [(0, 2)]), 9, 9, 3)
    trials = {trial.epsilon * 4: trial.score for trial in chosen.trials}
    assert set(trials) == set(EPSILONS)
    assert len(set(trials.values())) == len(EPSILONS)
    assert trials[chosen.epsilon * 4] == max(trials.values())


def test_search_stops_at_ranks_that_do_not_improve(monkeypatch):
    tried = {}
    for patience in (1, 100):
        monkeypatch.setattr(choice, "PATIENCE", patience)
        trials = learn_windows(count(TRAIN[:60], [(0, 1)]), None, 9, 3)[1].trials
        tried[patience] = [trial.rank for trial in trials if trial.epsilon * 4 == EPSILONS[0]]
    assert tried[100] == [1, 2, 3, 4, 6, 8, 9]
    assert tried[1] == tried[100][: len(tried[1])]
    assert len(tried[1]) < len(tried[100])


def test_ranks_end_at_max_rank():
    assert list(RANKS) == sorted(RANKS)
    trials = choose(MOMENTS, None, 5, 3).trials
    assert max(trial.rank for trial in trials) == 5


def test_what_is_chosen_is_nearly_the_best_on_new_data():
    """The price of choosing is below 0.002 nats per symbol."""
    test = PARAMS.sample(2000, 60, rng=2)

    def score(operators, epsilon):
        return -surprise(WindowModel(operators, epsilon), test)[0].mean()

    operators, chosen = learn_windows(MOMENTS, None, 9, 3)
    candidates = [
        score(decompose(MOMENTS.with_heldout(0), 9, 3).cut(rank), chosen.epsilon)
        for rank in (1, 2, 3, 4, 6, 9)
    ]
    assert score(operators, chosen.epsilon) > max(candidates) - 0.002
    assert max(candidates) - min(candidates) > 0.02


def test_with_nothing_held_out_the_rank_is_the_number_of_states():
    operators, chosen = learn_windows(count(TRAIN, [WINDOW], holdout=False), None, 9, 3)
    assert (operators.rank, chosen.table, chosen.trials) == (3, 0, ())
    assert chosen.epsilon == EPSILONS[0] / 4
    operators, chosen = learn_windows(exact_moments(PARAMS, [(0, 2)]), 9, 9, 3)
    assert operators.rank == 9


def test_where_all_was_held_out_it_is_counted():
    held = int(split(TRAIN)[1].begins[0]) // 60
    moments = count(Sequences.from_lists([[0, 1, 2, 3, 0, 1]], ids=[held]), [(0,)])
    assert len(moments.heldout) == 1
    assert moments.tables[0].H.sum() == 0
    operators, chosen = learn_windows(moments, None, 4, 2)
    assert operators.rank == 2
    assert chosen.trials == ()


def test_no_window_fits_at_all():
    moments = count(Sequences.from_lists([[0, 1, 0], [1, 0, 1, 1]]), [(0, 1)])
    message = (
        r"no sequence is long enough: the longest of 2 has 4 symbols .*, and windows \(0, 1\) "
        r"need 5, none of them missing; give longer sequences or"
    )
    with pytest.raises(SojournError, match=message):
        learn_windows(moments, None, 4, 2)


@pytest.mark.parametrize(("n_states", "last"), [(1, 3), (4, 4), (7, 8)])
def test_search_does_not_stop_below_one_direction_per_state(monkeypatch, n_states, last):
    falling = iter(range(0, -100, -1))
    monkeypatch.setattr(choice, "heldout_score", lambda *args: next(falling))
    trials = choose(count(TRAIN, [(0, 1)]), None, 9, n_states).trials
    assert max(trial.rank for trial in trials) == last
