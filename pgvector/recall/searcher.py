"""Answers a question from the store: both legs, a cross-encoder's order where one is wanted, one deadline."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from ..domain.errors import EmbedderError, HermesPgvectorError
from ..domain.gil import note_recall
from ..domain.latency import Latencies
from ..domain.session_turns import Said
from ..domain.text import both_ends
from ..domain.types import Answer, Hit, Question, Store
from ..embed.cache import CachedEmbedder
from ..embed.embedder import Embedder, Vector, space_of
from ..store.backend import Backend
from ..store.connection import DeadlineConnection
from ..store.read_routing import Source
from ..store.vector_search import turns_before
from .background import Aside, Late, Pending
from .pipeline import Lookup
from .reranking import Reorderer

QUERY_MAX_CHARS = 2000  # of a longer question the beginning and the end, half each: what is asked stands in one of them
_PATIENCE_S = 0.002  # with a connection in hand: to let it go and take one again costs that much
_RESERVED = 0.3  # share of a deadline that the embedding, and a vector leg that can still be done without, leave over


@dataclass(frozen=True, slots=True)
class _Page:
    """Which rows are wanted. `rows` counts from the best one; a cross-encoder wants more of them than are shown."""

    rows: int
    around: bool


class Searcher:
    """Recall over one store. Safe to call from several threads."""

    def __init__(
        self,
        backend: Backend,
        embedder: Embedder | None,
        latencies: Latencies,
        reorderer: Reorderer | None = None,
        said: Said | None = None,
    ) -> None:
        self._said = said or Said()
        self._latencies = latencies
        self._backend = backend
        self._embedder = embedder
        self._reorderer = reorderer
        self._embedding = Aside("hermes-pgvector-embed")
        self.counts: Counter[str] = Counter()

    @property
    def model(self) -> str:
        """The name of the embedding model; empty without one."""
        return self._embedder.model if self._embedder is not None else ""

    def recall(self, stores: Sequence[Store], asked: Question) -> Answer:
        """The best rows of `stores` for a question, best first.

        Raises StoreUnavailable or DeadlineExceeded within `deadline_s`, when not even the words could be looked up.
        An embedding or a vector leg that is late or fails only means that words decide, a cross-encoder that fails
        that it does not.
        """
        note_recall()
        started = time.monotonic()
        end = started + asked.deadline_s
        text = both_ends(asked.text, QUERY_MAX_CHARS)
        reorderer = self._reorderer if asked.rerank else None
        if reorderer is not None and asked.offset >= reorderer.candidates:
            reorderer = None  # it has no say in this page
        page = _Page(max(asked.offset + asked.limit, reorderer.candidates if reorderer else 0), asked.around)
        theme = None if asked.scope.kind == "all" else asked.scope.theme
        hits, mode = self._backend.read(lambda source: self._find(source, stores, asked, text, page, end), theme)
        hits = self._standing(hits)
        reranked = False
        if reorderer is not None:
            hits, reranked = reorderer.reorder(text, hits, end)
        self.counts["searches"] += 1
        self._latencies.add("search", time.monotonic() - started)
        return Answer(tuple(hits[asked.offset : asked.offset + asked.limit]), mode, reranked)

    def before_session(
        self, theme: str, session_id: str, parent_session_id: str, *, limit: int, deadline_s: float
    ) -> list[Hit]:
        """The last turns of the session before this one, oldest first; none once this one has turns of its own.

        That is the parent where there is one, else the session of the theme that spoke last. Raises StoreUnavailable
        or DeadlineExceeded within `deadline_s`.
        """
        end = time.monotonic() + deadline_s

        def turns(source: Source) -> list[Hit]:
            with source.connection(_left_s(end)) as conn:
                return turns_before(conn, theme, session_id, parent_session_id, limit=limit)

        return self._standing(self._backend.read(turns, theme))

    def _standing(self, hits: Sequence[Hit]) -> list[Hit]:
        """Those that the user did not take back, as far as Postgres has not heard of it yet."""
        kept = []
        for hit in hits:
            if hit.session_id is None or not self._said.is_undone((hit.theme, hit.session_id), hit.at.timestamp()):
                around = tuple(self._standing(hit.around))
                kept.append(hit if around == hit.around else replace(hit, around=around))
        return kept

    def _find(
        self, source: Source, stores: Sequence[Store], asked: Question, text: str, page: _Page, end: float
    ) -> tuple[list[Hit], str]:
        languages = self._backend.languages
        spoken = languages.all if asked.scope.kind == "all" else (languages.of(asked.scope.theme),)
        at_hand = self._known_vector(text)
        pending = self._embed_aside(text, asked.deadline_s) if at_hand is None else None
        look = Lookup(stores, asked, text, spoken)
        vector: Vector | None = None
        try:
            with source.connection(_left_s(end), look.read) as conn:
                look.by_words(conn)
                vector, pending = (at_hand, None) if at_hand is not None else self._look(pending)
                if vector is not None:
                    with conn.pipeline():
                        look.ask_nearest(conn, vector, _left_s(end - _RESERVED * asked.deadline_s))
                    self._check_space(source, look)
                    return _rows(conn, look, asked, page), "hybrid"
                known = _rows(conn, look, asked, page)  # while the endpoint thinks
        except HermesPgvectorError:
            if vector is None or source.stand_in is not None:
                raise
            self.counts["vector_leg_failures"] += 1
            with source.connection(_left_s(end)) as conn:
                return _rows(conn, look, asked, page, by_words=True), "lexical"
        # No connection is held while the endpoint thinks.
        vector = self._await(pending, end - _RESERVED * asked.deadline_s)
        if vector is None:
            return known, "lexical"
        for each in filter(None, (source, source.stand_in)):
            with suppress(HermesPgvectorError):
                return self._by_both(each, look, vector, asked, page, end), "hybrid"
        self.counts["vector_leg_failures"] += 1
        return known, "lexical"

    def _by_both(
        self, source: Source, look: Lookup, vector: Vector, asked: Question, page: _Page, end: float
    ) -> list[Hit]:
        """Run the vector leg in a transaction of its own, and fetch the best rows of both legs."""
        leg = partial(look.ask_nearest, vector=vector, timeout_s=None)
        # How all themes are searched depends on what this role may see, which the transaction's beginning tells.
        everywhere = asked.scope.kind == "all"
        with source.connection(_left_s(end), None if everywhere else leg) as conn:
            if everywhere:
                with conn.pipeline():
                    leg(conn)
            self._check_space(source, look)
            return _rows(conn, look, asked, page)

    def _check_space(self, source: Source, look: Lookup) -> None:
        """Take what the vector leg has found. Raises SpaceChanged where the vectors are those of another model."""
        space = look.take_nearest()
        if self._embedder is not None:
            source.check_space(space, space_of(self._embedder))

    def _known_vector(self, text: str) -> Vector | None:
        """The question's vector where it takes no work: a thread of its own would cost more than to look."""
        embedder = self._embedder
        if not isinstance(embedder, CachedEmbedder) or not self._backend.comparable(space_of(embedder)):
            return None
        return embedder.known_query(text)

    def _embed_aside(self, text: str, timeout_s: float) -> Pending[Vector] | None:
        """Start to embed the question on a thread of its own; None when there is nothing to embed with."""
        embedder = self._embedder
        if embedder is None or not self._backend.comparable(space_of(embedder)):
            return None
        return self._embedding.start(lambda: embedder.embed_query(text, timeout_s=timeout_s))

    def _look(self, pending: Pending[Vector] | None) -> tuple[Vector | None, Pending[Vector] | None]:
        """The vector if it is there already, or in a moment; else what may still give it."""
        if pending is None:
            return None, None
        try:
            return pending.take(time.monotonic() + _PATIENCE_S), None
        except Late:
            return None, pending
        except EmbedderError:
            self.counts["query_embed_failures"] += 1
            return None, None

    def _await(self, pending: Pending[Vector] | None, until: float) -> Vector | None:
        if pending is None:
            return None
        try:
            return pending.take(until)
        except Late:
            self.counts["query_embed_late"] += 1
        except EmbedderError:
            self.counts["query_embed_failures"] += 1
        return None


def _rows(conn: DeadlineConnection, look: Lookup, asked: Question, page: _Page, *, by_words: bool = False) -> list[Hit]:
    hits = look.hits(conn, page.rows, by_words=by_words)
    if not page.around:
        return hits
    shown_from = 0 if page.rows > asked.offset + asked.limit else asked.offset
    return hits[:shown_from] + look.with_surroundings(conn, hits[shown_from:])


def _left_s(end: float) -> float:
    return max(0.01, end - time.monotonic())
