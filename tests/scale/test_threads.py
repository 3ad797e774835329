"""Maps over partitions: the same whatever the number of threads."""

import threading
import time
from itertools import chain

import numpy as np
import pytest

from sojourn.scale.threads import chunks, each, in_order, n_threads, shared_out


def test_chunks_cover_all_sequences_in_order():
    rng = np.random.default_rng(0)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, 50, size=1000))])
    found = chunks(offsets, symbols_per_chunk=200)
    assert [first for first, _ in found[1:]] == [last for _, last in found[:-1]]
    assert found[0][0] == 0
    assert found[-1][1] == 1000
    sizes = [offsets[last] - offsets[first] for first, last in found]
    assert all(200 <= size < 250 for size in sizes[:-1])


def test_a_sequence_longer_than_a_chunk_is_a_chunk():
    assert chunks(np.array([0, 1000, 1001, 3000]), symbols_per_chunk=10) == [(0, 1), (1, 3)]


def test_no_sequences_make_no_chunks():
    assert chunks(np.array([0])) == []


@pytest.mark.parametrize("n_jobs", [1, 2, 7, None, -1])
def test_results_come_in_order(n_jobs):
    assert each(lambda i: i * i, range(100), n_jobs) == [i * i for i in range(100)]


def test_lazy_partitions_are_read_only_a_few_ahead_of_the_results():
    read, done, ahead = [0], [0], []
    lock = threading.Lock()

    def partitions():
        for i in range(200):
            read[0] += 1
            ahead.append(read[0] - done[0])
            yield i

    def work(i):
        with lock:
            done[0] += 1
        return i

    assert sum(in_order(work, partitions(), n_jobs=3)) == sum(range(200))
    assert max(ahead) <= 2 * 3 + 1


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_an_error_reaches_the_caller(n_jobs):
    def work(i):
        if i == 5:
            raise ZeroDivisionError("five")
        return i

    with pytest.raises(ZeroDivisionError, match="five"):
        each(work, range(100), n_jobs)


@pytest.mark.parametrize("n_jobs", [1, 2, 7])
def test_each_part_is_given_to_one_thread(n_jobs):
    runs = shared_out(list, list(range(100)), n_jobs)
    assert len(runs) == n_jobs
    assert all(runs)
    assert sorted(chain.from_iterable(runs)) == list(range(100))


def test_other_threads_stop_where_one_fails():
    taken, failed = [], threading.Event()

    def work(partitions):
        for i in partitions:
            if i == 1:  # not the one that is waited for first
                failed.set()
                raise ZeroDivisionError("none")
            failed.wait()
            time.sleep(0.01)
            taken.append(i)

    with pytest.raises(ZeroDivisionError, match="none"):
        shared_out(work, list(range(1000)), 2)
    assert len(taken) < 20


def test_n_threads():
    assert n_threads(None) == n_threads(-1) >= 1
    with pytest.raises(ValueError, match="n_jobs=1"):
        n_threads(0)
