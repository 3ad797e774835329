"""`SpectralHSMM` as its users meet it: on samples, in parts, with gaps, and with bad input."""

import copy
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from threadpoolctl import threadpool_limits

from sojourn import Params, Sequences, SojournError, SpectralHSMM
from sojourn.spectral import holdout

PARAMS = Params.random(2, 2, 3, rng=0)
TRAIN = PARAMS.sample(1000, 50, rng=1)
TEST = PARAMS.sample(100, 50, rng=2)
ALGORITHMS = ["adjacent", "pooled", "per_step"]
WORDS = ["climb", "descend", "level"]


def fitted(**settings):
    return SpectralHSMM(2, 2, **settings).fit(TRAIN)


def words(sequences):
    return [[None if o is None else WORDS[o] for o in row] for row in sequences]


def learned(model):
    """All arrays that a model has learned, by name."""
    arrays = {
        "rank": model.rank_,
        "window": model.window_,
        "epsilon": model.epsilon_,
        "singular values": model.singular_values_,
        "vocabulary": model.vocabulary_,
        "n_symbols": model.n_symbols_,
        "trials": model.choice_.trials,
    }
    operators = model.operators_
    return arrays | {
        name: getattr(operators, name) for name in ("start", "B", "stop", "rest", "rank")
    }


def assert_same(one, two):
    """Two models, or what they have learned, to the bit."""
    a, b = (learned(m) if isinstance(m, SpectralHSMM) else m for m in (one, two))
    for name, value in a.items():
        assert np.array_equal(value, b[name]) if isinstance(value, np.ndarray) else value == b[name]


# ---- on samples ---------------------------------------------------------------------------------


