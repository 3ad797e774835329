"""Tables of what occurs, and operators that symbols share, beside the dense ones."""

from dataclasses import fields, replace
from itertools import pairwise

import numpy as np
import pytest
from sojourn.spectral.count_sparse import Sparse, count_sparse
from sojourn.spectral.holdout import split
from sojourn.spectral.lowrank_filter import SIDE_BY_SIDE
from sojourn.spectral.lowrank_operators import SharedOperators, decompose_sparse, pools

import sojourn as sj
from sojourn import SojournError, SpectralHSMM
from sojourn.data.sequences import Sequences
from sojourn.exact.params import Params
from sojourn.spectral.filter import make_filter, next_symbol, run_filter
from sojourn.spectral.moment_tables import Form, Shape
from sojourn.spectral.moments import count
from sojourn.spectral.select_rank import decompose

ROUNDING = 1e-9  # of operators whose inverse is of a well-conditioned table
WINDOWS = [(0,), (0, 1), (0, 2), (0, 1, 4)]


@pytest.fixture(scope="module")
def data():
    """Sequences of many lengths over five symbols, with missing ones."""
    seqs = Params.random(3, 4, 5, rng=0).sample(300, 40, rng=1)
    rows = [seqs[i][: 1 + i % 40] for i in range(300)]
    for i in range(0, 300, 7):
        rows[i][len(rows[i]) // 2] = None
    return Sequences.from_lists(rows)


@pytest.fixture(scope="module")
def large():
    """A model of 600 symbols and data from it."""
    rng = np.random.default_rng(0)
    p = Params.random(4, 5, 600, rng=0)
    p = Params(p.start, p.transition, p.duration, rng.dirichlet(np.full(600, 0.1), 4))
    return p, p.sample(400, 250, rng=1), p.sample(40, 100, rng=2)


@pytest.fixture(scope="module")
def fitted(large):
    return SpectralHSMM(4, 5, windows=(0,)).fit(large[1])


def sparse_of(sequences, window):
    return count_sparse(split(sequences, 0.0)[0], Shape(window, sequences.n_symbols))


def equal(a, b):
    names = [f.name for f in fields(Sparse)]
    return all(np.array_equal(getattr(a, n), getattr(b, n)) for n in names)


@pytest.mark.parametrize("window", WINDOWS)
def test_counts_are_those_of_the_dense_tables(data, window):
    dense = count(data, [window], holdout=False).tables[0]
    table = sparse_of(data, window)
    H, H_o, first = (np.zeros_like(x) for x in (dense.H, dense.H_o, dense.first))
    left, right = table.left[table.L], table.right[table.R]
    np.add.at(H, (left, right), table.counts)
    np.add.at(H_o, (left, table.symbols, table.right[table.R1]), table.counts)
    first[table.right] = table.first
    assert np.array_equal(H, dense.H)
    assert np.array_equal(H_o, dense.H_o)
    assert np.array_equal(first, dense.first)


@pytest.mark.parametrize("window", WINDOWS)
def test_any_parts_in_any_order_add_up_to_the_same(data, window):
    everything = sparse_of(data, window)
    cuts = [0, 1, 50, 51, 200, 300]
    parts = [sparse_of(data[a:b], window) for a, b in pairwise(cuts)]
    forwards = parts[0] + parts[1] + parts[2] + parts[3] + parts[4]
    backwards = (parts[4] + parts[3]) + (parts[2] + (parts[1] + parts[0]))
    assert equal(forwards, everything)
    assert equal(backwards, everything)


def test_blocks_of_symbols_add_up_to_the_same(data, monkeypatch):
    everything = sparse_of(data, (0, 1))
    monkeypatch.setattr("sojourn.spectral.count_sparse.BLOCK", 500)
    assert equal(sparse_of(data, (0, 1)), everything)


@pytest.mark.parametrize("window", [(0,), (0, 1), (0, 2)])
def test_operators_and_scores_are_those_of_the_dense_tables(window):
    seqs = Params.random(2, 2, 4, rng=0).sample(2000, 50, rng=1)
    dense = decompose(count(seqs, [window], holdout=False).tables[0], 4, 2).cut(3)
    sparse = decompose_sparse(sparse_of(seqs, window), 4, 2).cut(3)
    scores = []
    for operators in (dense, sparse):
        model = make_filter(operators, 1e-4)
        bounds = (seqs.offsets[:20], seqs.offsets[1:21])
        scores.append(run_filter(model, seqs.codes, *bounds)[0])
    # singular vectors have either sign, which their products do not
    np.testing.assert_allclose(sparse.singular_values[:3], dense.singular_values[:3], ROUNDING)
    np.testing.assert_allclose(scores[1], scores[0], rtol=ROUNDING, atol=ROUNDING)


def test_shared_filter_equals_the_dense_filter_on_few_symbols(monkeypatch):
    """With a mode for each symbol and equal floors nothing is left that could differ."""
    seqs = Params.random(2, 2, 4, rng=0).sample(2000, 50, rng=1)
    own = decompose_sparse(sparse_of(seqs, (0, 1)), 4, 2).cut(3)
    ends = (own.start, own.stop, own.rest[0])
    shared = SharedOperators(
        *ends, np.eye(4), own.B[0], np.full(4, 0.25), own.singular_values, own.rank
    )
    codes = seqs.codes.copy()
    codes[::9] = -1
    bounds = (seqs.offsets[:30], seqs.offsets[1:31])
    one, other = make_filter(own, 1e-4), make_filter(shared, 1e-4)
    surprise, states = run_filter(one, codes, *bounds)
    shared_surprise, shared_states = run_filter(other, codes, *bounds)
    np.testing.assert_allclose(shared_surprise, surprise, rtol=ROUNDING, atol=ROUNDING)
    lengths = seqs.lengths[:30]
    for horizon in (1, 4):
        np.testing.assert_allclose(
            next_symbol(other, shared_states, lengths, horizon),
            next_symbol(one, states, lengths, horizon),
            rtol=ROUNDING,
        )


def test_score_does_not_depend_on_the_other_sequences(fitted, large):
    test = large[2]
    together = fitted.score_samples(test)
    assert len(test) > SIDE_BY_SIDE
    assert together.tolist() == [float(fitted.score_samples(test[i : i + 1])[0]) for i in range(40)]


def test_large_alphabet_is_predicted_better_than_by_n_grams(fitted, large):
    from benchmarks.ngrams import NGram

    p, training, test = large
    truth = p.log_prob(test).sum() / test.n_total
    best = max(NGram(order).fit(training).score(test) for order in (1, 2, 3))
    assert isinstance(fitted.operators_, SharedOperators)
    # of what the best n-gram leaves open, the model closes more than half
    assert fitted.score(test) > (best + truth) / 2


def test_parts_of_a_large_alphabet_give_the_same_bits(large):
    training = large[1][:120]
    everything = SpectralHSMM(4, 5, windows=(0,), n_jobs=1).fit(training)
    parts = SpectralHSMM(4, 5, windows=(0,), n_jobs=2).partial_fit(training[:50])
    parts.partial_fit(training[50:])
    assert np.array_equal(parts.operators_.B, everything.operators_.B)
    assert np.array_equal(parts.operators_.modes, everything.operators_.modes)


def test_next_symbols_of_a_large_alphabet_are_a_distribution(fitted, large):
    test = large[2]
    for horizon in (1, 3):
        p = fitted.predict_next(test, horizon=horizon)
        assert p.shape == (40, fitted.n_symbols_)
        assert (p > 0).all()
        np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-12)
    last = fitted.surprise(test)[0][-1]
    before = fitted.predict_next([test[0][:-1]])[0]
    at = np.searchsorted(fitted.vocabulary_, test[0][-1])
    assert -np.log(before[at]) == pytest.approx(last, rel=1e-12)


