"""Finds what says of a statement that it holds no longer, and that does not answer by itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ..domain.function_words import plain, stem_of, telling_words
from ..domain.patterns import late_pattern
from ..domain.types import Hit, RowId
from .ranking import is_question

_TEXT_MAX_CHARS = 600  # a longer text says several things
_CLAUSE_ENDS = late_pattern(r"[,;:.!\n]+(?:\s+|$)|\s+[-\u2013\u2014]\s+|(?<=\?)\s+")
# In lower case and without accents.
_NO_LONGER = late_pattern(
    r"\b(?:no longer(?! than\b)|anymore|any more(?=\s*(?:[.,;:!]|$)| (?:and|because|but|for|in|on|since|so)\b)"
    r"|nicht mehr(?! als\b)|keine?[mnrs]? (?=\S+ mehr\b)|ya no)\b|\bn(?:e |['\u2019](?:y |en )?)(?=\w+ plus\b)"
)
_SHORTENED = late_pattern(r"\w+n['\u2019]t\b|['\u2019](?:m|s|ve|re|ll|d)\b")
_IF = late_pattern(r"(?:if|unless|when|wenn|falls|si|cuando|quand)\b")


def said_to_end(hits: Sequence[Hit], shown: Iterable[Hit], question: str) -> dict[RowId, list[Hit]]:
    """Return those of `hits` that say of an older statement among those `shown` that it holds no longer, by its row.

    "We do not use Jenkins any more" has nothing of "Which CI do we have?". It ends "Our CI runs on Jenkins": half of
    its words are words of that, which the question lacks. What was stated again since then holds.
    """
    ended = {hit.row: (hit, clauses) for hit in hits if (clauses := list(_ended_in(hit.content)))}
    asked = _stems(question) if ended else frozenset[str]()
    told = [(hit, _stems(hit.content) - asked) for hit in (shown if ended else ())]
    stated = [(hit, words) for hit, words in told if hit.row not in ended and not is_question(hit)]
    found: dict[RowId, list[Hit]] = {}
    for other, words in told:
        since = max([other.at, *(hit.at for hit, held in stated if words <= held and hit.theme == other.theme)])
        found[other.row] = [
            hit
            for hit, clauses in ended.values()
            if hit.theme == other.theme and hit.at > since and any(_is_of(clause, words) for clause in clauses)
        ]
    return found


def _is_of(clause: frozenset[str], words: frozenset[str]) -> bool:
    """Return whether a clause is about what another text says with these words."""
    return 2 * len(clause & words) >= max(1, len(clause))


def _ended_in(text: str) -> Iterator[frozenset[str]]:
    """Yield the words of each clause of a text that says that something holds no longer."""
    said = plain(text) if len(text) <= _TEXT_MAX_CHARS else ""
    for clause in _CLAUSE_ENDS.split(said) if _NO_LONGER.search(said) else ():
        if not clause.endswith("?") and not _IF.match(clause) and _NO_LONGER.search(clause):
            yield _stems(_NO_LONGER.sub(" ", clause))


def _stems(text: str) -> frozenset[str]:
    return frozenset(stem_of(word) for word in telling_words(_SHORTENED.sub(" ", text[:_TEXT_MAX_CHARS])))
