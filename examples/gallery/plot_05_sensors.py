"""
A pump with four sensors, and holes in the data
================================================

A pump starts, runs, sometimes runs hot, and rests. Four channels are recorded every minute:
temperature and current (numbers), knocks (counts) and the position of a valve (a word). Some values
are missing. Nothing has to be scaled, filled or cut into bins.

You will see how to say what each channel is, how to read the phases that are found, and how a
detector names the channel that is off. The recordings are simulated, by the function below.
"""

# %%
# The recordings
# --------------

import matplotlib.pyplot as plt
import numpy as np

import sojourn as sj
from sojourn.emissions import Categorical, Channels, Gaussian, Poisson

PHASES = {  # mean minutes, temperature, current, knocks per minute, chance that the valve is open
    "rest": (20, 20, 0.2, 0.1, 0.02),
    "start": (6, 35, 9.0, 4.0, 0.70),
    "run": (40, 60, 6.0, 1.0, 0.98),
    "hot": (9, 80, 6.5, 2.5, 0.98),
}
FOLLOWING = {"rest": ["start"], "start": ["run"], "run": ["hot", "rest"], "hot": ["run", "rest"]}


def day(rng, steps=360):
    """Six hours of a pump: a table of channels, and the phase at each minute."""
    phases, phase = [], "rest"
    while len(phases) < steps:
        phases += [phase] * max(2, round(rng.normal(PHASES[phase][0], 2)))
        phase = rng.choice(FOLLOWING[phase]).item()
    phases = phases[:steps]
    _, heat, current, knocks, opened = np.array([PHASES[p] for p in phases]).T
    table = {
        "temperature": rng.normal(heat, 3.0),
        "current": rng.normal(current, 0.4),
        "knocks": rng.poisson(knocks).astype(float),
        "valve": np.where(rng.random(steps) < opened, "open", "shut"),
    }
    for name in ("temperature", "current"):
        table[name][rng.random(steps) < 0.05] = np.nan
    return table, phases


rng = np.random.default_rng(0)
days, truth = zip(*(day(rng) for _ in range(30)), strict=True)
table = {name: np.concatenate([d[name] for d in days]) for name in days[0]}
table["day"] = np.repeat(np.arange(30), 360)
signals = sj.Signals.from_table(table, id="day")
print(signals)

# %%
# The phases
# ----------
# Numbers are normal, counts are Poisson, words are categorical; given the phase the channels are
# independent. Four states, found without labels.

kinds = Channels(
    {
        "temperature": Gaussian(),
        "current": Gaussian(),
        "knocks": Poisson(),
        "valve": Categorical(),
    }
)
model = sj.HSMM(4, 50, emissions=kinds, durations="negative_binomial", max_iter=40, random_state=0)
model.fit(signals[:20])
print(model.summary())

# %%
# Two channels of a day that was not used for training. The bands are where each decoded state has
# 95 % of its values.

fig, axes = plt.subplots(2, 1, figsize=(8, 4.6), sharex=True, layout="constrained")
for ax, channel in zip(axes, ("temperature", "current"), strict=True):
    sj.plot.signal(model, signals, 25, channel, ax=ax)
    ax.set_ylabel(channel)
axes[0].set_xlabel("")
axes[1].set_xlabel("minutes")
plt.show()

# %%
# How often is the phase right? The states are matched with the phases by what they are most often.

found, names = np.concatenate(model.predict(signals[20:])), np.array(list(PHASES))
true = np.concatenate([np.searchsorted(np.sort(names), t) for t in truth[20:]])
match = np.array([np.bincount(true[found == state], minlength=4).argmax() for state in range(4)])
right = float(np.mean(match[found] == true))
print(f"{right:.1%} of the minutes of ten other days")

# %%
# Which channel is off
# --------------------
# On one day a bearing knocks more than it should for twenty minutes, although the pump is neither
# starting nor hot.

detector = sj.AnomalyDetector(model, contamination=0.05, cv=3).fit(signals[:20])
odd, phases = day(np.random.default_rng(99))
quiet = int(np.flatnonzero(np.array(phases) == "run")[5])
odd["knocks"][quiet : quiet + 20] += 8
odd["day"] = np.zeros(360, dtype=int)
why = detector.explain(sj.Signals.from_table(odd, id="day"))[0]
print(why)
