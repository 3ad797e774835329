"""`SpectralHSMM` on numbers: a code for each step, and a density within the code."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import sojourn as sj
from sojourn.estimators.codes import Codebook

CENTRES = np.array([[0.0, 0.0], [4.0, 1.0], [1.0, 5.0]])


def signals(n, seed, d=2):
    """Three states that take turns, with stays of 4 to 8 steps."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(n):
        states = np.repeat(np.cumsum(rng.integers(1, 3, 12)) % 3, rng.integers(4, 9, 12))[:50]
        found.append(CENTRES[states, :d] + rng.normal(size=(len(states), d)))
    return found


TRAIN, TEST = signals(40, 1), signals(10, 2)
MODEL = sj.SpectralHSMM(n_jobs=1).fit(TRAIN)


@pytest.mark.parametrize("d", [1, 2])
def test_the_density_of_a_step_integrates_to_one(d):
    model = sj.SpectralHSMM(n_jobs=1).fit([x[:, :d] for x in TRAIN])
    axes = [np.linspace(-9.0, 15.0, 6000 if d == 1 else 300)] * d
    grid = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, d)
    past = TEST[0][:9, :d]
    after = model.stream()
    after.update_many(past)
    inside = model.codebook_.inside(sj.Signals.from_arrays([grid]), _codes(model, grid))
    p = after.predict().states[0][_codes(model, grid)] * np.exp(inside)
    cell = np.prod([axis[1] - axis[0] for axis in axes])
    # the mass of a cell of two channels is counted on 2^14 draws; the grid adds its own error
    assert p.sum() * cell == pytest.approx(1.0, abs=2e-3 if d == 1 else 1e-2)
    own = model.surprise([TEST[0][:10, :d]])[0][-1]
    value = TEST[0][9:10, :d]
    code = _codes(model, value)
    density = model.codebook_.inside(sj.Signals.from_arrays([value]), code)
    assert own == pytest.approx(-np.log(after.predict().states[0][code]) - density, rel=1e-9)


def _codes(model, values):
    return model.codebook_.coded(sj.Signals.from_arrays([values])).codes


def test_it_beats_normal_numbers_that_are_independent_of_the_past():
    plain = sj.HSMM(1, 1, n_jobs=1).fit(TRAIN)
    assert MODEL.score(TEST) > plain.score(TEST) + 0.5


def test_scores_surprise_prefixes_and_streams_agree():
    rows = MODEL.surprise(TEST)
    np.testing.assert_allclose([-row.sum() for row in rows], MODEL.score_samples(TEST), rtol=1e-12)
    np.testing.assert_allclose(
        MODEL.score_samples(TEST, prefixes=True)[0][1:], -np.cumsum(rows[0]), rtol=1e-12
    )
    stream = MODEL.stream()
    first = [stream.update(step) for step in TEST[0][:20]]
    stream = MODEL.stream().restore(json.loads(json.dumps(stream.snapshot())))
    assert [*first, *stream.update_many(TEST[0][20:])] == rows[0].tolist()
    assert np.array_equal(stream.predict(2).mean, MODEL.predict_next(TEST[:1], horizon=2).mean)


def test_a_saved_model_gives_the_same_scores_and_draws(tmp_path):
    MODEL.save(tmp_path / "m")
    again = sj.load(tmp_path / "m")
    assert np.array_equal(again.score_samples(TEST), MODEL.score_samples(TEST))
    drawn = again.sample(3, 40, random_state=0)
    assert np.array_equal(drawn.values, MODEL.sample(3, 40, random_state=0).values)
    assert drawn.channels == MODEL.channels_


def test_draws_lie_in_their_cells():
    codes = np.arange(len(MODEL.codebook_.mass), dtype=np.int32).repeat(50)
    values = MODEL.codebook_.draw(codes, np.random.default_rng(0))
    assert np.array_equal(_codes(MODEL, values), codes)


