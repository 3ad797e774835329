"""Starts from clustered pasts."""

import numpy as np

from sojourn import Params, Sequences
from sojourn.em.em import run_em
from sojourn.em.predictive import Size, cluster_pasts, counted
from sojourn.em.start import fit_params

# Two states emit "a" alone and differ in what comes after them: no emission tells them apart.
CYCLE = Params(
    [1, 0, 0, 0],
    [[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [1, 0, 0, 0]],
    [[0, 0, 1], [1, 0, 0], [1, 0, 0], [1, 0, 0]],
    [[1, 0, 0], [0, 1, 0], [1, 0, 0], [0, 0, 1]],
)


def size(n_states, max_duration, n_symbols, tail=False, ends=False, loops=False):
    return Size(n_states, max_duration, n_symbols, loops, np.full(n_states, tail), ends)


def starts(data, shape, seed=0):
    rng = np.random.default_rng(seed)
    labels = cluster_pasts(data, shape.n_states, shape.ends, rng)
    return labels, [counted(data, each, shape, rng) for each in labels]


def test_states_that_emit_alike_are_told_apart():
    data = CYCLE.sample(200, 6 * np.random.default_rng(0).integers(3, 12, 200), rng=0)
    labels, _ = starts(data, size(6, 3, 3))
    truth = np.tile([0, 1, 2, 3, 4, 5], data.n_total // 6)  # the place in the cycle, one of six
    shared = [len(set(zip(truth, each, strict=True))) for each in labels]
    assert max(shared) == 6  # one cluster for each place
    found = fit_params(data, 6, 3, 3, init="states", rng=0, max_iter=50)
    # the cycle is deterministic: a model of it gives every sequence a probability of one
    assert found.log_likelihood > -0.01 * data.n_total


def test_every_step_has_a_cluster_and_clusters_follow_the_seed():
    data = Params.random(3, 4, 5, rng=0).sample(50, [20] * 25 + [60] * 25, rng=1)
    labels, _ = starts(data, size(4, 4, 5))
    assert all(each.shape == data.codes.shape for each in labels)
    assert all(0 <= each.min() <= each.max() < 4 for each in labels)
    again, _ = starts(data, size(4, 4, 5))
    assert all(np.array_equal(a, b) for a, b in zip(labels, again, strict=True))


def test_counts_are_those_of_the_labels():
    data = Sequences.from_lists([[0, 0, 1, 1, 1, 1, 1, 0], [1, 1]])
    labels = data.codes.astype(np.int32)
    p = counted(data, labels, size(2, 3, 2, tail=True, ends=True), np.random.default_rng(0))
    assert p.emission.diagonal().min() > 0.6
    assert p.transition.diagonal().max() == 0.0
    assert p.tail[1] > p.tail[0] - 1e-12
    assert 0.0 < p.tail[1] < 1.0
    assert p.end[1] > 0.2
    assert p.end[0] > 0.2
    assert 0.0 < p.empty < 0.1
    assert min(table.min() for table in (p.start, p.duration, p.emission)) > 0.0


def test_a_run_is_several_stays_where_states_may_follow_themselves():
    data = Sequences.from_lists([[0] * 9 + [1] * 3] * 20)
    p = counted(data, data.codes, size(2, 1, 2, loops=True), np.random.default_rng(0))
    assert np.isclose(p.transition[0, 0], 8 / 9, atol=0.01)
    assert p.duration.tolist() == [[1.0], [1.0]]


def test_more_states_than_contexts_missing_symbols_and_empty_sequences():
    data = Sequences.from_lists([[0, None, 1, 0], [1], []], empty=True)
    _, models = starts(data, size(6, 2, 2, tail=True, ends=True))
    for model in models:
        assert np.isfinite(run_em(model, data, max_iter=3).log_likelihood)


def test_most_real_data_needs_more_states_than_symbols():
    truth = Params.random(12, 6, 3, rng=4)
    data = truth.sample(150, 100, rng=5)
    few, many = (
        fit_params(data, n, 6, 3, rng=0, max_iter=40, tail=True).log_likelihood for n in (3, 9)
    )
    assert many > few


def test_rare_symbols_do_not_take_the_clusters_of_frequent_ones():
    rng = np.random.default_rng(0)
    rows = [[0, 1 + k, 3 + (rng.random() < (0.2, 0.8)[k])] for k in rng.integers(0, 2, 2_000)]
    rows += [[5 + 2 * k, 6 + 2 * k] for k in range(20) for _ in range(45)]
    data = Sequences.from_lists([rows[i] for i in rng.permutation(len(rows))])
    labels, _ = starts(data, size(6, 1, 45, ends=True, loops=True))
    # 1 and 2 are frequent and promise different symbols: by coarse contexts and by fine ones some
    # clustering tells them apart
    apart = [set(each[data.codes == 1]).isdisjoint(each[data.codes == 2]) for each in labels]
    assert any(apart[: len(apart) // 2])
    assert any(apart[len(apart) // 2 :])
