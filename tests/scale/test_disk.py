"""Fits and scores from files: the bits of a fit in memory, for any partitions; checkpoints."""

import os
import resource
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sojourn import HSMM, ContextTree, Params, SojournError, SpectralHSMM, scan
from sojourn.em.checkpoint import Checkpoint
from sojourn.em.start import Saved, fit_params
from sojourn.scale.passes import Partitions

TABLES = ("start", "transition", "duration", "emission")
TRUTH = Params.random(2, 3, 4, rng=0)
# some 3 chunks of expected counts, and one sample smaller than the data
DATA = TRUTH.sample(2000, np.random.default_rng(0).integers(5, 90, 2000), rng=1)


def write(path, sequences, rows_per_group=4096):
    """A table of events, sorted by id."""
    columns = {
        "id": np.repeat(sequences.ids, sequences.lengths),
        "symbol": sequences.vocabulary[sequences.codes],
    }
    pq.write_table(pa.table(columns), path, row_group_size=rows_per_group)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("events")
    for i, at in enumerate(range(0, len(DATA), 700)):
        write(made / f"{i}.parquet", DATA[at : at + 700])
    return made


def scanned(folder, rows=None):
    return scan(folder / "*.parquet", id="id", symbol="symbol", time=False, rows_per_partition=rows)


def same(a, b):
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in TABLES)


@pytest.mark.parametrize(
    ("algorithm", "rows"),
    [("contexts", None), ("contexts", 5000), ("contexts", 20_000), ("adjacent", 5000)],
)
def test_spectral_fit_from_files_equals_one_in_memory(folder, rows, algorithm):
    memory = SpectralHSMM(2, 3, algorithm=algorithm, n_jobs=1).fit(DATA)
    disk = SpectralHSMM(2, 3, algorithm=algorithm, n_jobs=2).fit(scanned(folder, rows))
    assert memory.choice_.trials == disk.choice_.trials
    scores = disk.score_samples(scanned(folder, rows))
    assert np.array_equal(scores, memory.score_samples(DATA))
    assert disk.score(scanned(folder, rows)) == memory.score(DATA)


def test_a_context_tree_from_files_equals_one_in_memory(folder):
    memory, disk = (ContextTree(ends=True).fit(X) for X in (DATA, scanned(folder, 5000)))
    assert np.array_equal(disk.score_samples(DATA), memory.score_samples(DATA))


def test_em_from_files_equals_em_in_memory(folder):
    memory = HSMM(2, 3, max_iter=6, n_jobs=1).fit(DATA)
    for rows, n_jobs in ((None, 1), (6000, 2)):
        parts = scanned(folder, rows)
        disk = HSMM(2, 3, max_iter=6, n_jobs=n_jobs).fit(parts)
        assert same(memory.params_, disk.params_)
        assert memory.history_ == disk.history_
        assert memory.n_passes_ == disk.n_passes_
    assert np.array_equal(disk.score_samples(parts), memory.score_samples(DATA))
    assert disk.bic(parts) == memory.bic(DATA)


def test_partial_fit_of_more_files_equals_one_fit(folder):
    names = sorted(map(str, folder.glob("*.parquet")))
    one, rest = (
        scan(files, id="id", symbol="symbol", time=False) for files in (names[:1], names[1:])
    )
    whole = SpectralHSMM(2, 3).fit(DATA)
    parts = SpectralHSMM(2, 3, trees=whole.trees_).fit(one).partial_fit(rest)
    whole = SpectralHSMM(2, 3, trees=whole.trees_).fit(DATA)
    assert np.array_equal(parts.operators_.own, whole.operators_.own)
    assert np.array_equal(parts.score_samples(DATA), whole.score_samples(DATA))


