"""The one exception of the package, with messages that a terminal only prints."""


def printable(text: str) -> str:
    """Text in which nothing moves a cursor, sets a colour or turns the direction of reading.

    A message shows names, symbols and values that may come from a file of a stranger.
    """
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


class SojournError(ValueError):
    """Data or arguments that cannot be used: what was expected, what came, what to do.

    Examples
    --------
    >>> import sojourn as sj
    >>> try:
    ...     sj.Sequences.from_lists([["climb"], []])
    ... except sj.SojournError as error:
    ...     print(error)
    sequence 1 is empty; every sequence needs at least one symbol: drop it, or fit with ends=True,
    and where you make a Sequences of it pass empty=True
    """

    def __init__(self, message: object = "") -> None:
        super().__init__(printable(str(message)))
