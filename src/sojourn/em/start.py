"""From sequences to a fitted model: a race of starts on a few of them, then EM on ever more.

EM converges to the local optimum of its start's basin, and most of its steps are spent far from it.
Neither the choice of the basin nor those steps need all the data. So several starts take a few
steps each on a small sample, and the better ones continue; the winner runs on samples that grow
fourfold; and only the last steps, which settle what the samples left open, are taken on everything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sojourn.data.sequences import Sequences
from sojourn.em.em import EMResult, State, run_em
from sojourn.em.recovery import recover_emission, starting_from
from sojourn.em.subsample import LARGEST, draw_samples, gathered, sample_sizes
from sojourn.errors import SojournError
from sojourn.exact.forward import log_prob
from sojourn.exact.params import Params, Rng, allows_self_transitions
from sojourn.scale.passes import Partition, Partitions, Pass
from sojourn.scale.threads import in_order
from sojourn.spectral.moment_tables import Form, Gapped, Shape
from sojourn.spectral.moments import WindowTally

# Symbols of the smallest sample for each free parameter.
SYMBOLS_PER_PARAMETER = 256
# Random starts beside the spectral ones, and where there are no others.
N_RANDOM, N_RANDOM_ALONE = 4, 8
# Passes of each round of the race, and how many starts are left after it. The last round is run on
# the next larger sample: optima that are alike on a small sample may differ on a larger one.
ROUNDS = ((20, 4), (40, 2), (30, 1))
# What a step must gain to be worth another, if nothing else is asked for: nats per symbol, and in
# all. Models that differ by less than the second cannot be distinguished by any data.
GAIN_PER_SYMBOL, TOTAL_GAIN = 1e-8, 0.005
# Passes on each of the growing samples.
STAGE = 60
# Longer sequences are cut, for samples only; a cut spoils one stay, so pieces hold many.
STAYS_PER_PIECE = 32
# Rare things may be absent from a sample: it must not rule them out.
SAMPLE_PSEUDOCOUNT = 1.0
# Where EM starts from for the ends, and the mean of the tails in units of max_duration.
FIRST_END, FIRST_BEYOND = 0.1, 1.0
# Windows whose moments the starts are recovered from: length, and ranks a n_x + b as (a, b).
WINDOWS = ((1, ((1, 0),)), (2, ((1, 0), (1, 1), (2, 0))), (3, ((1, 1), (2, 0))))
MAX_WINDOWS = 256
MAX_ENTRIES = 1 << 21


@dataclass(frozen=True, eq=False)
class Saved:
    """The progress of a fit, as a checkpoint keeps it."""

    sizes: tuple[int, ...]  # number of symbols of each partition
    # number of stages that are done: rounds of the race, then runs on growing samples
    stage: int = 0
    models: tuple[Params, ...] = ()  # those still in the race, the best first
    spent: float = 0.0  # symbols that the stages have read
    running: State | None = None  # the state of EM in this stage


def fit_params(
    data: Sequences | Partitions,
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
    tail: Sequence[bool] | bool = False,
    ends: bool = False,
    labels: NDArray[np.int32] | None = None,
    n_jobs: int | None = None,
    callback: Callable[[int, float, Params], object] | None = None,
    save: Callable[[Saved], object] | None = None,
    saved: Saved | None = None,
) -> EMResult:
    """The model of this size under which the sequences are most likely.

    `init` is "spectral" for a race of starts recovered from moments and random ones, "moments" for
    the likeliest of them without a race, "random" for a race of random ones, or a given start. The
    progress is given to `save` after each round of the race and each pass of a longer run; one that
    is given as `saved` is continued. Work on samples counts in proportion in ``n_passes``. `tail`
    says which states have a tail, `ends` whether sequences end; a start that is given has its own.
    """
    # Not the generator of the seed itself: whoever drew a model by the same seed would find that
    # very model among the starts.
    for_salt, for_starts = np.random.default_rng(rng).spawn(2)
    salt = int(for_salt.integers(2**63))  # which a fit that is resumed draws again
    size = _Size(n_states, max_duration, n_symbols)
    if labels is not None and not isinstance(init, Params):
        raise SojournError("labels name the states: give a start whose states they are")
    loops = allows_self_transitions(n_states, max_duration, self_transitions)
    progress = saved or _first(data, size, init, loops, for_starts, n_jobs)
    if saved is None and not isinstance(init, Params):
        models = tuple(with_tails_and_ends(model, tail, ends) for model in progress.models)
        progress = replace(progress, models=models)
    if isinstance(data, Partitions):
        data = data.sized(progress.sizes)
    samples = _Samples(data, size, salt, ends)
    if init == "moments" and len(progress.models) > 1:
        sample = samples.drawn[0]
        best = max(progress.models, key=lambda p: float(log_prob(p, sample, n_jobs=n_jobs).sum()))
        progress = replace(progress, models=(best,))

    def passed(state: State) -> None:
        if save is not None:
            save(replace(progress, running=state))

    em = partial(run_em, durations=durations, left_censored=left_censored)
    for stage in range(progress.stage, samples.n_stages if init in ("spectral", "random") else 0):
        sample, passes, n_kept = samples.stage(stage)
        on_sample = partial(
            em,
            data=sample,
            max_iter=passes,
            tol=GAIN_PER_SYMBOL if tol is None else tol,
            pseudocount=max(pseudocount, SAMPLE_PSEUDOCOUNT),
        )
        models, running = progress.models, progress.running
        if stage < len(ROUNDS):
            results = list(in_order(partial(on_sample, n_jobs=1), models, n_jobs))
        else:
            results = [on_sample(models[0], n_jobs=n_jobs, save=passed, state=running)]
        spent = progress.spent + sum(r.n_passes for r in results) * sample.n_total
        best_first = sorted(results, key=lambda r: -r.history[-1])
        models = tuple(r.params for r in best_first[:n_kept])
        progress = Saved(progress.sizes, stage + 1, models, spent)
        if save is not None:
            save(progress)
    result = em(
        progress.models[0],
        data,
        max_iter=max_iter,
        tol=min(GAIN_PER_SYMBOL, TOTAL_GAIN / data.n_total) if tol is None else tol,
        pseudocount=pseudocount,
        labels=labels,
        n_jobs=n_jobs,
        callback=callback,
        save=None if save is None else passed,
        state=progress.running,
    )
    return replace(result, n_passes=result.n_passes + progress.spent / data.n_total)


def with_tails_and_ends(params: Params, tail: Sequence[bool] | bool, ends: bool) -> Params:
    """The model with tails and ends for EM to start from; those that it has stay."""
    has_tail = np.broadcast_to(np.asarray(tail, dtype=bool), params.n_states)
    beyond = FIRST_BEYOND * params.max_duration
    begun = np.where(has_tail & (params.tail == 0.0), beyond / (1.0 + beyond), params.tail)
    if not ends or params.ends:
        return replace(params, tail=begun)
    return replace(params, tail=begun, end=np.full(params.n_states, FIRST_END), empty=FIRST_END)


class _Size(NamedTuple):
    n_states: int
    max_duration: int
    n_symbols: int


@dataclass(eq=False)
class _Look:
    """What a first pass gives: sizes of partitions, counts of symbols, moments to start from."""

    frequencies: NDArray[np.int64]
    tally: WindowTally | None
    sizes: dict[int, int] = field(default_factory=dict)

    def note(self, sequences: Sequences, number: int = 0) -> None:
        """Take down the size of a partition and how often symbols occur in it."""
        codes = sequences.codes
        self.sizes[number] = len(codes)
        self.frequencies += np.bincount(codes[codes >= 0], minlength=len(self.frequencies))


@dataclass(frozen=True)
class _Looking(Pass[_Look]):
    shapes: tuple[Shape, ...]
    n_symbols: int

    def empty(self) -> _Look:
        windows = [shape.offsets for shape in self.shapes]
        tally = (
            WindowTally(windows, self.n_symbols, Form.POOLED, holdout=False) if windows else None
        )
        return _Look(np.zeros(self.n_symbols, np.int64), tally)

    def add(self, total: _Look, sequences: Sequences, partition: Partition) -> _Look:
        total.note(sequences, partition.number)
        if total.tally is not None:
            total.tally.add(sequences, n_jobs=1)
        return total

    def join(self, a: _Look, b: _Look) -> _Look:
        tally = a.tally + b.tally if a.tally is not None and b.tally is not None else None
        return _Look(a.frequencies + b.frequencies, tally, a.sizes | b.sizes)


def _first(
    data: Sequences | Partitions,
    size: _Size,
    init: str | Params,
    loops: bool,
    rng: np.random.Generator,
    n_jobs: int | None,
) -> Saved:
    """Where a fit begins: sizes of the partitions, and the models to start from."""
    from_moments = init in ("spectral", "moments")
    looking = _Looking(_shapes(size.n_symbols) if from_moments else (), size.n_symbols)
    if isinstance(data, Partitions):
        look = data.run(looking)
    else:
        look = looking.empty()
        look.note(data)
        if look.tally is not None:
            look.tally.add(data, n_jobs)
    models = (init,) if isinstance(init, Params) else _starts(look, size, loops, rng)
    return Saved(tuple(look.sizes[number] for number in sorted(look.sizes)), models=models)


def _shapes(n_o: int) -> tuple[Shape, ...]:
    """Windows whose tables are small enough to start from."""
    shapes = (Shape(tuple(range(length)), n_o, Form.POOLED) for length, _ in WINDOWS)
    return tuple(s for s in shapes if s.n_windows <= MAX_WINDOWS and s.n_entries <= MAX_ENTRIES)


def _starts(look: _Look, size: _Size, loops: bool, rng: np.random.Generator) -> tuple[Params, ...]:
    """Models to start from: random ones, and some with emissions recovered from moments."""
    n_x, n_d, _ = size
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
    return tuple(starts)


class _Samples:
    """The growing samples for a model of this size, drawn when one is first asked for."""

    def __init__(self, data: Sequences | Partitions, size: _Size, salt: int, ends: bool) -> None:
        n_x, n_d, n_o = size
        # A cut is no end, so where ends are learned sequences are not cut.
        piece = data.n_total if ends else STAYS_PER_PIECE * n_d
        self.data, self.salt, self.piece = data, salt, piece
        self.sizes = sample_sizes(data.n_total, SYMBOLS_PER_PARAMETER * n_x * (n_x + n_d + n_o))

    @property
    def n_stages(self) -> int:
        """Rounds of the race, and runs of the winner on samples larger than the first."""
        return len(ROUNDS) + max(len(self.sizes) - 1, 0)

    @cached_property
    def drawn(self) -> list[Sequences]:
        """The samples, the smallest first; all the data last, where they are few enough."""
        drawn = draw_samples(self.data, self.sizes, self.piece, self.salt)
        if len(drawn) < 2 and (not drawn or self.data.n_total <= 1.5 * LARGEST):
            drawn.append(gathered(self.data))
        return drawn

    def stage(self, stage: int) -> tuple[Sequences, int, int]:
        """The sample of a stage, its number of passes, and how many models are left after it."""
        if stage >= len(ROUNDS):
            return self.drawn[stage - len(ROUNDS) + 1], STAGE, 1
        last = stage == len(ROUNDS) - 1
        return self.drawn[min(1, len(self.drawn) - 1) if last else 0], *ROUNDS[stage]
