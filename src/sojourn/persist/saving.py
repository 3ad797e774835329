"""Save a fitted model to one checked file, and load it: arrays and text, no pickle, no code."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sklearn.utils.validation import check_is_fitted

from sojourn.errors import SojournError
from sojourn.storage.codec import LEARNED, MODELS, Arrays, LeftOut, decode, decode_model, encode
from sojourn.storage.container import DAMAGE, MAGIC, SCHEMA, damaged, read, write

if TYPE_CHECKING:
    from sojourn.detect.detector import AnomalyDetector
    from sojourn.estimators.base import SequenceModel

ESTIMATORS = (*MODELS, "AnomalyDetector")


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
    write(path, content, arrays)


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
        raise damaged(name, f"{type(error).__name__}: {error}") from None


def _loaded(content: dict[str, Any], arrays: Arrays) -> Any:
    from sojourn.persist.validate import check, check_detector

    estimator = content["estimator"]
    if not isinstance(estimator, str):
        raise TypeError(f"the name of its estimator is {estimator!r}")
    if estimator not in ESTIMATORS:
        raise SojournError(f"it holds a {estimator!r}, which this version does not know")
    if estimator in MODELS:
        model = decode_model(estimator, content, arrays)
        check(model)
        return model
    from sojourn.detect.detector import AnomalyDetector

    detector = AnomalyDetector(**decode(content["arguments"], arrays))
    for name, value in decode(content["learned"], arrays).items():
        if not LEARNED.fullmatch(name):
            raise SojournError(f"it holds {name!r}, which nothing learned is called")
        setattr(detector, name, value)
    check_detector(detector)
    return detector
