"""Files that were changed and signed again: refused, or every score and probability stays one."""

import base64
from dataclasses import replace

import numpy as np
import pytest
from damage import fuzz_semantic

import sojourn as sj
from sojourn import emissions
from sojourn.streams.scorer import _checksum

DATA = sj.Params.random(3, 4, 5, rng=0).sample(60, 25, rng=1)
MANY = sj.Params.random(2, 2, 300, rng=0).sample(60, 50, rng=1)
TRIALS = 70  # of each kind; a thousand together
ROUNDING = 1e-9  # of sums of probabilities
FEW = {"max_iter": 2, "init": "random", "n_jobs": 1}
ONE = {"n_jobs": 1}
RATE = {"contamination": 0.2, "cv": 2}


def detector(model, **options):
    return sj.AnomalyDetector(model, **RATE, **options).fit(DATA)


def measured(emission, X, **options):
    return sj.HSMM(2, 3, emissions=emission, max_iter=2, n_jobs=1, **options).fit(X)


NUMBERS = np.random.default_rng(0).normal(size=(30, 20, 2)).cumsum(axis=1)
COUNTS = np.random.default_rng(1).poisson(3.0, size=(30, 20, 1)).astype(float)
NUMERIC = {
    "Gaussian": lambda: measured(emissions.Gaussian(), NUMBERS),
    "diagonal": lambda: measured(emissions.Gaussian(covariance="diagonal"), NUMBERS),
    "StudentT": lambda: measured(emissions.StudentT(), NUMBERS),
    "Poisson": lambda: measured(emissions.Poisson(), COUNTS),
    "NegativeBinomial": lambda: measured(emissions.NegativeBinomial(), COUNTS),
    "Gamma": lambda: measured(emissions.Gamma(), np.exp(NUMBERS / 4)),
    "Exponential": lambda: measured(emissions.Exponential(), np.exp(NUMBERS / 4)),
    "Bernoulli": lambda: measured(emissions.Bernoulli(), (COUNTS > 2).astype(float)),
    "Channels": lambda: measured(
        emissions.Channels({"channel 0": emissions.StudentT(), "channel 1": emissions.Gaussian()}),
        NUMBERS,
    ),
    "codes": lambda: sj.SpectralHSMM(n_jobs=1).fit(NUMBERS),
    "detector of numbers": lambda: sj.AnomalyDetector(
        sj.HSMM(2, 3, max_iter=2, n_jobs=1), **RATE
    ).fit(NUMBERS),
    "detector of codes": lambda: sj.AnomalyDetector(sj.SpectralHSMM(n_jobs=1), **RATE).fit(NUMBERS),
}
KINDS = {
    "HSMM": lambda: sj.HSMM(2, 3, **FEW).fit(DATA),
    "HSMM left-censored": lambda: sj.HSMM(2, 3, left_censored=True, **FEW).fit(DATA),
    "HSMM ends": lambda: sj.HSMM(2, 3, ends=True, **FEW).fit(DATA),
    "contexts": lambda: sj.SpectralHSMM(**ONE).fit(DATA),
    "contexts ends": lambda: sj.SpectralHSMM(ends=True, **ONE).fit(DATA),
    "shared": lambda: sj.SpectralHSMM(**ONE).fit(MANY),
    "tree": lambda: sj.ContextTree(**ONE).fit(DATA),
    "tree ends": lambda: sj.ContextTree(ends=True, **ONE).fit(DATA),
    "adjacent": lambda: sj.SpectralHSMM(2, 2, algorithm="adjacent", **ONE).fit(DATA),
    "pooled": lambda: sj.SpectralHSMM(2, 2, algorithm="pooled", **ONE).fit(DATA),
    "per_step": lambda: sj.SpectralHSMM(2, 2, algorithm="per_step", **ONE).fit(DATA),
    "raw": lambda: sj.SpectralHSMM(2, 2, algorithm="pooled", filter="raw", **ONE).fit(DATA),
    "detector": lambda: detector(sj.HSMM(2, 3, **FEW)),
    "residual": lambda: detector(sj.HSMM(2, 3, **FEW), method="residual"),
    "spectral detector": lambda: detector(sj.SpectralHSMM(**ONE)),
    "tree detector": lambda: detector(sj.ContextTree(**ONE), method="loglik"),
    "typicality": lambda: detector(sj.SpectralHSMM(**ONE), method="typicality"),
}


