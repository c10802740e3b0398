"""Answers a question from the store: both search legs, reranking where it is wanted, and one deadline for all."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from contextlib import suppress
from datetime import UTC
from functools import partial
from pathlib import Path
from typing import TypeVar

from ..domain.dates import Zone, in_zone
from ..domain.errors import EmbedderError, HermesPgvectorError
from ..domain.function_words import language_of
from ..domain.gil import note_recall
from ..domain.measures import Latencies
from ..domain.session_turns import SessionTurns
from ..domain.text import both_ends
from ..domain.types import Answer, Hit, Question, Scope, Store
from ..embed.cache import CachedEmbedder
from ..embed.embedder import Vector, space_of
from ..embed.instructions import cannot_read, is_for_english
from ..store.backend import Backend
from ..store.pipeline import Pipeline
from ..store.read_routing import ReadSource
from ..store.vector_search import turns_before
from .asked_time import names_no_subject
from .background import Background, result_by
from .bars import Bars, MinSimilarity, Situations
from .follow_up import in_context
from .hot import HotBlock, HotLimits, ask_facts, read_hot
from .questions import found_by, in_turn
from .reranking import Reorderer
from .search import Search

_T = TypeVar("_T")
QUERY_MAX_CHARS = 2000  # of a longer question its beginning and end, half each, one of which says what is asked
_PATIENCE_S = 0.002  # waited with a connection held: returning it to the pool and acquiring another costs about as much
_MAYBE_ENGLISH = ("english", "simple")  # `simple` stems nothing: the texts may be in any language
_RESERVED = 0.3  # share of a deadline kept free after the embedding, and after a vector leg that can be dropped


# Searches of one message: by scope, stores, question, and whether it is searched as it is written.
Begun = dict[tuple[Scope, tuple[Store, ...], str, bool], Search]


class Searcher:
    """Recall over one store. Safe to call from several threads.

    `zone` is the user's: days that a question names begin as there, and rows are dated as there. In the
    file `measured` is what was measured of the embedding model.
    """

    def __init__(
        self,
        backend: Backend,
        embedder: CachedEmbedder | None,
        latencies: Latencies,
        reorderer: Reorderer | None = None,
        said: SessionTurns | None = None,
        zone: Zone = UTC,
        measured: Path | None = None,
    ) -> None:
        self.zone = zone
        self._said = said or SessionTurns()
        self._latencies = latencies
        self._backend = backend
        self._embedder = embedder
        self._bars = Bars(embedder, measured) if embedder is not None else None
        self._situations = Situations(embedder) if embedder is not None else None
        self._reorderer = reorderer
        self._background = Background("hermes-pgvector-embed")
        self.counts: Counter[str] = Counter()

    @property
    def reranks_prefetch(self) -> bool:
        """Return whether prefetched rows are reranked, too."""
        return self._reorderer is not None and self._reorderer.prefetch

    def load_reranker(self) -> None:
        """Load the bundled cross-encoder now, for a process that asks only once. Raises EmbedderError."""
        if self._reorderer is not None:
            self._reorderer.load()

    def recall(self, stores: Sequence[Store], asked: Question, begun: Begun | None = None) -> Answer:
        """Return the best rows of `stores` for a question, best first.

        `begun` gets the searches that this answer takes. Given again with the same question, for more rows, it lets
        them go on where they ended; such an answer has no procedures.

        Raises StoreUnavailable or DeadlineExceeded within `deadline_s`, if not even the lexical leg could run. If the
        embedding or the vector leg is late or fails, the lexical leg decides alone; if the cross-encoder fails, the
        order of the search stands.
        """
        note_recall()
        started = time.monotonic()
        questions = in_context(asked.text, asked.context, asked.reply)
        begun = {} if begun is None else begun
        alone = questions == (asked.text,)
        found = self._answer(stores, asked, begun) if alone else self._answers(stores, asked, questions, begun)
        self.counts["searches"] += 1
        self._latencies.add("search", time.monotonic() - started)
        page = self._dated(found.hits[asked.offset : asked.offset + asked.limit])
        return found._replace(hits=page, procedures=self._dated(found.procedures))

    def _answers(self, stores: Sequence[Store], asked: Question, questions: Sequence[str], begun: Begun) -> Answer:
        """Return the answers to the questions of a message as one. Raises as `recall` if not even the first has one."""
        end = time.monotonic() + asked.deadline_s
        for text in questions[1:]:
            self._embed(text, asked.deadline_s)  # so that its vector is there when it is its turn
        first, *others = questions
        found = [found_by(first, self._answer(stores, asked._replace(text=first), begun))]
        for text in others:
            with suppress(HermesPgvectorError):
                left = asked._replace(text=text, deadline_s=_left_s(end))
                found.append(found_by(text, self._answer(stores, left, begun)))
        return in_turn(found) if others else found[0]

    def _answer(self, stores: Sequence[Store], asked: Question, begun: Begun) -> Answer:
        """Return the rows from the best one to the end of the page that is asked for.

        A word that looks misspelt may be the right one for what the rows say in other words. So such a question is
        also searched by meaning as it is written; by words it finds no other rows.
        """
        end = time.monotonic() + asked.deadline_s
        found = self._best(stores, asked, begun)
        if found.mode == "hybrid" and any(hit.asked for hit in found.hits):
            with suppress(HermesPgvectorError):
                left = asked._replace(as_written=True, begins_task=False, deadline_s=_left_s(end))
                return in_turn([found, self._best(stores, left, begun)])
        return found

    def _best(self, stores: Sequence[Store], asked: Question, begun: Begun) -> Answer:
        """Return these rows of one search."""
        end = time.monotonic() + asked.deadline_s
        text = both_ends(asked.text, QUERY_MAX_CHARS)
        reorderer = self._asked_to_rerank(asked, text)
        wanted = max(asked.offset + asked.limit, reorderer.candidates if reorderer else 0)
        known = asked.scope, tuple(stores), text, asked.as_written
        search = begun.get(known)
        if search is None:
            search, found = self._found(stores, asked, text, wanted, end)
            if found.mode == "hybrid":
                begun[known] = search
        else:
            found = self._further(search, asked, text, wanted, end)
        hits = self._standing(found.hits)
        reranked = False
        if reorderer is not None:
            hits, reranked = reorderer.reorder(hits[0].asked or text if hits else text, hits, end)
        return found._replace(hits=tuple(hits[: asked.offset + asked.limit]), reranked=reranked)

    def _asked_to_rerank(self, asked: Question, text: str) -> Reorderer | None:
        """Return the reranker, or None if it is off, the page lies beyond its candidates, or it lacks the language."""
        reorderer = self._reorderer
        if reorderer is None or not asked.rerank or asked.offset >= reorderer.candidates:
            return None
        if names_no_subject(text, asked.filters):  # no text answers it better than another one of that time
            return None
        return reorderer if reorderer.reads(text, self._backend.languages.spoken_in(asked.scope)) else None

    def begin_bars(self) -> None:
        """Start measuring the thresholds of `bars` in the background, so that the first question need not wait."""
        if self._bars is not None:
            self._bars.begin()

    def bars(self, text: str, until: float, themes: Collection[str] = ()) -> MinSimilarity | None:
        """Return the similarity from which a row is worth showing, for a question that was asked before.

        Return None if its vector is not cached, if the model could not be measured by the moment `until` (monotonic),
        or if the model is for English and the question in another script: any two texts in it look alike to the model.
        In another language they look somewhat alike, so what answers a question in one must be nearer, and the memories
        of `themes` in one as near as turns.
        """
        if self._embedder is None or self._bars is None or cannot_read(self._embedder.model, text):
            return None
        vector = self._embedder.known_query(both_ends(text, QUERY_MAX_CHARS))
        near = None if vector is None else self._bars.of(vector, until)
        if near is not None and is_for_english(self._embedder.model) and language_of(text):
            near = near.of_other_question
        return near.of_other_language if near is not None and self._are_foreign(themes) else near

    def _are_foreign(self, themes: Collection[str]) -> bool:
        """Return whether the model is for English, and all of `themes` are in other languages."""
        if self._embedder is None or not themes or not is_for_english(self._embedder.model):
            return False
        return not any(self._backend.languages.of(theme) in _MAYBE_ENGLISH for theme in themes)

    def with_similarity(self, procedures: Sequence[Hit], text: str, until: float) -> list[Hit]:
        """Return the procedures, each with the similarity of its situation to a question that was asked before.

        The similarity is None where it is not known by the moment `until` (monotonic).
        """
        if self._embedder is None or self._situations is None:
            return list(procedures)
        vector = self._embedder.known_query(both_ends(text, QUERY_MAX_CHARS))
        if vector is None:
            return list(procedures)
        known = self._situations.similarities(vector, [hit.when for hit in procedures], until)
        return [hit._replace(similarity=known.get(hit.when)) for hit in procedures]

    def before_session(
        self, theme: str, session_id: str, parent_session_id: str, *, limit: int, sessions: int, deadline_s: float
    ) -> list[Hit]:
        """Return the last turns of the sessions before this one, see `turns_before`.

        Raises StoreUnavailable or DeadlineExceeded within `deadline_s`.
        """
        end = time.monotonic() + deadline_s

        def ask(source: ReadSource) -> list[Hit]:
            pipe = Pipeline()
            with source.reading(_left_s(end), pipe):
                return turns_before(pipe, theme, session_id, parent_session_id, limit=limit, sessions=sessions)

        return list(self._dated(self._standing(self._first_answer(theme, ask))))

    def hot(self, memories: str, turns: str, limits: HotLimits, *, deadline_s: float) -> HotBlock:
        """Return the hot block of the theme `memories`; the turns of the theme `turns` tell which scopes are active.

        Raises StoreUnavailable or DeadlineExceeded within `deadline_s`.
        """
        end = time.monotonic() + deadline_s
        language = self._backend.languages.of(turns)

        def ask(source: ReadSource) -> HotBlock:
            pipe = Pipeline()
            facts = ask_facts(pipe, memories)
            with source.reading(_left_s(end), pipe):
                return read_hot(pipe, facts, turns, language, limits)

        return self._first_answer(memories, ask)

    def _rank_of_word(self, word: str) -> int | None:
        return None if self._embedder is None else self._embedder.rank_of_word(word)

    def _embed(self, text: str, timeout_s: float) -> Future[Vector] | None:
        """Embed the question in the background. Return None without a usable embedder or a free thread."""
        embedder = self._embedder
        if embedder is None or not self._backend.comparable(space_of(embedder)):
            return None
        known = embedder.known_query(text)
        if known is None:
            return self._background.submit(partial(embedder.embed_query, text, timeout_s=timeout_s))
        future: Future[Vector] = Future()  # a thread would cost more than the look-up
        future.set_result(known)
        return future

    def _found(
        self, stores: Sequence[Store], asked: Question, text: str, wanted: int, end: float
    ) -> tuple[Search, Answer]:
        """Return what the first server finds that answers, by which legs, and the search that found it."""
        embedding = self._embed(text, asked.deadline_s)
        spoken = self._backend.languages.spoken_in(asked.scope)

        def ask(source: ReadSource) -> tuple[Search, Answer]:
            search = Search(stores, asked, text, spoken, self.zone, rank_of_word=self._rank_of_word)
            hits, mode = self._search(source, search, wanted, embedding, end)
            return search, _answer_of(search, text, hits, mode, search.procedures)

        return self._first_answer(_theme_of(asked), ask)

    def _further(self, search: Search, asked: Question, text: str, wanted: int, end: float) -> Answer:
        """Return more of what a search by both legs finds, from the first server that answers."""

        def ask(source: ReadSource) -> Answer:
            pipe = Pipeline()
            with source.reading(_left_s(end), pipe):
                hits = search.further_page(pipe, wanted)
            return _answer_of(search, text, hits, "hybrid")

        return self._first_answer(_theme_of(asked), ask)

    def _first_answer(self, theme: str | None, ask: Callable[[ReadSource], _T]) -> _T:
        """Query the servers for a theme (None: for all themes) in order, and return the first answer."""
        failure: HermesPgvectorError | None = None
        for source in self._backend.sources(theme):
            try:
                return ask(source)
            except HermesPgvectorError as exc:
                failure = exc
        assert failure is not None, "there is always a server to ask"
        raise failure

    def _search(
        self, source: ReadSource, search: Search, wanted: int, embedding: Future[Vector] | None, end: float
    ) -> tuple[list[Hit], str]:
        """Search by words and by vector: on one connection if the vector arrives in a moment, else on two."""
        vector_end = end - _RESERVED * search.asked.deadline_s
        vector: Vector | None = None
        pipe, text = Pipeline(), search.text
        search.ask_question(pipe)
        try:
            with source.reading(_left_s(end), pipe):
                search.by_words(pipe)
                if search.text != text:  # the vector of a misspelt word is that of another one
                    embedding = self._embed(search.text, _left_s(end))
                vector = _within(embedding, _PATIENCE_S)
                if vector is None:
                    # While the endpoint computes the vector, look up what is needed in any case.
                    search.look_beside(pipe)
                    vector = _within(embedding, 0.0)
                if vector is not None:
                    pipe.statement_s = _left_s(vector_end)
                    search.ask_vectors(pipe, vector)
                    self._check_space(source, search)
                    return search.page(pipe, wanted), "hybrid"
                by_words = search.page(pipe, wanted)
        except HermesPgvectorError:
            if vector is None or source.stand_in is not None:
                raise
            self.counts["vector_leg_failures"] += 1
            pipe = Pipeline()
            with source.reading(_left_s(end), pipe):
                return search.page(pipe, wanted, by_words=True), "lexical"
        # No connection is held while the endpoint computes the vector.
        vector = self._in_time(embedding, vector_end)
        if vector is None:
            return by_words, "lexical"
        servers: list[ReadSource] = [source, *filter(None, [source.stand_in])]
        for each in servers:
            with suppress(HermesPgvectorError):
                return self._by_both(each, search, wanted, vector, end), "hybrid"
        self.counts["vector_leg_failures"] += 1
        return by_words, "lexical"

    def _by_both(self, source: ReadSource, search: Search, wanted: int, vector: Vector, end: float) -> list[Hit]:
        """Run the vector leg on a connection of its own, and fetch the best rows of both legs."""
        pipe = Pipeline()
        # How all themes are searched depends on what this role may see, which only the first round trip tells.
        everywhere = search.asked.scope.kind == "all"
        if not everywhere:
            search.ask_vectors(pipe, vector)
        with source.reading(_left_s(end), pipe):
            if everywhere:
                search.ask_vectors(pipe, vector)
            self._check_space(source, search)
            return search.page(pipe, wanted)

    def _check_space(self, source: ReadSource, search: Search) -> None:
        """Read the results of the vector leg. Raises SpaceChanged if the vectors are another model's."""
        space = search.by_vectors()
        if self._embedder is not None:
            source.check_space(space, space_of(self._embedder))

    def _in_time(self, embedding: Future[Vector] | None, until: float) -> Vector | None:
        """Return the question's vector if it is ready by `until` (monotonic); else count that it was late or failed."""
        if embedding is None:
            return None
        try:
            return result_by(embedding, until)
        except TimeoutError:
            self.counts["query_embed_late"] += 1
        except EmbedderError:
            self.counts["query_embed_failures"] += 1
        return None

    def _dated(self, hits: Sequence[Hit]) -> tuple[Hit, ...]:
        """Return the hits with their times in the user's zone."""
        if self.zone is UTC:
            return tuple(hits)
        return tuple(hit._replace(at=in_zone(hit.at, self.zone), around=self._dated(hit.around)) for hit in hits)

    def _standing(self, hits: Sequence[Hit]) -> list[Hit]:
        """Return the hits without the turns that the user took back, which Postgres may not know yet."""
        kept = []
        for hit in hits:
            if hit.session_id is None or not self._said.is_undone((hit.theme, hit.session_id), hit.at):
                around = tuple(self._standing(hit.around)) if hit.around else ()
                kept.append(hit if around == hit.around else hit._replace(around=around))
        return kept


def _answer_of(search: Search, text: str, hits: Sequence[Hit], mode: str, procedures: tuple[Hit, ...] = ()) -> Answer:
    """Return what a search has found for the question `text`, of which it may have corrected words."""
    found = Answer(tuple(hits), mode, procedures=procedures, held=search.held)
    return found if search.text == text else found_by(search.text, found)


def _theme_of(asked: Question) -> str | None:
    return None if asked.scope.kind == "all" else asked.scope.theme


def _within(embedding: Future[Vector] | None, wait_s: float) -> Vector | None:
    """Return the question's vector if it is there within `wait_s`."""
    if embedding is not None:
        with suppress(TimeoutError, EmbedderError):
            return result_by(embedding, time.monotonic() + wait_s)
    return None


def _left_s(end: float) -> float:
    return max(0.01, end - time.monotonic())
