"""From sequences to a fitted model: a race of starts on a few of them, then EM on ever more.

EM converges to the local optimum of its start's basin, and most of its steps are spent far from it.
Neither the choice of the basin nor those steps need all the data. So several starts take a few
steps each on a small sample, and the better ones continue; the winner runs on samples that grow
fourfold; and only the last steps, which settle what the samples left open, are taken on everything.

Two kinds of starts are raced, since neither is always the better: emissions recovered from moments
(`recovery`), which find states that emit differently, and clustered pasts (`predictive`), which
find states that promise different futures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from threadpoolctl import threadpool_limits

from sojourn.data.sequences import Sequences
from sojourn.em.em import EMResult, State, run_em
from sojourn.em.enlarge import with_durations
from sojourn.em.predictive import Size, cluster_pasts, counted
from sojourn.em.recovery import count_around, recover_emission, starting_from
from sojourn.em.subsample import LARGEST, draw_samples, gathered, sample_sizes
from sojourn.errors import SojournError
from sojourn.exact.forward import log_prob
from sojourn.exact.params import Params, Rng, allows_self_transitions
from sojourn.scale.passes import Partition, Partitions, Pass
from sojourn.scale.threads import in_order

# Symbols of the smallest sample for each free parameter.
SYMBOLS_PER_PARAMETER = 40
# What the best start must gain over independent symbols on the sample that decides a race, in nats
# for each parameter, beside what any fit gains from noise: else its optimum is one of the noise.
SIGNAL, NOISE = 0.5, 0.5
# Symbols that starts are made from, at most.
SYMBOLS_FOR_STARTS = 1 << 18
# Random starts, where they are asked for.
N_RANDOM = 8
# Passes of each round of the race, and how many starts are left after it. The last round is run on
# the next larger sample: optima that are alike on a small sample may differ on a larger one.
ROUNDS = ((10, 4), (20, 2), (20, 1))
# Free steps of the models in the race, if stays may be longer; some have a single one at first. The
# winner is run at ever more, so that a size begins where those of fewer steps have ended. A number
# of steps is left out if what comes after it is not so many times as large.
FEW_STEPS, TIMES_STEPS, WORTH = 5, 2, 1.4
# What a step must gain to be worth another, if nothing else is asked for: nats per symbol, and in
# all for each parameter. A fit is half a nat per parameter better than the truth: what is left to
# gain is then far below what is noise.
GAIN_PER_SYMBOL, GAIN_PER_PARAMETER = 3e-6, 4e-5
# Passes on each of the growing samples.
STAGE = 40
# Longer sequences are cut, for samples only; a cut spoils one stay, so pieces hold many.
STAYS_PER_PIECE, SHORTEST_PIECE = 32, 1024
# Rare things may be absent from a sample: it must not rule them out.
SAMPLE_PSEUDOCOUNT = 0.1
# Where EM starts from for the ends, and the mean of the tails in units of max_duration.
FIRST_END, FIRST_BEYOND = 0.1, 1.0
# Windows whose moments the starts are recovered from: length, and ranks as multiples of n_x.
WINDOWS = ((1, (1,)), (2, (1, 2)), (3, (2,)))
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
    smallest: int = 0  # number of the smallest sample that the race may continue on
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

    `init` is "spectral" for a race of starts from moments and from clustered pasts, "states" or
    "moments" for the likeliest of either kind without a race, "random" for a race of random ones,
    or a given start. The progress is given to `save` after each round of the race and each pass of
    a longer run; one that is given as `saved` is continued. Work on samples counts in proportion in
    ``n_passes``. `tail` says which states have a tail, `ends` whether sequences end; a start that
    is given has its own.
    """
    # Not the generator of the seed itself: whoever drew a model by the same seed would find that
    # very model among the starts.
    for_salt, for_starts = np.random.default_rng(rng).spawn(2)
    salt = int(for_salt.integers(2**63))  # which a fit that is resumed draws again
    if labels is not None and not isinstance(init, Params):
        raise SojournError("labels name the states: give a start whose states they are")
    loops = allows_self_transitions(n_states, max_duration, self_transitions)
    begun = np.broadcast_to(np.asarray(tail, dtype=bool), n_states)
    size = Size(n_states, max_duration, n_symbols, loops, begun, ends)
    progress = saved or Saved(_sizes(data))
    if isinstance(data, Partitions):
        data = data.sized(progress.sizes)
    samples = _Samples(data, size, salt)
    if isinstance(init, Params):
        progress = saved or replace(progress, models=(init,))
    elif saved is None:
        with threadpool_limits(1):  # several threads would add in any order
            models = _starts(init, samples, size, for_starts)
        if init in ("states", "moments"):
            sample = samples.drawn[0]
            models = [max(models, key=lambda p: log_prob(p, sample, n_jobs=n_jobs).sum())]
        progress = replace(progress, models=tuple(models))

    def passed(state: State) -> None:
        if save is not None:
            save(replace(progress, running=state))

    em = partial(run_em, durations=durations, left_censored=left_censored)
    for stage in samples.stages[progress.stage :] if init in ("spectral", "random") else []:
        sample = samples.drawn[min(max(stage.sample, progress.smallest), len(samples.drawn) - 1)]
        everything = sample.n_total == data.n_total
        on_sample = partial(
            em,
            data=sample,
            max_iter=stage.passes or (max_iter if everything else STAGE),
            tol=_enough(size, sample.n_total) if tol is None else tol,
            pseudocount=max(pseudocount, 0.0 if everything else SAMPLE_PSEUDOCOUNT),
        )
        racing = [with_durations(p, stage.steps) for p in progress.models]
        if len(racing) > 1:
            results = list(in_order(partial(on_sample, n_jobs=1), racing, n_jobs))
        else:
            results = [on_sample(*racing, n_jobs=n_jobs, save=passed, state=progress.running)]
        spent = progress.spent + sum(r.n_passes for r in results) * sample.n_total
        best_first = sorted(results, key=lambda r: -r.history[-1])
        left = [r.params for r in best_first[: stage.n_kept]]
        smallest = progress.smallest
        if len(results) > 1:
            smallest = max(smallest, _telling(best_first[0], sample, samples, size))
        progress = Saved(progress.sizes, progress.stage + 1, tuple(left), spent, smallest)
        if save is not None:
            save(progress)
    result = em(
        with_durations(progress.models[0], max_duration),
        data,
        max_iter=max_iter,
        tol=_enough(size, data.n_total) if tol is None else tol,
        pseudocount=pseudocount,
        labels=labels,
        n_jobs=n_jobs,
        callback=callback,
        save=None if save is None else passed,
        state=progress.running,
    )
    return replace(result, n_passes=result.n_passes + progress.spent / data.n_total)


