"""The matrix T and the ranks of Theorems 1, 2 and 4 and Lemmas 6-8.

The oracle is a plain walk over hidden paths (`walk`). Ranks that float64 can show are shown in
float64; the others modulo a prime, where full rank found is full rank proved.
"""

import re
from fractions import Fraction

import numpy as np
import pytest

from sojourn.errors import SojournError
from sojourn.exact.params import Params
from sojourn.spectral.windows import contiguous_offsets, theorem_offsets, window_length
from sojourn.theory.exact_moments import step_matrix
from sojourn.theory.modular import PRIME, inverse, product, residues, row_basis
from sojourn.theory.rank_report import exact_rank_report, rank_report
from sojourn.theory.step import (
    check_table,
    efficient_states,
    future_states,
    khatri_rao,
    past_states,
    sequential_states,
)

# Sums of at most some thousand positive products below one: rounding stays below this.
ROUNDING = 1e-12

SIZES = [(2, 2, 3), (4, 6, 5), (3, 20, 4)]
AVIATION = [(5, 10, 9), (6, 20, 9), (7, 30, 9), (8, 40, 9)]


def exact_rank(A):
    """Rank modulo p of a matrix of integers or of float64, taken at their exact values."""
    floats = np.issubdtype(A.dtype, np.floating)
    return len(row_basis(residues(A) if floats else (A % PRIME).astype(np.uint64)))


def left_offsets(offsets):
    """Offsets of the mirrored, left window from its last symbol, in time order."""
    return tuple(-offset for offset in reversed(offsets))


def model(n_x, n_d, n_o, self_transitions, rng=0):
    return Params.random(n_x, n_d, n_o, rng=rng, self_transitions=self_transitions)


def walk(params, first, reads):
    """Distribution of (states at the steps ``reads``, hidden state after the last), path by path.

    ``first`` maps (x, d) at step 0 to its probability.
    """
    paths = {((), x, d): p for (x, d), p in first.items()}
    for step in range(max(reads) + 1):
        if step:
            moved = {}
            for (read, x, d), p in paths.items():
                if d > 1:
                    moved[read, x, d - 1] = moved.get((read, x, d - 1), 0) + p
                    continue
                for y in range(params.n_states):
                    for e in range(1, params.max_duration + 1):
                        q = p * params.transition[x, y] * params.duration[y, e - 1]
                        moved[read, y, e] = moved.get((read, y, e), 0) + q
            paths = moved
        if step in reads:
            paths = {((*read, x), x, d): p for (read, x, d), p in paths.items()}
    return paths


def states(params):
    return [(x, d) for d in range(1, params.max_duration + 1) for x in range(params.n_states)]


def row(read, n_x):
    return int(np.ravel_multi_index(read, (n_x,) * len(read)))


def walked(params, offsets):
    T = np.zeros((params.n_states ** len(offsets), len(states(params))))
    for column, (x, d) in enumerate(states(params)):
        for (read, _, _), p in walk(params, {(x, d): 1.0}, [o + 1 for o in offsets]).items():
            T[row(read, params.n_states), column] += p
    return T


# --- T


@pytest.mark.parametrize("self_transitions", [True, False])
@pytest.mark.parametrize(("n_x", "n_d"), [(2, 2), (2, 5), (3, 4), (4, 3), (2, 1)])
def test_algorithms_3_and_4_equal_the_walk(n_x, n_d, self_transitions):
    params = model(n_x, n_d, n_x, self_transitions)
    T = walked(params, theorem_offsets(n_x, n_d))
    assert np.abs(efficient_states(params) - T).max() < ROUNDING
    assert np.abs(sequential_states(params, 3) - walked(params, (0, 1, 2))).max() < ROUNDING
    V = step_matrix(params.transition, params.duration)
    assert np.abs(future_states(V, n_x, (0, 1, 3)) - walked(params, (0, 1, 3))).max() < ROUNDING


@pytest.mark.parametrize("n_o", [1, 2, 3])
def test_algorithm_4_follows_the_symbols_where_they_are_fewer(n_o):
    params = model(3, 7, n_o, True)
    V = step_matrix(params.transition, params.duration)
    T = future_states(V, 3, theorem_offsets(3, 7, n_o))
    assert np.abs(efficient_states(params) - T).max() < ROUNDING


def test_left_window_equals_the_walk():
    params, offsets = model(3, 4, 3, True), (0, 1, 4)
    first = dict(zip(states(params), np.random.default_rng(1).random(12), strict=True))
    expected = np.zeros((27, 12))
    for (read, x, d), p in walk(params, first, [o + 4 for o in left_offsets(offsets)]).items():
        expected[row(read, 3), (d - 1) * 3 + x] += p
    V = step_matrix(params.transition, params.duration)
    found = past_states(V, np.array(list(first.values())), 3, offsets)
    assert np.abs(found - expected).max() < ROUNDING


