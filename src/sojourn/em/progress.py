"""Progress of a fit or of a search of sizes, in a line on the standard error stream."""

from __future__ import annotations

import sys
from typing import Self

from sojourn.data.sequences import Sequences
from sojourn.exact.params import Params
from sojourn.scale.passes import Partitions


class Progress:
    """A line on the standard error stream: passes of EM, what they reached, partitions done."""

    def __init__(self, verbose: bool | None, max_iter: int, data: Sequences | Partitions) -> None:
        self.shown = sys.stderr.isatty() if verbose is None else verbose
        self.max_iter, self.data = max_iter, data
        self.line = "EM begins"

    def __enter__(self) -> Self:
        return self

    def __call__(self, iteration: int, objective: float, _: Params) -> None:
        """Show the pass and what it reached."""
        done = min(1.0, iteration / self.max_iter)
        bar = ("━" * round(20 * done)).ljust(20, "╌")
        n = self.data.n_total  # 0 before the first pass over a scan
        value = f"{objective / n:.6f} nats per symbol" if n else f"{objective:.2f} nats"
        self.line = f"{bar} EM pass {iteration}: {value}"
        self._show("")

    def watch(self, done: int, n: int) -> None:
        """Show how many partitions of the pass under way are done, where there are several."""
        if n > 1:
            self._show(f", partition {done} of {n} ".ljust(30))

    def _show(self, more: str) -> None:
        if self.shown:
            print(f"\r{self.line}{more}", end="", file=sys.stderr)

    def __exit__(self, *_: object) -> None:
        if self.shown:
            print(file=sys.stderr)


class Counter:
    """Which of several sizes is compared, and how many are left."""

    def __init__(self, verbose: bool | None, n: int) -> None:
        self.shown = sys.stderr.isatty() if verbose is None else verbose
        self.done, self.n = 0, n

    def next(self, n_states: int, max_duration: int) -> None:
        """Show the size that comes next."""
        left = self.n - self.done - 1
        self.done += 1
        if self.shown:
            what = f"{n_states} states, {max_duration} free steps"
            rest = f"at most {left} more sizes" if left > 0 else "the last size"
            print(f"\rcomparing sizes: {what}; {rest}".ljust(79), end="", file=sys.stderr)

    def close(self, found: str) -> None:
        """Show what was found."""
        if self.shown:
            print(f"\r{found}".ljust(79), file=sys.stderr)