def with_tails_and_ends(params: Params, tail: ArrayLike, ends: bool) -> Params:
    """The model with tails and ends for EM to start from; those that it has stay."""
    has_tail = np.broadcast_to(np.asarray(tail, dtype=bool), params.n_states)
    beyond = FIRST_BEYOND * params.max_duration
    begun = np.where(has_tail & (params.tail == 0.0), beyond / (1.0 + beyond), params.tail)
    if not ends or params.ends:
        return replace(params, tail=begun)
    return replace(params, tail=begun, end=np.full(params.n_states, FIRST_END), empty=FIRST_END)


def _enough(size: Size, n_total: int) -> float:
    """The gain per symbol that is not worth another step."""
    return min(GAIN_PER_SYMBOL, GAIN_PER_PARAMETER * size.n_entries / max(n_total, 1))


def _telling(best: EMResult, sample: Sequences, samples: _Samples, size: Size) -> int:
    """The number of the smallest sample that says more than noise, by the best fit to one."""
    one = Size(1, 1, size.n_symbols, loops=True, tail=np.zeros(1, bool), ends=size.ends)
    steps = np.zeros(sample.n_total, np.int32)
    independent = counted(sample, steps, one, np.random.default_rng(0))
    gain = best.log_likelihood - float(log_prob(independent, sample, n_jobs=1).sum())
    signal = (gain / samples.n_entries - NOISE) / sample.n_total
    return sum(each.n_total * signal < SIGNAL for each in samples.drawn[:-1])


class _Stage(NamedTuple):
    """A part of the race, or a run of its winner."""

    sample: int
    steps: int  # free ones
    passes: int  # 0: as many as it takes
    n_kept: int  # models that are left after it


def _ladder(size: Size) -> list[int]:
    """Free steps of the first models in the race, of the later ones, and so on up to all."""
    n_d = size.max_duration
    if size.loops or not size.tail.all():
        return [n_d, n_d]
    steps, n = [1], min(FEW_STEPS, n_d)
    while WORTH * n < n_d:
        steps.append(n)
        n *= TIMES_STEPS
    return [*steps, n_d]


