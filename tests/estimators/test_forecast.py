"""Forecasts: against enumeration of every path, draws, streams and predictions one at a time."""

import dataclasses
from itertools import product

import numpy as np
import pytest

import sojourn as sj
from sojourn.data.end import END
from sojourn.estimators.forecast import TimeTo, all_prefixes
from sojourn.exact import forward
from sojourn.spectral import answers

# Two states that end, with a tail, and a symbol that both emit.
PARAMS = sj.Params(
    [0.7, 0.3],
    [[0.2, 0.8], [0.6, 0.4]],
    [[0.5, 0.3, 0.2], [0.1, 0.6, 0.3]],
    [[0.6, 0.4, 0.0], [0.1, 0.3, 0.6]],
    tail=[0.3, 0.0],
    end=[0.1, 0.4],
    empty=0.05,
)


def fitted(params, ends=True):
    """A model with known tables, without a fit."""
    model = sj.HSMM(params.n_states, params.max_duration, ends=ends)
    model.params_, model.initial_ = params, None
    model.vocabulary_, model.n_symbols_ = (
        np.array(["a", "b", "c"][: params.n_symbols]),
        params.n_symbols,
    )
    return model


MODEL = fitted(PARAMS)
DATA = sj.Sequences.from_lists(
    [["a", "b"], ["c"], [], ["b", "b", "c"]], vocabulary=list("abc"), empty=True
)
SPECTRAL = sj.SpectralHSMM(ends=True).fit(MODEL.sample(3000, random_state=0))


def enumerated(past, target, n):
    """p(target first at step h | past), h = 1 … n, by the scores of every continuation."""
    ends = target is END
    total = _prefix_score(past)
    found = []
    for h in range(1, n + 1):
        if ends:  # of all continuations of h - 1 symbols, those that end there
            mass = sum(
                np.exp(MODEL.score_samples([[*past, *more]])[0])
                for more in product("abc", repeat=h - 1)
            )
        else:
            others = [s for s in "abc" if s != target]
            mass = sum(
                _prefix_score([*past, *more, target]) for more in product(others, repeat=h - 1)
            )
        found.append(mass / total)
    return np.array(found)


def _prefix_score(symbols):
    return np.exp(MODEL.score_samples([symbols], prefixes=True)[0][-1])


@pytest.mark.parametrize("past", DATA.to_lists(), ids="".join)
@pytest.mark.parametrize("target", ["a", "c", END])
def test_time_to_equals_the_sum_over_every_continuation(past, target):
    what = {"end": True} if target is END else {"symbol": target}
    wait = MODEL.time_to([past], **what)
    np.testing.assert_allclose(wait.probabilities[0, :4], enumerated(past, target, 4), rtol=1e-9)
    total = wait.probabilities.sum(axis=1) + wait.later + wait.never
    assert total == pytest.approx(1.0, abs=1e-9)


def test_time_to_equals_draws_within_three_standard_errors():
    drawn, states = MODEL.sample(100_000, random_state=1, return_states=True)
    waits = {
        "end": (drawn.lengths + 1, MODEL.time_to([[]], end=True)),
        "symbol": (_first(drawn.codes == 2, drawn), MODEL.time_to([[]], symbol="c")),
        "state": (_first(np.concatenate(states) == 1, drawn), MODEL.time_to([[]], state=1)),
    }
    for name, (times, wait) in waits.items():
        for h in range(1, 8):
            p = wait.probabilities[0, h - 1]
            error = np.sqrt(p * (1 - p) / len(drawn))
            assert abs(np.mean(times == h) - p) < 3 * error, (name, h)
    ends = waits["end"][1]
    error = drawn.lengths.std() / np.sqrt(len(drawn))
    assert abs((drawn.lengths + 1).mean() - ends.mean[0]) < 3 * error
    assert ends.median[0] == np.median(drawn.lengths + 1)
    assert ends.quantile(0.8)[0] == np.quantile(drawn.lengths + 1, 0.8)
    assert waits["symbol"][1].probability[0] == pytest.approx(
        np.mean(waits["symbol"][0] > 0), abs=0.01
    )


