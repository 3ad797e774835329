"""Duration families: each fit is the best of its family, and a few are known in closed form."""

import numpy as np
import pytest

from sojourn import SojournError
from sojourn.em.durations import FAMILIES, Aim, Family, families_of, fit_free, residual, steps

# A climb stops when it gains 1e-13 of its value; sums of a few hundred logarithms round at 1e-14.
VALUE = 1e-11


def value(p, weights, length_biased):
    """What a fit maximises, from probabilities, in plain loops."""
    total = sum(w * np.log(q) for w, q in zip(weights, p, strict=True) if w > 0.0)
    return total - length_biased * np.log(sum((d + 1) * q for d, q in enumerate(p)))


def random_weights(rng, n_d):
    """Weights of many shapes: spread out, decaying, one hump, a few, one only."""
    d = np.arange(n_d)
    shape = rng.integers(5)
    weights = rng.random(n_d) ** rng.integers(1, 5)
    if shape == 1:
        weights = weights * np.exp(-d * rng.random())
    elif shape == 2:
        weights = np.exp(-0.5 * ((d - rng.uniform(0, n_d)) / rng.uniform(0.5, n_d)) ** 2)
    elif shape == 3:
        weights = weights * (rng.random(n_d) < 0.3)
    elif shape == 4:
        weights = (d == rng.integers(n_d)).astype(float)
    return (weights + (weights.sum() == 0.0)) * 10.0 ** rng.uniform(-3, 5)


def fine_grid(family, n_d):
    """A grid ten times as fine as a fit begins from, in the middle of the box and all over it."""
    box = family.box(n_d)
    n = 641 if len(box) == 1 else 101
    axes = [np.linspace(low, high, n) for low, high in box]
    theta = np.stack([a.ravel() for a in np.meshgrid(*axes, indexing="ij")], axis=-1)
    return family.log_weights(theta, n_d)


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("n_d", [1, 2, 7, 40])
def test_no_point_of_a_fine_grid_beats_a_fit(name, n_d):
    family = FAMILIES[name]
    rng = np.random.default_rng([n_d, len(name)])
    grid = fine_grid(family, n_d)
    for _ in range(25):
        weights = random_weights(rng, n_d)
        allowed = (weights > 0.0) | (rng.random(n_d) < 0.8)
        length_biased = weights.sum() * rng.choice([0.0, 0.3, 1.0])
        aim = Aim(weights, length_biased, allowed)
        p = family.fit(weights, length_biased, allowed)
        assert np.all(p[allowed] > 0.0)
        assert np.all(p[~allowed] == 0.0)
        assert abs(p.sum() - 1.0) < 1e-12
        reached = value(p, weights, length_biased)
        assert reached >= aim.value(grid).max() - VALUE * (abs(reached) + weights.sum())


def test_a_fit_finds_the_member_that_made_the_weights():
    cases = {
        "geometric": [np.log(-np.log(0.7))],
        "poisson": [np.log(4.2)],
        "negative_binomial": [np.log(6.0), np.log(2.5)],
        "lognormal": [0.4, 0.8],
    }
    for name, theta in cases.items():
        allowed = np.ones(60, dtype=bool)
        p = FAMILIES[name].row(np.array(theta), allowed)
        # The value is flat at its top: 1e-13 of it lies 3e-7 in the parameters around.
        np.testing.assert_allclose(FAMILIES[name].best(1e4 * p, 0.0, allowed), theta, atol=3e-6)


def test_rows_are_the_textbook_distributions_where_their_tails_are_short():
    d = np.arange(1, 201)
    everything = np.ones(200, dtype=bool)
    q, m, r = 0.8, 5.0, 3.0
    k = d - 1
    geometric = (1 - q) * q**k
    poisson = np.exp(-m) * np.cumprod(np.concatenate([[1.0], m / k[1:]]))
    share = m / (m + r)
    binomial = (1 - share) ** r * np.cumprod(np.concatenate([[1.0], (r + k[:-1]) * share / k[1:]]))
    mu, sigma = 2.0, 0.5
    lognormal = np.exp(-((np.log(d) - mu) ** 2) / (2 * sigma**2)) / d
    lognormal /= lognormal.sum()
    b = 1 / sigma**2
    centre = b * (mu - np.log(200) / 2) / (1 + b)
    for name, theta, expected in (
        ("geometric", [np.log(-np.log(q))], geometric),
        ("poisson", [np.log(m)], poisson),
        ("negative_binomial", [np.log(m), np.log(r)], binomial),
        ("lognormal", [centre, np.log(b)], lognormal),
    ):
        row = FAMILIES[name].row(np.array(theta), everything)
        np.testing.assert_allclose(row, expected, rtol=1e-9, atol=1e-18)


