"""Vectors for what is stored, when they are to be had."""

from __future__ import annotations

import time

from ..domain.errors import EmbedderError
from ..domain.latency import Latencies
from ..embed.base import Embedder
from ..store.backend import Backend

_TIMEOUT_S = 30.0  # of one batch; the endpoint's own timeout and its breaker are shorter


class DocumentEmbedder:
    """Embeds texts for the store; what cannot be embedded now is left for later."""

    def __init__(self, embedder: Embedder | None, backend: Backend, latencies: Latencies) -> None:
        self._embedder = embedder
        self._backend = backend
        self._latencies = latencies
        self.fails = False
        self.failures = 0
        self.last_error = ""

    def is_there(self) -> bool:
        """False when there is nothing to embed with, or its vectors do not belong into this database."""
        return self._embedder is not None and self._backend.comparable(self._embedder.model)

    def embed(self, texts: list[str]) -> dict[str, list[float]]:
        """Vectors by text; empty when there are none to be had now. No database connection is held meanwhile."""
        unique = list(dict.fromkeys(texts))
        if self._embedder is None or not unique or not self.is_there():
            return {}
        started = time.monotonic()
        try:
            vectors = self._embedder.embed_documents(unique, timeout_s=_TIMEOUT_S)
        except EmbedderError as exc:
            self.fails = True
            self.failures += 1
            self.last_error = str(exc)
            return {}
        self._latencies.add("embed", time.monotonic() - started)
        self.fails = False
        if not self._backend.claim_model(self._embedder.model):
            return {}
        return dict(zip(unique, vectors, strict=True))
