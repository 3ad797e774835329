"""Large alphabets: what a fit costs, what it takes, and what it predicts beside n-grams.

Data come from an HSMM of 20 states and stays of up to 10 steps whose emissions are Dirichlet
distributed, so that every state has frequent and rare symbols. Each size runs in a process of its
own, so that its peak memory is its own; processor seconds are printed beside wall-clock seconds.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.ngrams import NGram
from sojourn import HSMM, Params, SpectralHSMM, load

N_X, N_D = 20, 10
SIZES = ((200, 10**6), (2000, 10**6), (2000, 10**7), (50_000, 10**7))
EM_SIZES = ((200, 2 * 10**5), (2000, 2 * 10**5), (50_000, 2 * 10**5))


def truth(n_symbols: int, rng: int = 0) -> Params:
    """The model that data are drawn from."""
    p = Params.random(N_X, N_D, n_symbols, rng=rng)
    emission = np.random.default_rng(rng).dirichlet(np.full(n_symbols, 0.1), N_X)
    return Params(p.start, p.transition, p.duration, emission)


def peak() -> float:
    """The most memory that this process has taken, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def spectral(n_symbols: int, n_total: int) -> None:
    """Fit, score, predict, stream, save and load at one size."""
    p = truth(n_symbols)
    training, test = p.sample(n_total // 1000, 1000, rng=1), p.sample(20, 1000, rng=2)
    began, worked = time.perf_counter(), time.process_time()
    model = SpectralHSMM().fit(training)
    seconds, processor = time.perf_counter() - began, time.process_time() - worked
    memory = peak()
    began = time.process_time()
    score = model.score(test)
    each = (time.process_time() - began) / test.n_total * 1e6
    grams = [NGram(order).fit(training).score(test) for order in (1, 2, 3)]
    stream = model.stream()
    same = [stream.update(s) for s in test[0][:50]] == model.surprise(test[:1])[0][:50].tolist()
    p_next = model.predict_next(test[:3])
    same = same and bool(np.allclose(p_next.sum(axis=1), 1))
    with tempfile.TemporaryDirectory() as folder:
        sizes = []
        for moments in (False, True):
            path = Path(folder, "model.sojourn")
            model.save(path, moments=moments)
            sizes.append(path.stat().st_size / 2**20)
        same = same and load(path).score(test[:2]) == model.score(test[:2])
    best = p.log_prob(test).sum() / test.n_total
    print(
        f"{n_symbols:6,d} {n_total:11,d} {seconds:8.0f} {processor:9.0f} {memory:7.2f}   "
        f"{model.trees_.n_pasts:8d} {model.rank_:4d} {score:8.3f} {best:8.3f} "
        + "".join(f"{g:8.3f}" for g in grams)
        + f" {each:8.1f} {sizes[0]:7.0f} {sizes[1]:7.0f}   {'yes' if same else 'NO'}",
        flush=True,
    )


def em(n_symbols: int, n_total: int) -> None:
    """A few passes of EM at one size."""
    p = truth(n_symbols)
    training = p.sample(n_total // 1000, 1000, rng=1)
    began = time.process_time()
    HSMM(N_X, N_D, max_iter=3).fit(training)
    processor = time.process_time() - began
    print(f"{n_symbols:6,d} {n_total:11,d} {processor:9.0f} {peak():7.2f}", flush=True)


def run() -> None:
    """All sizes."""
    print("\nSpectralHSMM(), contexts and rank chosen; scores are nats per symbol of new data")
    print(
        "symbols    training    clock processor     GB    pasts  rank    score    truth   "
        "1-gram  2-gram  3-gram  µs each  MB alone   all   same"
    )
    _apart("spectral", SIZES)
    print("\nHSMM(20, 10), three passes after the race of starts")
    print("symbols    training processor      GB")
    _apart("em", EM_SIZES)


def _apart(job: str, sizes: tuple[tuple[int, int], ...]) -> None:
    for size in sizes:
        code = f"from benchmarks import alphabets; alphabets.{job}{size}"
        subprocess.run([sys.executable, "-c", code], check=True)
