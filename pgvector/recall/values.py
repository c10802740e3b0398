"""Tells what statements are about, and which states another value of the same as an older one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import dropwhile, pairwise

from ..domain.patterns import late_pattern
from ..domain.types import Hit
from .ranking import HOLDS, SUBJECT_LEAST, holds_of_the_same, is_question, shared

# A number with its sign and the commas between its digits.
_TOKEN = late_pattern(r"(?:(?<!\w)[-+\u2212](?=\d))?\w+(?:[.:/@-]\w+|(?<=\d),(?=\d)\w+)*")
_VALUE_MOST = 8  # most words of a value, as of a day and its hours
_RUNS_MOST = 3  # most parts of a value, such as a day, a beginning and an end
_TEXT_MAX_CHARS = 400  # a longer text says several things
_NAME_LEAST = 2  # fewest words that name a subject: "we are" begins statements about anything
_SHAPE_LEAST = 3  # fewest words besides the values of texts that say the same of another value
# Words right before a value. After any other word a number is part of a name: "ticket 12", "room 5".
_LEADS = late_pattern(
    "at|on|in|by|to|from|until|till|for|about|around|every|within|after|before|than|the|a|an|port|version|only"
    "|um|am|bis|ab|von|auf|nach|vor|im|alle"
)
_BETWEEN = late_pattern("at|on|to|from|until|till|and|um|am|von|bis|ab|und")  # parts of a value: "Monday at 9 to 10"
_DAYS = late_pattern(
    "(mon|tues|wednes|thurs|fri|satur|sun)days?|mon|tues?|wed|thu|thurs|fri|sat|sun|noon|midnight"
    "|january|february|march|april|may|june|july|august|(sept|nov|dec)ember|october"
    "|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec"
    "|(mon|diens|donners|frei|sams|sonn)tags?|mittwochs?|mittags?|mitternacht"
    "|januar|februar|märz|mai|juni|juli|oktober|dezember"
)
_HAVE = late_pattern("has|have|hat|haben")  # also of the perfect, which tells events
_DONE = late_pattern(
    "\\w{3,}ed|won|lost|met|paid|run|spent|taken|gone|seen|made|done|bought|sold|sent|got|given|left|had|drunk|eaten"
)
_GETAN = late_pattern(
    "(?!geöffnet|geschlossen)(?:\\w*ge\\w{2,}(?:t|en)|(?:be|ver|er|ent|zer)\\w{3,}(?:t|en)|\\w{2,}iert)"
)
_HOURS = late_pattern("am|pm|a|p|m|uhr|o|clock")  # what belongs to a time of day
# What may stand before a name: "our new printer is" and "the printer is" are about the same one.
_DETERMINER = late_pattern(
    "the|my|our|your|his|her|their|new|current|latest|der|die|das|(mein|dein|unser|euer|eure|ihr|sein)(e[rsnm]?)?"
    "|(neu|aktuell)e[rsnm]?"
)
# A sentence or a label ends. The dot of "Mr." does not end one.
_CLAUSE_ENDS = late_pattern(r"(?<=\w{4})[.!?]+\s+|[:;]\s+|\n|\s[-\u2013\u2014]\s")


def replaced_part(older: Hit, newer: Hit) -> str:
    """Return the part of the older text that the newer one replaces, or "" if that is not certain."""
    if older.theme != newer.theme or older.at >= newer.at or is_question(newer):
        return ""
    if max(len(older.content), len(newer.content)) > _TEXT_MAX_CHARS:
        return ""
    words, old = _written_and_folded(older.content)
    return " ".join(words[_other_value(old, _folded_words(newer.content))])


def _other_value(old: list[str], new: list[str]) -> slice:
    """Return where the value stands that alone is another one in the new words, or an empty slice."""
    if len(old) < SUBJECT_LEAST or old[:SUBJECT_LEAST] != new[:SUBJECT_LEAST]:
        return slice(0)
    start = shared(old, new)
    end = min(shared(old[::-1], new[::-1]), min(len(old), len(new)) - start)
    gone, come = old[start : len(old) - end], new[start : len(new) - end]
    before = _without_last_value(old[:start])
    if not (_is_value(gone) and _is_value(come) and _leads_to_a_value(before)):
        return slice(0)
    if _tells_an_event(before, old[len(old) - end :]):
        return slice(0)
    while gone[0].isdigit() and old[start - 1].isdigit():  # a number that is written in groups, as of a telephone
        start -= 1
    return slice(start, len(old) - end)


def values_in(hit: Hit) -> Iterator[object]:
    """Yield a key for each value that may replace another one: a text replaces only those with which it shares a key.

    Hundreds of texts may differ in their numbers alone, so comparing all pairs would take long.
    """
    if len(hit.content) > _TEXT_MAX_CHARS:
        return
    words = _folded_words(hit.content)
    verb = next((place for place, word in enumerate(words[1:], 1) if HOLDS.fullmatch(word)), len(words))
    for start, end in _values(words):
        if verb < start and any(map(_leads, words[start - 1 : end])):
            yield hit.theme, tuple(words[:start]), tuple(words[end:])


@lru_cache(maxsize=1024)
def states_value(text: str) -> bool:
    """Return whether a short text has a number or a day."""
    return len(text) <= _TEXT_MAX_CHARS and any(map(_is_number_or_day, _folded_words(text)))


def about(hit: Hit) -> Iterator[object]:
    """Yield a key for each thing that a statement is about, and for how much of the question it holds.

    There is none where a rerank endpoint has put the hits in order, which stays as it is.
    """
    if by_endpoint(hit) or is_question(hit):
        return
    held = hit.theme, round(hit.coverage, 3)
    if shape := _shape_of(hit.content):
        yield held, shape
    if hit.coverage > 0:  # where no word of the question is in common, nearness alone tells what answers it
        yield from ((held, subject) for subject in _subjects_in(hit.content))


def by_endpoint(hit: Hit) -> bool:
    """Return whether a rerank endpoint has put the hit in its place."""
    return hit.rerank_rank is not None and hit.relevance is None


@lru_cache(maxsize=1024)
def _shape_of(text: str) -> tuple[str, ...]:
    """Return the words of a text with its values left out, the same for texts that differ in these; () without any."""
    if len(text) > _TEXT_MAX_CHARS:
        return ()
    words = _folded_words(text)
    shape = tuple("" if _is_number_or_day(word) else word for word in words)
    named = sum(map(bool, shape))
    return shape if _SHAPE_LEAST <= named < len(shape) else ()


@lru_cache(maxsize=1024)
def _subjects_in(text: str) -> tuple[tuple[str, ...], ...]:
    """Return the subjects of which a text says that something holds, each with the verb: "the door code is"."""
    if len(text) > _TEXT_MAX_CHARS:
        return ()
    clauses = (_folded_words(clause) for clause in _CLAUSE_ENDS.split(text))
    return tuple(subject for words in clauses if (subject := _subject(words)))


def _subject(words: Sequence[str]) -> tuple[str, ...]:
    verb = next((place for place, word in enumerate(words) if HOLDS.fullmatch(word)), 0)
    if verb < _NAME_LEAST or not holds_of_the_same(words[: verb + 1]):
        return ()
    return tuple(dropwhile(_DETERMINER.fullmatch, words[: verb + 1]))


# Cached, as each text is compared with many.
@lru_cache(maxsize=128)
def _written_and_folded(text: str) -> tuple[list[str], list[str]]:
    """Return the words of a text, as written and casefolded."""
    words = _TOKEN.findall(text)
    return words, list(map(str.casefold, words))


@lru_cache(maxsize=128)
def _folded_words(text: str) -> list[str]:
    return _TOKEN.findall(text.casefold())


def _values(words: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield where each value begins and ends: a part, such as a day, or several that belong together."""
    parts = _parts(words)
    for first in range(len(parts)):
        for last in range(first, min(first + _RUNS_MOST, len(parts))):
            if last > first and not _belong_together(words, parts[last - 1], parts[last]):
                break
            yield parts[first][0], parts[last][1]


