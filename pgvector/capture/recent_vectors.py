"""The vectors of the texts that this process embedded last."""

from __future__ import annotations

from array import array
from collections import OrderedDict

from ..domain.text import digest

# As 32-bit floats, which is what the database keeps, 1,024 vectors of 768 are 3 MB.
MAX_TEXTS = 1024


class RecentVectors:
    """Remembers a bounded number of vectors by the digest of their text. Used by one thread at a time."""

    def __init__(self, max_texts: int = MAX_TEXTS) -> None:
        self._max_texts = max_texts
        self._vectors: OrderedDict[bytes, array[float]] = OrderedDict()

    def get(self, text: str) -> list[float] | None:
        """The vector of `text`, a new list each time."""
        key = digest(text)
        vector = self._vectors.get(key)
        if vector is None:
            return None
        self._vectors.move_to_end(key)
        return vector.tolist()

    def add(self, text: str, vector: list[float]) -> None:
        """Remember it, and forget the one asked for the longest time ago."""
        self._vectors[digest(text)] = array("f", vector)
        if len(self._vectors) > self._max_texts:
            self._vectors.popitem(last=False)
