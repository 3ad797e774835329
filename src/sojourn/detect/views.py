"""Views of a sequence: kinds of evidence, each one number, higher for the more unusual.

- likelihood: mean surprise of a symbol under the model, with that of the end if it has ends;
  stretch: that of the worst ten in a row.
- contexts: mean surprise after contexts of up to six symbols; novelty: the strangest symbol after a
  past that normal sequences have often and never continue so.
- residuals by block (`residuals`): observed minus expected counts, stays among them.
- end: surprise of the end after the last symbols; length: number of steps, in both directions.

Measurements have likelihood, stretch and residuals alone: no contexts, and a length is part of what
a model of them describes only with ends, whose surprise is in the likelihood.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sojourn.data.signals import Signals
from sojourn.detect.contexts import Contexts
from sojourn.detect.novelty import Encoded
from sojourn.detect.numbers import surprises
from sojourn.detect.residuals import Whitening, possible_residuals

Floats = NDArray[np.float64]

STRETCH = 10  # steps
MOST_SURPRISE = 50.0  # nats; an impossible symbol is no worse


def views(
    model: Any, contexts: Contexts, whitenings: dict[str, Whitening], encoded: Encoded
) -> dict[str, Floats]:
    """The value of each view for each sequence, (n,) each."""
    sequences = encoded.known
    steps_of, end_of = surprises(model, sequences)
    rows, ends = [np.minimum(s, MOST_SURPRISE) for s in steps_of], np.minimum(end_of, MOST_SURPRISE)
    known = np.maximum(sequences.n_observed, 1)
    found = {
        "likelihood": (np.array([steps.sum() for steps in rows]) + ends) / known,
        "stretch": np.array([worst_stretch(steps) for steps in rows]),
    }
    if not isinstance(sequences, Signals):
        after = contexts.follows(encoded)
        parts = np.split(after.surprise, after.offsets[1:-1])  # each with its end
        observed = encoded.given.n_observed
        found |= {
            "contexts": np.array([steps.sum() for steps in parts]) / (observed + 1),
            "novelty": np.maximum.reduceat(after.novelty, after.offsets[:-1]),
            "end": after.surprise[after.offsets[1:] - 1],
            "length": np.log1p(sequences.lengths),
        }
    possible, blocks = possible_residuals(model, sequences)
    for name, whitening in whitenings.items():
        found[name] = np.full(len(sequences), np.inf)
        found[name][possible] = whitening.distance(blocks[name]) if blocks else 0.0
    return found


def worst_stretch(steps: Floats) -> float:
    """The highest mean of STRETCH steps in a row; what is shorter is filled up with zeros."""
    total = np.append(0.0, np.cumsum(steps))
    sums = total[STRETCH:] - total[:-STRETCH]
    return float((sums.max() if sums.size else total[-1]) / STRETCH)
