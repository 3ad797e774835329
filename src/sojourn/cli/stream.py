"""``sojourn stream``: symbols in, surprise out, line by line; ``sojourn convert``: file to file."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from typing import IO, Any

import click

from sojourn.cli import options
from sojourn.cli.options import Data, Saved
from sojourn.cli.output import Output, long, writes_results
from sojourn.errors import SojournError

NAMES = ("surprise", "p_value", "alarm")
LONGEST_LINE = 1 << 20  # bytes; an endless line must not fill the memory


@click.command()
@options.uses_model
@click.option("--format", "shape", type=click.Choice(["text", "json"]), help="Format. [text]")
@click.option(
    "--alarm",
    type=float,
    metavar="RATE",
    help="Write p-value and alarm, too: the fraction of normal steps that may raise one.",
)
def stream(saved: Saved, shape: str | None, alarm: float | None) -> None:
    """Write the surprise of symbols read from standard input.

    A line is a symbol, or an id and a symbol with a tab between them; an empty symbol is missing.
    For a model of measurements it is the values of all channels, in their order, with commas.
    Each line is written back at once, with its surprise in nats after a tab; with --alarm, also the
    p-value of the step, and 1 for an alarm or 0.
    """
    from sojourn.detect.detector import AnomalyDetector

    model = saved.load(detector=True)
    detects = isinstance(model, AnomalyDetector)
    if alarm is not None and not detects:
        raise click.UsageError("--alarm needs a model that was fitted with --detector.")
    if saved.unknown == "novel" and not detects:
        raise click.UsageError("--unknown novel needs a model that was fitted with --detector.")
    clock = getattr(getattr(model, "model_", model), "clock_", None)
    if clock is not None and clock.every:
        options.note(
            f"the model counts steps of {clock.every}: each line is one step, not one event"
        )
    start = model.stream(alarm if alarm is not None else 0.5) if detects else model.stream()
    streams: dict[str | None, Any] = {}
    kinds = _kinds(getattr(model, "model_", model))
    integers = model.vocabulary_.dtype.kind == "i"
    for number, line in _lines(sys.stdin.buffer):
        first, tab, second = line.partition("\t")
        owner, text = (first, second) if tab else (None, first)
        if owner not in streams:
            streams[owner] = start.fork()
        try:
            given: Any = _values(text, kinds) if kinds else _symbol(text, integers, novel=detects)
            step = streams[owner].update(given)
        except SojournError as error:
            raise SojournError(f"line {number}: {error}") from None
        numbers = tuple(step) if detects else (step,)
        found = dict(zip(NAMES, numbers if alarm is not None else numbers[:1], strict=False))
        if shape == "json":
            plain = {name: value if math.isfinite(value) else None for name, value in found.items()}
            shown_as = {"values": given} if kinds else {"symbol": text or None}
            line = json.dumps({"id": owner, **shown_as, **plain}, ensure_ascii=False)
        else:
            shown = [repr(int(v) if isinstance(v, bool) else v) for v in found.values()]
            line = "\t".join([line, *shown])
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def _lines(file: IO[bytes]) -> Iterator[tuple[int, str]]:
    """Lines and their numbers, as soon as they arrive."""
    number = 0
    while raw := file.readline(LONGEST_LINE):
        number += 1
        if len(raw) == LONGEST_LINE:
            raise SojournError(f"line {number} is longer than {LONGEST_LINE} bytes")
        try:
            line = raw.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise SojournError(f"line {number} is not UTF-8: {error.reason}") from None
        yield number, line.removesuffix("\n").removesuffix("\r")


def _kinds(model: Any) -> dict[str, bool]:
    """The channels of a model of measurements, and whether each holds symbols."""
    from sojourn.emissions import Categorical

    parts = getattr(model._density, "parts", {})
    return {
        name: isinstance(parts.get(name), Categorical) for name in getattr(model, "channels_", ())
    }


def _values(text: str, kinds: dict[str, bool]) -> dict[str, Any]:
    """The values of a line by channel, None where one is missing."""
    fields = text.split(",")
    if len(fields) != len(kinds):
        raise SojournError(
            f"{text!r} has {len(fields)} values; expected {len(kinds)}, those of "
            f"{', '.join(kinds)}, with commas between them"
        )
    found: dict[str, Any] = {}
    for (name, symbols), field in zip(kinds.items(), fields, strict=True):
        found[name] = field.strip() or None
        if found[name] is None or symbols:
            continue
        try:
            value = float(field)
        except ValueError:
            raise SojournError(f"{field!r} is not a number, as {name} is") from None
        if math.isinf(value):
            raise SojournError(f"{name} is {field}; expected a number, or nothing where missing")
        found[name] = None if math.isnan(value) else value
    return found


def _symbol(text: str, integers: bool, novel: bool) -> str | int | None:
    if text == "":
        return None
    if not integers:
        return text
    try:
        return int(text)
    except ValueError:
        if novel:
            return text
        raise SojournError(f"{text!r} is not an integer, as the model's symbols are") from None


@click.command()
@options.reads_data
@writes_results
def convert(data: Data, output: Output) -> None:
    """Convert files to a table with one row per symbol.

    Rows have an id, a position from 0, a symbol, and a time in UTC where the data have times.
    Without -o, they are written as CSV.
    """
    import numpy as np

    found = data.read()
    times: Any = getattr(found, "times", None)
    if times is None:
        output.write(long(found))
        return
    if times.dtype.kind == "M":
        times = np.datetime_as_string(times, unit="auto", timezone="UTC")
    output.write(long(found, time=times))
