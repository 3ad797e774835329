"""The reference: topics, and one page per public object, written before the pages are built."""

from __future__ import annotations

import inspect
from importlib import import_module
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "reference"

# Topic: pages of the guide to read with it, and its objects. Names are what a user imports; what is
# only returned stands under the module that defines it.
TOPICS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "Models": (
        ("choosing", "hsmm", "theory-spectral"),
        ("sojourn.HSMM", "sojourn.SpectralHSMM", "sojourn.ContextTree", "sojourn.Params"),
    ),
    "What models return": (
        ("hsmm", "sensors"),
        (
            "sojourn.exact.viterbi.Segment",
            "sojourn.exact.summary.Summary",
            "sojourn.exact.summary.StateRow",
            "sojourn.estimators.numbers.NextValues",
        ),
    ),
    "Sizes": (
        ("choosing",),
        ("sojourn.select", "sojourn.em.sizes.Selection", "sojourn.em.sizes.Size"),
    ),
    "Forecasts": (
        ("forecasting",),
        (
            "sojourn.estimators.forecast.Forecast",
            "sojourn.estimators.forecast.TimeTo",
            "sojourn.estimators.forecast.Remaining",
            "sojourn.END",
        ),
    ),
    "Detection": (
        ("detection", "report"),
        (
            "sojourn.AnomalyDetector",
            "sojourn.detect.explain.Explanation",
            "sojourn.detect.explain.Reason",
            "sojourn.write_report",
        ),
    ),
    "Streams and saved models": (
        ("models", "detection"),
        (
            "sojourn.OnlineScorer",
            "sojourn.detect.stream.AlarmStream",
            "sojourn.detect.stream.Step",
            "sojourn.load",
        ),
    ),
    "Data in memory": (
        ("data", "reading", "sensors"),
        (
            "sojourn.Sequences",
            "sojourn.Signals",
            "sojourn.as_sequences",
            "sojourn.Discretizer",
            "sojourn.events_from_changes",
            "sojourn.SojournError",
        ),
    ),
    "Files": (
        ("reading", "scale"),
        (
            "sojourn.read",
            "sojourn.scan",
            "sojourn.io.sources.Scan",
            "sojourn.sort_events",
        ),
    ),
    "Emissions": (
        ("sensors", "extending"),
        (
            "sojourn.emissions.Gaussian",
            "sojourn.emissions.StudentT",
            "sojourn.emissions.Poisson",
            "sojourn.emissions.NegativeBinomial",
            "sojourn.emissions.Bernoulli",
            "sojourn.emissions.Exponential",
            "sojourn.emissions.Gamma",
            "sojourn.emissions.Categorical",
            "sojourn.emissions.Channels",
            "sojourn.emissions.Emission",
        ),
    ),
    "Figures": (
        ("report", "gallery/index"),
        (
            "sojourn.plot.timeline",
            "sojourn.plot.signal",
            "sojourn.plot.durations",
            "sojourn.plot.emissions",
            "sojourn.plot.transitions",
            "sojourn.plot.occupancy",
            "sojourn.plot.scores",
            "sojourn.plot.pvalues",
            "sojourn.plot.roc",
            "sojourn.plot.precision_recall",
            "sojourn.plot.spectrum",
            "sojourn.plot.ranks",
        ),
    ),
    "Example data": (
        ("datasets",),
        (
            "sojourn.datasets.approaches",
            "sojourn.datasets.Approaches",
            "sojourn.datasets.simulate_approaches",
            "sojourn.datasets.ANOMALIES",
            "sojourn.datasets.COMMANDS",
            "sojourn.datasets.PHASES",
        ),
    ),
    "Theory": (
        ("theory-ranks", "notation"),
        (
            "sojourn.count",
            "sojourn.Moments",
            "sojourn.exact_moments",
            "sojourn.rank_report",
            "sojourn.exact_rank_report",
            "sojourn.theory.rank_report.RankReport",
        ),
    ),
}


def found(name: str) -> Any:
    """The object of a name."""
    module, _, own = name.rpartition(".")
    return getattr(import_module(module), own)


def write(app: Any = None) -> None:
    """Write the page of each object, and the page that lists them by topic."""
    FOLDER.mkdir(exist_ok=True)
    lines = ["Reference", "=========", "", "``import sojourn as sj``; one page per object.", ""]
    for topic, (guides, names) in TOPICS.items():
        guide = ", ".join(f":doc:`/{page}`" for page in guides)
        lines += [topic, "-" * len(topic), "", f"In the guide: {guide}.", ""]
        lines += [".. list-table::", "   :widths: 35 65", ""]
        for name in names:
            text = _page(name, guide)
            path = FOLDER / f"{name}.rst"
            if not path.is_file() or path.read_text("utf-8") != text:
                path.write_text(text, "utf-8")
            lines += [f"   * - :doc:`{_short(name)} <{name}>`", f"     - {_first_line(name)}"]
        lines += ["", ".. toctree::", "   :hidden:", ""]
        lines += [*(f"   {name}" for name in names), ""]
    (FOLDER / "index.rst").write_text("\n".join(lines), "utf-8")


def _page(name: str, guide: str) -> str:
    thing, title = found(name), _short(name)
    lines = [title, "=" * len(title), ""]
    if inspect.isclass(thing):
        # scikit-learn's own methods are described there.
        lines += [f".. autoclass:: {name}", "   :members:"]
        lines += ["   :inherited-members: BaseEstimator,tuple,Exception,ABC"]
    elif callable(thing):
        lines += [f".. autofunction:: {name}"]
    else:
        value = f"   :annotation: = {thing!r}" if isinstance(thing, tuple) else "   :annotation:"
        lines += [f".. autodata:: {name}", value]
        lines += ["", f"   {_first_line(name)}"] if isinstance(thing, tuple) else []
    return "\n".join([*lines, "", f"In the guide: {guide}.", ""])


def _short(name: str) -> str:
    """How a user writes it after `sojourn.`; the name alone if it is only returned."""
    module, _, own = name.rpartition(".")
    part = module.removeprefix("sojourn").removeprefix(".")
    return f"{part}.{own}" if part in ("plot", "emissions", "datasets") else own


def _first_line(name: str) -> str:
    thing = found(name)
    if isinstance(thing, tuple):
        return f"{len(thing)} names: {', '.join(thing)}."
    return (inspect.getdoc(thing) or "").partition("\n")[0]
