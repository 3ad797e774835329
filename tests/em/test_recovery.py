"""Emissions from moments: exact ones give them back, sampled ones come close."""

import numpy as np
import pytest

from sojourn import Params, count, exact_moments
from sojourn.em.recovery import recover_emission, starting_from


def by_rows(table):
    return table[np.lexsort(table.T)]


@pytest.mark.parametrize("size", [(2, 2, 3), (3, 2, 4), (2, 3, 4)])
def test_exact_moments_give_the_emissions_back(size):
    n_x, n_d, _ = size
    errors = []
    for seed in range(6):
        p = Params.random(*size, rng=seed)
        window = tuple(range(n_d))  # of this length in a row, windows have full rank
        M_LoR = exact_moments(p, [window], gapped=True).tables[0].M_LoR[0]
        found = recover_emission(M_LoR, n_x, n_x * n_d, np.random.default_rng(0))
        errors.append(np.abs(by_rows(found) - by_rows(p.emission)).max())
    # the worst conditioned of six random models loses some ten digits
    assert np.median(errors) < 1e-6


def test_sampled_moments_come_close():
    # an HMM whose states last: one symbol on each side tells them apart
    emission = np.array([[0.8, 0.1, 0.1], [0.1, 0.1, 0.8]])
    p = Params([0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]], [[1.0], [1.0]], emission)
    data = p.sample(2000, 100, rng=1)
    M_LoR = count(data, [(0,)], gapped=True, holdout=False).tables[0].M_LoR[0]
    found = recover_emission(M_LoR, 2, 2, np.random.default_rng(0))
    # 200,000 symbols: the standard error of a frequency is 0.001, the inverse makes some ten of it
    assert np.abs(by_rows(found) - by_rows(emission)).max() < 0.03


def test_rows_are_distributions_even_from_noise():
    counts = np.random.default_rng(0).integers(0, 5, (9, 3, 9))
    found = recover_emission(counts, 4, 6, np.random.default_rng(0))
    assert found.shape == (4, 3)
    assert np.all(found >= 0)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-12)


def test_a_start_leaves_nothing_impossible_but_self_transitions():
    start = starting_from(np.eye(3), np.array([5, 3, 2]), 4, False)
    assert np.all(start.emission > 0)
    assert np.all(start.duration > 0)
    assert np.array_equal(start.transition > 0, ~np.eye(3, dtype=bool))
    assert np.all(starting_from(np.eye(3), np.ones(3), 4, True).transition > 0)
