"""Tables of counts: narrow where numbers fit, and the same whichever way they were made."""

from functools import reduce

import numpy as np
import pytest

from sojourn.contexts import tables
from sojourn.contexts.tables import MAX_KEY, Table, cells


def table(keys, counts):
    return Table(np.array(keys, np.uint64), np.array(counts, np.int64))


def as_dict(found):
    return dict(zip(found.keys.tolist(), found.counts.tolist(), strict=True))


def test_numbers_that_fit_are_kept_in_32_bits():
    assert table([0, MAX_KEY - 1], [1, 2]).keys.dtype == np.uint32
    assert table([0, MAX_KEY], [1, 2]).keys.dtype == np.uint64
    assert table([0], [2**30 - 1]).counts.dtype == np.int32
    assert table([0], [2**30]).counts.dtype == np.int64


def test_sums_of_narrow_and_wide_tables_do_not_overflow():
    most = 2**30 - 1
    narrow, wide = table([1, 5], [most, most]), table([5, 2**40], [2**31, 2**33])
    assert as_dict(narrow + wide) == {1: most, 5: most + 2**31, 2**40: 2**33}
    assert as_dict(wide + narrow) == as_dict(narrow + wide)
    assert as_dict(narrow + narrow + narrow) == {1: 3 * most, 5: 3 * most}


def test_joined_cells_are_put_aside_before_they_overflow():
    parts = [cells(1) for _ in range(5)]
    for part in parts:
        part.cells[0] = part.n = 2**30
    found = reduce(lambda a, b: a.joined(b), parts)
    assert as_dict(found.sorted()) == {0: 5 * 2**30}


@pytest.mark.parametrize("n_cells", [10, 2**40])
def test_counts_are_grouped_by_other_keys_in_blocks(monkeypatch, n_cells):
    monkeypatch.setattr(tables, "BLOCK", 3)
    before = table(np.arange(0, 40, 2), np.arange(1, 21))
    found = before.grouped(lambda keys: keys % np.uint64(7), n_cells)
    expected = {r: int(before.counts[before.keys % 7 == r].sum()) for r in range(7)}
    assert as_dict(found) == expected


def test_the_counts_of_some_symbols_are_those_between_their_keys():
    n_u, n_o, n_v = 3, 4, 2
    every = table(np.arange(n_u * n_o * n_v), np.ones(n_u * n_o * n_v))
    found = every.between(range(1, 3), n_u, n_o, n_v)
    assert set(found.keys // n_v % n_o) == {1, 2}
    assert len(found.keys) == n_u * 2 * n_v
    far = table([MAX_KEY - 1], [1])  # of a past whose next one is beyond 32 bits
    assert len(far.between(range(1, 2), 2, 2, 2**31).keys) == 1


def test_few_counts_among_many_cells_are_the_same_as_in_a_table_of_all():
    keys = np.random.default_rng(0).integers(0, 5000, 300).astype(np.uint64)
    all_cells, few = cells(5000), cells(5000, 300)
    assert type(all_cells) is not type(few)
    for one in (all_cells, few):
        one.add(keys)
    assert as_dict(all_cells.sorted()) == as_dict(few.sorted())
