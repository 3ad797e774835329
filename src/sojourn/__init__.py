"""Hidden semi-Markov models of discrete event sequences: states that last.

Public names are loaded at first use, so that ``import sojourn`` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sojourn.storage.compiled import drop_stale, make_room

if TYPE_CHECKING:  # the same names as below, for type checkers
    from sojourn.data.as_sequences import as_sequences as as_sequences
    from sojourn.data.changes import events_from_changes as events_from_changes
    from sojourn.data.discretize import Discretizer as Discretizer
    from sojourn.data.end import END as END
    from sojourn.data.sequences import Sequences as Sequences
    from sojourn.data.signals import Signals as Signals
    from sojourn.detect.detector import AnomalyDetector as AnomalyDetector
    from sojourn.errors import SojournError as SojournError
    from sojourn.estimators.context_tree import ContextTree as ContextTree
    from sojourn.estimators.hsmm import HSMM as HSMM
    from sojourn.estimators.select import select as select
    from sojourn.estimators.spectral_hsmm import SpectralHSMM as SpectralHSMM
    from sojourn.exact.params import Params as Params
    from sojourn.io.sort import sort_events as sort_events
    from sojourn.io.sources import read as read
    from sojourn.io.sources import scan as scan
    from sojourn.persist.saving import load as load
    from sojourn.report import write_report as write_report
    from sojourn.spectral.moments import Moments as Moments
    from sojourn.spectral.moments import count as count
    from sojourn.streams.scorer import OnlineScorer as OnlineScorer
    from sojourn.theory.exact_moments import exact_moments as exact_moments
    from sojourn.theory.rank_report import exact_rank_report as exact_rank_report
    from sojourn.theory.rank_report import rank_report as rank_report

__version__ = "0.1.0"

# Public name -> the module that holds it.
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
__all__ = list(_MODULES)

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
