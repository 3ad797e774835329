"""All sequences at a glance: one coloured line each, and groups of those that are alike."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sojourn.data.sequences import Sequences
from sojourn.data.signals import Signals
from sojourn.detect.numbers import state_names
from sojourn.plot.base import PALETTE, plain
from sojourn.report.findings import Findings, lengths_and_values

MOST_ROWS = 2000  # sequences in the heat map
WORST_ROWS = 500  # of which so many are the most abnormal, where there are more
COLUMNS, FEWER_COLUMNS = 160, 80  # across; the latter with more than
MANY_ROWS = 500
FIRST = 256  # code of the character that stands for colour 0
LONG = 3.0  # times the 95 % quantile of lengths: what is longer is cut off
SHOWN = 12  # sequences of a group that are named


def heat_map(findings: Findings, paths: list[NDArray[np.int32]]) -> dict[str, Any]:
    """Runs of colours of each sequence: a character for the colour, and how often it is repeated.

    Colours are numbers, of which -1 is none; the page has a hundred thousands of them.
    """
    inner, sequences = findings.inner, findings.sequences
    n, lengths = len(sequences), sequences.lengths
    rows = np.arange(n)
    if n > MOST_ROWS:
        rest = np.linspace(WORST_ROWS, n - 1, MOST_ROWS - WORST_ROWS).astype(int)
        rows = np.append(rows[:WORST_ROWS], rest)
    longest = int(lengths.max())
    span = max(1, min(longest, int(LONG * np.quantile(lengths, 0.95))))
    columns = min(span, COLUMNS if n <= MANY_ROWS else FEWER_COLUMNS)
    at = (np.arange(columns) + 0.5) * span / columns
    by, names = "state", [plain(name) for name in state_names(inner)] if inner.has_states else []
    color = np.empty(0, np.int64)
    if not inner.has_states:
        words = sequences.vocabulary
        if isinstance(sequences, Signals):  # the cells that measurements lie in
            words = np.array(inner.codebook_.cells._words(inner.channels_))
            sequences = inner._coded(sequences)
        by, names, color = _symbol_colors(sequences, words)
    drawn = []
    for i in rows.tolist():
        values = paths[i] if inner.has_states else color[sequences[i : i + 1].codes]
        here = at.astype(int)[at < lengths[i]]
        pairs = lengths_and_values(values[here]) if len(values) else []
        drawn.append("".join(f"{chr(FIRST + v)}{k if k > 1 else ''}" for k, v in pairs))
    return {
        "by": by,
        "names": names,
        "span": span,
        "columns": columns,
        "rows": drawn,
        "places": rows.tolist() if n > MOST_ROWS else None,
        "alarms": int(findings.alarms[rows].sum()),
        "cut": int((lengths > span).sum()),
    }


def _symbol_colors(
    sequences: Sequences, words: NDArray[Any]
) -> tuple[str, list[str], NDArray[np.int64]]:
    """The most frequent symbols have a colour each, others share one, missing ones have none."""
    seen = sequences.codes[sequences.codes >= 0]
    count = np.bincount(seen, minlength=sequences.n_symbols)
    top = np.argsort(-count, kind="stable")[: len(PALETTE) - 1]
    top = np.sort(top[count[top] > 0])
    color = np.full(sequences.n_symbols + 1, len(top))
    color[top], color[-1] = np.arange(len(top)), -1
    names = [plain(name) for name in words[top].tolist()]
    return "symbol", names + ["other symbols"] * bool((count > 0).sum() > len(top)), color


def groups(findings: Findings) -> list[dict[str, Any]]:
    """Abnormal sequences by their first reason in brief, the largest group first."""
    found: dict[str, list[int]] = {}
    for place, why in enumerate(findings.explained[: findings.n_alarms]):
        found.setdefault(brief(why), []).append(place)
    ids = findings.sequences.ids
    return [
        {
            "name": name,
            "count": len(places),
            "members": [(place, plain(ids[place])) for place in places[:SHOWN]],
            "more": max(0, len(places) - SHOWN),
        }
        for name, places in sorted(found.items(), key=lambda item: -len(item[1]))
    ]


def brief(explanation: Any) -> str:
    """The first reason in a few words, without numbers."""
    if not explanation.reasons:
        return "nothing stands out"
    first = explanation.reasons[0]
    return plain(first.brief or first.kind)
