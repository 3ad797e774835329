"""What is held out depends on the ids alone, and nothing is lost or taken twice."""

from itertools import pairwise

import numpy as np
import pytest

from sojourn import Sequences
from sojourn.contexts.pieces import BLOCK, NO_LIMIT, SHARE, Pieces, split

# A share of n hashes is binomial; five standard deviations are passed once in two million draws.
SIGMAS = 5


def ragged(lengths, ids=None):
    lengths = np.asarray(lengths)
    codes = np.arange(lengths.sum()) % 3
    ids = np.arange(len(lengths)) if ids is None else np.asarray(ids)
    return Sequences(codes, np.append(0, np.cumsum(lengths)), np.arange(3), ids)


def pieces(lengths, keys):
    ends = np.cumsum(lengths)
    codes = np.arange(ends[-1], dtype=np.int32)
    keys = np.array(keys, np.uint64)
    yes = np.ones(len(ends), bool)
    return Pieces(codes, ends - lengths, ends, yes, yes, keys)


def stretches(parts):
    return list(zip(parts.begins.tolist(), parts.ends.tolist(), strict=True))


MANY = ragged(np.random.default_rng(0).integers(1, 5 * BLOCK, 400))


def test_pieces_cover_every_symbol_once():
    training, eligible = split(MANY)
    both = sorted(stretches(training) + stretches(eligible))
    assert both[0][0] == 0
    assert both[-1][1] == MANY.n_total
    assert all(end == begin for (_, end), (begin, _) in pairwise(both))


def test_no_piece_crosses_the_end_of_a_sequence():
    for parts in split(MANY):
        owner = np.searchsorted(MANY.offsets, parts.begins, side="right")
        assert np.array_equal(owner, np.searchsorted(MANY.offsets, parts.ends, side="left"))
        assert np.array_equal(parts.fresh, np.isin(parts.begins, MANY.offsets))
        assert np.array_equal(parts.closed, np.isin(parts.ends, MANY.offsets))


def test_long_sequences_are_cut_and_short_ones_are_not():
    training, eligible = split(MANY)
    size = eligible.ends - eligible.begins
    of = np.searchsorted(MANY.offsets, eligible.begins, side="right") - 1
    long = MANY.lengths[of] > 2 * BLOCK
    assert 20 < long.sum() < len(long) - 20
    assert np.array_equal(size[~long], MANY.lengths[of][~long])
    assert size[long].min() == BLOCK
    assert size[long].max() < 2 * BLOCK  # the last block takes what is left over
    # Neighbouring blocks that are not held out are one stretch.
    inner = np.isin(training.ends, training.begins) & ~np.isin(training.ends, MANY.offsets)
    assert not inner.any()


def test_without_blocks_nothing_is_cut():
    training, eligible = split(MANY, block=None)
    assert sorted(stretches(training) + stretches(eligible)) == list(
        zip(MANY.offsets[:-1].tolist(), MANY.offsets[1:].tolist(), strict=True)
    )


@pytest.mark.parametrize(
    "ids",
    [
        np.arange(20_000),
        np.arange(20_000) * 1024 - 7,
        np.array([f"flight-{i:06d}" for i in range(20_000)]),
    ],
    ids=["numbers", "multiples", "names"],
)
def test_a_fifth_is_held_out_whatever_the_ids(ids):
    n = len(ids)
    _, eligible = split(ragged(np.ones(n, int), ids))
    spread = np.sqrt(SHARE * (1 - SHARE) / n)
    assert abs(len(eligible) / n - SHARE) < SIGMAS * spread
    # Nor do neighbours go together: pairs of neighbours held out are a fifth of a fifth.
    held = np.isin(np.arange(n), eligible.begins)
    assert abs((held[1:] & held[:-1]).mean() - SHARE**2) < 2 * SIGMAS * np.sqrt(SHARE**2 / n)


def test_blocks_of_one_sequence_are_held_out_by_themselves():
    one = ragged([2000 * BLOCK])
    _, eligible = split(one)
    assert abs(len(eligible) / 2000 - SHARE) < SIGMAS * np.sqrt(SHARE * (1 - SHARE) / 2000)
    assert eligible.fresh.sum() <= 1


