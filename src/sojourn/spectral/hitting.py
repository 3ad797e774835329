"""When something happens first, by operators: the sum of those of all other symbols."""

from __future__ import annotations

import numpy as np

from sojourn.data.sequences import Sequences
from sojourn.exact.hitting import MOST, RARE, Hits
from sojourn.spectral.answers import Floats, in_chunks, moved_by, next_of_chunk
from sojourn.spectral.models import Model


def first_hits(
    model: Model, sequences: Sequences, target: int, most: int = MOST, n_jobs: int | None = None
) -> Hits:
    """Distribution of the first step with a symbol; of the end where `target` is n_symbols."""
    parts, options = [sequences], {"target": target, "most": most}
    if model.filter is not None and model.filter.n_t > 1:  # operators depend on the length so far
        parts = [sequences[i : i + 1] for i in range(len(sequences))]
    found = [
        hits for part in parts for hits in in_chunks(_chunk_hits, model, part, n_jobs, **options)
    ]
    n_steps = max(len(part[0]) for part in found)
    rows = [np.pad(np.stack(f, 1), ((0, 0), (0, n_steps - len(f)))) for f, *_ in found]
    later, never, symbols = (np.concatenate([part[i] for part in found]) for i in (1, 2, 3))
    return Hits(np.concatenate(rows), later, never, symbols)


def _chunk_hits(
    model: Model, sequences: Sequences, bounds: tuple[int, int], target: int, most: int
) -> tuple[list[Floats], Floats, Floats, Floats]:
    """The recursion: the mixture's first step, then those of the operators."""
    rows, lengths, p = next_of_chunk(model, sequences, bounds)
    p, n_o, filter = p[:, 0], model.n_symbols, model.filter
    rank = model.emission(0).shape[1]
    assert filter is not None
    others = (np.arange(n_o) != target).astype(np.float64)
    steps = zip(rows, p[:, :n_o] * others, lengths.tolist(), strict=True)
    states = np.concatenate([moved_by(model, row, q, t) for row, q, t in steps])
    first, alive, never = [], np.ones(len(rows)), np.zeros(len(rows))
    symbols = np.zeros((len(rows), n_o))
    for h in range(most):
        first.append(alive * p[:, target])
        symbols += alive[:, None] * p[:, :n_o]
        ended = alive * p[:, n_o] if model.ends and target < n_o else 0.0
        alive, never = np.maximum(alive - first[-1] - ended, 0.0), never + ended
        if alive.sum() <= RARE * len(rows):
            break
        emit = model.emission(int(lengths.max()) + h + 1)
        mass = states @ emit.sum(axis=0)
        states = np.where(
            (mass > 0)[:, None],
            states / np.where(mass > 0, mass, 1.0)[:, None],
            filter.start[:rank],
        )
        q = np.zeros((len(rows), filter.k + n_o + 1))
        q[:, filter.k :] = states @ emit.T
        p = filter.predictions(q)
        states = states @ model.combined(others, int(lengths.max()) + h + 1)
    return first, alive, never, symbols
