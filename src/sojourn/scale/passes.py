"""Data in partitions that are read when a pass needs them: by threads here, or on a cluster.

A pass gives a task to every partition and joins what the tasks return, neighbour with neighbour; or
it lets every thread count up partitions in whichever order they come. Data in memory are one
partition, and then the threads work inside of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import accumulate
from threading import Lock
from typing import Any

from numpy.typing import NDArray

from sojourn.data.sequences import Sequences
from sojourn.errors import SojournError
from sojourn.io.layout import Malformed
from sojourn.io.sources import Partition, Scan, warn_skipped
from sojourn.scale.threads import in_order, shared_out

# What a partition is given to: its sequences, the symbols before them, the number of threads.
Task = Callable[[Sequences, int, int | None], Any]
Join = Callable[[Any, Any], Any]
Watch = Callable[[int, int], object]


@dataclass(frozen=True, eq=False)
class Part:
    """One partition of the data, and what is known of it.

    Parameters
    ----------
    source : Partition or Sequences
        What to read, or what is there already.
    begin : int
        Number of symbols before it, once it is known.
    size : int or None
        Number of its symbols, once it is known.
    n_jobs : int or None
        Number of threads to work on it.
    number : int
        Its place among the partitions.
    """

    source: Partition | Sequences
    begin: int = 0
    size: int | None = None
    n_jobs: int | None = 1
    number: int = 0

    def load(self) -> tuple[Sequences, Malformed | None]:
        """Its sequences, and the malformed rows among them if there are any."""
        if isinstance(self.source, Sequences):
            return self.source, None
        sequences, malformed = self.source.load()
        if self.size is not None and sequences.n_total != self.size:
            raise SojournError(
                f"{self} holds {sequences.n_total} symbols, but held {self.size} when it was first "
                f"read; files must not change during a fit"
            )
        return sequences, malformed if malformed.count else None

    def __str__(self) -> str:
        if isinstance(self.source, Sequences):
            return "the sequences"
        pieces, span = self.source.pieces, self.source.span
        where = f", pieces {pieces[0]} to {pieces[1] - 1}" if pieces else ""
        upto = f", ids up to {span.upto!r}" if span.upto is not None else ""
        return f"{self.source.path}{where}{upto}"


@dataclass(frozen=True, eq=False)
class Loaded:
    """A partition that has been read: its sequences, and the rest as in `Part`."""

    number: int
    sequences: Sequences
    begin: int
    n_jobs: int | None


# What partitions are given to one after the other as they are read.
Run = Callable[[Iterator[Loaded]], Any]


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a run returned, and the malformed rows that were met, by number of partition."""

    value: Any
    skipped: tuple[tuple[int, Malformed], ...] = ()


@dataclass(frozen=True)
class InOrder:
    """The run that gives each partition to a task and joins what the tasks return."""

    task: Task
    join: Join

    def __call__(self, partitions: Iterator[Loaded]) -> Any:
        """What the tasks returned, joined."""
        first = next(partitions)
        whole = self.task(first.sequences, first.begin, first.n_jobs)
        del first  # before the next is read
        for part in partitions:
            whole = self.join(whole, self.task(part.sequences, part.begin, part.n_jobs))
            del part
        return whole


def run_parts(run: Run, parts: Iterable[Part], done: Callable[[], object] | None = None) -> Outcome:
    """Read partitions, each when a run asks for it, and give them to the run.

    A run that lets go of a partition before it asks for the next holds one at a time.
    """
    skipped = []

    def loaded() -> Iterator[Loaded]:
        for part in parts:
            sequences, malformed = part.load()
            if malformed is not None:
                skipped.append((part.number, malformed))
            one = Loaded(part.number, sequences, part.begin, part.n_jobs)
            del sequences
            yield one
            del one
            if done is not None:
                done()

    return Outcome(run(loaded()), tuple(skipped))


def join_outcomes(join: Join, a: Outcome, b: Outcome) -> Outcome:
    """What two runs returned, as one."""
    return Outcome(join(a.value, b.value), a.skipped + b.skipped)


