"""The spectral half: what a fit costs beside one forward-backward pass, and how accurate it is.

Times of a size are taken in turns and the medians compared, so that a busy machine slows both
alike. Accuracy is the paper's: sequences of 100 symbols, the root mean square over 1,000 test
sequences of the relative error of the likelihood.
"""

from __future__ import annotations

import resource
import time
import warnings
from collections.abc import Callable

import numpy as np

from sojourn import Params, Sequences, SpectralHSMM, count, exact_moments
from sojourn.contexts.counts import ContextTally
from sojourn.exact.expected_counts import expected_counts
from sojourn.spectral.answers import log_prob
from sojourn.spectral.models import WindowModel
from sojourn.spectral.select_rank import decompose

SMALL, LARGE = (2, 2, 3), (4, 6, 5)
WINDOWS = ((0, 1), (0, 1, 2), (0, 1, 2, 3), (0, 2, 5))  # some in a row, and Theorem 1's at LARGE


def in_turns(
    jobs: dict[str, Callable[[], object]],
    repeats: int = 5,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Median seconds of each job over several turns, after one that does not count."""
    times: dict[str, list[float]] = {name: [] for name in jobs}
    for turn in range(repeats + 1):
        for name, job in jobs.items():
            began = clock()
            job()
            if turn:
                times[name].append(clock() - began)
    return {name: float(np.median(t)) for name, t in times.items()}


def speed() -> None:
    """A whole fit, and scoring, beside one forward-backward pass over the same data."""
    print("\nA whole fit, in forward-backward passes over the same data (one thread)")
    print("size        sequences  length  rank given (target)  rank auto (target)  pass, s")
    for size, n, length, targets in (
        (LARGE, 100_000, 100, (0.25, 1)),
        ((8, 40, 9), 2000, 1000, (0.5, 2)),
    ):
        p = Params.random(*size, rng=0)
        data = p.sample(n, length, rng=1)
        given = SpectralHSMM(*size[:2], rank=24, n_jobs=1)
        t = in_turns(
            {
                "pass": lambda p=p, data=data: expected_counts(p, data, n_jobs=1),
                "given": lambda given=given, data=data: given.fit(data),
                "auto": lambda size=size, data=data: SpectralHSMM(*size[:2], n_jobs=1).fit(data),
            }
        )
        print(
            f"{size!s:11s} {n:9,d}  {length:6d}  {t['given'] / t['pass']:10.3f} "
            f"({targets[0]:5.2f})  {t['auto'] / t['pass']:14.3f} ({targets[1]:4.0f})  "
            f"{t['pass']:7.2f}"
        )
    data = Params.random(*LARGE, rng=0).sample(10_000, 100, rng=1)
    for rank, target in ((24, 8.0), (80, 0.8)):
        model = SpectralHSMM(rank=rank, n_jobs=1).fit(data)
        t = in_turns({"score": lambda model=model: model.score_samples(data)}, 9)["score"]
        each = data.n_total / t / 1e6
        print(f"scoring at rank {rank}: {each:.1f} million symbols per second and core ({target})")


def linear() -> None:
    """Counting over given contexts: time per symbol, and memory beyond the data, as data grow."""
    print("\nCounting at (8, 40, 9) over contexts of 10^6 symbols, two threads")
    print("symbols       ns per symbol   peak memory beyond the data, MB")
    p = Params.random(8, 40, 9, rng=0)
    trees = SpectralHSMM(rank=8).fit(p.sample(1000, 1000, rng=1)).trees_
    for n in (10**6, 10**7, 10**8):
        data = p.sample(n // 1000, 1000, rng=1)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        t = in_turns({"count": lambda data=data: ContextTally(trees).add(data)}, 3)["count"]
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        print(f"{n:11,d}   {t / n * 1e9:11.2f}   {grown / 1024:10.0f}", flush=True)


def rmse(estimated: np.ndarray, true: np.ndarray) -> float:
    """Root mean square of the relative error of the likelihood."""
    return float(np.sqrt(np.mean(np.expm1(np.minimum(estimated - true, 300)) ** 2)))


def trial(size: tuple[int, int, int], seed: int, data: Sequences, **options: object) -> float:
    """RMSE of one fit on one random model."""
    p = Params.random(*size, rng=seed)
    test = p.sample(1000, 100, rng=10**6 + seed)
    model = SpectralHSMM(*size[:2], **options).fit(data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # raw products that are not positive, on purpose
        return rmse(model.score_samples(test), p.log_prob(test))


def accuracy(models: int = 10) -> None:
    """Error by the number of sequences, for the paper's method and ours."""
    print(f"\nRMSE of the relative error of the likelihood, T = 100, median of {models} models")
    print("size       N        pooled, raw    contexts    worst contexts")
    medians: dict[tuple[tuple[int, int, int], int], float] = {}
    for size in (SMALL, LARGE):
        for n in (500, 1000, 5000, 10_000, 100_000):
            ours, paper = [], []
            for seed in range(models):
                data = Params.random(*size, rng=seed).sample(n, 100, rng=seed + n)
                ours.append(trial(size, seed, data))
                paper.append(trial(size, seed, data, algorithm="pooled", filter="raw"))
            medians[size, n] = float(np.median(ours))
            print(
                f"{size!s:9s} {n:8,d} {np.median(paper):12.3f} {np.median(ours):12.3f} "
                f"{max(ours):14.3f}",
                flush=True,
            )
    ratio = medians[LARGE, 100_000] / medians[LARGE, 5000]
    print(f"contexts at (4, 6, 5): N = 100,000 over N = 5,000 is {ratio:.2f} (at most 0.6)")


def worst(models: int = 100) -> None:
    """Whether a fit ever blows up."""
    print(f"\nWorst RMSE of contexts over {models} random models (at most 3)")
    for size in (SMALL, LARGE):
        for n in (500, 5000):
            errors = [
                trial(size, seed, Params.random(*size, rng=seed).sample(n, 100, rng=seed + n))
                for seed in range(1000, 1000 + models)
            ]
            print(
                f"{size!s:9s} N = {n:5,d}: worst {max(errors):.2f}, median {np.median(errors):.2f}"
            )


def bias(models: int = 6) -> None:
    """Exact moments cut at a rank against sampled ones: what is bias and what is noise."""
    print(f"\nBias and noise at (4, 6, 5): median RMSE of {models} models by window and rank")
    ranks = (4, 6, 8, 12, 24)
    print("window          moments     " + "".join(f"rank {k:2d}  " for k in ranks))
    for window in WINDOWS:
        for n in (0, 5000, 50_000):
            rows = []
            for seed in range(models):
                p = Params.random(*LARGE, rng=seed)
                test = p.sample(1000, 100, rng=10**6 + seed)
                if n:
                    moments = count(p.sample(n, 100, rng=seed + n), [window], holdout=False)
                else:
                    moments = exact_moments(p, [window])
                spectrum = decompose(moments.tables[0], max(ranks), 4)
                row = []
                for k in ranks:
                    model = WindowModel(spectrum.cut(k), 1e-3 / 5)
                    row.append(rmse(log_prob(model, test), p.log_prob(test)))
                rows.append(row)
            name = f"N={n:,d}" if n else "exact"
            cells = "".join(f"{m:7.2f}  " for m in np.median(rows, axis=0))
            print(f"{window!s:15s} {name:11s} {cells}", flush=True)


def run() -> None:
    """All of it, in a few minutes."""
    speed()
    linear()
    accuracy()
    worst()
    bias()
