"""Counts equal a plain counter's, add up, and tend to the exact moments of the model."""

from itertools import product

import numpy as np
import pytest
import window_loops as reference

from sojourn import Params, Sequences, SojournError, count, exact_moments
from sojourn.contexts.pieces import NO_LIMIT, Pieces, split
from sojourn.spectral import moment_tables
from sojourn.spectral.moment_tables import Adjacent, Form
from sojourn.spectral.moments import WindowTally

N_O = 3
WINDOWS = [(0,), (0, 1), (0, 1, 2), (0, 2), (0, 1, 4), (0, 5)]
FLAGS = {"adjacent": {}, "pooled": {"gapped": True}, "per_step": {"per_step": True}}


# ---- plain counters -----------------------------------------------------------------------------


def plain(form, rows, window, weights=None):
    """Counts by loops over symbols, table by table."""
    if form == "adjacent":
        counts = reference.count_adjacent(rows, window, N_O, weights)
        return dict(zip(("H", "H_o", "first"), counts, strict=True))
    n_t = max(map(len, rows)) if form == "per_step" else 1
    counts = reference.count_gapped(rows, window, N_O, n_t, weights)
    return dict(zip(("M_LoR", "M_LR", "M_LR1", "M_oo", "root"), counts, strict=True))


def assert_same(table, expected):
    for name, value in expected.items():
        counted = getattr(table, name)
        assert counted.dtype.kind == "i", name
        assert np.array_equal(counted, value), name


def ragged_rows(rng, n, longest, missing):
    rows = [rng.integers(0, N_O, rng.integers(1, longest + 1)).tolist() for _ in range(n)]
    return [[None if rng.random() < missing else symbol for symbol in row] for row in rows]


def sequences(rows, ids=None):
    return Sequences.from_lists(rows, ids=ids, vocabulary=np.arange(N_O))


def held_out_at_most(n_symbols, monkeypatch):
    """Hold out fewer symbols, so that pieces are turned away."""
    monkeypatch.setattr(Pieces.bounded, "__defaults__", (NO_LIMIT, n_symbols))


def table_arrays(table):
    names = plain("adjacent" if isinstance(table, Adjacent) else "pooled", [[0]], (0,))
    return {name: getattr(table, name) for name in names}


def assert_equal_moments(a, b):
    assert (a.n_sequences, a.n_total, a.longest) == (b.n_sequences, b.n_total, b.longest)
    assert len(a.heldout) == len(b.heldout)
    for name in ("codes", "begins", "ends", "fresh", "closed", "keys"):
        assert np.array_equal(getattr(a.heldout, name), getattr(b.heldout, name)), name
    for one, two in zip(a.tables, b.tables, strict=True):
        assert_same(one, table_arrays(two))


# ---- counts -------------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", [0.0, 0.07])
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("form", FLAGS)
def test_counts_equal_a_plain_counter(form, window, missing):
    rows = ragged_rows(np.random.default_rng(len(window)), 30, 30, missing)
    rows += [[1], [None], [0, 2], [None, 1, 1, None]]
    table = count(sequences(rows), [window], holdout=False, **FLAGS[form]).tables[0]
    assert table.offsets == window
    assert_same(table, plain(form, rows, window))


@pytest.mark.parametrize("form", FLAGS)
def test_pieces_counted_batch_by_batch_add_up(form, monkeypatch):
    monkeypatch.setattr(moment_tables, "AT_ONCE", 50)
    rows = ragged_rows(np.random.default_rng(5), 40, 30, 0.05)
    table = count(sequences(rows), [(0, 2)], holdout=False, **FLAGS[form]).tables[0]
    assert_same(table, plain(form, rows, (0, 2)))


@pytest.mark.parametrize("form", FLAGS)
def test_what_is_divided_is_counted_over_the_same_steps(form):
    rows = ragged_rows(np.random.default_rng(1), 200, 25, 0.1)
    table = count(sequences(rows), [(0, 2)], holdout=False, **FLAGS[form]).tables[0]
    if form == "adjacent":
        assert table.H.sum() > 500
        assert np.array_equal(table.H.sum(axis=1), table.H_o.sum(axis=(1, 2)))
    else:
        assert table.M_LR.sum() > 500
        assert np.array_equal(table.M_LR.sum(axis=2), table.M_LR1.sum(axis=2))


@pytest.mark.parametrize("form", FLAGS)
def test_several_windows_are_counted_as_each_alone(form):
    seqs = sequences(ragged_rows(np.random.default_rng(2), 60, 25, 0.05))
    together = count(seqs, WINDOWS[:4], **FLAGS[form])
    for i, window in enumerate(WINDOWS[:4]):
        alone = count(seqs, [window], **FLAGS[form])
        assert_same(together.tables[i], table_arrays(alone.tables[0]))


