"""Forward, backward, Viterbi and posterior sampling against sums over every hidden path."""

import itertools
import subprocess
import sys
import textwrap
from dataclasses import replace
from types import SimpleNamespace

import naive
import numpy as np
import pytest
from numba import njit

from sojourn import Params, Sequences, SojournError
from sojourn.exact.expected_counts import (
    expected_counts,
    expected_counts_each,
    state_probabilities,
)
from sojourn.exact.filter import Compiling, filter_steps, new_state, tables
from sojourn.exact.forward import filtered, log_prob, surprise
from sojourn.exact.layout import block_steps, evidence
from sojourn.exact.viterbi import decode

# A handful of products and sums of a few dozen terms: some tens of units in the last place.
EXACT = 1e-12

N_MODELS = 1200
COUNTS = ("initial", "transition", "duration", "emission", "tail", "end")


def stochastic(rng, *shape, zeros=0.25):
    """Random rows that sum to one, some of their entries zero."""
    table = rng.random(shape)
    table[rng.random(shape) < zeros] = 0.0
    rows = table.reshape(-1, shape[-1])
    rows[rows.sum(1) == 0.0, rng.integers(shape[-1])] = 1.0
    return table / table.sum(-1, keepdims=True)


def one(codes, n_symbols):
    """A single sequence of codes, -1 where missing."""
    codes = np.asarray(codes, dtype=np.int32)
    return Sequences(
        codes=codes,
        offsets=np.array([0, len(codes)], dtype=np.int64),
        vocabulary=np.arange(n_symbols, dtype=np.int64),
        ids=np.arange(1, dtype=np.int64),
    )


class Case:
    """A tiny model, a sequence of up to five codes, and what enumeration gives for them."""

    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        n_x, n_d, n_o = rng.integers(1, 4, size=3)
        length = rng.integers(1, 6)
        self.params = Params(
            stochastic(rng, n_x),
            stochastic(rng, n_x, n_x),  # self-transitions included
            stochastic(rng, n_x, n_d),
            stochastic(rng, n_x, n_o),
            # Half of the models have tails, a third ends; some of both are zero.
            tail=rng.random(n_x) * (rng.random(n_x) < 0.8) if seed % 2 else None,
            end=stochastic(rng, n_x, 2)[:, 0] if seed % 3 == 1 else None,
            empty=0.25 if seed % 3 == 1 else 0.0,
        )
        self.codes = rng.integers(0, n_o, size=length)
        self.codes[rng.random(length) < 0.2] = -1
        self.initial = stochastic(rng, n_x * n_d).reshape(n_x, n_d) if seed % 3 == 0 else None
        self.labels = None
        if seed % 4 == 0:
            known = rng.random(length) < 0.4
            self.labels = np.where(known, rng.integers(0, n_x, size=length), -1).astype(np.int32)
        self.sequences = one(self.codes, n_o)
        self.truth = naive.enumerate_paths(
            self.params, self.codes.tolist(), self.initial, self.labels
        )


@pytest.fixture(scope="module")
def cases():
    found = [Case(seed) for seed in range(N_MODELS)]
    possible = sum(case.truth.probability > 0.0 for case in found)
    assert N_MODELS // 2 < possible < N_MODELS  # possible and impossible ones are well represented
    return found


def close(got, want):
    """Equal to EXACT, relative, entry by entry; zero exactly where the truth is zero."""
    assert not np.isnan(got).any()
    np.testing.assert_allclose(got, want, rtol=EXACT, atol=0.0)


def test_likelihood_equals_enumeration(cases):
    for case in cases:
        if case.labels is not None:
            continue
        arguments = case.params, case.sequences, case.initial
        p = case.truth.probability
        with np.errstate(divide="ignore"):
            close(np.exp(log_prob(*arguments, n_jobs=1)), [p])
            twin = naive.forward_in_logs(case.params, case.codes, case.initial)
        close(np.exp(twin), p)
        steps = surprise(*arguments, n_jobs=1)
        assert (steps >= 0.0).all()
        close(np.exp(-steps.sum()), p)


def test_posterior_states_equal_enumeration(cases):
    for case in cases:
        arguments = case.params, case.sequences, case.initial, case.labels
        close(state_probabilities(*arguments, n_jobs=1), case.truth.gamma)


def test_filtered_cells_equal_enumeration(cases):
    for case in cases:
        if case.labels is None and not case.params.ends:  # a filter does not know of the end
            close(filtered(case.params, case.sequences, case.initial, n_jobs=1)[0], case.truth.last)