def _first(there, drawn):
    """The first step of each sequence at which something is there, 0 if none."""
    parts = np.split(there, drawn.offsets[1:-1])
    return np.array([int(np.argmax(part)) + 1 if part.any() else 0 for part in parts])


@pytest.mark.parametrize("model", [MODEL, SPECTRAL], ids=["em", "spectral"])
def test_forecasts_sum_to_one_and_are_those_of_predict_next_and_of_streams(model):
    made = model.forecast(DATA, 5)
    assert made.outcomes == ("a", "b", "c", END)
    np.testing.assert_allclose(made.probabilities.sum(axis=2), 1.0, atol=1e-12)
    for h in range(1, 6):
        alone = model.predict_next(DATA, horizon=h)  # by powers of its own: other rounding
        np.testing.assert_allclose(made.probabilities[:, h - 1], alone, rtol=1e-12)
    every = model.forecast(DATA, 5, prefixes=True)
    assert [len(rows) for rows in every] == [3, 2, 1, 4]
    for rows, whole in zip(every, made.probabilities, strict=True):
        np.testing.assert_allclose(rows[-1], whole, atol=1e-12)
    for row, going_on in zip(DATA, made.likeliest, strict=True):
        stream = model.stream()
        for symbol in row:
            stream.update(symbol)
        assert going_on[0] == made.outcomes[int(stream.predict().argmax())]
        assert len(going_on) == 5 or going_on[-1] is END


@pytest.mark.parametrize("model", [MODEL, SPECTRAL], ids=["em", "spectral"])
@pytest.mark.parametrize("prefixes", [False, True])
def test_a_forecast_takes_each_step_from_the_one_before(model, prefixes, monkeypatch):
    steps = []
    for module, name in ((forward, "step_unseen"), (answers, "unseen")):
        plain = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *a, f=plain: steps.append(a) or f(*a))
    model.forecast(DATA, 40, prefixes=prefixes)
    # 40 for each sequence or prefix, and what the likeliest continuation takes
    assert len(steps) <= 2.5 * 40 * (len(DATA) + prefixes * DATA.n_total)


def test_a_forecast_of_more_steps_than_can_be_kept_is_refused():
    with pytest.raises(sj.SojournError, match="expected at most 1,000,000 steps"):
        MODEL.forecast(DATA, 10**7)


@pytest.mark.parametrize("model", [MODEL, SPECTRAL], ids=["em", "spectral"])
def test_prefixes_are_scored_and_predicted_as_sequences_of_their_own(model):
    scores = model.score_samples(DATA, prefixes=True)
    nexts = model.predict_next(DATA, prefixes=True)
    for row, own, ahead in zip(DATA, scores, nexts, strict=True):
        for t in range(len(row) + 1):
            alone = model.predict_next([row[:t]])[0]
            np.testing.assert_allclose(ahead[t], alone, atol=1e-12)
            # what ends here is what goes on to here, times the end
            assert own[t] + np.log(alone[-1]) == pytest.approx(model.score_samples([row[:t]])[0])


def test_the_first_steps_of_a_spectral_model_are_its_predictions():
    wait = SPECTRAL.time_to(DATA, end=True)
    np.testing.assert_allclose(wait.probabilities[:, 0], SPECTRAL.predict_next(DATA)[:, -1])
    wait = SPECTRAL.time_to(DATA, symbol="a")
    np.testing.assert_allclose(wait.probabilities[:, 0], SPECTRAL.predict_next(DATA)[:, 0])
    exact = MODEL.time_to(DATA, symbol="a")
    # learned from 3000 sequences of about six symbols: a standard error of some hundredths
    np.testing.assert_allclose(wait.probabilities[:, :3], exact.probabilities[:, :3], atol=0.06)
    total = wait.probabilities.sum(axis=1) + wait.later + wait.never
    np.testing.assert_allclose(total, 1.0, atol=1e-9)


