"""Options that commands share, and what they say: which data to read, which model to load."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from sojourn.data.sequences import Sequences
    from sojourn.io.sources import Scan

Command = TypeVar("Command", bound=Callable[..., Any])

FORMATS = ("csv", "tsv", "matrix", "lines", "jsonl", "parquet", "arrow")


def number_or_auto(text: str) -> int | str:
    """A whole number, or ``auto``."""
    return text if text == "auto" else int(text)


def reads_data(command: Command) -> Command:
    """Add the files, and the options that say how to read them."""
    for add in (
        click.option("--quiet", "-q", is_flag=True, help="Do not print guesses."),
        click.option(
            "--on-error",
            type=click.Choice(["raise", "skip"]),
            default="raise",
            help="What to do about a malformed row.",
        ),
        click.option("--missing", multiple=True, help="What a missing symbol is in text."),
        click.option("--delimiter", help="What stands between fields."),
        click.option(
            "--from", "kind", type=click.Choice(FORMATS), help="Format; else told by the name."
        ),
        click.option("--no-time", is_flag=True, help="Keep the order of the file."),
        click.option("--no-id", is_flag=True, help="The file is one sequence."),
        click.option("--symbol", metavar="COLUMN", help="What a row says; else guessed."),
        click.option("--time", metavar="COLUMN", help="When a row was; else guessed."),
        click.option("--id", metavar="COLUMN", help="Whose a row is; else guessed."),
        click.argument("data", nargs=-1, required=True, metavar="DATA..."),
    ):
        command = add(command)
    return command


def read_data(options: dict[str, Any], model: Any = None) -> Sequences:
    """The sequences that the options of `reads_data` describe, in the vocabulary of a model.

    Those options are taken out of the dictionary.
    """
    from sojourn.data.sequences import Sequences
    from sojourn.io import sources

    files, how = _how(options, model)
    with status(f"reading {files[0]}{' and others' * (len(files) > 1)}"):
        if len(files) == 1:
            return sources.read(files[0], **how)
        return Sequences.concatenate(sources.scan(files, **how, rows_per_partition=None))


def scan_data(options: dict[str, Any], model: Any = None) -> Scan:
    """The same data, to be read in partitions; one name may be a pattern."""
    from sojourn.io import sources

    files, how = _how(options, model)
    return sources.scan(files if len(files) > 1 else files[0], **how)


def _how(options: dict[str, Any], model: Any) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Files, and how to read them."""
    files = options.pop("data")
    no_id, no_time = options.pop("no_id"), options.pop("no_time")
    how: dict[str, Any] = {name: options.pop(name) for name in ("id", "time", "symbol")}
    for name, none in (("id", no_id), ("time", no_time)):
        if none and how[name] is not None:
            raise click.UsageError(f"--{name} and --no-{name} exclude each other.")
        how[name] = False if none else how[name]
    how["format"], how["delimiter"] = options.pop("kind"), options.pop("delimiter")
    how["on_error"], how["quiet"] = options.pop("on_error"), options.pop("quiet")
    if missing := options.pop("missing"):
        how["missing"] = missing
    if model is not None:
        how["vocabulary"], how["unknown"] = model.vocabulary_, model.unknown
    return files, how


def uses_model(command: Command) -> Command:
    """Add the model file, and what the model is to do with symbols it does not know."""
    unknown = click.option(
        "--unknown",
        type=click.Choice(["error", "missing"]),
        help="What a symbol is that was not seen in training; else as it was fitted.",
    )
    return click.argument("model")(unknown(command))


def load_model(options: dict[str, Any], states: str = "", detector: bool = False) -> Any:
    """The model that the options of `uses_model` name; `states` says what needs its states.

    Of a detector it is the model within, unless a detector is asked for.
    """
    from sojourn.errors import SojournError
    from sojourn.persist.saving import load

    path, unknown = options.pop("model"), options.pop("unknown", None)
    model = load(path)
    if hasattr(model, "calibration_") and (states or not detector):
        model = model.model_
    if states and not hasattr(model, "params_"):
        raise SojournError(
            f"{path} holds a {type(model).__name__}, which has no states to {states}; fit one with "
            f"--method hsmm"
        )
    return model.set_params(unknown=unknown) if unknown else model


@contextmanager
def status(what: str) -> Iterator[None]:
    """Say what is going on, on standard error and only if that is a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(what):
        yield