def rmse(model, test, true):
    """Of the relative error of the likelihoods, as in the paper."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="the signed product is not positive")
        return float(np.sqrt(np.mean(np.expm1(model.score_samples(test) - true) ** 2)))


@pytest.mark.parametrize(
    ("size", "n_models", "paper"),
    [((2, 2, 3), 5, 0.3), ((4, 6, 5), 3, 0.7)],
    ids=["2-2-3", "4-6-5"],
)
def test_errors_on_samples(size, n_models, paper):
    n_x, n_d, _ = size
    pooled, adjacent = [], []
    for seed in range(n_models):
        params = Params.random(*size, rng=seed)
        train, test = params.sample(5000, 100, rng=100 + seed), params.sample(500, 100, rng=seed)
        true = params.log_prob(test)
        model = SpectralHSMM(n_x, n_d, algorithm="pooled", filter="raw", rank=n_x * n_d)
        pooled.append(rmse(model.fit(train), test, true))
        adjacent.append(rmse(SpectralHSMM(n_x, n_d).fit(train), test, true))
    # At most 1.5 times what the paper's method gives in the median at this N.
    assert np.median(pooled) < 1.5 * paper, (pooled, adjacent)
    assert np.median(adjacent) < 0.8 * np.median(pooled), (pooled, adjacent)
    assert max(adjacent) < 3, adjacent


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_more_data_is_better(algorithm):
    params = Params.random(2, 2, 3, rng=1)
    test = params.sample(500, 60, rng=3)
    errors = []
    for n in (300, 30_000):
        model = SpectralHSMM(2, 2, algorithm=algorithm).fit(params.sample(n, 60, rng=4))
        errors.append(np.abs(model.score_samples(test) - params.log_prob(test)).mean())
    # Noise falls with the root of N, tenfold here; half of that in the logarithm may be bias.
    assert errors[1] < errors[0] / 2


def test_a_model_of_one_state_is_the_symbols_own_frequencies():
    params = Params.random(1, 1, 4, rng=0)
    model = SpectralHSMM(1, 1).fit(params.sample(2000, 50, rng=1))
    assert model.rank_ == 1
    # 100,000 draws: a standard deviation of 0.0014.
    np.testing.assert_allclose(model.predict_next([[0], [3]]), [params.emission[0]] * 2, atol=0.01)


def test_one_state_with_durations_and_durations_of_one():
    for size in ((1, 3, 4), (3, 1, 5)):
        params = Params.random(*size, rng=1)
        for algorithm in ALGORITHMS:
            model = SpectralHSMM(size[0], size[1], algorithm=algorithm)
            model.fit(params.sample(3000, 30, rng=2))
            test = params.sample(200, 30, rng=3)
            error = model.score(test) - params.log_prob(test).mean() / 30
            # What 90,000 symbols leave unlearned of some ten parameters is far less.
            assert abs(error) < 0.005, (size, algorithm)


# ---- what the methods return --------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_attributes_and_shapes(algorithm):
    model = fitted(algorithm=algorithm)
    assert model.n_symbols_ == 3
    assert model.vocabulary_.tolist() == [0, 1, 2]
    assert 1 <= model.rank_ <= 4
    assert model.rank_ == model.operators_.rank
    assert len(model.singular_values_) >= model.rank_
    assert (np.diff(model.singular_values_) <= 0).all()
    assert model.window_[0] == 0
    assert 0 < model.epsilon_ <= 0.01 / 3
    assert model.moments_.n_total == TRAIN.n_total
    assert model.score_samples(TEST).shape == (100,)
    assert model.predict_next(TEST).shape == (100, 3)
    assert [len(s) for s in model.surprise(TEST)] == [50] * 100


def test_windows_are_those_asked_for():
    assert fitted(windows="theorem").window_ == (0, 1)
    assert SpectralHSMM(2, 4, windows="theorem").fit(TRAIN).window_ == (0, 2, 3)
    assert SpectralHSMM(2, 4, windows="contiguous").fit(TRAIN).window_ == (0, 1, 2)
    assert SpectralHSMM(2, 4, algorithm="pooled").fit(TRAIN).window_ == (0, 2, 3)
    assert fitted(windows=[0, 3]).window_ == (0, 3)
    assert fitted(windows=np.array([0, 2])).window_ == (0, 2)


def test_a_given_rank_is_used():
    assert [fitted(rank=k).rank_ for k in (1, 3, np.int64(4))] == [1, 3, 4]


def test_surprise_adds_up_to_the_log_probability():
    model = fitted()
    gappy = [[0, None, 1], [None, None], [2], *TEST.to_lists()]
    sums = [surprise.sum() for surprise in model.surprise(gappy)]
    # The same terms, added in another order.
    np.testing.assert_allclose(sums, -model.score_samples(gappy), rtol=1e-12)


def test_the_score_is_a_symbol_and_missing_ones_do_not_count():
    model = fitted()
    assert model.score([[0, 1]]) == pytest.approx(model.score_samples([[0, 1]])[0] / 2)
    gappy = [[0, None, None, 1], [None, 2]]
    assert model.score(gappy) == pytest.approx(model.score_samples(gappy).sum() / 3)
    assert model.score([[None, None]]) == 0


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_predictions_are_what_the_next_symbol_scores(algorithm):
    model = fitted(algorithm=algorithm)
    rows = [[0], [1, 2], TEST[0], [0, None, 1]]
    ahead = model.predict_next(rows)
    np.testing.assert_allclose(ahead.sum(axis=1), 1, rtol=1e-14)
    for row, p in zip(rows, ahead, strict=True):
        longer = [[*row, o] for o in range(3)]
        last = [surprise[-1] for surprise in model.surprise(longer)]
        np.testing.assert_allclose(p, np.exp(-np.array(last)), rtol=1e-12)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_predictions_further_ahead_are_those_after_missing_symbols(algorithm):
    model = fitted(algorithm=algorithm)
    rows = [[0], [1, 2], TEST[0]]
    for horizon in (2, 7):
        gaps = [[*row, *[None] * (horizon - 1)] for row in rows]
        assert np.array_equal(model.predict_next(rows, horizon=horizon), model.predict_next(gaps))


def test_probabilities_of_all_strings_sum_to_one():
    few = SpectralHSMM(2, 2, rank=4).fit(TRAIN[:15])
    strings = np.stack(np.meshgrid(*[np.arange(3)] * 6), axis=-1).reshape(-1, 6)
    assert np.exp(few.score_samples(strings)).sum() == pytest.approx(1, abs=1e-12)
    # A missing symbol leaves a distribution over the others.
    gappy = [[a, b, None, c] for a in range(3) for b in range(3) for c in range(3)]
    assert np.exp(few.score_samples(gappy)).sum() == pytest.approx(1, abs=1e-12)


def test_strings_and_integers_are_learned_alike():
    by_code, by_word = fitted(), SpectralHSMM(2, 2).fit(words(TRAIN))
    assert by_word.vocabulary_.tolist() == WORDS
    assert np.array_equal(by_code.operators_.B, by_word.operators_.B)
    assert np.array_equal(by_code.score_samples(TEST), by_word.score_samples(words(TEST)))


def test_every_form_of_data_is_the_same_data():
    array = TRAIN.codes.reshape(1000, 50)
    model = fitted()
    for X, lengths in (
        (array, None),
        (array.tolist(), None),
        (list(array), None),
        (TRAIN.codes[:, None], [50] * 1000),
        (np.ma.array(array, mask=False), None),
    ):
        other = SpectralHSMM(2, 2).fit(X, lengths=lengths)
        assert_same(model, other)
    stacked = model.score_samples(TEST.codes, lengths=[50] * 100)
    assert np.array_equal(stacked, model.score_samples(TEST))
    assert model.score(TEST.codes, lengths=[50] * 100) == model.score(TEST)


def test_one_long_sequence():
    long = PARAMS.sample(1, 60_000, rng=5)
    model = SpectralHSMM(2, 2).fit(long)
    assert len(model.choice_.trials) > 3  # blocks of it were held out
    error = np.abs(model.score_samples(TEST) - PARAMS.log_prob(TEST)).mean()
    # The start is seen but once, and half of the start is that: another first symbol costs log 2.
    assert error < 1
    assert model.score(long) == pytest.approx(PARAMS.log_prob(long)[0] / 60_000, abs=0.005)


def test_data_with_gaps():
    rng = np.random.default_rng(0)
    gappy = [[None if rng.random() < 0.1 else o for o in row] for row in TRAIN]
    model = SpectralHSMM(2, 2).fit(gappy)
    # Half of all windows of five symbols are left; errors are those of half as many sequences.
    assert np.abs(model.score_samples(TEST) - PARAMS.log_prob(TEST)).mean() < 0.5


# ---- the raw product ----------------------------------------------------------------------------


def test_the_raw_product_warns_once_with_the_count():
    model = fitted(filter="raw", windows=(0,), rank=2)  # too short a window for this model
    with pytest.warns(UserWarning, match="not positive for") as caught:
        log_p = model.score_samples(TEST)
    n_bad = int(np.isneginf(log_p).sum())
    assert 10 < n_bad < 90
    assert len(caught) == 1
    assert f"not positive for {n_bad} of 100 sequences" in str(caught[0].message)
    assert caught[0].filename == __file__
    with pytest.warns(UserWarning, match="not positive for") as caught:
        assert model.score(TEST) == -np.inf
    assert len(caught) == 1
    assert np.isfinite(model.set_params(filter="normalised").score_samples(TEST)).all()


def test_the_raw_product_of_good_operators_is_nearly_the_filter():
    model = fitted(algorithm="pooled")
    normalised = model.score_samples(TEST)
    raw = model.set_params(filter="raw").score_samples(TEST)
    assert not np.array_equal(raw, normalised)
    # Symbols that this model thinks rare are cut at ε < 0.004.
    np.testing.assert_allclose(raw, normalised, atol=0.3)
    assert np.array_equal(model.surprise(TEST)[0], fitted(algorithm="pooled").surprise(TEST)[0])


# ---- in parts -----------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("names", [False, True], ids=["numbers", "names"])
@pytest.mark.parametrize("bound", [2000, 1 << 17])
def test_any_split_into_parts_gives_the_same_bits(algorithm, names, bound, monkeypatch):
    monkeypatch.setattr(holdout, "MAX_SYMBOLS", bound)
    rng = np.random.default_rng(bound)
    seqs = PARAMS.sample(300, rng.integers(1, 40, 300), rng=6)
    if names:
        ids = np.array([f"flight {i}" for i in range(300)])
        seqs = Sequences(seqs.codes, seqs.offsets, seqs.vocabulary, ids)
    at_once = SpectralHSMM(2, 2, algorithm=algorithm).fit(seqs)
    assert len(at_once.choice_.trials) > 3
    for cuts in (
        [150],
        [30, 31, 32, 290],
        sorted(rng.choice(np.arange(10, 299), 6, replace=False)),
    ):
        parts = [seqs[a:b] for a, b in zip([0, *cuts], [*cuts, 300], strict=True)]
        if names:  # in any order, as long as the first can be learned from
            parts = sorted(parts, key=len, reverse=True)
        model = SpectralHSMM(2, 2, algorithm=algorithm)
        for part in parts:
            model.partial_fit(part)
        assert_same(at_once, model)
        assert np.array_equal(at_once.score_samples(TEST), model.score_samples(TEST))


def test_lists_in_parts_are_numbered_on():
    rows = TRAIN.to_lists()
    model = SpectralHSMM(2, 2)
    for part in (rows[:100], rows[100:101], rows[101:]):
        model.partial_fit(part)
    assert_same(model, fitted())


def test_a_part_of_short_sequences_only():
    model = SpectralHSMM(2, 2).partial_fit(TRAIN)
    model.partial_fit([[0], [1, 2]])
    assert model.moments_.n_total == TRAIN.n_total + 3
    assert model.moments_.n_sequences == 1002


def test_fit_starts_anew():
    assert_same(fitted().partial_fit(TEST).fit(TRAIN), fitted())


def test_parts_must_be_counted_alike():
    model = fitted()
    before = learned(model)
    with pytest.raises(
        SojournError, match=r"do not add, .* max_duration, .* have changed, fit again"
    ):
        model.set_params(max_duration=9).partial_fit(TEST)
    with pytest.raises(SojournError, match="do not add"):
        model.set_params(max_duration=2, algorithm="pooled").partial_fit(TEST)
    assert_same(model, before)


def test_a_later_part_knows_the_words_of_the_first():
    model = SpectralHSMM(2, 2).partial_fit(words(TRAIN))
    with pytest.raises(SojournError, match=r"sequence 1 has symbol 'hover' at position 2, which"):
        model.partial_fit([["climb"], ["level", "climb", "hover"]])
    model.set_params(unknown="missing").partial_fit([["level", "climb", "hover"]])
    assert model.vocabulary_.tolist() == WORDS


# ---- the same bits ------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_same_bits_again_and_for_any_number_of_threads(algorithm):
    params = Params.random(4, 6, 5, rng=3)
    n, length = (300, 40) if algorithm == "per_step" else (1500, 100)
    train, test = params.sample(n, length, rng=4), params.sample(1200, 40, rng=5)
    first, *others = (
        SpectralHSMM(4, 6, algorithm=algorithm, windows=(0, 1), n_jobs=n_jobs).fit(train)
        for n_jobs in (1, 1, 2, 3, None)
    )
    for other in others:
        assert_same(first, other)
        assert np.array_equal(first.score_samples(test), other.score_samples(test))
        assert np.array_equal(first.predict_next(test), other.predict_next(test))


def test_the_same_bits_for_any_number_of_threads_in_the_linear_algebra():
    params = Params.random(6, 12, 9, rng=0)
    train = params.sample(100, 200, rng=1)
    models, scores = [], []
    for n_threads in (1, 2):
        with threadpool_limits(n_threads, user_api="blas"):
            models.append(SpectralHSMM(6, 12, rank=64, windows=(0, 1, 2)).fit(train))
            scores.append(models[-1].score_samples(train))
    assert models[0].rank_ == 64
    assert_same(*models)
    assert np.array_equal(*scores)


# ---- as scikit-learn has it ---------------------------------------------------------------------


def test_parameters_are_kept_as_they_are_given():
    settings = {
        "n_states": 3,
        "max_duration": 4,
        "algorithm": "pooled",
        "windows": (0, 2),
        "rank": 5,
        "filter": "raw",
        "self_transitions": True,
        "unknown": "missing",
        "random_state": 7,
        "n_jobs": 2,
    }
    model = SpectralHSMM(**settings)
    assert model.get_params() == settings
    assert clone(model).get_params() == settings
    assert model.set_params(rank="auto").rank == "auto"


def test_a_clone_is_not_fitted_and_a_copy_is():
    model = fitted()
    with pytest.raises(NotFittedError):
        clone(model).score(TEST)
    twin = copy.deepcopy(model)
    model.partial_fit(TEST)
    assert_same(twin, fitted())
    assert np.array_equal(twin.score_samples(TEST), fitted().score_samples(TEST))


def test_a_grid_search_on_rows_of_an_array():
    X = TRAIN.codes.reshape(-1, 50)[:300]
    grid = {"rank": [1, 4], "max_duration": [1, 2]}
    search = GridSearchCV(SpectralHSMM(2, 2, n_jobs=1), grid, cv=3, error_score="raise").fit(X)
    assert search.best_params_["rank"] == 4
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.score(TEST.codes.reshape(-1, 50)) == pytest.approx(-0.97, abs=0.1)


# ---- bad input ----------------------------------------------------------------------------------

NAN = float("nan")


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([], "there are no sequences; expected at least 1"),
        (np.empty((0, 5), int), "there are no sequences; expected at least 1"),
        (
            [[0, 1, 2], []],
            "sequence 1 is empty; every sequence needs at least one symbol, but for a model of",
        ),
        ([[0, 1, 2], [0, -3]], r"sequence 1 has -3 at position 1; expected integers of 0 and more"),
        (np.array([[0, 1], [-1, 0]]), r"sequence 1 has -1 at position 0; expected integers"),
        ([[0, 1.5, 2]], r"sequence 0 has 1.5 \(float\) at position 1; expected a string or an int"),
        (
            [[0, 1], [1, NAN]],
            r"sequence 1 has NaN \(float\) at position 1; expected a string or an",
        ),
        (np.array([[0.0, NAN]]), r"sequence 0 has NaN \(float\) at position 1; expected a string"),
        (
            [[0, 1], [1, "a"]],
            r"sequence 1 has the string 'a' at position 1, but sequence 0 has the",
        ),
        (
            [[True, False]],
            r"sequence 0 has True \(bool\) at position 0; expected a string or an int",
        ),
        ([0, 1, 2], r"sequence 0 is 0; expected a list of symbols: pass \[X\] where X is one seq"),
        ("abc", r"expected a list of sequences, got str; where X is one sequence pass \[X\]"),
        ([[None, None, None]], "every symbol is missing; pass vocabulary="),
    ],
)
def test_bad_data_are_named(X, message):
    model = SpectralHSMM(2, 2)
    with pytest.raises(SojournError, match=message):
        model.fit(X)
    assert not [name for name in vars(model) if name.endswith("_")]
    with pytest.raises(NotFittedError):
        model.score(TEST)


@pytest.mark.parametrize(
    ("X", "settings", "message"),
    [
        (
            [[0, 1], [1]],
            {},
            r"the longest of 2 has 2 symbols .*, and windows \[\(0,\), .*\] need 3, none of them "
            r"missing; give longer sequences or a smaller max_duration or window",
        ),
        ([[0, 1] * 6], {"windows": (0, 5)}, r"has 12 symbols .* windows \[\(0, 5\)\] need 13"),
        ([[0, 1, 1, 0, 1]], {"algorithm": "pooled"}, r"has 5 symbols .* \[\(0, 1\)\] need 6"),
        ([[0, 1, 1, 0, 1]], {"algorithm": "per_step"}, r"has 5 symbols .* \[\(0, 1\)\] need 6"),
        ([[0, None, 1, None] * 9], {}, "need 3, none of them missing"),
        (np.array([[0], [1], [1]]), {}, r"has 1 symbols .* or lengths= where the rows of X are"),
    ],
)
def test_none_long_enough_says_how_long_is_needed(X, settings, message):
    with pytest.raises(SojournError, match=f"no sequence is long enough: .*{message}"):
        SpectralHSMM(2, 2, **settings).fit(X)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_sequences_too_short_are_used_for_what_they_can_give(algorithm):
    one = [[0, 1, 2, 1, 0, 0, 1, 2, 2]]
    model = SpectralHSMM(2, 2, algorithm=algorithm).fit(one + [[1], [2, 0], [0]] * 5)
    assert np.isfinite(model.score_samples([[0, 1], [2]])).all()
    if algorithm == "adjacent":  # the first symbol is learned from the short ones too
        first = model.moments_.with_heldout(0).first
        assert first.tolist() == [6, 5, 5]


def test_a_symbol_that_was_not_seen():
    model = SpectralHSMM(2, 2).fit(words(TRAIN))
    new = [["climb", "level"], ["level", "hover", "climb"]]
    message = (
        "sequence 1 has symbol 'hover' at position 1, which is not in the vocabulary of 3 symbols; "
        "pass unknown='missing' to treat it as not seen, or refit"
    )
    for method in (model.score_samples, model.score, model.surprise, model.predict_next):
        with pytest.raises(SojournError, match=message):
            method(new)
    model.set_params(unknown="missing")
    missing = [["climb", "level"], ["level", None, "climb"]]
    assert np.array_equal(model.score_samples(new), model.score_samples(missing))
    assert model.surprise(new)[1][1] == 0


def test_integers_are_not_words():
    with pytest.raises(SojournError, match=r"sequence 0 has symbol 1 .* such as 'climb'"):
        SpectralHSMM(2, 2).fit(words(TRAIN)).score([[1, 2]])


def test_more_states_than_symbols_names_the_assumption():
    with pytest.warns(UserWarning, match=r"n_states is 4 but there are 3 symbols: assumption A3"):
        model = SpectralHSMM(4, 2).fit(TRAIN)
    assert np.isfinite(model.score(TEST))


POOLED = {"algorithm": "pooled"}


@pytest.mark.parametrize(
    ("n_symbols", "settings", "message"),
    [
        (
            600,
            POOLED,
            r"need a table of 7.78e\+13 entries .* fit where .* at most 512",
        ),
        (
            12,
            {"windows": "theorem", "max_duration": 20, "n_states": 3} | POOLED,
            r"windows of 4 symbols out of 12 need a table of 5.16e\+09 entries \(38.4 GiB\), .*: "
            r"at most 3, such as windows=\(0, 1, 2\), fit; .*$",
        ),
        (
            30,
            {"algorithm": "per_step"},
            r"at most 1, such as windows=\(0,\), fit, or .* algorithm='pooled'; .*$",
        ),
    ],
)
def test_tables_too_large(n_symbols, settings, message):
    X = np.random.default_rng(0).integers(0, n_symbols, (20, 100))
    X[0, 0] = n_symbols - 1
    model = SpectralHSMM(**{"n_states": 2, "max_duration": 2} | settings)
    with pytest.raises(SojournError, match=message):
        model.fit(Sequences.from_array(X, vocabulary=range(n_symbols)))
    assert not hasattr(model, "operators_")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_states": 0}, "n_states must be an integer of at least 1, not 0"),
        ({"n_states": 2.0}, "n_states must be an integer of at least 1, not 2.0"),
        ({"n_states": True}, "n_states must be an integer of at least 1, not True"),
        ({"max_duration": -1}, "max_duration must be an integer of at least 1, not -1"),
        ({"max_duration": "2"}, "max_duration must be an integer of at least 1, not '2'"),
        ({"rank": 0}, "rank must be an integer of at least 1, not 0"),
        ({"rank": "best"}, "rank must be an integer of at least 1, not 'best'"),
        ({"rank": 1.5}, "rank must be an integer of at least 1, not 1.5"),
        (
            {"algorithm": "viterbi"},
            "algorithm is 'viterbi'; it is one of 'adjacent', 'pooled', 'per",
        ),
        ({"filter": "signed"}, "filter is 'signed'; it is one of 'normalised', 'raw'"),
        ({"unknown": "skip"}, "unknown is 'skip'; it is one of 'error', 'missing'"),
        ({"windows": "wide"}, "windows is 'wide'; it is one of 'auto', 'theorem', 'contiguous'"),
        ({"windows": (1, 2)}, r"offsets of a window start at 0 and grow; got \(1, 2\)"),
        ({"windows": (0, 2, 2)}, r"offsets of a window start at 0 and grow; got \(0, 2, 2\)"),
        ({"windows": ()}, r"offsets of a window start at 0 and grow; got \(\)"),
        ({"windows": (0, 1.5)}, r"offsets of a window are integers; got \(0, 1.5\)"),
        ({"windows": 3}, "offsets of a window are integers; got 3"),
        ({"n_jobs": 0}, "n_jobs is a number of threads of at least 1, or -1 or None"),
    ],
)
def test_bad_settings_are_named(settings, message):
    model = SpectralHSMM(**{"n_states": 2, "max_duration": 2} | settings)
    with pytest.raises(SojournError, match=message):
        model.fit(TRAIN)
    assert not [name for name in vars(model) if name.endswith("_")]


@pytest.mark.parametrize("horizon", [0, -1, 1.5, "2", None])
def test_a_horizon_is_a_number_of_steps(horizon):
    with pytest.raises(SojournError, match="horizon must be an integer of at least 1, not"):
        fitted().predict_next(TEST, horizon=horizon)


@pytest.mark.parametrize("method", ["score_samples", "score", "surprise", "predict_next"])
def test_a_model_that_is_not_fitted_says_so(method):
    with pytest.raises(NotFittedError, match="This SpectralHSMM instance is not fitted yet"):
        getattr(SpectralHSMM(2, 2), method)(TEST)


@pytest.mark.parametrize(
    ("X", "settings"),
    [
        ([[0, 1], [2, -1]], {}),
        ([[0, 1], [2, 1]], {"windows": (0, 7)}),
        ([[0, 1], [2, 9]], {}),
        ([["a", "b"]], {}),
        ([[0, 1, 2] * 9], {"rank": 0}),
        ([[0, 1, 2] * 9], {"n_states": 0}),
    ],
)
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_a_fit_that_fails_changes_nothing(method, X, settings):
    model = fitted()
    before, moments, scores = learned(model), model.moments_, model.score_samples(TEST)
    model.set_params(**settings)
    if method == "fit" and X in ([[0, 1], [2, 9]], [["a", "b"]]):
        X = [*X, [0.5]]  # what is only new to the old model is no error in a new fit
    with pytest.raises(SojournError):
        getattr(model, method)(X)
    assert_same(model, before)
    assert model.moments_ is moments
    assert np.array_equal(model.score_samples(TEST), scores)
