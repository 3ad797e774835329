"""How close `HSMM` comes to the best that EM can do, and how much sooner than plain EM.

The paper's measure: sequences of 100 symbols, the root mean square over 1,000 test sequences of the
relative error of the likelihood. The bound is EM started from the truth, in the paper's class of
models; so ours have no tails either.
"""

from __future__ import annotations

import time

import numpy as np

from benchmarks.spectral import rmse
from sojourn import HSMM, Params, Sequences
from sojourn.em.em import run_em

SIZES = ((2, 2, 3), (4, 6, 5))
CASES = ((500, 10), (5000, 10), (50_000, 3))  # sequences, models
TIMED = {(2, 2, 3): 3, (4, 6, 5): 3}  # models that plain EM is timed on, at 5,000 sequences


def data(size: tuple[int, int, int], n: int, seed: int) -> tuple[Params, Sequences, Sequences]:
    """A random model, training and test sequences."""
    p = Params.random(*size, rng=seed)
    return p, p.sample(n, 100, rng=1000 + seed), p.sample(1000, 100, rng=2000 + seed)


def ratios() -> None:
    """Error of the defaults beside the bound."""
    print("\nRMSE of HSMM(n_x, n_d) over that of EM from the truth (median ≤ 1.05, none above 1.5)")
    print("size        N       models  bound   ours    ratio: median  worst   passes  seconds")
    for size in SIZES:
        for n, models in CASES:
            rows = []
            for seed in range(models):
                p, train, test = data(size, n, seed)
                true = p.log_prob(test)
                best = run_em(p, train, max_iter=1000, tol=1e-9)
                began = time.perf_counter()
                model = HSMM(*size[:2], tail=False, verbose=False).fit(train)
                seconds = time.perf_counter() - began
                ours, bound = (
                    rmse(model.score_samples(test), true),
                    rmse(best.params.log_prob(test), true),
                )
                rows.append((bound, ours, ours / bound, model.n_passes_, seconds))
            bound, ours, ratio, passes, seconds = np.median(rows, axis=0)
            worst = max(row[2] for row in rows)
            print(
                f"{size!s:10s} {n:7,d} {models:6d}   {bound:.4f}  {ours:.4f}  {ratio:13.3f} "
                f"{worst:6.2f}  {passes:6.0f}  {seconds:7.1f}",
                flush=True,
            )


def sooner() -> None:
    """Time to a likelihood: ours beside plain EM, the best of three random starts, 500 steps."""
    print("\nSeconds to fit, over those of plain EM to its own final held-out likelihood (0.2)")
    for size, models in TIMED.items():
        for seed in range(models):
            _, train, test = data(size, 5000, seed)
            began = time.perf_counter()
            model = HSMM(*size[:2], tail=False, verbose=False).fit(train)
            ours = time.perf_counter() - began
            runs = []
            for start in range(3):
                steps: list[tuple[float, float]] = []
                spent = [0.0, time.perf_counter()]

                def note(_: int, __: float, p: Params, steps=steps, spent=spent, test=test) -> None:
                    spent[0] += time.perf_counter() - spent[1]  # scoring is not part of it
                    steps.append((spent[0], float(p.log_prob(test).sum()) / test.n_total))
                    spent[1] = time.perf_counter()

                first = Params.random(*size, rng=100 + start)
                run_em(first, train, max_iter=500, tol=0, accelerate=False, callback=note)
                runs.append(steps)
            best = max(runs, key=lambda steps: steps[-1][1])
            reached = next(t for t, score in best if score >= best[-1][1] - 1e-6)
            others = sum(steps[-1][0] for steps in runs if steps is not best)
            print(
                f"{size!s:10s} model {seed}: {ours / (reached + others):.3f} of all three, "
                f"{ours / reached:.3f} of the best alone; held-out {model.score(test):.6f} against "
                f"{best[-1][1]:.6f}",
                flush=True,
            )


def run() -> None:
    """Both tables."""
    ratios()
    sooner()
