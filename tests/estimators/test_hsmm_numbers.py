"""`HSMM` on measurements: fits, everything after a fit, and what is refused."""

import json
import re

import numpy as np
import pytest
from hmmlearn.hmm import GaussianHMM

import sojourn as sj
from sojourn import HSMM, Params, Signals, SojournError
from sojourn import emissions as em
from sojourn.exact.draw import sample

TRUTH = em.Gaussian(
    means=[[-3.0, 0.0], [0.0, 2.0], [3.0, -1.0]],
    covariances=[np.eye(2), [[1.0, 0.5], [0.5, 1.0]], 0.3 * np.eye(2)],
)


def model_of(density: em.Emission, n_d: int = 5, seed: int = 0) -> Params:
    p = Params.random(density.n_states, n_d, 1, rng=seed)
    return Params(p.start, p.transition, p.duration, p.emission, density=density)


def drawn(params: Params, n: int, length: int, seed: int) -> tuple[list, np.ndarray]:
    """Sequences of values, and the states."""
    found = sample(params, n, length, seed)
    values = params.density.sample(found.states, np.random.default_rng(seed))
    return np.split(values, found.offsets[1:-1]), found.states


PARAMS = model_of(TRUTH)
X, STATES = drawn(PARAMS, 60, 50, 1)
FAST = {"max_iter": 15, "tol": 1e-5}


@pytest.fixture(scope="module")
def fitted() -> HSMM:
    return HSMM(3, 5, tail=False).fit(X)


def test_states_and_densities_are_found(fitted):
    density = fitted.params_.density
    # 1000 steps of each state: standard errors of about 0.03.
    np.testing.assert_allclose(density.means, TRUTH.means, atol=0.2)
    np.testing.assert_allclose(density.covariances, TRUTH.covariances, atol=0.2)
    np.testing.assert_allclose(fitted.durationprob_, PARAMS.duration, atol=0.15)
    assert np.mean(np.concatenate(fitted.predict(X)) == STATES) > 0.95
    assert (np.diff(fitted.history_) >= 0).all()
    signals = Signals.from_arrays(X)
    best = sj.exact.forward.log_prob(PARAMS, signals).sum()
    assert fitted.score_samples(X).sum() > best  # the most likely model is likelier than the truth


def test_forms_of_data_give_one_model(fitted):
    stacked = np.concatenate(X)
    for data, lengths in (
        (np.stack(X), None),
        (stacked, [50] * 60),
        (Signals.from_arrays(X), None),
    ):
        np.testing.assert_array_equal(
            fitted.score_samples(data, lengths=lengths), fitted.score_samples(X)
        )


def test_results_agree_with_each_other(fitted):
    scores = fitted.score_samples(X)
    np.testing.assert_allclose([-s.sum() for s in fitted.surprise(X)], scores, atol=1e-8)
    assert fitted.score(X) == pytest.approx(scores.sum() / 3000)
    paths, best = fitted.decode(X)
    assert (best <= scores).all()
    stays = fitted.segments(X)[0]
    assert sum(stay.length for stay in stays) == 50
    assert stays[0].state == paths[0][0]
    np.testing.assert_allclose(fitted.remaining(X).sum(axis=1), 1.0)
    proba = fitted.predict_proba(X)
    assert np.mean(np.concatenate(proba).argmax(axis=1) == np.concatenate(paths)) > 0.98
    assert fitted.n_parameters_ == 2 + 3 + 12 + 6 + 9  # start, transitions, durations, density
    assert np.isfinite(fitted.bic(X))


