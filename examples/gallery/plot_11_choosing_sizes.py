"""
Choosing the number of states
=============================

More states always fit the training data better. What counts is how well the model predicts
held-out sequences. :func:`sojourn.select` compares sizes by cross-validation.

You will see how to read its table, and how to recognise the smallest size that is enough. The data
are drawn from a known model, so the right answer is known.
"""

# %%
# A washing machine
# -----------------
# A meter at the socket records a power level every minute. The machine fills, heats, washes
# and spins; after the wash it may rinse, which is filling and washing again.

import matplotlib.pyplot as plt
import numpy as np

import sojourn as sj

minutes = np.arange(1, 21)


def about(mean, spread):
    """A distribution of durations around a mean number of minutes."""
    weight = np.exp(-0.5 * ((minutes - mean) / spread) ** 2)
    return weight / weight.sum()


machine = sj.Params(
    start=[1.0, 0.0, 0.0, 0.0],
    transition=[  # to:  fill heat wash spin
        [0.0, 0.6, 0.4, 0.0],  # fill
        [0.0, 0.0, 1.0, 0.0],  # heat
        [0.5, 0.0, 0.0, 0.5],  # wash
        [1.0, 0.0, 0.0, 0.0],  # spin: the next load
    ],
    duration=[about(3, 1), about(11, 2), about(14, 2), about(6, 1)],
    emission=[  # pump, motor, heater, high
        [0.8, 0.2, 0.0, 0.0],
        [0.0, 0.3, 0.7, 0.0],
        [0.1, 0.8, 0.1, 0.0],
        [0.2, 0.2, 0.0, 0.6],
    ],
)
loads = machine.sample(n=36, length=60, rng=0)
print(loads)

# %%
# Compare
# -------
# Every pair of a number of states and a maximum duration is fitted three times, each time on two
# thirds of the sequences, and scored on the others.

found = sj.select(
    loads, n_states=[2, 3, 4, 6], max_duration=[1, 20], cv=3, tol=1e-3, init="moments"
)
print(found)

# %%
# Read the curve
# --------------
# With stays of up to 20 minutes the curve rises steeply up to four states, the true number, and is
# flat from there on: more states do not help. With ``max_duration=1``, a hidden Markov model, it
# stays well below, since such a model cannot represent how long a phase lasts.

fig, ax = plt.subplots(figsize=(7, 3.8), layout="constrained")
looks = {1: ("#d9822b", "s--", "stays of 1 step (HMM)"), 20: ("#4a7de0", "o-", "up to 20 steps")}
for longest, (color, style, label) in looks.items():
    sizes = [size for size in found.sizes if size.max_duration == longest]
    ax.errorbar(
        [size.n_states for size in sizes],
        [size.score for size in sizes],
        [size.error for size in sizes],
        fmt=style,
        color=color,
        capsize=3,
        label=label,
    )
ax.axvline(machine.n_states, color="#8b95a5", linewidth=1, linestyle=(0, (4, 3)))
ax.annotate(
    "truth", (machine.n_states, 0), (4, 4), ("data", "axes fraction"), "offset points", size=9
)
ax.set_xticks([2, 3, 4, 5, 6])
ax.set_xlabel("states")
ax.set_ylabel("held-out nats per symbol (± std. error)")
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False, loc="upper left")
plt.show()

# %%
# A rule that works
# -----------------
# Take the smallest number of states whose score is within one standard error of the best. Fewer
# states are faster, need less data, and are easier to understand.

best = found.best
enough = min(size.n_states for size in found.sizes if size.score >= best.score - best.error)
print(f"best score at {best.n_states} states; {enough} are enough")
