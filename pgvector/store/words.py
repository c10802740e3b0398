"""Which words of a question the text index is asked for, and which only weigh what it finds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations

HIT_BUDGET = 2000  # rows that the index may return by estimate: each is tested for every word of the question
WIDE_BUDGET = 100_000  # the same for the second try of a question that has found too little
_MAX_TOGETHER = 8  # combinations of common words that are asked for


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a question: `matcher` is its tsquery, `holding` the estimated rows that hold it (None: count them)."""

    matcher: str
    holding: float | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    """How to search for words.

    `match` is the tsquery that the index gets, None when no word is rare enough; `partial` says that it leaves out
    rows which hold only common words.
    """

    words: tuple[Word, ...]
    match: str | None
    partial: bool


def exactly(matchers: Sequence[str]) -> Choice:
    """Every row with any of the words; each weighs by the rows found."""
    return Choice(tuple(map(Word, matchers)), " | ".join(matchers), partial=False)


def choose(words: Sequence[Word], rows: float) -> Choice:
    """The rarest words of a theme of `rows`, as far as HIT_BUDGET goes, then common words that rarely stand together.

    Common words weigh by their estimate; of the rare ones every row is seen, so they are counted.
    """
    budget = float(HIT_BUDGET)
    rare: list[Word] = []
    common: list[Word] = []
    for word in sorted(words, key=_estimate):
        if not common and _estimate(word) <= budget:
            budget -= _estimate(word)
            rare.append(replace(word, holding=None))
        else:
            common.append(word)
    clauses = [word.matcher for word in rare] + _together(common, rows, budget)
    return Choice(tuple(rare + common), " | ".join(clauses) or None, partial=bool(common))


def _together(common: Sequence[Word], rows: float, budget: float) -> list[str]:
    """Pairs and triples of common words that few rows hold, rarest first, as tsqueries.

    That words come independently is assumed; the statement's own limit bounds the cost where it is wrong.
    """
    clauses: list[set[str]] = []
    for group in chain(combinations(common, 2), combinations(common, 3)):
        matchers = {word.matcher for word in group}
        expected = rows * math.prod(_estimate(word) / rows for word in group)
        if expected <= budget and len(clauses) < _MAX_TOGETHER and not any(clause <= matchers for clause in clauses):
            budget -= expected
            clauses.append(matchers)
    return [f"({' & '.join(sorted(clause))})" for clause in clauses]


def widened(choice: Choice) -> Choice | None:
    """Every row with any word, for a question that found too little; None when that would be too many rows."""
    if sum(map(_estimate, choice.words)) > WIDE_BUDGET:
        return None
    return replace(choice, match=" | ".join(word.matcher for word in choice.words), partial=False)


def _estimate(word: Word) -> float:
    return word.holding or 0.0