def test_a_stream_equals_the_batch(fitted):
    stream = fitted.stream()
    surprise = fitted.surprise(X)[0]
    # Products of another shape may be added up in another order.
    np.testing.assert_allclose([stream.update(row) for row in X[0]], surprise, atol=1e-10)
    np.testing.assert_allclose(fitted.stream().update_many(X[0]), surprise, atol=1e-10)
    again = fitted.stream().restore(json.loads(json.dumps(stream.snapshot())))
    named = dict(zip(fitted.channels_, [0.0, np.nan], strict=True))
    assert again.update(named) == stream.update([0.0, np.nan])
    np.testing.assert_allclose(stream.state_proba().sum(), 1.0)
    stream = fitted.stream()
    stream.update_many(X[0])
    np.testing.assert_allclose(
        stream.predict(3).mean[0], fitted.predict_next(X[:1], horizon=3).mean[0]
    )
    other = HSMM(3, 5, init=PARAMS, tail=False, **FAST).fit(X).stream()
    with pytest.raises(SojournError, match="another model"):
        other.restore(stream.snapshot())
    with pytest.raises(SojournError, match="no value of channel 'channel 1'"):
        stream.update({"channel 0": 1.0})


def test_forecasts_hold_what_is_drawn(fitted):
    found = fitted.predict_next(X[:3], horizon=2)
    assert found.quantiles.shape == (3, 3, 2)
    assert (np.diff(found.quantiles, axis=1) > 0).all()
    rng = np.random.default_rng(0)
    states = rng.choice(3, size=100_000, p=found.states[0])
    values = fitted.params_.density.sample(states, rng)
    np.testing.assert_allclose(found.mean[0], values.mean(axis=0), atol=0.03)
    # 100,000 draws: a share is known to 0.002.
    below = (values[:, None] <= found.quantiles[0]).mean(axis=0)
    np.testing.assert_allclose(below, np.repeat([[0.05], [0.5], [0.95]], 2, axis=1), atol=0.007)


def test_draws_come_from_the_model(fitted):
    seqs, states = fitted.sample(20, 200, random_state=0, return_states=True)
    assert seqs.channels == fitted.channels_
    states = np.concatenate(states)
    for x in range(3):
        own = seqs.values[states == x]
        np.testing.assert_allclose(own.mean(axis=0), fitted.params_.density.means[x], atol=0.15)
    again = fitted.sample(20, 200, random_state=0)
    np.testing.assert_array_equal(again.values, seqs.values)


MIXED = em.Channels(
    {
        "speed": em.Gaussian(means=[[0.0], [6.0]], covariances=[[[1.0]], [[1.0]]]),
        "hits": em.Poisson(rates=[[1.0], [6.0]]),
        "alarm": em.Bernoulli(probabilities=[[0.05], [0.6]]),
        "mode": em.Categorical(
            categories=np.array(["down", "up"]), probabilities=[[0.9, 0.1], [0.2, 0.8]]
        ),
    }
)


def mixed_table(seed: int) -> dict:
    rows, _ = drawn(model_of(MIXED, 4), 30, 40, seed)
    values = np.concatenate(rows)
    names = dict(zip(MIXED.names, values.T, strict=True))
    names["mode"] = np.array(["down", "up"])[values[:, 3].astype(int)]
    return {"id": np.repeat(np.arange(30), 40), **names}


def test_channels_of_several_kinds_survive_a_file(tmp_path):
    table = mixed_table(2)
    signals = Signals.from_table(table, id="id")
    wished = em.Channels(
        {
            "mode": em.Categorical(),
            "speed": em.Gaussian(),
            "hits": em.Poisson(),
            "alarm": em.Bernoulli(),
        }
    )
    model = HSMM(2, 4, emissions=wished, **FAST).fit(signals)
    found = model.params_.density.parts
    np.testing.assert_allclose(np.sort(found["hits"].rates.ravel()), [1.0, 6.0], rtol=0.15)
    assert found["mode"].categories.tolist() == ["down", "up"]
    model.save(tmp_path / "model.sojourn")
    again = sj.load(tmp_path / "model.sojourn")
    np.testing.assert_array_equal(again.score_samples(signals), model.score_samples(signals))
    assert again.channels_ == ("mode", "speed", "hits", "alarm")
    assert again.sample(1, 5, random_state=0).categories["mode"].tolist() == ["down", "up"]
    other = Signals.from_table({**table, "mode": ["sideways"] * 1200}, id="id")
    with pytest.raises(SojournError, match="'mode' has symbol 'sideways'"):
        model.score_samples(other)
    model.set_params(unknown="missing")
    assert np.isfinite(model.score_samples(other)).all()