@pytest.mark.parametrize("form", FLAGS)
def test_counts_are_independent_of_n_jobs(form):
    seqs = sequences(ragged_rows(np.random.default_rng(3), 3000, 12, 0.02))
    one, two, three = (count(seqs, [(0,), (0, 2)], n_jobs=n, **FLAGS[form]) for n in (1, 2, 3))
    assert_equal_moments(one, two)
    assert_equal_moments(one, three)


def test_the_default_order_of_symbols_is_that_of_the_vocabulary():
    table = count(Sequences.from_lists([["b", "a", "b", "b"]]), [(0,)], holdout=False).tables[0]
    assert table.H.tolist() == [[0, 1], [1, 0]]
    assert table.first.tolist() == [0, 1]


def test_a_vocabulary_of_one_symbol():
    table = count(Sequences.from_lists([[7] * 9]), [(0, 1)], holdout=False).tables[0]
    assert table.H.tolist() == [[5]]


# ---- held out, and added up ---------------------------------------------------------------------


@pytest.mark.parametrize("form", FLAGS)
def test_held_out_and_counted_pieces_make_up_all_data(form):
    rows = ragged_rows(np.random.default_rng(4), 200, 20, 0.05)
    moments = count(sequences(rows), [(0, 1)], **FLAGS[form])
    assert 10 < len(moments.heldout) < 100
    held = {tuple(part) for part in np.split(moments.heldout.codes, moments.heldout.begins[1:])}
    assert held <= {tuple(-1 if symbol is None else symbol for symbol in row) for row in rows}
    assert_same(moments.with_heldout(0), plain(form, rows, (0, 1)))


@pytest.mark.parametrize("form", ["adjacent", "pooled"])
def test_blocks_held_out_of_one_long_sequence_are_not_counted(form):
    row = np.random.default_rng(6).integers(0, N_O, 12_345).tolist()
    seqs = sequences([row])
    moments = count(seqs, [(0, 2)], **FLAGS[form])
    training, held = split(seqs)
    assert len(held) > 2
    assert len(moments.heldout) == len(held)
    # A plain count of all stretches, each by itself: only the one at the start has a first window.
    for parts, table in ((training, moments.tables[0]), (held, None)):
        cut = [row[b:e] for b, e in zip(parts.begins, parts.ends, strict=True)]
        expected = plain(form, cut, (0, 2))
        at_start = plain(form, [c for c, f in zip(cut, parts.fresh, strict=True) if f], (0, 2))
        start = "first" if form == "adjacent" else "root"
        expected[start] = at_start[start]
        if table is None:
            everything, part = (
                table_arrays(moments.with_heldout(0)),
                table_arrays(moments.tables[0]),
            )
            for name, value in expected.items():
                assert np.array_equal(everything[name] - part[name], value), name
        else:
            assert_same(table, expected)


@pytest.mark.parametrize("form", FLAGS)
def test_moments_add_to_those_of_all(form):
    seqs = sequences(ragged_rows(np.random.default_rng(7), 90, 20, 0.05))
    windows = [(0,), (0, 3)]
    at_once = count(seqs, windows, holdout=False, **FLAGS[form])
    in_parts = [
        count(part, windows, holdout=False, **FLAGS[form])
        for part in (seqs[:1], seqs[1:40], seqs[40:])
    ]
    assert_equal_moments(at_once, in_parts[0] + in_parts[1] + in_parts[2])
    assert_equal_moments(at_once, in_parts[0] + (in_parts[1] + in_parts[2]))


def long_and_short(rng):
    lengths = np.concatenate([rng.integers(1, 40, 60), rng.integers(900, 4000, 4)])
    rows = [rng.integers(0, N_O, n).tolist() for n in rng.permutation(lengths)]
    for row in rows:
        row[rng.integers(len(row))] = None
    return rows


@pytest.mark.parametrize("bound", [150, 1500, 1 << 17])
@pytest.mark.parametrize("form", FLAGS)
def test_any_partition_in_any_order_gives_the_same_moments(form, bound, monkeypatch):
    held_out_at_most(bound, monkeypatch)
    rng = np.random.default_rng(bound)
    rows = long_and_short(rng)[: 30 if form == "per_step" else None]
    if form == "per_step":
        rows = [row[:50] for row in rows]
    names = [f"machine {i * 7}" for i in range(len(rows))]
    seqs = sequences(rows, ids=names)
    at_once = count(seqs, [(0,), (0, 2)], **FLAGS[form])
    assert at_once.heldout.n_total <= bound
    for _ in range(6):
        cuts = np.sort(rng.integers(1, len(rows), rng.integers(1, 12)))
        parts = [part for part in np.split(rng.permutation(len(rows)), cuts) if len(part)]
        moments = [count(seqs[part], [(0,), (0, 2)], **FLAGS[form]) for part in parts]
        in_parts = moments[0]
        for more in moments[1:]:
            in_parts = in_parts + more
        assert_equal_moments(at_once, in_parts)


