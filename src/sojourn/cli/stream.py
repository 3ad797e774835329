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

LONGEST_LINE = 1 << 20  # bytes; an endless line must not fill the memory


@click.command()
@options.uses_model
@click.option("--format", "shape", type=click.Choice(["text", "json"]), help="Format. [text]")
def stream(saved: Saved, shape: str | None) -> None:
    """Write the surprise of symbols read from standard input.

    A line is a symbol, or an id and a symbol with a tab between them; an empty symbol is missing.
    Each line is written back at once, with its surprise in nats after a tab.
    """
    model = saved.load()
    start = model.stream()
    streams: dict[str | None, Any] = {}
    integers = model.vocabulary_.dtype.kind == "i"
    for number, line in _lines(sys.stdin.buffer):
        first, tab, second = line.partition("\t")
        owner, text = (first, second) if tab else (None, first)
        if owner not in streams:
            streams[owner] = start.fork()
        try:
            surprise = streams[owner].update(_symbol(text, integers))
        except SojournError as error:
            raise SojournError(f"line {number}: {error}") from None
        if shape == "json":
            finite = surprise if math.isfinite(surprise) else None
            item = {"id": owner, "symbol": text or None, "surprise": finite}
            line = json.dumps(item, ensure_ascii=False)
        else:
            line = f"{line}\t{surprise!r}"
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


def _symbol(text: str, integers: bool) -> str | int | None:
    if text == "":
        return None
    if not integers:
        return text
    try:
        return int(text)
    except ValueError:
        raise SojournError(f"{text!r} is not an integer, as the model's symbols are") from None


@click.command()
@options.reads_data
@writes_results
def convert(data: Data, output: Output) -> None:
    """Convert files of any format to a table with one row per symbol.

    Rows have an id, a position from 0 and a symbol. Without -o, they are written as CSV.
    """
    output.write(long(data.read()))
