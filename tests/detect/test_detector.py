"""The detector: calibrated, consistent, saved to the same bits, with reasons."""

import json
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import sojourn as sj
from sojourn import cli
from sojourn.detect import METHODS
from sojourn.detect.calibration import Calibration
from sojourn.detect.combination import GROUPS, evidence, learn_evidence
from sojourn.detect.explain import VIEWS_OF
from sojourn.detect.overall import WHAT, sentence
from sojourn.detect.residuals import _shared, _timing, symbol_counts, whiten
from sojourn.detect.stream import learn_tail

P = sj.Params.random(2, 3, 4, rng=0)
TRAIN, TEST = P.sample(60, 60, rng=1), P.sample(40, 60, rng=2)
ODD = [[0] * 60, [0, 1, 2, 3] * 15]


def hsmm():
    return sj.HSMM(2, 3, max_iter=10, tol=1e-3, verbose=False)


@pytest.fixture(scope="module")
def detector():
    return sj.AnomalyDetector(hsmm(), cv=3).fit(P.sample(200, 60, rng=3))


@pytest.mark.parametrize("method", METHODS)
def test_verdicts_p_values_and_scores_agree(method):
    found = sj.AnomalyDetector(sj.SpectralHSMM(2, 2), method=method, contamination=0.1).fit(TRAIN)
    decision = found.decision_function(TEST)
    assert np.array_equal(found.predict(TEST) == -1, decision < 0)
    assert np.array_equal(found.predict(TEST) == -1, found.pvalues(TEST) <= 0.1)
    np.testing.assert_array_equal(found.score_samples(TEST) - found.offset_, decision)
    # Combined scores lie between those of training that their rank says, a few at the edge.
    assert len(np.unique(decision)) >= len(TEST) - 4


def test_margin_is_negative_exactly_where_the_p_value_is_at_most_the_rate():
    rng = np.random.default_rng(0)
    held = rng.integers(0, 9, 50) * 1.0
    held[:3] = -np.inf
    calibration = Calibration(held)
    new = np.append(rng.integers(-1, 9, 200) * 1.0, -np.inf)  # with many ties
    for rate in (0.02, 0.1, 0.37):
        assert np.array_equal(calibration.margin(new, rate) < 0, calibration.pvalues(new) <= rate)


def test_counts_of_symbols_leave_out_missing_ones():
    found = symbol_counts(sj.Sequences.from_lists([[0, 1, 1], [0, None]]))
    np.testing.assert_array_equal(found, [[1, 2], [1, 0]])
    halves = symbol_counts(sj.Sequences.from_lists([[0, 1, 1, 1], [0, None]]), parts=2)
    np.testing.assert_array_equal(halves, [[1, 1], [0, 2], [1, 0], [0, 0]])


def test_whitened_distances_of_normal_rows_have_mean_zero():
    rows = np.random.default_rng(0).normal(size=(1000, 3))
    learned = whiten(rows[:500])
    learned = learned.scaled(learned.distance(rows[500:]))
    assert abs(learned.standard(rows).mean()) < 0.1


def test_p_values_by_hand():
    found = Calibration(np.array([1.0, 3.0, 2.0])).pvalues(np.array([1.0, 2.5, 0.0]))
    np.testing.assert_array_equal(found, [2 / 4, 3 / 4, 1 / 4])


@pytest.mark.parametrize("method", METHODS)
def test_false_alarms_come_at_the_nominal_rate(method):
    n, m, draws, rate = 49, 50, 30, 0.1
    alarms = []
    for draw in range(draws):
        found = sj.AnomalyDetector(
            sj.SpectralHSMM(2, 1, algorithm="adjacent", windows=(0,), rank=2),
            method=method,
            contamination=rate,
        )
        found.fit(P.sample(n, 40, rng=100 + draw))
        alarms.append((found.predict(P.sample(m, 40, rng=900 + draw)) == -1).mean())
    # beta-binomial: the spread of one draw's rate; three standard errors of the mean of all
    spread = np.sqrt(rate * (1 - rate) * (1 / m + 1 / (n + 2)))
    assert abs(np.mean(alarms) - rate) < 3 * spread / np.sqrt(draws)


