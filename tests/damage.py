"""Damage to saved models, for the tests and at length for the benchmarks."""

import contextlib
import copy
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import sojourn as sj
from sojourn.persist import saving
from sojourn.storage import container


def content_of(model):
    """What `save` would write, before it is bytes."""
    with tempfile.TemporaryDirectory() as folder:
        saving.save(model, Path(folder, "model"))
        return container.read(Path(folder, "model"))


def head_of(data: bytes) -> bytes:
    return data[8 : 8 + int.from_bytes(data[:8], "little")]


def mutations(data: bytes, n: int, seed: int):
    """The file with a bit turned, bytes changed, cut out, doubled or swapped."""
    rng = np.random.default_rng(seed)
    for _ in range(n):
        copy = bytearray(data)
        # Half of them in the header, where the parsers are.
        end = 8 + len(head_of(data)) if rng.random() < 0.5 else len(data)
        a, b = sorted(rng.integers(0, end, 2).tolist())
        b = min(b, a + 64)
        kind = rng.integers(6)
        if kind == 0:
            copy[a] ^= 1 << int(rng.integers(8))
        elif kind == 1:
            copy[a] = int(rng.integers(256))
        elif kind == 2:
            copy[a : b + 1] = rng.bytes(b - a + 1)
        elif kind == 3:
            del copy[a : b + 1]
        elif kind == 4:
            copy[a:a] = copy[a : b + 1]
        else:
            digits = [i for i in range(8, end) if 48 <= copy[i] < 58]
            copy[digits[int(rng.integers(len(digits)))]] = 48 + int(rng.integers(10))
        yield bytes(copy)


def fuzz(path: Path, scratch: Path, n: int, seed: int) -> dict[str, int]:
    """How many mutations were refused, changed nothing, or were accepted with another content."""
    data = path.read_bytes()
    original = _canonical(*container.read(path))
    tally = {"refused": 0, "the same content": 0, "other content": 0}
    for mutant in mutations(data, n, seed):
        scratch.write_bytes(mutant)
        try:
            sj.load(scratch)
        except (sj.SojournError, ValueError, OSError):
            tally["refused"] += 1
            continue
        same = _canonical(*container.read(scratch)) == original
        tally["the same content" if same else "other content"] += 1
    return tally


def _canonical(content, arrays):
    values = {name: (a.dtype, a.shape, a.tobytes()) for name, a in arrays.items()}
    return json.dumps(content, sort_keys=True), values


JUNK = (None, True, -1, 0, 1, 7, 2**31, 10**30, 0.5, 1e308, "", "x", [], [0], {}, {"tuple": [0]})


def fuzz_signed(path: Path, scratch: Path, n: int, seed: int, use=None) -> dict[str, int]:
    """As `fuzz`, with files whose values were changed and whose checksum was made to match."""
    content, arrays = container.read(path)
    rng = np.random.default_rng(seed)
    tally = {"refused": 0, "accepted": 0}
    for _ in range(n):
        changed, tables = copy.deepcopy(content), dict(arrays)
        if rng.random() < 0.5:
            part = changed["learned" if rng.random() < 0.8 else "arguments"]
            _spoil(part, JUNK[int(rng.integers(len(JUNK)))], rng)
        else:
            name = str(rng.choice(sorted(tables)))
            tables[name] = _spoiled(tables[name], rng)
        scratch.write_bytes(container.to_bytes(changed, tables))
        try:
            model = sj.load(scratch)
        except (sj.SojournError, ValueError, OSError):
            tally["refused"] += 1
            continue
        tally["accepted"] += 1
        if use is not None:
            use(model)
    return tally


def _spoil(part, junk, rng) -> None:
    """Put junk in a random place of nested lists and dictionaries."""
    while True:
        places = list(part) if isinstance(part, dict) else list(range(len(part)))
        if not places:
            return
        place = places[int(rng.integers(len(places)))]
        inside = part[place]
        if isinstance(inside, dict | list) and inside and rng.random() < 0.8:
            part = inside
            continue
        part[place] = junk
        return


def _spoiled(array, rng):
    kind = rng.integers(5)
    if kind == 0:
        return array[..., : max(array.shape[-1] - 1, 0)] if array.ndim else array
    if kind == 1:
        return array.astype([np.float64, np.int32, np.int64, np.uint8][int(rng.integers(4))])
    if kind == 2:
        return np.concatenate([array, array]) if array.ndim else array
    flat = array.reshape(-1).copy()
    if flat.size and flat.dtype != bool:
        values = [0, 1, 2**31 - 1] if flat.dtype.kind in "iu" else [np.nan, np.inf, -1.0, 1e308]
        if flat.dtype.kind == "i":
            values += [-1, -(2**31)]
        value = np.array(values[int(rng.integers(len(values)))])
        flat[int(rng.integers(flat.size))] = value.astype(flat.dtype, casting="unsafe")
    return flat.reshape(array.shape if kind == 3 else array.shape[::-1])


