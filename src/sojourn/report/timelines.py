"""What the script draws of single sequences: symbols or measurements, states, surprise, reasons."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sojourn.data.signals import Signals
from sojourn.detect.novelty import Encoded
from sojourn.detect.numbers import state_names
from sojourn.plot.base import plain
from sojourn.plot.sequence import lanes
from sojourn.plot.signals import WIDTH
from sojourn.report.findings import Findings, lengths_and_values
from sojourn.report.findings import paths as paths_of

SCALE = 1000  # values of a channel are whole numbers from 0 to this


def timelines(
    findings: Findings, n_worst: int, paths: list[NDArray[np.int32]], rows: list[dict[str, Any]]
) -> dict[str, Any]:
    """The worst sequences and some typical ones, in integers: surprise in hundredths of a nat."""
    inner, worst = findings.inner, findings.encoded.pick(slice(0, n_worst))
    usual = findings.detector.typical_
    # With the novel symbols in the vocabulary, codes name other symbols than in training.
    same = isinstance(usual, Signals)
    typical = Encoded(usual, usual if same else usual.recode(worst.given.vocabulary))
    step, unit = inner.step_
    page: dict[str, Any] = {
        "names": [plain(name) for name in worst.given.vocabulary.tolist()],
        "states": [plain(name) for name in inner.state_names] if inner.has_states else [],
        "about": [plain(name) for name in state_names(inner)] if inner.has_states else [],
        "step": None if unit == "steps" else [step, unit],
        "channels": _channels(inner, [worst.given, usual]),
    }
    page["items"] = _items(inner, worst, paths[:n_worst], page)
    for place, item in enumerate(page["items"]):
        item["marks"] = sorted(int(t) for t in findings.explained[place].steps)
        item["reasons"] = [reason["where"] for reason in rows[place]["reasons"]]
        if len(usual) and findings.alarms[place]:
            far = np.abs(np.log1p(usual.lengths) - np.log1p(len(item["codes"])))
            item["typical"] = int(far.argmin())
    page["typical"] = _items(
        inner, typical, paths_of(inner, usual) if inner.has_states else [], page
    )
    for item, name in zip(page["typical"], usual.ids.tolist(), strict=True):
        item["id"] = plain(name)
    return page


def _items(
    inner: Any, encoded: Encoded, paths: list[NDArray[np.int32]], page: dict[str, Any]
) -> list[dict[str, Any]]:
    given, known = encoded.given, encoded.known
    items: list[dict[str, Any]] = []
    for k, surprise in enumerate(inner.surprise(known)):
        one = given[k : k + 1]
        codes = one.codes
        novel = (codes >= 0) & (known[k : k + 1].codes < 0)
        s = np.where(novel, np.inf, surprise[: len(codes)])
        low, cap = (float(f(s[np.isfinite(s)], initial=0.0)) for f in (np.min, np.max))
        # A density may be above one: its logarithm counts from the least surprising step.
        s = np.where(np.isfinite(s), s - low, cap - low + 1.0)
        item: dict[str, Any] = {
            "codes": codes.tolist(),
            "lanes": [],
            "surprise": np.rint(100 * s).astype(int).tolist(),
            "states": lengths_and_values(paths[k]) if inner.has_states else [],
            "marks": [],
            "reasons": [],
        }
        if isinstance(one, Signals):
            item["values"] = _scaled(one, page["channels"])
        else:
            _, lane = lanes(codes, page["names"])
            shown = [int(code) for code in np.argsort(lane, kind="stable") if lane[code] >= 0]
            n_lanes = int(lane.max(initial=-1)) + 1
            item["lanes"] = [[c for c in shown if lane[c] == j] for j in range(n_lanes)]
        items.append(item)
    return items


def _channels(inner: Any, shown: list[Any]) -> list[dict[str, Any]]:
    """Name and range of each channel, and the band of each state on its scale."""
    density = inner._density
    if density is None:
        return []
    wide, found = WIDTH * density.spread(), []
    bands = np.stack([density.mean() - wide, density.mean() + wide], axis=2)  # (n_x, channels, 2)
    for j, name in enumerate(shown[0].channels):
        values = np.concatenate([signals.values[:, j] for signals in shown])
        values = values[np.isfinite(values)]
        low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 1.0)
        high = max(high, low + 1e-9)
        words = [plain(word) for word in shown[0].categories.get(name, ())]
        channel = {"name": plain(name), "low": low, "high": high, "words": words, "bands": []}
        if inner.has_states and not words and np.isfinite(bands[:, j]).all():
            clipped = np.clip((bands[:, j] - low) / (high - low), 0.0, 1.0)
            channel["bands"] = np.rint(SCALE * clipped).astype(int).tolist()
        found.append(channel)
    return found


def _scaled(one: Signals, channels: list[dict[str, Any]]) -> list[list[int | None]]:
    """The values of each channel on its scale, None where one is missing."""
    found = []
    for column, channel in zip(one.values.T, channels, strict=True):
        part = (column - channel["low"]) / (channel["high"] - channel["low"])
        found.append([None if v != v else round(SCALE * v) for v in part.tolist()])
    return found
