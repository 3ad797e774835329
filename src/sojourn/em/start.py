"""From sequences to a fitted model: a race of starts on a few of them, then EM on ever more.

Which hill EM climbs is decided by its start; most of its steps are spent far from the top. Neither
needs all the data. So several starts take a few steps each on a small sample and the better ones go
on; the winner climbs on samples that grow fourfold, and only the last steps, which settle what the
small samples left open, go over everything.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sojourn.data.sequences import Sequences
from sojourn.em.em import EMResult, State, run_em
from sojourn.em.recovery import recover_emission, starting_from
from sojourn.em.subsample import LARGEST, draw_samples, gathered, sample_sizes
from sojourn.errors import SojournError
from sojourn.exact.params import Params, Rng, allows_self_transitions
from sojourn.scale.passes import Loaded, Parts
from sojourn.scale.threads import each
from sojourn.spectral.moment_tables import Gapped, Shape
from sojourn.spectral.moments import Tally

# Symbols of the smallest sample for each free parameter.
SYMBOLS_PER_PARAMETER = 256
# Random starts beside the spectral ones, and where there are no others.
N_RANDOM, N_RANDOM_ALONE = 4, 8
# Passes of each round of the race, and how many starts are left after it. The last round is run on
# the next larger sample: hills that a small sample cannot tell apart may differ on a larger one.
ROUNDS = ((20, 4), (40, 2), (30, 1))
# What a step must gain to be worth another, if nothing else is asked for: nats a symbol, and in
# all. Models that differ by less than the second no data can tell apart.
GAIN_A_SYMBOL, GAIN_IN_ALL = 1e-8, 0.005
# Passes on each of the growing samples.
STAGE = 60
# Longer sequences are cut, for samples only; a cut spoils one stay, so pieces hold many.
STAYS_PER_PIECE = 32
# A sample says less of rare things than all the data: it must not rule them out.
SAMPLE_PSEUDOCOUNT = 1.0
# Windows whose moments the starts are recovered from: length, and ranks a n_x + b as (a, b).
WINDOWS = ((1, ((1, 0),)), (2, ((1, 0), (1, 1), (2, 0))), (3, ((1, 1), (2, 0))))
MAX_WINDOWS = 256
MAX_ENTRIES = 1 << 21


@dataclass(frozen=True)
class _Climb:
    """How EM runs on a sample: everything but the start, the data and the number of passes."""

    tol: float
    pseudocount: float
    durations: str | Sequence[str]
    left_censored: bool

    def __call__(
        self,
        start: Params,
        sample: Sequences,
        passes: int,
        n_jobs: int | None,
        save: Callable[[State], object] | None = None,
        state: State | None = None,
    ) -> EMResult:
        return run_em(
            start,
            sample,
            max_iter=passes,
            tol=self.tol,
            pseudocount=max(self.pseudocount, SAMPLE_PSEUDOCOUNT),
            durations=self.durations,
            left_censored=self.left_censored,
            n_jobs=n_jobs,
            save=save,
            state=state,
        )


@dataclass(frozen=True, eq=False)
class Saved:
    """How far a fit has come.

    Parameters
    ----------
    sizes : tuple of int
        Number of symbols of each partition.
    stage : int
        Number of rounds of the race and of climbs on samples that are done.
    models : tuple of Params
        Those still in the race, the best first.
    spent : float
        Symbols that the stages went over.
    climb : dict, optional
        The state of the climb of this stage.
    """

    sizes: tuple[int, ...]
    stage: int = 0
    models: tuple[Params, ...] = ()
    spent: float = 0.0
    climb: State | None = None


def fit_params(
    sequences: Sequences | Parts,
    n_states: int,
    max_duration: int,
    n_symbols: int,
    *,
    init: str | Params = "spectral",
    rng: Rng = None,
    max_iter: int = 500,
    tol: float | None = None,
    pseudocount: float = 0.0,
    durations: str | Sequence[str] = "free",
    left_censored: bool = False,
    self_transitions: bool | None = None,
    labels: NDArray[np.int32] | None = None,
    n_jobs: int | None = None,
    callback: Callable[[int, float, Params], object] | None = None,
    save: Callable[[Saved], object] | None = None,
    saved: Saved | None = None,
) -> EMResult:
    """The model of this size under which the sequences are most likely.

    Parameters
    ----------
    sequences : Sequences or Parts
    n_states, max_duration, n_symbols : int
        The size of the model.
    init : {"spectral", "moments", "random"} or Params
        A race of starts recovered from moments and random ones, the likeliest of them at once
        without a race, a race of random ones alone, or one that is given.
    rng : int, Generator or None
        Of the starts and the samples.
    max_iter, tol, pseudocount, durations, left_censored, labels, n_jobs, callback
        Of the climb on all the data; see :func:`sojourn.em.em.run_em`. Labels need a given start.
    self_transitions : bool or None
        As in :meth:`sojourn.Params.random`.
    save : callable, optional
        Given a `Saved` after each round of the race and each pass of a climb.
    saved : Saved, optional
        Such a one, of the same fit, to go on from.

    Returns
    -------
    EMResult
        ``n_passes`` counts the work on samples in proportion.

    Examples
    --------
    >>> p = Params.random(2, 2, 3, rng=0)
    >>> seqs = p.sample(300, 50, rng=1)
    >>> result = fit_params(seqs, 2, 2, 3, rng=0, n_jobs=1)
    >>> result.log_likelihood > p.log_prob(seqs).sum()
    np.True_
    """
    parts = Parts.of(sequences, n_jobs) if isinstance(sequences, Sequences) else sequences
    # Not the generator of the seed itself: whoever drew a model by the same seed would find that
    # very model among the starts.
    for_salt, for_starts = np.random.default_rng(rng).spawn(2)
    salt = int(for_salt.integers(2**63))  # which a fit that goes on draws again
    loops = allows_self_transitions(n_states, max_duration, self_transitions)
    size = (n_states, max_duration, n_symbols)
    given = isinstance(init, Params)
    if labels is not None and not given:
        raise SojournError("labels name the states: give a start whose states they are")
    if saved is not None:
        parts = parts.sized(list(saved.sizes))
    elif given:
        sizes = [part.size for part in parts.parts if part.size is not None]
        parts = parts.sized(sizes if parts.known else _look(parts, ()).in_order)
        saved = Saved(_sizes(parts), models=(init,) if isinstance(init, Params) else ())
    else:
        look = _look(parts, () if init == "random" else _shapes(n_symbols))
        parts = parts.sized(look.in_order)
        starts = tuple(_starts(look, size, loops, for_starts))
        if init == "moments":
            sample = _samples(parts, size, salt).drawn[0]
            starts = (max(starts, key=lambda s: float(s.log_prob(sample, n_jobs).sum())),)
        saved = Saved(_sizes(parts), models=starts)

    def noted(progress: Saved) -> Saved:
        if save is not None:
            save(progress)
        return progress

    if not given and init != "moments":
        climb = _Climb(GAIN_A_SYMBOL if tol is None else tol, pseudocount, durations, left_censored)
        samples = _samples(parts, size, salt)
        n_stages = len(ROUNDS) + max(len(samples.sizes) - 1, 0)
        while saved.stage < n_stages:
            saved = noted(_next_stage(saved, samples, climb, n_jobs, noted))
    progress = saved

    def passed(state: State) -> None:
        noted(replace(progress, climb=state))

    result = run_em(
        saved.models[0],
        sequences if isinstance(sequences, Sequences) else parts,
        max_iter=max_iter,
        tol=min(GAIN_A_SYMBOL, GAIN_IN_ALL / parts.n_total) if tol is None else tol,
        pseudocount=pseudocount,
        durations=durations,
        left_censored=left_censored,
        labels=labels,
        n_jobs=n_jobs,
        callback=callback,
        save=None if save is None else passed,
        state=saved.climb,
    )
    return replace(result, n_passes=result.n_passes + saved.spent / parts.n_total)


def _sizes(parts: Parts) -> tuple[int, ...]:
    return tuple(part.size or 0 for part in parts.parts)


@dataclass(frozen=True, eq=False)
class _Look:
    """What a first pass tells: sizes, symbols, and moments to start from; these add."""

    sizes: dict[int, int]
    frequencies: NDArray[np.int64]
    tally: Tally | None

    @property
    def in_order(self) -> list[int]:
        """Sizes of the partitions."""
        return [self.sizes[number] for number in sorted(self.sizes)]

    def __add__(self, other: _Look) -> _Look:
        tally = self.tally
        if tally is not None and other.tally is not None:
            tally = tally + other.tally
        return _Look(self.sizes | other.sizes, self.frequencies + other.frequencies, tally)


@dataclass(frozen=True)
class _Looking:
    """The run of that pass."""

    shapes: tuple[Shape, ...]
    n_symbols: int

    def __call__(self, partitions: Iterator[Loaded]) -> _Look:
        windows = [shape.offsets for shape in self.shapes]
        tally = Tally(windows, self.n_symbols, gapped=True, holdout=False)
        sizes, frequencies = {}, np.zeros(self.n_symbols, np.int64)
        for part in partitions:
            codes = part.sequences.codes
            sizes[part.number] = len(codes)
            frequencies += np.bincount(codes[codes >= 0], minlength=self.n_symbols)
            if windows:
                tally.add(part.sequences, part.n_jobs)
            del part, codes  # before the next is read
        return _Look(sizes, frequencies, tally if windows else None)


def _look(parts: Parts, shapes: tuple[Shape, ...]) -> _Look:
    found: _Look = parts.tallied(_Looking(shapes, parts.n_symbols), operator.add)
    return found


def _shapes(n_o: int) -> tuple[Shape, ...]:
    """Windows whose tables are small enough to start from."""
    shapes = (Shape(tuple(range(length)), n_o, True) for length, _ in WINDOWS)
    return tuple(s for s in shapes if s.n_windows <= MAX_WINDOWS and s.n_entries <= MAX_ENTRIES)


def _starts(
    look: _Look, size: tuple[int, int, int], loops: bool, rng: np.random.Generator
) -> list[Params]:
    """Models to start from: random ones, and some with emissions recovered from moments."""
    n_x, n_d, n_o = size
    n_random = N_RANDOM_ALONE if look.tally is None else N_RANDOM
    starts = [Params.random(*size, rng, self_transitions=loops) for _ in range(n_random)]
    # Of all steps, the ends too, and one more each: EM cannot leave a zero, and a symbol that
    # stands only at an end, or nowhere in this part of the data, must not be impossible.
    frequencies = 1 + look.frequencies
    ranks_of = dict(WINDOWS)
    for table in look.tally.moments().tables if look.tally is not None else ():
        if not isinstance(table, Gapped) or not table.M_LoR.any():
            continue
        M_LoR, length = table.M_LoR[0], len(table.offsets)
        for times, more in ranks_of[length]:
            rank = times * n_x + more
            # Windows in a row have rank ℓ n_x at most, and cannot have more than there are of them.
            if rank <= min(len(M_LoR), length * n_x):
                emission = recover_emission(M_LoR, n_x, rank, rng)
                starts.append(starting_from(emission, frequencies, n_d, loops))
    return starts


class _Samples:
    """The growing samples, drawn when one is first asked for."""

    def __init__(self, parts: Parts, sizes: list[int], piece: int, salt: int) -> None:
        self.parts, self.sizes, self.piece, self.salt = parts, sizes, piece, salt

    @cached_property
    def drawn(self) -> list[Sequences]:
        """The samples; all the data last, where they are few enough."""
        drawn = draw_samples(self.parts, self.sizes, self.piece, self.salt)
        if len(drawn) < 2 and (not drawn or self.parts.n_total <= 1.5 * LARGEST):
            drawn.append(gathered(self.parts))
        return drawn


def _samples(parts: Parts, size: tuple[int, int, int], salt: int) -> _Samples:
    """The growing samples for a model of this size, the smallest first."""
    n_x, n_d, n_o = size
    sizes = sample_sizes(parts.n_total, SYMBOLS_PER_PARAMETER * n_x * (n_x + n_d + n_o))
    return _Samples(parts, sizes, STAYS_PER_PIECE * n_d, salt)


def _next_stage(
    saved: Saved,
    samples: _Samples,
    climb: _Climb,
    n_jobs: int | None,
    noted: Callable[[Saved], Any],
) -> Saved:
    """A round of the race, or a climb of its winner on the next larger sample."""
    drawn, stage = samples.drawn, saved.stage
    if stage >= len(ROUNDS):
        sample = drawn[stage - len(ROUNDS) + 1]

        def passed(state: State) -> None:
            noted(replace(saved, climb=state))

        result = climb(saved.models[0], sample, STAGE, n_jobs, passed, saved.climb)
        spent = saved.spent + result.n_passes * sample.n_total
        return Saved(saved.sizes, stage + 1, (result.params,), spent)
    passes, keep = ROUNDS[stage]
    sample = drawn[min(1, len(drawn) - 1)] if stage == len(ROUNDS) - 1 else drawn[0]
    results = each(lambda start: climb(start, sample, passes, 1), saved.models, n_jobs)
    order = sorted(range(len(results)), key=lambda j: -results[j].history[-1])
    models = tuple(results[j].params for j in order[:keep])
    spent = saved.spent + sum(r.n_passes for r in results) * sample.n_total
    return Saved(saved.sizes, stage + 1, models, spent)
