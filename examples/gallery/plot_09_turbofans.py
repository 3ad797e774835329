"""
How long will this engine last?
===============================

Turbofans run until they fail. A sensor drifts as they wear, faster towards the end, and its
readings are noisy. How many flights are left for an engine that is still in service?

You will see a model of wear whose states follow each other, and the distribution of the time to the
end. The engines are simulated, after the pattern of NASA's public C-MAPSS data; how well it does on
these is on the page about forecasts.
"""

# %%
# The engines
# -----------
# Wear grows from zero to one over 120 to 280 flights. The sensor is read after each flight and
# written in twenty levels.

import matplotlib.pyplot as plt
import numpy as np

import sojourn as sj


def engine(rng):
    """Levels of the sensor from the first flight to the last."""
    life = int(rng.integers(120, 281))
    wear = np.linspace(0, 1, life) ** 2.5
    return np.clip(np.round(4 + 13 * wear + rng.normal(0, 0.9, life)), 0, 19).astype(int).tolist()


rng = np.random.default_rng(0)
failed = [engine(rng) for _ in range(80)]
print(
    f"{len(failed)} engines to learn from, {min(map(len, failed))} to {max(map(len, failed))}"
    " flights"
)

# %%
# Wear as states
# --------------
# ``ends=True``: the end of a sequence, the failure, is part of the model.

model = sj.HSMM(8, 40, ends=True, max_iter=60, tol=1e-4, random_state=0).fit(failed)
order = np.argsort(model.params_.emission @ np.arange(model.params_.n_symbols))
for state in order:
    levels = model.params_.emission[state] @ model.vocabulary_
    print(
        f"state {state}: level {levels:4.1f}, {model.expected_durations_[state]:5.1f} flights, "
        f"fails at the end of a stay with probability {model.endprob_[state]:.2f}"
    )

# %%
# How much is left
# ----------------
# ``time_to(end=True)`` is the distribution of the number of flights to the end, given all readings
# so far. Here it is asked every ten flights of an engine that the model has not seen.

new = engine(np.random.default_rng(1))
asked = np.arange(20, len(new), 10)
wait = model.time_to([new[:k] for k in asked], end=True)
middle, low, high = wait.median, wait.quantile(0.1), wait.quantile(0.9)

fig, ax = plt.subplots(figsize=(8, 3.8), layout="constrained")
ax.fill_between(asked, low, high, alpha=0.2, color="#4a7de0", linewidth=0, label="80 % interval")
ax.plot(asked, middle, color="#4a7de0", label="median")
ax.plot(asked, len(new) - asked, "--", color="#d9822b", label="what was left")
ax.set(xlabel="flights so far", ylabel="flights left", ylim=(0, None))
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False)
plt.show()

# %%
# Forty other engines
# -------------------
# Each is asked once, at a random flight. All stays of an engine are long or all are short, while
# the model takes them as independent, so that its own intervals are too narrow.
# ``remaining_time`` with ``held_out``, engines that the model was not fitted to, has intervals that
# are learned from them. Beside it stands what one would say without a sensor: the mean life of the
# engines that lived as long, less the flights so far.

held_out = [engine(rng) for _ in range(20)]
others = [engine(rng) for _ in range(40)]
cut = [int(rng.integers(20, len(one))) for one in others]
left = np.array([len(one) - k for one, k in zip(others, cut, strict=True)])
rest = model.remaining_time(
    [one[:k] for one, k in zip(others, cut, strict=True)], held_out=held_out, coverage=0.8
)
lives = np.array(list(map(len, failed)))
by_age = np.array([lives[lives > k].mean() - k if (lives > k).any() else 1.0 for k in cut])
error = float(np.abs(rest.time - left).mean())
without = float(np.abs(by_age - left).mean())
covered = float(np.mean((rest.low <= left) & (left <= rest.high)))
print(f"mean error {error:.0f} flights, {without:.0f} by age alone")
print(f"80 % intervals have {covered:.0%} of the engines")

fig, ax = plt.subplots(figsize=(5.6, 4.6), layout="constrained")
around = [rest.time - np.minimum(rest.low, rest.time), np.maximum(rest.high, rest.time) - rest.time]
ax.errorbar(left, rest.time, around, fmt="o", color="#4a7de0", ecolor="#4a7de055", capsize=0)
ax.plot([0, left.max()], [0, left.max()], "--", color="#d9822b")
ax.set(xlabel="flights that were left", ylabel="predicted, with 80 % interval")
ax.spines[["top", "right"]].set_visible(False)
plt.show()
