"""Whether what was read from a file can be a model, so that no kernel reads beyond its arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from sojourn.checks import MAX_ENTRIES, check_choice, positive_int
from sojourn.detect.calibration import Calibration
from sojourn.detect.explain import Norms
from sojourn.detect.residuals import Whitening
from sojourn.errors import SojournError
from sojourn.estimators.base import SequenceModel
from sojourn.exact.params import Params
from sojourn.spectral.count_sparse import Sparse
from sojourn.spectral.holdout import NO_LIMIT, Pieces
from sojourn.spectral.lowrank_operators import SharedOperators
from sojourn.spectral.moment_tables import Adjacent, Gapped
from sojourn.spectral.moments import Moments
from sojourn.spectral.operators import Operators
from sojourn.spectral.windows import check_offsets


def check(model: Any) -> None:
    """Nothing where the parts of a loaded model fit together, else an error that says which do not.

    Examples
    --------
    >>> from sojourn import Params, SpectralHSMM
    >>> model = SpectralHSMM(2, 2).fit(Params.random(2, 2, 3, rng=0).sample(50, 50, rng=1))
    >>> check(model)
    >>> model.vocabulary_ = model.vocabulary_[:2]
    >>> check(model)
    Traceback (most recent call last):
    sojourn.errors.SojournError: the number of symbols: 2 in the vocabulary, 3 in the model
    """
    check_choice("unknown", model.unknown, ("error", "missing"))
    vocabulary = model.vocabulary_
    _array("vocabulary_", vocabulary, "iU", (None,))
    _demand(vocabulary.dtype.kind == "U" or vocabulary.dtype == np.int64, "vocabulary_")
    _demand(bool((vocabulary[1:] > vocabulary[:-1]).all()), "the order of the vocabulary")
    _demand(vocabulary.dtype.kind == "U" or bool((vocabulary >= 0).all()), "vocabulary_")
    n_o = len(vocabulary)
    spectral = hasattr(model, "operators_")
    found = model.operators_.n_symbols if spectral else model.params_.n_symbols
    if not n_o == found == model.n_symbols_:
        raise SojournError(f"the number of symbols: {n_o} in the vocabulary, {found} in the model")
    if spectral:
        _spectral(model, n_o)
    else:
        _hsmm(model)


def check_detector(detector: Any) -> None:
    """Nothing where the parts of a loaded detector fit together, else an error.

    Examples
    --------
    >>> from sojourn import AnomalyDetector, Params, SpectralHSMM
    >>> seqs = Params.random(2, 2, 3, rng=0).sample(50, 50, rng=1)
    >>> check_detector(AnomalyDetector(SpectralHSMM(2, 2), cv=2).fit(seqs))
    """
    check_choice("method", detector.method, ("residual", "loglik", "typicality"))
    for name in ("contamination", "centre_"):
        value = getattr(detector, name)
        _demand(type(value) in (float, int) and bool(np.isfinite(value)), name)
    models = [detector.model_, *detector.fold_models_]
    for model in models:
        _demand(isinstance(model, SequenceModel), "fold_models_")
        check(model)
        _demand(np.array_equal(model.vocabulary_, detector.vocabulary_), "vocabulary_")
    cv, calibration = positive_int("cv", detector.cv), detector.calibration_
    _demand(len(detector.fold_models_) in ((cv,) if detector.refit else (0,)), "fold_models_")
    _demand(isinstance(calibration, Calibration), "calibration_")
    _array("calibration_.scores", calibration.scores, "f", (None,))
    _demand(not np.isnan(calibration.scores).any(), "calibration_.scores")
    _demand(0 < detector.contamination < 1, "contamination")
    calibration.check(detector.contamination)
    whitenings = detector.whitenings_
    _demand(isinstance(whitenings, list) and len(whitenings) == cv, "whitenings_")
    for blocks in whitenings:
        for block in blocks.values():
            _demand(isinstance(block, Whitening), "whitenings_")
            n = len(block.mean)
            for name, shape in (("mean", (n,)), ("scale", (n,)), ("precision", (n, n))):
                _array(f"whitenings_.{name}", getattr(block, name), "f", shape)
    _norms(detector.norms_, models[0])


def _norms(norms: Any, model: Any) -> None:
    _demand(isinstance(norms, Norms), "norms_")
    n_o = len(model.vocabulary_)
    n_x = model.params_.n_states if hasattr(model, "params_") else 0
    shapes = {"share": (4, n_o), "first": (3, n_o), "surprise": (2,), "stays": (4, n_x)}
    shapes.update(occupancy=(4, n_x), changes=(n_x, n_x))
    for name, shape in shapes.items():
        _array(f"norms_.{name}", getattr(norms, name), "f", shape)


def _hsmm(model: Any) -> None:
    params = model.params_
    _demand(isinstance(params, Params), "params_")
    if model.initial_ is not None:
        _array("initial_", model.initial_, "f", params.duration.shape)
        sound = np.isfinite(model.initial_).all() and (model.initial_ >= 0).all()
        _demand(bool(sound), "initial_")


def _spectral(model: Any, n_o: int) -> None:
    check_choice("filter", model.filter, ("normalised", "raw"))
    operators = model.operators_
    if isinstance(operators, SharedOperators):
        _shared(operators, n_o)
    else:
        _own(operators, n_o)
    _array("singular_values_", model.singular_values_, "f", (None,))
    positive_int("rank_", model.rank_)
    check_offsets(model.window_)
    _demand(isinstance(model.epsilon_, float) and 0 < model.epsilon_ < 1, "epsilon_")
    if isinstance(model.moments_, Moments):
        _moments(model.moments_, n_o)


def _shared(operators: SharedOperators, n_o: int) -> None:
    _array("operators_.modes", operators.modes, "f", (n_o, None))
    m, k = operators.modes.shape[1], len(operators.stop)
    _demand(m > 0 and k > 0, "operators_.B")
    _array("operators_.B", operators.B, "f", (m, k, k))
    for name in ("start", "stop", "rest"):
        _array(f"operators_.{name}", getattr(operators, name), "f", (k,))
    _array("operators_.frequency", operators.frequency, "f", (n_o,))
    _demand(bool((operators.frequency > 0).all()), "operators_.frequency")


def _own(operators: Any, n_o: int) -> None:
    _demand(isinstance(operators, Operators), "operators_")
    _array("operators_.B", operators.B, "f", (None, n_o, None, None))
    n_t, _, k, _ = operators.B.shape
    _demand(n_t > 0 and k > 0, "operators_.B")
    _array("operators_.B", operators.B, "f", (n_t, n_o, k, k))
    _array("operators_.start", operators.start, "f", (k,))
    _array("operators_.stop", operators.stop, "f", (k,))
    _array("operators_.rest", operators.rest, "f", (n_t, k))


def _moments(moments: Moments, n_o: int) -> None:
    _demand(isinstance(moments.tables, tuple) and len(moments.tables) > 0, "moments_.tables")
    for name in ("n_sequences", "n_total", "longest"):
        positive_int(f"moments_.{name}", getattr(moments, name))
    _demand(type(moments.limit) is int and 0 <= moments.limit <= NO_LIMIT, "moments_.limit")
    for table in moments.tables:
        if isinstance(table, Sparse):
            _sparse(table, n_o)
            continue
        n = n_o ** len(check_offsets(table.offsets))
        _demand(n * n * n_o <= MAX_ENTRIES, "moments_.tables")
        if isinstance(table, Adjacent):
            _array("H", table.H, "i", (n, n))
            _array("H_o", table.H_o, "i", (n, n_o, n))
            _array("first", table.first, "i", (n,))
            continue
        _demand(isinstance(table, Gapped) and len(table.M_LoR) > 0, "moments_.tables")
        n_t = len(table.M_LoR)
        _array("M_LoR", table.M_LoR, "i", (n_t, n, n_o, n))
        _array("M_LR", table.M_LR, "i", (n_t, n, n))
        _array("M_LR1", table.M_LR1, "i", (n_t, n, n))
        _array("M_oo", table.M_oo, "i", (n_t, n_o, n_o))
        _array("root", table.root, "i", (n_o, n_o, n))
    _pieces(moments.heldout, n_o)


def _sparse(table: Sparse, n_o: int) -> None:
    most = n_o ** len(check_offsets(table.offsets))
    _demand(table.n_symbols == n_o and most < 2**63, "moments_.tables")
    for name in ("left", "right"):
        codes = getattr(table, name)
        _array(name, codes, "i", (None,))
        sound = codes.dtype == np.int64 and bool((codes[1:] > codes[:-1]).all())
        _demand(sound and bool(((codes >= 0) & (codes < most)).all()), name)
    n, n_L, n_R = len(table.counts), len(table.left), len(table.right)
    _array("counts", table.counts, "i", (n,))
    _array("first", table.first, "i", (n_R,))
    _demand(table.counts.dtype == table.first.dtype == np.int64, "counts")
    _demand(bool((table.counts > 0).all() and (table.first >= 0).all()), "counts")
    for name, limit in (("L", n_L), ("R", n_R), ("R1", n_R)):
        ids = getattr(table, name)
        _array(name, ids, "i", (n,))
        _demand(ids.dtype == np.int32 and bool(((ids >= 0) & (ids < limit)).all()), name)


def _pieces(pieces: Pieces, n_o: int) -> None:
    _demand(isinstance(pieces, Pieces), "moments_.heldout")
    codes, begins, ends = pieces.codes, pieces.begins, pieces.ends
    _array("heldout.codes", codes, "i", (None,))
    n = len(begins)
    for name, kind in (("begins", "i"), ("ends", "i"), ("fresh", "b"), ("keys", "u")):
        _array(f"heldout.{name}", getattr(pieces, name), kind, (n,))
    _demand(codes.dtype == np.int32 and begins.dtype == ends.dtype == np.int64, "heldout")
    _demand(pieces.keys.dtype == np.uint64, "heldout.keys")
    _demand(bool(((codes >= -1) & (codes < n_o)).all()), "heldout.codes")
    within = (begins >= 0) & (begins <= ends) & (ends <= len(codes))
    _demand(bool(within.all()), "heldout.begins")


def _array(name: str, array: Any, kinds: str, shape: tuple[int | None, ...]) -> None:
    sound = isinstance(array, np.ndarray) and array.dtype.kind in kinds
    sound = sound and len(array.shape) == len(shape)
    sound = sound and all(b is None or a == b for a, b in zip(array.shape, shape, strict=True))
    # One width a kind: what was counted or computed here has 64 bits, codes have 32.
    sound = sound and (array.dtype.kind not in "f" or array.dtype == np.float64)
    _demand(sound, name)


def _demand(sound: bool, name: str) -> None:
    if not sound:
        raise SojournError(f"{name} is not what a model needs")