def test_strings_beside_numbers_are_symbols_by_default():
    signals = Signals.from_table(
        {k: v for k, v in mixed_table(3).items() if k in ("id", "speed", "mode")}, id="id"
    )
    model = HSMM(2, 4, **FAST).fit(signals)
    kinds = [type(part).__name__ for part in model.params_.density.parts.values()]
    assert kinds == ["Gaussian", "Categorical"]


def test_integers_are_symbols_unless_an_emission_says_otherwise():
    counts = [np.random.default_rng(i).poisson([1] * 10 + [9] * 10) for i in range(10)]
    assert HSMM(2, 10, **FAST).fit(counts).params_.density is None
    model = HSMM(2, 10, emissions=em.Poisson(), **FAST).fit(counts)
    np.testing.assert_allclose(model.params_.density.rates.ravel(), [1, 9], rtol=0.2)


def test_missing_channels_change_nothing_but_what_they_say():
    holes = [row.copy() for row in X]
    for row in holes:
        row[::3, 1] = np.nan
    model = HSMM(3, 5, init=PARAMS, max_iter=1, tail=False).fit(X)
    alone = model_of(
        em.Gaussian(means=TRUTH.means[:, :1], covariances=TRUTH.covariances[:, :1, :1])
    )
    blank = [np.column_stack([row[:, 0], np.full(50, np.nan)]) for row in X]
    one = sj.exact.forward.log_prob(alone, Signals.from_arrays([row[:, 0] for row in X]))
    # max_iter=1 is an E-step: the model is the start
    np.testing.assert_allclose(model.score_samples(blank), one, atol=1e-8)
    found = HSMM(3, 5, tail=False, **FAST).fit(holes)
    np.testing.assert_allclose(found.params_.density.means, TRUTH.means, atol=0.25)


@pytest.mark.parametrize("kind", ["diag", "full", "tied"])
def test_an_hmm_is_the_special_case_of_stays_of_one_step(kind):
    stacked, lengths = np.concatenate(X), [50] * 60
    peer = GaussianHMM(
        3,
        kind,
        n_iter=1,
        random_state=0,
        covars_prior=0.0,
        covars_weight=0.0,
        means_weight=0.0,
        min_covar=0.0,
        startprob_prior=1.0,
        transmat_prior=1.0,
    )
    name = {"diag": "diagonal"}.get(kind, kind)
    covariances = np.stack([np.eye(2) * (x + 1) for x in range(3)])
    if kind == "tied":
        covariances = np.stack([np.eye(2)] * 3)
    means, transition = TRUTH.means + 0.3, np.full((3, 3), 0.2) + 0.4 * np.eye(3)
    peer.init_params = ""
    peer.startprob_, peer.transmat_, peer.means_ = np.full(3, 1 / 3), transition, means
    peer.covars_ = {"diag": np.einsum("xii->xi", covariances), "full": covariances}.get(
        kind, covariances[0]
    )
    density = em.Gaussian(covariance=name, shrinkage=0.0, means=means, covariances=covariances)
    params = Params(
        np.full(3, 1 / 3), transition, np.ones((3, 1)), np.ones((3, 1)), density=density
    )
    signals = Signals.from_arrays(X)
    total = sj.exact.forward.log_prob(params, signals).sum()
    assert total == pytest.approx(peer.score(stacked, lengths), rel=1e-10)
    if kind == "tied":
        return  # hmmlearn divides the tied covariance by all weights too, but keeps its prior
    peer.fit(stacked, lengths)
    ours = HSMM(
        3, 1, init=params, max_iter=2, pseudocount=0.0, self_transitions=True, tail=False
    ).fit(X)
    np.testing.assert_allclose(ours.params_.density.means, peer.means_, atol=1e-8)
    np.testing.assert_allclose(ours.params_.density.covariances, peer.covars_, atol=1e-8)
    np.testing.assert_allclose(ours.transmat_, peer.transmat_, atol=1e-8)


