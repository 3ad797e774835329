"""Options of the commands that can read data in partitions: here, or on a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

# How Dask is set for processes here. As it comes, they give memory back to the system at once and
# have to ask for it again, zeroed page by zeroed page; the scheduler gives a busy worker a task
# that an idle one could have had; and workers look every few milliseconds at what they do, for a
# page that nobody opens.
SETTINGS = {
    "distributed.nanny.pre-spawn-environ.MALLOC_MMAP_THRESHOLD_": 1 << 30,
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": 1 << 28,
    "distributed.scheduler.worker-saturation": 1.0,
    "distributed.worker.profile.enabled": False,
}

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

    options = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0", "silence_logs": 50}
    with (
        config.set(SETTINGS),
        dask.LocalCluster(n_workers=int(number), threads_per_worker=1, **options) as cluster,
        dask.Client(cluster) as client,
    ):
        yield client
