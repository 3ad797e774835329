"""The command line on measurements: fit, and what is asked of the model."""

import csv
import io
import json

import numpy as np
import pytest

from sojourn import cli, load, read


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sensors")
    rng = np.random.default_rng(0)
    level = np.tile(np.repeat([0.0, 5.0], [7, 3]), 40)
    rows = zip(level + rng.normal(size=400), rng.normal(size=400) - level, strict=True)
    with open(folder / "sensors.csv", "w", encoding="utf-8", newline="") as file:
        out = csv.writer(file)
        out.writerow(["engine", "second", "speed", "temp"])
        out.writerows([f"e{i // 40}", i % 40, *values] for i, values in enumerate(rows))
    return folder


def run(capsys, *args) -> list[dict[str, str]]:
    code = cli.run([*map(str, args)])
    out, err = capsys.readouterr()
    assert code == 0, err
    return list(csv.DictReader(io.StringIO(out)))


def test_sensors_are_fitted_and_asked_about(folder, capsys):
    data = (folder / "sensors.csv", "--id", "engine", "--time", "second")
    model = folder / "m.sojourn"
    sizes = ("--states", 2, "--max-duration", 9, "--max-iter", 5)
    facts = run(capsys, "fit", *data, "--values", "speed,temp", *sizes, "-o", model)
    assert {row["property"]: row["value"] for row in facts}["channels"] == "speed, temp"
    signals = read(data[0], id="engine", time="second", values=["speed", "temp"])
    scores = [float(row["log_prob"]) for row in run(capsys, "score", model, *data)]
    np.testing.assert_array_equal(scores, load(model).score_samples(signals))
    np.testing.assert_array_equal(
        scores, [float(row["log_prob"]) for row in run(capsys, "score", model, *data, "--scan")]
    )
    assert run(capsys, "info", model, "--states")[1]["values"].startswith("speed 4.9")
    assert cli.run(["info", str(model), "--format", "json"]) == 0
    facts = {row["property"]: row["value"] for row in json.loads(capsys.readouterr().out)}
    assert facts["emission"].startswith("Gaussian(")
    ahead = run(capsys, "predict", model, *data)
    assert [row["channel"] for row in ahead[:2]] == ["speed", "temp"]
    assert float(ahead[0]["5%"]) < float(ahead[0]["mean"]) < float(ahead[0]["95%"])
    steps = run(capsys, "forecast", model, *data, "--horizon", 2)
    assert [(row["step"], row["channel"]) for row in steps[1:4]] == [
        ("1", "temp"),
        ("2", "speed"),
        ("2", "temp"),
    ]
    first = [row for row in steps if row["step"] == "1"]
    assert [{**row, "step": "1"} for row in ahead] == first
    by_name = run(capsys, "forecast", model, *data, "--state", "state 1")
    assert by_name == run(capsys, "forecast", model, *data, "--state", 1)
    drawn = run(capsys, "sample", model, "--length", 4, "--states")
    assert list(drawn[0]) == ["id", "position", "speed", "temp", "state"]


@pytest.mark.parametrize("detector", [(), ("--detector", "--contamination", "0.2")])
def test_several_channels_are_streamed(folder, capsys, monkeypatch, detector):
    data = (folder / "sensors.csv", "--id", "engine", "--time", "second")
    model = folder / "streamed.sojourn"
    sizes = ("--states", 2, "--max-duration", 9, "--max-iter", 3)
    run(capsys, "fit", *data, "--values", "speed,temp", *sizes, *detector, "-o", model)
    loaded = load(model)
    inner = getattr(loaded, "model_", loaded)
    rows = np.array([[0.5, 0.1], [5.0, np.nan], [np.nan, np.nan], [4.5, -4.0]])
    text = "\n".join("a\t" + ",".join("" if np.isnan(v) else str(v) for v in row) for row in rows)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert cli.run(["stream", str(model), *(("--alarm", "0.1") if detector else ())]) == 0
    out = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    expected = inner.surprise([rows])[0]
    expected[2] = 0.0  # missing in every channel
    assert [float(fields[2]) for fields in out] == expected.tolist()
    assert {len(fields) for fields in out} == {5 if detector else 3}


@pytest.mark.parametrize(
    ("line", "message"),
    [("1.0", "has 1 values; expected 2"), ("1,x", "'x' is not a number"), ("1,inf", "temp is inf")],
)
def test_lines_that_are_no_values_are_refused(folder, capsys, monkeypatch, line, message):
    data = (folder / "sensors.csv", "--id", "engine", "--time", "second")
    model = folder / "refusing.sojourn"
    sizes = ("--states", 2, "--max-duration", 2, "--max-iter", 1)
    run(capsys, "fit", *data, "--values", "speed,temp", *sizes, "-o", model)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(line.encode())))
    assert cli.run(["stream", str(model)]) == 1
    assert message in capsys.readouterr().err


def test_labels_are_read_by_the_columns_that_a_model_remembers(folder, capsys):
    lines = (folder / "sensors.csv").read_text("utf-8").splitlines()
    text = [line + (",odd" if line.startswith("e1,") else ",normal") for line in lines[1:]]
    path, page = folder / "labelled.csv", folder / "page.html"
    path.write_text("\n".join(["unit of age,second,speed,temp,kind", *text]), "utf-8")
    data = (path, "--id", "unit of age", "--time", "second", "--values", "speed,temp")
    sizes = ("--states", 2, "--max-duration", 2, "--max-iter", 1)
    run(capsys, "fit", *data, *sizes, "-o", folder / "l.sojourn")
    for given in ((path,), data):
        args = (
            "report",
            folder / "l.sojourn",
            *given,
            "--labels",
            "kind",
            "-o",
            page,
            "--contamination",
            0.2,
        )
        assert cli.run([*map(str, args)]) == 0, capsys.readouterr().err
        assert "1 labelled abnormal" in page.read_text("utf-8")


def test_columns_that_a_model_remembers_and_a_file_lacks_are_explained(folder, capsys):
    data = (folder / "sensors.csv", "--id", "engine", "--time", "second")
    sizes = ("--states", 1, "--max-duration", 2, "--max-iter", 2)
    run(capsys, "fit", *data, "--values", "speed,temp", *sizes, "-o", folder / "r.sojourn")
    (folder / "other.csv").write_text("unit,second,speed,temp\n1,1,0.5,1\n")
    (folder / "less.csv").write_text("engine,second,speed\n1,1,0.5\n")
    for name, *texts in (
        ("other", "--id engine, but the file has no", "model remembers --id engine, --time second"),
        ("less", "--values temp, but the file has no", "'speed'"),
    ):
        assert cli.run(["score", str(folder / "r.sojourn"), str(folder / f"{name}.csv")]) == 1
        error = capsys.readouterr().err
        assert all(text in error for text in texts), error
