"""Symbols from measurements: one channel cut into bins, or several into clusters."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from copy import copy
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.cluster import MiniBatchKMeans
from sklearn.preprocessing import KBinsDiscretizer

from sojourn.checks import check_choice, positive_int, seed_of
from sojourn.data.as_signals import as_signals
from sojourn.data.measurements import column_names, read_table
from sojourn.data.sequences import Sequences
from sojourn.data.signals import Signals
from sojourn.errors import SojournError

METHODS = ("quantile", "uniform", "kmeans")
MANY_CHANNELS = 10  # of an array without names: more are rather the steps of sequences
DISTANCES_AT_ONCE = 1 << 22  # rows times centres: 32 MB


class Discretizer(BaseEstimator):
    """Symbols 0, 1, … from measurements: one channel cut into bins, or several into clusters.

    Parameters
    ----------
    n_symbols : int
        How many symbols to make. There are fewer where there are not enough different values.
    method : {"quantile", "uniform", "kmeans"}
        ``"quantile"`` makes bins of equally many values, ``"uniform"`` bins of equal width, both
        of one channel; ``"kmeans"`` makes clusters of one channel or of several jointly, each
        divided by its standard deviation. Equal values stay in one bin: where one fills more
        than a bin, bins are split between different values, so that it is apart from others.
    random_state : int, Generator, RandomState or None
        Seed for ``"kmeans"``; None is 0.
    names : bool
        Whether symbols are words: "speed < 3.2" for a bin, "speed 3.2, load 0.5" for a cluster's
        centre. Channels are named by the data, if they are a data frame or `Signals`.

    Attributes
    ----------
    edges_ : array (n_symbols + 1,)
        Of the bins: symbol ``k`` is a value of at least ``edges_[k]`` and below ``edges_[k + 1]``;
        values beyond the ends belong to the bins there.
    centres_, scale_ : arrays (n_symbols, n_channels) and (n_channels,)
        Of the clusters, in the order of their first channel, and what the channels are divided by.
    n_symbols_, n_channels_ : int
        Number of symbols and of channels.
    symbols_ : array (n,)
        The symbols: 0, 1, …, or words.

    Notes
    -----
    These are scikit-learn's `KBinsDiscretizer` and `MiniBatchKMeans`; once fitted, only the arrays
    above are used, and `to_arrays` gives them to be kept with a model.

    Examples
    --------
    >>> altitude = np.array([0.0, 10.0, np.nan, 500.0, 990.0, 1000.0])
    >>> discretizer = Discretizer(2, method="uniform").fit(altitude)
    >>> discretizer.edges_, discretizer.transform(altitude).tolist()
    (array([   0.,  500., 1000.]), [0, 0, None, 1, 1, 1])

    Sequences of measurements become `Sequences`, so that it can be the first step of a pipeline.

    >>> flights = [np.array([0.0, 10.0, 900.0]), np.array([1000.0, 990.0])]
    >>> Discretizer(2, method="uniform", names=True).fit_transform(flights).to_lists()
    [['value < 500', 'value < 500', 'value ≥ 500'], ['value ≥ 500', 'value ≥ 500']]
    """

    def __init__(
        self,
        n_symbols: int = 8,
        method: str = "quantile",
        random_state: Any = None,
        names: bool = False,
    ) -> None:
        self.n_symbols = n_symbols
        self.method = method
        self.random_state = random_state
        self.names = names

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the bins or clusters.

        Parameters
        ----------
        X : column (n,), table (n, n_channels), or sequences
            Numbers; rows with a missing value (NaN, null, a masked entry) are left out. Sequences
            are `Signals`, a list of arrays (length, n_channels), or one array of three dimensions.
        y : ignored
            For scikit-learn.
        """
        check_choice("method", self.method, METHODS)
        if positive_int("n_symbols", self.n_symbols) < 2:
            raise SojournError(f"n_symbols is {self.n_symbols}; expected 2 or more")
        measured, channels, _ = _read(X)
        measured = measured[~np.isnan(measured).any(axis=1)]
        if len(measured) == 0:
            raise SojournError("there is no row without a missing value; expected at least one")
        fresh = copy(self)  # what is interrupted has changed nothing but this
        for name in ("edges_", "centres_", "scale_"):
            fresh.__dict__.pop(name, None)
        if self.method == "kmeans":
            fresh._fit_clusters(measured)
        else:
            fresh._fit_bins(measured)
        fresh.symbols_ = np.arange(fresh.n_symbols_)
        if self.names:
            fresh.symbols_ = np.array(fresh._words(channels))
        self.__dict__ = fresh.__dict__
        return self

    def transform(self, X: Any) -> Any:
        """Symbol of each row, masked where a value is missing.

        Parameters
        ----------
        X : column (n,), table (n, n_channels), or sequences
            The channels that were fitted.

        Returns
        -------
        masked array (n,), or Sequences
            As `Sequences` takes it for a column of symbols; sequences become `Sequences`.
        """
        if not hasattr(self, "n_channels_"):
            raise SojournError("the Discretizer is not fitted; call fit, or use fit_transform")
        measured, _, signals = _read(X)
        if measured.shape[1] != self.n_channels_:
            raise SojournError(
                f"there are {measured.shape[1]} channels; fitted were {self.n_channels_}"
            )
        missing = np.isnan(measured).any(axis=1)
        codes = np.zeros(len(measured), dtype=np.int64)
        if hasattr(self, "edges_"):
            codes[~missing] = np.searchsorted(
                self.edges_[1:-1], measured[~missing, 0], side="right"
            )
        else:
            codes[~missing] = self._nearest(measured[~missing])
        symbols = np.ma.MaskedArray(self.symbols_[codes], missing)
        if signals is None:
            return symbols
        return Sequences.from_stacked(symbols, signals.lengths, signals.ids, self.symbols_)

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Find the bins or clusters, and the symbol of each row.

        Parameters
        ----------
        X, y
            As in `fit`.
        """
        return self.fit(X).transform(X)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """What was learned, as arrays of numbers by name.

        Examples
        --------
        >>> sorted(Discretizer(3).fit(np.arange(9.0)).to_arrays())
        ['edges', 'method', 'n_symbols']
        """
        if not hasattr(self, "n_channels_"):
            raise SojournError("the Discretizer is not fitted; call fit first")
        arrays = {
            "method": np.array([METHODS.index(self.method)]),
            "n_symbols": np.array([self.n_symbols]),
        }
        for name in ("edges", "centres", "scale"):
            if hasattr(self, f"{name}_"):
                arrays[name] = getattr(self, f"{name}_")
        return arrays | ({"symbols": self.symbols_} if self.names else {})

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The fitted discretizer that `to_arrays` was called on.

        Parameters
        ----------
        arrays : dict
            As from `to_arrays`.

        Examples
        --------
        >>> arrays = Discretizer(3).fit(np.arange(9.0)).to_arrays()
        >>> Discretizer.from_arrays(arrays).transform([0, 4, 8]).tolist()
        [0, 1, 2]
        """
        names = {"edges"} if "edges" in arrays else {"centres", "scale"}
        if set(arrays) - {"symbols"} != {"method", "n_symbols", *names}:
            raise SojournError(f"these are not a Discretizer's arrays: {', '.join(sorted(arrays))}")
        self = cls(int(arrays["n_symbols"][0]), METHODS[int(arrays["method"][0])])
        self._learn(**{name: np.asarray(arrays[name], dtype=np.float64) for name in names})
        self.names = "symbols" in arrays
        self.symbols_ = np.asarray(arrays.get("symbols", np.arange(self.n_symbols_)))
        if len(self.symbols_) != self.n_symbols_:
            raise SojournError(
                f"there are {len(self.symbols_)} words for {self.n_symbols_} symbols"
            )
        return self

    def _fit_bins(self, measured: NDArray[np.float64]) -> None:
        if measured.shape[1] != 1:
            raise SojournError(
                f"method={self.method!r} cuts one channel, but there are {measured.shape[1]}; pass "
                f"method='kmeans' for symbols of all of them, or make one Discretizer per channel"
            )
        bins = KBinsDiscretizer(
            self.n_symbols, encode="ordinal", strategy=self.method, subsample=None
        )
        if "quantile_method" in bins.get_params():  # its default is about to change
            bins.set_params(quantile_method="averaged_inverted_cdf")
        with warnings.catch_warnings():
            # Where equal values leave fewer bins, quantiles are corrected below.
            warnings.filterwarnings("ignore", "Bins whose width|Feature 0 is constant", UserWarning)
            bins.fit(measured)
        edges = bins.bin_edges_[0]
        distinct, counts = np.unique(measured, return_counts=True)
        tied = counts.max() > len(measured) / self.n_symbols or len(edges) <= self.n_symbols
        if self.method == "quantile" and tied and len(distinct) > 1:
            edges = _edges_between(distinct, counts, self.n_symbols)
        if len(edges) <= self.n_symbols:
            warnings.warn(
                f"n_symbols is {self.n_symbols}, but different values are {len(distinct)}, and so "
                f"are the symbols; pass n_symbols={max(2, len(distinct))}, or data that vary more",
                stacklevel=3,
            )
        self._learn(edges=edges)

    def _fit_clusters(self, measured: NDArray[np.float64]) -> None:
        n_distinct = len(np.unique(measured, axis=0))
        if n_distinct < self.n_symbols:
            raise SojournError(
                f"there are {n_distinct} different rows, too few for {self.n_symbols} clusters; "
                f"pass a smaller n_symbols"
            )
        scale = measured.std(axis=0)
        scale[scale == 0] = 1.0
        seed = seed_of(self.random_state)
        clusters = MiniBatchKMeans(self.n_symbols, random_state=seed, n_init="auto")
        centres = clusters.fit(measured / scale).cluster_centers_ * scale
        self._learn(centres=centres[np.lexsort(centres.T[::-1])], scale=scale)

    def _learn(self, **arrays: NDArray[np.float64]) -> None:
        """Set the learned attributes, read-only."""
        for name, array in arrays.items():
            own = np.array(array, dtype=np.float64)
            own.setflags(write=False)
            setattr(self, f"{name}_", own)
        edges = arrays.get("edges")
        self.n_symbols_ = len(arrays["centres"]) if edges is None else len(edges) - 1
        self.n_channels_ = arrays["centres"].shape[1] if edges is None else 1

    def _words(self, channels: Sequence[str]) -> list[str]:
        """A name for each symbol, with as many digits as tell them apart."""
        for digits in range(3, 18):
            words = self._worded(channels, digits)
            if len(set(words)) == len(words):
                break
        return words

    def _worded(self, channels: Sequence[str], digits: int) -> list[str]:
        if hasattr(self, "centres_"):
            rows = [zip(channels, row, strict=True) for row in self.centres_]
            return [", ".join(f"{name} {at:.{digits}g}" for name, at in row) for row in rows]
        name, inner = channels[0], [f"{edge:.{digits}g}" for edge in self.edges_[1:-1]]
        if not inner:
            return [name]
        between = [f"{low} ≤ {name} < {high}" for low, high in pairwise(inner)]
        return [f"{name} < {inner[0]}", *between, f"{name} ≥ {inner[-1]}"]

    def _nearest(self, measured: NDArray[np.float64]) -> NDArray[np.intp]:
        """Number of the nearest centre of each row."""
        centres = self.centres_ / self.scale_
        squares = (centres**2).sum(axis=1)
        nearest = np.empty(len(measured), dtype=np.intp)
        step = max(1, DISTANCES_AT_ONCE // len(centres))
        for i in range(0, len(measured), step):
            rows = measured[i : i + step] / self.scale_
            nearest[i : i + step] = np.argmin(squares - 2 * rows @ centres.T, axis=1)
        return nearest


def _edges_between(
    distinct: NDArray[np.float64], counts: NDArray[np.int64], n: int
) -> NDArray[np.float64]:
    """Edges of n bins, each between two different values: the best split, time after time.

    Best is that with the greatest product of the numbers of values on its sides.
    """
    before = np.append(0, np.cumsum(counts))  # values below each of the distinct ones

    def split(a: int, b: int) -> tuple[int, int]:
        middle = int(np.searchsorted(before, (before[a] + before[b]) / 2.0))
        places = [i for i in (middle - 1, middle) if a < i < b]
        return max([(int(before[i] - before[a]) * int(before[b] - before[i]), i) for i in places])

    cuts = [0, len(distinct)]
    while len(cuts) <= min(n, len(distinct)):
        cuts.append(max(split(a, b) for a, b in pairwise(cuts) if b - a > 1)[1])
        cuts.sort()
    low, high = distinct[np.array(cuts[1:-1]) - 1], distinct[cuts[1:-1]]
    middle = low / 2.0 + high / 2.0
    return np.concatenate([distinct[:1], np.where(middle > low, middle, high), distinct[-1:]])


def _read(X: Any) -> tuple[NDArray[np.float64], tuple[str, ...], Signals | None]:
    """Measurements as one table, names of its channels, and the sequences that they come from."""
    arrays = isinstance(X, list | tuple) and bool(X) and isinstance(X[0], np.ndarray) and X[0].ndim
    if isinstance(X, Signals) or arrays or len(getattr(X, "shape", ())) == 3:
        signals = as_signals(X)
        names = ("value",) if signals.channels == ("channel 0",) else signals.channels
        return signals.values, names, signals
    table = read_table(X, "X")
    if np.any(bad := np.isinf(table)):
        raise SojournError(f"row {np.argmax(bad.any(axis=1))} is infinite; expected numbers or NaN")
    n, d = table.shape
    named = tuple(column_names(X)) or ((str(X.name),) if getattr(X, "name", None) else ())
    if d > MANY_CHANNELS and n < 10 * d and not named:
        raise SojournError(
            f"X has shape {(n, d)}, which is read as {n} steps of {d} channels; if it is {n} "
            f"sequences of one channel pass list(X), and [X] if it is one sequence of {d} channels"
        )
    unnamed = ("value",) if d == 1 else tuple(f"channel {j}" for j in range(d))
    return table, named if len(named) == d else unnamed, None
