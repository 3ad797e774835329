"""Hidden semi-Markov models of discrete event sequences: states that last.

Public names are loaded at first use, so that ``import sojourn`` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sojourn.storage.compiled import drop_stale, make_room

if TYPE_CHECKING:
    from sojourn.data.as_sequences import as_sequences
    from sojourn.data.changes import events_from_changes
    from sojourn.data.discretize import Discretizer
    from sojourn.data.end import END
    from sojourn.data.sequences import Sequences
    from sojourn.data.signals import Signals
    from sojourn.detect.detector import AnomalyDetector
    from sojourn.errors import SojournError
    from sojourn.estimators.context_tree import ContextTree
    from sojourn.estimators.hsmm import HSMM
    from sojourn.estimators.select import select
    from sojourn.estimators.spectral_hsmm import SpectralHSMM
    from sojourn.exact.params import Params
    from sojourn.io.sort import sort_events
    from sojourn.io.sources import read, scan
    from sojourn.persist.saving import load
    from sojourn.report import write_report
    from sojourn.spectral.moments import Moments, count
    from sojourn.streams.scorer import OnlineScorer
    from sojourn.theory.exact_moments import exact_moments
    from sojourn.theory.rank_report import exact_rank_report, rank_report

__version__ = "0.1.0"

__all__ = [
    "END",
    "HSMM",
    "AnomalyDetector",
    "ContextTree",
    "Discretizer",
    "Moments",
    "OnlineScorer",
    "Params",
    "Sequences",
    "Signals",
    "SojournError",
    "SpectralHSMM",
    "as_sequences",
    "count",
    "events_from_changes",
    "exact_moments",
    "exact_rank_report",
    "load",
    "rank_report",
    "read",
    "scan",
    "select",
    "sort_events",
    "write_report",
]

# Public name -> the module that holds it; the same names stand in `__all__` and the imports above.
_MODULES = {
    "END": "data.end",
    "HSMM": "estimators.hsmm",
    "AnomalyDetector": "detect.detector",
    "ContextTree": "estimators.context_tree",
    "Discretizer": "data.discretize",
    "Moments": "spectral.moments",
    "OnlineScorer": "streams.scorer",
    "Params": "exact.params",
    "Sequences": "data.sequences",
    "Signals": "data.signals",
    "SojournError": "errors",
    "SpectralHSMM": "estimators.spectral_hsmm",
    "as_sequences": "data.as_sequences",
    "count": "spectral.moments",
    "events_from_changes": "data.changes",
    "exact_moments": "theory.exact_moments",
    "exact_rank_report": "theory.rank_report",
    "load": "persist.saving",
    "rank_report": "theory.rank_report",
    "read": "io.sources",
    "scan": "io.sources",
    "select": "estimators.select",
    "sort_events": "io.sort",
    "write_report": "report",
}


drop_stale(__path__[0], __version__)
make_room(__path__[0])


def __getattr__(name: str) -> Any:
    if name in ("datasets", "emissions", "plot"):
        return import_module(f"sojourn.{name}")
    if name not in _MODULES:
        raise AttributeError(f"module 'sojourn' has no attribute {name!r}")
    value = getattr(import_module(f"sojourn.{_MODULES[name]}"), name)
    globals()[name] = value  # the next look-up does not come here
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, "__version__", "datasets", "emissions", "plot"})
