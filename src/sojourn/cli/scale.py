"""Options of the commands that can read data in partitions: here, or on a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

# As Dask starts a process, it gives all memory back to the system at once and has to ask for it
# again, zeroed page by zeroed page: half of the time of a pass that counts.
MEMORY = {"MALLOC_MMAP_THRESHOLD_": 1 << 30, "MALLOC_TRIM_THRESHOLD_": 1 << 28}

Command = TypeVar("Command", bound=Callable[..., Any])


def scans_data(command: Command) -> Command:
    """Add the options that say whether data are read in partitions, and where."""
    cluster = click.option(
        "--cluster",
        metavar="tcp://HOST:PORT|local:N",
        help="Read the files on a Dask cluster, or N processes; implies --scan.",
    )
    return click.option(
        "--scan", "in_parts", is_flag=True, help="Read in partitions, never all at once."
    )(cluster(command))


def cluster_of(options: dict[str, Any]) -> tuple[bool, AbstractContextManager[Any]]:
    """Whether to scan, and the client in a context; the options are taken out."""
    in_parts, where = options.pop("in_parts"), options.pop("cluster")
    if where is None:
        return in_parts, nullcontext(None)
    return True, _client(where)


@contextmanager
def _client(where: str) -> Iterator[Any]:
    from sojourn.errors import SojournError

    kind, _, number = where.partition(":")
    local = kind == "local"
    if (local and not (number.isdigit() and int(number) > 0)) or not (local or "://" in where):
        raise click.BadParameter(f"--cluster is {where!r}; expected tcp://HOST:PORT or local:N.")
    try:
        import distributed
    except ImportError:
        raise SojournError(
            "a cluster needs dask.distributed, which is not installed; pip install 'sojourn[dask]'"
        ) from None
    dask: Any = distributed  # without types
    if not local:
        with dask.Client(where, timeout=30) as client:
            yield client
        return
    from dask import config

    options = {"host": "127.0.0.1", "dashboard_address": None, "silence_logs": 50}
    with (
        config.set({f"distributed.nanny.pre-spawn-environ.{k}": v for k, v in MEMORY.items()}),
        dask.LocalCluster(n_workers=int(number), threads_per_worker=1, **options) as cluster,
        dask.Client(cluster) as client,
    ):
        yield client
