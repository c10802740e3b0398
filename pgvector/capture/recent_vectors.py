"""The vectors of the texts that this process embedded last."""

from __future__ import annotations

from array import array

from ..domain.lru import LruDict
from ..domain.text import digest

# As 32-bit floats, which is what the database keeps, 1,024 vectors of 768 are 3 MB.
MAX_TEXTS = 1024


class RecentVectors:
    """Remembers a bounded number of vectors by the digest of their text. Used by one thread at a time."""

    def __init__(self, max_texts: int = MAX_TEXTS) -> None:
        self._vectors: LruDict[bytes, array[float]] = LruDict(max_texts)

    def get(self, text: str) -> list[float] | None:
        """The vector of `text`, a new list each time."""
        vector = self._vectors.use(digest(text))
        return None if vector is None else vector.tolist()

    def add(self, text: str, vector: list[float]) -> None:
        """Remember it, and forget the one asked for the longest time ago."""
        self._vectors[digest(text)] = array("f", vector)