def printed_algorithm_4(params, ell, last, count_inside):
    """Algorithm 4 with the paper's start, with or without the mended loop and counter."""
    n_x, n_d = params.n_states, params.max_duration
    V, E = step_matrix(params.transition, params.duration), np.tile(np.eye(n_x), (1, n_d))
    T, c = E @ V, 1
    for i in range(1, last + 1):
        T = T @ V
        if i in (n_x**c - 1, last):
            T = khatri_rao(E, T)
            c += count_inside
        c += not count_inside
    return T


def test_algorithm_4_as_printed_has_rank_9_of_60():
    params, ell = model(3, 20, 4, True), 4
    printed = printed_algorithm_4(params, ell, last=ell - 1, count_inside=False)
    assert exact_rank(printed) == np.linalg.matrix_rank(printed) == 9
    # With loop and counter mended the rank is full, but the last state read is one step later
    # than Theorem 1's: t, t+11, t+17 and t+20.
    mended = printed_algorithm_4(params, ell, last=19, count_inside=True)
    V = step_matrix(params.transition, params.duration)
    assert np.abs(mended @ V - future_states(V, 3, (0, 11, 17, 20))).max() < ROUNDING
    assert exact_rank(mended) == exact_rank(efficient_states(params)) == 60


# --- ranks in float64


@pytest.mark.parametrize("self_transitions", [True, False])
@pytest.mark.parametrize("n_x", [2, 3, 4, 5])
@pytest.mark.parametrize("n_d", [2, 3, 5, 8, 12])
def test_theorems_1_2_and_4_in_float64_for_every_length(n_x, n_d, self_transitions):
    params = model(n_x, n_d, n_x + 1, self_transitions, rng=3)
    for ell in range(1, window_length(n_x, n_d) + 1):
        report = rank_report(params, theorem_offsets(n_x, n_d, length=ell))
        claimed = min(n_x**ell, n_x * n_d)
        assert report["T"].source == "Theorem 4"
        assert report["T"].claimed == report["T"].rank == claimed, report
        assert report["F right"].claimed == report["F right"].rank == claimed, report
        assert report["V"].rank == n_x * n_d
    for ell in range(1, min(n_d + 1, 4) + 1):
        report = rank_report(params, contiguous_offsets(ell))
        claimed = min(ell * n_x, n_x * n_d)
        assert report["T"].claimed == report["T"].rank == claimed, report
        assert report["F right"].claimed == report["F right"].rank == claimed, report
    for name in ("lemma 6", "lemma 7", "lemma 8", "M_oo"):
        assert report[name].claimed == report[name].rank, report


@pytest.mark.parametrize("sizes", AVIATION)
def test_right_windows_in_float64_at_the_aviation_sizes(sizes):
    report = rank_report(model(*sizes, None))
    full = sizes[0] * sizes[1]
    assert report["T"].rank == report["F right"].rank == full
    smallest = report["F right"].singular_values[full - 1] / report["F right"].singular_values[0]
    assert smallest > 1e-10  # a thousand times above the rule's threshold: no accident


def test_lemmas_on_random_matrices():
    rng = np.random.default_rng(5)
    for m, n in [(2, 5), (4, 3)]:
        A = rng.random((m, n))
        for lemma_6 in (khatri_rao(np.eye(n), A), khatri_rao(A, np.eye(n))):
            assert np.linalg.matrix_rank(lemma_6) == exact_rank(lemma_6) == n
    m, n, k = 4, 3, 5
    for r in [(1, 1, 1), (1, 2, 4), (4, 4, 4), (3, 0, 2)]:
        blocks = np.zeros((k, m, n))
        for j in range(n):  # integers: the rank of the columns j is exactly r_j
            blocks[:, :, j] = rng.integers(1, 99, (k, r[j])) @ rng.integers(1, 99, (r[j], m))
        W = khatri_rao(np.hstack(blocks), np.tile(np.eye(n), (1, k)))
        assert exact_rank(W) == min(m * n, sum(r))
    v = rng.integers(1, 99, (6, 4))
    for left_out in range(4):
        others = np.delete(v, left_out, axis=1)
        u = v @ [1, 2, 3, 4]
        assert exact_rank(np.column_stack([others, u])) == 4
        u = v @ np.where(np.arange(4) == left_out, 0, 1)  # c_i = 0 breaks the hypothesis
        assert exact_rank(np.column_stack([others, u])) == 3


# --- exact ranks


