"""Speed of the kernels beside hmmlearn's, as ratios in one run, on a processor that is named.

All timings of a size are taken in turns, in processor time, so that a busy machine slows them
alike; the fastest of each is kept. hmmlearn runs its faster variant (`implementation="scaling"`) on
the same sequences, as a plain HMM of as many states and as the HMM with a state for every (state,
steps remaining).
"""

from __future__ import annotations

import logging
import platform
import time
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from benchmarks.scale import two_cores
from sojourn import Params, Sequences
from sojourn.exact.expected_counts import expected_counts
from sojourn.exact.forward import filtered, log_prob
from sojourn.exact.viterbi import decode

# (n_states, max_duration, n_symbols), sequences, length; fewer symbols for the expanded HMM.
SIZES = [((4, 6, 5), 2000, 100, 200), ((8, 40, 9), 200, 1000, 2)]
REPEATS = 7


def expanded(params: Params) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Start, transition and emission tables of the HMM over (state, steps remaining)."""
    n_x, n_d = params.duration.shape
    A = np.zeros((n_x, n_d, n_x, n_d))
    A[:, 0] = params.transition[:, :, None] * params.duration[None]
    for r in range(1, n_d):
        A[np.arange(n_x), r, np.arange(n_x), r - 1] = 1.0
    start = (params.start[:, None] * params.duration).ravel()
    n = n_x * n_d
    return start, A.reshape(n, n), np.repeat(params.emission, n_d, axis=0)


def hmm(tables: tuple[np.ndarray, ...]) -> Any:
    """hmmlearn's model with these tables, set for one EM iteration."""
    from hmmlearn.hmm import CategoricalHMM

    start, A, B = tables
    model = CategoricalHMM(
        len(start),
        n_iter=1,
        tol=0.0,
        init_params="",
        n_features=B.shape[1],
        implementation="scaling",
    )
    model.startprob_, model.transmat_, model.emissionprob_ = start, A, B
    return model


def processor() -> str:
    """The name of this machine's processor, with the vector instructions that it has."""
    try:
        with open("/proc/cpuinfo") as file:
            lines = file.read().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    known = dict(line.split(":", 1) for line in lines if ":" in line)
    facts = {name.strip(): value.strip() for name, value in known.items()}
    flags = facts.get("flags", "").split()
    vectors = "AVX-512" if "avx512f" in flags else "AVX2" if "avx2" in flags else "no AVX2"
    return f"{facts.get('model name', platform.machine())}, {vectors}"


def in_turns(jobs: dict[str, tuple[Callable[[], object], int]], repeats: int) -> dict[str, float]:
    """Nanoseconds per symbol of each job, the fastest of several turns."""
    times: dict[str, list[float]] = {name: [] for name in jobs}
    for job, _ in jobs.values():
        job()
    for _ in range(repeats):
        for name, (job, n_symbols) in jobs.items():
            start = time.thread_time()
            job()
            times[name].append((time.thread_time() - start) / n_symbols * 1e9)
    return {name: min(values) for name, values in times.items()}


def one_size(size: tuple[int, int, int], n: int, length: int, few: int) -> list[str]:
    """Lines of the table for one size: ours in one thread, and hmmlearn's two models."""
    params = Params.random(*size, rng=0)
    X = params.sample(n, length, rng=1)
    column, lengths = X.codes[:, None], [length] * n
    short, short_lengths = column[: few * length], [length] * few
    one_step = Params.random(size[0], 1, size[2], rng=0)
    small, large = (one_step.start, one_step.transition, one_step.emission), expanded(params)
    plain, wide = hmm(small), hmm(large)
    jobs: dict[str, tuple[Callable[[], object], ...]] = {
        "score": (
            lambda: log_prob(params, X, n_jobs=1),
            lambda: plain.score(column, lengths),
            lambda: wide.score(short, short_lengths),
        ),
        "EM iteration": (
            lambda: expected_counts(params, X, n_jobs=1),
            lambda: hmm(small).fit(column, lengths),
            lambda: hmm(large).fit(short, short_lengths),
        ),
        "Viterbi": (
            lambda: decode(params, X, n_jobs=1),
            lambda: plain.decode(column, lengths),
            lambda: wide.decode(short, short_lengths),
        ),
    }
    lines = []
    for name, (ours, theirs, expanded_theirs) in jobs.items():
        times = in_turns(
            {
                "ours": (ours, n * length),
                "plain": (theirs, n * length),
                "expanded": (expanded_theirs, few * length),
            },
            REPEATS,
        )
        us, them, wide_them = times["ours"], times["plain"], times["expanded"]
        lines.append(
            f"{size!s:>12} {name:>14} {us:12.0f} {them:10.0f} {them / us:7.2f} "
            f"{wide_them:10.0f} {wide_them / us:8.1f}"
        )
    return lines


def one_sequence(n_symbols: int = 1_000_000) -> list[str]:
    """Lines of the table: one long sequence, beside the plain forward pass that keeps all cells."""
    lines = [f"{'size':>12} {'score':>8} {'EM':>8} {'Viterbi':>8} {'plain pass':>11}"]
    for size, *_ in SIZES:
        params = Params.random(*size, rng=0)
        X = params.sample(1, n_symbols, rng=1)
        passes = {"score": log_prob, "EM": expected_counts, "Viterbi": decode, "plain": filtered}
        jobs = {name: (partial(f, params, X, n_jobs=1), n_symbols) for name, f in passes.items()}
        times = in_turns(jobs, 3)
        score, em, viterbi, plain = (times[name] for name in passes)
        lines.append(f"{size!s:>12} {score:8.0f} {em:8.0f} {viterbi:8.0f} {plain:11.0f}")
    return lines


def threads(repeats: int = 7) -> list[str]:
    """Lines of the table: two threads beside one, fastest of interleaved repeats."""
    lines = [f"{'size':>12} {'symbols':>10} {'':>14} {'1 thread, ms':>13} {'2':>9} {'speed-up':>9}"]
    passes = {"score": log_prob, "EM iteration": expected_counts, "Viterbi": decode}
    for n_symbols, (size, _, length, _) in product((50_000, 500_000, 5_000_000), SIZES):
        params = Params.random(*size, rng=0)
        X: Sequences = params.sample(n_symbols // length, length, rng=1)
        for name, function in passes.items():
            times: dict[int, list[float]] = {1: [], 2: []}
            for _ in range(repeats):
                for n_jobs, found in times.items():
                    start = time.perf_counter()
                    function(params, X, n_jobs=n_jobs)
                    found.append(1e3 * (time.perf_counter() - start))
            one, two = min(times[1]), min(times[2])
            rates = f"{one:13.2f} {two:9.2f} {one / two:9.2f}"
            lines.append(f"{size!s:>12} {n_symbols:10,} {name:>14} {rates}")
    return lines


def run() -> None:
    """Print the three tables."""
    logging.getLogger("hmmlearn").setLevel(logging.ERROR)
    print(f"Processor: {processor()}.")
    print("Nanoseconds per symbol, one thread; a ratio above 1 means that ours is faster.")
    print(
        f"{'size':>12} {'':>14} {'ours':>12} {'plain HMM':>10} {'ratio':>7} "
        f"{'expanded':>10} {'ratio':>8}"
    )
    for size in SIZES:
        print("\n".join(one_size(*size)), flush=True)
    print("\nOne sequence of a million symbols, nanoseconds per symbol, one thread.")
    print("\n".join(one_sequence()))
    print("\nThreads, wall time: of a machine that does nothing else.")
    print("\n".join(threads()))
    two_cores()
