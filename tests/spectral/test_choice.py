"""Tree size, rank and mixture are chosen by what was held out, from a sample that ids determine."""

from dataclasses import replace

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from sojourn import Params, Sequences
from sojourn.contexts import sample
from sojourn.contexts.counts import ContextTally, count_contexts
from sojourn.contexts.followers import cross_weights, learn_followers
from sojourn.contexts.pieces import Pieces
from sojourn.contexts.sample import Sample
from sojourn.contexts.trees import lay_out
from sojourn.contexts.trust import USUAL
from sojourn.spectral.answers import log_prob
from sojourn.spectral.choice import (
    CROSSED,
    FOLDS,
    choose_trees,
    cross_trust,
    grow_pasts,
    learn_contexts,
)
from sojourn.spectral.search import FEW, PRIOR, WORTH_MIXING, best_mixture

PARAMS = Params.random(3, 4, 4, rng=0)
DATA = PARAMS.sample(500, 40, rng=1)
RANKS = range(1, 65)


@pytest.fixture(autouse=True, scope="module")
def one_thread_in_the_linear_algebra():
    """As in a fit: the same bits, and no threads that wait for each other."""
    with threadpool_limits(1, user_api="blas"):
        yield


def counted(data, trees):
    tally = ContextTally(trees)
    tally.add(data, 1)
    return tally.moments()


@pytest.fixture(scope="module")
def grown():
    return choose_trees(Sample.of(DATA), 4, False, RANKS, 1)


@pytest.fixture(scope="module")
def learned(grown):
    trees, trials = grown
    moments = counted(DATA, trees)
    return moments, *learn_contexts(moments, False, RANKS, trials, 1)


def test_several_sizes_and_ranks_are_compared(learned):
    _, model, chosen = learned
    assert len({trial.split_at for trial in chosen.trials}) > 1
    assert len({trial.rank for trial in chosen.trials}) > 3
    assert model.trees.n_pasts > 4  # more than single symbols


def test_best_trial_is_chosen(learned):
    _, model, chosen = learned
    same = [trial for trial in chosen.trials if trial.score == chosen.score]
    assert {(trial.rank, trial.weight) for trial in same} == {(chosen.rank, chosen.weight)}
    assert (model.operators.rank, model.weight) == (chosen.rank, chosen.weight)
    assert chosen.trials[-1].score <= chosen.score  # among those of the last round


def test_score_is_that_of_sequences_that_were_not_counted(learned):
    moments, model, chosen = learned
    held = moments.heldout
    rows = [held.codes[b:e].tolist() for b, e in zip(held.begins, held.ends, strict=True)]
    heldout = Sequences.from_lists(rows, vocabulary=range(4))
    others = replace(moments, heldout=Pieces.none())
    alone, _ = learn_contexts(others, False, range(chosen.rank, chosen.rank + 1))
    score = log_prob(replace(alone, weight=chosen.weight), heldout).sum() / heldout.n_total
    # The trust in the tree's nodes was learned there, not assumed; nothing else differs much.
    assert chosen.score == pytest.approx(score, abs=0.01)
    assert log_prob(model, heldout).sum() / heldout.n_total > chosen.score  # counted by now


def test_operators_and_tree_are_of_all_the_data(learned):
    moments, model, _ = learned
    assert moments.heldout.n_total > 2000
    assert model.followers.totals[0] == DATA.n_total + len(DATA)  # symbols and ends


@pytest.mark.parametrize("rank", [1, 5])
def test_given_rank_is_kept(grown, rank):
    model, chosen = learn_contexts(counted(DATA, grown[0]), False, range(rank, rank + 1))
    assert model.operators.rank == chosen.rank == rank
    assert {trial.rank for trial in chosen.trials} == {rank}


def test_ranks_stay_within_their_bound(grown):
    _, chosen = learn_contexts(counted(DATA, grown[0]), False, range(1, 6))
    assert max(trial.rank for trial in chosen.trials) <= 5


