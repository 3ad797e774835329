"""``python -m reproduction``: the paper's experiments, each in one command that can be stopped."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import click

from sojourn.cli import run_group


@click.group()
def reproduce() -> None:
    """Run the paper's experiments: figures, numbers, and a page that shows them.

    What is done is stored as it is done: a command that was stopped goes on where it was.
    """


@reproduce.command()
@click.option(
    "-o", "folder", default="reproduce-synthetic", show_default=True, help="Where results go."
)
@click.option("--quick", is_flag=True, help="A minute's version.")
@click.option("--runs", type=click.IntRange(1), help="Random models of each size; 100 if not set.")
@click.option("--iterations", type=click.IntRange(1), help="Most passes of EM; 200 if not set.")
@click.option(
    "--most-for-em",
    type=click.IntRange(1),
    metavar="N",
    help="Most training sequences for EM, which takes hours at 100,000; no limit if not set.",
)
@click.option("--jobs", "n_jobs", type=int, help="Threads; 1 if not set, since times are of one.")
def synthetic(folder: str, quick: bool, **options: Any) -> None:
    """Figure 6: error and time of spectral methods and EM on random models."""
    from reproduction.synthetic import QUICK, Plan
    from reproduction.synthetic_page import reproduce_synthetic

    plan = replace(QUICK if quick else Plan(), **{k: v for k, v in options.items() if v})
    click.echo(reproduce_synthetic(folder, plan))


@reproduce.command()
@click.option(
    "-o", "folder", default="reproduce-aviation", show_default=True, help="Where results go."
)
@click.option("--quick", is_flag=True, help="A minute's version.")
@click.option("--sets", type=click.IntRange(1), help="Simulated sets of flights; 1 if not set.")
@click.option("--flights", type=click.IntRange(20), help="Training flights; 10,020 if not set.")
@click.option("--iterations", type=click.IntRange(1), help="Most passes of EM; 200 if not set.")
@click.option(
    "--detector-flights",
    type=click.IntRange(20),
    help="Most training flights of the detector; 2,000 if not set.",
)
@click.option(
    "--data",
    metavar="DIR",
    help="Recordings in place of simulated flights: train, normal and abnormal, each a .parquet "
    "or .csv file or a folder of them, with a row a second and a column a control.",
)
@click.option("--id", metavar="COLUMN", help="Whose a row of the recordings is; flight if not set.")
@click.option("--time", metavar="COLUMN", help="When a row was; time if not set.")
@click.option("--jobs", "n_jobs", type=int, help="Threads; all cores if not set.")
def aviation(folder: str, quick: bool, **options: Any) -> None:
    """Figures 7 and 8 and Table 1: abnormal flights by the likelihood of the pilot's commands."""
    from reproduction.aviation import QUICK, Plan
    from reproduction.aviation_page import reproduce_aviation

    plan = replace(QUICK if quick else Plan(), **{k: v for k, v in options.items() if v})
    click.echo(reproduce_aviation(folder, plan))


def run(args: list[str]) -> int:
    """Run an experiment and return the exit code; a problem is one sentence."""
    return run_group(reproduce, "reproduction", args)


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