def semantic(content, arrays, n: int, seed: int):
    """Files that any parser reads, with values that no fit has left there; how each was changed."""
    rng = np.random.default_rng(seed)
    numbers = list(_numbers(content["learned"])) + list(_numbers(content["arguments"]))
    for i in range(n):
        changed, tables = copy.deepcopy(content), dict(arrays)
        if i % 4 == 0 and numbers:
            path, value = numbers[int(rng.integers(len(numbers)))]
            junk = WRONG_NUMBERS[int(rng.integers(len(WRONG_NUMBERS)))]
            place = changed["learned" if i % 8 == 0 else "arguments"]
            with contextlib.suppress(KeyError, IndexError, TypeError):
                for key in path[:-1]:
                    place = place[key]
                place[path[-1]] = junk if junk != "negated" else -value
            yield f"{'.'.join(map(str, path))} = {junk}", changed, tables
            continue
        name = str(rng.choice(sorted(tables)))
        how = str(rng.choice(WRONG_TABLES))
        tables[name] = _wrong(name, how, arrays, rng)
        yield f"{name}: {how}", changed, tables


WRONG_NUMBERS = (
    *({"float": "nan"}, {"float": "inf"}, {"float": "-inf"}, 1e308, -1e308, 0, -1, 10**30),
    *(2**63, 1e-308, "negated", None, "x", True),
)
WRONG_TABLES = (
    *("nan", "inf", "-inf", "1e308", "-1e308", "1e60", "zero", "negated", "one entry", "swapped"),
    *("shuffled", "longer", "shorter", "twice", "tiny"),
)


def _numbers(value, path=()):
    """Numbers in nested lists and dictionaries, with the way to each."""
    if isinstance(value, int | float):
        yield path, value
    elif isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, inner in items:
            yield from _numbers(inner, (*path, key))


def _wrong(name, how, arrays, rng):
    array = arrays[name]
    if how == "swapped":  # with a table of the same shape and type, if there is one
        alike = [a for a in arrays.values() if (a.dtype, a.shape) == (array.dtype, array.shape)]
        return alike[int(rng.integers(len(alike)))]
    if how in ("longer", "shorter"):
        return np.concatenate([array, array[-1:]]) if how == "longer" else array[:-1]
    if how == "shuffled":
        return rng.permutation(array.reshape(-1)).reshape(array.shape)
    if array.dtype.kind == "b":
        return ~array
    if how in ("negated", "twice"):
        return np.negative(array) if how == "negated" else array + array
    wrong = {"zero": 0, "one entry": rng.choice(WRONG_TABLES[:6]), "tiny": 1e-300}.get(how, how)
    number = float(wrong)
    if array.dtype.kind != "f":
        info = np.iinfo(array.dtype)
        number = int(np.clip(np.nan_to_num(number), info.min // 2, info.max // 2))
    if how != "one entry" or array.size == 0:
        return np.full_like(array, number)
    flat = array.reshape(-1).copy()
    flat[int(rng.integers(flat.size))] = number
    return flat.reshape(array.shape)


def fuzz_semantic(model, scratch: Path, n: int, seed: int, check) -> dict[str, int]:
    """How many wrong files were refused, or accepted and then passed `check`, which raises."""
    content, arrays = content_of(model)
    tally = {"refused": 0, "accepted": 0}
    for what, changed, tables in semantic(content, arrays, n, seed):
        scratch.write_bytes(container.to_bytes(changed, tables))
        try:
            loaded = sj.load(scratch)
            check(loaded)
        except sj.SojournError:
            tally["refused"] += 1
        except Exception as error:
            raise AssertionError(f"{what}: {type(error).__name__}: {error}") from error
        else:
            tally["accepted"] += 1
    return tally


# Imports once, then starts a child for each line that it reads, which saves until it is killed.
SAVER = """
import os, sys
import numpy as np
import sojourn as sj
from sojourn.persist import saving as store
weight = {"weight": np.arange(250_000.0)}  # so that writing takes a while
models = [sj.load(path) for path in sys.argv[1:3]]
print("ready", flush=True)
for line in sys.stdin:
    child = os.fork()
    while child == 0:
        for model in models:
            store.save(model, sys.argv[3], extras=weight)
    print(child, flush=True)
    os.waitpid(child, 0)
    print("gone", flush=True)
"""


def kill_saves(folder: Path, models, sequences, kills: int, seed: int) -> dict[str, int]:
    """Which model is found after processes that save two of them in turns were killed."""
    originals = [folder / f"original-{i}.sojourn" for i in range(2)]
    for model, path in zip(models, originals, strict=True):
        model.save(path)
    target, rng = folder / "model.sojourn", np.random.default_rng(seed)
    models[0].save(target)
    expected = [model.score_samples(sequences) for model in models]
    assert not np.array_equal(*expected)  # else old and new could not be distinguished
    found = {"first": 0, "second": 0, "neither": 0, "killed while writing": 0}
    env = {**os.environ, "PYTHONPATH": str(Path(sj.__file__).parents[1])}
    command = [sys.executable, "-c", SAVER, *map(str, originals), str(target)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=env, **pipes) as server:
        assert server.stdout.readline() == "ready\n"
        for _ in range(kills):
            print("save", file=server.stdin, flush=True)
            child = int(server.stdout.readline())
            time.sleep(float(rng.random()) * 0.3)
            os.kill(child, signal.SIGKILL)
            assert server.stdout.readline() == "gone\n"
            scores = sj.load(target).score_samples(sequences)
            same = [np.array_equal(scores, e) for e in expected]
            found["first" if same[0] else "second" if same[1] else "neither"] += 1
            for draft in folder.glob(".model.sojourn.*.tmp"):
                found["killed while writing"] += 1
                draft.unlink()
        server.stdin.close()
    return found
