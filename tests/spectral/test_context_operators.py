"""Operators over contexts: exact moments give the model, a rank is a leading block of a larger one.

Contexts here are those of an automaton of two states that emits two symbols and may end.
"""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp

from sojourn import Params, Sequences, SojournError
from sojourn.contexts.counts import count_contexts, grow_trees
from sojourn.contexts.pieces import Pieces
from sojourn.spectral import context_operators
from sojourn.spectral.context_operators import Moves, from_moments, learn_operators

ROUNDING = 1e-12  # sums of some hundred products below one

T = np.array([[[0.3, 0.1], [0.05, 0.1]], [[0.1, 0.3], [0.35, 0.3]]])  # (symbol, state, next)
END = 1 - T.sum(axis=(0, 2))
START = np.array([0.8, 0.2])


def exact_moments():
    """H, H_o, the number of symbols, the first futures, and what futures begin with.

    Pasts are the last two symbols, or all where there are fewer; futures the next two, or the end.
    """
    visits = START @ np.linalg.inv(np.eye(2) - T.sum(axis=0))  # expected, of each state
    pasts = [
        START,
        *(START @ T[a] for a in (0, 1)),
        *(visits @ T[a] @ T[b] for a, b in product((0, 1), repeat=2)),
    ]
    futures = [(2, END)]
    for a in (0, 1):
        futures.append((a, T[a] @ END))
        futures.extend((a, T[a] @ T[b] @ np.ones(2)) for b in (0, 1))
    left, right = np.array(pasts), np.array([v for _, v in futures]).T
    H_o = np.vstack([left @ T[o] @ right for o in (0, 1)])
    begins = np.array([a for a, _ in futures])
    n = len(pasts)
    moves = Moves(sp.csr_array(H_o), np.tile(np.arange(n), 2), np.repeat([0, 1], n), range(2))
    return sp.csr_array(left @ right), [lambda: moves], 2, START @ right, begins


def operator_of(model, o):
    return np.tensordot(model.modes[o], model.own, 1) if len(model.modes) else model.own[o]


def assert_is_the_automaton(model, rounding=ROUNDING):
    for length in range(6):
        for word in product((0, 1), repeat=length):
            alpha, state, p = START, model.start, 1.0
            for o in word:
                alpha = alpha @ T[o]
                q = state @ model.emit[o]
                p, state = p * q, state @ operator_of(model, o) / q
            assert abs(p * (state @ model.emit[2]) - alpha @ END) < rounding


def test_exact_moments_give_exact_probabilities():
    model = from_moments(*exact_moments(), 8, ridge=0.0)
    assert model.rank == 2  # the automaton's, whatever the number of contexts
    assert_is_the_automaton(model)


def test_restart_at_a_past_is_the_state_after_it():
    model = from_moments(*exact_moments(), 8, ridge=0.0)
    after_0 = START @ T[0] / (START @ T[0]).sum()
    expected = [after_0 @ T[0].sum(axis=1), after_0 @ T[1].sum(axis=1), after_0 @ END]
    np.testing.assert_allclose(model.emit @ model.restart[1], expected, atol=ROUNDING)
    np.testing.assert_allclose((model.emit @ model.restart.T).sum(axis=0), 1, atol=ROUNDING)


def test_shared_operators_are_exact_for_exact_moments(monkeypatch):
    monkeypatch.setattr(context_operators, "SHARED_FROM", 2)
    model = from_moments(*exact_moments(), 8, ridge=0.0, shrink=0.0)
    assert model.modes.shape == (2, 3)
    assert_is_the_automaton(model)
    weights = np.array([0.2, 0.7])
    expected = 0.2 * operator_of(model, 0) + 0.7 * operator_of(model, 1)
    np.testing.assert_allclose(model.combined(weights), expected, atol=ROUNDING)


def test_symbols_share_as_many_operators_as_there_are_states():
    """M_o is a sum over states: its rank over symbols is their number, the rest is noise."""
    rng = np.random.default_rng(0)
    p = Params.random(3, 2, 300, rng=0)
    p = Params(p.start, p.transition, p.duration, rng.dirichlet(np.full(300, 0.1), 3))
    pieces = Pieces.all_of(p.sample(400, 500, rng=1))
    counts = count_contexts(pieces, grow_trees(pieces, 300, 300, 150).cut(300))
    model = learn_operators(counts, 6, False)
    assert 3 <= len(model.own) - 1 <= 4  # of 36; one direction of noise may pass
    assert model.modes.shape == (300, len(model.own))


