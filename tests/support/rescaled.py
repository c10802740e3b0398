"""A model to which all texts are more alike than to another one, or less."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from operator import add

from .embedding_server import Model


class Rescaled:
    """The vectors of `model` with a `share` more of what those of `texts` have in common; below 0, with less."""

    def __init__(self, model: Model, texts: Sequence[str], share: float) -> None:
        self._model = model
        vectors = [model.embed(text) for text in texts]
        self._common = [share * statistics.fmean(each) for each in zip(*vectors, strict=True)]

    def embed(self, text: str) -> list[float]:
        """The unit vector of one text."""
        vector = list(map(add, self._model.embed(text), self._common))
        length = math.hypot(*vector)
        return [value / length for value in vector]
