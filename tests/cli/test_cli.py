"""The command line, end to end on files: the same numbers as from Python, and clear refusals."""

import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import sojourn as sj
from sojourn import cli
from sojourn.cli import output
from sojourn.estimators.hsmm import HSMM

P = sj.Params.random(3, 4, 5, rng=0)
WORDS = np.array(["bank", "climb", "descend", "level", "é\u0301"])
ENV = {**os.environ, "PYTHONPATH": str(Path(sj.__file__).parents[1]), "PYTHONUNBUFFERED": ""}
PROGRAM = [sys.executable, "-c", "from sojourn.cli import main; main()"]


def drawn(n=40, length=50, seed=1, words=True):
    raw = P.sample(n, length, rng=seed)
    vocabulary, ids = (
        (WORDS if words else raw.vocabulary),
        np.array([f"f{i:02d}" for i in range(n)]),
    )
    return sj.Sequences(raw.codes, raw.offsets, vocabulary, ids)


def write_events(path, sequences, shuffle=0):
    """A long table, one row per event, in any order."""
    rows = [
        (flight, t, "" if symbol is None else symbol)
        for flight, symbols in zip(sequences.ids.tolist(), sequences, strict=True)
        for t, symbol in enumerate(symbols)
    ]
    np.random.default_rng(shuffle).shuffle(rows)
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("flight", "seconds", "command"), *rows])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Events, and a model of each kind fitted on them."""
    folder = tmp_path_factory.mktemp("cli")
    write_events(folder / "events.csv", drawn())
    write_events(folder / "more.csv", drawn(6, 30, seed=2))
    sj.SpectralHSMM(2, 2).fit(drawn()).save(folder / "spectral.sojourn")
    hsmm().save(folder / "hsmm.sojourn")
    return folder


def hsmm():
    model = HSMM(3, 4)
    model.params_, model.initial_ = P, None
    model.history_, model.n_passes_, model.converged_ = [-2.0], 1.0, True
    model.vocabulary_, model.n_symbols_ = WORDS, 5
    return model


def run(capsys, *args) -> str:
    """Standard output of a command that succeeds, run in this process."""
    code = cli.run([*map(str, args)])
    out, err = capsys.readouterr()
    assert code == 0, err
    return out


def refused(capsys, *args, code=1) -> str:
    """Standard error of a command that is refused, after a check of its form."""
    found = cli.run([*map(str, args)])
    out, err = capsys.readouterr()
    assert found == code, (out, err)
    assert "Traceback" not in err
    if code == 1:
        assert err.startswith("sojourn: ")
        assert err.count("\n") == 1, err
    return err


def table(text) -> dict[str, list[str]]:
    header, *rows = csv.reader(io.StringIO(text))
    return dict(zip(header, map(list, zip(*rows, strict=True)), strict=True))


def numbers(column) -> list[float]:
    return [float(text) for text in column]


# Fit, save and score in new processes


def new_process(*args, stdin="", code=0) -> str:
    command = [*PROGRAM, *map(str, args)]
    done = subprocess.run(
        command, input=stdin, capture_output=True, text=True, env=ENV, encoding="utf-8"
    )
    assert done.returncode == code, done.stderr
    return done.stdout


def check_end_to_end(data, tmp_path, capsys, *options, **columns):
    """What is fitted and saved here scores in a new process as it does from Python."""
    path = tmp_path / "model.sojourn"
    named = [f"--{key}={value}" for key, value in columns.items()]
    run(capsys, "fit", data, *named, *options, "-o", path)
    scores = table(new_process("score", path, data, *named))
    seqs, loaded = sj.read(data, **columns), sj.load(path)
    fitted = type(loaded)(**loaded.get_params()).fit(seqs)
    assert scores["id"] == [str(i) for i in seqs.ids]
    assert numbers(scores["log_prob"]) == fitted.score_samples(seqs).tolist()
    assert np.isfinite(numbers(scores["log_prob"])).all()


@pytest.mark.parametrize(
    "options",
    [
        ("--method=spectral", "--states=2", "--max-duration=2"),
        ("--states=2", "--max-duration=3", "--max-iter=5", "--seed=3"),
    ],
    ids=["spectral", "hsmm"],
)
def test_a_model_fitted_in_one_process_scores_alike_in_another(options, folder, tmp_path, capsys):
    columns = {"id": "flight", "time": "seconds", "symbol": "command"}
    check_end_to_end(folder / "events.csv", tmp_path, capsys, *options, **columns)


@pytest.mark.parametrize(
    ("name", "columns", "options"),
    [
        (
            "flightsim.csv",
            {"id": "flight", "time": "seconds", "symbol": "command"},
            ("--method=spectral", "--states=6", "--max-duration=12"),
        ),
        (
            "finch4.csv",
            {"id": "song", "time": "onset", "symbol": "syllable"},
            ("--states=3", "--max-duration=6", "--max-iter=8"),
        ),
    ],
)
def test_real_data_end_to_end(name, columns, options, tmp_path, capsys):
    data = Path(os.environ.get("SOJOURN_DATA", "nowhere"), name)
    if not data.exists():
        pytest.skip(f"{name} is not in the folder that SOJOURN_DATA names")
    check_end_to_end(data, tmp_path, capsys, *options, **columns)


# What the commands write


@pytest.mark.parametrize("name", ["spectral", "hsmm"])
def test_scores_are_those_of_python(name, folder, capsys):
    model, seqs = sj.load(folder / f"{name}.sojourn"), drawn(6, 30, seed=2)
    found = table(run(capsys, "score", folder / f"{name}.sojourn", folder / "more.csv"))
    assert found["id"] == seqs.ids.tolist()
    assert numbers(found["log_prob"]) == model.score_samples(seqs).tolist()
    assert numbers(found["per_symbol"]) == (model.score_samples(seqs) / 30).tolist()
    steps = table(run(capsys, "score", "--steps", folder / f"{name}.sojourn", folder / "more.csv"))
    assert numbers(steps["surprise"]) == np.concatenate(model.surprise(seqs)).tolist()
    assert steps["symbol"] == [symbol for row in seqs for symbol in row]
    assert steps["position"] == [str(t) for _ in range(6) for t in range(30)]


def test_scores_of_sequences_that_end_count_their_ends(folder, tmp_path, capsys):
    seqs, path = drawn(6, 30, seed=2), tmp_path / "ends.sojourn"
    model = sj.ContextTree(ends=True).fit(drawn())
    model.save(path)
    found = table(run(capsys, "score", path, folder / "more.csv"))
    assert numbers(found["per_symbol"]) == (model.score_samples(seqs) / 31).tolist()
    steps = table(run(capsys, "score", "--steps", path, folder / "more.csv"))
    assert numbers(steps["surprise"]) == np.concatenate(model.surprise(seqs)).tolist()
    assert steps["symbol"] == [symbol for row in seqs for symbol in (*row, "END")]
    assert steps["position"] == [str(t) for _ in range(6) for t in range(31)]


def test_decoded_stays_and_states_are_those_of_python(folder, capsys):
    model, seqs = hsmm(), drawn(6, 30, seed=2)
    files = (folder / "hsmm.sojourn", folder / "more.csv")
    found = table(run(capsys, "decode", *files))
    flat = [
        (i, *stay[:4])
        for i, row in zip(seqs.ids, model.segments(seqs), strict=True)
        for stay in row
    ]
    rows = zip(
        found["id"],
        map(int, found["start"]),
        map(int, found["length"]),
        map(int, found["state"]),
        numbers(found["confidence"]),
        strict=True,
    )
    assert list(rows) == flat
    steps = table(run(capsys, "decode", "--steps", *files))
    path = np.concatenate(model.predict(seqs))
    assert list(map(int, steps["state"])) == path.tolist()
    assert "name" not in steps
    model.name_states({0: "idle", 1: "busy"}).save(folder / "named.sojourn")
    named = table(run(capsys, "decode", "--steps", folder / "named.sojourn", files[1]))
    assert named["name"] == model.states_[path].tolist()


def test_predictions_are_the_likeliest_symbols(folder, capsys):
    model, seqs = sj.load(folder / "spectral.sojourn"), drawn(6, 30, seed=2)
    files = (folder / "spectral.sojourn", folder / "more.csv")
    p = model.predict_next(seqs, horizon=2)
    everything = table(run(capsys, "predict", *files, "--horizon=2", "--top=0"))
    assert numbers(everything["probability"]) == np.sort(p, axis=1)[:, ::-1].ravel().tolist()
    first = table(run(capsys, "predict", *files, "--top=1", "--horizon=2"))
    assert first["symbol"] == WORDS[p.argmax(axis=1)].tolist()
    assert len(table(run(capsys, "predict", *files))["id"]) == 3 * 6


def test_samples_can_be_read_again(folder, tmp_path, capsys):
    path = tmp_path / "drawn.csv"
    args = ("sample", folder / "hsmm.sojourn", "-n", 4, "--length", 12, "--seed", 3)
    run(capsys, *args, "-o", path)
    expected, states = hsmm().sample(4, 12, random_state=3, return_states=True)
    assert sj.read(path, quiet=True).to_lists() == expected.to_lists()
    found = table(run(capsys, *args, "--states"))
    assert list(map(int, found["state"])) == np.concatenate(states).tolist()


def test_info_shows_what_a_model_is(folder, capsys):
    found = json.loads(run(capsys, "info", folder / "hsmm.sojourn", "--format=json"))
    facts = {item["property"]: item["value"] for item in found}
    assert facts["model"] == "HSMM"
    assert facts["states"] == 3
    assert facts["max duration"] == 4
    assert "'climb'" in facts["vocabulary"]
    facts = table(run(capsys, "info", folder / "spectral.sojourn"))
    rank = dict(zip(facts["property"], facts["value"], strict=True))["rank"]
    assert int(rank) == sj.load(folder / "spectral.sojourn").rank_
    states = table(run(capsys, "info", "--states", folder / "hsmm.sojourn"))
    assert numbers(states["mean duration"]) == hsmm().expected_durations_.tolist()
    assert states["symbols"][0].startswith(WORDS[P.emission[0].argmax()])


@pytest.mark.parametrize("suffix", ["csv", "json", "parquet"])
def test_results_go_to_complete_files(suffix, folder, tmp_path, capsys):
    path = tmp_path / f"scores.{suffix}"
    args = ("score", folder / "hsmm.sojourn", folder / "more.csv", "-o", path)
    assert run(capsys, *args) == ""
    expected = hsmm().score_samples(drawn(6, 30, seed=2)).tolist()
    if suffix == "csv":
        found = numbers(table(path.read_text("utf-8"))["log_prob"])
    elif suffix == "json":
        found = [item["log_prob"] for item in json.loads(path.read_text("utf-8"))]
    else:
        found = pq.read_table(path)["log_prob"].to_pylist()
    assert found == expected
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_any_name_is_written_to_in_the_format_that_is_given(folder, tmp_path, capsys):
    """A device or a pipe has no ending."""
    path = tmp_path / "null"
    run(capsys, "sample", folder / "hsmm.sojourn", "-n2", "--length=4", "--format=csv", "-o", path)
    assert path.read_text("utf-8").startswith("id,")


def test_numbers_that_are_not_finite_are_null_in_json(tmp_path, capsys):
    model = HSMM(2, 2)
    model.params_ = sj.Params([1, 0], [[0, 1], [1, 0]], [[0, 1], [0.5, 0.5]], np.eye(2))
    model.initial_, model.history_, model.n_passes_, model.converged_ = None, [], 0.0, True
    model.vocabulary_, model.n_symbols_ = np.array(["a", "b"]), 2
    model.save(tmp_path / "m.sojourn")
    (tmp_path / "e.txt").write_text("a a b\na b b\n")
    args = ("score", tmp_path / "m.sojourn", tmp_path / "e.txt", "-q")
    found = json.loads(run(capsys, *args, "--format=json"))
    assert [item["log_prob"] for item in found] == [0.0, None]
    assert table(run(capsys, *args))["log_prob"] == ["0.0", "-inf"]


def test_text_that_looks_like_numbers_is_read_as_the_model_knows_it(tmp_path, capsys):
    model = sj.SpectralHSMM(1, 2).fit([["1", "2", "x"] * 10] * 20)
    model.save(tmp_path / "m.sojourn")
    (tmp_path / "e.txt").write_text("1 2 1 2\n")
    found = table(run(capsys, "score", tmp_path / "m.sojourn", tmp_path / "e.txt", "-q"))
    assert numbers(found["log_prob"]) == model.score_samples([["1", "2", "1", "2"]]).tolist()


def test_facts_of_mixed_types_go_into_parquet(folder, tmp_path, capsys):
    run(capsys, "info", folder / "hsmm.sojourn", "-o", tmp_path / "info.parquet")
    assert "HSMM" in pq.read_table(tmp_path / "info.parquet")["value"].to_pylist()


def test_a_table_has_no_commas(folder, capsys):
    text = run(capsys, "score", folder / "hsmm.sojourn", folder / "more.csv", "--format=table")
    assert "log_prob" in text
    assert "," not in text
    assert "f03" in text


def test_symbols_cannot_move_the_cursor(tmp_path, capsys):
    seqs = sj.Sequences.from_lists([["\x1b[2J", "[red]b"] * 30] * 20)
    path = tmp_path / "model.sojourn"
    sj.SpectralHSMM(1, 2).fit(seqs).save(path)
    text = run(capsys, "info", path, "--format=table")
    assert "\x1b" not in text
    (tmp_path / "e.txt").write_text("\x1b[2J [red]b\n")
    text = run(capsys, "convert", tmp_path / "e.txt", "--format=table", "-q")
    assert "\x1b" not in text
    assert "[red]b" in text


def test_a_long_table_is_cut_with_a_note(tmp_path, capsys):
    (tmp_path / "long.txt").write_text("a b\n" * 600)
    text = run(capsys, "convert", tmp_path / "long.txt", "--format=table", "-q")
    assert "… and 200 rows more" in text
    assert len(table(run(capsys, "convert", tmp_path / "long.txt", "-q"))["id"]) == 1200


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_conversion_keeps_every_symbol(suffix, folder, tmp_path, capsys):
    path = tmp_path / f"events.{suffix}"
    run(capsys, "convert", folder / "events.csv", "-o", path)
    seqs = sj.read(path, quiet=True)
    assert seqs.to_lists() == drawn().to_lists()
    assert seqs.ids.tolist() == drawn().ids.tolist()


def test_conversion_keeps_gaps(tmp_path, capsys):
    (tmp_path / "gaps.csv").write_text("id,symbol\na,x\na,\na,y\n")
    run(capsys, "convert", tmp_path / "gaps.csv", "-o", tmp_path / "gaps.parquet")
    assert sj.read(tmp_path / "gaps.parquet", quiet=True).to_lists() == [["x", None, "y"]]


def test_several_files_are_read_as_one_set(folder, capsys):
    files = (folder / "hsmm.sojourn", folder / "events.csv", folder / "more.csv")
    found = table(run(capsys, "score", *files))
    parts = [drawn(), drawn(6, 30, seed=2)]
    assert numbers(found["log_prob"]) == [x for p in parts for x in hsmm().score_samples(p)]


def test_passes_that_are_whole_are_integers(folder, capsys):
    rows = run(capsys, "info", folder / "hsmm.sojourn")
    assert "passes over the data,1\n" in rows or "passes over the data\t1\n" in rows


def test_an_id_in_several_files_is_warned_of(tmp_path, capsys):
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text(f"id,symbol\n7,x\n{name},y\n")
    cli.run(["fit", *map(str, tmp_path.glob("*.csv")), "-o", str(tmp_path / "m.sojourn")])
    err = capsys.readouterr().err
    assert err.count("warning: id '7' is in 2 files, each with a sequence of its own") == 1
    assert "sojourn.sort_events" in err


def test_guesses_are_printed_unless_quiet(folder, capsys):
    cli.run(["convert", str(folder / "more.csv")])
    assert "guessed id 'flight', time 'seconds', symbol 'command'" in capsys.readouterr().err
    cli.run(["convert", str(folder / "more.csv"), "-q"])
    assert capsys.readouterr().err == ""


def test_options_set_columns_and_missing_text(tmp_path, capsys):
    path = tmp_path / "t.csv"
    path.write_text("a;b;c\n2;x;z\n1;y;NA\n")
    args = ("convert", path, "--delimiter=;", "--symbol=c", "--no-id", "--missing=NA", "-q")
    assert table(run(capsys, *args, "--time=a"))["symbol"] == ["", "z"]
    assert table(run(capsys, *args, "--no-time"))["symbol"] == ["z", ""]


def test_skipped_rows_are_a_warning_on_one_line(tmp_path, capsys):
    path = tmp_path / "t.csv"
    path.write_text("id,symbol\na,x\na\na,y\n")
    assert (
        cli.run(["convert", str(path), "-q", "--on-error=skip", "--id=id", "--symbol=symbol"]) == 0
    )
    out, err = capsys.readouterr()
    assert table(out)["symbol"] == ["x", "y"]
    assert err.startswith("sojourn: warning: ")
    assert err.count("\n") == 1


# Fit


def test_fit_passes_its_options_on(folder, tmp_path, capsys):
    path, data = tmp_path / "m.sojourn", folder / "events.csv"
    args = ("fit", data, "-q", "-o", path, "--states=2", "--max-duration=3", "--unknown=missing")
    text = run(capsys, *args, "--max-iter=2", "--durations=poisson", "--pseudocount=0.5")
    model = sj.load(path)
    assert (model.n_states, model.max_duration, model.max_iter) == (2, 3, 2)
    assert (model.durations, model.pseudocount, model.unknown) == ("poisson", 0.5, "missing")
    facts = table(text)
    facts = dict(zip(facts["property"], facts["value"], strict=True))
    assert float(facts["nats per symbol"]) == model.score(drawn())
    run(capsys, *args, "--method=spectral", "--windows=0,1", "--rank=3", "--no-moments")
    model = sj.load(path)
    assert (model.windows, model.rank) == ((0, 1), 3)
    with pytest.raises(sj.SojournError, match="without its moments"):
        model.partial_fit(drawn())


def test_sizes_are_chosen_where_they_are_auto(folder, tmp_path, capsys, monkeypatch):
    path, asked = tmp_path / "m.sojourn", []

    def choose_sizes(estimator, sequences):
        asked.append((estimator.n_states, estimator.max_duration, len(sequences)))
        return 2, 3

    monkeypatch.setattr("sojourn.estimators.hsmm.choose_sizes", choose_sizes)
    args = ("fit", folder / "events.csv", "-q", "-o", path)
    run(capsys, *args, "--max-duration=3", "--max-iter=1")
    assert asked == [("auto", 3, 40)]
    assert sj.load(path).params_.duration.shape == (2, 3)
    monkeypatch.setattr("sojourn.estimators.select.STATES", (1, 2, 999))  # there are 5 symbols
    monkeypatch.setattr("sojourn.estimators.select.DURATIONS", (2, 3))
    assert cli.run([*map(str, args), "--method=spectral"]) == 0
    assert sj.load(path).n_states is None  # contexts need no sizes
    capsys.readouterr()
    assert cli.run([*map(str, args), "--method=spectral", "--algorithm=adjacent"]) == 0
    assert capsys.readouterr().err == ""  # no warning of more states than symbols
    assert sj.load(path).n_states in (1, 2)
    assert sj.load(path).max_duration in (2, 3)
    run(capsys, *args, "--method=spectral", "--states=2")
    assert sj.load(path).n_states == 2


# Stream


def test_a_stream_gives_the_surprise_of_batch_scoring(folder, capsys, stdin):
    seqs = drawn(3, 20, seed=5)
    expected = hsmm().surprise(seqs)
    lines = [f"f{i}\t{seqs[i][t]}" for t in range(20) for i in range(3)]  # three, mixed
    stdin("\n".join(lines) + "\n")
    out = run(capsys, "stream", folder / "hsmm.sojourn")
    found = [line.split("\t") for line in out.splitlines()]
    assert ["\t".join(row[:2]) for row in found] == lines
    assert [float(row[2]) for row in found] == [expected[i][t] for t in range(20) for i in range(3)]


def test_a_stream_without_ids_is_one_sequence(folder, capsys, stdin):
    symbols = [*drawn(1, 20, seed=5)[0][:10], "", "level"]
    expected = hsmm().surprise([[s or None for s in symbols]])[0].tolist()
    stdin("\r\n".join(symbols))
    out = run(capsys, "stream", folder / "hsmm.sojourn")
    assert [float(line.split("\t")[1]) for line in out.splitlines()] == expected
    stdin("\n".join(symbols))
    out = run(capsys, "stream", folder / "hsmm.sojourn", "--format=json")
    found = [json.loads(line) for line in out.splitlines()]
    assert [item["surprise"] for item in found] == expected
    assert found[10] == {"id": None, "symbol": None, "surprise": found[10]["surprise"]}


def test_a_stream_answers_each_line_at_once(folder):
    command = [*PROGRAM, "stream", str(folder / "hsmm.sojourn")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=ENV, text=True, **pipes) as process:
        watchdog = threading.Timer(60, process.kill)  # a failure, rather than a wait without end
        watchdog.start()
        stream = hsmm().stream()
        for symbol in ("climb", "level", "level"):
            process.stdin.write(symbol + "\n")
            process.stdin.flush()
            # No other line has been sent, and the input is not closed.
            assert process.stdout.readline() == f"{symbol}\t{stream.update(symbol)!r}\n"
        watchdog.cancel()
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
        assert process.stderr.read() == ""


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"climb\nfly\n", "line 2: symbol 'fly'"),
        (b"climb\n\xff\xfe\n", "line 2 is not UTF-8"),
        (b"x" * ((1 << 20) + 5), "line 1 is longer"),
    ],
)
def test_an_error_names_the_line_that_is_no_symbol(data, words, folder, capsys, stdin):
    stdin(data)
    assert words in refused(capsys, "stream", folder / "hsmm.sojourn")


def test_symbols_that_are_integers_are_read_as_such(tmp_path, capsys, stdin):
    model = sj.SpectralHSMM(2, 2).fit(drawn(words=False))
    path = tmp_path / "model.sojourn"
    model.save(path)
    stdin(b"\xef\xbb\xbf3\n1\n")
    found = run(capsys, "stream", path).splitlines()
    assert [float(line.split("\t")[1]) for line in found] == model.surprise([[3, 1]])[0].tolist()
    stdin("3\none\n")
    assert "line 2: 'one' is not an integer" in refused(capsys, "stream", path)


# Refusals


def test_problems_with_data_are_one_sentence(folder, tmp_path, capsys):
    model, data = folder / "hsmm.sojourn", folder / "more.csv"
    assert "nothing.csv: No such file" in refused(capsys, "score", model, "nothing.csv")
    assert "nothing: No such file" in refused(capsys, "score", "nothing", data)
    assert "not a saved model" in refused(capsys, "score", data, data, "-q")
    assert "Is a directory" in refused(capsys, "info", tmp_path)
    spectral = folder / "spectral.sojourn"
    assert "no states to decode" in refused(capsys, "decode", spectral, data)
    assert "no states to sample from" in refused(capsys, "sample", spectral)
    assert "no states to show" in refused(capsys, "info", "--states", spectral)
    assert "horizon" in refused(capsys, "predict", model, data, "-q", "--horizon=0")
    for command in ("predict", "forecast"):
        assert "--top is -1" in refused(capsys, command, model, data, "-q", "--top=-1")
    (tmp_path / "other.csv").write_text("id,symbol\na,fly\na,fly\n")
    assert "'fly'" in refused(capsys, "score", model, tmp_path / "other.csv", "-q")
    run(capsys, "score", model, tmp_path / "other.csv", "-q", "--unknown=missing")
    assert "--states must" in refused(capsys, "fit", data, "-q", "--states=0", "-o", tmp_path / "m")
    assert "there is no folder" in refused(
        capsys,
        "fit",
        data,
        "-q",
        "--states=1",
        "--max-duration=1",
        "-o",
        tmp_path / "no" / "m",
        code=2,
    )
    empty = tmp_path / "empty.csv"
    empty.write_text("")
    refused(capsys, "score", model, empty, "-q")
    out = tmp_path / "no" / "x.csv"
    assert "there is no folder" in refused(capsys, "score", model, data, "-q", "-o", out, code=2)


@pytest.mark.parametrize(
    "args",
    [
        ("fit",),
        ("fit", "x.csv"),
        ("fit", "x.csv", "-o", "m", "--states=many"),
        ("fit", "x.csv", "-o", "m", "--rank=2"),
        ("fit", "x.csv", "-o", "m", "--method=spectral", "--tol=1"),
        ("fit", "x.csv", "-o", "m", "--method=spectral", "--windows=0,x"),
        ("convert", "x.csv", "--id=a", "--no-id"),
        ("score", "m"),
        ("fly",),
        ("score", "m", "x.csv", "--format=xml"),
    ],
)
def test_usage_is_exit_code_2(args, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.csv").write_text("id,symbol\na,b\n")
    assert "Usage: sojourn" in refused(capsys, *args, code=2)


def test_a_closed_pipe_is_no_error(folder):
    command = [*PROGRAM, "sample", str(folder / "hsmm.sojourn"), "-n", "3000", "--length", "100"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=ENV, text=True, **pipes) as process:
        assert process.stdout.readline() == "id,position,symbol\n"
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(30) == cli.BROKEN_PIPE


@pytest.mark.parametrize("stream", ["stdin", "stdout", "stderr"])
def test_a_stream_that_the_caller_has_closed_is_no_error(stream, folder, capsys, monkeypatch):
    """As ``>&-`` does in a shell: Python then has None in its place."""
    monkeypatch.setattr(sys, stream, None)
    assert cli.run(["info", str(folder / "hsmm.sojourn")]) == 0
    getattr(sys, stream).close()


def test_half_a_character_in_a_symbol_is_one_sentence(tmp_path, capsys):
    model = sj.HSMM(1, 2, max_iter=1).fit([["\udcff", "q"] * 10] * 5)
    model.save(tmp_path / "m")
    args = ("sample", tmp_path / "m", "-n2", "--length=4", "-o", tmp_path / "o.csv")
    assert "a symbol or id holds half a character, '\\udcff'" in refused(capsys, *args)
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_without_click_the_error_names_what_to_install():
    code = "import sys; sys.modules['click'] = None; from sojourn.cli import main; main(['--help'])"
    done = subprocess.run([sys.executable, "-c", code], env=ENV, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == "sojourn: the command line needs click; pip install 'sojourn[cli]'\n"


# Weight


@pytest.mark.parametrize("args", [["--help"], ["fit", "--help"], ["--version"], ["score"]])
def test_help_imports_nothing_heavy(args):
    code = (
        "import sys; from sojourn.cli import run; run(sys.argv[1:]);"
        "print(*{name.partition('.')[0] for name in sys.modules}, file=sys.stderr)"
    )
    command = [sys.executable, "-c", code, *args]
    done = subprocess.run(command, env=ENV, capture_output=True, text=True, check=True)
    heavy = {"numpy", "scipy", "sklearn", "numba", "pyarrow", "pandas", "rich", "safetensors"}
    assert heavy & set(done.stderr.split()) == set()


def test_help_lists_the_commands_in_the_order_of_use(capsys):
    text, _, example = run(capsys, "--help").partition("Commands:")[2].partition("Example:")
    assert [line.split()[:2] for line in example.strip().splitlines()] == [
        ["sojourn", "fit"],
        ["sojourn", "score"],
    ]
    names = ["fit", "info", "score", "detect", "decode", "predict", "forecast", "report", "sample"]
    names += ["stream", "convert", "dataset", "completion"]
    assert [line.split()[0] for line in text.splitlines() if line.strip()] == names


def test_progress_is_for_terminals_only(folder, tmp_path, capsys, monkeypatch):
    args = ["fit", str(folder / "events.csv"), "-q", "-o", str(tmp_path / "m.sojourn")]
    args += ["--states=2", "--max-duration=2", "--max-iter=3"]
    assert cli.run(args) == 0
    silent = capsys.readouterr().err
    # Messages about the fit itself are warnings; there is no bar and no spinner.
    assert all(line.startswith("sojourn: warning: ") for line in silent.splitlines())
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert cli.run(args) == 0
    assert len(capsys.readouterr().err) > len(silent)


# ---- time and forecasts -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hourly(tmp_path_factory):
    """A log with dates, and a model of its hours with ends."""
    folder = tmp_path_factory.mktemp("hourly")
    rows = [
        f"{case},2026-01-0{1 + case % 7}T{hour:02}:10:00,{symbol}"
        for case in range(40)
        for hour, symbol in ((1, "ask"), (2 + case % 3, "check"), (6 + case % 2, "pay"))
    ]
    (folder / "log.csv").write_text("\n".join(["case,time,activity", *rows]) + "\n")
    options = ["--every", "1h", "--ends", "--states", "3", "--max-duration", "4", "--seed", "0"]
    assert cli.run(["fit", str(folder / "log.csv"), *options, "-o", str(folder / "m.sojourn")]) == 0
    return folder


def test_a_model_reads_new_data_by_its_clock(hourly, capsys):
    model = sj.load(hourly / "m.sojourn")
    scores = table(run(capsys, "score", hourly / "m.sojourn", hourly / "log.csv"))
    seqs = sj.read(hourly / "log.csv", quiet=True, every="1h")
    assert numbers(scores["length"]) == seqs.lengths.tolist()
    assert numbers(scores["log_prob"]) == model.score_samples(seqs).tolist()


def test_forecasts_are_those_of_python(hourly, capsys):
    model, seqs = sj.load(hourly / "m.sojourn"), sj.read(hourly / "log.csv", quiet=True, every="1h")
    found = table(
        run(
            capsys, "forecast", hourly / "m.sojourn", hourly / "log.csv", "--horizon", 2, "--top", 0
        )
    )
    p = model.forecast(seqs, 2).probabilities
    assert numbers(found["probability"]) == (-np.sort(-p, axis=2)).ravel().tolist()
    assert found["step"][:8] == ["1"] * 4 + ["2"] * 4
    assert set(found["symbol"]) == {"ask", "check", "pay", "END"}
    for option, what in (
        (("--end",), {"end": True}),
        (("--time-to", "pay"), {"symbol": "pay"}),
        (("--state", 1), {"state": 1}),
    ):
        found = table(run(capsys, "forecast", hourly / "m.sojourn", hourly / "log.csv", *option))
        wait = model.time_to(seqs, **what)
        assert numbers(found["50%"]) == wait.median.tolist()
        assert set(found["unit"]) == {"hours"}


def test_the_remaining_time_is_in_hours_where_events_have_dates(hourly, tmp_path, capsys):
    model, log = tmp_path / "m", hourly / "log.csv"
    run(capsys, "fit", log, "--ends", "--states", 3, "--max-duration", 2, "-q", "-o", model)
    found = table(run(capsys, "forecast", model, log, "-q", "--remaining", "--held-out", log))
    seqs = sj.read(log, quiet=True)
    rest = sj.load(model).remaining_time(seqs, held_out=seqs)
    for name in ("time", "low", "high"):
        assert numbers(found[name]) == getattr(rest, name).tolist()
    assert set(found["unit"]) == {"hours"}
    assert cli.run(["forecast", str(model), str(log), "--held-out", str(log)]) == 2
    assert cli.run(["forecast", str(model), str(log), "--remaining", "--end"]) == 2


def test_predictions_of_a_model_with_ends_name_the_end(hourly, capsys):
    found = table(run(capsys, "predict", hourly / "m.sojourn", hourly / "log.csv", "--top", 0))
    assert set(found["symbol"]) == {"ask", "check", "pay", "END"}


@pytest.mark.parametrize(
    "text", ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\uff1d1+1", "=HYPERLINK(1)"]
)
def test_no_cell_of_a_table_is_a_formula(text, tmp_path):
    """Symbols and ids may come from strangers, and tables are opened in spreadsheets."""
    rows = [{"id": name, "symbols": [text, "b"]} for name in (text, "x")]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    out = tmp_path / "out.csv"
    assert cli.run(["convert", str(tmp_path / "a.jsonl"), "-q", "-o", str(out)]) == 0
    with open(out, encoding="utf-8", newline="") as file:
        cells = [cell for row in csv.reader(file) for cell in row]
    assert f"'{text}" in cells
    assert not any(cell.startswith(tuple("=+-@\t\r\uff1d")) for cell in cells)
    out = tmp_path / "out.json"  # where nothing is run, and nothing is changed
    assert cli.run(["convert", str(tmp_path / "a.jsonl"), "-q", "-o", str(out)]) == 0
    assert json.loads(out.read_text("utf-8"))[0]["symbol"] == text


def test_negative_numbers_stay_numbers_in_a_table():
    assert [output._inert(v) for v in (-1.5, "-1.5", "+2", "-", "a=b", None)] == [
        *(-1.5, "-1.5", "+2", "'-", "a=b", None)
    ]


@pytest.fixture(scope="module")
def detector(folder):
    """A detector that was fitted with named columns."""
    normal = drawn(60, 30, seed=5)
    rows = [f"{i},{t},{s}" for i, row in enumerate(normal) for t, s in enumerate(row)]
    (folder / "named.csv").write_text("\n".join(["case,when,what", *rows]), "utf-8")
    file = folder / "named.sojourn"
    columns = ["--id", "case", "--time", "when", "--symbol", "what"]
    sizes = ["--method", "spectral", "--algorithm", "adjacent", "--states", "2"]
    sizes += ["--max-duration", "2", "--detector", "-q"]
    given = ["fit", str(folder / "named.csv"), *columns, *sizes, "-o", str(file)]
    assert cli.run(given) == 0
    return file


def test_a_detector_fits_each_of_its_models_once(folder, tmp_path, capsys, monkeypatch):
    fits, fit = [], sj.HSMM.fit
    monkeypatch.setattr(sj.HSMM, "fit", lambda *args, **how: fits.append(1) or fit(*args, **how))
    args = ("--states", "2", "--max-duration", "2", "--detector", "-q", "-o", tmp_path / "m")
    shown = run(capsys, "fit", folder / "events.csv", *args)
    assert len(fits) == 1 + len(sj.load(tmp_path / "m").fold_models_)
    assert "\nsequences," in shown


def test_detect_sorts_and_leaves_out_and_sums_up(detector, folder, capsys):
    new = folder / "new-named.csv"
    text = (folder / "named.csv").read_text("utf-8")
    new.write_text(text.replace("\n7,3,", "\n7,3,never-"), "utf-8")
    capsys.readouterr()
    assert cli.run(["detect", str(detector), str(new), "--top", "2", "-q"]) == 0  # no columns
    out, err = capsys.readouterr()
    rows = out.splitlines()[1:]
    assert len(rows) == 2
    assert rows[0].startswith("7,")
    assert "never-" in rows[0]
    assert re.search(r"sojourn: \d+ of 60 sequences (is|are) abnormal", err)
    everything = table(run(capsys, "detect", detector, new, "-q"))
    assert everything["id"] == [str(i) for i in range(60)]
    for verdict, reason in zip(everything["verdict"], everything["reason"], strict=True):
        assert (reason == "") == (verdict == "normal")
    only = table(run(capsys, "detect", detector, new, "-q", "--abnormal"))
    assert set(only["verdict"]) == {"abnormal"}


def test_guessed_columns_are_remembered_and_others_are_guessed_again(tmp_path, capsys):
    rows = [(i, t, s) for i, row in enumerate(drawn(20, 12, seed=5)) for t, s in enumerate(row)]
    texts = {
        "train.csv": ["flight,seconds,command", *(f"{i},{t},{s}" for i, t, s in rows)],
        # Alone, the columns id and symbol of this file would be the guess.
        "more.csv": [
            "id,symbol,flight,seconds,command",
            *(f"{k},x,{i},{t},{s}" for k, (i, t, s) in enumerate(rows)),
        ],
        "other.csv": ["case,time,event", *(f"{i},{t},{s}" for i, t, s in rows)],
    }
    for name, lines in texts.items():
        (tmp_path / name).write_text("\n".join(lines), "utf-8")
    model = tmp_path / "m.sojourn"
    sizes = ["--states", "2", "--max-duration", "2", "--max-iter", "2"]
    run(capsys, "fit", tmp_path / "train.csv", *sizes, "-o", model)
    asked = {name: run(capsys, "score", model, tmp_path / name, "-q") for name in texts}
    assert asked["train.csv"] == asked["more.csv"] == asked["other.csv"]
    assert len(asked["more.csv"].splitlines()) == 21


def test_a_dash_is_standard_input_and_output(detector, folder, capsys, stdin):
    stdin((folder / "named.csv").read_bytes())
    given = run(capsys, "detect", detector, "-", "-o", "-", "-q")
    assert given == run(capsys, "detect", detector, folder / "named.csv", "-q")


def test_a_stream_of_a_detector_raises_alarms_and_takes_novel_symbols(detector, capsys, stdin):
    symbol = sj.load(detector).vocabulary_[0]
    stdin(f"{symbol}\nnever\n{symbol}\n".encode())
    lines = run(capsys, "stream", detector, "--alarm", "0.01").splitlines()
    assert [line.split("\t")[3] for line in lines][1] == "1"
    assert lines[1].split("\t")[1] == "inf"
    stdin(b"never\n")
    (item,) = map(json.loads, run(capsys, "stream", detector, "--format", "json").splitlines())
    assert item == {"id": None, "symbol": "never", "surprise": None}
    stdin(b"never\n")
    assert "--alarm is 0.0" in refused(capsys, "stream", detector, "--alarm", "0")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("score", "m", "d", "-o", "s.xlsx"), "s.xlsx ends in .xlsx"),
        (("score", "m", "d", "-o", "missing/s.csv"), "there is no folder missing"),
        (("fit", "d", "-o", "missing/m.sojourn"), "there is no folder missing"),
        (("report", "m", "d", "-o", "missing/r.html"), "there is no folder missing"),
        (("fit", "d", "-o", "m", "--states", "abc"), "'abc' is not a number or auto"),
        (("fit", "d", "-o", "-"), "- is no file; give a name"),
        (("fit", ".", "-o", "m"), ". is a folder; give the files in it"),
        (("fit", "d", "-o", "m", "--detector", "--scan"), "--detector is not for --scan"),
    ],
)
def test_outputs_and_numbers_are_checked_before_work_begins(args, words, capsys):
    assert cli.run(list(args)) == 2
    assert words in capsys.readouterr().err


def test_errors_name_options(folder, tmp_path, capsys):
    strange = tmp_path / "strange.csv"
    strange.write_text("id,time,symbol\na,1,never\n", "utf-8")
    model = next(folder.glob("*.sojourn"))
    assert cli.run(["score", str(model), str(strange), "-q"]) == 1
    error = capsys.readouterr().err
    assert "--unknown missing" in error
    assert "unknown=" not in error


def test_shipped_data_are_written_and_completion_is_printed(tmp_path, capsys, monkeypatch):
    run(capsys, "dataset", "approaches", "-o", tmp_path / "new")
    assert len(sj.read(tmp_path / "new" / "normal.csv", quiet=True)) == 82
    assert "_SOJOURN_COMPLETE" in run(capsys, "completion", "bash")
    monkeypatch.setenv("_SOJOURN_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "sojourn det")
    monkeypatch.setenv("COMP_CWORD", "1")
    cli.run([])
    assert "detect" in capsys.readouterr().out


def test_blank_lines_are_empty_sequences_of_a_model_with_ends(tmp_path, capsys):
    lines, model = tmp_path / "runs.txt", tmp_path / "m.sojourn"
    lines.write_text("a a b\n\nb a\n" * 10)
    sizes = ["--states", 1, "--max-duration", 2, "--seed", 0]
    run(capsys, "fit", lines, *sizes, "--ends", "-o", model)
    assert sj.load(model).params_.empty == pytest.approx(1 / 3, abs=0.01)
    scored = table(run(capsys, "score", model, lines))
    assert scored["length"][:3] == ["3", "0", "2"]
    assert float(scored["log_prob"][1]) == pytest.approx(np.log(1 / 3), abs=0.02)
    run(capsys, "fit", lines, *sizes, "--ends", "--scan", "-o", tmp_path / "scanned")
    assert sj.load(tmp_path / "scanned").params_.empty == sj.load(model).params_.empty
    assert "empty" in refused(capsys, "fit", lines, *sizes, "-o", model)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--algorithm", "contexts", "--windows", "0,1"], "--windows (0, 1) is for fixed windows"),
        (["--algorithm", "pooled", "--ends"], "--ends is for --algorithm contexts"),
        (["--jobs", "0"], "--jobs is a number of threads"),
        (["--seed", "-3"], "--seed is -3"),
    ],
)
def test_errors_of_a_fit_name_options(folder, tmp_path, capsys, options, message):
    size = ["--method", "spectral", "--states", "2", "--max-duration", "2"]
    events = folder / "events.csv"
    said = refused(capsys, "fit", events, "-q", *size, *options, "-o", tmp_path / "m")
    assert message in said
    assert not re.search(r"\b[a-z]+_[a-z]+\b", said.replace("per_step", ""))


def test_a_forecast_of_an_end_that_the_model_does_not_know_names_the_option(folder, capsys):
    said = refused(capsys, "forecast", folder / "hsmm.sojourn", folder / "more.csv", "-q", "--end")
    assert "fit it with --ends" in said
