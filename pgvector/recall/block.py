"""Makes lines from hits: one for each exchange, answers before questions, a newer statement instead of an older one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from itertools import chain, groupby

from ..domain.types import Hit
from .ranking import (
    HOLDS,
    SUBJECT_LEAST,
    are_alike,
    holds_of_the_same,
    is_question,
    newest_of_near_equals,
    shared,
)

_ASKED_ALIKE = 0.6  # least share of words in common, of all words but numbers, of two questions that ask the same
_WORD = re.compile(r"\w+")
# A number with its sign and the commas between its digits.
_TOKEN = re.compile(r"(?:(?<!\w)[-+\u2212](?=\d))?\w+(?:[.:/@-]\w+|(?<=\d),(?=\d)\w+)*")
_VALUE_MOST = 4  # most words of a value, as of a date
_TEXT_MAX_CHARS = 400  # a longer text says several things
# Words right before a value. After any other word a number is part of a name: "ticket 12", "room 5".
_LEADS = re.compile(
    "at|on|in|by|to|from|until|till|for|about|around|every|within|after|before|than|the|a|an|port|version|only"
    "|um|am|bis|ab|von|auf|nach|vor|im|alle"
)
_DAYS = re.compile(
    "(mon|tues|wednes|thurs|fri|satur|sun)day|january|february|march|april|may|june|july|august|(sept|nov|dec)ember|october"
    "|montag|dienstag|mittwoch|donnerstag|freitag|samstag|sonntag"
    "|januar|februar|märz|mai|juni|juli|oktober|dezember"
)
_HAVE = re.compile("has|have|hat|haben")  # also of the perfect, which tells events
_DONE = re.compile(
    "\\w{3,}ed|won|lost|met|paid|run|spent|taken|gone|seen|made|done|bought|sold|sent|got|given|left|had|drunk|eaten"
)
_GETAN = re.compile(
    "(?!geöffnet|geschlossen)(?:\\w*ge\\w{2,}(?:t|en)|(?:be|ver|er|ent|zer)\\w{3,}(?:t|en)|\\w{2,}iert)"
)
_HOURS = re.compile("am|pm|a|p|m|uhr|o|clock")  # what belongs to a time of day


@dataclass(frozen=True, slots=True)
class Line:
    """A hit that is quoted (`told`), and the other half of its exchange in brief where that is needed (`beside`).

    `replaced`: the part of an older text that no longer holds, and when that was said. `repeats`: its question is like
    that of an earlier line.
    """

    told: Hit
    beside: Hit | None = None
    replaced: tuple[str, datetime] | None = None
    repeats: bool = False

    @property
    def question(self) -> Hit | None:
        """Return the question of the exchange, if there is one."""
        return next((hit for hit in (self.told, self.beside) if hit is not None and is_question(hit)), None)

    @property
    def statement(self) -> str:
        """Return the text that identifies the line: an answer such as "Yes." says something only with its question."""
        if self.beside is None or self.told.kind != "assistant":
            return self.told.content
        return f"{self.beside.content}\n{self.told.content}"


def lines_of(hits: Sequence[Hit]) -> list[Line]:
    """Return the lines made from `hits` in their order, except that some come last.

    These are the exchanges of which only the question was found, and behind them those whose question was asked before.
    """
    exchanges = sorted(exchanges_in(hits), key=lambda found: all(map(is_question, found)))
    return _folded(_newest(_current(list(map(_line, exchanges)))))


def exchanges_in(hits: Sequence[Hit]) -> list[list[Hit]]:
    """Return the hits grouped by exchange, in the order of each group's first; other hits are groups of their own."""
    rows = {(hit.store, hit.id): hit for hit in hits}
    # An answer that came without its question beside it, as at the end of a session, may be in the question's `around`.
    asked_by = {(hit.store, other.id): hit.id for hit in rows.values() if (other := _answer_to(hit)) is not None}
    exchanges: dict[tuple[str, int], list[Hit]] = {}
    for row, hit in rows.items():
        exchanges.setdefault((hit.store, asked_by.get(row, _first_of_exchange(hit))), []).append(hit)
    return list(exchanges.values())


def ask_alike(one: str, other: str) -> bool:
    """Return whether two questions are the same except for numbers and a few words."""
    return are_alike(_words(one), _words(other), _ASKED_ALIKE)


def _answer_to(hit: Hit) -> Hit | None:
    return other_half(hit) if hit.kind == "user" else None


def _first_of_exchange(hit: Hit) -> int:
    """Return the id of the first half of the hit's exchange, which identifies the exchange for both halves."""
    asked = other_half(hit) if hit.kind == "assistant" else None
    return hit.id if asked is None else asked.id


def other_half(hit: Hit) -> Hit | None:
    """Return the answer to a user's message, or the message that an assistant's turn answers."""
    wanted = {"user": "assistant", "assistant": "user"}.get(hit.kind) if hit.store == "turns" else None
    for turn in hit.around:
        if turn.kind == wanted and ((turn.at, turn.id) > (hit.at, hit.id)) == (hit.kind == "user"):
            return turn
    return None


