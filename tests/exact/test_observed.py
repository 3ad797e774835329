"""Numbers: kernels over rows of densities against sums over every hidden path."""

from types import SimpleNamespace

import naive
import numpy as np
import pytest

from sojourn import Params, Signals, SojournError
from sojourn import emissions as em
from sojourn.exact.expected_counts import expected_counts, state_probabilities
from sojourn.exact.forward import filtered, log_prob, split_steps, surprise
from sojourn.exact.viterbi import decode

# Products and sums over at most some thousand paths.
CLOSE = {"rtol": 1e-10, "atol": 1e-10}


def gaussian(n_x: int, d: int, rng: np.random.Generator) -> em.Gaussian:
    A = rng.normal(size=(n_x, d, d))
    return em.Gaussian(
        means=rng.normal(size=(n_x, d)), covariances=A @ A.swapaxes(1, 2) + np.eye(d)
    )


def numbers_model(seed: int) -> tuple[Params, Signals]:
    """A tiny random model of numbers and three sequences, with missing values."""
    rng = np.random.default_rng(seed)
    n_x, n_d, d = int(rng.integers(1, 4)), int(rng.integers(1, 4)), int(rng.integers(1, 3))
    kinds = [
        gaussian(n_x, d, rng),
        em.StudentT(
            locations=rng.normal(size=(n_x, d)),
            scales=rng.uniform(0.5, 2, size=(n_x, d)),
            dofs=rng.uniform(2, 9, size=(n_x, d)),
        ),
        em.Poisson(rates=rng.uniform(0.1, 5, size=(n_x, d))),
        em.Gamma(shapes=rng.uniform(0.5, 5, (n_x, d)), scales=rng.uniform(0.5, 2, (n_x, d))),
    ]
    density = kinds[seed % 4]
    if d == 2 and seed % 3 == 0:
        density = em.Channels(
            {"a": gaussian(n_x, 1, rng), "b": em.Poisson(rates=np.ones((n_x, 1)))}
        )
    base = Params.random(n_x, n_d, 1, rng=rng)
    more = {"tail": rng.uniform(0, 0.8, n_x)} if seed % 2 else {}
    if seed % 5 == 0:
        more["end"] = rng.uniform(0.1, 0.5, n_x)
    params = Params(
        base.start, base.transition, base.duration, base.emission, density=density, **more
    )
    lengths = [int(n) for n in rng.integers(1, 5, size=3)]
    states = rng.integers(0, n_x, size=sum(lengths))
    values = density.sample(states, rng)
    values[rng.random(values.shape) < 0.2] = np.nan
    return params, Signals.from_stacked(values, lengths)


def twin(params: Params, values: np.ndarray) -> SimpleNamespace:
    """The same with one symbol per step, for the plain loops."""
    tables = {name: getattr(params, name) for name in ("start", "transition", "duration", "tail")}
    rest = {name: getattr(params, name) for name in ("end", "empty", "ends", "n_states")}
    return SimpleNamespace(**tables, **rest, emission=np.exp(params.density.log_density(values)).T)


@pytest.mark.parametrize("block", range(10))
def test_kernels_equal_sums_over_every_path(block):
    for seed in range(30 * block, 30 * block + 30):  # 300 models in all
        params, signals = numbers_model(seed)
        truths = [naive.enumerate_paths(twin(params, v), np.arange(len(v))) for v in signals]
        total = np.array([t.probability for t in truths])
        np.testing.assert_allclose(log_prob(params, signals), np.log(total), **CLOSE)
        gamma = state_probabilities(params, signals)
        np.testing.assert_allclose(gamma, np.concatenate([t.gamma for t in truths]), **CLOSE)
        alpha = filtered(params, signals)
        if not params.ends:
            np.testing.assert_allclose(alpha, np.stack([t.last for t in truths]), **CLOSE)
        found = expected_counts(params, signals)
        assert found.log_likelihood == pytest.approx(np.log(total).sum(), abs=1e-9)
        for name in ("initial", "transition", "duration", "tail"):
            want = sum(getattr(t, name) for t in truths)
            np.testing.assert_allclose(getattr(found, name), want, **CLOSE)
        want = params.density.statistics(signals.values, gamma)
        np.testing.assert_allclose(found.statistics, want, rtol=1e-9, atol=1e-9)
        best = decode(params, signals)
        np.testing.assert_allclose(best.log_prob, np.log([t.best for t in truths]), **CLOSE)
        steps = split_steps(surprise(params, signals), signals.offsets, params.ends)
        sums = [-row.sum() for row in steps]
        np.testing.assert_allclose(sums, np.log(total), rtol=1e-9, atol=1e-9)


