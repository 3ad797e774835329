"""Models over contexts as users meet them: ends, empty sequences, gaps, large alphabets, files."""

import json
from itertools import product

import numpy as np
import pytest
from threadpoolctl import threadpool_info

import sojourn as sj

P = sj.Params.random(3, 4, 4, rng=0)
RNG = np.random.default_rng(0)
# Of many lengths, some empty.
ROWS = [row[: int(RNG.geometric(0.08)) - 1] for row in P.sample(600, 60, rng=1)]
HELD = [[], [0], [1, 2, 3], *ROWS[:20]]
ROUNDING = 1e-12  # sums of some hundred products below one
WORDS = ["climb", "descend", "hold", "level"]


@pytest.fixture(scope="module")
def models():
    return {
        "spectral": sj.SpectralHSMM(ends=True).fit(ROWS),
        "tree": sj.ContextTree(ends=True).fit(ROWS),
    }


each_model = pytest.mark.parametrize("name", ["spectral", "tree"])


# ---- ends ---------------------------------------------------------------------------------------


@each_model
def test_surprise_has_one_number_more_and_sums_to_the_score(models, name):
    model = models[name]
    found = model.surprise(HELD)
    assert [len(row) for row in found] == [len(row) + 1 for row in HELD]
    scores = model.score_samples(HELD)
    np.testing.assert_allclose([row.sum() for row in found], -scores, rtol=ROUNDING)
    assert model.score(HELD) == pytest.approx(scores.sum() / sum(len(row) + 1 for row in HELD))
    assert np.isfinite(model.score([[]]))


@each_model
def test_probabilities_of_all_strings_and_of_those_that_continue_sum_to_one(models, name):
    model, total = models[name], 0.0
    for length in range(4):
        strings = [list(string) for string in product(range(4), repeat=length)]
        p, end = np.exp(model.score_samples(strings)), model.predict_next(strings)[:, 4]
        total += p.sum()
        continues = (p / end * (1 - end)).sum()
        assert total + continues == pytest.approx(1, abs=1e-10)


@each_model
def test_predictions_have_a_last_column_for_the_end(models, name):
    model = models[name]
    p = model.predict_next(HELD)
    assert p.shape == (len(HELD), 5)
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=ROUNDING)
    last = [row[-1] for row in model.surprise(HELD)]
    np.testing.assert_allclose(p[:, 4], np.exp(-np.array(last)), rtol=1e-10)
    assert sj.END not in model.vocabulary_.tolist()
    assert model.n_symbols_ == 4


def test_an_end_stays_an_end(models):
    model = models["spectral"]
    ended = np.array([model.predict_next(HELD, horizon=h)[:, 4] for h in (1, 2, 3, 8, 30, 10**9)])
    assert (np.diff(ended, axis=0) >= -ROUNDING).all()
    np.testing.assert_allclose(ended[-1], 1)
    with pytest.raises(sj.SojournError, match="next symbol alone; for horizon > 1 use Spectral"):
        models["tree"].predict_next(HELD, horizon=2)


@each_model
def test_lengths_drawn_to_the_end_are_those_of_the_data(models, name):
    drawn = models[name].sample(400, random_state=1)
    assert (drawn.lengths == 0).any()
    mean, own = np.mean([len(row) for row in ROWS]), drawn.lengths.mean()
    assert abs(own - mean) < 4 * np.std([len(row) for row in ROWS]) / 20  # standard errors
    again = models[name].sample(400, random_state=1)
    assert np.array_equal(again.codes, drawn.codes)
    assert models[name].sample(2, length=7).lengths.tolist() == [7, 7]


@each_model
def test_a_stream_has_the_end_and_goes_on(models, name):
    model, stream = models[name], models[name].stream()
    assert stream.end() == model.surprise([[]])[0][0]
    assert np.array_equal(stream.predict(), model.predict_next([[]])[0])
    for t, symbol in enumerate(ROWS[3], 1):
        stream.update(symbol)
        assert stream.end() == model.surprise([ROWS[3][:t]])[0][-1]
    twin, fork = model.stream().restore(json.loads(json.dumps(stream.snapshot()))), stream.fork()
    assert twin.end() == fork.end() == stream.end()
    assert stream.reset().end() == model.surprise([[]])[0][0]


