"""The tables of a model: what is refused, what `random` draws, what `sample` and `log_prob` do."""

import itertools

import numpy as np
import pytest

from sojourn import Params, Sequences, SojournError
from sojourn.exact.draw import _pick, sample
from sojourn.exact.expected_counts import state_probabilities
from sojourn.exact.forward import surprise
from sojourn.exact.params import allows_self_transitions

GOOD = {
    "start": [0.5, 0.5],
    "transition": [[0.0, 1.0], [1.0, 0.0]],
    "duration": [[0.2, 0.3, 0.5], [1.0, 0.0, 0.0]],
    "emission": [[0.9, 0.1], [0.0, 1.0]],
}


def test_tables_are_kept_as_read_only_float64():
    p = Params(**GOOD)
    for name, values in GOOD.items():
        table = getattr(p, name)
        assert table.dtype == np.float64
        assert table.flags.c_contiguous
        assert not table.flags.writeable
        np.testing.assert_array_equal(table, values)


def test_the_caller_keeps_the_arrays_that_were_passed():
    start = np.array(GOOD["start"])
    p = Params(**{**GOOD, "start": start})
    start[0] = 7.0
    assert p.start[0] == 0.5


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("start", [0.5, 0.4], r"start sums to 0.9, not to 1; divide it"),
        ("start", [[0.5, 0.5]], r"start has shape \(1, 2\); it needs 1 dimension "),
        ("start", [], r"start has shape \(0,\)"),
        ("transition", [[0, 1], [1, 1e-7]], r"row 1 of transition sums to 1.0000001, not to 1"),
        ("transition", [[1.0]], r"transition has shape \(1, 1\); with the 2 states of start"),
        ("transition", [[0, 1, 0], [1, 0, 0]], r"2 rows and 2 columns"),
        ("duration", [[1.5, -0.5], [1, 0]], r"duration\[0, 1\] is -0.5; probabilities are"),
        ("duration", [[1.0]], r"duration has shape \(1, 1\); with the 2 states"),
        ("emission", [[0.9, np.nan], [0, 1]], r"emission\[0, 1\] is nan; probabilities are finite"),
        ("emission", [["a", "b"], ["c", "d"]], r"emission is not a table of numbers"),
        ("emission", [[0.5, 0.5], [1.0]], r"emission is not a table of numbers"),
        ("tail", [0.5, 1.0], r"tail\[1\] is 1; it must be below 1"),
        ("tail", [0.5], r"tail has shape \(1,\); with 2 states"),
        ("end", [0.5, 1.5], r"end\[1\] is 1.5; it must be at most 1"),
        ("empty", 0.5, r"ends are not part of the model"),
        ("empty", -0.5, r"expected a probability below 1"),
    ],
)
def test_what_is_not_a_model_is_refused(name, value, message):
    with pytest.raises(SojournError, match=message):
        Params(**{**GOOD, name: value})


def test_random_models_have_no_self_transitions_unless_asked():
    assert not Params.random(4, 6, 5, rng=0).transition.diagonal().any()
    assert Params.random(4, 6, 5, rng=0, self_transitions=True).transition.diagonal().all()
    assert Params.random(4, 1, 5, rng=0).transition.diagonal().all()
    assert not Params.random(4, 1, 5, rng=0, self_transitions=False).transition.diagonal().any()
    assert Params.random(1, 6, 5, rng=0).transition == [[1.0]]


def test_one_state_cannot_do_without_self_transitions():
    with pytest.raises(SojournError, match="nowhere to go"):
        Params.random(1, 3, 2, self_transitions=False)
    assert allows_self_transitions(1, 3)


def test_equal_seeds_give_equal_models():
    a, b = (Params.random(3, 4, 5, rng=np.random.default_rng(3)) for _ in range(2))
    for name in GOOD:
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    assert not np.array_equal(a.start, Params.random(3, 4, 5, rng=4).start)


def test_entries_are_uniform_before_rows_are_normalised():
    # Of two uniforms u, v the share u / (u + v) is below 1/4 with probability 1/6.
    # With 40,000 rows the standard error is 0.0019; five of them are allowed.
    durations = np.concatenate(
        [Params.random(200, 2, 1, rng=seed).duration[:, 0] for seed in range(200)]
    )
    assert abs((durations < 0.25).mean() - 1 / 6) < 5 * 0.0019


@pytest.mark.parametrize("size", [(0, 1, 1), (1, 0, 1), (1, 1, 0)])
def test_sizes_below_one_are_refused(size):
    with pytest.raises(SojournError, match="at least 1"):
        Params.random(*size)