@pytest.mark.parametrize("self_transitions", [True, False])
@pytest.mark.parametrize("sizes", SIZES + AVIATION)
def test_left_windows_and_moments_have_full_rank_exactly(sizes, self_transitions):
    report = exact_rank_report(model(*sizes, self_transitions))
    full = sizes[0] * sizes[1]
    for name in ("T", "F right", "F left", "M", "H"):
        assert report[name].claimed == report[name].rank == full, report
    assert report.holds


@pytest.mark.parametrize("before", [0, 1, 50])
def test_left_rank_does_not_depend_on_the_distance_from_the_start(before):
    report = exact_rank_report(model(3, 20, 3, False), before=before)
    assert report["F left"].rank == report["M"].rank == 60


@pytest.mark.parametrize("sizes", [(2, 9, 2), (2, 27, 2), (3, 7, 4), (4, 6, 4), (5, 27, 5)])
def test_shorter_and_contiguous_windows_exactly(sizes):
    params = model(*sizes, False)
    n_x, n_d, _ = sizes
    for ell in range(1, window_length(n_x, n_d) + 1):
        report = exact_rank_report(params, theorem_offsets(n_x, n_d, length=ell))
        for name in ("T", "F right", "F left", "M", "H"):
            assert report[name].rank == min(n_x**ell, n_x * n_d), report
        report = exact_rank_report(params, contiguous_offsets(ell))
        for name in ("T", "F right", "F left", "M", "H"):
            assert report[name].rank == min(ell * n_x, n_x * n_d), report


def test_compressed_moments_have_the_rank_of_the_full_table():
    params, offsets = model(3, 8, 4, True), theorem_offsets(3, 8)
    V = step_matrix(params.transition, params.duration)
    first = V @ V @ (params.start[:, None] * params.duration).T.ravel()
    Q = np.kron(np.kron(params.emission, params.emission), params.emission).T
    F_right = Q @ future_states(V, 3, offsets)
    joint = Q @ past_states(V, first, 3, offsets)
    report = rank_report(params, before=2)
    for name, M in [("M", joint @ (F_right @ V).T), ("H", joint @ F_right.T)]:
        s = np.linalg.svd(M, compute_uv=False)[:24]
        assert report[name].shape == M.shape
        # two ways to the same singular values agree to rounding of the largest
        assert np.abs(s - report[name].singular_values).max() < 1e-13 * s[0]
    assert np.abs(report["F right"].singular_values - np.linalg.svd(F_right)[1]).max() < ROUNDING


def test_a_left_window_is_a_right_window_of_the_reversed_model_and_a_hankel_matrix():
    # With the age a of the current stay: p(L, x, d) = Σ_a p(L | x, a) p(x, a, d). The first factor
    # is T of the model run backwards, the second is π_x D(a + d - 1 | x).
    params, offsets = model(3, 5, 3, True), theorem_offsets(3, 5)
    n_x, n_d, ell = 3, 5, len(offsets)
    X, D = params.transition, params.duration
    V = step_matrix(X, D)
    pi = np.linalg.matrix_power(X, 500)[0]
    pi_a = pi / (pi * (D @ np.arange(1, n_d + 1))).sum()
    hankel = np.zeros((n_x * n_d, n_x * n_d))
    for x, d in states(params):
        for a in range(1, n_d + 2 - d):
            hankel[(a - 1) * n_x + x, (d - 1) * n_x + x] = pi_a[x] * D[x, a + d - 2]
    backwards = step_matrix(X.T * pi / pi[:, None], D)
    T = future_states(backwards, n_x, offsets)
    T = T.reshape((n_x,) * ell + (-1,)).transpose(*range(ell)[::-1], ell).reshape(T.shape)
    left = past_states(V, hankel.sum(0), n_x, offsets) @ V.T  # ends at t-1; (x, d) at t
    assert np.abs(T @ hankel - left).max() < ROUNDING


# --- where a claim fails


def interchangeable(n_x, n_d, stay=0.5):
    """A1-A3 hold: positive tables, transition and emission of full rank."""
    X = np.full((n_x, n_x), (1 - stay) / (n_x - 1))
    np.fill_diagonal(X, stay)
    return Params(np.full(n_x, 1 / n_x), X, np.full((n_x, n_d), 1 / n_d), np.eye(n_x))


@pytest.mark.parametrize(
    ("n_x", "n_d", "found"), [(3, 3, 6), (3, 4, 9), (3, 9, 12), (4, 6, 16), (5, 9, 20)]
)
def test_theorem_1_fails_for_interchangeable_states(n_x, n_d, found):
    params = interchangeable(n_x, n_d)
    assert exact_rank(params.transition) == n_x
    for report in (rank_report(params), exact_rank_report(params)):
        assert report["T"].claimed == n_x * n_d
        assert report["T"].rank == report["F right"].rank == found
        assert not report.holds
    # Theorem 2 holds all the same
    report = exact_rank_report(params, contiguous_offsets(3))
    assert report["T"].rank == 3 * n_x


