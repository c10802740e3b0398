"""The final ranking: a small gain for recent rows, and of statements that say the same, only the newest."""

from __future__ import annotations

from collections.abc import Sequence, Set
from datetime import datetime
from itertools import chain, pairwise

from ..domain.patterns import late_pattern
from ..domain.types import Hit
from .asking import asks

StatementKey = tuple[str, str, str, str]  # see statement_of

RECENCY_WEIGHT = 0.05  # share of its score that a hit of this moment gains over one of long ago
HALF_LIFE_DAYS = 30.0  # after which half of that gain is left
_SAME_SHARE = 0.8  # least share of words in common, of all words of two texts that say nearly the same
_LONG_CHARS = 10_000  # from this length on, only identical texts count as the same: reading so many words takes long
# Words of all pairs of statements that are compared, the newest first: 550 rows may be long texts of one template.
_COMPARED_WORDS = 2_500_000
_BEGINNING_MOST = 30  # words that two statements have in common before they differ; longer texts state many things
# Share of the best score of the same text. Neighbours lend up to a quarter of it, a named time adds up to nearly half.
FITS_AS_WELL = 0.6
# A sign is part of a number and makes it a different one; between two words it is a hyphen.
_WORD = late_pattern(r"(?<!\w)[-+\u2212]\d\w*|\w+")
# Verbs of what holds until it is replaced. Without "was" and verbs of single events: two events do not contradict.
HOLDS = late_pattern(
    "is|are|has|have|costs?|takes|runs|lives?|starts?|ends|opens?|closes?|lasts|leaves|uses|needs?|expires?|listens|sits"
    "|stays?|weighs?|must|will|should|ist|sind|hat|haben|kostet|läuft|beginn(?:t|en)|endet|öffne(?:t|n)|schließ(?:t|en)"
    "|brauch(?:t|en)|nutzt|gilt|gelten|dauer(?:t|n)|wieg(?:t|en)|beträgt|betragen|liegt|liegen|steht|lautet"
)
# "It is at 9", "the ticket for that is 12" and "Ben has a match on Friday" may be of another thing the next time.
_PRONOUN = late_pattern("it|that|this|there|he|she|they|es|das|dies|er|sie|da|dort|hier|dafür|davon|dabei|damit")
_INDEFINITE = late_pattern("an?|another|some|ein|eine|einen|einem|einer")
_IS = late_pattern("is|are|ist|sind")  # "the standup is a call at 9" tells of the one standup
SUBJECT_LEAST = 2  # fewest words before a value, verb included: "is 5" and "is 6" have no subject in common


def weighed(score: float, at: datetime, now: datetime) -> float:
    """Return the score of a row that was written at `at`, with the gain for recency."""
    age_days = max(0.0, (now - at).total_seconds() / 86_400)
    fresh: float = 0.5 ** (age_days / HALF_LIFE_DAYS)
    return score * (1 + RECENCY_WEIGHT * fresh)


def settle(hits: Sequence[Hit]) -> dict[StatementKey, Hit]:
    """Return the hits by statement, best first; of the same one only the newest, in the best one's place.

    Those told at the time that the question names come before the others. The best one stays if the newest scores far
    less: then it is not the text that matches but the turns beside it, as for one "Done, that is on your list" among
    many.
    """
    kept: dict[StatementKey, Hit] = {}
    for hit in sorted(hits, key=lambda hit: -hit.score):
        same = statement_of(hit)
        other = kept.get(same)
        if other is None:
            kept[same] = hit
        elif (hit.told_then, hit.at) > (other.told_then, other.at) and hit.score >= FITS_AS_WELL * other.score:
            kept[same] = hit._replace(score=other.score)
    return kept