def test_expected_counts_equal_enumeration(cases):
    for case in cases:
        arguments = case.params, case.sequences, case.initial, case.labels
        counts = expected_counts(*arguments, n_jobs=1)
        for name in COUNTS:
            close(getattr(counts, name), getattr(case.truth, name))
        close(counts.start, case.truth.initial.sum(1))
        close(np.exp(counts.log_likelihood), case.truth.probability)


def test_kernels_for_one_lane_equal_enumeration(cases, monkeypatch):
    monkeypatch.setattr("sojourn.exact.layout.n_lanes", lambda lengths, n_cells: 1)
    for case in cases[::5]:
        arguments = case.params, case.sequences, case.initial, case.labels
        close(state_probabilities(*arguments, n_jobs=1), case.truth.gamma)
        counts = expected_counts(*arguments, n_jobs=1)
        for name in COUNTS:
            close(getattr(counts, name), getattr(case.truth, name))
        if case.labels is None:
            found = decode(*arguments[:3], n_jobs=1)
            close(np.exp(found.log_prob), [case.truth.best])


def test_viterbi_path_is_one_of_the_best_of_all_paths(cases):
    for case in cases:
        if case.labels is not None:
            continue
        found = decode(case.params, case.sequences, case.initial, n_jobs=1)
        close(np.exp(found.log_prob), [case.truth.best])
        if case.truth.probability > 0.0:
            path = tuple(found.states.tolist()), tuple(np.flatnonzero(found.begins).tolist())
            assert path in case.truth.best_paths
            assert found.impossible_at.tolist() == [-1]


def test_impossible_sequences_name_the_first_step_without_a_path(cases):
    seen = 0
    for case in cases:
        if case.labels is not None or case.truth.probability > 0.0 or case.params.ends:
            continue
        seen += 1
        found = decode(case.params, case.sequences, case.initial, n_jobs=1)
        step = found.impossible_at[0]
        assert (found.states == -1).all()
        assert not found.begins.any()
        assert naive.enumerate_paths(case.params, case.codes[: step + 1], case.initial).best == 0.0
        if step > 0:
            assert naive.enumerate_paths(case.params, case.codes[:step], case.initial).best > 0.0
        steps = surprise(case.params, case.sequences, case.initial, n_jobs=1)
        assert np.isinf(steps[step:]).all()
        assert np.isfinite(steps[:step]).all()
    assert seen > 50


def test_an_impossible_sequence_adds_no_counts_and_spoils_none():
    p = Params([1, 0], [[0, 1], [1, 0]], [[0, 1], [0.5, 0.5]], [[1, 0], [0, 1]])
    good, both = ([[0, 0, 1, 0]], [[0, 0, 1, 0], [0, 1, 1, 1], [0, 0]])
    counts = expected_counts(p, Sequences.from_lists(both))
    assert counts.log_likelihood == -np.inf
    wanted = expected_counts(p, Sequences.from_lists([*good, [0, 0]], vocabulary=[0, 1]))
    for name in COUNTS:
        np.testing.assert_array_equal(getattr(counts, name), getattr(wanted, name))
    assert not state_probabilities(p, Sequences.from_lists(both))[4:8].any()


def test_expected_counts_of_each_sequence_add_up_to_those_of_all():
    p = Params.random(3, 5, 4, rng=0)
    X = p.sample(30, np.arange(1, 31), rng=1)
    summed = sum(expected_counts_each(p, X)[1:], start=expected_counts_each(p, X)[0])
    counts = expected_counts(p, X)
    for name in COUNTS:
        np.testing.assert_allclose(getattr(summed, name), getattr(counts, name), rtol=EXACT)
    # Every symbol is emitted once, every sequence starts once.
    np.testing.assert_allclose(counts.emission.sum(0), np.bincount(X.codes), rtol=EXACT)
    np.testing.assert_allclose(counts.initial.sum(), 30, rtol=EXACT)
    np.testing.assert_allclose(counts.transition.sum(), counts.duration.sum(), rtol=EXACT)