def test_a_symbol_that_was_never_seen_is_as_likely_as_half_a_count():
    rng = np.random.default_rng(0)
    rows = [rng.integers(0, 299, 100).astype(np.int32) for _ in range(50)]
    pieces = Pieces.all_of(Sequences.from_lists(rows, vocabulary=np.arange(300)))
    model = learn_operators(count_contexts(pieces, grow_trees(pieces, 300, 2000, 1000)), 2, True)
    average = np.eye(1, model.rank)[0]  # in all states; p = emit · q with q = average / w[0]
    p = model.emit[:-1] @ average / (model.emit @ average).sum()
    assert 0.4 < p[299] * 5000 < 0.6


def test_a_context_of_all_futures_is_not_the_end():
    pieces = Pieces.all_of(Sequences.from_lists([[0, 1]]))
    trees = grow_trees(pieces, 2, 2, 1).cut(100)  # too few positions to be split
    assert learn_operators(count_contexts(pieces, trees), 1, True).emit[-1] == 0.0


@pytest.fixture(scope="module")
def counts():
    pieces = Pieces.all_of(Params.random(3, 4, 4, rng=0).sample(300, 40, rng=1))
    # Few enough contexts for a full decomposition.
    return count_contexts(pieces, grow_trees(pieces, 4, 20, 10).cut(500))


def test_cut_equals_learning_at_the_smaller_rank(counts):
    at_once, cut = learn_operators(counts, 3, True), learn_operators(counts, 9, True).cut(3)
    assert at_once.rank == cut.rank == 3
    assert cut.singular_values[0] == pytest.approx(1, abs=ROUNDING)
    for name in ("start", "emit", "own", "restart"):
        # Products of the same vectors; only blocks of the matrix product differ.
        np.testing.assert_allclose(getattr(at_once, name), getattr(cut, name), atol=1e-10)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("start", np.zeros(3), "emit of ContextOperators"),
        ("restart", np.full((1, 2), np.nan), "finite numbers"),
        ("own", np.zeros((1, 2, 2)), "do not fit together"),
        ("modes", np.zeros((2, 1)), "do not fit together"),
    ],
)
def test_operators_that_do_not_fit_together_are_refused(name, value, message):
    model = from_moments(*exact_moments(), 2, ridge=0.0)
    with pytest.raises(SojournError, match=message):
        replace(model, **{name: value})


def test_ends_at_a_fixed_length_cost_no_direction():
    """Where lengths say nothing, that pasts near the start have no end near is not learned."""
    data = Params.random(2, 2, 3, rng=0).sample(10_000, 40, rng=1)
    pieces = Pieces.all_of(data)
    counts = count_contexts(pieces, grow_trees(pieces, 3, 100, 8).cut(80_000))
    known, left_out = (learn_operators(counts, 5, ends).singular_values for ends in (True, False))
    assert known[4] > 0.03  # the truth has rank 4
    assert left_out[4] < known[4] / 2  # counting noise
    short = Pieces.all_of(Params.random(2, 2, 3, rng=0).sample(500, 3, rng=1))
    few = count_contexts(short, grow_trees(short, 3, 4, 2))  # most futures reach the end
    assert learn_operators(few, 5, False).singular_values[0] == pytest.approx(1)


def test_operators_have_the_same_bits_in_parts_and_of_counts_not_added_up(monkeypatch, counts):
    pieces = Pieces.all_of(Params.random(3, 4, 4, rng=0).sample(20, 40, rng=2))
    more = count_contexts(pieces, counts.trees)
    at_once = learn_operators(counts + more, 3, False)
    monkeypatch.setattr(context_operators, "PART", len(counts.moves.keys) // 3)
    monkeypatch.setattr(context_operators, "STEP", 50)
    for n_jobs in (1, 2):
        parts = learn_operators(counts, 3, False, more=more, n_jobs=n_jobs)
        for name in ("start", "emit", "own", "restart"):
            assert np.array_equal(getattr(at_once, name), getattr(parts, name))
