"""A pass on a Dask cluster: each worker reads its own partitions, and neighbours are joined.

What all tasks share (the pass, the vocabulary) is itself the result of a task, so that it can be
made again wherever a worker was lost; so can all else. Nothing is held for the driver but the last
result.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError, wait
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from sojourn.checks import optional
from sojourn.errors import SojournError
from sojourn.io.sources import Partition
from sojourn.scale.passes import Outcome, Pass, Watch, join_outcomes, run_group

if TYPE_CHECKING:
    from sojourn.scale.passes import Partitions

# A cluster may be starting, or restarting its workers; longer than this it has none to give.
PATIENCE = 14.0
POLL = 1.0
ANSWER = 3.0  # seconds in which a scheduler says what its workers do
SEARCH = 5.0  # seconds to find which of several partitions ends its worker
# The most partitions of a task, so that little is lost with a worker; and towards the end the
# shares of a thread in what is left, so that the last tasks are small and slower workers get fewer.
MOST_TOGETHER, SHARES = 8, 2
NO_ANSWER = "its scheduler does not answer"
# Results that one task joins.
JOINED = 4

Key = tuple[str, int] | str
Groups = dict[Key, tuple[Partition, ...]]
P = TypeVar("P")


@contextmanager
def _in_one_sentence() -> Iterator[None]:
    """What is raised where a cluster is lost, as one error that says so."""
    from distributed.client import ClosedClientError
    from distributed.comm.core import CommClosedError

    try:
        yield
    except (CancelledError, ClosedClientError, CommClosedError, TimeoutError) as error:
        raise _lost(str(error) or type(error).__name__) from error


@_in_one_sentence()
def run_on_cluster(client: Any, one: Pass[Any], partitions: Partitions) -> Outcome:
    """The total of a pass over all partitions, by the workers of a cluster."""
    from distributed import KilledWorker

    _check_client(client)
    if (crew := _crew(client)) is None:
        raise _lost("its client is closed" if client.status == "closed" else NO_ANSWER)
    # Tasks that are alike share the first part of their keys: the scheduler sees by it that those
    # that read are many and need next to nothing, and deals them out evenly.
    name = secrets.token_hex(6)
    shared = {"one": one, "vocabulary": partitions.vocabulary}
    there = {
        key: client.submit(_itself, value, key=f"sojourn-{key}-{name}", pure=False)
        for key, value in shared.items()
    }
    # Without its vocabulary, which may be larger than all else.
    bare = [replace(partition, vocabulary=None) for partition in partitions.items]
    groups = _grouped(bare, crew.n_threads)
    keys: list[Key] = [(f"sojourn-parts-{name}", i) for i in range(len(groups))]
    level = client.map(run_group, groups, key=keys, **there, pure=False)
    done: SimpleQueue[Any] = SimpleQueue()
    for future in level:
        future.add_done_callback(done.put)
    depth = 0
    while len(level) > 1:
        depth += 1
        some = [level[i : i + JOINED] for i in range(0, len(level), JOINED)]
        names = [(f"sojourn-join-{name}-{depth}", i) for i in range(len(some))]
        level = client.map(join_outcomes, some, key=names, one=there["one"], pure=False)
        del some
    last = level[0]
    if depth:
        last.add_done_callback(done.put)
    # Only `last` is held from here on: what it needs is kept, and nothing else.
    del level, there, future
    given = dict(zip(keys, groups, strict=True))
    try:
        return _awaited(client, last, done, given, partitions.watch)
    except KilledWorker as error:
        killed = error
    finally:
        last.release()
    raise _explained(client, killed, given, shared) from killed


def _grouped(partitions: Sequence[P], n_threads: int) -> list[tuple[P, ...]]:
    """Neighbours that one task reads in turn, since what a task returns has to travel."""
    groups, first = [], 0
    while first < len(partitions):
        share = (len(partitions) - first) // (SHARES * max(n_threads, 1))
        n = min(max(share, 1), MOST_TOGETHER)
        groups.append(tuple(partitions[first : first + n]))
        first += n
    return groups


def _awaited(
    client: Any, last: Any, done: SimpleQueue[Any], given: Groups, watch: Watch | None
) -> Outcome:
    """The last result; the first error is raised at once, whichever task it is of."""
    finished: set[Key] = set()
    pulse = _Pulse(client)
    while True:
        try:
            future = done.get(timeout=POLL)
        except Empty:
            pulse.check()
            continue
        if future.status == "cancelled":
            raise _lost("its client or its scheduler was closed or restarted")
        if future.status != "finished":
            raise future.exception()
        if future.key in given and future.key not in finished:
            finished.add(future.key)
            if watch is not None:
                n_done = sum(len(given[key]) for key in finished)
                watch(n_done, sum(len(group) for group in given.values()))
        if future.key == last.key:
            return _fetched(client, last, pulse)


def _fetched(client: Any, last: Any, pulse: _Pulse) -> Outcome:
    """A result that is there, however long it travels, while the cluster answers."""
    travelling = asyncio.run_coroutine_threadsafe(
        client.gather(last, asynchronous=True), client.loop.asyncio_loop
    )
    while not wait([travelling], timeout=POLL).done:
        pulse.check()
    outcome: Outcome = travelling.result()
    return outcome


class _Crew(NamedTuple):
    n_workers: int
    n_threads: int
    n_at_work: int  # workers that take tasks, or have one in hand


def _workers(dask_scheduler: Any = None) -> tuple[int, int, int]:
    """The crew, on the scheduler."""
    workers = dask_scheduler.workers.values()
    at_work = sum(worker.status.name == "running" or bool(worker.executing) for worker in workers)
    return len(workers), sum(worker.nthreads for worker in workers), at_work


def _crew(client: Any) -> _Crew | None:
    """The workers of a cluster; None where its scheduler does not answer."""
    if client.status != "running" or client.scheduler is None:
        return None
    try:
        return _Crew(*client.run_on_scheduler(_workers, callback_timeout=ANSWER))
    except (OSError, TimeoutError, RuntimeError):
        return None


class _Pulse:
    """How long ago a cluster was last seen to work."""

    def __init__(self, client: Any) -> None:
        self.client, self.seen = client, time.monotonic()

    def check(self) -> None:
        """Raise an error where it has not worked for longer than patience lasts."""
        if self.client.status == "closed":
            raise _lost("its client was closed")
        crew = _crew(self.client)
        if crew is not None and crew.n_at_work:
            self.seen = time.monotonic()
        elif time.monotonic() - self.seen > PATIENCE:
            if crew is not None and crew.n_workers:
                raise SojournError(
                    f"all {crew.n_workers} workers of the cluster have paused, as Dask does where "
                    f"their memory is nearly full; make partitions smaller with "
                    f"rows_per_partition=, or workers larger, and fit again (with resume=True, if "
                    f"there is a checkpoint)"
                )
            raise _lost(NO_ANSWER if crew is None else "it has had no workers for a while")


def _lost(reason: str) -> SojournError:
    return SojournError(
        f"the cluster was lost: {reason}; connect to one that runs and fit again (with "
        f"resume=True, if there is a checkpoint)"
    )


def _explained(client: Any, error: Any, given: Groups, shared: dict[str, Any]) -> SojournError:
    """What ended worker after worker: Dask blames every task that a lost worker had been given."""
    blamed = client.run_on_scheduler(_blamed, keys=list(given))
    likeliest = sorted(blamed, key=lambda key: -blamed[key])
    suspects = [partition for key in likeliest for partition in given[key]]
    if len(suspects) > 1:
        end = time.monotonic() + SEARCH
        guilty = (
            partition for partition in suspects if _ends_its_worker(client, partition, shared, end)
        )
        suspects = list(islice(guilty, 1))
    task = f"partition {suspects[0]}" if suspects else "the reading or joining of some partitions"
    return SojournError(
        f"{task} ended {error.allowed_failures + 1} workers in a row, the last on "
        f"{error.last_worker.address}; it may need more memory than a worker has (make partitions "
        f"smaller with rows_per_partition=, or workers larger), or the file is damaged"
    )


def _blamed(keys: list[Key], dask_scheduler: Any = None) -> dict[Key, int]:
    """How many lost workers each task had been given to, on the scheduler."""
    tasks = (dask_scheduler.tasks.get(key) for key in keys)
    return {task.key: task.suspicious for task in tasks if task is not None and task.suspicious}


def _ends_its_worker(client: Any, partition: Partition, shared: dict[str, Any], end: float) -> bool:
    """Whether a worker is lost, before time is up, that has nothing to do but this partition."""
    if time.monotonic() > end:
        return False
    key = f"sojourn-alone-{secrets.token_hex(6)}"
    future = client.submit(run_group, (partition,), **shared, key=key, pure=False)
    try:
        while not future.done() and time.monotonic() < end:
            time.sleep(POLL / 10)
            if client.run_on_scheduler(_blamed, keys=[key]):
                return True
        return bool(future.status == "error")
    finally:
        future.cancel()


def _check_client(client: Any) -> None:
    distributed = optional("distributed", "a cluster", "dask")
    if not isinstance(client, distributed.Client) or client.asynchronous:
        raise SojournError(
            f"client is a {type(client).__name__}; expected a distributed.Client that is not "
            f"asynchronous, as distributed.Client('tcp://...') makes"
        )


def _itself(value: Any) -> Any:
    return value
