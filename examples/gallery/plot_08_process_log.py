"""
When will this case end?
========================

An office handles permits. Each case is a row of activities with times, and people ask: how long
will mine still take? The answer depends on what has happened so far, and it should say how sure it
is.

You will see how to read cases with times, predict their remaining time after each activity, and
check that intervals cover what they promise. The log is simulated, by the function below; with your
own, read it with ``sj.read("log.xes")``.
"""

# %%
# The log
# -------
# A case is registered and checked, is often returned for missing papers, may need an expert, and is
# decided. Waiting for papers or for an expert takes days; the rest takes hours.

import matplotlib.pyplot as plt
import numpy as np

import sojourn as sj

HOURS = {"register": 2, "check": 8, "ask papers": 70, "expert": 120, "decide": 12, "send": 1}


def case(rng):
    """Activities of a case, and the hours at which they happen."""
    done = ["register", "check"]
    while rng.random() < 0.45:
        done += ["ask papers", "check"]
    if rng.random() < 0.3:
        done += ["expert", "check"]
    done += ["decide", "send"]
    waits = rng.gamma(3.0, [HOURS[activity] / 3.0 for activity in done])
    return done, np.concatenate([[0.0], np.cumsum(waits)[:-1]])


rng = np.random.default_rng(0)
cases = [case(rng) for _ in range(900)]
begun = np.datetime64("2026-01-05T08:00", "s") + 3600 * 5 * np.arange(900)
log = sj.Sequences.from_columns(
    symbol=np.concatenate([done for done, _ in cases]),
    id=np.repeat(np.arange(900), [len(done) for done, _ in cases]),
    time=np.concatenate(
        [b + (3600 * hours).astype(int) for b, (_, hours) in zip(begun, cases, strict=True)]
    ),
)
train, held_out, test = log[:400], log[400:700], log[700:]
print(train)

# %%
# What comes next, and how long it takes
# ---------------------------------------
# ``ends=True``: that a case ends is part of the model. ``held_out`` are complete cases that the
# model has not seen, from which the intervals are learned.

model = sj.SpectralHSMM(ends=True).fit(train)
print("next:", model.forecast([["register", "check"]], horizon=2).likeliest[0])
for begin in (["register"], ["register", "check", "expert"], ["register", "check", "decide"]):
    rest = model.remaining_time([begin], held_out=held_out, coverage=0.8)
    print(
        f"{begin[-1]:9} {rest.time[0]:5.0f} {rest.unit}, "
        f"80 % between {rest.low[0]:.0f} and {rest.high[0]:.0f}"
    )

# %%
# Is it right?
# ------------
# After each activity of the test cases: the estimate beside the truth, and how often the interval
# has it.

rows = []
for i, done in enumerate(test):
    hours = cases[700 + i][1]
    rows += [(done[: k + 1], hours[-1] - hours[k]) for k in range(len(done) - 1)]
prefixes, true = [row[0] for row in rows], np.array([row[1] for row in rows])
rest = model.remaining_time(prefixes, held_out=held_out, coverage=0.8)
covered = float(np.mean((rest.low <= true) & (true <= rest.high)))
error = float(np.mean(np.abs(rest.time - true)))
mean_rest = np.mean([cases[i][1][-1] - h for i in range(400) for h in cases[i][1][:-1]])
plain = float(np.mean(np.abs(mean_rest - true)))
print(f"mean error {error:.0f} hours; {plain:.0f} with the mean of all cases")
print(f"the interval contains {covered:.0%} of them")

# %%
# One case, from its first activity to its last: the estimate and its interval against what really
# remained.

one = int(np.flatnonzero(test.lengths == 8)[0])
hours, done = cases[700 + one][1], test[one]
left = model.remaining_time(
    [done[: k + 1] for k in range(len(done) - 1)], held_out=held_out, coverage=0.8
)
fig, ax = plt.subplots(figsize=(8, 3.8), layout="constrained")
at = hours[:-1] / 24
ax.fill_between(
    at,
    left.low / 24,
    left.high / 24,
    step="post",
    alpha=0.2,
    color="#4a7de0",
    label="80 % interval",
    linewidth=0,
)
ax.step(at, left.time / 24, where="post", color="#4a7de0", label="estimate")
ax.plot(at, (hours[-1] - hours[:-1]) / 24, "o--", color="#d9822b", label="what really remained")
for x, name in zip(at, done, strict=False):
    ax.annotate(
        name,
        (x, 0),
        (0, -4),
        textcoords="offset points",
        rotation=90,
        size=8,
        va="top",
        ha="center",
        annotation_clip=False,
    )
ax.set(ylabel="remaining days", ylim=(0, None))
ax.set_xticks([])
ax.set_xlabel("activities of the case, in time", labelpad=62)
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False)
plt.show()
