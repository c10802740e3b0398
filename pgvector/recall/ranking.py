"""The last word on the order: a little for what is recent, and of statements that say the same, the newest."""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from dataclasses import replace
from datetime import datetime
from itertools import chain

from ..domain.types import Hit

RECENCY_WEIGHT = 0.05  # of its score, that a hit of this moment gains over one of long ago
HALF_LIFE_DAYS = 30.0  # after which half of that is left
_SAME_SHARE = 0.8  # of all words of two texts, from which they say nearly the same
_LONG_CHARS = 10_000  # a text from this length on is the same as another one to the letter only: to fold it takes long
# Of the best score of the same text. What neighbours lend is up to a quarter of it, what a named time adds nearly half.
_FITS_AS_WELL = 0.6
# A sign is a part of a number, of which it makes another one; between two words it is a hyphen.
_WORD = re.compile(r"(?<!\w)[-+\u2212]\d\w*|\w+")
# What holds until something else does. Without "was", and verbs of what happens once: two events are no contradiction.
HOLDS = re.compile(
    "is|are|has|have|costs|takes|runs|lives|starts|ends|opens|closes|leaves|uses|needs|expires|listens|sits|stays|must|will"
    "|should|ist|sind|hat|haben|kostet|läuft|beginnt|endet|öffnet|schließt|braucht|nutzt|gilt"
)
SUBJECT_LEAST = 2  # words before the verb or with it, without which "is 5" and "is 6" speak of nothing in common
# The Greek sign is typed as a semicolon; polite Japanese asks by a syllable, and Chinese may.
_ENDS_ASKING = re.compile(
    r"(?:[?\uff1f\u061f\u037e]|[\u0370-\u03ff\u1f00-\u1fff];|[吗嗎]|(?:です|でした|ます|ました|ません|でしょう|だろう)か)\W*$"
)


def weighed(score: float, at: datetime, now: datetime) -> float:
    """Return the score of a row that was written at `at`, with the recency weight."""
    age_days = max(0.0, (now - at).total_seconds() / 86_400)
    fresh: float = 0.5 ** (age_days / HALF_LIFE_DAYS)
    return score * (1 + RECENCY_WEIGHT * fresh)


def settle(hits: Sequence[Hit]) -> list[Hit]:
    """Return the hits by score, best first; of the same text in one theme the newest only, in the best one's place.

    The best one stays where the newest scores far less: then not the text fits but what stands beside it, as of one
    "Done, that is on your list" among many, or the time of which the question speaks.
    """
    kept: dict[tuple[str, str, str, str], Hit] = {}
    for hit in sorted(hits, key=lambda hit: -hit.score):
        same = statement_of(hit)
        other = kept.get(same)
        if other is None or (hit.at > other.at and hit.score >= _FITS_AS_WELL * other.score):
            kept[same] = hit if other is None else replace(hit, score=other.score)
    return list(kept.values())


def newest_of_near_equals(hits: Sequence[Hit]) -> list[Hit]:
    """Return the hits in their order; of near-equals in one theme only the newest, in the first one's place.

    Nearly: at least four fifths of all their words are shared, and every number is, and one holds all that the other
    says in the same order, or they differ only behind a verb by which something holds. "Ticket 12 is open" and "ticket
    13 is open" are two facts, and so is what is said of two people, or of the way from A to B and of that from B to A.
    A question takes the place of none.
    """
    by_kind: dict[object, list[_Statement]] = {}
    for place, hit in sorted(enumerate(hits), key=lambda each: each[1].at, reverse=True):
        statement = _Statement(place, hit)
        kept = by_kind.setdefault(statement.kind, [])
        newer = next((other for other in kept if other.says_nearly(statement)), None)
        if newer is None:
            kept.append(statement)
        else:
            newer.place = min(newer.place, place)
    return [statement.hit for statement in sorted(chain.from_iterable(by_kind.values()), key=lambda each: each.place)]


def are_alike(one: Set[str], other: Set[str], share: float) -> bool:
    """Return whether two sets of words share at least so much of all their words, and anything at all."""
    sizes = len(one), len(other)
    if min(sizes) < share * max(sizes):  # which is told without looking at the words
        return False
    shared = len(one & other)
    return shared > 0 and shared >= share * (sum(sizes) - shared)


def is_question(hit: Hit) -> bool:
    """Return whether the text asks, and an assistant did not."""
    return hit.kind != "assistant" and _ENDS_ASKING.search(hit.content[-80:]) is not None


def statement_of(hit: Hit) -> tuple[str, str, str, str]:
    """Return what two rows have in common that say the same: store, theme, who said it, and the words."""
    text = hit.content
    return (hit.store, hit.theme, hit.kind, text if len(text) >= _LONG_CHARS else " ".join(text.casefold().split()))


class _Statement:
    """A hit, its place in the order, and its words, taken apart once: texts are long and pairs are many.

    Only those of one `kind` may say nearly the same: of one theme, with the same numbers, questions or none.
    """

    def __init__(self, place: int, hit: Hit) -> None:
        self.place = place
        self.hit = hit
        self._in_order = _WORD.findall(hit.content.casefold())
        self._words = frozenset(self._in_order)
        numbers = frozenset(word for word in self._words if not word.isalpha() and any(map(str.isdigit, word)))
        self.kind = hit.theme, numbers, is_question(hit)

    def says_nearly(self, other: _Statement) -> bool:
        """Return whether one of two of a kind can stand for both."""
        if not are_alike(self._words, other._words, _SAME_SHARE):
            return False
        short, long = sorted((self._in_order, other._in_order), key=len)
        rest = iter(long)
        if all(word in rest for word in short):
            return True
        # The same words in another order: who did it to whom, or the way back.
        return self._words != other._words and holds_of_the_same(short[: shared(short, long)])


def holds_of_the_same(before: Sequence[str]) -> bool:
    """Return whether two texts that begin with these words say that something holds, and differ in what."""
    return len(before) >= SUBJECT_LEAST and any(map(HOLDS.fullmatch, before[1:]))


def shared(one: Sequence[str], other: Sequence[str]) -> int:
    """Return how many words both begin with."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))