def test_labelled_states_keep_their_numbers():
    labels = [np.array([2, 0, 1])[row] for row in np.split(STATES, 60)]
    model = HSMM(3, 5, tail=False, **FAST).fit(X, labels)
    np.testing.assert_allclose(model.params_.density.means, TRUTH.means[[1, 2, 0]], atol=0.2)
    few = [row if i < 5 else None for i, row in enumerate(labels)]
    model = HSMM(3, 5, tail=False, **FAST).fit(X, few)
    np.testing.assert_allclose(model.params_.density.means, TRUTH.means[[1, 2, 0]], atol=0.2)


def test_a_fit_continues_from_its_checkpoint(tmp_path):
    path = tmp_path / "fit.checkpoint"
    options = {"tail": False, "tol": 0.0, "emissions": em.StudentT()}
    whole = HSMM(3, 5, max_iter=6, **options).fit(X)
    HSMM(3, 5, max_iter=3, **options).fit(X, checkpoint=path)
    rest = HSMM(3, 5, max_iter=6, **options).fit(X, checkpoint=path, resume=True)
    assert rest.history_ == whole.history_
    np.testing.assert_array_equal(rest.params_.density.dofs, whole.params_.density.dofs)


def test_result_is_independent_of_n_jobs():
    one, two = (HSMM(3, 5, n_jobs=n, **FAST).fit(X) for n in (1, 2))
    assert one.history_ == two.history_


def test_sizes_are_chosen_on_numbers():
    found = sj.select(X[:30], n_states=[1, 3], max_duration=[5], cv=2, **FAST)
    assert found.n_states == 3


@pytest.mark.parametrize(
    ("emissions", "data", "message"),
    [
        (None, [np.ones((9, 1))], "channel 'channel 0' is always 1"),
        (None, np.zeros((20, 4)), r"pass \[X\] for the first, X\[:, :, None\] for the second"),
        (None, [np.array([0.1, np.inf])], "inf in channel 'channel 0' at position 1"),
        (em.Poisson(), [np.array([0.5])], "'channel 0' has the value 0.5; Poisson"),
        (em.Channels({"a": em.Gaussian()}), [np.zeros((3, 2))], "there is no channel 'a'"),
        ("gaussian", [np.array([0.5])], "emissions is 'gaussian'; expected an emission"),
        (em.Gaussian(), [["a", "b"]], "sequence 0 is not a table of numbers"),
        (em.Gaussian(), sj.Sequences.from_lists([["a"]]), "X holds symbols"),
    ],
)
def test_bad_input_is_named(emissions, data, message):
    with pytest.raises(SojournError, match=message):
        HSMM(2, 3, emissions=emissions).fit(data)


def test_channels_are_matched_by_name(fitted):
    names = Signals.from_arrays(X, channels=["speed", "load"])
    model = HSMM(3, 5, init=PARAMS, max_iter=1, tail=False).fit(names)
    swapped = Signals.from_arrays([row[:, ::-1] for row in X], channels=["load", "speed"])
    np.testing.assert_array_equal(model.score_samples(swapped), model.score_samples(names))
    np.testing.assert_array_equal(model.score_samples(X), model.score_samples(names))
    renamed = Signals.from_arrays(X, channels=["speed", "weight"])
    with pytest.raises(SojournError, match="no channel 'load', which the model observes"):
        model.score_samples(renamed)


def test_more_channels_than_the_model_observes_are_an_error():
    rows = [np.random.default_rng(i).normal(size=(9, 2)) for i in range(4)]
    model = HSMM(2, 3, max_iter=1).fit([row[:, :1] for row in rows])
    with pytest.raises(SojournError, match="X has 2 channels, and the model observes 1 channel"):
        model.score(rows)
    with pytest.raises(SojournError, match="X has 2 channels"):
        model.stream().update(rows[0][0])
    picked = HSMM(2, 3, max_iter=1, emissions=em.Channels({"channel 0": em.Gaussian()})).fit(rows)
    assert np.isfinite(picked.score(rows))  # Channels leave out those that they do not name


