"""A long test: random estimators, data, interrupts, saves, loads and streams, beside serial twins.

First every kind of fit is stopped at 50 moments by an interrupt, and by an error at 400 lines.
Each trial has a seed of its own, which is shown with a failure and reproduces it:
``python tests/soak.py --moments 0 --seed 1234 --trials 1``.
"""

import argparse
import json
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE / "estimators"), str(HERE / "persist")]

from damage import fuzz_semantic  # noqa: E402
from test_crafted_files import check_detector, check_model  # noqa: E402
from test_interrupted_fits import (  # noqa: E402
    EVERY,
    interrupted,
    state,
    stop_by_errors,
    stop_by_interrupts,
    stopped_at_line,
)

import sojourn as sj  # noqa: E402

ROUNDING = 1e-9


def random_data(rng):
    """Sequences of random sizes, some with missing symbols, of integers or words."""
    n_o = int(rng.integers(2, 12))
    params = sj.Params.random(int(rng.integers(1, 4)), int(rng.integers(1, 6)), n_o, rng=rng)
    n = int(rng.integers(25, 80))
    drawn = params.sample(n, rng.integers(2, 40, n), rng=rng)
    codes = np.where(rng.random(drawn.n_total) < rng.choice([0.0, 0.1]), -1, drawn.codes)
    words = np.array([f"w{i:02d}" for i in range(n_o)])
    vocabulary = words if rng.random() < 0.5 else drawn.vocabulary
    return sj.Sequences(codes.astype(np.int32), drawn.offsets, vocabulary, drawn.ids)


def random_model(rng, n_jobs):
    """A function that makes the same estimator again and again."""
    n_x, n_d = int(rng.integers(1, 4)), int(rng.integers(1, 6))
    kind, ends = int(rng.integers(8)), bool(rng.random() < 0.3)
    init = str(rng.choice(["random", "moments", "spectral"]))
    short = {"max_iter": int(rng.integers(1, 6)), "init": init, "random_state": 0}

    def hsmm(**options):
        return sj.HSMM(n_x, n_d, n_jobs=n_jobs, **short, **options)

    def detector(model):
        method = ("residual", "loglik", "typicality")[kind % 3]
        return sj.AnomalyDetector(model, contamination=0.2, cv=2, method=method)

    algorithm = ("adjacent", "pooled", "per_step")[kind % 3]
    makers = (
        lambda: hsmm(ends=ends),
        lambda: hsmm(left_censored=True),
        lambda: hsmm(durations="poisson"),
        lambda: sj.SpectralHSMM(n_jobs=n_jobs, ends=ends),
        lambda: sj.SpectralHSMM(n_x, min(n_d, 3), algorithm=algorithm, n_jobs=n_jobs),
        lambda: sj.ContextTree(n_jobs=n_jobs, ends=ends),
        lambda: detector(hsmm()),
        lambda: detector(sj.SpectralHSMM(n_jobs=n_jobs)),
    )
    return makers[kind]


def learned(model):
    """All that was learned, which does not depend on the number of threads."""
    found = {name: value for name, value in vars(model).items() if name.endswith("_")}
    for inner in (found.get("model_"), *found.get("fold_models_", ())):
        if inner is not None:
            inner.set_params(n_jobs=None)
    return state(found)


def trial_threads(rng, seed, X, _):
    """The same bits for any number of threads."""
    a, b = (random_model(np.random.default_rng(seed), n)().fit(X) for n in (1, 3))
    assert learned(a) == learned(b)


def trial_interrupt(rng, seed, X, _):
    """An interrupt at a random moment leaves a model as it was."""
    make = random_model(np.random.default_rng(seed), 2)
    model, twin = make().fit(X), make().fit(X)
    began = time.perf_counter()
    twin.fit(X[::2])
    before, after = state(model), state(twin)
    interrupted(lambda: model.fit(X[::2]), float(rng.uniform(0, time.perf_counter() - began)))
    assert state(model) in (before, after)
    assert state(model.fit(X[::2])) == after


