"""Data to try the models on: recorded and simulated flight approaches.

Names are loaded at first use, as those of the package itself are.

May import: `data`, `scale`, `exact`. Start reading: `recorded`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sojourn.datasets.recorded import Approaches, approaches
    from sojourn.datasets.simulate import ANOMALIES, COMMANDS, PHASES, simulate_approaches

__all__ = ["ANOMALIES", "COMMANDS", "PHASES", "Approaches", "approaches", "simulate_approaches"]

_MODULES = {
    "ANOMALIES": "simulate",
    "COMMANDS": "simulate",
    "PHASES": "simulate",
    "Approaches": "recorded",
    "approaches": "recorded",
    "simulate_approaches": "simulate",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'sojourn.datasets' has no attribute {name!r}")
    value = getattr(import_module(f"sojourn.datasets.{_MODULES[name]}"), name)
    globals()[name] = value  # the next look-up does not come here
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