def test_with_nothing_held_out_there_are_no_trials(grown):
    moments = replace(counted(DATA, grown[0]), heldout=Pieces.none())
    model, chosen = learn_contexts(moments, False, RANKS)
    assert (chosen.rank, chosen.weight, chosen.score, chosen.trials) == (4, 0.5, None, ())
    assert np.isfinite(log_prob(model, DATA)).all()


def test_result_is_independent_of_n_jobs(learned):
    moments, model, chosen = learned
    trees, trials = choose_trees(Sample.of(DATA), 4, False, RANKS, 3)
    again, also = learn_contexts(counted(DATA, trees), False, RANKS, trials, 3)
    assert also == chosen
    assert np.array_equal(log_prob(again, DATA), log_prob(model, DATA))


def test_beats_the_context_tree_where_states_last():
    data = Params.random(4, 6, 5, rng=3).sample(1200, 100, rng=4)
    trees, trials = choose_trees(Sample.of(data[:1000]), 5, False, RANKS)
    model, chosen = learn_contexts(counted(data[:1000], trees), False, RANKS, trials)
    assert chosen.weight > 0.5
    both, tree = (log_prob(m, data[1000:]).sum() for m in (model, replace(model, weight=0.0)))
    assert both > tree + 20  # nats, on 20,000 symbols


def test_at_full_rank_the_likeliest_size_is_kept():
    """Held-out data hardly tell sizes of a model of full rank apart; all of them decide."""
    data = Params.random(2, 2, 3, rng=3).sample(2000, 50, rng=4)
    _, full = choose_trees(Sample.of(data), 3, False, range(1, 5), 1)
    _, free = choose_trees(Sample.of(data), 3, False, range(1, 257), 1)
    assert len(full.sizes) == 1 < len(free.sizes)
    assert full.sizes[0] in {trial.split_at for trial in full.trials}


def test_context_tree_is_as_deep_as_it_pays():
    """Nothing is left where the past says nothing; pieces of one song need long pasts."""
    rng = np.random.default_rng(0)
    noise = Sequences.from_lists(rng.integers(0, 4, (1000, 40)).tolist(), vocabulary=range(4))
    phrase = rng.integers(0, 4, 60).tolist()
    songs = [phrase[a : a + 40] for a in rng.integers(0, 20, 800).tolist()]
    for data, pays in ((noise, False), (Sequences.from_lists(songs, vocabulary=range(4)), True)):
        trees, trials = choose_trees(Sample.of(data), 4, False, range(1, 3), 1)
        model, chosen = learn_contexts(counted(data, trees), False, range(1, 3), trials, 1)
        assert (model.trees.pasts.n_nodes > model.trees.n_pasts) == pays
        assert chosen.score >= max(t.score for t in chosen.trials if t.rank == chosen.rank) - 2e-5


