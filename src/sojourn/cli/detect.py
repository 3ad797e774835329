"""``sojourn detect`` and ``sojourn report``: which sequences are abnormal, where and why."""

from __future__ import annotations

from typing import Any

import click

from sojourn.cli import options
from sojourn.cli.options import Data, Saved, status
from sojourn.cli.output import Output, writes_results
from sojourn.errors import SojournError

FOUND = 3  # exit status of --check


@click.command()
@options.uses_model
@options.reads_data
@click.option(
    "--normal",
    metavar="DATA",
    help="Normal sequences that the model was not fitted on, to calibrate a model that was saved "
    "without a detector.",
)
@options.makes_detector(", with --normal")
@click.option("--abnormal", is_flag=True, help="Write abnormal sequences only.")
@click.option("--sort", is_flag=True, help="Write the most abnormal first.")
@click.option("--top", type=click.IntRange(1), help="Write that many, the most abnormal first.")
@click.option(
    "--reasons", "most", type=click.IntRange(1), help="Add a column with up to that many reasons."
)
@click.option("--check", is_flag=True, help="Exit with status 3 if a sequence is abnormal.")
@writes_results
def detect(
    saved: Saved,
    data: Data,
    normal: str | None,
    detection: dict[str, Any],
    abnormal: bool,
    sort: bool,
    top: int | None,
    most: int | None,
    check: bool,
    output: Output,
) -> None:
    """Find abnormal sequences, with p-values and reasons."""
    import numpy as np

    from sojourn.detect.detector import AnomalyDetector

    detector, unknown = _loaded(saved, normal or detection)
    if not isinstance(detector, AnomalyDetector):
        if normal is None:
            raise SojournError(
                f"{saved.model} holds a model, {type(detector).__name__}, which does not know how "
                f"normal sequences score; give some with --normal, or fit with --detector"
            )
        reference = Data((normal,), data.how).read(detector, unknown)
        with status("calibrating"):
            detector = AnomalyDetector(detector, refit=False, **detection).fit(reference)
    sequences = data.read(detector, unknown)
    with status("detecting"):
        scores, pvalues = detector.score_samples(sequences), detector.pvalues(sequences)
        alarms = detector.predict(sequences) < 0
        order = np.lexsort((scores, pvalues)) if sort or top else np.arange(len(sequences))
        order = order[alarms[order]] if abnormal else order
        order = order[:top]
        reasons: list[list[str]] = [[] for _ in alarms]
        odd = np.flatnonzero(alarms)
        why = detector.explain(sequences[odd], most=most or 1) if odd.size else []
        for i, one in zip(odd.tolist(), why, strict=True):
            reasons[i] = [reason.text for reason in one.reasons]
    columns = {
        "id": sequences.ids[order],
        "score": scores[order],
        "p_value": pvalues[order],
        "verdict": np.where(alarms[order], "abnormal", "normal"),
        "reason": [next(iter(reasons[i]), "") for i in order.tolist()],
    }
    output.write(columns | ({"reasons": [reasons[i] for i in order.tolist()]} if most else {}))
    are, rate = "is" if alarms.sum() == 1 else "are", detector.contamination
    options.note(
        f"{alarms.sum():,} of {len(alarms):,} sequences {are} abnormal; {rate:.3g} of normal ones "
        f"would be by chance"
    )
    if check and alarms.any():
        raise click.exceptions.Exit(FOUND)


def _loaded(saved: Saved, calibrating: Any) -> tuple[Any, str]:
    """The detector in a file, or the model; and how to read symbols that it has not seen."""
    from sojourn.detect.detector import AnomalyDetector

    found = saved.load(detector=True)
    if not isinstance(found, AnomalyDetector):
        return found, saved.unknown or "novel"
    if calibrating:
        raise click.UsageError(
            f"{saved.model} is a detector, which was calibrated when it was fitted; leave out "
            f"--normal, --contamination and --detect-method."
        )
    return found, found.unknown


@click.command()
@options.uses_model
@options.reads_data
@click.option("--labels", metavar="COLUMN", help="Column with the known label of each sequence.")
@click.option("--normal-label", metavar="LABEL", help="The label of normal sequences. [normal]")
@click.option(
    "--normal",
    metavar="FILE",
    multiple=True,
    help="Normal sequences to calibrate a model that was saved without a detector; DATA itself if "
    "omitted.",
)
@click.option("--contamination", type=float, help="False-alarm rate of such a model.")
@click.option("--worst", type=int, default=30, help="How many sequences get a timeline. [30]")
@click.option("--title", help="Heading of the page.")
@options.writes_file("FILE", "HTML file to write.", ".html", ".htm")
def report(
    saved: Saved, data: Data, labels: str | None, normal: tuple[str, ...], output: str, **page: Any
) -> None:
    """Write an HTML page of what is abnormal, where and why."""
    from sojourn.report import write_report

    model, unknown = _loaded(saved, normal or page["contamination"])
    sequences = data.read(model, unknown)
    known = data.labels(labels, sequences, model) if labels else None
    usual = Data(normal, data.how | {"quiet": True}).read(model, unknown) if normal else None
    files = click.get_current_context().params["files"]  # as they were given, - among them
    shown = ", ".join("standard input" if name == "-" else name for name in files)
    read = {"Data": shown, "Model file": saved.model}
    if normal:
        read["Normal sequences"] = ", ".join(normal)
    with status("writing the report"):
        write_report(model, sequences, output, labels=known, normal=usual, provenance=read, **page)
    click.echo(output)
