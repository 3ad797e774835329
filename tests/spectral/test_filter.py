"""The normalised filter is a true distribution whatever the operators; the raw product is exact."""

import math
from itertools import product

import numpy as np
import pytest

from sojourn import Params, Sequences, count, exact_moments
from sojourn.contexts.pieces import Pieces
from sojourn.contexts.trees import lay_out, steps_of
from sojourn.spectral.answers import next_distributions, surprise
from sojourn.spectral.filter import run_filter, unseen, window_filter
from sojourn.spectral.models import WindowModel
from sojourn.spectral.operators import Operators
from sojourn.spectral.paper import raw_log_prob
from sojourn.spectral.select_rank import decompose

N_O = 3
# Products of up to 20 matrices in another order of addition.
ROUNDING = 1e-10


def next_distribution(model, sequences, horizon=1):
    return next_distributions(model, sequences, [horizon])[:, 0]


def operators(start, B, stop, rest):
    return Operators(start, B, stop, rest, np.ones(1), len(stop))


def noisy(algorithm, seed, rank=4):
    """Operators of a few sequences: signed, with products that are far from probabilities."""
    flags = {"adjacent": {}, "pooled": {"gapped": True}, "per_step": {"per_step": True}}
    sample = Params.random(2, 2, N_O, rng=seed).sample(40, 12, rng=seed)
    table = count(sample, [(0, 1)], holdout=False, **flags[algorithm]).tables[0]
    return decompose(table, rank, 2).cut(rank)


def adversarial(seed, scale=1.0, n_t=1, k=3, positive=False):
    rng = np.random.default_rng(seed)
    shapes = ((k,), (n_t, N_O, k, k), (k,), (n_t, k))
    draws = [scale * rng.normal(size=shape) for shape in shapes]
    return operators(*(np.abs(draw) if positive else draw for draw in draws))


def zeros(k=2):
    return operators(np.zeros(k), np.zeros((1, N_O, k, k)), np.zeros(k), np.zeros((1, k)))


HARD = {
    "random": adversarial(0),
    "random again": adversarial(1),
    "random steps": adversarial(2, n_t=4),
    "tiny": adversarial(3, 1e-150),
    "huge": adversarial(4, 1e30),
    "overflowing": adversarial(5, 1e49),
    "growing": adversarial(6, 1e3),
    "positive and overflowing": adversarial(10, 1e49, positive=True),
    "zeros": zeros(),
    "adjacent": noisy("adjacent", 7),
    "pooled": noisy("pooled", 8),
    "per_step": noisy("per_step", 9),
}
ROWS = [
    [0],
    [2, 1],
    [None],
    [0, 1, 2, 2, 1, 0, 0],
    [None, 1, None, None, 2, 0],
    [1, 1, None],
    [2, 0, 1] * 6,
]


def given(rows):
    return Sequences.from_lists(rows, vocabulary=range(N_O))


def from_the_middle(operators, epsilon, sequences):
    """Surprise of sequences whose starts were not seen."""
    filter, flat = window_filter(operators, epsilon), lay_out(Pieces.all_of(sequences), N_O)
    fresh = np.zeros(len(sequences), bool)
    prob, _, _ = run_filter(filter, flat, steps_of(flat, fresh, filter.n_t), fresh)
    return -np.log(prob[flat.codes != N_O])


def all_strings(length):
    return Sequences.from_array(
        np.array(list(product(range(N_O), repeat=length))), vocabulary=range(N_O)
    )


def plain_filter(model, epsilon, row, fresh=True):
    """The filter as its module's first lines describe it, without a kernel's tricks."""
    n_t = len(model.B)
    scale = model.start @ model.stop
    first = model.start / scale if scale > 0 else model.rest[0]
    v = first if fresh else model.rest[-1]
    surprise = []
    for t, symbol in enumerate(row):
        step = min(t, n_t - 1) if fresh else n_t - 1
        B, rest = model.B[step], model.rest[min(step + 1, n_t - 1)]
        q = np.array([v @ B_o @ model.stop for B_o in B])
        p = np.maximum(q, epsilon) / np.maximum(q, epsilon).sum()
        move, mass = (B.sum(axis=0), q.sum()) if symbol is None else (B[symbol], q[symbol])
        surprise.append(0.0 if symbol is None else -math.log(p[symbol]))
        v = v @ move / mass if mass >= epsilon else rest
    q = np.array([v @ B_o @ model.stop for B_o in model.B[min(len(row), n_t - 1) if fresh else -1]])
    return surprise, np.maximum(q, epsilon) / np.maximum(q, epsilon).sum()


