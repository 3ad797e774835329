"""Flights for the aviation experiment: simulated ones, or a user's own recordings."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyarrow import csv, parquet

from sojourn import Sequences, SojournError, events_from_changes
from sojourn.datasets.simulate import ANOMALIES
from sojourn.datasets.simulate import simulate_approaches as fly

PARTS = ("train", "normal", "abnormal")
KINDS = (".parquet", ".csv")


@dataclass(frozen=True, eq=False)
class Flights:
    """Normal flights to learn from; normal and abnormal ones to distinguish."""

    train: Sequences
    normal: Sequences
    abnormal: Sequences

    @property
    def fingerprint(self) -> str:
        """Different for different flights."""
        digest = hashlib.sha256()
        for part in (self.train, self.normal, self.abnormal):
            digest.update(part.codes.tobytes())
            digest.update(part.offsets.tobytes())
        return digest.hexdigest()[:16]


def simulated(n: int, n_test: int, number: int) -> Flights:
    """Set `number` of simulated flights: `n` for training, `n_test` normal and abnormal ones.

    The five types of anomalies have equal shares.
    """
    seed = 100 * number
    each = max(n_test // len(ANOMALIES), 1)
    train, normal = (fly(size, rng=seed + i) for i, size in enumerate((n, n_test)))
    unusual = [fly(each, rng=seed + 2 + i, anomaly=kind) for i, kind in enumerate(ANOMALIES)]
    rows = [row for flights in unusual for row in flights]
    return Flights(train, normal, Sequences.from_lists(rows, vocabulary=train.vocabulary))


def recorded(folder: str | Path, id: str = "flight", time: str = "time") -> Flights:
    """Flights from recordings of the settings of the pilot's controls, one row per second.

    The folder holds ``train``, ``normal`` and ``abnormal``: each a file that ends in ``.parquet``
    or ``.csv``, or a folder of such files. Columns are the flight's id, the time, and one for each
    control; a symbol is the control that changed, and lasts until another does
    (`sojourn.events_from_changes`).
    """
    channels: list[str] = []
    parts = []
    for name in PARTS:
        tables = []
        for path in _files(Path(folder), name):
            table = _table(path)
            for column in (id, time, *channels):
                if column not in table.column_names:
                    raise SojournError(
                        f"{path} has no column {column!r}, only {table.column_names}; name the "
                        f"columns of flights and times with --id and --time"
                    )
            channels = channels or [c for c in table.column_names if c not in (id, time)]
            tables.append(table.select([id, time, *channels]))
        table = pa.concat_tables(tables, promote_options="permissive")
        parts.append(events_from_changes(table, channels, id=id, time=time))
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


def _table(path: Path) -> pa.Table:
    try:
        return csv.read_csv(path) if path.suffix == ".csv" else parquet.read_table(path)
    except pa.ArrowInvalid as error:
        raise SojournError(f"{path} cannot be read: {error}") from None