def test_waits_of_sequences_do_not_depend_on_those_beside_them():
    data = sj.Params.random(2, 3, 3, rng=0).sample(300, 40, rng=1)
    rows = [data[0][:2], data[1][:30]]
    for algorithm in ("contexts", "per_step"):  # steps of the latter have their own operators
        model = sj.SpectralHSMM(2, 3, algorithm=algorithm, rank=4).fit(data)
        both = model.time_to(rows, symbol=1).probabilities
        for row, p in zip(rows, both, strict=True):
            alone = model.time_to([row], symbol=1).probabilities[0]
            # what is left out at the end is up to 1e-9
            np.testing.assert_allclose(p[: len(alone)], alone[: len(p)], rtol=1e-9, atol=1e-9)


def test_means_and_quantiles_of_a_geometric_wait():
    p = 0.02 * 0.98 ** np.arange(50)[None]
    wait = TimeTo(p, 1 - p.sum(axis=1), np.zeros(1), 2.0, "hours")
    assert wait.mean[0] == pytest.approx(100.0)  # the tail goes on as it was
    assert wait.median[0] == 70.0
    assert wait.quantile(0.9)[0] == np.inf
    assert TimeTo(p, 0 * p[:, 0], 1 - p.sum(axis=1)).mean[0] == np.inf
    with pytest.raises(sj.SojournError, match="q is 1; expected a probability"):
        wait.quantile(1)


@pytest.mark.parametrize(
    ("model", "what", "message"),
    [
        (MODEL, {}, "pass one of state=, symbol= and end=True"),
        (MODEL, {"end": True, "state": 1}, "pass one of state=, symbol= and end=True"),
        (MODEL, {"symbol": "z"}, "symbol is 'z', which is not in the vocabulary"),
        (MODEL, {"state": 2}, "state is 2; there are states 0 to 1"),
        (MODEL, {"state": 1.5}, "state is 1.5; there are .* 'state 0', 'state 1'"),
        (MODEL, {"state": "C"}, "state is 'C'; there are .* 'state 0', 'state 1'"),
        (SPECTRAL, {"state": 0}, "state= is for HSMM; a SpectralHSMM has no states"),
        (
            fitted(sj.Params.random(2, 2, 3, rng=0), ends=False),
            {"end": True},
            "fit it with ends=True",
        ),
    ],
)
def test_waits_that_cannot_be(model, what, message):
    with pytest.raises(sj.SojournError, match=message):
        model.time_to([["a"]], **what)


def test_a_state_to_wait_for_is_given_by_its_name_too():
    model = fitted(PARAMS).name_states(["A", "C"])
    by_name, by_number = (model.time_to(DATA, state=state) for state in ("C", np.int64(1)))
    np.testing.assert_array_equal(by_name.probabilities, by_number.probabilities)


NUMBERS = [np.random.default_rng(i).normal(size=20) for i in range(20)]


def test_a_forecast_of_numbers_is_predict_next_at_each_step():
    model = sj.HSMM(2, 4, max_iter=3).fit(NUMBERS)
    found = model.forecast(NUMBERS[:3], horizon=2)
    assert found.mean.shape == (3, 2, 1)
    assert found.quantiles.shape == (3, 2, 3, 1)
    for h in (1, 2):
        one = model.predict_next(NUMBERS[:3], horizon=h)
        for name in ("mean", "quantiles", "states", "ended"):
            np.testing.assert_array_equal(getattr(found, name)[:, h - 1], getattr(one, name))
    rows = model.forecast(NUMBERS[:2], 2, prefixes=True)
    np.testing.assert_allclose(rows[1].mean[-1], model.forecast(NUMBERS[1:2], 2).mean[0])
    np.testing.assert_allclose(
        model.predict_next(NUMBERS[:2], prefixes=True)[0].quantiles, rows[0].quantiles[:, 0]
    )


# ---- remaining time ----------------------------------------------------------------------------


def timed(n, seed):
    """Cases whose symbols are followed by an hour ("a"), two ("b") or ten ("c"), half or double."""
    drawn = MODEL.sample(n, random_state=seed)
    rng = np.random.default_rng(seed)
    gaps = np.array([1.0, 2.0, 10.0])[drawn.codes] * 2 ** rng.uniform(-1, 1, drawn.n_total)
    starts = np.repeat(drawn.offsets[:-1], drawn.lengths)
    hours = np.cumsum(gaps) - gaps
    times = (1e6 * 3600 * (hours - hours[starts])).astype("m8[us]") + np.datetime64(
        "2026-01-01", "us"
    )
    return dataclasses.replace(drawn, times=times)


