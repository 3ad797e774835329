"""Data to try the models on: recorded and simulated flight approaches.

May import: `data`, `scale`, `exact`. Start reading: `recorded`.
"""

from sojourn.datasets.recorded import Approaches, approaches
from sojourn.datasets.simulate import ANOMALIES, COMMANDS, PHASES, simulate_approaches

__all__ = ["ANOMALIES", "COMMANDS", "PHASES", "Approaches", "approaches", "simulate_approaches"]
