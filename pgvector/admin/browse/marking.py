"""Highlighting of a question's words in a text, as the text index matches them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence

from ...store.connection import DeadlineConnection
from ...store.pipeline import Pipeline
from ...store.question_words import is_pair

Mark = tuple[int, int]
_WORD = re.compile(r"\w{1,200}")
_JOINED = re.compile(r"(?<!\w)\w+(?:[.:/@'’+-]\w+)+")  # a host, a path, a version: the index may have only the whole


def marks(conn: DeadlineConnection, texts: Sequence[str], question: str, languages: Sequence[str]) -> list[list[Mark]]:
    """Return, for each text, the spans (start, end) in which words of the question occur, in order.

    A word matches in any of `languages`, and by its form in the text index: "deployed" matches "deploy".
    """
    words = sorted({match.group() for text in texts for match in _WORD.finditer(text)})
    wanted, terms = _terms(conn, question, words, languages)
    matching = {word for word in words if not wanted.isdisjoint(terms[word])}
    pairs = {term for term in wanted if is_pair(term)}
    joined = [re.compile(re.escape(match.group()), re.IGNORECASE) for match in _JOINED.finditer(question)]
    return [_in_order([*_matches(text, matching, pairs), *_spans(text, joined)]) for text in texts]


def _terms(
    conn: DeadlineConnection, question: str, words: Sequence[str], languages: Sequence[str]
) -> tuple[set[str], dict[str, set[str]]]:
    """Return the terms that the text index would store for the question, and for each word."""
    found: list[set[str]] = [set() for _ in (question, *words)]
    asked = {"texts": [question, *words], "languages": list(languages)}
    for row in Pipeline(conn).ask("read_question", asked):
        found[row.number - 1].update(row.terms)
    return found[0], dict(zip(words, found[1:], strict=True))


def _matches(text: str, matching: Collection[str], pairs: Collection[str]) -> Iterator[Mark]:
    for match in _WORD.finditer(text):
        if match.group() in matching:
            yield from _in_word(match.group(), match.start(), pairs)


def _spans(text: str, patterns: Sequence[re.Pattern[str]]) -> Iterator[Mark]:
    return (match.span() for pattern in patterns for match in pattern.finditer(text))


def _in_word(word: str, first: int, pairs: Collection[str]) -> Iterator[Mark]:
    """Yield the whole word or, in a script without spaces, the characters that match."""
    folded = [unicodedata.normalize("NFKC", char) for char in word]
    if not any(map(is_pair, folded)):
        yield first, first + len(word)
        return
    for place in range(len(word)):
        for chars in (1, 2):
            if "".join(folded[place : place + chars]) in pairs:
                yield first + place, first + min(len(word), place + chars)


def _in_order(spans: Iterable[Mark]) -> list[Mark]:
    """Return the spans in order, merging those that touch."""
    found: list[Mark] = []
    for first, end in sorted(spans):
        if found and first <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((first, end))
    return found
