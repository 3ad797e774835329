"""Why a sequence is unusual, in words: what it lacks, has too much of, or does too long.

A `Reason` is one way in which a sequence leaves the `Norms` of normal ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from sojourn.data.adapters import name_of
from sojourn.data.sequences import Sequences
from sojourn.data.signals import Signals
from sojourn.detect.contexts import Contexts
from sojourn.detect.norms import MOST, Norms, first_steps
from sojourn.detect.novelty import Encoded
from sojourn.detect.numbers import far_values, state_names
from sojourn.detect.overall import WHAT, sentence
from sojourn.detect.residuals import symbol_counts
from sojourn.errors import SojournError
from sojourn.exact.viterbi import Segment

Floats = NDArray[np.float64]

MOST_CONTEXTS = 5  # contexts that become reasons
# Which views each kind of reason is of.
VIEWS_OF = {
    "novel": ("novelty", "contexts"),
    "symbol": ("symbol", "course", "timing", "pair"),
    "surprise": ("likelihood", "stretch", "surprise", "symbol surprise", "emission"),
    "context": ("contexts", "novelty", "pair"),
    "stay": ("stay", "transition"),  # what stays too long changes too rarely
    "state": ("state",),
    "transition": ("transition",),
    "end": ("end",),
    "length": ("length",),
}
NOVEL = 100.0  # weight of a novel symbol, before every other reason
LEAD = 0.5  # part in the evidence from which a view carries the score ...
UNUSUAL = 0.1  # ... of a sequence with such a p-value or less
NOTABLE = 2.5  # standard deviations from which something is a reason


@dataclass(frozen=True)
class Reason:
    """One way in which a sequence is unusual.

    Attributes
    ----------
    kind : str
        "novel", "symbol", "surprise", "context", "stay", "state", "transition", "end" or "length".
    text : str
        A sentence; it counts steps from 1.
    weight : float
        How unusual it is, in standard deviations of normal sequences.
    start, stop : int or None
        The steps concerned, from 0, `stop` not among them; None if it concerns all of the sequence.
    brief : str
        A few words without numbers, the same for all sequences with such a reason.
    """

    kind: str
    text: str
    weight: float
    start: int | None = None
    stop: int | None = None
    brief: str = ""


@dataclass(frozen=True)
class Explanation:
    """Where and why a sequence is unusual.

    Attributes
    ----------
    id : str or int
    score : float
        As in `AnomalyDetector.score_samples`; lower is more unusual.
    pvalue : float
        Share of normal sequences that are as unusual.
    steps : tuple of int
        Positions of the most surprising steps, from 0, worst first.
    reasons : tuple of Reason
        Worst first.
    views : dict
        The part of each kind of evidence in the score; their sum is one. Empty unless the
        detector's method is "combined".

    Examples
    --------
    >>> why = Reason("symbol", "flaps_down never occurs", 4.0)
    >>> print(Explanation("f7", -8.0, 0.01, (3, 9), (why,)))
    f7: p-value 0.01
      - flaps_down never occurs
      most surprising steps: 4, 10
    """

    id: str | int
    score: float
    pvalue: float
    steps: tuple[int, ...]
    reasons: tuple[Reason, ...]
    views: dict[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [f"{self.id}: p-value {self.pvalue:.2g}"]
        lines += [f"  - {reason.text}" for reason in self.reasons]
        if self.steps:
            numbers = ", ".join(str(step + 1) for step in self.steps)
            lines.append(f"  most surprising steps: {numbers}")
        return "\n".join(lines)


def explain(
    model: Any,
    norms: Norms,
    contexts: Contexts,
    encoded: Encoded,
    most: int,
    shares: list[dict[str, float]],
    pvalues: list[float],
    stretch: tuple[int, int] | None = None,
) -> list[tuple[tuple[int, ...], tuple[Reason, ...]]]:
    """The most surprising steps, and the reasons, of each sequence: at most `most` of both."""
    found, sequences = [], encoded.known
    novel = np.split(encoded.novel_steps(norms.first[0] > 0), sequences.offsets[1:-1])
    for i, surprise in enumerate(model.surprise(sequences)):
        one, given = sequences[i : i + 1], encoded.given[i : i + 1]
        steps = np.where(novel[i], np.inf, surprise[: len(one.codes)])
        first, stop = stretch or (0, len(steps))
        if stretch and not 0 <= first < stop <= len(steps):
            raise SojournError(
                f"stretch is {tuple(stretch)}, and {name_of(i, sequences.ids)} has {len(steps)} "
                f"steps; expected a start of at least 0 and a larger stop of at most {len(steps)}"
            )
        order = [int(t) for t in np.argsort(-steps, kind="stable") if first <= t < stop]
        order = [t for t in order if given.codes[t] >= 0][:most]
        known = [t for t in order if not novel[i][t]]
        reasons = [*_of_length(norms, len(one.codes))]
        if isinstance(one, Signals):
            far = far_values(model, one) if np.isfinite(surprise).all() else ()
            reasons += [Reason("surprise", *found_there) for found_there in far]
        else:
            reasons += [*_of_novelty(given, novel[i]), *_of_symbols(norms, one)]
            reasons += _of_surprise(norms, one, steps, known)
            reasons += _of_contexts(contexts, Encoded(one, given), novel[i])
        if model.has_states and np.isfinite(surprise).all():
            (stays,) = model.segments(one)
            names = state_names(model)
            reasons += [*_of_stays(norms, names, stays), *_of_occupancy(norms, names, stays)]
        if stretch:
            reasons = [r for r in reasons if r.start is not None and first <= r.start < stop]
        worth = [reason for reason in reasons if reason.weight >= NOTABLE]
        moved = isinstance(one, Signals) and any(r.kind == "surprise" for r in worth)
        lead = "" if stretch or moved else _lead(shares[i], pvalues[i])  # far values move all views
        if lead and not any(_is_of(reason, lead) for reason in worth):
            kinds = [k for k, names in VIEWS_OF.items() if lead in names and k != "novel"]
            kind = min(kinds, key=lambda k: VIEWS_OF[k].index(lead))
            text = sentence(lead, model, norms, one)
            worth.append(Reason(kind, text, _odds(pvalues[i]), brief=WHAT[lead]))
        worth = worth or sorted(reasons, key=lambda reason: -reason.weight)[:1]
        worth.sort(key=lambda r: -r.weight * (1 + 2 * _share(r, shares[i])))
        first_of = next((r for r in worth if lead and _is_of(r, lead)), None)
        worth.sort(key=lambda r: (r.kind != "novel", r is not first_of))  # the others as they are
        found.append((tuple(order), tuple(worth[:most])))
    return found


def _lead(shares: dict[str, float], pvalue: float) -> str:
    """The view that carries the score of an unusual sequence, if one does."""
    view = max(shares, key=shares.__getitem__, default="")
    return view if shares.get(view, 0.0) > LEAD and pvalue <= UNUSUAL else ""


def _is_of(reason: Reason, view: str) -> bool:
    """Whether a reason can be why a view is far from normal."""
    return reason.kind == "novel" or view in VIEWS_OF[reason.kind]


def _share(reason: Reason, shares: dict[str, float]) -> float:
    """The part in the evidence of the views that a reason is of."""
    return sum(shares.get(name, 0.0) for name in VIEWS_OF[reason.kind])


def _of_contexts(
    contexts: Contexts, encoded: Encoded, novel: NDArray[np.bool_]
) -> Iterator[Reason]:
    """Symbols, or an end, after a past that normal sequences have often and never continue so."""
    after, one = contexts.follows(encoded), encoded.given
    for t in np.argsort(-after.novelty, kind="stable")[:MOST_CONTEXTS].tolist():
        depth, times, last = int(after.depth[t]), int(after.times[t]), t == len(one.codes)
        if depth < 1 or times < 10 or (not last and novel[t]):
            continue
        past = one.codes[max(t - depth, 0) : t].tolist()
        words = ["the start"] * (depth > t) + [str(one.vocabulary[code]) for code in past]
        shown = ", ".join(words if len(words) <= 3 else ["…", *words[-3:]])
        kind, what, rest = "end", "the sequence ends", "end there"
        brief = "ends where normal sequences do not"
        if not last:
            symbol = one.vocabulary[one.codes[t]]
            kind, what, rest = "context", f"{symbol} at step {t + 1}", "continue so"
            brief = f"{symbol} where it is not expected"
        text = f"{what} after {shown}, which normal sequences have {times:,} times and never {rest}"
        place = max(min(t - depth, len(one.codes) - 1), 0), min(t + 1, len(one.codes))
        yield Reason(kind, text, _odds(1 / (times + 1.0)) + 0.5, *place, brief)


def _of_length(norms: Norms, length: int) -> Iterator[Reason]:
    mean, spread, low, high = norms.length
    if not low <= length <= high:
        usual = f"at least {low:.0f}" if length < low else f"at most {high:.0f}"
        noun = "step" if length == 1 else "steps"
        text = f"has {length:,} {noun}; 99 % of normal sequences have {usual}"
        weight = float(abs(np.log1p(length) - mean) / spread)
        yield Reason("length", text, weight, brief="too short" if length < low else "too long")


def _of_novelty(given: Sequences, novel: NDArray[np.bool_]) -> Iterator[Reason]:
    """Symbols that normal sequences never have."""
    for code in np.unique(given.codes[novel]).tolist():
        here = novel & (given.codes == code)
        start, count = int(here.argmax()), int(here.sum())
        stop = start + int(np.append(here[start:], False).argmin())  # the first run of it
        text = f"{given.vocabulary[code]} occurs, {_times(count)}, first at step {start + 1}"
        weight = NOVEL + float(np.log(count))
        text, brief = f"{text}; in normal sequences it never does", "never seen in training"
        yield Reason("novel", text, weight, start, stop, f"{given.vocabulary[code]} {brief}")


def _of_symbols(norms: Norms, one: Sequences) -> Iterator[Reason]:
    counts = symbol_counts(one)[0]
    part = counts / max(counts.sum(), 1)
    mean, spread, low, high = norms.share
    z = (np.sqrt(part) - mean) / spread
    has, by, spread_first = norms.first
    first = first_steps(one.codes, one.n_symbols)
    for k, symbol in enumerate(one.vocabulary.tolist()):
        times = _times(counts[k])
        if counts[k] == 0:
            if has[k] > 0.5:
                share = _percent(min(MOST, np.floor(100 * has[k]) / 100), 0)
                text = f"{symbol} never occurs; {share} of normal sequences have it by step "
                text += f"{by[k] + 1:.0f}"
                # Missing where nearly all have it is worth more than its small share suggests.
                weight = max(-z[k], _odds(1 - has[k]))
                yield Reason("symbol", text, float(weight), brief=f"{symbol} is missing")
            continue
        if has[k] == 0:  # novel
            continue
        if much := _outside(part[k], low[k], high[k]):
            text = f"{symbol} is {_percent(part[k])} of the sequence ({times}); in 99 % of normal"
            text = f"{text} ones it is {much}"
            brief = f"too {'much' if part[k] > high[k] else 'little'} {symbol}"
            if high[k] == 0:
                text = f"{symbol} occurs, {times}; 99 % of normal sequences do not have it"
            yield Reason("symbol", text, float(abs(z[k])), brief=brief)
        if has[k] >= MOST and first[k] > by[k]:
            late = (np.log1p(first[k]) - np.log1p(by[k])) / spread_first[k] + 2.33
            stop, usual = int(first[k]) + 1, int(by[k]) + 1
            text = f"{symbol} first occurs at step {stop}; 99 % of normal sequences have it"
            text, brief = f"{text} by step {usual}", f"{symbol} comes late"
            yield Reason("symbol", text, float(late), 0, stop, brief)


def _of_surprise(norms: Norms, one: Sequences, steps: Floats, order: list[int]) -> Iterator[Reason]:
    mean, spread = norms.surprise
    for t in order:
        symbol, p = one.vocabulary[one.codes[t]], float(np.exp(-steps[t]))
        text = f"is surprising: its probability under the model was {p:.1g}"
        if not np.isfinite(steps[t]):
            text = "is impossible under the model, after what came before"
        # The distribution of surprises has a long tail: that of the roots is nearer to normal.
        weight = (np.sqrt(min(steps[t], 1e3)) - np.sqrt(mean)) / max(np.sqrt(spread) / 2, 0.1)
        text, brief = f"{symbol} at step {t + 1} {text}", f"{symbol} where it is not expected"
        yield Reason("surprise", text, float(weight), t, t + 1, brief)


def _of_stays(norms: Norms, names: list[str], stays: list[Segment]) -> Iterator[Reason]:
    """Stays that are too long or too short, and rare transitions."""
    mean, spread, low, high = norms.stays
    for stay, following in zip_longest(stays, stays[1:]):
        start, length, x = stay[:3]
        stop = start + length
        z = float((np.log(length) - mean[x]) / spread[x])
        steps = "1 step" if length == 1 else f"{length} steps"
        if length > high[x]:
            text = f"stays {steps} in {names[x]}; 99 % of normal stays there end within"
            brief = f"too long in {names[x]}"
            yield Reason("stay", f"{text} {high[x]:.0f}", z, start, stop, brief)
        if following is None:  # the last stay is cut short
            return
        if length < low[x]:
            text = f"leaves {names[x]} after {steps}; 99 % of normal stays there last"
            text, brief = f"{text} {low[x]:.0f} or more", f"leaves {names[x]} too early"
            yield Reason("stay", text, -z, start, stop, brief)
        count, total = norms.changes[x, following.state], norms.changes[x].sum()
        if total and count / total < 0.01:
            brief = f"goes from {names[x]} to {names[following.state]}"
            share = f"{count:.0f} of {total:.0f} normal transitions from there do"
            text, weight = f"{brief} at step {stop + 1}, as {share}", (count + 0.5) / (total + 1)
            yield Reason("transition", text, _odds(weight), stop - 1, stop + 1, brief)


def _of_occupancy(norms: Norms, names: list[str], stays: list[Segment]) -> Iterator[Reason]:
    spent = np.bincount([s.state for s in stays], [s.length for s in stays], minlength=len(names))
    part = spent / max(spent.sum(), 1)
    mean, spread, low, high = norms.occupancy
    z = abs(np.sqrt(part) - mean) / spread
    for x, name in enumerate(names):
        if much := _outside(part[x], low[x], high[x]):
            text = f"spends {_percent(part[x])} of the time" if part[x] else "is never"
            text = f"{text} in {name}; 99 % of normal sequences spend {much} of the time there"
            brief = f"too {'much' if part[x] > high[x] else 'little'} time in {name}"
            yield Reason("state", text, float(z[x]), brief=brief)


def _outside(share: float, low: float, high: float) -> str:
    """The limit that a share exceeds, in words; nothing where it is between them."""
    much = f"at most {_percent(high)}" if share > high else f"at least {_percent(low)}"
    return "" if low <= share <= high else much


def _odds(share: float) -> float:
    """A share of normal sequences as standard deviations from the middle, five at most."""
    return float(-ndtri(min(max(share, 3e-7), 0.5)))


def _times(count: float) -> str:
    return "once" if count == 1 else f"{count:.0f} times"


def _percent(share: float, digits: int = 1) -> str:
    return f"{100 * share:.{digits}f} %"
