"""The mark for the end of a sequence."""

from __future__ import annotations

from typing import Final


class _End:
    """The end of a sequence, among the outcomes that a model with ``ends=True`` predicts.

    It is no symbol: no vocabulary has it. There is one such object, `sojourn.END`.

    Examples
    --------
    >>> import copy
    >>> END, copy.deepcopy(END) is END
    (END, True)
    """

    def __repr__(self) -> str:
        return "END"

    def __reduce__(self) -> str:
        return "END"  # a copy, or what is unpickled, is the object of this name


END: Final = _End()
