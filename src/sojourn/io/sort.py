"""Sort event tables that are larger than memory: a sorted copy, by DuckDB.

DuckDB is an extra (``sojourn[outofcore]``) and imported when something is sorted. Rows are read as
`read` reads them, numbered, and sorted by id, time and that number: rows at one time keep the order
of the files.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from sojourn.checks import optional
from sojourn.data.columns import Column
from sojourn.errors import SojournError
from sojourn.io.layout import ALL_ROWS, TEXT, Layout, Malformed
from sojourn.io.sources import FilePath, Partition, Scan, scan, warn_skipped
from sojourn.storage.atomic import atomic_write

ROWS_PER_GROUP = 1 << 18


def sort_events(
    paths: FilePath | Iterable[FilePath],
    out: FilePath,
    id: Column = None,
    time: Column = None,
    symbol: str | None = None,
    *,
    memory_limit: str = "1GB",
    overwrite: bool = False,
    rows_per_partition: int | None = None,
    **how: Any,
) -> Scan:
    r"""Sort the events of one or more files into a Parquet file of complete sequences, and scan it.

    Parameters
    ----------
    paths : str, path, or iterable of them
        A pattern such as ``"events/*.csv"``, or the files; rows of a sequence may be in several.
    out : str or path
        The Parquet file to write, with the columns of the data: id, time (a number that sorts
        alike) and symbol. Sorting needs as much disk space again in the same folder.
    id, time, symbol
        Names of the columns, as in `read`.
    memory_limit : str
        Memory that DuckDB may use before it writes to disk.
    overwrite : bool
        Whether to replace `out` if it exists.
    rows_per_partition : int, optional
        Approximate number of symbols per partition of the scan.
    **how
        Further arguments of `scan`: format, delimiter, missing, on_error, quiet and so on.

    Returns
    -------
    Scan
        Of `out`, which other programs can scan too: it is sorted by id and then by time.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "events.csv")
    ...     _ = path.write_text("flight,seconds,command\nb,2,level\na,1,climb\nb,1,climb\n")
    ...     out = Path(folder, "sorted.parquet")
    ...     parts = sort_events(path, out, id="flight", time="seconds", symbol="command")
    ...     [seqs.to_lists() for seqs in parts]
    [[['climb'], ['climb', 'level']]]
    """
    duckdb = optional("duckdb", "sorting", "outofcore")
    target = os.fspath(out)
    if os.path.exists(target) and not overwrite:
        raise SojournError(f"{target} is there already; scan it, or pass overwrite=True")
    source = scan(paths, id, time, symbol, **how)
    layout = source.layout
    if layout.values or layout.clock is not None:
        raise SojournError(
            f"{source.files[0]}: events are sorted by id=, time= and symbol= alone; leave values=, "
            f"every= and gaps= out"
        )
    if layout.id is None or layout.symbol is None:
        raise SojournError(
            f"{source.files[0]}: a file whose rows are whole sequences, or which is one sequence, "
            f"needs no sorting; scan it"
        )
    place = os.path.dirname(os.path.abspath(target))
    try:
        with (
            tempfile.TemporaryDirectory(prefix=".sojourn-sort-", dir=place) as folder,
            duckdb.connect(os.path.join(folder, "events.duckdb")) as db,
        ):
            db.execute("SET memory_limit = $1", [memory_limit])
            db.execute("SET temp_directory = $1", [folder])
            n = _load(db, source)
            with atomic_write(target, "wb", check=lambda draft: _check(draft, layout, n)) as file:
                _write(db, layout, source.files[0], file.name)
    except duckdb.Error as error:
        reason = " ".join(str(error).split())
        raise SojournError(
            f"{target}: DuckDB could not sort ({reason}); give it a larger memory_limit, or a disk "
            f"with more room"
        ) from error
    keep: dict[str, Any] = {name: how[name] for name in ("vocabulary", "unknown") if name in how}
    if rows_per_partition is not None:
        keep["rows_per_partition"] = rows_per_partition
    return scan(target, layout.id, layout.time or False, layout.symbol, quiet=True, **keep)


def _load(db: Any, source: Scan) -> int:
    """Put all rows in a table of the database, numbered; their number."""
    n = 0
    skipped = []
    kinds: dict[str, str] = {}  # of times, with the first file of each
    has_time = source.layout.time is not None
    for path in source.files:
        malformed = Malformed(path, source.layout.on_error)
        for batch in _batches(path, source.layout, malformed, n, kinds):
            if n == 0:
                db.execute("CREATE TABLE events AS SELECT * FROM batch LIMIT 0")
            elif has_time and batch.schema.field("time").type == "double":
                db.execute("ALTER TABLE events ALTER time SET DATA TYPE DOUBLE")
            db.execute("INSERT INTO events SELECT * FROM batch")
            n += len(batch)
        if malformed.count:
            skipped.append(malformed)
    if n == 0:
        raise SojournError(f"{source.files[0]} holds no rows; expected at least one")
    if skipped:
        warn_skipped(skipped)
    return n


def _batches(
    path: str, layout: Layout, malformed: Malformed, first: int, kinds: dict[str, str]
) -> Iterator[Any]:
    """Rows of a file as Arrow tables of id, time, symbol and their number."""
    import pyarrow as pa

    from sojourn.io.arrow_codes import is_string
    from sojourn.io.formats import rows_of
    from sojourn.io.gather import usable_rows
    from sojourn.io.times import unit_of

    def plain(column: Any) -> Any:
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        return column.cast(pa.string() if is_string(column.type) else pa.int64())

    kind = ""
    for batch in rows_of(Partition(path, layout), malformed):
        rows, time, kind = usable_rows(batch, kind, malformed, ALL_ROWS)
        if m := len(rows.symbol):
            columns = {"id": plain(rows.id), "symbol": plain(rows.symbol)}
            if time is not None:
                columns["time"] = pa.array(time)
                what = kind if kind == "number" else f"{kind} in {unit_of(batch.time.type)}"
                kinds.setdefault(what, path)
            if len(kinds) > 1:
                (one, of), (other, _) = kinds.items()
                raise SojournError(
                    f"{path}: a time is a {other}, and in {of} a {one}; write the times of all "
                    f"files alike"
                )
            yield pa.table({**columns, "number": pa.array(np.arange(first, first + m))})
            first += m


def _write(db: Any, layout: Layout, path: str, draft: str) -> None:
    """Write the table in order; text becomes integers where all of a column is integers."""
    from sojourn.io.gather import all_integers, typed

    types = {"id": "id", "symbol": "symbol"}
    if layout.format in TEXT:
        ids = db.execute("SELECT DISTINCT id FROM events")
        if all(
            all_integers(v for (v,) in some) for some in iter(lambda: ids.fetchmany(1 << 16), [])
        ):
            types["id"] = "CAST(id AS BIGINT)"
        found = db.execute("SELECT DISTINCT symbol FROM events WHERE symbol IS NOT NULL").fetchall()
        if not isinstance(typed([v for (v,) in found], lambda _: [], Malformed(path)), list):
            types["symbol"] = "CAST(symbol AS BIGINT)"
    time = f"time AS {_quoted(layout.time)}, " if layout.time else ""
    # Insertion order must be preserved, which is the default: without it what was ordered may be
    # written out of order.
    db.execute("SET preserve_insertion_order = true")
    db.execute(
        f"COPY (SELECT {types['id']} AS {_quoted(layout.id)}, {time}"
        f"{types['symbol']} AS {_quoted(layout.symbol)} FROM events "
        f"ORDER BY {types['id']}, {'time, ' if layout.time else ''}number) "
        f"TO {_text(draft)} (FORMAT parquet, ROW_GROUP_SIZE {ROWS_PER_GROUP}, USE_TMP_FILE false)"
    )


def _check(path: str, layout: Layout, n: int) -> None:
    """Raise if the file that was written has not all rows, or not in order."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    names = [name for name in (layout.id, layout.time) if name is not None]
    seen, last = 0, None
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(ROWS_PER_GROUP, columns=names, use_threads=False):
            table = pa.Table.from_batches([batch] if last is None else [last, batch])
            before, after = table.slice(0, len(table) - 1), table.slice(1)
            ids, times = (  # without times, twice the ids
                [part.column(name) for part in (before, after)] for name in (names[0], names[-1])
            )
            ordered = pc.or_(pc.less(*ids), pc.and_(pc.equal(*ids), pc.less_equal(*times)))
            if len(before) and not pc.all(ordered).as_py():
                raise SojournError(f"{path} was written out of order; sort again, and report this")
            seen, last = seen + len(batch), batch.slice(len(batch) - 1)
    if seen != n:
        raise SojournError(f"{path} holds {seen} of {n} rows; the disk may be full")


def _quoted(name: str | None) -> str:
    return '"' + (name or "").replace('"', '""') + '"'


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
