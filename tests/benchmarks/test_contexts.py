"""Learning on contexts: trees and counts equal plain loops, exact moments give the model."""

from collections import Counter
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from benchmarks.contexts.choice import choose_trees, learn
from benchmarks.contexts.counts import count_contexts, grow_trees
from benchmarks.contexts.filter import run_filter
from benchmarks.contexts.model import ContextModel
from benchmarks.contexts.operators import from_moments
from benchmarks.contexts.pieces import all_pieces, split
from benchmarks.contexts.trees import BUCKETS, BY_LENGTH, cut, grow, lay_out, locate, positions

from benchmarks.contexts import score
from sojourn import Params, Sequences

ROUNDING = 1e-12  # sums of some hundred products below one


@pytest.fixture(scope="module")
def songs():
    """Sequences with runs, of unequal lengths, some symbols missing."""
    rng = np.random.default_rng(0)
    rows = []
    for _ in range(150):
        runs = [[int(rng.integers(3))] * int(rng.integers(1, 7)) for _ in range(rng.integers(1, 9))]
        row = [symbol for run in runs for symbol in run]
        if rng.random() < 0.2:
            row[int(rng.integers(len(row)))] = None
        rows.append(row)
    return Sequences.from_lists(rows, vocabulary=[0, 1, 2])


def reading(row, at, step, n_o, by_runs):
    """What is read from a step on: symbols and buckets of lengths, to the first that closes."""
    tokens, q = [], at
    while True:
        if not 0 <= q < len(row):
            return [*tokens, n_o]
        if row[q] is None:
            return [*tokens, n_o + 1]
        tokens.append(row[q])
        end = q
        if by_runs:
            while 0 <= end + step < len(row) and row[end + step] == row[q]:
                end += step
            tokens.append(int(np.searchsorted(BUCKETS, abs(end - q) + 1, side="right")) - 1)
        q = end + step


@pytest.mark.parametrize("by_runs", [True, False])
@pytest.mark.parametrize("forward", [True, False])
def test_a_tree_counts_the_positions_that_read_each_path(songs, forward, by_runs):
    n_o = songs.n_symbols
    flat = lay_out(all_pieces(songs), n_o)
    tree = grow(flat, n_o, forward, 12, 1, by_runs)
    met = Counter()
    for row in songs:
        for t in range(len(row) + 1):
            path = reading(row, t if forward else t - 1, 1 if forward else -1, n_o, by_runs)
            met.update(tuple(path[:k]) for k in range(len(path) + 1))
    paths = [()]
    for node in range(1, tree.n_nodes):
        above = tree.parent[node]
        path = paths[above]
        if tree.split[above] == 3:  # all lengths were in one bucket, which was not split by
            (bucket,) = {p[len(path)] for p in met if len(p) > len(path) and p[: len(path)] == path}
            path = (*path, bucket)
        paths.append((*path, int(tree.token[node])))
    assert [met[path] for path in paths] == tree.count.tolist()
    assert any(tree.split == BY_LENGTH) == by_runs
    assert tree.n_nodes > 30
    reached = np.bincount(locate(tree, flat)[positions(flat)], minlength=tree.n_nodes)
    for node in range(tree.n_nodes - 1, 0, -1):
        reached[tree.parent[node]] += reached[node]
    assert reached.tolist() == tree.count.tolist()


