"""Larger models that contain a smaller one."""

import numpy as np
import pytest

from sojourn import Params
from sojourn.em.enlarge import SPREAD, with_durations
from sojourn.exact.forward import log_prob

DATA = Params.random(3, 4, 5, rng=0).sample(20, 50, rng=1)
# What is spread over a row costs at most this much at each of its uses, and about one per step.
CLOSE = 3 * SPREAD


@pytest.mark.parametrize("ends", [False, True])
def test_more_free_steps_leave_the_likelihood_as_it_is(ends):
    p = Params.random(3, 4, 5, rng=2)
    end = [0.1, 0.2, 0.3] if ends else None
    short = Params(p.start, p.transition, p.duration, p.emission, tail=[0.9, 0.5, 0.0], end=end)
    longer = with_durations(short, 9)
    assert longer.max_duration == 9
    assert np.allclose(longer.mean_durations, short.mean_durations, rtol=0.05)
    assert np.all(np.abs(log_prob(longer, DATA) - log_prob(short, DATA)) < CLOSE * DATA.lengths)


def test_a_hidden_markov_model_becomes_one_of_geometric_stays():
    hmm = Params.random(3, 1, 5, rng=3, self_transitions=True)
    longer = with_durations(hmm, 6)
    assert longer.transition.diagonal().max() == 0.0
    assert (longer.tail > 0.0).all()
    assert np.all(np.abs(log_prob(longer, DATA) - log_prob(hmm, DATA)) < CLOSE * DATA.lengths)


def test_no_entry_is_zero_that_may_be_something():
    p = Params([1, 0], [[0, 1], [1, 0]], [[1, 0], [0, 1]], [[1, 0], [0, 1]], tail=[0.5, 0.5])
    large = with_durations(p, 5)
    off_diagonal = large.transition[~np.eye(2, dtype=bool)]
    assert min(off_diagonal.min(), large.duration.min()) > 0.0
    assert large.transition.diagonal().max() == 0.0
