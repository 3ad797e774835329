"""The one exception of the package."""


class SojournError(ValueError):
    """Data or arguments that cannot be used: what was expected, what came, what to do.

    Examples
    --------
    >>> import sojourn as sj
    >>> try:
    ...     sj.Sequences.from_lists([["climb"], []])
    ... except sj.SojournError as error:
    ...     print(error)
    sequence 1 is empty; every sequence needs at least one symbol, but for a model of ends...
    """
