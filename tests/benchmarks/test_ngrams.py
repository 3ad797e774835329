"""The baseline of the benchmarks: it must be what its formula says, or beating it means nothing."""

from collections import Counter

import numpy as np
import pytest

from benchmarks.ngrams import NGram
from sojourn import Params, Sequences

ROUNDING = 1e-12  # a few dozen sums and products


def by_hand(training, sequence, order, n_o):
    """Witten-Bell in plain loops over lists."""
    grams = Counter(
        tuple(s[i : i + m])
        for s in training
        for m in range(1, order + 1)
        for i in range(len(s) - m + 1)
        if None not in s[i : i + m]
    )

    def p(symbol, context):
        after = [grams[(*context, w)] for w in range(n_o)]
        lower = p(symbol, context[1:]) if context else 1 / n_o
        if sum(after) == 0:
            return lower
        different = sum(c > 0 for c in after)
        return (after[symbol] + different * lower) / (sum(after) + different)

    out = []
    for t, symbol in enumerate(sequence):
        context = sequence[max(0, t - order + 1) : t]
        while None in context:
            context = context[1:]
        out.append(0.0 if symbol is None else -np.log(p(symbol, tuple(context))))
    return out


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_surprise_is_the_formula_in_plain_loops(order):
    rng = np.random.default_rng(order)
    rows = [rng.integers(0, 3, rng.integers(1, 12)).tolist() for _ in range(12)]
    rows[3][0] = rows[5][-1] = rows[7][len(rows[7]) // 2] = None
    seqs = Sequences.from_lists(rows)
    expected = [x for row in rows for x in by_hand(rows[:6], row, order, 3)]
    model = NGram(order).fit(seqs[:6])
    np.testing.assert_allclose(model.surprise(seqs), expected, rtol=ROUNDING, atol=ROUNDING)


def test_next_symbols_are_those_of_the_surprise_after_any_context():
    training = Params.random(3, 4, 5, rng=0).sample(20, 30, rng=1)
    model = NGram(3).fit(training)
    for context in ([], [0], [1, 2], [4, 4, 4, 4], [None, 3], [2, None]):
        rows = Sequences.from_lists([[*context, w] for w in range(5)])
        last = np.exp(-model.surprise(rows)[rows.offsets[1:] - 1])
        assert last.sum() == pytest.approx(1, abs=ROUNDING)
        past = Sequences.from_lists([context], vocabulary=np.arange(5), empty=True)
        np.testing.assert_allclose(model.predict_next(past)[0], last, rtol=ROUNDING)