def check_distribution(p):
    assert np.isfinite(p).all()
    assert (p >= 0).all()
    np.testing.assert_allclose(p.sum(axis=-1), 1, atol=ROUNDING)


def never_ends(params):
    return params.end is not None and not params.end.any()


def check_model(model, X):
    scores = model.score_samples(X)
    if getattr(model, "filter", "") == "raw":  # the paper's signed product is no probability
        assert not np.isnan(scores).any()
        return
    if model.has_states and never_ends(model.params_):  # then no sequence is possible, rightly
        assert not np.isnan(scores).any()
        return
    assert np.isfinite(scores).all()
    assert (scores <= ROUNDING).all()
    assert all((np.isfinite(steps) & (steps >= 0)).all() for steps in model.surprise(X))
    for horizon in (1, 3) if not isinstance(model, sj.ContextTree) else (1,):
        check_distribution(model.predict_next(X, horizon=horizon))
    stream = model.stream()
    assert np.isfinite(stream.update_many(X[0])).all()
    check_distribution(stream.predict())
    if model.has_states:
        check_distribution(np.concatenate(model.predict_proba(X)))


def check_detector(detector, X):
    check_model(detector.model_, X)
    scores, pvalues = detector.score_samples(X), detector.pvalues(X)
    assert np.isfinite(scores).all()
    assert ((pvalues > 0) & (pvalues <= 1)).all()
    assert not np.isnan(detector.decision_function(X)).any()
    detector.explain(X[:1])


def check(loaded):
    X = (MANY if len(loaded.vocabulary_) > 5 else DATA)[:3]
    if not np.array_equal(loaded.vocabulary_, X.vocabulary):  # other symbols are another model
        X = sj.Sequences(X.codes, X.offsets, loaded.vocabulary_, X.ids)
    (check_detector if isinstance(loaded, sj.AnomalyDetector) else check_model)(loaded, X)


@pytest.mark.parametrize("kind", NUMERIC)
def test_a_crafted_file_of_a_model_of_numbers_is_refused_or_scores_are_no_nan(kind, tmp_path):
    """A density may be above one, and log-densities have no bound; they are numbers, though."""
    model = NUMERIC[kind]()
    X = {
        "Poisson": COUNTS,
        "NegativeBinomial": COUNTS,
        "Bernoulli": (COUNTS > 2).astype(float),
    }.get(kind, np.exp(NUMBERS / 4) if kind in ("Gamma", "Exponential") else NUMBERS)[:3]

    def check(loaded):
        scores = loaded.score_samples(X)
        assert not np.isnan(scores).any()
        assert (scores < np.inf).all()
        if isinstance(loaded, sj.AnomalyDetector):
            assert ((loaded.pvalues(X) > 0) & (loaded.pvalues(X) <= 1)).all()
            loaded = loaded.model_
            scores = loaded.score_samples(X)
        assert not np.isnan(np.concatenate(loaded.surprise(X))).any()
        if np.isfinite(scores).all():
            stream = loaded.stream()
            assert not np.isnan([stream.update(step) for step in X[0]]).any()
            assert not np.isnan(stream.predict().mean).any()
            if loaded.has_states:
                check_distribution(np.concatenate(loaded.predict_proba(X)))

    check(model)
    tally = fuzz_semantic(model, tmp_path / "crafted", TRIALS, 7, check)
    assert tally["refused"] > 10


