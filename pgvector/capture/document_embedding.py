"""Vectors for what is stored, when they are to be had."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Sequence

from ..domain.chunks import chunk_spans, estimate_tokens
from ..domain.errors import EmbedderError, HermesPgvectorError
from ..domain.last_error import LastError
from ..domain.latency import Latencies
from ..domain.types import Operation
from ..embed.embedder import Embedder, space_of
from ..store.backend import Backend
from ..store.vector_reuse import ThemedText
from ..store.vectors import Chunk
from .recent_vectors import RecentVectors

_TIMEOUT_S = 30.0  # of one batch; the endpoint's own timeout and its breaker are shorter
_PARTS_A_CALL = 32  # of long texts: writes wait meanwhile
# Below that a second thread gains little, and hooks wait for two threads that work instead of one.
_SLOW_MS = 15

Vectors = dict[str, list[float]]
_Outcome = Vectors | HermesPgvectorError


class DocumentEmbedder:
    """Embeds texts for the store; what cannot be embedded now is left for later. Used by the drain thread only."""

    def __init__(self, embedder: Embedder | None, backend: Backend, latencies: Latencies, *, chunk_tokens: int) -> None:
        self._embedder = embedder
        self._backend = backend
        self._latencies = latencies
        self._chunk_tokens = chunk_tokens
        self._last: tuple[tuple[ThemedText, ...], Vectors] = ((), {})
        self._ahead: tuple[tuple[ThemedText, ...], queue.SimpleQueue[_Outcome]] | None = None
        # What is on its way to the database is not found there yet.
        self._recent = RecentVectors()
        self._begun: tuple[str, list[Chunk]] = ("", [])  # a long text of which some parts are done
        self._waited_ms = 0
        self.fails = False
        self.failures = 0
        self.reused = 0
        self.trouble = LastError()

    def is_there(self) -> bool:
        """False when there is nothing to embed with, or its vectors do not belong into this database."""
        return self._embedder is not None and self._backend.comparable(space_of(self._embedder))

    def requests(self) -> int:
        """How many requests were sent so far, those of questions among them."""
        return self._stat("embed_requests")

    def is_slow(self) -> bool:
        """Whether the endpoint kept the last batch waiting so long that `prepare` is worth its while."""
        return self._waited_ms >= _SLOW_MS

    def _stat(self, name: str) -> int:
        return 0 if self._embedder is None else self._embedder.stats().get(name, 0)

    def embed(self, texts: Sequence[ThemedText]) -> Vectors:
        """Vectors by text, without those that are not to be had now. No database connection is held meanwhile.

        A text that its theme holds with a vector, that this process embedded not long ago, or that was announced by
        `prepare`, is not embedded again. Texts of several chunks are left out: `embed_chunks` is for their rows.
        Raises HermesPgvectorError when the database does not answer.
        """
        unique = self._short(texts)
        if not unique or not self.is_there():
            return {}
        if unique == self._last[0]:
            return self._last[1]
        vectors = self._from_ahead(unique)
        if vectors is None:
            vectors = self._vectors(unique)
        complete = all(text in vectors for _, text in unique)
        self._last = (unique, vectors) if complete else ((), {})
        return vectors

    def embed_chunks(self, texts: Sequence[ThemedText]) -> dict[str, list[Chunk]]:
        """The chunks of each text with their vectors, without the texts whose vectors are not to be had now.

        Long texts are worked on a share a call. One that is missing though nothing `fails` comes with a later call.
        """
        vectors = self.embed(texts)
        chunks = {text: [Chunk(0, vector)] for text, vector in vectors.items()}
        if any(text not in vectors for _, text in self._short(texts)):
            return chunks
        left = _PARTS_A_CALL
        for text in dict.fromkeys(text for _, text in texts if self._is_long(text)):
            if left <= 0 or not self.is_there():
                break
            begun = self._begun[1] if self._begun[0] == text else []
            spans = chunk_spans(text, self._chunk_tokens)
            some = spans[len(begun) : len(begun) + left]
            parts = self._embed(tuple(dict.fromkeys(text[first:end] for first, end in some)))
            if not parts:
                break
            left -= len(some)
            begun = begun + [Chunk(first, parts[text[first:end]]) for first, end in some]
            if len(begun) == len(spans):
                chunks[text] = begun
                self._begun = ("", [])
            else:
                self._begun = (text, begun)
        return chunks

    def has_long(self, texts: Sequence[ThemedText]) -> bool:
        """Whether `embed` leaves some of `texts` out."""
        return any(self._is_long(text) for _, text in texts)

    def _short(self, texts: Sequence[ThemedText]) -> tuple[ThemedText, ...]:
        return tuple(themed for themed in dict.fromkeys(texts) if not self._is_long(themed[1]))

    def _is_long(self, text: str) -> bool:
        # Most texts are short whatever they are made of.
        return len(text) > self._chunk_tokens and estimate_tokens(text) > self._chunk_tokens

    def prepare(self, texts: Sequence[ThemedText]) -> None:
        """Embed on a thread of its own what the next `embed` will ask for, while Postgres takes the batch before it."""
        unique = self._short(texts)
        if not unique or self._ahead is not None or self.fails or not self.is_there():
            return
        box: queue.SimpleQueue[_Outcome] = queue.SimpleQueue()
        self._ahead = (unique, box)

        def run() -> None:
            outcome: _Outcome = {}
            try:
                outcome = self._vectors(unique)
            except HermesPgvectorError as exc:
                outcome = exc
            finally:
                box.put(outcome)

        try:
            threading.Thread(target=run, name="hermes-pgvector-ahead", daemon=True).start()
        except RuntimeError:  # an interpreter that is ending starts no thread
            self._ahead = None

    def _from_ahead(self, unique: tuple[ThemedText, ...]) -> Vectors | None:
        if self._ahead is None:
            return None
        (announced, box), self._ahead = self._ahead, None
        outcome = box.get()  # also when it was for other texts: one request at a time
        if announced != unique:
            return None
        if isinstance(outcome, HermesPgvectorError):
            raise outcome
        return outcome

    def _vectors(self, unique: tuple[ThemedText, ...]) -> Vectors:
        known = self._known(unique)
        missing = tuple(dict.fromkeys(text for _, text in unique if text not in known))
        self.reused += len(known)
        return known | self._embed(missing) if missing else known

    def _known(self, unique: tuple[ThemedText, ...]) -> Vectors:
        if self._embedder is None:
            return {}
        known = {text: vector for _, text in unique if (vector := self._recent.get(text)) is not None}
        return known | self._backend.known_vectors(
            space_of(self._embedder), [(theme, text) for theme, text in unique if text not in known]
        )

    def _embed(self, unique: tuple[str, ...]) -> Vectors:
        embedder = self._embedder
        if embedder is None:
            return {}
        started, waited_ms = time.monotonic(), self._stat("embed_wait_ms")
        try:
            vectors = embedder.embed_documents(unique, timeout_s=_TIMEOUT_S)
        except EmbedderError as exc:
            self.fails = True
            self.failures += 1
            self.trouble.note(exc)
            return {}
        self._latencies.add("embed", time.monotonic() - started)
        self._waited_ms = self._stat("embed_wait_ms") - waited_ms
        self.fails = False
        self.trouble.over()
        if not self._backend.claim_space(space_of(embedder)):
            return {}
        for text, vector in zip(unique, vectors, strict=True):
            self._recent.add(text, vector)
        return dict(zip(unique, vectors, strict=True))


def texts_of(op: Operation) -> list[str]:
    """The texts of an operation that want vectors."""
    match op.kind:
        case "turn":
            return [message["content"] for message in op.payload["messages"]]
        case "add" | "remember" | "replace":
            return [op.payload["content"]]
        case "reconcile":
            return list(op.payload["contents"])
        case _:
            return []