def test_a_cut_has_the_contexts_of_a_tree_grown_to_its_size(songs):
    n_o = songs.n_symbols
    flat = lay_out(all_pieces(songs), n_o)
    fine = grow(flat, n_o, False, 6, 1)
    label, n = cut(fine, 40)
    nodes = label[locate(fine, flat)[positions(flat)]]
    coarse = grow(flat, n_o, False, 40, 20)
    again = locate(coarse, flat)[positions(flat)]
    # marks of starts have a context of their own in a cut, however rare
    pairs = {(a, b) for a, b in zip(nodes.tolist(), again.tolist(), strict=True)}
    assert len({a for a, _ in pairs}) == len(pairs) >= len({b for _, b in pairs}) > 5
    assert n >= len(pairs)


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_counts_equal_plain_loops(songs, n_jobs):
    n_o = songs.n_symbols
    trees = grow_trees(all_pieces(songs), n_o, 15, 5).cut(30)
    flat = lay_out(all_pieces(songs), n_o)
    past, future = locate(trees.pasts, flat), locate(trees.futures, flat)
    pairs, moves, follows = Counter(), Counter(), Counter()
    for i, row in enumerate(songs):
        for t in range(len(row) + 1):
            p = flat.starts[i] + t
            u, v = trees.past_context[past[p]], trees.future_context[future[p]]
            pairs[int(u) * trees.n_futures + int(v)] += 1
            symbol = n_o if t == len(row) else row[t]
            if symbol is not None:
                follows[int(past[p]) * (n_o + 1) + symbol] += 1
                if t < len(row):
                    then = int(trees.future_context[future[p + 1]])
                    moves[(int(u) * n_o + symbol) * trees.n_futures + then] += 1
    counts = count_contexts(all_pieces(songs), trees, n_jobs)
    for table, plain in ((counts.pairs, pairs), (counts.moves, moves), (counts.follows, follows)):
        assert dict(zip(table.keys.tolist(), table.counts.tolist(), strict=True)) == plain
    assert counts.first.sum() == len(songs)


def test_counts_of_parts_add_and_cuts_regroup_them(songs):
    fine = grow_trees(all_pieces(songs), songs.n_symbols, 10, 5)
    coarse = fine.cut(50)
    parts = [count_contexts(all_pieces(songs[i : i + 40]), fine) for i in range(0, 150, 40)]
    added = (parts[0] + parts[1] + parts[2] + parts[3]).grouped(coarse)
    at_once = count_contexts(all_pieces(songs), coarse)
    for name in ("pairs", "moves", "follows"):
        a, b = getattr(added, name), getattr(at_once, name)
        np.testing.assert_array_equal(a.keys, b.keys)
        np.testing.assert_array_equal(a.counts, b.counts)
    np.testing.assert_array_equal(added.first, at_once.first)


def exact_automaton():
    """Two states that emit two symbols, and may end."""
    T = np.array([[[0.3, 0.1], [0.05, 0.1]], [[0.1, 0.3], [0.35, 0.3]]])  # (symbol, state, next)
    end = 1 - T.sum(axis=(0, 2))
    return T, end, np.array([0.8, 0.2])


def test_exact_moments_give_exact_probabilities():
    T, end, start = exact_automaton()
    ever = start @ np.linalg.inv(np.eye(2) - T.sum(axis=0))  # expected visits of each state
    # pasts: the last two symbols, or all where there are fewer; futures: the next two, or the end
    pasts = [
        start,
        *(start @ T[a] for a in (0, 1)),
        *(ever @ T[a] @ T[b] for a, b in product((0, 1), repeat=2)),
    ]
    futures = [(2, end)]
    for a in (0, 1):
        futures.append((a, T[a] @ end))
        futures.extend((a, T[a] @ T[b] @ np.ones(2)) for b in (0, 1))
    left, right = np.array(pasts), np.array([v for _, v in futures]).T
    begins = np.array([a for a, _ in futures])
    H = sp.csr_array(left @ right)
    H_o = sp.csr_array(np.vstack([left @ T[o] @ right for o in (0, 1)]))
    found = from_moments(H, H_o, start @ right, begins, 8, ridge=0.0)
    assert found.rank == 2  # the automaton's, whatever the number of contexts
    for length in range(6):
        for word in product((0, 1), repeat=length):
            alpha, state, p = start, found.start, 1.0
            for o in word:
                alpha = alpha @ T[o]
                p *= state @ found.emit[o]
                state = state @ found.own[found.which[o]] / (state @ found.emit[o])
            assert abs(p * (state @ found.emit[2]) - alpha @ end) < ROUNDING


