"""The lexical leg of a search: rows that hold the words of a question, the phrases in it first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..domain.types import Candidate, Filters, Scope, Store
from .connection import DeadlineConnection
from .pipelining import Ask, LookUp, alone
from .question_words import (
    Choice,
    Word,
    choose,
    ends,
    every,
    exactly,
    is_slip,
    misspellable,
    phrases,
    replaced,
    select,
    widened,
    word,
)
from .sql import query
from .vector_search import ask_estimate, planned_rows, variant, where

EXACT_ROWS = 5000  # of a theme; the statements count_some_* count no further than the next one
MIN_ROWS = 50  # in a nearly empty theme, words that no row holds would outweigh all that match
_MAX_CORRECTED = 4  # words of a question for which other spellings are looked up, longest first


@dataclass(frozen=True, slots=True)
class _Question:
    """What the text index is asked: the terms by their words, the terms of each phrase, whether pg_trgm is there."""

    text: str
    terms: dict[Word, str]
    phrases: dict[str, frozenset[str]]
    has_trigrams: bool


class Reading:
    """The words and phrases of a question, as the index knows them in any of `languages`; asked for when made."""

    def __init__(self, conn: DeadlineConnection, text: str, languages: Sequence[str]) -> None:
        self.text = text
        self._quoted = phrases(text)
        # Of a question that is not long its ends are the whole.
        self._texts = [text, *self._quoted, *([ends(text)] if ends(text) != text else [])]
        self._sent = conn.execute(query("read_question"), {"texts": self._texts, "languages": list(languages)})

    @cached_property
    def question(self) -> _Question:
        """What was read, once it is there."""
        terms: list[set[str]] = [set() for _ in self._texts]
        has_trigrams = False
        for row in self._sent:
            terms[row.number - 1].update(row.terms)
            has_trigrams = row.has_trigrams
        first = terms[-1] if ends(self.text) != self.text else terms[0]
        chosen = {word(term): term for term in select(terms[0], first)}
        quoted = dict(zip(self._quoted, map(frozenset, terms[1:]), strict=False))
        return _Question(self.text, chosen, quoted, has_trigrams)


def lexical_candidates(
    conn: DeadlineConnection,
    store: Store,
    scope: Scope,
    filters: Filters,
    text: str,
    *,
    limit: int,
    languages: Sequence[str] = ("english",),
) -> list[Candidate]:
    """The rows that hold the question's words, best coverage first; those that hold a quoted phrase before all others.

    Up to EXACT_ROWS rows of a theme every row with any of the words is scored. Above, the rarer words and combinations
    propose rows, and so do the newest rows; when that is too little, as a narrow filter makes it, all words do. Where
    the database has pg_trgm, a word that no row holds stands for the words of the theme that it may have been.
    """
    rows_of = ask_size(conn, store, scope)
    reading = Reading(conn, text, languages)
    return alone(conn, lexical_lookup(store, scope, filters, reading, rows_of(), limit=limit))


def ask_size(conn: DeadlineConnection, store: Store, scope: Scope) -> Callable[[], int]:
    """Ask how many rows the theme, or the table, has; told by a call, and never more than one above EXACT_ROWS."""
    name = f"count_some_{store}{'_all' if scope.kind == 'all' else ''}"
    sent = conn.execute(query(name), {"theme": scope.theme})
    return lambda: sum(int(row.rows) for row in sent)


def lexical_lookup(
    store: Store, scope: Scope, filters: Filters, reading: Reading, size: int, *, limit: int
) -> LookUp[list[Candidate]]:
    """As `lexical_candidates`, for a question that is being read and a theme of the `size` that `ask_size` told."""
    asked, text = reading.question, reading.text
    if not asked.terms:
        return []
    row = where(scope, filters)
    words = list(asked.terms)
    rows, sampled = float(size), set[str]()
    if size <= EXACT_ROWS:
        choice = exactly(words)
    else:
        name = f"query_terms_{store}{'_all' if scope.kind == 'all' else ''}"
        counts, estimate = yield [(name, row | {"matchers": [w.matcher for w in words]}), ask_estimate(store, scope)]
        counted = {term.matcher: term for term in counts}
        sampled = {term.matcher for term in counted.values() if term.holding}
        rows = max(rows, planned_rows(estimate))
        choice = choose([_estimated(each, counted[each.matcher], rows) for each in words], rows)

    def by(choice: Choice) -> Ask:
        return _by_words(store, scope, row, choice, rows, limit)

    covered, *quotes = yield [by(choice), *_by_phrases(store, row, asked, limit)]
    found, absent = _coverage(covered, choice)
    if asked.has_trigrams and absent:
        missing = {asked.terms[w]: w for w in words if w.matcher in absent - sampled}
        near = yield from _near(store, row, missing, text, narrow=rows > EXACT_ROWS or scope.kind == "all")
        if near:
            choice = replaced(choice, near)
            (covered,) = yield [by(choice)]
            found, absent = _coverage(covered, choice)
    if choice.partial and len(found) < limit and (wider := widened(choice)) is not None:
        (covered,) = yield [by(wider)]
        found = _coverage(covered, wider)[0] | found
    quoting = Counter(each.id for phrase in quotes for each in phrase)
    best = sorted(
        ((row_id, found.get(row_id, 0.0), quoting[row_id]) for row_id in found.keys() | quoting.keys()),
        key=lambda each: (-each[2], -each[1], -each[0]),
    )
    # A row that holds a phrase answers at least half of what was asked.
    return [
        Candidate(row_id, (1 + coverage) / 2 if quoted else coverage, quoted)
        for row_id, coverage, quoted in best[:limit]
    ]


def _estimated(each: Word, sample: Any, rows: float) -> Word:
    # Half a row more: what no row of the sample holds, others may.
    return Word(each.matcher, (sample.holding + 0.5) / (sample.sampled + 1) * rows, each.absent)


def _by_words(store: Store, scope: Scope, row: dict[str, Any], choice: Choice, rows: float, limit: int) -> Ask:
    given = row | {
        "matchers": [each.matcher for each in choice.words],
        "holding": [each.holding for each in choice.words],
        "absent": [each.absent for each in choice.words],
        "match": choice.match,
        "recent": choice.partial,
        "exact": rows <= EXACT_ROWS,
        "rows": max(rows, MIN_ROWS),
        "limit": limit,
    }
    return f"lexical_search_{store}{variant(store, scope)}", given


def _coverage(rows: Iterable[Any], choice: Choice) -> tuple[dict[int, float], frozenset[str]]:
    """The best rows with their coverage, and the matchers of the words that no row holds."""
    found = list(rows)
    numbers = found[0].absent if found else range(1, len(choice.words) + 1)
    return {each.id: each.coverage for each in found}, frozenset(choice.words[n - 1].matcher for n in numbers)


def _near(
    store: Store, row: dict[str, Any], missing: dict[str, Word], text: str, *, narrow: bool
) -> LookUp[dict[str, str]]:
    """By the matcher of each of the `missing` words that may be misspelt, the tsquery of what may have been meant."""
    forms = misspellable(missing, text)
    terms = sorted(forms, key=len, reverse=True)[:_MAX_CORRECTED]
    # The words of a small theme are read once for all, those of a large one by how each word begins.
    groups = [[term] for term in terms] if narrow else [terms] if terms else []
    if not groups:
        return {}
    near: dict[str, str] = {}
    answers = yield [_words_like(store, row, together, forms, narrow=narrow) for together in groups]
    for together, answer in zip(groups, answers, strict=True):
        found = answer.fetchall()
        lexemes = {each.lexeme for each in found}
        for term in together:
            meant = {each.lexeme for each in found if each.word in forms[term] and is_slip(each.word, each.lexeme)}
            # Under a filter no row may hold a word that others of the theme do: it is no slip then.
            if meant and term not in lexemes:
                near[missing[term].matcher] = _any_of(meant)
    return near


def _words_like(
    store: Store, row: dict[str, Any], terms: Sequence[str], forms: Mapping[str, Sequence[str]], *, narrow: bool
) -> Ask:
    begin = terms[0][: max(2, len(terms[0]) // 2)]
    given = {
        "words": sorted({form for term in terms for form in forms[term]}),
        "initials": sorted({letter for term in terms for letter in term[:2]}),
        "match": f"{word(begin).matcher}:*" if narrow else None,
    }
    return f"near_words_{store}", row | given


def _any_of(terms: Collection[str]) -> str:
    return f"({' | '.join(word(term).matcher for term in sorted(terms))})"


def _by_phrases(store: Store, row: dict[str, Any], asked: _Question, limit: int) -> list[Ask]:
    """For each of the question's phrases, which rows hold it."""
    return [
        (f"phrase_search_{store}", row | {"phrase": phrase, "match": every(terms), "limit": limit})
        for phrase, terms in asked.phrases.items()
        if terms
    ]