def test_odd_sequences_are_found_and_explained(detector):
    assert (detector.predict(ODD) == -1).all()
    first, second = detector.explain(ODD)
    assert first.pvalue <= 2 / 201  # one of training has an emission that no other has
    assert first.score == detector.score_samples(ODD)[0]
    texts = [reason.text for reason in first.reasons]
    assert any(t.startswith("2 never occurs; 99 % of normal sequences have it by") for t in texts)
    weights = [reason.weight for reason in second.reasons]
    assert weights[0] == max(weights)
    surprise = detector.model_.surprise(ODD)[0]
    assert surprise[list(first.steps)].min() >= np.sort(surprise)[-len(first.steps)]
    assert f"p-value {first.pvalue:.2g}" in str(first)


def test_places_of_reasons_lie_in_an_empty_sequence_too():
    rows = [row[: 2 + i % 7] for i, row in enumerate(TRAIN)]
    found = sj.AnomalyDetector(sj.SpectralHSMM(ends=True)).fit(rows).explain([[]])[0]
    assert [(r.start, r.stop) for r in found.reasons if r.kind == "end"] == [(0, 0)]


def test_a_long_stay_is_a_reason():
    a, b = [0] * 5, [1] * 5
    rng = np.random.default_rng(0)

    def flight(long=False):
        runs = [[i % 2] * int(rng.integers(3, 6)) for i in range(10)]
        runs[4] = [0] * 12 if long else runs[4]
        return [symbol for run in runs for symbol in run]

    model = sj.HSMM(2, 14, verbose=False, max_iter=20)
    found = sj.AnomalyDetector(model, cv=2).fit([flight() for _ in range(40)] + [a + b, b + a])
    why = found.explain([flight(long=True)])[0]
    stay = next(reason for reason in why.reasons if reason.kind == "stay")
    assert "stays 12 steps in state 0 (mostly 0); 99 % of normal stays there end within 5" in (
        stay.text
    )
    assert stay.stop - stay.start == 12


def test_symbols_that_are_re_timed_but_equally_frequent_are_found(detector):
    sorted_ones = [sorted(row) for row in TEST]
    assert (detector.predict(sorted_ones) == -1).mean() > 0.9


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["hsmm", "spectral"])
def test_a_saved_detector_gives_the_same_numbers(name, method, tmp_path):
    model = hsmm() if name == "hsmm" else sj.SpectralHSMM(2, 2)
    found = sj.AnomalyDetector(model, method=method, cv=2).fit(TRAIN)
    found.save(tmp_path / "detector.sojourn")
    again = sj.load(tmp_path / "detector.sojourn")
    assert again.explain(TEST) == found.explain(TEST)
    np.testing.assert_array_equal(again.predict(TEST), found.predict(TEST))
    assert again.get_params()["method"] == method


def test_a_fitted_model_is_only_calibrated(tmp_path):
    model = hsmm().fit(TRAIN)
    found = sj.AnomalyDetector(model, refit=False, cv=2).fit(P.sample(40, 60, rng=5))
    assert found.model_ is model
    found.save(tmp_path / "detector.sojourn")
    again = sj.load(tmp_path / "detector.sojourn")
    np.testing.assert_array_equal(again.pvalues(TEST), found.pvalues(TEST))
    with pytest.raises(NotFittedError):
        sj.AnomalyDetector(hsmm(), refit=False).fit(TRAIN)


def test_too_few_sequences_for_a_rate_are_refused_with_the_least_p_value():
    found = sj.AnomalyDetector(sj.SpectralHSMM(2, 2), contamination=0.01)
    with pytest.raises(sj.SojournError, match=r"1/61 = 0.016 and more.*at least 99 sequences"):
        found.fit(TRAIN)


