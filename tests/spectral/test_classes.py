"""Alphabets of thousands of symbols: trees read classes of them, which rare ones teach together."""

import numpy as np
import pytest

import sojourn as sj
from sojourn.contexts.counts import Trees
from sojourn.contexts.pieces import Pieces
from sojourn.spectral.classes import learn_classes

N_SYMBOLS, N_STATES = 2000, 4


def draw(n, rng):
    """Rows of 200 symbols; a state stays for five on average, each has a quarter of the symbols."""
    rng = np.random.default_rng(rng)
    state = rng.integers(N_STATES, size=(n, 1)) + np.cumsum(rng.random((n, 200)) < 0.2, axis=1)
    codes = rng.integers(N_SYMBOLS // N_STATES, size=(n, 200)) * N_STATES + state % N_STATES
    return sj.Sequences.from_lists(codes.tolist(), vocabulary=range(N_SYMBOLS))


DATA, TEST = draw(200, 0), draw(8, 1)  # each symbol comes twenty times: none is a context


@pytest.fixture(scope="module")
def model():
    return sj.SpectralHSMM(n_jobs=1).fit(DATA)


def test_classes_gather_symbols_of_one_state():
    reads = learn_classes(Pieces.all_of(DATA), N_SYMBOLS)
    assert 2 * N_STATES <= len(np.unique(reads)) <= 64
    assert np.array_equal(reads[reads], reads)  # one of a class stands for it
    assert (reads % N_STATES == np.arange(N_SYMBOLS) % N_STATES).mean() > 0.9


def test_a_frequent_symbol_is_a_class_by_itself():
    codes = DATA.codes.copy()
    codes[::20] = 7
    frequent = sj.Sequences.from_lists(codes.reshape(-1, 200).tolist(), vocabulary=range(N_SYMBOLS))
    reads = learn_classes(Pieces.all_of(frequent), N_SYMBOLS)
    assert np.flatnonzero(reads == 7).tolist() == [7]


def test_rare_symbols_teach_what_comes_next(model):
    assert model.trees_.reads is not None
    assert model.trees_.n_pasts > N_STATES
    # All symbols alike have -7.60; known states -6.21, and -6.72 by the symbols before.
    assert model.score(TEST) > -6.9


def test_symbols_with_no_neighbours_have_no_classes_to_learn():
    codes = np.random.default_rng(0).integers(1100, size=1500)
    data = sj.Sequences.from_lists(codes[:, None].tolist(), vocabulary=range(1100))
    assert sj.SpectralHSMM(ends=True).fit(data).score(data) > -4.0  # a symbol of log 1100, an end


def test_small_alphabets_are_read_as_they_are():
    data = sj.Params.random(2, 2, 5, rng=0).sample(100, 50, rng=1)
    assert sj.SpectralHSMM().fit(data).trees_.reads is None


def test_result_is_independent_of_n_jobs_and_partitions(tmp_path):
    rows = zip(np.repeat(np.arange(len(DATA)), 200).tolist(), DATA.codes.tolist(), strict=True)
    table = "\n".join(["id,symbol", *(f"{i},s{code:04d}" for i, code in rows)])
    (tmp_path / "t.csv").write_text(table + "\n")
    how = {"id": "id", "symbol": "symbol", "time": False}
    test = [[f"s{code:04d}" for code in row] for row in TEST]
    one = sj.SpectralHSMM(n_jobs=1, unknown="missing").fit(sj.read(tmp_path / "t.csv", **how))
    assert one.trees_.reads is not None
    for n_jobs, n_rows in ((3, 5_000),):
        parts = sj.scan(tmp_path / "t.csv", **how, rows_per_partition=n_rows)
        other = sj.SpectralHSMM(n_jobs=n_jobs, unknown="missing").fit(parts)
        assert np.array_equal(one.trees_.reads, other.trees_.reads)
        assert np.array_equal(one.score_samples(test), other.score_samples(test))


def test_streams_files_and_parts_read_classes_too(model, tmp_path):
    stream, expected = model.stream(), model.surprise(TEST[:1])[0]
    assert [stream.update(s) for s in TEST[0]] == expected.tolist()
    assert np.array_equal(stream.predict(), model.predict_next(TEST[:1])[0])
    model.save(tmp_path / "m.sojourn")
    again = sj.load(tmp_path / "m.sojourn")
    assert np.array_equal(again.score_samples(TEST), model.score_samples(TEST))
    whole, parts = (sj.SpectralHSMM(trees=model.trees_) for _ in range(2))
    whole.fit(DATA)
    for part in (DATA[:30], DATA[30:]):
        parts.partial_fit(part)
    assert np.array_equal(parts.score_samples(TEST), whole.score_samples(TEST))


def test_trees_refuse_to_read_symbols_that_there_are_not(model):
    t = model.trees_
    parts = (t.pasts, t.futures, t.past_context, t.future_context, t.n_pasts, t.n_futures)
    for reads in (t.reads[1:], np.full_like(t.reads, N_SYMBOLS), -t.reads):
        with pytest.raises(sj.SojournError):
            Trees(*parts, reads)
