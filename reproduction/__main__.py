"""``python -m reproduction``: the paper's experiments, one command each, which may be stopped."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from sojourn.cli import run_group

COUNT = click.IntRange(1)


@click.group()
def reproduce() -> None:
    """Run the paper's experiments: figures, numbers, and a page that shows them.

    Each result is stored as soon as it is known: a command that was stopped continues from there.
    """


def experiment(function: Callable[..., None]) -> click.Command:
    """A command with the options that both experiments have."""
    for option in (
        click.option("--jobs", "n_jobs", type=int, help="Threads."),
        click.option(
            "--iterations", type=COUNT, help="Maximum number of EM passes, instead of 200."
        ),
        click.option("--quick", is_flag=True, help="A small version that takes about a minute."),
        click.option(
            "-o",
            "folder",
            type=click.Path(path_type=Path),
            default=f"reproduce-{function.__name__}",
            show_default=True,
            help="Folder for the results.",
        ),
    ):
        function = option(function)
    return reproduce.command()(function)


@experiment
@click.option("--runs", type=COUNT, help="Random models per size, instead of 100.")
@click.option(
    "--most-for-em",
    type=COUNT,
    metavar="N",
    help="Largest training set for EM, which takes hours at 100,000; no limit if omitted.",
)
def synthetic(folder: Path, quick: bool, **options: Any) -> None:
    """Figure 6: error and time of spectral methods and EM on random models.

    Times are of one thread unless --jobs sets another number.
    """
    from reproduction.synthetic import QUICK, Plan
    from reproduction.synthetic_page import reproduce_synthetic

    plan = replace(QUICK if quick else Plan(), **{k: v for k, v in options.items() if v})
    click.echo(reproduce_synthetic(folder, plan))


@experiment
@click.option("--sets", type=COUNT, help="Simulated sets of flights, instead of 1.")
@click.option("--flights", type=click.IntRange(20), help="Training flights, instead of 10,020.")
@click.option(
    "--detector-flights",
    type=click.IntRange(20),
    help="Largest training set for the detector, instead of 2,000 flights.",
)
@click.option(
    "--data",
    metavar="DIR",
    help="Recordings in place of simulated flights: train, normal and abnormal, each a .parquet "
    "or .csv file or a folder of them, with one row per second and one column per control.",
)
@click.option("--id", metavar="COLUMN", help="Column with the flight id, instead of flight.")
@click.option("--time", metavar="COLUMN", help="Column with the time, instead of time.")
def aviation(folder: Path, quick: bool, **options: Any) -> None:
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
