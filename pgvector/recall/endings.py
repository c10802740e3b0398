"""Finds what says of a statement that it holds no longer, and that does not answer by itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from ..domain.function_words import plain, stem_of, telling_words
from ..domain.patterns import late_pattern
from ..domain.types import Hit, RowId
from .changes import NO_LONGER, TEXT_MAX_CHARS
from .ranking import is_question

_CLAUSE_ENDS = late_pattern(r"[,;:.!\n]+(?:\s+|$)|\s+[-\u2013\u2014]\s+|(?<=\?)\s+")
_NO_LONGER = late_pattern(NO_LONGER)
_SHORTENED = late_pattern(r"\w+n['\u2019]t\b|['\u2019](?:m|s|ve|re|ll|d)\b")
_IF = late_pattern(r"(?:if|unless|when|wenn|falls|si|cuando|quand)\b")


class _Told(NamedTuple):
    """A text that is shown, and the beginnings of those of its words that the question lacks."""

    hit: Hit
    words: frozenset[str]


def said_to_end(hits: Sequence[Hit], shown: Iterable[Hit], question: str) -> dict[RowId, list[Hit]]:
    """Return those of `hits` that say of an older statement among those `shown` that it holds no longer, by its row.

    "We do not use Jenkins any more" has nothing of "Which CI do we have?". It ends "Our CI runs on Jenkins": half of
    its words are words of that, which the question lacks. What was stated again since then holds.
    """
    ending = {hit.row: (hit, clauses) for hit in hits if (clauses := list(_ended_in(hit.content)))}
    if not ending:
        return {}
    asked = _stems(question)
    told = [_Told(hit, _stems(hit.content) - asked) for hit in shown]
    stated = [each for each in told if each.hit.row not in ending and not is_question(each.hit)]
    return {each.hit.row: list(_ends_of(each, _last_stated(each, stated), ending.values())) for each in told}


def _last_stated(told: _Told, stated: Iterable[_Told]) -> datetime:
    """Return when what a text says was stated last."""
    again = (each.hit.at for each in stated if told.words <= each.words and each.hit.theme == told.hit.theme)
    return max([told.hit.at, *again])


def _ends_of(told: _Told, since: datetime, ending: Iterable[tuple[Hit, Sequence[frozenset[str]]]]) -> Iterator[Hit]:
    """Yield what ends a text that was stated last at `since`."""
    for hit, clauses in ending:
        if hit.theme == told.hit.theme and hit.at > since and any(_is_of(clause, told.words) for clause in clauses):
            yield hit


def _is_of(clause: frozenset[str], words: frozenset[str]) -> bool:
    """Return whether a clause is about what another text says with these words."""
    return 2 * len(clause & words) >= max(1, len(clause))


def _ended_in(text: str) -> Iterator[frozenset[str]]:
    """Yield the words of each clause of a text that says that something holds no longer."""
    said = plain(text) if len(text) <= TEXT_MAX_CHARS else ""
    for clause in _CLAUSE_ENDS.split(said) if _NO_LONGER.search(said) else ():
        if not clause.endswith("?") and not _IF.match(clause) and _NO_LONGER.search(clause):
            yield _stems(_NO_LONGER.sub(" ", clause))


def _stems(text: str) -> frozenset[str]:
    return frozenset(stem_of(word) for word in telling_words(_SHORTENED.sub(" ", text[:TEXT_MAX_CHARS])))