def test_share_of_zero_holds_nothing_out():
    training, eligible = split(MANY, share=0.0)
    assert len(eligible) == 0
    assert stretches(training) == list(
        zip(MANY.offsets[:-1].tolist(), MANY.offsets[1:].tolist(), strict=True)
    )


def test_share_of_one_holds_everything_out():
    training, eligible = split(MANY, share=1.0)
    assert len(training) == 0
    assert eligible.n_total == MANY.n_total


def test_hashes_do_not_depend_on_the_dtype_of_ids():
    names = ["a", "bb", "ccc", *(f"n{i}" for i in range(50))]
    narrow, wide = np.array(names), np.array([*names, "x" * 40])[:-1]
    assert narrow.dtype != wide.dtype
    lengths = np.full(len(names), 2)
    a, b = split(ragged(lengths, narrow))[1], split(ragged(lengths, wide))[1]
    assert len(a) > 0
    assert np.array_equal(a.keys, b.keys)


def test_shift_numbers_sequences_after_the_part_before():
    everything = split(ragged(np.full(300, 4)))[1]
    first = split(ragged(np.full(100, 4)))[1]
    then = split(ragged(np.full(200, 4)), shift=100)[1]
    assert 0 < len(first) < len(everything)
    assert np.array_equal(everything.keys, np.concatenate([first.keys, then.keys]))


def test_ids_that_do_not_number_the_sequences_are_not_shifted():
    names = ragged(np.full(200, 4), np.arange(100, 300))
    assert np.array_equal(split(names)[1].keys, split(names, shift=100)[1].keys)


def test_first_sequence_has_no_special_hash():
    keys = split(ragged(np.full(100, 4)), share=1.0)[1].keys
    assert np.argmin(keys) != 0
    assert keys.min() > 0


def test_the_bound_keeps_the_smallest_keys():
    kept, rest, limit = pieces([4, 5, 4, 2], [30, 10, 20, 40]).bounded(most=10)
    assert kept.keys.tolist() == [10, 20]
    assert rest.keys.tolist() == [30, 40]
    assert limit == 30


def test_within_the_bound_all_are_kept_in_the_order_of_their_keys():
    kept, rest, limit = pieces([4, 5, 4], [30, 10, 20]).bounded()
    assert kept.keys.tolist() == [10, 20, 30]
    assert len(rest) == 0
    assert limit == NO_LIMIT


def test_shorter_piece_does_not_replace_a_rejected_one():
    a, b = pieces([6, 6], [1, 2]), pieces([4], [3])
    at_once = (a + b).bounded(most=10)
    first, _, limit = a.bounded(most=10)
    in_parts = (first + b).bounded(limit, most=10)
    assert at_once[0].keys.tolist() == in_parts[0].keys.tolist() == [1]
    assert at_once[2] == in_parts[2] == 2


def test_pieces_with_the_same_key_are_kept_or_rejected_together():
    kept, rest, limit = pieces([4, 5, 5], [10, 20, 20]).bounded(most=10)
    assert kept.keys.tolist() == [10]
    assert rest.keys.tolist() == [20, 20]
    assert limit == 20


def test_pieces_with_the_same_key_are_ordered_by_contents():
    both = pieces([4, 4, 3], [10, 10, 10])
    turned = both.take(np.array([2, 1, 0]))
    one, two = both.bounded()[0].compact(), turned.bounded()[0].compact()
    assert np.array_equal(one.codes, two.codes)


def test_compact_pieces_have_the_same_symbols():
    some = split(MANY)[1]
    compact = some.compact()
    assert len(compact.codes) == some.n_total
    for i in range(0, len(some), 17):
        old = some.codes[some.begins[i] : some.ends[i]]
        assert np.array_equal(old, compact.codes[compact.begins[i] : compact.ends[i]])
    assert np.array_equal(some.fresh, compact.fresh)
    assert np.array_equal(some.keys, compact.keys)


def test_compact_of_nothing():
    none = split(MANY, share=0.0)[1].compact()
    assert len(none) == len(none.codes) == none.n_total == 0
