"""The scaled forward pass over (state, steps remaining): likelihood, surprise, filter.

alpha_t[x, r] = p(x_t = x, r steps remain counting this one | o_1 ... o_t), and

    alpha_t+1[x, r] ∝ b(x) (alpha_t[x, r + 1] + D[x, r] Σ_y alpha_t[y, 1] A[y, x])

where A is the transition table, D the duration table and b(x) = p(o_t+1 | x). The factor of
proportionality is p(o_t+1 | o_1 ... o_t): its logarithms add up to log p and, with the sign turned,
are the surprise. A step costs O(n_x² + n_x n_d).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sojourn.parallel import chunks, each

if TYPE_CHECKING:
    from sojourn.params import Params
    from sojourn.sequences import Sequences

# Sums over r must vectorise, so their order is the compiler's; nothing else is relaxed.
_FAST = {"reassoc", "contract", "nsz"}


class Tables(NamedTuple):
    """A model as the kernels read it."""

    init: NDArray[np.float64]  # p(x_1 = x, r remain)                             (n_x, n_d)
    A: NDArray[np.float64]  # transition                                          (n_x, n_x)
    D: NDArray[np.float64]  # duration                                            (n_x, n_d)
    B: NDArray[np.float64]  # emission, a row a symbol; the last row: missing     (n_o + 1, n_x)


def tables(params: Params, initial: NDArray[np.float64] | None = None) -> Tables:
    """The tables of a model, laid out for the kernels.

    Parameters
    ----------
    params : Params
        The model.
    initial : ndarray, shape (n_states, max_duration), optional
        Probabilities of the first state and the steps it has left; by default a stay begins where
        the sequence does: ``start[x] * duration[x, r]``.

    Examples
    --------
    >>> from sojourn import Params
    >>> tables(Params.random(2, 3, 4, rng=0)).B.shape
    (5, 2)
    """
    if initial is None:
        initial = params.start[:, None] * params.duration
    # Code -1 (missing) indexes the last row: every state explains it equally well.
    B = np.vstack([params.emission.T, np.ones(params.n_states)])
    return Tables(np.ascontiguousarray(initial), params.transition, params.duration, B)


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def first_step(alpha, init, b):  # type: ignore[no-untyped-def]
    """Fill alpha with init[x, r] b[x]; return its sum, p(o_1)."""
    n_x, n_d = alpha.shape
    total = 0.0
    for x in range(n_x):
        for r in range(n_d):
            alpha[x, r] = init[x, r] * b[x]
            total += alpha[x, r]
    return total


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def forward_step(alpha, out, total, A, D, b, entry):  # type: ignore[no-untyped-def]
    """Advance alpha, whose sum is total, by a symbol into out; return the sum of out, p(o | past).

    The scale 1/total is folded into this step's products. ``entry`` is scratch of length n_x.
    """
    n_x, n_d = alpha.shape
    scale = 1.0 / total
    for x in range(n_x):
        entry[x] = 0.0
    for y in range(n_x):
        leaving = alpha[y, 0]
        for x in range(n_x):
            entry[x] += leaving * A[y, x]
    result = 0.0
    for x in range(n_x):
        k = b[x] * scale
        e = entry[x]
        for r in range(n_d - 1):
            value = k * (alpha[x, r + 1] + e * D[x, r])
            out[x, r] = value
            result += value
        value = k * e * D[x, n_d - 1]
        out[x, n_d - 1] = value
        result += value
    return result


@njit(cache=True, nogil=True, error_model="numpy")
def _forward_chunk(init, A, D, B, codes, offsets, first, last, surprise):  # type: ignore[no-untyped-def]
    """-log p(o_t | o_1 ... o_t-1) at every step; infinite from the first impossible symbol on."""
    n_x, n_d = D.shape
    alphas = np.empty((2, n_x, n_d))
    entry = np.empty(n_x)
    for i in range(first, last):
        start, stop = offsets[i], offsets[i + 1]
        total = first_step(alphas[start & 1], init, B[codes[start]])
        surprise[start] = -np.log(total)
        for t in range(start + 1, stop):
            if total <= 0.0:
                surprise[t] = np.inf
                continue
            alpha, out = alphas[(t - 1) & 1], alphas[t & 1]
            total = forward_step(alpha, out, total, A, D, B[codes[t]], entry)
            surprise[t] = -np.log(total)


def surprise(
    params: Params,
    sequences: Sequences,
    initial: NDArray[np.float64] | None = None,
    n_jobs: int | None = None,
) -> NDArray[np.float64]:
    """-log p(o_t | o_1 ... o_t-1) at every step, all sequences end to end.

    Examples
    --------
    >>> from sojourn import Params, Sequences
    >>> p = Params([1, 0], [[0, 1], [1, 0]], [[0, 1], [0.5, 0.5]], [[1, 0], [0, 1]])
    >>> surprise(p, Sequences.from_lists([[0, 0, 1, 0]])) + 0.0
    array([0.        , 0.        , 0.        , 0.69314718])
    """
    model = tables(params, initial)
    out = np.empty(len(sequences.codes))

    def run(bounds: tuple[int, int]) -> None:
        _forward_chunk(*model, sequences.codes, sequences.offsets, *bounds, out)

    each(run, chunks(sequences.offsets), n_jobs)
    return out


def log_prob(
    params: Params,
    sequences: Sequences,
    initial: NDArray[np.float64] | None = None,
    n_jobs: int | None = None,
) -> NDArray[np.float64]:
    """Natural logarithm of the probability of each sequence.

    Examples
    --------
    >>> from sojourn import Params, Sequences
    >>> p = Params([1, 0], [[0, 1], [1, 0]], [[0, 1], [0.5, 0.5]], [[1, 0], [0, 1]])
    >>> log_prob(p, Sequences.from_lists([[0, 0, 1, 0], [0, 1, 1, 1]]))
    array([-0.69314718,        -inf])
    """
    steps = surprise(params, sequences, initial, n_jobs)
    return -np.add.reduceat(steps, sequences.offsets[:-1])
