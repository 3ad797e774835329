"""Whether the parts of a loaded model fit together; each part checks itself when it is made."""

from __future__ import annotations

from typing import Any

import numpy as np

from sojourn.checks import LARGEST, check_arrays, check_choice, positive_int
from sojourn.data.sequences import Sequences
from sojourn.detect import METHODS
from sojourn.detect.calibration import Calibration
from sojourn.detect.explain import Norms
from sojourn.detect.novelty import UNKNOWN
from sojourn.detect.residuals import Whitening
from sojourn.errors import SojournError
from sojourn.estimators.base import SequenceModel
from sojourn.exact.params import ROW_TOLERANCE, Params
from sojourn.spectral.lowrank_operators import SharedOperators
from sojourn.spectral.moment_tables import shape_of
from sojourn.spectral.moments import Moments
from sojourn.spectral.operators import Operators
from sojourn.spectral.windows import check_offsets


def check_model(model: Any) -> None:
    """Raise an error if the parts of a fitted model do not fit together."""
    check_choice("unknown", model.unknown, ("error", "missing"))
    names = model.vocabulary_
    # Sequences check their vocabulary: here those of one missing symbol.
    Sequences(np.array([-1], np.int32), np.array([0, 1]), names, np.array([0]))
    _require(names.dtype.kind == "U" or (names.dtype == int and (names >= 0).all()), "vocabulary_")
    tables = "params_" if model.has_states else "operators_"
    _require_type(model, tables, Params if model.has_states else Operators | SharedOperators)
    n_o = getattr(model, tables).n_symbols
    if not len(names) == model.n_symbols_ == n_o:
        raise SojournError(
            f"the vocabulary has {len(names)} symbols, n_symbols_ is {model.n_symbols_}, the model "
            f"has {n_o}"
        )
    if model.has_states:
        _check_initial(model)
    else:
        _check_spectral(model)


def _check_initial(model: Any) -> None:
    if model.initial_ is not None:
        check_arrays(model, initial_="float64+ x d")
        _require(model.initial_.shape == model.params_.duration.shape, "initial_")
        _require(abs(model.initial_.sum() - 1) <= ROW_TOLERANCE, "initial_")


def _check_spectral(model: Any) -> None:
    check_choice("filter", model.filter, ("normalised", "raw"))
    check_arrays(model, singular_values_="float64+ s")
    positive_int("rank_", model.rank_)
    check_offsets(model.window_)
    _require(isinstance(model.epsilon_, float) and 0 < model.epsilon_ < 1, "epsilon_")
    _require_type(model, "moments_", Moments | None)
    if model.moments_ is not None:
        _require(shape_of(model.moments_.tables[0]).n_symbols == model.n_symbols_, "moments_")


def check_detector(detector: Any) -> None:
    """Raise an error if the parts of a fitted detector do not fit together."""
    check_choice("method", detector.method, METHODS)
    check_choice("unknown", detector.unknown, UNKNOWN)
    for name in ("contamination", "centre_"):
        value = getattr(detector, name)
        _require(type(value) in (float, int) and abs(value) <= LARGEST, name)
    for model in (detector.model_, *detector.fold_models_):
        _require(isinstance(model, SequenceModel), "fold_models_")
        check_model(model)
        _require(np.array_equal(model.vocabulary_, detector.vocabulary_), "vocabulary_")
    cv = positive_int("cv", detector.cv)
    _require(len(detector.fold_models_) == (cv if detector.refit else 0), "fold_models_")
    _require_type(detector, "calibration_", Calibration)
    _require(0 < detector.contamination < 1, "contamination")
    detector.calibration_.check(detector.contamination)
    blocks = [block for blocks in detector.whitenings_ for block in blocks.values()]
    _require(all(isinstance(block, Whitening) for block in blocks), "whitenings_")
    _require(len(detector.whitenings_) == cv, "whitenings_")
    check_arrays(detector, seen_="bool f o")
    _require(detector.seen_.shape == (cv, len(detector.vocabulary_)), "seen_")
    _require_type(detector, "norms_", Norms)
    n_x = detector.model_.params_.n_states if detector.model_.has_states else 0
    _require(detector.norms_.share.shape[1] == len(detector.vocabulary_), "norms_")
    _require(len(detector.norms_.changes) == n_x, "norms_")


def _require_type(owner: Any, name: str, wanted: Any) -> None:
    found = getattr(owner, name)
    if not isinstance(found, wanted):
        raise SojournError(f"{name} is a {type(found).__name__}, which is no part of this model")


def _require(valid: Any, name: str) -> None:
    if not valid:
        raise SojournError(f"{name} does not fit the rest of the model")
