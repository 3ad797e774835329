"""Operators from exact moments are the model: the paper's identity, for all three algorithms."""

from itertools import product

import numpy as np
import pytest
from hmmlearn.hmm import CategoricalHMM

from sojourn import Params, Sequences, SojournError, count, exact_moments
from sojourn.spectral import operators, paper
from sojourn.spectral.paper import raw_log_prob
from sojourn.spectral.select_rank import decompose
from sojourn.spectral.windows import contiguous_offsets, theorem_offsets

ALGORITHMS = {"adjacent": {}, "pooled": {"gapped": True}, "per_step": {"per_step": True}}
T = 100
# What the paper's identity must hold to. Conditioning, not algebra, sets it: errors grow with the
# inverse of the smallest singular value, which is 1e-14 of the largest for some of these models.
MEDIAN, WORST = 1e-9, 1e-5
# All probabilities of strings of length 5 add up with an error of rounding times conditioning.
SUMS = 1e-9

SIZES = [(n_x, n_d, n_o) for n_x in (2, 3, 4) for n_d in (2, 3, 5, 8) for n_o in (4, 6)]


def learned(params, algorithm, length=T, window=None, rank=None):
    """Operators at full rank from exact moments over Theorem 1's window."""
    n_x, n_d, n_o = params.n_states, params.max_duration, params.n_symbols
    window = window or theorem_offsets(n_x, n_d, n_o)
    table = exact_moments(params, [window], length=length, **ALGORITHMS[algorithm]).tables[0]
    rank = rank or n_x * n_d
    return decompose(table, rank, n_x).cut(rank)


def raw(model, sequences):
    return raw_log_prob(model, sequences)