@pytest.fixture(scope="module")
def model():
    data = Params.random(3, 4, 4, rng=0).sample(400, np.arange(5, 45).repeat(10), rng=1)
    return ContextModel(ends=True, n_jobs=1).fit(data).model_, data


def test_probabilities_of_all_strings_and_of_those_that_continue_sum_to_one(model):
    fitted, data = model
    for length in (1, 3):
        total = 0.0
        for n in range(1, length + 1):
            rows = list(product(range(4), repeat=n))
            strings = Sequences.from_lists(rows, vocabulary=data.vocabulary)
            steps, ends = score.surprise(fitted, strings)
            prefix = np.exp(-np.add.reduceat(steps, strings.offsets[:-1]))
            total += (prefix * np.exp(-ends)).sum()
        ended = 1 - prefix.sum()  # of strings of at most `length` - 1 symbols, the empty one too
        empty = 1 - np.exp(-score.surprise(fitted, strings)[0][strings.offsets[:-1]])
        assert empty.min() > 0
        first = Sequences.from_lists([[o] for o in range(4)], vocabulary=data.vocabulary)
        nothing = 1 - np.exp(-score.surprise(fitted, first)[0]).sum()
        continues = prefix.sum() - (prefix * np.exp(-ends)).sum()
        assert abs(total + nothing + continues - 1) < 1e-9
        assert ended >= nothing - ROUNDING


def test_symbol_by_symbol_equals_the_batch(model):
    fitted, data = model
    steps, ends = score.surprise(fitted, data[:5])
    for i in range(5):
        walk = score.Walk(fitted)
        codes = data.codes[data.offsets[i] : data.offsets[i + 1]]
        mine = [walk.update(int(code)) for code in codes]
        np.testing.assert_allclose(
            mine, steps[data.offsets[i] : data.offsets[i + 1]], atol=ROUNDING
        )
        assert abs(walk.end() - ends[i]) < ROUNDING
        want = score.next_distribution(fitted, data[i : i + 1])[0]
        np.testing.assert_allclose(walk.distribution(), want, atol=ROUNDING)


def test_side_by_side_equals_one_by_one(model):
    fitted, data = model
    flat = lay_out(all_pieces(data), 4)
    contexts = fitted.trees.past_context[locate(fitted.trees.pasts, flat)]
    fresh = np.ones(len(data), bool)
    one = run_filter(fitted.filter, flat, contexts, fresh, keep=True)
    side = run_filter(replace(fitted.filter, moves=None), flat, contexts, fresh, keep=True)
    np.testing.assert_allclose(one[0], side[0], atol=ROUNDING)
    np.testing.assert_allclose(one[1], side[1], atol=1e-9)


def test_result_is_independent_of_n_jobs():
    data = Params.random(3, 4, 4, rng=0).sample(600, 60, rng=1)
    one, three = (ContextModel(n_jobs=n).fit(data) for n in (1, 3))
    assert one.choice_ == three.choice_
    np.testing.assert_array_equal(one.score_samples(data), three.score_samples(data))


def test_it_beats_the_context_tree_where_states_last():
    data = Params.random(4, 6, 5, rng=3).sample(1200, 100, rng=4)
    training, heldout = split(data[:1000])
    trees, split_at, trials = choose_trees(training, heldout, 5, False, 64)
    fitted, choice = learn(count_contexts(training, trees), heldout, False, 64, trials=trials)
    assert choice.weight > 0.5
    assert split_at in {trial.split_at for trial in trials}
    mixed = score.log_prob(fitted, data[1000:]).sum()
    tree = score.log_prob(replace(fitted, weight=0.0), data[1000:]).sum()
    assert mixed > tree + 50


def test_a_missing_symbol_has_no_surprise_and_the_rest_stays_finite(songs):
    fitted = ContextModel().fit(songs).model_
    steps, _ = score.surprise(fitted, songs)
    assert (steps[songs.codes < 0] == 0).all()
    assert (songs.codes < 0).sum() > 10
    assert np.isfinite(steps).all()
