"""`SpectralHSMM`: operators from counts, in scikit-learn's form."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import cached_property, partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from sojourn.checks import check_choice, positive_int, seed_of
from sojourn.contexts.counts import ContextTally, Trees
from sojourn.data.sequences import Sequences
from sojourn.errors import SojournError
from sojourn.estimators.base import Floats, Scorer
from sojourn.estimators.codes import CodedModel, is_coded
from sojourn.estimators.numbers import numbers_of
from sojourn.estimators.predictive import counted, sample_of
from sojourn.io.sources import Scan
from sojourn.scale.passes import Partitions
from sojourn.spectral.answers import states_of
from sojourn.spectral.choice import choose_trees, learn_contexts, max_rank
from sojourn.spectral.models import ContextModel, WindowModel
from sojourn.spectral.moment_tables import Form
from sojourn.spectral.moments import WindowTally
from sojourn.spectral.paper import raw_log_prob
from sojourn.spectral.select_rank import learn_windows
from sojourn.spectral.windows import choose_offsets

ALGORITHMS = ("contexts", "adjacent", "pooled", "per_step")
WINDOWS = ("auto", "theorem", "contiguous")
FILTERS = ("normalised", "raw")


class SpectralHSMM(TransformerMixin, CodedModel):
    """A hidden semi-Markov model learned from counts: one pass, one SVD, no local optima.

    Pasts and futures of the data become contexts of variable length, read in runs; one pass counts
    which futures follow which pasts; a singular value decomposition turns the counts into one
    operator per symbol. Their predictions are mixed with a context tree's. How fine the contexts
    are, how many directions count and the mixture are chosen by held-out likelihood.

    It has no parameters, only operators: it tells how likely a sequence is and what comes next,
    not which state it is in. For states and durations see `HSMM`.

    Parameters
    ----------
    n_states, max_duration : int or None
        Number of hidden states n_x and longest stay n_d. They bound the rank, n_x · n_d; None lets
        the data decide. The paper's algorithms need both.
    algorithm : {"contexts", "adjacent", "pooled", "per_step"}
        Contexts of variable length; or windows of fixed offsets: those that touch, or the paper's
        Algorithm 2 or 1.
    ends : bool
        Whether sequences end: the end is then predicted like a symbol, scored, and drawn. If not,
        lengths say nothing.
    windows : {"auto", "theorem", "contiguous"} or sequence of int
        Which symbols a window reads, for the algorithms that have windows: Theorem 1's, as many in
        a row, or given offsets such as ``(0, 1, 4)``. "auto" is Theorem 1's for the paper's two
        algorithms, and as many in a row for "adjacent".
    trees : Trees or None
        Contexts to count over, such as ``trees_`` of another model; None grows them from the data.
    rank : int or "auto"
        Number of singular directions; "auto" chooses it by held-out likelihood.
    filter : {"normalised", "raw"}
        How sequences are scored: by a true distribution, or, with windows, by the log of the
        paper's signed product, -inf where it is not positive.
    self_transitions : bool or None
        Ignored: the spectral methods need not know. Accepted so that both estimators take it.
    unknown : {"error", "missing"}
        What a symbol outside `vocabulary_` is.
    random_state : int, Generator, RandomState or None
        Seed of the random projections that large tables are decomposed with; None is 0.
    n_jobs : int or None
        Number of threads; None or -1 for all cores. Results do not depend on it.

    Attributes
    ----------
    operators_ : ContextOperators or Operators
        What was learned: one operator per symbol.
    rank_ : int
        Number of singular directions in use.
    singular_values_ : array
        Of the scaled counts, largest first.
    trees_ : Trees
        The contexts; only with ``algorithm="contexts"``.
    followers_ : Followers
        The context tree beside the operators; only with contexts.
    weight_ : float
        Of the operators in the mixture; the rest is the context tree's. Only with contexts.
    window_ : tuple of int
        Offsets of the window; only with windows.
    epsilon_ : float
        Least probability of a symbol before the filter makes them sum to one; only with windows.
    choice_ : ContextChoice or Choice
        What was compared on the held-out sequences, and how it scored.
    moments_ : ContextMoments or Moments
        The counts, and the sequences held out to choose by; `partial_fit` adds to both.
    vocabulary_ : array
        The symbols, sorted.
    n_symbols_ : int
        Number of symbols.

    Examples
    --------
    >>> from sojourn import Params, SpectralHSMM
    >>> p = Params.random(2, 2, 3, rng=0)
    >>> model = SpectralHSMM().fit(p.sample(5000, 50, rng=1))
    >>> test = p.sample(100, 50, rng=2)
    >>> round(model.score(test), 2), round(float(p.log_prob(test).sum()) / test.n_total, 2)
    (-0.97, -0.97)
    """

    def __init__(
        self,
        n_states: int | None = None,
        max_duration: int | None = None,
        *,
        algorithm: str = "contexts",
        ends: bool = False,
        windows: str | Sequence[int] = "auto",
        trees: Trees | None = None,
        rank: int | str = "auto",
        filter: str = "normalised",
        self_transitions: bool | None = None,
        unknown: str = "error",
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_states = n_states
        self.max_duration = max_duration
        self.algorithm = algorithm
        self.ends = ends
        self.windows = windows
        self.trees = trees
        self.rank = rank
        self.filter = filter
        self.self_transitions = self_transitions
        self.unknown = unknown
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None, *, lengths: Any = None, client: Any = None) -> Self:
        """Learn from sequences.

        Parameters
        ----------
        X : Sequences, list of sequences, integer array (n, length), column with `lengths`, or Scan
            A scan is read partition by partition: for a sample, from which the contexts are grown,
            then once more to count. The result is the same to the bit. Empty sequences are valid
            with ``ends=True``.
        y : ignored
        lengths : sequence of int, optional
            Lengths of the sequences that a stacked `X` holds end to end.
        client : distributed.Client, optional
            A cluster whose workers read and count the partitions of a scan.

        Returns
        -------
        SpectralHSMM
        """
        self._check_arguments()
        data = self._training_data(X, lengths, client)
        numbers = None if is_coded(data) else numbers_of(data)
        if numbers is not None:
            return self._fit_numbers(data, numbers)
        if self.algorithm != "contexts":
            tally = self._window_tally(data.n_symbols)
            return self._learn_windows(counted(data, tally, self.n_jobs), data)
        how, trees, planned = self._how(data.n_symbols), self._given_trees(data.n_symbols), None
        with threadpool_limits(1, user_api="blas"):  # one thread adds in one order: same bits
            if trees is None:  # contexts of variable length
                trees, planned = choose_trees(sample_of(data), data.n_symbols, **how)
            moments = counted(data, partial(ContextTally, trees), self.n_jobs)  # one pass
            model, choice = learn_contexts(moments, planned=planned, **how)  # by what was held out
        return self._keep(moments, model, choice, data)

    def partial_fit(self, X: Any, y: Any = None, *, lengths: Any = None) -> Self:
        """Learn from more sequences: counts add up.

        The first call freezes the vocabulary and the trees that all calls count over, which are
        grown from its sequences (`trees_` is what the model uses of them); make it a large one, or
        give ``trees=``, with which parts give the same model as the whole. Give it a `Sequences`
        with all symbols in its vocabulary if it does not hold them all. Each call learns the
        operators anew. Sequences without ids of their own are numbered in the order in which they
        come; with ids, parts may come in any order.

        Parameters
        ----------
        X, y, lengths
            As in `fit`.

        Returns
        -------
        SpectralHSMM

        Examples
        --------
        >>> from sojourn import Params, SpectralHSMM
        >>> seqs = Params.random(2, 2, 3, rng=0).sample(400, 50, rng=1)
        >>> whole = SpectralHSMM().fit(seqs)
        >>> parts = SpectralHSMM(trees=whole.trees_).partial_fit(seqs[:100])
        >>> parts.partial_fit(seqs[100:]).moments_.n_total
        20000
        """
        if not hasattr(self, "moments_"):
            return self.fit(X, lengths=lengths)
        if self.moments_ is None:
            raise SojournError(
                "this model was saved without its moments, so there is nothing that partial_fit "
                "could add to; save it with moments=True, or fit again"
            )
        self._check_arguments()
        n_before, data = 0, None
        if isinstance(X, Scan):
            data = self._training_data(self._own(X), lengths, None)
            if self.codebook_ is not None:
                data = self.codebook_.read(data, self.channels_)
        else:
            data, n_before = self._coded(X, lengths), self.moments_.n_sequences
        if self.algorithm != "contexts":
            more = counted(data, self._window_tally(data.n_symbols), self.n_jobs, n_before)
            return self._learn_windows(self.moments_ + more, data)
        planned = None if self.trees is not None else self.choice_
        tally = partial(ContextTally, self.moments_.counts.trees)
        with threadpool_limits(1, user_api="blas"):
            moments = self.moments_ + counted(data, tally, self.n_jobs, n_before)
            model, choice = learn_contexts(moments, planned=planned, **self._how(data.n_symbols))
        return self._keep(moments, model, choice, data)

    def states_of(self, X: Any, *, lengths: Any = None) -> list[Floats]:
        """The predictive state after each prefix of each sequence: features for any learner.

        Row t is what the first t + 1 symbols tell about the rest, in `rank_` numbers.

        Parameters
        ----------
        X, lengths
            As in `fit`.

        Returns
        -------
        list of array, one row of ``rank_`` numbers per symbol

        Examples
        --------
        >>> from sojourn import Params, SpectralHSMM
        >>> seqs = Params.random(2, 2, 3, rng=0).sample(400, 50, rng=1)
        >>> model = SpectralHSMM().fit(seqs)
        >>> model.states_of(seqs[:3])[0].shape == (50, model.rank_)
        True
        """
        states = states_of(self._model, self._coded(X, lengths), self._rank(), self.n_jobs)
        return [rows[1:] for rows in states]

    def transform(self, X: Any, *, lengths: Any = None) -> Floats:
        """The predictive state after each sequence, one row of ``rank_`` numbers each.

        Parameters
        ----------
        X, lengths
            As in `fit`.
        """
        states = states_of(self._model, self._coded(X, lengths), self._rank(), self.n_jobs)
        return np.array([rows[-1] for rows in states])

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Names of the columns of `transform`, which `set_output` makes a table of.

        Parameters
        ----------
        input_features
            Not used.
        """
        check_is_fitted(self)
        return np.array([f"state{k}" for k in range(self._rank())], dtype=object)

    def _rank(self) -> int:
        return int(self._model.emission(0).shape[1])

    def _check_arguments(self) -> None:
        check_choice("algorithm", self.algorithm, ALGORITHMS)
        check_choice("filter", self.filter, FILTERS)
        check_choice("unknown", self.unknown, ("error", "missing"))
        contexts = self.algorithm == "contexts"
        if self.trees is not None and not isinstance(self.trees, Trees):
            raise SojournError(f"trees is a {type(self.trees).__name__}; give trees_ of a model")
        if contexts and not (isinstance(self.windows, str) and self.windows == "auto"):
            raise SojournError(
                f"windows={self.windows!r} is for fixed windows, and algorithm='contexts' has "
                f"none; leave it out, or pass algorithm='adjacent', 'pooled' or 'per_step'"
            )
        if contexts and self.filter == "raw":
            raise SojournError(
                "filter='raw' is the paper's product over windows; pass algorithm='pooled' or "
                "'per_step' with it"
            )
        if not contexts and (self.ends or self.trees is not None):
            name = "ends=True" if self.ends else "trees="
            raise SojournError(f"{name} is for algorithm='contexts', not {self.algorithm!r}")
        for name in ("n_states", "max_duration"):
            if getattr(self, name) is not None:
                positive_int(name, getattr(self, name))
            elif not contexts:
                raise SojournError(f"algorithm={self.algorithm!r} needs {name}, an integer")

    def _how(self, n_symbols: int) -> dict[str, Any]:
        """How trees are chosen and counts learned from: ranks to choose from, threads, a seed."""
        most = max_rank(n_symbols)
        if self.n_states is not None and self.max_duration is not None:
            most = min(most, int(self.n_states * self.max_duration))
        ranks = range(1, most + 1)
        if self.rank != "auto":
            rank = positive_int("rank", self.rank)
            ranks = range(rank, rank + 1)
        seed = seed_of(self.random_state)
        return {"ends": self.ends, "ranks": ranks, "n_jobs": self.n_jobs, "seed": seed}

    def _given_trees(self, n_symbols: int) -> Trees | None:
        if self.trees is not None and self.trees.n_symbols != n_symbols:
            raise SojournError(
                f"the trees are over {self.trees.n_symbols} symbols and the data over "
                f"{n_symbols}; give data and trees one vocabulary"
            )
        return self.trees

    def _window_tally(self, n_o: int) -> Any:
        n_x, n_d = self._size()
        if n_x > n_o:
            warnings.warn(
                f"n_states is {n_x} but there are {n_o} symbols: assumption A3 of the paper (the "
                f"emissions of the states are linearly independent) cannot hold, and states that "
                f"emit alike differ by their order alone; use algorithm='contexts', or HSMM",
                stacklevel=3,
            )
        windows = self.windows
        if isinstance(windows, str):
            check_choice("windows", windows, WINDOWS)
            if windows == "auto":
                windows = "contiguous" if self.algorithm == "adjacent" else "theorem"
        offsets = choose_offsets(windows, n_x, n_d, n_o)
        return partial(WindowTally, (offsets,), n_o, Form(self.algorithm))

    def _learn_windows(self, moments: Any, data: Sequences | Partitions) -> Self:
        n_x, n_d = self._size()
        rank = None if self.rank == "auto" else positive_int("rank", self.rank)
        seed = seed_of(self.random_state)
        operators, chosen = learn_windows(moments, rank, n_x * n_d, n_x, seed)
        return self._keep(moments, WindowModel(operators, chosen.epsilon), chosen, data)

    def _keep(self, moments: Any, model: Any, choice: Any, data: Any) -> Self:
        """All that was learned is kept at once, or nothing."""
        operators = model.operators
        learned = {"moments_": moments, "operators_": operators, "rank_": operators.rank}
        learned |= {"singular_values_": operators.singular_values, "choice_": choice}
        learned |= {"vocabulary_": data.vocabulary, "n_symbols_": data.n_symbols}
        learned |= self._timing(data)
        if isinstance(model, ContextModel):
            learned |= {"trees_": model.trees, "followers_": model.followers}
            learned |= {"weight_": model.weight}
        else:
            learned |= {"window_": moments.tables[0].offsets, "epsilon_": model.epsilon}
        if not is_coded(data):
            learned |= {"codebook_": None, "channels_": ()}
        before = ("_model", "trees_", "followers_", "weight_", "window_", "epsilon_")
        kept = {name: value for name, value in vars(self).items() if name not in before}
        self.__dict__ = kept | learned
        return self

    @cached_property
    def _model(self) -> ContextModel | WindowModel:
        """What was learned, laid out for scoring, once for each fit."""
        check_is_fitted(self)
        if not hasattr(self, "trees_"):
            return WindowModel(self.operators_, self.epsilon_)
        parts = (self.trees_, self.operators_, self.followers_, self.weight_)
        return ContextModel(*parts, self.ends)

    def _scorer(self) -> Scorer:
        if self.filter == "raw":
            self._check_arguments()  # the filter may have been changed since the fit
            return partial(_raw, self.operators_)
        return super()._scorer()

    def _check_scores(self, log_prob: Floats) -> None:
        if self.filter == "raw" and (n_bad := int(np.isinf(log_prob).sum())):
            warnings.warn(
                f"the signed product is not positive for {n_bad} of {len(log_prob)} sequences, "
                f"which score -inf; filter='normalised' gives every sequence a probability",
                stacklevel=3,
            )


def _raw(operators: Any, sequences: Sequences, n_jobs: int | None = None) -> Floats:
    return raw_log_prob(operators, sequences)
