"""Trees and counts of contexts equal plain loops; counts of parts add to those of the whole."""

from collections import Counter

import numpy as np
import pytest

from sojourn import Sequences, SojournError
from sojourn.contexts.counts import ContextTally, count_contexts, grow_trees
from sojourn.contexts.grow import grow
from sojourn.contexts.pieces import NO_LIMIT, Pieces
from sojourn.contexts.trees import BUCKETS, BY_LENGTH, cut, lay_out, locate, positions


@pytest.fixture(scope="module")
def songs():
    """Sequences with runs, of unequal lengths, some empty, some symbols missing."""
    rng = np.random.default_rng(0)
    rows = []
    for _ in range(150):
        runs = [[int(rng.integers(3))] * int(rng.integers(1, 7)) for _ in range(rng.integers(0, 9))]
        row = [symbol for run in runs for symbol in run]
        if row and rng.random() < 0.2:
            row[int(rng.integers(len(row)))] = None
        rows.append(row)
    return Sequences.from_lists(rows, vocabulary=[0, 1, 2], empty=True)


def reading(row, at, step, n_o):
    """What is read from a step on: symbols and buckets of lengths, to the first that closes."""
    tokens, q = [], at
    while True:
        if not 0 <= q < len(row):
            return [*tokens, n_o]
        if row[q] is None:
            return [*tokens, n_o + 1]
        tokens.append(row[q])
        end = q
        while 0 <= end + step < len(row) and row[end + step] == row[q]:
            end += step
        tokens.append(int(np.searchsorted(BUCKETS, abs(end - q) + 1, side="right")) - 1)
        q = end + step


@pytest.mark.parametrize("forward", [True, False])
def test_a_tree_counts_the_positions_that_read_each_path(songs, forward):
    n_o = songs.n_symbols
    flat = lay_out(Pieces.all_of(songs), n_o)
    tree = grow(flat, n_o, forward, 12, 1)
    met = Counter()
    for row in songs:
        for t in range(len(row) + 1):
            path = reading(row, t if forward else t - 1, 1 if forward else -1, n_o)
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
    assert any(tree.split == BY_LENGTH)
    assert tree.n_nodes > 30
    reached = np.bincount(locate(tree, flat)[positions(flat)], minlength=tree.n_nodes)
    for node in range(tree.n_nodes - 1, 0, -1):
        reached[tree.parent[node]] += reached[node]
    assert reached.tolist() == tree.count.tolist()


def test_a_cut_has_the_contexts_of_a_tree_grown_to_its_size(songs):
    n_o = songs.n_symbols
    flat = lay_out(Pieces.all_of(songs), n_o)
    fine = grow(flat, n_o, False, 6, 1)
    label, n = cut(fine, 40)
    nodes = label[locate(fine, flat)[positions(flat)]]
    coarse = grow(flat, n_o, False, 40, 20)
    again = locate(coarse, flat)[positions(flat)]
    # marks of starts have a context of their own in a cut, however rare
    pairs = {(a, b) for a, b in zip(nodes.tolist(), again.tolist(), strict=True)}
    assert len({a for a, _ in pairs}) == len(pairs) >= len({b for _, b in pairs}) > 5
    assert n >= len(pairs)


