"""``sojourn dataset``: shipped data as files; ``sojourn completion``: for a shell."""

from __future__ import annotations

import os

import click

from sojourn.cli.output import Output, long
from sojourn.errors import SojournError


@click.command()
@click.argument("name", type=click.Choice(["approaches"]))
@click.option("--output", "-o", required=True, metavar="DIR", help="Folder to write to.")
def dataset(name: str, output: str) -> None:
    """Write shipped data as files.

    approaches: normal.csv and today.csv, with the columns flight, seconds and command; today.csv
    has the special missions, with their kind.
    """
    import numpy as np

    from sojourn.datasets import approaches

    data = approaches()
    try:
        os.makedirs(output, exist_ok=True)
    except FileExistsError:
        raise SojournError(f"{output} is a file; give a folder") from None
    for file, sequences, kinds in (
        ("normal.csv", data.normal, None),
        ("today.csv", data.unusual, data.kinds),
    ):
        rows = long(sequences)
        columns = {"flight": rows["id"], "seconds": rows["position"], "command": rows["symbol"]}
        if kinds is not None:
            columns["kind"] = np.repeat(kinds, sequences.lengths)
        path = os.path.join(output, file)
        Output(path, None).write(columns)
        click.echo(path)


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print what makes a shell complete commands and options.

    For bash: sojourn completion bash > ~/.local/share/bash-completion/completions/sojourn
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(context.find_root().command, {}, "sojourn", "_SOJOURN_COMPLETE").source())
