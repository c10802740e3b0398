"""Answers a question from the store: both legs side by side, one deadline."""

from __future__ import annotations

import queue
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..domain.errors import EmbedderError
from ..domain.latency import Latencies
from ..domain.models import Answer, Candidate, Hit, Question, Scope, Store
from ..embed.base import Embedder, Vector
from ..store.backend import Backend
from ..store.connection import DeadlineConnection
from ..store.search import fetch, lexical_candidates, neighbours, vector_candidates
from .fuse import fuse, smooth
from .settle import settle

CANDIDATES = 40  # rows each leg proposes
QUERY_MAX_CHARS = 2000  # a longer question is cut: its first words say what it is about
_MAX_EMBED_THREADS = 8  # questions being embedded at once; more would only wait for a stuck endpoint
_SPARE = 2  # rows fetched for each one wanted: some say the same as others


class Searcher:
    """Recall over one store. Safe to call from several threads."""

    def __init__(self, backend: Backend, embedder: Embedder | None, latencies: Latencies) -> None:
        self._latencies = latencies
        self._backend = backend
        self._embedder = embedder
        self._embedding_slots = threading.BoundedSemaphore(_MAX_EMBED_THREADS)
        self.counts: Counter[str] = Counter()

    def recall(self, stores: Sequence[Store], asked: Question) -> Answer:
        """The best rows of `stores` for a question, best first.

        Raises StoreUnavailable or DeadlineExceeded within `deadline_s`; an embedding that is late or fails only
        means that words decide.
        """
        started = time.monotonic()
        end = started + asked.deadline_s
        text = asked.text[:QUERY_MAX_CHARS]
        wanted = max(CANDIDATES, asked.offset + asked.limit)
        vector_box = self._embed_aside(text, asked.deadline_s)
        with self._backend.connection(asked.deadline_s) as conn:
            words = {
                store: lexical_candidates(conn, store, asked.scope, asked.filters, text, limit=wanted)
                for store in stores
            }
        # No connection is held while the endpoint thinks; a third of the time is left for what follows.
        vector = self._await(vector_box, end - 0.3 * asked.deadline_s)
        hits: list[Hit] = []
        with self._backend.connection(max(0.01, end - time.monotonic())) as conn:
            for store in stores:
                nearest: list[Candidate] = []
                if vector is not None:
                    nearest = vector_candidates(conn, store, asked.scope, asked.filters, vector, limit=wanted)
                hits += _best_of(conn, store, asked, nearest, words[store], vector)
            chosen = settle(hits)[asked.offset : asked.offset + asked.limit]
            if asked.around:
                chosen = _with_surroundings(conn, asked.scope, chosen)
        self.counts["searches"] += 1
        self._latencies.add("search", time.monotonic() - started)
        return Answer(tuple(chosen), "lexical" if vector is None else "hybrid")

    def _embed_aside(self, text: str, timeout_s: float) -> queue.SimpleQueue[Vector | None] | None:
        """Start to embed the question on a thread of its own; None when there is nothing to embed with."""
        if self._embedder is None or not self._backend.comparable(self._embedder.model):
            return None
        if not self._embedding_slots.acquire(blocking=False):
            return None
        box: queue.SimpleQueue[Vector | None] = queue.SimpleQueue()
        threading.Thread(
            target=self._embed_query,
            args=(self._embedder, text, timeout_s, box),
            name="hermes-pgvector-embed",
            daemon=True,
        ).start()
        return box

    def _embed_query(
        self, embedder: Embedder, text: str, timeout_s: float, box: queue.SimpleQueue[Vector | None]
    ) -> None:
        try:
            box.put(embedder.embed_query(text, timeout_s=timeout_s))
        except EmbedderError:
            self.counts["query_embed_failures"] += 1
            box.put(None)
        finally:
            self._embedding_slots.release()

    def _await(self, box: queue.SimpleQueue[Vector | None] | None, until: float) -> Vector | None:
        if box is None:
            return None
        try:
            return box.get(timeout=max(0.001, until - time.monotonic()))
        except queue.Empty:
            self.counts["query_embed_late"] += 1
            return None


def _best_of(
    conn: DeadlineConnection,
    store: Store,
    asked: Question,
    nearest: Sequence[Candidate],
    worded: Sequence[Candidate],
    vector: Vector | None,
) -> list[Hit]:
    """The best rows of one store, with their scores and ranks."""
    scores = fuse(nearest, worded)
    if not scores:
        return []
    # A turn beside a match need not pass a filter, so it lends nothing where there is one.
    if store == "turns" and not asked.filters.restrict():
        scores = smooth(scores, neighbours(conn, asked.scope, list(scores)))
    best = sorted(scores, key=lambda row: (-scores[row], -row))[: (asked.offset + asked.limit) * _SPARE]
    rows = fetch(conn, store, asked.scope, best, vector)
    coverage = {candidate.id: candidate.score for candidate in worded}
    by_vector, by_words = _ranks(nearest), _ranks(worded)
    return [
        replace(
            rows[row],
            score=scores[row],
            coverage=coverage.get(row, 0.0),
            vector_rank=by_vector.get(row),
            word_rank=by_words.get(row),
        )
        for row in best
        if row in rows
    ]


def _ranks(leg: Sequence[Candidate]) -> dict[int, int]:
    return {candidate.id: rank for rank, candidate in enumerate(leg, 1)}


def _with_surroundings(conn: DeadlineConnection, scope: Scope, hits: Sequence[Hit]) -> list[Hit]:
    """Each hit with the turns right before and after it."""
    beside: Mapping[int, Sequence[int]] = neighbours(conn, scope, [hit.id for hit in hits])
    rows = fetch(conn, "turns", scope, sorted({turn for turns in beside.values() for turn in turns}), None)
    return [replace(hit, around=tuple(rows[turn] for turn in beside.get(hit.id, ()) if turn in rows)) for hit in hits]
