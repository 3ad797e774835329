"""The command line on measurements: fit, and what is asked of the model."""

import csv
import io

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
    ahead = run(capsys, "predict", model, *data)
    assert [row["channel"] for row in ahead[:2]] == ["speed", "temp"]
    assert float(ahead[0]["5 %"]) < float(ahead[0]["mean"]) < float(ahead[0]["95 %"])
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