def test_remaining_time_is_covered_and_beats_the_mean_by_length():
    model = sj.HSMM(2, 3, ends=True, tail=False, random_state=0, max_iter=10).fit(timed(800, 2))
    test = timed(400, 4)
    parts, owner = all_prefixes(test)
    found = model.remaining_time(parts, held_out=timed(800, 3))
    last = test.times[test.offsets[1:] - 1][owner]
    actual = (last - test.times) / np.timedelta64(1, "h")
    assert found.unit == "hours"
    covered = np.mean((found.low <= actual) & (actual <= found.high))
    # about 3000 prefixes in 400 cases: a standard error of about 0.01
    assert 0.87 < covered < 0.93
    by_length = np.array([actual[parts.lengths == n].mean() for n in parts.lengths])
    assert np.abs(found.time - actual).mean() < np.abs(by_length - actual).mean()
    rows = model.remaining_time(test, held_out=timed(800, 3), prefixes=True)
    assert [len(row.high) for row in rows] == test.lengths.tolist()
    for name in ("time", "low", "high"):
        assert np.array_equal(
            np.concatenate([getattr(r, name) for r in rows]), getattr(found, name)
        )
    with pytest.warns(
        UserWarning, match="2 events, too few for intervals of 90 ?%.*give 19 or more"
    ):
        few = model.remaining_time(parts[:1], held_out=parts[parts.lengths == 2][:1])
    assert np.isinf(few.high).all()
    plain = model.remaining_time(parts)
    assert np.isnan(plain.low).all()
    assert np.abs(plain.time.mean() - actual.mean()) < 0.1 * actual.mean()
    not_begun = [model.remaining_time(rows).time[0] for rows in ([[]], [[], ["a"]])]
    assert not_begun[0] == pytest.approx(not_begun[1], rel=1e-6)  # waits are cut at 1e-9


def test_remaining_time_on_a_clock_is_the_wait_for_the_end():
    days = np.array(["2026-01-01", "2026-01-03", "2026-01-01", "2026-01-02"], "M8[D]")
    seqs = sj.Sequences.from_columns(list("abab"), list("xxyy"), time=days)
    model = sj.HSMM(1, 2, ends=True, random_state=0, max_iter=5).fit(seqs.resample("1d"))
    assert model.clock_.every == "1d"
    wait, rest = model.time_to([["a"]], end=True), model.remaining_time([["a"]])
    assert wait.unit == rest.unit == "days"
    assert rest.time == wait.median - 1


def test_plots_say_the_unit_of_the_clock():
    data = sj.Sequences.from_columns(
        list("abab"), time=np.arange(4) * np.timedelta64(50, "m") + np.datetime64("2026-01-01")
    )
    model = sj.HSMM(1, 3, random_state=0, max_iter=3).fit(data.resample("30min"))
    assert model.step_ == (30.0, "minutes")
    ax = sj.plot.durations(model)
    assert ax.get_xlabel() == "minutes in a stay"
    assert ax.get_xlim() == (15.0, 105.0)
    timeline = sj.plot.timeline(model, data.resample("30min"))
    assert timeline.get_xlabel() == "minutes"
    assert timeline.xaxis.get_major_formatter()(2, None) == "60"
    table = model.summary()
    assert (table.step, table.unit) == (30.0, "minutes")
    assert f"{30 * table.rows[0].mean:.1f} ±" in str(table)
    assert "minutes" in str(table).splitlines()[0]


def test_clock_and_gaps_are_saved(tmp_path):
    data = timed(200, 5)
    for seqs in (data, data.resample("1h")):
        model = sj.SpectralHSMM(ends=True).fit(seqs)
        model.save(tmp_path / "m.sojourn")
        again = sj.load(tmp_path / "m.sojourn")
        assert again.clock_ == model.clock_ == seqs.clock
        assert (
            again.remaining_time(seqs[:5]).time.tolist()
            == model.remaining_time(seqs[:5]).time.tolist()
        )