def test_without_ends_lengths_say_nothing():
    model = sj.SpectralHSMM().fit([row for row in ROWS if row])
    assert model.predict_next([[0]]).shape == (1, 4)
    assert len(model.surprise([[0, 1]])[0]) == 2
    assert model.stream().end() == 0.0
    assert model.sample().lengths.tolist() == [100]
    for ask in (model.fit, model.score, model.predict_next):
        with pytest.raises(sj.SojournError, match="sequence 1 is empty"):
            ask([[0, 1], []])


# ---- the same bits ------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [sj.SpectralHSMM, sj.ContextTree])
def test_result_is_independent_of_n_jobs(make):
    data = P.sample(1000, 40, rng=3)  # two chunks
    before = [pool["num_threads"] for pool in threadpool_info()]
    one, *others = (make(ends=True, n_jobs=n).fit(data) for n in (1, 2, 3))
    for other in others:
        assert np.array_equal(one.score_samples(data), other.score_samples(data))
        assert np.array_equal(one.followers_.trust, other.followers_.trust)
    assert [pool["num_threads"] for pool in threadpool_info()] == before


def test_parts_over_given_trees_equal_the_whole(models):
    trees = models["spectral"].trees_
    whole = sj.SpectralHSMM(ends=True, trees=trees).fit(ROWS)
    parts = sj.SpectralHSMM(ends=True, trees=trees)
    for first, last in ((0, 50), (50, 51), (51, 600)):
        part = sj.Sequences.from_lists(ROWS[first:last], vocabulary=range(4), empty=True)
        parts.partial_fit(part)
    assert parts.choice_ == whole.choice_
    assert np.array_equal(parts.score_samples(HELD), whole.score_samples(HELD))


@each_model
def test_a_saved_model_scores_to_the_same_bits(models, name, tmp_path):
    model = models[name]
    model.save(tmp_path / "m.sojourn")
    again = sj.load(tmp_path / "m.sojourn")
    assert np.array_equal(again.score_samples(HELD), model.score_samples(HELD))
    assert np.array_equal(again.predict_next(HELD), model.predict_next(HELD))
    assert again.stream().end() == model.stream().end()
    assert again.get_params().keys() == model.get_params().keys()
    if name == "spectral":
        more = sj.Sequences.from_lists(ROWS[:9], vocabulary=range(4), empty=True)
        grown, own = again.partial_fit(more), sj.load(tmp_path / "m.sojourn").partial_fit(more)
        assert grown.moments_.n_sequences == 609
        assert np.array_equal(grown.score_samples(HELD), own.score_samples(HELD))
        assert np.array_equal(again.states_of(HELD)[2], own.states_of(HELD)[2])


# ---- states -------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ["contexts", "adjacent"])
def test_states_are_features_of_every_prefix(algorithm):
    data = P.sample(200, 30, rng=3)
    model = sj.SpectralHSMM(2, 2, algorithm=algorithm).fit(data)
    states, last = model.states_of(data[:6]), model.transform(data[:6])
    assert [found.shape for found in states] == [(30, model.rank_)] * 6
    assert last.shape == (6, model.rank_)
    assert np.array_equal([found[-1] for found in states], last)
    for t in (1, 7, 30):
        assert np.array_equal(model.transform([data[0][:t]])[0], states[0][t - 1])
        stream = model.stream()
        stream.update_many(data[0][:t])
        assert np.array_equal(stream._walk.row[: model.rank_], states[0][t - 1])
    assert np.array_equal(model.fit_transform(data)[:6], last)


def test_state_before_any_symbol_is_the_start(models):
    model = models["spectral"]
    assert model.states_of([[]])[0].shape == (0, model.rank_)
    np.testing.assert_allclose(model.transform([[]])[0], model.operators_.start)


# ---- gaps, words, alphabets ---------------------------------------------------------------------


def test_ten_percent_missing_costs_little():
    train, test = P.sample(500, 40, rng=5), P.sample(300, 40, rng=6)
    gaps = np.where(np.random.default_rng(7).random(train.n_total) < 0.1, -1, train.codes)
    gappy = sj.Sequences(gaps, train.offsets, train.vocabulary, train.ids)
    full, with_gaps = (sj.SpectralHSMM().fit(data).score(test) for data in (train, gappy))
    # Measured: 0.0005 nats per symbol, where a third of the sequences costs 0.0016.
    assert full - with_gaps < 0.002
    assert full == pytest.approx(P.log_prob(test).sum() / test.n_total, abs=0.01)


