"""``sojourn report``: one page on which sequences are abnormal, where and why."""

from __future__ import annotations

from typing import Any

import click

from sojourn.cli.options import load_model, read_data, reads_data, status, uses_model
from sojourn.errors import SojournError

READING = (
    *("id", "time", "symbol", "no_id", "no_time", "kind", "delimiter"),
    *("missing", "on_error", "quiet"),
)


@click.command()
@uses_model
@reads_data
@click.option("--labels", metavar="COLUMN", help="What is known of each sequence.")
@click.option("--normal-label", metavar="LABEL", help="The label of normal ones. [normal]")
@click.option(
    "--normal",
    metavar="FILE",
    multiple=True,
    help="Normal sequences that calibrate a model saved without a detector; else DATA itself.",
)
@click.option("--contamination", type=float, help="False-alarm rate of such a model.")
@click.option("--worst", type=int, default=30, help="How many get a timeline. [30]")
@click.option("--title", help="Heading of the page.")
@click.option("--output", "-o", required=True, metavar="FILE", help="Such as report.html.")
def report(**options: Any) -> None:
    """Which sequences are abnormal, where and why: one HTML page."""
    from sojourn.report import write_report

    column, normal, path = (options.pop(name) for name in ("labels", "normal", "output"))
    unknown = options.pop("unknown")
    model = load_model(options)
    if unknown:
        for part in (getattr(model, "model_", model), *getattr(model, "fold_models_", ())):
            part.unknown = unknown
    how = {name: options.pop(name) for name in READING}
    data = options.pop("data")
    sequences = read_data({**how, "data": data}, model)
    labels = _labels(how, data, column, sequences) if column else None
    usual = read_data({**how, "data": normal, "quiet": True}, model) if normal else None
    with status("writing the report"):
        write_report(model, sequences, path, labels=labels, normal=usual, **options)
    click.echo(path)


def _labels(how: dict[str, Any], data: Any, column: str, sequences: Any) -> list[Any]:
    """The label of each sequence, from a column that says the same in all of its rows."""
    label = {"symbol": column, "time": None, "no_time": True, "missing": (), "quiet": True}
    found = read_data({**how, **label, "data": data})
    if found.ids.tolist() != sequences.ids.tolist():
        raise SojournError(
            f"column {column} has labels of {len(found)} sequences, and there are "
            f"{len(sequences)}; give each sequence a label"
        )
    labels = []
    for name, values in zip(found.ids.tolist(), found, strict=True):
        distinct = list(dict.fromkeys(values))
        if len(distinct) > 1 or distinct == [None]:
            shown = " and ".join("nothing" if v is None else repr(v) for v in distinct[:2])
            raise SojournError(
                f"column {column} says {shown} of sequence {name}; a label is one for all of its "
                f"rows"
            )
        labels.append(distinct[0])
    return labels
