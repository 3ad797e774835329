"""Contents of a report, by the names in its template."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sojourn import plot
from sojourn.plot.base import plain
from sojourn.report.doubts import doubts, provenance, size
from sojourn.report.findings import Findings, paths
from sojourn.report.model import MOST_STATES, model_figures, percent, plate, state_cards
from sojourn.report.overview import brief, groups, heat_map
from sojourn.report.timelines import timelines

NO_STATES = "predicts without naming states: timelines have symbols and surprise only."


def contents(
    findings: Findings, worst: int, title: str | None, given: Mapping[str, Any] | None
) -> dict[str, Any]:
    """All that the page shows."""
    inner = findings.inner
    states = paths(inner, findings.encoded.known) if inner.has_states else []
    n_worst = min(worst, len(findings.scores))
    rows = _rows(findings, n_worst)
    note = "" if inner.has_states else f"A {type(inner).__name__} {NO_STATES}"
    return {
        "title": title or "Which sequences are abnormal",
        "first": _first_sentence(findings),
        "doubts": doubts(findings),
        "provenance": provenance(findings, given),
        "facts": _facts(findings),
        "rows": rows,
        "groups": groups(findings),
        "labelled": findings.known is not None,
        "one_class": findings.known is not None and not findings.known.both,
        "n_worst": n_worst,
        "data": timelines(findings, n_worst, states, rows) | {"heat": heat_map(findings, states)},
        "score_figures": _score_figures(findings),
        "states": state_cards(inner, states) if inner.has_states else [],
        "more_states": max(0, inner.params_.n_states - MOST_STATES) if inner.has_states else 0,
        "model_figures": model_figures(inner),
        "model_note": note,
    }


def _first_sentence(findings: Findings) -> str:
    n, k = len(findings.scores), findings.n_alarms
    noun, verb = "sequence" if n == 1 else "sequences", "is" if k == 1 else "are"
    return f"{k:,} of {n:,} {noun} {verb} abnormal."


def _rows(findings: Findings, n_worst: int) -> list[dict[str, Any]]:
    """One row per sequence, in their order; reasons of those that are explained."""
    known, explained = findings.known, findings.explained
    numbers = (findings.scores.tolist(), findings.pvalues.tolist(), findings.alarms.tolist())
    ids, lengths = findings.sequences.ids, findings.sequences.lengths.tolist()
    return [
        {
            "place": place,
            "id": plain(ids[place]),
            "length": lengths[place],
            "score": score,
            "pvalue": pvalue,
            "alarm": alarm,
            "label": plain(known.names[place]) if known else "",
            "abnormal": bool(known.abnormal[place]) if known else False,
            "reasons": _reasons(explained[place]) if place < len(explained) else [],
            "brief": brief(explained[place]) if alarm and place < len(explained) else "",
            "timeline": place < n_worst,
        }
        for place, (score, pvalue, alarm) in enumerate(zip(*numbers, strict=True))
    ]


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


def _facts(findings: Findings) -> list[dict[str, str]]:
    """The tiles at the top of the page: a number, its name, and more."""
    sequences, inner, detector = findings.sequences, findings.inner, findings.detector
    n, k, rate = len(sequences), findings.n_alarms, float(detector.contamination)
    low, high = sequences.lengths.min(), sequences.lengths.max()
    step, unit = inner.step_
    shortest, longest = f"{step * low:,.10g}", f"{step * high:,.10g}"
    span = f"{shortest} {unit} each" if low == high else f"{shortest} to {longest} {unit} each"
    seen = sequences.codes[sequences.codes >= 0]
    missing = sequences.n_total - seen.size
    gaps = f", {missing:,} of them missing" if missing else ""
    chance = f"where {_about(rate * n)} of {n:,} would be by chance"
    noun = "steps" if hasattr(sequences, "channels") else "symbols"
    tiles = [
        (f"{k:,}", "abnormal", f"at a false-alarm rate of {percent(rate)}, {chance}"),
        (
            f"{n:,}",
            "sequence" if n == 1 else "sequences",
            f"{span}, {sequences.n_total:,} {noun}{gaps}",
        ),
        (
            f"{findings.n_training:,}",
            "training sequences",
            "A p-value is the fraction of them, and of the new sequence itself, that scores as low",
        ),
    ]
    if hasattr(sequences, "channels"):
        names = ", ".join(map(plain, sequences.channels))
        tiles.append((f"{len(sequences.channels)}", "channels", names))
    else:
        novel = int(((findings.encoded.known.codes < 0) & (sequences.codes >= 0)).sum())
        unseen = f"; {novel:,} steps have one that training has not" if novel else ""
        occur = f"{np.unique(seen).size:,} of them occur here{unseen}"
        tiles.append((f"{sequences.n_symbols:,}", "different symbols", occur))
    count, name, more = size(inner)
    tiles.append((f"{count:,}", name, f"{type(inner).__name__}{more}"))
    if findings.known and findings.known.both:
        from sklearn.metrics import roc_auc_score

        bad, alarms = findings.known.abnormal, findings.alarms
        area = roc_auc_score(bad, -np.nan_to_num(findings.scores, neginf=-1e300))
        more = (
            f"{int((alarms & bad).sum())} of {int(bad.sum())} labelled abnormal are found; of "
            f"{int((~bad).sum())} normal ones {int((alarms & ~bad).sum())} raise an alarm"
        )
        tiles.append((f"{area:.3f}", "AUC (area under the ROC curve)", more))
    keys = ("value", "name", "more")
    facts = [dict(zip(keys, tile, strict=True), tone="") for tile in tiles]
    facts[0]["tone"] = "alarm" if k else ""
    return facts


def _about(number: float) -> str:
    return f"about {number:.0f}" if number >= 1.5 else "about one" if number >= 0.5 else "none"


def _score_figures(findings: Findings) -> list[dict[str, str]]:
    known, scores = findings.known, findings.scores
    bad, offset = known.abnormal if known else None, float(findings.detector.offset_)
    found = [
        plate(
            "Scores",
            "Higher scores are more normal. Sequences left of the line raise an alarm.",
            f"Histogram of {len(scores)} scores with the alarm below {offset:.4g}",
            lambda ax: plot.scores(scores, bad, offset, ax),
        ),
        plate(
            "p-values",
            "Of normal sequences they are uniform, as the line is: abnormal ones pile up at the "
            "left, and a slope over all of the range is a sign of drift.",
            f"Histogram of {len(scores)} p-values",
            lambda ax: plot.pvalues(findings.pvalues, bad, ax),
        ),
    ]
    if known and known.both:
        kinds = np.array(known.names)
        found += [
            plate(
                "ROC curve",
                "From the labels: the fraction of abnormal sequences found at each rate of false "
                "alarms.",
                "ROC curve",
                lambda ax: plot.roc(scores, bad, kinds, ax),
            ),
            plate(
                "Precision–recall curve",
                "From the labels: the fraction of alarms that are right at each fraction found.",
                "Precision-recall curve",
                lambda ax: plot.precision_recall(scores, bad, ax),
            ),
        ]
    return found