def test_labels_everywhere_leave_plain_counts():
    # Stays are seen in full except the last; no self-transitions, so labels give them away.
    p = Params.random(3, 5, 4, rng=0)
    X, states, remaining = p.sample(1, 500, rng=1, return_states=True)
    counts = expected_counts(p, X, labels=states)
    emission = np.zeros((3, 4))
    np.add.at(emission, (states, X.codes), 1)
    np.testing.assert_allclose(counts.emission, emission, rtol=EXACT)
    firsts = np.flatnonzero(np.concatenate([[True], remaining[:-1] == 1]))
    duration, transition = np.zeros((3, 5)), np.zeros((3, 3))
    np.add.at(duration, (states[firsts[1:-1]], remaining[firsts[1:-1]] - 1), 1)
    np.add.at(transition, (states[firsts[:-1]], states[firsts[1:]]), 1)
    last, seen = states[-1], 500 - firsts[-1]
    weights = np.where(np.arange(5) >= seen - 1, p.duration[last], 0.0)
    duration[last] += weights / weights.sum()
    np.testing.assert_allclose(counts.duration, duration, rtol=EXACT, atol=EXACT)
    np.testing.assert_allclose(counts.transition, transition, rtol=EXACT)


def test_a_missing_symbol_may_be_any():
    p = Params.random(3, 4, 5, rng=0)
    some = p.log_prob([[0, 1, k, 2] for k in range(5)])
    missing = p.log_prob([[0, 1, None, 2]])
    np.testing.assert_allclose(np.exp(missing), np.exp(some).sum(), rtol=EXACT)


@pytest.mark.parametrize("n_states", [1, 2, 3, 4, 5, 8, 9])
@pytest.mark.parametrize("max_duration", [1, 2, 4, 5, 8, 17])
def test_every_width_of_table_agrees_with_the_recursion_in_logs(n_states, max_duration):
    # Tables are padded to lanes of four: widths on either side of a multiple.
    p = Params.random(n_states, max_duration, 3, rng=n_states, self_transitions=True)
    codes = np.random.default_rng(0).integers(-1, 3, size=60)
    want = naive.forward_in_logs(p, codes)
    X = one(codes, 3)
    counts = expected_counts(p, X)
    np.testing.assert_allclose(log_prob(p, X), want, rtol=EXACT)
    np.testing.assert_allclose(counts.log_likelihood, want, rtol=EXACT)
    np.testing.assert_allclose(counts.emission.sum(), (codes >= 0).sum(), rtol=EXACT)
    np.testing.assert_allclose(counts.initial.sum(), 1.0, rtol=EXACT)
    best = decode(p, X)
    score = naive.score_path(p, codes, best.states, best.begins)
    np.testing.assert_allclose(best.log_prob, score, rtol=EXACT)


def test_the_room_that_vectors_read_behind_the_factors_is_clear():
    """With one lane the last rows are read beyond the table: infinities there spoilt the scores."""
    B = np.vstack([Params.random(5, 3, 4, rng=0).emission.T, np.ones(5)])
    np.full(B.size + 8, np.inf)  # freed at once: the next array of this size is likely to be it
    room = evidence(np.zeros(3, dtype=np.int32), np.array([0, 3]), B).B.base
    assert room.ravel()[B.size :].tolist() == [0.0] * 8


@njit
def _log_forward(start, A, D, B, codes):
    """The twin in logs, compiled: a step costs n_x² + n_x n_d logarithms."""
    n_x, n_d = D.shape
    alpha = np.empty((n_x, n_d))
    fresh = np.empty((n_x, n_d))
    for x in range(n_x):
        for r in range(n_d):
            alpha[x, r] = start[x] + D[x, r] + B[x, codes[0]]
    for t in range(1, codes.size):
        for x in range(n_x):
            enter = -np.inf
            for y in range(n_x):
                enter = np.logaddexp(enter, alpha[y, 0] + A[y, x])
            for r in range(n_d):
                on = alpha[x, r + 1] if r + 1 < n_d else -np.inf
                fresh[x, r] = B[x, codes[t]] + np.logaddexp(on, enter + D[x, r])
        alpha[:] = fresh
    total = -np.inf
    for x in range(n_x):
        for r in range(n_d):
            total = np.logaddexp(total, alpha[x, r])
    return total


