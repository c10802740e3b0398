"""Which parts of a text match a question, by the words that the text index knows in both."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterator, Sequence

from ...store.connection import DeadlineConnection
from ...store.pipeline import Pipeline
from ...store.question_words import is_pair

Mark = tuple[int, int]
_WORD = re.compile(r"\w+")
_COMPOUND = re.compile(r"\w+(?:[.:/@'’+-]\w+)+")  # a host, a path, a version: the index has them whole as well
_WORD_MAX_CHARS = 200  # as of a term of a question


def marks(conn: DeadlineConnection, texts: Sequence[str], question: str, languages: Sequence[str]) -> list[list[Mark]]:
    """Return for each text where words of the question stand in it, from character to before character, in order.

    A word counts in any of `languages`, and in the form that the text index has of it: "deployed" for "deploy".
    """
    spans = [list(_candidates(text)) for text in texts]
    words = sorted({text[first:end] for text, found in zip(texts, spans, strict=True) for first, end in found})
    rows = Pipeline(conn).ask("read_question", {"texts": [question, *words], "languages": list(languages)}).all()
    wanted = {term for row in rows if row.number == 1 for term in row.terms}
    matching = {words[row.number - 2] for row in rows if row.number > 1 and not wanted.isdisjoint(row.terms)}
    pairs = {term for term in wanted if is_pair(term)}
    return [
        _joined(span for span in found for span in _matching(text, span, matching, pairs))
        for text, found in zip(texts, spans, strict=True)
    ]


def _candidates(text: str) -> Iterator[Mark]:
    for pattern in (_WORD, _COMPOUND):
        yield from (match.span() for match in pattern.finditer(text) if len(match.group()) <= _WORD_MAX_CHARS)


def _matching(text: str, span: Mark, matching: Collection[str], pairs: Collection[str]) -> Iterator[Mark]:
    """Yield the parts of one word that match: the whole, or of a script without spaces the characters."""
    first, end = span
    word = text[first:end]
    if word not in matching:
        return
    folded = [unicodedata.normalize("NFKC", char) for char in word]
    if not any(map(is_pair, folded)):
        yield span
        return
    for place in range(len(word)):
        for chars in (1, 2):
            if "".join(folded[place : place + chars]) in pairs:
                yield first + place, min(end, first + place + chars)


def _joined(spans: Iterator[Mark]) -> list[Mark]:
    """Return the spans in order, as one where they touch."""
    found: list[Mark] = []
    for first, end in sorted(spans):
        if found and first <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((first, end))
    return found
