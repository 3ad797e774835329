"""How far EM has come, on a terminal."""

from __future__ import annotations

import sys
from typing import Self

from sojourn.exact.params import Params


class Progress:
    """A line on the standard error stream that says how far EM has come."""

    def __init__(self, verbose: bool | None, max_iter: int, n_total: int) -> None:
        self.shown = sys.stderr.isatty() if verbose is None else verbose
        self.max_iter, self.n_total = max_iter, n_total
        self.line = "EM begins"

    def __enter__(self) -> Self:
        return self

    def __call__(self, iteration: int, objective: float, _: Params) -> None:
        """Show the pass and what it reached."""
        done = min(1.0, iteration / self.max_iter)
        bar = ("━" * round(20 * done)).ljust(20, "╌")
        score = objective / max(self.n_total, 1)
        self.line = f"{bar} EM pass {iteration}: {score:.6f} nats a symbol"
        self._show("")

    def watch(self, done: int, n: int) -> None:
        """Show how many partitions the pass under way has done, where there are several."""
        if n > 1:
            self._show(f", partition {done} of {n} ".ljust(30))

    def _show(self, more: str) -> None:
        if self.shown:
            print(f"\r{self.line}{more}", end="", file=sys.stderr)

    def __exit__(self, *_: object) -> None:
        if self.shown:
            print(file=sys.stderr)
