"""The states of a model: their order, names, a table of them, and what of it to distrust."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sojourn.errors import SojournError
from sojourn.exact.params import Params

Floats = NDArray[np.float64]

TOP = 3  # symbols and next states that are shown
LEAST = 0.05  # and the least probability of one that is
FEW_VISITS = 20.0
# Stays that pile up at the longest possible duration: shares of them that are worth a warning and a
# remark, in tables from this size on; in smaller ones it is no sign.
AT_LIMIT, MANY_AT_LIMIT, SHORTEST_LIMIT = 0.2, 0.5, 4
ALIKE = 0.05  # total variation of emissions, durations and transitions


class StateRow(NamedTuple):
    """One state of a `Summary`.

    Attributes
    ----------
    state : int
    name : str
    share : float
        Of the training data's time.
    visits : float
        Expected number of stays in the training data; NaN if not known.
    mean, spread : float
        Of its stays, in steps.
    symbols : tuple of (symbol, probability)
        The likeliest; of measurements (channel, mean).
    followed_by : tuple of (name, probability)
        Likely next states.
    measured : str
        What is measured in it, in words; empty for symbols.

    Examples
    --------
    >>> from sojourn import HSMM
    >>> row = HSMM(2, 3, random_state=0).fit([["a", "a", "b"] * 10] * 5).summary().rows[0]
    >>> row.name, round(row.share, 2), round(row.mean, 1)
    ('state 0', 0.67, 2.0)
    """

    state: int
    name: str
    share: float
    visits: float
    mean: float
    spread: float
    symbols: tuple[tuple[Any, float], ...]
    followed_by: tuple[tuple[str, float], ...]
    measured: str = ""


@dataclass(frozen=True)
class Summary:
    """A table of states, and sentences on what to distrust.

    Parameters
    ----------
    rows : tuple of StateRow
    warnings : tuple of str
    step : float
        How long a step lasts, in the unit in which the table is shown.
    unit : str

    Examples
    --------
    >>> from sojourn import HSMM
    >>> model = HSMM(2, 3, random_state=0).fit([["a", "a", "b"] * 10] * 5)
    >>> print(model.summary())
    state    time   stays  steps      emits  then
    state 0  66.7%  50     2.0 ± 0.0  a 1    state 1 1
    state 1  33.3%  50     1.0 ± 0.1  b 1    state 0 1
    """

    rows: tuple[StateRow, ...]
    warnings: tuple[str, ...]
    step: float = 1.0
    unit: str = "steps"

    def __str__(self) -> str:
        head = ("state", "time", "stays", self.unit, "emits", "then")
        cells = [head]
        for row in self.rows:
            visits = "" if np.isnan(row.visits) else f"{row.visits:.0f}"
            steps = f"{self.step * row.mean:.1f} ± {self.step * row.spread:.1f}"
            emits, then = (_listed(pairs) for pairs in (row.symbols, row.followed_by))
            emits = row.measured or emits
            cells.append((row.name, f"{row.share:.1%}", visits, steps, emits, then))
        widths = [max(len(line[k]) for line in cells) for k in range(len(head))]
        lines = ["  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)) for line in cells]
        notes = [f"- {warning}" for warning in self.warnings]
        return "\n".join(
            [*(line.rstrip() for line in lines), *(["Distrust:"] if notes else []), *notes]
        )


def summarise(
    params: Params,
    names: list[str],
    symbols: list[Any],
    share: Floats,
    visits: Floats | None,
    converged: bool = True,
    step: tuple[float, str] = (1.0, "steps"),
) -> Summary:
    """The summary of a model: names of its states and symbols (or channels), time and visits."""
    doubts = _doubts(params, names, visits)
    if not converged:
        doubts.insert(0, "EM has not converged; raise max_iter")
    visits = np.full(params.n_states, np.nan) if visits is None else visits
    spread = np.sqrt(duration_variances(params))
    rows = []
    for x, name in enumerate(names):
        numbers = (float(share[x]), float(visits[x]))
        stays = (float(params.mean_durations[x]), float(spread[x]))
        emits = _emitted(params, symbols, x)
        then = params.transition[x] * (1.0 if params.end is None else 1.0 - params.end[x])
        nexts = _most(then, names)
        if params.end is not None and params.end[x] >= LEAST:
            nexts = (*nexts, ("end", float(params.end[x])))
        measured = "" if params.density is None else params.density.sentence(x, symbols)
        rows.append(StateRow(x, name, *numbers, *stays, emits, nexts, measured))
    return Summary(tuple(rows), tuple(doubts), *step)


def duration_variances(params: Params) -> Floats:
    """Variance of the stays in each state, with their tails."""
    d = np.arange(1.0, params.max_duration + 1.0)
    last, rho = params.duration[:, -1], params.tail
    beyond = params.steps_beyond  # a geometric number of further steps, of variance ρ / (1 - ρ)²
    squares = params.duration @ d**2
    squares += last * (2 * params.max_duration * beyond + rho * (1 + rho) / (1 - rho) ** 2)
    return np.asarray(np.maximum(squares - params.mean_durations**2, 0.0))


def _emitted(params: Params, symbols: list[Any], x: int) -> tuple[tuple[Any, float], ...]:
    if params.density is not None:
        means = np.atleast_2d(params.density.mean())[x]
        return tuple(zip(symbols, means.tolist(), strict=False))
    return _most(params.emission[x], symbols)


def _most(p: Floats, names: list[Any]) -> tuple[tuple[Any, float], ...]:
    order = np.argsort(-p, kind="stable")[:TOP]
    return tuple((names[k], float(p[k])) for k in order if p[k] >= LEAST)


def _listed(pairs: tuple[tuple[Any, float], ...]) -> str:
    return ", ".join(f"{name} {value:.2g}" for name, value in pairs)


def _doubts(params: Params, names: list[str], visits: Floats | None) -> list[str]:
    """Sentences on what the data do not support."""
    found = []
    if visits is not None and np.any(visits < FEW_VISITS):
        few = [names[x] for x in np.flatnonzero(visits < FEW_VISITS)]
        found.append(
            f"fewer than {FEW_VISITS:.0f} stays in {', '.join(few)}: their rows are little more "
            f"than a guess; use fewer states"
        )
    found.extend(
        f"{params.duration[x, -1]:.0%} of the stays in {names[x]} last max_duration="
        f"{params.max_duration} steps, the longest possible; use tail=True or a larger "
        f"max_duration"
        for x in at_limit(params)
    )
    if params.density is None:
        tables = np.hstack([params.emission, params.duration, params.transition])
        apart = np.abs(tables[:, None] - tables).sum(axis=2) / 2  # total variation, three rows each
        pairs = np.argwhere(np.triu(apart < 3 * ALIKE, 1))
        found.extend(f"{names[x]} and {names[y]} are nearly the same" for x, y in pairs)
    return found


def at_limit(params: Params, share: float = AT_LIMIT) -> NDArray[np.int64]:
    """States without a tail of whose stays more than this share are as long as they can be."""
    full = (params.duration[:, -1] > share) & (params.tail == 0.0)
    return np.flatnonzero(full & (params.max_duration >= SHORTEST_LIMIT))


def warn_of_limit(params: Params) -> None:
    """Warn of states most of whose stays are as long as they can be."""
    n_d, full = params.max_duration, at_limit(params, MANY_AT_LIMIT)
    if full.size:
        share = params.duration[full[0], -1]
        warnings.warn(
            f"{share:.0%} of the stays in state {full[0]} last max_duration={n_d} steps, the "
            f"longest possible: they may be cut short; use tail=True or a larger max_duration",
            stacklevel=3,
        )


def renamed(names: list[str], given: Mapping[int, str] | Sequence[str]) -> NDArray[np.str_]:
    """The names of states with some, or all, given anew; or an error."""
    n_x, by_state = len(names), dict(given if isinstance(given, Mapping) else enumerate(given))
    wrong = [x for x in by_state if not isinstance(x, int | np.integer) or not 0 <= x < n_x]
    if wrong or (not isinstance(given, Mapping) and len(by_state) != n_x):
        raise SojournError(
            f"there are {n_x} states, 0 to {n_x - 1}; got names for {', '.join(map(str, by_state))}"
            f"; give one for each, or a mapping from state to name"
        )
    found = [str(by_state.get(x, name)) for x, name in enumerate(names)]
    if len(set(found)) < n_x:
        raise SojournError(f"names of states must differ; got {', '.join(found)}")
    return np.array(found)


def ordered(params: Params, initial: Floats | None) -> tuple[Params, Floats | None]:
    """The same model with its states in the order of their most likely symbols, or their means."""
    top = params.emission.argmax(axis=1)
    order = np.lexsort((-params.emission[np.arange(len(top)), top], top))
    if params.density is not None:
        order = np.lexsort(np.nan_to_num(params.density.mean()).T[::-1])
    ordered = Params(
        params.start[order],
        params.transition[np.ix_(order, order)],
        params.duration[order],
        params.emission[order],
        tail=params.tail[order],
        end=None if params.end is None else params.end[order],
        empty=params.empty,
        density=None if params.density is None else params.density.permuted(order),
    )
    return ordered, None if initial is None else initial[order]