def _line(found: Sequence[Hit]) -> Line:
    """Return the line of an exchange: the answer if the best hit is a question, else the best hit."""
    first = found[0]
    other = found[1] if len(found) > 1 else other_half(first)
    if other is None:
        return Line(first, replaced=_predecessor(first))
    if is_question(first):
        return Line(other, first)
    # An answer is not understood without what it answers; a statement is understood without the reply.
    return Line(first, other if len(found) > 1 or first.kind == "assistant" else None)


def _predecessor(hit: Hit) -> tuple[str, datetime] | None:
    """Return the text that a memory replaced, and when that was said."""
    before = (hit.structure or {}).get("replaced")
    return None if before is None else (before["content"], datetime.fromisoformat(before["said_at"]))


def _newest(lines: Sequence[Line]) -> list[Line]:
    """Return the lines without those that say nearly what a newer one says."""
    by_row = {(line.told.store, line.told.id): line for line in lines}
    said = [replace(line.told, content=line.statement) for line in lines]
    return [by_row[hit.store, hit.id] for hit in newest_of_near_equals(said)]


def _current(lines: Sequence[Line]) -> list[Line]:
    """Return the lines; of two that contradict each other only the newer one, in the place of the first."""
    kept: list[Line] = []
    places: dict[object, dict[str, int]] = {}
    for line in lines:
        alike = [places.setdefault(key, {}) for key in _values_in(line.told)]
        for place in sorted(set(chain.from_iterable(each.values() for each in alike))):
            other = kept[place]
            newer, older = (line, other) if line.told.at > other.told.at else (other, line)
            part = replaced_part(older.told, newer.told)
            if part:
                kept[place] = replace(newer, replaced=(part, older.told.at))
                break
        else:
            for each in alike:
                each.setdefault(line.told.content, len(kept))
            kept.append(line)
    return kept


def _folded(lines: Sequence[Line]) -> list[Line]:
    """Return the lines; where an earlier question is alike, move an answer to the end and drop a question."""
    first: list[Line] = []
    repeated: list[Line] = []
    asked: list[frozenset[str]] = []
    for line in lines:
        words = _words(line.question.content) if line.question is not None else frozenset()
        if not any(are_alike(words, other, _ASKED_ALIKE) for other in asked):
            first.append(line)
            if words:
                asked.append(words)
        elif line.told is not line.question:
            repeated.append(replace(line, repeats=True))
    return first + repeated


def _words(question: str) -> frozenset[str]:
    """Return the words that distinguish a question from another: all without digits."""
    return frozenset(word for word in _WORD.findall(question.casefold()) if not any(map(str.isdigit, word)))


# -- statements that replace an older one: the same words, and another value after the verb


def replaced_part(older: Hit, newer: Hit) -> str:
    """Return the part of the older text that the newer one replaces, or "" if that is not certain."""
    if older.theme != newer.theme or older.at >= newer.at or is_question(newer):
        return ""
    if max(len(older.content), len(newer.content)) > _TEXT_MAX_CHARS:
        return ""
    (words, old), new = _older_words(older.content), _newer_words(newer.content)
    if len(old) < SUBJECT_LEAST or old[:SUBJECT_LEAST] != new[:SUBJECT_LEAST]:
        return ""
    start = shared(old, new)
    end = min(shared(old[::-1], new[::-1]), min(len(old), len(new)) - start)
    before, gone, come = old[:start], old[start : len(old) - end], new[start : len(new) - end]
    if not (_is_value(gone) and _is_value(come) and _leads_to_a_value(before)):
        return ""
    if _tells_an_event(before, old[len(old) - end :]):
        return ""
    return " ".join(words[start : len(old) - end])


# Cached, as each text is compared with many.
@lru_cache(maxsize=128)
def _older_words(text: str) -> tuple[list[str], list[str]]:
    """Return the words of a text, as written and casefolded."""
    words = _TOKEN.findall(text)
    return words, list(map(str.casefold, words))


@lru_cache(maxsize=128)
def _newer_words(text: str) -> list[str]:
    return _TOKEN.findall(text.casefold())


def _values_in(hit: Hit) -> Iterator[object]:
    """Yield a key for each value that may replace another one: a text replaces only those with which it shares a key.

    Hundreds of texts may differ in their numbers alone, so comparing all pairs would take long.
    """
    if len(hit.content) > _TEXT_MAX_CHARS:
        return
    words = _newer_words(hit.content)
    verb = next((place for place, word in enumerate(words[1:], 1) if HOLDS.fullmatch(word)), len(words))
    start = 0
    for may_be_value, run in groupby(words, key=lambda word: bool(_HOURS.fullmatch(word)) or _is_number_or_day(word)):
        end = start + len(list(run))
        if may_be_value and verb < start and any(map(_leads, words[start - 1 : end])):
            yield hit.theme, tuple(words[:start]), tuple(words[end:])
        start = end


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
    """Return whether the words are a number, a time or a date, and nothing else.

    "8 cores" and "16 GB", or "port 80" and "port 81 in staging", are about two different things.
    """
    told = [word for word in words if not _HOURS.fullmatch(word)]
    return len(told) > 0 and len(words) <= _VALUE_MOST and all(map(_is_number_or_day, told))


def _is_number_or_day(word: str) -> bool:
    return bool(_DAYS.fullmatch(word)) or any(map(str.isdigit, word))
