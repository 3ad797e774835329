"""A fit that can be stopped at any moment: its progress, in a file that is always complete."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from sojourn.em.start import Saved
from sojourn.emissions import (
    Bernoulli,
    Categorical,
    Channels,
    Exponential,
    Gamma,
    Gaussian,
    NegativeBinomial,
    Poisson,
    StudentT,
)
from sojourn.errors import SojournError
from sojourn.exact.params import Params
from sojourn.storage import container
from sojourn.storage.codec import Arrays, Form, dataclass_form, decode, encode

KIND = "checkpoint"


def _channels_form() -> Form:
    def to_dict(channels: Channels) -> dict[str, Any]:
        return {"names": list(channels.parts), "emissions": list(channels.parts.values())}

    def from_dict(given: dict[str, Any]) -> Channels:
        return Channels(dict(zip(given["names"], given["emissions"], strict=True)))

    return Form(to_dict, from_dict)


EMISSIONS = (
    *(Gaussian, StudentT, Poisson, NegativeBinomial),
    *(Bernoulli, Categorical, Exponential, Gamma),
)
EMISSION_FORMS = {kind.__name__: dataclass_form(kind) for kind in EMISSIONS}
EMISSION_FORMS["Channels"] = _channels_form()
FORMS = {"Params": dataclass_form(Params), "Saved": dataclass_form(Saved), **EMISSION_FORMS}


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """The checkpoint file of a fit, and the settings that it is valid for."""

    path: str
    facts: dict[str, Any]  # the arguments and the data that a fit must share to continue from it

    def save(self, saved: Saved) -> None:
        """Put this in place of what was there; if that fails, what was there stays."""
        arrays: Arrays = {}
        content = {
            "estimator": KIND,
            "facts": encode(self.facts, "facts", arrays, FORMS),
            "saved": encode(saved, "saved", arrays, FORMS),
        }
        try:
            container.write(self.path, content, arrays)
        except OSError as error:
            kept = "; the checkpoint of the pass before is complete" * os.path.exists(self.path)
            raise SojournError(
                f"{self.path}: the checkpoint cannot be written ({error.strerror or error}){kept}; "
                f"make room, and continue with resume=True"
            ) from error

    def load(self) -> Saved | None:
        """What was saved last; None where there is no such file yet."""
        if not os.path.exists(self.path):
            return None
        content, arrays = container.read(self.path)
        if content["estimator"] != KIND:
            raise SojournError(
                f"{self.path} holds a model, not a checkpoint; give another path, or load it"
            )
        facts = decode(content["facts"], arrays, FORMS)
        for name, mine in self.facts.items():
            its = facts.get(name)
            if not _same(mine, its):
                raise SojournError(
                    f"{self.path} is the checkpoint of another fit: {name} was {_short(its)} and "
                    f"is {_short(mine)}; give the same data and arguments, or resume=False to "
                    f"begin anew"
                )
        saved: Saved = decode(content["saved"], arrays, FORMS)
        return saved


def _same(a: Any, b: Any) -> bool:
    arrays: tuple[Arrays, Arrays] = ({}, {})
    texts = [encode(value, "", held, FORMS) for value, held in zip((a, b), arrays, strict=True)]
    return texts[0] == texts[1] and all(
        np.array_equal(arrays[0][name], arrays[1][name]) for name in arrays[0]
    )


def _short(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:57]}..."
