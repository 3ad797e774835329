"""Symbols from measurements: one channel cut into bins, or several into clusters."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from copy import copy
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.cluster import MiniBatchKMeans
from sklearn.preprocessing import KBinsDiscretizer

from sojourn.checks import check_choice, positive_int
from sojourn.data.adapters import read_numbers
from sojourn.errors import SojournError

METHODS = ("quantile", "uniform", "kmeans")
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
        divided by its standard deviation.
    random_state : int, RandomState or None
        For ``"kmeans"``.

    Attributes
    ----------
    edges_ : array (n_symbols + 1,)
        Of the bins: symbol ``k`` is a value of at least ``edges_[k]`` and below ``edges_[k + 1]``;
        values beyond the ends belong to the bins there.
    centres_, scale_ : arrays (n_symbols, n_channels) and (n_channels,)
        Of the clusters, in the order of their first channel, and what the channels are divided by.
    n_symbols_, n_channels_ : int
        Number of symbols and of channels.

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
    """

    def __init__(
        self, n_symbols: int = 8, method: str = "quantile", random_state: Any = None
    ) -> None:
        self.n_symbols = n_symbols
        self.method = method
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the bins or clusters.

        Parameters
        ----------
        X : column (n,) or table (n, n_channels) of numbers
            Rows with a missing value (NaN, null, a masked entry) are left out.
        y : ignored
            For scikit-learn.
        """
        check_choice("method", self.method, METHODS)
        if positive_int("n_symbols", self.n_symbols) < 2:
            raise SojournError(f"n_symbols is {self.n_symbols}; expected 2 or more")
        measured = read_numbers(X)
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
        self.__dict__ = fresh.__dict__
        return self

    def transform(self, X: Any) -> np.ma.MaskedArray[Any, np.dtype[np.int64]]:
        """Symbol of each row, masked where a value is missing.

        Parameters
        ----------
        X : column (n,) or table (n, n_channels) of numbers
            The channels that were fitted.

        Returns
        -------
        masked array of int64 (n,)
            As `Sequences` takes it for a column of symbols.
        """
        if not hasattr(self, "n_channels_"):
            raise SojournError("the Discretizer is not fitted; call fit, or use fit_transform")
        measured = read_numbers(X)
        if measured.shape[1] != self.n_channels_:
            raise SojournError(
                f"there are {measured.shape[1]} channels; fitted were {self.n_channels_}"
            )
        missing = np.isnan(measured).any(axis=1)
        symbols = np.zeros(len(measured), dtype=np.int64)
        if hasattr(self, "edges_"):
            symbols[~missing] = np.searchsorted(
                self.edges_[1:-1], measured[~missing, 0], side="right"
            )
        else:
            symbols[~missing] = self._nearest(measured[~missing])
        return np.ma.MaskedArray(symbols, missing)

    def fit_transform(self, X: Any, y: Any = None) -> np.ma.MaskedArray[Any, np.dtype[np.int64]]:
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
        return arrays

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
        if set(arrays) != {"method", "n_symbols", *names}:
            raise SojournError(f"these are not a Discretizer's arrays: {', '.join(sorted(arrays))}")
        self = cls(int(arrays["n_symbols"][0]), METHODS[int(arrays["method"][0])])
        self._learn(**{name: np.asarray(arrays[name], dtype=np.float64) for name in names})
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
            # That equal values leave fewer bins is seen in n_symbols_.
            warnings.filterwarnings("ignore", "Bins whose width|Feature 0 is constant", UserWarning)
            bins.fit(measured)
        self._learn(edges=bins.bin_edges_[0])

    def _fit_clusters(self, measured: NDArray[np.float64]) -> None:
        n_distinct = len(np.unique(measured, axis=0))
        if n_distinct < self.n_symbols:
            raise SojournError(
                f"there are {n_distinct} different rows, too few for {self.n_symbols} clusters; "
                f"pass a smaller n_symbols"
            )
        scale = measured.std(axis=0)
        scale[scale == 0] = 1.0
        clusters = MiniBatchKMeans(self.n_symbols, random_state=self.random_state, n_init="auto")
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
