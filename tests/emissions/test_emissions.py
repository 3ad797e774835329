"""Every emission: densities, statistics that add, maxima of the M-step, missing channels."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad

from sojourn import SojournError
from sojourn import emissions as em

# Sums of some hundred terms of order one.
ROUNDING = 1e-9

KINDS = {
    "full": em.Gaussian(),
    "diagonal": em.Gaussian(covariance="diagonal"),
    "tied": em.Gaussian(covariance="tied"),
    "student": em.StudentT(),
    "poisson": em.Poisson(),
    "negative binomial": em.NegativeBinomial(),
    "bernoulli": em.Bernoulli(),
    "exponential": em.Exponential(),
    "gamma": em.Gamma(),
    "categorical": em.Categorical(),
    "channels": em.Channels({"a": em.Gaussian(), "b": em.Poisson()}),
    "joint": em.Channels({("a", "b"): em.Gaussian()}),
}
# One that is not a member of the family, so that its parameters are not at the data's edge.
CONTINUOUS = ("full", "diagonal", "tied", "student", "exponential", "gamma")


def observations(kind: str, n: int = 400, seed: int = 0) -> np.ndarray:
    """Two channels that the kind can observe (one for symbols)."""
    rng = np.random.default_rng(seed)
    if kind == "categorical":
        return rng.integers(0, 4, size=(n, 1)).astype(float)
    if kind == "bernoulli":
        return rng.integers(0, 2, size=(n, 2)).astype(float)
    counts = rng.negative_binomial(2, 0.3, size=(n, 2)).astype(float)
    if kind in ("poisson", "negative binomial"):
        return counts
    values = rng.gamma(2.0, 1.5, size=(n, 2))
    values[:, 1] += 0.5 * values[:, 0]
    if kind == "channels":
        values[:, 1] = counts[:, 1]
    elif kind not in ("exponential", "gamma"):
        values[:, 0] += 1000.0
    return values


def weights(n: int, n_states: int = 3, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.ones(n_states), size=n)


def started(kind: str, values: np.ndarray, **options: float) -> em.Emission:
    wished = KINDS[kind]
    if isinstance(wished, em.Channels):
        wished = em.Channels({k: replace(p, **options) for k, p in wished.parts.items()})
    else:
        wished = replace(wished, **options)
    return wished.start(values, weights(len(values)))


def perturbed(emission: em.Emission, size: float, rng: np.random.Generator) -> em.Emission:
    """The emission with parameters a little off, still valid."""
    if isinstance(emission, em.Channels):
        return em.Channels({k: perturbed(p, size, rng) for k, p in emission.parts.items()})
    changed = {}
    for name, array in emission.arrays().items():
        if name == "covariances":
            d = array.shape[1]
            noise = np.eye(d) + size * rng.normal(size=array.shape)
            if emission.covariance == "diagonal":
                noise = noise * np.eye(d)
            if emission.covariance == "tied":
                noise = np.broadcast_to(noise[0], array.shape)
            changed[name] = noise @ array @ np.swapaxes(noise, 1, 2)
        elif name == "probabilities" and isinstance(emission, em.Categorical):
            rows = array * np.exp(size * rng.normal(size=array.shape))
            changed[name] = rows / rows.sum(axis=1, keepdims=True)
        elif name == "probabilities":
            odds = array / (1 - array) * np.exp(size * rng.normal(size=array.shape))
            changed[name] = odds / (1 + odds)
        elif name in ("means", "locations"):
            changed[name] = array + size * emission.spread() * rng.normal(size=array.shape)
        else:
            changed[name] = array * np.exp(size * rng.normal(size=array.shape))
    return replace(emission, **changed)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shrinkage", [0.0, 5.0])
def test_m_step_is_the_maximum(kind, shrinkage):
    values = observations(kind)
    emission = started(kind, values, shrinkage=shrinkage)
    statistics = emission.statistics(values, weights(len(values)))
    best = emission.updated(statistics)

    def objective(at):
        return at.expected(statistics).sum() + at.log_prior()

    rng = np.random.default_rng(2)
    top = objective(best)
    for size in (1e-3, 1e-2, 0.1):
        for _ in range(20):
            assert objective(perturbed(best, size, rng)) <= top + ROUNDING * abs(top)
    # and a real one: it falls where parameters move
    assert objective(perturbed(best, 0.1, rng)) < top


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shrinkage", [0.0, 5.0])
def test_em_steps_never_lower_what_is_maximised(kind, shrinkage):
    values, w = observations(kind), weights(400)
    values[::5, 0] = np.nan
    emission = started(kind, values, shrinkage=shrinkage)
    history = []
    for _ in range(15):
        history.append((w * emission.log_density(values)).sum() + emission.log_prior())
        emission = emission.updated(emission.statistics(values, w))
    assert (np.diff(history) >= -ROUNDING * np.abs(history[-1])).all()


@pytest.mark.parametrize("kind", KINDS)
def test_statistics_of_parts_add_up_to_those_of_all(kind):
    values, w = observations(kind), weights(400)
    values[::7, 0] = np.nan
    emission = started(kind, values)
    parts = [slice(0, 1), slice(1, 130), slice(130, 400)]
    total = sum(emission.statistics(values[part], w[part]) for part in parts)
    np.testing.assert_allclose(total, emission.statistics(values, w), rtol=1e-10, atol=1e-9)


@pytest.mark.parametrize("kind", CONTINUOUS)
def test_density_integrates_to_one(kind):
    emission = started(kind, observations(kind)[:, 1:])
    for x in range(emission.n_states):

        def density(at, x=x):
            return np.exp(emission.log_density(np.array([[at]]))[0, x])

        low = 0.0 if kind in ("exponential", "gamma") else -np.inf
        middle, spread = emission.mean()[x, 0], emission.spread()[x, 0]
        cut = (max(low, middle - 8 * spread), middle + 8 * spread)
        ends = [(low, cut[0]), cut, (cut[1], np.inf)]
        total = sum(quad(density, a, b, limit=200)[0] for a, b in ends if a < b)
        assert total == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("kind", ["poisson", "negative binomial", "bernoulli", "categorical"])
def test_probabilities_of_counts_and_symbols_sum_to_one(kind):
    emission = started(kind, observations(kind)[:, :1])
    upto = {"bernoulli": 2, "categorical": 4}.get(kind, 400)
    total = np.exp(emission.log_density(np.arange(float(upto))[:, None])).sum(axis=0)
    np.testing.assert_allclose(total, 1.0, atol=1e-8)


@pytest.mark.parametrize("kind", [k for k in KINDS if k not in ("tied", "joint")])
def test_cdf_is_the_sum_of_the_density(kind):
    values = observations(kind)[:, :1]
    emission = KINDS[kind] if kind != "channels" else em.Channels({"a": em.Gaussian()})
    emission = emission.start(values, weights(400))
    grid = np.linspace(values.min() - 3, values.max() + 3, 20_001)[:, None]
    if kind in ("poisson", "negative binomial", "bernoulli", "categorical"):
        grid = np.arange(values.max() + 1)[:, None]
        mass = np.exp(emission.log_density(grid))
        np.testing.assert_allclose(emission.cdf(grid)[:, :, 0], np.cumsum(mass, axis=0), atol=1e-8)
        return
    step = grid[1, 0] - grid[0, 0]
    with np.errstate(all="ignore"):
        mass = np.exp(emission.log_density(np.where(grid > 0, grid, np.nan))) * (grid > 0) * step
    if kind in ("exponential", "gamma"):
        found = emission.cdf(grid)[:, :, 0]
    else:
        mass = np.exp(emission.log_density(grid)) * step
        found = emission.cdf(grid)[:, :, 0] - emission.cdf(grid[:1])[:, :, 0]
    # The rectangle rule with 20,000 steps.
    np.testing.assert_allclose(found, np.cumsum(mass, axis=0), atol=5e-3)


@pytest.mark.parametrize("kind", [k for k in KINDS if k != "categorical"])
def test_missing_channel_equals_a_model_without_it(kind):
    values, w = observations(kind), weights(400)
    emission = started(kind, values, shrinkage=0.0)
    without = values.copy()
    without[:, 1] = np.nan
    if isinstance(emission, em.Channels) and kind == "channels":
        alone = em.Channels({"a": emission.parts["a"]})
    elif kind == "joint":
        return  # a joint Gaussian, as in the other cases
    elif isinstance(emission, em.Gaussian):
        alone = em.Gaussian(
            means=emission.means[:, :1],
            covariances=emission.covariances[:, :1, :1],
            centre=emission.centre[:1],
            scale=emission.scale[:1],
        )
    else:
        kept = {name: array[:, :1] for name, array in emission.arrays().items()}
        more = {"centre": emission.centre[:1]} if kind == "student" else {}
        alone = replace(emission, **kept, **more)
    np.testing.assert_allclose(
        emission.log_density(without), alone.log_density(values[:, :1]), atol=1e-10
    )
    if kind not in ("full", "tied"):  # those expect the missing channel, too
        n = alone.n_statistics
        found = emission.statistics(without, w)
        columns = [0, 1, 3] if kind == "diagonal" else slice(0, n)
        expected = alone.statistics(values[:, :1], w)
        np.testing.assert_allclose(found[:, columns], expected, atol=1e-8)
    np.testing.assert_array_equal(emission.log_density(np.full((3, 2), np.nan)), 0.0)


def test_missing_values_do_not_bias_a_correlated_gaussian():
    rng = np.random.default_rng(3)
    truth = np.array([[1.0, 0.8], [0.8, 1.0]])
    values = rng.multivariate_normal([0.0, 5.0], truth, size=20_000)
    values[values[:, 0] > 0.5, 1] = np.nan  # missing by the other channel: the mean seen is biased
    g = em.Gaussian().start(values, np.ones((20_000, 1)))
    for _ in range(40):
        g = g.updated(g.statistics(values, np.ones((20_000, 1))))
    assert abs(np.nanmean(values[:, 1]) - 5.0) > 0.3
    # 20,000 steps with a third missing: standard errors of about 0.012.
    np.testing.assert_allclose(g.means[0], [0.0, 5.0], atol=0.04)
    np.testing.assert_allclose(g.covariances[0], truth, atol=0.06)


TRUTH = {
    "gaussian": em.Gaussian(
        means=[[0.0, 10.0], [3.0, -5.0]], covariances=[[[1.0, 0.5], [0.5, 2.0]], np.eye(2) * 0.1]
    ),
    "student": em.StudentT(locations=[[0.0], [5.0]], scales=[[1.0], [0.2]], dofs=[[4.0], [10.0]]),
    "poisson": em.Poisson(rates=[[0.3, 4.0], [12.0, 1.0]]),
    "negative binomial": em.NegativeBinomial(rates=[[3.0], [20.0]], sizes=[[1.0], [5.0]]),
    "bernoulli": em.Bernoulli(probabilities=[[0.02, 0.9], [0.5, 0.4]]),
    "exponential": em.Exponential(scales=[[0.1], [7.0]]),
    "gamma": em.Gamma(shapes=[[0.7], [9.0]], scales=[[2.0], [0.1]]),
    "categorical": em.Categorical(probabilities=[[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]]),
}


@pytest.mark.parametrize("kind", TRUTH)
def test_parameters_are_recovered_from_labelled_draws(kind):
    truth, n = TRUTH[kind], 100_000
    rng = np.random.default_rng(4)
    states = rng.integers(0, 2, size=n)
    values, w = truth.sample(states, rng), np.eye(2)[states]
    wish = type(truth)()
    found = wish.start(values, w)
    for _ in range(100 if kind in ("student", "negative binomial") else 0):
        found = found.updated(found.statistics(values, w))
    # Standard errors from ten subsamples of a tenth each.
    parts = []
    for i in range(10 if kind not in ("student", "negative binomial") else 0):
        part = wish.start(values[i::10], w[i::10])
        parts.append(part.arrays())
    for name, array in found.arrays().items():
        if parts:
            error = np.std([p[name] for p in parts], axis=0, ddof=1) / np.sqrt(10)
        else:  # 50,000 values of each state: tails are known to three percent, the rest to one
            error = 0.03 * np.abs(array) if name in ("dofs", "sizes") else 0.01 * found.spread()
        # Ten subsamples know an error to a quarter: three errors and a margin.
        assert (np.abs(array - getattr(truth, name)) <= 4 * error + 1e-12).all(), name


def test_gaussian_is_exact_far_from_zero_and_for_narrow_states():
    rng = np.random.default_rng(5)
    states = rng.integers(0, 2, size=4000)
    values = (1e9 + 100.0 * states + 1e-3 * rng.normal(size=4000))[:, None]
    g = em.Gaussian(shrinkage=0.0).start(values, np.eye(2)[states])
    for x in range(2):
        own = values[states == x, 0]
        # A unit in the last place of 1e9 is 1.2e-7.
        assert g.means[x, 0] == pytest.approx(own.mean(), abs=1e-6)
        assert g.covariances[x, 0, 0] == pytest.approx(own.var(), rel=1e-3)


def test_a_state_with_equal_values_stays_regular():
    values = np.concatenate([np.zeros(50), np.random.default_rng(6).normal(5, 1, 50)])[:, None]
    w = np.repeat(np.eye(2), 50, axis=0)
    for wish in (em.Gaussian(), em.StudentT()):
        found = wish.start(values, w)
        assert np.isfinite(found.log_density(values)).all()
        assert found.spread()[0, 0] > 0
    with pytest.raises(SojournError, match="shrinkage"):
        em.Gaussian(shrinkage=0.0).start(values, w)


def test_a_state_without_steps_keeps_its_parameters():
    for kind in KINDS:
        values = observations(kind)
        emission = started(kind, values, shrinkage=0.0)
        statistics = emission.statistics(values, weights(400))
        statistics[1] = 0.0
        after = emission.updated(statistics)
        for name, array in emission.arrays().items():
            if not (kind == "tied" and name == "covariances"):
                np.testing.assert_array_equal(after.arrays()[name][1], array[1])


def test_states_are_permuted():
    for kind in KINDS:
        values = observations(kind)
        emission = started(kind, values)
        order = np.array([2, 0, 1])
        np.testing.assert_array_equal(
            emission.permuted(order).log_density(values), emission.log_density(values)[:, order]
        )


@pytest.mark.parametrize(
    ("emission", "value", "wanted"),
    [
        (em.Poisson(), 1.5, "'hits' has the value 1.5; Poisson observes whole numbers"),
        (em.NegativeBinomial(), -1.0, "'hits' has the value -1; NegativeBinomial observes whole"),
        (em.Bernoulli(), 2.0, "'hits' has the value 2; Bernoulli observes 0 and 1"),
        (em.Exponential(), -0.5, "'hits' has the value -0.5; Exponential"),
        (em.Gamma(), 0.0, "'hits' has the value 0; Gamma observes numbers above 0"),
        (em.Categorical(), 0.5, "'hits' has the value 0.5; Categorical"),
        (em.Channels({"hits": em.Poisson()}), 0.5, "'hits' has the value 0.5; Poisson"),
    ],
)
def test_values_of_the_wrong_kind_are_named(emission, value, wanted):
    with pytest.raises(SojournError, match=wanted):
        emission.check(np.array([[1.0], [np.nan], [value]]), ["hits"])


def test_constant_or_absent_channels_are_named():
    for emission in (em.Gaussian(), em.StudentT()):
        with pytest.raises(SojournError, match="'b' is always 3"):
            emission.check(np.array([[1.0, 3.0], [2.0, 3.0]]), ["a", "b"])
        with pytest.raises(SojournError, match="'b' is never observed"):
            emission.check(np.array([[1.0, np.nan], [2.0, np.nan]]), ["a", "b"])


def test_wrong_arguments_are_refused():
    with pytest.raises(SojournError, match="covariance is 'round'"):
        em.Gaussian(covariance="round")
    with pytest.raises(SojournError, match="shrinkage is -1"):
        em.Poisson(shrinkage=-1)
    with pytest.raises(SojournError, match="expected a mapping"):
        em.Channels([em.Poisson()])
    with pytest.raises(SojournError, match="expected an emission"):
        em.Channels({"a": "gaussian"})
    with pytest.raises(SojournError, match="named twice"):
        em.Channels({"a": em.Poisson(), ("a", "b"): em.Gaussian()})
    with pytest.raises(SojournError, match="no parameters yet"):
        em.Gaussian().log_density(np.zeros((2, 1)))
    with pytest.raises(SojournError, match="one channel"):
        em.Categorical().check(np.zeros((2, 2)), ["a", "b"])
    with pytest.raises(SojournError, match="expected \\(1, 2, 2\\)"):
        em.Gaussian(means=[[0.0, 1.0]], covariances=[[[1.0]]])


def test_a_state_in_words():
    values = np.array([[1.0, 0], [3.0, 2], [9.0, 1], [9.5, 1]])
    both = em.Channels({"speed": em.Gaussian(shrinkage=0), "mode": em.Categorical(shrinkage=0)})
    found = both.start(values, np.repeat(np.eye(2), 2, axis=0))
    assert found.sentence(0, both.names) == "speed 2 ± 1, mode: 0 50%, 2 50%"
    assert repr(em.Gaussian(covariance="tied")) == "Gaussian(covariance='tied')"


def test_a_channel_of_symbols_that_is_never_observed_is_refused():
    with pytest.raises(SojournError, match="a channel of symbols is never observed"):
        em.Categorical().start(np.full((5, 1), np.nan), np.ones((5, 2)))
