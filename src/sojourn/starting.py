"""From sequences to a fitted model: a race of starts on a few of them, then EM on ever more.

Which hill EM climbs is decided by its start; most of its steps are spent far from the top. Neither
needs all the data. So several starts take a few steps each on a small sample and the better ones go
on; the winner climbs on samples that grow fourfold, and only the last steps, which settle what the
small samples left open, go over everything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sojourn.em import EMResult, run_em
from sojourn.errors import SojournError
from sojourn.moments import count
from sojourn.parallel import each
from sojourn.params import Params, Rng, allows_self_transitions
from sojourn.recovery import recover_emission, starting_from
from sojourn.sequences import Sequences
from sojourn.tables import Gapped, Shape

# Symbols of the smallest sample for each free parameter, and at least.
SYMBOLS_PER_PARAMETER = 256
SMALLEST = 1 << 14
GROWTH = 4
# Random starts beside the spectral ones, and where there are no others.
N_RANDOM, N_RANDOM_ALONE = 4, 8
# Passes of each round of the race, and how many starts are left after it. The last round is run on
# the next larger sample: hills that a small sample cannot tell apart may differ on a larger one.
ROUNDS = ((20, 4), (40, 2), (30, 1))
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
        self, start: Params, sample: Sequences, passes: int, n_jobs: int | None
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
        )


def fit_params(
    sequences: Sequences,
    n_states: int,
    max_duration: int,
    n_symbols: int,
    *,
    init: str | Params = "spectral",
    rng: Rng = None,
    max_iter: int = 500,
    tol: float = 1e-8,
    pseudocount: float = 0.0,
    durations: str | Sequence[str] = "free",
    left_censored: bool = False,
    self_transitions: bool | None = None,
    labels: NDArray[np.int32] | None = None,
    n_jobs: int | None = None,
    callback: Callable[[int, float, Params], object] | None = None,
) -> EMResult:
    """The model of this size under which the sequences are most likely.

    Parameters
    ----------
    sequences : Sequences
    n_states, max_duration, n_symbols : int
        The size of the model.
    init : {"spectral", "random"} or Params
        Starts recovered from moments beside random ones, random ones alone, or one that is given.
    rng : int, Generator or None
        Of the starts and the samples.
    max_iter, tol, pseudocount, durations, left_censored, labels, n_jobs, callback
        Of the climb on all the data; see :func:`sojourn.em.run_em`. Labels need a given start.
    self_transitions : bool or None
        As in :meth:`sojourn.Params.random`.

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
    spent = 0.0
    if isinstance(init, Params):
        start = init
    elif labels is not None:
        raise SojournError("labels name the states: give a start whose states they are")
    else:
        generator = np.random.default_rng(rng)
        loops = allows_self_transitions(n_states, max_duration, self_transitions)
        size = (n_states, max_duration, n_symbols)
        starts = _starts(sequences, size, init == "spectral", loops, generator, n_jobs)
        climb = _Climb(tol, pseudocount, durations, left_censored)
        n_free = n_states * (n_states + max_duration + n_symbols)
        samples = _samples(sequences, STAYS_PER_PIECE * max_duration, n_free, generator)
        start, spent = _race(starts, samples, climb, n_jobs)
        for sample in samples[1:-1]:
            result = climb(start, sample, STAGE, n_jobs)
            start, spent = result.params, spent + result.n_passes * sample.n_total
    result = run_em(
        start,
        sequences,
        max_iter=max_iter,
        tol=tol,
        pseudocount=pseudocount,
        durations=durations,
        left_censored=left_censored,
        labels=labels,
        n_jobs=n_jobs,
        callback=callback,
    )
    return replace(result, n_passes=result.n_passes + spent / sequences.n_total)


def _starts(
    sequences: Sequences,
    size: tuple[int, int, int],
    spectral: bool,
    loops: bool,
    rng: np.random.Generator,
    n_jobs: int | None,
) -> list[Params]:
    """Models to start from: random ones, and some with emissions recovered from moments."""
    n_x, n_d, n_o = size
    n_random = N_RANDOM if spectral else N_RANDOM_ALONE
    starts = [Params.random(*size, rng, self_transitions=loops) for _ in range(n_random)]
    # Of all steps, the ends too, and one more each: EM cannot leave a zero, and a symbol that
    # stands only at an end, or nowhere in this part of the data, must not be impossible.
    frequencies = 1 + np.bincount(sequences.codes[sequences.codes >= 0], minlength=n_o)
    for length, ranks in WINDOWS if spectral else ():
        shape = Shape(tuple(range(length)), n_o, True)
        too_large = shape.n_windows > MAX_WINDOWS or shape.n_entries > MAX_ENTRIES
        if too_large or sequences.lengths.max() < shape.needs:
            continue
        moments = count(sequences, [shape.offsets], gapped=True, holdout=False, n_jobs=n_jobs)
        table = moments.tables[0]
        if not isinstance(table, Gapped) or not table.M_LoR.any():
            continue
        M_LoR = table.M_LoR[0]
        for times, more in ranks:
            rank = times * n_x + more
            # Windows in a row have rank ℓ n_x at most, and cannot have more than there are of them.
            if rank <= min(shape.n_windows, length * n_x):
                emission = recover_emission(M_LoR, n_x, rank, rng)
                starts.append(starting_from(emission, frequencies, n_d, loops))
    return starts


def _samples(
    sequences: Sequences, piece: int, n_free: int, rng: np.random.Generator
) -> list[Sequences]:
    """Growing samples, long sequences cut into pieces for them; last all sequences as they are."""
    target = max(SMALLEST, SYMBOLS_PER_PARAMETER * n_free)
    samples = []
    if 1.5 * target < sequences.n_total:
        pieces = _cut(sequences, piece)
        order = rng.permutation(len(pieces))
        ends = np.cumsum(pieces.lengths[order])
    while 1.5 * target < sequences.n_total:
        n = int(np.searchsorted(ends, target)) + 1
        samples.append(pieces[np.sort(order[:n])])
        target *= GROWTH
    return [*samples, sequences]


def _cut(sequences: Sequences, piece: int) -> Sequences:
    """The sequences, those of more than two pieces cut into pieces of about that length."""
    if sequences.lengths.max() <= 2 * piece:
        return sequences
    n_pieces = np.where(sequences.lengths > 2 * piece, sequences.lengths // piece, 1)
    owner = np.repeat(np.arange(len(sequences)), n_pieces)
    place = np.arange(len(owner)) - np.repeat(np.cumsum(n_pieces) - n_pieces, n_pieces)
    starts = sequences.offsets[owner] + place * (sequences.lengths // n_pieces)[owner]
    offsets = np.append(starts, sequences.n_total)
    return Sequences(sequences.codes, offsets, sequences.vocabulary, np.arange(len(owner)))


def _race(
    starts: list[Params], samples: list[Sequences], climb: _Climb, n_jobs: int | None
) -> tuple[Params, float]:
    """The start that came out best, and the number of symbols that finding it went over."""
    spent = 0.0
    field = starts
    for i, (passes, keep) in enumerate(ROUNDS):
        sample = samples[min(1, len(samples) - 1)] if i == len(ROUNDS) - 1 else samples[0]

        def run(start: Params, sample: Sequences = sample, passes: int = passes) -> EMResult:
            return climb(start, sample, passes, 1)

        results = each(run, field, n_jobs)
        spent += sum(r.n_passes for r in results) * sample.n_total
        order = sorted(range(len(results)), key=lambda j: -results[j].history[-1])
        field = [results[j].params for j in order[:keep]]
    return field[0], spent
