"""The detector on measurements: abnormal ones are found and explained in words."""

import numpy as np
import pytest

import sojourn as sj
from sojourn import HSMM, AnomalyDetector, SpectralHSMM
from sojourn.detect.residuals import whiten
from sojourn.report import write_report


def machine(rng, n_stays=12):
    level = np.repeat(np.tile([0.0, 6.0], n_stays // 2), rng.integers(4, 9, size=n_stays))
    load = rng.normal(size=len(level))
    return np.column_stack([1e6 + 1e5 * (level + rng.normal(size=len(level))), load])


RNG = np.random.default_rng(0)
NORMAL = [machine(RNG) for _ in range(60)]
FRESH = [machine(RNG) for _ in range(40)]


@pytest.fixture(scope="module")
def detector():
    return AnomalyDetector(HSMM(2, 9, max_iter=10), cv=3).fit(NORMAL)


def drifted(row, by=4.0):
    row = row.copy()
    row[20:32, 1] += by
    return row


def test_a_channel_that_drifts_is_found_and_named(detector):
    odd = [drifted(row) for row in FRESH[:10]]
    assert (detector.pvalues(odd) <= 0.05).all()
    why = detector.explain(odd)[0]
    text = why.reasons[0].text
    assert text.startswith("channel 1 is ")
    assert "standard deviations above what" in text
    assert why.reasons[0].start >= 19
    assert why.reasons[0].stop <= 33


def test_false_alarms_are_as_many_as_asked_for(detector):
    # 40 fresh sequences at a rate of 5 %: two expected, more than eight once in 10,000.
    assert (detector.predict(FRESH) == -1).sum() <= 8


def test_stays_that_are_too_long_are_found(detector):
    stuck = [
        np.concatenate([row[:20], np.repeat(row[20:21], 60, axis=0), row[20:]]) for row in FRESH[:5]
    ]
    rng = np.random.default_rng(1)
    stuck = [row + rng.normal(size=row.shape) * [1e5, 1.0] * 0.5 for row in stuck]
    assert (detector.pvalues(stuck) <= 0.05).all()


def test_a_saved_detector_scores_alike(detector, tmp_path):
    detector.save(tmp_path / "d.sojourn")
    again = sj.load(tmp_path / "d.sojourn")
    np.testing.assert_array_equal(again.score_samples(FRESH), detector.score_samples(FRESH))


@pytest.mark.parametrize("method", ["residual", "loglik", "typicality"])
def test_other_methods_take_measurements(method):
    found = AnomalyDetector(HSMM(2, 9, max_iter=4), cv=2, method=method).fit(NORMAL)
    assert np.isfinite(found.score_samples(FRESH)).all()
    with pytest.raises(sj.SojournError, match=r"no channel .channel 0., which"):
        found.score_samples(sj.Signals.from_arrays(FRESH, channels=["a", "b"]))


def test_a_stream_of_measurements_raises_alarms_for_unusual_steps_only(detector):
    stream = detector.stream(rate=0.01)
    # Of some 4,000 normal steps; 240 fresh ones give two alarms on average, over twelve never.
    steps = [stream.update(row) for row in np.concatenate(FRESH[:4])]
    assert sum(step.alarm for step in steps) <= 12
    own = detector.model_.stream()
    assert [step.surprise for step in steps[:9]] == [own.update(row) for row in FRESH[0][:9]]
    assert not stream.update(None).alarm
    assert not stream.update([np.nan, np.nan]).alarm
    assert stream.update({"channel 0": 1e6, "channel 1": 30.0}).alarm


def test_a_stream_of_one_channel_takes_numbers():
    X = [np.random.default_rng(i).normal(size=20) for i in range(20)]
    stream = AnomalyDetector(HSMM(1, 2, max_iter=3), cv=2).fit(X).stream(rate=0.1)
    assert np.isfinite(stream.update(0.1).surprise)
    assert stream.update(9.0).alarm


def test_a_model_of_ends_of_measurements_can_be_the_detectors():
    X = [np.random.default_rng(i).normal(size=5 + i % 3) for i in range(30)]
    found = AnomalyDetector(HSMM(1, 2, max_iter=3, ends=True), cv=2).fit(X)
    assert found.pvalues([np.full(6, 9.0)]) <= 0.05
    assert "above" in found.explain([np.full(6, 9.0)])[0].reasons[0].text


def test_a_model_without_states_finds_and_explains_too(tmp_path):
    detector = AnomalyDetector(SpectralHSMM(n_jobs=1), cv=3).fit(NORMAL)
    odd = [drifted(row, 6.0) for row in FRESH[:10]]
    assert (detector.pvalues(odd) <= 0.05).mean() >= 0.9
    assert (detector.predict(FRESH) == -1).sum() <= 8  # as above
    reason = detector.explain(odd)[0].reasons[0]
    assert reason.text.startswith("channel 1 is ")
    assert "standard deviations above what was expected, " in reason.text
    stream = detector.stream(rate=0.01)
    assert any(stream.update(row).alarm for row in odd[0])
    detector.save(tmp_path / "d.sojourn")
    again = sj.load(tmp_path / "d.sojourn")
    np.testing.assert_array_equal(again.score_samples(FRESH), detector.score_samples(FRESH))
    write_report(detector, odd + FRESH[:5], tmp_path / "r.html")
    assert "channel 1 above what is expected" in (tmp_path / "r.html").read_text("utf-8")


def test_measurements_have_no_views_of_symbols_or_length(detector):
    found = set(detector.evidence_.views)
    assert found == {"likelihood", "stretch", "surprise", "state", "transition", "stay", "emission"}
    # Twice as long, the same otherwise: that alone is no evidence.
    both = [np.concatenate(FRESH[i : i + 2]) for i in range(0, 40, 2)]
    assert np.mean(detector.pvalues(both) <= 0.05) < 0.5


def test_what_varies_little_in_few_sequences_is_not_far_when_it_varies():
    rng = np.random.default_rng(0)
    few = np.column_stack([rng.normal(size=(20, 3)), np.zeros(20)])
    far = whiten(few).distance(np.array([[0.0, 0.0, 0.0, 0.5], [3.0, 3.0, 0.0, 0.0]]))
    assert far[0] < far[1]  # a trace of something new, and values three times their spread
