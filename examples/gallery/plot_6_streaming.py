"""
Surprise in a stream
====================

A stream computes the surprise of each symbol as soon as it arrives, given all symbols before it.
Its state is a few numbers, so the cost per symbol does not grow with the length of the past.

You will see how to turn surprise into an alarm with few false positives. The flights are simulated
(:func:`sojourn.datasets.simulate_approaches`): commands of pilots during the descent.
"""

# %%
# Learn
# -----
# The spectral model learns from 300 flights in one pass.

import matplotlib.pyplot as plt
import numpy as np

import sojourn as sj

training = sj.datasets.simulate_approaches(300, rng=0)
model = sj.SpectralHSMM(n_states=8, max_duration=40).fit(training)
print(training)

# %%
# A running alarm
# ---------------
# A single surprising step means little. The alarm uses a sum that grows while steps are more
# surprising than usual and falls back to zero while they are not. ``stream.update`` takes one
# symbol.

normal = sj.datasets.simulate_approaches(300, rng=1)
steps = np.concatenate(model.surprise(normal))
usual, slack = steps.mean(), 0.15 * steps.std()


def watch(flight):
    """The running sum after each symbol of a flight."""
    stream, total, totals = model.stream(), 0.0, []
    for symbol in flight:
        total = max(0.0, total + stream.update(symbol) - usual - slack)
        totals.append(total)
    return np.array(totals)


# %%
# How large may the sum get on a normal flight? The threshold is chosen so that about one normal
# flight in twenty exceeds it at any step, and is tested on other flights.

threshold = np.quantile([watch(flight).max() for flight in normal], 0.95)


def share_with_alarm(flights):
    """The share of flights with an alarm."""
    return np.mean([watch(flight).max() > threshold for flight in flights])


unusual, phases = sj.datasets.simulate_approaches(
    50, rng=2, anomaly="aborted_descent", return_phases=True
)
false_alarms = share_with_alarm(sj.datasets.simulate_approaches(200, rng=3))
alarms = share_with_alarm(unusual)
print(f"alarm on {alarms:.0%} of flights that abort the descent")
print(f"alarm on {false_alarms:.0%} of other normal flights")

# %%
# One flight
# ----------
# The descent is aborted and the aircraft holds (shaded). Surprising steps occur throughout the
# flight; in the hold there are more of them, and the sum grows. The alarm is raised while the
# flight is still holding.

flight, phase = unusual[0], np.array(phases[0])
surprise, totals = model.surprise([flight])[0], watch(flight)
holding = np.flatnonzero(phase == "holding")
alarm = int(np.argmax(totals > threshold))
print(f"hold from second {holding[0]} to {holding[-1]}, alarm at second {alarm}")

fig, (top, bottom) = plt.subplots(2, 1, figsize=(8, 4.6), sharex=True, layout="constrained")
top.plot(surprise, color="#8b95a5", linewidth=0.7)
top.set_ylabel("surprise (nats)")
bottom.plot(totals, color="#4a7de0")
bottom.axhline(threshold, color="#8b95a5", linewidth=1, linestyle=(0, (4, 3)))
bottom.annotate("alarm threshold", (0, threshold), (4, 4), textcoords="offset points", size=9)
bottom.plot(alarm, totals[alarm], "o", color="#dc4446")
bottom.set_ylabel("running sum")
bottom.set_xlabel("seconds")
for ax in (top, bottom):
    ax.axvspan(holding[0], holding[-1] + 1, color="#d9822b", alpha=0.15, linewidth=0)
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_xlim(0, len(flight))
    ax.set_ylim(bottom=0)
plt.show()

# %%
# Stop and continue
# -----------------
# A snapshot of the stream is a small dictionary that JSON can hold. Another process can continue
# from it and gets the same numbers, to the bit.

stream = model.stream()
stream.update_many(flight[:500])
later = model.stream().restore(stream.snapshot())
same = later.update_many(flight[500:]).tolist() == surprise[500:].tolist()
print(f"the same surprise after a restart: {same}")
