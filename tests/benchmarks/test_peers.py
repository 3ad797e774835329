"""The comparison with other packages: that all get the same, that numbers are what they are called,
and that what fails is told. No package is installed here; runners of our own stand for them."""

import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.peers import environments
from benchmarks.peers.data import QUICK, generate, write
from benchmarks.peers.environments import PEERS, RUNNERS, Environment, install, last_error
from benchmarks.peers.harness import Record, in_turns, jobs
from benchmarks.peers.page import page, put_between, summary
from benchmarks.peers.tables import (
    COLUMNS,
    Fit,
    as_csv,
    as_markdown,
    better_by,
    checks,
    middle,
    ratios,
    rows,
    time_to,
)
from sojourn import Params

SIZE = QUICK["A"]
ROUNDING = 1e-9  # of some hundred products and sums of probabilities

RUNNER = """
import sys
sys.path.insert(0, {folder!r})
import loop
{before}
class Model:
    def __init__(self, tables, train):
        self.given = float(train.sum()) + sum(float(t.sum()) for t in tables)
    def iterate(self, n):
        {iterate}
    def score(self, X):
        return [self.given + float(X.sum())] * len(X)
loop.serve(Model, "1.0")
"""


def runner(path: Path, iterate: str = "pass", before: str = "") -> Environment:
    path.write_text(RUNNER.format(folder=str(RUNNERS), iterate=iterate, before=before))
    return Environment((sys.executable, str(path)))


def em(size, package, model, times):
    return [
        Record(size, package, model, "em", i, {"cpu": t, "peak": 9}) for i, t in enumerate(times)
    ]


def fit_record(size, package, model, seconds, scores, held_out, turn=0):
    points = [(i, t, t, s) for i, (t, s) in enumerate(zip(seconds, scores, strict=True))]
    return Record(size, package, model, "fit", turn, {"points": points, "held_out": held_out})


def test_data_are_the_same_every_time_and_in_the_file(tmp_path):
    made = generate(SIZE)
    again = generate(SIZE)
    with np.load(write(SIZE, tmp_path), allow_pickle=False) as file:
        assert set(file) == set(made)
        for name, array in made.items():
            np.testing.assert_array_equal(array, again[name])
            np.testing.assert_array_equal(array, file[name])
    assert made["train"].shape == (SIZE.n, SIZE.length)


def test_the_expanded_start_is_our_hsmm():
    made = generate(SIZE)
    params = Params(*(made[f"hsmm1_{n}"] for n in ("start", "transition", "duration", "emission")))
    start, A, B = (made[f"expanded1_{n}"] for n in ("start", "A", "B"))
    np.testing.assert_allclose(A.sum(axis=1), 1, atol=ROUNDING)
    alpha = start * B[:, made["test"][0, 0]]
    for symbol in made["test"][0, 1:]:
        alpha = (alpha @ A) * B[:, symbol]
    expected = params.log_prob(made["test"][:1])
    np.testing.assert_allclose(np.log(alpha.sum()), expected[0], rtol=ROUNDING)


def test_jobs_differ_only_in_the_model():
    plain, hsmm = (
        [(task, turn, {**job, "model": ""}) for task, turn, job in jobs(SIZE, model)]
        for model in ("plain", "hsmm")
    )
    assert plain == hsmm


def test_all_packages_get_the_same_jobs_and_failures_are_recorded(tmp_path):
    packages = {
        "one": (runner(tmp_path / "one.py"), ("plain",)),
        "two": (runner(tmp_path / "two.py", before="print('noise')"), ("plain",)),
        "raises": (runner(tmp_path / "raises.py", "raise ValueError('no EM today')"), ("plain",)),
        "dies": (runner(tmp_path / "dies.py", "import os; os._exit(3)"), ("plain",)),
        "absent": (runner(tmp_path / "absent.py", before="import nowhere_to_be_found"), ("plain",)),
    }
    records, versions = in_turns(SIZE, write(SIZE, tmp_path), packages, tmp_path / "work")
    by_name = {
        name: [r for r in records if (r.package, r.task) == (name, "fit")] for name in packages
    }
    assert [r.result["held_out"] for r in by_name["one"]] == [
        r.result["held_out"] for r in by_name["two"]
    ]
    assert by_name["raises"][0].result["error"] == "ValueError: no EM today"
    assert "exit code 3" in by_name["dies"][0].result["error"]
    assert "nowhere_to_be_found" in by_name["absent"][0].result["error"]
    assert versions.keys() == packages.keys() - {"absent"}
    assert "failed: ValueError: no EM today" in as_markdown(rows(records, "A"))