def test_words_and_unknown_ones(models):
    words = [[WORDS[o] for o in row] for row in ROWS]
    model = sj.SpectralHSMM(ends=True, unknown="missing").fit(words)
    assert np.array_equal(model.operators_.own, models["spectral"].operators_.own)
    assert model.score([["climb", "hover"]]) == model.score([["climb", None]])
    with pytest.raises(sj.SojournError, match="symbol 'hover' at position 1"):
        model.set_params(unknown="error").score([["climb", "hover"]])


@pytest.fixture(scope="module")
def large():
    """A model of 400 symbols, more than have operators of their own, and held-out sequences."""
    rng = np.random.default_rng(0)
    p = sj.Params.random(4, 5, 400, rng=0)
    p = sj.Params(p.start, p.transition, p.duration, rng.dirichlet(np.full(400, 0.1), 4))
    return sj.SpectralHSMM(ends=True).fit(p.sample(200, 150, rng=1)), p.sample(8, 60, rng=2)


def test_a_large_alphabet_shares_operators_and_is_a_distribution(large):
    model, test = large
    model = model.set_params(unknown="missing")
    assert len(model.operators_.own) < model.n_symbols_ == len(model.operators_.modes)
    for horizon in (1, 3):
        p = model.predict_next(test, horizon=horizon)
        assert p.shape == (8, model.n_symbols_ + 1)
        assert (p >= 0).all()
        np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-9)
    first = [[symbol] for symbol in model.vocabulary_.tolist()]
    start = np.exp(-np.array([row[0] for row in model.surprise(first)])).sum()
    assert start + np.exp(-model.stream().end()) == pytest.approx(1, abs=1e-9)


def test_a_large_alphabet_streams_as_in_batch(large):
    model, test = large
    for i in range(2):
        stream, expected = model.stream(), model.surprise(test[i : i + 1])[0]
        assert [*(stream.update(s) for s in test[i]), stream.end()] == expected.tolist()
        assert np.array_equal(stream.predict(), model.predict_next(test[i : i + 1])[0])


# ---- bad input ----------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [sj.SpectralHSMM, sj.ContextTree])
def test_data_that_say_nothing(make):
    """One symbol, one sequence, all empty, all missing: a model or an error in words."""
    assert make(ends=True).fit([["a"]] * 3).predict_next([[]]).shape == (1, 2)
    assert np.isfinite(make().fit([["a", "b", "a"]]).score([["b", "a"]]))
    empty = sj.Sequences.from_lists([[], [], []], vocabulary=["a"], empty=True)
    model = make(ends=True).fit(empty)
    assert model.predict_next([[]])[0, 1] > 0.5
    for bad, message in (([], "no sequences"), ([[None]], "every symbol is missing")):
        with pytest.raises(sj.SojournError, match=message):
            make(ends=True).fit(bad)


def test_a_context_tree_that_is_not_fitted_says_so():
    for ask in ("score", "surprise", "predict_next", "sample", "stream"):
        with pytest.raises(ValueError, match="This ContextTree instance is not fitted yet"):
            getattr(sj.ContextTree(), ask)(*([] if ask in ("sample", "stream") else [HELD]))
    with pytest.raises(sj.SojournError, match="unknown is 'skip'"):
        sj.ContextTree(unknown="skip").fit(ROWS)


@pytest.mark.parametrize("ends", [False, True])
def test_one_sequence_is_learned_from_even_if_its_id_is_one_to_be_held_out(ends):
    codes, scores = np.tile([0, 1, 1], 60), set()
    for name, is_held in ((0, False), (2, True)):
        one = sj.Sequences(codes, [0, 180], np.arange(2), np.array([name]))
        model = sj.SpectralHSMM(ends=ends).fit(one)
        assert bool(model.moments_.heldout.n_total) == is_held
        scores.add((model.score(one), model.partial_fit(one).score(one)))
    assert len(scores) == 1