def test_fewer_steps_than_parameters_stay_regular():
    model = HSMM(3, 2, max_iter=10).fit([np.random.default_rng(0).normal(size=(8, 3))])
    assert np.isfinite(model.params_.density.covariances).all()
    assert np.isfinite(model.score_samples([np.zeros((4, 3))])).all()


def test_the_summary_names_the_symbols_of_a_channel():
    rng = np.random.default_rng(0)
    state = np.repeat([0, 1] * 20, 10)
    valve = np.where(rng.random(400) < 0.1 + 0.8 * state, "open", "shut")
    table = {"run": np.repeat(np.arange(4), 100), "speed": 5 * state + rng.normal(size=400)}
    signals = sj.Signals.from_table(table | {"valve": valve}, id="run")
    parts = {"speed": sj.emissions.Gaussian(), "valve": sj.emissions.Categorical()}
    model = sj.HSMM(2, 20, emissions=sj.emissions.Channels(parts), random_state=0).fit(signals)
    text = str(model.summary())
    assert "nan" not in text
    assert re.search(r"speed [45]\.?\d* ± \S+, valve: open [89]\d%, shut", text)


def test_whole_numbers_are_taken_as_measurements_with_a_warning():
    codes = [np.random.default_rng(i).integers(0, 3, 30).astype(float) for i in range(8)]
    codes[0][3] = np.nan
    with pytest.warns(UserWarning, match=r"holds 3 whole numbers \(0, 1, 2\).*Categorical\(\)"):
        HSMM(2, 3, max_iter=2).fit(codes)
    with pytest.warns(UserWarning, match="pass integers for symbols, None where one is missing"):
        sj.SpectralHSMM().fit(codes)
    for kind in (em.Categorical(), em.Poisson(), em.Gaussian()):  # said, so not assumed
        HSMM(2, 3, max_iter=2, emissions=kind).fit(codes)
    HSMM(2, 3, max_iter=2).fit([np.rint(100 * np.sin(np.arange(200.0)))])  # readings, not codes


def test_strings_in_a_channel_of_numbers_are_refused():
    speed = np.random.default_rng(0).normal(size=40)
    table = {"run": np.repeat(np.arange(4), 10), "speed": speed}
    model = HSMM(2, 3, max_iter=2).fit(Signals.from_table(table, id="run"))
    worded = Signals.from_table(table | {"speed": ["fast", "slow"] * 20}, id="run")
    with pytest.raises(SojournError, match="'speed' holds strings such as 'fast'; expected numb"):
        model.score(worded)
    named = em.Channels({"speed": em.Gaussian()})
    with pytest.raises(SojournError, match="'speed' holds strings such as 'fast'"):
        HSMM(2, 3, emissions=named).fit(worded)


def test_a_stream_of_measurements_names_what_is_no_number():
    rows = [np.random.default_rng(i).normal(size=(9, 2)) for i in range(4)]
    with pytest.raises(SojournError, match="but has 'a'; expected numbers"):
        HSMM(2, 3, max_iter=1).fit(rows).stream().update(["a", 1.0])
    with pytest.raises(SojournError, match=r"has 1e\+60 in channel 'channel 1'.*up to 1e\+50"):
        HSMM(2, 3).fit([row * [1.0, 1e60] / row for row in rows])


def test_an_outlier_far_from_all_else_gives_no_warning_of_clusters():
    rng = np.random.default_rng(0)
    X = [np.append(rng.normal(size=30), 1e12) for _ in range(8)]
    model = HSMM(2, 4, max_iter=3, emissions=em.StudentT(), random_state=0).fit(X)
    assert np.isfinite(model.score(X))
