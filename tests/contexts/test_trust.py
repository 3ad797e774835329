"""Trust in the nodes of a context tree: learned, and by evidence."""

import numpy as np
import pytest

from benchmarks.ngrams import NGram
from sojourn import ContextTree, Sequences
from sojourn.contexts import trust

RELATIVE = 1e-5  # of a difference quotient


@pytest.fixture(scope="module")
def paths():
    """Random features of 30 nodes, and 50 positions with up to 6 of them each."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(30, len(trust.USUAL))) / 4
    begin = np.append(0, np.cumsum(rng.integers(1, 7, 50)))
    return features, (begin, rng.random(begin[-1]), rng.integers(0, 30, begin[-1]))


def value(features, paths, w, slope=None):
    k = len(w)
    arrays = (features, *paths, trust.trust_of(features, w))
    return trust._slope(
        *arrays, 0.2, np.empty(6), np.zeros(k) if slope is None else slope, np.zeros((k, k))
    )


def test_likelihood_is_that_of_a_plain_loop(paths):
    features, (begin, share, node) = paths
    each = trust.trust_of(features, trust.USUAL)
    expected = 0.0
    for t in range(50):
        p = 0.2
        for j in reversed(range(begin[t], begin[t + 1])):
            p = each[node[j]] * share[j] + (1 - each[node[j]]) * p
        expected += np.log(p)
    assert value(features, paths[1], trust.USUAL) == pytest.approx(expected)


def test_slope_is_the_derivative(paths):
    w, slope, h = trust.USUAL, np.zeros(len(trust.USUAL)), 1e-6
    value(*paths, w, slope)
    for i, each in enumerate(np.eye(len(w)) * h):
        quotient = (value(*paths, w + each) - value(*paths, w - each)) / (2 * h)
        assert slope[i] == pytest.approx(quotient, rel=RELATIVE, abs=RELATIVE)


def test_learned_weights_are_a_maximum(paths):
    w = trust.learn_weights(*paths, 0.2)

    def penalised(w):
        return value(*paths, w) - trust.PENALTY / 2 * ((w - trust.USUAL) ** 2).sum()

    least = min(penalised(w) - penalised(w + step) for step in np.eye(len(w)) * 0.1)
    assert penalised(w) > penalised(trust.USUAL)
    assert least > -trust.ENOUGH * 50


def test_pasts_that_tell_nothing_are_passed_over():
    rng = np.random.default_rng(0)
    data = Sequences.from_array(rng.integers(0, 20, (250, 100)))
    tree = ContextTree().fit(data[:200])
    assert tree.score(data[200:]) > -np.log(20) - 0.001  # nats; by counts of pairs alone 0.01


def test_a_markov_chain_is_learned_as_well_as_by_n_grams_of_its_order():
    rng = np.random.default_rng(5)
    table, rows = rng.dirichlet(np.full(6, 0.2), 216), []
    for _ in range(300):
        row = rng.integers(0, 6, 3).tolist()
        while len(row) < 80:
            row.append(int(rng.choice(6, p=table[row[-3] * 36 + row[-2] * 6 + row[-1]])))
        rows.append(row)
    data = Sequences.from_lists(rows)
    ngrams = NGram(4).fit(data[:240]).score(data[240:])  # of the true order, which the tree finds
    assert ContextTree().fit(data[:240]).score(data[240:]) > ngrams - 0.005
