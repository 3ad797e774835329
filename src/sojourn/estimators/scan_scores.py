"""Scores of sequences that are read partition by partition."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sojourn.scale.passes import Parts, Watch

if TYPE_CHECKING:
    from sojourn.data.sequences import Sequences
    from sojourn.estimators.base import SequenceModel
    from sojourn.io.sources import Scan

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Scores:
    """The score of each sequence, and whose it is.

    Parameters
    ----------
    ids : array (n,)
    lengths, observed : int64 arrays (n,)
        Number of symbols, and of those that are not missing.
    log_prob : array (n,)
        In nats.
    """

    ids: NDArray[Any]
    lengths: NDArray[np.int64]
    observed: NDArray[np.int64]
    log_prob: Floats

    @property
    def per_symbol(self) -> float:
        """Log-likelihood a symbol over all sequences."""
        return float(self.log_prob.sum()) / max(int(self.observed.sum()), 1)


@dataclass(frozen=True, eq=False)
class Scoring:
    """The task that scores one partition: what is sent is what the scorer needs of the model."""

    scorer: Callable[[Sequences, int | None], Floats]

    def __call__(self, sequences: Sequences, begin: int, n_jobs: int | None) -> Scores:
        """The scores of the partition."""
        return Scores(
            sequences.ids,
            sequences.lengths,
            sequences.n_observed,
            self.scorer(sequences, n_jobs),
        )


def score_scan(
    model: SequenceModel, scan: Scan, client: Any = None, watch: Watch | None = None
) -> Scores:
    r"""Scores of all sequences of a scan, in its order.

    Parameters
    ----------
    model : SpectralHSMM or HSMM
    scan : Scan
    client : distributed.Client, optional
    watch : callable, optional
        Called with the number of partitions done, and of all.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sojourn import Params, SpectralHSMM, scan
    >>> seqs = Params.random(2, 2, 3, rng=0).sample(200, 50, rng=1)
    >>> model = SpectralHSMM(2, 2).fit(seqs)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "a.txt")
    ...     _ = file.write_text("\n".join(" ".join(map(str, row)) for row in seqs))
    ...     scores = score_scan(model, scan(file))
    >>> bool((scores.log_prob == model.score_samples(seqs)).all())
    True
    """
    own = replace(scan, given=model.vocabulary_, unknown=model.unknown)
    parts = replace(Parts.of(own, model.n_jobs, client), watch=watch)
    found: list[Scores] = parts.each(Scoring(model._scorer()))
    fields = ("ids", "lengths", "observed", "log_prob")
    return Scores(*(np.concatenate([getattr(s, name) for s in found]) for name in fields))
