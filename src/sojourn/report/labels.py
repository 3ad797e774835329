"""What is known of sequences: labels in any of their usual forms as normal or abnormal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sojourn.errors import SojournError


@dataclass(frozen=True, eq=False)
class Known:
    """Labels of sequences.

    Parameters
    ----------
    names : list of str
        The label of each sequence, in words.
    abnormal : array of bool
    both : bool
        Whether normal and abnormal sequences both occur, without which there are no curves.
    """

    names: list[str]
    abnormal: NDArray[np.bool_]

    @property
    def both(self) -> bool:
        """Whether there are normal and abnormal sequences."""
        return bool(self.abnormal.any() and not self.abnormal.all())


def read_known(labels: Any, n: int, normal_label: Any = None) -> Known:
    """Which sequences are abnormal, from booleans, 0 and 1, -1 and +1, or names.

    Parameters
    ----------
    labels : sequence of n labels
    n : int
        Number of sequences.
    normal_label : optional
        The label of the normal ones; if not given it is told from the labels.

    Examples
    --------
    >>> read_known(["normal", "drill", "normal"], 3).abnormal.tolist()
    [False, True, False]
    >>> read_known([1, -1, 1], 3).names
    ['normal', 'abnormal', 'normal']
    """
    values = np.asarray(labels.tolist() if hasattr(labels, "tolist") else list(labels), object)
    if values.shape != (n,):
        raise SojournError(
            f"there are {len(values)} labels for {n} sequences; give one for each, in their order"
        )
    for i, value in enumerate(values.tolist()):
        if value is None or value != value:
            raise SojournError(f"the label of sequence {i} is missing; give one for each")
    found = set(values.tolist())
    if normal_label is not None:
        if normal_label not in found and str(normal_label) in {str(f) for f in found}:
            values = np.array([str(v) for v in values], object)
            normal_label = str(normal_label)
        return Known([str(v) for v in values], values != normal_label)
    if found <= {0, 1}:  # True and False, too
        bad = values.astype(bool)
    elif found <= {-1, 1}:
        bad = values == -1
    elif named := [f for f in found if str(f).casefold() == "normal"]:
        return Known([str(v) for v in values], values != named[0])
    else:
        shown = ", ".join(repr(f) for f in sorted(found, key=str)[:6])
        raise SojournError(
            f"labels are {shown}{', …' * (len(found) > 6)}; expected True and False, 0 and 1 (1 is "
            f"abnormal), -1 and +1 (-1 is abnormal), or names of which one is 'normal'; say which "
            f"one is normal with normal_label= (--normal-label)"
        )
    return Known(["abnormal" if b else "normal" for b in bad], bad.astype(bool))
