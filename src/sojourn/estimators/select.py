"""Choice of the numbers of states and durations by the likelihood of held-out sequences."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from sojourn.checks import check_choice, positive_int
from sojourn.data.as_sequences import as_sequences
from sojourn.data.as_signals import as_signals, is_numbers
from sojourn.data.sequences import Sequences
from sojourn.em.durations import FAMILIES, families_of
from sojourn.errors import SojournError
from sojourn.exact.params import Params

if TYPE_CHECKING:
    from sojourn.estimators.hsmm import HSMM
    from sojourn.estimators.spectral_hsmm import SpectralHSMM

# Sizes that "auto" tries, until two consecutive ones are no better than the best.
STATES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
DURATIONS = (1, 2, 4, 7, 12, 20, 35, 60)
PATIENCE = 2
# Sizes can be compared long before EM has converged.
ROUGH = {"max_iter": 60, "tol": 1e-4}


@dataclass(frozen=True)
class Size:
    """A size and its score."""

    n_states: int
    max_duration: int
    score: float  # held-out log-likelihood per symbol in nats, mean over the folds
    error: float  # its standard error
    seconds: float  # time of the fits


@dataclass(frozen=True)
class Selection:
    """The sizes that were compared, and the best of them.

    Parameters
    ----------
    sizes : tuple of Size
        In the order in which they were tried.
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


def select(
    X: Any,
    n_states: Iterable[int] = STATES[1:7],
    max_duration: Iterable[int] = DURATIONS[2:6],
    *,
    lengths: Any = None,
    method: str = "hsmm",
    cv: int = 5,
    **options: Any,
) -> Selection:
    """Compare model sizes by cross-validation.

    Parameters
    ----------
    X : Sequences, list of sequences, integer array (n, length), or column with `lengths`
    n_states, max_duration : iterables of int
        Every pair of them is tried.
    lengths : sequence of int, optional
        Lengths of the sequences in a stacked `X`.
    method : {"hsmm", "spectral"}
        Which estimator to fit: `HSMM`, roughly converged, or the faster `SpectralHSMM`, which
        distinguishes sizes only up to as many states as there are symbols.
    cv : int
        Number of folds; sequence i belongs to fold i modulo `cv`. Few long sequences are cut.
    **options
        Further arguments of the estimator.

    Returns
    -------
    Selection

    Examples
    --------
    >>> from sojourn import Params, select
    >>> seqs = Params.random(2, 3, 4, rng=3).sample(100, 60, rng=1)
    >>> found = select(seqs, n_states=[1, 2], max_duration=[3], cv=3)
    >>> found.n_states, found.max_duration
    (2, 3)
    """
    check_choice("method", method, ("hsmm", "spectral"))
    estimator = _estimator(method, options)
    numbers = method == "hsmm" and (options.get("emissions") is not None or is_numbers(X))
    folds = _Folds((as_signals if numbers else as_sequences)(X, lengths), cv)
    states = [positive_int("n_states", n) for n in n_states]
    stays = [positive_int("max_duration", d) for d in max_duration]
    if not states or not stays:
        raise SojournError("there is nothing to compare; give at least one size")
    return Selection(tuple(folds.score(estimator, n, d) for n in states for d in stays))


def choose_sizes(estimator: HSMM, sequences: Sequences, cv: int = 3) -> tuple[int, int]:
    """Numbers for the sizes of an estimator that are "auto": first the states, then the stays.

    Each is taken along a growing list until the score stops to improve.
    """
    folds = _Folds(sequences, cv)
    rough = clone(estimator).set_params(**ROUGH, verbose=False)
    auto_stays = estimator.max_duration == "auto"
    n_d = 12 if auto_stays else positive_int("max_duration", estimator.max_duration)
    n_x = estimator.n_states
    if n_x == "auto":
        n_x = _walk(folds.score(rough, n, n_d) for n in STATES).n_states
    n_x = positive_int("n_states", n_x)
    if auto_stays:
        n_d = _walk(folds.score(rough, n_x, d) for d in DURATIONS).max_duration
    return n_x, n_d


def n_parameters(params: Params, durations: str | Sequence[str] = "free") -> int:
    """Number of free parameters: entries above zero, less one per row; of a family, its own."""
    rows = (params.start[None], params.transition, params.emission)
    free = sum(int((row > 0).sum()) - 1 for table in rows for row in table)
    free += 0 if params.density is None else params.density.n_parameters
    for name, row in zip(families_of(durations, params.n_states), params.duration, strict=True):
        parametric = None if name == "free" else FAMILIES[name].box(params.max_duration)
        free += int((row > 0).sum()) - 1 if parametric is None else len(parametric)
    free += int((params.tail > 0).sum())
    if params.end is not None:
        free += int(((params.end > 0) & (params.end < 1)).sum()) + (params.empty > 0)
    return free


class _Folds:
    """Sequences dealt out to folds."""

    def __init__(self, sequences: Sequences, cv: int) -> None:
        if positive_int("cv", cv) < 2:
            raise SojournError("cv must be at least 2: one part to fit on and one to score")
        self.sequences = _enough(sequences, cv)
        self.fold = np.arange(len(self.sequences)) % cv
        self.cv = cv

    def score(self, estimator: Any, n_states: int, max_duration: int) -> Size:
        began = time.perf_counter()
        scores = []
        for fold in range(self.cv):
            model = clone(estimator).set_params(n_states=n_states, max_duration=max_duration)
            model.fit(self.sequences[self.fold != fold])
            scores.append(model.score(self.sequences[self.fold == fold]))
        error = float(np.std(scores, ddof=1) / np.sqrt(self.cv)) if np.isfinite(scores).all() else 0
        seconds = time.perf_counter() - began
        return Size(n_states, max_duration, float(np.mean(scores)), float(error), seconds)


def _walk(sizes: Iterator[Size]) -> Size:
    """The best of the sizes, tried in order until some in a row are no better."""
    best, since = next(sizes), 0
    for size in sizes:
        best, since = (size, 0) if size.score > best.score else (best, since + 1)
        if since == PATIENCE:
            break
    return best


def _estimator(method: str, options: dict[str, Any]) -> HSMM | SpectralHSMM:
    if method == "spectral":
        from sojourn.estimators.spectral_hsmm import SpectralHSMM

        return SpectralHSMM(1, 1, **options)
    from sojourn.estimators.hsmm import HSMM

    return HSMM(1, 1, **{**ROUGH, "verbose": False, **options})


def _enough(sequences: Sequences, cv: int) -> Sequences:
    """The sequences, long ones cut where there are too few of them to deal out."""
    if len(sequences) >= 2 * cv:
        return sequences
    block = max(sequences.n_total // (10 * cv), 1)
    edges = [
        np.linspace(begin, end, max(1, round((end - begin) / block)) + 1).astype(np.int64)[:-1]
        for begin, end in zip(sequences.offsets[:-1], sequences.offsets[1:], strict=True)
    ]
    offsets = np.append(np.concatenate(edges), sequences.n_total)
    if len(offsets) - 1 < cv:
        raise SojournError(
            f"{sequences.n_total} symbols are too few for {cv} folds; give more or a smaller cv"
        )
    return sequences.cut(offsets, np.arange(len(offsets) - 1))