def test_identical_training_sequences_give_a_warning():
    found = sj.AnomalyDetector(hsmm(), cv=2)
    with pytest.warns(UserWarning, match="all 30 training sequences are identical"):
        found.fit([[0, 0, 1, 1, 2, 0]] * 30)
    assert found.predict([[0, 0, 1, 1, 2, 0], [2, 2, 2, 0, 0, 1]]).tolist() == [1, -1]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"contamination": 0}, "contamination is 0"),
        ({"contamination": "auto"}, "contamination is 'auto'"),
        ({"method": "distance"}, "method is 'distance'"),
        ({"cv": 1}, "cv is 1"),
        ({"model": sj.HSMM}, "model is HSMM; give an HSMM"),
        ({"model": 3}, "model is int"),
        ({"model": None}, r"model is None; give an HSMM\(\.\.\.\) or a SpectralHSMM"),
    ],
)
def test_bad_arguments_are_refused(options, words):
    with pytest.raises(sj.SojournError, match=words):
        sj.AnomalyDetector(**{"model": sj.SpectralHSMM(2, 2), **options}).fit(TRAIN)


def test_a_detector_without_a_model_says_so_when_it_is_fitted():
    with pytest.raises(sj.SojournError, match="model is None; give"):
        clone(sj.AnomalyDetector()).fit(TRAIN)


def test_an_unfitted_detector_is_refused():
    with pytest.raises(NotFittedError):
        sj.AnomalyDetector(hsmm()).pvalues(TEST)


def test_a_fit_by_another_thread_does_not_mix_with_what_is_scored(monkeypatch):
    first, second = (P.sample(60, 30, rng=rng) for rng in (1, 2))
    detector = sj.AnomalyDetector(sj.SpectralHSMM(2, 3), method="loglik", cv=2).fit(first)
    expected, scores_of = detector.pvalues(second), sj.AnomalyDetector._scores

    def refitted_meanwhile(self, encoded):
        scores = scores_of(self, encoded)
        detector.__dict__ = clone(detector).fit(second).__dict__
        return scores

    monkeypatch.setattr(sj.AnomalyDetector, "_scores", refitted_meanwhile)
    assert np.array_equal(detector.pvalues(second), expected)


def test_a_clone_is_not_fitted(detector):
    copy = clone(detector)
    assert not hasattr(copy, "model_")
    assert copy.model is not detector.model


def test_a_symbol_that_no_model_can_produce_is_abnormal():
    model = sj.HSMM(2, 3, pseudocount=0.0, max_iter=10, verbose=False)
    train = sj.Sequences(TRAIN.codes, TRAIN.offsets, np.arange(5), TRAIN.ids)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        found = sj.AnomalyDetector(model, cv=2).fit(train)
        assert found.predict([[4] * 60]).tolist() == [-1]


@pytest.mark.parametrize("method", METHODS)
def test_a_novel_symbol_is_the_first_reason_and_has_the_least_p_value(method):
    words = np.array(["a", "b", "c", "d"])
    train, new = ([words[row].tolist() for row in rows] for rows in (TRAIN, TEST[:1]))
    found = sj.AnomalyDetector(sj.SpectralHSMM(2, 2), method=method, cv=2).fit(train)
    (normal,) = new
    odd = [*normal[:20], "hover", *normal[21:]]
    why, worse = found.explain([odd, ["hover"] * 60])
    assert why.pvalue == worse.pvalue == 1 / 61
    assert worse.score < why.score < found.score_samples(new)[0]
    first = why.reasons[0]
    assert (first.kind, first.start, first.stop, why.steps[0]) == ("novel", 20, 21, 20)
    assert first.text.startswith("hover occurs, once, first at step 21;")
    assert found.set_params(unknown="missing").score_samples([odd])[0] > why.score + 50
    with pytest.raises(sj.SojournError, match="'hover' at position 20"):
        found.set_params(unknown="error").pvalues([odd])


def test_a_symbol_of_the_vocabulary_that_training_lacks_is_novel():
    train = sj.Sequences(TRAIN.codes, TRAIN.offsets, np.arange(5), TRAIN.ids)
    found = sj.AnomalyDetector(sj.SpectralHSMM(2, 2), cv=2).fit(train)
    why = found.explain([[*TEST[0][:59], 4]])[0]
    assert (why.pvalue, why.reasons[0].kind) == (1 / 61, "novel")