def test_remaining_time_needs_ends_and_times():
    with pytest.raises(sj.SojournError, match="fit it with ends=True"):
        fitted(sj.Params.random(2, 2, 3, rng=0), ends=False).remaining_time([["a"]])
    model = sj.SpectralHSMM(ends=True).fit(timed(100, 6))
    with pytest.raises(sj.SojournError, match="held_out has no times"):
        model.remaining_time([["a"]], held_out=[["a", "b"]])
    with pytest.raises(sj.SojournError, match="coverage is 2; expected a probability"):
        model.remaining_time([["a"]], coverage=2)


def test_remaining_time_of_numbers_takes_numbers_held_out():
    model = sj.HSMM(2, 4, ends=True, max_iter=3).fit(NUMBERS[:10])
    found = model.remaining_time([NUMBERS[0][:5]], held_out=NUMBERS[10:])
    assert 0.0 <= found.low[0] <= found.time[0] <= found.high[0] <= 19.0  # steps after the first


def test_remaining_time_is_exact_where_many_held_out_cases_began_alike():
    cases = [
        ["ask"] + ["check"] * (1 + i % 3) + (["pay"] if i % 4 else ["refuse"]) for i in range(200)
    ]
    model = sj.SpectralHSMM(ends=True).fit(cases[:100])
    begun = [["ask"], ["ask", "check", "check", "check"], ["ask", "check", "pay"]]
    found = model.remaining_time(begun, held_out=cases[100:])
    assert found.time.tolist() == [3.0, 1.0, 0.0]
    assert found.low.tolist() == [2.0, 1.0, 0.0]
    assert found.high.tolist() == [4.0, 1.0, 0.0]
    with pytest.raises(sj.SojournError, match="held_out holds no symbols"):
        model.remaining_time(begun, held_out=[[]])


def test_a_model_of_steps_of_a_clock_refuses_events_that_are_not_on_it():
    times = np.array(["2026-01-01T00", "2026-01-01T05", "2026-01-01T09"] * 20, "datetime64[h]")
    ids = np.repeat(np.arange(20), 3)
    events = sj.Sequences.from_columns(ids, ["a", "b", "c"] * 20, time=times)
    model = sj.SpectralHSMM(ends=True).fit(events.resample("2h"))
    assert np.isfinite(model.score(events.resample("2h")))
    with pytest.raises(sj.SojournError, match=r"steps of 2h.*pass X\.resample\('2h'\)"):
        model.score(events)
    for ask in (model.score_samples, model.forecast, model.partial_fit):
        with pytest.raises(sj.SojournError, match=r"counts steps of 2h, and X holds steps of 1h"):
            ask(events.resample("1h"))
    model.partial_fit(events.resample("2h").to_lists())  # nobody knows what steps these are
    assert model.clock_.every == "2h"
    model = sj.SpectralHSMM(ends=True).fit(events)
    with pytest.raises(sj.SojournError, match="without a clock, and X has steps of 2h"):
        model.time_to(events.resample("2h"), end=True)


def test_a_detector_takes_steps_of_its_models_clock_alone():
    events = timed(60, 6)
    detector = sj.AnomalyDetector(sj.SpectralHSMM(ends=True), cv=2).fit(events.resample("2h"))
    assert detector.predict(events.resample("2h")).shape == (60,)
    for other in (events, events.resample("1h")):
        with pytest.raises(sj.SojournError, match="the model counts steps of 2h"):
            detector.predict(other)


def test_a_scan_of_another_clock_than_the_models_is_refused(tmp_path):
    (tmp_path / "a.csv").write_text(
        "id,time,symbol\n" + "".join(f"{i},2026-01-01T0{2 * k},a\n" for i in "ab" for k in range(4))
    )
    model = sj.HSMM(1, 2, max_iter=2).fit(sj.read(tmp_path / "a.csv", quiet=True, every="1h"))
    for how in ({}, {"every": "2h"}):
        with pytest.raises(sj.SojournError, match="the model counts steps of 1h"):
            model.score(sj.scan(tmp_path / "a.csv", quiet=True, **how))
    assert model.score(sj.scan(tmp_path / "a.csv", quiet=True, every="1h")) <= 0.0
