"""Sums of floats: the same to the bit for any partitions, order of joining and threads."""

from itertools import pairwise

import numpy as np
import pytest

from sojourn import Params, Sequences, SojournError
from sojourn.exact.expected_counts import Counting, expected_counts
from sojourn.scale.tree_sum import Sums, chunk_bounds, finished, joined, stretch

COUNTS = ("log_likelihood", "initial", "transition", "duration", "emission")


def pieces(sequences, n, rng):
    """The sequences in `n` parts cut at random, each with the symbols before it."""
    cuts = np.sort(rng.choice(np.arange(1, len(sequences)), n - 1, replace=False))
    edges = [0, *cuts.tolist(), len(sequences)]
    return [(sequences[i:j], int(sequences.offsets[i])) for i, j in pairwise(edges)]


def joined_anyhow(join, parts, rng):
    """Neighbours joined in a random order until one is left."""
    parts = list(parts)
    while len(parts) > 1:
        i = int(rng.integers(len(parts) - 1))
        parts[i : i + 2] = [join(parts[i], parts[i + 1])]
    return parts[0]


@pytest.mark.parametrize("n_parts", [1, 2, 3, 8, 200])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_expected_counts_are_the_same_for_any_partitions(n_parts, n_jobs):
    rng = np.random.default_rng(n_parts)
    # some 40 chunks: short sequences, and one that is longer than several chunks
    lengths = rng.integers(1, 400, 6000)
    lengths[3000] = 150_000
    params = Params.random(2, 3, 4, rng=0)
    sequences = params.sample(len(lengths), lengths, rng=1)
    whole = expected_counts(params, sequences, n_jobs=2)
    counting = Counting(params)
    parts = [counting.stretch(part, at, n_jobs) for part, at in pieces(sequences, n_parts, rng)]
    again = counting.finished(joined_anyhow(counting.joined, parts, rng))
    assert all(np.array_equal(getattr(whole, name), getattr(again, name)) for name in COUNTS)


def test_a_sum_is_that_of_a_tree_over_the_numbers_of_the_chunks():
    rng = np.random.default_rng(1)
    # magnitudes this far apart give another sum in any other order
    values = (rng.standard_normal(64) * 10.0 ** rng.integers(-8, 8, 64)).tolist()
    tree = values
    while len(tree) > 1:
        tree = [a + b for a, b in zip(tree[::2], tree[1::2], strict=True)]
    assert Sums.of(0, 64, enumerate(values)).total() == tree[0]
    assert len(Sums.of(0, 64, enumerate(values)).nodes) == 1


def listed(part):
    return lambda bounds: [(bounds[1] - bounds[0], int(part.lengths[slice(*bounds)].sum()))]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 50, 1000])
def test_nothing_is_lost_or_counted_twice(size):
    rng = np.random.default_rng(size)
    for _ in range(30):
        n = int(rng.integers(2, 30))
        sequences = Sequences.from_lists([[0] * k for k in rng.integers(1, 12, n)])

        parts = pieces(sequences, int(rng.integers(1, n)), rng)
        passes = [stretch(listed, part, at, 1, size) for part, at in parts]
        found = finished(listed, joined_anyhow(lambda a, b: joined(listed, a, b), passes, rng))
        bounds = chunk_bounds(sequences.offsets[:-1], size)
        assert [k for k, _ in found] == [j - i for _, (i, j) in bounds]  # lists add in order
        assert sum(symbols for _, symbols in found) == sequences.n_total


def test_partitions_that_do_not_follow_one_another_are_an_error():
    params = Params.random(2, 2, 3, rng=0)
    sequences = params.sample(10, 20, rng=1)
    counting = Counting(params)
    a, b = counting.stretch(sequences[:5], 0, 1), counting.stretch(sequences[5:], 120, 1)
    with pytest.raises(SojournError, match="begins at symbol 120, but the one before it ends"):
        counting.joined(a, b)
    with pytest.raises(SojournError, match="expected all the data"):
        counting.finished(b)
    with pytest.raises(SojournError, match="do not follow"):
        Sums.of(0, 2, []) + Sums.of(3, 4, [])
    with pytest.raises(SojournError, match="nothing to add up"):
        Sums.of(0, 2, []).total()
