"""The plain reference is right on exact moments, and the fast code equals it on data."""

import numpy as np
import pytest
import window_loops as reference

from sojourn import Params, Sequences, SpectralHSMM, count, exact_moments
from sojourn.spectral.answers import surprise
from sojourn.spectral.models import WindowModel
from sojourn.spectral.paper import algorithm_2, raw_log_prob
from sojourn.spectral.select_rank import choose, decompose

PARAMS = Params.random(2, 2, 4, rng=0)
WINDOW = (0, 1)
SAMPLE = PARAMS.sample(400, 30, rng=1)
TEST = PARAMS.sample(20, 25, rng=2)
# Products of 25 matrices in another order of addition.
ROUNDING = 1e-9
GAPPED = ("M_LoR", "M_LR", "M_LR1", "M_oo")


def pooled_tables(moments):
    table = moments.tables[0]
    return [*(getattr(table, name)[0] for name in GAPPED), table.root]


def test_adjacent_form_of_exact_moments_is_the_model():
    table = exact_moments(PARAMS, [WINDOW]).tables[0]
    start, B, stop, average = reference.learn_adjacent(table.H, table.H_o, table.first, 4)
    assert average @ stop == pytest.approx(1)
    log_p = [reference.log_prob(row, start, B, stop) for row in TEST]
    np.testing.assert_allclose(log_p, PARAMS.log_prob(TEST), rtol=1e-8)
    scores = [reference.surprise(r, start, B, stop, average, 1e-9)[0].sum() for r in TEST]
    np.testing.assert_allclose(scores, -PARAMS.log_prob(TEST), rtol=1e-8)


def test_algorithm_2_of_exact_moments_is_the_model():
    tables = pooled_tables(exact_moments(PARAMS, [WINDOW], gapped=True))
    tensors = reference.learn_paper(*tables, k=4, n_x=2)
    p = [reference.paper_prob(row, *tensors) for row in TEST]
    np.testing.assert_allclose(np.log(p), PARAMS.log_prob(TEST), rtol=1e-8)


def test_adjacent_operators_of_counts_equal_the_reference():
    counts = reference.count_adjacent(SAMPLE.to_lists(), WINDOW, 4)
    model = reference.learn_adjacent(*counts, 4)
    operators = decompose(count(SAMPLE, [WINDOW], holdout=False).tables[0], 4, 2).cut(4)
    raw = [reference.log_prob(row, *model[:3]) for row in TEST]
    np.testing.assert_allclose(raw_log_prob(operators, TEST), raw, rtol=ROUNDING)
    start, B, stop, average = model
    average = average / (average @ stop)
    expected = [reference.surprise(row, start, B, stop, average, 1e-4)[0] for row in TEST]
    found, _ = surprise(WindowModel(operators, 1e-4), TEST)
    np.testing.assert_allclose(found, np.concatenate(expected), rtol=ROUNDING, atol=ROUNDING)


def test_algorithm_2_of_counts_equals_the_reference():
    M_LoR, M_LR, M_LR1, M_oo, root = reference.count_gapped(SAMPLE.to_lists(), WINDOW, 4)
    tensors = reference.learn_paper(M_LoR[0], M_LR[0], M_LR1[0], M_oo[0], root, k=3, n_x=2)
    expected = np.array([reference.paper_prob(row[:8], *tensors) for row in TEST])
    table = count(SAMPLE, [WINDOW], gapped=True, holdout=False).tables[0]
    short = Sequences.from_array(TEST.codes.reshape(20, 25)[:, :8], vocabulary=range(4))
    log_p = raw_log_prob(algorithm_2(table, 3, 2).cut(3), short)
    assert (expected > 0).sum() > 15
    np.testing.assert_allclose(np.exp(log_p), np.maximum(expected, 0), rtol=ROUNDING)


def test_algorithm_2_pools_the_moments_that_algorithm_1_keeps_apart():
    apart = count(SAMPLE, [WINDOW], per_step=True, holdout=False).tables[0]
    together = count(SAMPLE, [WINDOW], gapped=True, holdout=False).tables[0]
    a, b = algorithm_2(apart, 3, 2), algorithm_2(together, 3, 2)
    assert np.array_equal(a.singular_values, b.singular_values)
    assert np.array_equal(a.cut(3).B, b.cut(3).B)


def test_a_fitted_model_scores_as_the_reference():
    model = SpectralHSMM(2, 2, algorithm="adjacent", windows=WINDOW, rank=3).fit(SAMPLE)
    counts = reference.count_adjacent(SAMPLE.to_lists(), WINDOW, 4)
    start, B, stop, average = reference.learn_adjacent(*counts, 3)
    average = average / (average @ stop)
    for row, scored in zip(TEST, model.surprise(TEST), strict=True):
        plain, following = reference.surprise(row, start, B, stop, average, model.epsilon_)
        np.testing.assert_allclose(scored, plain, rtol=ROUNDING, atol=ROUNDING)
        np.testing.assert_allclose(model.predict_next([row])[0], following, rtol=ROUNDING)


@pytest.mark.parametrize("window", [(0,), WINDOW])
def test_rank_is_the_one_that_the_reference_chooses(window):
    moments = count(SAMPLE, [window])
    held = moments.heldout
    heldout = [held.codes[b:e].tolist() for b, e in zip(held.begins, held.ends, strict=True)]
    train = SAMPLE.to_lists()
    for row in heldout:
        train.remove(row)
    assert len(heldout) > 50
    found = reference.choose(train, heldout, [window], (1, 2, 3, 4), 4, 1e-3 / 4)
    assert found == (window, choose(moments, None, 4, 2).rank)
