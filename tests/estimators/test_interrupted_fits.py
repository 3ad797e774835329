"""A fit that is interrupted changes nothing: an estimator is as before, whatever stopped it."""

import signal
import sys
import time
from dataclasses import fields, is_dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import sojourn as sj

PACKAGE = str(Path(sj.__file__).parent)
# Where learned state is put together: an error is raised at lines of these, and of nothing below.
OUTER = tuple(f"{PACKAGE}/{part}" for part in ("estimators/", "detect/", "data/discretize"))
FIRST = sj.Params.random(2, 3, 4, rng=0).sample(12, 20, rng=1)
SECOND = sj.Params.random(2, 3, 4, rng=5).sample(12, 30, rng=2)
NUMBERS = np.random.default_rng(0).normal(size=(2, 60))
SMALL = {"max_iter": 1, "init": sj.Params.random(2, 3, 4, rng=7), "n_jobs": 1}
STOPS = 5  # random moments in a fit; `make soak` begins with 50 of each kind


class StopError(Exception):
    pass


def fits(name):
    """An unfitted estimator, and two fits of it."""

    def sequences(model):
        return model, lambda: model.fit(FIRST), lambda: model.fit(SECOND)

    def numbers(model):
        return model, lambda: model.fit(NUMBERS[0]), lambda: model.fit(NUMBERS[1])

    if name == "partial_fit":
        model = sj.SpectralHSMM(2, 2, n_jobs=1)
        more = sj.Sequences(SECOND.codes, SECOND.offsets, SECOND.vocabulary, SECOND.ids + 100)
        return model, lambda: model.partial_fit(FIRST), lambda: model.partial_fit(more)
    if name == "HSMM numbers":
        model = sj.HSMM(2, 2, max_iter=2, random_state=0, n_jobs=1)
        halves = NUMBERS.reshape(2, 6, 10, 1)
        return model, lambda: model.fit(halves[0]), lambda: model.fit(halves[1])
    if name == "SpectralHSMM numbers":
        model = sj.SpectralHSMM(2, 2, n_jobs=1)
        halves = NUMBERS.reshape(2, 6, 10, 1)
        return model, lambda: model.fit(halves[0]), lambda: model.fit(halves[1])
    if name == "select":  # keeps nothing: it must leave no trace in the data
        chosen = partial(sj.select, FIRST, [1], [2], method="spectral", cv=2)
        return FIRST, chosen, chosen
    rate = {"contamination": 0.2, "cv": 2}
    return {
        "HSMM": lambda: sequences(sj.HSMM(2, 3, **SMALL)),
        "SpectralHSMM": lambda: sequences(sj.SpectralHSMM(2, 2, n_jobs=1)),
        "SpectralHSMM pooled": lambda: sequences(
            sj.SpectralHSMM(2, 2, algorithm="pooled", n_jobs=1)
        ),
        "ContextTree": lambda: sequences(sj.ContextTree(n_jobs=1)),
        "AnomalyDetector": lambda: sequences(sj.AnomalyDetector(sj.HSMM(2, 3, **SMALL), **rate)),
        "AnomalyDetector spectral": lambda: sequences(
            sj.AnomalyDetector(sj.SpectralHSMM(2, 2, n_jobs=1), method="typicality", **rate)
        ),
        "Discretizer": lambda: numbers(sj.Discretizer(3)),
        "Discretizer kmeans": lambda: numbers(sj.Discretizer(2, "kmeans", random_state=0)),
    }[name]()


EVERY = (
    *(
        "HSMM",
        "HSMM numbers",
        "SpectralHSMM",
        "SpectralHSMM numbers",
        "SpectralHSMM pooled",
        "partial_fit",
        "ContextTree",
    ),
    *("AnomalyDetector", "AnomalyDetector spectral", "Discretizer", "Discretizer kmeans", "select"),
)


def state(value):
    """All that an object holds, down to the bytes of its arrays, as plain values."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, dict):
        return {name: state(item) for name, item in value.items() if name != "_model"}
    if isinstance(value, list | tuple):
        return [state(item) for item in value]
    if is_dataclass(value):  # without what it computes when asked
        found = {field.name: getattr(value, field.name) for field in fields(value)}
        return type(value).__name__, state(found)
    if hasattr(value, "__dict__") and type(value).__module__.startswith("sojourn"):
        return type(value).__name__, state(vars(value))
    return repr(value)


def stopped_at_line(number, run):
    """Run, and raise an error at the n-th line of the outer modules; how many lines there were."""
    count = 0

    def at_line(frame, event, _):
        nonlocal count
        if event == "line":
            count += 1
            if count == number:
                sys.settrace(None)
                raise StopError
        return at_line

    def at_call(frame, event, _):
        return at_line if frame.f_code.co_filename.startswith(OUTER) else None

    sys.settrace(at_call)
    try:
        run()
    except StopError:
        assert count == number
    finally:
        sys.settrace(None)
    return count


def prepared(name, refit):
    """An estimator and the fit to be stopped, its first or its second."""
    model, first, second = fits(name)
    if not refit:
        return model, first
    first()
    return model, second


def stop_by_errors(name, refit, stops):
    """Stop a fit at random lines and at each of the last, where results are kept; how often."""
    (model, fit), (twin, learn) = prepared(name, refit), prepared(name, refit)
    before = state(model)
    total = stopped_at_line(0, learn)  # counted on a twin
    learned = state(twin)
    some = np.random.default_rng(0).choice(total, min(total, stops), replace=False) + 1
    numbers = sorted({*some.tolist(), *range(max(total - 10, 1), total + 1)})
    for number in numbers:
        stopped_at_line(number, fit)
        found = state(model)
        assert found in (before, learned), f"half a fit, stopped at line {number} of {total}"
        if found == learned:
            model, fit = prepared(name, refit)
    return len(numbers)


def interrupted(fit, moment):
    """Run a fit with an interrupt after some seconds; whether it came before the end."""
    came = []

    def interrupt(*signalled):
        came.append(True)
        signal.default_int_handler(*signalled)

    signal.signal(signal.SIGALRM, interrupt)
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, max(moment, 1e-6))
            fit()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        return True
    except (SystemError, TypeError):  # by numba and numpy, where it came inside them
        if not came:
            raise
        return True
    return False


def stop_by_interrupts(name, refit, stops):
    """Interrupt a fit at random moments, as Ctrl-C does; how many came before its end."""
    (model, fit), (twin, learn) = prepared(name, refit), prepared(name, refit)
    before, began = state(model), time.perf_counter()
    learn()
    seconds, learned, came = time.perf_counter() - began, state(twin), 0
    handler = signal.getsignal(signal.SIGALRM)
    try:
        for moment in np.random.default_rng(0).uniform(0, seconds, 4 * stops):
            if came == stops:
                break
            came += interrupted(fit, float(moment))
            found = state(model)
            assert found in (before, learned), f"half a fit, interrupted after {moment:.6f} s"
            if found == learned:
                model, fit = prepared(name, refit)
    finally:
        signal.signal(signal.SIGALRM, handler)
    return came


@pytest.mark.parametrize("refit", [False, True], ids=["first fit", "second fit"])
@pytest.mark.parametrize("name", EVERY)
def test_an_error_at_any_line_of_a_fit_leaves_the_estimator_as_it_was(name, refit):
    assert stop_by_errors(name, refit, STOPS)


# What others had open when the interrupt came is closed a little later.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("name", EVERY)
def test_an_interrupt_at_any_moment_of_a_fit_leaves_the_estimator_as_it_was(name):
    assert stop_by_interrupts(name, True, STOPS)