@pytest.mark.parametrize("least", [0, 8, np.inf])
def test_pruned_trees_count_what_the_whole_ones_do(songs, least):
    everything = Pieces.all_of(songs)
    cut = grow_trees(everything, songs.n_symbols, 6, 5).cut(30)
    whole, small = count_contexts(everything, cut), count_contexts(everything, cut.pruned(least))
    follows = whole.follows_of(cut, least)
    for a, b in ((whole.pairs, small.pairs), (whole.moves, small.moves), (follows, small.follows)):
        np.testing.assert_array_equal(a.keys, b.keys)
        np.testing.assert_array_equal(a.counts, b.counts)
    sizes = cut.n_pasts, small.trees.pasts.n_nodes, cut.pasts.n_nodes
    assert sizes[0] <= sizes[1] <= sizes[2]
    assert (sizes[0] == sizes[1], sizes[1] == sizes[2]) == (least == np.inf, least == 0)


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_counts_equal_plain_loops(songs, n_jobs):
    n_o = songs.n_symbols
    trees = grow_trees(Pieces.all_of(songs), n_o, 15, 5).cut(30)
    flat = lay_out(Pieces.all_of(songs), n_o)
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
    counts = count_contexts(Pieces.all_of(songs), trees, n_jobs)
    for table, plain in ((counts.pairs, pairs), (counts.moves, moves), (counts.follows, follows)):
        assert dict(zip(table.keys.tolist(), table.counts.tolist(), strict=True)) == plain
    assert counts.first.sum() == len(songs)
    assert (songs.lengths == 0).sum() > 5


def test_counts_of_parts_add_and_cuts_regroup_them(songs):
    fine = grow_trees(Pieces.all_of(songs), songs.n_symbols, 10, 5)
    coarse = fine.cut(50)
    parts = [count_contexts(Pieces.all_of(songs[i : i + 40]), fine) for i in range(0, 150, 40)]
    added = (parts[0] + parts[1] + parts[2] + parts[3]).grouped(coarse)
    at_once = count_contexts(Pieces.all_of(songs), coarse)
    for name in ("pairs", "moves", "follows"):
        a, b = getattr(added, name), getattr(at_once, name)
        np.testing.assert_array_equal(a.keys, b.keys)
        np.testing.assert_array_equal(a.counts, b.counts)
    np.testing.assert_array_equal(added.first, at_once.first)


def test_counts_over_other_trees_do_not_add(songs):
    everything = Pieces.all_of(songs)
    a, b = (
        count_contexts(everything, grow_trees(everything, songs.n_symbols, split_at, 5))
        for split_at in (10, 40)
    )
    with pytest.raises(SojournError, match="counts over different trees do not add; fit again"):
        a + b


def tally(trees, *parts, n_jobs=1):
    counts = ContextTally(trees)
    for part in parts:
        counts.add(part, n_jobs)
    return counts


def assert_equal_moments(a, b):
    assert (a.n_sequences, a.n_total, a.limit) == (b.n_sequences, b.n_total, b.limit)
    for name in ("codes", "begins", "ends", "fresh", "closed", "keys"):
        assert np.array_equal(getattr(a.heldout, name), getattr(b.heldout, name)), name
    for name in ("pairs", "moves", "follows"):
        mine, its = getattr(a.counts, name), getattr(b.counts, name)
        assert np.array_equal(mine.keys, its.keys), name
        assert np.array_equal(mine.counts, its.counts), name
    assert np.array_equal(a.counts.first, b.counts.first)


@pytest.mark.parametrize("bound", [100, 1 << 17])
def test_parts_in_any_order_and_grouping_count_as_all_at_once(songs, bound, monkeypatch):
    # A small bound turns pieces away that are counted after all.
    monkeypatch.setattr(Pieces.bounded, "__defaults__", (NO_LIMIT, bound))
    names = np.array([f"bird {i}" for i in range(len(songs))])
    songs = Sequences(songs.codes, songs.offsets, songs.vocabulary, names)
    trees = grow_trees(Pieces.all_of(songs), songs.n_symbols, 15, 5).cut(30)
    a, b, c = songs[:20], songs[20:90], songs[90:]
    everything = tally(trees, songs).moments()
    assert 0 < everything.heldout.n_total <= bound
    one, other = tally(trees, b, a), tally(trees, c, n_jobs=3)
    assert_equal_moments(tally(trees, c, a, b).moments(), everything)
    assert_equal_moments((one + other).moments(), everything)
    assert_equal_moments(one.moments() + other.moments(), everything)
    assert_equal_moments(one.moments(), tally(trees, a, b).moments())  # a sum changes neither