def test_a_million_symbols_agree_with_the_recursion_in_logs():
    p = Params.random(3, 4, 5, rng=0, self_transitions=True)
    X = p.sample(1, 1_000_000, rng=1)
    with np.errstate(divide="ignore"):
        logs = [np.log(t) for t in (p.start, p.transition, p.duration, p.emission)]
    want = _log_forward(*logs, X.codes)
    assert want < -1e6
    # The twin adds numbers of size 10^6 a million times: 1e-10 relative is what it can promise.
    np.testing.assert_allclose(p.log_prob(X), want, rtol=1e-10)
    np.testing.assert_allclose(surprise(p, X).sum(), -want, rtol=1e-10)
    counts = expected_counts(p, X)
    np.testing.assert_allclose(counts.log_likelihood, want, rtol=1e-10)
    # Rounding in beta adds up like a random walk: 1e-16 times the root of 10^6, and a margin.
    np.testing.assert_allclose(counts.emission.sum(), 1e6, rtol=1e-11)
    # Posteriors are divided by their own sum, which leaves a few units in the last place.
    np.testing.assert_allclose(state_probabilities(p, X).sum(1), 1.0, rtol=2e-15)


def test_result_is_independent_of_block_size(monkeypatch):
    p = Params.random(3, 5, 4, rng=2)
    X = p.sample(20, np.arange(1, 201, 10), rng=3)
    at_once = expected_counts(p, X), state_probabilities(p, X)
    for steps in (1, 2, 7, 64):
        monkeypatch.setattr(
            "sojourn.exact.layout.block_steps",
            lambda n_numbers, n_head, longest, n=steps: min(n, longest),
        )
        cut = expected_counts(p, X), state_probabilities(p, X)
        assert cut[0].log_likelihood == at_once[0].log_likelihood
        for name in COUNTS:
            np.testing.assert_array_equal(getattr(cut[0], name), getattr(at_once[0], name))
        np.testing.assert_array_equal(cut[1], at_once[1])


