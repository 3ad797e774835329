"""Train the spectral model on sequences of a known HSMM and compare it with the truth.

Run by `make demo`. Prints true and estimated log-likelihoods and saves figures/demo.png.
"""

import time
from pathlib import Path

import matplotlib
import numpy as np

import sojourn as sj

matplotlib.use("Agg")
import matplotlib.pyplot as plt

N_TRAIN, N_TEST, LENGTH = 20_000, 1_000, 100
FIGURE = Path("figures/demo.png")


def main() -> None:
    truth = known_model()
    training = truth.sample(N_TRAIN, LENGTH, rng=1)
    test = truth.sample(N_TEST, LENGTH, rng=2)
    print(f"A known HSMM: {truth.n_states} states, stays to {truth.max_duration} steps, "
          f"{truth.n_symbols} symbols.")  # fmt: skip
    print(f"Training on {N_TRAIN:,} sequences of {LENGTH} symbols.\n")

    sj.SpectralHSMM(4, 6).fit(training[:200]).score(test)  # compiles the kernels, once a machine
    began = time.perf_counter()
    model = sj.SpectralHSMM(4, 6).fit(training)
    fitted = time.perf_counter()
    estimated = model.score_samples(test)
    scored = time.perf_counter()
    true = truth.log_prob(test)

    print("sequence   true log p   estimated   difference")
    for i in range(8):
        print(f"{i:8d} {true[i]:12.3f} {estimated[i]:11.3f} {estimated[i] - true[i]:+12.3f}")
    rmse = np.sqrt(np.mean(np.expm1(estimated - true) ** 2))
    memoryless = np.bincount(training.codes) / training.n_total
    print(f"\nover {N_TEST:,} test sequences: mean |difference| "
          f"{np.abs(estimated - true).mean():.3f} nats in {-true.mean():.0f}, "
          f"RMSE of the relative error {rmse:.2f}")  # fmt: skip
    print(f"a symbol: true {true.mean() / LENGTH:.4f}, spectral {model.score(test):.4f}, "
          f"symbol frequencies alone {np.log(memoryless)[test.codes].mean():.4f} nats")  # fmt: skip
    rate = test.n_total / (scored - fitted) / 1e6
    print(f"chosen rank {model.rank_}, window {model.window_}; fitted in {fitted - began:.2f} s, "
          f"scored at {rate:.1f} million symbols a second")  # fmt: skip
    save_figure(model, true, estimated)
    print(f"figure: {FIGURE}")


def known_model() -> sj.Params:
    """Random tables, the emissions sharpened so that the states can be told apart."""
    p = sj.Params.random(n_states=4, max_duration=6, n_symbols=5, rng=3)
    emission = p.emission**3
    emission /= emission.sum(axis=1, keepdims=True)
    return sj.Params(p.start, p.transition, p.duration, emission)


def save_figure(model: sj.SpectralHSMM, true: np.ndarray, estimated: np.ndarray) -> None:
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
    limits = [min(true.min(), estimated.min()) - 2, max(true.max(), estimated.max()) + 2]
    left.plot(limits, limits, color="0.7", lw=1, zorder=0)
    left.scatter(true, estimated, s=9, alpha=0.5, edgecolor="none", color="#2b6cb0")
    left.set(xlabel="true log p (nats)", ylabel="estimated log p (nats)", xlim=limits, ylim=limits,
             title="1,000 test sequences", aspect="equal")  # fmt: skip
    s = model.singular_values_
    right.semilogy(np.arange(1, len(s) + 1), s, "o-", color="#2b6cb0", ms=4, lw=1)
    right.axvline(model.rank_, color="#c05621", lw=1, ls="--")
    right.annotate(f"rank {model.rank_}", (model.rank_, s[0]), xytext=(-6, -4),
                   textcoords="offset points", ha="right", color="#c05621")  # fmt: skip
    right.set(xlabel="direction", ylabel="singular value", title="spectrum and chosen rank")
    for ax in (left, right):
        ax.spines[["top", "right"]].set_visible(False)
    FIGURE.parent.mkdir(exist_ok=True)
    figure.savefig(FIGURE, dpi=150)


if __name__ == "__main__":
    main()
