"""Recognises a statement that replaces an older one: the same words, and another value behind the verb."""

from __future__ import annotations

import re

from ..domain.types import Hit

_TOKEN = re.compile(r"\w+(?:[.:/@-]\w+)*", re.UNICODE)
_VALUE_MOST = 4  # words; a longer part is another thought
_SUBJECT_LEAST = 2  # words before the verb or with it, without which "is 5" and "is 6" speak of nothing in common
_TEXT_MAX_CHARS = 400  # a longer text says several things
# What holds until something else does. Without "was", and verbs of what happens once: two events are no contradiction.
_HOLDS = re.compile(
    "is|are|has|have|costs|takes|runs|lives|starts|ends|opens|closes|leaves|uses|needs|expires|listens|sits|stays|must|will"
    "|should|ist|sind|hat|haben|kostet|läuft|beginnt|endet|öffnet|schließt|braucht|nutzt|gilt"
)
# What stands right before a value. After any other word a number is part of a name: "ticket 12", "room 5".
_LEADS = re.compile(
    "at|on|in|by|to|from|until|till|for|about|around|every|within|after|before|than|the|a|an|port|version|only"
    "|um|am|bis|ab|von|auf|nach|vor|im|alle"
)
_DAYS = re.compile(
    "(mon|tues|wednes|thurs|fri|satur|sun)day|january|february|march|april|may|june|july|august|(sept|nov|dec)ember|october"
    "|montag|dienstag|mittwoch|donnerstag|freitag|samstag|sonntag"
)


def replaced_part(older: Hit, newer: Hit) -> str:
    """Return what of the older text no longer holds since the newer one; "" where that is not sure."""
    if older.theme != newer.theme or older.at >= newer.at:
        return ""
    if max(len(older.content), len(newer.content)) > _TEXT_MAX_CHARS:
        return ""
    words = _TOKEN.findall(older.content)
    old, new = list(map(str.casefold, words)), _TOKEN.findall(newer.content.casefold())
    start = _shared(old, new)
    end = min(_shared(old[::-1], new[::-1]), min(len(old), len(new)) - start)
    before, gone, come = old[:start], old[start : len(old) - end], new[start : len(new) - end]
    if not (_is_value(gone) and _is_value(come) and _leads_to_a_value(before)):
        return ""
    return " ".join(words[start : len(old) - end])


def _leads_to_a_value(before: list[str]) -> bool:
    """Return whether something is said to be so, up to the words before what it is said to be."""
    if len(before) < _SUBJECT_LEAST or not any(map(_HOLDS.fullmatch, before[1:])):
        return False
    return bool(_LEADS.fullmatch(before[-1]) or _HOLDS.fullmatch(before[-1]))


def _is_value(words: list[str]) -> bool:
    """Return whether the words are a number, a time or a date."""
    short = 0 < len(words) <= _VALUE_MOST
    return short and any(_DAYS.fullmatch(word) or any(map(str.isdigit, word)) for word in words)


def _shared(one: list[str], other: list[str]) -> int:
    """Return how many words both begin with."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))
