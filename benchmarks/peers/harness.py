"""Runs everybody in turns: the same jobs, one process at a time, several rounds.

Every package has one process a size, which takes its jobs from files. A round gives each of
them its job before the next round begins, so that a machine that slows down slows all alike.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.peers.data import Size
from benchmarks.peers.environments import ONE_THREAD, Environment, last_error

ANSWER = "@ "  # as in runners/loop.py, which is not importable from here
ROUNDS = 5
ITERATIONS = 200  # most of a fit
LEAST = 6_000  # symbols times iterations of a timing
ENOUGH = 100_000  # symbols of a timing
PATIENCE = 240.0  # seconds of the clock that a job may take beyond its budget


@dataclass(frozen=True)
class Record:
    """One job and what came of it.

    Parameters
    ----------
    size, package, model, task : str
    turn : int
        The round, or the start of a fit.
    result : dict
        As the runner wrote it; ``error`` where it failed.
    """

    size: str
    package: str
    model: str
    task: str
    turn: int
    result: dict[str, Any]


@dataclass
class Worker:
    """The process of one package."""

    environment: Environment
    folder: Path
    version: str = ""
    failure: str = ""
    _jobs: int = 0
    _answers: queue.Queue[str] = field(default_factory=queue.Queue)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._log = (self.folder / "log.txt").open("w+")
        self._process = subprocess.Popen(
            self.environment.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env={**os.environ, **ONE_THREAD},
        )
        if hasattr(os, "sched_setaffinity"):  # one core, so that no pool of threads helps
            os.sched_setaffinity(self._process.pid, {max(os.sched_getaffinity(0))})
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        self.version = self._answer(PATIENCE)

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(ANSWER):
                self._answers.put(line.removeprefix(ANSWER).strip())
        self._answers.put("")  # the process has ended

    def _answer(self, seconds: float) -> str:
        try:
            answer = self._answers.get(timeout=seconds)
        except queue.Empty:
            self.failure = f"no answer after {seconds:.0f} s"
            self._process.kill()
            return ""
        if not answer:
            code = self._process.wait()
            self._log.seek(0)
            self.failure = last_error(self._log.read()) or f"ended with exit code {code}"
        return answer

    def do(self, job: dict[str, Any], seconds: float) -> dict[str, Any]:
        """The result of a job, which is an error after the process has failed."""
        if not self.failure:
            self._jobs += 1
            request, result = (
                self.folder / f"{kind}{self._jobs}.json" for kind in ("job", "result")
            )
            request.write_text(json.dumps({**job, "result": str(result)}))
            assert self._process.stdin is not None
            self._process.stdin.write(f"{request}\n")
            self._process.stdin.flush()
            if self._answer(seconds):
                return dict(json.loads(result.read_text()))
        return {"error": self.failure}

    def close(self) -> None:
        """End the process."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._listener.join()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._log.close()


def jobs(size: Size, model: str) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Task, turn and job: timings in every round, one fit from every start in the first ones."""
    n = size.few if model == "expanded" else size.n
    timed = max(1, min(n if n == size.n else n // 2, ENOUGH // size.length))
    iterations = max(2, LEAST // (timed * size.length))
    common = {"model": model, "seed": 0}
    for turn in range(ROUNDS):
        if model not in ("spectral", "moments", "automaton"):  # no EM; timed along with their fits
            em = {"task": "em", "sequences": timed, "iterations": iterations}
            yield "em", turn, {**common, **em}
            yield "score", turn, {**common, "task": "score", "sequences": min(size.n_test, n)}
    once = model == "automaton" or n < size.n
    for turn in range(1 if once else size.starts):
        settings = {"task": "fit", "sequences": n, "iterations": ITERATIONS, "budget": size.budget}
        yield "fit", turn, {**common, "seed": turn, **settings}


def in_turns(
    size: Size,
    data: Path,
    packages: dict[str, tuple[Environment, tuple[str, ...]]],
    folder: Path,
    tell: Callable[[str], object] = lambda _: None,
) -> tuple[list[Record], dict[str, str]]:
    """All records of a size, and the version of each package that could be started."""
    workers = {name: Worker(e, folder / name) for name, (e, _) in packages.items()}
    todo = [
        (turn, task, name, model, job)
        for name, (_, models) in packages.items()
        for model in models
        for task, turn, job in jobs(size, model)
    ]
    order = {"em": 0, "score": 1, "fit": 2}
    todo.sort(key=lambda row: (order[row[1]], row[0]))  # stable: packages stay in their order
    records = []
    failed: dict[tuple[str, str, str], str] = {}  # what failed once is not tried again
    for turn, task, name, model, job in todo:
        key = (name, model, task)
        result = {"error": failed[key]} if key in failed else {}
        if not result:
            seconds = PATIENCE + 2 * float(job.get("budget", 0.0))
            result = workers[name].do({**job, "data": str(data)}, seconds)
        if "error" in result:
            failed[key] = result["error"]
        records.append(Record(size.name, name, model, task, turn, result))
        tell(f"{size.name} {task} {turn} {name} {model}: {_short(result)}")
    for worker in workers.values():
        worker.close()
    return records, {name: worker.version for name, worker in workers.items() if worker.version}


def _short(result: dict[str, Any]) -> str:
    if "error" in result:
        return f"failed: {result['error']}"
    if "points" in result:
        done, cpu, _, score = result["points"][-1]
        reached = "no likelihood" if score is None else f"{score:.5f} nats per symbol"
        return f"{reached}, {done} iterations, {cpu:.1f} s"
    return f"{result['cpu'] * 1e6:.3f} µs per symbol" if result else "not measured"
