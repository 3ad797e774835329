"""The detector on measurements: abnormal ones are found and explained in words."""

import numpy as np
import pytest

import sojourn as sj
from sojourn import HSMM, AnomalyDetector


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
