"""When something happens first: exact recursions over what is not seen yet."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sojourn.exact.filter import tables
from sojourn.exact.forward import step_unseen
from sojourn.exact.params import Params

Floats = NDArray[np.float64]

MOST = 10_000  # steps ahead
RARE = 1e-9  # what may still come is left out when it is as improbable


class Hits(NamedTuple):
    """p(first at step h), h = 1, 2, …; that it comes later, or never as the end came first."""

    first: Floats  # (n, n_steps)
    later: Floats  # (n,)
    never: Floats  # (n,)
    symbols: Floats  # expected number of each symbol until then, (n, n_symbols)


def first_hits(
    params: Params,
    alpha: Floats,
    initial: Floats | None = None,
    *,
    symbol: int | None = None,
    state: int | None = None,
    most: int = MOST,
) -> Hits:
    """Distribution of the first step with a symbol, or in a state; of the end if neither is given.

    `alpha` is what `filtered` returns. What is counted is taken out of the recursion, so that the
    next steps are given that it has not come yet.
    """
    model = tables(params, initial)
    seen = np.ones(params.n_states)  # p(counted | state)
    if symbol is not None:
        seen = params.emission[:, symbol]
    elif state is not None:
        seen = (np.arange(params.n_states) == state).astype(np.float64)
    fresh = ~alpha.any(axis=(1, 2))
    first, never, h = [], np.zeros(len(alpha)), 0
    visits = np.zeros((len(alpha), params.n_states))
    while h < most and (h == 0 or alpha.sum() > RARE * len(alpha)):
        alpha, ended = step_unseen(params, model, alpha)
        if h == 0:  # sequences without symbols are yet to begin
            alpha[fresh], ended[fresh] = model.init, params.empty
        visits += alpha.sum(axis=2)
        if symbol is None and state is None:
            first.append(ended)
        else:
            first.append(alpha.sum(axis=2) @ seen)
            alpha = alpha * (1.0 - seen)[:, None]
            never = never + ended
        h += 1
    later = alpha.sum(axis=(1, 2))
    return Hits(np.stack(first, axis=1), later, never, visits @ params.emission)
