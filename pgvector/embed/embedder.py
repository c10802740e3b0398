"""The protocol of every embedder, and the parts that the kinds of embedders share."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from ..domain.errors import EmbedderError
from ..domain.types import EmbeddingSpace
from .instructions import Instructions

Vector = list[float]


class Embedder(Protocol):
    """Turns texts into unit-length vectors of `dims` floats. Safe to call from several threads."""

    model: str
    dims: int

    @property
    def instructions(self) -> Instructions:
        """Return the prefixes of documents and questions."""

    def embed_documents(self, texts: Sequence[str], *, timeout_s: float) -> list[Vector]:
        """Return one vector a text, in order. Raises EmbedderError; never returns fewer, NaN or other sizes."""

    def embed_query(self, text: str, *, timeout_s: float) -> Vector:
        """Return the vector of a question. Raises EmbedderError."""

    def embed_queries(self, texts: Sequence[str], *, timeout_s: float) -> list[Vector]:
        """Return the vectors of several questions, in order. Raises EmbedderError."""

    def rank_of_word(self, word: str) -> int | None:
        """Return how common a word in small letters is, less for a commoner one; None if the model does not know it."""

    def stats(self) -> dict[str, int]:
        """Return counters that only grow, named embed_...; milliseconds end in _ms."""

    def close(self) -> None:
        """Release connections; calling twice is fine."""


class Counters:
    """Named integers that only grow; every method may be called from any thread."""

    def __init__(self, *names: str) -> None:
        self._lock = threading.Lock()
        self._values = dict.fromkeys(names, 0)

    def add(self, **amounts: int) -> None:
        """Raise each named counter by its amount."""
        with self._lock:
            for name, amount in amounts.items():
                self._values[name] += amount

    def snapshot(self) -> dict[str, int]:
        """Return a copy of all counters at one moment."""
        with self._lock:
            return dict(self._values)

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Add the milliseconds of the block to `embed_ms`, and its EmbedderError to `embed_errors`."""
        began = time.monotonic()
        try:
            yield
        except EmbedderError:
            self.add(embed_errors=1)
            raise
        finally:
            self.add(embed_ms=round((time.monotonic() - began) * 1000))


def space_of(embedder: Embedder) -> EmbeddingSpace:
    """Return the embedding space of the vectors of `embedder`."""
    instructions = embedder.instructions
    return EmbeddingSpace(embedder.model, embedder.dims, instructions.document, instructions.query)


def readable(text: str, max_chars: int) -> str:
    """Return the head of a text as models take it: valid Unicode, no NUL, not blank."""
    head = text[:max_chars].replace("\0", " ").encode("utf-8", "replace").decode("utf-8")
    # Endpoints refuse or drop a blank input, and one blank row must not fail its batch.
    return head if head.strip() else "-"
