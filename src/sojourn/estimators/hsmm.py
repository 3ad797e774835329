"""`HSMM`: states and durations by maximum likelihood, with scikit-learn's interface."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from sojourn.checks import MAX_ENTRIES, check_choice, positive_int, seed_of
from sojourn.data.as_signals import as_signals, is_numbers
from sojourn.data.sequences import Sequences
from sojourn.data.signals import Signals
from sojourn.em.checkpoint import Checkpoint
from sojourn.em.durations import families_of
from sojourn.em.em import run_em
from sojourn.em.labels import (
    Labelled,
    clip_stays,
    describe_labels,
    labelled_start,
    read_labels,
    state_names,
)
from sojourn.em.numbers import Wish, labelled_numbers, start_numbers
from sojourn.em.progress import Progress
from sojourn.em.start import fit_params, with_tails_and_ends
from sojourn.emissions import Categorical, Emission
from sojourn.errors import SojournError
from sojourn.estimators.numbers import emission_for, in_channels, numbers_of
from sojourn.estimators.select import choose_sizes
from sojourn.estimators.states import StateModel
from sojourn.exact.expected_counts import expected_counts
from sojourn.exact.params import Params, allows_self_transitions
from sojourn.exact.summary import ordered, warn_of_limit
from sojourn.io.sources import Scan
from sojourn.scale.passes import Partitions

Floats = NDArray[np.float64]

BEYOND = 10  # times the longest sequence: as far as a family of durations is followed


class HSMM(StateModel):
    """A hidden semi-Markov model by maximum likelihood: a spectral start, then EM.

    Parameters
    ----------
    n_states : int or "auto"
        Number of hidden states; "auto" compares several by cross-validation, see `select`.
    max_duration : int or "auto"
        Number of steps up to which durations are free: the longest stay without a tail. More than
        the longest sequence has are not needed, and the tables are then no wider than that.
    init : {"spectral", "states", "moments", "random"} or Params
        Where EM starts. "spectral": the best of several starts after some EM on a small sample:
        states that promise different futures, and states that emit differently. "states" and
        "moments": the most likely start of the one or the other kind, without comparing EM runs;
        faster, less reliable. "random": the best of random starts. A model: its zeros stay zero.
    max_iter : int
        Maximum number of passes over all the data.
    tol : float or None
        EM stops when a step gains less than this, in nats per symbol. None is 3e-6, or less on
        large data, so that a step gains at most 0.00004 nats in total for each entry of the tables.
    emissions : Emission, optional
        What is observed in a state, see `sojourn.emissions`; symbols, or normal numbers, if not
        given.
    durations : str or sequence of str
        Family of the durations: "free", "geometric", "poisson", "negative_binomial" or
        "lognormal"; one for all states, or one for each.
    tail : bool or None
        Whether stays may be longer than `max_duration`: one that is continues with a probability of
        its own per state. None: in states whose durations are free. At ``max_duration=1`` with self
        transitions the diagonal of the transitions is the tail.
    ends : bool
        Whether the ends of sequences are part of the model: a sequence ends where a stay does, with
        a probability that depends on the state. If not, lengths say nothing and the last stay is
        cut short by the end.
    pseudocount : float
        Added to the expected count of every possible entry, so that events that were not seen in
        training are unlikely rather than impossible; a row of more than five durations shares what
        five of them would get.
    left_censored : bool
        Whether the first stay of a sequence may have begun before the sequence did.
    self_transitions : bool or None
        Whether a state may follow itself; None: no, unless there is only one state or
        `max_duration` is 1.
    clip : bool
        Whether labelled stays longer than `max_duration` are cut to it, in a model without tails;
        if not, they are an error there.
    unknown : {"error", "missing"}
        How a symbol that was not seen in training is treated.
    verbose : bool or None
        Whether progress is shown on standard error; None: only on a terminal.
    random_state : int, Generator, RandomState or None
        Seed of the random parts of the start; None is 0.
    n_jobs : int or None
        Number of threads; None or -1 for all cores. Results do not depend on it.

    Attributes
    ----------
    params_ : Params
        The tables; also as `startprob_`, `transmat_`, `durationprob_`, `emissionprob_`,
        `tailprob_` and `endprob_`.
        States are in the order of their most likely symbols, unless `init` or labels define it.
    states_ : array of str or None
        Names of the states, from labels or `name_states`.
    shares_, visits_ : arrays (n_states,)
        Share of the training data's time, and expected number of stays there.
    expected_durations_ : array (n_states,)
        Mean duration of each state.
    history_ : list of float
        The objective of EM after each step on all the data: log-likelihood plus log prior.
    n_passes_ : float
        Passes over the data; passes over samples count in proportion to their size.
    converged_ : bool
        Whether the last gain was below `tol`.
    vocabulary_ : array
        The symbols, sorted.
    n_symbols_ : int
        Number of symbols.
    channels_ : tuple of str
        Names of the channels, where observations are numbers; ``params_.density`` is the emission.

    Examples
    --------
    >>> from sojourn import HSMM, Params
    >>> p = Params.random(2, 4, 5, rng=0)
    >>> model = HSMM(2, 4).fit(p.sample(100, 50, rng=1))
    >>> model.params_.duration.shape, len(model.predict(p.sample(3, 20, rng=2)))
    ((2, 4), 3)
    """

    def __init__(
        self,
        n_states: int | str,
        max_duration: int | str,
        *,
        init: str | Params = "spectral",
        max_iter: int = 500,
        tol: float | None = None,
        emissions: Emission | None = None,
        durations: str | Sequence[str] = "free",
        tail: bool | None = None,
        ends: bool = False,
        pseudocount: float = 0.01,
        left_censored: bool = False,
        self_transitions: bool | None = None,
        clip: bool = False,
        unknown: str = "error",
        verbose: bool | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_states = n_states
        self.max_duration = max_duration
        self.init = init
        self.max_iter = max_iter
        self.tol = tol
        self.emissions = emissions
        self.durations = durations
        self.tail = tail
        self.ends = ends
        self.pseudocount = pseudocount
        self.left_censored = left_censored
        self.self_transitions = self_transitions
        self.clip = clip
        self.unknown = unknown
        self.verbose = verbose
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        lengths: Any = None,
        client: Any = None,
        checkpoint: str | os.PathLike[str] | None = None,
        resume: bool = False,
    ) -> Self:
        """Learn from sequences, with or without known states.

        Parameters
        ----------
        X : Sequences, list of sequences, integer array (n, length), column with `lengths`, or Scan
            Each pass reads a scan again, partition by partition; the result is the same to the bit.
            Measurements are `Signals`, a list of arrays (length, n_channels), one array of three
            dimensions, or a table (n_total, n_channels) with `lengths`; NaN is missing.
        y : sequences of integers or strings, optional
            States at every step, in the same form or as a list of arrays; None, NaN or masked where
            they are not known. Strings name the states, in alphabetical order, see `states_`. Sizes
            that are "auto" are then the number of labels and the longest labelled stay.
        lengths : sequence of int, optional
            Lengths of the sequences in a stacked `X`.
        client : distributed.Client, optional
            A cluster whose workers read the partitions of a scan.
        checkpoint : str or path, optional
            A file that is replaced atomically after each pass.
        resume : bool
            Whether to continue from the checkpoint, if there is one of the same data and arguments;
            the result is the same as that of an uninterrupted fit.
        """
        data = self._training_data(X, lengths, client)
        emission: Emission = Categorical()
        numbers = numbers_of(data, self.emissions)
        if numbers is not None:
            emission, numbers = emission_for(self.emissions, numbers)
            if isinstance(data, Partitions):
                data = in_channels(data, emission, numbers.channels)
            else:
                data = numbers
        check_choice("unknown", self.unknown, ("error", "missing"))
        if isinstance(data, Partitions) and y is not None:
            raise SojournError("states of a scan cannot be given; read the labelled files instead")
        labelled, y = None, list(y) if isinstance(y, Iterator) else y
        if isinstance(data, Sequences) and y is not None:
            labelled = describe_labels(y, data, lengths)
        names = None if labelled is None else labelled.names
        n_x, n_d = self._sizes(data, labelled)
        loops = allows_self_transitions(n_x, n_d, self.self_transitions)
        tails = self._tails(n_x, n_d, loops)
        init, labels = self._check_init(n_x, n_d, data.n_symbols), None
        wish = Wish(emission, n_x, n_d, loops, tails, self.ends)
        if isinstance(data, Sequences) and y is not None:
            labels = read_labels(y, data, lengths, n_x, names)
            if labels is not None and not loops and not all(tails):
                data, labels = clip_stays(data, labels, n_d, self.clip)
            if labels is not None and isinstance(data, Signals):
                init = init if isinstance(init, Params) else labelled_numbers(data, labels, wish)
            elif labels is not None and not isinstance(init, Params):
                init = labelled_start(data, labels, n_x, n_d, loops)
                init = with_tails_and_ends(init, tails, self.ends)
        if resume and checkpoint is None:
            raise SojournError("resume=True needs checkpoint=, the file to continue from")
        keep = None if checkpoint is None else self._checkpoint(checkpoint, data, (n_x, n_d))
        show = Progress(self.verbose, positive_int("max_iter", self.max_iter), data)
        seed = seed_of(self.random_state)
        with show:
            if numbers is not None and not isinstance(init, Params):
                em = partial(
                    run_em,
                    tol=1e-6,
                    pseudocount=self.pseudocount,
                    durations=self.durations,
                    left_censored=self.left_censored,
                )
                init = start_numbers(numbers, wish, init, em, seed, self.n_jobs)
            result = fit_params(
                replace(data, watch=show.watch) if isinstance(data, Partitions) else data,
                n_x,
                n_d,
                data.n_symbols,
                init=init,
                rng=seed,
                max_iter=self.max_iter,
                tol=self.tol,
                pseudocount=self.pseudocount,
                durations=self.durations,
                left_censored=self.left_censored,
                self_transitions=loops,
                tail=tails,
                ends=self.ends,
                labels=labels,
                n_jobs=self.n_jobs,
                callback=show,
                save=None if keep is None else keep.save,
                saved=keep.load() if keep is not None and resume else None,
            )
        params, initial = result.params, result.initial
        if labels is None and not isinstance(self.init, Params) and isinstance(self.durations, str):
            params, initial = ordered(params, initial)
        learned: dict[str, Any] = {
            "params_": params,
            "initial_": initial,
            "converged_": result.converged,
        }
        learned |= {"history_": result.history, "n_passes_": result.n_passes}
        learned |= {"vocabulary_": data.vocabulary, "n_symbols_": data.n_symbols}
        learned |= self._timing(data)
        learned |= {"states_": state_names(names, n_x)}
        learned |= self._occupied(data, params, initial, labels)
        learned |= {"channels_": () if numbers is None else numbers.channels}
        self.__dict__.update(learned)  # all or, if interrupted, nothing
        warn_of_limit(params)
        return self

    def _training_data(self, X: Any, lengths: Any, client: Any) -> Sequences | Partitions:
        symbols = self.emissions is None or isinstance(self.emissions, Categorical)
        if isinstance(X, Scan) or (symbols and not is_numbers(X)):
            return super()._training_data(X, lengths, client)
        return as_signals(X, lengths)

    def _tails(self, n_x: int, n_d: int, loops: bool) -> list[bool]:
        """Which states have a tail."""
        families = families_of(self.durations, n_x)
        if n_d == 1 and loops:
            return [False] * n_x
        return [name == "free" if self.tail is None else bool(self.tail) for name in families]

    def _checkpoint(
        self, path: Any, data: Sequences | Partitions, size: tuple[int, int]
    ) -> Checkpoint:
        """The file of this fit, with what another must share to continue from it."""
        own = self.get_params(deep=False)
        free = ("n_states", "max_duration", "max_iter", "verbose", "n_jobs", "unknown")
        facts = {name: value for name, value in own.items() if name not in free}
        facts |= {"n_states": size[0], "max_duration": size[1], "vocabulary": data.vocabulary}
        if isinstance(data, Partitions):
            facts["n_partitions"] = len(data.items)
        else:
            facts["n_total"] = data.n_total
        return Checkpoint(os.fspath(path), facts)

    def _sizes(self, data: Sequences | Partitions, labelled: Labelled | None) -> tuple[int, int]:
        sized = self
        if labelled is not None:
            given = zip((self.n_states, self.max_duration), labelled[:2], strict=True)
            n_x, n_d = (n if size == "auto" else size for size, n in given)
            sized = clone(self).set_params(n_states=n_x, max_duration=n_d)
        if "auto" not in (sized.n_states, sized.max_duration):
            n_x, n_d = sized._size()
            if not isinstance(data, Partitions) and not isinstance(self.init, Params):
                # Of stays beyond a whole sequence data say nothing but that they last as long.
                free = set(families_of(self.durations, n_x)) == {"free"}
                n_d = min(n_d, max(2, int(data.lengths.max()) * (1 if free else BEYOND)))
            if n_x * max(n_x, n_d, data.n_symbols) > MAX_ENTRIES:
                raise SojournError(
                    f"n_states={n_x}, max_duration={n_d} and {data.n_symbols} symbols need tables "
                    f"of more than {MAX_ENTRIES:.2g} entries; choose smaller ones"
                )
            return n_x, n_d
        if isinstance(data, Partitions):
            raise SojournError(
                "a scan is fitted at a size that is given; choose n_states and max_duration on a "
                "part of it: sojourn.select(next(iter(scan)))"
            )
        return choose_sizes(self, data)

    def _occupied(
        self,
        data: Sequences | Partitions,
        params: Params,
        initial: Floats | None,
        labels: NDArray[np.int32] | None,
    ) -> dict[str, Any]:
        """How the training data's time is shared by the states, and how often each is visited."""
        if isinstance(data, Partitions) and not data.n_total:
            return {}
        counts = expected_counts(params, data, initial, labels, self.n_jobs)
        visits = counts.initial.sum(axis=1) + counts.transition.sum(axis=0)
        time = counts.emission.sum(axis=1)
        return {"shares_": time / max(float(time.sum()), 1e-300), "visits_": visits}

    def _check_init(self, n_x: int, n_d: int, n_o: int) -> str | Params:
        if not isinstance(self.init, Params):
            check_choice("init", self.init, ("spectral", "states", "moments", "random"))
            return self.init
        given = (self.init.n_states, self.init.max_duration, self.init.n_symbols)
        if given != (n_x, n_d, n_o):
            raise SojournError(
                f"init has {given[0]} states, stays to {given[1]} and {given[2]} symbols; the "
                f"model has n_states={n_x}, max_duration={n_d}, and the data {n_o} symbols"
            )
        if self.init.ends != self.ends or (self.tail is False and self.init.tail.any()):
            raise SojournError(
                f"init {'has' if self.init.ends else 'has no'} end and "
                f"{'a' if self.init.tail.any() else 'no'} tail, but ends={self.ends} and "
                f"tail={self.tail}; give tables that agree with these arguments"
            )
        return self.init
