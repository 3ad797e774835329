"""
Days in a smart home
====================

Motion sensors see which room was active last, not what the person does there. Activities last: a
night, an outing, an evening on the sofa. A semi-Markov model of the sensors finds the activities
without labels, and predicts how much longer the present one will last.

You will also see what a diary of a few days adds: it names the states. The days are simulated, by
the function below, so that the activities found can be compared with the true ones.
"""

# %%
# The days
# --------
# A symbol every ten minutes from six in the evening to six the next evening: the room of the last
# event. The person also moves between rooms: the kitchen is seen while cooking, while watching a
# film and at night.

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap
from sklearn.metrics import adjusted_rand_score

import sojourn as sj

ACTIVITIES = ("cooking", "sofa", "sleep", "bathroom", "out", "desk")
ROOMS = ("kitchen", "living room", "bedroom", "bathroom", "hall", "study")
SEEN = np.array(
    [  # kitchen, living, bed, bath, hall, study
        [0.80, 0.15, 0.00, 0.00, 0.05, 0.00],  # cooking
        [0.12, 0.78, 0.00, 0.06, 0.04, 0.00],  # sofa
        [0.01, 0.00, 0.95, 0.04, 0.00, 0.00],  # sleep
        [0.00, 0.00, 0.25, 0.75, 0.00, 0.00],  # bathroom
        [0.00, 0.00, 0.00, 0.00, 1.00, 0.00],  # out: the door was last
        [0.10, 0.05, 0.00, 0.05, 0.00, 0.80],  # desk
    ]
)
STEPS = 144  # of ten minutes
COLORS = ("#56b4e9", "#0072b2", "#b5bac2", "#e69f00", "#009e73", "#cc79a7")


def day(rng):
    """One day: the activity and the room seen, every ten minutes."""
    plan = [("cooking", 5, 1), ("sofa", 20, 4), ("bathroom", 2, 0.5), ("sleep", 46, 4)]
    plan += [("bathroom", 3, 0.7), ("cooking", 3, 0.8)]
    if rng.random() < 0.6:
        plan += [("out", 50, 6)]
    else:
        plan += [("desk", 20, 3), ("cooking", 5, 1), ("out", 9, 3), ("desk", 18, 4)]
    plan += [("cooking", 5, 1), ("sofa", STEPS, 1)]
    activities = []
    for name, mean, spread in plan:
        steps = max(1, round(rng.normal(mean, spread)))
        activities += [ACTIVITIES.index(name)] * steps
    activities = np.array(activities[:STEPS])
    chance = SEEN[activities].cumsum(axis=1)
    rooms = (rng.random((STEPS, 1)) > chance).sum(axis=1)
    return activities, [ROOMS[room] for room in rooms]


rng = np.random.default_rng(2)
truth, days = zip(*(day(rng) for _ in range(100)), strict=True)
print(f"{len(days)} days of {STEPS} steps")

# %%
# Activities
# ----------
# Six states that last at most twelve hours, with a duration distribution that has two parameters
# per state instead of seventy-two.

model = sj.HSMM(6, 72, durations="negative_binomial", tol=1e-5, max_iter=80, random_state=0)
model.fit(days)
found = model.predict(days)
agreement = adjusted_rand_score(np.concatenate(truth), np.concatenate(found))
print(f"agreement with the true activities (adjusted Rand index): {agreement:.2f}")
for state, hours in enumerate(model.expected_durations_ / 6):
    room = model.vocabulary_[model.params_.emission[state].argmax()]
    print(f"state {state}: mostly {room:12} {hours:4.1f} hours on average")

# %%
# Forty days, one per row. Nights and outings stand out, and so do the days at the desk.

names = [model.vocabulary_[k] for k in model.params_.emission.argmax(axis=1)]
fig, ax = plt.subplots(figsize=(8, 4.4), layout="constrained")
colors = ListedColormap(COLORS)
mesh = ax.pcolormesh(np.array(found[:40]), cmap=colors, vmin=-0.5, vmax=len(names) - 0.5)
bar = fig.colorbar(mesh, ticks=range(len(names)), pad=0.02)
bar.set_ticklabels([f"{state}: mostly {name}" for state, name in enumerate(names)])
bar.outline.set_visible(False)
ax.set_xticks(range(0, STEPS + 1, 24), [f"{(18 + h) % 24}:00" for h in range(0, 25, 4)])
ax.set_xlabel("time of day")
ax.set_ylabel("day")
ax.invert_yaxis()
plt.show()

# %%
# A diary of three days
# ---------------------
# Somebody writes down the activities of three days. Known states are given as ``y``, with None
# where nothing is known; words name the states. Judged on the days without a diary.

diary = [[ACTIVITIES[a] for a in truth[i]] if i < 3 else [None] * STEPS for i in range(len(days))]
named = sj.HSMM(6, 72, durations="negative_binomial", tol=1e-4, max_iter=40, random_state=0)
named.fit(days, diary)
true = np.concatenate([np.array(ACTIVITIES)[a] for a in truth[3:]])
right = float(np.mean(named.states_[np.concatenate(named.predict(days[3:]))] == true))
print(f"{right:.0%} of the steps of the other days have the right activity")
print(named.summary())

# %%
# How much longer?
# ----------------
# :meth:`sojourn.HSMM.remaining` is the distribution of the remaining steps of the present stay,
# given the events so far. Here it is computed every ten minutes of a typical night. The remaining
# time shrinks during the night, which a hidden Markov model cannot represent: for it every hour of
# the night is like the first. A visit to the bathroom, which might end the night, makes the model
# less certain for a while.

night = 4
sleeping = np.flatnonzero(truth[night] == ACTIVITIES.index("sleep"))
left = model.remaining([days[night][: step + 1] for step in sleeping])
hours = np.arange(left.shape[1]) / 6
expected = left @ hours
middle = [hours[np.searchsorted(row.cumsum(), (0.1, 0.9))] for row in left]
asleep = (sleeping - sleeping[0] + 1) / 6
really = (sleeping[-1] - sleeping) / 6
error = np.abs(expected - really).mean()
print(f"{error:.1f} hours off on average")

fig, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
low, high = np.transpose(middle)
ax.fill_between(asleep, low, high, color=COLORS[1], alpha=0.15, linewidth=0, label="80 % interval")
ax.plot(asleep, expected, color=COLORS[1], label="expected")
ax.plot(asleep, really, color=COLORS[3], linestyle="--", label="actual")
ax.set_xlim(0, asleep[-1])
ax.set_ylim(bottom=0)
ax.set_xlabel("hours in bed")
ax.set_ylabel("remaining hours")
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False)
plt.show()
