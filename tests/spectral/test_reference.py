"""The fast code computes what the plain reference says: contexts, counts, operators, filter."""

import numpy as np
import pytest

from sojourn import Params, Sequences
from sojourn.contexts.counts import count_contexts, grow_trees
from sojourn.contexts.followers import learn_followers
from sojourn.contexts.pieces import Pieces
from sojourn.contexts.trees import lay_out, locate
from sojourn.spectral import reference
from sojourn.spectral.answers import surprise
from sojourn.spectral.context_operators import learn_operators
from sojourn.spectral.models import ContextModel

M, RANK = 40, 5
ROUNDING = 1e-8  # of products of some hundred factors, whose SVDs differ in the last bits


@pytest.fixture(scope="module")
def rows():
    """Songs with long runs, some symbols missing."""
    p = Params.random(3, 5, 4, rng=3)
    songs = p.sample(60, 25, rng=4).to_lists()
    return [
        [None if (i + 7 * t) % 41 == 0 else s for t, s in enumerate(r)] for i, r in enumerate(songs)
    ]


@pytest.fixture(scope="module")
def plain(rows):
    steps = [(row, t) for row in rows for t in range(len(row) + 1)]
    pasts = reference.grow([reference.past(row, t) for row, t in steps], M)
    futures = reference.grow([reference.future(row, t) for row, t in steps], M)
    return pasts, futures, reference.count(rows, pasts, futures, 4)


@pytest.fixture(scope="module")
def fast(rows):
    sequences = Sequences.from_lists(rows, vocabulary=range(4))
    pieces = Pieces.all_of(sequences)
    fine = grow_trees(pieces, 4, 2, 1)
    trees = fine.cut(M)
    return sequences, pieces, trees, count_contexts(pieces, fine).grouped(trees)


def test_positions_share_contexts_as_in_the_reference(rows, plain, fast):
    pasts, futures, _ = plain
    _, pieces, trees, _ = fast
    flat = lay_out(pieces, 4)
    nodes = trees.past_context[locate(trees.pasts, flat)]
    later = trees.future_context[locate(trees.futures, flat)]
    found: tuple[dict, dict] = {}, {}
    for row, begin in zip(rows, flat.starts.tolist(), strict=True):
        for t in range(len(row) + 1):
            here = (pasts(reference.past(row, t)), futures(reference.future(row, t)))
            numbers = (int(nodes[begin + t]), int(later[begin + t]))
            for known, context, number in zip(found, here, numbers, strict=True):
                assert known.setdefault(context, number) == number
    for known, n in zip(found, (trees.n_pasts, trees.n_futures), strict=True):
        assert len(set(known.values())) == len(known) <= n
        assert len(known) > 12


def test_tables_have_the_counts_of_the_reference(plain, fast):
    counts, found = plain[2], fast[3]
    assert sorted(found.pairs.counts) == sorted(counts.H[counts.H > 0])
    assert sorted(found.moves.counts) == sorted(counts.H_o[counts.H_o > 0])
    assert sorted(found.first[found.first > 0]) == sorted(counts.first[counts.first > 0])


@pytest.mark.parametrize("ends", [False, True])
def test_surprise_is_that_of_the_reference(rows, plain, fast, ends):
    pasts, _, counts = plain
    sequences, _, trees, tables = fast
    followers, _ = learn_followers(trees.pasts, tables.follows, None, ends)
    model = ContextModel(trees, learn_operators(tables, RANK, ends), followers, 1.0, ends)
    steps, last = surprise(model, sequences)
    slow = reference.learn(counts, RANK, ends)
    for i, row in enumerate(rows):
        expected = reference.surprise(row, slow, counts, pasts, ends)
        got = steps[sequences.offsets[i] : sequences.offsets[i + 1]]
        np.testing.assert_allclose(
            np.append(got, last[i]) if ends else got, expected, atol=ROUNDING
        )


def test_context_tree_sums_to_one_and_prefers_what_followed(rows, plain):
    predicted = reference.follow(rows, plain[0], 4)
    p = predicted(reference.past(rows[0], 5))
    assert p.sum() == pytest.approx(1)
    often = reference.follow([[0, 1] * 20] * 5, plain[0], 4)
    assert often((1, ("run", 0))).argmax() == 0
