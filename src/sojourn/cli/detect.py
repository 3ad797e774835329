"""``sojourn detect``: which sequences are abnormal, how sure that is, and why."""

from __future__ import annotations

from typing import Any

import click

from sojourn.cli.options import load_model, read_data, reads_data, status, uses_model
from sojourn.cli.output import write, writes_results
from sojourn.errors import SojournError

METHOD = click.Choice(["residual", "loglik", "typicality"])


@click.command()
@uses_model
@reads_data
@click.option(
    "--normal",
    metavar="DATA",
    help="Normal sequences that the model was not fitted on, to calibrate a plain model.",
)
@click.option("--contamination", type=float, help="False-alarm rate, with --normal. [0.05]")
@click.option("--detect-method", type=METHOD, help="What is scored, with --normal. [residual]")
@writes_results
def detect(**options: Any) -> None:
    """Which sequences are abnormal: score, p-value, verdict and first reason."""
    normal = options.pop("normal")
    how = {name: options.pop(name) for name in ("contamination", "detect_method")}
    how = {name.removeprefix("detect_"): value for name, value in how.items() if value is not None}
    path = options["model"]
    unknown = options.pop("unknown")
    found = load_model(options, detector=True)
    is_detector = hasattr(found, "calibration_")
    if unknown:
        (found.model if is_detector else found).set_params(unknown=unknown)
    if is_detector and (normal or how):
        raise click.UsageError(f"{path} is a detector, which was calibrated when it was fitted.")
    if not is_detector:
        if normal is None:
            raise SojournError(
                f"{path} holds a {type(found).__name__}, which does not know how normal sequences "
                f"score; give some with --normal, or fit with --detector"
            )
        from sojourn.detect.detector import AnomalyDetector

        reference = read_data({**options, "data": (normal,)}, found)
        with status("calibrating"):
            found = AnomalyDetector(found, refit=False, **how).fit(reference)
    sequences = read_data(options, found)
    with status("detecting"):
        told = found.explain(sequences)
        verdict = found.predict(sequences)
    columns = {
        "id": sequences.ids,
        "score": [one.score for one in told],
        "p_value": [one.pvalue for one in told],
        "verdict": ["abnormal" if v < 0 else "normal" for v in verdict.tolist()],
        "reason": [one.reasons[0].text if one.reasons else "" for one in told],
    }
    write(options, columns)
