"""The commands, in the order in which one meets them."""

from __future__ import annotations

from typing import Any

import click

from sojourn.cli.ask import decode, predict, sample, score
from sojourn.cli.detect import detect
from sojourn.cli.fit import fit, info
from sojourn.cli.report import report
from sojourn.cli.stream import convert, stream


class InOrder(click.Group):
    """A group that lists its commands as they were added."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of the commands."""
        return list(self.commands)


def _show_version(ctx: click.Context, _: Any, asked: bool) -> None:
    from sojourn import __version__

    if asked:
        click.echo(f"sojourn {__version__}")
        ctx.exit()


@click.group(
    cls=InOrder,
    context_settings={"help_option_names": ["-h", "--help"]},
    # The backspace keeps click from filling the lines.
    epilog="\b\nExample:\n  sojourn fit events.csv -o model.sojourn\n"
    "  sojourn score model.sojourn more.csv",
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and exit.",
)
def commands() -> None:
    """Hidden semi-Markov models of event sequences: states that last."""


for command in (
    fit,
    info,
    score,
    detect,
    decode,
    predict,
    report,
    sample,
    stream,
    convert,
):
    commands.add_command(command)