def test_stream_equals_the_batch_to_the_bit(fitted, large):
    row = large[2][0]
    stream = fitted.stream()
    assert [stream.update(s) for s in row[:30]] == fitted.surprise([row])[0][:30].tolist()
    twin = fitted.stream().restore(stream.snapshot())
    assert twin.update_many(row[30:]).tolist() == fitted.surprise([row])[0][30:].tolist()
    assert np.array_equal(twin.predict(), fitted.predict_next([row])[0])
    assert stream.update(None) == 0.0


def test_raw_score_is_the_log_of_the_product(fitted, large):
    o, row = fitted.operators_, large[2][0][:6]
    v = o.start
    for symbol in row:
        v = v @ np.tensordot(o.modes[symbol], o.B, 1)
    raw = SpectralHSMM(4, 5, filter="raw")
    for name, value in vars(fitted).items():
        if name.endswith("_"):
            setattr(raw, name, value)
    assert v @ o.stop > 0
    # the kernel starts from start / (start · stop)
    expected = np.log(v @ o.stop / (o.start @ o.stop))
    assert raw.score_samples([row])[0] == pytest.approx(expected, rel=1e-9)


def test_saved_model_scores_to_the_same_bits_and_takes_partial_fit(fitted, large, tmp_path):
    _, training, test = large
    fitted.save(tmp_path / "m.sojourn")
    again = sj.load(tmp_path / "m.sojourn")
    assert np.array_equal(again.score_samples(test), fitted.score_samples(test))
    assert equal(again.moments_.tables[0], fitted.moments_.tables[0])
    again.partial_fit(training[:5])
    assert again.moments_.n_sequences == 405


