"""Streams: at every prefix the numbers of batch scoring, to the bit."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sojourn as sj
from sojourn.estimators.hsmm import HSMM

P = sj.Params.random(3, 4, 5, rng=0)
DATA = P.sample(300, 40, rng=1)
WORDS = np.array(["", "climb", "descend", "level", "é"])


def with_gaps(sequences, share=0.15, seed=4):
    rng = np.random.default_rng(seed)
    codes = np.where(rng.random(sequences.n_total) < share, -1, sequences.codes)
    return sj.Sequences(codes, sequences.offsets, sequences.vocabulary, sequences.ids)


def hsmm(params=P, vocabulary=None, initial=None, **options):
    """A model as EM would leave it, without the time that takes."""
    model = HSMM(params.n_states, params.max_duration, **options)
    model.params_, model.initial_ = params, initial
    model.vocabulary_ = np.arange(params.n_symbols) if vocabulary is None else vocabulary
    model.n_symbols_ = params.n_symbols
    return model


INITIAL = np.full((3, 4), 1 / 12)
MODELS = {
    "contexts": sj.SpectralHSMM(3, 4).fit(DATA),
    "ends": sj.SpectralHSMM(ends=True).fit(DATA),
    "tree": sj.ContextTree(ends=True).fit(DATA),
    "adjacent": sj.SpectralHSMM(3, 4, algorithm="adjacent").fit(DATA),
    "pooled": sj.SpectralHSMM(2, 2, algorithm="pooled").fit(DATA),
    "per_step": sj.SpectralHSMM(2, 2, algorithm="per_step").fit(DATA),
    "raw": sj.SpectralHSMM(2, 2, algorithm="pooled", filter="raw").fit(DATA),
    "hsmm": hsmm(),
    "left_censored": hsmm(initial=INITIAL),
}
# Longer than the steps that `per_step` was trained on; some symbols missing, the first of one too.
HELD = with_gaps(P.sample(6, 60, rng=2))


def batch(model, sequence):
    """Surprise of the symbols of one sequence, without that of its end."""
    return model.surprise(sequence)[0][: sequence.n_total]


every_model = pytest.mark.parametrize("name", MODELS)


@every_model
def test_every_surprise_is_the_one_of_batch_scoring(name):
    model = MODELS[name]
    for i, expected in enumerate(model.surprise(HELD)):
        stream = model.stream()
        found = [stream.update(symbol) for symbol in HELD[i]]
        assert stream.n_seen == len(found)
        end = [stream.end()]
        assert found + (end if model.ends else []) == expected.tolist()
        assert model.ends or end == [0.0]
        assert stream.n_seen == len(found)


@every_model
def test_every_prediction_is_the_one_of_batch_scoring(name):
    model, stream = MODELS[name], MODELS[name].stream()
    symbols = HELD[0]
    for t, symbol in enumerate(symbols, 1):
        stream.update(symbol)
        prefix = sj.Sequences.from_lists([symbols[:t]], vocabulary=model.vocabulary_)
        for horizon in (1, 3) if name != "tree" else (1,):
            expected = model.predict_next(prefix, horizon=horizon)[0]
            assert stream.predict(horizon).tolist() == expected.tolist()


@every_model
def test_before_the_first_symbol_predictions_are_of_the_first(name):
    model, stream = MODELS[name], MODELS[name].stream()
    first = stream.predict()
    # p(first) by what each first symbol would surprise: the same number up to exp and log.
    each = [model.stream().update(symbol) for symbol in model.vocabulary_.tolist()]
    each += [model.stream().end()] if model.ends else []
    np.testing.assert_allclose(first, np.exp(-np.array(each)), rtol=1e-12)
    # The second, too, is the sum over what the first may be.
    second = sum(
        p * model.predict_next([[symbol]])[0]
        for p, symbol in zip(first, model.vocabulary_.tolist(), strict=False)
    )
    if name in ("hsmm", "left_censored"):  # the filter cuts at ε, and is no linear map
        np.testing.assert_allclose(stream.predict(2), second, rtol=1e-12)


@every_model
def test_many_symbols_at_once_are_the_same_as_one_by_one(name):
    model = MODELS[name]
    expected = batch(model, HELD[:1])
    stream, symbols = model.stream(), HELD[0]
    parts = [symbols[:1], [], symbols[1:20], symbols[20:]]
    assert np.array_equal(np.concatenate([stream.update_many(p) for p in parts]), expected)
    assert stream.n_seen == len(symbols)
    whole = model.stream()
    assert np.array_equal(whole.update_many(HELD[:1]), expected)
    mixed = model.stream()
    found = [mixed.update(s) for s in symbols[:7]], mixed.update_many(symbols[7:])
    assert np.array_equal(np.concatenate(found), expected)


@pytest.mark.parametrize("size", [(1, 1, 1), (1, 5, 2), (2, 1, 3), (5, 7, 9), (13, 40, 4)])
def test_sizes_that_fill_vectors_badly_give_the_same_bits(size):
    p = sj.Params.random(*size, rng=1)
    model, data = hsmm(p), with_gaps(p.sample(2, 200, rng=2))
    for i, expected in enumerate(model.surprise(data)):
        stream = model.stream()
        assert [stream.update(symbol) for symbol in data[i]] == expected.tolist()


@pytest.mark.parametrize("algorithm", ["contexts", "adjacent"])
@pytest.mark.parametrize("rank", [1, 3, 4, 9])
def test_ranks_that_fill_vectors_badly_give_the_same_bits(rank, algorithm):
    model = sj.SpectralHSMM(3, 4, algorithm=algorithm, rank=rank).fit(DATA)
    for i, expected in enumerate(model.surprise(HELD)):
        stream = model.stream()
        assert [stream.update(symbol) for symbol in HELD[i]] == expected.tolist()


def test_states_and_stays_are_those_of_batch():
    for model in (MODELS["hsmm"], MODELS["left_censored"]):
        stream, symbols = model.stream(), HELD[1]
        for t, symbol in enumerate(symbols, 1):
            stream.update(symbol)
            prefix = sj.Sequences.from_lists([symbols[:t]], vocabulary=model.vocabulary_)
            assert stream.remaining().tolist() == model.remaining(prefix)[0].tolist()
            # At its end the posterior is the filter; the two passes round apart.
            posterior = model.predict_proba(prefix)[0][-1]
            np.testing.assert_allclose(stream.state_proba(), posterior, rtol=1e-9, atol=1e-12)


def test_before_any_symbol_there_is_no_state():
    stream = MODELS["hsmm"].stream()
    for ask in (stream.state_proba, stream.remaining):
        with pytest.raises(sj.SojournError, match="no symbol has come"):
            ask()


def test_what_is_impossible_stays_so_until_reset():
    p = sj.Params([1, 0], [[0, 1], [1, 0]], [[0, 1], [0.5, 0.5]], [[1, 0], [0, 1]])
    model = hsmm(p)
    stream = model.stream()
    found = [stream.update(symbol) for symbol in [0, 1, 1, 0]]
    assert found == model.surprise([[0, 1, 1, 0]])[0].tolist()
    assert found[1:] == [np.inf] * 3
    for ask in (stream.predict, stream.state_proba, stream.remaining):
        with pytest.raises(sj.SojournError, match="cannot produce"):
            ask()
    assert stream.reset().update(0) == 0.0
    assert stream.n_seen == 1


@every_model
def test_a_reset_stream_is_a_new_one(name):
    stream = MODELS[name].stream()
    first = stream.update_many(HELD[0])
    reset, horizon = stream.reset(), 1 if name == "tree" else 3
    assert np.array_equal(reset.predict(horizon), MODELS[name].stream().predict(horizon))
    assert np.array_equal(reset.update_many(HELD[0]), first)


@every_model
def test_a_restored_stream_goes_on_to_the_bit(name):
    model, symbols = MODELS[name], HELD[2]
    expected = batch(model, HELD[2:3])
    for t in (0, 1, 25, 59):
        stream = model.stream()
        stream.update_many(symbols[:t])
        text = json.dumps(stream.snapshot())
        assert len(text) < 4000
        other = model.stream()
        other.update_many(HELD[3])  # whatever it has seen before is forgotten
        other.restore(json.loads(text))
        assert other.n_seen == t
        horizon = 1 if name == "tree" else 3
        assert np.array_equal(other.predict(horizon), stream.predict(horizon))
        assert other.update_many(symbols[t:]).tolist() == expected[t:].tolist()
        assert other.snapshot()["model"] == stream.snapshot()["model"]


@every_model
def test_forks_go_on_apart(name):
    model, symbols = MODELS[name], HELD[2]
    expected = batch(model, HELD[2:3])
    stream = model.stream()
    stream.update_many(symbols[:20])
    fork = stream.fork()
    stream.update_many(HELD[3])
    assert fork.update_many(symbols[20:]).tolist() == expected[20:].tolist()
    assert (fork.n_seen, stream.n_seen) == (60, 80)


@pytest.mark.parametrize("name", ["contexts", "tree", "adjacent", "hsmm"])
def test_a_damaged_snapshot_or_one_of_another_model_is_refused(name):
    model = MODELS[name]
    stream = model.stream()
    stream.update_many([0, 1, 2])
    good = stream.snapshot()
    before = stream.predict().tolist()
    for bad in (
        {},
        [],
        None,
        {**good, "stream": 1},
        {**good, "seen": -1},
        {**good, "seen": 2.5},
        {**good, "state": good["state"][:-4]},
        {**good, "state": good["state"] * 2},
        {**good, "state": "*"},
        {**good, "state": 5},
        {key: value for key, value in good.items() if key != "state"},
    ):
        with pytest.raises(sj.SojournError, match="snapshot"):
            stream.restore(bad)
    others = [hsmm(sj.Params.random(3, 4, 5, rng=7)), hsmm(vocabulary=WORDS)]
    for other in (*others, MODELS["pooled"]):
        with pytest.raises(sj.SojournError, match="another model"):
            other.stream().restore(good)
    assert stream.predict().tolist() == before


def test_a_snapshot_with_a_state_no_sequence_has_is_refused():
    stream = MODELS["hsmm"].stream()
    stream.update(0)
    good = stream.snapshot()
    for value in (np.nan, np.inf, -0.5):
        other = stream.fork()
        other._alpha[0, 0] = value
        with pytest.raises(sj.SojournError, match="damaged"):
            stream.restore(other.snapshot())
    with pytest.raises(sj.SojournError, match="damaged"):
        stream.restore({**good, "seen": 0})


def test_a_snapshot_with_a_past_no_sequence_has_is_refused():
    stream = MODELS["ends"].stream()
    stream.update_many([0, 1, 2])
    width = len(stream._walk.row)
    for place, value in ((width + 1, 9.0), (width + 1, 0.5), (width + 1, 5.0), (0, np.nan)):
        state = stream._state()
        state[place] = value  # no symbol, no number, a second start; no probability
        other = stream.fork()
        other._state = lambda state=state: state
        with pytest.raises(sj.SojournError, match="damaged"):
            stream.restore(other.snapshot())
    assert stream.end() == MODELS["ends"].surprise([[0, 1, 2]])[0][-1]


@pytest.mark.parametrize("kind", ["spectral", "hsmm"])
def test_symbols_are_read_as_in_batch(kind):
    def model(vocabulary, unknown):
        if kind == "hsmm":
            return hsmm(vocabulary=vocabulary, unknown=unknown)
        seqs = sj.Sequences(DATA.codes, DATA.offsets, vocabulary, DATA.ids)
        return sj.SpectralHSMM(2, 2, unknown=unknown).fit(seqs)

    strict, lenient = (model(WORDS, unknown) for unknown in ("error", "missing"))
    stream = strict.stream()
    stream.update("climb")
    before = stream.predict().tolist()
    for bad, words in (
        ("fly", "symbol 'fly' at position 1 of the stream is not in the vocabulary of 5"),
        (3, "symbol 3 at position 1 of the stream cannot be"),
        (1.5, "the stream has 1.5 .float. at position 1"),
        (["climb"], "position 1"),
        (b"climb", "decode bytes"),
    ):
        with pytest.raises(sj.SojournError, match=words):
            stream.update(bad)
        with pytest.raises(sj.SojournError):
            stream.update_many(["climb", bad])
        assert stream.predict().tolist() == before  # a refused symbol leaves no trace
    assert stream.n_seen == 1
    gaps = lenient.surprise([["climb", None, "level", None]])[0].tolist()
    stream = lenient.stream()
    assert [stream.update(s) for s in ("climb", "fly", np.str_("level"), None)] == gaps
    assert lenient.stream().update_many(["climb", "fly", "level", None]).tolist() == gaps
    with pytest.raises(sj.SojournError, match="cannot be"):
        lenient.stream().update(3)


@pytest.mark.parametrize("bad", [True, 1.0, -1, 7, "1", 2**70])
def test_numbers_that_are_no_symbols_are_refused(bad):
    stream = MODELS["adjacent"].stream()
    with pytest.raises(sj.SojournError):
        stream.update(bad)
    assert stream.update(np.int32(1)) == MODELS["adjacent"].stream().update(1)


def test_a_stream_is_one_sequence():
    stream = MODELS["adjacent"].stream()
    with pytest.raises(sj.SojournError, match="one sequence, and there are 6"):
        stream.update_many(HELD)
    with pytest.raises(sj.SojournError, match="horizon"):
        stream.predict(0)
    with pytest.raises(sj.SojournError):
        stream.update_many("abc")


def test_a_model_that_is_not_fitted_has_no_stream():
    with pytest.raises(ValueError, match="not fitted"):
        sj.SpectralHSMM(2, 2).stream()


@settings(max_examples=40)
@given(st.lists(st.one_of(st.none(), st.integers(0, 4)), min_size=1, max_size=80), st.data())
def test_any_sequence_in_any_pieces_is_the_batch(symbols, data):
    for name in ("contexts", "tree", "adjacent", "hsmm"):
        model, stream = MODELS[name], MODELS[name].stream()
        seqs = sj.Sequences.from_lists([symbols], vocabulary=model.vocabulary_)
        cut = data.draw(st.integers(0, len(symbols)))
        found = [stream.update(s) for s in symbols[:cut]]
        stream = model.stream().restore(stream.snapshot())
        found += stream.update_many(symbols[cut:]).tolist() if cut < len(symbols) else []
        assert found == batch(model, seqs).tolist()