def _stages(ladder: list[int], n_samples: int) -> list[_Stage]:
    """All that is done before the last run, on all the data."""
    rounds = zip((0, 0, 1), (*ladder[:2], ladder[1]), ROUNDS, strict=True)
    return [
        *(_Stage(sample, steps, *each) for sample, steps, each in rounds),
        *(_Stage(1, steps, 0, 1) for steps in ladder[1:-1]),
        *(_Stage(sample, ladder[-1], STAGE, 1) for sample in range(1, n_samples)),
    ]


@dataclass(frozen=True)
class _Measuring(Pass[dict[int, int]]):
    """The pass that takes down how many symbols each partition has."""

    def empty(self) -> dict[int, int]:
        return {}

    def add(
        self, total: dict[int, int], sequences: Sequences, partition: Partition
    ) -> dict[int, int]:
        return total | {partition.number: sequences.n_total}

    def join(self, a: dict[int, int], b: dict[int, int]) -> dict[int, int]:
        return a | b


def _sizes(data: Sequences | Partitions) -> tuple[int, ...]:
    if isinstance(data, Sequences):
        return (data.n_total,)
    sizes = data.run(_Measuring())
    return tuple(sizes[number] for number in sorted(sizes))


def _starts(init: str, samples: _Samples, size: Size, rng: np.random.Generator) -> list[Params]:
    """Models to start from."""
    n_x, n_d, n_o, loops, tail, ends = size
    if init == "random":
        drawn = [Params.random(n_x, n_d, n_o, rng, self_transitions=loops) for _ in range(N_RANDOM)]
        return [with_tails_and_ends(params, tail, ends) for params in drawn]
    data, starts = samples.for_starts, []
    emissions = list(_emissions(data, size, rng)) if init != "states" else []
    # Of all steps, and one more each: EM cannot leave a zero, and a symbol that is not in this part
    # of the data must not be impossible.
    frequencies = 1 + np.bincount(data.codes[data.codes >= 0], minlength=n_o)
    labels = cluster_pasts(data, n_x, ends, rng) if init != "moments" or not emissions else []
    lengths = sorted(set(samples.ladder[:2])) if init == "spectral" else [n_d]
    for n_d in lengths:
        steps = (
            size if n_d == size.max_duration else size._replace(max_duration=n_d, loops=n_d == 1)
        )
        for emission in emissions:
            flat = starting_from(emission, frequencies, n_d, steps.loops)
            starts.append(with_tails_and_ends(flat, tail & (not steps.loops), ends))
        starts.extend(counted(data, each, steps, rng) for each in labels)
    return starts


def _emissions(
    data: Sequences, size: Size, rng: np.random.Generator
) -> Iterator[NDArray[np.float64]]:
    """Emission tables recovered from moments, of windows whose tables are small enough."""
    n_x, n_o = size.n_states, size.n_symbols
    for length, multiples in WINDOWS:
        if n_o**length > MAX_WINDOWS or n_o ** (2 * length + 1) > MAX_ENTRIES:
            continue
        M_LoR = count_around(data, length)
        for rank in (times * n_x for times in multiples):
            # Windows in a row have rank ℓ n_x at most, and cannot have more than there are of them.
            if rank <= min(len(M_LoR), length * n_x) and M_LoR.any():
                yield recover_emission(M_LoR, n_x, rank, rng)


class _Samples:
    """The growing samples for a model of this size, drawn when one is first asked for."""

    def __init__(self, data: Sequences | Partitions, size: Size, salt: int) -> None:
        self.ladder = _ladder(size)
        few = size._replace(max_duration=self.ladder[1])  # sizes of more steps have the same
        # A cut is no end, so where ends are learned sequences are not cut.
        piece = max(SHORTEST_PIECE, STAYS_PER_PIECE * size.max_duration)
        self.piece = data.n_total if size.ends else piece
        self.data, self.salt = data, salt
        self.n_entries = few.n_entries
        self.sizes = sample_sizes(data.n_total, SYMBOLS_PER_PARAMETER * self.n_entries)
        self.stages = _stages(self.ladder, len(self.sizes))

    @cached_property
    def drawn(self) -> list[Sequences]:
        """The samples, the smallest first; all the data last, where they are few enough."""
        drawn = draw_samples(self.data, self.sizes, self.piece, self.salt)
        if len(drawn) < 2 and (not drawn or self.data.n_total <= 1.5 * LARGEST):
            drawn.append(gathered(self.data))
        return drawn

    @property
    def for_starts(self) -> Sequences:
        """The sample that starts are made from."""
        small = [sample for sample in self.drawn if sample.n_total <= SYMBOLS_FOR_STARTS]
        return (small or self.drawn[:1])[-1]