def _parts(words: Sequence[str]) -> list[tuple[int, int]]:
    """Return where each run of numbers and days begins and ends."""
    told = [bool(_HOURS.fullmatch(word)) or _is_number_or_day(word) for word in [*words, ""]]
    turns = [place for place, (one, other) in enumerate(pairwise([False, *told])) if one != other]
    return list(zip(turns[::2], turns[1::2], strict=True))


def _belong_together(words: Sequence[str], one: tuple[int, int], other: tuple[int, int]) -> bool:
    return other[0] - one[1] == 1 and bool(_BETWEEN.fullmatch(words[one[1]]))


def _without_last_value(before: list[str]) -> list[str]:
    """Return the words before a value, of which a part may be the same in both texts: "3 May" of "3 May 2026"."""
    end = len(before)
    while end and _is_number_or_day(before[end - 1]):
        end -= 1
    return before[:end]


def _leads_to_a_value(before: list[str]) -> bool:
    """Return whether the words before a value say that something holds, and lead up to that value."""
    return holds_of_the_same(before) and _leads(before[-1])


def _tells_an_event(before: list[str], after: list[str]) -> bool:
    """Return whether "has" and the like is part of a perfect: "has paid on", "hat 3 Kilo bestellt"."""
    verb = next(place for place, word in enumerate(before[1:], 1) if HOLDS.fullmatch(word))
    if not _HAVE.fullmatch(before[verb]):
        return False
    return any(map(_DONE.fullmatch, before[verb + 1 :])) or any(map(_GETAN.fullmatch, after[-1:]))


def _leads(word: str) -> bool:
    return bool(_LEADS.fullmatch(word) or HOLDS.fullmatch(word))


def _is_value(words: list[str]) -> bool:
    """Return whether the words are a number, a time, a date, or several of them, and nothing else.

    "8 cores" and "16 GB", or "port 80" and "port 81 in staging", are about two different things.
    """
    told = [word for word in words if not (_HOURS.fullmatch(word) or _BETWEEN.fullmatch(word))]
    return len(told) > 0 and len(words) <= _VALUE_MOST and all(map(_is_number_or_day, told))


def _is_number_or_day(word: str) -> bool:
    return bool(_DAYS.fullmatch(word)) or any(map(str.isdigit, word))