@pytest.mark.filterwarnings("ignore:the signed product")
@pytest.mark.parametrize("kind", KINDS)
def test_a_crafted_file_is_refused_or_its_scores_stay_scores(kind, tmp_path):
    model = KINDS[kind]()
    check(model)
    tally = fuzz_semantic(model, tmp_path / "crafted", TRIALS, 7, check)
    assert tally["refused"] > 10


SNAPPED = ["HSMM", "HSMM ends", "contexts", "contexts ends", "shared", "tree", "per_step"]


def altered(state, rng):
    """The state of a stream with something changed in it."""
    state, at = state.copy(), int(rng.integers(len(state)))
    wrong = (np.nan, np.inf, -np.inf, 1e308, -1e308, 1e60, 0.0, -1.0, 5e-324, state[at] / 3)
    how = int(rng.integers(len(wrong) + 4))
    if how < len(wrong):
        state[at if rng.random() < 0.7 else slice(None)] = wrong[how]
        return state
    return (-state, 2 * state, rng.permutation(state), state[::-1])[how - len(wrong)]


@pytest.mark.parametrize("kind", SNAPPED)
def test_an_altered_snapshot_is_refused_and_one_signed_again_gives_probabilities(kind):
    model = KINDS[kind]()
    X = (MANY if kind == "shared" else DATA)[:2]
    stream, rng = model.stream(), np.random.default_rng(3)
    stream.update_many(X[0][:7])
    good = stream.snapshot()
    refused = 0
    for i in range(200):
        state = altered(stream._state(), rng)
        text = base64.b64encode(state.astype("<f8").tobytes()).decode()
        seen = (7, 0, -1, 8, 10**30, 2**63, 1.5, True)[int(rng.integers(8)) if i % 4 == 0 else 0]
        bad = {**good, "state": text, "seen": seen}
        if (bad["state"], bad["seen"]) != (good["state"], 7):
            with pytest.raises(sj.SojournError, match="snapshot"):
                model.stream().restore(bad)
        try:
            other = model.stream().restore({**bad, "check": _checksum(bad)})
        except sj.SojournError:
            refused += 1
            continue
        if not state.any():  # what a stream has after a symbol that an HSMM cannot produce
            continue
        check_distribution(other.predict())
        if "tree" not in kind:
            check_distribution(other.predict(3))
        steps = other.update_many(X[1])
        assert (np.isfinite(steps) & (steps >= 0)).all()
    assert refused > 50


@pytest.mark.parametrize("kind", ["Gaussian", "Channels", "codes"])
def test_a_crafted_snapshot_of_numbers_is_refused_or_gives_numbers(kind):
    model, rng = NUMERIC[kind](), np.random.default_rng(3)
    stream, refused = model.stream(), 0
    for step in NUMBERS[0][:7]:
        stream.update(step)
    for _ in range(100):
        state = altered(stream._state(), rng)
        text = base64.b64encode(state.astype("<f8").tobytes()).decode()
        bad = {**stream.snapshot(), "state": text}
        try:
            other = model.stream().restore({**bad, "check": _checksum(bad)})
        except sj.SojournError:
            refused += 1
            continue
        if state.any():
            assert not np.isnan(other.predict().mean).any()
            assert not np.isnan([other.update(step) for step in NUMBERS[1]]).any()
    assert refused > 50


def test_evidence_of_groups_that_is_infinite_is_refused():
    evidence = detector(sj.HSMM(2, 3, **FEW)).evidence_
    groups = {name: np.full_like(values, np.inf) for name, values in evidence.groups.items()}
    with pytest.raises(sj.SojournError, match="do not fit together"):
        replace(evidence, groups=groups)


def test_a_centre_of_another_size_is_refused():
    t = emissions.StudentT().start(NUMBERS.reshape(-1, 2), np.ones((NUMBERS[..., 0].size, 1)))
    with pytest.raises(sj.SojournError, match="centre of a StudentT of 2 channels"):
        replace(t, centre=t.centre[:1])
