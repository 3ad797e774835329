"""Whether the parts of a loaded model fit together; each part checks itself when it is made."""

from __future__ import annotations

from typing import Any

import numpy as np

from sojourn.checks import LARGEST, check_arrays, check_choice, positive_int
from sojourn.contexts.counts import ContextMoments, Trees
from sojourn.contexts.followers import Followers
from sojourn.data.clock import Clock
from sojourn.data.sequences import Sequences
from sojourn.data.signals import MEASURED, Signals
from sojourn.detect import METHODS
from sojourn.detect.calibration import Calibration
from sojourn.detect.combination import GROUPS, OF_NUMBERS, Evidence
from sojourn.detect.contexts import Contexts
from sojourn.detect.norms import Norms
from sojourn.detect.novelty import UNKNOWN
from sojourn.detect.residuals import Whitening
from sojourn.detect.stream import NormalSteps, Tail
from sojourn.errors import SojournError
from sojourn.estimators.base import SequenceModel
from sojourn.estimators.codes import Codebook
from sojourn.estimators.context_tree import ContextTree
from sojourn.exact.params import ROW_TOLERANCE, Params
from sojourn.spectral.context_operators import ContextOperators
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
    if getattr(model, "clock_", None) is not None:
        _require_type(model, "clock_", Clock)
    if getattr(model, "gaps_", None) is not None:
        check_arrays(model, gaps_="float64 2 o")
        _require(model.gaps_.shape[1] == len(names) and np.isfinite(model.gaps_).all(), "gaps_")
    _require(names.dtype.kind == "U" or (names.dtype == int and (names >= 0).all()), "vocabulary_")
    if model.has_states:
        _require_type(model, "params_", Params)
        _check_initial(model)
        n_o = model.params_.n_symbols
    else:
        _check_parts(model)
        n_o = model._model.n_symbols  # made here: its parts check that they fit together
    if not len(names) == model.n_symbols_ == n_o:
        raise SojournError(
            f"the vocabulary has {len(names)} symbols, n_symbols_ is {model.n_symbols_}, the model "
            f"has {n_o}"
        )


def _check_initial(model: Any) -> None:
    n_x = model.params_.n_states
    if model.states_ is not None:
        _require(model.states_.dtype.kind == "U" and model.states_.shape == (n_x,), "states_")
    for name in ("shares_", "visits_"):
        if getattr(model, name) is not None:
            check_arrays(model, **{name: "float64+ x"})
            _require(getattr(model, name).shape == (n_x,), name)
    if model.initial_ is not None:
        check_arrays(model, initial_="float64+ x d")
        _require(model.initial_.shape == model.params_.duration.shape, "initial_")
        _require(abs(model.initial_.sum() - 1) <= ROW_TOLERANCE, "initial_")


def _check_parts(model: Any) -> None:
    """Raise an error if a model that filters lacks a part, or has one of another kind."""
    contexts = isinstance(model, ContextTree) or model.algorithm == "contexts"
    if contexts:
        _require_type(model, "trees_", Trees)
        _require_type(model, "followers_", Followers)
        _require(type(model.ends) is bool, "ends")
    if isinstance(model, ContextTree):
        return
    check_choice("filter", model.filter, ("normalised", "raw"))
    if model.codebook_ is not None:
        _require_type(model, "codebook_", Codebook)
        sizes = (len(model.codebook_.mass), model.codebook_.density.n_channels)
        _require(sizes == (model.n_symbols_, len(model.channels_)), "codebook_")
    check_arrays(model, singular_values_="float64+ s")
    positive_int("rank_", model.rank_)
    _require_type(model, "operators_", ContextOperators if contexts else Operators)
    _require_type(model, "moments_", (ContextMoments if contexts else Moments) | None)
    if contexts:
        _require(type(model.weight_) in (float, int), "weight_")
        n_o = model.moments_ and model.moments_.counts.trees.n_symbols
    else:
        check_offsets(model.window_)
        _require(isinstance(model.epsilon_, float) and 0 < model.epsilon_ < 1, "epsilon_")
        n_o = model.moments_ and shape_of(model.moments_.tables[0]).n_symbols
    _require(n_o in (None, model.n_symbols_), "moments_")


def check_detector(detector: Any) -> None:
    """Raise an error if the parts of a fitted detector do not fit together."""
    check_choice("method", detector.method, METHODS)
    check_choice("unknown", detector.unknown, UNKNOWN)
    for name in ("contamination", "centre_", "novel_weight_"):
        value = getattr(detector, name)
        _require(type(value) in (float, int) and abs(value) <= LARGEST, name)
    for model in (detector.model_, *detector.fold_models_):
        _require(isinstance(model, SequenceModel), "fold_models_")
        check_model(model)
        own = MEASURED if model._density else model.vocabulary_
        _require(np.array_equal(own, detector.vocabulary_), "vocabulary_")
    check_arrays(detector, seen_="bool f o")
    cv = len(detector.seen_)
    _require(1 < cv <= positive_int("cv", detector.cv), "seen_")
    _require(len(detector.fold_models_) == (cv if detector.refit else 0), "fold_models_")
    _require_type(detector, "calibration_", Calibration)
    _require(0 < detector.contamination < 1, "contamination")
    detector.calibration_.check(detector.contamination)
    blocks = [block for blocks in detector.whitenings_ for block in blocks.values()]
    _require(all(isinstance(block, Whitening) for block in blocks), "whitenings_")
    _require(len(detector.whitenings_) == cv, "whitenings_")
    _require(len(detector.contexts_) == cv + 1, "contexts_")
    for contexts in detector.contexts_:
        _require(isinstance(contexts, Contexts), "contexts_")
        _require(contexts.n_symbols == len(detector.vocabulary_), "contexts_")
    if detector.method == "combined":
        _require_type(detector, "evidence_", Evidence)
        evidence, n = detector.evidence_, len(detector.calibration_.scores)
        _require(len(evidence.views["likelihood"]) == n, "evidence_")
        if not evidence.is_combined_as_now():
            raise SojournError(
                "this detector was saved by a version that combined its evidence otherwise, so its "
                "p-values would be wrong; fit it again"
            )
        named = {name for group in GROUPS.values() for name in group}
        of_model = {*OF_NUMBERS} if model._density else named
        _require({*evidence.views} & named == of_model, "evidence_")
        wanted = {*evidence.views} - named
        _require(all(wanted == {*of_fold} for of_fold in detector.whitenings_), "whitenings_")
    _require(detector.seen_.shape[1] == len(detector.vocabulary_), "seen_")
    _require_type(detector, "steps_", NormalSteps)
    steps = detector.steps_
    tails = (steps.surprise, steps.recent, steps.both)
    _require(all(isinstance(tail, Tail) for tail in tails), "steps_")
    _require(type(steps.usual) is float and abs(steps.usual) <= LARGEST, "steps_")
    numbers = detector.model_._density is not None
    _require_type(detector, "typical_", Signals if numbers else Sequences)
    _require(np.array_equal(detector.typical_.vocabulary, detector.vocabulary_), "typical_")
    if numbers:
        _require(detector.typical_.channels == tuple(detector.model_.channels_), "typical_")
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
