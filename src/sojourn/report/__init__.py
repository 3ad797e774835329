"""One page that shows which sequences are abnormal, where and why, and the model behind it.

The page is self-contained: it opens from a disk, makes no network requests, and contains its style,
its script and its figures.

`findings` scores, sorts and explains the sequences; `contents` gathers what the page shows of
them: `doubts`, `overview`, `timelines` and `model`.

May import: `data`, `storage`, `estimators`, `detect`, `plot`. Start reading: `contents`.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Mapping
from importlib import resources
from typing import Any

from sojourn.checks import optional, positive_int
from sojourn.errors import SojournError
from sojourn.storage.atomic import atomic_write

# What could end a script element early, or a line of JavaScript, stands as an escape in JSON.
ESCAPES = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}


def write_report(
    model: Any,
    X: Any,
    path: str | os.PathLike[str],
    *,
    labels: Any = None,
    normal: Any = None,
    normal_label: Any = None,
    contamination: float | None = None,
    title: str | None = None,
    worst: int = 30,
    provenance: Mapping[str, Any] | None = None,
) -> None:
    """Write an HTML page about sequences, the most abnormal first, and about the model.

    Parameters
    ----------
    model : AnomalyDetector, HSMM, SpectralHSMM or ContextTree
        Fitted. A model without a detector gets one, which is calibrated on `normal` and leaves the
        model as it is.
    X : Sequences, Signals, list of sequences or integer array
        The sequences to report on; measurements for a model of measurements.
    path : str or path
        Where to write, by custom ``report.html``; the write is atomic.
    labels : sequence, optional
        The known label of each sequence: True or 1 for abnormal, scikit-learn's -1 and +1, or
        names, of which `normal_label` is the normal one. They add curves and a column, and change
        nothing else.
    normal : Sequences, list of sequences or integer array, optional
        Normal sequences, not those the model was fitted on, that calibrate a model without a
        detector; `X` itself, taken as mostly normal, if not given.
    normal_label : optional
        The label of normal sequences, where labels are names; "normal" if not given.
    contamination : float, optional
        The false-alarm rate of a model without a detector; a detector has its own.
    title : str, optional
    worst : int
        How many sequences get a timeline.
    provenance : mapping, optional
        More lines on where the numbers come from, such as ``{"File": "today.csv"}``.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import sojourn as sj
    >>> seqs = sj.Params.random(2, 4, 3, rng=0).sample(60, 30, rng=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = Path(folder, "report.html")
    ...     sj.write_report(sj.AnomalyDetector(sj.HSMM(2, 4)).fit(seqs), seqs, page)
    ...     page.read_text("utf-8")[:15]
    '<!doctype html>'
    """
    jinja2, _ = (optional(name, "a report", "report") for name in ("jinja2", "matplotlib"))
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise SojournError(f"there is no folder {folder}; make it first, or give another path")
    from sojourn.report.contents import contents
    from sojourn.report.findings import find

    worst = positive_int("worst", worst)
    findings = find(model, X, labels, normal, normal_label, contamination, worst)
    page = contents(findings, worst, title, provenance)
    strict: Any = {"autoescape": True, "undefined": jinja2.StrictUndefined}
    environment = jinja2.Environment(**strict, trim_blocks=True, lstrip_blocks=True)
    early, script = _part("theme.js"), _part("script.js")
    text = environment.from_string(_part("page.html.j2")).render(
        page,
        style=_part("style.css"),
        early=early,
        script=script,
        script_hashes=f"'sha256-{_digest(early)}' 'sha256-{_digest(script)}'",
        json=embedded(page["data"]),
    )
    with atomic_write(path) as file:
        file.write(text)


def embedded(data: Any) -> str:
    r"""Data as JSON that is inert inside a page, whatever names it holds.

    Examples
    --------
    >>> embedded({"id": "</script>"})
    '{"id":"\\u003c/script\\u003e"}'
    """
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.translate(ESCAPES).encode("utf-8", "replace").decode("utf-8")


def _part(name: str) -> str:
    return resources.files("sojourn.report").joinpath(name).read_text("utf-8")


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
