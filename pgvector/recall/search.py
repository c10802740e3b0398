"""The search of the store for one question: both legs, their fused order, and the rows of a page."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain, islice
from typing import Any, NamedTuple

from ..domain.dates import Zone, in_zone
from ..domain.times_ahead import with_names
from ..domain.types import PAGES_END, Candidate, EmbeddingSpace, Hit, Question, Store
from ..embed.embedder import Vector
from ..embed.instructions import cannot_read
from ..store.lexical import EXACT_ROWS, LexicalSearch, QuestionReader, ask_size, search_deeper, search_words, size_of
from ..store.pipeline import Pipeline, Rows
from ..store.spelling import common_words_meant, respelt
from ..store.vector_search import (
    Beside,
    Lookup,
    SentVector,
    VectorSearch,
    around,
    as_sent,
    ask_held,
    ask_hits,
    ask_neighbours,
    ask_own_graph,
    ask_procedures,
    ask_surroundings,
    procedures_in,
)
from ..store.vectors import ask_space, space_in
from .asked_time import AskedTime
from .fuse import FOREIGN_WEIGHT, LENDERS, LENT_SHARES, fuse, smooth, trust_in_words
from .ranking import StatementKey, settle, weighed

CANDIDATES = 100  # rows each leg proposes; PAGES_END of them once these are used up
# Rows are put into their final order in blocks of this size, so that a page does not depend on the pages after it.
_BLOCK = 20

Legs = dict[Store, list[Candidate]]


class _Ranked(NamedTuple):
    """A row in the common order of both legs, before it is fetched."""

    store: Store
    id: int
    score: float
    coverage: float
    vector_rank: int | None
    word_rank: int | None


class _Order:
    """All rows that the legs propose and the turns beside them, best first. There are hundreds, and few are read."""

    def __init__(self, scores: dict[Store, dict[int, float]], nearest: Legs, worded: Legs) -> None:
        self._told = {store: _told_of(nearest.get(store, []), worded.get(store, [])) for store in scores}
        self._places = sorted((-score, store, -row) for store, rows in scores.items() for row, score in rows.items())

    def __iter__(self) -> Iterator[_Ranked]:
        for score, store, row in self._places:
            coverage, vector_rank, word_rank = self._told[store]
            yield _Ranked(store, -row, -score, coverage.get(-row, 0.0), vector_rank.get(-row), word_rank.get(-row))


class Search:
    """The search of one server for one question. Each method is given its pipeline, as there may be two.

    Once the question's vector is there, it takes two round trips, or more if so many of the best rows repeat each other
    that further ones are needed, or if the question names a time. `text` is the question, once the words were searched
    for without what is misspelt in it; `rank_of_word` tells how common a word is. `held`: the turns that the question
    leaves out, and that belong to the first results.
    """

    def __init__(
        self,
        stores: Sequence[Store],
        asked: Question,
        text: str,
        languages: Sequence[str],
        zone: Zone,
        *,
        rank_of_word: Callable[[str], int | None],
    ) -> None:
        self.asked = asked
        self._rank_of_word = rank_of_word
        self._stores = stores
        self.text = text
        self._languages = languages
        self._worded: Legs = {}
        self._nearest: Legs = {}
        self._own_graphs: set[Store] = set()
        self._vector: SentVector | None = None
        self._vector_weight: float | None = None
        # Kept so that nothing is looked up twice: while the endpoint computes the vector, and again for both legs.
        self._known_beside: dict[int, Beside] = {}
        self._around: dict[int, tuple[Hit, ...]] = {}
        self._now = datetime.now(UTC)
        self._zone = zone
        self._time = AskedTime(asked, text, self._now, zone)
        self._asked_procedures: Rows | None = None
        self.procedures: tuple[Hit, ...] = ()
        self._asked_held: Rows | None = None
        self._held: Collection[int] = ()
        self.held: tuple[Hit, ...] = ()
        self._hits: list[Hit] = []
        self._said: set[StatementKey] = set()

    def ask_question(self, pipe: Pipeline) -> None:
        """Queue the statements that read the question and count the rows; to be called first."""
        named = with_names(self.text, in_zone(self._now, self._zone).date())
        as_written = self.asked.as_written or named != self.text
        self._question = QuestionReader(pipe, named, self._languages, as_written=as_written)
        self._counted = {store: ask_size(pipe, store, self.asked.scope) for store in self._stores}
        if self.asked.begins_task and "memories" in self._stores:
            self._asked_procedures = ask_procedures(pipe, self.asked.scope)
        if self.asked.without and "turns" in self._stores:
            self._asked_held = ask_held(pipe, self.asked.scope, self.asked.without)

    def by_words(self, pipe: Pipeline) -> None:
        """Run the lexical leg, which needs no vector; to be called next."""
        self._read_question()
        # Only a theme this large may have an index of its own; the check travels with the lexical statements.
        large = [
            store for store, size in self._sizes.items() if size.rows > EXACT_ROWS and self.asked.scope.kind == "theme"
        ]
        graphs = {store: ask_own_graph(pipe, store, self.asked.scope.theme) for store in large}
        self._worded = self._search_words(pipe)
        if self._meant:  # a time may be misspelt as well
            self.text = respelt(self.text, self._meant)
            self._time = AskedTime(self.asked, self.text, self._now, self._zone)
        self._own_graphs = {store for store, asked in graphs.items() if any(row.found for row in asked)}

    def _read_question(self) -> None:
        """Read what `ask_question` asked for."""
        self._sizes = {store: size_of(rows) for store, rows in self._counted.items()}
        self._held = {row.id for row in self._asked_held or ()}
        if self._asked_procedures is not None:
            self.procedures = procedures_in(self._asked_procedures, set(self._question.words.terms.values()))

    def look_beside(self, pipe: Pipeline) -> None:
        """Look up the turns beside the best lexical matches."""
        self._beside(pipe, self._lenders(self._scores({}, self._worded)))

    def ask_vectors(self, pipe: Pipeline, vector: Vector) -> None:
        """Ask for the vector leg.

        This includes the turns beside those that may lend them part of their score: the best of each leg, or of both.
        """
        self._vector = as_sent(vector)
        best = self._lenders(self._scores({}, self._worded))
        self._by_words_beside = self._ask_beside(pipe, best)
        known = self._known_beside.keys() | set(best)
        others = {row.id for row in self._worded.get("turns", ())} - known
        lookup = Lookup(LENDERS, others, known, len(LENT_SHARES)) if self._may_lend else None
        self._by_vectors = self._search_vectors(pipe, self._vector, CANDIDATES, lookup)
        # In the same transaction, before whose end the tables cannot change to another model.
        self._space = ask_space(pipe)

    def by_vectors(self) -> EmbeddingSpace:
        """Read what `ask_vectors` asked for, and return the embedding space of the vectors that were compared."""
        self._nearest = _read(self._by_vectors)
        self._note_beside(*self._by_words_beside)
        for search in self._by_vectors.values():
            self._known_beside |= search.beside
        space = space_in(self._space)
        if cannot_read(space.model, self.text):
            self._vector_weight = FOREIGN_WEIGHT
        return space

    def page(self, pipe: Pipeline, wanted: int, *, by_words: bool = False) -> list[Hit]:
        """Return the `wanted` best rows by the legs that were run, or with `by_words` by the lexical leg alone.

        The first rows are the same however many are wanted, as long as nothing is written.
        """
        if by_words:
            self._vector, self._nearest = None, {}
        self._order = self._ranked(pipe, self._nearest, self._worded)
        self._coming = self._thinned(self._order)
        self._held_first = sum(map(self._is_held, islice(self._order, _BLOCK)))
        self._may_go_deeper = any(len(leg) >= CANDIDATES for leg in (*self._nearest.values(), *self._worded.values()))
        self._hits, self._said, self.held = [], set(), ()
        return self.further_page(pipe, wanted)

    def further_page(self, pipe: Pipeline, wanted: int) -> list[Hit]:
        """Return the `wanted` best rows like the call of `page` before, but look up only those that it did not."""
        self._fetch_up_to(pipe, wanted)
        if len(self._hits) < wanted and self._may_go_deeper:
            self._go_deeper(pipe)
            self._fetch_up_to(pipe, wanted)
        return self._hits[:wanted]

    def _go_deeper(self, pipe: Pipeline) -> None:
        """Have each leg propose more rows, behind those of before."""
        vectors = {} if self._vector is None else self._search_vectors(pipe, self._vector, PAGES_END)
        worded = dict(zip(self._stores, search_deeper(self._by_word, pipe, PAGES_END), strict=True))
        seen = {(row.store, row.id) for row in self._order}
        order = self._ranked(pipe, _read(vectors), worded)
        self._coming = self._thinned(row for row in order if (row.store, row.id) not in seen)
        self._may_go_deeper = False

    def _search_words(self, pipe: Pipeline) -> Legs:
        scope, filters = self.asked.scope, self.asked.filters
        self._by_word = searches = [
            LexicalSearch(pipe, store, scope, filters, self._question, self._sizes[store].rows, limit=CANDIDATES)
            for store in self._stores
        ]
        found = dict(zip(self._stores, search_words(searches), strict=True))
        self._rows = {store: search.rows for store, search in zip(self._stores, searches, strict=True)}
        unheld = frozenset.intersection(*(search.unheld for search in searches))
        of_theme = {
            wrote: meant
            for search in searches
            for wrote, meant in search.meant.items()
            if wrote in unheld and not self._is_no_word(meant, wrote)
        }
        self._meant = common_words_meant(self._question.text, unheld - of_theme.keys(), self._rank_of_word) | of_theme
        return found

    def _is_no_word(self, meant: str, wrote: str) -> bool:
        """Return whether a word that is known is taken for one that is not, as "application" beside "applying"."""
        return self._rank_of_word(wrote) is not None and self._rank_of_word(meant) is None

    def _search_vectors(
        self, pipe: Pipeline, vector: SentVector, depth: int, lookup: Lookup | None = None
    ) -> dict[Store, VectorSearch]:
        scope, filters = self.asked.scope, self.asked.filters
        return {
            store: VectorSearch(
                pipe,
                store,
                scope,
                filters,
                vector,
                limit=depth,
                lookup=lookup,
                own_graph=store in self._own_graphs,
                rows=self._rows[store],
                parts=self._sizes[store].parts,
            )
            for store in self._stores
        }

    @property
    def _may_lend(self) -> bool:
        """Return whether turns lend part of their score: not with a filter, which a turn beside a match may fail."""
        return not self.asked.filters.restrict()

    def _scores(self, nearest: Legs, worded: Legs) -> dict[Store, dict[int, float]]:
        # A leg with fewer candidates holds all rows of its store, of which the last may be near as well.
        far = min((row.score for leg in nearest.values() for row in leg), default=None)
        return {
            store: fuse(
                leg := nearest.get(store, []),
                words := worded.get(store, []),
                vector_weight=self._vector_weight,
                far=far if len(leg) < CANDIDATES else None,
                trust=trust_in_words(words, self._question.words.number),
            )
            for store in self._stores
        }

    def _lenders(self, scores: dict[Store, dict[int, float]]) -> list[int]:
        """Return the turns that lend part of their score, best first."""
        turns = scores.get("turns", {}) if self._may_lend else {}
        return sorted(turns, key=lambda row: (-turns[row], -row))[:LENDERS]

    def _ranked(self, pipe: Pipeline, nearest: Legs, worded: Legs) -> _Order:
        scores = self._scores(nearest, worded)
        if lenders := self._lenders(scores):
            scores["turns"] = smooth(scores["turns"], self._beside(pipe, lenders))
        scores = self._time.weighed(pipe, scores)
        for store, scored in scores.items():
            # A leg's score is at most 1, so rows with a quoted phrase come first: whoever quotes one wants these rows.
            scored |= {each.id: scored[each.id] + each.quoted for each in worded.get(store, ()) if each.quoted}
        return _Order(scores, nearest, worded)

    def _is_held(self, row: _Ranked) -> bool:
        return row.store == "turns" and row.id in self._held

    def _thinned(self, order: Iterable[_Ranked]) -> Iterator[_Ranked]:
        """Yield the rows in order; of the turns that the question leaves out, only those among the first."""
        return (row for place, row in enumerate(order) if place < _BLOCK or not self._is_held(row))

    def _without_held(self, block: Iterable[_Ranked], fetched: Mapping[_Ranked, Hit]) -> list[Hit]:
        """Return the hits of a block; turns that the question leaves out are noted in `held` instead."""
        hits = [fetched[row] for row in block if row in fetched and not self._is_held(row)]
        self.held += tuple(fetched[row] for row in block if row in fetched and self._is_held(row))
        return hits

    def _beside(self, pipe: Pipeline, turns: Sequence[int]) -> dict[int, Beside]:
        """Return the turns around each of `turns`, from the cache where they were looked up before."""
        self._note_beside(*self._ask_beside(pipe, turns))
        return {turn: self._known_beside[turn] for turn in turns}

    def _ask_beside(self, pipe: Pipeline, turns: Sequence[int]) -> tuple[Sequence[int], Rows | None]:
        unknown = [turn for turn in turns if turn not in self._known_beside]
        return unknown, ask_neighbours(pipe, self.asked.scope, unknown, reach=len(LENT_SHARES)) if unknown else None

    def _note_beside(self, turns: Sequence[int], rows: Rows | None) -> None:
        found = {row.id: Beside(row.before, row.after, row.brevity) for row in rows or ()}
        self._known_beside |= dict.fromkeys(turns, Beside((), ())) | found

    def _fetch_up_to(self, pipe: Pipeline, wanted: int) -> None:
        """Add the rows that come next to the hits, fetched in blocks until there are as many as wanted."""
        while len(self._hits) < wanted:
            # Of the first rows, so many more as are left out.
            spare, self._held_first = self._held_first, 0
            blocks = list(_blocks(self._coming, -(-(wanted + spare - len(self._hits)) // _BLOCK)))
            if not blocks:
                break
            try:
                fetched = self._fetch(pipe, list(chain.from_iterable(blocks)))
            except Exception:
                self._coming = chain(*blocks, self._coming)  # another server may be asked for them
                raise
            for block in blocks:
                for statement, hit in settle(self._without_held(block, fetched)).items():
                    if statement not in self._said:
                        self._hits.append(hit)
                        self._said.add(statement)

    def _fetch(self, pipe: Pipeline, ranked: Sequence[_Ranked]) -> dict[_Ranked, Hit]:
        wanted = {(row.store, row.id): row for row in ranked}
        ids: dict[Store, list[int]] = {}
        for row in ranked:
            ids.setdefault(row.store, []).append(row.id)
        scope, text = self.asked.scope, respelt(self.asked.text, self._meant)
        asked = {store: ask_hits(pipe, store, scope, rows, self._vector, text) for store, rows in ids.items()}
        turns, beside = self._ask_surroundings(pipe, ids.get("turns", []))
        found = [(wanted[store, columns.id], columns) for store, rows in asked.items() for columns in rows]
        self._around |= dict.fromkeys(turns, ()) | around(beside)
        return {row: self._hit(row, columns) for row, columns in found}

    def _hit(self, row: _Ranked, columns: Any) -> Hit:
        told: dict[str, Any] = {
            "coverage": row.coverage,
            "score": weighed(row.score, columns.at, self._now),
            "vector_rank": row.vector_rank,
            "word_rank": row.word_rank,
            "told_then": (row.store, row.id) in self._time.told_then,
            "around": self._around.get(row.id, ()) if row.store == "turns" else (),
            "among": self._sizes[row.store].rows,
        }
        return Hit(row.store, *columns, **told)

    def _ask_surroundings(self, pipe: Pipeline, turns: Sequence[int]) -> tuple[Sequence[int], Iterable[Any]]:
        unknown = [turn for turn in turns if turn not in self._around] if self.asked.around else []
        return unknown, ask_surroundings(pipe, self.asked.scope, unknown) if unknown else ()


def _read(searches: dict[Store, VectorSearch]) -> Legs:
    return {store: search.candidates() for store, search in searches.items()}


def _told_of(
    by_vector: Sequence[Candidate], by_words: Sequence[Candidate]
) -> tuple[dict[int, float], dict[int, int], dict[int, int]]:
    """Return the coverage, the rank by vector and the rank by words of the legs' rows, each by id."""
    coverage = {candidate.id: candidate.coverage for candidate in by_words}
    return coverage, _ranks(by_vector), _ranks(by_words)


def _ranks(leg: Sequence[Candidate]) -> dict[int, int]:
    return {candidate.id: rank for rank, candidate in enumerate(leg, 1)}


def _blocks(ranked: Iterator[_Ranked], most: int) -> Iterator[list[_Ranked]]:
    for _ in range(most):
        block = list(islice(ranked, _BLOCK))
        if not block:
            return
        yield block
