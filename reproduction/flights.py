"""Flights for the aviation experiment: simulated ones, or a user's own recordings."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sojourn.data.changes import events_from_changes
from sojourn.data.sequences import Sequences
from sojourn.datasets.simulate import ANOMALIES, simulate_approaches
from sojourn.errors import SojournError

PARTS = ("train", "normal", "abnormal")
KINDS = (".parquet", ".csv")


@dataclass(frozen=True, eq=False)
class Flights:
    """Normal flights to learn from; normal and abnormal ones to tell apart."""

    train: Sequences
    normal: Sequences
    abnormal: Sequences

    @property
    def fingerprint(self) -> str:
        """Different for different flights, whatever their number."""
        digest = hashlib.sha256()
        for part in (self.train, self.normal, self.abnormal):
            digest.update(part.codes.tobytes())
            digest.update(part.offsets.tobytes())
        return digest.hexdigest()[:16]


def simulated(n: int, n_test: int, number: int) -> Flights:
    """A set of simulated flights: all five kinds of unusual ones in equal shares.

    Parameters
    ----------
    n : int
        Training flights.
    n_test : int
        Normal test flights, and about as many abnormal ones.
    number : int
        Which set; each has flights of its own.

    Examples
    --------
    >>> found = simulated(20, 10, 0)
    >>> len(found.train), len(found.normal), len(found.abnormal)
    (20, 10, 10)
    """
    seed = 100 * number
    each = max(n_test // len(ANOMALIES), 1)
    return Flights(
        _flown(simulate_approaches(n, rng=seed)),
        _flown(simulate_approaches(n_test, rng=seed + 1)),
        _joined(
            [
                _flown(simulate_approaches(each, rng=seed + 2 + i, anomaly=kind))
                for i, kind in enumerate(ANOMALIES)
            ]
        ),
    )


def _flown(flights: Any) -> Sequences:
    assert isinstance(flights, Sequences)  # phases were not asked for
    return flights


def recorded(folder: str | Path, id: str = "flight", time: str = "time") -> Flights:
    """Flights from recordings of what the pilot's controls were set to, a row a second.

    The folder holds ``train``, ``normal`` and ``abnormal``: each a file that ends in ``.parquet``
    or ``.csv``, or a folder of such files. Columns are the flight's id, the time, and one for each
    control; a symbol is the control that changed, and lasts until another does
    (`sojourn.events_from_changes`).

    Parameters
    ----------
    folder : path
    id, time : str
        Names of those columns; all others are controls.

    Examples
    --------
    >>> recorded("no such folder")
    Traceback (most recent call last):
    sojourn.errors.SojournError: no such folder has no train.parquet, train.csv or folder train...
    """
    channels: list[str] = []
    parts = []
    for name in PARTS:
        found = []
        for path in _files(Path(folder), name):
            table = _table(path)
            for column in (id, time):
                if column not in table.column_names:
                    raise SojournError(
                        f"{path} has no column {column!r}, only {table.column_names}; name the "
                        f"columns of flights and times with --id and --time"
                    )
            channels = channels or [c for c in table.column_names if c not in (id, time)]
            found.append(events_from_changes(table, channels, id=id, time=time))
        parts.append(_joined(found))
    return Flights(*parts)


def _files(folder: Path, name: str) -> list[Path]:
    for kind in KINDS:
        if (path := folder / f"{name}{kind}").is_file():
            return [path]
    inside = folder / name
    files = sorted(p for p in inside.glob("*") if p.suffix in KINDS) if inside.is_dir() else []
    if not files:
        raise SojournError(
            f"{folder} has no {name}.parquet, {name}.csv or folder {name} of such files; it needs "
            f"train, normal and abnormal"
        )
    return files


def _table(path: Path) -> Any:
    try:
        from pyarrow import ArrowInvalid, csv, parquet
    except ImportError:
        raise SojournError(
            "recordings need pyarrow, which is not installed; pip install 'sojourn[files]'"
        ) from None
    try:
        return csv.read_csv(path) if path.suffix == ".csv" else parquet.read_table(path)
    except ArrowInvalid as error:
        raise SojournError(f"{path} cannot be read: {error}") from None


def _joined(parts: list[Sequences]) -> Sequences:
    """Flights of one vocabulary, part after part, numbered anew."""
    lengths = np.concatenate([part.lengths for part in parts])
    return Sequences(
        np.concatenate([part.codes for part in parts]),
        np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)]),
        parts[0].vocabulary,
        np.arange(len(lengths)),
    )
