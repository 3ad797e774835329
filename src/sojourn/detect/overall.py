"""A reason for a score that no single step, symbol or stay explains: a sentence about the view."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sojourn.data.sequences import Sequences
from sojourn.data.signals import Signals
from sojourn.detect.norms import Norms
from sojourn.detect.numbers import blank_like, state_names, surprises
from sojourn.exact.expected_counts import expected_counts_each

Floats = NDArray[np.float64]

CLEAR = 1.0  # standard deviations of what the model expects, below which nothing stands out
WHAT = {
    "likelihood": "its symbols are improbable as a whole",
    "stretch": "its most surprising ten steps in a row are unusual",
    "surprise": "the surprise of its symbols is unusual as a whole",
    "symbol surprise": "the surprise of its symbols, each by itself, is unusual as a whole",
    "contexts": "the order of its symbols is unusual as a whole",
    "novelty": "some symbols follow what they never or hardly ever follow",
    "pair": "its pairs of neighbouring symbols are unusual as a whole",
    "symbol": "how often its symbols occur is unusual as a whole",
    "course": "how often its symbols occur in each quarter is unusual as a whole",
    "timing": "where its symbols occur is unusual as a whole",
    "state": "the times at which it is in each state are unusual as a whole",
    "transition": "its changes between states are unusual as a whole",
    "stay": "its stays (how long states last) are unusual as a whole",
    "emission": "the symbols of its states are unusual as a whole",
    "end": "the symbols that it ends with are unusual",
    "length": "its length is unusual",
}


def largest(view: str, model: Any, norms: Norms, one: Sequences) -> str:
    """What differs most from what is expected; nothing for views that have no such thing."""
    if view in ("likelihood", "surprise", "symbol surprise"):
        steps = np.concatenate(surprises(model, one)[0])
        mean = steps[np.isfinite(steps)].sum() / max(int(one.n_observed.sum()), 1)
        return f"{mean:.2g} nats per symbol; normal steps have {norms.surprise[0]:.2g}"
    if view == "length":
        return f"{len(one.codes):,} steps"
    if view == "symbol":
        return _symbol(norms, one)
    if view in ("stay", "transition") and model.has_states:
        return _of_states(view, model, one)
    return ""


def _symbol(norms: Norms, one: Sequences) -> str:
    part = np.bincount(one.codes[one.codes >= 0], minlength=one.n_symbols)
    part = part / max(part.sum(), 1)
    k = int(np.argmax(np.abs(np.sqrt(part) - norms.share[0]) / norms.share[1]))
    usual = norms.share[0, k] ** 2
    return f"{one.vocabulary[k]} is {100 * part[k]:.0f} % of it, normally about {100 * usual:.0f} %"


def _of_states(view: str, model: Any, one: Sequences) -> str:
    """The change, or the stays, furthest from what the model expects of a sequence as long."""
    params, how = model.params_, {"initial": model.initial_, "n_jobs": model.n_jobs}
    blank = blank_like(one, one.lengths)
    seen, usual = (expected_counts_each(params, some, **how)[0] for some in (one, blank))
    names = state_names(model)
    if view == "transition":
        there, expected = seen.transition, usual.transition  # (n_x, n_x)
        z = (there - expected) / np.sqrt(expected + 1)
        x, y = divmod(int(np.argmax(np.abs(z))), len(z))
        if abs(z[x, y]) < CLEAR:
            return ""
        return (
            f"from {names[x]} to {names[y]} {there[x, y]:.1f} times, where the model expects "
            f"{expected[x, y]:.1f}"
        )
    d = np.tile(np.arange(1.0, params.max_duration + 1), (params.n_states, 1))
    d[:, -1] += params.steps_beyond  # (n_x, n_d)
    stays = seen.duration + seen.initial  # (n_x, n_d)
    count, mean = stays.sum(axis=1), params.mean_durations  # (n_x,)
    spread = np.sqrt(np.maximum((params.duration * d**2).sum(axis=1) - mean**2, 0) + 1)
    z = (stays * (d - mean[:, None])).sum(axis=1) / spread / np.sqrt(count + 1)
    x = int(np.argmax(np.abs(z)))
    if abs(z[x]) < CLEAR:
        return ""
    last = (stays[x] * d[x]).sum() / max(count[x], 1e-9)
    return f"in {names[x]} they last {last:.1f} steps, where the model expects {mean[x]:.1f}"


def sentence(view: str, model: Any, norms: Norms, one: Sequences) -> str:
    """A view as a whole, and its largest deviation."""
    most = "" if isinstance(one, Signals) else largest(view, model, norms, one)
    return WHAT[view] + (f": {most}" if most else "")
