"""How far EM has come, on a terminal."""

from __future__ import annotations

import sys
from typing import Self

from sojourn.params import Params


class Progress:
    """A line on the standard error stream that says how far EM has come."""

    def __init__(self, verbose: bool | None, max_iter: int, n_total: int) -> None:
        self.shown = sys.stderr.isatty() if verbose is None else verbose
        self.max_iter, self.n_total = max_iter, n_total

    def __enter__(self) -> Self:
        return self

    def __call__(self, iteration: int, objective: float, _: Params) -> None:
        """Show the pass and what it reached."""
        if self.shown:
            done = min(1.0, iteration / self.max_iter)
            bar = ("━" * round(20 * done)).ljust(20, "╌")
            score = objective / self.n_total
            print(
                f"\r{bar} EM pass {iteration}: {score:.6f} nats a symbol", end="", file=sys.stderr
            )

    def __exit__(self, *_: object) -> None:
        if self.shown:
            print(file=sys.stderr)
