"""What scores sequences: operators over contexts mixed with a context tree, or over windows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sojourn.contexts.counts import Trees
from sojourn.contexts.followers import Followers
from sojourn.errors import SojournError
from sojourn.spectral.context_operators import ContextOperators
from sojourn.spectral.filter import Filter, context_filter, window_filter
from sojourn.spectral.operators import Operators

Floats = NDArray[np.float64]


class Model(Protocol):
    """What `answers` needs to know of a model."""

    @property
    def n_symbols(self) -> int:
        """Number of symbols."""

    @property
    def ends(self) -> bool:
        """Whether the end of a sequence is predicted."""

    @property
    def weight(self) -> float:
        """Weight of the filter in the mixture; the rest is the context tree's."""

    @property
    def filter(self) -> Filter | None:
        """The operators laid out for scoring; None for a context tree alone."""

    @property
    def followers(self) -> Followers | None:
        """The context tree; None for operators alone."""

    @property
    def trees(self) -> Trees | None:
        """The contexts, by which the filter restarts; None for windows, which restart by step."""

    def emission(self, step: int) -> Floats:
        """Rows that give p(symbol or end | state) at a step, (n_symbols + 1, rank)."""

    def combined(self, weights: Floats, step: int) -> Floats:
        """The sum of the operators of the symbols at a step, with weights, (rank, rank)."""


@dataclass(frozen=True, eq=False)
class ContextModel:
    """Operators over contexts beside a context tree.

    Parameters
    ----------
    trees : Trees
    operators : ContextOperators or None
        None for a context tree alone.
    followers : Followers
    weight : float
        Of the operators' predictions in the mixture.
    ends : bool
        Whether the end of a sequence is predicted.
    """

    trees: Trees
    operators: ContextOperators | None
    followers: Followers
    weight: float
    ends: bool

    def __post_init__(self) -> None:
        o = self.operators
        if not 0.0 <= self.weight <= (0.0 if o is None else 1.0):
            raise SojournError(f"the weight of the operators is {self.weight!r}; not in 0 … 1")
        sizes = {self.trees.n_symbols, self.followers.n_symbols}
        nodes = {self.trees.pasts.n_nodes, len(self.followers.parent)}
        contexts = {self.trees.n_pasts}
        if o is not None:
            sizes.add(o.n_symbols)
            contexts.add(len(o.restart))
        if any(len(found) > 1 for found in (sizes, nodes, contexts)):
            raise SojournError("trees, operators and context tree are not of one model")

    @property
    def n_symbols(self) -> int:
        """Number of symbols."""
        return self.trees.n_symbols

    @cached_property
    def filter(self) -> Filter | None:
        """The operators laid out for scoring."""
        return None if self.operators is None else context_filter(self.operators, self.ends)

    def emission(self, step: int) -> Floats:
        """Rows that give p(symbol or end | state)."""
        return self._operators.emit

    def combined(self, weights: Floats, step: int) -> Floats:
        """The sum of the operators of the symbols, with weights."""
        return self._operators.combined(weights)

    @property
    def _operators(self) -> ContextOperators:
        if self.operators is None:
            raise SojournError(
                "a context tree predicts the next symbol alone; for horizon > 1 use SpectralHSMM"
            )
        return self.operators


@dataclass(frozen=True, eq=False)
class WindowModel:
    """Operators over windows: the adjacent form's, or the paper's."""

    operators: Operators
    epsilon: float

    ends = False
    weight = 1.0
    trees = followers = None

    @property
    def n_symbols(self) -> int:
        """Number of symbols."""
        return self.operators.n_symbols

    @cached_property
    def filter(self) -> Filter:
        """The operators laid out for scoring."""
        return window_filter(self.operators, self.epsilon)

    def emission(self, step: int) -> Floats:
        """Rows that give p(symbol | state) at a step; an end has none."""
        found: Floats = self._at(step) @ self.operators.stop
        return np.vstack([found, np.zeros(found.shape[1])])

    def combined(self, weights: Floats, step: int) -> Floats:
        """The sum of the operators of the symbols at a step, with weights."""
        return np.tensordot(weights, self._at(step), 1)

    def _at(self, step: int) -> Floats:
        return self.operators.B[min(step, len(self.operators.B) - 1)]
