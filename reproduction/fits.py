"""Timed fits: processor and wall seconds, and what EM has reached on the way."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

from sojourn import Params, Sequences
from sojourn.em.em import run_em

TOLERANCE = 1e-8  # nats per symbol, of all EM; the default of `HSMM`


@contextmanager
def timed() -> Iterator[dict[str, float]]:
    """A dictionary that holds processor and wall seconds when the block ends."""
    times: dict[str, float] = {}
    began, wall = time.process_time(), time.perf_counter()
    yield times
    times |= {"seconds": time.process_time() - began, "wall": time.perf_counter() - wall}


def em_with_path(
    start: Params,
    train: Sequences,
    judge: Callable[[Params], tuple[float, ...]],
    *,
    iterations: int,
    watched: Collection[int],
    accelerate: bool = False,
    n_jobs: int | None = 1,
) -> tuple[Params, dict[str, Any]]:
    """Run EM; also return its times and a path of (iteration, seconds, *judgement).

    Judging the model at the watched iterations is not part of learning, and not of `seconds`.
    """
    path: list[tuple[float, ...]] = []
    judged = 0.0

    def note(iteration: int, _: float, params: Params) -> None:
        nonlocal judged
        if iteration in watched:
            now = time.process_time()
            path.append((iteration, now - began - judged, *judge(params)))
            judged += time.process_time() - now

    began = time.process_time()
    with timed() as times:
        found = run_em(
            start,
            train,
            max_iter=iterations,
            tol=TOLERANCE,
            accelerate=accelerate,
            n_jobs=n_jobs,
            callback=note,
        )
    seconds = times["seconds"] - judged
    path.append((len(found.history) - 1, seconds, *judge(found.params)))
    about = {"seconds": seconds, "wall": times["wall"], "passes": found.n_passes}
    return found.params, {**about, "converged": found.converged, "path": path}
