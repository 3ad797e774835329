"""The context tree: every node mixes what followed it with what followed its parent."""

import numpy as np
import pytest

from sojourn import Params, Sequences
from sojourn.contexts import followers
from sojourn.contexts.counts import count_contexts, grow_trees
from sojourn.contexts.followers import learn_followers
from sojourn.contexts.pieces import Pieces
from sojourn.contexts.trees import lay_out, locate, positions

N_O = 4
ROWS = Params.random(3, 4, N_O, rng=0).sample(200, 40, rng=1)
DATA = Sequences.from_lists([row[: i % 41] for i, row in enumerate(ROWS)], empty=True)
ROUNDING = 1e-12  # of some twenty products below one


@pytest.fixture(scope="module")
def learned():
    """Counts of some sequences, and the pieces of others laid out."""
    training, heldout = Pieces.all_of(DATA, 0, 150), Pieces.all_of(DATA, 150)
    trees = grow_trees(training, N_O, 10, 8)
    return trees.pasts, count_contexts(training, trees).follows, lay_out(heldout, N_O)


def plain(tree, follows, trust, node):
    """p(symbol or end | node), from the root down."""
    path = [node]
    while tree.parent[path[-1]] >= 0:
        path.append(tree.parent[path[-1]])
    p = np.full(N_O + 1, 1 / (N_O + 1))
    for x in reversed(path):
        below = {x}
        for child in range(x + 1, tree.n_nodes):
            if tree.parent[child] in below:
                below.add(child)
        c = np.zeros(N_O + 1)
        for key, count in zip(follows.keys.tolist(), follows.counts.tolist(), strict=True):
            if key // (N_O + 1) in below:
                c[key % (N_O + 1)] += count
        if c.sum():
            p = trust[x] * c / c.sum() + (1 - trust[x]) * p
    return p


@pytest.mark.parametrize("most", [followers.MAX_DENSE, 0])
def test_probabilities_equal_plain_loops(learned, most, monkeypatch):
    monkeypatch.setattr(followers, "MAX_DENSE", most)  # a table of them all, or none
    tree, follows, heldout = learned
    found, _ = learn_followers(tree, follows, heldout, True)
    nodes = np.linspace(0, tree.n_nodes - 1, 7).astype(np.int32)
    rows = found.rows(nodes)
    np.testing.assert_allclose(rows.sum(axis=1), 1, atol=ROUNDING)
    for node, row in zip(nodes, rows, strict=True):
        np.testing.assert_allclose(row, plain(tree, follows, found.trust, node), atol=ROUNDING)
        for o in range(N_O + 1):
            at = np.array([node]), np.array([o], np.int32)
            assert found.prob(*at, True)[0] == pytest.approx(row[o], abs=ROUNDING)
            if o < N_O:
                continues = row[o] / (1 - row[N_O])
                assert found.prob(*at, False)[0] == pytest.approx(continues, abs=ROUNDING)


@pytest.mark.parametrize("ends", [False, True])
def test_trust_is_learned_from_what_was_held_out(learned, ends):
    tree, follows, heldout = learned
    at = positions(heldout)
    at = at[heldout.codes[at] < N_O + ends]
    nodes, codes = locate(tree, heldout)[at], heldout.codes[at]
    assumed, learned = (
        learn_followers(tree, follows, flat, ends)[0].prob(nodes, codes, ends)
        for flat in (None, heldout)
    )
    assert np.log(learned).mean() > np.log(assumed).mean() + 0.01


def test_given_trust_is_used(learned):
    tree, follows, heldout = learned
    found, trust = learn_followers(tree, follows, heldout, True)
    again, same = learn_followers(tree, follows, None, True, trust)
    assert np.array_equal(again.trust, found.trust)
    assert same is trust