def test_random_novelties_never_stop_the_detector(detector):
    rng = np.random.default_rng(0)
    codes = TEST.codes.copy()
    codes[rng.random(codes.size) < 0.1] = 9
    rows = [codes[i : i + i % 30 + 1] for i in rng.integers(0, 900, 500).tolist()]
    assert ((detector.pvalues(rows) == 1 / 201) >= [9 in row for row in rows]).all()


def test_normal_sequences_with_rare_symbols_are_not_all_alarms():
    rng = np.random.default_rng(0)

    def rows(n, start):  # every tenth sequence has a symbol of its own
        drawn = P.sample(n, 30, rng=start).to_lists()
        for i in range(0, n, 10):
            drawn[i][int(rng.integers(30))] = start + i
        return drawn

    found = sj.AnomalyDetector(sj.SpectralHSMM(2, 2), contamination=0.05).fit(rows(100, 1000))
    # 10 % of normal sequences have a novel symbol: half of them at most can be alarms at 5 %,
    # with three standard errors of a share of 200
    assert (found.predict(rows(200, 5000)) == -1).mean() < 0.05 + 3 * np.sqrt(0.05 / 100)


def test_a_symbol_of_one_training_sequence_is_to_its_fold_as_any_novel_one():
    rows = P.sample(60, 30, rng=3).to_lists()
    rows[7][5] = 900
    found = sj.AnomalyDetector(sj.SpectralHSMM(2, 2)).fit(rows)
    fold = int(np.flatnonzero(~found.seen_.all(axis=1))[0])
    other = [*rows[7][:5], 901, *rows[7][6:]]
    own, new = (found._views(fold, found._encode([row], None)) for row in (rows[7], other))
    for view, value in own.items():
        np.testing.assert_array_equal(value, new[view], err_msg=view)


def test_alarms_of_a_stream_come_at_about_their_rate():
    found = sj.AnomalyDetector(hsmm(), cv=3).fit(P.sample(400, 100, rng=4))
    stream, rate = found.stream(rate=0.02), 0.02
    normal = P.sample(1, 20_000, rng=5)[0]
    alarms = sum(stream.update(symbol).alarm for symbol in normal)
    assert rate / 1.5 < alarms / len(normal) < rate * 1.5  # the factor that is promised
    again = stream.fork().reset()
    assert not again.update(normal[0]).alarm
    assert (again.n_seen, stream.n_seen) == (1, len(normal))


def test_alarms_of_a_model_without_states_come_at_about_their_rate():
    # Surprises of folds differ a little from those of the model: compared with these there were
    # half as many alarms as asked for.
    p = sj.Params.random(2, 4, 6, rng=42)
    detector = sj.AnomalyDetector(sj.SpectralHSMM()).fit(p.sample(450, 100, rng=1))
    stream = detector.stream(rate=0.01)
    alarms = sum(stream.update(symbol).alarm for symbol in p.sample(1, 50_000, rng=2)[0])
    assert 50_000 * 0.01 / 1.5 < alarms < 50_000 * 0.01 * 1.5


def test_a_stream_of_novel_and_missing_symbols(detector, tmp_path):
    detector.save(tmp_path / "d.sojourn")
    again = sj.load(tmp_path / "d.sojourn").stream()
    stream = detector.stream()
    novel = stream.update(9)
    assert (novel.surprise, novel.alarm) == (np.inf, True)
    assert stream.update(None) == (0.0, 1.0, False)
    again.update(9), again.update(None)
    batch = detector.model_.set_params(unknown="missing").surprise([[9, None, 2, 1]])[0]
    detector.model_.set_params(unknown="error")
    for symbol, surprise in zip([2, 1], batch[2:], strict=True):
        step = stream.update(symbol)
        assert step == again.update(symbol)
        assert step.surprise == surprise
    with pytest.raises(sj.SojournError, match=r"rate is 1e-09, but .* normal steps give p-values"):
        detector.stream(rate=1e-9)


