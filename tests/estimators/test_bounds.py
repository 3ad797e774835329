"""Time and memory that do not grow with what data cannot tell."""

import numpy as np
import pytest

import sojourn as sj
from sojourn.em import lbfgs
from sojourn.em.lbfgs import Curvature, Local
from sojourn.spectral import search

SHORT = np.random.default_rng(0).integers(0, 3, (40, 12))


@pytest.mark.parametrize("options", [{}, {"tail": False}, {"left_censored": True}])
def test_a_max_duration_beyond_the_data_costs_what_the_longest_sequence_needs(options):
    far = sj.HSMM(2, 10**9, max_iter=5, **options).fit(SHORT)
    near = sj.HSMM(2, 12, max_iter=5, **options).fit(SHORT)
    assert far.params_.max_duration == 12
    assert np.array_equal(far.params_.duration, near.params_.duration)


def test_a_family_of_durations_is_followed_beyond_the_data():
    model = sj.HSMM(2, 10**9, durations="poisson", max_iter=3).fit(SHORT)
    assert model.params_.max_duration == 120


def test_tables_that_no_memory_holds_are_refused_in_a_sentence():
    with pytest.raises(sj.SojournError, match=r"n_states=1000000, .* need tables of more than"):
        sj.HSMM(10**6, 3).fit(SHORT)


def test_large_models_remember_fewer_steps(monkeypatch):
    monkeypatch.setattr(lbfgs, "MAX_MEMORY", 70)
    curvature = Curvature()
    for i in range(40):
        a, b = (np.full(10, float(i + j)) for j in (0, 1))
        curvature.learn(Local(a, -a, a, a), Local(b, -b, b, b))
    assert len(curvature.pairs) == 7


def test_sizes_of_large_alphabets_are_judged_on_fewer_outcomes(monkeypatch):
    """Each outcome is compared with all symbols, so their product is bounded."""
    data = sj.Params.random(2, 2, 40, rng=0).sample(200, 30, rng=1)
    seen = []
    prob = search.Heldout.prob

    def counted(self, *args):
        seen.append(self.at.size * 40)
        return prob(self, *args)

    monkeypatch.setattr(search.Heldout, "prob", counted)
    monkeypatch.setattr(search, "MAX_JUDGED", 10_000)
    model = sj.SpectralHSMM().fit(data)
    assert 0 < max(seen) <= 10_000
    assert np.isfinite(model.score(data))