PLAIN = ["random", "random again", "random steps", "adjacent", "pooled", "per_step"]


@pytest.mark.parametrize("epsilon", [1e-3, 1e-6])
@pytest.mark.parametrize("name", PLAIN)
def test_filter_equals_a_plain_filter(name, epsilon):
    model, sequences = WindowModel(HARD[name], epsilon), given(ROWS)
    found, _ = surprise(model, sequences)
    ahead = next_distribution(model, sequences)
    for i, row in enumerate(ROWS):
        expected, following = plain_filter(HARD[name], epsilon, row)
        actual = found[sequences.offsets[i] : sequences.offsets[i + 1]]
        np.testing.assert_allclose(actual, expected, rtol=ROUNDING, atol=ROUNDING)
        np.testing.assert_allclose(ahead[i], following, rtol=ROUNDING)


@pytest.mark.parametrize("name", PLAIN)
def test_piece_from_mid_sequence_starts_at_the_average_state(name):
    sequences = given(ROWS)
    found = from_the_middle(HARD[name], 1e-4, sequences)
    for i, row in enumerate(ROWS):
        expected, _ = plain_filter(HARD[name], 1e-4, row, fresh=False)
        actual = found[sequences.offsets[i] : sequences.offsets[i + 1]]
        np.testing.assert_allclose(actual, expected, rtol=ROUNDING, atol=ROUNDING)


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")
@pytest.mark.parametrize("epsilon", [1e-4, 0.1])
@pytest.mark.parametrize("name", HARD)
def test_the_filter_is_a_distribution_over_strings(name, epsilon):
    model = WindowModel(HARD[name], epsilon)
    for length in (1, 2, 5):
        strings = all_strings(length)
        found, _ = surprise(model, strings)
        assert np.isfinite(found).all()
        assert found.min() >= 0
        p = np.exp(-found.reshape(-1, length).sum(axis=1))
        # 3^5 terms of rounding 1e-16 each.
        assert abs(p.sum() - 1) < 1e-12
        ahead = next_distribution(model, strings)
        assert (ahead > 0).all()
        np.testing.assert_allclose(ahead.sum(axis=1), 1, rtol=1e-14)


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")
@pytest.mark.parametrize("name", HARD)
def test_the_filter_stays_finite_on_long_sequences_with_gaps(name):
    rng = np.random.default_rng(0)
    model = WindowModel(HARD[name], 1e-4)
    row = [None if rng.random() < 0.3 else int(rng.integers(N_O)) for _ in range(3000)]
    sequences = given([row, [None] * 3000 + [0], [0] * 3000])
    found, _ = surprise(model, sequences)
    assert np.isfinite(found).all()
    for horizon in (2, 50):
        ahead = next_distribution(model, sequences, horizon)
        assert (ahead > 0).all()
        np.testing.assert_allclose(ahead.sum(axis=1), 1, rtol=1e-12)
    missing = np.array([symbol is None for symbol in row])
    assert (found[: len(row)][missing] == 0).all()
    assert not np.signbit(found).any()


@pytest.mark.parametrize("name", ["adjacent", "pooled", "per_step"])
@pytest.mark.parametrize("horizon", [2, 3, 10])
def test_prediction_ahead_is_that_after_missing_symbols(name, horizon):
    model = WindowModel(exact(name), 1e-6)
    now, then = given(ROWS), given([[*row, *[None] * (horizon - 1)] for row in ROWS])
    # Operators of exact moments predict nothing that ε would cut.
    np.testing.assert_allclose(
        next_distribution(model, now, horizon), next_distribution(model, then), atol=1e-7
    )