def test_a_stretch_has_its_own_reasons(detector):
    odd = [*TEST[0][:30], *[9] * 3, *TEST[0][33:]]
    before, inside = (detector.explain([odd], stretch=s)[0] for s in ((0, 20), (25, 40)))
    assert all(0 <= step < 20 for step in before.steps)
    assert inside.reasons[0].kind == "novel"
    assert all(reason.kind != "novel" for reason in before.reasons)
    n = len(odd)
    assert detector.explain([odd], stretch=(0, n))[0].steps
    for outside in ((n - 9, n + 1), (-5, 3), (7, 7), (9, 3)):
        with pytest.raises(sj.SojournError, match=rf"stretch is .*, and sequence 0 has {n} steps"):
            detector.explain([odd], stretch=outside)


def events(path, sequences):
    rows = [f"{i},{t},{s}" for i, row in enumerate(sequences) for t, s in enumerate(row)]
    path.write_text("\n".join(["id,time,symbol", *rows]), "utf-8")
    return str(path)


def test_the_command_detects(tmp_path, capsys):
    train = events(tmp_path / "train.csv", TRAIN)
    odd = events(tmp_path / "odd.csv", ODD)
    normal = events(tmp_path / "normal.csv", P.sample(40, 60, rng=5))
    sizes = ["--method", "spectral", "--states", "2", "--max-duration", "2", "-q"]
    file, plain = str(tmp_path / "d.sojourn"), str(tmp_path / "m.sojourn")
    assert cli.run(["fit", train, *sizes, "--detector", "--contamination", "0.1", "-o", file]) == 0
    assert cli.run(["fit", train, *sizes, "-o", plain]) == 0
    capsys.readouterr()
    assert cli.run(["detect", file, odd, "-q"]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert head == "id,score,p_value,verdict,reason"
    assert [row.split(",")[3] for row in rows] == ["abnormal", "abnormal"]
    assert cli.run(["detect", plain, odd, "--normal", normal, "-q", "--format", "json"]) == 0
    assert '"verdict": "abnormal"' in capsys.readouterr().out
    assert cli.run(["detect", file, odd, "-q", "--check", "--reasons", "3"]) == 3
    assert " | " in capsys.readouterr().out.splitlines()[1]
    assert cli.run(["detect", file, odd, "-q", "--reasons", "3", "--format", "json"]) == 0
    first = json.loads(capsys.readouterr().out)[0]
    assert first["reason"] == first["reasons"][0]
    assert 1 < len(first["reasons"]) <= 3
    assert cli.run(["detect", plain, odd, "-q"]) == 1
    assert "give some with --normal" in capsys.readouterr().err
    novel = events(tmp_path / "novel.csv", [*ODD, [7, *TEST[0][1:]]])
    assert cli.run(["detect", file, novel, odd, "-q"]) == 0  # one of two files has it
    assert "7 occurs, once" in capsys.readouterr().out.splitlines()[3]
    assert cli.run(["detect", file, novel, "-q", "--unknown", "error"]) == 1
    assert cli.run(["detect", plain, novel, "--normal", normal, "-q"]) == 0
    assert "7 occurs, once" in capsys.readouterr().out.splitlines()[3]
    assert cli.run(["score", file, odd, "-q"]) == 0
    assert cli.run(["info", file]) == 0
    assert "training sequences,60" in capsys.readouterr().out


CASES = [["ask"] + ["check"] * (1 + i % 3) + (["pay"] if i % 4 else ["refuse"]) for i in range(100)]


@pytest.mark.parametrize("method", ["combined", "residual"])
@pytest.mark.parametrize(
    "model",
    [
        sj.SpectralHSMM(2, 2, ends=True),
        sj.HSMM(2, 3, max_iter=3, ends=True),
        sj.ContextTree(ends=True),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_model_of_ends_can_be_the_detectors(model, method):
    found = sj.AnomalyDetector(model, method=method).fit(CASES)  # folds that hold all kinds
    odd = [["refuse", "ask", "check", "ask"], []]
    assert (found.pvalues(odd) <= 0.05).all()
    assert all(why.reasons for why in found.explain(odd))
    # Streams have steps, not ends: no normal step is compared with an end.
    assert found.steps_.surprise.n == sum(map(len, CASES))


def test_the_end_of_a_model_of_ends_counts_in_the_likelihood():
    found = sj.AnomalyDetector(sj.ContextTree(ends=True), cv=2).fit(CASES)
    whole = found._encode(CASES[:1], None)
    values = found._views(0, whole)["likelihood"]
    expected = -found.fold_models_[0].score_samples(CASES[:1]) / len(CASES[0])
    np.testing.assert_allclose(values, expected, rtol=1e-12)  # sums in another order


def test_the_command_line_detects_and_reports_with_a_model_of_ends(tmp_path, capsys):
    data, model, page = (str(tmp_path / name) for name in ("d.csv", "m.sojourn", "r.html"))
    rows = [f"{i},{t},{s}" for i, case in enumerate(CASES) for t, s in enumerate(case)]
    (tmp_path / "d.csv").write_text("\n".join(["id,time,symbol", *rows]), "utf-8")
    sizes = ["--states", "2", "--max-duration", "3", "--max-iter", "3", "--ends", "--detector"]
    for args in (
        ["fit", data, *sizes, "-o", model],
        ["detect", model, data],
        ["score", model, data, "--steps"],
        ["report", model, data, "-o", page, "--worst", "2"],
    ):
        assert cli.run(args) == 0, capsys.readouterr().err


def test_a_view_that_hardly_varies_makes_no_evidence_of_rounding():
    rng = np.random.default_rng(0)
    held = 0.3 + 1e-12 * rng.normal(size=80)
    found = evidence(held, np.array([0.3 - 1e-11, 0.3, 0.3 + 1e-11, 0.4]))[:, 0]
    assert np.allclose(found[:3], np.log(2))  # among equal ones
    assert found[3] > np.log(80)


def test_what_is_bounded_is_no_stronger_than_the_least_p_value():
    held = np.arange(99.0)
    far, near = evidence(held, np.array([1e6, 1e4]), bounded=True)[:, 0]
    assert far == near == pytest.approx(np.log(100))


def test_the_highest_held_out_value_hides_no_other():
    held = np.arange(99.0)
    wild = np.append(held[:-1], 1e6)
    np.testing.assert_array_equal(evidence(held, held[:98]), evidence(wild, held[:98]))


def drawn_views(rng, n):
    """Values of views that depend on one another, some of them discrete."""
    names = [
        *GROUPS["order"],
        *GROUPS["end"],
        "symbol",
        "course",
        "timing",
        "state",
        "stay",
        "pair",
    ]
    values = rng.normal(size=(len(names), n)) + 0.5 * rng.normal(size=n)
    found = dict(zip(names, values, strict=True))
    return found | {name: found[name].round() for name in ("novelty", "end", "length")}


def ranks(own, new):
    """How many training sequences score as low as each new one."""
    learned = learn_evidence(own)
    held = learned.training_scores()
    found = learned.score(new, held, np.zeros(len(new["end"])))
    return np.searchsorted(np.sort(held), found, side="right")


def test_a_new_sequence_has_the_rank_that_it_has_as_one_of_the_training_set():
    rng = np.random.default_rng(0)
    own, new = drawn_views(rng, 400), drawn_views(rng, 60)
    learned, expected = learn_evidence(own), []
    for i in range(60):
        both = learn_evidence({name: np.append(own[name], new[name][i]) for name in own})
        scores = -learned.of_all(both.groups)
        expected.append((scores[:-1] <= scores[-1]).sum())
    np.testing.assert_array_equal(ranks(own, new), expected)


def test_false_alarms_of_exchangeable_views_come_at_their_rate():
    n, m, draws, rate = 300, 60, 300, 0.1
    found = []
    for draw in range(draws):
        rng = np.random.default_rng([1, draw])
        found.append((ranks(drawn_views(rng, n), drawn_views(rng, m)) + 1 <= rate * (n + 1)).mean())
    # Beta-binomial with 30 of 301 possible ranks; it was 5 standard errors too high when a new
    # sequence was compared with evidence that it had no part in.
    expected = 30 / 301
    error = np.sqrt(expected * (1 - expected) * (1 / m + 1 / (n + 2)) / draws)
    assert abs(np.mean(found) - expected) < 3 * error


def test_more_symbols_than_columns_share_them():
    table = np.arange(14.0).reshape(2, 7)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sojourn.detect.residuals.MOST_COLUMNS", 6)
        np.testing.assert_array_equal(_shared(table, 2), [[9, 5, 7], [30, 19, 21]])
        assert _shared(table[:, :6]).shape == (2, 6)


def test_symbols_that_occur_at_another_time_are_found():
    usual, other = (
        [0] * 10 + [1] * 10 + [2] * 10 + [1] * 10,
        [0] * 5 + [1] * 20 + [2] * 10 + [0] * 5,
    )
    sequences = sj.Sequences.from_lists([usual, [0, 1, 2, 1], other])
    found = _timing(sequences, symbol_counts(sequences))
    by_hand = np.array([-0.375, 0.125, 0.125]) * np.sqrt([0.25, 0.5, 0.25])
    np.testing.assert_allclose(found[:2, :3], [by_hand, by_hand], atol=1e-12)  # of any length
    assert abs(found[2, 0] - found[0, 0]) > 0.1


def test_the_tail_of_steps_has_the_level_of_normal_ones_and_the_shape_of_drawn_ones():
    rng = np.random.default_rng(0)
    values, drawn = rng.exponential(size=5000), rng.exponential(size=400_000)
    tail, alone = learn_tail(values, drawn), learn_tail(values)
    middle, far = np.quantile(values, 0.5), -np.log(1e-4)
    assert tail.pvalue(middle) == alone.pvalue(middle)
    # the level rests on 500 of 5,000 values, the shape on 40 of 400,000: three standard errors
    assert tail.pvalue(far) == pytest.approx(1e-4 + 1 / 5001, rel=3 * np.sqrt(1 / 500 + 1 / 40))


def test_folds_do_not_follow_the_order_of_periodic_data():
    normal = [["a", "b"] * 15 if i % 5 else ["c", "d"] * 15 for i in range(100)]
    found = sj.AnomalyDetector(sj.HSMM(2, 2, max_iter=10), cv=5).fit(normal)
    odd = [["a", "b"] * 13 + ["b", "a", "a", "b"]]
    assert found.seen_.all()  # every fold knows both kinds
    assert found.predict(odd).tolist() == [-1]
    assert found.pvalues([["c", "d"] * 15])[0] > 0.1


def test_the_first_reason_is_of_the_view_that_carries_the_score():
    """Where the changes of state count, no word of a symbol that is hardly surprising."""
    rng = np.random.default_rng(0)
    drawn = [  # held as by a clock
        np.repeat(one, rng.geometric(0.5, len(one)))[: int(rng.integers(8, 25))].tolist()
        for one in sj.Params.random(3, 5, 4, rng=3).sample(160, 15, rng=1)
    ]
    model = sj.HSMM(3, 5, max_iter=10, random_state=0).fit(drawn[:120])
    detector = sj.AnomalyDetector(model, refit=False, contamination=0.1).fit(drawn[120:])
    found = [
        one
        for one in detector.explain(drawn[120:])
        if one.pvalue <= 0.1 and one.views["transition"] > 0.5
    ]
    assert [one.reasons[0].text for one in found] == [
        "its changes between states are unusual as a whole: from state 0 (mostly 0) to state 1 "
        "(mostly 2) 2.9 times, where the model expects 0.5"
    ]
    assert found[0].reasons[0].kind == "transition"


def test_a_view_without_a_single_reason_gets_a_sentence_as_a_whole():
    drawn = sj.Params.random(2, 4, 3, rng=0).sample(60, 40, rng=1)
    detector = sj.AnomalyDetector(sj.HSMM(2, 4, max_iter=5, random_state=0), cv=2).fit(drawn)
    views = {*detector.evidence_.views}
    for view in views:
        said = sentence(view, detector.model_, detector.norms_, drawn[:1])
        assert said.startswith(WHAT[view])
    assert {*WHAT} == {name for names in VIEWS_OF.values() for name in names} > views
