"""A grid of measurements that can be stopped and continued: each cell is a small file.

A cell is named by its question (size, method, seed, ...). Its result is stored as soon as it is
known, together with the question, so that a file answers this question and no other.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from sojourn.storage.atomic import atomic_write

Result = dict[str, Any]  # plain values: numbers, strings, lists


@dataclass(frozen=True)
class Cell:
    """One measurement: the question, and its expected work relative to the other cells."""

    asked: dict[str, Any]
    work: float = 1.0

    @property
    def file_name(self) -> str:
        """Readable, and different for different questions."""
        text = json.dumps(self.asked, sort_keys=True)
        words = "-".join(str(v) for v in self.asked.values() if isinstance(v, str | int))
        return f"{words}-{hashlib.sha256(text.encode()).hexdigest()[:12]}.json"


def run_grid(
    cells: Sequence[Cell], measure: Callable[[dict[str, Any]], Result], folder: Path
) -> list[Result]:
    """Measure all cells that are not stored in the folder yet; question and result of each cell.

    `measure` takes a cell's question and returns a dictionary of plain values. Progress is shown
    where standard error is a terminal.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as name:
    ...     first = run_grid([Cell({"n": 2})], lambda asked: {"square": 4}, Path(name))
    ...     again = run_grid([Cell({"n": 2})], lambda asked: {}, Path(name))
    >>> first == again, again
    (True, [{'n': 2, 'square': 4}])
    """
    folder.mkdir(parents=True, exist_ok=True)
    results = [_stored(cell, folder) for cell in cells]
    todo = [i for i, result in enumerate(results) if result is None]
    work = [max(round(1000 * cell.work), 1) for cell in cells]  # the bar counts integers
    with click.progressbar(
        length=sum(work[i] for i in todo),
        hidden=not sys.stderr.isatty(),
        file=sys.stderr,
        item_show_func=lambda i: None if i is None else _describe(cells[i], i, len(cells)),
    ) as bar:
        for i in todo:
            bar.update(0, i)
            results[i] = measure(cells[i].asked)
            content = {"asked": cells[i].asked, "result": results[i]}
            with atomic_write(folder / cells[i].file_name) as file:
                file.write(json.dumps(content, indent=1))
            bar.update(work[i], i)
    return [{**cell.asked, **(result or {})} for cell, result in zip(cells, results, strict=True)]


def _describe(cell: Cell, i: int, n: int) -> str:
    return f"{i + 1}/{n}: {' '.join(str(value) for value in cell.asked.values())}"


def _stored(cell: Cell, folder: Path) -> Result | None:
    """The result in the cell's file; None if there is none, or it answers another question."""
    try:
        content = json.loads((folder / cell.file_name).read_bytes())
        asked, result = content["asked"], content["result"]
    except (OSError, ValueError, KeyError, TypeError):
        return None  # measured again; the file is replaced
    same = asked == json.loads(json.dumps(cell.asked))  # tuples come back as lists
    return result if same and isinstance(result, dict) else None


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
