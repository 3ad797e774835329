"""Maps over fixed parts of the data, by threads, with results that no thread can change.

The kernels release the interpreter's lock, so threads are enough. Two rules make every result the
same to the bit for any number of threads: parts are cut without looking at that number, and results
are taken in the order of the parts, or are sums of integers, which have none.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from itertools import islice
from threading import Event, Lock
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from sojourn.errors import SojournError

# A few milliseconds of kernel time: long beside the cost of handing a chunk to a thread, short
# enough that a small data set still keeps every core busy.
SYMBOLS_PER_CHUNK = 1 << 15

P = TypeVar("P")
R = TypeVar("R")


def chunk_size(n_total: int) -> int:
    """Symbols per chunk: up to four times as many where the data are large, in an even number.

    Examples
    --------
    >>> chunk_size(20_000), chunk_size(50_000), chunk_size(5_000_000)
    (32768, 25000, 125000)
    """
    size = SYMBOLS_PER_CHUNK * min(max(n_total >> 18, 1), 4)
    return size if n_total <= size else -(-n_total // (2 * -(-n_total // (2 * size))))


def chunks(
    offsets: NDArray[np.int64], symbols_per_chunk: int | None = None
) -> list[tuple[int, int]]:
    """Sequences ``first`` to ``last - 1`` as (first, last), about so many symbols in each chunk.

    A chunk is closed by the sequence that reaches this many symbols; sequences are not cut.
    """
    n = len(offsets) - 1
    size = chunk_size(int(offsets[-1])) if symbols_per_chunk is None else symbols_per_chunk
    bounds = []
    first = 0
    while first < n:
        last = min(int(np.searchsorted(offsets, offsets[first] + size)), n)
        bounds.append((first, last))
        first = last
    return bounds


def n_threads(n_jobs: int | None = None) -> int:
    """The number of threads that ``n_jobs`` asks for: None and -1 mean every core there is."""
    if n_jobs is None or n_jobs == -1:
        # Containers and batch systems often allow fewer cores than the machine has.
        if hasattr(os, "sched_getaffinity"):
            return len(os.sched_getaffinity(0))
        return os.cpu_count() or 1
    if not isinstance(n_jobs, int | np.integer) or isinstance(n_jobs, bool) or n_jobs < 1:
        raise SojournError(
            f"n_jobs is a number of threads of at least 1, or -1 or None for every core, "
            f"not {n_jobs!r}; pass n_jobs=1 to work in this thread only"
        )
    return int(n_jobs)


def in_order(fn: Callable[[P], R], parts: Iterable[P], n_jobs: int | None) -> Iterator[R]:
    """Results of ``fn`` in the order of the parts, a few of them computed ahead by threads."""
    threads = n_threads(n_jobs)
    if isinstance(parts, Sized):
        threads = min(threads, len(parts))
    return map(fn, parts) if threads <= 1 else _ahead(fn, iter(parts), threads)


def _ahead(fn: Callable[[P], R], waiting: Iterator[P], threads: int) -> Iterator[R]:
    with ThreadPoolExecutor(threads) as pool:
        # Two for each thread keep the threads busy and bound what is held: a lazy part is read,
        # and a large result kept, only when its turn is near.
        running: deque[Future[R]] = deque(pool.submit(fn, p) for p in islice(waiting, 2 * threads))
        try:
            while running:
                result = running.popleft().result()
                running.extend(pool.submit(fn, p) for p in islice(waiting, 1))
                yield result
        finally:
            for future in running:
                future.cancel()


def each(fn: Callable[[P], R], parts: Sequence[P], n_jobs: int | None = None) -> list[R]:
    """``[fn(p) for p in parts]``, by threads; ``fn`` releases the interpreter's lock."""
    threads = min(n_threads(n_jobs), len(parts))
    if threads <= 1:
        return [fn(p) for p in parts]
    with ThreadPoolExecutor(threads) as pool:
        futures = [pool.submit(fn, p) for p in parts]
        try:  # this thread is woken once, not for each result on a core that is at work
            wait(futures, return_when=FIRST_EXCEPTION)
        finally:
            for future in futures:
                future.cancel()
    return [future.result() for future in futures]


def shared_out(fn: Callable[[Iterator[P]], R], parts: Sequence[P], n_jobs: int | None) -> list[R]:
    """Results of ``fn``, called once by each thread with an iterator over parts.

    Each part goes to the next thread that is free, so that which thread has which is left to
    chance; the results must add up to the same in any case. Where one call fails, the others are
    given no more.
    """
    threads = min(n_threads(n_jobs), len(parts))
    if threads <= 1:
        return [fn(iter(parts))]
    lock, stopped = Lock(), Event()
    waiting = iter(parts[threads:])

    def taken(first: P) -> Iterator[P]:
        yield first  # a thread that comes late finds at least this
        while not stopped.is_set():
            with lock:
                after = list(islice(waiting, 1))
            if not after:
                return
            yield after[0]

    with ThreadPoolExecutor(threads) as pool:
        try:
            futures = [pool.submit(fn, taken(first)) for first in parts[:threads]]
            wait(futures, return_when=FIRST_EXCEPTION)
        finally:
            stopped.set()
    return [future.result() for future in futures]
