"""Hidden semi-Markov models of discrete event sequences: states that last.

Public names are loaded at first use, so that ``import sojourn`` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sojourn.errors import SojournError
    from sojourn.params import Params
    from sojourn.sequences import Sequences, as_sequences

__version__ = "0.1.0"

__all__ = ["Params", "Sequences", "SojournError", "as_sequences"]

# Public name -> the module that holds it; the same names stand in `__all__` and the imports above.
_MODULES = {
    "Params": "params",
    "Sequences": "sequences",
    "SojournError": "errors",
    "as_sequences": "sequences",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'sojourn' has no attribute {name!r}")
    value = getattr(import_module(f"sojourn.{_MODULES[name]}"), name)
    globals()[name] = value  # the next look-up does not come here
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