def exact(algorithm):
    flags = {"adjacent": {}, "pooled": {"gapped": True}, "per_step": {"per_step": True}}
    moments = exact_moments(Params.random(2, 2, N_O, rng=0), [(0, 1)], **flags[algorithm])
    return decompose(moments.tables[0], 4, 2).cut(4)


def test_prediction_after_a_long_gap_does_not_depend_on_the_past():
    """Operators of samples do not keep probabilities summing to one; a long gap must not tell."""
    model = WindowModel(noisy("pooled", 8), 1e-4)
    total = noisy("pooled", 8).B[0].sum(axis=0)
    radius = np.abs(np.linalg.eigvals(total)).max()
    assert abs(radius - 1) > 1e-4
    gap = [None] * 200_000  # radius to this power is below e^-20 or above e^20
    ahead = next_distribution(model, given([[0, *gap], [1, 2, *gap], gap]))
    ahead = np.vstack([ahead, next_distribution(model, given([[0], [1, 2]]), len(gap) + 1)])
    np.testing.assert_allclose(ahead, np.tile(ahead[0], (5, 1)), rtol=1e-9)
    assert ahead.min() > 0.05  # no symbol of this model is rare


@pytest.mark.parametrize("n", [1, 2, 7, 10**9])
def test_steps_not_seen_are_powers_of_the_sum_of_all_operators(n):
    """Of a chain of two states that ends from the second one now and then."""
    A, weight = np.array([[0.9, 0.1], [0.2, 0.7]]), np.ones(2)
    states, alive = unseen(A, weight, np.array([[1.0, 0.0]]), n)
    expected = np.array([1.0, 0.0]) @ np.linalg.matrix_power(A, min(n, 1000))
    assert alive[0] == pytest.approx(expected.sum() if n < 1000 else 0.0, rel=1e-12)
    np.testing.assert_allclose(states[0], expected / expected.sum(), rtol=1e-12)


@pytest.mark.parametrize("name", ["random steps", "per_step"])
def test_result_is_independent_of_n_jobs_and_chunks(name):
    rng = np.random.default_rng(1)
    codes = rng.integers(-1, N_O, 120_000).astype(np.int32)
    offsets = np.append(0, np.sort(rng.choice(np.arange(1, 120_000), 3000, replace=False)))
    offsets = np.append(offsets, 120_000)
    sequences = Sequences(codes, offsets, np.arange(N_O), np.arange(len(offsets) - 1))
    model = WindowModel(HARD[name], 1e-4)
    one, two = (surprise(model, sequences, n_jobs=n)[0] for n in (1, 2))
    assert np.array_equal(one, two)
    alone = [surprise(model, sequences[i : i + 1])[0] for i in range(50)]
    assert np.array_equal(one[: offsets[50]], np.concatenate(alone))


# ---- the raw product ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["random", "random steps", "growing", "adjacent", "pooled"])
def test_raw_score_is_the_log_of_the_product(name):
    model, sequences = HARD[name], given(ROWS)
    actual = raw_log_prob(model, sequences)
    expected = []
    for row in ROWS:
        v = model.start
        for t, symbol in enumerate(row):
            B = model.B[min(t, len(model.B) - 1)]
            v = v @ (B.sum(axis=0) if symbol is None else B[symbol])
        expected.append(np.log(v @ model.stop) if v @ model.stop > 0 else -np.inf)
    np.testing.assert_allclose(actual, expected, rtol=ROUNDING, atol=ROUNDING)


def test_the_raw_product_of_random_operators_is_often_negative():
    log_p = raw_log_prob(HARD["random"], all_strings(6))
    assert 0.2 < np.isneginf(log_p).mean() < 0.8
    assert not np.isnan(log_p).any()


def test_the_raw_product_does_not_underflow():
    params = Params.random(2, 2, N_O, rng=0)
    long = params.sample(2, 3000, rng=2)
    log_p = raw_log_prob(exact("adjacent"), long)
    # Far below the smallest double, which is e^-745. Errors of operators add up over the steps.
    assert log_p.max() < -2000
    np.testing.assert_allclose(log_p, params.log_prob(long), rtol=1e-10)
