"""Which parts of a text match a question, by the words that the text index knows in both."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence

from ...store.connection import DeadlineConnection
from ...store.pipeline import Pipeline
from ...store.question_words import is_pair

Mark = tuple[int, int]
_WORD = re.compile(r"\w{1,200}")
_JOINED = re.compile(r"\w+(?:[.:/@'’+-]\w+)+")  # a host, a path, a version: the index may have it whole only


def marks(conn: DeadlineConnection, texts: Sequence[str], question: str, languages: Sequence[str]) -> list[list[Mark]]:
    """Return for each text where words of the question stand in it, from character to before character, in order.

    A word counts in any of `languages`, and in the form that the text index has of it: "deployed" for "deploy".
    """
    words = sorted({match.group() for text in texts for match in _WORD.finditer(text)})
    rows = Pipeline(conn).ask("read_question", {"texts": [question, *words], "languages": list(languages)}).all()
    wanted = {term for row in rows if row.number == 1 for term in row.terms}
    matching = {words[row.number - 2] for row in rows if row.number > 1 and not wanted.isdisjoint(row.terms)}
    pairs = {term for term in wanted if is_pair(term)}
    joined = [re.compile(re.escape(match.group()), re.IGNORECASE) for match in _JOINED.finditer(question)]
    return [_in_order([*_matches(text, matching, pairs), *_spans(text, joined)]) for text in texts]


def _matches(text: str, matching: Collection[str], pairs: Collection[str]) -> Iterator[Mark]:
    for match in _WORD.finditer(text):
        if match.group() in matching:
            yield from _in_word(match.group(), match.start(), pairs)


def _spans(text: str, patterns: Sequence[re.Pattern[str]]) -> Iterator[Mark]:
    return (match.span() for pattern in patterns for match in pattern.finditer(text))


def _in_word(word: str, first: int, pairs: Collection[str]) -> Iterator[Mark]:
    """Yield the word, or of a script without spaces the characters that match."""
    folded = [unicodedata.normalize("NFKC", char) for char in word]
    if not any(map(is_pair, folded)):
        yield first, first + len(word)
        return
    for place in range(len(word)):
        for chars in (1, 2):
            if "".join(folded[place : place + chars]) in pairs:
                yield first + place, first + min(len(word), place + chars)


def _in_order(spans: Iterable[Mark]) -> list[Mark]:
    """Return the spans in order, as one where they touch."""
    found: list[Mark] = []
    for first, end in sorted(spans):
        if found and first <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((first, end))
    return found