def test_a_step_with_a_missing_channel_is_a_missing_step():
    some, all_missing = [x.copy() for x in TEST], [x.copy() for x in TEST]
    some[0][7, 1], all_missing[0][7] = np.nan, np.nan
    surprise = MODEL.surprise(some)[0]
    assert surprise[7] == 0.0
    assert np.array_equal(surprise, MODEL.surprise(all_missing)[0])


def test_parts_add_up_and_symbols_replace_numbers():
    model = sj.SpectralHSMM(n_jobs=1).partial_fit(TRAIN[:20])
    book = model.codebook_
    model.partial_fit(TRAIN[20:])
    assert model.codebook_ is book
    assert model.moments_.n_total == sum(map(len, TRAIN))
    model.fit([[0, 1, 1], [1, 0, 0]] * 10)
    assert model.codebook_ is None
    assert model.channels_ == ()


def test_what_cannot_be_done_with_numbers_says_so(tmp_path):
    with pytest.raises(sj.SojournError, match="not a table of numbers"):
        MODEL.score([["a", "b"]])
    with pytest.raises(sj.SojournError, match="Discretizer"):
        sj.ContextTree().fit(TRAIN)
    with pytest.raises(sj.SojournError, match="do not fit together"):
        Codebook(MODEL.codebook_.cells, MODEL.codebook_.density, np.full(4, 2.0))
    path = tmp_path / "x.csv"
    path.write_text("id,time,speed,mode\n1,1,0.5,on\n1,2,0.7,off\n")
    scan = sj.scan(path, values=["speed", "mode"], quiet=True)
    with pytest.raises(sj.SojournError, match="'mode' holds strings; an HSMM takes them"):
        sj.SpectralHSMM().fit(scan)
    with pytest.raises(sj.SojournError, match="there is no channel 'channel 0'"):
        MODEL.score(sj.Signals.from_arrays(TEST, channels=["speed", "load"]))


def test_predictions_of_prefixes_are_those_of_sequences_that_end_there():
    (rows,) = MODEL.predict_next(TEST[:1], prefixes=True)
    assert len(rows.mean) == len(TEST[0]) + 1
    alone = MODEL.predict_next([TEST[0][:n] for n in (1, 7, 50)])
    np.testing.assert_allclose(rows.quantiles[[1, 7, 50]], alone.quantiles, rtol=1e-12)
    (ahead,) = MODEL.forecast(TEST[:1], 3, prefixes=True)
    np.testing.assert_allclose(
        ahead.mean[[1, 7, 50]],
        MODEL.forecast([TEST[0][:n] for n in (1, 7, 50)], 3).mean,
        rtol=1e-12,
    )


def test_a_scan_is_learned_from_as_the_same_values_in_memory(tmp_path):
    data = sj.Signals.from_arrays(TRAIN, channels=["speed", "load"])
    owner = np.repeat(data.ids, data.lengths)
    columns = {"id": owner, "t": np.arange(data.n_total), "load": data.values[:, 1]}
    table = pa.table(columns | {"speed": data.values[:, 0]})
    pyarrow.parquet.write_table(table, tmp_path / "x.parquet", row_group_size=200)
    how = {"id": "id", "time": "t", "values": ["speed", "load"], "rows_per_partition": 400}
    scan = sj.scan(tmp_path / "x.parquet", **how)
    assert len(scan) > 2
    here, there = sj.SpectralHSMM(n_jobs=1).fit(data), sj.SpectralHSMM(n_jobs=1).fit(scan)
    assert there.channels_ == ("speed", "load")
    assert there.score_samples(scan).tolist() == there.score_samples(data).tolist()
    # The sample that cells are learned from here holds everything, partition after partition.
    assert there.score(data) == pytest.approx(here.score(data), abs=0.05)
    assert there.moments_.n_total == data.n_total
    assert there.partial_fit(scan).moments_.n_total == 2 * data.n_total
