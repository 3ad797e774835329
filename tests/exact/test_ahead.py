"""Predictions far ahead: the same as step by step, and quick."""

import numpy as np
import pytest

import sojourn as sj
from sojourn.exact import ahead
from sojourn.exact.params import Params

FAR = (10**9, 2**70, 10**30)
ROUNDING = 1e-9  # of sums of some thousand steps, and of squares of matrices of sums one


def models():
    data = Params.random(2, 3, 4, rng=0).sample(60, 30, rng=1)
    many = Params.random(2, 2, 300, rng=0).sample(60, 60, rng=1)
    few = {"max_iter": 2, "init": "random"}
    yield sj.HSMM(2, 3, **few).fit(data), data
    yield sj.HSMM(2, 3, ends=True, **few).fit(data), data
    yield sj.SpectralHSMM(2, 2).fit(data), data
    yield sj.SpectralHSMM(2, 2, algorithm="per_step").fit(data), data
    yield sj.SpectralHSMM(2, 2).fit(many), many


def test_far_predictions_are_quick_distributions_at_the_limit():
    for model, data in models():
        near = model.predict_next(data[:2], horizon=ahead.MANY)
        for horizon in FAR:
            p = model.predict_next(data[:2], horizon=horizon)
            assert (p >= 0).all()
            np.testing.assert_allclose(p.sum(axis=1), 1, rtol=ROUNDING)
            np.testing.assert_allclose(p, near, atol=ROUNDING)  # these chains mix within 4096 steps
        stream = model.stream()
        stream.update_many(data[0])
        np.testing.assert_allclose(stream.predict(10**9), near[0], atol=ROUNDING)


def test_squaring_gives_what_steps_give(monkeypatch):
    """Before the limit is reached, where the two could differ."""
    cases = list(models())
    steps = [model.predict_next(data[:2], horizon=h) for model, data in cases for h in (4, 9)]
    monkeypatch.setattr(ahead, "MANY", 1)
    far = [model.predict_next(data[:2], horizon=h) for model, data in cases for h in (4, 9)]
    for a, b in zip(steps, far, strict=True):
        np.testing.assert_allclose(a, b, atol=ROUNDING)


def test_a_cycle_that_never_forgets_is_followed_to_the_step():
    cycle = Params([1, 0], [[0, 1], [1, 0]], [[0, 1, 0], [0, 0, 1]], [[1, 0], [0, 1]])
    model = sj.HSMM(2, 3)
    model.params_, model.initial_ = cycle, None
    model.vocabulary_, model.n_symbols_ = np.arange(2), 2
    for horizon in (10**9, 10**9 + 1, 10**9 + 2, 10**9 + 3, 10**9 + 4):
        expected = [0, 0, 1, 1, 1][(1 + horizon) % 5]  # after 0, 0 at steps 0 and 1
        assert model.predict_next([[0, 0]], horizon=horizon)[0, expected] == pytest.approx(1)


def test_ends_absorb():
    model, data = sj.HSMM(2, 3, ends=True, max_iter=2, init="random"), None
    data = Params.random(2, 3, 4, rng=0).sample(40, 10, rng=1)
    p = model.fit(data).predict_next(data[:2], horizon=10**9)
    np.testing.assert_allclose(p[:, -1], 1, rtol=ROUNDING)


def test_a_model_too_large_to_square_says_so():
    params = Params.random(2, 600, 3, rng=0)
    with pytest.raises(sj.SojournError, match="horizon is more than 4096 steps"):
        ahead.distribution_after(lambda rows: rows, np.full((1, params.duration.size), 1.0), 10**9)