def test_theorem_2_fails_for_one_state():
    report = exact_rank_report(model(1, 4, 3, None), (0, 1, 3))
    assert report["T"].claimed is None
    report = exact_rank_report(model(1, 4, 3, None), (0, 1, 2))
    assert (report["T"].source, report["T"].claimed, report["T"].rank) == ("Theorem 2", 3, 1)


def test_two_symbols_in_a_row_may_have_lower_rank_than_claimed():
    # p(d_2 = 1) = 3/4, so that x_3 = x_2 with probability 1 - 3/4 · 2/3 = 1/2: no memory
    X = np.array([[1, 2], [2, 1]]) / 3
    params = Params([0.5, 0.5], X, np.full((2, 2), 0.5), np.eye(2))
    report = rank_report(params, before=0)
    assert (report["M_oo"].claimed, report["M_oo"].rank) == (2, 1)
    assert report["T"].rank == 4


def test_fewer_symbols_than_states_leave_no_claim():
    report = exact_rank_report(model(5, 6, 3, None))
    assert report.offsets == theorem_offsets(3, 6)
    assert report["F right"].claimed is None
    assert report["M"].claimed is None
    assert report["M"].rank == 27  # all 3³ rows: the most there can be, below 30


# --- exact arithmetic


def test_residues_are_the_exact_values_of_floats():
    values = np.array([0.0, 1.0, 0.1, 1 / 3, 1e-300, 5e-324, 123456.789, 2.0**60])
    for value, residue in zip(values, residues(values), strict=True):
        exact = Fraction(float(value))
        assert int(residue) * exact.denominator % PRIME == exact.numerator % PRIME


def test_modular_product_and_inverse_equal_python_integers():
    rng = np.random.default_rng(7)
    A = rng.integers(PRIME - 5, PRIME, (4, 700), dtype=np.uint64)  # the largest there are
    B = rng.integers(0, PRIME, (700, 3), dtype=np.uint64)
    expected = A.astype(object) @ B.astype(object) % PRIME
    assert (product(A, B).astype(object) == expected).all()
    assert (inverse(A).astype(object) * A % PRIME == 1).all()
    assert inverse(np.zeros(1, np.uint64)) == 0


def fraction_rank(A):
    rows, rank = [[Fraction(int(a)) for a in r] for r in A], 0
    for c in range(A.shape[1]):
        pivot = next((i for i in range(rank, len(rows)) if rows[i][c]), None)
        if pivot is None:
            continue
        rows[rank], rows[pivot] = rows[pivot], rows[rank]
        for i in range(rank + 1, len(rows)):
            f = rows[i][c] / rows[rank][c]
            rows[i] = [a - f * b for a, b in zip(rows[i], rows[rank], strict=True)]
        rank += 1
    return rank


@pytest.mark.parametrize("rank", [0, 1, 3, 5])
@pytest.mark.parametrize("shape", [(5, 9), (9, 5), (6, 6)])
def test_exact_rank_equals_elimination_with_fractions(rank, shape):
    rng = np.random.default_rng(rank)
    A = rng.integers(-9, 10, (shape[0], rank)) @ rng.integers(-9, 10, (rank, shape[1]))
    A[:, 1] = 0  # a column without a pivot
    A[0] = 0  # and a row that has to move
    assert exact_rank(A) == fraction_rank(A)
    basis = row_basis((A % PRIME).astype(np.uint64))
    assert exact_rank(np.vstack([A, basis.astype(np.int64)])) == len(basis)  # no new direction


def test_report_prints_claims_and_what_was_found():
    text = str(rank_report(interchangeable(3, 3)))
    assert "n_states=3, max_duration=3, n_symbols=3; window (0, 2)" in text
    assert "σ_found/σ_1" in text
    assert re.search(r"^T +9 × 9 +9 +6 +< +\S+ +Theorem 4$", text, re.MULTILINE)
    assert "σ" not in str(exact_rank_report(interchangeable(3, 3)))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: check_table(3**20, 60), "use a shorter window"),
        (lambda: sequential_states(model(3, 20, 3, None), 20), "use a shorter window"),
        (lambda: rank_report(model(2, 2, 2, None), before=-1), "before is -1"),
        (lambda: rank_report(model(2, 2, 2, None))["F"], "no matrix 'F' in this report"),
    ],
)
def test_errors_name_the_remedy(call, message):
    with pytest.raises(SojournError, match=message):
        call()
