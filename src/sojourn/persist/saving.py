"""Save a fitted model to one checked file, and load it: arrays and text, no pickle, no code."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sojourn.contexts.counts import ContextCounts, ContextMoments, Trees
from sojourn.contexts.followers import Followers
from sojourn.contexts.pieces import Pieces
from sojourn.contexts.tables import Table
from sojourn.contexts.trees import Tree
from sojourn.data.clock import Clock
from sojourn.data.discretize import Discretizer
from sojourn.data.sequences import Sequences
from sojourn.data.signals import Signals
from sojourn.detect.calibration import Calibration
from sojourn.detect.combination import Evidence
from sojourn.detect.contexts import Contexts
from sojourn.detect.detector import AnomalyDetector
from sojourn.detect.norms import Norms
from sojourn.detect.residuals import Whitening
from sojourn.detect.stream import NormalSteps, Tail
from sojourn.em.checkpoint import EMISSION_FORMS
from sojourn.errors import SojournError
from sojourn.estimators.base import SequenceModel
from sojourn.estimators.codes import Codebook
from sojourn.estimators.context_tree import ContextTree
from sojourn.estimators.hsmm import HSMM
from sojourn.estimators.spectral_hsmm import SpectralHSMM
from sojourn.exact.params import Params
from sojourn.persist.validate import check_detector, check_model
from sojourn.spectral.choice import ContextChoice
from sojourn.spectral.context_operators import ContextOperators
from sojourn.spectral.moment_tables import Adjacent, Gapped
from sojourn.spectral.moments import Moments
from sojourn.spectral.operators import Operators
from sojourn.spectral.search import ContextTrial
from sojourn.spectral.select_rank import Choice, Trial
from sojourn.storage.codec import Arrays, Form, dataclass_form, decode, encode
from sojourn.storage.container import DAMAGE, damaged, read, write

ESTIMATORS = {cls.__name__: cls for cls in (HSMM, SpectralHSMM, ContextTree, AnomalyDetector)}
PLAIN = (
    *(Params, Choice, Trial, Moments, Adjacent, Gapped),
    *(Trees, Tree, Table, ContextCounts, ContextMoments, Followers),
    *(ContextChoice, ContextTrial),
    *(Whitening, Calibration, Norms, Evidence, Contexts, NormalSteps, Tail, Clock),
    *(Sequences, Signals, Codebook),
)
LEARNED = re.compile(r"[a-z]\w*_")


def _to_dict(model: Any) -> dict[str, Any]:
    """Arguments of an estimator and what it has learned, without the moments."""
    learned = {name: value for name, value in vars(model).items() if LEARNED.fullmatch(name)}
    learned.pop("moments_", None)
    return {"arguments": model.get_params(deep=False), "learned": learned}


def _estimator_form(cls: Any) -> Form:
    def from_dict(given: dict[str, Any]) -> Any:
        model, learned = cls(**given["arguments"]), given["learned"]
        if cls is SpectralHSMM and learned:
            learned.setdefault("moments_", None)
        for name, value in learned.items():
            if not LEARNED.fullmatch(name):
                raise SojournError(f"it holds {name!r}, which is no name of something learned")
            setattr(model, name, value)
        return model

    return Form(_to_dict, from_dict)


def _upgraded(cls: Any, upgrade: Callable[[dict[str, Any]], dict[str, Any]]) -> Form:
    """The form of a dataclass whose fields in files of version 0.1 are brought up to date."""
    to_dict, from_dict = dataclass_form(cls)
    return Form(to_dict, lambda given: from_dict(upgrade(given)))


def _pieces(given: dict[str, Any]) -> dict[str, Any]:
    return {"closed": np.zeros(len(given["begins"]), bool), **given}  # not known where they end


def _operators(given: dict[str, Any]) -> dict[str, Any]:
    if "which" not in given:
        return given
    # Symbols had operators of their own, or combined shared ones by `emit`.
    which, shared, own = given.pop("which"), given.pop("shared"), given.pop("own")
    if (which >= 0).all():
        return given | {"own": own[which], "modes": np.empty((0, 0))}
    rest = np.where(which[:, None] < 0, given["emit"][:-1], 0.0)[:, : len(shared)]
    modes = np.hstack([which[:, None] == np.arange(len(own)), rest])
    return given | {"own": np.concatenate([own, shared]), "modes": modes}


# The classes that may stand in a file.
FORMS = {
    **{cls.__name__: dataclass_form(cls) for cls in PLAIN},
    **{name: _estimator_form(cls) for name, cls in ESTIMATORS.items()},
    # Scoring needs the operators alone; the paper's own tensors are not kept.
    "Operators": dataclass_form(Operators, without=("tensors",)),
    "Pieces": _upgraded(Pieces, _pieces),
    "ContextOperators": _upgraded(ContextOperators, _operators),
    **EMISSION_FORMS,
    "Discretizer": Form(Discretizer.to_arrays, Discretizer.from_arrays),
}


def save(
    model: SequenceModel | AnomalyDetector,
    path: str | os.PathLike[str],
    *,
    moments: bool = True,
    extras: Mapping[str, Any] | None = None,
) -> None:
    """Write a fitted model to a file; the write is atomic.

    What is written is read back before it takes the place of an old file, and is on the disk when
    `save` returns. The paper's own tensors (``operators_.tensors``) are not kept.

    Parameters
    ----------
    model : SpectralHSMM, HSMM or AnomalyDetector
    path : str or path
        By custom it ends in ``.sojourn``.
    moments : bool
        Whether to keep ``moments_``, which `partial_fit` needs. They are most of the file.
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
    check_is_fitted(model)
    if type(model) not in ESTIMATORS.values():
        raise SojournError(
            f"a {type(model).__name__} cannot be saved; expected one of {', '.join(ESTIMATORS)}"
        )
    state = _to_dict(model)
    kept = getattr(model, "moments_", None) if moments else None
    if kept is not None:
        state["learned"]["moments_"] = kept
    if extras is not None:
        state["learned"]["extras_"] = dict(extras)
    arrays: Arrays = {}
    content = {
        "estimator": type(model).__name__,
        **{key: encode(value, key, arrays, FORMS) for key, value in state.items()},
        "moments": kept is not None,
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
    estimator = content["estimator"]
    if estimator not in ESTIMATORS:
        raise SojournError(f"it holds a {estimator!r}, which this version does not know")
    state = {key: decode(content[key], arrays, FORMS) for key in ("arguments", "learned")}
    model = FORMS[estimator].from_dict(state)
    (check_detector if isinstance(model, AnomalyDetector) else check_model)(model)
    return model
