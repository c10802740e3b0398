"""Vectors for what is stored, when they are to be had."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Sequence

from ..domain.errors import EmbedderError, HermesPgvectorError
from ..domain.latency import Latencies
from ..embed.base import CountedEmbedder
from ..store.backend import Backend

_TIMEOUT_S = 30.0  # of one batch; the endpoint's own timeout and its breaker are shorter

Vectors = dict[str, list[float]]
_Outcome = Vectors | HermesPgvectorError


class DocumentEmbedder:
    """Embeds texts for the store; what cannot be embedded now is left for later. Used by the drain thread only."""

    def __init__(self, embedder: CountedEmbedder | None, backend: Backend, latencies: Latencies) -> None:
        self._embedder = embedder
        self._backend = backend
        self._latencies = latencies
        self._last: tuple[tuple[str, ...], Vectors] = ((), {})
        self._ahead: tuple[tuple[str, ...], queue.SimpleQueue[_Outcome]] | None = None
        self.fails = False
        self.failures = 0
        self.last_error = ""

    def is_there(self) -> bool:
        """False when there is nothing to embed with, or its vectors do not belong into this database."""
        return self._embedder is not None and self._backend.comparable(self._embedder.model)

    def requests(self) -> int:
        """How many requests were sent so far, those of questions among them."""
        return 0 if self._embedder is None else self._embedder.stats().get("embed_requests", 0)

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Vectors by text; empty when there are none to be had now. No database connection is held meanwhile.

        A batch that is tried again, or was announced by `prepare`, is not embedded again.
        """
        unique = tuple(dict.fromkeys(texts))
        if not unique or not self.is_there():
            return {}
        if unique == self._last[0]:
            return self._last[1]
        vectors = self._from_ahead(unique)
        if vectors is None:
            vectors = self._embed(unique)
        self._last = (unique, vectors) if vectors else ((), {})
        return vectors

    def prepare(self, texts: Sequence[str]) -> None:
        """Embed on a thread of its own what the next `embed` will ask for, while Postgres takes the batch before it."""
        unique = tuple(dict.fromkeys(texts))
        if not unique or self._ahead is not None or self.fails or not self.is_there():
            return
        box: queue.SimpleQueue[_Outcome] = queue.SimpleQueue()
        self._ahead = (unique, box)

        def run() -> None:
            outcome: _Outcome = {}
            try:
                outcome = self._embed(unique)
            except HermesPgvectorError as exc:
                outcome = exc
            finally:
                box.put(outcome)

        threading.Thread(target=run, name="hermes-pgvector-ahead", daemon=True).start()

    def _from_ahead(self, unique: tuple[str, ...]) -> Vectors | None:
        if self._ahead is None:
            return None
        (announced, box), self._ahead = self._ahead, None
        outcome = box.get()  # also when it was for other texts: one request at a time
        if announced != unique:
            return None
        if isinstance(outcome, HermesPgvectorError):
            raise outcome
        return outcome

    def _embed(self, unique: tuple[str, ...]) -> Vectors:
        embedder = self._embedder
        if embedder is None:
            return {}
        started = time.monotonic()
        try:
            vectors = embedder.embed_documents(unique, timeout_s=_TIMEOUT_S)
        except EmbedderError as exc:
            self.fails = True
            self.failures += 1
            self.last_error = str(exc)
            return {}
        self._latencies.add("embed", time.monotonic() - started)
        self.fails = False
        if not self._backend.claim_model(embedder.model):
            return {}
        return dict(zip(unique, vectors, strict=True))