def test_packages_alternate_within_each_round(tmp_path):
    packages = {n: (runner(tmp_path / f"{n}.py"), ("plain", "expanded")) for n in ("one", "two")}
    records, _ = in_turns(SIZE, write(SIZE, tmp_path), packages, tmp_path / "work")
    first = [(r.package, r.model, r.turn) for r in records if r.task == "em"][:5]
    assert first == [
        ("one", "plain", 0),
        ("one", "expanded", 0),
        ("two", "plain", 0),
        ("two", "expanded", 0),
        ("one", "plain", 1),
    ]


def test_a_fit_stops_when_settled_or_when_its_time_is_up(tmp_path):
    script = f"""
import json, sys
sys.path.insert(0, {str(RUNNERS)!r})
import loop, numpy as np
class Model:
    def __init__(self, tables, train): self.n = 0
    def iterate(self, n):
        self.n += n
        if {{slow}}:
            end = loop.time.process_time() + 0.02 * n
            while loop.time.process_time() < end: pass
    def score(self, X): return [-1.0 if self.n > 8 else -9.0 + self.n] * len(X)
data = dict(train=np.zeros((2, 5), int), test=np.zeros((3, 5), int), plain0_A=np.ones((1, 1)))
job = dict(model="plain", seed=0, sequences=2, iterations=1000, budget={{budget}})
print(json.dumps(loop.fit(Model, data, job)))
"""

    def points(slow, budget):
        path = tmp_path / "fit.py"
        path.write_text(script.format(slow=slow, budget=budget))
        done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True)
        result = json.loads(done.stdout)
        assert result["held_out"] == [-0.2] * 3
        return result["points"]

    settled = points(False, 60)
    assert 28 <= settled[-1][0] <= 48  # flat from the ninth on, and looked at every 16
    timed = points(True, 0.4)
    assert 12 <= timed[-1][0] <= 22  # 20 iterations of 0.02 s fill 0.4 s


def test_ratios_are_of_the_same_round():
    found = ratios({0: 2.0, 1: 30.0, 2: 5.0}, {0: 1.0, 1: 10.0})
    assert (found.least, found.middle, found.most) == (2.0, 2.5, 3.0)
    assert math.isnan(ratios({}, {0: 1.0}).middle)
    assert str(ratios({}, {})) == "–"


def test_time_to_a_likelihood_counts_runs_that_fail():
    good = Fit((1.0, 2.0, 3.0), (-3.0, -2.00005, -1.9), (-1.9,))
    bad = Fit((4.0, 10.0), (-3.0, -2.5), (-2.5,))
    assert time_to([good], -2.0) == 2.0  # near enough at the second look
    assert time_to([good, bad], -2.0) == 12.0
    assert time_to([good, good, bad], -2.0) == 7.0
    assert time_to([bad], -2.0) == math.inf


def test_gains_are_differences_on_the_same_sequences():
    ours = Fit((), (), (-1.0, -5.0, -9.0))
    theirs = Fit((), (), (-1.1, -5.1, -9.1))
    gain, error = better_by(ours, theirs)
    assert gain == pytest.approx(0.1)
    assert error == pytest.approx(0, abs=ROUNDING)
    assert better_by(ours, Fit((), (), (-math.inf, -1.0, -1.0))) == (math.inf, 0.0)
    runs = [Fit((), (), (s,)) for s in (-3.0, -1.0, -2.0, -4.0)]
    assert middle(runs).reached == -3.0


