"""One question looked up in the store: both legs, their common order, and the rows of a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain, islice
from typing import NamedTuple

from ..domain.periods import named_periods
from ..domain.types import PAGES_END, Candidate, EmbeddingSpace, Hit, Question, Store
from ..embed.embedder import Vector
from ..store.connection import DeadlineConnection
from ..store.lexical import Reading, ask_size, lexical_lookup
from ..store.pipelining import LookUp, alone, together
from ..store.vector_search import (
    Beside,
    Candidates,
    SentVector,
    as_sent,
    ask_vectors,
    begin_vectors,
    dated,
    fetch,
    neighbours,
)
from ..store.vectors import ask_space
from .fuse import LENDERS, LENT_SHARES, favour, fuse, smooth
from .ranking import settle, statement_of

CANDIDATES = 100  # rows each leg proposes; PAGES_END of them once these are used up
# Rows that are put in their last order together. A page must not depend on how far the one after it reaches.
_BLOCK = 20

Legs = dict[Store, list[Candidate]]


class _Place(NamedTuple):
    """A row in the common order of both legs, before it is fetched; hundreds are made for each question."""

    store: Store
    id: int
    score: float
    coverage: float
    vector_rank: int | None
    word_rank: int | None


class Lookup:
    """What is found for one question. Each method names the connection it works on: between two there may be none."""

    def __init__(self, stores: Sequence[Store], asked: Question, text: str, languages: Sequence[str]) -> None:
        self._stores = stores
        self._asked = asked
        self._text = text
        self._languages = languages
        self._worded: Legs = {}
        self._nearest: Legs = {}
        self._vector: SentVector | None = None
        # What need not be asked twice, once while the endpoint thinks and again by both legs.
        self._known_beside: dict[int, Beside] = {}
        self._around: dict[int, Hit] = {}
        self._periods = named_periods(text, datetime.now(UTC))

    def read(self, conn: DeadlineConnection) -> None:
        """Have the question read, and the rows counted; to be called first."""
        self._reading = Reading(conn, self._text, self._languages)
        self._sizes = {store: ask_size(conn, store, self._asked.scope) for store in self._stores}

    def by_words(self, conn: DeadlineConnection) -> None:
        """Run the leg that needs no vector; to be called next."""
        self._rows_of = {store: size() for store, size in self._sizes.items()}
        self._worded = self._words(conn, CANDIDATES)

    def ask_nearest(self, conn: DeadlineConnection, vector: Vector, timeout_s: float | None) -> None:
        """Send the other leg, each statement of it within `timeout_s`; to be called in a pipeline."""
        self._vector = as_sent(vector)
        begin_vectors(conn, timeout_s=timeout_s)
        self._nearest_of = self._ask_vectors(conn, self._vector, CANDIDATES)
        # The tables cannot change their model before the transaction ends.
        self._space = ask_space(conn)

    def take_nearest(self) -> EmbeddingSpace:
        """Read what `ask_nearest` has found; returns the space of the vectors it has looked at."""
        self._nearest = {store: answer() for store, answer in self._nearest_of.items()}
        return self._space()

    def hits(self, conn: DeadlineConnection, wanted: int, *, by_words: bool = False) -> list[Hit]:
        """The best `wanted` rows, best first, by the legs that were run; `by_words` alone where that is said.

        The first rows are the same however many are wanted, as long as nothing is written.
        """
        vector = None if by_words else self._vector
        first: tuple[Legs, Legs] = ({} if vector is None else self._nearest, self._worded)
        order = self._in_order(conn, *first)
        hits = self._fetched(conn, order, vector, [], wanted)
        if len(hits) < wanted and any(len(leg) >= CANDIDATES for legs in first for leg in legs.values()):
            worded = self._words(conn, PAGES_END)
            further = {} if vector is None else self._ask_vectors(conn, vector, PAGES_END)
            deeper = ({store: answer() for store, answer in further.items()}, worded)
            seen = {(place.store, place.id) for place in order}
            rest = [place for place in self._in_order(conn, *deeper) if (place.store, place.id) not in seen]
            hits = self._fetched(conn, rest, vector, hits, wanted)
        return hits[:wanted]

    def _words(self, conn: DeadlineConnection, depth: int) -> Legs:
        asked = self._asked
        legs = together(
            conn,
            [
                lexical_lookup(store, asked.scope, asked.filters, self._reading, self._rows_of[store], limit=depth)
                for store in self._stores
            ],
        )
        return dict(zip(self._stores, legs, strict=True))

    def _ask_vectors(self, conn: DeadlineConnection, vector: SentVector, depth: int) -> dict[Store, Candidates]:
        asked = self._asked
        return {
            store: ask_vectors(conn, store, asked.scope, asked.filters, vector, limit=depth) for store in self._stores
        }

    def _in_order(self, conn: DeadlineConnection, nearest: Legs, worded: Legs) -> list[_Place]:
        """Every row that the legs propose, and turns beside them, best first."""
        places = together(
            conn, [self._places(store, nearest.get(store, []), worded.get(store, [])) for store in self._stores]
        )
        return sorted(chain.from_iterable(places), key=lambda place: (-place.score, place.store, -place.id))

    def _places(
        self, store: Store, by_vector: Sequence[Candidate], by_words: Sequence[Candidate]
    ) -> LookUp[list[_Place]]:
        scores = dict(fuse(by_vector, by_words))
        # A turn beside a match need not pass a filter, so it lends nothing where there is one.
        if scores and store == "turns" and not self._asked.filters.restrict():
            lenders = sorted(scores, key=lambda row: (-scores[row], -row))[:LENDERS]
            scores = smooth(scores, (yield from self._beside(lenders)))
        if scores and self._periods:
            scores = favour(scores, (yield from dated(store, self._asked.scope, list(scores), self._periods)))
        # A leg's score is at most 1: whoever quotes a phrase wants the rows that hold it, whatever else is close.
        scores |= {each.id: scores[each.id] + each.quoted for each in by_words if each.quoted}
        coverage = {candidate.id: candidate.score for candidate in by_words}
        vector_rank, word_rank = _ranks(by_vector), _ranks(by_words)
        return [
            _Place(store, row, score, coverage.get(row, 0.0), vector_rank.get(row), word_rank.get(row))
            for row, score in scores.items()
        ]

    def _beside(self, turns: Sequence[int]) -> LookUp[dict[int, Beside]]:
        """The turns around each of `turns`; of those that were asked for before, as they were then."""
        unknown = [turn for turn in turns if turn not in self._known_beside]
        if unknown:
            found = yield from neighbours(self._asked.scope, unknown, reach=len(LENT_SHARES))
            self._known_beside |= dict.fromkeys(unknown, ([], [])) | found
        return {turn: self._known_beside[turn] for turn in turns}

    def _fetched(
        self,
        conn: DeadlineConnection,
        places: Sequence[_Place],
        vector: SentVector | None,
        hits: list[Hit],
        wanted: int,
    ) -> list[Hit]:
        """`hits`, and after them the rows at `places`, block by block until there are `wanted`."""
        hits = list(hits)
        said = {statement_of(hit) for hit in hits}
        coming = iter(places)
        while len(hits) < wanted:
            blocks = list(_blocks(coming, -(-(wanted - len(hits)) // _BLOCK)))
            if not blocks:
                break
            rows = self._rows(conn, [place for block in blocks for place in block], vector)
            for block in blocks:
                found = settle([rows[place] for place in block if place in rows])
                fresh = [hit for hit in found if statement_of(hit) not in said]
                hits += fresh
                said.update(map(statement_of, fresh))
        return hits

    def _rows(self, conn: DeadlineConnection, places: Sequence[_Place], vector: SentVector | None) -> dict[_Place, Hit]:
        wanted = {store: {each.id: each for each in places if each.store == store} for store in self._stores}
        wanted = {store: there for store, there in wanted.items() if there}
        found = together(
            conn,
            [fetch(store, self._asked.scope, list(there), vector, self._asked.text) for store, there in wanted.items()],
        )
        rows: dict[_Place, Hit] = {}
        for there, hits in zip(wanted.values(), found, strict=True):
            for row, hit in hits.items():
                place = there[row]
                rows[place] = Hit(
                    place.store,
                    row,
                    hit.theme,
                    hit.kind,
                    hit.session_id,
                    hit.content,
                    hit.at,
                    hit.similarity,
                    hit.nearest_char,
                    hit.first_char,
                    hit.size,
                    place.coverage,
                    place.score,
                    place.vector_rank,
                    place.word_rank,
                )
        return rows

    def with_surroundings(self, conn: DeadlineConnection, hits: Sequence[Hit]) -> list[Hit]:
        """Each turn of `hits` with the turns right before and after it."""
        if not hits:
            return []
        known = alone(conn, self._beside([hit.id for hit in hits]))
        beside = {turn: [*before[:1], *after[:1]] for turn, (before, after) in known.items()}
        wanted = {turn for turns in beside.values() for turn in turns} - self._around.keys()
        if wanted:
            self._around |= alone(conn, fetch("turns", self._asked.scope, sorted(wanted), None, ""))
        return [
            replace(hit, around=tuple(self._around[turn] for turn in beside[hit.id] if turn in self._around))
            for hit in hits
        ]


def _ranks(leg: Sequence[Candidate]) -> dict[int, int]:
    return {candidate.id: rank for rank, candidate in enumerate(leg, 1)}


def _blocks(places: Iterator[_Place], most: int) -> Iterator[list[_Place]]:
    for _ in range(most):
        block = list(islice(places, _BLOCK))
        if not block:
            return
        yield block
