"""Known labels of sequences, in any of their usual forms, as normal or abnormal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sojourn.errors import SojournError


@dataclass(frozen=True, eq=False)
class Known:
    """The label of each sequence as a word, and whether it is abnormal."""

    names: list[str]
    abnormal: NDArray[np.bool_]

    @property
    def both(self) -> bool:
        """Whether normal and abnormal sequences both occur, which curves need."""
        return bool(self.abnormal.any() and not self.abnormal.all())


def read_known(labels: Any, n: int, normal_label: Any = None) -> Known:
    """Which of n sequences are abnormal, from booleans, 0 and 1, -1 and +1, or names.

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
        some = sorted(map(repr, found))
        shown = ", ".join(some[:6]) + (", …" if len(some) > 6 else "")
        raise SojournError(
            f"labels are {shown}; expected True and False, 0 and 1 (1 is abnormal), -1 and +1 (-1 "
            f"is abnormal), or names of which one is 'normal'; say which one is normal with "
            f"normal_label="
        )
    return Known(["abnormal" if b else "normal" for b in bad], bad.astype(bool))
