"""Recorded approaches, shipped with the package: airliners at Paris, and special missions."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from sojourn.data.adapters import offsets_of
from sojourn.data.sequences import Sequences


@dataclass(frozen=True)
class Approaches:
    """Approaches of airliners and of aircraft on special missions, over the same nine symbols.

    Attributes
    ----------
    normal : Sequences
        Arrivals at the airports of Paris, one afternoon of October 2021; ids are callsign and
        address.
    unusual : Sequences
        Landings of aircraft that were on a special mission.
    kinds : str array
        The mission of each of `unusual`: calibration, firefighting, glider or survey.

    Examples
    --------
    >>> data = approaches()
    >>> len(data.normal), len(data.unusual), len(data.kinds)
    (82, 53, 53)
    """

    normal: Sequences
    unusual: Sequences
    kinds: NDArray[np.str_]


def approaches() -> Approaches:
    """Recorded final approaches, one symbol per second: vertical and horizontal movement.

    From 6,000 feet above the lowest recorded point down to it, at most 13 minutes. A symbol is
    one of descending, level and climbing (more than 300 feet per minute) with one of left, straight
    and right (more than half a degree per second), such as ``"descending_straight"``. All flights
    were thinned to one position every ten seconds, since missions were recorded more coarsely.
    The data are from the sample data of the package traffic (MIT licence, kept beside the file).

    Returns
    -------
    Approaches
        ``normal`` and ``unusual`` sequences and the ``kinds`` of the unusual ones.

    Examples
    --------
    >>> data = approaches()
    >>> data.normal
    Sequences(82 sequences of 281 to 771, 39312 symbols over 9: 'climbing_left', ...)
    >>> sorted(set(data.kinds.tolist()))
    ['calibration', 'firefighting', 'glider', 'survey']
    """
    with (
        files("sojourn.datasets").joinpath("data/approaches.npz").open("rb") as file,
        np.load(file, allow_pickle=False) as stored,
    ):
        kinds, offsets = stored["kinds"], offsets_of(stored["lengths"])
        codes, names = stored["codes"].astype(np.int32), stored["vocabulary"]
        flights = Sequences(codes, offsets, names, stored["ids"])
    normal = kinds == "normal"
    return Approaches(flights[normal], flights[~normal], kinds[~normal])