def test_an_untruncated_geometric_fit_has_the_mean_of_the_weights():
    weights = np.zeros(2000)
    weights[:4] = [5.0, 2.0, 2.0, 1.0]
    mean = weights @ steps(2000) / weights.sum()
    p = FAMILIES["geometric"].fit(weights)
    assert p @ steps(2000) == pytest.approx(mean, rel=1e-6)
    assert p[1] / p[0] == pytest.approx(1 - 1 / mean, rel=1e-6)


def test_a_fit_is_not_worse_than_where_it_may_start():
    rng = np.random.default_rng(3)
    family = FAMILIES["negative_binomial"]
    allowed = np.ones(12, dtype=bool)
    for _ in range(50):
        weights = random_weights(rng, 12)
        near = np.array([rng.uniform(low, high) for low, high in family.box(12)])
        aim = Aim(weights, 0.0, allowed)
        best = family.best(weights, 0.0, allowed, near=near)
        assert aim.value(family.log_weights(best, 12)) >= aim.value(family.log_weights(near, 12))


def test_free_rows_are_shares_of_the_weights():
    np.testing.assert_array_equal(fit_free(np.array([3.0, 0.0, 1.0])), [0.75, 0.0, 0.25])


def test_free_rows_of_length_biased_stays_are_stationary_and_best():
    rng = np.random.default_rng(4)
    for _ in range(200):
        n_d = int(rng.integers(1, 30))
        weights = random_weights(rng, n_d)
        length_biased = weights.sum() * rng.choice([1e-9, 0.1, 0.5, 1.0])
        p = fit_free(weights, length_biased)
        assert abs(p.sum() - 1.0) < 1e-14
        mean = p @ steps(n_d)
        # Stationary: w[d] = p(d) (C + N d / E[D]), and Newton solves for E[D] to rounding.
        expected = p * (weights.sum() - length_biased + length_biased * steps(n_d) / mean)
        np.testing.assert_allclose(weights, expected, rtol=1e-9, atol=1e-12 * weights.sum())
        top = value(p, weights, length_biased)
        for _ in range(5):
            other = p * rng.uniform(0.5, 2.0, n_d)
            other /= other.sum()
            assert value(other, weights, length_biased) <= top + VALUE * (abs(top) + weights.sum())


def test_residual_is_what_is_left_at_a_random_step():
    rng = np.random.default_rng(5)
    D = rng.dirichlet(np.ones(6), size=3)
    expected = np.zeros((3, 6))
    for x in range(3):
        mean = sum((d + 1) * D[x, d] for d in range(6))
        for d in range(6):
            met = (d + 1) * D[x, d] / mean
            for r in range(d + 1):
                expected[x, r] += met / (d + 1)
    np.testing.assert_allclose(residual(D, np.zeros(3)), expected, rtol=1e-13)


@pytest.mark.parametrize("name", FAMILIES)
def test_durations_that_are_not_allowed_may_be_likelier_by_any_factor(name):
    last = np.arange(400) == 399
    assert FAMILIES[name].fit(last * 5.0, allowed=last)[-1] == 1.0


def test_new_family_is_a_few_lines():
    zeta = Family(
        "zeta",
        lambda theta, n_d: -np.exp(theta[..., :1]) * np.log(steps(n_d)),
        lambda n_d: [(-5.0, 4.0)],
    )
    p = steps(30) ** -1.7
    p /= p.sum()
    np.testing.assert_allclose(zeta.fit(p), p, rtol=1e-6)


def test_names_of_families_are_checked():
    with pytest.raises(SojournError, match=r"durations holds 2 names for 3 states"):
        families_of(["free", "poisson"], 3)
    with pytest.raises(SojournError, match=r"durations is 'gamma'; expected one of 'free'"):
        families_of("gamma", 2)
