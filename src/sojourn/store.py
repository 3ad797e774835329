r"""Saved models: one file that holds arrays and text, and runs no code when it is read.

The file is in the safetensors format. Its metadata have one entry, ``sojourn``: a header in JSON
with the schema, the versions, the estimator, its arguments and what it learned, in which arrays
stand by name (see `codec`). A checksum over the header and all arrays tells a damaged file; since
a checksum can be recomputed, what is read is checked as if it came from a stranger.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sojourn.codec import LEARNED, MODELS, Arrays, LeftOut, decode, decode_model, encode
from sojourn.errors import SojournError

if TYPE_CHECKING:
    from sojourn.detect import AnomalyDetector
    from sojourn.model import SequenceModel

MAGIC = "sojourn model"
SCHEMA = 1
ESTIMATORS = (*MODELS, "AnomalyDetector")
# safetensors itself refuses longer headers.
MAX_HEADER = 100_000_000
# What reading a damaged file can run into, apart from errors of the system.
DAMAGE = (
    KeyError,
    TypeError,
    AttributeError,
    ValueError,
    IndexError,
    OverflowError,
    RecursionError,
    MemoryError,
)


def save(
    model: SequenceModel | AnomalyDetector,
    path: str | os.PathLike[str],
    *,
    moments: bool = True,
    extras: Mapping[str, Any] | None = None,
) -> None:
    """Write a fitted model to a file, whole or not at all.

    What is written is read back before it takes the place of an old file, and is on the disk when
    `save` returns. The paper's own tensors (``operators_.tensors``) are not kept.

    Parameters
    ----------
    model : SpectralHSMM, HSMM or AnomalyDetector
    path : str or path
        By custom it ends in ``.sojourn``.
    moments : bool
        Whether to keep ``moments_``, without which `partial_fit` cannot go on. They are most of
        the file.
    extras : mapping, optional
        Numbers, strings and arrays by name, to be found in ``extras_`` of the loaded model.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sojourn import Params, SpectralHSMM, load
    >>> seqs = Params.random(2, 2, 3, rng=0).sample(200, 50, rng=1)
    >>> model = SpectralHSMM(2, 2).fit(seqs)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(model, Path(folder, "flights.sojourn"))
    ...     again = load(Path(folder, "flights.sojourn"))
    >>> bool((again.score_samples(seqs) == model.score_samples(seqs)).all())
    True
    """
    from sojourn import __version__

    check_is_fitted(model)
    if type(model).__name__ not in ESTIMATORS:
        raise SojournError(
            f"a {type(model).__name__} cannot be saved; {' and '.join(ESTIMATORS)} can"
        )
    learned = {name: value for name, value in vars(model).items() if LEARNED.fullmatch(name)}
    if not moments or isinstance(learned.get("moments_"), LeftOut):
        learned.pop("moments_", None)
    if extras is not None:
        learned["extras_"] = dict(extras)
    arrays: Arrays = {}
    content = {
        "magic": MAGIC,
        "schema": SCHEMA,
        "version": __version__,
        "estimator": type(model).__name__,
        "arguments": encode(model.get_params(deep=False), "arguments", arrays),
        "learned": encode(learned, "learned", arrays),
        "moments": "moments_" in learned,
    }
    _replace(os.path.realpath(path), to_bytes(content, arrays))


def load(path: str | os.PathLike[str]) -> Any:
    """Read a model that `save` wrote; it scores to the same bits.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    SpectralHSMM, HSMM or AnomalyDetector

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sojourn import Params, SpectralHSMM
    >>> model = SpectralHSMM(2, 2).fit(Params.random(2, 2, 3, rng=0).sample(200, 50, rng=1))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(Path(folder, "flights.sojourn"))
    ...     load(Path(folder, "flights.sojourn"))
    SpectralHSMM(max_duration=2, n_states=2)
    """
    name = os.fspath(path)
    content, arrays = read(name)
    try:
        return _loaded(content, arrays)
    except SojournError as error:
        raise SojournError(f"{name}: {error}") from None
    except DAMAGE as error:
        raise _damaged(name, f"{type(error).__name__}: {error}") from None


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], Arrays]:
    """Header and arrays of a file, after every check that needs no estimator.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     read(file.name)
    Traceback (most recent call last):
    sojourn.errors.SojournError: ... is not a saved model of sojourn, or is cut off
    """
    name = os.fspath(path)
    with open(name, "rb") as file:
        size = file.read(8)
        n = int.from_bytes(size, "little")
        head = file.read(n) if n <= MAX_HEADER else b""
        # Told before the rest is read: it may be some other file, and a large one.
        if len(size) < 8 or len(head) < n or MAGIC.encode() not in head:
            raise SojournError(f"{name} is not a saved model of sojourn, or is cut off")
        data = b"".join((size, head, file.read()))
    return _parsed(name, head, data)


def to_bytes(content: Mapping[str, Any], arrays: Arrays) -> bytes:
    """The file as bytes: arrays, and the header with their names and the checksum.

    Examples
    --------
    >>> from safetensors.numpy import load as parse
    >>> parse(to_bytes({"magic": MAGIC}, {"x": np.array([1, 2])}))
    {'x': array([1, 2])}
    """
    from safetensors.numpy import save as serialise

    # safetensors writes what lies at an array's address, whatever its strides.
    arrays = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    content = {**content, "arrays": _manifest(arrays)}
    text = _canonical({**content, "checksum": _checksum(content, arrays)})
    return serialise(arrays, {"sojourn": text})


def _parsed(name: str, head: bytes, data: bytes) -> tuple[dict[str, Any], Arrays]:
    from safetensors import SafetensorError
    from safetensors.numpy import load as parse

    from sojourn import __version__

    try:
        content = json.loads(json.loads(head)["__metadata__"]["sojourn"])
        magic, schema, version = content["magic"], content["schema"], content["version"]
        newer = magic == MAGIC and schema > SCHEMA
    except DAMAGE as error:
        raise _damaged(name, f"its header cannot be read, {error}") from None
    if newer:
        raise SojournError(
            f"{name} was written by sojourn {version} in schema {schema}, and this is sojourn "
            f"{__version__}, which reads schemas up to {SCHEMA}; install a newer version"
        )
    try:
        arrays = parse(data)
        checksum = content.pop("checksum")
        sound = magic == MAGIC and schema == SCHEMA and content["arrays"] == _manifest(arrays)
        sound = sound and checksum == _checksum(content, arrays)
    except (*DAMAGE, SafetensorError) as error:
        raise _damaged(name, str(error)) from None
    if not sound:
        raise _damaged(name, "its checksum does not match its content")
    return content, arrays


def _loaded(content: dict[str, Any], arrays: Arrays) -> Any:
    from sojourn.soundness import check, check_detector

    estimator = content["estimator"]
    if not isinstance(estimator, str):
        raise TypeError(f"the name of its estimator is {estimator!r}")
    if estimator not in ESTIMATORS:
        raise SojournError(f"it holds a {estimator!r}, which this version does not know")
    if estimator in MODELS:
        model = decode_model(estimator, content, arrays)
        check(model)
        return model
    from sojourn.detect import AnomalyDetector

    detector = AnomalyDetector(**decode(content["arguments"], arrays))
    for name, value in decode(content["learned"], arrays).items():
        if not LEARNED.fullmatch(name):
            raise SojournError(f"it holds {name!r}, which nothing learned is called")
        setattr(detector, name, value)
    check_detector(detector)
    return detector


def _manifest(arrays: Arrays) -> dict[str, list[Any]]:
    return {name: [array.dtype.str, list(array.shape)] for name, array in arrays.items()}


def _canonical(content: Mapping[str, Any]) -> str:
    """One text for one content, in ASCII."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _checksum(content: Mapping[str, Any], arrays: Arrays) -> str:
    digest = hashlib.sha256(_canonical(content).encode())
    for name in sorted(arrays):
        digest.update(arrays[name].tobytes())
    return digest.hexdigest()


def _replace(path: str, data: bytes) -> None:
    """Put the data in place of the file, so that at any moment there is an old or a new one."""
    folder, name = os.path.split(path)
    draft = os.path.join(folder, f".{name}.{secrets.token_hex(4)}.tmp")
    try:
        with open(draft, "xb") as file:
            if os.path.exists(path):
                os.chmod(draft, os.stat(path).st_mode & 0o777)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        read(draft)  # the checksum is of the arrays as they are in memory
        os.replace(draft, path)
    except BaseException:
        if os.path.exists(draft):
            os.remove(draft)
        raise
    if os.name == "posix":  # elsewhere a folder cannot be opened
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _damaged(name: str, reason: str) -> SojournError:
    return SojournError(f"{name} is damaged ({reason}); save the model again")