def test_all_of_few_data_teach_the_trust_whatever_their_order():
    data = Params.random(3, 4, 3, rng=0).sample(60, 30, rng=1)
    sample = Sample.of(data)
    trees = grow_pasts(sample, 3)
    trust = cross_trust(sample, trees, True)
    assert len(trust) == len(USUAL)
    assert trust == cross_trust(Sample.of(data[np.arange(60)[::-1]]), trees, True)
    trees, planned = choose_trees(sample, 3, True, RANKS, 1)
    model, choice = learn_contexts(counted(data, trees), True, RANKS, planned, 1)
    moments = counted(data, model.trees)
    everything = moments.counts + count_contexts(moments.heldout, model.trees)
    given = np.array(choice.trust)
    followers, _ = learn_followers(model.trees.pasts, everything.follows, None, True, given)
    assert len(given) == len(USUAL)
    assert np.array_equal(model.followers.trust, followers.trust)
    assert cross_trust(Sample.of(data[: FOLDS - 1]), trees, True) == ()
    many = Params.random(3, 4, 3, rng=0).sample(CROSSED // 30 + 1, 30, rng=1)
    assert cross_trust(Sample.of(many), trees, True) == ()


def test_one_fold_teaches_what_held_out_pieces_teach():
    data = Params.random(3, 4, 3, rng=0).sample(200, 30, rng=1)
    sample = Sample.of(data)
    trees = grow_pasts(sample, 3)
    counts = count_contexts(sample.training, trees)
    flat = lay_out(sample.heldout, 3)
    _, weights = learn_followers(trees.pasts, counts.follows, flat, True)
    crossed = cross_weights(trees.pasts, [(counts.follows, flat)], True)
    assert np.array_equal(crossed, weights)
    assert not np.array_equal(crossed, USUAL)


# ---- the mixture --------------------------------------------------------------------------------


def test_weight_is_the_best_of_all_weights():
    rng = np.random.default_rng(0)
    p, beside = rng.beta(2, 3, 500), rng.beta(2, 3, 500)
    weight, score = best_mixture(p, beside, few=True)
    weights = np.linspace(0, 1, 1001)[1:-1]
    scores = np.array([np.log(a * p + (1 - a) * beside).mean() for a in weights])
    prior = PRIOR / len(p) * np.log(weights * (1 - weights))
    best = int(np.argmax(scores + prior))
    assert weight == pytest.approx(weights[best], abs=1e-3)  # the distance of two weights
    assert score == pytest.approx(scores[best], abs=1e-6)  # flat near the best


def test_mixture_that_gains_nothing_is_its_better_half():
    p = np.random.default_rng(0).beta(2, 3, FEW)
    assert best_mixture(p, 0.9 * p) == (1.0, np.log(p).mean())
    assert best_mixture(0.9 * p, p) == (0.0, np.log(p).mean())
    noise = 1 + WORTH_MIXING / 10 * np.sin(np.arange(FEW))
    assert best_mixture(p, p * noise)[0] in (0.0, 1.0)


def test_few_outcomes_drop_neither_half_of_a_mixture():
    """A hundred outcomes at which the operators are ahead do not show that the tree never is."""
    p = np.random.default_rng(0).beta(2, 3, 100)
    weight, score = best_mixture(p, 0.99 * p, few=True)
    assert 0.5 < weight < 1.0
    assert score == pytest.approx(np.log(p * (weight + 0.99 * (1 - weight))).mean(), abs=1e-12)
    assert best_mixture(p, p, few=True)[0] == pytest.approx(0.5, abs=1e-5)  # 20 bisections


def test_gain_that_fitting_explains_is_not_a_gain():
    """A tree that is no better, but was fitted to the outcomes it is judged by."""
    rng = np.random.default_rng(0)
    p = rng.beta(2, 3, FEW)
    beside = p * (1 + 0.003 + 0.05 * rng.standard_normal(FEW))
    assert np.log(beside).mean() > np.log(p).mean() + WORTH_MIXING
    assert best_mixture(p, beside)[0] == 1.0
    assert (
        best_mixture(np.tile(p, 10), np.tile(beside, 10))[0] < 1.0
    )  # of ten times as many, it is one


# ---- the sample ---------------------------------------------------------------------------------


@pytest.mark.parametrize("most", [3000, 1 << 19])
def test_sample_depends_on_ids_alone(most, monkeypatch):
    monkeypatch.setattr(sample, "SAMPLE", most)
    names = np.array([f"machine {i}" for i in range(len(DATA))])
    data = Sequences(DATA.codes, DATA.offsets, DATA.vocabulary, names)
    whole = Sample.of(data)
    assert whole.training.n_total <= most
    rng = np.random.default_rng(0)
    for _ in range(3):
        cuts = np.sort(rng.integers(1, len(data), 4))
        parts = [p for p in np.split(rng.permutation(len(data)), cuts) if len(p)]
        found = Sample.none()
        for part in parts:
            found = found + Sample.of(data[part])
        for mine, its in ((found.training, whole.training), (found.heldout, whole.heldout)):
            assert np.array_equal(mine.codes, its.codes)
            assert np.array_equal(mine.keys, its.keys)
        assert found.training_limit == whole.training_limit


def test_trees_of_a_context_tree_have_one_future():
    trees = grow_pasts(Sample.of(DATA), 4)
    assert trees.n_futures == 1
    assert trees.n_pasts > 100