def test_samples_do_not_depend_on_the_number_of_threads():
    p = Params.random(3, 4, 5, rng=0)
    lengths = np.random.default_rng(0).integers(1, 2000, size=200)  # several chunks
    one, two = (sample(p, 200, lengths, rng=5, n_jobs=n_jobs) for n_jobs in (1, 2))
    for a, b in zip(one, two, strict=True):
        np.testing.assert_array_equal(a, b)


def test_samples_follow_the_generator():
    p = Params.random(3, 4, 5, rng=0)
    a, b, c = (p.sample(10, 30, rng=np.random.default_rng(seed)).codes for seed in (1, 1, 2))
    np.testing.assert_array_equal(a, b)
    assert not np.array_equal(a, c)
    rng = np.random.default_rng(1)
    assert not np.array_equal(p.sample(10, 30, rng).codes, p.sample(10, 30, rng).codes)


def test_hidden_states_and_durations_of_a_sample_agree_with_each_other():
    p = Params.random(4, 6, 5, rng=0)
    seqs, states, remaining = p.sample(n=50, length=100, rng=1, return_states=True)
    assert seqs.vocabulary.tolist() == [0, 1, 2, 3, 4]
    assert states.shape == remaining.shape == seqs.codes.shape == (5000,)
    states, remaining = states.reshape(50, 100), remaining.reshape(50, 100)
    stays = remaining[:, :-1] > 1
    assert (remaining[:, 1:][stays] == remaining[:, :-1][stays] - 1).all()
    assert (states[:, 1:][stays] == states[:, :-1][stays]).all()
    assert (states[:, 1:][~stays] != states[:, :-1][~stays]).all()  # no self-transitions
    assert remaining.min() >= 1
    assert remaining.max() <= 6


def test_frequencies_in_samples_are_those_of_the_tables():
    # 10^6 steps, some 300,000 stays: every frequency within five standard errors.
    p = Params.random(3, 4, 5, rng=3)
    seqs, states, remaining = p.sample(n=10_000, length=100, rng=1, return_states=True)
    codes, states = seqs.codes.reshape(-1, 100), states.reshape(-1, 100)
    remaining = remaining.reshape(-1, 100)
    begins = np.ones_like(states, dtype=bool)
    begins[:, 1:] = remaining[:, :-1] == 1
    moves = np.stack([states[:, :-1], states[:, 1:]], axis=-1)[begins[:, 1:]]

    def agree(rows, columns, table):
        counts = np.zeros(table.shape)
        np.add.at(counts, (rows, columns), 1)
        n = counts.sum(1, keepdims=True)
        assert (n > 1000).all()
        error = np.sqrt(table * (1 - table) / n)
        assert (np.abs(counts / n - table) <= 5 * error).all()

    agree(np.zeros(10_000, dtype=int), states[:, 0], p.start[None])
    agree(moves[:, 0], moves[:, 1], p.transition)
    agree(states[begins], remaining[begins] - 1, p.duration)
    agree(states.ravel(), codes.ravel(), p.emission)


