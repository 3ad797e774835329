"""One way to every format: what a file holds, its rows, and where to cut it into partitions."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sojourn.data.columns import Column, choose_columns
from sojourn.errors import SojournError
from sojourn.io.arrow_codes import distinct_values, is_list
from sojourn.io.columnar import cut, open_table
from sojourn.io.csv import header_of, table_rows
from sojourn.io.gather import Rows, all_integers, of_transition, typed
from sojourn.io.layout import COMPRESSED, TEXT, Layout, Malformed, Span
from sojourn.io.lines import is_matrix, json_rows, keys_of, sequence_rows
from sojourn.io.sources import Partition
from sojourn.io.text import Block, blocks, check_expansion
from sojourn.io.xes import ACTIVITY, CASE, LIFECYCLE, TIME, xes_columns, xes_rows


def resolve(
    path: str, layout: Layout, id: Column, time: Column, symbol: str | None, format_given: bool
) -> tuple[Layout, list[str]]:
    """The layout of a file with nothing left to guess, and in words what was guessed."""
    guesses: list[str] = []
    named = any(name not in (None, False) for name in (id, time, symbol))
    if layout.format in ("csv", "tsv"):
        names, mark = header_of(path, layout.format, layout.delimiter)
        if mark != (layout.delimiter or {"csv": ",", "tsv": "\t"}[layout.format]):
            guesses.append(f"delimiter {mark!r}")
        layout = replace(layout, delimiter=mark)
        if is_matrix(names) and not (format_given or named):
            return replace(layout, format="matrix"), [*guesses, "no header, one sequence per row"]
        lists = dict.fromkeys(names, False)
    elif layout.format in ("lines", "matrix"):
        if named:
            raise SojournError(
                f"{path}: a file with one sequence per line has no columns; leave id=, time= and "
                f"symbol= out, or pass another format="
            )
        if layout.format == "matrix" and layout.delimiter is None:
            layout = replace(layout, delimiter=",")
        return layout, guesses
    elif layout.format == "jsonl":
        lists = keys_of(path, layout.on_error)
        names = list(lists)
    elif layout.format == "xes":
        names = xes_columns(path, layout)
        lists = dict.fromkeys(names, False)
        id, symbol = CASE if id is None else id, ACTIVITY if symbol is None else symbol
        time = (TIME if TIME in names else False) if time is None else time
    else:
        schema = open_table(path, layout).schema
        names = schema.names
        lists = {item.name: is_list(item.type) for item in schema}
    if layout.transition is not None:
        if names.count(LIFECYCLE) != 1:
            raise SojournError(f"{path}: lifecycle= needs one column {LIFECYCLE!r}")
        layout = replace(layout, lifecycle=LIFECYCLE)
    columns, more = choose_columns(names, lists.__getitem__, id, time, symbol, path, layout.values)
    return replace(layout, **columns._asdict()), guesses + more


def rows_of(partition: Partition, malformed: Malformed) -> Iterator[Rows]:
    """Rows of a partition, batch by batch."""
    rows = _all_rows(partition, malformed)
    transition = partition.layout.transition
    return rows if transition is None else (of_transition(batch, transition) for batch in rows)


def _all_rows(partition: Partition, malformed: Malformed) -> Iterator[Rows]:
    """Rows of a partition, whatever their lifecycle."""
    path, layout, pieces = partition.path, partition.layout, partition.pieces
    if layout.format == "xes":
        return xes_rows(path, layout, malformed)
    if layout.format in ("parquet", "arrow"):
        file = open_table(path, layout)
        first, last = pieces or (0, len(file.sizes))
        return file.rows(range(first, last), shared=partition.span.above is not None)
    if layout.format in ("csv", "tsv"):
        return table_rows(path, layout, malformed)
    start, stop = pieces or (0, None)
    check_expansion(path, layout.max_expansion)
    found = blocks(path, layout.max_expansion, start, stop, partition.line)
    return (json_rows if layout.format == "jsonl" else sequence_rows)(found, layout, malformed)


@dataclass
class Survey:
    """What one pass over the files of a scan finds: their symbols, and where to cut them."""

    layout: Layout
    target: int | None  # symbols in a partition; None where each file is one
    symbols: dict[str, set[Any]] = field(default_factory=dict)  # by file
    text_ids: bool = False
    partitions: list[Partition] = field(default_factory=list)
    n_before: int = 0  # sequences without ids of their own, so far

    def add(self, path: str, symbols: bool) -> None:
        """Pass over one more file; of Parquet and Arrow the symbols only if they are wanted."""
        if self.layout.format in ("parquet", "arrow"):
            self._add_table(path, symbols)
        elif self.layout.values:
            self.partitions.append(Partition(path, self.layout))
        else:
            self._add_text(path)

    def vocabulary(self) -> NDArray[Any]:
        """The symbols seen, sorted; as integers where all of them are, if they are text."""
        values = list(set().union(*self.symbols.values()))
        path = next(iter(self.symbols))
        if not values:
            raise SojournError(
                f"{path}: every symbol is missing; pass vocabulary= to say what there can be"
            )
        if self.layout.format in TEXT:
            try:
                return np.unique(typed(values, lambda _: [], Malformed(path)))
            except SojournError:
                for path, found in self.symbols.items():  # the file and line that are at fault
                    rows = partial(rows_of, Partition(path, self.layout))
                    typed(list(found), rows, Malformed(path))
                raise
        if len({type(value) for value in values}) > 1:
            raise SojournError(f"{path}: symbols are strings in some files, integers in others")
        return np.unique(values)

    def _add_table(self, path: str, symbols: bool) -> None:
        file = open_table(path, self.layout)
        all_pieces = range(len(file.sizes))
        cuts = [(all_pieces, Span())] if self.target is None else cut(file, self.target)
        for pieces, span in cuts:
            span = replace(span, first=self.n_before)
            part = Partition(path, self.layout, (pieces.start, pieces.stop), span)
            self.partitions.append(part)
        if self.layout.id is None:
            in_lists = is_list(file.schema.field(self.layout.symbol or "").type)
            self.n_before += sum(file.sizes) if in_lists else 1
        self.symbols[path] = set()
        if symbols:
            only = Partition(path, replace(self.layout, id=None, time=None))
            found = rows_of(only, Malformed(path))
            self.symbols[path] = distinct_values(rows.symbol for rows in found)

    def _add_text(self, path: str) -> None:
        all_of_file = Partition(path, self.layout, span=Span(first=self.n_before))
        malformed = Malformed(path, self.layout.on_error)
        # A line that is a sequence is complete, so that such files can be cut at any line end.
        can_cut = self.layout.format == "lines" and not path.lower().endswith(COMPRESSED)
        target = self.target if self.target is not None and can_cut else float("inf")
        starts: list[tuple[int, int]] = []  # of partitions: byte, and number of line
        held = target

        def noted(found: Iterator[Block]) -> Iterator[Block]:
            nonlocal held
            for block in found:
                if held >= target:
                    starts.append((block.start, block.line))
                    held = 0
                yield block

        batches = rows_of(all_of_file, malformed)
        if can_cut:
            batches = sequence_rows(noted(blocks(path)), self.layout, malformed)
        symbols: set[Any] = set()
        n_sequences = 1
        for rows in batches:
            in_lists = is_list(rows.symbol.type)
            symbol = rows.symbol.flatten() if in_lists else rows.symbol
            symbols |= distinct_values([symbol])
            held += len(symbol)
            if in_lists and len(rows.number):
                n_sequences = int(rows.number[-1]) + 1
            if rows.id is not None and not self.text_ids:
                self.text_ids = not all_integers(map(str, distinct_values([rows.id])))
        self.symbols[path] = symbols
        if self.layout.id is None:
            self.n_before += n_sequences
        if len(starts) <= 1:
            self.partitions.append(all_of_file)
            return
        for (start, line), (stop, _) in pairwise([*starts, (os.path.getsize(path), 0)]):
            self.partitions.append(replace(all_of_file, pieces=(start, stop), line=line))
