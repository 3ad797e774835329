"""Why a sequence is unusual, in words: what it lacks, has too much of, or does too long.

`Norms` is what normal sequences do; a `Reason` says where one sequence leaves it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sojourn.checks import check_arrays
from sojourn.data.sequences import Sequences
from sojourn.detect.residuals import counted

Floats = NDArray[np.float64]

MOST = 0.99  # "99 % of normal sequences"
NOTABLE = 2.5  # standard deviations from which something is worth saying
LEAST_SPREAD = 0.02  # of square roots of shares; and of logs of lengths, ten times that


@dataclass(frozen=True)
class Reason:
    """One way in which a sequence is unusual.

    Attributes
    ----------
    kind : str
        "symbol", "surprise", "stay", "state" or "transition".
    text : str
        A sentence.
    weight : float
        How unusual it is, in standard deviations of normal sequences.
    start, stop : int or None
        The steps concerned, `stop` not one of them; None where it is about the whole sequence.
    """

    kind: str
    text: str
    weight: float
    start: int | None = None
    stop: int | None = None


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
        Positions of the most surprising steps, worst first.
    reasons : tuple of Reason
        Worst first.

    Examples
    --------
    >>> why = Reason("symbol", "flaps_down never occurs", 4.0)
    >>> print(Explanation("f7", -8.0, 0.01, (3, 9), (why,)))
    f7: p-value 0.01
      - flaps_down never occurs
      most surprising steps: 3, 9
    """

    id: str | int
    score: float
    pvalue: float
    steps: tuple[int, ...]
    reasons: tuple[Reason, ...]

    def __str__(self) -> str:
        lines = [f"{self.id}: p-value {self.pvalue:.2g}"]
        lines += [f"  - {reason.text}" for reason in self.reasons]
        if self.steps:
            lines.append(f"  most surprising steps: {', '.join(map(str, self.steps))}")
        return "\n".join(lines)


@dataclass(frozen=True, eq=False)
class Norms:
    """What normal sequences do, by symbol and by state.

    Attributes
    ----------
    share : array (4, n_symbols)
        Mean and spread of the square root of a symbol's share, its 1 % and its 99 % quantile.
    first : array (3, n_symbols)
        The share of sequences that have the symbol; the step by which 99 % (or as many as ever
        do) have it; the spread of the log of that step.
    surprise : array (2,)
        Mean and spread of the surprise of a symbol.
    stays : array (4, n_states)
        Mean and spread of the log of a stay, its 1 % and 99 % quantiles; nan where there is none.
    occupancy : array (4, n_states)
        As `share`, of the steps in a state.
    changes : array (n_states, n_states)
        Number of changes from state to state.
    """

    share: Floats
    first: Floats
    surprise: Floats
    stays: Floats
    occupancy: Floats
    changes: Floats

    def __post_init__(self) -> None:
        check_arrays(
            self,
            share="float64 4 o",
            first="float64 3 o",
            surprise="float64 2",
            stays="float64 4 x",
            occupancy="float64 4 x",
            changes="float64 x x",
        )


def learn_norms(model: Any, sequences: Sequences) -> Norms:
    """What the sequences, which count as normal, do under a model.

    Examples
    --------
    >>> from sojourn import Params, SpectralHSMM
    >>> seqs = Params.random(2, 2, 3, rng=0).sample(50, 40, rng=1)
    >>> learn_norms(SpectralHSMM(2, 2).fit(seqs), seqs).share.shape
    (4, 3)
    """
    steps = np.concatenate(model.surprise(sequences))[sequences.codes >= 0]
    steps = steps[np.isfinite(steps)]
    known = np.array([steps.mean(), steps.std()]) if steps.size else np.array([0.0, 1.0])
    share = _shares(counted(sequences))
    first = _firsts(sequences)
    if not hasattr(model, "params_"):
        none = np.empty((4, 0))
        return Norms(share, first, known, none, none, np.empty((0, 0)))
    n_x = model.params_.n_states
    lengths: list[list[int]] = [[] for _ in range(n_x)]
    changes = np.zeros((n_x, n_x))
    spent = np.zeros((len(sequences), n_x))
    possible = np.isfinite(model.score_samples(sequences))
    for i, row in enumerate(model.segments(sequences[possible])):
        for at, stay in enumerate(row):
            spent[i, stay.state] += stay.length
            if at + 1 < len(row):  # the last one may have gone on
                lengths[stay.state].append(stay.length)
                changes[stay.state, row[at + 1].state] += 1
    stays = np.full((4, n_x), np.nan)
    for x, seen in enumerate(lengths):
        if seen:
            logs = np.log(seen)
            spread = max(float(logs.std()), 10 * LEAST_SPREAD)
            stays[:, x] = logs.mean(), spread, *np.quantile(seen, [1 - MOST, MOST])
    occupancy = _shares(spent[: int(possible.sum())])
    return Norms(share, first, known, stays, occupancy, changes)


