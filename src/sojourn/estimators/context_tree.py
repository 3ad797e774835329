"""`ContextTree`: what follows each past, smoothed by shorter pasts; a strong baseline."""

from __future__ import annotations

from functools import cached_property, partial
from typing import Any, Self

from sklearn.utils.validation import check_is_fitted

from sojourn.checks import check_choice
from sojourn.contexts.counts import ContextTally
from sojourn.estimators.predictive import PredictiveModel, counted, sample_of
from sojourn.spectral.choice import cross_trust, grow_pasts, learn_tree
from sojourn.spectral.models import ContextModel


class ContextTree(PredictiveModel):
    """A context tree: predictions from pasts of variable length, read in runs.

    What followed a past is mixed with what followed its shorter pasts; how far each is trusted is
    learned on held-out sequences. Unlike an n-gram it looks as far back as the data supports. It is
    part of `SpectralHSMM`, and a baseline to compare other models with.

    Parameters
    ----------
    ends : bool
        Whether sequences end: the end is then predicted like a symbol, scored, and drawn. If not,
        lengths say nothing.
    unknown : {"error", "missing"}
        What a symbol outside `vocabulary_` is.
    n_jobs : int or None
        Number of threads; None or -1 for all cores. Results do not depend on it.

    Attributes
    ----------
    trees_ : Trees
        The tree of pasts.
    followers_ : Followers
        What follows each of its nodes, and how far each is trusted.
    vocabulary_ : array
        The symbols, sorted.
    n_symbols_ : int
        Number of symbols.

    Examples
    --------
    >>> from sojourn import ContextTree
    >>> tree = ContextTree(ends=True).fit([list("abab"), list("ababab"), list("ab")] * 30)
    >>> tree.predict_next([list("aba")]).round(2)
    array([[0., 1., 0.]])
    """

    def __init__(
        self, *, ends: bool = False, unknown: str = "error", n_jobs: int | None = None
    ) -> None:
        self.ends = ends
        self.unknown = unknown
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None, *, lengths: Any = None, client: Any = None) -> Self:
        """Learn from sequences.

        Parameters
        ----------
        X, y, lengths, client
            As in `SpectralHSMM.fit`.

        Returns
        -------
        ContextTree
        """
        check_choice("unknown", self.unknown, ("error", "missing"))
        data = self._training_data(X, lengths, client)
        sample = sample_of(data)
        trees = grow_pasts(sample, data.n_symbols)
        trust = cross_trust(sample, trees, self.ends, self.n_jobs)
        moments = counted(data, partial(ContextTally, trees), self.n_jobs)
        model = learn_tree(moments, self.ends, self.n_jobs, trust)
        learned = {"trees_": trees, "followers_": model.followers}
        learned |= {"vocabulary_": data.vocabulary, "n_symbols_": data.n_symbols}
        learned |= self._timing(data)
        self.__dict__.pop("_model", None)  # of the fit before
        self.__dict__.update(learned)  # all or, if interrupted, nothing
        return self

    @cached_property
    def _model(self) -> ContextModel:
        """What was learned, laid out for scoring, once for each fit."""
        check_is_fitted(self)
        return ContextModel(self.trees_, None, self.followers_, 0.0, self.ends)
