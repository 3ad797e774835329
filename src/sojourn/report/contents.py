"""What a report says: a summary, a row for each sequence, timelines of the worst, and the model."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sojourn.checks import positive_int
from sojourn.data.sequences import Sequences, as_sequences, runs
from sojourn.errors import SojournError
from sojourn.plot.base import PALETTE, plain
from sojourn.plot.models import durations, occupancy, ranks, spectrum, transitions
from sojourn.plot.scores import precision_recall, roc
from sojourn.plot.scores import scores as histogram
from sojourn.plot.sequence import lanes
from sojourn.report.figures import SIZE, figure
from sojourn.report.labels import Known, read_known

MOST_EXPLAINED = 300  # sequences whose first reason stands in the table
MOST_STATES = 24  # states that get a card
TOP = 5  # symbols of a state
THIRD = (3.5, 3.1)  # inches, of figures that stand three in a row


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
    """All that the page shows, by the names that its template has for it."""
    detector, calibrated = _detector(model, X, normal, contamination)
    inner = detector.model_
    sequences = as_sequences(X, None, inner.vocabulary_, inner.unknown)
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
            inner, sequences[order[:n_worst]], rows, [[int(t) for t in e.steps] for e in explained]
        ),
        "score_figures": _score_figures(detector, scores, known),
        "one_class": known is not None and not known.both,
        "states": _states(inner),
        "more_states": max(0, _n_states(inner) - MOST_STATES),
        "model_figures": _model_figures(inner),
        "model_note": _model_note(inner),
        "kind": type(inner).__name__,
    }


def _detector(model: Any, X: Any, normal: Any, contamination: float | None) -> tuple[Any, str]:
    """The detector, and in words what it is calibrated on."""
    if hasattr(model, "pvalues"):
        if not hasattr(model, "model_"):
            raise SojournError("the detector is not fitted; call fit with normal sequences first")
        if normal is not None or contamination is not None:
            raise SojournError(
                "the detector is calibrated already, at a rate of its own; leave out normal= "
                "(--normal) and contamination= (--contamination), or give a model"
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
    usual = as_sequences(given, None, model.vocabulary_, model.unknown)
    detector = AnomalyDetector(model, refit=False, **rate).fit(usual)
    n = f"{len(usual):,} sequence{'s' * (len(usual) > 1)}"
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
    """The tiles at the top of the page: a number, what it is, and more."""
    n, k, rate = len(sequences), int(alarms.sum()), float(detector.contamination)
    lengths = sequences.lengths
    low, high = int(lengths.min()), int(lengths.max())
    span = f"{low:,} steps each" if low == high else f"{low:,} to {high:,} steps each"
    missing = int((sequences.codes < 0).sum())
    inner = detector.model_
    facts = [
        {
            "value": f"{k:,}",
            "name": "abnormal" if n > 1 else ("abnormal" if k else "nothing abnormal"),
            "more": f"at a false-alarm rate of {percent(rate)}, where {_about(rate * n)} of {n:,} "
            f"would be by chance",
            "tone": "alarm" if k else "",
        },
        {
            "value": f"{n:,}",
            "name": "sequence" if n == 1 else "sequences",
            "more": f"{span}, {sequences.n_total:,} symbols"
            + (f", {missing:,} of them missing" if missing else ""),
            "tone": "",
        },
        {
            "value": f"{sequences.n_symbols:,}",
            "name": "different symbols",
            "more": f"{int(np.unique(sequences.codes[sequences.codes >= 0]).size):,} of them occur",
            "tone": "",
        },
        {
            "value": f"{_n_states(inner) or inner.rank_}",
            "name": "states" if _n_states(inner) else "singular directions",
            "more": _model_words(inner) + f", scored by {getattr(detector, 'method', 'score')}",
            "tone": "",
        },
    ]
    if known and known.both:
        from sklearn.metrics import roc_auc_score

        bad = known.abnormal
        found = int((alarms & bad).sum())
        facts.append(
            {
                "value": f"{roc_auc_score(bad, -np.nan_to_num(scores, neginf=-1e300)):.3f}",
                "name": "AUC",
                "more": f"{found} of {int(bad.sum())} labelled abnormal are found; of "
                f"{int((~bad).sum())} normal ones {int((alarms & ~bad).sum())} raise an alarm",
                "tone": "",
            }
        )
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


def _n_states(inner: Any) -> int:
    return int(inner.params_.n_states) if hasattr(inner, "params_") else 0


def _model_words(inner: Any) -> str:
    if hasattr(inner, "params_"):
        return f"HSMM with stays of up to {inner.params_.max_duration} steps"
    window = " ".join(map(str, inner.window_))
    return f"{type(inner).__name__}, windows of offsets {window}"


def _timelines(
    inner: Any, worst: Sequences, rows: list[dict[str, Any]], steps: list[list[int]]
) -> dict[str, Any]:
    """What the script draws, in whole numbers: surprise in hundredths of a nat."""
    names = [plain(name) for name in worst.vocabulary.tolist()]
    surprise = inner.surprise(worst)
    has_states = hasattr(inner, "params_")
    items: list[dict[str, Any]] = []
    for k, codes in enumerate(np.split(worst.codes, worst.offsets[1:-1])):
        s = np.asarray(surprise[k], dtype=float)
        cap = float(s[np.isfinite(s)].max(initial=0.0))
        hundredths = np.rint(100 * np.where(np.isfinite(s), s, cap + 1.0)).astype(int)
        _, lane = lanes(codes, names)
        shown = [int(code) for code in np.argsort(lane, kind="stable") if lane[code] >= 0]
        items.append(
            {
                "codes": codes.tolist(),
                "lanes": [[c for c in shown if lane[c] == j] for j in range(int(lane.max()) + 1)],
                "surprise": hundredths.tolist(),
                "states": _stays(inner, worst[k : k + 1]) if has_states else [],
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


def _score_figures(detector: Any, scores: Any, known: Known | None) -> list[dict[str, str]]:
    bad = known.abnormal if known else None
    offset = float(detector.offset_)
    size = THIRD if known and known.both else SIZE
    words = f"Histogram of {len(scores)} scores with the alarm below {offset:.4g}"
    found = [
        {
            "title": "Scores",
            "note": "How normal each sequence is. Those left of the line raise an alarm.",
            "svg": figure("scores", words, lambda ax: histogram(scores, bad, offset, ax), size),
        }
    ]
    if known and known.both:
        kinds = np.array(known.names)
        found += [
            {
                "title": "Found against false alarms",
                "note": "ROC, from the labels: how many abnormal sequences are found at each rate "
                "of false alarms.",
                "svg": figure("roc", "ROC curve", lambda ax: roc(scores, bad, kinds, ax), size),
            },
            {
                "title": "Right alarms against found",
                "note": "Precision and recall, from the labels.",
                "svg": figure(
                    "pr",
                    "Precision-recall curve",
                    lambda ax: precision_recall(scores, bad, ax),
                    size,
                ),
            },
        ]
    return found


def _states(inner: Any) -> list[dict[str, Any]]:
    """A card for each state: how much of the time, how long, what it says."""
    if not hasattr(inner, "params_"):
        return []
    params, share = inner.params_, occupancy(inner)
    names = [plain(name) for name in inner.vocabulary_.tolist()]
    cards = []
    for i in range(min(params.n_states, MOST_STATES)):
        top = np.argsort(-params.emission[i], kind="stable")[:TOP].tolist()
        cards.append(
            {
                "number": i,
                "color": i % len(PALETTE),
                "share": percent(round(float(share[i]), 3)),
                "mean": f"{float(inner.expected_durations_[i]):.1f}",
                "top": [(names[k], float(params.emission[i, k])) for k in top],
                "rest": max(0, params.n_symbols - TOP),
                "svg": figure(
                    f"d{i}",
                    f"How long state {i} lasts",
                    lambda ax, i=i: _small(durations(inner, i, ax)),  # type: ignore[misc]
                    (3.2, 1.35),
                ),
            }
        )
    return cards


def _small(ax: Any) -> None:
    ax.set_ylabel("")
    ax.locator_params(axis="y", nbins=3)


def _model_figures(inner: Any) -> list[dict[str, str]]:
    if hasattr(inner, "params_"):
        words = "Graph of the transitions between states"
        return [
            {
                "title": "What follows what",
                "note": "States with their likeliest symbols; the wider an arrow, the likelier. "
                "Transitions under 5 % are left out.",
                "svg": figure("graph", words, lambda ax: transitions(inner, ax=ax), (4.6, 3.9)),
            }
        ]
    found = [
        {
            "title": "Spectrum",
            "note": f"Singular values of the moment matrix; the first {inner.rank_} are in use.",
            "svg": figure("spectrum", "Singular values", lambda ax: spectrum(inner, ax)),
        }
    ]
    if inner.choice_.trials:
        note = "Held-out likelihood of each rank and window that was compared; the line is the rank"
        found.append(
            {
                "title": "Choice of the rank",
                "note": f"{note} chosen, {inner.rank_}.",
                "svg": figure("ranks", "Held-out score", lambda ax: ranks(inner, ax)),
            }
        )
    return found


def _model_note(inner: Any) -> str:
    if hasattr(inner, "params_"):
        return (
            "An HSMM is fitted by likelihood and keeps no singular values, so there is no spectrum "
            "to show; its size is its number of states and their longest stay."
        )
    return (
        "A SpectralHSMM predicts without naming states: there are no emissions, durations or "
        "transitions to show, and timelines have symbols and surprise alone."
    )