def test_numbered_sequences_in_parts_hold_out_the_same():
    rows = ragged_rows(np.random.default_rng(8), 120, 20, 0.0)
    at_once = count(sequences(rows), [(0, 1)])
    in_parts = count(sequences(rows[:33]), [(0, 1)])
    in_parts = in_parts + count(sequences(rows[33:]), [(0, 1)], shift=33)
    assert len(at_once.heldout) > 10
    assert_equal_moments(at_once, in_parts)


@pytest.mark.parametrize("form", FLAGS)
def test_a_part_of_single_symbols_adds(form):
    rows = [[0], [2], [0, 1, 2, 1, 0, 2]]
    a, b = (count(sequences(r), [(0,)], holdout=False, **FLAGS[form]) for r in (rows[:2], rows[2:]))
    for both in (a + b, b + a):
        assert_same(both.tables[0], plain(form, rows, (0,)))


def test_sequences_too_short_for_the_window_give_what_they_can():
    rows = [[0, 1, 2], [1], [2, 2]]
    table = count(sequences(rows), [(0, 1)], holdout=False).tables[0]
    assert table.H.sum() == 0
    assert table.first.nonzero()[0].tolist() == [1, 8]


# ---- errors -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (([(0,)], {}), ([(0, 1)], {})),
        (([(0,)], {}), ([(0,), (0, 1)], {})),
        (([(0,)], {}), ([(0,)], {"gapped": True})),
        (([(0,)], {"gapped": True}), ([(0,)], {"per_step": True})),
    ],
)
def test_moments_of_other_windows_or_forms_do_not_add(first, then):
    seqs = sequences([[0, 1, 2] * 4])
    a, b = (count(seqs, windows, **form) for windows, form in (first, then))
    with pytest.raises(SojournError, match=r"moments over windows \[\(0,\)\] and .* do not add"):
        a + b


def test_moments_of_other_vocabularies_do_not_add():
    a, b = (count(Sequences.from_lists([[0, 1, n] * 4]), [(0,)]) for n in (1, 2))
    with pytest.raises(
        SojournError, match="do not add, or are of other algorithms or vocabularies"
    ):
        a + b


@pytest.mark.parametrize(
    ("n_symbols", "window", "form", "message"),
    [
        (
            100,
            (0, 1),
            "pooled",
            r"windows of 2 symbols out of 100 need a table of 1e\+10 entries \(74.5 GiB\), and at "
            r"most 1.34e\+08 are held: at most 1, such as windows=\(0,\), fit; algo.*$",
        ),
        (
            600,
            (0,),
            "pooled",
            r"windows of 1 symbols out of 600 need a table of 2.16e\+08 entries \(1.61 GiB\), .*: "
            r"windows of one symbol fit where there are at most 512; algorithm='contexts' has .*$",
        ),
        (
            100,
            (0,),
            "per_step",
            r"need a table of 2e\+08 entries .* at most 87; algorithm='contexts' has no such",
        ),
    ],
)
def test_tables_too_large_to_hold_say_how_large_and_what_would_fit(
    n_symbols, window, form, message
):
    seqs = Sequences.from_lists([[0] * 200], vocabulary=np.arange(n_symbols))
    with pytest.raises(SojournError, match=message):
        count(seqs, [window], **FLAGS[form])


def test_offsets_that_do_not_start_at_0_raise():
    with pytest.raises(
        SojournError, match=r"offsets of a window start at 0 and grow; got \(1, 2\)"
    ):
        count(sequences([[0, 1, 2]]), [(1, 2)])


# ---- a tally ------------------------------------------------------------------------------------

SHAPES = [(0,), (0, 1), (0, 2)]
PARTS = [list(range(90)), list(range(90, 100)), list(range(100, 300))]
ROWS = ragged_rows(np.random.default_rng(8), 300, 12, 0.03)


def part(rows):
    return sequences([ROWS[i] for i in rows], ids=[f"s{i}" for i in rows])


def tally(form, order):
    counts = WindowTally(SHAPES, N_O, Form(form))
    for i in order:
        counts.add(part(PARTS[i]), n_jobs=1)
    return counts


