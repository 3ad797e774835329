"""Sums of floats: the same to the bit for any partitions, order of joining and threads."""

from functools import partial
from itertools import pairwise

import numpy as np
import pytest

from sojourn import Params, Sequences, SojournError
from sojourn.exact.expected_counts import _chunk_runner, expected_counts
from sojourn.io.layout import Layout
from sojourn.io.sources import Partition
from sojourn.scale.threads import SYMBOLS_PER_CHUNK, chunk_size
from sojourn.scale.tree_sum import Summing, TreeSum, chunk_bounds

COUNTS = ("log_likelihood", "initial", "transition", "duration", "emission")


def pieces(sequences, n, rng):
    """The sequences in `n` parts cut at random, each with the symbols before it."""
    cuts = np.sort(rng.choice(np.arange(1, len(sequences)), n - 1, replace=False))
    edges = [0, *cuts.tolist(), len(sequences)]
    return [(sequences[i:j], int(sequences.offsets[i])) for i, j in pairwise(edges)]


def totals(summing, parts):
    """The sum of each part by itself."""
    return [summing.add(None, part, Partition("", Layout(""), begin=at)) for part, at in parts]


def counting(params, size=SYMBOLS_PER_CHUNK):
    """The pass for expected counts under a model."""
    return Summing(partial(_chunk_runner, params, initial=None), size)


def joined_anyhow(join, parts, rng):
    """Neighbours joined in a random order until one is left."""
    parts = list(parts)
    while len(parts) > 1:
        i = int(rng.integers(len(parts) - 1))
        parts[i : i + 2] = [join(parts[i], parts[i + 1])]
    return parts[0]


@pytest.mark.parametrize("n_parts", [1, 2, 3, 8, 200])
def test_expected_counts_are_independent_of_partitions(n_parts):
    rng = np.random.default_rng(n_parts)
    # some 40 chunks: short sequences, and one that is longer than several chunks
    lengths = rng.integers(1, 400, 6000)
    lengths[3000] = 150_000
    params = Params.random(2, 3, 4, rng=0)
    sequences = params.sample(len(lengths), lengths, rng=1)
    whole = expected_counts(params, sequences, n_jobs=2)
    one_thread = expected_counts(params, sequences, n_jobs=1)
    summing = counting(params, chunk_size(sequences.n_total))
    parts = totals(summing, pieces(sequences, n_parts, rng))
    again = summing.total(joined_anyhow(summing.join, parts, rng))
    for found in (one_thread, again):
        assert all(np.array_equal(getattr(whole, name), getattr(found, name)) for name in COUNTS)


def test_tree_sum_depends_only_on_chunk_numbers():
    rng = np.random.default_rng(1)
    # magnitudes this far apart give another sum in any other order
    values = (rng.standard_normal(64) * 10.0 ** rng.integers(-8, 8, 64)).tolist()
    tree = values
    while len(tree) > 1:
        tree = [a + b for a, b in zip(tree[::2], tree[1::2], strict=True)]
    assert TreeSum(0, enumerate(values)).total() == tree[0]
    assert len(TreeSum(0, enumerate(values)).nodes) == 1


def listed(part):
    return lambda bounds: [(bounds[1] - bounds[0], int(part.lengths[slice(*bounds)].sum()))]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 50, 1000])
def test_nothing_is_lost_or_counted_twice(size):
    rng = np.random.default_rng(size)
    for _ in range(30):
        n = int(rng.integers(2, 30))
        sequences = Sequences.from_lists([[0] * k for k in rng.integers(1, 12, n)])

        parts = pieces(sequences, int(rng.integers(1, n)), rng)
        summing = Summing(listed, size)
        found = summing.total(joined_anyhow(summing.join, totals(summing, parts), rng))
        bounds = chunk_bounds(sequences.offsets[:-1], size)
        assert [k for k, _ in found] == [j - i for _, (i, j) in bounds]  # lists add in order
        assert sum(symbols for _, symbols in found) == sequences.n_total


def test_partitions_that_do_not_follow_one_another_are_an_error():
    params = Params.random(2, 2, 3, rng=0)
    sequences = params.sample(10, 20, rng=1)
    summing = counting(params)
    a, b = totals(summing, [(sequences[:5], 0), (sequences[5:], 120)])
    with pytest.raises(SojournError, match="begins at symbol 120, but the one before it ends"):
        summing.join(a, b)
    for not_all in (b, None):
        with pytest.raises(SojournError, match="expected all the data"):
            summing.total(not_all)
    two = TreeSum(0)
    two.pad(2)
    with pytest.raises(SojournError, match="do not follow"):
        two + TreeSum(3, [(3, 1.0)])
    with pytest.raises(SojournError, match="nothing to add up"):
        two.total()
