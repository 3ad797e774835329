"""Contents of a report: a summary, one row per sequence, timelines of the worst, and the model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sojourn import plot
from sojourn.checks import positive_int
from sojourn.data.runs import runs
from sojourn.data.sequences import Sequences
from sojourn.detect.novelty import Encoded, encode
from sojourn.errors import SojournError
from sojourn.plot.base import PALETTE, plain
from sojourn.plot.sequence import lanes
from sojourn.report.figures import SIZE, figure
from sojourn.report.labels import Known, read_known

MOST_EXPLAINED = 300  # sequences whose first reason stands in the table
MOST_STATES = 24  # states that get a card
TOP = 5  # symbols of a state
THIRD = (3.5, 3.1)  # inches, of figures that stand three in a row
NO_STATES = (
    "A SpectralHSMM predicts without naming states: there are no emissions, durations or "
    "transitions to show, and timelines have symbols and surprise only."
)


def contents(
    model: Any,
    X: Any,
    labels: Any,
    normal: Any,
    normal_label: Any,
    contamination: float | None,
    title: str | None,
    worst: int,
) -> dict[str, Any]:
    """All that the page shows, by the names in its template."""
    detector, calibrated = _detector(model, X, normal, contamination)
    inner = detector.model_
    empty = getattr(inner, "ends", False)
    encoded = encode(X, None, inner.vocabulary_, detector.unknown, empty)
    sequences = encoded.given
    known = None if labels is None else read_known(labels, len(sequences), normal_label)
    scores = np.asarray(detector.score_samples(sequences), dtype=float)
    pvalues = np.asarray(detector.pvalues(sequences), dtype=float)
    alarms = np.asarray(detector.predict(sequences)) == -1
    order = np.lexsort((scores, pvalues))
    n_worst = min(positive_int("worst", worst), len(order))
    n_explained = min(max(n_worst, int(alarms.sum())), MOST_EXPLAINED, len(order))
    explained = detector.explain(sequences[order[:n_explained]])
    rows = [
        {
            "place": place,
            "id": plain(sequences.ids[i]),
            "length": int(sequences.lengths[i]),
            "score": float(scores[i]),
            "pvalue": float(pvalues[i]),
            "alarm": bool(alarms[i]),
            "label": plain(known.names[i]) if known else "",
            "abnormal": bool(known.abnormal[i]) if known else False,
            "reasons": _reasons(explained[place]) if place < n_explained else [],
            "timeline": place < n_worst,
        }
        for place, i in enumerate(order.tolist())
    ]
    return {
        "title": title or "Which sequences are abnormal",
        "calibrated": calibrated,
        "facts": _facts(detector, sequences, alarms, known, scores),
        "rows": rows,
        "rate": float(detector.contamination),
        "n_alarms": int(alarms.sum()),
        "labelled": known is not None,
        "timelines": _timelines(
            inner,
            encoded.pick(order[:n_worst]),
            rows,
            [[int(t) for t in e.steps] for e in explained],
        ),
        "score_figures": _score_figures(detector, scores, known),
        "one_class": known is not None and not known.both,
        "states": _states(inner) if inner.has_states else [],
        "more_states": max(0, inner.params_.n_states - MOST_STATES) if inner.has_states else 0,
        "model_figures": _state_figures(inner) if inner.has_states else _rank_figures(inner),
        "model_note": "" if inner.has_states else NO_STATES,
    }


def _detector(model: Any, X: Any, normal: Any, contamination: float | None) -> tuple[Any, str]:
    """The detector, and in words what it is calibrated on."""
    if hasattr(model, "pvalues"):
        if not hasattr(model, "model_"):
            raise SojournError("the detector is not fitted; call fit with normal sequences first")
        if normal is not None or contamination is not None:
            raise SojournError(
                "the detector is calibrated already, at its own false-alarm rate; leave out "
                "normal= and contamination=, or give a model"
            )
        return model, "The detector was calibrated when it was fitted."
    if not hasattr(model, "vocabulary_"):
        raise SojournError(
            f"expected a fitted AnomalyDetector, HSMM or SpectralHSMM, got "
            f"{type(model).__name__}; call fit first"
        )
    from sojourn.detect.detector import AnomalyDetector

    rate: dict[str, Any] = {} if contamination is None else {"contamination": contamination}
    given = X if normal is None else normal
    detector = AnomalyDetector(model, refit=False, **rate).fit(given)
    usual = len(detector.calibration_.scores)
    n = f"{usual:,} sequence{'s' if usual > 1 else ''}"
    if normal is None:
        return detector, (
            f"Calibrated on the {n} of this report itself, taken as mostly normal: the more of "
            f"them are abnormal, the fewer are found."
        )
    return detector, f"Calibrated on {n} given as normal."


def _reasons(explanation: Any) -> list[dict[str, Any]]:
    return [
        {"text": plain(reason.text), "kind": reason.kind, "where": _where(reason)}
        for reason in explanation.reasons
    ]


def _where(reason: Any) -> tuple[int, int] | None:
    """First step of a reason and the one after its last, if it has a place."""
    if reason.start is None:
        return None
    start = int(reason.start)
    return start, max(start + 1, start + 1 if reason.stop is None else int(reason.stop))


def _facts(
    detector: Any, sequences: Sequences, alarms: NDArray[np.bool_], known: Known | None, scores: Any
) -> list[dict[str, str]]:
    """The tiles at the top of the page: a number, its name, and more."""
    n, k, rate = len(sequences), int(alarms.sum()), float(detector.contamination)
    low, high = sequences.lengths.min(), sequences.lengths.max()
    step, unit = detector.model_.step_
    shortest, longest = f"{step * low:,.10g}", f"{step * high:,.10g}"
    span = f"{shortest} {unit} each" if low == high else f"{shortest} to {longest} {unit} each"
    seen = sequences.codes[sequences.codes >= 0]
    missing = sequences.n_total - seen.size
    gaps = f", {missing:,} of them missing" if missing else ""
    inner = detector.model_
    if inner.has_states:
        size, name = inner.params_.n_states, "states"
        words = f"HSMM with stays of up to {step * inner.params_.max_duration:g} {unit}"
    else:
        words = type(inner).__name__
        if hasattr(inner, "trees_"):
            size, name = inner.trees_.n_pasts, "contexts"
        else:
            size, name = inner.rank_, "singular directions"
            words += f", windows of offsets {' '.join(map(str, inner.window_))}"
    chance = f"where {_about(rate * n)} of {n:,} would be by chance"
    symbols = f"{span}, {sequences.n_total:,} symbols{gaps}"
    tiles = [
        (f"{k:,}", "abnormal", f"at a false-alarm rate of {percent(rate)}, {chance}"),
        (f"{n:,}", "sequence" if n == 1 else "sequences", symbols),
        (
            f"{sequences.n_symbols:,}",
            "different symbols",
            f"{np.unique(seen).size:,} of them occur",
        ),
        (f"{size}", name, f"{words}; score: {detector.method}"),
    ]
    if known and known.both:
        from sklearn.metrics import roc_auc_score

        bad = known.abnormal
        area = roc_auc_score(bad, -np.nan_to_num(scores, neginf=-1e300))
        more = (
            f"{int((alarms & bad).sum())} of {int(bad.sum())} labelled abnormal are found; of "
            f"{int((~bad).sum())} normal ones {int((alarms & ~bad).sum())} raise an alarm"
        )
        tiles.append((f"{area:.3f}", "AUC", more))
    names = ("value", "name", "more")
    facts = [dict(zip(names, tile, strict=True), tone="") for tile in tiles]
    facts[0]["tone"] = "alarm" if k else ""
    return facts


def percent(share: float) -> str:
    r"""A share in per cent, with as many digits as it needs.

    Examples
    --------
    >>> percent(0.05), percent(0.125), percent(0.0004)
    ('5\xa0%', '12.5\xa0%', '0.04\xa0%')
    """
    return f"{100 * share:.3g}\u00a0%"


def _about(number: float) -> str:
    return f"about {number:.0f}" if number >= 1.5 else "about one" if number >= 0.5 else "none"


def _timelines(
    inner: Any, encoded: Encoded, rows: list[dict[str, Any]], steps: list[list[int]]
) -> dict[str, Any]:
    """What the script draws, in integers: surprise in hundredths of a nat."""
    worst, known = encoded.given, encoded.known
    names = [plain(name) for name in worst.vocabulary.tolist()]
    surprise = inner.surprise(known)
    items: list[dict[str, Any]] = []
    for k, codes in enumerate(np.split(worst.codes, worst.offsets[1:-1])):
        novel = (codes >= 0) & (known[k : k + 1].codes < 0)
        s = np.where(novel, np.inf, surprise[k][: len(codes)])
        cap = float(s[np.isfinite(s)].max(initial=0.0))
        hundredths = np.rint(100 * np.where(np.isfinite(s), s, cap + 1.0)).astype(int)
        _, lane = lanes(codes, names)
        shown = [int(code) for code in np.argsort(lane, kind="stable") if lane[code] >= 0]
        items.append(
            {
                "codes": codes.tolist(),
                "lanes": [[c for c in shown if lane[c] == j] for j in range(int(lane.max()) + 1)],
                "surprise": hundredths.tolist(),
                "states": _stays(inner, known[k : k + 1]) if inner.has_states else [],
                "marks": sorted(steps[k]),
                "reasons": [reason["where"] for reason in rows[k]["reasons"]],
            }
        )
    return {"names": names, "items": items}


def _stays(inner: Any, one: Sequences) -> list[list[int]]:
    """Length and state of each stay on the best path of one sequence."""
    try:
        _, lengths, states = runs(inner.predict(one)[0])
    except SojournError:  # no path of states can produce this sequence
        return []
    return np.column_stack([lengths, states]).tolist()


def _figure(
    title: str, note: str, label: str, draw: Callable[[Any], Any], size: Any = SIZE
) -> dict[str, str]:
    """A figure with its heading and caption; the label is for those who do not see it."""
    name = "".join(c for c in title.lower() if c.isalpha())  # part of its ids on the page
    return {"title": title, "note": note, "svg": figure(name, label, draw, size)}


def _score_figures(detector: Any, scores: Any, known: Known | None) -> list[dict[str, str]]:
    bad, offset = known.abnormal if known else None, float(detector.offset_)
    size = THIRD if known and known.both else SIZE
    found = [
        _figure(
            "Scores",
            "Higher scores are more normal. Sequences left of the line raise an alarm.",
            f"Histogram of {len(scores)} scores with the alarm below {offset:.4g}",
            lambda ax: plot.scores(scores, bad, offset, ax),
            size,
        )
    ]
    if known and known.both:
        kinds = np.array(known.names)
        found += [
            _figure(
                "ROC curve",
                "From the labels: the fraction of abnormal sequences found at each rate of false "
                "alarms.",
                "ROC curve",
                lambda ax: plot.roc(scores, bad, kinds, ax),
                size,
            ),
            _figure(
                "Precision–recall curve",
                "From the labels: the fraction of alarms that are right at each fraction found.",
                "Precision-recall curve",
                lambda ax: plot.precision_recall(scores, bad, ax),
                size,
            ),
        ]
    return found


def _states(inner: Any) -> list[dict[str, Any]]:
    """One card per state: its share of time, its duration, its symbols."""
    params, share, (step, unit) = inner.params_, inner.occupancy_, inner.step_
    names = [plain(name) for name in inner.vocabulary_.tolist()]
    cards = []
    for i in range(min(params.n_states, MOST_STATES)):

        def draw(ax: Any, state: int = i) -> None:
            plot.durations(inner, state, ax).set_ylabel("")
            ax.locator_params(axis="y", nbins=3)

        top = np.argsort(-params.emission[i], kind="stable")[:TOP].tolist()
        cards.append(
            {
                "number": i,
                "name": plain(inner.state_names[i] if inner.states_ is not None else f"State {i}"),
                "color": i % len(PALETTE),
                "share": percent(round(float(share[i]), 3)),
                "mean": f"{float(step * inner.expected_durations_[i]):.1f} {unit}",
                "top": [(names[k], float(params.emission[i, k])) for k in top],
                "svg": figure(f"d{i}", f"How long state {i} lasts", draw, (3.2, 1.35)),
            }
        )
    return cards


def _state_figures(inner: Any) -> list[dict[str, str]]:
    return [
        _figure(
            "Transitions",
            "States with their most probable symbols; the wider an arrow, the more probable. "
            "Transitions under 5 % are left out.",
            "Graph of the transitions between states",
            lambda ax: plot.transitions(inner, ax=ax),
            (4.6, 3.9),
        )
    ]


def _rank_figures(inner: Any) -> list[dict[str, str]]:
    if not hasattr(inner, "rank_"):  # a context tree
        return []
    found = [
        _figure(
            "Spectrum",
            f"Singular values of the moment matrix; the first {inner.rank_} are in use.",
            "Singular values",
            lambda ax: plot.spectrum(inner, ax),
        )
    ]
    if inner.choice_.trials:
        found.append(
            _figure(
                "Choice of the rank",
                f"Held-out likelihood of each rank and window compared; the line is at the rank "
                f"chosen, {inner.rank_}.",
                "Held-out score",
                lambda ax: plot.ranks(inner, ax),
            )
        )
    return found
