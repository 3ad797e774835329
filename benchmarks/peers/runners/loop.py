"""What every runner does: take jobs from files, time them, write the results to files.

This runs in a peer's own environment, beside the script that imports it, and needs only numpy.
A runner gives a class whose objects are made from tables ``(start, transition, emission)`` and
training sequences (n, length), and which can ``iterate(k)`` EM steps and ``score`` sequences one by
one; where scoring them together is faster, ``total`` does that.

Times are of the processor, with those of the clock beside them: on a shared machine only the first
can be compared.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from pathlib import Path

import numpy as np

# EM has settled when this many iterations gained less than this, in nats per symbol.
SETTLED, OVER = 1e-5, 20
ANSWER = "@ "  # begins a line that is meant for the harness; what peers print does not
MOST = 16  # iterations between two looks at the held-out sequences


class Watch:
    """Time of the processor and of the clock, while running."""

    def __init__(self):
        self.cpu = self.wall = 0.0

    def __enter__(self):
        self._began = time.process_time(), time.perf_counter()
        return self

    def __exit__(self, *_):
        self.cpu += time.process_time() - self._began[0]
        self.wall += time.perf_counter() - self._began[1]


def forget_peak():
    """Let the peak of memory begin anew, where the system can."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_mb():
    """The most memory that this process has held, in MB."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) / 1024
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1024 if sys.platform != "darwin" else 1024**2)


def tables(data, job):
    """Tables of the model that a job starts from, in the order of the file."""
    return tuple(data[key] for key in data if key.startswith(f"{job['model']}{job['seed']}_"))


def per_symbol(scores, length):
    """Log-likelihood per symbol of each sequence, with what JSON cannot hold as None."""
    values = np.asarray(scores, dtype=float) / length
    return [float(v) if np.isfinite(v) else None for v in values]


def warm(Model, data, job, train, done=set()):  # noqa: B006  (it is meant to be kept)
    """One iteration that does not count, the first time: what compiles, compiles for a shape."""
    key = (job["model"], train.shape)
    if key not in done:
        Model(tables(data, job), train).iterate(1)
        done.add(key)


def time_em(Model, data, job):
    """Seconds per iteration and symbol, after iterations that do not count."""
    train = data["train"][: job["sequences"]]
    warm(Model, data, job, train)
    forget_peak()
    model = Model(tables(data, job), train)
    with Watch() as watch:
        model.iterate(job["iterations"])
    n = job["iterations"] * train.size
    return {"cpu": watch.cpu / n, "wall": watch.wall / n, "peak": peak_mb()}


def time_score(Model, data, job):
    """Seconds per symbol of scoring, after a run that does not count."""
    test = data["test"][: job["sequences"]]
    model = Model(tables(data, job), data["train"][:1])
    score = getattr(model, "total", model.score)
    score(test)
    forget_peak()
    with Watch() as watch:
        score(test)
    return {"cpu": watch.cpu / test.size, "wall": watch.wall / test.size, "peak": peak_mb()}


def fit(Model, data, job):
    """EM until it settles or its time is up, with looks at the held-out sequences.

    The looks are not timed. The model that did best on the held-out sequences stands for the run,
    as if one had known when to stop.
    """
    train, test = data["train"][: job["sequences"]], data["test"]
    warm(Model, data, job, train)
    forget_peak()
    model = Model(tables(data, job), train)
    watch, points, best, done = Watch(), [], None, 0
    while done < job["iterations"] and watch.cpu < job["budget"]:
        chunk = min(max(1, done), MOST, job["iterations"] - done)
        if done:  # no more than there is time for
            chunk = max(1, min(chunk, int((job["budget"] - watch.cpu) * done / watch.cpu)))
        with watch:
            model.iterate(chunk)
        done += chunk
        scores = model.score(test)
        points.append((done, watch.cpu, watch.wall, float(np.mean(scores)) / test.shape[1]))
        if best is None or points[-1][3] > max(p[3] for p in points[:-1]):
            best = scores
        before = [p[3] for p in points if p[0] <= done - OVER]
        if before and points[-1][3] - before[-1] < SETTLED:
            break
    return {"points": points, "held_out": per_symbol(best, test.shape[1]), "peak": peak_mb()}


TASKS = {"em": time_em, "score": time_score, "fit": fit}


def serve(Model, version, tasks=TASKS):
    """Do the jobs whose files are named on standard input, one after another.

    A task that a runner does not have gives an empty result.
    """
    print(f"{ANSWER}{version}", flush=True)
    data, held = None, None
    for line in sys.stdin:
        job = json.loads(Path(line.strip()).read_text())
        if held != job["data"]:
            with np.load(job["data"], allow_pickle=False) as file:
                data, held = dict(file), job["data"]
        try:
            result = tasks[job["task"]](Model, data, job) if job["task"] in tasks else {}
        except Exception as error:  # a peer may fail in any way; it is reported
            result = {"error": f"{type(error).__name__}: {error}"[:300]}
        Path(job["result"]).write_text(json.dumps(result))
        print(f"{ANSWER}done", flush=True)