def _shares(counts: Floats) -> Floats:
    """Mean and spread of the roots of shares, and the quantiles of shares, (4, n_columns)."""
    if not len(counts):
        return np.zeros((4, counts.shape[1]))
    part = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    roots = np.sqrt(part)
    low, high = np.quantile(part, [1 - MOST, MOST], axis=0)
    return np.array([roots.mean(axis=0), np.maximum(roots.std(axis=0), LEAST_SPREAD), low, high])


def _first_steps(codes: NDArray[np.int32], n_symbols: int) -> Floats:
    """The step at which each symbol comes first; infinity where it does not."""
    found = np.full(n_symbols, np.inf)
    at = np.flatnonzero(codes >= 0)[::-1]
    found[codes[at]] = at
    return found


def _firsts(sequences: Sequences) -> Floats:
    """Share of sequences with a symbol, the step by which most have it, spread of its log."""
    parts = np.split(sequences.codes, sequences.offsets[1:-1])
    first = np.array([_first_steps(codes, sequences.n_symbols) for codes in parts])
    has = np.isfinite(first).mean(axis=0)
    by, spread = np.zeros(len(has)), np.ones(len(has))
    for k in range(len(has)):
        seen = np.sort(first[np.isfinite(first[:, k]), k])
        if seen.size:
            by[k] = seen[min(int(np.ceil(MOST * len(parts))), seen.size) - 1]
            spread[k] = max(float(np.log1p(seen).std()), 10 * LEAST_SPREAD)
    return np.array([has, by, spread])


def explain(
    model: Any, norms: Norms, sequences: Sequences, most: int
) -> list[tuple[tuple[int, ...], tuple[Reason, ...]]]:
    """The most surprising steps, and the reasons, of each sequence.

    Parameters
    ----------
    model : HSMM or SpectralHSMM
    norms : Norms
    sequences : Sequences
    most : int
        How many of both.
    """
    surprise = model.surprise(sequences)
    found = []
    states = hasattr(model, "params_") and len(norms.changes) > 0
    for i, steps in enumerate(surprise):
        one = sequences[i : i + 1]
        order = [int(t) for t in np.argsort(-steps, kind="stable")[:most] if one.codes[t] >= 0]
        reasons = [*_of_symbols(norms, one), *_of_surprise(norms, one, steps, order)]
        if states and np.isfinite(steps).all():
            reasons += _of_states(model, norms, one)
        reasons.sort(key=lambda reason: -reason.weight)
        worth = [reason for reason in reasons if reason.weight >= NOTABLE] or reasons[:1]
        found.append((tuple(order), tuple(worth[:most])))
    return found


def _of_symbols(norms: Norms, one: Sequences) -> Iterator[Reason]:
    counts = counted(one)[0]
    part = counts / max(counts.sum(), 1)
    mean, spread, low, high = norms.share
    z = (np.sqrt(part) - mean) / spread
    has, by, spread_first = norms.first
    first = _first_steps(one.codes, one.n_symbols)
    for k, symbol in enumerate(one.vocabulary.tolist()):
        if counts[k] == 0:
            if has[k] > 0.5:
                share = min(MOST, np.floor(100 * has[k]) / 100)
                # Missing where nearly all have it is worth more than its small share tells.
                weight = max(-z[k], _odds(1 - has[k]))
                text = f"{symbol} never occurs; {share:.0%} of normal sequences have it"
                yield Reason("symbol", f"{_percent(text)} by step {by[k]:.0f}", float(weight))
            continue
        if has[k] == 0:
            text = f"{symbol} occurs, {_times(counts[k])}; in normal sequences it never does"
            at = int(first[k])
            yield Reason("symbol", text, float(max(z[k], _odds(0.0))), at, at + 1)
            continue
        if part[k] > high[k] or part[k] < low[k]:
            much = f"at most {high[k]:.1%}" if part[k] > high[k] else f"at least {low[k]:.1%}"
            text = (
                f"{symbol} is {part[k]:.1%} of the sequence ({_times(counts[k])}); in 99% of "
                f"normal ones it is {much}"
            )
            yield Reason("symbol", _percent(text), float(abs(z[k])))
        if has[k] >= MOST and first[k] > by[k]:
            late = (np.log1p(first[k]) - np.log1p(by[k])) / spread_first[k] + 2.33
            text = (
                f"{symbol} first occurs at step {first[k]:.0f}; 99% of normal sequences have it "
                f"by step {by[k]:.0f}"
            )
            yield Reason("symbol", _percent(text), float(late), 0, int(first[k]) + 1)