@dataclass(frozen=True, eq=False)
class Parts:
    """Data in partitions, and who works on them.

    Parameters
    ----------
    parts : tuple of Part
    vocabulary : array
        The symbols, sorted.
    n_jobs : int or None
        Number of threads, each with a partition of its own.
    client : distributed.Client, optional
        A cluster whose workers read the partitions themselves.
    watch : callable, optional
        Called with the number of partitions done, and of all; by one thread at a time, which need
        not be the caller's.

    Examples
    --------
    >>> parts = Parts.of(Sequences.from_lists([["a", "b"], ["b"]]))
    >>> parts.reduced(lambda seqs, begin, n_jobs: len(seqs), lambda a, b: a + b)
    2
    """

    parts: tuple[Part, ...]
    vocabulary: NDArray[Any]
    n_jobs: int | None = None
    client: Any = None
    watch: Watch | None = None

    @classmethod
    def of(cls, data: Sequences | Scan, n_jobs: int | None = None, client: Any = None) -> Parts:
        """Sequences in memory as one partition, or the partitions of a scan."""
        if isinstance(data, Sequences):
            if client is not None:
                raise SojournError(
                    "client= is for data that the workers can read: give a scan of files, or "
                    "leave it out"
                )
            return cls((Part(data, 0, data.n_total, n_jobs),), data.vocabulary, 1)
        parts = tuple(Part(source, number=i) for i, source in enumerate(data.partitions))
        return cls(parts, data.vocabulary, n_jobs, client)

    @property
    def n_symbols(self) -> int:
        """Number of symbols in the vocabulary."""
        return len(self.vocabulary)

    @property
    def n_total(self) -> int:
        """Number of symbols in all partitions, once their sizes are known."""
        return sum(part.size or 0 for part in self.parts)

    @property
    def known(self) -> bool:
        """Whether the sizes of the partitions are known."""
        return all(part.size is not None for part in self.parts)

    @property
    def in_memory(self) -> Sequences | None:
        """The sequences, where they are not on disk."""
        source = self.parts[0].source
        return source if isinstance(source, Sequences) else None

    def sized(self, sizes: list[int]) -> Parts:
        """The same partitions with the number of symbols of each known."""
        begins = accumulate(sizes, initial=0)
        known = zip(self.parts, begins, sizes, strict=False)
        parts = tuple(replace(part, begin=begin, size=size) for part, begin, size in known)
        return replace(self, parts=parts)

    def reduced(self, task: Task, join: Join) -> Any:
        """What the tasks of all partitions return, joined in order."""
        run = InOrder(task, join)
        if self.client is not None:
            return self._on_cluster(run, join)
        results = in_order(lambda part: run_parts(run, (part,)), self.parts, self.n_jobs)
        return self._joined(self._watched(results), join)

    def tallied(self, run: Run, join: Join) -> Any:
        """What runs over some of the partitions each, in any order, return, joined.

        Every thread has one run, so that what a run counts into is there once a thread.
        """
        if self.client is not None:
            return self._on_cluster(run, join)
        lock, n_done = Lock(), 0

        def done() -> None:
            nonlocal n_done
            with lock:
                n_done += 1
                if self.watch is not None:
                    self.watch(n_done, len(self.parts))

        runs = shared_out(lambda parts: run_parts(run, parts, done), self.parts, self.n_jobs)
        return self._joined(iter(runs), join)

    def each(self, task: Task) -> list[Any]:
        """What the tasks of all partitions return, in order."""
        values: list[Any] = self.reduced(Listed(task), _extended)
        return values

    def _on_cluster(self, run: Run, join: Join) -> Any:
        from sojourn.scale.dask_pass import reduced_on

        whole = reduced_on(self.client, run, self.parts, join, self.vocabulary, self.watch)
        return self._joined(iter((whole,)), join)

    def _watched(self, outcomes: Iterator[Outcome]) -> Iterator[Outcome]:
        for done, outcome in enumerate(outcomes, 1):
            if self.watch is not None:
                self.watch(done, len(self.parts))
            yield outcome

    def _joined(self, outcomes: Iterator[Outcome], join: Join) -> Any:
        whole = next(outcomes)
        for outcome in outcomes:
            whole = join_outcomes(join, whole, outcome)
        # Sizes are known after the first pass, which has warned.
        if whole.skipped and not self.known:
            in_order_of_files = sorted(whole.skipped, key=lambda pair: pair[0])
            warn_skipped([malformed for _, malformed in in_order_of_files])
        return whole.value


@dataclass(frozen=True)
class Listed:
    """A task whose results are put in a list."""

    task: Task

    def __call__(self, sequences: Sequences, begin: int, n_jobs: int | None) -> list[Any]:
        """The result as a list."""
        return [self.task(sequences, begin, n_jobs)]


def _extended(a: list[Any], b: list[Any]) -> list[Any]:
    return a + b
