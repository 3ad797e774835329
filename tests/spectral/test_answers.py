"""What a model over contexts answers: a true distribution, the same in streams and threads."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from sojourn import Params, Sequences
from sojourn.contexts.counts import ContextTally
from sojourn.contexts.pieces import Pieces
from sojourn.contexts.sample import Sample
from sojourn.contexts.trees import lay_out, locate
from sojourn.scale.threads import chunks
from sojourn.spectral import answers, filter
from sojourn.spectral.choice import choose_trees, grow_pasts, learn_contexts, learn_tree

N_O = 4
ROUNDING = 1e-12  # sums of some hundred products below one
LONG = Params.random(3, 4, N_O, rng=0).sample(300, 40, rng=1)
ROWS = [row[: i % 41] for i, row in enumerate(LONG)]  # some empty
ROWS[5][2] = ROWS[9][0] = ROWS[12][-1] = ROWS[17][8] = None
DATA = Sequences.from_lists(ROWS, empty=True)


def next_distribution(model, sequences, horizon=1):
    return answers.next_distributions(model, sequences, [horizon])[:, 0]


def learned(ends=True, rank=6, weight=0.7):
    """A model of DATA with operators and a context tree."""
    ranks = range(rank, rank + 1)
    with threadpool_limits(1, user_api="blas"):  # threads would only wait for each other
        trees, plan = choose_trees(Sample.of(DATA), N_O, ends, ranks, 1)
        tally = ContextTally(trees)
        tally.add(DATA, 1)
        model, _ = learn_contexts(tally.moments(), ends, ranks, plan, 1)
    return replace(model, weight=weight)


def learned_tree(ends=True):
    tally = ContextTally(grow_pasts(Sample.of(DATA), N_O))
    tally.add(DATA, 1)
    return learn_tree(tally.moments(), ends, 1)


def astray(model):
    """The same with noise that takes states out of the model, so that the filter restarts."""
    own = model.operators.own
    noise = np.random.default_rng(0).normal(0.0, 0.5 * np.abs(own).max(), own.shape)
    return replace(model, operators=replace(model.operators, own=own + noise), weight=0.9)


MODELS = {
    "astray": astray(learned()),
    "mixture": learned(),
    "without ends": learned(ends=False),
    "operators": learned(weight=1.0),
    "tree": learned_tree(),
    "tree without ends": learned_tree(ends=False),
}
each_model = pytest.mark.parametrize("name", MODELS)


RESTARTS = []


def plain(model, row):
    """Surprise of the symbols and of the end: the mixture as the modules describe it."""
    flat = lay_out(Pieces.all_of(Sequences.from_lists([row], None, range(N_O), empty=True)), N_O)
    nodes = locate(model.trees.pasts, flat)
    contexts = model.trees.past_context[nodes]
    o, n_out = model.operators, N_O + model.ends
    epsilon = 1e-5  # the smaller of this and a thousandth per symbol
    out, state = [], None if o is None else o.start
    for t, symbol in enumerate([*row, N_O]):
        at = flat.starts[0] + t
        follow = model.followers.rows(nodes[at : at + 1])[0][:n_out]
        p = (1 - model.weight) * follow / follow.sum()
        if o is not None:
            q = o.emit @ state
            cut = np.maximum(q[:n_out], epsilon)
            p = p + model.weight * cut / cut.sum()
            seen = symbol if symbol is not None else slice(0, N_O)
            mass = q[seen].sum()
            if symbol == N_O:
                pass
            elif mass >= epsilon and cut.sum() < filter.ASTRAY:
                move = o.own[seen]
                state = state @ (move.sum(axis=0) if move.ndim == 3 else move) / mass
            else:
                RESTARTS.append(t)
                state = o.restart[contexts[at + 1]]
        out.append(0.0 if symbol is None or symbol >= n_out else -np.log(p[symbol]))
    return np.array(out)


@each_model
def test_surprise_equals_plain_loops(name):
    model = MODELS[name]
    steps, ends = answers.surprise(model, DATA)
    RESTARTS.clear()
    for i, row in enumerate(ROWS[:60]):
        expected = plain(model, row)
        mine = steps[DATA.offsets[i] : DATA.offsets[i + 1]]
        np.testing.assert_allclose(mine, expected[:-1], rtol=1e-9, atol=1e-9)
        assert ends[i] == pytest.approx(expected[-1], rel=1e-9)
    assert name != "astray" or len(RESTARTS) > 100


@each_model
def test_probabilities_of_all_strings_and_of_those_that_continue_sum_to_one(name):
    model, total = MODELS[name], 0.0
    for length in range(5):
        strings = Sequences.from_lists(
            list(product(range(N_O), repeat=length)), None, range(N_O), empty=True
        )
        steps, ends = answers.surprise(model, strings)
        prefix = np.exp(-steps.reshape(N_O**length, length).sum(axis=1))
        # of all strings that have ended before, and of all that are as long or longer
        assert total + prefix.sum() == pytest.approx(1, abs=ROUNDING)
        total += (prefix * np.exp(-ends)).sum() if model.ends else 0.0
        np.testing.assert_allclose(
            answers.log_prob(model, strings), np.log(prefix) - ends, atol=ROUNDING
        )


@each_model
def test_next_distribution_is_what_the_next_outcome_scores(name):
    model = MODELS[name]
    ahead = next_distribution(model, DATA[:20])
    assert ahead.shape == (20, N_O + model.ends)
    np.testing.assert_allclose(ahead.sum(axis=1), 1, atol=ROUNDING)
    for i, row in enumerate(ROWS[:20]):
        longer = Sequences.from_lists([[*row, o] for o in range(N_O)], None, range(N_O))
        last = answers.surprise(model, longer)[0][longer.offsets[1:] - 1]
        np.testing.assert_allclose(ahead[i, :N_O], np.exp(-last), atol=ROUNDING)
    if model.ends:
        ends = answers.surprise(model, DATA[:20])[1]
        np.testing.assert_allclose(ahead[:, N_O], np.exp(-ends), atol=ROUNDING)


@each_model
def test_symbol_by_symbol_equals_the_batch_to_the_bit(name):
    model = MODELS[name]
    steps, ends = answers.surprise(model, DATA)
    for i in range(30):
        codes, walk = DATA.codes[DATA.offsets[i] : DATA.offsets[i + 1]], answers.Walk(model)
        out = np.empty(len(codes))
        for t in range(len(codes)):
            walk.advance(codes[t : t + 1], out[t : t + 1])
        assert np.array_equal(out, steps[DATA.offsets[i] : DATA.offsets[i + 1]])
        assert walk.end() == ends[i]
        at_once = next_distribution(model, DATA[i : i + 1])[0]
        assert np.array_equal(walk.distributions()[0], at_once)


def test_long_runs_and_long_pasts_are_forgotten_without_a_trace():
    """A stream keeps a bounded past: what trees can read of it."""
    model = learned(rank=2)
    rng = np.random.default_rng(0)
    longest = answers.Walk.LONGEST
    runs = rng.choice([3, 2500], 40)
    row = np.repeat(rng.integers(0, N_O, 40), runs).tolist()
    sequences = Sequences.from_lists([row], None, range(N_O))
    walk, out = answers.Walk(model), np.empty(len(row))
    for begin in range(0, len(row), 777):
        walk.advance(sequences.codes[begin : begin + 777], out[begin : begin + 777])
    assert np.array_equal(out, answers.surprise(model, sequences)[0])
    assert len(walk.past) < len(row) - longest
    again = answers.Walk(model)
    again.row, again.n_seen = walk.row.copy(), walk.n_seen
    again.remember(walk.past)
    assert np.array_equal(again.distributions()[0], walk.distributions()[0])


@each_model
def test_result_is_independent_of_n_jobs_and_of_the_other_sequences(name, monkeypatch):
    model = MODELS[name]
    monkeypatch.setattr(chunks, "__defaults__", (500,))  # symbols per chunk
    one, three = (answers.surprise(model, DATA, n_jobs=n) for n in (1, 3))
    alone = [answers.surprise(model, DATA[i : i + 1]) for i in range(len(DATA))]
    for k in (0, 1):
        assert np.array_equal(one[k], three[k])
        assert np.array_equal(one[k], np.concatenate([found[k] for found in alone]))


def test_both_layouts_of_operators_score_alike(monkeypatch):
    """Matrices that hold the predictions, or emissions that make them."""
    model = learned()
    held = answers.surprise(model, DATA)
    assert not len(model.filter.emit)
    monkeypatch.setattr(filter, "MAX_MOVES", 0)
    made = replace(model)
    assert len(made.filter.emit)
    for one, other in zip(held, answers.surprise(made, DATA), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-9)


def test_a_missing_symbol_has_no_surprise_and_leaves_a_distribution_over_the_others():
    model = learned(ends=False)
    steps, _ = answers.surprise(model, DATA)
    assert (steps[DATA.codes < 0] == 0).all()
    assert np.isfinite(steps).all()
    gappy = [[a, None, b, c] for a, b, c in product(range(N_O), repeat=3)]
    p = np.exp(answers.log_prob(model, Sequences.from_lists(gappy, None, range(N_O))))
    assert p.sum() == pytest.approx(1, abs=ROUNDING)


def test_states_are_those_of_the_operators():
    model = learned(weight=1.0)
    states = answers.states_of(model, DATA[:20], 6)
    for row, found in zip(ROWS[:20], states, strict=True):
        assert found.shape == (len(row) + 1, 6)
        q = np.maximum(found @ model.operators.emit.T, 1e-5)
        p = q / q.sum(axis=1, keepdims=True)
        expected = [np.exp(-plain(model, row))]
        seen = [N_O if o is None else o for o in [*row, N_O]]
        mine = np.where([o is None for o in [*row, N_O]], 1.0, p[np.arange(len(p)), seen])
        np.testing.assert_allclose(mine, expected[0], rtol=1e-9)


# ---- further ahead ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["mixture", "operators"])
def test_an_end_is_absorbing(name):
    columns = [
        next_distribution(MODELS[name], DATA[:20], horizon) for horizon in (1, 2, 3, 5, 9, 40, 400)
    ]
    np.testing.assert_allclose([p.sum(axis=1) for p in columns], 1, atol=1e-9)
    ended = np.array([p[:, N_O] for p in columns])
    assert (np.diff(ended, axis=0) >= -ROUNDING).all()
    assert ended[-1].min() > 0.95


@pytest.mark.parametrize("name", ["mixture", "without ends", "operators"])
def test_a_horizon_of_a_billion_steps_is_a_distribution(name):
    p = next_distribution(MODELS[name], DATA[:5], 10**9)
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-9)
    assert (p >= 0).all()
    np.testing.assert_allclose(p, np.tile(p[0], (5, 1)), atol=1e-9)  # all is forgotten
    if MODELS[name].ends:
        assert p[:, N_O].min() == pytest.approx(1)


@pytest.mark.parametrize("name", ["mixture", "operators"])
def test_two_steps_ahead_is_nearly_the_sum_over_the_first(name):
    """Operators' raw predictions sum to one but for the ridge; the tree's say nothing further."""
    model = MODELS[name]
    one, two = (next_distribution(model, DATA[20:40], h) for h in (1, 2))
    total = np.zeros_like(two)
    total[:, N_O] = one[:, N_O]
    for o in range(N_O):
        longer = Sequences.from_lists([[*row, o] for row in ROWS[20:40]], None, range(N_O))
        total += one[:, o, None] * next_distribution(model, longer)
    np.testing.assert_allclose(two, total, atol=3e-4 if name == "operators" else 0.05)


# ---- draws --------------------------------------------------------------------------------------


def test_draws_to_the_end_have_the_lengths_that_the_model_predicts():
    model, rng = learned(), np.random.default_rng(3)
    rows = answers.draw(model, 400, None, rng)
    before = Sequences.from_lists([[]], None, range(N_O), empty=True)
    empty = next_distribution(model, before)
    p = empty[0, N_O]
    n_empty = sum(len(row) == 0 for row in rows)
    assert abs(n_empty - 400 * p) < 4 * np.sqrt(400 * p)  # four standard deviations
    first = np.bincount([row[0] for row in rows if len(row)], minlength=N_O) / 400
    np.testing.assert_allclose(first, empty[0, :N_O], atol=0.1)
    assert all(((row >= 0) & (row < N_O)).all() for row in rows)


def test_draws_of_a_length_have_it():
    rng = np.random.default_rng(3)
    for name in MODELS:
        assert [len(row) for row in answers.draw(MODELS[name], 3, 17, rng)] == [17] * 3
