"""Online scoring: the kernels of batch scoring, one symbol at a time.

A scorer keeps the state of the batch kernel and calls that kernel, so that every surprise equals
that of `surprise` on all symbols so far, to the bit. `states`, `predictive` and `numbers` have the
state and the kernel of each model.
"""

from __future__ import annotations

import base64
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sojourn.checks import LARGEST, positive_int
from sojourn.data import adapters
from sojourn.data.as_sequences import as_sequences
from sojourn.data.sequences import Sequences
from sojourn.errors import SojournError

Floats = NDArray[np.float64]
Snapshot = dict[str, Any]
MOST_SEEN = 2**62  # symbols of a stream


class OnlineScorer(ABC):
    """Surprise of one symbol after another; made by ``model.stream()``.

    Symbols are those of training, None where one is missing; the model's `unknown` decides how
    unknown symbols are treated. A refused symbol does not change the state. A scorer must not be
    shared by threads: `fork` makes one for each.

    Parameters
    ----------
    vocabulary : array
        The symbols, sorted.
    unknown : {"error", "missing"}
        How a symbol outside the vocabulary is treated.
    start : array
        The state before the first symbol.

    Examples
    --------
    >>> from sojourn import Params, SpectralHSMM
    >>> seqs = Params.random(2, 2, 3, rng=0).sample(500, 50, rng=1)
    >>> model = SpectralHSMM(2, 2).fit(seqs)
    >>> stream = model.stream()
    >>> [stream.update(symbol) for symbol in seqs[0]] == model.surprise(seqs[:1])[0].tolist()
    True
    >>> stream.n_seen, bool((stream.predict() == model.predict_next(seqs[:1])[0]).all())
    (50, True)
    """

    def __init__(self, vocabulary: NDArray[Any], unknown: str, start: Floats) -> None:
        self.vocabulary = vocabulary
        self.unknown = unknown
        self.n_seen = 0
        self._codes = {symbol: code for code, symbol in enumerate(vocabulary.tolist())}
        self._type = type(vocabulary[0].item())
        self._start = start
        self._digest = ""
        self._begin(start)

    def _begin(self, state: Floats) -> None:
        """Continue from a state, with buffers of its own."""
        # The kernels read one code and write one surprise; the code they see is read-only, as in
        # batch scoring, so that it is the same machine code that runs.
        self._code, self._out = np.zeros(1, np.int32), np.zeros(1)
        self._seen_code = adapters.read_only(self._code)
        self._set_state(state)

    def update(self, symbol: str | int | None) -> float:
        """Surprise ``-log p(symbol | all before it)`` of the next symbol, in nats.

        Parameters
        ----------
        symbol : str, int or None
            None for a missing one, whose surprise is 0.
        """
        code = self._codes.get(symbol) if type(symbol) is self._type else None
        if code is None:
            code = self._code_of(symbol)
        self._code[0] = code
        self._advance(self._seen_code, self._out)
        self.n_seen += 1
        return self._out.item()

    def update_many(self, symbols: Any) -> Floats:
        """Surprise of each of the next symbols, in their order.

        Parameters
        ----------
        symbols : list, array, column, or Sequences of one sequence
        """
        if isinstance(symbols, Sequences):
            check_one(symbols)
        elif adapters.is_collection(symbols) and hasattr(symbols, "__len__") and len(symbols) == 0:
            return np.empty(0)
        else:
            symbols = [symbols]
        codes = as_sequences(symbols, None, self.vocabulary, self.unknown).codes
        out = np.empty(len(codes))
        self._advance(codes, out)
        self.n_seen += len(codes)
        return out

    def predict(self, horizon: int = 1) -> Floats:
        """Distribution of the symbol `horizon` steps ahead, in the order of the vocabulary.

        With ends, one more number: that the sequence has ended by then.

        Parameters
        ----------
        horizon : int
            Number of steps ahead, 1 for the next one.
        """
        return self._ahead((positive_int("horizon", horizon),))[0]

    @abstractmethod
    def _ahead(self, horizons: Sequence[int]) -> Floats:
        """The probabilities behind `predict`: of symbols, or of the states or codes of numbers."""

    def end(self) -> float:
        """Surprise of an end of the sequence here, in nats; 0 where ends are not modelled.

        The stream stays where it is: `reset` starts a new sequence.
        """
        return 0.0

    def snapshot(self) -> Snapshot:
        """The state of the stream as a small dictionary that JSON can hold.

        Examples
        --------
        >>> import json
        >>> from sojourn import Params, SpectralHSMM
        >>> model = SpectralHSMM(2, 2).fit(Params.random(2, 2, 3, rng=0).sample(99, 50, rng=1))
        >>> stream = model.stream()
        >>> _ = stream.update_many([0, 2, 1])
        >>> text = json.dumps(stream.snapshot())
        >>> model.stream().restore(json.loads(text)).update(1) == stream.update(1)
        True
        """
        state = base64.b64encode(self._state().astype("<f8").tobytes()).decode()
        taken = {"stream": 2, "model": self._model(), "seen": self.n_seen, "state": state}
        return {**taken, "check": _checksum(taken)}

    def restore(self, snapshot: Mapping[str, Any]) -> Self:
        """Continue from the snapshot of a stream of the same model.

        Parameters
        ----------
        snapshot : dict
            What `snapshot` returned.

        Returns
        -------
        OnlineScorer
            The scorer itself.
        """
        try:
            version, model, seen = snapshot["stream"], snapshot["model"], snapshot["seen"]
            intact = version != 2 or snapshot["check"] == _checksum(snapshot)
            state = np.frombuffer(base64.b64decode(snapshot["state"], validate=True), "<f8")
        except (KeyError, TypeError, ValueError) as error:
            raise SojournError(f"this is not a snapshot of a stream: {error!r}") from None
        if version != 2:
            raise SojournError(f"a snapshot of version {version!r} is not known; expected 2")
        if model != self._model():
            raise SojournError(
                "the snapshot is of another model; restore it with the model it came from"
            )
        intact = intact and type(seen) is int and 0 <= seen <= MOST_SEEN
        if not (intact and self._valid(state.astype(np.float64), seen)):
            raise SojournError("the snapshot is damaged: no stream can have its state")
        self.n_seen = seen
        self._set_state(state.astype(np.float64))
        return self

    def reset(self) -> Self:
        """Start a new sequence."""
        self.n_seen = 0
        self._set_state(self._start)
        return self

    def fork(self) -> Self:
        """Another scorer with the same past; the two continue independently.

        They share the tables of the model, so that thousands of streams need little memory.
        """
        other = copy(self)
        other._begin(self._state())
        return other

    def _code_of(self, symbol: Any) -> int:
        """Code of a symbol that is missing, unknown, or of a type to be looked at."""
        if symbol is None:
            return -1
        where = ("the stream", self.n_seen)
        value = adapters.read_column([symbol], lambda _: where, least=0)[0][0]
        value = value.item() if isinstance(value, np.generic) else value
        code = self._codes.get(value)
        if code is not None:
            return code
        alike = isinstance(value, self._type)
        if alike and self.unknown == "missing":
            return -1
        reason = (
            f"is not in the vocabulary of {len(self._codes)} symbols; unknown='missing' treats it "
            f"as not seen"
            if alike
            else f"cannot be: the vocabulary holds symbols such as {self.vocabulary[0].item()!r}"
        )
        raise SojournError(f"symbol {value!r} at position {self.n_seen} of the stream {reason}")

    def _model(self) -> str:
        """A fingerprint of the model, which snapshots contain."""
        if not self._digest:
            digest = hashlib.sha256(repr(self.vocabulary.tolist()).encode())
            for array in self._tables():
                digest.update(repr(array.shape).encode() + array.tobytes())
            self._digest = digest.hexdigest()[:16]
        return self._digest

    def _valid(self, state: Floats, seen: int) -> bool:
        """Whether a stream can have this state after so many symbols."""
        return state.shape == self._start.shape and bool((np.abs(state) <= LARGEST).all())

    @abstractmethod
    def _advance(self, codes: NDArray[np.int32], out: Floats) -> None:
        """Run the kernel over symbols and write the surprise of each to `out`."""

    @abstractmethod
    def _state(self) -> Floats:
        """A copy of the state, as one row of numbers."""

    @abstractmethod
    def _set_state(self, state: Floats) -> None:
        """Make such a row the state after `n_seen` symbols, in arrays that no other scorer has."""

    @abstractmethod
    def _tables(self) -> list[NDArray[Any]]:
        """What the model is made of, to recognise it by."""


def check_one(sequences: Sequences) -> None:
    """Raise an error if there are several sequences."""
    if len(sequences) != 1:
        raise SojournError(
            f"a stream is one sequence, and there are {len(sequences)}; use one scorer per "
            f"sequence, made by `fork`"
        )


def _checksum(snapshot: Mapping[str, Any]) -> str:
    """A checksum that shows damage to a snapshot."""
    text = repr([snapshot[name] for name in ("stream", "model", "seen", "state")])
    return hashlib.sha256(text.encode()).hexdigest()[:16]