def newest_of_near_equals(hits: Sequence[Hit]) -> list[Hit]:
    """Return the hits in their order; of near-equals in one theme only the newest, in the first one's place.

    Those told at the time that the question names come before the others.
    Near-equal hits share every number and at least four fifths of all their words; and either one holds all words of
    the other in the same order, or they differ only after a verb which says that something holds. "Ticket 12 is open"
    and "ticket 13 is open" are two facts, and so are statements about two people, or about the way from A to B and that
    from B to A. A question never replaces a statement.
    """
    by_kind: dict[object, list[_Statement]] = {}
    left = _COMPARED_WORDS
    for place, hit in sorted(enumerate(hits), key=lambda each: (each[1].told_then, each[1].at), reverse=True):
        statement = _Statement(place, hit)
        kept = by_kind.setdefault(statement.kind, [])
        newer, left = _newer_one(kept, statement, left)
        if newer is None:
            kept.append(statement)
        else:
            newer.place = min(newer.place, place)
    return [statement.hit for statement in sorted(chain.from_iterable(by_kind.values()), key=lambda each: each.place)]


def _newer_one(kept: Sequence[_Statement], statement: _Statement, words: int) -> tuple[_Statement | None, int]:
    """Return which of `kept` says nearly the same, and how many of the `words` that may be compared are left."""
    for other in kept:
        if words <= 0:
            break
        words -= min(len(statement.in_order), len(other.in_order))
        if other.says_nearly(statement):
            return other, words
    return None, words


def are_alike(one: Set[str], other: Set[str], share: float) -> bool:
    """Return whether two sets of words have at least `share` of all their words in common, and at least one."""
    sizes = len(one), len(other)
    if min(sizes) < share * max(sizes):  # known without looking at the words
        return False
    shared = len(one & other)
    return shared > 0 and shared >= share * (sum(sizes) - shared)


def is_question(hit: Hit) -> bool:
    """Return whether the text asks, or as a message orders a text, and is not an assistant's."""
    return hit.kind != "assistant" and asks(hit.content, of_a_turn=hit.store == "turns" and hit.kind == "user")


def statement_of(hit: Hit) -> StatementKey:
    """Return the key shared by rows that say the same: store, theme, who said it, and the words."""
    text = hit.content
    return (hit.store, hit.theme, hit.kind, text if len(text) >= _LONG_CHARS else " ".join(text.casefold().split()))


class _Statement:
    """A hit, its place in the order, and its words, split only once: texts are long and pairs are many.

    Only those of one `kind` may say nearly the same: of one theme, with the same numbers, all questions or none.
    """

    def __init__(self, place: int, hit: Hit) -> None:
        self.place = place
        self.hit = hit
        text = hit.content
        self.in_order = [text] if len(text) >= _LONG_CHARS else _WORD.findall(text.casefold())
        self._words = frozenset(self.in_order)
        numbers = frozenset(word for word in self._words if not word.isalpha() and any(map(str.isdigit, word)))
        self.kind = hit.theme, numbers, is_question(hit)

    def says_nearly(self, other: _Statement) -> bool:
        """Return whether one of two statements of the same kind can stand for both."""
        if not are_alike(self._words, other._words, _SAME_SHARE):
            return False
        short, long = sorted((self, other), key=lambda each: len(each.in_order))
        if short._words <= long._words:  # known in a moment, unlike their order
            rest = iter(long.in_order)
            if all(word in rest for word in short.in_order):
                return True
        # The same words in another order: who did it to whom, or the way back.
        return self._words != other._words and _differ_in_what_holds(short.in_order, long.in_order)


def _differ_in_what_holds(short: Sequence[str], long: Sequence[str]) -> bool:
    same = shared(short[: _BEGINNING_MOST + 1], long)
    return same <= _BEGINNING_MOST and holds_of_the_same(short[:same])


def holds_of_the_same(before: Sequence[str]) -> bool:
    """Return whether two texts that begin with these words state something of one subject, and differ in what.

    The subject has to be named, so that it is the same one.
    """
    if len(before) < SUBJECT_LEAST or not any(map(HOLDS.fullmatch, before[1:])):
        return False
    # An article at the end is part of what differs: "is a doctor", "is a nurse".
    one_of_several = any(
        HOLDS.fullmatch(verb) and not _IS.fullmatch(verb) and _INDEFINITE.fullmatch(word)
        for verb, word in pairwise(before[:-1])
    )
    unnamed = any(_PRONOUN.fullmatch(word) and HOLDS.fullmatch(verb) for word, verb in pairwise(before))
    return not (one_of_several or unnamed or _INDEFINITE.fullmatch(before[0]))


def shared(one: Sequence[str], other: Sequence[str]) -> int:
    """Return how many words both have in common at the beginning."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))
