"""Data in partitions that are read when a pass needs them: by threads here, or on a cluster.

A pass gives a task to every partition and joins what the tasks return, neighbour with neighbour.
Data in memory are one partition, and then the threads work inside of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

from numpy.typing import NDArray

from sojourn.errors import SojournError
from sojourn.parallel import in_order
from sojourn.reading.layout import Malformed
from sojourn.sequences import Sequences
from sojourn.sources import Partition, Scan, warn_skipped

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
    """

    source: Partition | Sequences
    begin: int = 0
    size: int | None = None
    n_jobs: int | None = 1

    def __str__(self) -> str:
        if isinstance(self.source, Sequences):
            return "the sequences"
        pieces, span = self.source.pieces, self.source.span
        where = f", pieces {pieces[0]} to {pieces[1] - 1}" if pieces else ""
        upto = f", ids up to {span.upto!r}" if span.upto is not None else ""
        return f"{self.source.path}{where}{upto}"


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a task returned, and the malformed rows that were met."""

    value: Any
    skipped: tuple[Malformed, ...] = ()


def run_part(task: Task, part: Part) -> Outcome:
    """Read a partition and give it to the task."""
    if isinstance(part.source, Sequences):
        return Outcome(task(part.source, part.begin, part.n_jobs))
    sequences, malformed = part.source.load()
    if part.size is not None and sequences.n_total != part.size:
        raise SojournError(
            f"{part} holds {sequences.n_total} symbols, but held {part.size} when it was first "
            f"read; files must not change during a fit"
        )
    value = task(sequences, part.begin, part.n_jobs)
    return Outcome(value, (malformed,) if malformed.count else ())


def join_outcomes(join: Join, a: Outcome, b: Outcome) -> Outcome:
    """What two neighbours returned, as one."""
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
        Called with the number of partitions done, and of all.

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
        parts = tuple(Part(partition) for partition in data.partitions)
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
        if self.client is not None:
            from sojourn.cluster import reduced_on

            whole = reduced_on(self.client, task, self.parts, join, self.vocabulary, self.watch)
        else:
            results = self._outcomes(task)
            whole = next(results)
            for outcome in results:
                whole = join_outcomes(join, whole, outcome)
        self._warn(whole.skipped)
        return whole.value

    def each(self, task: Task) -> list[Any]:
        """What the tasks of all partitions return, in order."""
        values: list[Any] = self.reduced(Listed(task), _extended)
        return values

    def _outcomes(self, task: Task) -> Iterator[Outcome]:
        def run(part: Part) -> Outcome:
            return run_part(task, part)

        for done, outcome in enumerate(in_order(run, self.parts, self.n_jobs), 1):
            if self.watch is not None:
                self.watch(done, len(self.parts))
            yield outcome

    def _warn(self, skipped: tuple[Malformed, ...]) -> None:
        # Sizes are known after the first pass, which has said it.
        if skipped and not self.known:
            warn_skipped(skipped)


@dataclass(frozen=True)
class Listed:
    """A task whose results are put in a list."""

    task: Task

    def __call__(self, sequences: Sequences, begin: int, n_jobs: int | None) -> list[Any]:
        """The result as a list."""
        return [self.task(sequences, begin, n_jobs)]


def _extended(a: list[Any], b: list[Any]) -> list[Any]:
    return a + b