def all_strings(params, length):
    strings = np.array(list(product(range(params.n_symbols), repeat=length)))
    return Sequences.from_array(strings, vocabulary=range(params.n_symbols))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_exact_moments_give_the_forward_algorithm(algorithm):
    errors, lines = [], []
    for seed, size in enumerate(SIZES):
        params = Params.random(*size, rng=seed)
        window = theorem_offsets(*size)
        if (
            size[2] ** len(window) > 250
        ):  # 6^4 windows: the same identity at a hundred times the cost
            continue
        # Algorithm 1 has tensors of its own at every step; on the larger tables it is given those
        # of a shorter sequence, and its last ones serve the steps beyond.
        short = algorithm == "per_step" and size[2] ** len(window) > 30
        model = learned(params, algorithm, 2 * window[-1] + 8 if short else T)
        test = params.sample(40, T, rng=100 + seed)
        error = np.abs(raw(model, test) - params.log_prob(test))
        s = model.singular_values
        errors.append(error)
        lines.append(
            f"{size} σ_k/σ_1 = {s[min(size[0] * size[1], len(s)) - 1] / s[0]:.0e}, "
            f"median {np.median(error):.0e}, worst {error.max():.0e}"
        )
    report = "\n".join([algorithm, *lines])
    print(report)
    assert len(errors) >= 20, report
    assert np.median(np.concatenate(errors)) < MEDIAN, report
    assert np.concatenate(errors).max() < WORST, report


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("size", [(1, 1, 3), (1, 4, 3), (2, 1, 3), (4, 1, 5), (3, 1, 3)])
def test_one_state_and_durations_of_one(size, algorithm):
    params = Params.random(*size, rng=1)
    model = learned(params, algorithm, 30)
    if algorithm == "adjacent":  # it drops directions of rounding
        assert model.rank == size[0]
    test = params.sample(50, T, rng=2)
    # The smallest singular value of these is 1e-4 of the largest or more.
    np.testing.assert_allclose(raw(model, test), params.log_prob(test), rtol=0, atol=1e-9)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_durations_of_one_are_the_hidden_markov_model_of_hmmlearn(algorithm):
    params = Params.random(3, 1, 5, rng=3)
    hmm = CategoricalHMM(3)
    hmm.startprob_, hmm.transmat_ = params.start, params.transition
    hmm.emissionprob_, hmm.n_features = params.emission, 5
    model = learned(params, algorithm, 30)
    test = params.sample(20, T, rng=4)
    expected = [hmm.score(np.array(row)[:, None]) for row in test]
    np.testing.assert_allclose(raw(model, test), expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("length", range(1, 8))
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_strings_shorter_than_the_windows_have_their_probabilities(algorithm, length):
    params = Params.random(2, 4, 3, rng=5)
    model = learned(params, algorithm, 24)  # windows of a span of 4
    strings = all_strings(params, length)
    actual, expected = np.exp(raw(model, strings)), np.exp(params.log_prob(strings))
    # A relative error of conditioning (σ_k/σ_1 = 3e-6) on each.
    np.testing.assert_allclose(actual, expected, rtol=1e-8)
    assert abs(actual.sum() - 1) < SUMS


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_missing_symbol_is_the_sum_over_all_symbols(algorithm):
    params = Params.random(2, 3, 3, rng=6)
    model = learned(params, algorithm, 24)
    everything = np.exp(raw(model, all_strings(params, 5))).reshape((3,) * 5)
    for missing in [(0,), (2,), (4,), (0, 1), (1, 3), (3, 4), (0, 2, 4), (0, 1, 2, 3, 4)]:
        seen = [i for i in range(5) if i not in missing]
        rows = []
        for symbols in product(range(3), repeat=len(seen)):
            row = [None] * 5
            for i, symbol in zip(seen, symbols, strict=True):
                row[i] = symbol
            rows.append(row)
        given = Sequences.from_lists(rows, vocabulary=range(3))
        actual = np.exp(raw(model, given)).reshape((3,) * len(seen))
        np.testing.assert_allclose(actual, everything.sum(axis=missing), rtol=1e-9, atol=0)


@pytest.mark.parametrize("algorithm", ["adjacent", "pooled"])
def test_the_start_need_not_be_stationary(algorithm):
    """Every sequence starts in one state, at the beginning of a stay.

    Algorithm 1 cannot do that: it needs every hidden state to be possible at every step.
    """
    random = Params.random(2, 3, 4, rng=7)
    params = Params([1.0, 0.0], random.transition, random.duration, random.emission)
    test = params.sample(50, T, rng=8)
    model = learned(params, algorithm, 40)  # σ_k/σ_1 = 1e-4
    np.testing.assert_allclose(raw(model, test), params.log_prob(test), rtol=0, atol=1e-9)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_model_of_the_wider_class_with_self_transitions(algorithm):
    params = Params.random(2, 3, 4, rng=9, self_transitions=True)
    assert params.transition.diagonal().min() > 0
    test = params.sample(50, T, rng=8)
    model = learned(params, algorithm, 40)  # σ_k/σ_1 = 2e-10
    np.testing.assert_allclose(raw(model, test), params.log_prob(test), rtol=0, atol=WORST)


@pytest.mark.parametrize("algorithm", ["adjacent", "pooled"])
def test_windows_in_a_row_have_too_low_a_rank(algorithm):
    """They reach ℓ · n_x at the most: why Theorem 1 spreads its symbols."""
    params = Params.random(2, 8, 4, rng=10)
    n_o, window = 4, contiguous_offsets(3)
    table = exact_moments(params, [window], **ALGORITHMS[algorithm]).tables[0]
    M = table.H if algorithm == "adjacent" else table.M_LR[0]
    assert M.shape == (n_o**3, n_o**3)
    assert np.linalg.matrix_rank(M, rtol=1e-12) <= 3 * 2 < 2 * 8


# ---- what the estimates are made of -------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_cut_equals_learning_at_the_smaller_rank(algorithm):
    params = Params.random(3, 3, 4, rng=11)
    table = exact_moments(params, [(0, 2)], length=20, **ALGORITHMS[algorithm]).tables[0]
    at_once, cut = decompose(table, 4, 3).cut(4), decompose(table, 9, 3).cut(4)
    assert at_once.rank == cut.rank == 4
    for name in ("start", "B", "stop", "rest"):
        # The same products of the same vectors; only blocks of the matrix product differ.
        np.testing.assert_allclose(getattr(at_once, name), getattr(cut, name), atol=1e-11)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_average_state_means_the_same_at_every_step(algorithm):
    params = Params.random(2, 3, 4, rng=12)
    model = learned(params, algorithm, 30)
    n_t = len(model.B)
    assert n_t == (27 if algorithm == "per_step" else 1)  # the last step that windows fit at
    assert model.rest.shape == (n_t, len(model.start))
    np.testing.assert_allclose(model.rest @ model.stop, 1.0, rtol=1e-9)
    ahead = np.einsum("ti,toij,j->to", model.rest, model.B, model.stop)
    # Each step has coordinates of its own, but one distribution behind them.
    np.testing.assert_allclose(ahead, np.tile(ahead[-1], (n_t, 1)), rtol=1e-7)
    # It lies between the distributions of a symbol at the first step and at the last.
    codes = params.sample(20_000, 30, rng=13).codes.reshape(-1, 30)
    average = np.array([(codes == o).mean() for o in range(4)])
    np.testing.assert_allclose(ahead[0], average, atol=0.02)


@pytest.mark.parametrize("algorithm", ["pooled", "per_step"])
def test_the_paper_projects_symbols_to_the_rank_of_the_states(algorithm):
    params = Params.random(2, 3, 4, rng=14)
    O = learned(params, algorithm, 20).tensors.O_tilde
    np.testing.assert_allclose(O @ O, O, atol=1e-12)
    np.testing.assert_allclose(np.trace(O, axis1=1, axis2=2), 2, atol=1e-12)


def test_singular_values_are_those_of_the_scaled_table():
    params = Params.random(2, 2, 3, rng=15)
    H = exact_moments(params, [(0, 1)]).tables[0].H
    a, b = H.sum(axis=1) ** -0.5, H.sum(axis=0) ** -0.5
    expected = np.linalg.svd(a[:, None] * H * b)[1]
    for rank in (2, 4):  # those that are not in use too: where they level off is for the eye
        values = learned(params, "adjacent", rank=rank).singular_values
        np.testing.assert_allclose(values, expected, rtol=1e-9, atol=1e-14)
    assert values[0] == pytest.approx(1)
    assert len(values) == 9


@pytest.mark.parametrize("algorithm", ["adjacent", "pooled"])
def test_random_projections_are_exact_at_low_rank_and_repeat_with_seed(algorithm, monkeypatch):
    params = Params.random(2, 2, 5, rng=16)
    expected = learned(params, algorithm)
    monkeypatch.setattr(operators, "DENSE", 10)  # the table has 25 rows
    test = params.sample(50, T, rng=17)
    projected = learned(params, algorithm)
    # A table of rank four exactly is found by projections on any four directions and more.
    np.testing.assert_allclose(raw(projected, test), params.log_prob(test), rtol=0, atol=1e-6)
    assert np.array_equal(projected.B, learned(params, algorithm).B)
    assert not np.array_equal(projected.B, expected.B)


def test_random_projections_find_the_leading_values_of_noisy_tables(monkeypatch):
    sample = Params.random(4, 6, 5, rng=0).sample(500, 100, rng=1)
    table = count(sample, [(0, 1, 2)], holdout=False).tables[0]
    exact = decompose(table, 12, 4).singular_values[:12]
    monkeypatch.setattr(operators, "DENSE", 10)
    projected = decompose(table, 12, 4).singular_values
    assert len(projected) == 12
    assert not np.array_equal(projected, exact)
    # The tenth of these lies in noise that falls slowly; two power iterations nearly resolve it.
    np.testing.assert_allclose(projected, exact, rtol=0.03)


def test_algorithm_1_takes_the_nearest_step_at_which_windows_fit():
    assert paper._nearest(np.array([3, 4, 6]), 9) == [3, 3, 3, 3, 4, 4, 6, 6, 6]


def test_a_symbol_that_never_occurs_breaks_nothing():
    params = Params.random(2, 2, 3, rng=18)
    emission = np.column_stack([params.emission, np.zeros(2)])
    wider = Params(params.start, params.transition, params.duration, emission)
    test = params.sample(20, T, rng=19)
    for algorithm in ALGORITHMS:
        model = learned(wider, algorithm, 30)
        np.testing.assert_allclose(raw(model, test), params.log_prob(test), rtol=0, atol=1e-8)


def test_the_paper_needs_two_right_windows():
    params = Params.random(2, 2, 3, rng=0)
    table = count(params.sample(10, 5, rng=0), [(0, 1)], gapped=True, holdout=False).tables[0]
    with pytest.raises(SojournError, match=r"a left and two right windows \(0, 1\)"):
        decompose(table, 4, 2)
