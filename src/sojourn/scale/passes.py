"""One pass over data in partitions, each read when its turn comes: by threads, or on a cluster.

Memory: a worker (a thread here, a task of a cluster) holds one partition and one total at a time.
`run_group` is the only place that holds a partition, and lets go of it before it reads the next.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import accumulate
from threading import Lock
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from numpy.typing import NDArray

from sojourn.data.sequences import Sequences
from sojourn.errors import SojournError
from sojourn.io.layout import Malformed
from sojourn.io.sources import Partition, Scan, warn_skipped
from sojourn.scale.threads import in_order, shared_out

__all__ = ["Outcome", "Partition", "Partitions", "Pass", "join_outcomes", "run_group"]

T = TypeVar("T")
Watch = Callable[[int, int], object]


class Pass(ABC, Generic[T]):
    """What a pass computes: a total, to which a worker adds one partition after another.

    Where the total depends on the order of the data (a list, a sum of floats) the pass is
    `ordered`: a worker has neighbouring partitions, and totals are joined in the order of the data.
    If not (a sum of integers), each thread has one total and takes whichever partition comes next.
    A cluster sends the pass to its workers, so it holds no more than they need.
    """

    ordered: ClassVar[bool] = False

    @abstractmethod
    def empty(self) -> T:
        """The total of no partitions."""

    @abstractmethod
    def add(self, total: T, sequences: Sequences, partition: Partition) -> T:
        """The total with one more partition, whose sequences are read; `total` may be changed."""

    def join(self, a: T, b: T) -> T:
        """The totals of two workers as one; both stay as they are."""
        both: T = operator.add(a, b)
        return both


class Outcome(NamedTuple):
    """The total of some partitions, and the malformed rows left out, by number of partition."""

    total: Any
    skipped: tuple[tuple[int, Malformed], ...]


def run_group(
    partitions: Iterable[Partition],
    one: Pass[Any],
    vocabulary: Any = None,
    done: Callable[[], object] | None = None,
) -> Outcome:
    """The total over some partitions, read one after the other.

    A vocabulary may come beside the partitions, where they were sent without it.
    """
    total, skipped = one.empty(), []
    for partition in partitions:
        if vocabulary is not None:
            partition = replace(partition, vocabulary=vocabulary)
        sequences, malformed = partition.load()
        if malformed.count:
            skipped.append((partition.number, malformed))
        total = one.add(total, sequences, partition)
        del sequences  # before the next partition is read
        if done is not None:
            done()
    return Outcome(total, tuple(skipped))


def join_outcomes(outcomes: Sequence[Outcome], one: Pass[Any]) -> Outcome:
    """Totals joined one after the other, and all that was left out."""
    total, skipped = outcomes[0]
    for outcome in outcomes[1:]:
        total, skipped = one.join(total, outcome.total), skipped + outcome.skipped
    return Outcome(total, skipped)


@dataclass(frozen=True, eq=False)
class Partitions:
    """The partitions of a scan, and who reads them."""

    items: tuple[Partition, ...]
    vocabulary: NDArray[Any]  # the symbols, sorted
    n_jobs: int | None = None  # number of threads
    client: Any = None  # A cluster whose workers read the partitions instead
    # called with the number of partitions done, and of all; by one thread at a time, which need
    # not be the caller's
    watch: Watch | None = None

    @classmethod
    def of(cls, scan: Scan, n_jobs: int | None = None, client: Any = None) -> Partitions:
        """The partitions of a scan, whose sizes are not known yet."""
        if scan.unknown == "add":
            raise SojournError(
                "unknown='add' gives each partition a vocabulary of its own; a model needs one: "
                "leave vocabulary= out of scan to have that of all files, or pass unknown='missing'"
            )
        return cls(scan.partitions, scan.vocabulary, n_jobs, client)

    @property
    def n_symbols(self) -> int:
        """Number of symbols in the vocabulary."""
        return len(self.vocabulary)

    @property
    def n_total(self) -> int:
        """Number of symbols in all partitions, once their sizes are known."""
        return sum(partition.size or 0 for partition in self.items)

    def sized(self, sizes: Sequence[int]) -> Partitions:
        """The same partitions with the number of symbols of each known."""
        begins = accumulate(sizes, initial=0)
        known = zip(self.items, begins, sizes, strict=False)
        return replace(self, items=tuple(replace(p, begin=b, size=n) for p, b, n in known))

    def through(self, then: Callable[[Any], Sequences], vocabulary: NDArray[Any]) -> Partitions:
        """The same partitions, whose sequences become others, of as many steps, when read."""
        items = tuple(replace(item, then=then) for item in self.items)
        return replace(self, items=items, vocabulary=vocabulary)

    def run(self, one: Pass[T]) -> T:
        """The total of a pass over all partitions."""
        group = partial(run_group, one=one, done=self._counter())
        outcomes: Iterable[Outcome]
        if self.client is not None:
            from sojourn.scale.dask_pass import run_on_cluster

            outcomes = [run_on_cluster(self.client, one, self)]
        elif one.ordered:
            outcomes = in_order(group, [(item,) for item in self.items], self.n_jobs)
        else:
            outcomes = shared_out(group, self.items, self.n_jobs)
        outcome = reduce(lambda a, b: join_outcomes((a, b), one), outcomes)
        # Sizes are known after the first pass, which has warned.
        if outcome.skipped and any(item.size is None for item in self.items):
            by_number = sorted(outcome.skipped, key=lambda pair: pair[0])
            warn_skipped([malformed for _, malformed in by_number])
        total: T = outcome.total
        return total

    def _counter(self) -> Callable[[], None]:
        """What a worker calls after each partition."""
        lock, n_done = Lock(), 0

        def done() -> None:
            nonlocal n_done
            with lock:
                n_done += 1
                if self.watch is not None:
                    self.watch(n_done, len(self.items))

        return done