def trial_error(rng, seed, X, _):
    """An error at a random line leaves a model as it was."""
    make = random_model(np.random.default_rng(seed), 1)
    model, twin = make(), make()
    before = state(model)
    total = stopped_at_line(0, lambda: twin.fit(X))
    stopped_at_line(int(rng.integers(1, total + 1)), lambda: model.fit(X))
    assert state(model) in (before, state(twin))


def trial_file(rng, seed, X, folder):
    """A saved model scores to the same bits; what is crafted is refused or stays a model."""
    model = random_model(np.random.default_rng(seed), 1)().fit(X)
    model.save(folder / "model")
    again = sj.load(folder / "model")
    assert np.array_equal(again.score_samples(X), model.score_samples(X))

    def check(loaded):
        known = np.array_equal(loaded.vocabulary_, X.vocabulary)
        Y = X if known else sj.Sequences(X.codes, X.offsets, loaded.vocabulary_, X.ids)
        detector = isinstance(loaded, sj.AnomalyDetector)
        (check_detector if detector else check_model)(loaded, Y[:3])

    with np.errstate(all="ignore"):
        fuzz_semantic(model, folder / "crafted", 20, seed, check)


def trial_stream(rng, seed, X, _):
    """A stream that is forked, stopped and restored gives the surprise of the batch."""
    model = random_model(np.random.default_rng(seed), 1)().fit(X)
    model = getattr(model, "model_", model)
    i = int(rng.integers(len(X)))
    expected, symbols = model.surprise(X[i : i + 1])[0], X[i]
    stream, found = model.stream(), []
    for symbol in symbols:
        if rng.random() < 0.2:
            stream = model.stream().restore(json.loads(json.dumps(stream.snapshot())))
        if rng.random() < 0.2:
            stream.fork().update_many(X[0])
        found.append(stream.update(symbol))
    assert np.array_equal(found, expected[: len(symbols)])
    p = stream.predict()
    assert (p >= 0).all()
    assert abs(p.sum() - 1) < ROUNDING


TRIALS = (trial_threads, trial_interrupt, trial_error, trial_file, trial_stream)


def run(seed, folder):
    """One trial; the name of what was tried."""
    rng = np.random.default_rng(seed)
    trial = TRIALS[int(rng.integers(len(TRIALS)))]
    X = random_data(rng)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # random models deserve most of them
        try:
            trial(rng, seed, X, folder)
        except sj.SojournError as error:  # some random data are rightly refused
            return f"{trial.__name__}, refused: {str(error)[:60]}"
    return trial.__name__


def stop_every_fit(moments):
    """Stop fits of every kind, first and second ones; how often."""
    counts = Counter()
    for name in EVERY:
        for refit in (False, True):
            counts[f"errors, {name}"] += stop_by_errors(name, refit, 8 * moments)
            counts[f"interrupts, {name}"] += stop_by_interrupts(name, refit, moments)
    return counts


def main():
    """Run trials until the time is up or one fails."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--trials", type=int, default=10**9)
    parser.add_argument("--seed", type=int, default=None, help="of the first trial")
    parser.add_argument("--moments", type=int, default=50, help="to stop each kind of fit at")
    args = parser.parse_args()
    seed = int(time.time()) if args.seed is None else args.seed
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    for name, n in stop_every_fit(args.moments).items():
        print(f"{n:6d}  {name}", flush=True)
    end, counts, failed = time.monotonic() + 60 * args.minutes, Counter(), []
    with tempfile.TemporaryDirectory() as folder:
        while sum(counts.values()) < args.trials and time.monotonic() < end:
            try:
                counts[run(seed, Path(folder))] += 1
            except KeyboardInterrupt:
                break
            except Exception:
                counts["failed"] += 1
                failed.append(seed)
                traceback.print_exc()
                print(
                    f"failed: python tests/soak.py --moments 0 --seed {seed} --trials 1", flush=True
                )
            seed += 1
    for name, n in sorted(counts.items()):
        print(f"{n:6d}  {name}")
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(
        f"{sum(counts.values())} trials, {len(failed)} failed {failed or ''}, {memory} MiB at most"
    )
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
