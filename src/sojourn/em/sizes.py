"""Sizes of models that were compared."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Size:
    """A size and its score.

    Attributes
    ----------
    n_states, max_duration : int
    score : float
        Held-out log-likelihood per symbol in nats, mean over the folds.
    error : float
        Its standard error.
    seconds : float
        Time of the fits.

    Examples
    --------
    >>> size = Size(n_states=3, max_duration=5, score=-1.2, error=0.01, seconds=0.4)
    >>> size.n_states, size.score
    (3, -1.2)
    """

    n_states: int
    max_duration: int
    score: float
    error: float
    seconds: float


@dataclass(frozen=True)
class Selection:
    """The sizes that were compared, and the best of them.

    Parameters
    ----------
    sizes : tuple of Size
        In the order in which they were tried.

    Examples
    --------
    >>> print(Selection((Size(2, 5, -1.30, 0.01, 0.2), Size(3, 5, -1.20, 0.01, 0.4))))
    states  max duration  nats per symbol  std. error  perplexity  seconds
         2             5         -1.30000     0.01000      3.6693     0.20
         3             5         -1.20000     0.01000      3.3201     0.40  <- best
    """

    sizes: tuple[Size, ...]

    @property
    def best(self) -> Size:
        """The size with the highest score; of equals the smaller."""
        return max(self.sizes, key=lambda s: (s.score, -s.n_states, -s.max_duration))

    @property
    def n_states(self) -> int:
        """Number of states of the best size."""
        return self.best.n_states

    @property
    def max_duration(self) -> int:
        """Longest stay of the best size."""
        return self.best.max_duration

    def __str__(self) -> str:
        lines = ["states  max duration  nats per symbol  std. error  perplexity  seconds"]
        for size in self.sizes:
            mark = "  <- best" if size is self.best else ""
            lines.append(
                f"{size.n_states:6d}  {size.max_duration:12d}  {size.score:15.5f}  "
                f"{size.error:10.5f}  {np.exp(-size.score):10.4f}  {size.seconds:7.2f}{mark}"
            )
        return "\n".join(lines)
