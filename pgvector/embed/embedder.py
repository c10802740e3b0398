"""What the rest of the package knows of embedding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from ..domain.types import EmbeddingSpace
from .instructions import Instructions

Vector = list[float]

MAX_BATCH_TEXTS = 64
# A batch must be through before its timeout on a CPU.
MAX_BATCH_TOKENS = 8_192


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into unit-length vectors of `dims` floats. Safe to call from several threads."""

    model: str
    dims: int

    @property
    def instructions(self) -> Instructions:
        """What is put before a text."""

    def embed_documents(self, texts: Sequence[str], *, timeout_s: float) -> list[Vector]:
        """One vector a text, in order. Raises EmbedderError; never returns fewer, NaN or other sizes."""

    def embed_query(self, text: str, *, timeout_s: float) -> Vector:
        """The vector of a question. Raises EmbedderError."""

    def close(self) -> None:
        """Release connections; calling twice is fine."""


@runtime_checkable
class CountedEmbedder(Embedder, Protocol):
    """An embedder that counts what it does."""

    def stats(self) -> dict[str, int]:
        """Counters that only grow, named embed_...; milliseconds end in _ms."""

    def state(self) -> str:
        """`closed` while it is asked, `open` while it is left alone after failures, `half-open` while it is tried."""


def space_of(embedder: Embedder) -> EmbeddingSpace:
    """What the vectors of `embedder` are comparable with."""
    instructions = embedder.instructions
    return EmbeddingSpace(embedder.model, embedder.dims, instructions.document, instructions.query)