def test_memory_of_a_long_sequence_is_bounded_by_blocks_and_checkpoints():
    for n_x, n_d in ((4, 6), (8, 44), (16, 204), (40, 1004)):
        n_numbers, n_head = 5 * n_x, 3 * n_x * (n_d + 32)
        for longest in (100, 10**4, 10**6, 10**8):
            steps = block_steps(n_numbers, n_head, longest)
            block, heads = 8 * n_numbers * (steps + 1), 8 * n_head * -(-longest // steps)
            # 4 MB of block or 64 MB of checkpoints, whichever asks for more; a step of slack each.
            assert heads <= (1 << 26) + 8 * n_head
            assert block <= max(1 << 22, longest * n_head * 8 / 2**26 * 8 * n_numbers) + 16 * n_head


def test_expected_counts_of_a_million_steps_stay_far_below_a_gigabyte():
    # The full table of alphas would take 2.8 GB; in a process of its own, to read its peak.
    script = """
        import resource
        from sojourn import Params
        from sojourn.exact.expected_counts import expected_counts
        p = Params.random(8, 40, 9, rng=0)
        expected_counts(p, p.sample(1, 1000, rng=1))
        X = p.sample(1, 1_000_000, rng=1)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        counts = expected_counts(p, X)
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        assert abs(counts.emission.sum() - 1e6) < 1e-3
        print((after - before) // 1024)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 100  # megabytes


def test_results_are_the_same_to_the_bit_for_any_number_of_threads():
    p = Params.random(4, 6, 5, rng=0)
    X = p.sample(1500, 100, rng=1)  # several chunks
    for function in (log_prob, surprise, filtered, state_probabilities):
        np.testing.assert_array_equal(function(p, X, n_jobs=1), function(p, X, n_jobs=3))
    one, three = (expected_counts(p, X, n_jobs=n) for n in (1, 3))
    assert one.log_likelihood == three.log_likelihood
    for name in COUNTS:
        np.testing.assert_array_equal(getattr(one, name), getattr(three, name))
    for a, b in zip(decode(p, X, n_jobs=1), decode(p, X, n_jobs=3), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("size", [(4, 6, 5), (8, 40, 9), (3, 1, 2), (1, 5, 3)])
def test_a_filter_advanced_symbol_by_symbol_equals_the_batch_to_the_bit(size):
    p = Params.random(*size, rng=0)
    X = p.sample(2, 300, rng=1)
    want, finals = surprise(p, X), filtered(p, X)
    model = tables(p)
    for i in range(2):
        alpha, work = new_state(model.D)
        total, out = -1.0, np.empty(1)
        for t, code in enumerate(X.codes[300 * i : 300 * i + 300]):
            codes = np.array([code], dtype=np.int32)
            total = filter_steps(*model[:5], alpha, total, work, codes, 0, 1, out)
            assert out[0] == want[300 * i + t]
        np.testing.assert_array_equal(alpha[:, : p.max_duration] * (1.0 / total), finals[i])


def test_very_unlikely_symbols_do_not_underflow():
    tiny = 1e-200
    p = Params([1, 0], [[0, 1], [1, 0]], [[0.5, 0.5]] * 2, [[1 - tiny, tiny], [1 - tiny, tiny]])
    X = Sequences.from_lists([[1] * 50, [0] * 10 + [1] * 3 + [0] * 10], vocabulary=[0, 1])
    np.testing.assert_allclose(log_prob(p, X), np.log(tiny) * np.array([50, 3]), rtol=EXACT)
    counts = expected_counts(p, X)
    np.testing.assert_allclose(counts.emission.sum(0), [20, 53], rtol=EXACT)
    np.testing.assert_allclose(state_probabilities(p, X).sum(1), 1.0, rtol=EXACT)


@pytest.mark.parametrize("n_d", [2, 60])
def test_states_that_cannot_be_reached_do_not_overflow(n_d):
    # The second half of the model explains the data far better, and is never entered; with long
    # stays its beta grows within a stay, with short ones from stay to stay.
    p = Params(
        [1, 0, 0, 0],
        [[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]],
        [[1 / n_d] * n_d] * 4,
        [[1 - 1e-9, 1e-9]] * 2 + [[0.0, 1.0]] * 2,
    )
    X = Sequences.from_lists([[1] * 2000], vocabulary=[0, 1])
    counts = expected_counts(p, X)
    gamma = state_probabilities(p, X)
    for name in COUNTS:
        table = getattr(counts, name)
        assert np.isfinite(table).all()
        assert not table[2:].any()
    np.testing.assert_allclose(counts.emission.sum(), 2000, rtol=EXACT)
    np.testing.assert_allclose(gamma[:, :2].sum(1), 1.0, rtol=EXACT)
    np.testing.assert_allclose(log_prob(p, X), 2000 * np.log(1e-9), rtol=EXACT)


def test_viterbi_score_of_long_sequences_is_that_of_its_path():
    for size in ((4, 6, 5), (8, 40, 9)):
        p = Params.random(*size, rng=0)
        X, states, remaining = p.sample(3, 2000, rng=1, return_states=True)
        found = decode(p, X)
        begins = np.concatenate([[True], remaining[:-1] == 1])
        for i in range(3):
            at = slice(2000 * i, 2000 * i + 2000)
            begins[at.start] = True
            codes = X.codes[at]
            score = naive.score_path(p, codes, found.states[at], found.begins[at])
            np.testing.assert_allclose(found.log_prob[i], score, rtol=EXACT)
            assert score >= naive.score_path(p, codes, states[at], begins[at])


def test_durations_of_one_make_hmmlearns_model():
    hmm = pytest.importorskip("hmmlearn.hmm")
    p = Params.random(4, 1, 5, rng=0, self_transitions=True)
    X = p.sample(20, 50, rng=1)
    twin = hmm.CategoricalHMM(4, n_features=5)
    twin.startprob_, twin.transmat_, twin.emissionprob_ = p.start, p.transition, p.emission
    gamma = state_probabilities(p, X)
    for i, score in enumerate(log_prob(p, X)):
        at = slice(50 * i, 50 * i + 50)
        column = X.codes[at, None]
        # It works on logarithms, which costs it some digits.
        np.testing.assert_allclose(score, twin.score(column), rtol=1e-10)
        np.testing.assert_allclose(gamma[at], twin.predict_proba(column), rtol=1e-8)


def test_a_tail_at_one_step_is_the_diagonal_of_hmmlearns_model():
    hmm = pytest.importorskip("hmmlearn.hmm")
    rng = np.random.default_rng(3)
    twin = hmm.CategoricalHMM(3, n_features=4, random_state=1)
    twin.startprob_ = rng.dirichlet(np.ones(3))
    twin.transmat_, twin.emissionprob_ = rng.dirichlet(np.ones(3), 3), rng.dirichlet(np.ones(4), 3)
    column, _ = twin.sample(200)
    A, tail = twin.transmat_, twin.transmat_.diagonal()
    leaving = (A - np.diag(tail)) / (1 - tail)[:, None]
    X = Sequences.from_lists([column[:, 0].tolist()], vocabulary=range(4))
    for params in (
        Params(twin.startprob_, A, np.ones((3, 1)), twin.emissionprob_),
        Params(twin.startprob_, leaving, np.ones((3, 1)), twin.emissionprob_, tail=tail),
    ):
        # It works on logarithms, which costs it some digits.
        np.testing.assert_allclose(log_prob(params, X), twin.score(column), rtol=1e-10)
        score, states = twin.decode(column)
        np.testing.assert_array_equal(decode(params, X).states, states)
        np.testing.assert_allclose(decode(params, X).log_prob, score, rtol=1e-10)


def test_an_empty_sequence_is_certain_without_ends_and_has_its_probability_with_them():
    p = Params.random(2, 3, 2, rng=0)
    X = Sequences.from_lists([[], [0, 1], []], vocabulary=[0, 1], empty=True)
    ending = replace(p, end=[0.3, 0.4], empty=0.2)
    assert log_prob(p, X)[[0, 2]].tolist() == [0.0, 0.0]
    np.testing.assert_allclose(log_prob(ending, X)[[0, 2]], np.log(0.2), rtol=EXACT)
    counts = expected_counts(ending, X)
    assert counts.n_empty == 2
    np.testing.assert_allclose(counts.initial.sum(), 1.0, rtol=EXACT)
    np.testing.assert_allclose(counts.log_likelihood, log_prob(ending, X).sum(), rtol=EXACT)
    found = decode(ending, X)
    np.testing.assert_allclose(found.log_prob[0], np.log(0.2), rtol=EXACT)
    assert len(found.states) == 2
    assert state_probabilities(ending, X).shape == (2, 2)
    assert surprise(ending, X).shape == (5,)


def test_an_initial_table_of_another_shape_is_refused():
    p = Params.random(2, 3, 2, rng=0)
    with pytest.raises(SojournError, match=r"shape \(2, 2\).*\(2, 3\)"):
        log_prob(p, one([0, 1], 2), initial=np.full((2, 2), 0.25))


def test_left_censored_strings_have_probabilities_that_sum_to_one():
    p = Params.random(2, 3, 2, rng=0)
    initial = np.random.default_rng(0).dirichlet(np.ones(6)).reshape(2, 3)
    strings = list(itertools.product(range(2), repeat=8))
    scores = log_prob(p, Sequences.from_lists(strings), initial)
    assert abs(np.exp(scores).sum() - 1.0) < EXACT


@pytest.mark.parametrize(("terminal", "times"), [(True, 1), (False, 0)])
def test_compiling_is_announced_once_and_on_a_terminal_only(monkeypatch, capsys, terminal, times):
    event = SimpleNamespace(data={"dispatcher": filter_steps})
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal, raising=False)
    listener = Compiling()
    for _ in range(2):
        listener.on_start(event)
        listener.on_end(event)
    assert capsys.readouterr().err.count("compiling for this processor") == times


@pytest.mark.parametrize("size", [(3, 5, 4), (9, 2, 3), (17, 1, 4), (2, 40, 3)])
def test_scores_do_not_depend_on_the_sequences_beside_them(size):
    tail = np.random.default_rng(0).choice([0.0, 0.5, 0.9], size[0])
    p = replace(Params.random(*size, rng=0), tail=tail)
    X = p.sample(61, [*range(1, 121, 2), 1100], rng=1)  # the last alone is scored in one lane
    alone = np.concatenate([log_prob(p, X[i : i + 1]) for i in range(len(X))])
    np.testing.assert_array_equal(log_prob(p, X), alone)
    np.testing.assert_array_equal(log_prob(p, X[::-1])[::-1], alone)


@pytest.mark.parametrize("size", [(3, 5, 4), (9, 2, 3), (4, 1, 5), (2, 40, 3)])
def test_paths_do_not_depend_on_the_sequences_beside_them(size):
    tail = np.random.default_rng(0).choice([0.0, 0.5, 0.9], size[0])
    p = replace(Params.random(*size, rng=0), tail=tail)
    X = p.sample(20, [1500, *range(1, 20)], rng=1)  # the first alone is decoded in one lane
    found, alone = decode(p, X), [decode(p, X[i : i + 1]) for i in range(len(X))]
    np.testing.assert_array_equal(found.states, np.concatenate([a.states for a in alone]))
    np.testing.assert_array_equal(found.begins, np.concatenate([a.begins for a in alone]))
    np.testing.assert_array_equal(found.log_prob, np.concatenate([a.log_prob for a in alone]))
