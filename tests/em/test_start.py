"""The start and the schedule: right basins, few passes, and data of every shape."""

import itertools

import numpy as np
import pytest

from sojourn import Params, Sequences, SojournError
from sojourn.em.em import run_em
from sojourn.em.start import fit_params
from sojourn.em.subsample import cut

TABLES = ("start", "transition", "duration", "emission")


def test_the_fit_is_as_likely_as_one_that_starts_from_the_truth():
    for seed in range(2):
        truth = Params.random(2, 2, 3, rng=seed)
        data = truth.sample(500, 100, rng=1000 + seed)
        from_truth = run_em(truth, data, max_iter=300, tol=1e-8)
        fitted = fit_params(data, 2, 2, 3, rng=0, tol=1e-8)
        # 50,000 symbols: 2 nats are far below what another basin costs (8 and more were seen)
        assert fitted.log_likelihood > from_truth.log_likelihood - 2.0


def test_noise_of_a_small_sample_does_not_decide_the_race():
    truth = Params.random(2, 2, 3, rng=7)  # 16,000 symbols tell half a nat of it
    data = truth.sample(5000, 100, rng=1007)
    from_truth = run_em(truth, data, tol=1e-8)
    fitted = fit_params(data, 2, 2, 3, rng=1, pseudocount=0.01)
    # Measured: equal; 7.9 below in the basin that the noise of 65,000 symbols leads to.
    assert fitted.log_likelihood > from_truth.log_likelihood - 1.0


def test_the_race_is_as_good_as_the_best_of_several_random_starts():
    truth = Params.random(4, 6, 5, rng=1)
    data = truth.sample(150, 100, rng=2)
    raced = fit_params(data, 4, 6, 5, rng=0, max_iter=40)
    alone = [run_em(Params.random(4, 6, 5, rng=s), data, max_iter=40) for s in range(3)]
    assert raced.log_likelihood > max(r.log_likelihood for r in alone) - 1.0


def test_more_free_steps_begin_where_fewer_have_ended():
    data = Params.random(3, 12, 4, rng=5).sample(40, 60, rng=6)
    fits = [fit_params(data, 4, n_d, 4, rng=0, tail=True, pseudocount=0.01) for n_d in (5, 10, 20)]
    for fewer, more in itertools.pairwise(fits):
        # The written-out tail is mixed with a little of everything: 0.0001 nats per symbol.
        assert abs(more.history[0] - fewer.history[-1]) < 2e-4 * data.n_total
        assert more.history[-1] > fewer.history[-1]


def test_most_of_the_work_is_done_on_samples():
    data = Params.random(2, 2, 3, rng=0).sample(5000, 100, rng=1)
    # alone, the twelve starts of the race would take hundreds of passes over everything
    assert fit_params(data, 2, 2, 3, rng=0, tol=1e-6).n_passes < 40


def test_result_is_independent_of_n_jobs():
    data = Params.random(3, 3, 4, rng=0).sample(200, 50, rng=1)
    fits = [fit_params(data, 3, 3, 4, rng=5, max_iter=10, n_jobs=j).params for j in (1, 2)]
    assert all(np.array_equal(getattr(fits[0], t), getattr(fits[1], t)) for t in TABLES)


def test_one_recovered_start_needs_no_race():
    truth = Params.random(4, 6, 5, rng=1)
    data = truth.sample(1000, 100, rng=2)  # with 400, luck would decide
    quick = fit_params(data, 4, 6, 5, init="moments", rng=3, max_iter=15)
    assert quick.n_passes == 15  # no pass is spent on samples
    # random starts are 40 to 120 nats behind after as many passes
    alone = [run_em(Params.random(4, 6, 5, rng=s), data, max_iter=15) for s in range(10, 13)]
    assert quick.log_likelihood > max(r.log_likelihood for r in alone)


@pytest.mark.parametrize("init", ["spectral", "moments", "random"])
def test_more_states_than_symbols(init):
    data = Params.random(6, 3, 3, rng=0).sample(100, 50, rng=1)
    assert fit_params(data, 6, 3, 3, init=init, rng=0, max_iter=10).params.n_states == 6


def test_tiny_data_and_one_long_sequence():
    tiny = Sequences.from_lists([[0, 1, 0, 1, 1], [1, 0, 0, 1, 0], [0, 0, 1, 1, 0]])
    assert np.isfinite(fit_params(tiny, 2, 2, 2, rng=0, max_iter=10).log_likelihood)
    truth = Params.random(2, 3, 4, rng=1)
    long = truth.sample(1, 20_000, rng=2)
    fitted = fit_params(long, 2, 3, 4, rng=0, max_iter=100)
    assert fitted.log_likelihood > truth.log_prob(long).sum()


def test_long_sequences_are_cut_into_pieces_that_cover_them():
    data = Params.random(2, 2, 3, rng=0).sample(3, [1000, 150, 2003], rng=1)
    pieces = cut(data, 200)
    assert np.array_equal(pieces.codes, data.codes)
    assert set(data.offsets) <= set(pieces.offsets)
    assert pieces.lengths.tolist() == [200] * 5 + [150] + [200] * 9 + [203]
    assert cut(data, 1200) is data


def test_labels_need_a_start_whose_states_they_name():
    data = Params.random(2, 2, 3, rng=0).sample(3, 10, rng=1)
    with pytest.raises(SojournError, match="labels name the states"):
        fit_params(data, 2, 2, 3, labels=np.zeros(30, np.int32))


def test_symbols_at_the_ends_alone_or_nowhere_are_possible():
    middle = Params.random(2, 3, 3, rng=0).sample(50, 30, rng=1).to_lists()
    data = Sequences.from_lists([[3, *row, 4] for row in middle], vocabulary=range(6))
    for n_states in (1, 2):  # one state has no other to emit what its start cannot
        found = fit_params(data, n_states, 4, 6, rng=0, max_iter=5, pseudocount=0.01).params
        assert (found.emission.sum(axis=0) > 0).all()
