"""Choice of the numbers of states and durations by the likelihood of held-out sequences."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from sojourn.checks import check_choice, positive_int
from sojourn.data.as_sequences import as_sequences
from sojourn.data.as_signals import as_signals, is_numbers
from sojourn.data.sequences import Sequences
from sojourn.em.enlarge import with_durations
from sojourn.em.progress import Counter
from sojourn.em.sizes import Selection, Size
from sojourn.em.subsample import cut
from sojourn.errors import SojournError
from sojourn.exact.params import Params

if TYPE_CHECKING:
    from sojourn.estimators.hsmm import HSMM
    from sojourn.estimators.spectral_hsmm import SpectralHSMM

# Sizes that "auto" tries, until two consecutive ones are no better than the best; with many states,
# which take long, until one is no better.
STATES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
DURATIONS = (1, 2, 4, 7, 12, 20, 35, 60)
PATIENCE, MANY_STATES = 2, 32
FIRST_STEPS = 12  # while numbers of states are compared
# Sizes can be compared long before EM has converged.
ROUGH = {"max_iter": 60, "tol": 1e-4}


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
    sizes = [(n, d) for n in sorted(states) for d in sorted(stays)]
    show = Counter(options.get("verbose"), len(sizes))
    found = Selection(tuple(folds.score(estimator, n, d, show) for n, d in sizes))
    show.close(f"{found.n_states} states, {found.max_duration} free steps")
    return found


def choose_sizes(estimator: HSMM, sequences: Sequences, cv: int = 3) -> tuple[int, int]:
    """Numbers for the sizes of an estimator that are "auto": first the states, then the stays.

    Each is taken along a growing list until the score stops to improve.
    """
    folds = _Folds(sequences, cv)
    rough = clone(estimator).set_params(**ROUGH, verbose=False)
    auto_stays = estimator.max_duration == "auto"
    longest = int(sequences.lengths.max())
    stays = [d for d, less in zip(DURATIONS, (0, *DURATIONS), strict=False) if less < longest]
    n_d = FIRST_STEPS if auto_stays else positive_int("max_duration", estimator.max_duration)
    n_x, auto_states = estimator.n_states, estimator.n_states == "auto"
    show = Counter(estimator.verbose, len(STATES) * auto_states + len(stays) * auto_stays)
    if auto_states:
        n_x = _walk(folds.score(rough, n, n_d, show) for n in STATES).n_states
        _warn_of_last("n_states", n_x, STATES)
    n_x = positive_int("n_states", n_x)
    if auto_stays:
        show.done = len(STATES) * auto_states
        n_d = _walk(folds.score(rough, n_x, d, show) for d in stays).max_duration
        _warn_of_last("max_duration", n_d, DURATIONS)
    show.close(f"{n_x} states, {n_d} free steps")
    return n_x, n_d


def _warn_of_last(name: str, chosen: int, tried: tuple[int, ...]) -> None:
    """Warn of a choice that is the largest of those tried."""
    if chosen == tried[-1]:
        text = f"{name}={chosen} was chosen, the largest that is tried; larger ones may be better"
        warnings.warn(f"{text}: compare them with sojourn.select", stacklevel=4)


class _Folds:
    """Sequences dealt out to folds."""

    def __init__(self, sequences: Sequences, cv: int) -> None:
        if positive_int("cv", cv) < 2:
            raise SojournError("cv must be at least 2: one part to fit on and one to score")
        self.sequences = _enough(sequences, cv)
        self.fold = np.arange(len(self.sequences)) % cv
        self.cv = cv
        self.learned: dict[int, Params] = {}  # of each fold, by the size before

    def score(self, estimator: Any, n_states: int, max_duration: int, show: Counter) -> Size:
        """The held-out score of a size, each fold begun from what it learned at the size before."""
        show.next(n_states, max_duration)
        began = time.perf_counter()
        scores = []
        for fold in range(self.cv):
            model = clone(estimator).set_params(n_states=n_states, max_duration=max_duration)
            before = self.learned.get(fold)
            if before is not None and model.init == "spectral" and _contains(model, before):
                model.set_params(init=with_durations(before, max_duration))
            with warnings.catch_warnings(action="ignore"):  # of sizes that are only compared
                model.fit(self.sequences[self.fold != fold])
            if model.has_states:
                self.learned[fold] = model.params_
            scores.append(model.score(self.sequences[self.fold == fold]))
        error = float(np.std(scores, ddof=1) / np.sqrt(self.cv)) if np.isfinite(scores).all() else 0
        seconds = time.perf_counter() - began
        return Size(n_states, max_duration, float(np.mean(scores)), float(error), seconds)


def _contains(model: Any, before: Params) -> bool:
    """Whether models of a size contain a smaller one, so that EM may start from there.

    More states need starts of their own: EM from split states stays near the smaller model.
    """
    if before.density is not None or not before.tail.all() or before.n_states == 1:
        return False
    size = (before.n_states, before.max_duration)
    return size[0] == int(model.n_states) and 1 < size[1] <= int(model.max_duration)


def _walk(sizes: Iterator[Size]) -> Size:
    """The best of the sizes, tried in order until some in a row are no better."""
    best, since = next(sizes), 0
    for size in sizes:
        best, since = (size, 0) if size.score > best.score else (best, since + 1)
        if since == (PATIENCE if size.n_states <= MANY_STATES else 1):
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
    pieces = cut(sequences, max(sequences.n_total // (10 * cv), 1))
    if len(pieces) < cv:
        raise SojournError(
            f"{sequences.n_total} symbols are too few for {cv} folds; give more or a smaller cv"
        )
    return pieces
