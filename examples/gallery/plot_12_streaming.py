"""
Alarms in a stream
==================

A stream judges each symbol as soon as it arrives, given all symbols before it. Its state is a few
numbers, so the cost per symbol does not grow with the length of the past.

You will see how to get alarms at a rate of your choice. The flights are simulated
(:func:`sojourn.datasets.simulate_approaches`): commands of pilots during the descent.
"""

# %%
# Learn
# -----
# The detector learns from eighty flights, and how surprising the steps of normal flights are.

import matplotlib.pyplot as plt
import numpy as np

import sojourn as sj

training = sj.datasets.simulate_approaches(80, rng=0)
model = sj.SpectralHSMM(n_states=8, max_duration=40)
detector = sj.AnomalyDetector(model, method="loglik", cv=2).fit(training)
print(training)

# %%
# One symbol after another
# ------------------------
# ``rate`` is the fraction of the steps of normal flights that may raise an alarm: one in ten
# thousand, about one alarm in eight flights. ``update`` takes one symbol and returns its surprise,
# a p-value and whether there is an alarm. The p-value is that of the surprise or of the mean
# surprise of the last ten steps or so, whichever is lower.

RATE = 0.0001


def watch(flight):
    """Surprise, p-value and alarm at each step of a flight."""
    stream = detector.stream(rate=RATE)
    return [stream.update(symbol) for symbol in flight]


def share_with_alarm(flights):
    """The share of flights with an alarm."""
    return float(np.mean([any(step.alarm for step in watch(flight)) for flight in flights]))


unusual, phases = sj.datasets.simulate_approaches(
    20, rng=2, anomaly="aborted_descent", return_phases=True
)
false_alarms = share_with_alarm(sj.datasets.simulate_approaches(40, rng=3))
alarms = share_with_alarm(unusual)
print(f"alarm on {alarms:.0%} of flights that abort the descent")
print(f"alarm on {false_alarms:.0%} of other normal flights")

# %%
# There are a few more false alarms than asked for: a rate of one in ten thousand rests on the
# eleven most surprising of the 108,470 steps of training.

# %%
# One flight
# ----------
# The descent is aborted and the aircraft holds (shaded). Surprising steps occur throughout the
# flight; in the hold there are more of them, and the p-value falls. The first alarm is raised while
# the flight is still holding.

flight, phase = unusual[0], np.array(phases[0])
steps = watch(flight)
surprise, pvalue = (np.array([getattr(s, name) for s in steps]) for name in ("surprise", "pvalue"))
holding = np.flatnonzero(phase == "holding")
alarm = int(np.argmax([step.alarm for step in steps]))
print(f"hold from second {holding[0]} to {holding[-1]}, first alarm at second {alarm}")

fig, (top, bottom) = plt.subplots(2, 1, figsize=(8, 4.6), sharex=True, layout="constrained")
top.plot(surprise, color="#8b95a5", linewidth=0.7)
top.set_ylabel("surprise (nats)")
top.set_ylim(bottom=0)
bottom.semilogy(pvalue, color="#4a7de0", linewidth=0.8)
bottom.axhline(RATE, color="#8b95a5", linewidth=1, linestyle=(0, (4, 3)))
bottom.annotate("alarm below", (0, RATE), (4, -12), textcoords="offset points", size=9)
bottom.plot(alarm, pvalue[alarm], "o", color="#dc4446")
bottom.set_ylabel("p-value")
bottom.set_xlabel("seconds")
for ax in (top, bottom):
    ax.axvspan(holding[0], holding[-1] + 1, color="#d9822b", alpha=0.15, linewidth=0)
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_xlim(0, len(flight))
plt.show()

# %%
# Stop and continue
# -----------------
# A snapshot of a model's stream is a small dictionary that JSON can hold. Another process can
# continue from it and gets the same numbers, to the bit.

stream = detector.model_.stream()
stream.update_many(flight[:500])
later = detector.model_.stream().restore(stream.snapshot())
same = (
    later.update_many(flight[500:]).tolist() == detector.model_.surprise([flight])[0][500:].tolist()
)
print(f"the same surprise after a restart: {same}")
