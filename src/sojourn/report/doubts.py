"""What of a report to distrust, and where its numbers come from."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

import numpy as np

from sojourn.plot.base import plain
from sojourn.report.findings import Findings

FEW = 100  # training sequences
MANY = 0.5  # abnormal: more than this share is rather another kind of data
QUIET = 0.2  # p-values above this are of normal sequences
LEAST_QUIET = 20  # such p-values, to compare them with a uniform distribution
DRIFT = 1e-3  # p-value of that comparison


def doubts(findings: Findings) -> list[str]:
    """Sentences for the reader, the weightiest first."""
    found = [findings.calibrated] if "itself" in findings.calibrated else []
    found += _drift(findings) + _few(findings)
    if findings.inner.has_states:
        found += [_sentence(plain(warning)) for warning in findings.inner.summary().warnings]
    return found


def _drift(findings: Findings) -> list[str]:
    """Whether most sequences are unlike those of training."""
    n, k, rate = len(findings.pvalues), findings.n_alarms, float(findings.detector.contamination)
    if "itself" in findings.calibrated:
        return []
    if k > MANY * n and n >= LEAST_QUIET and rate < MANY:
        return [
            f"{k:,} of {n:,} sequences are abnormal. If most of them ought to be normal, the data "
            f"differ as a whole from those of training (drift, another source, another encoding), "
            f"and a single alarm means little: fit the detector again on recent normal sequences."
        ]
    from scipy.stats import kstest

    quiet = findings.pvalues[findings.pvalues > QUIET]
    if len(quiet) < LEAST_QUIET:
        return []
    test = kstest((quiet - QUIET) / (1 - QUIET), "uniform")
    if test.pvalue >= DRIFT:
        return []
    middle = float(np.median(quiet))
    side = "more" if middle < (1 + QUIET) / 2 else "less"
    return [
        f"The p-values of sequences without an alarm are not uniform (median {middle:.2f} of those "
        f"above {QUIET:g}, where {(1 + QUIET) / 2:.2f} is expected): the data have drifted, and "
        f"normal sequences now raise {side} false alarms than {rate:.3g} of them."
    ]


def _few(findings: Findings) -> list[str]:
    """Whether p-values are coarse."""
    n, found = findings.n_training, []
    least = 1 / (n + 1)
    shared = int((findings.pvalues <= least * (1 + 1e-9)).sum())
    if n < FEW:
        found.append(
            f"There were {n:,} training sequences: false alarms may be rarer or more frequent than "
            f"{findings.detector.contamination:.3g}, and the least possible p-value is 1/{n + 1} = "
            f"{least:.2g}."
        )
    if shared > 1:
        found.append(
            f"{shared:,} sequences share the least possible p-value, {least:.2g}; their order is "
            f"that of the score."
        )
    return found


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def provenance(findings: Findings, given: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """Names and values: what was read, when, by which version, with which arguments."""
    from sojourn import __version__

    detector, inner, sequences = findings.detector, findings.inner, findings.sequences
    steps = f"{sequences.n_total:,} {'steps' if hasattr(sequences, 'values') else 'symbols'}"
    own = ("contamination", "method", "cv", "refit", "unknown")
    arguments = ", ".join(
        f"{name}={vars(detector)[name]!r}" for name in own if name in vars(detector)
    )
    now = datetime.datetime.now(datetime.UTC)
    facts = {
        **{str(name): str(value) for name, value in (given or {}).items()},
        "Sequences": f"{len(sequences):,}, with {steps}",
        "Training sequences": f"{findings.n_training:,}",
        **({"Calibration": findings.calibrated} if findings.calibrated else {}),
        "Model": " ".join(repr(inner).split()),
        "Size": "{:,} {}{}".format(*size(inner)),
        "Detector": f"{type(detector).__name__}({arguments})",
        "Written": f"{now:%Y-%m-%d %H:%M} UTC by sojourn {__version__}",
    }
    return [(plain(name), plain(value)) for name, value in facts.items()]


def size(inner: Any) -> tuple[int, str, str]:
    """How large a model is: a number, of what, and more in words."""
    if inner.has_states:
        step, unit = inner.step_
        n_d = inner.params_.max_duration
        longer = ", longer ones in a tail" if (inner.params_.tail > 0).any() else ""
        return inner.params_.n_states, "states", f", stays of up to {step * n_d:g} {unit}{longer}"
    if hasattr(inner, "trees_"):
        more = f", rank {inner.rank_}" if hasattr(inner, "rank_") else ""
        return inner.trees_.n_pasts, "contexts", more
    offsets = " ".join(map(str, inner.window_))
    return inner.rank_, "singular directions", f", windows of offsets {offsets}"