@pytest.mark.parametrize(
    ("name", "value"),
    [("L", -1), ("R", 10**6), ("R1", 10**6), ("counts", 0), ("left", -1), ("right", 10**9)],
)
def test_a_damaged_table_is_refused(fitted, name, value):
    array = getattr(fitted.moments_.tables[0], name).copy()
    array[-1] = value
    with pytest.raises(SojournError, match=f"{name} of Sparse must|positive"):
        replace(fitted.moments_.tables[0], **{name: array})


def test_rare_windows_are_pooled_by_their_nearest_symbol():
    rng = np.random.default_rng(0)
    nearest, weights = rng.integers(0, 40, 1000), rng.integers(1, 100, 1000).astype(float)
    pool = pools(nearest, weights, 30)
    assert pool.max() + 1 == 30
    alone = np.flatnonzero(np.bincount(pool) == 1)
    kept = np.isin(pool, alone)
    assert weights[kept].min() >= weights[~kept].max()
    for number in range(len(alone), 29):
        assert len(set(nearest[pool == number])) == 1
    assert np.array_equal(pools(nearest, weights, 1000), np.arange(1000))


def test_cap_on_windows_leaves_a_valid_distribution(large, monkeypatch):
    monkeypatch.setattr("sojourn.spectral.lowrank_operators.MAX_WINDOWS", 100)
    _, training, test = large
    capped = SpectralHSMM(4, 5, windows=(0, 1), rank=4).fit(training)
    p = capped.predict_next(test)
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-12)
    frequencies = np.bincount(training.codes, minlength=training.n_symbols) + 0.5
    flat = np.log(frequencies / frequencies.sum())[test.codes].mean()
    assert capped.score(test) > flat


def test_states_that_overflow_still_give_probabilities():
    wild = SharedOperators(
        np.ones(2),
        np.array([1.0, 0.0]),
        np.array([1.0, 0.0]),
        np.ones((300, 1)),
        np.full((1, 2, 2), 1e200),
        np.full(300, 1 / 300),
        np.ones(2),
        2,
    )
    codes = np.zeros(20, np.int32)
    bounds = (np.array([0]), np.array([20]), np.ones(1, bool))
    assert np.isfinite(run_filter(make_filter(wild, 1e-5), codes, *bounds, 1)[0]).all()


def test_which_tables_are_sparse_depends_on_the_shape_alone():
    assert not Shape((0, 1, 2), 9).sparse
    assert Shape((0,), 204).sparse
    assert not Shape((0,), 203).sparse
    assert not Shape((0,), 400, Form.POOLED).sparse


def test_windows_that_do_not_fit_in_64_bits_are_refused():
    Shape((0, 1, 2, 3), 50_000).check()
    with pytest.raises(SojournError, match=r"at most 4 do, such as windows=\(0, 1, 2, 3\)"):
        Shape((0, 1, 2, 3, 4), 50_000).check()


def test_sequences_too_short_for_a_large_alphabet_raise():
    seqs = Sequences.from_array(np.arange(600).reshape(300, 2))
    with pytest.raises(SojournError, match="no sequence is long enough"):
        SpectralHSMM(2, 2).fit(seqs)