def test_what_has_probability_zero_is_never_drawn():
    p = Params(
        [0, 1, 0],
        [[0, 0, 1], [0, 0, 1], [0, 1, 0]],
        [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
        [[1, 0, 0], [0, 1, 0], [0.5, 0, 0.5]],
    )
    _, states, remaining = p.sample(1, 10_000, rng=0, return_states=True)
    assert set(states) == {1, 2}
    assert set(zip(states, remaining, strict=True)) == {(1, 2), (1, 1), (2, 3), (2, 2), (2, 1)}


def test_draw_on_a_boundary_takes_the_next_possible_entry():
    cumulative = np.array([0.0, 0.5, 0.5, 1.0, 1.0])
    drawn = [_pick(cumulative, u) for u in (0.0, 0.25, 0.5, np.nextafter(1.0, 0.0))]
    assert drawn == [1, 1, 3, 3]


@pytest.mark.parametrize(
    ("n", "length", "message"),
    [
        (0, 5, "at least 1"),
        (2, 0, "shortest is 1"),
        (2, [1, 2, 3], "one for each"),
        (2, 1.5, "int"),
    ],
)
def test_impossible_sizes_of_samples_are_refused(n, length, message):
    with pytest.raises(SojournError, match=message):
        Params.random(2, 2, 2, rng=0).sample(n, length)


def test_lengths_may_differ():
    assert Params.random(2, 2, 2, rng=0).sample(3, [4, 1, 7], rng=0).lengths.tolist() == [4, 1, 7]


@pytest.mark.parametrize("self_transitions", [None, True])
@pytest.mark.parametrize("length", [1, 4, 6])
def test_probabilities_of_all_strings_sum_to_one(length, self_transitions):
    p = Params.random(3, 4, 3, rng=7, self_transitions=self_transitions)
    strings = np.array(list(itertools.product(range(3), repeat=length)))
    # 729 terms, each right to a few units in the last place.
    assert abs(np.exp(p.log_prob(strings.tolist())).sum() - 1.0) < 1e-12


def test_log_prob_reads_lists_and_arrays_alike():
    p = Params.random(3, 4, 5, rng=0)
    X = np.random.default_rng(0).integers(0, 5, size=(10, 20))
    np.testing.assert_array_equal(p.log_prob(X), p.log_prob(X.tolist()))
    with pytest.raises(SojournError):
        p.log_prob([[0, 5]])


@pytest.mark.parametrize("n_d", [1, 3])
def test_probabilities_of_strings_that_ended_and_of_those_that_continue_sum_to_one(n_d):
    p = Params.random(2, n_d, 2, rng=3)
    tables = (p.start, p.transition, p.duration, p.emission)
    ending = Params(*tables, tail=[0.6, 0.3], end=[0.4, 0.2], empty=0.15)
    total = np.exp(ending.log_prob(Sequences.from_lists([[]], vocabulary=[0, 1], empty=True))).sum()
    for length in range(1, 8):
        strings = np.array(list(itertools.product(range(2), repeat=length)))
        total += np.exp(ending.log_prob(strings.tolist())).sum()
    # Of those that continue: at each string of 7 the mass that has not ended there, by sampling
    # exactly: what is left is the sum over the states of the chain that has not ended.
    X = Sequences.from_lists(strings.tolist(), vocabulary=[0, 1])
    so_far = np.array([s[:-1].sum() for s in np.split(surprise(ending, X), len(X))])
    end_here = np.array([s[-1] for s in np.split(surprise(ending, X), len(X))])
    continues = np.exp(-so_far) * (1 - np.exp(-end_here))
    assert abs(total + continues.sum() - 1.0) < 1e-12


def test_stays_of_a_sample_have_the_durations_of_the_tail():
    p = Params([1, 0], [[0, 1], [1, 0]], [[0.2, 0.3, 0.5]] * 2, [[1, 0], [0, 1]], tail=[0.8, 0])
    _, states, remaining = p.sample(1, 400_000, rng=0, return_states=True)
    begins = np.flatnonzero(np.concatenate([[True], remaining[:-1] == 1]))
    d = remaining[begins][states[begins] == 0]
    assert remaining[begins][states[begins] == 1].max() == 3
    # Some 70,000 stays: five standard errors.
    for k, want in ((1, 0.2), (2, 0.3), (3, 0.5 * 0.2), (5, 0.5 * 0.2 * 0.8**2)):
        assert abs(np.mean(d == k) - want) < 5 * np.sqrt(want / len(d))
    assert d.mean() == pytest.approx(p.mean_durations[0], rel=0.05)


@pytest.mark.parametrize("end", [1e-300, 1e-200, 1e-99])
def test_ends_that_are_all_but_impossible_leave_no_state_undefined(end):
    one = np.ones((3, 1))
    p = Params([1 / 3] * 3, np.full((3, 3), 1 / 3), one, np.full((3, 2), 0.5), end=[end] * 3)
    sequences = p.sample(1, 31, rng=0)
    assert np.isfinite(state_probabilities(p, sequences)).all()
    assert p.log_prob(sequences)[0] == (-np.inf if end < 1e-100 else pytest.approx(-249.4, abs=0.1))


def test_stays_that_hardly_ever_end_have_a_positive_number_of_steps_left():
    p = Params([1], [[1]], [[1]], [[1]], tail=[1 - 1e-12])  # a mean of 10^12 steps
    remaining = p.sample(50, 2, rng=0, return_states=True)[2]
    assert remaining.min() > 0


def test_samples_to_the_end_have_the_lengths_of_the_model():
    p = Params([1], [[1]], [[0, 1]], [[1]], end=[0.25], empty=0.3)
    lengths = p.sample(20_000, rng=0).lengths
    assert abs(np.mean(lengths == 0) - 0.3) < 5 * np.sqrt(0.21 / 20_000)
    n_stays = lengths[lengths > 0] / 2  # geometric of mean 4
    assert abs(n_stays.mean() - 4.0) < 5 * np.sqrt(12 / len(n_stays))
    with pytest.raises(SojournError, match="hardly ever ends"):
        Params([1], [[1]], [[0, 1]], [[1]], end=[0.0]).sample(1)
    with pytest.raises(SojournError, match="needs length="):
        Params([1], [[1]], [[0, 1]], [[1]]).sample(1)


@pytest.mark.parametrize("n", [0, -1, 2.5])
def test_a_number_of_samples_below_one_is_named(n):
    params = Params.random(2, 3, 4, rng=0)
    with pytest.raises(SojournError, match=rf"n must be an integer of at least 1, not {n}"):
        params.sample(n, 5)
    with pytest.raises(SojournError, match="expected an integer length, or one for each of 2"):
        params.sample(2, [1, 2, 3])
