"""Views of a sequence: kinds of evidence, each one number, higher for the more unusual.

- likelihood: mean surprise of a symbol under the model, with that of the end if it has ends;
  stretch: that of the worst ten in a row.
- contexts: mean surprise after contexts of up to six symbols; novelty: the strangest symbol after a
  past that normal sequences have often and never continue so.
- residuals by block (`residuals`): observed minus expected counts, stays among them.
- end: surprise of the end after the last symbols; length: number of steps, in both directions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sojourn.data.sequences import Sequences
from sojourn.data.signals import Signals
from sojourn.detect.contexts import Contexts
from sojourn.detect.novelty import Encoded
from sojourn.detect.numbers import surprises
from sojourn.detect.residuals import Whitening, possible_residuals, whiten

Floats = NDArray[np.float64]
Blocks = dict[str, Floats]

STRETCH = 10  # steps
MOST_SURPRISE = 50.0  # nats; an impossible symbol is no worse


def views(
    model: Any, contexts: Contexts, whitenings: dict[str, Whitening], encoded: Encoded
) -> dict[str, Floats]:
    """The value of each view for each sequence, (n,) each."""
    sequences, after = encoded.known, contexts.follows(encoded)
    parts = np.split(after.surprise, after.offsets[1:-1])  # each with its end
    steps_of, end_of = surprises(model, sequences)
    rows, ends = [np.minimum(s, MOST_SURPRISE) for s in steps_of], np.minimum(end_of, MOST_SURPRISE)
    observed, known = encoded.given.n_observed, np.maximum(sequences.n_observed, 1)
    found = {
        "likelihood": (np.array([steps.sum() for steps in rows]) + ends) / known,
        "stretch": np.array([worst_stretch(steps) for steps in rows]),
        "contexts": np.array([steps.sum() for steps in parts]) / (observed + 1),
        "novelty": np.maximum.reduceat(after.novelty, after.offsets[:-1]),
        "end": after.surprise[after.offsets[1:] - 1],
        "length": np.log1p(sequences.lengths),
    }
    if isinstance(sequences, Signals):  # numbers have no contexts
        found |= {name: np.zeros(len(sequences)) for name in ("contexts", "novelty", "end")}
    possible, blocks = possible_residuals(model, sequences)
    for name, whitening in whitenings.items():
        found[name] = np.full(len(sequences), np.inf)
        found[name][possible] = _distances(whitening, blocks[name]) if blocks else 0.0
    return found


def _distances(whitening: Whitening, block: Floats) -> Floats:
    """Not the logarithm that `distance` is, in which extremes are hardly further off."""
    return np.asarray(np.sqrt(np.expm1(whitening.distance(block))))


def seen_by_others(
    model: Any, own: Blocks, sequences: Sequences, blocks: Blocks, folds: NDArray[np.int64], cv: int
) -> Blocks:
    """Views of held-out sequences, with whitenings that one more fold had no part in, (cv, n) each.

    `blocks` are residuals of the sequences that the model was fitted on, `folds` their folds. Where
    two folds leave nothing to learn from, only one is left out.
    """
    found = {name: np.tile(values, (cv, 1)) for name, values in own.items()}
    possible, held = possible_residuals(model, sequences)
    for fold in np.unique(folds).tolist() if held else ():
        rest = folds != fold
        for name, block in blocks.items() if rest.sum() > 1 else ():
            found[name][fold, possible] = _distances(whiten(block[rest]), held[name])
    return found


def worst_stretch(steps: Floats) -> float:
    """The highest mean of STRETCH steps in a row; what is shorter is filled up with zeros."""
    total = np.append(0.0, np.cumsum(steps))
    sums = total[STRETCH:] - total[:-STRETCH]
    return float((sums.max() if sums.size else total[-1]) / STRETCH)