def example(ours=0.2, wide=2.0, plain=0.44, reached=-1.0, fast=1.0):
    held = [reached, reached - 0.1, reached + 0.1]
    return [
        *em("B", "sojourn", "hsmm", [ours * 1e-6] * 3),
        *em("A", "sojourn", "hsmm", [ours * 1e-6] * 3),
        *em("A", "hmmlearn", "plain", [plain * 1e-6] * 3),
        *em("B", "hmmlearn", "expanded", [wide * 1e-6] * 3),
        fit_record("B", "sojourn", "hsmm", [fast, 2 * fast], [-2.0, reached], held),
        fit_record("B", "hmmlearn", "expanded", [20.0, 40.0], [-2.0, -1.01], [-1.01, -1.12, -0.91]),
    ]


@pytest.mark.parametrize(
    ("change", "broken"),
    [
        ({}, set()),
        ({"plain": 0.2}, {"10 times as fast as mhsmm"}),
        ({"wide": 0.19}, {"faster than that of every expanded HMM"}),
        ({"reached": -1.1}, {"held-out likelihood is at least", "a tenth of the best"}),
        ({"fast": 3.0}, {"a tenth of the best"}),
    ],
)
def test_checks_fail_for_the_requirement_that_is_broken(change, broken):
    found = checks(example(**change), ["A", "B"])
    assert len(found) == 4
    failed = {check.requirement for check in found if not check.holds}
    assert len(failed) == len(broken)
    assert all(any(words in text for text in failed) for words in broken)


def test_tables_and_page_hold_every_method_and_failure():
    records = example()
    records.append(Record("B", "deeptime", "plain", "em", 0, {"error": "out of luck"}))
    table = rows(records, "B")
    text = as_csv(table)
    assert text.splitlines()[0] == ",".join(COLUMNS)
    assert "out of luck" in text
    wide = next(row for row in table if row["model"] == "expanded")
    assert wide["em_ratio"] == pytest.approx(10)
    assert wide["seconds_to_target"] == 40.0
    assert wide["target_ratio"] == pytest.approx(20)
    failures = {"mhsmm": "R is not here"}
    text = page("Today.", {"B": SIZE}, {"B": table}, checks(records, ["B"]), {}, failures, "f.svg")
    assert all(peer.name in text for peer in PEERS)
    assert "R is not here" in text
    assert "| hmmlearn, expanded HMM | 10.0 |" in summary({"B": table})


def test_the_share_of_negative_probabilities_is_shown():
    record = fit_record("B", "scikit-splearn", "automaton", [3.0], [None], [-1.0, None, None, None])
    assert "75 % of probabilities ≤ 0" in as_markdown(rows([*example(), record], "B"))


def test_a_peer_that_cannot_be_installed_gives_its_reason(tmp_path, monkeypatch):
    peer = PEERS[0]
    monkeypatch.setattr(
        environments, "attempt", lambda step: "ERROR: no such thing" if "pip" in step else ""
    )
    assert install(peer, tmp_path) == Environment((), "ERROR: no such thing")
    monkeypatch.setattr(environments.shutil, "which", lambda _: None)
    assert "Rscript" in install(PEERS[-1], tmp_path).reason


def test_the_reason_of_a_failure_is_the_last_error_line():
    log = "collecting\nERROR: no matching distribution\n\nnotice: new version\n"
    assert last_error(log) == "ERROR: no matching distribution"
    assert last_error("") == ""
    assert "boom" in environments.attempt([sys.executable, "-c", "raise SystemExit('boom')"])
    assert environments.attempt([sys.executable, "-c", ""]) == ""


def test_every_peer_has_a_runner_and_pinned_requirements():
    for peer in PEERS:
        script = RUNNERS / f"run_{peer.name.replace('-', '_')}.py"
        assert script.is_file()
        assert peer.name == "mhsmm" or f"{peer.name}==" in peer.requirements.read_text()


def test_the_readme_keeps_what_is_around_the_table(tmp_path):
    path = tmp_path / "README.md"
    path.write_text("before\n<!-- peers: begin -->\nold\n<!-- peers: end -->\nafter\n")
    put_between(path, "new")
    assert path.read_text() == ("before\n<!-- peers: begin -->\nnew\n<!-- peers: end -->\nafter\n")
    path.write_text("nothing")
    with pytest.raises(ValueError, match="must hold"):
        put_between(path, "new")
