"""The words and phrases of a question: those looked up in the text index, and those that only weigh its rows."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from itertools import chain, combinations
from typing import NamedTuple

from ..domain.patterns import late_pattern

HIT_BUDGET = 2000  # rows that the index may return, by estimate: each is tested for every word of the question
WIDE_BUDGET = 100_000  # the same for the second try of a question that has found too little
MAX_TERMS = 48  # words of a question that are looked up
PLAIN_TERMS = 32
MAX_PHRASES = 4  # more quoted strings than that are pasted text, not things to look for
# Of a question, at both ends, where it says what it asks: their words come first if there are too many.
ENDS_CHARS = 400
_MAX_TOGETHER = 8  # combinations of common words that are looked up
_MAX_COMBINED = 24  # of the common words, the rarest, that are combined: more have too many combinations
_MAX_TERM_CHARS = 199
# Share of its weight for a term that no row holds, where that says little: half of all pairs of characters span two
# words, and the numbers of a pasted log occur nowhere else.
_ABSENT_SHARE = 0.25
TIME_SHARE = 0.05  # likewise, for a word of a time such as "two weeks ago": the dates of rows say when they were told
FUNCTION_SHARE = 0.05  # of the weight by its rarity, for a word such as "wenn", which in English is left out
_CHARACTER_SHARE = 0.5  # of the weight by its rarity, for a character that is part of a pair

# As in hermes_lexemes: scripts that are written without spaces.
_SPACELESS = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
    "\U00020000-\U0002ffff"
)
_PAIR = late_pattern(f"[{_SPACELESS}]{{1,2}}")
_HASH = late_pattern(r"(?=\d*[a-f])(?=[a-f]*\d)[0-9a-f]{6,64}")
_SHORT_HASH = range(7, 13)  # characters to which git shortens the hash of a commit
# A straight quote opens before a word and closes after one, which an inch sign does not.
_PHRASE = late_pattern(
    r'(?<![A-Za-z0-9])"(?! )([^"\n]{1,200})(?<! )"(?![A-Za-z0-9])'
    r"|“([^“”\n]{1,200})”|„([^„“”\n]{1,200})[“”]|«([^«»\n]{1,200})»|「([^「」\n]{1,200})」|『([^『』\n]{1,200})』"
)


class QuestionWord(NamedTuple):
    """A word of a question.

    `matcher` is its tsquery, `holding` the estimated number of rows that hold it (None: count them), `absent` the share
    of its weight that it keeps if there are none, and `share` a factor of its weight in general. A word that does not
    propose rows (`proposes`) only adds to the score of rows that other words propose.
    """

    matcher: str
    holding: float | None = None
    absent: float = 1.0
    share: float = 1.0
    proposes: bool = True


class WordChoice(NamedTuple):
    """How to search for words.

    `match` is the tsquery for the index, None if no word is rare enough; `partial` says that it misses rows that hold
    only common words.
    """

    words: tuple[QuestionWord, ...]
    match: str | None
    partial: bool


def phrases(text: str) -> list[str]:
    """Return the quoted strings of a question; none if there are so many that it must be pasted text."""
    found = ["".join(match.groups("")).strip() for match in _PHRASE.finditer(text)]
    found = [phrase for phrase in dict.fromkeys(found) if any(map(str.isalnum, phrase))]
    return found if len(found) <= MAX_PHRASES else []


def select(terms: Collection[str], first: Collection[str]) -> list[str]:
    """Return at most MAX_TERMS of a question's terms: those in `first` before others, long ones before short ones.

    Up to PLAIN_TERMS terms of `first` without a digit precede all others, so that a log line at either end does not
    displace the question. A single character of a script without spaces is used only if no pair contains it.
    """
    usable = [term for term in terms if len(term) <= _MAX_TERM_CHARS and not _is_left_over(term, terms)]
    ordered = sorted(usable, key=lambda term: (term not in first, -len(term), term))
    plain = [term for term in ordered if term in first and not any(map(str.isdigit, term))][:PLAIN_TERMS]
    return list(dict.fromkeys([*plain, *ordered]))[:MAX_TERMS]


def _is_left_over(term: str, terms: Collection[str]) -> bool:
    return len(term) == 1 and is_pair(term) and any(len(other) > 1 and term in other for other in terms)


def is_pair(term: str) -> bool:
    """Return whether a term is one or two characters of a script without spaces."""
    return not term.isascii() and _PAIR.fullmatch(term) is not None


@lru_cache(maxsize=1024)
def word(term: str) -> QuestionWord:
    """Return the word for a term; a single character of a script without spaces also matches pairs it begins.

    A hash also matches longer ones that it begins, and its own short forms.
    """
    quoted = "'" + term.replace("\\", "\\\\").replace("'", "''") + "'"
    if is_pair(term):
        return QuestionWord(quoted if len(term) > 1 else f"{quoted}:*", absent=_ABSENT_SHARE)
    if _HASH.fullmatch(term):
        short = (f" | '{term[:chars]}'" for chars in _SHORT_HASH if chars < len(term))
        return QuestionWord(f"({quoted}:*{''.join(short)})", absent=_ABSENT_SHARE)
    return QuestionWord(quoted, absent=_ABSENT_SHARE if any(map(str.isdigit, term)) else 1.0)


def spelt(of: QuestionWord, others: Collection[str]) -> QuestionWord:
    """Return a word for which other spellings stand as well."""
    if not others:
        return of
    return of._replace(matcher=f"({' | '.join([of.matcher, *sorted(word(other).matcher for other in others)])})")


def characters(terms: Collection[str]) -> dict[QuestionWord, str]:
    """Return the characters in pairs of a script without spaces, because two words often share one.

    Many rows hold such a character, across all themes too many to look it up in the index.
    """
    found = sorted({char for term in terms if len(term) == 2 and is_pair(term) for char in term})
    return {word(char)._replace(share=_CHARACTER_SHARE, proposes=False): char for char in found}


def every(spoken: Collection[Collection[str]]) -> str:
    """Return the tsquery for all terms of a phrase, as they are in any one of some languages."""
    of_each = (" & ".join(word(term).matcher for term in sorted(terms)) for terms in spoken)
    return " | ".join(f"({terms})" for terms in sorted(of_each))


def exactly(words: Sequence[QuestionWord]) -> WordChoice:
    """Choose every row with any of the words; a word is weighed by the rows found that hold it."""
    counted = tuple(word if word.holding is None else word._replace(holding=None) for word in words)
    return WordChoice(counted, _any_of(words), partial=False)


def choose(words: Sequence[QuestionWord], rows: float) -> WordChoice:
    """Choose the rarest words of a theme of `rows`, within HIT_BUDGET, then common ones that rarely occur together.

    Common words are weighed by their estimate; rare ones are counted, because every row that holds them is read.
    """
    budget = float(HIT_BUDGET)
    rare: list[QuestionWord] = []
    common: list[QuestionWord] = []
    for word in sorted((word for word in words if word.proposes), key=_estimate):
        if not common and _estimate(word) <= budget:
            budget -= _estimate(word)
            rare.append(word._replace(holding=None))
        else:
            common.append(word)
    clauses = [word.matcher for word in rare] + _together(common, rows, budget)
    weighing = [word for word in words if not word.proposes]
    return WordChoice(tuple(rare + common + weighing), " | ".join(clauses) or None, partial=bool(common))


def _together(common: Sequence[QuestionWord], rows: float, budget: float) -> list[str]:
    """Return pairs and triples of common words that few rows hold, rarest first, as tsqueries.

    Words are assumed to occur independently; where that is wrong, the statement's own limit bounds the cost.
    """
    clauses: list[set[str]] = []
    rarest = common[:_MAX_COMBINED]
    for group in chain(combinations(rarest, 2), combinations(rarest, 3)):
        matchers = {word.matcher for word in group}
        expected = rows * math.prod(_estimate(word) / rows for word in group)
        if expected <= budget and len(clauses) < _MAX_TOGETHER and not any(clause <= matchers for clause in clauses):
            budget -= expected
            clauses.append(matchers)
    return [f"({' & '.join(sorted(clause))})" for clause in clauses]


def weighed_by(choice: WordChoice, holding: Mapping[str, float]) -> WordChoice:
    """Choose the same rows, but weigh a word by the number of rows in `holding`, by its matcher, if that is given."""
    words = (word._replace(holding=holding.get(word.matcher, word.holding)) for word in choice.words)
    return choice._replace(words=tuple(words))


def widened(choice: WordChoice) -> WordChoice | None:
    """Choose every row with any word, for a question that found too little; None if that would be too many rows."""
    if sum(_estimate(word) for word in choice.words if word.proposes) > WIDE_BUDGET:
        return None
    return choice._replace(match=_any_of(choice.words), partial=False)


def replaced(choice: WordChoice, spellings: Mapping[str, str]) -> WordChoice:
    """Return the choice with some matchers replaced, by the old one; as few rows hold the new ones, look these up."""
    words = tuple(word._replace(matcher=spellings.get(word.matcher, word.matcher)) for word in choice.words)
    match = " | ".join([*([choice.match] if choice.match else []), *spellings.values()])
    return choice._replace(words=words, match=match)


def _any_of(words: Sequence[QuestionWord]) -> str:
    return " | ".join(word.matcher for word in words if word.proposes)


def _estimate(word: QuestionWord) -> float:
    return word.holding or 0.0