def test_result_is_independent_of_n_jobs_and_of_blocks(monkeypatch):
    rng = np.random.default_rng(0)
    base = Params.random(3, 4, 1, rng=0)
    density = gaussian(3, 2, rng)
    params = Params(base.start, base.transition, base.duration, base.emission, density=density)
    values = rng.normal(size=(100_000, 2))
    signals = Signals.from_stacked(values, np.full(1000, 100))
    one, two = (expected_counts(params, signals, n_jobs=n) for n in (1, 2))
    np.testing.assert_array_equal(one.statistics, two.statistics)
    assert one.log_likelihood == two.log_likelihood
    monkeypatch.setattr("sojourn.exact.observed.BLOCK", 1000)
    np.testing.assert_allclose(
        expected_counts(params, signals).statistics, one.statistics, rtol=1e-9
    )


def test_densities_far_apart_do_not_make_a_sequence_impossible():
    density = em.Gaussian(means=[[0.0], [1000.0]], covariances=[[[1.0]], [[1.0]]])
    params = Params([1, 0], [[0, 1], [1, 0]], [[1.0], [1.0]], [[1.0], [1.0]], density=density)
    signals = Signals.from_arrays([np.array([0.0, 1000.0, 1000.0, 1000.0])])
    assert np.isfinite(log_prob(params, signals)).all()  # state 0 has to explain 1000.0
    assert decode(params, signals).states.tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize(
    "apart", [2.0, 6.0, 12.0, 25.0, 28.0]
)  # up to 392 nats at every other step
def test_poor_factors_of_many_steps_multiply_without_underflow(apart):
    density = em.Gaussian(means=[[0.0], [apart]], covariances=[[[1.0]], [[1.0]]])
    params = Params([1, 0], [[0, 1], [1, 0]], [[0, 1.0], [1.0, 0]], [[1.0]] * 2, density=density)
    values, path = np.zeros((201, 1)), np.arange(201) % 3 // 2  # state 1 explains none of its steps
    signals = Signals.from_stacked(values, [201])
    exact = density.log_density(values)[np.arange(201), path].sum()
    np.testing.assert_allclose(log_prob(params, signals), exact, rtol=1e-12)  # sums of 201 numbers
    np.testing.assert_allclose(state_probabilities(params, signals)[:, 1], path, atol=1e-12)
    counts = expected_counts(params, signals)
    np.testing.assert_allclose(counts.transition, [[0, 67], [66, 0]], atol=1e-10)


def test_a_value_that_no_state_can_emit_is_impossible():
    density = em.Bernoulli(probabilities=[[0.0], [0.0]])
    params = Params([1, 0], [[0, 1], [1, 0]], [[1.0], [1.0]], [[1.0], [1.0]], density=density)
    signals = Signals.from_arrays([np.array([0.0, 1.0]), np.array([0.0, 0.0])])
    assert log_prob(params, signals).tolist() == [-np.inf, 0.0]
    assert decode(params, signals).impossible_at.tolist() == [1, -1]


def test_parts_that_do_not_fit_are_refused():
    density = em.Poisson(rates=[[1.0], [2.0]])
    with pytest.raises(SojournError, match="density has 2 states"):
        Params([1], [[1]], [[1]], [[1]], density=density)
    params = Params([1, 0], [[0, 1], [1, 0]], [[1.0], [1.0]], [[1.0], [1.0]], density=density)
    with pytest.raises(SojournError, match="the model observes Poisson"):
        log_prob(params, Signals.from_arrays([np.zeros((3, 2))]))
