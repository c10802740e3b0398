"""The lexical leg of a search: rows that hold the words of a question, those with its quoted phrases first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from functools import cached_property
from itertools import chain
from typing import NamedTuple

from ..domain.function_words import without_function_words
from ..domain.named_times import without_counted_times
from ..domain.text import both_ends
from ..domain.types import Candidate, Filters, Scope, Store
from .pipeline import Pipeline, Rows
from .question_words import (
    ENDS_CHARS,
    FUNCTION_SHARE,
    TIME_SHARE,
    QuestionWord,
    characters,
    choose,
    every,
    exactly,
    phrases,
    replaced,
    select,
    spelt,
    weighed_by,
    widened,
    word,
)
from .spelling import MAX_CORRECTED, misspellable, other_umlauts, spellings
from .vector_search import LENGTH_PIVOT, ask_estimate, asks_each_theme, planned_rows, themes_of, variant, where

EXACT_ROWS = 5000  # of a theme; the statements count_some_* stop counting one row beyond
MIN_ROWS = 20  # in a nearly empty theme, words that no row holds would outweigh all that match


class _Words(NamedTuple):
    """What to look up in the text index: the terms by word, those of each phrase.

    A phrase has different terms in each language; a row of that language holds all of them. `has_trigrams`: pg_trgm,
    which finds the theme's words like a misspelt one, is installed.
    """

    terms: dict[QuestionWord, str]
    phrases: dict[str, frozenset[frozenset[str]]]
    has_trigrams: bool

    @property
    def number(self) -> float:
        """Return how many words there are; one that weighs less counts less."""
        return sum(each.share for each in self.terms if each.proposes)


class QuestionReader:
    """Reads the words and phrases of a question, in the form the index has them in any of `languages`."""

    def __init__(self, pipe: Pipeline, text: str, languages: Sequence[str], *, as_written: bool = False) -> None:
        self.text = text
        self.as_written = as_written
        self._quoted = phrases(text)
        # The ends of a short question are the whole question.
        self._ends = both_ends(text, ENDS_CHARS)
        self._texts = [text, *self._quoted, *([self._ends] if self._ends != text else [])]
        self._timeless = without_counted_times(text)
        self._telling = without_function_words(text)
        self._texts += [each for each in (self._timeless, self._telling) if each != text]
        self._umlauts = other_umlauts(text)
        self._texts += chain.from_iterable(self._umlauts.items())
        self._rows = pipe.ask("read_question", {"texts": self._texts, "languages": list(languages)})

    @cached_property
    def words(self) -> _Words:
        """Return the words and phrases that were read."""
        read: list[set[frozenset[str]]] = [set() for _ in self._texts]
        has_trigrams = False
        for row in self._rows:
            read[row.number - 1].add(frozenset(row.terms))
            has_trigrams = row.has_trigrams
        terms = frozenset[str]().union(*read[0])
        other_spellings = _spellings([read.pop() for _ in range(2 * len(self._umlauts))])
        telling = frozenset[str]().union(*read.pop()) if self._telling != self.text else terms
        lasting = frozenset[str]().union(*read.pop()) if self._timeless != self.text else terms
        first = frozenset[str]().union(*read[-1]) if self._ends != self.text else terms

        def read_as(term: str) -> QuestionWord:
            if term not in telling:  # it only tells how the question is built, in a language other than the index's
                return word(term)._replace(share=FUNCTION_SHARE)
            return word(term) if term in lasting else word(term)._replace(absent=TIME_SHARE)

        chosen = {spelt(read_as(term), other_spellings.get(term, ())): term for term in select(terms, first)}
        quoted = {phrase: frozenset(filter(None, each)) for phrase, each in zip(self._quoted, read[1:], strict=False)}
        return _Words(chosen | characters(chosen.values()), quoted, has_trigrams)


def _spellings(read: Sequence[Set[frozenset[str]]]) -> dict[str, Set[str]]:
    """Return the other spellings of terms; `read` are in turn the terms of another spelling and of a word."""
    found: dict[str, Set[str]] = {}
    for others, written in zip(read[::2], read[1::2], strict=True):
        terms = frozenset[str]().union(*written)
        found |= dict.fromkeys(terms, frozenset[str]().union(*others) - terms)
    return found


def ask_size(pipe: Pipeline, store: Store, scope: Scope) -> Rows:
    """Ask for the number of rows in the theme, or the table; read by `size_of`."""
    return pipe.ask(f"count_some_{store}{'_all' if scope.kind == 'all' else ''}", themes_of(scope))


class Size(NamedTuple):
    """The number of rows, of a theme at most EXACT_ROWS + 1, and whether any is so long that it has parts."""

    rows: int
    parts: bool


def size_of(counted: Rows) -> Size:
    """Return the size in the result of `ask_size`."""
    found = counted.all()
    return Size(sum(row.rows for row in found), any(row.parts for row in found))


def search_words(searches: Sequence[LexicalSearch]) -> list[list[Candidate]]:
    """Return what each search finds, best first.

    Each step reads the results of the statements that the previous step queued, and queues those for the next one, so
    that several searches share round trips. Small themes come first: they need no sample, and are a step ahead.
    """
    in_order = sorted(searches, key=lambda each: not each.is_exact)
    for step in (
        LexicalSearch.sample,
        LexicalSearch.search,
        LexicalSearch.look_for_slips,
        LexicalSearch.search_corrected,
        LexicalSearch.widen,
    ):
        for each in in_order:
            step(each)
    return [each.candidates() for each in searches]


def search_deeper(searches: Sequence[LexicalSearch], pipe: Pipeline, limit: int) -> list[list[Candidate]]:
    """Return up to `limit` rows of each search that `search_words` has run, by the same words, best first."""
    for each in searches:
        each.deepen(pipe, limit)
    for each in searches:
        each.widen()
    return [each.candidates() for each in searches]


class LexicalSearch:
    """The lexical leg in one store: rows by their words, best coverage first; rows with a quoted phrase before others.

    In a theme of up to EXACT_ROWS rows, every row with any of the words is scored. In a larger one the candidates are
    rows with rarer words or combinations, and the newest rows; if they are too few, as under a narrow filter, rows with
    any word. If the database has pg_trgm, a word that no row holds is replaced by similar words of the theme.

    Where each of all themes is asked by itself, a sample of each tells how rare a word is in all of them.

    `rows` is the number of rows in the theme, of a larger one the planner's estimate once `search` was called.
    `meant` are the words instead of which others were searched for, by how they were written, and `unheld` all words
    that no row holds and that may be misspelt.
    """

    def __init__(
        self,
        pipe: Pipeline,
        store: Store,
        scope: Scope,
        filters: Filters,
        question: QuestionReader,
        size: int,
        *,
        limit: int,
    ) -> None:
        self.is_exact = size <= EXACT_ROWS
        self._pipe = pipe
        self._store = store
        self._scope = scope
        self._text = question.text
        self._as_written = question.as_written
        self._asked = question.words
        self._words = list(self._asked.terms)
        self._row = where(scope, filters)
        self._limit = limit
        self.rows = float(size)
        self._each_theme = asks_each_theme(pipe, scope)
        self._choice = exactly(self._words)
        self._in_sample: set[str] = set()  # the matchers of words that some row of the sample holds
        self._rows: Rows | None = None
        self._found: dict[int, Candidate] = {}
        self._absent: frozenset[str] = frozenset()
        self._quotes: list[Rows] = []
        self._slips: list[tuple[list[str], Rows]] = []
        self._forms: dict[str, tuple[str, ...]] = {}
        self.meant: dict[str, str] = {}
        self.unheld: frozenset[str] = frozenset()

    def sample(self) -> None:
        """Ask how rare the words are, if the rows that hold them do not tell."""
        if self._words and (self._each_theme or not self.is_exact):
            name = f"query_terms_{self._store}{'_all' if self._scope.kind == 'all' else ''}"
            self._counts = self._pipe.ask(name, self._row | {"matchers": [each.matcher for each in self._words]})
        if not self.is_exact:
            self._estimate = ask_estimate(self._pipe, self._store, self._scope)

    def search(self) -> None:
        """Ask for the rows that hold the words, and for those that hold the phrases."""
        if not self.is_exact:
            self.rows = max(self.rows, planned_rows(self._estimate))
        if not self._words:
            return
        if self._each_theme or not self.is_exact:
            self._choose()
        self._ask_rows()
        self._ask_quotes()

    def look_for_slips(self) -> None:
        """Note the question's words that no row holds; ask for words of the theme that resemble them."""
        self._take_rows()
        if self._as_written or not self._absent:
            return
        absent = self._absent - self._in_sample
        missing = [self._asked.terms[each] for each in self._words if each.matcher in absent]
        self._forms = misspellable(missing, self._text)
        self.unheld = frozenset().union(*self._forms.values())
        if self._asked.has_trigrams:
            self._slips = self._asked_slips()

    def _asked_slips(self) -> list[tuple[list[str], Rows]]:
        """Ask for words like the longest of those that may be misspelt; return which, with the rows to come."""
        terms = sorted(self._forms, key=len, reverse=True)[:MAX_CORRECTED]
        # The vocabulary of a small theme is read once for all words, that of a large one by the beginning of each word.
        narrow = self.rows > EXACT_ROWS or self._scope.kind == "all"
        groups = [[term] for term in terms] if narrow else [terms] if terms else []
        return [(group, self._ask_words_like(group, narrow=narrow)) for group in groups]

    def search_corrected(self) -> None:
        """Ask again with the corrected words; if there are none, widen the search."""
        if near := self._corrections():
            self._choice = replaced(self._choice, near)
            self._ask_rows()
            self._found = {}
        else:
            self.widen()

    def widen(self) -> None:
        """Ask once more, for all words, if too few rows were found."""
        if not self._choice.partial:
            return
        self._take_rows()
        if len(self._found) < self._limit and (wider := widened(self._choice)) is not None:
            self._choice = wider
            self._ask_rows()

    def deepen(self, pipe: Pipeline, limit: int) -> None:
        """Ask on `pipe` for up to `limit` rows by the words that were chosen, and by the phrases."""
        self._pipe, self._limit, self._found = pipe, limit, {}
        if self._words:
            self._ask_rows()
            self._ask_quotes()

    def candidates(self) -> list[Candidate]:
        """Return what all steps have found, best first."""
        self._take_rows()
        quoting = Counter(row.id for rows in self._quotes for row in rows)
        found = self._found | {row: _quoting(self._found.get(row), row, count) for row, count in quoting.items()}
        return sorted(found.values(), key=lambda row: (-row.quoted, -row.score, -row.id))[: self._limit]

    def _choose(self) -> None:
        """Choose the words to search by, now that it is known how rare they are."""
        sampled, holding = Counter[str](), Counter[str]()
        for each in self._counts:
            sampled[each.matcher] += each.sampled
            holding[each.matcher] += each.holding
        self._in_sample = {matcher for matcher, count in holding.items() if count}
        if not self.is_exact:
            words = [_estimated(each, holding[each.matcher], sampled[each.matcher], self.rows) for each in self._words]
            self._choice = choose(words, self.rows)
        if self._each_theme:  # a theme would count its own rows only
            held = {matcher: holding[matcher] / sampled[matcher] * self.rows for matcher in self._in_sample}
            self._choice = weighed_by(self._choice, held)

    def _ask_rows(self) -> None:
        choice = self._choice
        # Single characters are not looked up in the index, so where they count, every row of a small theme is read.
        whole = self.is_exact and any(not each.proposes for each in choice.words)
        row = self._row | {
            "matchers": [each.matcher for each in choice.words],
            "holding": [each.holding for each in choice.words],
            "shares": [each.share for each in choice.words],
            "absent": [each.absent for each in choice.words],
            "pivot": LENGTH_PIVOT,
            "match": choice.match,
            "recent": choice.partial or (whole and bool(variant(self._store, self._scope))),
            "whole": whole,
            "exact": self.rows <= EXACT_ROWS,
            "rows": max(self.rows, MIN_ROWS),
            "limit": self._limit,
        }
        self._rows = self._pipe.ask(f"lexical_search_{self._store}{variant(self._store, self._scope)}", row)

    def _ask_quotes(self) -> None:
        self._quotes = [
            self._pipe.ask(
                f"phrase_search_{self._store}",
                self._row | {"phrase": phrase, "match": every(spoken), "limit": self._limit},
            )
            for phrase, spoken in self._asked.phrases.items()
            if spoken
        ]

    def _take_rows(self) -> None:
        """Read the rows that were asked for last, with their scores, and which words none of them holds.

        What an earlier search for the same words has found is kept.
        """
        if self._rows is None:
            return
        rows, self._rows = self._rows.all(), None
        words = self._choice.words
        lacking = {tuple(row.absent) for row in rows}  # several if each theme was asked by itself
        numbers = frozenset(range(1, len(words) + 1)).intersection(*lacking)
        self._absent = frozenset(words[number - 1].matcher for number in numbers)
        self._found = {row.id: Candidate(row.id, row.score, row.coverage) for row in rows} | self._found

    def _corrections(self) -> dict[str, str]:
        """Return, by the matcher of each misspelt word, the tsquery of the words that may be meant."""
        near: dict[str, str] = {}
        matchers = {term: each.matcher for each, term in self._asked.terms.items()}
        for terms, rows in self._slips:
            found = rows.all()
            for term in terms:
                forms = self._forms[term]
                lexemes = list(dict.fromkeys(row.lexeme for row in found if row.word in forms))
                # Under a filter no row may hold a word that other rows of the theme do: it is not misspelt then.
                if term not in lexemes and (likely := spellings(term, forms, lexemes)):
                    meant = sorted({each.lexeme for each in likely})
                    near[matchers[term]] = f"({' | '.join(word(each).matcher for each in meant)})"
                    self.meant |= {each.written: each.meant for each in reversed(likely)}
        return near

    def _ask_words_like(self, terms: Sequence[str], *, narrow: bool) -> Rows:
        begin = terms[0][: max(2, len(terms[0]) // 2)]
        row = {
            "words": sorted({form for term in terms for form in self._forms[term]}),
            "initials": sorted({letter for term in terms for letter in term[:2]}),
            "match": f"{word(begin).matcher}:*" if narrow else None,
        }
        return self._pipe.ask(f"near_words_{self._store}", self._row | row)


def _quoting(found: Candidate | None, row_id: int, count: int) -> Candidate:
    """Return the candidate for a row that holds `count` phrases, which are worth half of score and coverage."""
    score, coverage = (found.score, found.coverage) if found else (0.0, 0.0)
    return Candidate(row_id, (1 + score) / 2, (1 + coverage) / 2, count)


def _estimated(each: QuestionWord, holding: int, sampled: int, rows: float) -> QuestionWord:
    """Return the word with the number of `rows` that hold it, as `holding` of `sampled` rows do."""
    # Half a row more: other rows may hold a word that no row of the sample does.
    return each._replace(holding=(holding + 0.5) / (sampled + 1) * rows)
