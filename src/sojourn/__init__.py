"""Hidden semi-Markov models of discrete event sequences: states that last.

Public names are loaded at first use, so that ``import sojourn`` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sojourn.detect import AnomalyDetector
    from sojourn.discretize import Discretizer
    from sojourn.errors import SojournError
    from sojourn.hsmm import HSMM
    from sojourn.moments import Moments, count
    from sojourn.params import Params
    from sojourn.population import exact_moments
    from sojourn.prepare import events_from_changes
    from sojourn.ranks import exact_rank_report, rank_report
    from sojourn.report import write_report
    from sojourn.selection import select
    from sojourn.sequences import Sequences, as_sequences
    from sojourn.sorting import sort_events
    from sojourn.sources import read, scan
    from sojourn.spectral import SpectralHSMM
    from sojourn.store import load
    from sojourn.stream import OnlineScorer

__version__ = "0.1.0"

__all__ = [
    "HSMM",
    "AnomalyDetector",
    "Discretizer",
    "Moments",
    "OnlineScorer",
    "Params",
    "Sequences",
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
    "HSMM": "hsmm",
    "AnomalyDetector": "detect",
    "Discretizer": "discretize",
    "Moments": "moments",
    "OnlineScorer": "stream",
    "Params": "params",
    "Sequences": "sequences",
    "SojournError": "errors",
    "SpectralHSMM": "spectral",
    "as_sequences": "sequences",
    "count": "moments",
    "events_from_changes": "prepare",
    "exact_moments": "population",
    "exact_rank_report": "ranks",
    "load": "store",
    "rank_report": "ranks",
    "read": "sources",
    "scan": "sources",
    "select": "selection",
    "sort_events": "sorting",
    "write_report": "report",
}


def __getattr__(name: str) -> Any:
    if name in ("datasets", "plot"):
        return import_module(f"sojourn.{name}")
    if name not in _MODULES:
        raise AttributeError(f"module 'sojourn' has no attribute {name!r}")
    value = getattr(import_module(f"sojourn.{_MODULES[name]}"), name)
    globals()[name] = value  # the next look-up does not come here
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "datasets", "plot"})
