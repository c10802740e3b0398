"""Answers a question from the store: both legs side by side, one deadline."""

from __future__ import annotations

import queue
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..domain.errors import EmbedderError
from ..domain.latency import Latencies
from ..domain.models import Hit, Scope, Store
from ..embed.base import Embedder, Vector
from ..store.backend import Backend
from ..store.search import fetch, lexical_candidates, neighbours, vector_candidates
from .fuse import fuse, smooth

CANDIDATES = 40  # rows each leg proposes
QUERY_MAX_CHARS = 2000  # a longer question is cut: its first words say what it is about
_MAX_EMBED_THREADS = 8  # questions being embedded at once; more would only wait for a stuck endpoint


@dataclass(frozen=True)
class Answer:
    """What was found, and whether the vector leg took part (`hybrid`) or only words did (`lexical`)."""

    hits: tuple[Hit, ...]
    mode: str


class Searcher:
    """Recall over one store. Safe to call from several threads."""

    def __init__(self, backend: Backend, embedder: Embedder | None, latencies: Latencies) -> None:
        self._latencies = latencies
        self._backend = backend
        self._embedder = embedder
        self._embedding_slots = threading.BoundedSemaphore(_MAX_EMBED_THREADS)
        self.counts: Counter[str] = Counter()

    def recall(
        self,
        stores: Sequence[Store],
        text: str,
        scope: Scope,
        *,
        limit: int,
        deadline_s: float,
        target: str | None = None,
    ) -> Answer:
        """The `limit` best rows of `stores` for `text`, best first.

        Raises StoreUnavailable or DeadlineExceeded within `deadline_s`; an embedding that is late or fails only
        means that words decide.
        """
        started = time.monotonic()
        end = started + deadline_s
        text = text[:QUERY_MAX_CHARS]
        vector_box = self._embed_aside(text, deadline_s)
        with self._backend.connection(deadline_s) as conn:
            lexical = {
                s: lexical_candidates(conn, s, scope, text, target=target, limit=max(CANDIDATES, limit)) for s in stores
            }
        # No connection is held while the endpoint thinks; a third of the time is left for what follows.
        vector = self._await(vector_box, end - 0.3 * deadline_s)
        hits: list[Hit] = []
        with self._backend.connection(max(0.01, end - time.monotonic())) as conn:
            for store in stores:
                nearest = (
                    vector_candidates(conn, store, scope, vector, target=target, limit=max(CANDIDATES, limit))
                    if vector is not None
                    else []
                )
                scores = fuse(nearest, lexical[store])
                if store == "turns" and scores:
                    scores = smooth(scores, neighbours(conn, scope, list(scores)))
                best = sorted(scores, key=lambda row: (-scores[row], -row))[:limit]
                coverage = {c.id: c.score for c in lexical[store]}
                rows = fetch(conn, store, scope, best, vector) if best else {}
                hits += [
                    replace(rows[row], score=scores[row], coverage=coverage.get(row, 0.0))
                    for row in best
                    if row in rows
                ]
        hits.sort(key=lambda hit: -hit.score)
        self.counts["searches"] += 1
        self._latencies.add("search", time.monotonic() - started)
        return Answer(tuple(hits[:limit]), "lexical" if vector is None else "hybrid")

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
