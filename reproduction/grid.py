"""A grid of measurements that can be stopped and taken up again: each cell is a small file.

A cell is named by what was asked (sizes, method, seed, ...). What it gave is stored as it is done,
together with the question, so that a file answers this question and no other.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from sojourn.storage.atomic import atomic_write

Result = dict[str, Any]  # plain values: numbers, strings, lists


@dataclass(frozen=True)
class Cell:
    """One measurement: the question, and about how much work it is beside the others.

    Examples
    --------
    >>> Cell({"method": "pooled", "n": 500}, work=1.0).file_name
    'pooled-500-....json'
    """

    asked: dict[str, Any]
    work: float = 1.0

    @property
    def file_name(self) -> str:
        """Readable, and different for different questions."""
        text = json.dumps(self.asked, sort_keys=True)
        words = "-".join(str(v) for v in self.asked.values() if isinstance(v, str | int))
        return f"{words}-{hashlib.sha256(text.encode()).hexdigest()[:12]}.json"


def run_grid(
    cells: Sequence[Cell],
    measure: Callable[[dict[str, Any]], Result],
    folder: str | os.PathLike[str],
    verbose: bool | None = None,
) -> list[Result]:
    """Results of all cells, those that are not stored yet being measured now.

    Parameters
    ----------
    cells : sequence of Cell
        In the order in which they are to be done.
    measure : callable
        Takes a cell's question and gives a dictionary of plain values.
    folder : path
        Where results are stored, a file a cell.
    verbose : bool or None
        Whether to show progress on the standard error stream; None for only on a terminal.

    Returns
    -------
    list of dict
        Question and result of each cell in one dictionary, in the order of the cells.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     first = run_grid([Cell({"n": 2})], lambda asked: {"square": asked["n"] ** 2}, folder)
    ...     again = run_grid([Cell({"n": 2})], lambda asked: {}, folder)
    >>> first == again, again
    (True, [{'n': 2, 'square': 4}])
    """
    os.makedirs(folder, exist_ok=True)
    stored = [_stored(cell, Path(folder)) for cell in cells]
    left = sum(cell.work for cell, result in zip(cells, stored, strict=True) if result is None)
    rows = []
    with Bar(len(cells), sum(r is not None for r in stored), left, verbose) as bar:
        for cell, result in zip(cells, stored, strict=True):
            if result is None:
                bar.show(" ".join(str(v) for v in cell.asked.values()))
                result = measure(cell.asked)
                text = json.dumps({"asked": cell.asked, "result": result}, indent=1)
                with atomic_write(Path(folder) / cell.file_name) as file:
                    file.write(text)
                bar.advance(cell.work)
            rows.append({**cell.asked, **result})
    return rows


def _stored(cell: Cell, folder: Path) -> Result | None:
    """What the cell's file says, or None if there is none, or not of this question."""
    try:
        content = json.loads((folder / cell.file_name).read_bytes())
        asked, result = content["asked"], content["result"]
    except (OSError, ValueError, KeyError, TypeError):
        return None  # measured again; the file is replaced
    same = asked == json.loads(json.dumps(cell.asked))  # tuples come back as lists
    return result if same and isinstance(result, dict) else None


class Bar:
    """A line on a terminal: how many cells are done, and about how long the others will take."""

    def __init__(self, cells: int, done: int, left: float, verbose: bool | None = None) -> None:
        self.cells, self.done, self.left, self.spent = cells, done, left, 0.0
        self.began = time.perf_counter()
        self.shown = sys.stderr.isatty() if verbose is None else verbose

    def __enter__(self) -> Self:
        return self

    def advance(self, work: float) -> None:
        """One more cell is done."""
        self.done, self.left, self.spent = self.done + 1, self.left - work, self.spent + work

    def show(self, what: str) -> None:
        """Say what is being done now."""
        if self.shown:
            filled = ("━" * round(20 * self.done / self.cells)).ljust(20, "╌")
            text = f"{filled} {self.done}/{self.cells}{self._time_left()}  {what}"
            print(f"\r{text[:100]:<100s}", end="", file=sys.stderr, flush=True)

    def _time_left(self) -> str:
        if not self.spent:
            return ""
        elapsed = time.perf_counter() - self.began
        return f", about {duration(elapsed / self.spent * self.left)} left"

    def __exit__(self, *_: object) -> None:
        if self.shown:
            self.show("")
            print(file=sys.stderr)


def duration(seconds: float) -> str:
    """A time in the unit that suits it.

    Examples
    --------
    >>> duration(0.0123), duration(3.21), duration(600), duration(9000), duration(200000)
    ('12 ms', '3.2 s', '10 min', '2.5 h', '2.3 days')
    """
    for unit, size, below in (("ms", 1e-3, 1), ("s", 1, 120), ("min", 60, 7200), ("h", 3600, 1e5)):
        if seconds < below:
            value = seconds / size
            return f"{value:.0f} {unit}" if value >= 10 or unit == "ms" else f"{value:.1f} {unit}"
    return f"{seconds / 86400:.1f} days"
