"""Vectors for what is stored: with its write where they are to be had, otherwise later."""

from __future__ import annotations

import queue
import threading
import time
from array import array
from collections import Counter
from collections.abc import Sequence

from ..domain.chunks import chunk_spans, estimate_tokens
from ..domain.errors import EmbedderError, HermesPgvectorError
from ..domain.last_error import LastError
from ..domain.latency import Latencies
from ..domain.lru import LruDict
from ..domain.text import digest
from ..embed.embedder import Embedder, space_of
from ..store.backend import Backend
from ..store.vectors import Chunk, PendingRow, ThemedText

# As 32-bit floats, which is what the database keeps, 1,024 vectors of 768 are 3 MB.
MAX_TEXTS = 1024


class RecentVectors:
    """Remembers a bounded number of vectors by the digest of their text. Used by one thread at a time."""

    def __init__(self, max_texts: int = MAX_TEXTS) -> None:
        self._vectors: LruDict[bytes, array[float]] = LruDict(max_texts)

    def get(self, text: str) -> list[float] | None:
        """Return the vector of `text`, a new list each time."""
        vector = self._vectors.use(digest(text))
        return None if vector is None else vector.tolist()

    def add(self, text: str, vector: list[float]) -> None:
        """Remember it, and forget the one asked for the longest time ago."""
        self._vectors[digest(text)] = array("f", vector)


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
        """Return False when there is nothing to embed with, or its vectors do not belong into this database."""
        return self._embedder is not None and self._backend.comparable(space_of(self._embedder))

    def requests(self) -> int:
        """Return how many requests were sent so far, those of questions among them."""
        return self._stat("embed_requests")

    def is_slow(self) -> bool:
        """Return whether the endpoint kept the last batch waiting so long that `prepare` is worth its while."""
        return self._waited_ms >= _SLOW_MS

    def _stat(self, name: str) -> int:
        return 0 if self._embedder is None else self._embedder.stats().get(name, 0)

    def embed(self, texts: Sequence[ThemedText]) -> Vectors:
        """Return vectors by text, without those that are not to be had now. No database connection is held meanwhile.

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
        """Return the chunks of each text with their vectors, without the texts whose vectors are not to be had now.

        Long texts are worked on a share a call. One that is missing though nothing `fails` comes with a later call.
        """
        vectors = self.embed(texts)
        chunks = {text: [Chunk(0, vector)] for text, vector in vectors.items()}
        if any(text not in vectors for _, text in self._short(texts)):
            return chunks
        left = _PARTS_A_CALL
        for text in self._long(texts):
            if left <= 0 or not self.is_there():
                break
            done, whole = self._embed_long(text, left)
            if not done:
                break
            left -= done
            if whole:
                chunks[text] = whole
        return chunks

    def _embed_long(self, text: str, most: int) -> tuple[int, list[Chunk]]:
        """Embed at most so many more parts of a text; return how many, and its chunks once they are complete."""
        begun = self._begun[1] if self._begun[0] == text else []
        spans = chunk_spans(text, self._chunk_tokens)
        some = spans[len(begun) : len(begun) + most]
        parts = self._embed(tuple(dict.fromkeys(text[first:end] for first, end in some)))
        if not parts:
            return 0, []
        begun = begun + [Chunk(first, parts[text[first:end]]) for first, end in some]
        complete = len(begun) == len(spans)
        self._begun = ("", []) if complete else (text, begun)
        return len(some), begun if complete else []

    def has_long(self, texts: Sequence[ThemedText]) -> bool:
        """Return whether `embed` leaves some of `texts` out."""
        return bool(self._long(texts))

    def _long(self, texts: Sequence[ThemedText]) -> list[str]:
        return list(dict.fromkeys(text for _, text in texts if self._is_long(text)))

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


_MOST = 32  # rows of one request
_LEASE_S = 120.0  # how long a process may take to embed the rows it claimed before another one tries
# How long a row that the endpoint refused on its own is left alone, doubled with each refusal.
_PAUSE_FIRST_S, _PAUSE_MAX_S = 5.0, 600.0
_REMEMBERED = 10_000  # refused rows


class PendingRows:
    """Embeds such rows, a share of them: other processes do the same. Used by the drain thread only.

    Who failed, the endpoint or a row, shows when rows are tried one by one. A refused row goes to the back, so that it
    keeps no other waiting, and is not what asks a dead endpoint for ever whether it is back. `cold`: rows whose vector
    `compact` has dropped instead.
    """

    def __init__(self, backend: Backend, embedder: DocumentEmbedder, *, cold: bool = False) -> None:
        self._backend = backend
        self._embedder = embedder
        self._cold = cold
        self._size = _MOST
        self._begun: list[PendingRow] = []  # claimed, and long: they take several calls
        self._refusals: Counter[tuple[str, int]] = Counter()

    def possible(self) -> bool:
        """Return False when there is nothing to embed with."""
        return self._embedder.is_there()

    def fill(self) -> tuple[int, bool]:
        """Embed some rows; return how many, and whether to go on at once. Raises HermesPgvectorError."""
        if not self._embedder.is_there():
            return 0, False
        rows, self._begun = self._begun or self._claimed(), []
        return self._fill(rows) if rows else (0, False)

    def _fill(self, rows: Sequence[PendingRow]) -> tuple[int, bool]:
        asked_before = self._embedder.requests()
        chunks = self._embedder.embed_chunks([(row.theme, row.text) for row in rows])
        filled = [row for row in rows if row.text in chunks]
        if filled:
            self._backend.fill(filled, chunks)
        rest = [row for row in rows if row.text not in chunks]
        if rest:
            return len(filled), self._put_back(rest, asked=self._embedder.requests() > asked_before)
        self._size = min(2 * self._size, _MOST)
        return len(filled), True

    def _put_back(self, rest: list[PendingRow], *, asked: bool) -> bool:
        """Leave rows without a vector for later; True when there may be more to do at once."""
        if not self._embedder.fails and self._embedder.is_there():
            self._begun = rest
            self._backend.postpone(rest, _LEASE_S)  # which goes on being ours
            return True
        refused = asked and self._embedder.fails
        alone = refused and len(rest) == 1
        self._backend.postpone(rest, self._pause_s((rest[0].store, rest[0].id)) if alone else 0.0)
        self._size = 1
        return refused

    def _claimed(self) -> list[PendingRow]:
        return self._backend.claim_pending(self._size, _LEASE_S, cold=self._cold)

    def _pause_s(self, row: tuple[str, int]) -> float:
        if len(self._refusals) >= _REMEMBERED:
            self._refusals.clear()
        self._refusals[row] += 1
        return float(min(_PAUSE_FIRST_S * 2.0 ** min(self._refusals[row] - 1, 30), _PAUSE_MAX_S))
