"""Passes over partitions on a Dask cluster: each worker reads its own, and neighbours are joined.

What all tasks share (the model of this pass, the vocabulary) is itself the result of a task, so
that it can be made again wherever a worker was lost; so can all else. Nothing is held for the
driver but the last result.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial, reduce
from itertools import islice
from queue import Empty, SimpleQueue
from typing import Any

from sojourn.errors import SojournError
from sojourn.io.sources import Partition
from sojourn.scale.passes import Join, Outcome, Part, Run, Watch, join_outcomes, run_parts

# A cluster may be starting, or restarting its workers; longer than this it has none to give.
PATIENCE = 60.0
POLL = 1.0
# The most partitions a task, so that little is lost with a worker; and towards the end the shares
# of a thread in what is left, so that the last tasks are small and slower workers get fewer.
MOST_TOGETHER, SHARES = 8, 2
# Results that one task joins.
JOINED = 4

Shared = tuple[Run, Join, Any]
Key = tuple[str, int] | str


def reduced_on(
    client: Any,
    run: Run,
    parts: tuple[Part, ...],
    join: Join,
    vocabulary: Any,
    watch: Watch | None = None,
) -> Outcome:
    """What runs over neighbouring partitions return, joined in order, on the workers of a cluster.

    Parameters
    ----------
    client : distributed.Client
    run, join, watch
        As in :class:`sojourn.scale.passes.Parts`.
    parts : tuple of Part
    vocabulary : array
        Of all partitions; sent once.
    """
    submit = _client(client)
    # Tasks that are alike share the first part of their keys: the scheduler sees by it that those
    # that read are many and need next to nothing, and deals them out evenly.
    name = secrets.token_hex(6)
    share = (run, join, vocabulary)
    shared = submit("submit", _itself, share, key=f"sojourn-shared-{name}", pure=False)
    groups = _grouped(parts, sum(client.nthreads().values()))
    level = submit(
        "map",
        _read_and_run,
        [tuple(_bare(part) for part in group) for group in groups],
        key=[(f"sojourn-parts-{name}", i) for i in range(len(groups))],
        shared=shared,
        pure=False,
    )
    done: SimpleQueue[Any] = SimpleQueue()
    given = {future.key: group for future, group in zip(level, groups, strict=True)}
    for future in level:
        future.add_done_callback(done.put)
    depth = 0
    while len(level) > 1:
        depth += 1
        some = [level[i : i + JOINED] for i in range(0, len(level), JOINED)]
        keys = [(f"sojourn-join-{name}-{depth}", i) for i in range(len(some))]
        level = submit("map", _join, some, key=keys, shared=shared, pure=False)
    last = level[0]
    if depth:
        last.add_done_callback(done.put)
    # Only `last` is held from here on: what it needs is kept, and nothing else.
    del level, shared, future
    if depth:
        del some
    try:
        return _awaited(client, last, done, given, watch)
    except _KilledWorkersError as killed:
        suspects = [part for key in killed.suspects for part in given.get(key, ())]
        if len(suspects) > 1:  # all that were on the worker were blamed: which of them was it?
            alone = (part for part in suspects if _ends_its_worker(submit, client, part, share))
            suspects = list(islice(alone, 1))
        raise _explained(killed, suspects) from killed.__cause__


def _grouped(parts: tuple[Part, ...], n_threads: int) -> list[tuple[Part, ...]]:
    """Neighbours that one task reads, part after part, since what a task returns has to travel."""
    groups, first = [], 0
    while first < len(parts):
        share = (len(parts) - first) // (SHARES * max(n_threads, 1))
        n = min(max(share, 1), MOST_TOGETHER)
        groups.append(parts[first : first + n])
        first += n
    return groups


def _awaited(
    client: Any,
    last: Any,
    done: SimpleQueue[Any],
    given: dict[Key, tuple[Part, ...]],
    watch: Watch | None,
) -> Outcome:
    """The last result; the first error is raised at once, whichever task it is of."""
    finished: set[Key] = set()
    seen_workers = time.monotonic()
    try:
        while True:
            try:
                future = done.get(timeout=POLL)
            except Empty:
                if client.scheduler_info()["workers"]:
                    seen_workers = time.monotonic()
                elif time.monotonic() - seen_workers > PATIENCE:
                    raise SojournError(
                        f"the cluster has had no workers for {PATIENCE:.0f} s; start some and fit "
                        f"again (with resume=True, if there is a checkpoint)"
                    ) from None
                continue
            if future.status != "finished":
                _raise(client, future, list(given))
            if future.key in given and future.key not in finished:
                finished.add(future.key)
                if watch is not None:
                    n_done = sum(len(given[key]) for key in finished)
                    watch(n_done, sum(len(group) for group in given.values()))
            if future.key == last.key:
                outcome: Outcome = last.result()
                return outcome
    finally:
        last.release()


class _KilledWorkersError(Exception):
    """A task ended worker after worker; with all tasks of those workers, likeliest first.

    Dask blames every task that a lost worker had been given.
    """

    def __init__(self, error: Any, suspects: list[Key]) -> None:
        super().__init__(str(error))
        self.workers = error.allowed_failures + 1
        self.last_worker = error.last_worker.address
        self.suspects = suspects


def _raise(client: Any, future: Any, keys: list[Key]) -> None:
    from distributed import KilledWorker

    if future.status == "cancelled":
        raise SojournError("the cluster gave up on a task: its scheduler was restarted or closed")
    error = future.exception()
    if not isinstance(error, KilledWorker):
        raise error
    blamed = client.run_on_scheduler(_blamed, keys=keys)
    raise _KilledWorkersError(error, sorted(blamed, key=lambda key: -blamed[key])) from error


def _blamed(keys: list[Key], dask_scheduler: Any = None) -> dict[Key, int]:
    """How many lost workers each task had been given to, on the scheduler."""
    tasks = (dask_scheduler.tasks.get(key) for key in keys)
    return {task.key: task.suspicious for task in tasks if task is not None and task.suspicious}


def _ends_its_worker(submit: Callable[..., Any], client: Any, part: Part, share: Shared) -> bool:
    """Whether a worker is lost that has nothing to do but this partition."""
    key = f"sojourn-alone-{secrets.token_hex(6)}"
    future = submit("submit", _read_and_run, (_bare(part),), shared=share, key=key, pure=False)
    try:
        while not future.done():
            time.sleep(POLL / 10)
            if client.run_on_scheduler(_blamed, keys=[key]):
                return True
        return bool(future.status != "finished")
    finally:
        future.cancel()


def _explained(killed: _KilledWorkersError, suspects: list[Part]) -> SojournError:
    task = f"partition {suspects[0]}" if suspects else "the joining of some partitions"
    return SojournError(
        f"{task} ended {killed.workers} workers in a row, the last on {killed.last_worker}; it may "
        f"need more memory than a worker has (make partitions smaller with rows_per_partition=, "
        f"or workers larger), or the file is not sound"
    )


def _client(client: Any) -> Callable[..., Any]:
    """Calls a method of the client, if it is one."""
    try:
        from distributed import Client
    except ImportError:
        raise SojournError(
            "a cluster needs dask.distributed, which is not installed; pip install 'sojourn[dask]'"
        ) from None
    if not isinstance(client, Client) or client.asynchronous:
        raise SojournError(
            f"client is a {type(client).__name__}; expected a distributed.Client that is not "
            f"asynchronous, as distributed.Client('tcp://...') makes"
        )
    return lambda method, *args, **options: getattr(client, method)(*args, **options)


def _bare(part: Part) -> Part:
    """The partition without its vocabulary, which may be larger than all else."""
    return _dressed(part, None)


def _dressed(part: Part, vocabulary: Any) -> Part:
    """The partition with its vocabulary."""
    if not isinstance(part.source, Partition):
        return part
    return replace(part, source=replace(part.source, vocabulary=vocabulary))


def _read_and_run(parts: tuple[Part, ...], *, shared: Shared) -> Outcome:
    run, _, vocabulary = shared
    return run_parts(run, (_dressed(part, vocabulary) for part in parts))


def _join(outcomes: list[Outcome], *, shared: Shared) -> Outcome:
    return reduce(partial(join_outcomes, shared[1]), outcomes)


def _itself(value: Shared) -> Shared:
    return value
