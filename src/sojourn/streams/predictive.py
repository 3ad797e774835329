"""The `OnlineScorer` of models that filter: operators, a context tree, or both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sojourn.checks import LARGEST
from sojourn.spectral.answers import Walk
from sojourn.spectral.models import ContextModel, Model, WindowModel
from sojourn.streams.scorer import OnlineScorer

Floats = NDArray[np.float64]


class FilterScorer(OnlineScorer):
    """An `OnlineScorer` by the normalised filter and the context tree beside it.

    Its state is a row of the filter, then the symbols of the past that contexts may read.
    """

    def __init__(self, model: Model, vocabulary: NDArray[Any], unknown: str) -> None:
        self._scored = model
        walk = Walk(model)
        super().__init__(vocabulary, unknown, np.concatenate([walk.row, walk.past]))

    def _ahead(self, horizons: Sequence[int]) -> Floats:
        return self._walk.distributions(horizons)

    def end(self) -> float:  # noqa: D102
        return self._walk.end()

    def _advance(self, codes: NDArray[np.int32], out: Floats) -> None:
        self._walk.n_seen = self.n_seen
        self._walk.advance(codes, out)

    def _state(self) -> Floats:
        return np.concatenate([self._walk.row, self._walk.past])

    def _set_state(self, state: Floats) -> None:
        self._walk = Walk(self._scored)
        width = len(self._walk.row)
        self._walk.row = state[:width].copy()
        self._walk.remember(state[width:].astype(np.int32))
        self._walk.n_seen = self.n_seen

    def _valid(self, state: Floats, seen: int) -> bool:
        width, n_o = len(Walk(self._scored).row), self._scored.n_symbols
        past = state[width:]
        inside = (past >= 0) & (past <= n_o + 1) & (past == np.floor(past))
        starts = past == n_o  # the start mark comes first or not at all
        return bool(
            0 < len(past) <= Walk.MOST + 1
            and (np.abs(state) <= LARGEST).all()
            and inside.all()
            and not starts[1:].any()
        )

    def _tables(self) -> list[NDArray[Any]]:
        model = self._scored
        if isinstance(model, WindowModel):
            return [model.filter.moves, model.filter.start, np.array(model.epsilon)]
        assert isinstance(model, ContextModel)
        f, trees = model.followers, model.trees
        own: list[NDArray[Any]] = [f.count, f.trust, trees.pasts.parent, trees.pasts.token]
        own += [np.array(model.weight), np.array(model.ends)]
        if model.operators is not None:
            own += [model.operators.emit, model.operators.own, model.operators.start]
        return own
