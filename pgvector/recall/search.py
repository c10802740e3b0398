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
from ..store.lexical import LexicalSearch, QuestionReader, ask_size, search_words, size_of
from ..store.pipeline import Pipeline, Rows
from ..store.vector_search import (
    SentVector,
    VectorSearch,
    as_sent,
    ask_dated,
    ask_hits,
    ask_neighbours,
    begin_vectors,
)
from ..store.vectors import ask_space, space_in
from .fuse import LENDERS, LENT_SHARES, Beside, favour, fuse, smooth
from .ranking import settle, statement_of

CANDIDATES = 100  # rows each leg proposes; PAGES_END of them once these are used up
# Rows that are put in their last order together. A page must not depend on how far the one after it reaches.
_BLOCK = 20

Legs = dict[Store, list[Candidate]]


class _Ranked(NamedTuple):
    """A row in the common order of both legs, before it is fetched; hundreds are made for each question."""

    store: Store
    id: int
    score: float
    coverage: float
    vector_rank: int | None
    word_rank: int | None


class Search:
    """What one server finds for one question. Each method names the transaction it works in: there may be two.

    `wanted` counts rows from the best one; a cross-encoder wants more of them than are shown.
    """

    def __init__(
        self, stores: Sequence[Store], asked: Question, text: str, languages: Sequence[str], wanted: int
    ) -> None:
        self.asked = asked
        self._stores = stores
        self._text = text
        self._languages = languages
        self._wanted = wanted
        self._worded: Legs = {}
        self._nearest: Legs = {}
        self._vector: SentVector | None = None
        # What need not be asked twice, once while the endpoint thinks and again by both legs.
        self._known_beside: dict[int, Beside] = {}
        self._around: dict[int, Hit] = {}
        self._periods = named_periods(text, datetime.now(UTC))

    def ask_question(self, pipe: Pipeline) -> None:
        """Have the question read, and the rows counted; to be called first."""
        self._question = QuestionReader(pipe, self._text, self._languages)
        self._counted = {store: ask_size(pipe, store, self.asked.scope) for store in self._stores}

    def by_words(self, pipe: Pipeline) -> None:
        """Run the leg that needs no vector; to be called next."""
        self._sizes = {store: size_of(rows) for store, rows in self._counted.items()}
        self._worded = self._search_words(pipe, CANDIDATES)

    def ask_vectors(self, pipe: Pipeline, vector: Vector, timeout_s: float | None) -> None:
        """Ask for the other leg, each statement of it within `timeout_s`."""
        self._vector = as_sent(vector)
        begin_vectors(pipe, timeout_s=timeout_s)
        self._by_vectors = self._search_vectors(pipe, self._vector, CANDIDATES)
        # The tables cannot change their model before the transaction ends.
        self._space = ask_space(pipe)

    def by_vectors(self) -> EmbeddingSpace:
        """Read what `ask_vectors` has asked for; returns the space of the vectors that were looked at."""
        self._nearest = _read(self._by_vectors)
        return space_in(self._space)

    def page(self, pipe: Pipeline, *, by_words: bool = False) -> list[Hit]:
        """Return the rows wanted, best first, by the legs that were run; `by_words` alone where that is said.

        The first rows are the same however many are wanted, as long as nothing is written.
        """
        hits = self._best(pipe, None if by_words else self._vector)[: self._wanted]
        if not self.asked.around:
            return hits
        shown_from = 0 if self._wanted > self.asked.offset + self.asked.limit else self.asked.offset
        return hits[:shown_from] + self._with_surroundings(pipe, hits[shown_from:])

    def _best(self, pipe: Pipeline, vector: SentVector | None) -> list[Hit]:
        nearest = {} if vector is None else self._nearest
        order = self._ranked(pipe, nearest, self._worded)
        hits = self._fetched(pipe, order, vector, [])
        legs = [*nearest.values(), *self._worded.values()]
        if len(hits) >= self._wanted or all(len(leg) < CANDIDATES for leg in legs):
            return hits
        worded, nearest = self._search_words(pipe, PAGES_END), {}
        if vector is not None:
            nearest = _read(self._search_vectors(pipe, vector, PAGES_END))
        seen = {(row.store, row.id) for row in order}
        rest = [row for row in self._ranked(pipe, nearest, worded) if (row.store, row.id) not in seen]
        return self._fetched(pipe, rest, vector, hits)

    def _search_words(self, pipe: Pipeline, depth: int) -> Legs:
        scope, filters = self.asked.scope, self.asked.filters
        searches = [
            LexicalSearch(pipe, store, scope, filters, self._question, self._sizes[store], limit=depth)
            for store in self._stores
        ]
        return dict(zip(self._stores, search_words(searches), strict=True))

    def _search_vectors(self, pipe: Pipeline, vector: SentVector, depth: int) -> dict[Store, VectorSearch]:
        scope, filters = self.asked.scope, self.asked.filters
        return {store: VectorSearch(pipe, store, scope, filters, vector, limit=depth) for store in self._stores}

    def _ranked(self, pipe: Pipeline, nearest: Legs, worded: Legs) -> list[_Ranked]:
        """Return every row that the legs propose, and turns beside them, best first."""
        scores = {store: fuse(nearest.get(store, []), worded.get(store, [])) for store in self._stores}
        # A turn beside a match need not pass a filter, so it lends nothing where there is one.
        if scores.get("turns") and not self.asked.filters.restrict():
            turns = scores["turns"]
            lenders = sorted(turns, key=lambda row: (-turns[row], -row))[:LENDERS]
            dated = self._ask_dated(pipe, {store: found for store, found in scores.items() if store != "turns"})
            scores["turns"] = smooth(turns, self._beside(pipe, lenders))
            dated |= self._ask_dated(pipe, {"turns": scores["turns"]})
        else:
            dated = self._ask_dated(pipe, scores)
        for store, rows in dated.items():
            scores[store] = favour(scores[store], {row.id for row in rows})
        ranked = [
            row
            for store in self._stores
            for row in _rows_of(store, scores[store], nearest.get(store, []), worded.get(store, []))
        ]
        return sorted(ranked, key=lambda row: (-row.score, row.store, -row.id))

    def _ask_dated(self, pipe: Pipeline, scores: dict[Store, dict[int, float]]) -> dict[Store, Rows]:
        """Ask which of the rows were written at a time that the question names, if it names any."""
        return {
            store: ask_dated(pipe, store, self.asked.scope, list(found), self._periods)
            for store, found in scores.items()
            if found and self._periods
        }

    def _beside(self, pipe: Pipeline, turns: Sequence[int]) -> dict[int, Beside]:
        """Return the turns around each of `turns`; of those that were asked for before, as they were then."""
        unknown = [turn for turn in turns if turn not in self._known_beside]
        if unknown:
            rows = ask_neighbours(pipe, self.asked.scope, unknown, reach=len(LENT_SHARES))
            found = {row.id: Beside(row.before, row.after, row.brevity) for row in rows}
            self._known_beside |= dict.fromkeys(unknown, Beside((), ())) | found
        return {turn: self._known_beside[turn] for turn in turns}

    def _fetched(
        self,
        pipe: Pipeline,
        ranked: Sequence[_Ranked],
        vector: SentVector | None,
        hits: list[Hit],
    ) -> list[Hit]:
        """Return `hits`, and after them the ranked rows, block by block until there are as many as wanted."""
        hits = list(hits)
        said = {statement_of(hit) for hit in hits}
        coming = iter(ranked)
        while len(hits) < self._wanted:
            blocks = list(_blocks(coming, -(-(self._wanted - len(hits)) // _BLOCK)))
            if not blocks:
                break
            fetched = self._fetch(pipe, list(chain.from_iterable(blocks)), vector)
            for block in blocks:
                for hit in settle([fetched[row] for row in block if row in fetched]):
                    if statement_of(hit) not in said:
                        hits.append(hit)
                        said.add(statement_of(hit))
        return hits

    def _fetch(self, pipe: Pipeline, ranked: Sequence[_Ranked], vector: SentVector | None) -> dict[_Ranked, Hit]:
        wanted = {store: {row.id: row for row in ranked if row.store == store} for store in self._stores}
        asked = {
            store: ask_hits(pipe, store, self.asked.scope, list(rows), vector, self.asked.text)
            for store, rows in wanted.items()
            if rows
        }
        fetched: dict[_Ranked, Hit] = {}
        for store, found in asked.items():
            for columns in found:
                row = wanted[store][columns.id]
                fetched[row] = replace(
                    Hit(store, *columns),
                    coverage=row.coverage,
                    score=row.score,
                    vector_rank=row.vector_rank,
                    word_rank=row.word_rank,
                )
        return fetched

    def _with_surroundings(self, pipe: Pipeline, hits: Sequence[Hit]) -> list[Hit]:
        """Return each turn of `hits` with the turns right before and after it."""
        known = self._beside(pipe, [hit.id for hit in hits if hit.store == "turns"])
        beside = {turn: [*near.before[:1], *near.after[:1]] for turn, near in known.items()}
        wanted = set(chain.from_iterable(beside.values())) - self._around.keys()
        if wanted:
            rows = ask_hits(pipe, "turns", self.asked.scope, sorted(wanted), None, "")
            self._around |= {row.id: Hit("turns", *row) for row in rows}
        around = {turn: tuple(map(self._around.get, ids)) for turn, ids in beside.items()}
        return [
            replace(hit, around=tuple(filter(None, around[hit.id]))) if hit.store == "turns" else hit for hit in hits
        ]


def _read(searches: dict[Store, VectorSearch]) -> Legs:
    return {store: search.candidates() for store, search in searches.items()}


def _rows_of(
    store: Store, scores: dict[int, float], by_vector: Sequence[Candidate], by_words: Sequence[Candidate]
) -> list[_Ranked]:
    """Return the scored rows with what each leg says of them."""
    # A leg's score is at most 1: whoever quotes a phrase wants the rows that hold it, whatever else is close.
    scores = scores | {each.id: scores[each.id] + each.quoted for each in by_words if each.quoted}
    coverage = {candidate.id: candidate.coverage for candidate in by_words}
    vector_rank, word_rank = _ranks(by_vector), _ranks(by_words)
    return [
        _Ranked(store, row, score, coverage.get(row, 0.0), vector_rank.get(row), word_rank.get(row))
        for row, score in scores.items()
    ]


def _ranks(leg: Sequence[Candidate]) -> dict[int, int]:
    return {candidate.id: rank for rank, candidate in enumerate(leg, 1)}


def _blocks(ranked: Iterator[_Ranked], most: int) -> Iterator[list[_Ranked]]:
    for _ in range(most):
        block = list(islice(ranked, _BLOCK))
        if not block:
            return
        yield block
