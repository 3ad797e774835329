"""`HSMM`: the estimator says what its kernels say, keeps its promises and names what is wrong."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from sojourn import HSMM, Params, Sequences, SojournError, load
from sojourn.em.mstep import initial_distribution

TRUTH = Params.random(3, 4, 5, rng=2)
DATA = TRUTH.sample(300, 40, rng=3)
TEST = TRUTH.sample(40, 30, rng=4)
FEW = DATA[:60]  # where any data will do


@pytest.fixture(scope="module")
def model():
    return HSMM(3, 4).fit(DATA)


def sharp() -> Params:
    """Two states that cannot be mistaken: symbols a for one, b for the other."""
    return Params([1, 0], [[0, 1], [1, 0]], [[0, 0, 1], [0.5, 0.5, 0]], [[1, 0], [0, 1]])


def with_params(params: Params, **options) -> HSMM:
    """An estimator that holds the given model as it is, not fitted to anything."""
    model = HSMM(params.n_states, params.max_duration, **options)
    model.params_, model.initial_ = params, None
    model.vocabulary_, model.n_symbols_ = np.arange(params.n_symbols), params.n_symbols
    return model


def test_scores_are_the_forward_algorithms_and_surprise_adds_up_to_them(model):
    expected = model.params_.log_prob(TEST)
    assert np.array_equal(model.score_samples(TEST), expected)
    assert model.score(TEST) == pytest.approx(expected.sum() / TEST.n_total, rel=1e-14)
    # sums of 30 terms of about one: rounding only
    sums = [-s.sum() for s in model.surprise(TEST)]
    np.testing.assert_allclose(sums, expected, rtol=1e-12)


def test_fit_reaches_the_likelihood_of_the_truth_on_its_training_data(model):
    # 12,000 symbols and 24 free parameters: the maximum is some 12 nats above the truth
    assert model.score_samples(DATA).sum() > TRUTH.log_prob(DATA).sum()
    assert model.converged_
    assert np.all(np.diff(model.history_) >= -1e-9 * abs(model.history_[-1]))


def test_tables_are_the_parameters(model):
    assert model.startprob_ is model.params_.start
    assert model.transmat_ is model.params_.transition
    assert model.durationprob_ is model.params_.duration
    assert model.emissionprob_ is model.params_.emission
    assert model.tailprob_ is model.params_.tail
    assert model.endprob_ is None
    D, tail = model.durationprob_, model.tailprob_
    mean = D @ [1, 2, 3, 4] + D[:, -1] * tail / (1 - tail)
    np.testing.assert_allclose(model.expected_durations_, mean, rtol=1e-14)


def test_states_come_in_the_order_of_their_likeliest_symbols(model):
    top = model.params_.emission.argmax(axis=1)
    assert np.all(np.diff(top) >= 0)


def test_decoding_on_a_model_that_cannot_be_mistaken():
    model = with_params(sharp())
    X = [[0, 0, 0, 1, 0, 0, 0, 1, 1], [0, 0]]
    states, log_p = model.decode(X)
    assert [s.tolist() for s in states] == X
    # two stays in state 1, one of which the end cuts short at its longest: 0.5 and 0.5
    np.testing.assert_allclose(log_p, [2 * np.log(0.5), 0.0], rtol=1e-14, atol=1e-14)
    assert [s.tolist() for s in model.predict(X)] == X
    first, second = model.segments(X)
    assert [tuple(s)[:3] for s in first] == [(0, 3, 0), (3, 1, 1), (4, 3, 0), (7, 2, 1)]
    assert [tuple(s) for s in second] == [(0, 2, 0, 1.0, "state 0")]
    assert all(s.confidence == pytest.approx(1.0, abs=1e-12) for s in first)


def test_time_left_and_next_symbols_on_a_model_that_cannot_be_mistaken():
    model = with_params(sharp())
    left = model.remaining([[0], [0, 0, 0], [0, 0, 0, 1]])
    np.testing.assert_allclose(left, [[0, 0, 1], [1, 0, 0], [0.5, 0.5, 0]], atol=1e-15)
    now = [[0, 0], [0, 0, 0], [0, 0, 0, 1]]
    np.testing.assert_allclose(model.predict_next(now), [[1, 0], [0, 1], [0.5, 0.5]], atol=1e-15)
    ahead = model.predict_next(now, horizon=2)
    np.testing.assert_allclose(ahead, [[0, 1], [0.5, 0.5], [1, 0]], atol=1e-15)


def test_a_horizon_is_as_many_missing_symbols(model):
    X = TEST.to_lists()[:5]
    direct = model.predict_next(X, horizon=4)
    np.testing.assert_allclose(
        direct, model.predict_next([row + [None] * 3 for row in X]), rtol=1e-12
    )
    np.testing.assert_allclose(direct.sum(axis=1), 1.0, rtol=1e-12)


def test_posteriors_are_rows_of_probabilities_that_prefer_the_decoded_state(model):
    gamma = model.predict_proba(TEST)
    assert [g.shape for g in gamma] == [(30, 3)] * 40
    np.testing.assert_allclose(np.concatenate(gamma).sum(axis=1), 1.0, rtol=1e-12)
    agree = np.mean(
        [g.argmax(axis=1) == s for g, s in zip(gamma, model.predict(TEST), strict=True)]
    )
    assert agree > 0.6  # chance is a third


def test_sampling_draws_from_the_model_in_its_own_symbols():
    words = Sequences(DATA.codes, DATA.offsets, np.array(list("abcde")), DATA.ids)
    model = HSMM(3, 4, init="moments", max_iter=20).fit(words)
    drawn, states = model.sample(2000, 30, random_state=1, return_states=True)
    assert drawn.vocabulary.tolist() == list("abcde")
    assert (
        model.sample(5, 7, random_state=1).to_lists()
        == model.sample(5, 7, random_state=1).to_lists()
    )
    # the first state and the symbols of a state, within five standard errors
    first = np.bincount([s[0] for s in states], minlength=3) / 2000
    assert np.all(np.abs(first - model.startprob_) < 5 * np.sqrt(0.25 / 2000))
    in_zero = drawn.codes[np.concatenate(states) == 0]
    seen = np.bincount(in_zero, minlength=5) / len(in_zero)
    assert np.all(np.abs(seen - model.emissionprob_[0]) < 5 * np.sqrt(0.25 / len(in_zero)))


def test_information_criteria_count_what_is_free(model):
    # start 2, transition 3 x 1 (no self-transitions), duration 3 x 3, tail 3, emission 3 x 4
    assert model.n_parameters_ == 2 + 3 + 9 + 3 + 12
    log_p = model.score_samples(DATA).sum()
    assert model.aic(DATA) == pytest.approx(2 * 29 - 2 * log_p, rel=1e-14)
    assert model.bic(DATA) == pytest.approx(29 * np.log(12_000) - 2 * log_p, rel=1e-14)
    poisson = HSMM(3, 4, durations="poisson", init=TRUTH, max_iter=5).fit(FEW)
    assert poisson.n_parameters_ == 2 + 3 + 3 + 12


def test_the_same_bits_for_any_number_of_threads_and_every_time():
    fits = [HSMM(3, 4, max_iter=10, n_jobs=j).fit(FEW).params_ for j in (1, 2, 1)]
    for other in fits[1:]:
        for name in ("start", "transition", "duration", "emission"):
            assert np.array_equal(getattr(fits[0], name), getattr(other, name))


def test_zeros_of_a_given_start_stay_zero_and_its_states_keep_their_order():
    forward = Params(
        [1, 0, 0], [[0, 1, 0], [0, 0, 1], [1, 0, 0]], TRUTH.duration, TRUTH.emission[::-1]
    )
    fitted = HSMM(3, 4, init=forward, max_iter=20, pseudocount=0.5).fit(DATA).params_
    assert np.array_equal(fitted.transition, forward.transition)
    assert np.array_equal(fitted.start, forward.start)


def test_labels_everywhere_give_smoothed_counts():
    X = [list("aab"), list("abb")]
    y = [[0, 0, 1], [0, 1, 1]]
    c = 0.5
    model = HSMM(2, 2, pseudocount=c).fit(X, y)
    # emissions: state 0 gave a three times; state 1 gave b three times
    np.testing.assert_allclose(
        model.emissionprob_,
        [[(3 + c) / (3 + 2 * c), c / (3 + 2 * c)]] * 1 + [[c / (3 + 2 * c), (3 + c) / (3 + 2 * c)]],
        rtol=1e-9,
    )
    np.testing.assert_allclose(model.startprob_, [(2 + c) / (2 + 2 * c), c / (2 + 2 * c)])
    np.testing.assert_allclose(model.transmat_, [[0, 1], [1, 0]])
    # state 0 stayed two steps and one; state 1's stays are cut short by the ends
    np.testing.assert_allclose(model.durationprob_[0], [0.5, 0.5], rtol=1e-9)


def test_labels_may_come_from_an_iterator():
    model = HSMM(2, 3).fit([list("aab")] * 2, iter([list("xxy")] * 2))
    assert model.states_.tolist() == ["x", "y"]


def test_labels_nowhere_are_no_labels():
    none = [[None] * 40 for _ in range(len(FEW))]
    a, b = HSMM(3, 4, max_iter=5).fit(FEW), HSMM(3, 4, max_iter=5).fit(FEW, none)
    assert np.array_equal(a.params_.emission, b.params_.emission)


def test_some_labels_say_which_state_is_which():
    data, states, _ = TRUTH.sample(100, 40, rng=5, return_states=True)
    y = np.ma.masked_array(states.reshape(100, 40), mask=np.tile(np.arange(40) % 2 == 1, (100, 1)))
    model = HSMM(3, 4).fit(data, y)
    # half the labels name the states: emissions are close to the truth, in its order
    assert np.abs(model.emissionprob_ - TRUTH.emission).max() < 0.06


def test_stays_longer_than_max_duration_are_named_or_clipped():
    X, y = [list("aaaab")], [[0, 0, 0, 0, 1]]
    with pytest.raises(SojournError, match=r"sequence 0 \(0\) stays in state 0 for 4 steps from "):
        HSMM(2, 3, tail=False).fit(X, y)
    model = HSMM(2, 3, tail=False, clip=True, pseudocount=0.0).fit(X, y)
    np.testing.assert_allclose(model.durationprob_[0], [0, 0, 1], atol=1e-12)
    tailed = HSMM(2, 3, pseudocount=0.0).fit(X, y)
    assert tailed.expected_durations_[0] == pytest.approx(4.0, rel=1e-9)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([[0, 1]], "sequence 0 (0) has 3 symbols but 2 labels"),
        ([[0, 1, 1], [0, 1, 1]], "there are labels for 2 sequences but 1 sequences"),
        ([[0, 1, 2]], "sequence 0 has the label 2 at position 2; with n_states=2"),
        ([[0, 0, 0]], "state 1 never occurs in the labels"),
        ([["x", "x", "x"]], "state 1 never occurs in the labels"),
        ([["x", "y", "z"]], "the labels are 3 words, x, y, z"),
    ],
)
def test_wrong_labels_are_named(y, message):
    with pytest.raises(SojournError) as caught:
        HSMM(2, 3).fit([list("aab")], y)
    assert message in str(caught.value)


def test_an_impossible_sequence_scores_minus_infinity_and_is_not_decoded():
    model = with_params(sharp())
    assert model.score_samples([[0, 1]])[0] == -np.inf
    for method in (model.decode, model.predict, model.segments):
        with pytest.raises(SojournError, match=r"cannot produce sequence 1 \(1\) from position 1"):
            method([[0, 0], [0, 1]])
    with pytest.raises(SojournError, match="cannot produce sequence 0"):
        model.predict_next([[0, 1]])


def test_a_first_stay_that_began_before_the_sequence():
    model = HSMM(3, 4, left_censored=True, init="moments", max_iter=40).fit(DATA)
    np.testing.assert_allclose(model.initial_, initial_distribution(model.params_), rtol=1e-12)
    drawn = model.sample(4000, 1, random_state=0)
    expected = model.initial_.sum(axis=1) @ model.emissionprob_
    seen = np.bincount(drawn.codes, minlength=5) / 4000
    assert np.all(np.abs(seen - expected) < 5 * np.sqrt(0.25 / 4000))


def test_sizes_of_one_work():
    one = HSMM(1, 1).fit(FEW)
    frequencies = np.bincount(FEW.codes) / FEW.n_total
    np.testing.assert_allclose(one.emissionprob_[0], frequencies, atol=1e-4)
    assert HSMM(1, 3, max_iter=5).fit(FEW).transmat_.tolist() == [[1.0]]
    hmm = HSMM(3, 1, max_iter=20).fit(FEW)  # an HMM: self-transitions are allowed
    assert np.all(np.diag(hmm.transmat_) > 0)


def test_more_states_than_symbols_is_fine():
    model = HSMM(7, 3, max_iter=10).fit(FEW)
    assert model.params_.n_states == 7


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_states": 0}, "n_states must be an integer of at least 1, not 0"),
        ({"max_duration": 2.5}, "max_duration must be an integer"),
        ({"init": "best"}, "init is 'best'"),
        ({"init": Params.random(2, 4, 5, rng=0)}, "init has 2 states"),
        ({"unknown": "drop"}, "unknown is 'drop'"),
        ({"durations": "weibull"}, "weibull"),
        ({"pseudocount": -1.0}, "pseudocount"),
    ],
)
def test_wrong_arguments_are_named_and_leave_nothing_behind(options, message):
    model = HSMM(**{"n_states": 3, "max_duration": 4, **options})
    with pytest.raises(SojournError) as caught:
        model.fit(FEW)
    assert message in str(caught.value)
    assert not hasattr(model, "params_")


def test_before_the_fit_there_is_nothing_to_ask():
    with pytest.raises(NotFittedError):
        HSMM(2, 2).score_samples(DATA)
    with pytest.raises(NotFittedError):
        HSMM(2, 2).sample(1, 1)


def test_unknown_symbols_are_an_error_or_missing(model):
    with pytest.raises(SojournError, match="not in the vocabulary"):
        model.score_samples([[0, 9]])
    lenient = clone(model).set_params(unknown="missing", init=TRUTH, max_iter=5).fit(FEW)
    assert lenient.score_samples([[0, 9]]) == lenient.score_samples([[0, None]])


def test_progress_is_shown_where_it_is_asked_for(capsys):
    HSMM(2, 2, max_iter=3, verbose=True).fit(FEW)
    shown = capsys.readouterr().err
    assert "\r" in shown
    assert "EM pass 1: -1." in shown
    assert shown.endswith("\n")
    HSMM(2, 2, max_iter=3).fit(FEW)  # the test's stream is no terminal
    assert capsys.readouterr().err == ""


def test_geometric_stays_far_longer_than_max_duration_are_recovered_by_the_tail():
    # Some 2,000 stays of each state: a standard error of 2.2 % of the mean.
    emission = [[0.7, 0.3, 0, 0], [0, 0, 0.3, 0.7]]
    truth = Params([1, 0], [[0, 1], [1, 0]], [[1], [1]], emission, tail=[0.995] * 2)
    X = truth.sample(400, 2000, rng=0)
    model = HSMM(2, 20, init="moments").fit(X)
    np.testing.assert_allclose(model.expected_durations_, 200.0, rtol=0.05)
    longest = max(stay.length for row in model.segments(X[:20]) for stay in row)
    assert longest > 200
    drawn, _ = model.sample(20, 2000, random_state=1, return_states=True)
    assert max(stay.length for row in model.segments(drawn) for stay in row) > 200


def test_stays_that_pile_up_at_a_hard_limit_are_warned_of():
    truth = Params([1, 0], [[0, 1], [1, 0]], [[1], [1]], [[1, 0], [0, 1]], tail=[0.9] * 2)
    X = truth.sample(30, 100, rng=0)
    with pytest.warns(UserWarning, match=r"last max_duration=5 steps.*tail=True"):
        HSMM(3, 5, tail=False, init="random", max_iter=30).fit(X)


@pytest.mark.filterwarnings("ignore:.*the longest possible")
def test_tails_are_for_free_durations_unless_asked_for():
    def tails(**options):
        return (HSMM(3, 4, init="random", max_iter=2, **options).fit(FEW).tailprob_ > 0).tolist()

    assert tails() == [True] * 3
    assert tails(tail=False) == [False] * 3
    assert tails(durations="poisson") == [False] * 3
    assert tails(durations="poisson", tail=True) == [True] * 3
    assert tails(durations=["free", "poisson", "free"]) == [True, False, True]
    hmm = HSMM(3, 1, init="random", max_iter=2).fit(FEW)
    assert not hmm.tailprob_.any()
    assert hmm.transmat_.diagonal().all()
    tailed = HSMM(3, 1, init="random", max_iter=2, self_transitions=False).fit(FEW)
    assert tailed.tailprob_.all()


def test_a_start_whose_tails_or_ends_disagree_with_the_arguments_is_refused():
    ending = Params(TRUTH.start, TRUTH.transition, TRUTH.duration, TRUTH.emission, end=[0.1] * 3)
    with pytest.raises(SojournError, match="init has end and no tail, but ends=False"):
        HSMM(3, 4, init=ending).fit(FEW)
    with pytest.raises(SojournError, match="init has no end"):
        HSMM(3, 4, init=TRUTH, ends=True).fit(FEW)


@pytest.fixture(scope="module")
def ending_model():
    """Fitted to strings that end, some of them empty; and those strings."""
    truth = Params(
        *(TRUTH.start, TRUTH.transition, TRUTH.duration, TRUTH.emission),
        tail=[0.5, 0, 0.3],
        end=[0.3, 0.1, 0.2],
        empty=0.1,
    )
    X = truth.sample(300, rng=5)
    return HSMM(3, 4, ends=True, init="moments", max_iter=40).fit(X), X, truth


def test_ends_are_part_of_scores_surprise_and_predictions(ending_model):
    model, X, truth = ending_model
    assert truth.log_prob(X).sum() < model.score_samples(X).sum()
    for steps, n, score in zip(model.surprise(X), X.lengths, model.score_samples(X), strict=True):
        assert len(steps) == n + 1
        assert -steps.sum() == pytest.approx(score, rel=1e-12)
    ahead = model.predict_next(X[:20])
    np.testing.assert_allclose(ahead.sum(1), 1.0, rtol=1e-12)
    end = [np.exp(-steps[-1]) for steps in model.surprise(X[:20])]
    np.testing.assert_allclose(ahead[:, -1], end, rtol=1e-10)
    far = [model.predict_next(X[:20], horizon=h)[:, -1] for h in (1, 2, 5, 2000)]
    assert np.all(np.diff(far, axis=0) >= 0)
    np.testing.assert_allclose(far[-1], 1.0, rtol=1e-9)
    before = model.predict_next([[]])[0]
    assert before[-1] == pytest.approx(model.params_.empty)
    drawn = model.sample(50, random_state=0)
    assert len(set(drawn.lengths.tolist())) > 10
    assert model.sample(2, 7).lengths.tolist() == [7, 7]
    assert all(len(path) == n for path, n in zip(model.predict(X), X.lengths, strict=True))


def test_a_stream_gives_the_surprise_of_an_end_at_every_step(ending_model):
    model, X, _ = ending_model
    one = X[int(np.argmax(X.lengths))]
    stream = model.stream()
    assert stream.end() == pytest.approx(-np.log(model.params_.empty))
    for t, symbol in enumerate(one):
        stream.update(symbol)
        want = model.surprise([one[: t + 1]])[0][-1]
        assert stream.end() == want
        np.testing.assert_allclose(stream.predict()[-1], np.exp(-want), rtol=1e-10)
    assert with_params(TRUTH).stream().end() == 0.0


def test_a_model_with_tails_and_ends_is_saved_whole(ending_model, tmp_path):
    model, X, _ = ending_model
    model.save(tmp_path / "m.sojourn")
    again = load(tmp_path / "m.sojourn")
    assert np.array_equal(again.score_samples(X), model.score_samples(X))
    assert np.array_equal(again.endprob_, model.endprob_)