def test_scan_unsupported_operations_raise(folder):
    parts = scanned(folder)
    model = HSMM(2, 3, max_iter=1, init=TRUTH).fit(parts)
    with pytest.raises(SojournError, match="one partition at a time"):
        model.surprise(parts)
    with pytest.raises(SojournError, match="leave lengths= out"):
        model.score_samples(parts, lengths=[3])
    with pytest.raises(SojournError, match=r"select\(next\(iter\(scan\)\)\)"):
        HSMM("auto", 3).fit(parts)
    with pytest.raises(SojournError, match="states of a scan"):
        HSMM(2, 3).fit(parts, [[0]])
    with pytest.raises(SojournError, match="needs checkpoint="):
        HSMM(2, 3).fit(DATA, resume=True)
    with pytest.raises(SojournError, match="client= is for a scan"):
        HSMM(2, 3).fit(DATA, client=object())
    with pytest.raises(SojournError, match=r"expected a distributed\.Client"):
        SpectralHSMM(2, 3).fit(parts, client=object())


class StopError(Exception):
    pass


@pytest.mark.parametrize("init", ["spectral", TRUTH])
def test_resumed_fit_equals_an_uninterrupted_one(tmp_path, init):
    keep = Checkpoint(str(tmp_path / "fit.checkpoint"), {"tol": 0.0})
    saves = []
    one = fit_params(DATA, 2, 3, 4, init=init, rng=0, max_iter=8, tol=0.0, save=saves.append)
    # every pass, round and stage was written; stop after some of them and continue
    for n in (1, len(saves) // 2, len(saves) - 1, len(saves)):
        done = []

        def save(saved, n=n, done=done):
            keep.save(saved)
            done.append(saved)
            if len(done) == n:
                raise StopError

        with pytest.raises(StopError):
            fit_params(DATA, 2, 3, 4, init=init, rng=0, max_iter=8, tol=0.0, save=save)
        saved = keep.load()
        assert isinstance(saved, Saved)
        again = []
        found = fit_params(
            DATA, 2, 3, 4, init=init, rng=0, max_iter=8, tol=0.0, save=again.append, saved=saved
        )
        assert same(found.params, one.params)
        assert found.history == one.history
        assert found.n_passes == one.n_passes
        assert len(again) == len(saves) - n  # what was done is not done again


def test_checkpoint_of_another_fit_is_refused(folder, tmp_path):
    path = tmp_path / "fit.checkpoint"
    HSMM(2, 3, init=TRUTH, max_iter=2).fit(scanned(folder), checkpoint=path)
    with pytest.raises(SojournError, match=r"tol was None and is 0\.1; give the same"):
        HSMM(2, 3, init=TRUTH, tol=0.1).fit(scanned(folder), checkpoint=path, resume=True)
    with pytest.raises(SojournError, match="n_partitions was 3 and is"):
        HSMM(2, 3, init=TRUTH).fit(scanned(folder, 5000), checkpoint=path, resume=True)
    model = HSMM(2, 3, init=TRUTH, max_iter=1).fit(DATA)
    model.save(tmp_path / "model.sojourn")
    with pytest.raises(SojournError, match="holds a model, not a checkpoint"):
        model.fit(DATA, checkpoint=tmp_path / "model.sojourn", resume=True)


KILLED = """
    import os, signal, sys
    import sojourn.em.checkpoint
    from sojourn import HSMM, Params, scan
    truth = Params.random(2, 3, 4, rng=0)
    parts = scan(sys.argv[1] + "/*.parquet", id="id", symbol="symbol", time=False)
    n_left, save = int(sys.argv[3]), sojourn.em.checkpoint.Checkpoint.save
    def counted(self, saved):
        global n_left
        save(self, saved)
        n_left -= 1
        if n_left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
    sojourn.em.checkpoint.Checkpoint.save = counted
    HSMM(2, 3, init=truth, max_iter=6, tol=0.0).fit(parts, checkpoint=sys.argv[2], resume=True)
"""


def test_a_killed_process_loses_at_most_one_pass(folder, tmp_path):
    path = tmp_path / "fit.checkpoint"
    command = [sys.executable, "-c", textwrap.dedent(KILLED), str(folder), str(path), "2"]
    run = subprocess.run(command, capture_output=True, timeout=120, check=False)
    assert run.returncode == -signal.SIGKILL, run.stderr.decode()
    arguments = {"init": TRUTH, "max_iter": 6, "tol": 0.0}
    keep = HSMM(2, 3, **arguments)._checkpoint(path, Partitions.of(scanned(folder)), (2, 3))
    assert keep.load().running["passes"] == 2
    found = HSMM(2, 3, **arguments).fit(scanned(folder), checkpoint=path, resume=True)
    one = HSMM(2, 3, **arguments).fit(DATA)
    assert same(found.params_, one.params_)
    assert os.listdir(tmp_path) == ["fit.checkpoint"]


def copied(folder, tmp_path):
    for name in os.listdir(folder):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    return scanned(tmp_path)


@pytest.mark.parametrize("harm", ["vanish", "truncate", "shrink"])
def test_file_lost_during_a_fit_is_named_and_the_checkpoint_kept(
    folder, tmp_path, harm, monkeypatch
):
    parts, path = copied(folder, tmp_path), tmp_path / "fit.checkpoint"
    victim = tmp_path / "1.parquet"
    save, saves = Checkpoint.save, []

    def harmful(self, saved):
        save(self, saved)
        saves.append(saved)
        if len(saves) == 2:
            if harm == "vanish":
                victim.unlink()
            elif harm == "truncate":
                os.truncate(victim, victim.stat().st_size // 2)
            else:
                write(victim, DATA[700:1399])

    monkeypatch.setattr(Checkpoint, "save", harmful)
    model = HSMM(2, 3, init=TRUTH, max_iter=5, tol=0.0)
    with pytest.raises((SojournError, OSError), match=r"1\.parquet"):
        model.fit(parts, checkpoint=path)
    assert len(saves) == 2
    victim.write_bytes((folder / "1.parquet").read_bytes())
    found = model.fit(scanned(tmp_path), checkpoint=path, resume=True)
    monkeypatch.undo()
    assert same(found.params_, HSMM(2, 3, init=TRUTH, max_iter=5, tol=0.0).fit(DATA).params_)


@pytest.mark.skipif(not hasattr(resource, "RLIMIT_FSIZE"), reason="no limit on the size of files")
def test_a_full_disk_leaves_the_checkpoint_before_it(tmp_path):
    path = tmp_path / "fit.checkpoint"
    keep = Checkpoint(str(path), {"tol": 0.0})
    saved = Saved((10,), 1, (TRUTH,))
    keep.save(saved)
    before = path.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (512, hard))
    try:
        with pytest.raises(SojournError, match=r"cannot be written .* the pass before is complete"):
            keep.save(Saved((10,), 2, (TRUTH, TRUTH)))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, ignored)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["fit.checkpoint"]
    assert same(keep.load().models[0], TRUTH)


def test_the_commands_read_in_partitions(folder, tmp_path, capsys):
    from sojourn.cli import run

    data = [str(folder / "*.parquet"), "--no-time", "--id", "id", "--symbol", "symbol"]
    model, out = str(tmp_path / "m.sojourn"), str(tmp_path / "scores.csv")
    size = ["--states", "2", "--max-duration", "3", "--format", "csv", "-o", model]
    more = ["--max-iter", "2", "--checkpoint", str(tmp_path / "c"), "--resume"]
    assert run(["fit", *data, "--scan", *size, *more]) == 0
    facts = capsys.readouterr().out
    assert "sequences,2000" in facts
    assert f"symbols in them,{DATA.n_total}" in facts
    assert run(["score", model, *data, "--scan", "-o", out]) == 0
    memory = HSMM(2, 3, max_iter=2).fit(DATA).score_samples(DATA)
    found = np.loadtxt(out, delimiter=",", skiprows=1, usecols=2)
    assert np.array_equal(found, memory)
    assert run(["score", model, *data, "--cluster", "nowhere"]) == 2
    assert run(["fit", *data, "--scan", "-o", model]) == 2  # sizes are not chosen on a scan
    assert "expected tcp://" in capsys.readouterr().err