@pytest.fixture(params=["roomy", "tight"])
def room(request, monkeypatch):
    """Held-out pieces that all fit, or of which some have to be counted after all."""
    if request.param == "tight":
        held_out_at_most(100, monkeypatch)


@pytest.mark.parametrize("form", FLAGS)
@pytest.mark.usefixtures("room")
def test_parts_in_any_order_and_grouping_count_as_all_data_at_once(form):
    everything = count(part(range(300)), SHAPES, **FLAGS[form])
    assert len(everything.heldout) > 5
    assert_equal_moments(tally(form, [0, 1, 2]).moments(), everything)
    assert_equal_moments(tally(form, [2, 0, 1]).moments(), everything)
    assert_equal_moments((tally(form, [1]) + tally(form, [2, 0])).moments(), everything)


def test_two_tallies_are_not_changed_by_their_sum(monkeypatch):
    held_out_at_most(100, monkeypatch)  # so that the sum counts pieces of both
    a, b = tally("adjacent", [0]), tally("adjacent", [1, 2])
    before = a.moments(), b.moments()
    both = (a + b).moments()
    assert_equal_moments(a.moments(), before[0])
    assert_equal_moments(b.moments(), before[1])
    assert_equal_moments((a + b).moments(), both)


# ---- exact moments ------------------------------------------------------------------------------

TINY = Params.random(2, 3, N_O, rng=0)
SMALL = Params.random(3, 2, N_O, rng=1)


@pytest.mark.parametrize("window", [(0,), (0, 1), (0, 2)])
@pytest.mark.parametrize("form", FLAGS)
def test_exact_moments_equal_the_sum_over_all_strings(form, window):
    length = 2 * window[-1] + 4  # the least at which the gapped windows fit
    strings = [list(string) for string in product(range(N_O), repeat=length)]
    expected = plain(form, strings, window, np.exp(TINY.log_prob(strings)))
    exact = exact_moments(TINY, [window], length=length, **FLAGS[form])
    for name, value in expected.items():
        assert value.sum() > 0.99, name
        # Sums of up to 3^8 products with a rounding of 1e-16 each.
        actual = getattr(exact.tables[0], name)
        np.testing.assert_allclose(actual, value, rtol=0, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("form", FLAGS)
def test_counts_of_a_large_sample_tend_to_the_exact_moments(form):
    n_batches, n, length, window = 60, 300, 12, (0, 2)
    exact = table_arrays(exact_moments(SMALL, [window], length=length, **FLAGS[form]).tables[0])
    samples = SMALL.sample(n_batches * n, length, rng=2)
    batches = [samples[i * n : (i + 1) * n] for i in range(n_batches)]
    tables = [count(b, [window], holdout=False, **FLAGS[form]).tables[0] for b in batches]
    for name, value in exact.items():
        means = np.array([getattr(table, name) for table in tables]) / n
        # Counts within a sequence depend on each other, but batches do not: so they tell the noise.
        error, noise = means.mean(axis=0) - value, means.std(axis=0, ddof=1) / np.sqrt(n_batches)
        # Below ten counts in all an entry is far from normal.
        often = value * n_batches * n > 10
        assert often.sum() > 0.4 * (value > 0).sum(), name
        t = error[often] / noise[often]
        # Student's t with 59 degrees of freedom: its square has mean 1.04, and 1,000 of them stay
        # below 5.5 but once in a thousand runs. A t too many or too few moves the mean to above 3.
        assert 0.6 < np.mean(t**2) < 1.6, name
        assert np.abs(t).max() < 5.5, name


def test_exact_moments_hold_nothing_out():
    moments = exact_moments(TINY, [(0,), (0, 1)], length=20)
    assert len(moments.heldout) == 0
    assert (moments.n_sequences, moments.n_total, moments.longest) == (1, 20, 20)
    assert moments.with_heldout(1) is moments.tables[1]


def test_exact_moments_of_a_length_too_short_for_the_window():
    with pytest.raises(SojournError, match=r"windows \(0, 4\) need .* at least 11 symbols, not 10"):
        exact_moments(TINY, [(0, 4)], length=10)
    with pytest.raises(SojournError, match=r"windows \(0, 4\) need .* at least 12 symbols, not 11"):
        exact_moments(TINY, [(0, 4)], length=11, gapped=True)


def test_exact_moments_too_large_to_hold():
    with pytest.raises(SojournError, match=r"need a table of 1e.10 entries .*: at most 1, such as"):
        exact_moments(Params.random(2, 2, 100, rng=0), [(0, 1)])
