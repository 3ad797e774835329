"""Observations as the kernels read them: a code per step, and a row of emission factors per code.

Symbols have their codes, and the rows are those of the emission table. Numbers have a row for each
step of a chunk, filled by the model's density, and codes that count the steps of the chunk: the
same kernels run on both, and there is never a table of more than one chunk.

A row holds p(o_t | x) / max_y p(o_t | y); the maxima, `top`, are added to the logarithms again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sojourn.data.runs import sums
from sojourn.data.signals import Signals
from sojourn.errors import SojournError

if TYPE_CHECKING:
    from sojourn.data.sequences import Sequences
    from sojourn.emissions.base import Emission
    from sojourn.exact.params import Params

Floats = NDArray[np.float64]
Codes = NDArray[np.int32]

# Log-densities are computed for so many steps at a time: their parts stay in the cache.
BLOCK = 1 << 14
# A state that explains a step e^400 times worse than another still explains it: the paths that are
# possible do not depend on what a double can hold. With `LEAST`, products stay above 2^-1000.
FARTHEST = -400.0


def values_of(params: Params, sequences: Sequences) -> Floats | None:
    """The measurements that the model's density is of, (n_total, n_channels); None for symbols."""
    if params.density is None:
        return None
    if not isinstance(sequences, Signals) or len(sequences.channels) != params.density.n_channels:
        raise SojournError(f"the model observes {params.density}, but these are {sequences!r}")
    return sequences.values


def factor_rows(density: Emission, values: Floats, log: bool = False) -> tuple[Floats, Floats]:
    """A row of factors (or of their logarithms) for each step and one for missing, and `top`."""
    table, top = np.empty((len(values) + 1, density.n_states)), np.empty(len(values))
    for at in range(0, len(values), BLOCK):
        some = slice(at, min(at + BLOCK, len(values)))
        logs = np.ascontiguousarray(density.log_density(values[some]).T)
        _shift(logs, -np.inf if log else FARTHEST, table[some], top[some])
        if not log:
            np.exp(table[some], out=table[some])
    table[-1] = 0.0 if log else 1.0
    return table, top


@njit(cache=True, nogil=True)
def _shift(logs, farthest, table, top) -> None:  # type: ignore[no-untyped-def]
    """Logarithms (n_states, T) minus the maximum of each step, which is `top`; -inf stays."""
    n_x, n = logs.shape
    for t in range(n):
        best = -np.inf
        for x in range(n_x):
            best = logs[x, t] if logs[x, t] > best else best
        best = best if np.isfinite(best) else 0.0
        top[t] = best
        for x in range(n_x):
            away = logs[x, t] - best
            table[t, x] = farthest if -np.inf < away < farthest else away


class Observed:
    """The observations of some sequences under a model."""

    def __init__(self, params: Params, sequences: Sequences) -> None:
        self.density: Emission | None = params.density
        self.values, self.offsets = values_of(params, sequences), sequences.offsets
        # Each chunk fills its own part.
        self.codes: Codes = sequences.codes
        if self.values is not None:
            self.codes = np.empty(sequences.n_total, dtype=np.int32)

    def rows(self, B: Floats, first: int, last: int, log: bool = False) -> tuple[Floats, Floats]:
        """The rows of factors (or of their logarithms) of a chunk, and `top` of its steps.

        `B` are the rows of the symbols, and `top` is empty for symbols.
        """
        if self.density is None or self.values is None:
            return B, np.empty(0)
        begin, end = int(self.offsets[first]), int(self.offsets[last])
        self.codes[begin:end] = np.arange(end - begin)
        return factor_rows(self.density, self.values[begin:end], log)

    def steps(self, ends: bool, first: int, last: int) -> NDArray[np.int64]:
        """Where the steps of a chunk stand in an array that has one more entry for each end."""
        at = np.arange(self.offsets[first], self.offsets[last])
        if ends:
            at += np.repeat(np.arange(first, last), np.diff(self.offsets[first : last + 1]))
        return at

    def add_tops(self, log_probs: Floats, top: Floats, first: int, last: int) -> None:
        """Put the maxima back into the log-probabilities of the sequences of a chunk."""
        if top.size:
            log_probs[first:last] += sums(top, self.offsets[first : last + 1] - self.offsets[first])

    def statistics(self, gamma: Floats, first: int, last: int) -> Floats | None:
        """Expected statistics of a chunk whose steps are in state x with probability gamma."""
        if self.density is None or self.values is None:
            return None
        values = self.values[self.offsets[first] : self.offsets[last]]
        starts = range(0, len(values), BLOCK)
        parts = [
            self.density.statistics(values[i : i + BLOCK], gamma[i : i + BLOCK]) for i in starts
        ]
        return np.asarray(sum(parts[1:], start=parts[0]))