def _of_surprise(norms: Norms, one: Sequences, steps: Floats, order: list[int]) -> Iterator[Reason]:
    mean, spread = norms.surprise
    for t in order:
        symbol = one.vocabulary[one.codes[t]].item()
        chance = float(np.exp(-steps[t]))
        text = f"{symbol} at step {t} is a surprise: the model gave it a chance of {chance:.1g}"
        if not np.isfinite(steps[t]):
            text = f"{symbol} at step {t} is impossible under the model, after what came before"
        # The law of surprises has a long tail: its root is nearer to a normal one.
        weight = (np.sqrt(min(steps[t], 1e3)) - np.sqrt(mean)) / max(np.sqrt(spread) / 2, 0.1)
        yield Reason("surprise", text, float(weight), t, t + 1)


def _of_states(model: Any, norms: Norms, one: Sequences) -> Iterator[Reason]:
    top = model.params_.emission.argmax(axis=1)
    names = [f"state {x} (mostly {model.vocabulary_[k]})" for x, k in enumerate(top.tolist())]
    (row,) = model.segments(one)
    spent = np.zeros(len(names))
    mean, spread, low, high = norms.stays
    for at, (start, length, x, _) in enumerate(row):
        spent[x] += length
        last = at + 1 == len(row)
        stop = start + length
        z = (np.log(length) - mean[x]) / spread[x]
        if length > high[x]:
            text = f"stays {_steps(length)} in {names[x]}; 99% of normal stays there end within"
            yield Reason("stay", _percent(f"{text} {high[x]:.0f}"), float(z), start, stop)
        elif length < low[x] and not last:
            text = f"leaves {names[x]} after {_steps(length)}; 99% of normal stays there last"
            text = f"{text} {low[x]:.0f} or more"
            yield Reason("stay", _percent(text), float(-z), start, stop)
        if not last:
            y = row[at + 1].state
            left = norms.changes[x].sum()
            share = norms.changes[x, y] / max(left, 1)
            if left and share < 0.01:
                text = (
                    f"goes from {names[x]} to {names[y]} at step {stop}, as "
                    f"{norms.changes[x, y]:.0f} of {left:.0f} normal changes from there do"
                )
                weight = _odds((norms.changes[x, y] + 0.5) / (left + 1))
                yield Reason("transition", text, weight, stop - 1, stop + 1)
    part = spent / max(spent.sum(), 1)
    mean, spread, low, high = norms.occupancy
    z = (np.sqrt(part) - mean) / spread
    for x in range(len(names)):
        if part[x] == 0 and low[x] > 0:
            text = f"is never in {names[x]}; 99% of normal sequences are, {low[x]:.1%} of the time"
        elif not low[x] <= part[x] <= high[x]:
            much = f"at most {high[x]:.1%}" if part[x] > high[x] else f"at least {low[x]:.1%}"
            text = f"is in {names[x]} {part[x]:.1%} of the time; 99% of normal sequences are {much}"
        else:
            continue
        yield Reason("state", _percent(text), float(abs(z[x])))


def _odds(share: float) -> float:
    """A share of normal sequences as standard deviations from the middle, five at most."""
    from scipy.special import ndtri

    return float(-ndtri(min(max(share, 3e-7), 0.5)))


def _times(count: float) -> str:
    return "once" if count == 1 else f"{count:.0f} times"


def _steps(count: int) -> str:
    return "1 step" if count == 1 else f"{count} steps"


def _percent(text: str) -> str:
    return text.replace("%", " %")
