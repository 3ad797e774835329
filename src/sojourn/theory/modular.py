"""Exact linear algebra: matrices of residues modulo the prime p = 2³¹ - 1.

Floating point cannot tell a small singular value from zero. Residues can: if a minor is not zero
modulo p it is not zero. So a rank computed here never exceeds the true one, and it falls short
only if p happens to divide every minor of the largest size, which for a matrix of random entries
has a chance of about (degree of the minor)/p.

A residue is a uint64 below p, so that a product of two fits with room to spare; because
2³¹ = 1 modulo p, a number is reduced by adding its upper bits to its lower ones.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Residues = NDArray[np.uint64]

PRIME = 2**31 - 1

_P = np.uint64(PRIME)
_BITS = np.uint64(31)
_ZERO, _ONE = np.uint64(0), np.uint64(1)


def residues(table: NDArray[np.float64]) -> Residues:
    """Each float64, which is an integer times a power of two, modulo p and without rounding."""
    mantissa, exponent = np.frexp(table)
    integer = (mantissa * 2.0**53).astype(np.int64) % PRIME  # 53 bits: exact
    power = np.left_shift(1, (exponent.astype(np.int64) - 53) % 31)  # 2³¹ = 1 modulo p
    return (integer * power % PRIME).astype(np.uint64)


def inverse(values: Residues) -> Residues:
    """Reciprocals modulo p; 0 for 0."""
    flat = [pow(int(value), PRIME - 2, PRIME) for value in values.ravel()]  # Fermat
    return np.array(flat, np.uint64).reshape(values.shape)


def product(A: Residues, B: Residues) -> Residues:
    """Matrix product modulo p."""
    return _product(np.ascontiguousarray(A), np.ascontiguousarray(B))


def row_basis(A: Residues) -> Residues:
    """Independent rows that span the same space as the rows of A; as many as the rank."""
    echelon = np.ascontiguousarray(A).copy()
    rank = _eliminate(echelon)
    return echelon[:rank]


@njit(cache=True, nogil=True)
def _product(A, B):  # type: ignore[no-untyped-def]
    C = np.zeros((A.shape[0], B.shape[1]), np.uint64)
    for i in range(A.shape[0]):
        for k in range(A.shape[1]):
            a = A[i, k]
            if a != _ZERO:
                for j in range(B.shape[1]):
                    term = a * B[k, j]  # below 2⁶²; folded once it is below 2³²,
                    C[i, j] += (term & _P) + (term >> _BITS)  # and 2³² of those fit
        for j in range(B.shape[1]):
            C[i, j] %= _P
    return C


@njit(cache=True, nogil=True)
def _reciprocal(value):  # type: ignore[no-untyped-def]
    result, power, exponent = _ONE, value, _P - np.uint64(2)
    while exponent != _ZERO:
        if exponent & _ONE:
            result = result * power % _P
        power = power * power % _P
        exponent >>= _ONE
    return result


@njit(cache=True, nogil=True)
def _eliminate(A):  # type: ignore[no-untyped-def]
    """Bring A to row echelon form in place; return its rank."""
    rows, columns = A.shape
    rank = 0
    for c in range(columns):
        pivot = rank
        while pivot < rows and A[pivot, c] == _ZERO:
            pivot += 1
        if pivot == rows:
            continue
        for j in range(c, columns):
            A[pivot, j], A[rank, j] = A[rank, j], A[pivot, j]
        scale = _reciprocal(A[rank, c])
        for j in range(c, columns):
            A[rank, j] = A[rank, j] * scale % _P
        for i in range(rank + 1, rows):
            factor = (_P - A[i, c]) % _P
            if factor != _ZERO:
                for j in range(c, columns):
                    A[i, j] = (A[i, j] + factor * A[rank, j]) % _P
        rank += 1
        if rank == rows:
            break
    return rank
